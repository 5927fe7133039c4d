"""NumPy arrays with cells around them: how the steps in NumPy read neighbours."""

from __future__ import annotations

import numpy as np

from tests.solvers.plain import OUTSIDE


def padded(width: int, rule: str, *arrays: np.ndarray) -> list[np.ndarray]:
    """The arrays with `width` cells more at every end. A step that reads no further may wrap around: `inside` cuts that off."""
    return [np.pad(array, width, **OUTSIDE[rule]) for array in arrays]


def inside(width: int, array: np.ndarray) -> np.ndarray:
    return array[(slice(width, -width),) * array.ndim]


def ahead(array: np.ndarray, axis: int, cells: int = 1) -> np.ndarray:
    """At each cell the value `cells` further along an axis."""
    return np.roll(array, -cells, axis)


def five_points(array: np.ndarray) -> np.ndarray:
    """Sum of the four neighbours in two dimensions, less four times the value."""
    return ahead(array, 0) + ahead(array, 0, -1) + ahead(array, 1) + ahead(array, 1, -1) - 4 * array
