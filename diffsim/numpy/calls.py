"""Python functions called entry by entry, or line by line."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from diffsim.ad.core import local
from diffsim.errors import DerivativeError
from diffsim.numpy.calling.dispatch import as_array, as_computed, one_axis, outside, plain
from diffsim.numpy.shapes.creation import asarray
from diffsim.numpy.shapes.joining import stack
from diffsim.numpy.shapes.shaping import broadcast_arrays, moveaxis, reshape


class vectorize:  # noqa: N801 -- NumPy's name
    """A function of numbers as one of arrays, that broadcasts its arguments; a loop, as NumPy's.

    Args:
        pyfunc: of numbers, to a number or a tuple of numbers.
        options: NumPy's, for use outside of a derivative; inside, there are none.
    """

    def __init__(self, pyfunc: Any = np._NoValue, **options: Any) -> None:
        self._theirs = np.vectorize(pyfunc, **options)  # which refuses wrong options
        self.pyfunc, self.options = pyfunc, options
        self.__name__, self.__doc__ = getattr(pyfunc, "__name__", "vectorize"), pyfunc.__doc__

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self.pyfunc is np._NoValue:  # a decorator with options
            return vectorize(*args, **self.options)
        if not local.depth:
            return self._theirs(*args, **kwargs)
        if any(value is not None and value is not False for key, value in self.options.items() if key not in ("otypes", "doc")):
            raise DerivativeError(f"vectorize with {', '.join(self.options)} has no derivative; write a loop, or use ds.map")
        arrays = broadcast_arrays(*args)
        shape = arrays[0].shape
        columns = [reshape(a, (-1,)) for a in arrays]
        results = [self.pyfunc(*(c[i] for c in columns), **kwargs) for i in range(math.prod(shape))]
        models = [np.empty_like(plain(asarray(a))) for a in args]
        if results and isinstance(results[0], tuple):
            return tuple(as_array(as_computed(reshape(stack(part), shape), *models)) for part in zip(*results, strict=True))
        return as_array(as_computed(reshape(stack(results), shape), *models))


@outside(np, calls=True)
def apply_along_axis(func1d: Callable[..., Any], axis: int, arr: Any, *args: Any, **kwargs: Any) -> Any:
    """A function of vectors applied to every line along an axis; its result takes the place of the line."""
    arr = asarray(arr)
    axis = one_axis(axis, arr.ndim)
    lines = moveaxis(arr, axis, -1)
    rest = lines.shape[:-1]
    lines_out = [func1d(line, *args, **kwargs) for line in reshape(lines, (math.prod(rest), lines.shape[-1]))]
    result = stack(lines_out)
    result = reshape(result, (*rest, *result.shape[1:]))
    extra = result.ndim - len(rest)
    return moveaxis(result, tuple(range(len(rest), result.ndim)), tuple(range(axis, axis + extra))) if extra else result
