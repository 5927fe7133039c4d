"""Decisions by values: functions of NumPy on abstract arrays, and the shape and type of results that no example shows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from diffsim.ad.core import Primitive, bind
from diffsim.ad.ops import determinant
from diffsim.ad.ops import elementwise as ew
from diffsim.ad.ops import matrix as mx
from diffsim.ad.ops import reduction as rd
from diffsim.ad.ops import structure as st
from diffsim.tile.trace import regular

argsort: Primitive = Primitive("argsort", lambda x: np.argsort(x, axis=-1, kind="stable"), constant=True)
"""Positions that sort the last axis, equal entries in their order."""

_INDEX = np.dtype(np.intp)


def _rows(x: Any, axis: int) -> Any:
    """The axis as the last one."""
    order = (*(k for k in range(x.ndim) if k != axis), axis)
    return x if axis == x.ndim - 1 else st.transpose(x, axes=order)


def _back(x: Any, axis: int) -> Any:
    order = (*range(axis), x.ndim - 1, *range(axis, x.ndim - 1))
    return x if axis == x.ndim - 1 else st.transpose(x, axes=order)


def _winners(x: Any, axis: int | None, largest: bool, keepdims: bool) -> Any:
    if axis is None:
        places = rd.winners(st.reshape(x, shape=(-1,)), largest=largest)
        return st.reshape(places, shape=(1,) * x.ndim if keepdims else ())
    places = _back(rd.winners(_rows(x, axis % x.ndim), largest=largest), axis % x.ndim)
    kept = tuple(n for k, n in enumerate(places.shape) if keepdims or k != axis % x.ndim)
    return st.reshape(places, shape=kept)


def _argmax(a: Any, axis: int | None = None, out: None = None, *, keepdims: bool = False) -> Any:
    return _winners(a, axis, True, keepdims)


def _argmin(a: Any, axis: int | None = None, out: None = None, *, keepdims: bool = False) -> Any:
    return _winners(a, axis, False, keepdims)


def _argsort(a: Any, axis: int | None = -1, kind: Any = None, order: Any = None, *, stable: Any = None) -> Any:
    if axis is None:
        a, axis = st.reshape(a, shape=(-1,)), 0
    return _back(argsort(_rows(a, axis % a.ndim)), axis % a.ndim)


def _count(a: Any, axis: Any = None, *, keepdims: bool = False) -> Any:
    axes = None if axis is None else axis if isinstance(axis, tuple) else (axis,)
    return st.add_up(st.astype(ew.not_equal(a, 0), dtype=_INDEX), axis=axes, keepdims=keepdims)


def _any(a: Any, axis: Any = None, out: None = None, keepdims: bool = False, **others: Any) -> Any:
    return ew.not_equal(_count(a, axis, keepdims=keepdims), 0)


def _all(a: Any, axis: Any = None, out: None = None, keepdims: bool = False, **others: Any) -> Any:
    return ew.equal(_count(ew.equal(a, 0), axis, keepdims=keepdims), 0)


def _isclose(a: Any, b: Any, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False) -> Any:
    isnan, isfinite = ew.TABLE["isnan"], ew.TABLE["isfinite"]
    near = ew.less_equal(ew.absolute(a - b), atol + rtol * ew.absolute(b))
    close = bind(ew.TABLE["logical_or"], (ew.equal(a, b), bind(ew.TABLE["logical_and"], (near, bind(isfinite, (b,), {})), {})), {})
    if not equal_nan:
        return close
    both = bind(ew.TABLE["logical_and"], (bind(isnan, (a,), {}), bind(isnan, (b,), {})), {})
    return bind(ew.TABLE["logical_or"], (close, both), {})


def _searchsorted(a: Any, v: Any, side: str = "left", sorter: None = None) -> Any:
    column = st.reshape(v, shape=(*v.shape, 1)) if hasattr(v, "dtype") else v
    before = ew.less(a, column) if side == "left" else ew.less_equal(a, column)
    return st.add_up(st.astype(before, dtype=_INDEX), axis=(before.ndim - 1,), keepdims=False)


def _clip(a: Any, a_min: Any = None, a_max: Any = None, *others: Any, **more: Any) -> Any:
    a = a if a_min is None else bind(ew.maximum, (a, a_min), {})
    return a if a_max is None else bind(ew.minimum, (a, a_max), {})


def _round(a: Any, decimals: int) -> Any:
    if not decimals:
        return bind(ew.TABLE["rint"], (a,), {})
    return bind(ew.TABLE["rint"], (a * 10.0**decimals,), {}) / 10.0**decimals


def _flip(m: Any, axis: Any = None) -> Any:
    axes = tuple(range(m.ndim)) if axis is None else (axis,) if isinstance(axis, int) else axis
    named = {a % m.ndim for a in axes}
    return st.getitem(m, index=tuple(slice(None, None, -1 if k in named else None) for k in range(m.ndim)))


def _nan_to_num(x: Any, copy: bool = True, nan: Any = 0.0, posinf: Any = None, neginf: Any = None) -> Any:
    if x.dtype.kind != "f":
        return x
    most, least = np.finfo(x.dtype).max if posinf is None else posinf, np.finfo(x.dtype).min if neginf is None else neginf
    infinite = bind(ew.where, (ew.greater(x, 0.0), most, least), {})
    other = bind(ew.where, (bind(ew.TABLE["isnan"], (x,), {}), nan, infinite), {})
    return st.astype(bind(ew.where, (bind(ew.TABLE["isfinite"], (x,), {}), x, other), {}), dtype=x.dtype)


FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    "nan_to_num": _nan_to_num,
    "argmax": _argmax,
    "argmin": _argmin,
    "argsort": _argsort,
    "any": _any,
    "all": _all,
    "count_nonzero": _count,
    "isclose": _isclose,
    "searchsorted": _searchsorted,
    "clip": _clip,
    "flip": _flip,
    "shape": lambda a: a.shape,
    "ndim": lambda a: a.ndim,
    "size": lambda a, axis=None: a.size if axis is None else a.shape[axis],
    "iscomplexobj": lambda x: x.dtype.kind == "c",
    "result_type": lambda *given: np.result_type(*(getattr(g, "dtype", g) for g in given)),
    "broadcast_to": lambda array, shape, subok=False: st.broadcast_to(array, shape=shape),
    "reshape": lambda a, shape: st.reshape(a, shape=shape),
    "max": lambda a, axis=None, out=None, keepdims=False, **others: _extremum(a, axis, keepdims, True, others),
    "min": lambda a, axis=None, out=None, keepdims=False, **others: _extremum(a, axis, keepdims, False, others),
    "where": lambda c, x, y: bind(ew.where, (c, x, y), {}),
    "round": lambda a, decimals=0, out=None: _round(a, decimals),
    "ravel": lambda a, order="C": st.reshape(a, shape=(-1,)),
}
"""Functions of NumPy by name, on abstract values."""


def _extremum(a: Any, axis: Any, keepdims: bool, largest: bool, others: Mapping[str, Any]) -> Any:
    axes = tuple(range(a.ndim)) if axis is None else tuple(k % a.ndim for k in (axis if isinstance(axis, tuple) else (axis,)))
    rest = tuple(k for k in range(a.ndim) if k not in axes)
    rows = st.reshape(st.transpose(a, axes=(*rest, *axes)), shape=(*(a.shape[k] for k in rest), -1))
    winner = rd.pick(rows, rd.winners(rows, largest=largest), -1)
    return st.reshape(winner, shape=tuple(1 if k in axes else n for k, n in enumerate(a.shape) if keepdims or k not in axes))


OF_VALUES = frozenset(
    (
        "nonzero",
        "flatnonzero",
        "argwhere",
        "unique",
        "allclose",
        "array_equal",
        "array_equiv",
        "isin",
        "argpartition",
        "lexsort",
        "digitize",
    )
)
"""Functions of NumPy whose results have no static shape or decide something in Python."""
REMEDIES = {
    "nonzero": "their number is not known; write where(condition, a, b)",
    "flatnonzero": "their number is not known; write where(condition, a, b)",
    "argwhere": "their number is not known; write where(condition, a, b)",
    "unique": "their number is not known; sort, and compare neighbours",
    "allclose": "compare with abs(a - b) <= tolerance, and choose by where",
}

# operations that are others, one after the other


def _spread(x: Any) -> Any:
    return st.reshape(x, shape=(*x.shape, 1, 1))


def _cofactor(a: Any) -> Any:
    return _spread(determinant.det(a)) * mx.swap(mx.inv(a))  # of one elimination, so that rounding of a pivot cancels


def _cofactor_along(a: Any, x: Any) -> Any:
    b = mx.inv(a)
    b = regular.regular(b, a, b, x, "a second derivative of det")
    moved = mx.matmul(b, x)
    trace = st.add_up(st.diagonal(moved, offset=0), axis=(moved.ndim - 2,), keepdims=False)
    return _spread(determinant.det(a)) * mx.swap(_spread(trace) * b - mx.matmul(moved, b))


def _rebuilt(d: Any, a: Any, w: Any, v: Any) -> Any:
    return mx.matmul(v * st.reshape(d, shape=(*d.shape[:-1], 1, d.shape[-1])), mx.swap(v))


def _sliding(a: Any, v: Any) -> Any:
    n, m = a.shape[0], v.shape[0]
    windows = np.arange(n - m + 1)[:, None] + np.arange(m)
    return mx.contract(st.getitem(a, index=(windows,)), v, x_axes="ki", y_axes="i", out_axes="k")


def _convolved(a: Any, v: Any) -> Any:
    m = v.shape[0]
    edge = np.zeros(m - 1, a.dtype)
    longer = st.concatenate(edge, a, edge, axis=0, lengths=(m - 1, a.shape[0], m - 1))
    return _sliding(longer, _flip(v))


def _sum_of_squares(x: Any, weight: Any) -> Any:
    return st.add_up(weight * x * x, axis=None, keepdims=False)


def _along(axis: int, start: int | None, stop: int | None) -> Any:
    return (*(slice(None),) * axis, slice(start, stop))


def _difference(x: Any, axis: int) -> Any:
    return st.getitem(x, index=_along(axis, 1, None)) - st.getitem(x, index=_along(axis, None, -1))


def _difference_transposed(ct: Any, axis: int, shape: tuple[int, ...]) -> Any:
    zeros = np.zeros(shape, ct.dtype)
    return st.index_add(st.index_add(zeros, ct, index=_along(axis, 1, None)), -ct, index=_along(axis, None, -1))


EXPANDED: Mapping[str, Callable[..., Any]] = {
    "cofactor": _cofactor,
    "cofactor_along": _cofactor_along,
    "rebuilt": _rebuilt,
    "regular": regular.regular,
    "regular_factor": regular.factor,
    "regular_solve": regular.solved,
    "sliding": _sliding,
    "convolved": _convolved,
    "sum_of_squares": _sum_of_squares,
    "diff": _difference,
    "diff transposed": _difference_transposed,
}
"""Operations, written with others."""

# shapes and types of results


def _matrix(a: Any, *others: Any, **params: Any) -> Any:
    return np.ones_like(a)


def _solution(a: Any, b: Any) -> Any:
    return np.ones(np.broadcast_shapes(a.shape[:-2], b.shape[:-2]) + b.shape[-2:], np.result_type(a, b))


def _number(a: Any) -> Any:
    return np.ones(a.shape[:-2], a.dtype)[()]


EXAMPLES: Mapping[str, Callable[..., Any]] = {
    "take": lambda x, places: np.ones(np.shape(places), x.dtype),
    "add_at": lambda x, places, v: np.array(x),
    "put": lambda x, places, v: np.array(x),
    "stays": lambda places, size, dtype: np.ones(np.shape(places), dtype),
    "within": lambda places, length: np.zeros(np.shape(places), np.asarray(places).dtype)[()],
    "checked": lambda bad, dtype, what: np.zeros(np.shape(bad), dtype),
    "solve": _solution,
    "inv": _matrix,
    "cholesky": _matrix,
    "cofactor": _matrix,
    "cofactor_along": _matrix,
    "det": _number,
    "det_sign": _number,
    "logabsdet": _number,
    "eigh": lambda a: (np.ones(a.shape[:-1], a.dtype), np.ones_like(a)),
    "winners": lambda x, largest: np.zeros((*x.shape[:-1], 1), _INDEX),
    "running_winners": lambda x, largest, reverse: np.zeros(x.shape, _INDEX),
}
"""Results of the right shape and type, whatever the values are."""


def example(primitive: Primitive, examples: Sequence[Any], params: Mapping[str, Any]) -> Any:
    """A result of a primitive of the shape, type and layout of all that it may give."""
    own = EXAMPLES.get(primitive.name)
    result = (primitive.evaluate if own is None else own)(*examples, **params)
    return result if primitive.multiple or hasattr(result, "dtype") else np.asarray(result)[()]
