"""Figures of fields over a grid."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt
from matplotlib.figure import Figure

from diffsim.errors import ShapeError
from diffsim.mesh.grid import Grid
from diffsim.plot.chart import Chart
from diffsim.plot.given import Positions, chart_of_grid, over_grid
from diffsim.plot.panels import LEGEND, Panel, draw_panels
from diffsim.plot.points import draw_points
from diffsim.plot.style import GRADIENT, common, diverging, legend_below
from diffsim.plot.units import value_scale

ROBUST = 0.99
"""Quantile at which the colours of gradients end."""

Fields = npt.ArrayLike | Mapping[str, npt.ArrayLike]
"""A field over the cells, or several by title."""


def field(
    values: Fields,
    grid: Grid,
    name: str = "",
    unit: str = "",
    *,
    units: str | Sequence[str] | None = None,
    sources: Positions | None = None,
    receivers: Positions | None = None,
    mask: npt.ArrayLike | None = None,
    at: Sequence[float] | None = None,
) -> Figure:
    """Fields over the cells of a grid: curves in 1-D, maps in 2-D, three planes in 3-D.

    Several fields are drawn side by side on one scale. Its middle is zero if they have both signs.

    Args:
        values: a field, or several by title.
        grid: the grid.
        name: of the field, for the colour bar.
        unit: of the field.
        units: of the coordinates; one for all axes, or one each; None: those of the grid. Those of "degrees north" and "degrees east" are
            drawn as on a map.
        sources: positions, shape (sources, axes), or several such arrays by name.
        receivers: positions, likewise.
        mask: True in cells that are drawn; others are grey.
        at: coordinates of the planes in 3-D; None: the middle ones.

    Returns:
        A `matplotlib.figure.Figure`.

    Raises:
        ShapeError: an array does not fit the grid.

    Example:
        import numpy as np

        import diffsim as ds
        from diffsim import plot

        grid = ds.Grid((60, 80), spacing=10.0, axes=("depth", "x"))
        depth, x = grid.coordinates(0)[:, None], grid.coordinates(1)
        speed = 1500.0 + 2.0 * depth + 0.0 * x
        slow = speed - 200.0 * np.exp(-((depth - 300) ** 2 + (x - 400) ** 2) / 100**2)
        figure = plot.field({"start": speed, "truth": slow}, grid, "c", "m/s", sources=[[20.0, 100.0]], receivers=[[20.0, 600.0]])
        figure.savefig("speed.png")
        assert len(figure.axes) > 1  # two maps and the bar of their colours
    """
    arrays, chart = over_grid("values", values, grid, unit), chart_of_grid(grid, units, sources, receivers, at)
    drawn = None if mask is None else np.asarray(mask, bool)
    if drawn is not None and drawn.shape != grid.shape:
        raise ShapeError(f"mask has shape {drawn.shape}, expected {grid.shape}, that of the grid; give a truth value for each cell")
    shown = [array if drawn is None else array[drawn] for array in arrays.values()]
    colours, scale = common(name, *shown), value_scale(unit, *shown)
    hidden = None if drawn is None or drawn.all() else ~drawn
    panels = [Panel(title, array, colours, scale, name, hidden) for title, array in arrays.items()]
    return with_points(chart, panels, small=False)


def gradient(
    values: Fields,
    grid: Grid,
    name: str = "",
    unit: str = "",
    *,
    over: npt.ArrayLike | None = None,
    units: str | Sequence[str] | None = None,
    sources: Positions | None = None,
    receivers: Positions | None = None,
    at: Sequence[float] | None = None,
) -> Figure:
    """Gradients of a loss by a field: orange where a larger value makes the loss larger, purple where it makes it smaller.

    Each has its own scale, which ends where 99 % of the cells lie within: near sources and receivers a gradient can be far larger.

    Args:
        values: a gradient, or several by title.
        grid: the grid.
        name: of the field, such as "c".
        unit: of the gradient, such as "s/m".
        over: the field itself, over the cells. It is drawn in grey below the gradient.
        units: see `field`, as all that follow.
        sources: positions.
        receivers: positions.
        at: coordinates of the planes in 3-D.

    Returns:
        A `matplotlib.figure.Figure`.

    Raises:
        ShapeError: an array does not fit the grid.

    Example:
        import numpy as np

        import diffsim as ds
        from diffsim import plot

        grid = ds.Grid((40,), spacing=0.05)
        rod = ds.Simulation(ds.solvers.Heat(grid, dt=0.1), receivers={"T": [[0.5]]}, wrt=["kappa"])
        inputs = {"kappa": np.full(40, 5e-3), "T": np.linspace(0.0, 1.0, 40) ** 2}
        _, found = rod.value_and_grad(lambda solution: (solution.traces["T"] ** 2).sum(), inputs, steps=60)
        figure = plot.gradient(found["kappa"], grid, "kappa", "s/m²", receivers=[[0.5]])
        figure.savefig("gradient.png")
        assert figure.axes[0].get_ylabel() == "dJ/dkappa (s/m²)"
    """
    arrays, chart = over_grid("values", values, grid, unit), chart_of_grid(grid, units, sources, receivers, at)
    below = None if over is None else over_grid("over", over, grid)[""]
    label = f"dJ/d{name}" if name else "gradient"
    panels = []
    for title, array in arrays.items():
        colours = diverging(array, quantile=ROBUST, cmap=GRADIENT)
        panels.append(Panel(title, array, colours, value_scale(unit, np.array([colours.high])), label, below=below))
    return with_points(chart, panels, small=True)


def with_points(chart: Chart, panels: Sequence[Panel], small: bool) -> Figure:
    """Panels with sources and receivers, and a legend of these."""
    marked = bool(chart.sources or chart.receivers)
    figure, drawn = draw_panels(chart, panels, LEGEND if marked else 0.0)
    handles = [draw_points(chart, view, ax, small) for view, ax in drawn]
    legend_below(figure, handles[-1])
    return figure
