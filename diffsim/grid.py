"""The grid: how many cells, how large, where, and what the axes are called."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from diffsim.arguments import names, real_array, shape_of, shown, whole
from diffsim.errors import ShapeError
from diffsim.typing import Array

MAX_DIMENSIONS = 3


@dataclass(frozen=True, init=False)
class Grid:
    """A uniform grid of cells in one to three dimensions; arrays over it are C-ordered, the last axis contiguous.

    Cell i of an axis has its centre at `origin + i * spacing` and its upper face half a spacing further.

    Args:
        shape: cells along each axis.
        spacing: distance of neighbouring cell centres along each axis (one number for all, or one an axis), in metres
            unless an equation says otherwise.
        origin: coordinate of the centre of the first cell.
        axes: names of the axes, for figures and messages.

    Raises:
        ShapeError: a number of axes other than 1 to 3, no cells, or a spacing that is not positive.
    """

    shape: tuple[int, ...]
    spacing: tuple[float, ...]
    origin: tuple[float, ...]
    axes: tuple[str, ...]

    def __init__(
        self,
        shape: Sequence[int],
        spacing: float | Sequence[float],
        origin: float | Sequence[float] = 0.0,
        axes: Sequence[str] | None = None,
    ) -> None:
        shape = shape_of("grid shape", shape, MAX_DIMENSIONS)
        object.__setattr__(self, "shape", shape)
        object.__setattr__(self, "spacing", _per_axis("spacing", spacing, len(shape)))
        object.__setattr__(self, "origin", _per_axis("origin", origin, len(shape)))
        if not all(0 < h < math.inf for h in self.spacing):
            raise ShapeError(f"grid spacing = {self.spacing}, expected positive and finite; give the distance of cell centres")
        if not all(map(math.isfinite, self.origin)):
            raise ShapeError(f"grid origin = {self.origin}, expected finite; give the coordinate of the first cell's centre")
        found = ("z", "y", "x")[-len(shape) :] if axes is None else names("grid axes", axes, "('z', 'x')")
        if len(found) != len(shape):
            raise ShapeError(f"grid axes = {shown(axes)}, expected {len(shape)} names; give one an axis")
        object.__setattr__(self, "axes", found)

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    @property
    def cell_volume(self) -> float:
        """Product of the spacings."""
        return math.prod(self.spacing)

    def coordinates(self, axis: int, location: int = 0) -> Array:
        """Coordinates along `axis`, of cell centres (location 0) or of upper faces (location 1)."""
        axis = whole("axis", axis, -self.ndim, self.ndim - 1, error=ShapeError)
        location = whole("location", location, 0, 1, "give 0 for centres or 1 for upper faces", ShapeError)
        return self.origin[axis] + self.spacing[axis] * (np.arange(self.shape[axis]) + 0.5 * location)


def _per_axis(name: str, value: float | Sequence[float], ndim: int) -> tuple[float, ...]:
    array = np.atleast_1d(real_array(f"grid {name}", value, float))
    if array.shape not in ((1,), (ndim,)):
        raise ShapeError(f"grid {name} = {shown(value)} has shape {array.shape}, expected one number, or {ndim} (one an axis); give those")
    return tuple(np.broadcast_to(array, ndim).tolist())
