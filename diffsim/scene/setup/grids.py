"""The grid of a scene, that with cells around it for a layer, and finer ones of the same region."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from diffsim.base.messages import shown
from diffsim.base.quantities.units import plain
from diffsim.errors import SceneError
from diffsim.layers import CPML, Sponge
from diffsim.layers.cells import Pair
from diffsim.mesh.grid import Grid
from diffsim.scene.schema.data import load_dataset
from diffsim.scene.schema.schema import Description, GridModel
from diffsim.scene.words.explain import prefix_error
from diffsim.stepping.declare.equation import Equation


def build_grid(model: GridModel) -> Grid:
    """The scene's grid."""
    shape, ndim = model.shape, len(model.shape)
    unit = _unit(model)
    if model.spacing is not None:
        with prefix_error("grid"):
            spacing = model.spacing * ndim if len(model.spacing) == 1 else model.spacing
            return Grid(shape, spacing, model.origin or 0.0, model.axes, unit)
    assert model.like is not None
    coordinates = load_dataset(model.like, "grid.like").coordinates
    if coordinates is None or len(coordinates) != ndim:
        has = "none" if coordinates is None else f"{len(coordinates)} axes of them"
        raise SceneError(f"grid.like: expected a data set with coordinates along {ndim} axes, found {has} in {model.like}; give spacing")
    ends = [(float(c[0]), float(c[-1])) for c in coordinates]
    for axis, (n, (first, last)) in enumerate(zip(shape, ends, strict=True)):
        if n < 2 or not last > first:
            raise SceneError(
                f"grid.like: expected coordinates that increase, and two cells or more, found {first:g} to {last:g} along axis {axis} and "
                f"{n} cells; give spacing"
            )
    with prefix_error("grid"):
        spacing = tuple((last - first) / (n - 1) for n, (first, last) in zip(shape, ends, strict=True))
        return Grid(shape, spacing, [first for first, _ in ends], model.axes, unit)


def _unit(model: GridModel) -> str | None:
    """The unit of coordinates: that of all axes; None: that of their names."""
    if model.units is None:
        return None
    units = model.units
    other = next((unit for unit in units if plain(unit) != plain(units[0])), None)
    if other is not None:
        raise SceneError(f"grid.units: expected one unit for all axes, found {shown(units[0])} and {shown(other)}; give coordinates in one")
    return units[0]


def grids_of(scene: Description) -> tuple[Grid, Grid | None]:
    """The scene's own grid, and that without the cells around it for a layer; None: there are none around."""
    inner = build_grid(scene.grid)
    if not scene.grid.around:
        return inner, None
    with prefix_error("equation"):
        room = [(scene.equation.widest(),) * 2] * inner.ndim  # so that the layer fits a grid that is smaller than itself
        sides = layer_of(scene.equation.build(wider(inner, room), 1.0))
    if not np.any(sides):
        raise SceneError("grid.around: expected an equation with a layer or a sponge, found none; give one, or drop around")
    return wider(inner, sides), inner


def wider(grid: Grid, sides: Sequence[tuple[int, int]]) -> Grid:
    """A grid with more cells at the low and the high side of each axis."""
    shape = [low + n + high for n, (low, high) in zip(grid.shape, sides, strict=True)]
    origin = [first - low * h for first, h, (low, _) in zip(grid.origin, grid.spacing, sides, strict=True)]
    return Grid(shape, grid.spacing, origin, grid.axes, grid.unit)


def layer_of(equation: Equation) -> tuple[Pair, ...]:
    """Cells of the widest absorbing layer that the equation keeps as an attribute, at the low and the high side of each axis."""
    layers = [part.cells for part in vars(equation).values() if isinstance(part, Sponge | CPML)]
    layers.append(((0, 0),) * equation.grid.ndim)
    return tuple((int(low), int(high)) for low, high in np.max(layers, axis=0))


def refined(grid: Grid, factor: float) -> Grid:
    """A grid of `factor` times as many cells along each axis, covering the same region."""
    shape = [round(n * factor) for n in grid.shape]
    spacing = [h * n / m for h, n, m in zip(grid.spacing, grid.shape, shape, strict=True)]
    origin = [first - 0.5 * h + 0.5 * new for first, h, new in zip(grid.origin, grid.spacing, spacing, strict=True)]
    return Grid(shape, spacing, origin, grid.axes, grid.unit)
