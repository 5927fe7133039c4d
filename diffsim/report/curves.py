"""The figure of the search: loss and gradient by iteration."""

from __future__ import annotations

from typing import TYPE_CHECKING

from diffsim import plot
from diffsim.arguments import plural
from diffsim.plot.units import number
from diffsim.report.picture import Picture

if TYPE_CHECKING:
    from diffsim.scene.outcome import Outcome


def loss(outcome: Outcome) -> Picture:
    """Loss and largest entry of the gradient, on logarithmic axes unless something is zero."""
    history = outcome.history
    figure = plot.loss(history)
    last = history[-1]
    caption = (
        f"The loss fell from {number(history[0].loss)} to {number(last.loss)} in {plural(last.iteration, 'iteration')}, for which "
        f"loss and gradient were computed {plural(last.evaluations, 'time')}. Each tenfold decrease is the same distance on "
        "these axes. The gradient is that by the optimiser's own variables, without entries that a bound holds; it vanishes at an optimum."
    )
    return Picture("loss", "The search", caption, figure)
