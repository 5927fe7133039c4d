"""Compute a gradient: a forward run that stores states as its schedule says, then the reverse sweep.

Pullbacks may be called in any order, any number of times, from any thread.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NoReturn, TypeAlias

import numpy as np
import numpy.typing as npt

from diffsim.base.arguments import host_array
from diffsim.base.quantities import bare
from diffsim.checkpoint import AnySchedule, Binomial, OnlineSchedule, choose
from diffsim.checkpoint.schedules.continued import Continued
from diffsim.checkpoint.storage.fingerprint import fingerprint
from diffsim.checkpoint.stores import found_states, open_stores
from diffsim.errors import ParameterError, ReplayError, StorageError
from diffsim.simulation.gradients.suspended import Found, Suspension, copied, require_same_traces, run_key, same
from diffsim.simulation.prepared.checks import check_room, checked_cotangents
from diffsim.simulation.prepared.compiled import Compiled
from diffsim.simulation.prepared.inputs import value_meaning
from diffsim.simulation.prepared.options import RunOptions
from diffsim.simulation.prepared.reversal import Reversal
from diffsim.simulation.prepared.sizes import sizes_for
from diffsim.simulation.prepared.solution import Solution
from diffsim.stepping.declare.points import PointTable
from diffsim.typing import Array

Back: TypeAlias = Callable[[Solution], dict[str, Array]]
"""A reverse sweep from the storage after the forward run. It can run once, before another run uses the storage."""


@dataclass(frozen=True)
class Call:
    """Everything that decides a forward run and its reverse sweep.

    Attributes:
        fields: inputs by name, in memory that nobody else writes to.
        steps: time steps, or the most there may be.
        points: places of sources and receivers.
        options: all other settings.
    """

    fields: dict[str, Array]
    steps: int
    points: Mapping[str, PointTable]
    options: RunOptions

    @classmethod
    def of(cls, compiled: Compiled, inputs: Mapping[str, npt.ArrayLike], steps: int, options: RunOptions) -> Call:
        """Check the user's inputs, and copy those that share memory with them: the user may edit them before the reverse sweep.

        Raises:
            ParameterError: an input is missing or wrong, or the run ends by a condition and may be resumed.
        """
        if options.policy.resume > 0 and options.online:  # a condition cannot be identified in another process
            raise ParameterError(
                "expected no until= with Policy(resume=...), got both: a sweep whose run ended by a condition is not resumed; give "
                "the number of steps, or leave resume out"
            )
        with compiled.turn:
            fields = compiled.checked(inputs, steps)
            check_room(steps, compiled.points.values(), compiled.dtype)
            shared = {n for n, value in fields.items() if n in inputs and _may_share(n, value, inputs[n])}
            private = {name: value.copy() if name in shared else value for name, value in fields.items()}
            return cls(private, steps, dict(compiled.points), options.called_within(compiled.turn))


def _may_share(name: str, value: Array, given: Any) -> bool:
    """Whether an input that was checked may share memory with what the user gave."""
    return not isinstance(given, (list, tuple)) and np.may_share_memory(value, host_array(name, bare(given)))


def run_reversibly(compiled: Compiled, call: Call) -> tuple[Solution, RepeatablePullback]:
    """Run forward in the existing storage, and prepare the reverse sweep; see `Simulation.vjp`."""
    fields, steps, options, policy = call.fields, call.steps, call.options, call.options.policy
    with compiled.placed(call.points):
        schedule = choose(policy, steps, sizes_for(compiled, policy, steps, fields), online=options.online).schedule
        compiled.reserve(schedule, policy)
        coefficients = compiled.start(fields, steps, undone=schedule.runs_backwards)
        suspension = None
        if policy.resume > 0:
            suspension = Suspension(policy, run_key(compiled, fields, steps, schedule, policy))
            found = suspension.found()
            if found is not None:
                return _resumed(compiled, call, schedule, coefficients, suspension, found)
        reversal = Reversal(compiled.stepper, schedule, options, steps, "" if suspension is None else suspension.key)
        with reversal.freed_on_error():
            reversal.sweep.forward()
        compiled.wait(reversal)
        solution = compiled.solution()
        kept = None if suspension is None else copied(solution)  # a user may edit what is returned

        def back(cotangents: Solution) -> dict[str, Array]:
            stepper, keeper = compiled.stepper, None
            if suspension is not None and kept is not None:
                keeper = suspension.keeper(kept, cotangents, stepper.cotangent_arrays)
            compiled.last_sweep = reversal.reverse(lambda: stepper.seed(cotangents.final, cotangents.traces), keeper)
            if suspension is not None:
                suspension.remove()
            return compiled.gradient(fields, coefficients, steps)

        return solution, RepeatablePullback(compiled, call, solution, back)


class RepeatablePullback:
    """Turns cotangents of a solution into those of the inputs.

    A simulation has storage for one run. If another run used it since, or the states were freed, the forward run is repeated with the
    same inputs, sources and receivers. Its results must be the same, bit for bit.

    Args:
        compiled: the simulation.
        call: the forward run.
        solution: the result of that run.
        back: the reverse sweep from the present contents of the storage.
    """

    def __init__(self, compiled: Compiled, call: Call, solution: Solution, back: Back) -> None:
        self._compiled, self._call = compiled, call
        parts = solution.final, solution.traces
        self._like = Solution(*({n: np.broadcast_to(v.dtype.type(0), v.shape) for n, v in part.items()} for part in parts))
        self._bits = fingerprint([value for part in parts for value in part.values()])
        self._ended = compiled.stepper.steps
        self._back: Back | None = back
        self._run = compiled.runs

    def __call__(self, cotangents: Solution) -> dict[str, Array]:
        """Cotangents of the inputs in `wrt`; entries of the solution that are left out count as zero."""
        compiled = self._compiled
        with compiled.turn:
            cotangents = checked_cotangents(cotangents, self._like, partial(value_meaning, compiled))
            back, self._back = self._back, None
            if back is not None and compiled.runs == self._run:
                return back(cotangents)
            del back  # frees the states of the first run before it is repeated
            with compiled.placed(self._call.points):
                _, again = run_reversibly(compiled, self._again())
                if self._call.options.policy.verify and again._bits != self._bits:
                    raise ReplayError(
                        f"expected the solution that this run of {self._ended} steps gave the first time, got another when it was run "
                        "again for its pullback; is it deterministic? Call its pullback before the simulation is used for something else"
                    )
                return again(cotangents)

    def __copy__(self) -> RepeatablePullback:
        return self

    def __deepcopy__(self, memo: Any) -> RepeatablePullback:
        return self

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        raise TypeError(
            "a pullback cannot be pickled: it refers to the states of a run in the storage of its simulation; pickle the simulation and "
            "its inputs, and call vjp there"
        )

    def _again(self) -> Call:
        """The call, with a known end if a condition decided it. The condition is not called again."""
        return replace(self._call, options=self._call.options.ending_at(self._ended))


def _resumed(
    compiled: Compiled, call: Call, whole: AnySchedule, coefficients: dict[str, Array], suspension: Suspension, found: Found
) -> tuple[Solution, RepeatablePullback]:
    """The result of `run_reversibly` for a run whose reverse sweep was interrupted. `whole` is the schedule that it had."""
    fields, steps, stepper, remaining = call.fields, call.steps, compiled.stepper, found.remaining
    policy = call.options.policy
    schedule = _schedule_of_rest(compiled, call, whole, remaining)
    stores, first = None, 0
    if whole.slow_tiers:
        stores = open_stores(whole, stepper.state_arrays, policy, suspension.key, again=True)
        schedule = Continued(remaining, whole.all_tiers, found_states(stores))
        first = schedule.first
    compiled.reserve(schedule, policy)
    compiled.start(fields, steps, undone=schedule.runs_backwards)
    reversal = Reversal(stepper, schedule, call.options, remaining, suspension.key, stores)
    with reversal.freed_on_error():
        reversal.sweep.forward()
    compiled.wait(reversal)
    try:
        require_same_traces(stepper.traces(), found.solution.traces, range(first + 1, remaining + 1))
    except StorageError:
        reversal.close()
        raise

    def back(cotangents: Solution) -> dict[str, Array]:
        if not same(cotangents, found.seeds):  # another loss: the sweep that was kept is of no use
            reversal.close()
            suspension.remove()
            return run_reversibly(compiled, call)[1](cotangents)

        def seed() -> None:
            stepper.seed(found.seeds.final, found.seeds.traces)
            stepper.set_cotangent(found.moving)

        keeper = suspension.keeper(found.solution, found.seeds, stepper.cotangent_arrays)
        compiled.last_sweep = reversal.reverse(seed, keeper)
        suspension.remove()
        return compiled.gradient(fields, coefficients, steps)

    solution = copied(found.solution)
    return solution, RepeatablePullback(compiled, call, solution, back)


def _schedule_of_rest(compiled: Compiled, call: Call, whole: AnySchedule, remaining: int) -> AnySchedule:
    """The schedule for the steps that are still to be reversed. The number of steps is known now."""
    policy = call.options.policy
    same_period = replace(policy, schedule=whole, memory=None, slots=None) if whole.runs_backwards else policy
    rest = same_period.for_rest(remaining)
    found = choose(rest, remaining, sizes_for(compiled, rest, remaining, call.fields)).schedule
    return Binomial(remaining, min(found.slots, remaining)) if isinstance(found, OnlineSchedule) else found
