"""Snapshots: the compared states of the first shot at a few instants, as the start of a search and its answer predict them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

import numpy as np

from diffsim.scene.disk.outcome import Plane, Snapshots
from diffsim.scene.search.assemble import Problem
from diffsim.scene.setup.setup import Setup
from diffsim.typing import Array

INSTANTS = 4
"""Snapshots of a run, at most, equally spaced."""
SEEN = 32
"""Instants of a run that are looked at."""
REST, ROBUST = 0.2, 0.99
"""After the last snapshot, at most this part of the largest value is left, both by this quantile of the magnitudes."""
VALUES = 100_000
"""Numbers of all snapshots of an outcome, at most: 400 kB in f32."""
LARGEST = float(np.finfo(np.float32).max)
"""The largest number of a picture."""


def snapshots_of(problem: Problem, answer: Mapping[str, Array]) -> dict[str, Snapshots]:
    """Run the first shot forward twice, and keep snapshots of each state that a misfit compares.

    Args:
        problem: the assembled scene.
        answer: the fields that were found.

    Returns:
        state -> its snapshots, in the order of the misfits.
    """
    setup = problem.setup
    states = tuple(dict.fromkeys(misfit.state for misfit in problem.scene.misfit)) or _electric(setup) or _fields(setup)
    plane = _plane(problem, answer)
    shape = [n for axis, n in enumerate(setup.grid.shape) if plane is None or axis != plane[0]]
    block = _block(shape, VALUES // (2 * INSTANTS * len(states)))
    every = -(-setup.steps // SEEN)
    start, end = (_film(problem, fields, states, every, plane, block) for fields in (problem.start, answer))
    steps = np.array(list(end))
    chosen = _chosen(*(np.stack([seen[states[0]] for seen in film.values()]) for film in (start, end)))
    return {
        state: Snapshots(
            setup.equation.dt * steps[chosen],
            np.stack([start[step][state] for step in steps[chosen]]),
            np.stack([end[step][state] for step in steps[chosen]]),
            block,
            setup.unit(state),
            plane,
        )
        for state in states
    }


def _electric(setup: Setup) -> tuple[str, ...]:
    """The components of E that monitors record."""
    return () if setup.watched is None else tuple(state for state in setup.watched.monitors.receivers if state.startswith("E"))


def _fields(setup: Setup) -> tuple[str, ...]:
    """The states that vary over the grid."""
    return tuple(name for name, variable in setup.equation.states.items() if variable.axes is None)


def _chosen(*films: Array) -> list[int]:
    """Numbers of the instants that are kept, up to the last one at which a film is not yet at rest."""
    sizes = np.array([[np.quantile(np.abs(values), ROBUST) for values in film] for film in films])
    last = 1 + int(np.flatnonzero((sizes >= REST * sizes.max()).any(axis=0))[-1])
    return sorted({round(k * last / INSTANTS) - 1 for k in range(1, INSTANTS + 1) if round(k * last / INSTANTS)})


def _film(
    problem: Problem, fields: Mapping[str, Array], states: Sequence[str], every: int, plane: Plane | None, block: int
) -> dict[int, dict[str, Array]]:
    """Number of steps -> the visible part of each state then."""
    setup = problem.setup
    frames: dict[int, dict[str, Array]] = {}

    def watch(done: int, values: Mapping[str, Array]) -> None:
        frames[done] = {state: _small(values[state], plane, block) for state in states}

    (inputs,) = setup.prepared(problem.inputs(fields), [0])
    setup.simulation.run(inputs, setup.steps, every=every, watch=watch)
    return frames


def _plane(problem: Problem, answer: Mapping[str, Array]) -> Plane | None:
    """In 3-D, the plane across the middle axis through the sources of the shot, else through the largest change of the answer, else through
    the receivers; otherwise None."""
    setup = problem.setup
    if setup.grid.ndim < 3:
        return None
    coordinates = setup.grid.coordinates(1)
    fired, heard = ([points[:, 1] for points in places.values()] for places in (setup.shots[0].sources, setup.receivers))
    changes = [np.abs(np.asarray(answer[name], float) - before) for name, before in problem.start.items()]
    moved = [
        coordinates[np.unravel_index(change.argmax(), change.shape)[1]].reshape(1)
        for change in changes
        if change.shape == setup.grid.shape and change.any()
    ]
    along = next((each for each in (*fired, *moved, *heard) if len(each)), coordinates)
    return 1, int(np.argmin(np.abs(coordinates - along.mean())))


def _block(shape: Sequence[int], most: int) -> int:
    """The least size of blocks of cells of which there are at most so many."""
    block = 1
    while prod(-(-n // block) for n in shape) > most:
        block += 1
    return block


def _small(values: Array, plane: Plane | None, block: int) -> Array:
    """Means over blocks of cells of a field, or of its plane, in f32."""
    flat = values if plane is None else np.take(values, plane[1], axis=plane[0])
    small = np.asarray(flat, float)
    for axis, n in enumerate(flat.shape):
        first = np.arange(0, n, block)
        lengths = np.diff(np.append(first, n)).reshape([-1 if other == axis else 1 for other in range(flat.ndim)])
        small = np.add.reduceat(small, first, axis=axis) / lengths
    return np.clip(small, -LARGEST, LARGEST).astype(np.float32)  # values that f32 can hold keep their bits
