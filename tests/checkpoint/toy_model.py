"""A chaotic map of two coupled fields on a ring, with a hand-written adjoint, and schedules made up for the tests."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields

import numpy as np

from diffsim.checkpoint import Action, EndForward, Free, Load, Record, Reverse, Save, Schedule, Shared, Sweep, Tier, Undo
from diffsim.checkpoint.actions import Advance

COUPLING = 0.1
CELLS = 7


def neighbours(f):
    return (1 - COUPLING) * f + 0.5 * COUPLING * (np.roll(f, 1) + np.roll(f, -1))


def step(u, v, a):
    """u' = D[a u (1 - u)] (1 - v/10), v' = 0.9 v + 0.1 u^2, with D averaging neighbours."""
    return neighbours(a * u * (1 - u)) * (1 - 0.1 * v), 0.9 * v + 0.1 * u * u


def loss(u, v, weights):
    return np.sum(weights[0] * u + weights[1] * v * v)


def initial(rng):
    """Return u, v, a (growth rate) and the weights of the loss."""
    return rng.uniform(0.2, 0.8, CELLS), rng.uniform(0.0, 1.0, CELLS), rng.uniform(3.8, 3.99, CELLS), rng.standard_normal((2, CELLS))


class ToyStepper:
    """Advances in place, so that a save which forgets to copy is caught; what is undefined is NaN."""

    def __init__(self, u, v, a):
        self.u, self.v, self.a = u.copy(), v.copy(), a
        self.u_bar, self.v_bar, self.a_bar = np.zeros(CELLS), np.zeros(CELLS), np.zeros(CELLS)
        self.kept, self.recorded = {}, {}

    def advance(self, start, stop):
        for _ in range(start, stop):
            self.u[...], self.v[...] = step(self.u, self.v, self.a)

    def record(self, start, stop):
        assert not self.recorded
        for n in range(start, stop):
            self.recorded[n] = self.u.copy(), self.v.copy()
            self.advance(n, n + 1)

    def save(self, step, slot):
        self.kept[slot] = self.u.copy(), self.v.copy()

    def load(self, step, slot):
        self.u[...], self.v[...] = self.kept[slot]

    def free(self, slot):
        del self.kept[slot]

    def reverse(self, start, stop):
        for n in reversed(range(start, stop)):
            u, v = self.recorded.pop(n) if self.recorded else (self.u, self.v)
            g_bar = (1 - 0.1 * v) * self.u_bar
            f_bar = neighbours(g_bar)  # the average is symmetric
            v_bar = 0.9 * self.v_bar - 0.1 * neighbours(self.a * u * (1 - u)) * self.u_bar
            self.a_bar += f_bar * u * (1 - u)
            self.u_bar = f_bar * self.a * (1 - 2 * u) + 0.2 * u * self.v_bar
            self.v_bar = v_bar
        self.u[...] = self.v[...] = np.nan


def gradient(schedule, start, kind=ToyStepper):
    """Return the gradient with respect to (u, v, a), one row each."""
    u, v, a, weights = start
    stepper = kind(u, v, a)
    with Sweep(schedule, stepper) as sweep:
        sweep.forward()
        stepper.u_bar, stepper.v_bar = weights[0].copy(), 2 * weights[1] * stepper.v
        sweep.reverse()
    assert not stepper.kept
    assert not stepper.recorded
    return np.stack([stepper.u_bar, stepper.v_bar, stepper.a_bar])


@dataclass(frozen=True)
class Segments(Schedule):
    """Keep the first state of every segment of `length` steps, then record one segment after another."""

    steps: int
    length: int

    @property
    def firsts(self):
        return range(0, self.steps, self.length)

    @property
    def slots(self):
        return len(self.firsts) - 1

    def actions(self) -> Iterator[Action]:
        *earlier, last = self.firsts
        for slot, start in enumerate(earlier):
            yield Save(start, slot)
            yield Advance(start, start + self.length)
        yield Record(last, self.steps)
        yield EndForward(self.steps)
        yield Reverse(last, self.steps)
        for slot, start in reversed(list(enumerate(earlier))):
            yield Load(start, slot)
            yield Free(slot)
            yield Record(start, start + self.length)
            yield Reverse(start, start + self.length)


@dataclass(frozen=True)
class Scripted(Schedule):
    """A schedule of the actions it is given, whose counts are found in them."""

    steps: int
    slots: int
    listed: tuple[Action, ...]
    slower: tuple[Tier, ...] = ()
    together: Shared | None = None

    @property
    def slow_tiers(self) -> tuple[Tier, ...]:
        return self.slower

    @property
    def shared(self) -> Shared | None:
        return self.together

    def actions(self) -> Iterator[Action]:
        return iter(self.listed)


class Undoing(Scripted):
    runs_backwards = True


def scripted(steps: int, slots: int, listed: Iterable[Action], slower: tuple[Tier, ...] = (), together: Shared | None = None) -> Scripted:
    """Return the schedule of these actions."""
    listed = tuple(listed)
    kind = Undoing if any(isinstance(action, Undo) for action in listed) else Scripted
    return kind(steps, slots, listed, slower, together)


def declaring(schedule: Scripted, **counts: int) -> Scripted:
    """Return the same schedule with other counts than are found in its actions."""
    kind = type(schedule)
    return type(kind.__name__, (kind,), counts)(*(getattr(schedule, each.name) for each in fields(schedule)))
