"""The figures of unknowns that have no value in each cell: lines over time or along a side, points for a number, maps for both."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from diffsim.plot.chart import Cells, Chart, axis_scale
from diffsim.plot.style import ANSWER, FAINT, INK, START, dress, legend_below, new_figure, words
from diffsim.plot.units import Scale, quantity, value_scale
from diffsim.report import maps
from diffsim.report.contents import free_cells
from diffsim.report.picture import Picture
from diffsim.typing import Array

if TYPE_CHECKING:
    from diffsim.scene.disk.outcome import UnknownField

LINES, POINTS = 3.6, 1.8
"""Heights of a panel of lines and of one of points, inches."""
DASHED = (0, (4, 2))
TRUE: dict[str, Any] = {"color": INK, "linewidth": 2.4}
BEFORE: dict[str, Any] = {"color": START, "linewidth": 1.3, "linestyle": DASHED}
AFTER: dict[str, Any] = {"color": ANSWER, "linewidth": 1.3}

Curve = tuple[str, Array, dict[str, Any]]
"""Label, values, look."""


def unknown(name: str, field: UnknownField) -> Picture:
    """Truth, start and answer."""
    chart = Chart.over(field.axes)
    if len(field.axes) > 1:
        return maps.unknown(name, field, chart)
    known = [] if field.truth is None else [field.truth]
    free, scale = free_cells(chart, field), value_scale(field.unit, *known, field.start, *([] if known else [field.answer]))
    curves = [("truth", truth, TRUE) for truth in known] + [("start", field.start, BEFORE), ("answer", field.answer, AFTER)]
    figure = _figure(chart, [curves], [scale], name, free)
    title = "truth, start and answer" if known else "start and answer"
    return Picture(f"unknown_{name}", f"The unknown {words(name)}: {title}", f"{_found(field, free)}{_held(free)}", figure)


def _found(field: UnknownField, free: npt.NDArray[np.bool_]) -> str:
    """The caption of an unknown."""
    if field.truth is None:
        return "Blue, dashed: the start. Orange: the answer. The data are records, so nobody knows the truth."
    before, after = (float(np.sqrt(np.mean(np.square((values - field.truth)[free])))) for values in (field.start, field.answer))
    return (
        "Black: the hidden truth. Blue, dashed: the start. Orange: the answer; it should lie on the truth. The root mean "
        f"square distance from the truth is {quantity(before, field.unit)} at the start and {quantity(after, field.unit)} at the answer."
    )


def gradient(name: str, field: UnknownField, last: int) -> Picture:
    """The gradient at the first and at the last iteration.

    Args:
        name: of the unknown.
        field: the unknown.
        last: number of the last iteration.
    """
    chart = Chart.over(field.axes)
    if len(field.axes) > 1:
        return maps.gradient(name, field, chart, last)
    free = free_cells(chart, field)
    curves = [
        ("at the start (iteration 0)", field.gradient_first, BEFORE),
        (f"at the answer (iteration {last})", field.gradient_last, AFTER),
    ]
    panels = [curves] if free.size == 1 else [[curve] for curve in curves]
    unit = f"per {field.unit}" if field.unit else ""
    scales = [value_scale(unit, *(values for _, values, _ in panel)) for panel in panels]
    caption = (
        f"How the loss J answers to each single value of {name}: where it is positive, a larger value makes the loss larger, so the search "
        f"lowers it there.{' The start and the answer have scales of their own.' if len(panels) > 1 else ''}{_held(free)}"
    )
    figure = _figure(chart, panels, scales, f"dJ/d{name}", free)
    return Picture(f"gradient_{name}", f"The gradient of the loss by {words(name)}", caption, figure)


def _held(free: Cells) -> str:
    return " Values on grey may not change." if not free.all() else ""


def _figure(chart: Chart, panels: list[list[Curve]], scales: list[Scale], label: str, free: Cells) -> Figure:
    """Panels of curves over the one axis; of points where it has one entry only."""
    number = free.size == 1
    figure = new_figure((POINTS if number else LINES) * len(panels))
    handles: list[Any] = []
    for ax, curves, scale in zip(figure.subplots(len(panels), 1, squeeze=False)[:, 0], panels, scales, strict=True):
        if number:
            _draw_points(ax, curves, scale, label)
        else:
            handles += _draw_lines(ax, chart, curves, scale, label, free)
    legend_below(figure, handles)
    return figure


def _draw_lines(ax: Axes, chart: Chart, curves: list[Curve], scale: Scale, label: str, free: Cells) -> list[Any]:
    along, words_along = axis_scale(chart.axes[0])
    x = np.asarray(chart.axes[0].coordinates) * along.factor
    handles: list[Any] = []
    for name, values, look in curves:
        handles += ax.plot(x, np.asarray(values) * scale.factor, label=name, **look)
    if not free.all():
        ends = np.repeat(np.concatenate([x[:1], 0.5 * (x[1:] + x[:-1]), x[-1:]]), 2)[1:-1]  # both ends of the interval of each value
        held = np.repeat(~free, 2).tolist()
        ax.fill_between(ends, 0, 1, where=held, transform=ax.get_xaxis_transform(), color=FAINT, alpha=0.3, linewidth=0)
    ax.set_xlim(x[0], x[-1])
    dress(ax, "", words_along, scale.label(label), grid=True)
    return handles


def _draw_points(ax: Axes, curves: list[Curve], scale: Scale, label: str) -> None:
    """A row for each number."""
    for row, (_, values, look) in enumerate(curves):
        ax.plot(np.ravel(values) * scale.factor, [row], marker="o", markersize=8, color=look["color"], linestyle="none")
    dress(ax, "", scale.label(label), "", grid=True)
    ax.set_yticks(range(len(curves)), [name for name, _, _ in curves])
    ax.set_ylim(len(curves) - 0.5, -0.5)
