"""Functions that run for each shot of a scene: its gradient, loss, product with the Hessian, energy, or predictions.

Each function takes the forward problem first and the numbers of the shots last, and yields one result for each shot, in their order.
Any process that has the forward problem can run it, for any group of shots (`diffsim.scene.shots.workers`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import wraps
from itertools import chain
from typing import Concatenate, ParamSpec, TypeVar

import numpy as np

from diffsim.checkpoint import Checkpoint, Resident
from diffsim.scene.disk.shot_progress import ShotProgress
from diffsim.scene.setup.setup import Where
from diffsim.scene.shots.forward import Forward
from diffsim.scene.shots.misfits import Misfits, part_of
from diffsim.scene.words.own_errors import named_errors
from diffsim.typing import Array

P = ParamSpec("P")
T = TypeVar("T")


def _named(function: Callable[Concatenate[Forward, P], Iterator[T]]) -> Callable[Concatenate[Forward, P], Iterator[T]]:
    """A function of shots whose errors from a user's own classes are named, in the process that has their traceback."""

    @wraps(function)
    def named(forward: Forward, *args: P.args, **options: P.kwargs) -> Iterator[T]:
        others = (each.classes for each in args if isinstance(each, Misfits))
        with named_errors((("equation", type(forward.setup.equation)), *chain.from_iterable(others))):
            yield from function(forward, *args, **options)

    return named


@dataclass(frozen=True, eq=False)
class ShotGradient:
    """The misfits of one shot and their gradient.

    Attributes:
        values: label -> misfit.
        predicted: the predictions that have data.
        by_cell: unknown -> gradient of the sum of the misfits with respect to the value of each cell.
        peak: bytes of memory that the process needed for it; 0: not measured.
    """

    values: Mapping[str, float]
    predicted: Mapping[Where, Array]
    by_cell: Mapping[str, Array]
    peak: int


@_named
def gradients(
    forward: Forward,
    misfits: Misfits,
    fields: Mapping[str, Array],
    checkpoint: Checkpoint,
    measure: bool,
    shots: Sequence[int],
    progress: ShotProgress | None = None,
) -> Iterator[ShotGradient]:
    """The gradient of the misfits of each shot.

    Args:
        forward: the forward problem.
        misfits: of all shots.
        fields: of the unknowns.
        checkpoint: checkpointing schedule.
        measure: whether to measure the memory.
        shots: their numbers.
        progress: gets the progress within each shot.
    """
    setup, resident, place = forward.setup, Resident() if measure else None, 0
    for group in forward.groups(shots):
        tell = None if progress is None else progress.within(place, len(group.shots))
        solutions, pullback = group.vjp(forward.inputs(fields), checkpoint, tell)
        seeds = [misfits.seed(solution, fields, shot) for solution, shot in zip(solutions, group.shots, strict=True)]
        bars = pullback([seed.bars for seed in seeds])
        for shot, solution, seed, bar in zip(group.shots, solutions, seeds, bars, strict=True):
            by_cell = seed.added(setup.gathered(bar, shot))
            yield ShotGradient(seed.values, misfits.compared(solution), by_cell, 0 if resident is None else resident.peak)
        place += len(group.shots)


@_named
def losses(forward: Forward, misfits: Misfits, fields: Mapping[str, Array], shots: Sequence[int]) -> Iterator[dict[str, float]]:
    """Each misfit of each shot, without a reverse sweep."""
    for group in forward.groups(shots):
        for shot, solution in zip(group.shots, group.run(forward.inputs(fields)), strict=True):
            yield misfits.losses(solution, fields, shot)


@_named
def products(
    forward: Forward,
    misfits: Misfits,
    fields: Mapping[str, Array],
    moved: Mapping[str, Array],
    checkpoint: Checkpoint,
    shots: Sequence[int],
) -> Iterator[dict[str, Array]]:
    """Jᵀ W J times a change of the fields, of each shot; see `diffsim.scene.search.curvature`."""
    for group in forward.groups(shots):
        solutions, changes = group.jvp(forward.inputs(fields), moved)
        each = zip(solutions, changes, group.shots, strict=True)
        seeds = [misfits.bend(solution, change, moved, shot) for solution, change, shot in each]
        _, pullback = group.vjp(forward.inputs(fields), checkpoint, None)
        for shot, seed, bar in zip(group.shots, seeds, pullback([seed.bars for seed in seeds]), strict=True):
            yield seed.added(forward.setup.gathered(bar, shot))


@_named
def energies(
    forward: Forward, states: Sequence[str], every: int, fields: Mapping[str, Array], shots: Sequence[int]
) -> Iterator[dict[str, Array]]:
    """The sum over times of the square of each of these states, of each shot.

    Args:
        forward: the forward problem.
        states: their names.
        every: steps from one time to the next.
        fields: of the unknowns.
        shots: their numbers.
    """
    setup = forward.setup
    for _, inputs in forward.prepared(fields, shots):
        sums: dict[str, Array] = {state: np.zeros(setup.grid.shape) for state in states}

        def watch(done: int, states: Mapping[str, Array], sums: dict[str, Array] = sums) -> None:
            for state, total in sums.items():
                total += np.asarray(states[state], float) ** 2

        setup.simulation.run(inputs, setup.steps, every=every, watch=watch)
        yield sums


@_named
def predictions(
    forward: Forward, wanted: Collection[Where], fields: Mapping[str, Array], shots: Sequence[int]
) -> Iterator[dict[Where, Array]]:
    """These quantities of each shot."""
    for solution in forward.setup.predict(forward.inputs(fields), shots):
        yield part_of(solution, wanted)
