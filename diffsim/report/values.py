"""The figures of unknowns that have no value in each cell: values over time or along a side as lines, numbers as points."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.axes import Axes

from diffsim.report import maps
from diffsim.report.chart import Chart, axis_scale, edges
from diffsim.report.style import ANSWER, FAINT, INK, START, Picture, dress, legend_below, new_figure, words
from diffsim.report.units import quantity, value_scale
from diffsim.typing import Array

if TYPE_CHECKING:
    from diffsim.scene.outcome import UnknownField

HEIGHT, LOW = 3.6, 2.0
"""Of a figure of lines, and of one of points, inches."""
DASHED = (0, (4, 2))


def unknown(name: str, found: UnknownField, chart: Chart) -> Picture:
    """Truth, start and answer."""
    if len(found.axes) > 1:
        return maps.unknown(name, found, Chart.over(found.axes))
    scale = value_scale(found.unit, found.truth, found.start)
    curves = [
        ("truth", found.truth, {"color": INK, "linewidth": 2.2}),
        ("start", found.start, {"color": START, "linewidth": 1.4, "linestyle": DASHED}),
        ("answer", found.answer, {"color": ANSWER, "linewidth": 1.4}),
    ]
    free = chart.free(found)
    before, after = (float(np.sqrt(np.mean(np.square((values - found.truth)[free])))) for values in (found.start, found.answer))
    caption = (
        "Black: the hidden truth. Blue, dashed: where the search began. Orange: what it found; it should lie on the truth. "
        f"The root mean square distance from the truth is {quantity(before, found.unit)} at the start and "
        f"{quantity(after, found.unit)} at the answer.{_held(found)}"
    )
    figure = _figure(found, curves, scale.factor, scale.label(name))
    return Picture(f"unknown_{name}", f"The unknown {words(name)}: truth, start and answer", caption, figure)


def gradient(name: str, found: UnknownField, last: int) -> Picture:
    """The gradient at the first and at the last iteration."""
    if len(found.axes) > 1:
        return maps.gradient(name, found, Chart.over(found.axes), last)
    scale = value_scale(f"per {found.unit}" if found.unit else "", found.gradient_first, found.gradient_last)
    curves = [
        ("at the start (iteration 0)", found.gradient_first, {"color": START, "linewidth": 1.4, "linestyle": DASHED}),
        (f"at the answer (iteration {last})", found.gradient_last, {"color": ANSWER, "linewidth": 1.4}),
    ]
    caption = (
        f"How the loss J answers to {name} at each single value: where it is positive, a larger value makes the loss larger, so the search "
        f"lowers it there. At an optimum that no bound holds it is zero.{_held(found)}"
    )
    figure = _figure(found, curves, scale.factor, scale.label(f"dJ/d{name}"))
    return Picture(f"gradient_{name}", f"The gradient of the loss by {words(name)}", caption, figure)


def _figure(found: UnknownField, curves: list[tuple[str, Array, dict]], factor: float, label: str):  # type: ignore[no-untyped-def]
    (axis,) = found.axes
    number = len(axis.coordinates) == 1
    figure = new_figure(LOW if number else HEIGHT)
    ax = figure.subplots()
    handles = _points(ax, curves, factor, label) if number else _lines(ax, found, curves, factor, label)
    legend_below(figure, handles)
    return figure
