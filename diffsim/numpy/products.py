"""Products of vectors, matrices and tensors."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from diffsim.ad.array import core, wrap
from diffsim.ad.core import Tracer, is_plain
from diffsim.ad.ops import matrix as mx
from diffsim.ad.ops import structure as st
from diffsim.numpy.elementwise import conj, multiply
from diffsim.numpy.shaping import moveaxis, ravel, reshape


def _value(x: Any) -> Any:
    value = core(x)
    return value if hasattr(value, "dtype") else np.asarray(value)


def matmul(a: Any, b: Any) -> Any:
    """Products of matrices, broadcast over leading axes; a vector counts as a row on the left and a column on the right."""
    x, y = _value(a), _value(b)
    if is_plain(x, y):
        return wrap(np.matmul(x, y))
    if not x.ndim or not y.ndim:
        raise ValueError("matmul of a number; use * instead")
    left = st.reshape(x, shape=(1, *x.shape)) if x.ndim == 1 else x
    right = st.reshape(y, shape=(*y.shape, 1)) if y.ndim == 1 else y
    out = mx.matmul(left, right)
    shape = out.shape[:-2] + (() if x.ndim == 1 else out.shape[-2:-1]) + (() if y.ndim == 1 else out.shape[-1:])
    return wrap(st.reshape(out, shape=shape) if shape != out.shape else out)


def dot(a: Any, b: Any) -> Any:
    """Sum over the last axis of `a` and the last but one of `b`; a product for numbers."""
    x, y = _value(a), _value(b)
    if not x.ndim or not y.ndim:
        return multiply(a, b)
    if x.ndim <= 2 and y.ndim <= 2:
        return matmul(a, b)
    return tensordot(a, b, ([x.ndim - 1], [max(y.ndim - 2, 0)]))


def inner(a: Any, b: Any) -> Any:
    """Sum over the last axes."""
    x, y = _value(a), _value(b)
    return tensordot(a, b, ([x.ndim - 1], [y.ndim - 1])) if x.ndim and y.ndim else multiply(a, b)


def outer(a: Any, b: Any) -> Any:
    """Products of all pairs of entries."""
    return multiply(reshape(a, (-1, 1)), reshape(b, (1, -1)))


def vdot(a: Any, b: Any) -> Any:
    """Sum of products of all entries, those of `a` conjugated."""
    return matmul(ravel(conj(a)), ravel(b))


def vecdot(a: Any, b: Any, axis: int = -1) -> Any:
    """Sum of products along an axis, the entries of `a` conjugated."""
    from diffsim.numpy.reductions import sum

    return sum(multiply(conj(a), b), axis=axis)


def tensordot(a: Any, b: Any, axes: Any = 2) -> Any:
    """Sum over pairs of axes."""
    x, y = _value(a), _value(b)
    if isinstance(axes, (int, np.integer)):
        first, second = list(range(x.ndim - axes, x.ndim)), list(range(axes))
    else:
        first, second = ([int(i) for i in np.atleast_1d(part)] for part in axes)
    first, second = [i % x.ndim for i in first], [i % y.ndim for i in second]
    if [x.shape[i] for i in first] != [y.shape[i] for i in second]:
        raise ValueError(f"shapes {x.shape} and {y.shape} do not match along axes {first} and {second}")
    left = [i for i in range(x.ndim) if i not in first]
    right = [i for i in range(y.ndim) if i not in second]
    count = math.prod(x.shape[i] for i in first)
    rows, columns = [x.shape[i] for i in left], [y.shape[i] for i in right]
    p = st.reshape(st.transpose(x, axes=(*left, *first)), shape=(math.prod(rows), count))
    q = st.reshape(st.transpose(y, axes=(*second, *right)), shape=(count, math.prod(columns)))
    return wrap(st.reshape(mx.matmul(p, q), shape=(*rows, *columns)))


def kron(a: Any, b: Any) -> Any:
    """Kronecker product."""
    x, y = _value(a), _value(b)
    rank = max(x.ndim, y.ndim)
    n = (1,) * (rank - x.ndim) + x.shape
    m = (1,) * (rank - y.ndim) + y.shape
    spread = st.reshape(x, shape=tuple(k for length in n for k in (length, 1)))
    other = st.reshape(y, shape=tuple(k for length in m for k in (1, length)))
    product = core(multiply(wrap(spread), wrap(other)))
    return wrap(st.reshape(product, shape=tuple(i * j for i, j in zip(n, m, strict=True))))


def cross(a: Any, b: Any, axis: int = -1) -> Any:
    """Cross product of vectors in space (or, of vectors in the plane, its only component)."""
    from diffsim.numpy.shaping import stack

    a, b = moveaxis(a, axis, -1), moveaxis(b, axis, -1)
    if a.shape[-1] == b.shape[-1] == 2:
        return a[..., 0] * b[..., 1] - a[..., 1] * b[..., 0]
    if a.shape[-1] != 3 or b.shape[-1] != 3:
        raise ValueError(f"cross product of vectors with {a.shape[-1]} and {b.shape[-1]} components, expected 3 and 3")
    parts = [a[..., (i + 1) % 3] * b[..., (i + 2) % 3] - a[..., (i + 2) % 3] * b[..., (i + 1) % 3] for i in range(3)]
    return moveaxis(stack(parts, -1), -1, axis)


# einsum


def einsum(subscripts: str, *operands: Any, optimize: Any = True) -> Any:
    """Sums of products by Einstein's convention, with `...`, repeated letters and an implicit result, as in NumPy."""
    values = [_value(x) for x in operands]
    if is_plain(*values):
        return wrap(np.einsum(subscripts, *values, optimize=optimize))
    inputs, output = _letters(subscripts.replace(" ", ""), [v.ndim for v in values])
    terms = []
    lengths: dict[str, int] = {}
    for letters, value in zip(inputs, values, strict=True):
        for letter, n in zip(letters, value.shape, strict=True):
            lengths[letter] = max(lengths.get(letter, 1), n)
    for letters, value in zip(inputs, values, strict=True):
        terms.append(_distinct(letters, value, lengths))
    shapes = [np.broadcast_to(0.0, v.shape) for _, v in terms]
    plan = np.einsum_path(",".join(t for t, _ in terms) + "->" + output, *shapes, optimize=optimize)[0][1:]
    for pair in plan:
        chosen = [terms[i] for i in pair]
        terms = [t for i, t in enumerate(terms) if i not in pair]
        later = set(output).union(*(t for t, _ in terms))
        found = chosen[0]
        for k, other in enumerate(chosen[1:], 2):
            found = _pair(found, other, later.union(*(t for t, _ in chosen[k:])))
        terms.append(found)
    letters, value = _summed(*terms[0], set(output))
    missing = [x for x in output if x not in letters]
    if missing:
        raise ValueError(f"the result of einsum {subscripts!r} names {''.join(missing)}, which no operand has")
    return wrap(st.transpose(value, axes=tuple(letters.index(x) for x in output)))


def _letters(subscripts: str, ranks: list[int]) -> tuple[list[str], str]:
    """Letters of each operand and of the result, `...` written out in capitals that are not in use."""
    left, arrow, right = subscripts.partition("->")
    inputs = left.split(",")
    if len(inputs) != len(ranks):
        raise ValueError(f"einsum {subscripts!r} names {len(inputs)} operands, got {len(ranks)}")
    spare = [c for c in "ABCDEFGHIJKLMNOPQRSTUVWXYZ" if c not in subscripts]
    widest = max((rank - len(s.replace("...", "")) for s, rank in zip(inputs, ranks, strict=True) if "..." in s), default=0)
    extra = "".join(spare[:widest])
    for k, (s, rank) in enumerate(zip(inputs, ranks, strict=True)):
        count = rank - len(s.replace("...", ""))
        if count < 0 or (count and "..." not in s):
            raise ValueError(f"operand {k} of einsum {subscripts!r} has {rank} axes, but the letters {s!r}")
        inputs[k] = s.replace("...", extra[widest - count :])
    if arrow:
        return inputs, right.replace("...", extra)
    joined = "".join(inputs)
    return inputs, extra + "".join(sorted(c for c in set(joined) if joined.count(c) == 1 and c not in extra))


def _distinct(letters: str, value: Any, lengths: dict[str, int]) -> tuple[str, Any]:
    """An operand with each letter once, without axes that are only broadcast."""
    for letter in sorted(set(letters)):
        while letters.count(letter) > 1:
            i = letters.index(letter)
            j = letters.index(letter, i + 1)
            order = [k for k in range(len(letters)) if k not in (i, j)] + [i, j]
            value = st.transpose(value, axes=tuple(order))
            places = np.arange(value.shape[-1])
            value = st.getitem(value, index=(Ellipsis, places, places))
            letters = "".join(letters[k] for k in order[:-2]) + letter
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
    return "".join(c for c in letters if c in needed), st.add_up(value, axis=axes, keepdims=False)


def _pair(first: tuple[str, Any], second: tuple[str, Any], needed: set[str]) -> tuple[str, Any]:
    a, x = _summed(*first, needed | set(second[0]))
    b, y = _summed(*second, needed | set(a))
    out = "".join(c for c in dict.fromkeys(a + b) if c in needed)
    if not isinstance(x, Tracer) and not isinstance(y, Tracer):
        return out, np.einsum(f"{a},{b}->{out}", x, y, optimize=True)
    return out, mx.contract(x, y, x_axes=a, y_axes=b, out_axes=out)


def polyval(p: Any, x: Any) -> Any:
    """A polynomial by Horner's rule, the highest power first."""
    total: Any = 0.0
    for coefficient in p:
        total = total * x + coefficient
    return total


