"""The figure of the known parts: fields, sources, receivers, and which cells may change."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.patches import Rectangle

from diffsim.base.arguments import plural
from diffsim.mesh.grid import Axis
from diffsim.plot.chart import Cells, Chart, View
from diffsim.plot.panels import LEGEND, Panel, draw_panels
from diffsim.plot.points import draw_points
from diffsim.plot.style import INK, common, diverging, legend_below, words
from diffsim.plot.units import Scale, value_scale
from diffsim.report.contents import middle, outline
from diffsim.report.picture import Picture
from diffsim.typing import Array

if TYPE_CHECKING:
    from diffsim.scene.disk.outcome import Outcome

TAIL, LONG = 0.01, 0.25
"""The colours of a known field leave out this fraction of its values at an end, if that shortens them by this much."""


def setting(outcome: Outcome, chart: Chart) -> Picture:
    """Known fields, sources and receivers."""
    known = dict(outcome.background)
    units = dict(outcome.background_units)
    frees = _common_free(outcome, chart)
    title, instead = "{}", ""
    if not known and outcome.finals:
        known, units = {n: p.data[middle(p)] for n, p in outcome.finals.items()}, {n: p.unit for n, p in outcome.finals.items()}
        title, instead = "{}: the data", "No field of the equation is known, so the data are shown."
    elif not known:
        over_cells = {n: u for n, u in outcome.unknowns.items() if not u.axes}
        known, units = {n: u.start for n, u in over_cells.items()}, {n: u.unit for n, u in over_cells.items()}
        title, instead = "{} at the start", "No field of the equation is known, so the map shows where the search starts."
    panels = []
    if not known:
        title, instead, nothing = "", "There is no field to show.", np.zeros([len(axis.coordinates) for axis in outcome.axes])
        panels.append(Panel("", nothing, diverging(nothing), Scale(1.0, ""), "", chart.land, bare=True))
    for name, values in known.items():
        shown = values if chart.land is None else values[~chart.land]
        scale = value_scale(units.get(name, ""), values)
        panels.append(Panel(title.format(words(name)), values, common(name, _without_tails(shown)), scale, name, chart.land, frees))
    figure, drawn = draw_panels(chart if frees is None else chart.through(_middle(frees)), panels, LEGEND)
    handles: list[Line2D] = []
    for view, ax in drawn:
        handles = draw_points(chart, view, ax) + _draw_lines(ax, view, outcome.lines)
    if frees is not None and chart.views:
        handles.append(Line2D([], [], color=INK, linestyle="dashed", linewidth=1, label="cells that may change"))
    sides = absorbing(outcome)
    if np.any(sides) and chart.views:
        for view, ax in drawn:
            assert view is not None
            _draw_layer(ax, view, outcome.axes, sides)
        handles.append(Line2D([], [], color=INK, linestyle="dotted", linewidth=1, label="inner edge of the absorbing layer"))
    legend_below(figure, handles)
    return Picture("setting", "The setting", _caption(outcome, chart, frees, instead), figure)


def _middle(cells: Cells) -> Cells:
    """The cell in the middle of some."""
    middle = np.zeros(cells.shape, bool)
    middle[tuple(np.argwhere(cells).mean(axis=0).round().astype(int))] = True
    return middle


def _draw_lines(ax: Axes, view: View | None, lines: Mapping[str, Array]) -> list[Line2D]:
    """Monitors, and modes that are sent. Returns the handles of a legend."""
    handles: list[Line2D] = []
    for number, (name, ends) in enumerate(lines.items() if view is not None else ()):
        assert view is not None
        handles += ax.plot(*view.points(ends), color=f"C{number + 1}", label=name)
    return handles


def absorbing(outcome: Outcome) -> tuple[tuple[int, int], ...]:
    """Cells of the absorbing layer at the low and the high side of each axis."""
    equation, ndim = outcome.settings.get("equation", {}), len(outcome.axes)
    layers = [equation.get(name) for name in ("sponge", "layer")] if isinstance(equation, Mapping) else []
    widths = np.zeros((ndim, 2), int)
    for cells in layers:
        entries = cells if isinstance(cells, (tuple, list)) else [cells if isinstance(cells, int) else 0] * ndim
        if len(entries) == ndim:
            widths = np.maximum(widths, [entry if isinstance(entry, (tuple, list)) else (entry, entry) for entry in entries])
    return tuple((int(low), int(high)) for low, high in widths)


def _draw_layer(ax: Axes, view: View, axes: Sequence[Axis], sides: Sequence[tuple[int, int]]) -> None:
    """A rectangle around the cells that absorb nothing."""
    left, right, bottom, top = view.extent
    (before, after), (below, above) = (np.array(sides[axis]) / len(axes[axis].coordinates) for axis in (view.columns, view.rows))
    if bottom > top:  # the axis points down
        below, above = above, below
    if max(before + after, below + above) < 1:
        corner = left + before * (right - left), bottom + below * (top - bottom)
        size = (1 - before - after) * (right - left), (1 - below - above) * (top - bottom)
        for colour, style in (("white", "solid"), (INK, "dotted")):
            ax.add_patch(Rectangle(corner, *size, fill=False, edgecolor=colour, linestyle=style, linewidth=1))


def _without_tails(values: Array) -> Array:
    """Values without a few that would leave the rest pale, such as one deep corner."""
    low, high = float(np.min(values)), float(np.max(values))
    inner_low, inner_high = np.quantile(values, [TAIL, 1 - TAIL])
    low = inner_low if inner_low - low > LONG * (high - low) else low
    high = inner_high if high - inner_high > LONG * (high - low) else high
    return values.clip(low, high)


def _common_free(outcome: Outcome, chart: Chart) -> Cells | None:
    """Cells that may change, if they are some, the same for all unknowns, and not simply the sea."""
    first, *others = [outline(chart, field) for field in outcome.unknowns.values() if not field.axes] or [None]
    return first if first is not None and all(other is not None and np.array_equal(first, other) for other in others) else None


def _caption(outcome: Outcome, chart: Chart, frees: Cells | None, instead: str) -> str:
    cells = " × ".join(str(len(axis.coordinates)) for axis in outcome.axes)
    parts = [f"The grid has {cells} cells."] + [instead] * bool(instead)
    parts += [f"{plural(len(points), 'receiver')} of {state} (dots)." for state, points in chart.receivers.items()]
    parts += [f"{plural(len(points), 'source')} of {forcing} (stars)." for forcing, points in chart.sources.items()]
    if any(len(close) < len(chart.receivers[state]) for state, close in chart.close.items()):
        parts.append("The records of some receivers that lie far apart are drawn below.")
    parts += [f"Lines: {', '.join(outcome.lines)}."] * bool(outcome.lines)
    if not chart.receivers and not outcome.measured:
        parts.append("There are no receivers: the data are fields over all cells.")
    if chart.land is not None:
        parts.append("Grey is land, where H = 0; the line around it is the coast, through which nothing flows.")
    sides = {width for pair in absorbing(outcome) for width in pair}
    if any(sides):
        where = f"The {plural(max(sides), 'cell')} at every edge absorb." if len(sides) == 1 else "Cells along some edges absorb."
        parts.append(where)
    if frees is not None:
        parts.append("The dashed line encloses the cells that may change.")
    return " ".join(parts)
