"""The sequence of a certificate: the measurements of any loss through a simulation, in order.

dot product     <J v, w> = <v, Jᵀ w> for random v and w: tangent and adjoint of all time steps are transposes.
jvp and vjp     the derivative of the loss along v by the tangent, and by the gradient.
Taylor          |L(x + h d) - L(x)| falls as h, and |L(x + h d) - L(x) - h ∇L·d| as h². These lines know nothing of derivatives but
                the gradient, so they would see a tangent and an adjoint that are wrong alike.
checkpoints     the gradient by every schedule has the bits of the one for which all was stored.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from diffsim.certificate.line import Line, cannot_judge
from diffsim.certificate.measures import LONGER, NO_EFFECT, equal_sums, same_bits, spread
from diffsim.certificate.path import Path
from diffsim.certificate.taylor import CLEAR
from diffsim.certificate.verdict import judge
from diffsim.checkpoint import AnySchedule, Binomial, Checkpoint, Policy, StoreAll
from diffsim.errors import DerivativeError
from diffsim.simulation import Batch, Simulation
from diffsim.typing import Array

SLOTS = (1, 2, 3, 5, 8, 13, 21)
"""Numbers of slots that are tried."""
FACTORS = (1.1, 0.7, 1.3)
"""By which changes and cotangents are multiplied to see the rounding of sums that differ."""
MOST_REPEATED = 12.0
"""Schedules that run each step forward more often than this are left out."""


@dataclass(frozen=True)
class Sums:
    """Two lists of products whose sums should be equal.

    Attributes:
        name: of the line.
        of: the input whose derivative it is.
        measure: gives the products of the tangent, those of the adjoint, and whether the effect of the input reaches the compared values.
            Its argument multiplies the change, and the cotangent that is random, and divides the products: both sums are linear, so they
            differ by rounding alone from those for 1. Its random numbers are the same in each call (`repeatable`).
    """

    name: str
    of: str
    measure: Callable[[float], tuple[Array, Array, bool]]


def repeatable(
    rng: np.random.Generator, measure: Callable[[float], tuple[Array, Array, bool]]
) -> Callable[[float], tuple[Array, Array, bool]]:
    """`measure`, which takes the same numbers from `rng` in each call."""
    states: list[Mapping[str, object]] = []

    def again(factor: float) -> tuple[Array, Array, bool]:
        if states:
            rng.bit_generator.state = states[0]
        else:
            states.append(rng.bit_generator.state)
        return measure(factor)

    return again


@dataclass(frozen=True)
class Direction:
    """A direction of a Taylor test.

    Attributes:
        label: its name.
        of: the inputs that it changes.
        path: the loss along it.
        needed: False for single cells: where one cannot judge, random directions do.
    """

    label: str
    of: Iterable[str]
    path: Path
    needed: bool = True


class Subject(Protocol):
    """A loss through a simulation at a point: its values, gradients and runs.

    Attributes:
        simulation: whose adjoint is checked.
        steps: time steps.
        limit: largest relative mismatch of sums that should be equal.
        differences: whether differences of the loss say anything; they do not in f32.
    """

    steps: int
    limit: float
    differences: bool

    @property
    def simulation(self) -> Simulation | Batch: ...

    def gradient(self, checkpoint: Checkpoint) -> Mapping[str, Array]:
        """The gradient by each input, and the loss as "value"."""

    def start(self, gradient: Mapping[str, Array]) -> None:
        """Told the gradient by which all was stored, before anything else is asked."""

    def sums(self) -> Iterator[Sums]:
        """Every pair of sums."""

    def lines(self) -> Iterator[Direction]:
        """Every direction of the Taylor test."""

    def alone(self, name: str) -> Direction | None:
        """A random direction that changes one input, or None where none of the loss's unknowns is this input."""


def measure(subject: Subject) -> Iterator[Line]:
    """Every line of a certificate. A measurement that fails gives a line that names it, and the rest goes on.

    Args:
        subject: the subject of the check.
    """
    lines = _measured(subject)
    return (replace(line, note=line.note.replace(LONGER, "")) for line in lines) if _steady(subject) else lines


def _steady(subject: Subject) -> bool:
    simulation = subject.simulation
    return (simulation._one if isinstance(simulation, Batch) else simulation).equation.steady


def _measured(subject: Subject) -> Iterator[Line]:
    stored = _stored(subject)
    try:
        reference = subject.gradient(stored)
    except (ArithmeticError, MemoryError) as error:
        yield stopped("value and gradient", error)
        return
    subject.start(reference)
    unreached: set[str] = set()
    alone: dict[str, Direction | None] = {}  # of inputs whose tangents do not exist
    for sums in subject.sums():
        yield from _attempt(sums.name, lambda s=sums: _sums(subject, s, unreached, alone))  # type: ignore[misc]
    if subject.differences:
        noise: list[float] = []
        for line in (*subject.lines(), *(one for one in alone.values() if one is not None)):
            yield from _attempt(f"Taylor with gradient, {line.label}", lambda d=line: _along(d, unreached, noise))  # type: ignore[misc]
    yield from _checkpoints(subject, stored, reference)


def stopped(name: str, error: BaseException) -> Line:
    """A line that names the error that ended a measurement."""
    text = str(error) or "there is no more memory; take fewer steps or a coarser grid" * isinstance(error, MemoryError)
    return cannot_judge(name, f"stopped by {type(error).__name__}: {text}")


def _sums(subject: Subject, sums: Sums, unreached: set[str], alone: dict[str, Direction | None]) -> list[Line]:
    """The line of a pair of sums. If the step has no tangent, a direction of this input alone, put into `alone`, judges in its place."""
    try:
        return _compare(sums, subject.limit, unreached)
    except DerivativeError as error:  # the gradient was computed, so it is the tangent that a function of the step does not have
        if sums.of not in alone:
            alone[sums.of] = subject.alone(sums.of) if subject.differences else None
        line, instead = stopped(sums.name, error), alone[sums.of]
        return [replace(line, note=f"{line.note}; the line of {instead.label} judges in its place", needed=False) if instead else line]


def _attempt(name: str, lines: Callable[[], list[Line]]) -> list[Line]:
    try:
        return lines()
    except Exception as error:  # whatever a loss or a step raises, the measured lines are kept
        return [stopped(name, error)]


def _compare(sums: Sums, limit: float, unreached: set[str]) -> list[Line]:
    forward, backward, arrives = sums.measure(1.0)
    line = equal_sums(sums.name, forward, backward, limit)
    if line.passed is False and np.isfinite(line.value):
        same, *again = [sums.measure(factor)[:2] for factor in (1.0, *FACTORS)]
        if not all(map(np.array_equal, same, (forward, backward))):
            return [replace(line, note="a second measurement has other bits")]
        line = equal_sums(
            sums.name, forward, backward, limit, spread([forward, *(f for f, _ in again)]) + spread([backward, *(b for _, b in again)])
        )
    if arrives:
        return [line]
    unreached.add(sums.of)
    return [line if line.passed is False else cannot_judge(sums.name, f"of {sums.of}, {NO_EFFECT}", line.value, line.limit)]


def _along(line: Direction, unreached: set[str], noise: list[float]) -> list[Line]:
    """The lines of a direction; the round-off of the loss is measured along the first one that allows it."""
    path = line.path
    if unreached.issuperset(line.of) and not _moves(path):
        return [replace(cannot_judge(f"Taylor with gradient, {line.label}", NO_EFFECT), needed=line.needed)]
    path.noise = noise[0] if noise else None
    lines = judge(line.label, path)
    if not noise and path.noise is not None:
        noise.append(path.noise)
    return [replace(one, needed=line.needed) for one in lines]


def _moves(path: Path) -> bool:
    """True if the loss changes along a direction, whatever tangents and adjoints say."""
    change = path.change(path.largest)
    return not np.isfinite(change) or abs(change) > CLEAR * path.floor(path.largest)


def _stored(subject: Subject) -> AnySchedule:
    """The schedule that stores all, or as much as there is memory for."""
    planned = subject.simulation.schedule(subject.steps)
    return planned if planned.recorded < subject.steps else StoreAll(subject.steps)


def _checkpoints(subject: Subject, stored: AnySchedule, reference: Mapping[str, Array]) -> Iterator[Line]:
    """Every schedule against the one that stores all."""
    steps = subject.steps
    if steps == 1:
        one = "a steady problem" if _steady(subject) else "a run of 1 step"
        note = f"{one} keeps no states, so no schedule was tried" + ("" if _steady(subject) else "; take more steps")
        yield replace(cannot_judge("checkpoints", note), needed=False)
    against = "all stored" if isinstance(stored, StoreAll) else f"{stored.slots} slots"
    for slots in SLOTS:
        if slots >= steps:  # as many as there are steps store all
            break
        schedule = Binomial(steps, slots)
        if schedule.advances > MOST_REPEATED * steps:
            continue
        name = f"{slots} slot{'s' if slots > 1 else ''} against {against}"
        note = f"{schedule.advances / steps:.2f} forward steps a step; numbers that differ are counted"
        policy = Policy(schedule=schedule, verify=False)  # the line compares the bits itself
        yield from _attempt(name, lambda n=name, p=policy, t=note: [same_bits(n, subject.gradient(p), reference, t)])  # type: ignore[misc]
