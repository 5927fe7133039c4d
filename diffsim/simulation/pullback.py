"""Pullbacks of a simulation that may be called in any order, any number of times, from any thread."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from diffsim.checkpoint.storage.fingerprint import fingerprint
from diffsim.errors import ReplayError
from diffsim.simulation.checks import check_cotangents, check_room
from diffsim.simulation.compiled import Compiled
from diffsim.simulation.gradient import Back, Call, forward
from diffsim.simulation.options import RunOptions
from diffsim.simulation.solution import Pullback, Solution
from diffsim.typing import Array


def run_reversibly(compiled: Compiled, inputs: Mapping[str, npt.ArrayLike], steps: int, options: RunOptions) -> tuple[Solution, Pullback]:
    """Solve forward, ready for the reverse sweep; see `Simulation.vjp`."""
    with compiled.turn:
        fields = _private(compiled.checked(inputs, steps), inputs)
        check_room(steps, compiled.points.values(), compiled.dtype)
        call = Call(fields, steps, dict(compiled.points), options.called_within(compiled.turn))
        solution, back = forward(compiled, call)
        return solution, RepeatablePullback(compiled, call, solution, back)


def _private(fields: dict[str, Array], inputs: Mapping[str, npt.ArrayLike]) -> dict[str, Array]:
    """Copy the fields that share memory with the user's inputs: the user may edit these before the reverse sweep reads them again."""
    shared = {n for n, value in fields.items() if n in inputs and np.may_share_memory(value, np.asarray(inputs[n]))}
    return {name: value.copy() if name in shared else value for name, value in fields.items()}


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
        self._like = Solution(*({n: np.broadcast_to(v.dtype.type(0), v.shape) for n, v in p.items()} for p in _parts(solution)))
        self._bits = _bits(solution)
        self._ended = compiled.stepper.steps
        self._back: Back | None = back
        self._run = compiled.runs

    def __call__(self, cotangents: Solution) -> dict[str, Array]:
        """Cotangents of the inputs in `wrt`; entries of the solution that are left out count as zero."""
        compiled = self._compiled
        with compiled.turn:
            check_cotangents(cotangents, self._like)
            back, self._back = self._back, None
            if back is not None and compiled.runs == self._run:
                return back(cotangents)
            del back  # frees the states of the first run before it is repeated
            with compiled.placed(self._call.points):
                solution, back = forward(compiled, self._again())
                if self._call.options.policy.verify and _bits(solution) != self._bits:
                    raise ReplayError(
                        f"expected the solution that this run of {self._ended} steps gave the first time, got another when it was run "
                        "again for its pullback; is it deterministic? Call its pullback before the simulation is used for something else"
                    )
                return back(cotangents)

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


def _parts(solution: Solution) -> tuple[Mapping[str, Array], Mapping[str, Array]]:
    return solution.final, solution.traces


def _bits(solution: Solution) -> int:
    return fingerprint([value for part in _parts(solution) for value in part.values()])
