"""A simulation as one operation of the record of an array program."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from diffsim.checkpoint import Checkpoint
from diffsim.simulation.reversal import Until
from diffsim.simulation.solution import Solution
from diffsim.stepping.names import dot
from diffsim.stepping.points import PointTable
from diffsim.typing import Array

if TYPE_CHECKING:
    from diffsim.simulation.simulation import Simulation


@dataclass(frozen=True)
class RecordedRun:
    """A simulation over a number of steps, as the record sees it.

    Attributes:
        names: of the inputs, in the order of the arguments.
        outputs: of the values: ("final", state) or ("traces", state).
        points: where sources and receivers were; the simulation may have been moved since.
        until: where the run ends before `steps`.
        every: ask `until` after each so many steps.
    """

    simulation: Simulation
    names: tuple[str, ...]
    outputs: tuple[tuple[str, str], ...]
    steps: int
    checkpoint: Checkpoint
    points: Mapping[str, PointTable]
    until: Until | None = None
    every: int = 1

    def _named(self, args: Sequence[Array]) -> dict[str, Array]:
        return dict(zip(self.names, args, strict=True))

    def _values(self, solution: Solution) -> tuple[Array, ...]:
        return tuple(getattr(solution, part)[name] for part, name in self.outputs)

    def solution(self, values: Sequence[Any]) -> Solution:
        """Values (or their cotangents) by name."""
        parts: dict[str, dict[str, Any]] = {"final": {}, "traces": {}}
        for (part, name), value in zip(self.outputs, values, strict=True):
            parts[part][name] = value
        return Solution(**parts)

    def evaluate(self, *args: Array) -> tuple[Array, ...]:
        with self.simulation.placed(self.points):
            return self._values(self.simulation.run(self._named(args), self.steps, self.every, until=self.until))

    def record(self, *args: Array) -> tuple[tuple[Array, ...], Callable[[Sequence[Array]], list[Array]]]:
        with self.simulation.placed(self.points):
            inputs = self._named(args)
            solution, pullback = self.simulation.vjp(inputs, self.steps, self.checkpoint, until=self.until, every=self.every)

        def pull(cts: Sequence[Array]) -> list[Array]:
            bars = pullback(self.solution(cts))
            return [bars.get(name, np.zeros_like(a)) for name, a in zip(self.names, args, strict=True)]

        return self._values(solution), pull

    def tangent(self, differentiable: bool) -> RecordedRun:
        simulation = self.simulation.tangent(differentiable)
        names = tuple(dot(name, simulation.order) for name in self.names)
        outputs = tuple((part, dot(name, simulation.order)) for part, name in self.outputs)
        points = self.simulation._with_tangents(self.points, simulation.order)
        names, outputs = (*self.names, *names), (*self.outputs, *outputs)
        return RecordedRun(simulation, names, outputs, self.steps, self.checkpoint, points, self.until, self.every)
