"""The number of cells of a layer at each side of the grid."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from diffsim.base.arguments import whole
from diffsim.base.messages import shown
from diffsim.errors import ParameterError
from diffsim.mesh.grid import Grid

Pair: TypeAlias = tuple[int, int]
Cells: TypeAlias = int | Sequence[int | Sequence[int]]


def cells_of_sides(name: str, cells: Cells, grid: Grid) -> tuple[Pair, ...]:
    """Cells at the low and at the high side of each axis.

    Args:
        name: of the argument, for messages.
        cells: one number for all sides, or one entry an axis: a number for both sides, or a pair for the low and the high one.
        grid: on which at least one cell along each axis has to be left between the layers.

    Raises:
        ParameterError: something else.
    """
    entries = list(cells) if isinstance(cells, (tuple, list)) else [cells] * grid.ndim
    if len(entries) != grid.ndim:
        raise ParameterError(
            f"{name} = {shown(cells)} has length {len(entries)}, expected one number of cells, or "
            f"{grid.ndim} entries (one an axis); give those, with a pair (low, high) for an axis whose sides differ"
        )
    sides = []
    for axis, (entry, n) in enumerate(zip(entries, grid.shape, strict=True)):
        pair = tuple(entry) if isinstance(entry, (tuple, list)) else (entry, entry)
        if len(pair) != 2:
            raise ParameterError(f"{name} = {shown(entry)} along axis {axis}, expected a number of cells or a pair (low, high); give one")
        low, high = (whole(name, side, 0, remedy="give the cells of the layer, 0 for a side without") for side in pair)
        if low + high >= n:
            expected = f"0 to {(n - 1) // 2}" if low == high else f"a sum of at most {n - 1}"
            got = str(low) if low == high else str((low, high))
            raise ParameterError(f"{name} = {got} cells, expected {expected} along axis {axis} of a grid of {grid.shape}; narrow it")
        sides.append((low, high))
    return tuple(sides)
