"""The figure of the search: loss and gradient by iteration."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from matplotlib.ticker import MaxNLocator

from diffsim.arguments import plural
from diffsim.report.style import ANSWER, START, TICKS, Picture, dress, new_figure
from diffsim.report.units import number

if TYPE_CHECKING:
    from diffsim.scene.outcome import Outcome


def loss(outcome: Outcome) -> Picture:
    """Loss and largest entry of the gradient, on logarithmic axes unless something is zero."""
    history = outcome.history
    iterations = np.array([p.iteration for p in history])
    figure = new_figure(3.6)
    left, right = figure.subplots(1, 2)
    for ax, title, values, colour in (
        (left, "loss", [p.loss for p in history], ANSWER),
        (right, "largest entry of the gradient", [p.gradient_norm for p in history], START),
    ):
        ax.plot(iterations, values, color=colour, linewidth=1.5, marker="o", markersize=3)
        if min(values) > 0:
            ax.set_yscale("log")
        dress(ax, title, "iteration", grid=True)
        ax.xaxis.set_major_locator(MaxNLocator(TICKS, integer=True, min_n_ticks=1))
    last = history[-1]
    caption = (
        f"The loss fell from {number(history[0].loss)} to {number(last.loss)} in {plural(last.iteration, 'iteration')}, for which "
        f"loss and gradient were computed {plural(last.evaluations, 'time')}. Each tenfold decrease is the same distance on "
        "these axes. The gradient is that by the optimiser's own variables, without entries that a bound holds; it vanishes at an optimum."
    )
    return Picture("loss", "The search", caption, figure)
