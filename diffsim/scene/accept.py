"""Judge an answer: compare the figures that a scene requires with their limits."""

from __future__ import annotations

import numpy as np

from diffsim.certificate import Line
from diffsim.scene.assemble import Problem, masking
from diffsim.scene.fields import build_mask
from diffsim.scene.model import Mask
from diffsim.scene.outcome import Compared, UnknownField
from diffsim.scene.schema import Accept
from diffsim.typing import Array


def judge(
    problem: Problem, losses: tuple[float, float], compared: dict[tuple[str, str], Compared], unknowns: dict[str, UnknownField]
) -> list[Line]:
    """A line for each `[[accept]]` of the scene.

    Args:
        problem: the scene, assembled.
        losses: at the start and at the answer.
        compared: ("traces" or "final", state) -> data and predictions.
        unknowns: the unknowns that were found.
    """
    return [_judge(number, accept, problem, losses, compared, unknowns) for number, accept in enumerate(problem.scene.accept)]


def _judge(
    number: int,
    accept: Accept,
    problem: Problem,
    losses: tuple[float, float],
    compared: dict[tuple[str, str], Compared],
    unknowns: dict[str, UnknownField],
) -> Line:
    if accept.quantity == "loss_reduction":
        name, value = "loss reduction", losses[0] / losses[1] if losses[1] > 0 else float("inf")
    elif accept.quantity == "misfit_over_noise":
        state = accept.of or problem.scene.misfit[0].state
        kind, pair = next((kind, pair) for (kind, s), pair in compared.items() if s == state)
        name, value = f"residual over noise, {kind} of {state}", pair.over_noise
    else:
        of = accept.of or next(iter(unknowns))
        counts = problem.free[of]
        if accept.within is not None:
            setup = problem.setup
            known = masking(setup, of, problem.known, problem.start)
            counts = build_mask(accept.within, known, setup.place(of, f"accept[{number}].within"))
        measure = correlation if accept.quantity == "correlation" else relative_error
        name, value = f"{accept.quantity.replace('_', ' ')} of {of}", measure(unknowns[of], counts)
    low = -np.inf if accept.at_least is None else accept.at_least
    high = np.inf if accept.at_most is None else accept.at_most
    limits = [f"at least {low:g}"] * (low > -np.inf) + [f"at most {high:g}"] * (high < np.inf)
    return Line(name, float(value), " and ".join(limits), bool(low <= value <= high))


def correlation(found: UnknownField, counts: Mask) -> float:
    """Correlation of (answer - start) with (truth - start), over the cells that count; 0 if either is constant."""
    answer, truth = (_departure(values, found, counts) for values in (found.answer, found.truth))
    answer, truth = answer - answer.mean(), truth - truth.mean()
    size = float(np.linalg.norm(answer) * np.linalg.norm(truth))
    return float(answer @ truth) / size if size else 0.0


def relative_error(found: UnknownField, counts: Mask) -> float:
    """‖answer - truth‖ / ‖start - truth‖ over the cells that count."""
    answer, truth = (_departure(values, found, counts) for values in (found.answer, found.truth))
    size = float(np.linalg.norm(truth))
    return float(np.linalg.norm(answer - truth)) / size if size else float("inf")


def _departure(values: Array | None, found: UnknownField, counts: Mask) -> Array:
    assert values is not None  # without a truth there is no such figure; `assemble` refuses it
    return values[counts].astype(float) - found.start[counts].astype(float)
