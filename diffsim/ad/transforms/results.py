"""Parts that the transformations share: results taken out of a trace, and cotangents and tangents checked."""

from __future__ import annotations

from typing import Any

import numpy as np

from diffsim.ad.arrays import guard
from diffsim.ad.arrays.array import core, wrap
from diffsim.ad.arrays.leaves import array_core
from diffsim.ad.core import Tracer, ended
from diffsim.ad.ops.structure import astype
from diffsim.ad.tree import flatten, unflatten
from diffsim.base import buffers
from diffsim.errors import ShapeError


def split_aux(result: Any, has_aux: bool) -> tuple[Any, Any]:
    if not has_aux:
        return result, None
    if not isinstance(result, tuple) or len(result) != 2:
        raise ShapeError(f"with has_aux the function returned {type(result).__name__}, expected a pair (value, aux)")
    return result


def result_of(value: Any) -> Any:
    """A result that may be edited without touching the tape."""
    if isinstance(value, Tracer) and value.trace.ended:
        raise ended()
    if isinstance(value, np.ndarray):
        value = buffers.copy(value)
    return wrap(value)


class Extra:
    """Results of a function besides its value: read while its trace runs, handed out afterwards."""

    def __init__(self, aux: Any) -> None:
        self.leaves, self.tree = flatten(aux)
        self.cores = [array_core(leaf) for leaf in self.leaves]

    def released(self, trace: Any) -> Any:
        """The same without the tracers of the trace."""
        out = []
        for leaf, value in zip(self.leaves, self.cores, strict=True):
            mine = isinstance(value, Tracer) and value.trace is trace
            out.append(leaf if value is None else result_of(value.primal if mine else value))
        return unflatten(self.tree, out)


def checked_cotangent(ct: Any, shape: tuple[int, ...], dtype: Any, what: str = "a cotangent") -> Any:
    if isinstance(ct, np.ndarray):
        guard.require_plain(ct)
    try:
        ct = core(ct)
    except ValueError as error:
        raise ShapeError(f"{what} cannot become an array ({error}), expected the shape {shape}; give an array") from None
    if isinstance(ct, complex) and dtype.kind != "c":
        raise ShapeError(f"{what} is complex, expected the type of its value, {dtype}; take its real part")
    ct = ct if hasattr(ct, "dtype") else dtype.type(ct)
    if ct.dtype.kind not in "fciub":
        raise ShapeError(f"{what} is of type {ct.dtype}, expected the type of its value, {dtype}; give numbers")
    if ct.shape != shape:
        raise ShapeError(f"{what} has the shape {ct.shape}, expected that of its value, {shape}")
    if ct.dtype.kind == "c" and dtype.kind != "c":
        raise ShapeError(f"{what} is complex, expected the type of its value, {dtype}; take its real part")
    return ct if ct.dtype == dtype else astype(ct, dtype=dtype)
