"""Shots of a small grid that run together, in one kernel, and shots that run alone."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import TypeAlias

import numpy as np

from diffsim.base.system import available_memory
from diffsim.checkpoint import Checkpoint, OnProgress, Policy, parse_memory
from diffsim.scene.setup.setup import Setup
from diffsim.simulation import Batch, Solution
from diffsim.typing import Array

CELLS = 2**16
"""The cells of all shots that run together. On more cells, each pass through them leaves the cache, and together is slower than alone."""
SECONDS = 20.0
"""Shots run together if a search is expected to take longer. A shorter one would gain less than the second kernel takes to compile."""
SHARE = 0.25
"""The part of the available memory that the gradients of all shots of a group may take."""

Pullbacks: TypeAlias = Callable[[Sequence[Solution]], list[dict[str, Array]]]
"""Cotangents of the solution of each shot -> gradients of its inputs."""


def most_together(setup: Setup, checkpoint: Checkpoint, count: int) -> int:
    """The most of `count` shots that run together faster than alone, in groups of about one size; 1: none do."""
    simulation, policy = setup.simulation, Policy.of(checkpoint)
    most = min(count, CELLS // setup.grid.size)
    alike = all(shot.sources[name].shape == places.shape for shot in setup.shots for name, places in setup.shots[0].sources.items())
    if (
        most < 2
        or not alike
        or policy.disk is not None
        or set(simulation.wrt) & set(setup.equation.series)
        or Batch.obstacle(simulation) is not None
    ):
        return 1
    room = SHARE * available_memory() if policy.memory is None else parse_memory(policy.memory)
    each = simulation.predicted_bytes(simulation.schedule(setup.steps, policy))
    groups = math.ceil(count / max(min(most, int(room // each) - 1), 1))  # that of one shot stays
    return math.ceil(count / groups)


class Grouping:
    """Divides shots into groups.

    Args:
        setup: their setup.
        size: the most shots of a group.
    """

    def __init__(self, setup: Setup, size: int) -> None:
        self._setup, self._size = setup, size

    @cached_property
    def _batch(self) -> Batch:
        """It stays, because compiling takes long. A smaller group runs its last shot several times."""
        return Batch(self._setup.simulation, self._size)

    def groups(self, shots: Sequence[int]) -> Iterator[Group]:
        """These shots in groups, in their order."""
        for first in range(0, len(shots), self._size):
            part = shots[first : first + self._size]
            yield Several(self._setup, self._batch, part) if len(part) > 1 else Alone(self._setup, part)


class Alone:
    """A shot that the simulation of the setup runs."""

    def __init__(self, setup: Setup, shots: Sequence[int]) -> None:
        self.shots, self._setup = shots, setup

    def _inputs(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        return next(self._setup.prepared(inputs, self.shots))

    def run(self, inputs: Mapping[str, Array]) -> list[Solution]:
        """The solution of each shot."""
        return [self._setup.simulation.run(self._inputs(inputs), self._setup.steps)]

    def jvp(self, inputs: Mapping[str, Array], moved: Mapping[str, Array]) -> tuple[list[Solution], list[Solution]]:
        """The solution of each shot, and its change where the fields change."""
        setup = self._setup
        solution, change = setup.simulation.jvp(self._inputs(inputs), setup.of_shot(moved, self.shots[0]), setup.steps)
        return [solution], [change]

    def vjp(self, inputs: Mapping[str, Array], checkpoint: Checkpoint, tell: OnProgress | None) -> tuple[list[Solution], Pullbacks]:
        """The solution of each shot, and the pullback of all."""
        solution, pullback = self._setup.simulation.vjp(self._inputs(inputs), self._setup.steps, checkpoint, on_progress=tell)
        return [solution], lambda bars: [pullback(bars[0])]


class Several:
    """Shots that a batch runs, with the methods of `Alone`."""

    def __init__(self, setup: Setup, batch: Batch, shots: Sequence[int]) -> None:
        self.shots, self._setup, self._batch = shots, setup, batch

    def _inputs(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """Move the sources there, and return the inputs of the batch: an input with a gradient has one for each shot."""
        setup, runs, numbers = self._setup, self._batch.runs, self._numbers()
        shots = [setup.shots[number] for number in numbers]
        if shots[0].sources:
            self._batch.move(sources=setup.placed({name: np.stack([shot.sources[name] for shot in shots]) for name in shots[0].sources}))
        each = [{**shot.amplitudes, **setup.of_shot(inputs, number)} for shot, number in zip(shots, numbers, strict=True)]
        joined = {}
        for name, values in each[0].items():
            if name in setup.equation.forcings or setup.by_window(name):
                joined[name] = np.stack([mine[name] for mine in each])
            else:
                joined[name] = np.broadcast_to(values, (runs, *values.shape)) if name in setup.simulation.wrt else values
        return joined

    def run(self, inputs: Mapping[str, Array]) -> list[Solution]:
        return self._apart(self._batch.run(self._inputs(inputs), self._setup.steps))

    def jvp(self, inputs: Mapping[str, Array], moved: Mapping[str, Array]) -> tuple[list[Solution], list[Solution]]:
        setup, numbers = self._setup, self._numbers()
        each = [setup.of_shot(moved, number) for number in numbers]
        dots = {name: np.stack([mine[name] for mine in each]) for name in moved}
        solution, change = self._batch.jvp(self._inputs(inputs), dots, setup.steps)
        return self._apart(solution), self._apart(change)

    def _numbers(self) -> list[int]:
        """The shots of the runs of the batch; the last one fills up."""
        return [*self.shots, *[self.shots[-1]] * (self._batch.runs - len(self.shots))]

    def vjp(self, inputs: Mapping[str, Array], checkpoint: Checkpoint, tell: OnProgress | None) -> tuple[list[Solution], Pullbacks]:
        solution, pullback = self._batch.vjp(self._inputs(inputs), self._setup.steps, checkpoint, on_progress=tell)

        def pull(bars: Sequence[Solution]) -> list[dict[str, Array]]:
            gradients = pullback(Solution(*(self._joint([getattr(bar, part) for bar in bars]) for part in ("final", "traces"))))
            return [{name: values[k] for name, values in gradients.items()} for k in range(len(self.shots))]

        return self._apart(solution), pull

    def _apart(self, solution: Solution) -> list[Solution]:
        parts = solution.final, solution.traces
        return [Solution(*({name: values[k] for name, values in part.items()} for part in parts)) for k in range(len(self.shots))]

    def _joint(self, bars: Sequence[Mapping[str, Array]]) -> dict[str, Array]:
        """Cotangents of the batch: zero for a shot that is run once more."""
        return {
            name: np.concatenate([[bar[name] for bar in bars], np.zeros((self._batch.runs - len(bars), *values.shape))])
            for name, values in bars[0].items()
        }


Group: TypeAlias = Alone | Several
"""Shots that are run at once."""
