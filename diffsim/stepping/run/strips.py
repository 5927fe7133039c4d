"""Boundary strips: values that a damping step overwrites are stored, because computing them backwards would lose digits.

Absorbing edges are strips of such cells, hence the name, but the strips contain all damped cells. They are stored in whole tiles.

Reference: Clapp (2009), Reverse time migration with random boundaries, SEG Technical Program Expanded Abstracts, 2809-2813,
    doi:10.1190/1.3255432, which compares ways to run backwards with absorbing edges. There, a strip as wide as the stencil's reach is
    stored, but not the edge itself. Departure: the edge is stored too, because gradients need all cells.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from diffsim.errors import PlanError
from diffsim.mesh.field import Layout
from diffsim.typing import Array, IntArray

LOST = 0.5
"""If |B| to the power of the steps is at least this, rounding errors grow at most by its inverse, and the cell is not stored."""


def damped_tiles(factor: Array, steps: int, layout: Layout) -> IntArray:
    """Tiles with a damped cell: row indices without halo and the tile's place in its row, shape (tiles, axes), in C order.

    `factor` is that of the overwritten value in the next value, over the cells.
    """
    with np.errstate(under="ignore", over="ignore"):
        damped = ~(np.abs(factor.astype(float)) ** steps >= LOST)
    missing = layout.tiles * layout.lanes - layout.shape[-1]
    padded = np.pad(damped, [(0, 0)] * (damped.ndim - 1) + [(0, missing)])
    return np.argwhere(padded.reshape(*layout.shape[:-1], layout.tiles, layout.lanes).any(axis=-1))


def tile_addresses(tiles: IntArray, layout: Layout) -> IntArray:
    """The addresses of tiles in the storage of a field, in tiles."""
    rows = tiles[:, :-1] + np.array(layout.halo[:-1], np.int64)
    strides = layout.strides if len(layout.shape) > 1 else ()
    return rows @ np.array(strides, np.int64) + tiles[:, -1] + layout.halo_tiles


def strip_rows(tiles: Mapping[str, IntArray], steps: int) -> dict[str, int]:
    """State -> number of tiles that are stored over a run.

    Raises:
        PlanError: the number exceeds the range of an index.
    """
    rows = {state: steps * len(each) for state, each in tiles.items()}
    most = max(rows.values(), default=0)
    if most >= 2**31:
        raise PlanError(
            f"expected fewer than 2^31 tiles of damped cells to be kept, got {most} over {steps} steps; "
            "use another schedule than 'reversible', fewer steps or a narrower sponge"
        )
    return rows
