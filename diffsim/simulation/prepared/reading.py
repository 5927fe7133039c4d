"""Inputs of a run as arrays: of arrays and numbers, of files that are mapped into memory, and of functions of coordinates.

A field may be a function of the coordinates of its cells, `lambda z, x: 1500 + 0.5 * z`. Its arguments are those of the axes along which
the field varies, in the grid's unit, at the place on the cell where the field lies, in arrays that NumPy broadcasts to the field's shape.
"""

from __future__ import annotations

from collections.abc import Callable
from types import EllipsisType
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from diffsim.ad.arrays.array import Array as DifferentiatedArray
from diffsim.ad.arrays.array import core
from diffsim.ad.core import is_plain
from diffsim.base.arguments import real_array
from diffsim.base.messages import reason_shown, shown
from diffsim.base.quantities import ANYTHING, Meaning, is_bare
from diffsim.errors import DerivativeError, DiffsimError, ParameterError, ShapeError
from diffsim.simulation.prepared.checks import all_finite, check_input
from diffsim.simulation.prepared.inputs import OfOneRun, input_meaning, unit_of
from diffsim.stepping.ir.names import primal
from diffsim.typing import Array

Slices = tuple[slice, ...]
LARGE = 1e38
"""Numbers that are smaller are finite in each precision."""


class OfShapes(OfOneRun, Protocol):
    """A simulation of one run, with the shapes of its inputs."""

    dtype: np.dtype

    def input_shape(self, name: str, steps: int) -> tuple[int, ...]: ...


def is_function(value: object) -> bool:
    """True if an input is a function of coordinates, a polynomial of NumPy (`np.poly1d`, an array of its coefficients too) among them."""
    return callable(value)


def in_memory(value: object) -> bool:
    """True if an input is an array that is there as a whole: neither a function nor a file that is mapped into memory."""
    return not isinstance(value, np.memmap) and not is_function(value)


def whole_array(compiled: OfOneRun, name: str, value: Any, dtype: npt.DTypeLike | None = None) -> Array:
    """An input as an array, that of a function over the whole grid. Its shape and its numbers are not checked.

    Args:
        compiled: the simulation.
        name: of the input.
        value: as the user gives it.
        dtype: of the array; None: its own.
    """
    if is_function(value):
        return evaluated(compiled, name, value, tuple(slice(0, n) for n in compiled.grid.shape), dtype)
    array = real_array(f"input {name}", value, dtype, ANYTHING if is_bare(value) else input_meaning(compiled, name))
    return spread(compiled, name, array)


def spread(compiled: OfOneRun, name: str, value: Any) -> Any:
    """A number as a value for each cell, if the equation says that it may be one; all else as it is."""
    if primal(name) not in compiled.equation.uniform or value.shape:
        return value
    return value * np.ones(compiled.grid.shape, value.dtype)


def checked_array(compiled: OfShapes, name: str, value: Any, steps: int, cells: Slices | None = None) -> Array:
    """An input of a run, in its precision, with its shape and finite numbers.

    Args:
        compiled: the simulation.
        name: of the input.
        value: as the user gives it.
        steps: time steps of the run.
        cells: of the grid. Of a field, only these are read, converted and checked, and returned. None: all.

    Raises:
        ShapeError: the input, or what its function returns, has another shape.
        ParameterError: a number is not finite, or a function raised an error.
    """
    dtype, shape = compiled.dtype, compiled.input_shape(name, steps)
    kind = type(value)
    if kind is np.ndarray and cells is None and value.dtype == dtype and value.shape == shape and all_finite(value):
        return value
    if kind is float and not shape and -LARGE < value < LARGE:
        return np.array(value, dtype)
    series = "step and cell" if len(shape) > 1 else "step"
    per = "step and source" if name in compiled.step.forcings else series if name in compiled.step.series else "cell"
    if is_function(value):
        here = tuple(slice(0, n) for n in compiled.grid.shape) if cells is None else cells
        array = evaluated(compiled, name, value, here, dtype)
        check_input(name, array, array.shape, per)
        return array
    if cells is None or name not in compiled.traced.fields:
        array = whole_array(compiled, name, value, dtype)
        check_input(name, array, shape, per)
        return array
    array = whole_array(compiled, name, value)
    if array.shape == shape:
        axes = compiled.traced.fields[name].axes
        along = cells if axes is None else tuple(cells[axis] for axis in axes)
        where: tuple[slice | EllipsisType, ...] = (*along, ...)
        array, shape = array[where], tuple(part.stop - part.start for part in along)
    array = real_array(f"input {name}", array, dtype)
    check_input(name, array, shape, per)
    return array


def evaluated(compiled: OfOneRun, name: str, function: Callable[..., Any], cells: Slices, dtype: npt.DTypeLike | None = None) -> Array:
    """The values of a field at some cells, of a function of their coordinates, in memory of their own.

    Coordinates are those of the whole grid, so a cell has the same value whichever cells are asked for.

    Raises:
        ShapeError: the function returns another shape.
        ParameterError: it raises an error, returns something else than real numbers, or the input is no field over cells.
        DerivativeError: it uses a value that is differentiated.
        DiffsimError: it raises this error of diffsim.
    """
    grid, placed = compiled.grid, compiled.traced.fields.get(name)
    if placed is None or placed.axes == ():
        expected = "an array with a row for each step" if placed is None else "one number"
        raise ParameterError(
            f"input {name} is a function, expected {expected}: fields over cells alone may be functions of coordinates; give its values"
        )
    axes = range(grid.ndim) if placed.axes is None else placed.axes
    along = [grid.coordinates(axis, placed.location[axis])[cells[axis]] for axis in axes]
    what = f"input {name}, a function of {', '.join(grid.axes[axis] for axis in axes)}"
    at = np.meshgrid(*along, indexing="ij", sparse=True)
    differentiated = f"{what}, uses a value that is differentiated, expected plain numbers alone; give the array of its values"
    try:
        value = function(*at)
    except DerivativeError as error:
        raise DerivativeError(differentiated) from error
    except DiffsimError:
        raise
    except Exception as error:  # the code of a user may raise anything
        shapes = ", ".join(str(each.shape) for each in at)
        raise ParameterError(
            f"{what}, raised {type(error).__name__}: {reason_shown(error)}, expected values of cells whose coordinates are arrays of the "
            f"shapes {shapes}; mend the function {shown(getattr(function, '__name__', function))}"
        ) from error
    if isinstance(value, DifferentiatedArray) and not is_plain(core(value)):
        raise DerivativeError(differentiated)
    values = real_array(what, value, None, ANYTHING if is_bare(value) else Meaning(unit_of(compiled.equation, primal(name))))
    shape = tuple(len(each) for each in along)
    try:
        full = np.broadcast_to(values, shape)
    except ValueError:
        raise ShapeError(
            f"{what}, returned shape {values.shape}, expected {shape} or one that NumPy broadcasts to it; return a value for each cell"
        ) from None
    with np.errstate(over="ignore"):  # overflow gives infinity, which is refused
        return np.array(full, dtype, order="C")
