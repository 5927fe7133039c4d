"""A reverse sweep that saves its progress in a folder, and that the same call resumes there after the process was killed."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from diffsim.checkpoint import AnySchedule, Binomial, Lossy, OnlineSchedule, Store
from diffsim.checkpoint.actions import Action, Reverse
from diffsim.checkpoint.schedules.continued import Continued
from diffsim.checkpoint.schedules.splits import Kept
from diffsim.checkpoint.stores import open_stores, stored_states
from diffsim.domains import Domain
from diffsim.errors import StorageError
from diffsim.simulation.gradients.reversal import Back, Call, Reversal
from diffsim.simulation.gradients.sweep_files import SweepFiles
from diffsim.simulation.prepared.compiled import Compiled
from diffsim.simulation.prepared.identity import identity
from diffsim.simulation.prepared.sizes import same_schedule, sizes_for
from diffsim.simulation.prepared.solution import Solution
from diffsim.typing import Array

_DIGITS = 12  # characters of a key in the names of files


def run_key(compiled: Compiled, call: Call, schedule: AnySchedule) -> str:
    """A key that identifies a run: it depends on everything that can change a bit of the gradient.

    The way of storing states counts only if it rounds them.
    """
    compression = call.options.policy.compression
    others: list[object] = [
        call.steps,
        compiled.stepper.layout.lanes,  # states are saved as they are stored
        schedule if schedule.runs_backwards else None,
        compression.relative_error if isinstance(compression, Lossy) else None,
    ]
    if not compiled.domain.alone:
        others.append(compiled.domain.place)
    parts = compiled.equation, compiled.traced, compiled.dtype, compiled.wrt, compiled.receivers, compiled.points
    digest = identity(*parts, others)
    for name, values in call.fields.items():
        digest.update(f"{name} {values.dtype} {values.shape}".encode() + values.tobytes())
    return digest.hexdigest()


def run_resumably(compiled: Compiled, call: Call, whole: AnySchedule) -> tuple[Solution, Back]:
    """Run forward, or as far as an interrupted sweep of the same run needs it, and prepare its reverse sweep, which saves its progress.

    Raises:
        StorageError: the saved sweep is damaged, or another run's.
    """
    suspension = Suspension(compiled, call, whole)
    saved = suspension.load()
    if saved is None:
        run = Reversal(compiled, call, whole, suspension.key)
        solution, start = compiled.solution(), None
    else:
        schedule, stores = _rest(compiled, call, whole, saved.remaining, suspension.key)
        run = Reversal(compiled, call, schedule, suspension.key, stores)
        first = schedule.first if isinstance(schedule, Continued) else 0
        solution, start = saved.solution, saved.moving
        try:
            repeated, rows = compiled.stepper.traces(), slice(first + 1, saved.remaining + 1)
            compiled.domain.agreed(lambda: _require_same_traces(repeated, solution.traces, rows))
        except StorageError:
            run.close()
            raise

    def back(cotangents: Solution) -> dict[str, Array]:
        if saved is not None and not all(compiled.domain.every(_same(cotangents, saved.seeds))):  # another loss: the saved sweep is useless
            run.close()
            suspension.remove()
            return run_resumably(compiled, call, whole)[1](cotangents)
        seeds = cotangents if saved is None else saved.seeds
        run.reverse(seeds, start, suspension.saver(solution, seeds, compiled.stepper.cotangent_arrays))
        suspension.remove()
        return run.gradient()

    parts = ({name: np.array(value) for name, value in part.items()} for part in (solution.final, solution.traces))
    copy = Solution(*parts, groups=solution.vectors)
    return copy, back  # a user may edit the copy


def _rest(compiled: Compiled, call: Call, whole: AnySchedule, remaining: int, key: str) -> tuple[AnySchedule, list[Store] | None]:
    """The schedule for the steps that are still to be reversed, whose number is known now, and the stores with states that were left."""
    policy = call.options.policy
    if whole.slow_tiers:
        compiled.reserve(whole, policy)  # the stores ask for the form of a state
        stores = compiled.domain.agreed(lambda: open_stores(whole, compiled.stepper.state_arrays, policy, key, again=True))
        return Continued(remaining, whole.all_tiers, _stored_by_all(compiled.domain, stores)), stores
    same_period = replace(policy, schedule=whole, memory=None, slots=None) if whole.runs_backwards else policy
    rest = same_period.for_rest(remaining)
    schedule = same_schedule(compiled, rest, sizes_for(compiled, rest, remaining, call.fields), remaining)
    return Binomial(remaining, min(schedule.slots, remaining)) if isinstance(schedule, OnlineSchedule) else schedule, None


def _stored_by_all(domain: Domain, stores: Sequence[Store]) -> tuple[Kept, ...]:
    """The states that the stores of all ranks have. Others are freed."""
    here = stored_states(stores)
    common = set(here).intersection(*domain.every(here))
    for state in here:
        if state not in common:
            stores[state.tier - 1].free(state.slot)
    return tuple(state for state in here if state in common)


@dataclass(frozen=True)
class SavedSweep:
    """An interrupted sweep.

    Attributes:
        remaining: steps that are still to be reversed.
        solution: the result of the whole forward run.
        seeds: the cotangents at the start of the sweep.
        moving: all that the sweep had propagated when it was saved last.
    """

    remaining: int
    solution: Solution
    seeds: Solution
    moving: Mapping[str, Array]


class Suspension:
    """The files in which the reverse sweep of one run saves its progress. Each rank has its own, with its own cells of final states."""

    def __init__(self, compiled: Compiled, call: Call, schedule: AnySchedule) -> None:
        self._policy, self._domain = call.options.policy, compiled.domain
        self.key = run_key(compiled, call, schedule)
        self._files = SweepFiles(self._policy.file(f"sweep-{self.key[:_DIGITS]}"), self.key, self._domain)

    def load(self) -> SavedSweep | None:
        """The progress of this run that a killed process saved; None: there is none."""
        kept = self._files.load()
        if kept is None:
            return None
        remaining, arrays = kept
        moving = {name.removeprefix("sweep: "): value for name, value in arrays.items() if name.startswith("sweep: ")}
        own = (_as_solution(kind, arrays) for kind in ("solution", "seed"))
        solution, seeds = (Solution(self._domain.whole(part.final), part.traces) for part in own)
        return SavedSweep(remaining, solution, seeds, moving)

    def saver(self, solution: Solution, seeds: Solution, moving: Callable[[], Mapping[str, Array]]) -> Callable[[Action], bool]:
        """A function for `Reversal.reverse` that saves the sweep if it is time. Nobody may edit the solution or the seeds."""
        own = (Solution(self._domain.own(part.final), part.traces) for part in (solution, seeds))
        fixed, last = {**_as_arrays("solution", next(own)), **_as_arrays("seed", next(own))}, time.monotonic()

        def save(action: Action) -> bool:
            nonlocal last
            if not (isinstance(action, Reverse) and action.start > 0):
                return False
            if not any(self._domain.every(time.monotonic() - last >= self._policy.resume)):
                return False
            self._files.save(action.start, {**fixed, **{f"sweep: {name}": value for name, value in moving().items()}})
            last = time.monotonic()
            return True

        return save

    def remove(self) -> None:
        """Remove the files and those of states, because the run is over or another one begins."""
        self._files.remove()
        for path in self._policy.file("any").parent.glob(f"states-{self.key[:_DIGITS]}-*"):
            path.unlink(missing_ok=True)


def _same(a: Solution, b: Solution) -> bool:
    """True if two solutions, or cotangents of one, are the same."""
    first, second = _as_arrays("", a), _as_arrays("", b)
    return first.keys() == second.keys() and all(np.array_equal(first[name], second[name]) for name in first)


def _require_same_traces(repeated: Mapping[str, Array], kept: Mapping[str, Array], rows: slice) -> None:
    """Refuse to resume a sweep of another run, whose traces differ from those of this run."""
    for name, again in repeated.items():
        if not np.array_equal(again[rows], kept[name][rows]):
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
