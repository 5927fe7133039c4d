"""Sources and receivers, on a map or on a panel of curves."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib import patheffects
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.transforms import Transform

from diffsim.plot.chart import Chart, View, axis_scale
from diffsim.plot.style import INK, MARK, TICK
from diffsim.typing import Array

SOURCE_COLOUR, RECEIVER_MARKERS = "#cc3311", "osD^v"
NUMBERED = 40
"""Up to so many receivers each has its number on a map; of more, those that are looked at one by one."""
RIGHT = 0.85
"""Points further right, as a fraction of the width, have their number on their left."""
LOW = 0.06
"""Height of points on a panel of curves, of the panel's."""


def draw_points(chart: Chart, view: View | None, ax: Axes, small: bool = False) -> list[Line2D]:
    """Sources as stars and receivers as dots, with numbers (of many receivers only those that are looked at one by one).

    Returns the handles of a legend.
    """
    handles = []
    size = 3.0 if small else 6.0
    for (state, points), marker in zip(chart.receivers.items(), RECEIVER_MARKERS * len(chart.receivers), strict=False):
        x, y, transform = _on(chart, view, ax, points)
        label = f"receivers of {state}" if state else "receivers"
        look: dict[str, Any] = {"marker": marker, "markersize": size, "markerfacecolor": "white" if small else MARK, "markeredgecolor": INK}
        handles += ax.plot(x, y, linestyle="none", markeredgewidth=0.7, label=label, transform=transform, **look)
        if not small:
            for k in range(len(points)) if len(points) <= NUMBERED else chart.close[state]:
                _number(ax, k + 1, (x[k], y[k]), transform)
    for forcing, points in chart.sources.items():
        x, y, transform = _on(chart, view, ax, points)
        label = f"sources of {forcing}" if forcing else "sources"
        look = {"marker": "*", "markersize": 2 * size, "markerfacecolor": SOURCE_COLOUR, "markeredgecolor": "white"}
        handles += ax.plot(x, y, linestyle="none", markeredgewidth=0.6, label=label, transform=transform, **look)
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
