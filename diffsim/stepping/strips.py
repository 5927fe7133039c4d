"""Boundary strips: where a step damps, what it overwrites is kept, since it cannot be computed backwards without losing digits.

Absorbing edges are strips of such cells, hence the name; any damped cell counts. They are kept in whole tiles.

Reference: Clapp (2009), Reverse time migration with random boundaries, SEG Technical Program Expanded Abstracts, 2809-2813,
    doi:10.1190/1.3255432, which compares ways to go backwards with absorbing edges; there, a strip as wide as the stencil's reach is kept
    and the edge itself is given up. Here the edge is kept too, as gradients are those of all cells.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from diffsim.errors import PlanError
from diffsim.field import Layout
from diffsim.typing import Array, IntArray

LOST = 0.5
"""Where |B| to the power of the steps is at least this, rounding errors grow by no more than its inverse, and nothing is kept."""


def damped_tiles(factor: Array, steps: int, layout: Layout) -> IntArray:
    """Tiles with a cell that is damped: row indices without halo and the tile's place in its row, shape (tiles, axes), in C order.

    Args:
        factor: of the overwritten value in the next one, over the cells.
        steps: of the run.
        layout: of the field.
    """
    with np.errstate(under="ignore", over="ignore"):
        damped = ~(np.abs(factor.astype(float)) ** steps >= LOST)
    missing = layout.tiles * layout.lanes - layout.shape[-1]
    padded = np.pad(damped, [(0, 0)] * (damped.ndim - 1) + [(0, missing)])
    return np.argwhere(padded.reshape(*layout.shape[:-1], layout.tiles, layout.lanes).any(axis=-1))


def tile_addresses(tiles: IntArray, layout: Layout) -> IntArray:
    """Where in the storage of a field, counted in tiles, the tiles lie."""
    rows = tiles[:, :-1] + np.array(layout.halo[:-1], np.int64)
    strides = layout.strides if len(layout.shape) > 1 else ()
    return rows @ np.array(strides, np.int64) + tiles[:, -1] + layout.halo_tiles


def strip_rows(tiles: Mapping[str, IntArray], steps: int) -> dict[str, int]:
    """Tiles that are kept of each state over a run.

    Raises:
        PlanError: more than an index can count.
    """
    rows = {state: steps * len(found) for state, found in tiles.items()}
    most = max(rows.values(), default=0)
    if most >= 2**31:
        raise PlanError(
            f"expected fewer than 2^31 tiles of damped cells to be kept, got {most} over {steps} steps; "
            "use another schedule than 'reversible', fewer steps or a narrower sponge"
        )
    return rows
