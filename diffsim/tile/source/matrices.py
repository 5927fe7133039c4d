"""Matrices in tile programs: products, factorisations and eigenvalues of small matrices, one for each lane."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace

import numpy as np

from diffsim.errors import SingularError
from diffsim.tile.source import entries
from diffsim.tile.source.rules import rule
from diffsim.tile.source.values import Affine, Uniform, Value, View
from diffsim.tile.source.writer import Writer, broadcast
from diffsim.tile.trace.program import Operation

SWEEPS = 40
"""The most sweeps of Jacobi's method. It converges quadratically: matrices of 16 rows take about 8."""


# products


@rule("matmul")
def _matmul(w: Writer, operation: Operation) -> None:
    x, y = operation.operands
    rank = len(operation.results[0].shape)
    letters = "abcdefgh"[: rank - 2]
    _product(w, operation, letters[rank - x.ndim :] + "ik", letters[rank - y.ndim :] + "kj", letters + "ij")


@rule("contract")
def _contract(w: Writer, operation: Operation) -> None:
    _product(w, operation, *(operation.params[name] for name in ("x_axes", "y_axes", "out_axes")))


def _product(w: Writer, operation: Operation, x_axes: str, y_axes: str, out_axes: str) -> None:
    """Sums of products over letters, several entries of the result at a time."""
    (result,) = operation.results
    kind = w.kind(result.dtype)
    values = [_readable(w, w.operand(o), kind) for o in operation.operands]
    for value in values:
        w.hold(value)
    product = w.allocate(result.shape, kind)
    lengths = dict(zip(out_axes, result.shape, strict=True))
    for axes, value in zip((x_axes, y_axes), values, strict=True):
        lengths |= {a: n for a, n in zip(axes, value.shape, strict=True) if n != 1 or a not in lengths}
    summed = [a for a in dict.fromkeys(x_axes + y_axes) if a not in out_axes]
    mine = [a for a in out_axes if a in x_axes and a not in y_axes and lengths[a] > 1]
    other = [a for a in out_axes if a in y_axes and a not in x_axes and lengths[a] > 1]
    blocks = {axis[-1]: _block(lengths[axis[-1]], most) for axis, most in ((mine, 4), (other, 4)) if axis}
    with ExitStack() as stack:
        at: dict[str, Affine] = {}
        for a in out_axes:
            at[a] = _loop(w, stack, lengths[a] // blocks.get(a, 1)) * blocks.get(a, 1)
        spots = [(p, q) for p in range(blocks.get(mine[-1], 1) if mine else 1) for q in range(blocks.get(other[-1], 1) if other else 1)]
        totals = {spot: w.variable(w.number(0, kind)) for spot in spots}
        with ExitStack() as inner:
            within = {a: _loop(w, inner, lengths[a]) for a in summed}

            def entry(axes: str, value: Value, moved: str | None, by: int) -> str:
                index = [(at | within)[a] + (by if a == moved else 0) if lengths[a] > 1 else Affine() for a in axes]
                return w.variable(w.read(value, index))

            lefts = {p: entry(x_axes, values[0], mine[-1] if mine else None, p) for p in sorted({p for p, _ in spots})}
            rights = {q: entry(y_axes, values[1], other[-1] if other else None, q) for q in sorted({q for _, q in spots})}
            for (p, q), total in totals.items():
                w.text(f"{total} = {total} + {lefts[p]} * {rights[q]}")
        for (p, q), total in totals.items():
            index = [at[a] + (p if mine and a == mine[-1] else 0) + (q if other and a == other[-1] else 0) for a in out_axes]
            w.assign(product, index, total)
    w.give(result, product)
    for value in values:
        w.release(value)
    for operand in operation.operands:
        w.used(operand)


def _loop(w: Writer, stack: ExitStack, count: int) -> Affine:
    if count == 1:
        return Affine()
    name = w.name("i")
    stack.enter_context(w.text.block(f"for {name} in range({count})"))
    return Affine(0, ((name, 1),))


def _block(length: int, most: int) -> int:
    return max(n for n in range(1, most + 1) if length % n == 0)


def _readable(w: Writer, value: Value, kind: str) -> Value:
    """A value of a type that is read many times."""
    if isinstance(value, Uniform):
        return Uniform(entries.converted(value.text, value.kind, kind), kind, value.shape)
    if value.kind == kind and value.array in "sc":
        return value
    converted = w.allocate(value.shape, kind)
    w.entries(value.shape, converted, (value,), lambda x: entries.converted(x, value.kind, kind))
    return converted


# elimination


class _Matrix:
    """A matrix in scratch memory, at a place that loops choose."""

    def __init__(self, kind: str, offset: Affine, columns: int) -> None:
        self.kind, self.offset, self.columns = kind, offset, columns

    def __call__(self, row: str, column: str) -> str:
        return f"s_{self.kind}[s0_{self.kind} + {self.offset} + ({row}) * {self.columns} + {column}]"


def _copy(w: Writer, value: Value, shape: tuple[int, ...], kind: str) -> View:
    copy = w.allocate(shape, kind)
    w.hold(copy)
    spread = broadcast(value, shape)
    w.entries(shape, copy, (spread,), lambda x: entries.converted(x, value.kind, kind))
    return copy


def _of(view: View, outer: Sequence[Affine]) -> _Matrix:
    row = replace(view, shape=view.shape[:-2], strides=view.strides[:-2])
    return _Matrix(view.kind, row.at(outer), view.shape[-1])


def _any_larger(w: Writer) -> str:
    return "larger.sum() > 0" if w.lanes > 1 else "larger > 0"


def _magnitude(x: str, zero: str) -> str:
    return f"ti.max({x}, {zero} - {x})"


def _exchange(w: Writer, one: str, other: str, where: str) -> None:
    """Exchange two entries in the lanes where a variable is not 0."""
    w.text(f"left = {one}")
    w.text(f"right = {other}")
    w.text(f"{one} = ti.select({where} != 0, right, left)")
    w.text(f"{other} = ti.select({where} != 0, left, right)")


def _rotate(w: Writer, one: str, other: str) -> None:
    """Rotate two entries by the angle whose cosine and sine are `c` and `s` in the kernel."""
    w.text(f"left = {one}")
    w.text(f"right = {other}")
    w.text(f"{one} = c * left - s * right")
    w.text(f"{other} = s * left + c * right")


def _eliminate(w: Writer, a: _Matrix, b: _Matrix | None, sign: str | None, message: str) -> None:
    """Rows of `a` to an upper triangle, by the largest pivots, and the same for `b`. `sign` turns with each exchange of rows."""
    text, n, k = w.text, a.columns, a.kind
    zero, one = w.number(0, k), w.number(1, k)
    with text.block(f"for k in range({n})"):
        with text.block(f"for r in range(k + 1, {n})"):
            text(f"below = {a('r', 'k')}")
            text(f"above = {a('k', 'k')}")
            text(f"larger = ti.select({_magnitude('below', zero)} > {_magnitude('above', zero)}, V_i(F_i(1)), V_i(F_i(0)))")
            with text.block(f"if {_any_larger(w)}"):
                for matrix, start in ((a, "k"), (b, "0")):
                    if matrix is None:
                        continue
                    with text.block(f"for j in range({start}, {matrix.columns})"):
                        _exchange(w, matrix("k", "j"), matrix("r", "j"), "larger")
                if sign is not None:
                    text(f"{sign} = ti.select(larger != 0, {zero} - {sign}, {sign})")
        text(f"pivot = {a('k', 'k')}")
        if message:
            w.check(f"(pivot == {zero})", SingularError, message)
        text(f"inverse = {one} / ti.select(pivot == {zero}, {one}, pivot)")
        with text.block(f"for r in range(k + 1, {n})"):
            text(f"factor = {a('r', 'k')} * inverse")
            for matrix, start in ((a, "k + 1"), (b, "0")):
                if matrix is None:
                    continue
                with text.block(f"for j in range({start}, {matrix.columns})"):
                    text(f"{matrix('r', 'j')} = {matrix('r', 'j')} - factor * {matrix('k', 'j')}")


def _substitute(w: Writer, a: _Matrix, b: _Matrix) -> None:
    """The solution of an upper triangular system in the place of its right-hand sides."""
    text, n, k = w.text, a.columns, a.kind
    with text.block(f"for back in range({n})"):
        text(f"k = {n - 1} - back")
        text(f"inverse = {w.number(1, k)} / {a('k', 'k')}")
        with text.block(f"for j in range({b.columns})"):
            text(f"rest = {b('k', 'j')}")
            with text.block(f"for q in range(k + 1, {n})"):
                text(f"rest = rest - {a('k', 'q')} * {b('q', 'j')}")
            text(f"{b('k', 'j')} = rest * inverse")


@rule("solve")
def _solve(w: Writer, operation: Operation) -> None:
    (result,), (x, y) = operation.results, operation.operands
    kind, lead = w.kind(result.dtype), operation.results[0].shape[:-2]
    n = x.shape[-1]
    left = _copy(w, w.operand(x), (*lead, n, n), kind)
    right = _copy(w, w.operand(y), result.shape, kind)
    _solved(w, operation, left, right)


def _solved(w: Writer, operation: Operation, left: View, right: View) -> None:
    name = "inv, or the derivative of det," if operation.primitive.name == "inv" else "solve"
    message = f"{operation.place}: {name} of a singular matrix in a tile program; add a small multiple of the unit matrix"
    with w.loops(right.shape[:-2]) as outer:
        a, b = _of(left, outer), _of(right, outer)
        _eliminate(w, a, b, None, message)
        _substitute(w, a, b)
    w.give(operation.results[0], right)
    w.release(left)
    w.release(right)
    for operand in operation.operands:
        w.used(operand)


@rule("inv")
def _inv(w: Writer, operation: Operation) -> None:
    (result,), (x,) = operation.results, operation.operands
    kind, n = w.kind(result.dtype), x.shape[-1]
    left = _copy(w, w.operand(x), result.shape, kind)
    right = _copy(w, w.constant(np.eye(n, dtype=result.dtype)), result.shape, kind)
    _solved(w, operation, left, right)


@rule("det", "det_sign", "logabsdet")
def _determinant(w: Writer, operation: Operation) -> None:
    (result,), (x,) = operation.results, operation.operands
    kind, name = w.kind(result.dtype), operation.primitive.name
    zero, one = w.number(0, kind), w.number(1, kind)
    left = _copy(w, w.operand(x), x.shape, kind)
    determinant = w.allocate(result.shape, kind)
    with w.loops(result.shape) as outer:
        a = _of(left, outer)
        sign = w.variable(one)
        _eliminate(w, a, None, sign, "")
        total = w.variable(zero if name == "logabsdet" else sign)
        with w.text.block(f"for k in range({a.columns})"):
            w.text(f"pivot = {a('k', 'k')}")
            size = _magnitude("pivot", zero)
            turn = {
                "det": f"{total} * pivot",
                "det_sign": f"ti.select(pivot > {zero}, {total}, ti.select(pivot < {zero}, {zero} - {total}, pivot))",
                "logabsdet": f"{total} + log_{kind}({size})",
            }[name]
            w.text(f"{total} = {turn}")
        w.assign(determinant, outer, total)
    w.give(result, determinant)
    w.release(left)
    w.used(x)


@rule("cholesky")
def _cholesky(w: Writer, operation: Operation) -> None:
    (result,), (x,) = operation.results, operation.operands
    kind, n = w.kind(result.dtype), x.shape[-1]
    zero, half = w.number(0, kind), w.number(0.5, kind)
    source = _copy(w, w.operand(x), x.shape, kind)
    factor = w.allocate(result.shape, kind)
    text = w.text
    message = (
        f"{operation.place}: cholesky of a matrix that is not positive definite in a tile program; add a small multiple of the unit matrix"
    )
    with w.loops(result.shape[:-2]) as outer:
        a, low = _of(source, outer), _of(factor, outer)
        with text.block(f"for j in range({n})"):
            text(f"rest = {a('j', 'j')}")
            with text.block("for q in range(j)"):
                text(f"rest = rest - {low('j', 'q')} * {low('j', 'q')}")
            w.check(f"((rest > {zero}) == 0)", SingularError, message)
            text("root = ti.sqrt(rest)")
            text(f"{low('j', 'j')} = root")
            text(f"inverse = {w.number(1, kind)} / root")
            with text.block(f"for r in range(j + 1, {n})"):
                text(f"rest = {half} * ({a('r', 'j')} + {a('j', 'r')})")
                with text.block("for q in range(j)"):
                    text(f"rest = rest - {low('r', 'q')} * {low('j', 'q')}")
                text(f"{low('r', 'j')} = rest * inverse")
                text(f"{low('j', 'r')} = {zero}")
    w.give(result, factor)
    w.release(source)
    w.used(x)


# eigenvalues


@rule("eigh")
def _eigh(w: Writer, operation: Operation) -> None:
    """Jacobi's method by cycles, then the eigenvalues in increasing order.

    Reference: Golub & Van Loan (2013), Matrix Computations, 4th edition, section 8.5.
    """
    (x,), (values, vectors) = operation.operands, operation.results
    kind, n = w.kind(vectors.dtype), x.shape[-1]
    text, zero, one, half = w.text, w.number(0, kind), w.number(1, kind), w.number(0.5, kind)
    source = _copy(w, w.operand(x), x.shape, kind)
    diagonal = w.allocate(values.shape, kind)
    turned = _copy(w, w.constant(np.eye(n, dtype=vectors.dtype)), vectors.shape, kind)
    w.hold(diagonal)
    tiny = w.number(float(np.finfo(vectors.dtype).eps) ** 2, kind)
    with w.loops(values.shape[:-1]) as outer:
        a, v = _of(source, outer), _of(turned, outer)
        with text.block(f"for r in range({n})"), text.block("for q in range(r)"):
            text(f"mean = {half} * ({a('r', 'q')} + {a('q', 'r')})")
            text(f"{a('r', 'q')} = mean")
            text(f"{a('q', 'r')} = mean")
        text("working = 1")
        with text.block(f"for sweep in range({SWEEPS})"), text.block("if working > 0"):
            text(f"outside = {zero}")
            text(f"inside = {zero}")
            with text.block(f"for r in range({n})"):
                text(f"inside = inside + {a('r', 'r')} * {a('r', 'r')}")
                with text.block("for q in range(r)"):
                    text(f"outside = outside + {a('r', 'q')} * {a('r', 'q')}")
            text(f"larger = ti.select(outside > {tiny} * inside, V_i(F_i(1)), V_i(F_i(0)))")
            text("working = 0")
            with text.block(f"if {_any_larger(w)}"):
                text("working = 1")
            with text.block(f"for q in range({n})"), text.block(f"for r in range(q + 1, {n})"):
                text(f"off = {a('q', 'r')}")
                text(f"some = ti.select(off == {zero}, {one}, off)")
                text(f"theta = ({a('r', 'r')} - {a('q', 'q')}) / (some + some)")
                text(f"sign = ti.select(theta >= {zero}, {one}, {zero} - {one})")
                text(f"t = sign / ({_magnitude('theta', zero)} + ti.sqrt({one} + theta * theta))")
                text(f"t = ti.select(off == {zero}, {zero}, t)")
                text(f"c = {one} / ti.sqrt({one} + t * t)")
                text("s = t * c")
                with text.block(f"for j in range({n})"):
                    _rotate(w, a("j", "q"), a("j", "r"))
                    _rotate(w, v("j", "q"), v("j", "r"))
                with text.block(f"for j in range({n})"):
                    _rotate(w, a("q", "j"), a("r", "j"))
        line = _Matrix(kind, replace(diagonal, shape=diagonal.shape[:-1], strides=diagonal.strides[:-1]).at(outer), 1)
        with text.block(f"for q in range({n})"):
            text(f"{line('q', '0')} = {a('q', 'q')}")
        with text.block(f"for q in range({n})"), text.block(f"for r in range(q + 1, {n})"):
            text(f"less = ti.select({line('r', '0')} < {line('q', '0')}, V_i(F_i(1)), V_i(F_i(0)))")
            _exchange(w, line("q", "0"), line("r", "0"), "less")
            with text.block(f"for j in range({n})"):
                _exchange(w, v("j", "q"), v("j", "r"), "less")
    w.give(values, diagonal)
    w.give(vectors, turned)
    w.release(diagonal)
    w.release(turned)
    w.release(source)
    w.used(x)
