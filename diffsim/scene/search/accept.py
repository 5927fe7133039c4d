"""Judge an answer: compare the figures that a scene requires with their limits."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from diffsim.certificate import Line
from diffsim.certificate.line import cannot_judge
from diffsim.errors import SceneError
from diffsim.mesh.grid import Grid
from diffsim.photonics import Density, feature_size
from diffsim.scene.disk.fit import Fit
from diffsim.scene.disk.outcome import Compared, UnknownField
from diffsim.scene.schema.search_keys import OF_RECORDS, Accept
from diffsim.scene.search.assemble import Problem, masking
from diffsim.scene.setup.design import names_of
from diffsim.scene.setup.fields import build_mask
from diffsim.scene.words.model import Mask
from diffsim.typing import Array


def judge(
    problem: Problem,
    losses: tuple[float, float],
    compared: dict[tuple[str, str], Compared],
    unknowns: dict[str, UnknownField],
    measured: Mapping[str, tuple[float, float]],
    fits: Mapping[str, tuple[Fit, ...]],
) -> list[Line]:
    """A line for each `[[accept]]` of the scene.

    Args:
        problem: the scene, assembled.
        losses: at the start and at the answer.
        compared: ("traces" or "final", state) -> data and predictions.
        unknowns: the unknowns that were found.
        measured: measurements of the monitors of objectives, at the start and at the answer.
        fits: state -> the fit of each record.
    """
    lines = []
    for number, accept in enumerate(problem.scene.accept):
        if accept.quantity == "misfit_over_noise":
            lines += [_line(accept, name, value) for name, value in _over_noise(accept, problem, compared)]
        elif accept.quantity in OF_RECORDS:
            state = accept.of or next(misfit.state for misfit in problem.scene.misfit if misfit.of == "traces")
            lines += _of_records(accept, state, fits[state])
        else:
            lines.append(_line(accept, *_figure(number, accept, problem, losses, unknowns, measured)))
    return lines


def _line(accept: Accept, name: str, value: float, note: str = "") -> Line:
    low = -np.inf if accept.at_least is None else accept.at_least
    high = np.inf if accept.at_most is None else accept.at_most
    limits = [f"at least {low:g}"] * (low > -np.inf) + [f"at most {high:g}"] * (high < np.inf)
    return Line(name, float(value), " and ".join(limits), bool(low <= value <= high), note)


def _over_noise(accept: Accept, problem: Problem, compared: Mapping[tuple[str, str], Compared]) -> list[tuple[str, float]]:
    """Name and value of the residual over the noise: one, or one for each receiver."""
    state = accept.of or problem.scene.misfit[0].state
    kind, pair = next((kind, pair) for (kind, s), pair in compared.items() if s == state)
    if accept.each is None:
        return [(f"residual over noise, {kind} of {state}", pair.over_noise)]
    if kind != "traces":
        raise SceneError(f'accept: expected each = "receiver" of traces, found the final {state}; drop each')
    names = problem.setup.data[state].names if state in problem.setup.data else ()
    values = [pair.at(number).over_noise for number in range(pair.data.shape[-1])]
    return [(f"residual over noise of {state}, receiver {_who(number, names)}", value) for number, value in enumerate(values)]


def _of_records(accept: Accept, state: str, every: Sequence[Fit]) -> list[Line]:
    """Lines of a figure of fit: one, or one for each receiver. Mostly noise does not judge: no prediction fits it."""
    name, names = accept.quantity.replace("_", " "), [fit.name for fit in every]
    if accept.each is not None:
        lines, by_size = [], accept.quantity == "lag" and accept.at_least is None  # one that is early is no better than one that is late
        for number, fit in enumerate(every):
            value = float(getattr(fit, accept.quantity))
            value, called = (abs(value), f"size of the {name}") if by_size else (value, name)
            called = f"{called} of {state}, receiver {_who(number, names)}"
            line = _line(accept, called, value, _ceiling(accept, fit))
            lines.append(replace(line, passed=None, needed=False, note=_noise(fit)) if fit.is_noise else line)
        return lines
    heard = [float(getattr(fit, accept.quantity)) for fit in every if not fit.is_noise]
    which = "its receivers" if len(heard) == len(every) else f"{len(heard)} of its {len(every)} receivers"
    note = "" if len(heard) == len(every) else "records of the others are mostly noise"
    called = f"{name} of {state}, mean over {which}"
    if accept.quantity == "lag":  # whose mean would hide one that is early beside one that is late
        called = f"largest size of the lag of {state} over {which}"
    if not heard:
        return [cannot_judge(called, "every record is mostly noise; lower the deviation if that is not so, or add receivers")]
    return [_line(accept, called, float(np.max(np.abs(heard)) if accept.quantity == "lag" else np.mean(heard)), note)]


def _who(number: int, names: Sequence[str]) -> str:
    """A receiver in the name of a line: its number from 0, as in `drop` and in messages, and its name where that is another."""
    return f"{number}, {names[number]}" if number < len(names) and names[number] not in ("", f"{number}") else f"{number}"


def _noise(fit: Fit) -> str:
    """Why a record does not judge."""
    return f"noise of its deviation is {fit.noise:.0%} of the record; lower the deviation if that is not so"


def _ceiling(accept: Accept, fit: Fit) -> str:
    """A note where noise keeps every prediction below the limit."""
    if accept.quantity != "variance_reduction" or accept.at_least is None or fit.noise is None or 1 - fit.noise >= accept.at_least:
        return ""
    return f"with the noise of its record the best prediction has {1 - fit.noise:.2g}"


def _figure(
    number: int,
    accept: Accept,
    problem: Problem,
    losses: tuple[float, float],
    unknowns: dict[str, UnknownField],
    measured: Mapping[str, tuple[float, float]],
) -> tuple[str, float]:
    """Name and value of a figure of the loss, an unknown or a design."""
    if accept.quantity == "loss_reduction":
        name, value = "loss reduction", losses[0] / losses[1] if losses[1] > 0 else float("inf")
    elif accept.quantity == "transmission":
        name, value = _transmission(accept, problem, measured)
    elif accept.quantity == "feature_size":
        of = accept.of or next(name for name, part in problem.unknowns.parts.items() if isinstance(part, Density))
        part = problem.unknowns.parts[of]
        assert isinstance(part, Density)
        solid = unknowns[of].answer > 0.5 * (part.lower + part.upper)
        name, value = f"smallest feature of {of}, cells", feature_size(solid, problem.free[of])
    else:
        of = accept.of or next(iter(unknowns))
        counts = problem.free[of]
        if accept.within is not None:
            setup = problem.setup
            known = masking(setup, of, problem.known, problem.start)
            counts = build_mask(accept.within, known, setup.place(of, f"accept[{number}].within"))
        name = f"{accept.quantity.replace('_', ' ')} of {of}"
        if accept.quantity == "distance":
            value = distance(unknowns[of], counts, problem.setup.place(of, "").grid)
        else:
            value = MEASURES[accept.quantity](unknowns[of], counts)
    return name, float(value)


def _transmission(accept: Accept, problem: Problem, measured: Mapping[str, tuple[float, float]]) -> tuple[str, float]:
    """The mean over the frequencies of an objective, at the answer."""
    model = next(model for model in problem.scene.maximise if accept.of in (None, model.of))
    values = [measured[name][1] for name in names_of(model)]
    return f"transmission of {model.of}", sum(values) / len(values)


def correlation(field: UnknownField, counts: Mask) -> float:
    """Correlation of (answer - start) with (truth - start), over the cells that count; 0 if either is constant."""
    answer, truth = (_departure(values, field, counts) for values in (field.answer, field.truth))
    answer, truth = answer - answer.mean(), truth - truth.mean()
    size = float(np.linalg.norm(answer) * np.linalg.norm(truth))
    return float(answer @ truth) / size if size else 0.0


def relative_error(field: UnknownField, counts: Mask) -> float:
    """‖answer - truth‖ / ‖start - truth‖ over the cells that count."""
    answer, truth = (_departure(values, field, counts) for values in (field.answer, field.truth))
    size = float(np.linalg.norm(truth))
    return float(np.linalg.norm(answer - truth)) / size if size else float("inf")


def total(field: UnknownField, counts: Mask) -> float:
    """Σ (answer - start) / Σ (truth - start) over the cells that count."""
    answer, truth = (float(_departure(values, field, counts).sum()) for values in (field.answer, field.truth))
    return answer / truth if truth else float("inf")


def distance(field: UnknownField, counts: Mask, grid: Grid) -> float:
    """From the centre of |answer - start| to that of |truth - start|, in units of the grid; infinite if either is 0."""
    places = np.stack([x[counts] for x in np.meshgrid(*map(grid.coordinates, range(grid.ndim)), indexing="ij")])
    answer, truth = (np.abs(_departure(values, field, counts)) for values in (field.answer, field.truth))
    if not answer.any() or not truth.any():
        return float("inf")
    return float(np.linalg.norm(places @ answer / answer.sum() - places @ truth / truth.sum()))


MEASURES: Mapping[str, Callable[[UnknownField, Mask], float]] = {
    "correlation": correlation,
    "relative_error": relative_error,
    "total": total,
}
"""Quantity -> its function of an unknown and the cells that count."""


def _departure(values: Array | None, field: UnknownField, counts: Mask) -> Array:
    assert values is not None  # without a truth there is no such figure; `assemble` refuses it
    return values[counts].astype(float) - field.start[counts].astype(float)
