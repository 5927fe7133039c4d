"""Gradients by a forward run and its reverse sweep, in the storage of a simulation.

Pullbacks may be called in any order, any number of times, from any thread.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from diffsim.checkpoint import AnySchedule, Policy
from diffsim.checkpoint.planning.memory import SMALL
from diffsim.checkpoint.storage.fingerprint import fingerprint
from diffsim.errors import ReplayError
from diffsim.simulation.gradients.reversal import Back, Call, Reversal
from diffsim.simulation.gradients.suspended import run_resumably
from diffsim.simulation.prepared.checks import checked_cotangents
from diffsim.simulation.prepared.compiled import Compiled
from diffsim.simulation.prepared.inputs import value_meaning
from diffsim.simulation.prepared.options import RunOptions
from diffsim.simulation.prepared.sizes import same_schedule, sizes_for
from diffsim.simulation.prepared.solution import Solution
from diffsim.stepping.declare.points import PointTable
from diffsim.typing import Array

FEW_BYTES = 4096
"""Bytes of an array that is kept to compare it: a fingerprint of it takes longer than a copy."""
LOSSES = "another loss: give random numbers in it, and in its data, the same seed"
"""The reason why cotangents of ranks differ."""


def run_reversibly(
    compiled: Compiled, inputs: Mapping[str, npt.ArrayLike], steps: int, options: RunOptions
) -> tuple[Solution, RepeatablePullback]:
    """Run forward in the existing storage, and prepare the reverse sweep; see `Simulation.vjp`."""
    with compiled.turn:
        return _run(compiled, Call.of(compiled, inputs, steps, options))


def _run(compiled: Compiled, call: Call) -> tuple[Solution, RepeatablePullback]:
    """`run_reversibly` in the thread's turn, with sources and receivers at the places of the call."""
    if not compiled.domain.alone:
        compiled.domain.require("until= with gathered=False", not call.options.online or compiled.domain.gathered)
        compiled.domain.require('schedule = "reversible"', not call.options.policy.runs_backwards)
    schedule = _schedule(compiled, call)
    back: Back
    if call.options.policy.resume > 0:
        solution, back = run_resumably(compiled, call, schedule)
    else:
        back = Reversal(compiled, call, schedule).back
        solution = compiled.solution()
    return solution, RepeatablePullback(compiled, call, solution, back)


def _schedule(compiled: Compiled, call: Call) -> AnySchedule:
    """The schedule of a gradient. That of a small one, which needs no look at the system's memory, is kept for the next call."""
    policy, steps, online = call.options.policy, call.steps, call.options.online
    key = _key(policy, steps, online, call.points)
    kept = isinstance(policy.schedule, str) and not policy.runs_backwards and compiled.domain.alone  # else it depends on more
    if kept and key in compiled.schedules:
        return compiled.schedules[key]
    sizes = sizes_for(compiled, policy, steps, call.fields)
    schedule = same_schedule(compiled, policy, sizes, steps, online)
    if kept and sizes.enough(steps) <= SMALL:
        compiled.schedules[key] = schedule
    return schedule


def _key(policy: Policy, steps: int, online: bool, points: Mapping[str, PointTable]) -> object:
    kinds = policy.schedule, policy.slots, policy.memory, policy.disk, policy.host, policy.compression is not None
    return kinds, steps, online, tuple([table.count for table in points.values()])


def kept_schedule(compiled: Compiled, policy: Policy, steps: int) -> AnySchedule | None:
    """The schedule of an earlier gradient of this policy and as many steps; None if it was not kept."""
    return compiled.schedules.get(_key(policy, steps, False, compiled.points))


def _zeros(like: Array) -> Array:
    """Zeros of the shape and type of an array, in the memory of one."""
    return np.ndarray(like.shape, like.dtype, bytes(like.itemsize), strides=(0,) * like.ndim)


def _bits(values: Array) -> bytes | int:
    """The bits of an array, or a fingerprint of a large one."""
    return values.tobytes() if values.nbytes <= FEW_BYTES else fingerprint([values])


class RepeatablePullback:
    """Turns cotangents of a solution into those of the inputs.

    A simulation has storage for one run. If another run used it since, or the states were freed, the forward run is repeated with the
    same inputs, sources and receivers. Its results must be the same, bit for bit.
    """

    def __init__(self, compiled: Compiled, call: Call, solution: Solution, back: Back) -> None:
        self._compiled, self._call = compiled, call
        final, traces = solution.final, solution.traces
        like = {n: _zeros(value) for n, value in final.items()}, {n: _zeros(value) for n, value in traces.items()}
        self._like = Solution(*like, groups=solution.vectors)
        self._bits = [_bits(value) for value in (*final.values(), *traces.values())]
        self._ended = compiled.stepper.steps
        self._back: Back | None = back
        self._run = compiled.runs

    def __call__(self, cotangents: Solution) -> dict[str, Array]:
        """Cotangents of the inputs in `wrt`; entries of the solution that are left out count as zero."""
        compiled = self._compiled
        with compiled.turn:
            cotangents = self._agreed(cotangents)
            back, self._back = self._back, None
            if back is not None and compiled.runs == self._run:
                return back(cotangents)
            del back  # frees the states of the first run before it is repeated
            with compiled.placed(self._call.points):
                options = self._call.options.ending_at(self._ended)
                _, again = _run(compiled, replace(self._call, options=options))
                if self._call.options.policy.verify and again._bits != self._bits:
                    raise ReplayError(
                        f"expected the solution that this run of {self._ended} steps gave the first time, got another when it was run "
                        "again for its pullback; is it deterministic? Call its pullback before the simulation is used for something else"
                    )
                return again(cotangents)

    def _agreed(self, cotangents: Solution) -> Solution:
        """Checked cotangents, which must be the same on all ranks: their sum would be the gradient of no loss."""
        compiled, meaning = self._compiled, partial(value_meaning, self._compiled)
        if compiled.domain.alone:
            return checked_cotangents(cotangents, self._like, meaning)

        def same(bars: Solution) -> object:
            return fingerprint([*bars.traces.values(), *(bars.final.values() if compiled.domain.gathered else ())])

        return compiled.domain.agreed(lambda: checked_cotangents(cotangents, self._like, meaning), same, LOSSES)

    def __copy__(self) -> RepeatablePullback:
        return self

    def __deepcopy__(self, memo: Any) -> RepeatablePullback:
        return self

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        raise TypeError(
            "a pullback cannot be pickled: it refers to the states of a run in the storage of its simulation; pickle the simulation and "
            "its inputs, and call vjp there"
        )
