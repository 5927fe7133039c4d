"""The figure of a search: loss and gradient by iteration."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from diffsim.base.arguments import real_array
from diffsim.errors import ShapeError
from diffsim.plot.style import ANSWER, FAINT, START, TICKS, dress, new_figure

HEIGHT = 3.6
"""Inches."""


def loss(history: Sequence[Any] | npt.ArrayLike) -> Figure:
    """The loss by iteration, on a logarithmic axis unless some value is not positive, and the largest entry of the gradient.

    A search in stages has a curve for each, and a line where one begins.

    Args:
        history: of `diffsim.optimize.Result`, or a list of losses, which has no gradient.

    Returns:
        A `matplotlib.figure.Figure`.

    Raises:
        ShapeError: there is nothing in it.

    Example:
        import numpy as np

        import diffsim as ds
        from diffsim import plot

        misfit = ds.losses.L2Misfit([1.0, 2.0, 4.0])
        found = ds.optimize.minimise(ds.value_and_grad(misfit), np.zeros(3))
        figure = plot.loss(found.history)
        figure.savefig("loss.png")
        assert len(figure.axes) == 2 and len(plot.loss([3.0, 1.0, 0.5]).axes) == 1
    """
    entries = list(history)  # type: ignore[arg-type]
    if not entries:
        raise ShapeError("history has no entries, expected one at least; give the history of a result, or losses")
    if hasattr(entries[0], "gradient_norm"):
        iterations = np.array([entry.iteration for entry in entries])
        values = np.array([getattr(entry, "loss", getattr(entry, "value", np.nan)) for entry in entries])
        panels = [("loss", values, ANSWER), ("largest entry of the gradient", np.array([e.gradient_norm for e in entries]), START)]
    else:
        values = np.asarray(real_array("history", entries), float)
        iterations, panels = np.arange(len(values)), [("loss", values, ANSWER)]
    figure = new_figure(HEIGHT)
    stages = np.array([getattr(entry, "stage", 1) for entry in entries])
    for ax, (title, each, colour) in zip(figure.subplots(1, len(panels), squeeze=False)[0], panels, strict=True):
        for stage in np.unique(stages):
            ax.plot(iterations[stages == stage], each[stages == stage], color=colour, linewidth=1.5, marker="o", markersize=3)
            if stage > stages[0]:
                ax.axvline(iterations[stages == stage][0], color=FAINT, linewidth=0.8)
        if np.all(each > 0):
            ax.set_yscale("log")
        dress(ax, title, "iteration", grid=True)
        ax.xaxis.set_major_locator(MaxNLocator(TICKS, integer=True, min_n_ticks=1))
    return figure
