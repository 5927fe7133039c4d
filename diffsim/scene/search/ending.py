"""Why a search stopped and when its loss stopped falling, in the words of the scene."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np

from diffsim.base.arguments import plural
from diffsim.optimize.method import Reason
from diffsim.scene.disk.outcome import Compared, Progress
from diffsim.scene.schema.schema import Description

LITTLE = 0.01
"""A loss rests over iterations that together lower it by no more than this part."""
FEWEST, TENTH = 3, 10
"""It rests if these are at least three, and a tenth of all."""
EXPLAINED = 1.5
"""A residual up to this multiple of the noise explains the data: the model has an error of its own."""
HEAVY = 0.3
"""Penalties of more than this share of the loss hold the answer back: docs/scene.md has a fifth as the most that is good."""


def ending(
    scene: Description,
    reason: Reason,
    history: Sequence[Progress],
    compared: Collection[Compared],
    precision: str,
    penalised: float = 0.0,
) -> str:
    """A sentence without its capital and its full stop: the reason for the end of the last stage, and a way to go on if one is known.

    Args:
        scene: the scene.
        reason: why its method stopped.
        history: the start and every iteration of all stages.
        compared: the data, and the prediction of the answer.
        precision: "f32" or "f64".
        penalised: share of the penalties in the loss at the answer.
    """
    losses = [step.loss for step in history if step.stage == history[-1].stage]
    if reason == "iterations":
        return _all_done(scene, losses, _further(scene, compared, penalised))
    if reason == "value":
        return _nothing_gained(scene, losses, _further(scene, compared, penalised))
    if reason == "gradient":
        where = "another start has to be found" if len(losses) == 1 else "no lower loss lies beside the answer"
        return f"the gradient is zero along every direction that the bounds leave open; {where}"
    less = "; --precision f64 rounds less" if precision == "f32" else ""
    return f"no lower loss was found, because it is at its round-off or the gradient is wrong (`diffsim gradcheck` tells which){less}"


def resting(losses: Sequence[float]) -> int:
    """Number of last iterations over which the lowest loss so far rests; 0: it does not.

    Args:
        losses: at the start and after each iteration.
    """
    lowest = np.minimum.accumulate(losses)
    rests = lowest - lowest[-1] <= LITTLE * np.abs(lowest)
    count = len(losses) - 1 - int(np.argmax(rests))
    return count if count >= max(FEWEST, (len(losses) - 1) // TENTH) else 0


def _all_done(scene: Description, losses: Sequence[float], further: str) -> str:
    done, method = len(losses) - 1, scene.stages()[-1].method
    begin = f"all {plural(done, 'iteration')} were done" if done > 1 else "its one iteration was done"
    key = f"stage[{len(scene.stage) - 1}].iterations" if scene.stage else "optimise.iterations"
    on = f"raise {key} and give --resume to go on"
    if method == "adam" and scene.optimise.batch is not None:
        return f"{begin}; the losses of batches do not say whether it would fall further: {on} if it may"
    lowest = int(np.argmin(losses))
    if losses[-1] - losses[lowest] > LITTLE * abs(losses[lowest]):
        above = "" if losses[lowest] == 0 else f" {100 * (losses[-1] / losses[lowest] - 1):.3g} %"
        return f"{begin}, and the loss lies{above} above that of iteration {lowest}; a lower optimise.rate settles"
    count = resting(losses)
    if count:
        return f"{begin}, the last {count} of which lowered the loss by less than {100 * LITTLE:g} %{further}"
    last = max(1, done // TENTH)
    fell = _fall(losses, last)
    if fell <= LITTLE:
        return f"{begin}; {on}"
    many = plural(last, "iteration") if last > 1 else "one"
    return f"{begin} while the loss was still falling, by {100 * fell:.2g} % in the last {many}; {on}"


def _nothing_gained(scene: Description, losses: Sequence[float], further: str) -> str:
    tolerance, done = scene.stages()[-1].tolerance, len(losses) - 1
    key = f"stage[{len(scene.stage) - 1}].tolerance" if scene.stage and scene.stage[-1].tolerance is not None else "optimise.tolerance"
    begin = (
        f"the last iteration lowered the loss by no more than {tolerance:g} of its start ({key})"
        if tolerance
        else "nothing more was gained"
    )
    if tolerance and losses[0] - losses[-1] <= tolerance * done * abs(losses[0]):
        return (
            f"{begin}, and the whole search gained nothing: a change of the unknowns by their scale hardly changes the loss; raise "
            "unknowns.*.scale to the size of a change that the data ask for, or check the size of the data"
        )
    count = resting(losses)
    if count:
        return f"{begin}, and the last {count} of {done} lowered it by less than {100 * LITTLE:g} %{further}"
    fell = _fall(losses, 1) if done else 0.0
    return f"{begin}, but by {100 * fell:.2g} % of the rest; a lower {key} goes on" if fell > LITTLE else begin


def _fall(losses: Sequence[float], last: int) -> float:
    """By which part the last iterations lowered the loss."""
    before = losses[-1 - last]
    return (before - losses[-1]) / abs(before) if before else 0.0


def _further(scene: Description, compared: Collection[Compared], penalised: float) -> str:
    """The unexplained rest, if the noise of all data is known and nothing was filtered."""
    stage = scene.stages()[-1]
    worst = max((pair.over_noise for pair in compared), default=np.inf)
    if stage.lowpass or stage.highpass or not np.isfinite(worst):
        return "; more iterations gain little"
    if worst <= EXPLAINED:
        return f"; the residual is {worst:.3g} times the noise, so more iterations gain little"
    if penalised > HEAVY:
        return (
            f"; the residual is still {worst:.3g} times the noise, and the penalties are {100 * penalised:.2g} % of the loss: a lower "
            "weight of [[penalty]] fits the data better"
        )
    return f"; the residual is still {worst:.3g} times the noise, for which another start, stages or another method may do more"
