"""Sources and receivers, on a map or on a panel of curves."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib import patheffects
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.transforms import Transform

from diffsim.report.chart import Chart, View, axis_scale
from diffsim.report.style import INK, MARK, TICK
from diffsim.typing import Array

SOURCE_COLOUR, RECEIVER_MARKERS = "#cc3311", "osD^v"
RIGHT = 0.85
"""Points further right, as a fraction of the width, have their number on their left."""
LOW = 0.06
"""Height of points on a panel of curves, of the panel's."""


def draw_points(chart: Chart, view: View | None, ax: Axes, small: bool = False) -> list[Line2D]:
    """Sources as stars and receivers as dots, the ones looked at closely with their numbers; gives a legend's handles."""
    handles = []
    size = 3.0 if small else 6.0
    for (state, points), marker in zip(chart.receivers.items(), RECEIVER_MARKERS * len(chart.receivers), strict=False):
        x, y, transform = _on(chart, view, ax, points)
        look: dict[str, Any] = {"marker": marker, "markersize": size, "markerfacecolor": "white" if small else MARK, "markeredgecolor": INK}
        handles += ax.plot(x, y, linestyle="none", markeredgewidth=0.7, label=f"receivers of {state}", transform=transform, **look)
        if not small:
            for k in chart.close[state]:
                _number(ax, k + 1, (x[k], y[k]), transform)
    for forcing, points in chart.sources.items():
        x, y, transform = _on(chart, view, ax, points)
        look = {"marker": "*", "markersize": 2 * size, "markerfacecolor": SOURCE_COLOUR, "markeredgecolor": "white"}
        handles += ax.plot(x, y, linestyle="none", markeredgewidth=0.6, label=f"sources of {forcing}", transform=transform, **look)
    return handles


def _number(ax: Axes, number: int, place: tuple[float, float], transform: Transform) -> None:
    """Beside a receiver, on the side that is farther from the frame."""
    left, right = ax.get_xlim()
    side = -1 if place[0] > left + RIGHT * (right - left) else 1
    text = ax.annotate(
        str(number),
        place,
        xycoords=transform,
        xytext=(6 * side, 0),
        textcoords="offset points",
        fontsize=TICK,
        ha="left" if side > 0 else "right",
        va="center",
    )
    text.set_path_effects([patheffects.withStroke(linewidth=2.2, foreground="white")])


def _on(chart: Chart, view: View | None, ax: Axes, points: Array) -> tuple[Array, Array, Transform]:
    """The positions of points on a map, or on the lower edge of a panel of curves."""
    if view is not None:
        return (*view.points(points), ax.transData)
    scale, _ = axis_scale(chart.axes[0])
    return points[:, 0] * scale.factor, np.full(len(points), LOW), ax.get_xaxis_transform()
