"""The figure of the search: loss and gradient by iteration."""

from __future__ import annotations

from typing import TYPE_CHECKING

from diffsim import plot
from diffsim.base.arguments import plural
from diffsim.plot.units import number
from diffsim.report.picture import Picture

if TYPE_CHECKING:
    from diffsim.scene.disk.outcome import Outcome


def loss(outcome: Outcome) -> Picture:
    """Loss and largest entry of the gradient, on logarithmic axes unless something is zero."""
    history = outcome.history
    figure = plot.loss(history)
    stages = [[p for p in history if p.stage == number] for number in range(1, history[-1].stage + 1)]
    last, (start, end) = history[-1], outcome.losses
    products = f", and {plural(last.products, 'product')} with the Hessian" if last.products else ""
    caption = (
        f"The loss fell from {number(start)} to {number(end)} in {plural(last.iteration, 'iteration')}, for which "
        f"loss and gradient were computed {plural(last.evaluations, 'time')}{products}. Each tenfold decrease is the same distance on "
        "these axes. The gradient is that by the optimiser's own variables, without entries that a bound holds; it vanishes at an optimum."
    )
    if len(stages) > 1:
        ends = ", ".join(f"stage {stage[0].stage} from {number(stage[0].loss)} to {number(stage[-1].loss)}" for stage in stages)
        caption += f" A vertical line begins a stage, which has a loss of its own: {ends}. The loss above is that of the last stage."
    return Picture("loss", "The search", caption, figure)
