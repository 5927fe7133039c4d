"""Several fields side by side: maps in 2-D, middle planes in 3-D, curves in 1-D."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.figure import Figure

from diffsim.plot.chart import Cells, Chart, View, axis_scale, edges
from diffsim.plot.style import FAINT, FEW, INK, TICKS, TITLE, WIDTH, Colours, colour_bar, dress, new_figure, plain
from diffsim.plot.units import Scale
from diffsim.typing import Array

LABELS, BAR, GAP, HEAD = 0.75, 0.85, 0.2, 0.75
"""Inches for the labels left of a map, for a colour bar, between maps, and above and below a map for its title and labels."""
LINE = 0.2
"""Inches for a second line above a map."""
TALLEST, SMALL = 5.5, 2.2
"""Inches: height of a map at most; below this width an axis has fewer ticks."""
LEGEND = 0.45
"""Inches under a figure for a legend."""
CURVE_HEIGHT = 2.6
"""Height of a panel of curves in 1-D, inches."""
FADE = 0.5
"""Power of a value, relative to the largest, that gives how opaque it is."""
ROUND = 1e-6
"""Tolerance as a part of the colour scale: values that exceed its ends by less are not marked as beyond."""


@dataclass(frozen=True)
class Panel:
    """A field to draw.

    Attributes:
        title: above it.
        values: over the cells.
        colours: its colour scale, before `scale`.
        scale: the factor, and the unit.
        label: of the colour bar, without the unit.
        hidden: cells drawn grey; None: none.
        outline: cells whose edge is dashed; None: none.
        bare: without a colour bar.
        below: a field that is drawn in grey, and shows through where `values` are small; None: none.
    """

    title: str
    values: Array
    colours: Colours
    scale: Scale
    label: str
    hidden: Cells | None = None
    outline: Cells | None = None
    bare: bool = False
    below: Array | None = None


def draw_panels(
    chart: Chart, panels: Sequence[Panel], footer: float = 0.0, columns: int | None = None
) -> tuple[Figure, list[tuple[View | None, Axes]]]:
    """Draw every panel.

    Args:
        chart: the grid.
        panels: at least one.
        footer: inches left for a legend.
        columns: number of maps side by side in 2-D; None: as their shape asks for.

    Returns:
        The figure, and the view and axes of every map; the view is None in 1-D.
    """
    if not chart.views:
        return _draw_curves(chart, panels, footer)
    views = chart.views
    flat = len(views) == 1
    columns = (columns or _columns(len(panels), views[0].ratio)) if flat else len(views)
    pairs = [(panel, view) for panel in panels for view in views]
    rows = -(-len(pairs) // columns)
    # one colour bar serves neighbours of one scale
    ends = [k % columns == columns - 1 or k == len(pairs) - 1 or not _alike(panel, pairs[k + 1][0]) for k, (panel, _) in enumerate(pairs)]
    barred = [end and not panel.bare for end, (panel, _) in zip(ends, pairs, strict=True)]
    bars = max(sum(barred[k : k + columns]) for k in range(0, len(pairs), columns))
    ratio = max(view.ratio for view in views)
    labelled = 1 if flat else columns
    width = min((WIDTH - LABELS * labelled - BAR * bars - GAP * (columns - 1)) / columns, TALLEST / ratio)
    figure = new_figure(rows * (width * ratio + HEAD + (0 if flat else LINE)) + footer)
    axes = [ax for row in figure.subplots(rows, columns, squeeze=False) for ax in row]
    drawn: list[tuple[View | None, Axes]] = []
    for ax, (panel, view), bar in zip(axes, pairs, barred, strict=False):
        draw_map(ax, chart, view, panel, bar, small=width < SMALL)
        # in 3-D the first column names the field, above the line that names the planes
        heads = ([panel.title] if view is views[0] else []) + ([view.where] if view.where else [])
        ax.set_title(plain("\n".join(heads)), fontsize=TITLE, loc="left", color=INK)
        if flat and len(axes) == len(pairs):
            ax.label_outer()
        drawn.append((view, ax))
    for ax in axes[len(pairs) :]:
        ax.set_axis_off()
    return figure, drawn


def draw_map(ax: Axes, chart: Chart, view: View, panel: Panel, bar: bool, small: bool) -> None:
    """One field on one view, with the coast, and a colour bar as high as the map if `bar`; a small map has fewer ticks."""
    values = np.ma.masked_invalid(view.cut(np.asarray(panel.values, float)) * panel.scale.factor)
    if panel.hidden is not None:
        values = np.ma.masked_where(view.cut(panel.hidden), values)
    low, high = panel.colours.low * panel.scale.factor, panel.colours.high * panel.scale.factor
    if panel.below is not None:
        _draw_cells(ax, view, view.cut(panel.below), cmap="gray", alpha=0.4)
        opaque = np.ma.filled(np.abs(values) / (max(abs(low), abs(high)) or 1.0), 0.0).clip(0, 1) ** FADE
        image = _draw_cells(ax, view, values, cmap=panel.colours.cmap, vmin=low, vmax=high, alpha=opaque)
    else:
        image = _draw_cells(ax, view, values, cmap=panel.colours.cmap, vmin=low, vmax=high)
    for cells, look in ((chart.land, "solid"), (panel.outline, "dashed")):
        if cells is not None:
            _draw_edge(ax, view, view.cut(cells), look)
    if view.down:
        ax.invert_yaxis()
    dress(ax, "", *view.labels, ticks=FEW if small else TICKS)
    if bar:
        beside = ax.inset_axes((1.05 if small else 1.03, 0.0, 0.07 if small else 0.035, 1.0))
        colour_bar(ax.get_figure(), image, panel.scale.label(panel.label), cax=beside, extend=_beyond(values, low, high))


def _draw_cells(ax: Axes, view: View, values: npt.NDArray[Any], **look: Any) -> ScalarMappable:
    """An image of cells; where their sizes differ, each has its own."""
    if view.faces is None:
        return ax.imshow(values, origin="lower", extent=view.extent, aspect=view.aspect, **look)
    mesh = ax.pcolormesh(*view.faces, values, **look)
    ax.set_aspect(view.aspect)
    return mesh


def _draw_edge(ax: Axes, view: View, cells: Cells, look: str) -> None:
    if cells.any() and not cells.all():
        left, right, bottom, top = view.extent
        rows, columns = cells.shape
        x = left + (np.arange(columns) + 0.5) * (right - left) / columns
        y = bottom + (np.arange(rows) + 0.5) * (top - bottom) / rows
        if view.faces is not None:
            x, y = (0.5 * (along[1:] + along[:-1]) for along in view.faces)
        lines = [("solid", INK)] if look == "solid" else [("solid", "white"), (look, INK)]  # dashes in black and white show on any colour
        for style, colour in lines:
            ax.contour(x, y, cells.astype(float), levels=[0.5], colors=[colour], linewidths=0.8, linestyles=style)


def _draw_curves(chart: Chart, panels: Sequence[Panel], footer: float) -> tuple[Figure, list[tuple[View | None, Axes]]]:
    figure = new_figure(CURVE_HEIGHT * len(panels) + footer)
    scale, label = axis_scale(chart.axes[0])
    x = np.asarray(chart.axes[0].coordinates) * scale.factor
    drawn: list[tuple[View | None, Axes]] = []
    for number, (ax, panel) in enumerate(zip(figure.subplots(len(panels), 1, squeeze=False, sharex=True)[:, 0], panels, strict=True)):
        if number and _alike(panel, panels[number - 1]):
            ax.sharey(drawn[-1][1])
        ax.plot(x, np.asarray(panel.values) * panel.scale.factor, color=INK, linewidth=1.4)
        if panel.colours.centred:
            ax.axhline(0, color=FAINT, linewidth=0.8)
        if panel.hidden is not None:
            ax.fill_between(x, 0, 1, where=panel.hidden.tolist(), transform=ax.get_xaxis_transform(), color=FAINT, alpha=0.3, linewidth=0)
        ax.set_xlim(*edges(chart.axes[0], scale.factor))
        dress(ax, panel.title, label, panel.scale.label(panel.label), grid=True)
        ax.label_outer()
        drawn.append((None, ax))
    return figure, drawn


def _alike(one: Panel, other: Panel) -> bool:
    return one.colours is other.colours and one.scale == other.scale and one.label == other.label


def _columns(count: int, ratio: float) -> int:
    """The number of maps side by side: all if they are tall, one or two if they are flat."""
    if count == 3:
        return 3 if ratio > 0.5 else 1
    return min(count, 4 if ratio > 1.3 else 2 if ratio > 0.3 else 1)


def _beyond(values: Any, low: float, high: float) -> str:
    """At which ends of the colour bar an arrow says that there are values beyond."""
    if values.count() == 0:
        return "neither"
    margin = ROUND * (high - low)
    below, above = bool(values.min() < low - margin), bool(values.max() > high + margin)
    return "both" if below and above else "min" if below else "max" if above else "neither"
