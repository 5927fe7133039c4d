"""The plan of a scene: the measured cost of a gradient of one shot."""

from __future__ import annotations

from dataclasses import replace

from diffsim.checkpoint import Plan, StoreAll
from diffsim.scene.search.assemble import Problem
from diffsim.scene.search.checkpoints import deciding_key
from diffsim.scene.search.uncertainty import check_before_data
from diffsim.scene.words.explain import prefix_error
from diffsim.simulation import plan_for


def plan_of(problem: Problem, seconds: float = 1.0, brief: bool = False) -> Plan:
    """Measure the cost of a gradient of one shot, and plan it.

    Args:
        problem: the assembled scene.
        seconds: approximate limit for the measurement.
        brief: if every step fits into memory, store all steps, and compile and measure nothing else.

    Raises:
        SceneError: see `decided`; the scene asks for an uncertainty, and lacks a prior.
    """
    if problem.scene.uncertainty is not None and not brief:
        check_before_data(problem)
    setup, policy = problem.setup, problem.policy
    inputs = {**setup.shots[0].amplitudes, **setup.of_shot(problem.inputs(problem.start), 0)}
    if brief and policy.schedule == "auto" and isinstance(problem.schedule, StoreAll):
        policy = replace(policy, schedule="store_all", slots=None)
    with prefix_error(deciding_key(policy)):
        return plan_for(setup.simulation, policy, setup.steps, inputs, seconds)
