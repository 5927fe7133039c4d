"""Slabs: which rows of the first axis each worker of the CPU computes, and how many workers get one.

The same instructions compute each cell in every slab, so the number of workers never changes a bit.
"""

from __future__ import annotations

import math

from diffsim.boundary import Ghost
from diffsim.mesh.field import Layout

TALLEST_BLOCK = 4
"""Most rows that a nest computes together."""
LEAST_CYCLES = 12_000
"""Approximate cycles of a step that are worth a thread: about 1 us, in which a barrier takes 0.3 us and to wake a thread 10 us a launch."""


def useful_workers(layout: Layout, threads: int, cycles: float = math.inf) -> int:
    """The number of threads that get a slab.

    Args:
        layout: of the fields.
        threads: that there are.
        cycles: for a step, by `sharing.cost`. Where they are few, a barrier takes longer than what another thread saves.
    """
    worth = max(1, int(min(cycles / LEAST_CYCLES, threads)))
    return max(1, min(worth, layout.rows[0] // grain(layout)))


def grain(layout: Layout) -> int:
    """Slabs have a multiple of so many rows (planes in three dimensions), but for the last one."""
    return layout.joined if len(layout.rows) == 2 else TALLEST_BLOCK * math.ceil(layout.joined / TALLEST_BLOCK)


def slab_bounds(layout: Layout, workers: int) -> list[int]:
    """First row (plane in three dimensions) of each worker's slab, and the end. Blocks of rows never depend on the workers."""
    n, unit = layout.rows[0], grain(layout)
    return [worker * (n // unit) // workers * unit for worker in range(workers)] + [n]


def owner_row(layout: Layout, ghost: Ghost, axis: int = 0) -> int:
    """The row of storage whose owner fills, or folds, a row outside the grid: the first one that it depends on."""
    halo, rows = layout.row_halo[axis], layout.rows[axis]
    return ghost.cells[0][0] if ghost.cells else min(max(ghost.position, halo), halo + rows - 1)


def owned(layout: Layout, row: int | str, axis: int = 0) -> str:
    """Source of the condition that a row of storage is in the worker's slab, or along axis 1 in the present band of rows."""
    halo, (low, high) = layout.row_halo[axis], (("lo", "hi"), ("front", "back"))[axis]
    return f"if {low} + {halo} <= {row} and {row} < {high} + {halo}"


def owner(layout: Layout, ghost: Ghost, axis: int = 0) -> str:
    """Source of the condition under which a row outside the grid is filled, or folded."""
    return owned(layout, owner_row(layout, ghost, axis), axis)
