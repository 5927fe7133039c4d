"""Scans, reductions and histograms with any associative operator, scatter and map.

An operator of scalars is traced once into expressions (`diffsim.ad.scalar`), which parallel kernels run forward and backward
(`diffsim.kernels`). Derivatives of higher order, and in forward mode, are those of the same scan written as a tree of array operations. An
operator that cannot be traced is called step by step.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from diffsim import kernels
from diffsim.ad import scalar
from diffsim.ad.array import Array, core, wrap
from diffsim.ad.core import Primitive, Tracer, bottom, is_plain
from diffsim.ad.loops import _cores_of
from diffsim.ad.ops import elementwise as ew
from diffsim.ad.ops import reduction as rd
from diffsim.ad.ops import structure as st
from diffsim.ad.transform import jvp, vjp
from diffsim.ad.tree import LEAF, Tree, flatten, unflatten
from diffsim.errors import ParameterError, ShapeError
from diffsim.expr.graph import Graph

Op = str | Callable[..., Any]
KINDS = {
    "+": "+", "add": "+", "sum": "+", "*": "*", "mul": "*", "multiply": "*", "prod": "*",
    "min": "min", "minimum": "min", "max": "max", "maximum": "max",
}  # fmt: skip
NEUTRAL = {"+": 0.0, "*": 1.0, "min": np.inf, "max": -np.inf}
_GRAPH_KINDS = {"add": "+", "mul": "*", "min": "min", "max": "max"}
_MEANING = {"+": ew.add, "*": ew.multiply, "min": ew.minimum, "max": ew.maximum}


# which operator it is


def _kind(op: Op) -> str | None:
    name = op if isinstance(op, str) else getattr(op, "__name__", "")
    if isinstance(op, str) and name not in KINDS:
        raise ParameterError(f"operator {op!r} is unknown; write one of {', '.join(KINDS)}, or a function of two values")
    known = isinstance(op, str) or op in (min, max) or getattr(op, "__module__", None) in ("_operator", "operator") or not hasattr(op, "__code__")
    return KINDS.get(name) if known else None


def _operator(op: Callable[..., Any], tree: Tree, dtypes: Sequence[Any]) -> kernels.Operator:
    """The expressions of an operator on records of scalars.

    Raises:
        NotScalarError: it has none.
    """
    graph = Graph()
    k = len(dtypes)
    names = [[f"{side}{i}" for i in range(k)] for side in "ab"]
    outputs, found = scalar.trace_scalars(op, (tree, tree), names, (dtypes, dtypes), graph)
    if found != tree:
        raise ShapeError(f"the operator returned a record of the structure {found}, expected that of its operands, {tree}")
    return kernels.Operator(graph, tuple(outputs))


def _recognised(operator: kernels.Operator) -> str | None:
    """The kind of an operator that is one of the known ones."""
    (*outputs,) = operator.outputs
    root = outputs[0]
    if len(outputs) == 1 and root.op in _GRAPH_KINDS and {a.data[0] for a in root.args if a.op == "read"} == {"a0", "b0"}:
        in_order = [a.data[0] for a in root.args] == ["a0", "b0"]
        return _GRAPH_KINDS[root.op] if in_order or root.op in ("add", "mul") else None
    return None


def _apply(operator: kernels.Operator, left: Sequence[Any], right: Sequence[Any]) -> list[Any]:
    """The operator on arrays, entry by entry."""
    values = {f"a{i}": v for i, v in enumerate(left)} | {f"b{i}": v for i, v in enumerate(right)}
    out = scalar.evaluate(operator.outputs, values)
    shape = np.broadcast_shapes(*(v.shape for v in (*left, *right)))
    made = []
    for value, like in zip(out, left, strict=True):
        full = value if getattr(value, "shape", None) == shape else value + np.zeros(shape, like.dtype)
        made.append(full if full.dtype == like.dtype else st.astype(full, dtype=like.dtype))
    return made


# the same as trees of array operations; arrays are (rows, n, columns)


def _cut(x: Any, start: int | None, stop: int | None, step: int | None = None) -> Any:
    return st.getitem(x, index=(slice(None), slice(start, stop, step)))


def _joined(parts: Sequence[Any]) -> Any:
    return st.concatenate(*parts, axis=1, lengths=tuple(p.shape[1] for p in parts))


def _interleaved(even: Any, odd: Any) -> Any:
    rows, n, columns = even.shape
    m = odd.shape[1]
    pairs = [st.reshape(v, shape=(rows, m, 1, columns)) for v in (_cut(even, 0, m), odd)]
    merged = st.reshape(st.concatenate(*pairs, axis=2, lengths=(1, 1)), shape=(rows, 2 * m, columns))
    return merged if n == m else _joined([merged, _cut(even, m, None)])


Combine = Callable[[Sequence[Any], Sequence[Any]], list[Any]]


def _tree_scan(combine: Combine, xs: Sequence[Any]) -> list[Any]:
    """Inclusive scan: pairs are combined, scanned, and the entries between filled in."""
    n = xs[0].shape[1]
    if n < 2:
        return list(xs)
    halves = n - n % 2
    pairs = combine([_cut(x, 0, halves, 2) for x in xs], [_cut(x, 1, halves, 2) for x in xs])
    odd = _tree_scan(combine, pairs)
    if n > 2:
        count = (n + 1) // 2 - 1
        later = combine([_cut(y, 0, count) for y in odd], [_cut(x, 2, None, 2) for x in xs])
        even = [_joined([_cut(x, 0, 1), y]) for x, y in zip(xs, later, strict=True)]
    else:
        even = [_cut(x, 0, 1) for x in xs]
    return [_interleaved(e, o) for e, o in zip(even, odd, strict=True)]


def _tree_reduce(combine: Combine, xs: Sequence[Any]) -> list[Any]:
    """All entries combined in their order."""
    while (n := xs[0].shape[1]) > 1:
        halves = n - n % 2
        pairs = combine([_cut(x, 0, halves, 2) for x in xs], [_cut(x, 1, halves, 2) for x in xs])
        xs = [_joined([p, _cut(x, halves, None)]) if n % 2 else p for p, x in zip(pairs, xs, strict=True)]
    return [st.reshape(x, shape=(x.shape[0], x.shape[2])) for x in xs]


def _turned(xs: Sequence[Any], reverse: bool) -> list[Any]:
    return [_cut(x, None, None, -1) for x in xs] if reverse else list(xs)


def _scan_by_tree(operator: kernels.Operator, reverse: bool) -> Callable[..., Any]:
    def run(*xs: Any) -> Any:
        found = _tree_scan(lambda a, b: _apply(operator, a, b), _turned([core(x) for x in xs], reverse))
        return tuple(map(wrap, _turned(found, reverse)))

    return run


def _reduce_by_tree(operator: kernels.Operator) -> Callable[..., Any]:
    return lambda *xs: tuple(map(wrap, _tree_reduce(lambda a, b: _apply(operator, a, b), [core(x) for x in xs])))


def _by_definition_jvp(definition: Callable[..., Any], args: Sequence[Any], tangents: Sequence[Any]) -> list[Any]:
    """Tangents of a primitive from a differentiable function that does the same."""
    _, dots = jvp(definition, tuple(wrap(a) for a in args), tuple(None if t is None else wrap(t) for t in tangents))
    return [None if d is None else core(d) for d in dots]


def _by_definition_vjp(definition: Callable[..., Any], args: Sequence[Any], cts: Sequence[Any]) -> list[Any]:
    _, pullback = vjp(definition, *(wrap(a) for a in args))
    bars = pullback(tuple(None if c is None else wrap(c) for c in cts))
    return [None if b is None else core(b) for b in bars]


def _contiguous(xs: Sequence[Any]) -> list[Any]:
    return [np.ascontiguousarray(x) for x in xs]


def _scan_vjp(cts: Any, xs: Any, ys: Any, params: Any, wanted: Any) -> Any:
    if is_plain(*xs, *ys, *cts):
        given = [None if x.dtype.kind != "f" else c for c, x in zip(cts, xs, strict=True)]
        given = [None if c is None else np.ascontiguousarray(c) for c in given]
        return kernels.scan_vjp(params["op"], _contiguous(xs), ys, given, reverse=params["reverse"])
    return _by_definition_vjp(_scan_by_tree(params["op"], params["reverse"]), xs, cts)


_scan = Primitive(
    "scan",
    lambda *xs, op, reverse: tuple(kernels.scan(op, _contiguous(xs), reverse=reverse)),
    jvp=lambda xs, dots, ys, params: _by_definition_jvp(_scan_by_tree(params["op"], params["reverse"]), xs, dots),
    vjp=_scan_vjp,
    multiple=True,
)


def _reduce_vjp(cts: Any, xs: Any, out: Any, params: Any, wanted: Any) -> Any:
    if is_plain(*xs, *cts):
        given = [None if x.dtype.kind != "f" else np.ascontiguousarray(c) for c, x in zip(cts, xs, strict=True)]
        return kernels.reduce_vjp(params["op"], _contiguous(xs), given)
    return _by_definition_vjp(_reduce_by_tree(params["op"]), xs, cts)


_reduce = Primitive(
    "reduce",
    lambda *xs, op: tuple(kernels.reduce(op, _contiguous(xs))),
    jvp=lambda xs, dots, out, params: _by_definition_jvp(_reduce_by_tree(params["op"]), xs, dots),
    vjp=_reduce_vjp,
    keeps=lambda wanted: ((True,) * len(wanted), False),
    multiple=True,
)


# histograms; index is (n,), values (n, columns), dst (bins, columns)


def _inside(index: np.ndarray, bins: int) -> np.ndarray:
    return np.flatnonzero((index >= 0) & (index < bins))


def _gathered(ct: Any, index: np.ndarray) -> Any:
    """Rows of `ct` at positions, 0 outside."""
    places = _inside(index, ct.shape[0])
    if len(places) == len(index):
        return st.getitem(ct, index=(index,))
    return st.setitem(np.zeros((len(index), *ct.shape[1:]), ct.dtype), st.getitem(ct, index=(index[places],)), index=(places,))


def _chosen(dst: Any, values: Any, winners: np.ndarray) -> Any:
    """Entries of `values` where one won, of `dst` elsewhere."""
    if not winners.size or not values.shape[0]:
        return dst
    columns = np.broadcast_to(np.arange(winners.shape[1]), winners.shape)
    return ew.where(winners < 0, dst, st.getitem(values, index=(np.maximum(winners, 0), columns)))


def _segmented(operator: kernels.Operator, starts: np.ndarray) -> Combine:
    """The operator on (mark of a segment's start, value ...), which does not reach across a start."""

    def combine(left: Sequence[Any], right: Sequence[Any]) -> list[Any]:
        joined = _apply(operator, left[1:], right[1:])
        mark = right[0]
        return [left[0] | mark, *(ew.where(mark, r, j) for r, j in zip(right[1:], joined, strict=True))]

    return combine


def _histogram_by_scan(operator: kernels.Operator, index: np.ndarray, count: int) -> Callable[..., Any]:
    """A histogram as a segmented scan of the sorted values."""

    def run(*arrays: Any) -> Any:
        dsts, values = [core(a) for a in arrays[:count]], [core(a) for a in arrays[count:]]
        bins = dsts[0].shape[0]
        order, starts = kernels.order_by_index(index, bins)
        filled = np.flatnonzero(np.diff(starts))
        if not len(filled):
            return tuple(map(wrap, dsts))
        rows = [st.getitem(v, index=(None, order)) for v in values]
        marks = np.zeros(rows[0].shape, bool)
        marks[0, starts[filled]] = True
        run = _tree_scan(_segmented(operator, starts), [marks, *rows])[1:]
        last = [st.getitem(v, index=(0, starts[filled + 1] - 1)) for v in run]
        both = _apply(operator, [st.getitem(d, index=(filled,)) for d in dsts], last)
        return tuple(wrap(st.setitem(d, b, index=(filled,))) for d, b in zip(dsts, both, strict=True))

    return run


def _add_histogram(dst: Any, values: Any, index: np.ndarray) -> Any:
    return kernels.histogram("+", np.ascontiguousarray(dst), index, np.ascontiguousarray(values))


def _add_histogram_jvp(args: Any, dots: Any, out: Any, params: Any) -> Any:
    dst, values = (np.zeros(a.shape, a.dtype) if d is None else d for a, d in zip(args, dots, strict=True))
    return _histogram_add(dst, values, **params)


_histogram_add = Primitive(
    "histogram",
    _add_histogram,
    jvp=_add_histogram_jvp,
    vjp=lambda ct, args, out, params, wanted: (ct, _gathered(ct, params["index"])),
    keeps=st.keeps_nothing,
)


def _histogram_evaluate(*arrays: Any, op: Any, kind: str | None, index: np.ndarray, count: int) -> tuple[Any, ...]:
    dsts, values = _contiguous(arrays[:count]), _contiguous(arrays[count:])
    if kind:
        return (kernels.histogram(kind, dsts[0], index, values[0]),)
    return tuple(kernels.histogram_generic(op, dsts, index, values))


def _histogram_vjp(cts: Any, arrays: Any, out: Any, params: Any, wanted: Any) -> Any:
    op, kind, index, count = (params[name] for name in ("op", "kind", "index", "count"))
    if not is_plain(*arrays, *cts):
        return _by_definition_vjp(_histogram_by_scan(op, index, count), arrays, cts)
    dsts, values = _contiguous(arrays[:count]), _contiguous(arrays[count:])
    if kind == "*":
        return kernels.histogram_product_vjp(dsts[0], index, values[0], np.ascontiguousarray(cts[0]))
    given = [None if d.dtype.kind != "f" else np.ascontiguousarray(c) for c, d in zip(cts, dsts, strict=True)]
    bars = kernels.histogram_generic_vjp(op, dsts, index, values, given)
    return [*bars[0], *bars[1]]


_histogram = Primitive(
    "histogram",
    _histogram_evaluate,
    jvp=lambda arrays, dots, out, p: _by_definition_jvp(_histogram_by_scan(p["op"], p["index"], p["count"]), arrays, dots),
    vjp=_histogram_vjp,
    keeps=lambda wanted: ((True,) * len(wanted), False),
    multiple=True,
)


# arrays to and from (rows, n, columns)


def _leaves(xs: Any, what: str) -> tuple[list[Any], Tree]:
    """Core arrays of a record; a list of numbers counts as an array."""
    if isinstance(xs, list):
        xs = wrap(core(xs))
    cores, tree = _cores_of(xs)
    for c in cores:
        if not hasattr(c, "dtype"):
            raise ParameterError(f"{what} holds {type(c).__name__}, expected arrays")
    return list(cores), tree


def _to_rows(x: Any, axis: int) -> Any:
    shape = x.shape
    return st.reshape(x, shape=(math.prod(shape[:axis]), shape[axis], math.prod(shape[axis + 1 :])))


def _aligned(xs: Sequence[Any], axis: int) -> tuple[int, tuple[int, ...]]:
    shape = xs[0].shape
    if not shape:
        raise ShapeError("a scan or reduction needs an array with an axis, got a number")
    if not -len(shape) <= axis < len(shape):
        raise ShapeError(f"axis = {axis} is out of bounds for arrays of shape {shape}")
    for x in xs[1:]:
        if x.shape != shape:
            raise ShapeError(f"the arrays of a record have the shapes {shape} and {x.shape}, expected one shape")
    return axis % len(shape), shape


def _slices(xs: Sequence[Any], tree: Tree, axis: int) -> list[Any]:
    lead = (slice(None),) * axis
    return [unflatten(tree, [Array(st.getitem(x, index=(*lead, i)), scalar=x.ndim == 1) for x in xs]) for i in range(xs[0].shape[axis])]


def _stacked(elements: Sequence[Any], axis: int, tree: Tree) -> list[Any]:
    """Records joined along a new axis."""
    columns = zip(*(_cores_of(e)[0] for e in elements), strict=True)
    out = []
    for column in columns:
        column = [c if hasattr(c, "dtype") else np.asarray(c)[()] for c in column]
        parts = [st.reshape(c, shape=(*c.shape[:axis], 1, *c.shape[axis:])) for c in column]
        out.append(st.concatenate(*parts, axis=axis, lengths=(1,) * len(parts)))
    return out


def _same_record(value: Any, tree: Tree) -> Any:
    found = flatten(value)[1]
    if found != tree:
        raise ShapeError(f"the operator returned a record of the structure {found}, expected that of its operands, {tree}")
    return value


def _traced(op: Op, tree: Tree, xs: Sequence[Any]) -> tuple[str | None, kernels.Operator | None]:
    """The kind of an operator if it is a known one, and its expressions if it has some."""
    kind = _kind(op)
    floating = all(x.dtype.kind == "f" for x in xs)
    if kind is None and any(x.dtype.kind == "c" for x in xs):
        return None, None
    if kind is not None and tree != LEAF:
        raise ParameterError(f"operator {op!r} works on one array, got a record {tree}; give a function of two records")
    function = op if kind is None else {"+": _plus, "*": _times, "min": _minimum, "max": _maximum}[kind]
    assert callable(function)
    try:
        operator = _operator(function, tree, [x.dtype for x in xs])
    except scalar.NotScalarError:
        return kind, None
    except (IndexError, TypeError, ValueError, AttributeError):
        if all(x.ndim == 1 for x in xs):
            raise
        return kind, None  # it takes rows, not numbers
    return kind or (_recognised(operator) if floating else None), operator


def _plus(a: Any, b: Any) -> Any:
    return a + b


def _times(a: Any, b: Any) -> Any:
    return a * b


def _minimum(a: Any, b: Any) -> Any:
    return wrap(ew.minimum(core(a), core(b)))


def _maximum(a: Any, b: Any) -> Any:
    return wrap(ew.maximum(core(a), core(b)))


def _call(op: Op, kind: str | None) -> Callable[..., Any]:
    """The operator as a function of two records."""
    if kind is None:
        assert callable(op)
        return op
    return lambda a, b: wrap(_MEANING[kind](core(a), core(b)))


def _neutral(neutral: Any, kind: str | None, tree: Tree, what: str) -> list[Any]:
    if neutral is None and kind is not None:
        return [NEUTRAL[kind]]
    if neutral is None:
        raise ParameterError(f"{what} needs the operator's neutral element; give neutral=")
    cores, found = _cores_of(neutral)
    if found != tree:
        raise ShapeError(f"the neutral element has the structure {found}, expected that of the arrays, {tree}")
    return list(cores)


def _spread(value: Any, shape: tuple[int, ...], dtype: Any) -> Any:
    if not isinstance(value, Tracer):
        value = np.asarray(value)
        if value.dtype.kind == "f" and dtype.kind in "iu":
            info = np.iinfo(dtype)
            value = np.clip(value, info.min, info.max)
        value = value.astype(dtype)
    return st.broadcast_to(value, shape=shape)


# for users


def scan(op: Op, xs: Any, neutral: Any = None, *, axis: int = 0, reverse: bool = False, exclusive: bool = False) -> Any:
    """Running results y_0 = x_0, y_i = op(y_{i-1}, x_i) of an associative operator.

    Args:
        op: "+", "*", "min", "max", a universal function such as `np.add`, or a function of two elements: numbers, or records of
            numbers if `xs` is a record. It is applied to every position of the other axes. Branches on values are followed both ways.
        xs: an array, or a record of arrays of one shape.
        neutral: element with op(neutral, x) = x. Known for the named operators; needed for `exclusive` scans with others.
        axis: along which to scan.
        reverse: run from the end: y_i = op(y_{i+1}, x_i).
        exclusive: give y_{i-1} in the place of y_i, and the neutral element first.

    Returns:
        An array or record like `xs`.

    Raises:
        ShapeError: arrays of several shapes, or an operator that changes the structure.
        ParameterError: an unknown operator, or no neutral element.
    """
    arrays, tree = _leaves(xs, "xs")
    axis, shape = _aligned(arrays, axis)
    kind, operator = _traced(op, tree, arrays)
    first = _neutral(neutral, kind, tree, "an exclusive scan") if exclusive else None
    if not shape[axis]:
        return unflatten(tree, [wrap(x) for x in arrays])
    if operator is not None or kind is not None:
        rows = [_to_rows(x, axis) for x in arrays]
        found = [_known_scan(kind, rows[0], reverse)] if kind else list(_scan(*rows, op=operator, reverse=reverse))
        ys = [st.reshape(y, shape=shape) for y in found]
    else:
        ys = _scan_by_calls(_call(op, kind), arrays, tree, axis, reverse)
    if first is not None:
        ys = [_excluded(y, f, axis, reverse) for y, f in zip(ys, first, strict=True)]
    return unflatten(tree, [wrap(y) for y in ys])


def _known_scan(kind: str, x: Any, reverse: bool) -> Any:
    """One of the named operators along the middle axis."""
    turned = st.transpose(x, axes=(0, 2, 1)) if x.shape[2] > 1 else st.reshape(x, shape=(x.shape[0], 1, x.shape[1]))
    if kind == "+":
        y = rd.cumsum(turned, reverse=reverse)
    elif kind == "*":
        y = rd.cumprod(turned, reverse=reverse)
    else:
        y = rd.pick(turned, rd.running_winners(turned, kind == "max", reverse), -1)
    return st.transpose(y, axes=(0, 2, 1)) if x.shape[2] > 1 else st.reshape(y, shape=x.shape)


def _scan_by_calls(op: Callable[..., Any], arrays: Sequence[Any], tree: Tree, axis: int, reverse: bool) -> list[Any]:
    elements = _slices(arrays, tree, axis)
    if reverse:
        elements.reverse()
    run = [elements[0]]
    for element in elements[1:]:
        run.append(_same_record(op(run[-1], element), tree))
    if reverse:
        run.reverse()
    return _stacked(run, axis, tree)


def _excluded(y: Any, first: Any, axis: int, reverse: bool) -> Any:
    n = y.shape[axis]
    edge = _spread(first, (*y.shape[:axis], 1, *y.shape[axis + 1 :]), y.dtype)
    lead = (slice(None),) * axis
    kept = st.getitem(y, index=(*lead, slice(1, None) if reverse else slice(None, -1)))
    return st.concatenate(*([kept, edge] if reverse else [edge, kept]), axis=axis, lengths=(n - 1, 1) if reverse else (1, n - 1))


def reduce(op: Op, xs: Any, neutral: Any = None, *, axis: int = 0) -> Any:
    """All elements along an axis combined by an associative operator, in their order.

    Args:
        op: see `scan`.
        xs: an array, or a record of arrays of one shape.
        neutral: element with op(neutral, x) = x, which is combined first and is the result for no elements. Known for the named
            operators.
        axis: along which to reduce.

    Returns:
        An array or record like `xs` without the axis. Of equal minima or maxima the first has the derivative.

    Raises:
        ShapeError: arrays of several shapes, or an operator that changes the structure.
        ParameterError: an unknown operator, or no elements and no neutral element.
    """
    arrays, tree = _leaves(xs, "xs")
    axis, shape = _aligned(arrays, axis)
    kind, operator = _traced(op, tree, arrays)
    rest = (*shape[:axis], *shape[axis + 1 :])
    given = None if neutral is None else _neutral(neutral, kind, tree, "a reduction")
    if not shape[axis]:
        empty = _neutral(neutral, kind, tree, "a reduction of no elements")
        return unflatten(tree, [wrap(_spread(e, rest, x.dtype)[()]) for e, x in zip(empty, arrays, strict=True)])
    rows = [_to_rows(x, axis) for x in arrays]
    if kind:
        found = [st.reshape(_known_reduce(kind, rows[0]), shape=rest)]
    elif operator is not None:
        found = [st.reshape(y, shape=rest) for y in _reduce(*rows, op=operator)]
    else:
        elements = _slices(arrays, tree, axis)
        total = elements[0]
        for element in elements[1:]:
            total = _same_record(op(total, element), tree)  # type: ignore[operator]
        found = list(_cores_of(total)[0])
    if given is not None and not (kind and is_plain(*given) and np.all(given[0] == NEUTRAL[kind])):
        if operator is not None:
            found = _apply(operator, [_spread(g, rest, x.dtype) for g, x in zip(given, arrays, strict=True)], found)
        else:
            both = _call(op, kind)(unflatten(tree, [wrap(g) for g in given]), unflatten(tree, [wrap(f) for f in found]))
            found = list(_cores_of(both)[0])
    return unflatten(tree, [wrap(f) for f in found])


def _known_reduce(kind: str, x: Any) -> Any:
    if kind == "+":
        return st.add_up(x, axis=(1,), keepdims=False)
    turned = st.transpose(x, axes=(0, 2, 1))
    if kind == "*":
        return rd.prod(turned)
    winners = (np.argmax if kind == "max" else np.argmin)(bottom(turned), axis=-1, keepdims=True)
    return st.reshape(rd.pick(turned, winners, -1), shape=(x.shape[0], x.shape[2]))


def reduce_by_index(op: Op, dst: Any, index: Any, values: Any, neutral: Any = None) -> Any:
    """A generalised histogram: `dst[index[i]] = op(dst[index[i]], values[i])` for all i in order.

    Args:
        op: see `scan`.
        dst: array of shape (bins, ...), or a record of such.
        index: integers of shape (n,). Those outside of 0 ... bins - 1 are dropped, and their values get the derivative 0.
        values: array of shape (n, ...), or a record like `dst`.
        neutral: not needed; it is there so that one call fits all operators.

    Returns:
        A new array or record like `dst`. Of equal minima or maxima that of `dst` has the derivative, then the first.

    Raises:
        ShapeError: shapes that do not fit.
    """
    dsts, tree = _leaves(dst, "dst")
    arrays, found = _leaves(values, "values")
    places = _positions(index)
    if found != tree:
        raise ShapeError(f"values have the structure {found}, expected that of dst, {tree}")
    for d, v in zip(dsts, arrays, strict=True):
        if not d.shape or v.shape != (len(places), *d.shape[1:]) or d.shape != (dsts[0].shape[0], *d.shape[1:]):
            raise ShapeError(f"values have the shape {v.shape}, expected {(len(places), *d.shape[1:])} for {len(places)} indices into dst of {d.shape}")
    dtypes = [np.result_type(d.dtype, v.dtype) for d, v in zip(dsts, arrays, strict=True)]
    dsts = [d if d.dtype == t else st.astype(d, dtype=t) for d, t in zip(dsts, dtypes, strict=True)]
    arrays = [v if v.dtype == t else st.astype(v, dtype=t) for v, t in zip(arrays, dtypes, strict=True)]
    kind, operator = _traced(op, tree, arrays)
    bins, n = dsts[0].shape[0], len(places)
    flat = [st.reshape(x, shape=(m, math.prod(x.shape[1:]))) for m, xs in ((bins, dsts), (n, arrays)) for x in xs]
    if kind == "+":
        out = [_histogram_add(*flat, index=places)]
    elif kind in ("min", "max"):
        _, winners = kernels.histogram_winners(kind, *(_contiguous([bottom(flat[0])])), places, *_contiguous([bottom(flat[1])]))
        out = [_chosen(flat[0], flat[1], winners)]
    elif operator is not None:
        out = list(_histogram(*flat, op=operator, kind="*" if kind == "*" else None, index=places, count=len(dsts)))
    else:
        return _histogram_by_calls(_call(op, kind), dsts, places, arrays, tree)
    return unflatten(tree, [wrap(st.reshape(o, shape=d.shape)) for o, d in zip(out, dsts, strict=True)])


def _histogram_by_calls(op: Callable[..., Any], dsts: Sequence[Any], places: np.ndarray, arrays: Sequence[Any], tree: Tree) -> Any:
    bins = _slices(dsts, tree, 0)
    elements = _slices(arrays, tree, 0)
    for i in _inside(places, len(bins)):
        bins[places[i]] = _same_record(op(bins[places[i]], elements[i]), tree)
    if not bins:
        return unflatten(tree, [wrap(d) for d in dsts])
    return unflatten(tree, [wrap(o) for o in _stacked(bins, 0, tree)])


def _positions(index: Any) -> np.ndarray:
    places = np.asarray(bottom(core(index)))
    if places.size == 0:
        places = places.astype(np.intp)
    if places.dtype.kind not in "iu" or places.ndim != 1:
        raise ShapeError(f"index has the type {places.dtype} and the shape {places.shape}, expected integers of shape (n,)")
    return np.ascontiguousarray(places.astype(np.int64))


def scatter(dst: Any, index: Any, values: Any) -> Any:
    """A new array: `dst` with `values[i]` at `index[i]`.

    Args:
        dst: array of shape (bins, ...).
        index: integers of shape (n,), or for several axes a tuple of such. Entries outside of `dst` are dropped, and their values get
            the derivative 0. Two equal indices are meant to have equal values; the last one is written and has the derivative.
        values: array of shape (n, ...), or one number.

    Raises:
        ShapeError: shapes that do not fit.
    """
    target = core(dst)
    target = target if hasattr(target, "dtype") else np.asarray(target)
    index_arrays = [_positions(i) for i in (index if isinstance(index, tuple) else (index,))]
    inside = np.flatnonzero(np.logical_and.reduce([(i >= 0) & (i < m) for i, m in zip(index_arrays, target.shape, strict=False)]))
    value = core(values)
    value = value if hasattr(value, "dtype") else np.asarray(value, target.dtype)
    n, rank = len(index_arrays[0]), len(index_arrays)
    if value.ndim and value.shape[0] != n:
        raise ShapeError(f"values have the shape {value.shape}, expected {(n, *target.shape[rank:])} for {n} indices into dst of {target.shape}")
    if value.ndim and len(inside) != n:
        value = st.getitem(value, index=(inside,))
    made = Array(st.copy(target), owned=True)
    made[tuple(i[inside] for i in index_arrays)] = wrap(value)
    return wrap(made.core())


def map(f: Callable[..., Any], *xs: Any) -> Any:
    """`f` of every element along the first axis, the results stacked.

    Args:
        f: of one element an argument, to a number, an array, or a record.
        xs: arrays, or records of arrays, of one length.

    Returns:
        An array or record of arrays whose first axis is that of `xs`. A function of numbers that is plain arithmetic is run on whole
        arrays.

    Raises:
        ShapeError: lengths that differ, or no elements.
    """
    pairs = [_leaves(x, "xs") for x in xs]
    arrays = [a for cores, _ in pairs for a in cores]
    lengths = {a.shape[0] if a.ndim else None for a in arrays}
    if len(lengths) != 1 or None in lengths:
        raise ShapeError(f"map takes arrays of one length, got the shapes {[a.shape for a in arrays]}")
    (n,) = lengths
    if all(a.ndim == 1 and a.dtype.kind == "f" for a in arrays):
        found = _whole_map(f, pairs, n)
        if found is not None:
            return found
    if not n:
        raise ShapeError("map over no elements cannot tell the shape of its result; treat an empty array apart")
    results = [f(*(unflatten(tree, [_element(c, i) for c in cores]) for cores, tree in pairs)) for i in range(n)]
    tree = flatten(results[0])[1]
    return unflatten(tree, [wrap(o) for o in _stacked([_same_record(r, tree) for r in results], 0, tree)])


def _element(x: Any, i: int) -> Any:
    value = st.getitem(x, index=(i,))
    return Array(value, scalar=x.ndim == 1) if isinstance(value, (Tracer, np.ndarray)) else value


def _whole_map(f: Callable[..., Any], pairs: Sequence[tuple[list[Any], Tree]], n: int) -> Any:
    graph = Graph()
    names = [[f"x{k}_{i}" for i in range(len(cores))] for k, (cores, _) in enumerate(pairs)]
    try:
        outputs, tree = scalar.trace_scalars(f, [t for _, t in pairs], names, [[c.dtype for c in cores] for cores, _ in pairs], graph)
    except scalar.NotScalarError:
        return None
    values = {name: c for ns, (cores, _) in zip(names, pairs, strict=True) for name, c in zip(ns, cores, strict=True)}
    dtype = np.result_type(*(c.dtype for c in values.values()))
    out = []
    for value, node in zip(scalar.evaluate(outputs, values), outputs, strict=True):
        if node.op == "const":
            return None  # its type is not known: integers and booleans are constants too
        out.append(value if value.dtype.kind != "f" or value.dtype == dtype else st.astype(value, dtype=dtype))
    return unflatten(tree, [wrap(o) for o in out])
