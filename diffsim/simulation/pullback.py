"""Pullbacks of a simulation that may be called in any order, any number of times, from any thread."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from diffsim.checkpoint import OnProgress, Policy
from diffsim.checkpoint.storage.fingerprint import fingerprint
from diffsim.errors import ReplayError
from diffsim.simulation.checks import check_cotangents
from diffsim.simulation.reversal import Until, Watcher
from diffsim.simulation.solution import Solution
from diffsim.stepping.points import PointTable
from diffsim.typing import Array

if TYPE_CHECKING:
    from diffsim.simulation.simulation import Simulation

Back = Callable[[Solution], dict[str, Array]]
"""A reverse sweep from what the forward run left in the storage of its simulation: once, and while nobody else has used that."""


@dataclass(frozen=True)
class Call:
    """Everything that decides a forward run and its reverse sweep.

    Attributes:
        fields: inputs by name, in memory that nobody else writes to.
        steps: time steps, or the most there may be.
        policy: of checkpoints.
        points: where sources and receivers are.
        watchers: called after each action of the schedule.
        on_progress: told the share of the work that is done.
        until: (steps done, states) -> whether the run is over.
        every: ask `until` after each so many steps.
    """

    fields: dict[str, Array]
    steps: int
    policy: Policy
    points: Mapping[str, PointTable]
    watchers: tuple[Watcher, ...] = ()
    on_progress: OnProgress | None = None
    until: Until | None = None
    every: int = 1


class RepeatablePullback:
    """Turns cotangents of a solution into those of the inputs.

    A simulation has storage for one run. Where another one has taken it since, or the states were given up on the way, the forward run is
    made again from the inputs, sources and receivers that it had; its results must be the same, bit for bit.

    Args:
        simulation: whose.
        call: what was run.
        solution: what came of it.
        back: the reverse sweep from what is in the storage now.
    """

    def __init__(self, simulation: Simulation, call: Call, solution: Solution, back: Back) -> None:
        self._simulation, self._call = simulation, call
        self._like = Solution(*({n: np.broadcast_to(v.dtype.type(0), v.shape) for n, v in p.items()} for p in _parts(solution)))
        self._bits = _bits(solution)
        self._ended = simulation._stepper.steps
        self._back: Back | None = back
        self._run = simulation._runs

    def __call__(self, cotangents: Solution) -> dict[str, Array]:
        """Cotangents of the inputs in `wrt`; entries of the solution that are left out count as zero."""
        simulation = self._simulation
        with simulation._turn:
            check_cotangents(cotangents, self._like)
            back, self._back = self._back, None
            if back is not None and simulation._runs == self._run:
                return back(cotangents)
            del back  # what it kept of its run is given up before it is run again
            with simulation.placed(self._call.points):
                solution, again = simulation._forward(self._again())
                if self._call.policy.verify and _bits(solution) != self._bits:
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
        """The call, with its end known if a condition decided it: it need not say the same again."""
        if self._call.until is None:
            return self._call
        return replace(self._call, until=lambda done, states: done >= self._ended)


def _parts(solution: Solution) -> tuple[Mapping[str, Array], Mapping[str, Array]]:
    return solution.final, solution.traces


def _bits(solution: Solution) -> int:
    return fingerprint([value for part in _parts(solution) for value in part.values()])
