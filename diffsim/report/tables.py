"""The words and figures of the report: the question, the success, and the means."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from diffsim.base.arguments import plural
from diffsim.plot.units import duration, number, size

if TYPE_CHECKING:
    from diffsim.scene.disk.outcome import Divided, Line, Outcome, Taken, UnknownField

Rows = list[tuple[str, ...]]


def verdict(outcome: Outcome) -> tuple[str, str]:
    """A word for the badge ("passed", "failed" or "not judged"), and a sentence."""
    parts = []
    for lines, what in ((outcome.accepted, "acceptance"), (outcome.certificate, "certificate of the gradient")):
        if lines:
            good, open_ = (sum(line.passed is verdict for line in lines) for verdict in (True, None))
            held = f"{good} of them met" if good < len(lines) else "it is met" if good == 1 else "all are met"
            unjudged = f", {open_} cannot be judged" if open_ else ""
            parts.append(f"The {what} states {plural(len(lines), 'limit')}: {held}{unjudged}.")
    if not outcome.accepted:
        parts.insert(0, "The scene states no acceptance figures.")
    word = {False: "failed", None: "not judged", True: "passed" if outcome.accepted else "not judged"}[outcome.judged]
    return word, " ".join(parts)


def story(outcome: Outcome) -> str:
    """A summary of the search, in a sentence or two."""
    (first, end), last = outcome.losses, outcome.history[-1]
    factor = f", {first / end:.3g} times less" if 0 < end < first else ""
    stages = f" in {last.stage} stages; it is that of the last one" if last.stage > 1 else ""
    names = " and ".join(outcome.unknowns)
    return (
        f"The search for {names} lowered the loss from {number(first)} to {number(end)}{factor}{stages}, "
        f"in {plural(last.iteration, 'iteration')} and {duration(last.seconds)}. It stopped: {outcome.stopped.rstrip('.')}."
    )


def judged(lines: tuple[Line, ...]) -> list[dict[str, Any]]:
    """Rows of an acceptance or a certificate."""
    return [
        {"name": line.name, "value": number(line.value), "limit": line.limit, "verdict": line.verdict, "note": line.note} for line in lines
    ]


def measured(outcome: Outcome) -> Rows:
    """The measurements of the monitors of a design at the start and at the answer."""
    return [(name, f"{start:.3f}", f"{end:.3f}") for name, (start, end) in outcome.measured.items()]


def parts(outcome: Outcome) -> Rows:
    """Each misfit and penalty at the start and at the answer, and its share of the loss there."""
    total = sum(end for _, end in outcome.loss_parts.values())
    rows: Rows = [
        (name, number(start), number(end), f"{100 * end / total:.1f} %" if total > 0 else "")
        for name, (start, end) in outcome.loss_parts.items()
    ]
    if len(rows) > 1:
        rows.append(("together", number(sum(start for start, _ in outcome.loss_parts.values())), number(total), ""))
    return rows


def fitted(outcome: Outcome) -> list[tuple[str, Rows]]:
    """For each state the fit of the answer to the record of each receiver, with its number from 0."""
    lag_unit = outcome.time_unit
    return [
        (
            state,
            [
                (
                    f"{number}",
                    fit.name,
                    f"{fit.variance_reduction:.3f}",
                    f"{fit.lag:.4g} {lag_unit}".rstrip(),
                    f"{fit.peak:.3f}",
                    "" if fit.noise is None else f"{fit.noise:.0%}" + " (mostly noise)" * fit.is_noise,
                )
                for number, fit in enumerate(each)
            ],
        )
        for state, each in outcome.fits.items()
    ]


FEW, MANY = 20, 1000
"""Most numbers under one name that a line of text lists, and that the page does."""


def numbers_behind(outcome: Outcome, most: int = MANY) -> list[tuple[str, Rows]]:
    """For each unknown with some numbers behind it, or of a few numbers, their names and values, where these are at most `most`."""
    return [(name, rows) for name, field in outcome.unknowns.items() if (rows := _numbers_of(field, most))]


def _numbers_of(field: UnknownField, most: int) -> Rows:
    behind = field.values
    if not behind and field.answer.size <= FEW:
        numbers = {"start": field.start, "answer": field.answer} | ({} if field.truth is None else {"truth": field.truth})
        behind = {f"{name}, {field.unit}" if field.unit else name: values for name, values in numbers.items()}
    return [(part, ", ".join(f"{value:.4g}" for value in values.ravel())) for part, values in behind.items() if 0 < values.size <= most]


def memory(outcome: Outcome) -> Rows:
    """The schedule, and the memory it needs, predicted and actual."""
    held = outcome.memory
    apart = f" ({100 * (held.allocated - held.predicted) / held.predicted:+.1f} % of the prediction)" if held.predicted else ""
    return [
        ("schedule", outcome.schedule),
        *_divided(outcome.divided),
        *_gradient(outcome.gradient),
        ("fields of a gradient, predicted", size(held.predicted)),
        ("fields allocated in the end", size(held.allocated) + apart),
        ("peak of the whole process, with Python and all libraries", size(held.peak_process)),
    ]


def _divided(divided: Divided | None) -> Rows:
    """The division of the grid among processes."""
    if divided is None:
        return []
    share = f" ({100 * divided.exchange_seconds / divided.seconds:.0f} % of the gradient)" if divided.seconds else ""
    return [
        ("boxes of the grid, one for each process", " x ".join(map(str, divided.boxes))),
        ("groups of processes, which run different shots", str(divided.groups)),
        ("ghost cells over all cells of a process, at most", f"{100 * divided.ghost_share:.1f} %"),
        ("exchanges of ghost cells in a gradient of one shot", str(divided.exchanges)),
        ("their time, with the wait for other processes", duration(divided.exchange_seconds) + share),
    ]


def _gradient(taken: Taken | None) -> Rows:
    """The measured and the predicted cost of a gradient."""
    if taken is None:
        return []
    return [
        ("time of a gradient, predicted", duration(taken.seconds_predicted)),
        ("time of a gradient, measured", duration(taken.seconds) + _apart(taken.seconds, taken.seconds_predicted)),
        ("time of the first gradient", duration(taken.first)),
        ("peak memory of a gradient, predicted", size(taken.peak_predicted)),
        ("peak memory of the first gradient, measured", size(taken.peak) + _apart(taken.peak, taken.peak_predicted)),
    ]


def _apart(measured: float, predicted: float) -> str:
    return f" ({100 * (measured / predicted - 1):+.0f} % of the prediction)" if predicted else ""


def circumstances(outcome: Outcome) -> list[tuple[str, Rows]]:
    """Tables of the conditions of the figures: the run, timings, machine, versions."""
    run: Rows = [
        ("scene", outcome.name),
        ("equation", outcome.equation),
        ("grid", ", ".join(f"{len(axis.coordinates)} cells of {axis.name}" for axis in outcome.axes)),
        ("time steps", str(max(len(outcome.times) - 1, 0))),
        ("seed of all random numbers", str(outcome.seed)),
    ]
    if len(outcome.times) > 1:
        run.insert(4, ("time step", f"{outcome.times[1] - outcome.times[0]:.4g} {outcome.time_unit}".rstrip()))
    return [
        ("Run", run),
        ("Time taken", [(name, duration(spent)) for name, spent in outcome.seconds.items()]),
        ("Machine", [(name, str(value)) for name, value in outcome.machine.items()]),
        ("Versions", list(outcome.versions.items())),
    ]


def settings(values: Any, key: str = "") -> Iterator[str]:
    """The settings a line each, as `--set` takes them: `optimise.iterations=5`, `misfit.0.weight=1.0`."""
    if isinstance(values, Mapping) and values:
        for name, value in values.items():
            yield from settings(value, f"{key}.{name}" if key else str(name))
    elif isinstance(values, (list, tuple)) and any(isinstance(value, Mapping) for value in values):
        for index, value in enumerate(values):
            yield from settings(value, f"{key}.{index}")
    else:
        yield f"{key}={json.dumps(values, ensure_ascii=False)}"
