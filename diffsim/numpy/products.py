"""Products of vectors, matrices and tensors."""

from __future__ import annotations

import math
import operator
import string
from collections.abc import Iterator
from typing import Any

import numpy as np

from diffsim.ad.arrays.array import Array, wrap
from diffsim.ad.arrays.views import DiagonalView
from diffsim.ad.core import Tracer, is_plain, laid_out, require_derivative
from diffsim.ad.ops import matrix as mx
from diffsim.ad.ops import structure as st
from diffsim.ad.ops.layout import axes_in_memory, snapshot
from diffsim.base.messages import shown
from diffsim.numpy.calling.dispatch import as_array, as_number, axes_of, in_order, in_rows, outside, plain, value_of
from diffsim.numpy.elementwise import conj, multiply
from diffsim.numpy.reductions import sum
from diffsim.numpy.shapes.creation import asarray
from diffsim.numpy.shapes.joining import stack
from diffsim.numpy.shapes.shaping import moveaxis, ravel, reshape


@outside(np)
def matmul(x1: Any, x2: Any, out: Any = None) -> Any:
    """Products of matrices, broadcast over leading axes; a vector counts as a row on the left and a column on the right."""
    product = _matmul(x1, x2)
    if out is None:
        return product
    (out,) = out if isinstance(out, tuple) else (out,)
    if out.shape != np.shape(plain(product)):
        raise ValueError(f"out of matmul has the shape {out.shape}, expected {np.shape(plain(product))}")
    out[...] = product
    return out


def _matmul(x1: Any, x2: Any) -> Any:
    x, y = value_of(x1), value_of(x2)
    if is_plain(x, y):
        return wrap(np.matmul(x, y))
    if not x.ndim or not y.ndim:
        raise ValueError("matmul of a number; use * instead")
    left = st.reshape(x, shape=(1, *x.shape)) if x.ndim == 1 else x
    right = st.reshape(y, shape=(*y.shape, 1)) if y.ndim == 1 else y
    out = mx.matmul(left, right)
    shape = out.shape[:-2] + (() if x.ndim == 1 else out.shape[-2:-1]) + (() if y.ndim == 1 else out.shape[-1:])
    return wrap(st.reshape(out, shape=shape) if shape != out.shape else out)


@outside(np)
def dot(a: Any, b: Any) -> Any:
    """Sum over the last axis of `a` and the last but one of `b`; a product for numbers."""
    x, y = value_of(a), value_of(b)
    if not x.ndim or not y.ndim:
        return in_rows(multiply(a, b)) if max(x.ndim, y.ndim) in (1, 2) else multiply(a, b)
    if x.ndim <= 2 and y.ndim <= 2:
        return matmul(a, b)
    return tensordot(a, b, ([x.ndim - 1], [max(y.ndim - 2, 0)]))


@outside(np)
def inner(a: Any, b: Any) -> Any:
    """Sum over the last axes."""
    x, y = value_of(a), value_of(b)
    if min(x.ndim, y.ndim) == 0 or max(x.ndim, y.ndim) == 1:
        return dot(a, b)
    return tensordot(a, b, ([x.ndim - 1], [y.ndim - 1]))


@outside(np)
def outer(a: Any, b: Any) -> Any:
    """Products of all pairs of entries."""
    return multiply(reshape(a, (-1, 1)), reshape(b, (1, -1)))


@outside(np)
def vdot(a: Any, b: Any) -> Any:
    """Sum of products of all entries, those of `a` conjugated."""
    return matmul(ravel(conj(a)), ravel(b))


@outside(np)
def vecdot(x1: Any, x2: Any, *, axis: int = -1) -> Any:
    """Sum of products along an axis, the entries of `x1` conjugated."""
    return sum(multiply(conj(moveaxis(x1, axis, -1)), moveaxis(x2, axis, -1)), axis=-1)


@outside(np)
def tensordot(a: Any, b: Any, axes: Any = 2) -> Any:
    """Sum over pairs of axes."""
    x, y = value_of(a), value_of(b)
    if isinstance(axes, (int, np.integer)):
        first, second = tuple(range(x.ndim - axes, x.ndim)), tuple(range(axes))
    else:
        first, second = (axes_of(part, v.ndim) for part, v in zip(axes, (x, y), strict=True))
    if [x.shape[k] for k in first] != [y.shape[k] for k in second]:
        raise ValueError(f"shapes {x.shape} and {y.shape} do not match along axes {first} and {second}")
    left = tuple(k for k in range(x.ndim) if k not in first)
    right = tuple(k for k in range(y.ndim) if k not in second)
    count = math.prod(x.shape[k] for k in first)
    rows, columns = [x.shape[k] for k in left], [y.shape[k] for k in right]
    p = st.reshape(st.transpose(x, axes=(*left, *first)), shape=(math.prod(rows), count))
    q = st.reshape(st.transpose(y, axes=(*second, *right)), shape=(count, math.prod(columns)))
    return as_array(st.reshape(mx.matmul(p, q), shape=(*rows, *columns)))


@outside(np)
def kron(a: Any, b: Any) -> Any:
    """Kronecker product."""
    x, y = value_of(a), value_of(b)
    rank = max(x.ndim, y.ndim)
    if not rank:
        return multiply(a, b)
    n = (1,) * (rank - x.ndim) + x.shape
    m = (1,) * (rank - y.ndim) + y.shape
    spread = st.reshape(x, shape=tuple(k for length in n for k in (length, 1)))
    other = st.reshape(y, shape=tuple(k for length in m for k in (1, length)))
    return reshape(multiply(wrap(spread), wrap(other)), tuple(i * j for i, j in zip(n, m, strict=True)))


@outside(np)
def cross(a: Any, b: Any, axisa: int = -1, axisb: int = -1, axisc: int = -1, axis: int | None = None) -> Any:
    """Cross product of vectors in space (or, of vectors in the plane, its only component)."""
    axisa, axisb, axisc = (axisa, axisb, axisc) if axis is None else (axis, axis, axis)
    a, b = moveaxis(a, axisa, -1), moveaxis(b, axisb, -1)
    if a.shape[-1] == b.shape[-1] == 2:
        return as_array(in_rows(a[..., 0] * b[..., 1] - a[..., 1] * b[..., 0]))
    if a.shape[-1] != 3 or b.shape[-1] != 3:
        raise ValueError(f"cross product of vectors with {a.shape[-1]} and {b.shape[-1]} components, expected 3 and 3")
    parts = [a[..., (k + 1) % 3] * b[..., (k + 2) % 3] - a[..., (k + 2) % 3] * b[..., (k + 1) % 3] for k in range(3)]
    return moveaxis(in_rows(stack(parts, -1)), -1, axisc)


# einsum


@outside(np, alone=True)
def einsum(subscripts: Any, *operands: Any, optimize: Any = False) -> Any:
    """Sums of products by Einstein's convention, with `...`, repeated letters and an implicit result, as in NumPy.

    A result that only moves the entries of one operand is a view of it, which can be assigned to. Axes may be named by numbers as well:
    `einsum(a, [0, 1], b, [1, 2], [0, 2])`.
    """
    if not isinstance(subscripts, str):
        subscripts, operands = _lettered((subscripts, *operands))
    require_derivative("einsum")
    operands = tuple(asarray(x) if isinstance(x, np.ndarray) else x for x in operands)
    values = [value_of(x) for x in operands]
    inputs, output = _letters(subscripts.replace(" ", ""), [v.ndim for v in values])
    lengths: dict[str, int] = {}
    for letters, value in zip(inputs, values, strict=True):
        for letter, n in zip(letters, value.shape, strict=True):
            length = lengths.setdefault(letter, n)
            if n != length and 1 not in (n, length):
                raise ValueError(f"the letter {letter} of einsum {shown(subscripts)} stands for axes of {length} and of {n} entries")
            lengths[letter] = max(length, n)
    if len(operands) == 1 and isinstance(operands[0], Array) and set(inputs[0]) == set(output):
        return _moved(operands[0], inputs[0], output)
    terms = []
    for letters, value in zip(inputs, values, strict=True):
        terms.append(_distinct(letters, value, lengths))
    for pair in _plan(terms, output, optimize):
        chosen = [terms[i] for i in pair]
        terms = [t for i, t in enumerate(terms) if i not in pair]
        later = set(output).union(*(t for t, _ in terms))
        product = chosen[0]
        for k, other in enumerate(chosen[1:], 2):
            product = _pair(product, other, later.union(*(t for t, _ in chosen[k:])))
        terms.append(product)
    letters, value = _summed(*terms[0], set(output))
    missing = [x for x in output if x not in letters]
    if missing:
        raise ValueError(f"the result of einsum {shown(subscripts)} names {''.join(missing)}, which no operand has")
    value = st.transpose(value, axes=tuple(letters.index(x) for x in output))
    if not value.ndim and not optimize:
        return wrap(as_number(value))
    small = _of_short_axes(",".join(inputs) + "->" + output, values, optimize)
    if not value.ndim:  # with a plan, versions of NumPy differ in whether the result is a number or an array without axes
        return wrap(value if isinstance(small, np.ndarray) else as_number(value))
    return in_order(value, axes_in_memory(small))


def _lettered(given: tuple[Any, ...]) -> tuple[str, tuple[Any, ...]]:
    """Operands, each followed by the numbers of its axes, as letters (in the order of the numbers) and operands."""
    lists = [[x if x is Ellipsis else operator.index(x) for x in axes] for axes in (*given[1::2], *(given[-1:] if len(given) % 2 else ()))]
    numbers = sorted({x for axes in lists for x in axes if x is not Ellipsis})
    if len(given) < 2 or len(numbers) > len(string.ascii_lowercase):
        raise TypeError("einsum takes a text, as in 'ij,jk->ik', or operands each followed by a list of up to 26 different axes")
    words = ["".join("..." if x is Ellipsis else string.ascii_lowercase[numbers.index(x)] for x in axes) for axes in lists]
    count = len(given) // 2
    return ",".join(words[:count]) + "".join(f"->{word}" for word in words[count:]), given[: 2 * count : 2]


def _moved(x: Array, letters: str, output: str) -> Any:
    """The view of an array along diagonals (letters that are there twice), with the axes in the order of `output`."""
    for order, left in _diagonals(letters):
        x, letters = x.transpose(order).linked(DiagonalView()), left
    return x.transpose([letters.index(c) for c in output]) if output else x[()]


def _diagonals(letters: str) -> Iterator[tuple[list[int], str]]:
    """For each diagonal along two axes of one letter: an order of axes with these last, and the letters where the diagonal is the last."""
    for letter in sorted(set(letters)):
        while letters.count(letter) > 1:
            i = letters.index(letter)
            j = letters.index(letter, i + 1)
            order = [k for k in range(len(letters)) if k not in (i, j)] + [i, j]
            letters = "".join(letters[k] for k in order[:-2]) + letter
            yield order, letters


def _of_short_axes(subscripts: str, values: list[Any], optimize: Any) -> Any:
    """NumPy's result for short axes: it has the kind, and the order of the axes in memory, of that for longer ones."""
    small = [snapshot(laid_out(v)[tuple(slice(0, 2) for _ in v.shape)]) for v in values]
    with np.errstate(all="ignore"):
        return np.einsum(subscripts, *small, optimize=optimize)


def _plan(terms: list[tuple[str, Any]], output: str, optimize: Any) -> Any:
    """Which operands are multiplied next, again and again."""
    if len(terms) < 3:
        return [range(len(terms))]
    shapes = [np.broadcast_to(0.0, v.shape) for _, v in terms]
    return np.einsum_path(",".join(t for t, _ in terms) + "->" + output, *shapes, optimize=optimize or "greedy")[0][1:]


def _letters(subscripts: str, ranks: list[int]) -> tuple[list[str], str]:
    """Letters of each operand and of the result, `...` written out in capitals that are not in use."""
    left, arrow, right = subscripts.partition("->")
    inputs = left.split(",")
    if len(inputs) != len(ranks):
        raise ValueError(f"einsum {shown(subscripts)} names {len(inputs)} operands, got {len(ranks)}")
    spare = [c for c in "ABCDEFGHIJKLMNOPQRSTUVWXYZ" if c not in subscripts]
    widest = max((rank - len(s.replace("...", "")) for s, rank in zip(inputs, ranks, strict=True) if "..." in s), default=0)
    extra = "".join(spare[:widest])
    for k, (s, rank) in enumerate(zip(inputs, ranks, strict=True)):
        count = rank - len(s.replace("...", ""))
        if count < 0 or (count and "..." not in s):
            raise ValueError(f"operand {k} of einsum {shown(subscripts)} has {rank} axes, but the letters {shown(s)}")
        inputs[k] = s.replace("...", extra[widest - count :])
    if arrow:
        return inputs, right.replace("...", extra)
    joined = "".join(inputs)
    return inputs, extra + "".join(sorted(c for c in set(joined) if joined.count(c) == 1 and c not in extra))


def _distinct(letters: str, value: Any, lengths: dict[str, int]) -> tuple[str, Any]:
    """An operand with each letter once, without axes that are only broadcast."""
    for order, left in _diagonals(letters):
        value, letters = st.transpose(value, axes=tuple(order)), left
        places = np.arange(value.shape[-1])
        value = st.getitem(value, index=(Ellipsis, places, places))
    thin = [k for k, c in enumerate(letters) if value.shape[k] == 1 and lengths[c] != 1]
    if thin:
        value = st.reshape(value, shape=tuple(n for k, n in enumerate(value.shape) if k not in thin))
        letters = "".join(c for k, c in enumerate(letters) if k not in thin)
    return letters, value


def _summed(letters: str, value: Any, needed: set[str]) -> tuple[str, Any]:
    """An operand summed over letters that nothing else has."""
    axes = tuple(k for k, c in enumerate(letters) if c not in needed)
    if not axes:
        return letters, value
    total = st.add_up(value, axis=axes, keepdims=False)
    return "".join(c for c in letters if c in needed), total if total.dtype == value.dtype else st.astype(total, dtype=value.dtype)


def _pair(first: tuple[str, Any], second: tuple[str, Any], needed: set[str]) -> tuple[str, Any]:
    a, x = _summed(*first, needed | set(second[0]))
    b, y = _summed(*second, needed | set(a))
    out = "".join(c for c in dict.fromkeys(a + b) if c in needed)
    if not isinstance(x, Tracer) and not isinstance(y, Tracer):
        return out, np.einsum(f"{a},{b}->{out}", x, y, optimize=True)
    return out, mx.contract(x, y, x_axes=a, y_axes=b, out_axes=out)
