"""Functions that values decide and that have no derivative: comparisons of whole arrays, positions, indices."""

from __future__ import annotations

from typing import Any

import numpy as np

from diffsim.ad.arrays.array import Array, core, wrap
from diffsim.ad.core import laid_out
from diffsim.numpy.calling.dispatch import is_complex, of_values, one_axis, places_of
from diffsim.numpy.calling.rehearsal import rehearsed

all, any = of_values(np.all), of_values(np.any)
array_equal, array_equiv = of_values(np.array_equal), of_values(np.array_equiv)
allclose, isclose = of_values(np.allclose), of_values(np.isclose)
isin = of_values(np.isin)
isneginf, isposinf = of_values(np.isneginf), of_values(np.isposinf)
nonzero, flatnonzero = of_values(np.nonzero), of_values(np.flatnonzero)
argwhere, count_nonzero = of_values(np.argwhere), of_values(np.count_nonzero)
argmax, argmin = of_values(np.argmax), of_values(np.argmin)
nanargmax, nanargmin = of_values(np.nanargmax), of_values(np.nanargmin)
argpartition, searchsorted = of_values(np.argpartition), of_values(np.searchsorted)
digitize, lexsort = of_values(np.digitize), of_values(np.lexsort)
unravel_index, ravel_multi_index = of_values(np.unravel_index), of_values(np.ravel_multi_index)
tril_indices, tril_indices_from = of_values(np.tril_indices), of_values(np.tril_indices_from)
triu_indices, triu_indices_from = of_values(np.triu_indices), of_values(np.triu_indices_from)
diag_indices, diag_indices_from = of_values(np.diag_indices), of_values(np.diag_indices_from)
ix_ = of_values(np.ix_)
ndindex = np.ndindex


@rehearsed(np.argsort)
def argsort(a: Any, axis: int | None = -1, kind: Any = None, *, stable: bool | None = None, descending: bool = False) -> Any:
    """Positions that sort an array, equal entries in their order."""
    values = places_of(a)
    if axis is None:
        values, axis = values.reshape(-1), 0
    if not descending:
        return wrap(np.argsort(values, axis=axis, kind="stable"))
    axis = one_axis(axis, values.ndim)
    backwards = np.argsort(np.flip(values, axis), axis=axis, kind="stable")
    return wrap(values.shape[axis] - 1 - np.flip(backwards, axis))


# types and memory


class _ArrayKind(type):
    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, (Array, np.ndarray))


class ndarray(metaclass=_ArrayKind):  # noqa: N801 -- NumPy's name
    """The type for `isinstance(x, np.ndarray)`: an array of NumPy or a differentiated one."""


@rehearsed(np.result_type)
def result_type(*arrays_and_dtypes: Any) -> Any:
    """The type that NumPy's promotion gives."""
    return np.result_type(*(laid_out(core(a)) if isinstance(a, Array) else a for a in arrays_and_dtypes))


def iscomplexobj(x: Any) -> bool:
    """True if the type is complex."""
    return is_complex(x)


def isrealobj(x: Any) -> bool:
    """True if the type is not complex."""
    return not iscomplexobj(x)


def isscalar(element: Any) -> bool:
    """True if `element` is a number."""
    return np.isscalar(element) or (isinstance(element, Array) and element._scalar)


@rehearsed(np.shares_memory)
def shares_memory(a: Any, b: Any) -> bool:
    """True if one array is the other or a view of it."""

    def roots(x: Any) -> set[int]:
        ids = set()
        while x is not None:
            ids.add(id(x))
            x = getattr(x, "_base", None)
        return ids

    if isinstance(a, Array) or isinstance(b, Array):
        return not roots(a).isdisjoint(roots(b))
    return np.shares_memory(a, b)
