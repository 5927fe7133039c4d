"""Predict the cost of a gradient of a simulation: bytes by counting, seconds by running some steps."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import astuple, replace
from typing import Any

import numpy.typing as npt

from diffsim.base.arguments import instance, mapping, number
from diffsim.checkpoint import Plan, Policy, Sizes, choose
from diffsim.simulation.gradients.measure import measure, measure_together
from diffsim.simulation.prepared.checks import check_names, check_steps
from diffsim.simulation.prepared.sizes import shared, sizes_for
from diffsim.simulation.simulation import Simulation


def plan(
    simulation: Simulation,
    memory: str | int | None = None,
    *,
    steps: int,
    inputs: Mapping[str, npt.ArrayLike] | None = None,
    seconds: float = 1.0,
    **fields: Any,
) -> Plan:
    """Plan a gradient: measure its parts, and choose how to store the states that its reverse sweep needs.

    Kernels are compiled first. Then some steps are run and timed. Afterwards all storage of the simulation is freed, so a pullback that
    was not called yet repeats its forward run.

    Args:
        simulation: the simulation to differentiate.
        memory: the most memory that the gradient may take, such as "4 GB" or bytes; None: half of the available memory.
        steps: time steps.
        inputs: see `Simulation`; None: ones for parameters and zeros for all others, which take the same time.
        seconds: approximate limit for the measurement.
        **fields: other fields of `diffsim.checkpoint.Policy`: slots, schedule, disk, host, folder, compression, verify, resume.

    Returns:
        A plan. Print it, draw it, or pass it as `checkpoint=`. With domains its memory is that of the process with the largest box, and
        it prints the share of ghost cells.

    Raises:
        PlanError: the memory is too little; the message names the smallest that works.
        ParameterError: fields that are invalid, or contradict each other.

    Example:
        import numpy as np

        import diffsim as ds

        grid = ds.Grid((64, 64), spacing=0.05)
        plate = ds.Simulation(ds.solvers.Heat(grid, dt=0.05))
        plan = ds.plan(plate, "20 MB", steps=2000, seconds=0.05)
        print(plan)  # the schedule, its memory and time, and others
        assert plan.chosen.peak <= 20_000_000
        inputs = {"kappa": np.full(grid.shape, 5e-3), "T": np.random.default_rng(1).random(grid.shape)}
        value, gradient = plate.value_and_grad(lambda end: (end.final["T"] ** 2).sum(), inputs, steps=2000, checkpoint=plan)
        assert gradient["T"].shape == grid.shape
    """
    instance("simulation", simulation, Simulation, "a diffsim.Simulation", "build one of an equation")
    steps = check_steps(steps)
    if inputs is not None:
        mapping("inputs", inputs, "{'c': c}")
    seconds = number(
        "seconds", seconds, "a number above 0, at most 3600", lambda x: 0 < x <= 3600, "a measurement of 1 s is precise enough"
    )
    check_names("plan(...)", fields, [each.name for each in dataclasses.fields(Policy)], "further arguments, fields of Policy,")
    policy = Policy(memory=memory, **fields)
    return plan_for(simulation, policy, steps, inputs, seconds)


def plan_for(
    simulation: Simulation, policy: Policy, steps: int, inputs: Mapping[str, npt.ArrayLike] | None = None, seconds: float = 1.0
) -> Plan:
    """`plan`, for a policy."""
    compiled = simulation._compiled
    compiled.domain.require('schedule = "reversible"', not policy.runs_backwards)
    with compiled.turn:
        fields = None if inputs is None or not policy.runs_backwards else compiled.checked(inputs, steps)  # decide which cells are damped
        sizes = sizes_for(compiled, policy, steps, fields)
        if not compiled.domain.alone:
            costs = measure_together(compiled, steps, inputs)
            largest = Sizes(*map(max, *map(astuple, compiled.domain.every(sizes))))
            plan = compiled.domain.agreed(lambda: choose(shared(compiled, policy, largest, steps), steps, largest, costs))
            return replace(plan, notes=(compiled.domain.description,))
        first = choose(policy, steps, sizes)  # refuses impossible requests before anything is compiled
        room = None if first.budget is None else first.budget - sizes.fixed
        return choose(policy, steps, sizes, measure(compiled, policy, steps, inputs, seconds, room))
