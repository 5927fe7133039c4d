"""Argument checks that misfits and regularisers share."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from diffsim.ad.arrays.arguments import real_values
from diffsim.ad.arrays.array import core, wrap
from diffsim.ad.ops import squares
from diffsim.base.arguments import real_array
from diffsim.base.messages import shown
from diffsim.base.quantities import ANYTHING, POINTS, Meaning, counted, plain, times
from diffsim.base.quantities.units import plain as plain_unit
from diffsim.errors import ParameterError, ShapeError
from diffsim.typing import Array


def in_f64(name: str, values: Any) -> Any:
    """`values`, floating numbers that may be differentiated, as an array of f64; the gradient keeps their dtype."""
    array = real_values(name, values)
    if array.dtype.kind != "f":
        raise ParameterError(f"{name}: expected floating numbers, got dtype {array.dtype}; convert with .astype(numpy.float64)")
    return real_values(name, array, np.float64)


def sum_of_squares(values: Any, weight: float | Array) -> Any:
    """Σ weight values²; the weight is a number, or broadcasts to the shape of the values."""
    return wrap(squares.sum_of_squares(core(values), core(weight)))


def observed(unit: str, ndim: int) -> Meaning:
    """The dimensions of data, and of numbers that belong to each of them: traces with time first, or an array without labels.

    Args:
        unit: of the values; "" if it is not known.
        ndim: axes of the data.
    """
    receiver = counted("receiver", POINTS)
    return Meaning(unit, ((times(None), receiver), (receiver,)) if ndim == 2 else None)


def inverse_square(unit: str) -> str:
    """The unit of weights for data in a unit."""
    factors = [factor.partition("**") for factor in plain_unit(unit).split(" * ")] if unit else []
    return " ".join(f"{name}**{-2 * int(power or 1)}" for name, _, power in factors)


def check_finite(
    name: str, values: npt.ArrayLike, used: npt.NDArray[np.bool_] | None = None, meaning: Meaning = ANYTHING
) -> npt.NDArray[np.float64]:
    """A copy of `values` in f64; entries where `used` is False may be anything and become 0."""
    array = np.array(real_array(name, values, np.float64, meaning))
    if used is not None:
        try:
            array = np.where(used, array, 0.0)
        except ValueError:
            raise ShapeError(
                f"{name}: expected a shape that goes with mask's {used.shape}, got {array.shape}; reshape or crop it"
            ) from None
    bad = np.argwhere(~np.isfinite(array))
    if len(bad):
        index = tuple(int(i) for i in bad[0])
        raise ParameterError(
            f"{name}: expected finite numbers, got {array[index]} at {index} and {len(bad) - 1} more; "
            "fill the gaps or exclude them by `mask`"
        )
    return array


def check_weight(values: npt.ArrayLike, meaning: Meaning) -> npt.NDArray[np.float64]:
    """A copy of a weight in f64, finite and nowhere below zero."""
    array = check_finite("weight", values, meaning=meaning)
    if array.size and array.min() < 0:
        raise ParameterError(f"weight: expected numbers >= 0, got {array.min():g}; use 0 to switch an entry off")
    return array


def check_mask(mask: npt.ArrayLike | None, meaning: Meaning = ANYTHING) -> npt.NDArray[np.bool_] | None:
    """A copy of `mask`, which must be boolean: integer masks are mistaken for indices too easily."""
    if mask is None:
        return None
    try:
        array = np.array(plain("mask", mask, meaning))
    except ValueError as error:
        raise ParameterError(f"mask = {shown(mask)}, expected an array of booleans; give rows of equal length") from error
    if array.dtype != np.bool_:
        raise ParameterError(f"mask: expected booleans (True: counts), got dtype {array.dtype}; write `mask != 0`")
    return array


def check_fits(name: str, array: npt.NDArray[Any] | None, shape: tuple[int, ...], whose: str) -> None:
    """`array` must broadcast to `shape` without enlarging it."""
    if array is None:
        return
    try:
        fits = np.broadcast_shapes(array.shape, shape) == shape
    except ValueError:
        fits = False
    if not fits:
        raise ShapeError(f"{name}: expected a shape that broadcasts to {whose}'s {shape}, got {array.shape}; reshape or crop it")
