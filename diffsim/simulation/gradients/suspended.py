"""Copies of a reverse sweep in a folder, from which the same call resumes after the process was killed."""

from __future__ import annotations

import functools
import hashlib
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from diffsim.checkpoint import AnySchedule, Lossy, Policy, SweepFile
from diffsim.checkpoint.actions import Action, Reverse
from diffsim.engine import lanes, settings
from diffsim.errors import StorageError
from diffsim.expr.graph import ordered
from diffsim.simulation.prepared.compiled import Compiled
from diffsim.simulation.prepared.solution import Solution
from diffsim.typing import Array

DECISIVE = ("diffsim", "numpy", "scipy")
"""Packages that, besides the engine, can change bits of a gradient."""
_DIGITS = 12  # characters of a key in the names of files


@functools.cache
def _versions(engine: str) -> tuple[str, ...]:
    """The engine, and the versions of the decisive packages. Reading them takes milliseconds, as long as a small gradient."""
    from importlib.metadata import version

    return engine, *map(version, (engine, *DECISIVE))


def run_key(compiled: Compiled, fields: Mapping[str, Array], steps: int, schedule: AnySchedule, policy: Policy) -> str:
    """A key that identifies a run: it depends on everything that can change a bit of the gradient.

    The way of storing states counts only if it rounds them.
    """
    kind, grid = type(compiled.equation), compiled.grid
    step, before, start = compiled.traced.step, compiled.traced.coefficients, compiled.traced.initial
    parts: list[Any] = [*_versions(settings().engine), kind.__module__, kind.__qualname__, steps, compiled.dtype]
    parts += [compiled.wrt, compiled.receivers, grid.shape, grid.uniform_spacing, step.states, step.coefficients, sorted(step.active)]
    parts += [
        step.forcings,
        step.series,
        step.clock,
        step.graph.dt,
        before.placed,
        start.placed,
        [stage.identity() for stage in step.stages],
    ]
    parts += [settings().arch, lanes(compiled.dtype), schedule if schedule.runs_backwards else None]
    parts += [policy.compression.relative_error if isinstance(policy.compression, Lossy) else None]
    stages = [node for stage in step.stages for node in stage.roots()]
    expressions = [list(step.outputs.values()), stages, list(before.outputs.values()), list(start.outputs.values())]
    profiles = {**before.profiles, **start.profiles, **step.profiles}
    arrays = {**fields, **{f"profile {name}, {each.axis}, {each.location}": np.asarray(each.values) for name, each in profiles.items()}}
    digest = hashlib.blake2b(repr(parts).encode(), digest_size=16)
    for roots in expressions:
        digest.update(
            "\n".join(map(repr, [*ordered(roots), *(root.id for root in roots)])).encode()
        )  # the ids also say which node is which output
    for name, values in arrays.items():
        digest.update(f"{name} {values.dtype} {values.shape}".encode() + values.tobytes())
    for name, table in compiled.points.items():
        digest.update(name.encode() + table.starts.tobytes() + table.cells.tobytes() + table.weights.tobytes())
    return digest.hexdigest()


@dataclass(frozen=True)
class Found:
    """An interrupted sweep.

    Attributes:
        remaining: steps that are still to be reversed.
        solution: the result of the whole forward run.
        seeds: the cotangents at the start of the sweep.
        moving: the cotangents at the last copy.
    """

    remaining: int
    solution: Solution
    seeds: Solution
    moving: Mapping[str, Array]


class Suspension:
    """The file that stores the sweep of one run.

    Args:
        policy: its folder, and seconds between copies.
        key: identifies this run.
    """

    def __init__(self, policy: Policy, key: str) -> None:
        self.policy, self.key = policy, key
        self._file = SweepFile(policy.file(f"sweep-{key[:_DIGITS]}"), key)

    def found(self) -> Found | None:
        """The copy that a killed process left of this run, if there is one."""
        kept = self._file.load()
        if kept is None:
            return None
        remaining, arrays = kept
        moving = {name.removeprefix("sweep: "): value for name, value in arrays.items() if name.startswith("sweep: ")}
        return Found(remaining, _as_solution("solution", arrays), _as_solution("seed", arrays), moving)

    def keeper(self, solution: Solution, seeds: Solution, moving: Callable[[], Mapping[str, Array]]) -> Keeper:
        """A callback that writes the copies. Nobody may edit its solution."""
        return Keeper(self._file, self.policy.resume, {**_as_arrays("solution", solution), **_as_arrays("seed", seeds)}, moving)

    def remove(self) -> None:
        """Remove the file, because the run is over or another one begins."""
        self._file.remove()
        for path in self.policy.file("any").parent.glob(f"states-{self.key[:_DIGITS]}-*"):
            path.unlink(missing_ok=True)


class Keeper:
    """A callback for each piece of a sweep, which writes a copy of the sweep now and then.

    Args:
        file: the file to write.
        seconds: time between copies.
        fixed: data that are the same in every copy.
        moving: returns the other data.
    """

    def __init__(self, file: SweepFile, seconds: float, fixed: Mapping[str, Array], moving: Callable[[], Mapping[str, Array]]) -> None:
        self._file, self._seconds, self._fixed, self._moving = file, seconds, fixed, moving
        self._last = time.monotonic()

    def __call__(self, action: Action) -> bool:
        """Write a copy if it is time, and return whether it was written."""
        if not (isinstance(action, Reverse) and action.start > 0 and time.monotonic() - self._last >= self._seconds):
            return False
        self._file.save(action.start, {**self._fixed, **{f"sweep: {name}": value for name, value in self._moving().items()}})
        self._last = time.monotonic()
        return True


def copied(solution: Solution) -> Solution:
    """A copy of the solution."""
    return Solution({n: np.array(v) for n, v in solution.final.items()}, {n: np.array(v) for n, v in solution.traces.items()})


def same(a: Solution, b: Solution) -> bool:
    """Whether two solutions, or cotangents of one, are the same bit for bit."""
    first, second = _as_arrays("", a), _as_arrays("", b)
    return first.keys() == second.keys() and all(np.array_equal(first[name], second[name]) for name in first)


def require_same_traces(found: Mapping[str, Array], kept: Mapping[str, Array], rows: Sequence[int]) -> None:
    """Refuse to resume a sweep of another run, whose traces differ from those of this run.

    Raises:
        StorageError: they differ.
    """
    for name, again in found.items():
        if not np.array_equal(again[rows[0] : rows[-1] + 1], kept[name][rows[0] : rows[-1] + 1]):
            raise StorageError(
                f"the stored sweep in the folder belongs to another run: its traces of {name} differ from those of this one; delete it"
            )


def _as_arrays(kind: str, solution: Solution) -> dict[str, Array]:
    final = {f"{kind} final: {name}": np.asarray(value) for name, value in solution.final.items()}
    return final | {f"{kind} traces: {name}": np.asarray(value) for name, value in solution.traces.items()}


def _as_solution(kind: str, arrays: Mapping[str, Array]) -> Solution:
    def part(name: str) -> dict[str, Array]:
        head = f"{kind} {name}: "
        return {key.removeprefix(head): value for key, value in arrays.items() if key.startswith(head)}

    return Solution(part("final"), part("traces"))
