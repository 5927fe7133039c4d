"""A run forward that keeps nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from diffsim.checkpoint.schedule import require_truth
from diffsim.simulation.prepared.checks import check_room
from diffsim.simulation.prepared.compiled import Compiled
from diffsim.simulation.prepared.options import RunOptions
from diffsim.simulation.prepared.solution import Solution
from diffsim.typing import Array

Watch: TypeAlias = Callable[[int, dict[str, Array]], None]
"""Called with the number of steps done and the states then."""


def run_forward(compiled: Compiled, inputs: Mapping[str, Any], steps: int, options: RunOptions, watch: Watch | None = None) -> Solution:
    """Solve forward. `watch` and `options.until` are called after each `options.every` steps, and `watch` at the end too."""
    with compiled.turn:
        watch, until = compiled.turn.outside(watch), compiled.turn.outside(options.until)
        compiled.domain.require("until= with gathered=False", until is None or compiled.domain.gathered)
        fields = compiled.checked(inputs, steps)
        check_room(steps, compiled.points.values(), compiled.dtype)
        compiled.start(fields, steps)
        stepper = compiled.stepper
        interval = steps if watch is None and until is None else options.every
        for begin in range(0, steps, interval):
            end = min(begin + interval, steps)
            stepper.advance(begin, end)
            if watch is not None:
                watch(end, stepper.state())
            if until is not None and end % interval == 0 and require_truth("until", until(end, stepper.state())):
                stepper.end_at(end)
                break
        return compiled.solution()


def initial_states(compiled: Compiled, inputs: Mapping[str, Any], steps: int) -> dict[str, Array]:
    """The states before the first step of a run, over the cells."""
    with compiled.turn:
        compiled.start(compiled.checked(inputs, steps), steps)
        return {name: values.copy() for name, values in compiled.stepper.state().items()}
