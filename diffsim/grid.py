"""The grid: how many cells, how large, where, and what the axes are called."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

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
        if np.ndim(shape) != 1 or any(int(n) != n for n in shape):
            raise ShapeError(f"grid shape = {shape}, expected whole numbers, one an axis, such as (100, 200)")
        shape = tuple(int(n) for n in shape)
        if not 1 <= len(shape) <= MAX_DIMENSIONS:
            raise ShapeError(f"grid shape = {shape} has {len(shape)} axes, expected 1 to {MAX_DIMENSIONS}")
        if min(shape) < 1:
            raise ShapeError(f"grid shape = {shape}, expected at least one cell along each axis")
        object.__setattr__(self, "shape", shape)
        object.__setattr__(self, "spacing", _per_axis("spacing", spacing, len(shape)))
        object.__setattr__(self, "origin", _per_axis("origin", origin, len(shape)))
        if not all(0 < h < math.inf for h in self.spacing):
            raise ShapeError(f"grid spacing = {self.spacing}, expected positive and finite")
        if not all(map(math.isfinite, self.origin)):
            raise ShapeError(f"grid origin = {self.origin}, expected finite")
        names = tuple(axes) if axes is not None else ("z", "y", "x")[-len(shape) :]
        if len(names) != len(shape):
            raise ShapeError(f"grid axes = {names}, expected {len(shape)} names")
        object.__setattr__(self, "axes", names)

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
        return self.origin[axis] + self.spacing[axis] * (np.arange(self.shape[axis]) + 0.5 * location)


def _per_axis(name: str, value: float | Sequence[float], ndim: int) -> tuple[float, ...]:
    values = tuple(np.atleast_1d(np.asarray(value, float)).tolist())
    values = values * ndim if len(values) == 1 else values
    if len(values) != ndim:
        raise ShapeError(f"grid {name} = {value} has {len(values)} entries, expected one, or {ndim} (one an axis)")
    return values
