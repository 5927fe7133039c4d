"""Bytes that a gradient of a simulation allocates, counted before the run."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from diffsim.checkpoint import AnySchedule, Policy, Sizes, choose
from diffsim.checkpoint.planning.memory import SMALL, auto_memory
from diffsim.checkpoint.storage.store import ALIGNMENT, round_up
from diffsim.engine import backend
from diffsim.errors import PlanError
from diffsim.simulation.prepared.compiled import Compiled
from diffsim.stepping.derive.forward import receiver_points
from diffsim.stepping.derive.undo import why_not
from diffsim.typing import Array

SAMPLED = 4
"""Numbers for a step and receiver: the trace, the solution's copy, the loss's cotangent, and the sweep's cotangent."""
FORCED = 4
"""Numbers for a step and source: the amplitude, its cotangent, and two copies of the cotangent while the gradient is returned."""
ON_DEVICE = 2
"""How many of `SAMPLED`, and of `FORCED`, are in a GPU's memory."""


def sizes_of(compiled: Compiled, steps: int, fields: Mapping[str, Array] | None = None) -> Sizes:
    """Bytes that a gradient allocates. Strips of damped cells count only with inputs (`fields`), because they may depend on parameters."""
    stepper, item = compiled.stepper, compiled.dtype.itemsize
    cells = round_up(math.prod(compiled.stepper.step.grid.shape) * item, ALIGNMENT)
    points = compiled.points
    step = compiled.step
    forced = steps * sum(math.prod(compiled.input_shape(name, 1)) for name in (*step.forcings, *step.series))
    slim = [each for each in stepper.launcher.slim.values() if each.series]
    kept = steps * sum(math.prod(stepper.layout.slim_storage(each)) for each in slim)
    sampled = (steps + 1) * sum(points[receiver_points(s)].count for s in compiled.receivers)
    on_host = backend().on_host
    streams = item * (FORCED * forced + SAMPLED * sampled if on_host else ON_DEVICE * (forced + sampled))
    return Sizes(
        state=stepper.storage.state_bytes(),
        recorded=stepper.storage.recorded_bytes(),
        single=stepper.storage.recorded_bytes(1),
        working=stepper.storage.working_bytes(),
        around=cells * _fields_around(compiled) + _kept_by_solvers(compiled) if on_host else 0,
        streams=streams + item * kept,
        row=sum(stepper.depths.values()) * cells,
        strips=0 if fields is None else _strip_bytes(compiled, steps, fields),
        second=stepper.storage.second_bytes() + (stepper.storage.second_copies() * cells if on_host else 0),
    )


def sizes_for(compiled: Compiled, policy: Policy, steps: int, fields: Mapping[str, Array] | None = None) -> Sizes:
    """Bytes that a gradient allocates, with strips of damped cells if the policy runs steps backwards.

    Without inputs (`fields`), damped cells are counted as if parameters were 1.

    Raises:
        PlanError: steps cannot be undone, and the policy asks for that.
    """
    if not policy.runs_backwards:
        return sizes_of(compiled, steps)
    if compiled.stepper.backwards is None:
        raise PlanError(
            f'expected a step that can be undone for schedule = "reversible", got one that cannot: {why_not(compiled.step)}; '
            "choose another schedule"
        )
    return sizes_of(compiled, steps, made_up(compiled, steps) if fields is None else fields)


def shared(compiled: Compiled, policy: Policy, sizes: Sizes, steps: int) -> Policy:
    """The policy where processes with domains of one grid share the memory of a machine."""
    local = compiled.domain.local
    if local == 1 or policy.memory is not None or policy.slots is not None or not isinstance(policy.schedule, str):
        return policy
    return replace(policy, memory=max(auto_memory(sizes.enough(steps)) // local, SMALL))


def same_schedule(compiled: Compiled, policy: Policy, sizes: Sizes, steps: int, online: bool = False) -> AnySchedule:
    """The schedule of a policy, the same in all processes with domains of one grid."""
    sizes = compiled.domain.least(sizes, -sizes.enough(steps))  # those of the largest box, which all boxes have room for
    policy = shared(compiled, policy, sizes, steps)
    plan = compiled.domain.agreed(lambda: choose(policy, steps, sizes, online=online))
    return compiled.domain.least(plan.schedule, plan.chosen.peak)


def _strip_bytes(compiled: Compiled, steps: int, fields: Mapping[str, Array]) -> int:
    backwards = compiled.stepper.backwards
    if backwards is None:
        return 0
    with np.errstate(all="ignore"):  # inputs may be made up
        return backwards.strip_bytes(compiled.coefficients(fields), steps)


def _fields_around(compiled: Compiled) -> int:
    """The largest number of fields at a time: when cotangents of final states and coefficients become those of the inputs.

    These are the final states, the coefficients, and the cotangents of both. Then come either the arguments and results of a host
    function, or three sets of fields of a part that runs once before the first step: its inputs with halos, the cotangents of what it
    computes with halos, and the cotangents of its inputs.
    """
    states, coefficients = len(compiled.step.states), len(compiled.coefficients.traced.outputs)
    pulled = max(compiled.initial.fields_of_vjp, compiled.coefficients.fields_of_vjp)
    return 2 * (states + coefficients) + max(pulled, host_copies(compiled))


def _kept_by_solvers(compiled: Compiled) -> int:
    """Bytes of matrices and their factors. Tangents and adjoints solve with the same ones."""
    return sum(call.function.room(math.prod(compiled.grid.shape)) for call in compiled.stepper.forward.calls)


def host_copies(compiled: Compiled) -> int:
    """The largest number of arguments and results of a host function, in fields. What the function allocates itself is unknown."""
    calls = [call for program in compiled.stepper.programs for call in program.calls]
    return max((len(call.inputs) + len(call.outputs) for call in calls), default=0)


def made_up(compiled: Compiled, steps: int) -> dict[str, Array]:
    """Inputs for which all numbers stay finite and none gets tiny: ones for parameters, and zeros for all others."""
    fields = {}
    for name in compiled.inputs:
        shape = compiled.input_shape(name, steps)
        value = np.full(shape, 1.0 if name in compiled.equation.parameters else 0.0, compiled.dtype)
        fields[name] = compiled.traced.over_cells(name, value)
    return fields
