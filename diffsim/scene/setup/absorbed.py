"""Parts of a scene inside an absorbing layer: sources and receivers that hardly sound or hear there, and cells that may change."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import numpy.typing as npt

from diffsim.base.arguments import plural
from diffsim.layers.cells import Pair
from diffsim.mesh.grid import Grid
from diffsim.scene.setup.grids import layer_of
from diffsim.scene.setup.setup import Setup
from diffsim.scene.words.domains import everywhere
from diffsim.scene.words.model import Mask
from diffsim.typing import Array

MOST_NUMBERS = 5
"""Numbers of points in a line."""
NEAR = 1e-6
"""A point closer than this to the rim of a layer, in cells, lies on it."""


def absorbed(setup: Setup, free: Mapping[str, Mask]) -> list[str]:
    """A line for each set of points, and each unknown, of which a part lies inside the absorbing layer.

    Args:
        setup: the scene on its own grid.
        free: unknown -> True where it may change.
    """
    sides = layer_of(setup.equation)
    return [] if not np.any(sides) else [*_points(setup, sides), *_cells(setup, free, sides)]


def inside_layer(grid: Grid, points: Array, sides: tuple[Pair, ...]) -> npt.NDArray[np.bool_]:
    """True if points lie beyond the rim of a layer, shape (points,).

    Args:
        grid: the grid.
        points: positions, shape (points, axes).
        sides: cells of the layer at each side.
    """
    out = np.zeros(len(points), bool)
    for axis, (low, high) in enumerate(sides):
        centres = grid.coordinates(axis)
        index = np.interp(points[:, axis], centres, np.arange(len(centres)))
        out |= (index < low - NEAR) | (index > len(centres) - 1 - high + NEAR)
    return out


def _points(setup: Setup, sides: tuple[Pair, ...]) -> Iterator[str]:
    fired: dict[str, Array] = {}
    for shot in setup.shots:
        for name, places in shot.sources.items():
            if name in setup.guided:  # modes reach across the grid, and so do monitors
                continue
            fired[name] = np.unique(np.concatenate([fired.get(name, places[:0]), places]), axis=0)
    for kind, sets, what in (("sources", fired, "emit"), ("receivers", {} if setup.watched else setup.receivers, "should record")):
        for name, places in sets.items():
            inside = np.flatnonzero(inside_layer(setup.grid, places, sides))
            if len(inside):
                at = "; ".join(_place(setup.grid, places[number]) for number in inside[:MOST_NUMBERS])
                more = f" and {len(inside) - MOST_NUMBERS} more" if len(inside) > MOST_NUMBERS else ""
                yield (
                    f"{kind}.{name}: {len(inside)} of {plural(len(places), 'point')} inside the absorbing layer ({at}{more}), which damps "
                    f"the waves that they {what}; enlarge the grid, or make the layer thinner"
                )


def _place(grid: Grid, point: Array) -> str:
    return ", ".join(f"{axis} = {x:g}" for axis, x in zip(grid.axes, point, strict=True))


def _cells(setup: Setup, free: Mapping[str, Mask], sides: tuple[Pair, ...]) -> Iterator[str]:
    layer = np.ones(setup.grid.shape, bool)
    layer[tuple(slice(low, n - high) for n, (low, high) in zip(setup.grid.shape, sides, strict=True))] = False
    for name, mask in free.items():
        count = int(np.sum(mask & layer)) if everywhere(setup.equation, name) else 0
        if count:
            yield (
                f"unknowns.{name}: {count} of {plural(int(mask.sum()), 'free cell')} inside the absorbing layer, where data hardly tell "
                f"anything; leave them out by mask, such as margin = {max(map(max, sides))}"
            )
