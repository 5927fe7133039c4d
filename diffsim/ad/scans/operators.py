"""Scans, reductions and histograms with any associative operator, scatter and map.

An operator of scalars is traced once into expressions (`diffsim.ad.scans.scalar`), which parallel kernels run forward and backward
(`diffsim.kernels`). Derivatives of higher order, and in forward mode, are those of the same scan written as a tree of array operations. An
operator that cannot be traced is called step by step.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from diffsim import kernels
from diffsim.ad.arrays.array import Array, core, wrap
from diffsim.ad.arrays.leaves import cores_of
from diffsim.ad.core import Tracer, bottom, is_plain, local
from diffsim.ad.ops import reduction as rd
from diffsim.ad.ops import structure as st
from diffsim.ad.scans import histograms, scalar, scans
from diffsim.ad.scans.associative import NEUTRAL, Op, apply, as_function, same_pytree, traced
from diffsim.ad.tree import Tree, flatten, unflatten
from diffsim.base import arguments, buffers
from diffsim.errors import ParameterError, ShapeError
from diffsim.expr.graph import Graph

# arrays to and from (rows, n, columns)


def _leaves(xs: Any, what: str) -> tuple[list[Any], Tree]:
    """Core arrays of a pytree; a list of numbers counts as an array."""
    if isinstance(xs, list):
        xs = wrap(core(xs))
    cores, tree = cores_of(xs)
    for c in cores:
        if not hasattr(c, "dtype"):
            raise ParameterError(
                f"{what} holds {type(c).__name__}, expected arrays of floating-point numbers; convert it with numpy.asarray(x, float)"
            )
        if c.dtype.kind not in "fciub":
            raise ParameterError(f"{what} holds entries of type {c.dtype}, expected numbers; convert them")
    if not cores:
        raise ParameterError(f"{what} holds no array, expected one at least; give an array or a pytree of them")
    return list(cores), tree


def _to_rows(x: Any, axis: int) -> Any:
    shape = x.shape
    return st.reshape(x, shape=(math.prod(shape[:axis]), shape[axis], math.prod(shape[axis + 1 :])))


def _aligned(xs: Sequence[Any], axis: int) -> tuple[int, tuple[int, ...]]:
    shape = xs[0].shape
    if not shape:
        raise ShapeError("a scan or reduction expected an array with an axis, got a number; give x[None]")
    if not -len(shape) <= axis < len(shape):
        raise ShapeError(f"axis = {axis} is out of bounds for arrays of shape {shape}")
    for x in xs[1:]:
        if x.shape != shape:
            raise ShapeError(f"the arrays of a pytree have the shapes {shape} and {x.shape}, expected one shape")
    return axis % len(shape), shape


def _slices(xs: Sequence[Any], tree: Tree, axis: int) -> list[Any]:
    lead = (slice(None),) * axis
    return [unflatten(tree, [Array(st.getitem(x, index=(*lead, i)), scalar=x.ndim == 1) for x in xs]) for i in range(xs[0].shape[axis])]


def _stacked(elements: Sequence[Any], axis: int, tree: Tree) -> list[Any]:
    """Pytrees joined along a new axis."""
    rows = [cores_of(e)[0] for e in elements]
    for part in itertools.chain.from_iterable(rows):
        if not (hasattr(part, "shape") or isinstance(part, (bool, int, float, complex))):
            raise ShapeError(f"a function of elements returned {type(part).__name__}, expected arrays and numbers")
    columns = zip(*rows, strict=True)
    out = []
    for column in columns:
        arrays = [c if hasattr(c, "dtype") else np.asarray(c)[()] for c in column]
        parts = [st.reshape(c, shape=(*c.shape[:axis], 1, *c.shape[axis:])) for c in arrays]
        out.append(st.concatenate(*parts, axis=axis, lengths=(1,) * len(parts)))
    return out


def _neutral(neutral: Any, kind: str | None, tree: Tree, what: str) -> list[Any]:
    if neutral is None and kind is not None:
        return [NEUTRAL[kind]]
    if neutral is None:
        raise ParameterError(f"{what} needs the operator's neutral element; give ne=")
    cores, structure = cores_of(neutral)
    if structure != tree:
        raise ShapeError(f"the neutral element has the structure {structure}, expected that of the arrays, {tree}")
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


def scan(op: Op, xs: Any, ne: Any = None, *, axis: int = 0, reverse: bool = False, exclusive: bool = False) -> Any:
    """Running results y_0 = x_0, y_i = op(y_{i-1}, x_i) of an associative operator.

    Args:
        op: "+", "*", "min", "max", a universal function such as `np.add`, or a function of two elements: numbers, or pytrees of
            numbers if `xs` is a pytree. It is applied to every position of the other axes. Branches on values are followed both ways.
        xs: an array, or a pytree of arrays of one shape.
        ne: the neutral element, with op(ne, x) = x. Known for the named operators; needed for `exclusive` scans with others.
        axis: along which to scan.
        reverse: run from the end: y_i = op(y_{i+1}, x_i).
        exclusive: give y_{i-1} in the place of y_i, and the neutral element first.

    Returns:
        An array or pytree like `xs`.

    Raises:
        ShapeError: arrays of several shapes, or an operator that changes the structure.
        ParameterError: an unknown operator, or no neutral element.

    Example:
        import numpy

        import diffsim as ds

        # The level of a lake day by day: level = 0.9 level + rain. Days are composed, which is associative.
        def compose(first, then):
            return first[0] * then[0], then[0] * first[1] + then[1]

        def last_level(rain):
            return ds.scan(compose, (numpy.full(30, 0.9), rain))[1][-1]

        gradient = ds.grad(last_level)(numpy.ones(30))
        assert numpy.allclose(gradient, 0.9 ** numpy.arange(30)[::-1])  # early rain counts less
    """
    arrays, tree = _leaves(xs, "xs")
    axis, shape = _aligned(arrays, axis)
    kind, operator = traced(op, tree, arrays)
    first = _neutral(ne, kind, tree, "an exclusive scan") if exclusive else None
    if not shape[axis]:
        return unflatten(tree, [wrap(x) for x in arrays])
    if operator is not None or kind is not None:
        rows = [_to_rows(x, axis) for x in arrays]
        outputs = [_known_scan(kind, rows[0], reverse)] if kind else list(scans.scan(*rows, op=operator, reverse=reverse))
        ys = [st.reshape(y, shape=shape) for y in outputs]
    else:
        ys = _scan_by_calls(as_function(op, kind), arrays, tree, axis, reverse)
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
        run.append(same_pytree(op(run[-1], element), tree))
    if reverse:
        run.reverse()
    return _stacked(run, axis, tree)


def _excluded(y: Any, first: Any, axis: int, reverse: bool) -> Any:
    n = y.shape[axis]
    edge = _spread(first, (*y.shape[:axis], 1, *y.shape[axis + 1 :]), y.dtype)
    lead = (slice(None),) * axis
    kept = st.getitem(y, index=(*lead, slice(1, None) if reverse else slice(None, -1)))
    return st.concatenate(*([kept, edge] if reverse else [edge, kept]), axis=axis, lengths=(n - 1, 1) if reverse else (1, n - 1))


def reduce(op: Op, xs: Any, ne: Any = None, *, axis: int = 0) -> Any:
    """All elements along an axis combined by an associative operator, in their order.

    Args:
        op: see `scan`.
        xs: an array, or a pytree of arrays of one shape.
        ne: the neutral element, with op(ne, x) = x, which is combined first and is the result for no elements. Known for the named
            operators.
        axis: along which to reduce.

    Returns:
        An array or pytree like `xs` without the axis. If minima or maxima are equal, the first has the derivative.

    Raises:
        ShapeError: arrays of several shapes, or an operator that changes the structure.
        ParameterError: an unknown operator, or no elements and no neutral element.

    Example:
        import numpy

        import diffsim as ds

        # Largest wave along a coast, and which gauge it depends on.
        height = numpy.array([0.3, 1.2, 0.8])
        assert ds.reduce("max", height) == 1.2
        assert (ds.grad(lambda h: ds.reduce("max", h))(height) == [0.0, 1.0, 0.0]).all()
    """
    arrays, tree = _leaves(xs, "xs")
    axis, shape = _aligned(arrays, axis)
    kind, operator = traced(op, tree, arrays)
    rest = (*shape[:axis], *shape[axis + 1 :])
    neutral = None if ne is None else _neutral(ne, kind, tree, "a reduction")
    if not shape[axis]:
        empty = _neutral(ne, kind, tree, "a reduction of no elements")
        return unflatten(tree, [wrap(_spread(e, rest, x.dtype)[()]) for e, x in zip(empty, arrays, strict=True)])
    rows = [_to_rows(x, axis) for x in arrays]
    if kind:
        totals = [st.reshape(_known_reduce(kind, rows[0]), shape=rest)]
    elif operator is not None:
        totals = [st.reshape(y, shape=rest) for y in scans.reduce(*rows, op=operator)]
    else:
        elements = _slices(arrays, tree, axis)
        total = elements[0]
        for element in elements[1:]:
            total = same_pytree(op(total, element), tree)  # type: ignore[operator]
        totals = list(cores_of(total)[0])
    if neutral is not None and not (kind and is_plain(*neutral) and np.all(neutral[0] == NEUTRAL[kind])):
        if operator is not None:
            totals = apply(operator, [_spread(g, rest, x.dtype) for g, x in zip(neutral, arrays, strict=True)], totals)
        else:
            both = as_function(op, kind)(unflatten(tree, [wrap(g) for g in neutral]), unflatten(tree, [wrap(f) for f in totals]))
            totals = list(cores_of(both)[0])
    return unflatten(tree, [wrap(f) for f in totals])


def _known_reduce(kind: str, x: Any) -> Any:
    if kind == "+":
        return st.add_up(x, axis=(1,), keepdims=False)
    turned = st.transpose(x, axes=(0, 2, 1))
    if kind == "*":
        return rd.prod(turned)
    return st.reshape(rd.pick(turned, rd.winners(turned, largest=kind == "max"), -1), shape=(x.shape[0], x.shape[2]))


def reduce_by_index(op: Op, dst: Any, index: Any, values: Any, ne: Any = None) -> Any:
    """A generalised histogram: `dst[index[i]] = op(dst[index[i]], values[i])` for all i in order.

    Args:
        op: see `scan`.
        dst: array of shape (bins, ...), or a pytree of such.
        index: integers of shape (n,). Those outside of 0 ... bins - 1 are dropped, and their values get the derivative 0.
        values: array of shape (n, ...), or a pytree like `dst`.
        ne: the neutral element; it is not needed, and is there so that one call fits all operators.

    Returns:
        A new array or pytree like `dst`. If minima or maxima are equal, that of `dst` has the derivative, then the first.

    Raises:
        ShapeError: shapes that do not fit.

    Example:
        import numpy

        import diffsim as ds

        # Rain on cells, added up by catchment; one cell drains out of the map.
        rain, catchment = numpy.array([1.0, 2.0, 4.0, 8.0]), numpy.array([0, 1, 1, -1])
        total = ds.reduce_by_index("+", numpy.zeros(2), catchment, rain)
        assert (total == [1.0, 6.0]).all()
        weights = numpy.array([10.0, 1.0])
        gradient = ds.grad(lambda r: (weights * ds.reduce_by_index("+", numpy.zeros(2), catchment, r)).sum())(rain)
        assert (gradient == [10.0, 1.0, 1.0, 0.0]).all()
    """
    dsts, tree = _leaves(dst, "dst")
    arrays, structure = _leaves(values, "values")
    places = _positions(index, own=False)
    if structure != tree:
        raise ShapeError(f"values have the structure {structure}, expected that of dst, {tree}")
    for d, v in zip(dsts, arrays, strict=True):
        if not d.shape or v.shape != (len(places), *d.shape[1:]) or d.shape != (dsts[0].shape[0], *d.shape[1:]):
            raise ShapeError(
                f"values have the shape {v.shape}, expected {(len(places), *d.shape[1:])} for {len(places)} indices into dst of {d.shape}"
            )
    dtypes = [np.result_type(d.dtype, v.dtype) for d, v in zip(dsts, arrays, strict=True)]
    dsts = [d if d.dtype == t else st.astype(d, dtype=t) for d, t in zip(dsts, dtypes, strict=True)]
    arrays = [v if v.dtype == t else st.astype(v, dtype=t) for v, t in zip(arrays, dtypes, strict=True)]
    kind, operator = traced(op, tree, arrays)
    bins, n = dsts[0].shape[0], len(places)
    flat = [st.reshape(x, shape=(m, math.prod(x.shape[1:]))) for m, xs in ((bins, dsts), (n, arrays)) for x in xs]
    if local.tiling is not None and kind != "+":
        return _histogram_by_calls(as_function(op, kind), dsts, places, arrays, tree)
    if local.tiling is not None:
        inside = histograms.inside(places, bins)
        out = [st.index_add(flat[0], st.getitem(flat[1], index=(inside,)), index=(places[inside],))]
    elif kind == "+":
        out = [histograms.add_histogram(*flat, index=_copied(places))]
    elif kind in ("min", "max"):
        _, winners = kernels.histogram_winners(kind, np.ascontiguousarray(bottom(flat[0])), places, np.ascontiguousarray(bottom(flat[1])))
        out = [histograms.chosen(flat[0], flat[1], winners)]
    elif operator is not None:
        known = "*" if kind == "*" else None
        out = list(histograms.histogram(*flat, op=operator, kind=known, index=_copied(places), count=len(dsts)))
    else:
        return _histogram_by_calls(as_function(op, kind), dsts, places, arrays, tree)
    return unflatten(tree, [wrap(st.reshape(o, shape=d.shape)) for o, d in zip(out, dsts, strict=True)])


def _histogram_by_calls(op: Callable[..., Any], dsts: Sequence[Any], places: np.ndarray, arrays: Sequence[Any], tree: Tree) -> Any:
    bins = _slices(dsts, tree, 0)
    elements = _slices(arrays, tree, 0)
    for i in histograms.inside(places, len(bins)):
        bins[places[i]] = same_pytree(op(bins[places[i]], elements[i]), tree)
    if not bins:
        return unflatten(tree, [wrap(d) for d in dsts])
    return unflatten(tree, [wrap(o) for o in _stacked(bins, 0, tree)])


def _positions(index: Any, own: bool = True) -> np.ndarray:
    """An index; as an array of its own if the tape is to refer to it."""
    places = index if isinstance(index, np.ndarray) else np.asarray(bottom(core(index)))
    places = _copied(places) if own else places
    if places.size == 0:
        places = places.astype(np.intp)
    if places.dtype.kind not in "iu" or places.ndim != 1:
        raise ShapeError(
            f"index has the type {places.dtype} and the shape {places.shape}, expected integers of shape (n,); convert it with astype(int)"
        )
    return np.ascontiguousarray(places, np.int64)


def _copied(places: np.ndarray) -> np.ndarray:
    """An index that the tape may refer to."""
    return buffers.copy(places) if local.depth else places


def scatter(dst: Any, index: Any, values: Any) -> Any:
    """A new array: `dst` with `values[i]` at `index[i]`.

    Args:
        dst: array of shape (bins, ...).
        index: integers of shape (n,), or for several axes a tuple of such. Entries outside of `dst` are dropped, and their values get
            the derivative 0. Two equal indices are meant to have equal values; the last one is written and has the derivative.
        values: array of shape (n, ...), or one number.

    Raises:
        ShapeError: shapes that do not fit.

    Returns:
        An array of the shape of `dst`.

    Example:
        import numpy

        import diffsim as ds

        # Values that are sought at some cells are put into a field that is known elsewhere.
        background, wells = numpy.full(6, 2.0), numpy.array([1, 4])
        field = ds.scatter(background, wells, numpy.array([5.0, 7.0]))
        assert (field == [2, 5, 2, 2, 7, 2]).all()
        gradient = ds.grad(lambda values: (ds.scatter(background, wells, values) ** 2).sum())(numpy.array([5.0, 7.0]))
        assert (gradient == [10.0, 14.0]).all()
    """
    target = core(dst)
    target = target if hasattr(target, "dtype") else np.asarray(target)
    index_arrays = [_positions(i) for i in (index if isinstance(index, tuple) else (index,))]
    if target.ndim < len(index_arrays):
        raise ShapeError(f"dst has the shape {target.shape}, expected an axis for each of {len(index_arrays)} indices; give such an array")
    inside = np.flatnonzero(np.logical_and.reduce([(i >= 0) & (i < m) for i, m in zip(index_arrays, target.shape, strict=False)]))
    value = core(values)
    value = value if hasattr(value, "dtype") else np.asarray(value, target.dtype)
    n, rank = len(index_arrays[0]), len(index_arrays)
    if value.ndim and value.shape[0] != n:
        raise ShapeError(
            f"values have the shape {value.shape}, expected {(n, *target.shape[rank:])} for {n} indices into dst of {target.shape}; "
            "give a value for each index"
        )
    if value.ndim and len(inside) != n:
        value = st.getitem(value, index=(inside,))
    copy = Array(st.copy(target), owned=True)
    copy[tuple(i[inside] for i in index_arrays)] = wrap(value)
    return wrap(copy.core())


def map(f: Callable[..., Any], *xs: Any) -> Any:
    """`f` of every element along the first axis, the results stacked.

    Args:
        f: of one element an argument, to a number, an array, or a pytree.
        xs: arrays, or pytrees of arrays, of one length.

    Returns:
        An array or pytree of arrays whose first axis is that of `xs`. A function of numbers that is plain arithmetic is run on whole
        arrays.

    Raises:
        ShapeError: lengths that differ, or no elements.

    Example:
        import numpy

        import diffsim as ds
        import diffsim.numpy as np

        # The largest stress of each of many beams: all are differentiated at once.
        def stress(beam):
            return 6 * beam["moment"] / (beam["width"] * beam["height"] ** 2)

        beams = {"moment": numpy.array([100.0, 200.0]), "width": numpy.array([0.05, 0.1]), "height": numpy.array([0.1, 0.1])}
        gradient = ds.grad(lambda beams: np.max(ds.map(stress, beams)))(beams)
        assert gradient["height"].shape == (2,) and (gradient["height"] <= 0).all()
    """
    arguments.function("f", f, "ds.map(lambda v: v**2, x)", optional=False)
    pairs = [_leaves(x, "xs") for x in xs]
    arrays = [a for cores, _ in pairs for a in cores]
    lengths = {a.shape[0] if a.ndim else -1 for a in arrays}
    if len(lengths) != 1 or -1 in lengths:
        raise ShapeError(
            f"map expected one or more arrays of one length, got the shapes {[a.shape for a in arrays]}; give arrays whose first axes agree"
        )
    (n,) = lengths
    if all(a.ndim == 1 and a.dtype.kind == "f" for a in arrays):
        whole = _whole_map(f, pairs, n)
        if whole is not None:
            return whole
    if not n:
        raise ShapeError("map over no elements has a result of unknown shape, expected one element at least; treat an empty array apart")
    results = [f(*(unflatten(tree, [_element(c, i) for c in cores]) for cores, tree in pairs)) for i in range(n)]
    tree = flatten(results[0])[1]
    return unflatten(tree, [wrap(o) for o in _stacked([same_pytree(r, tree) for r in results], 0, tree)])


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
