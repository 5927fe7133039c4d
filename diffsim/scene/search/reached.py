"""A check that something reaches the receivers of a scene, before its gradient is compiled."""

from __future__ import annotations

import numpy as np

from diffsim.base.messages import shown
from diffsim.errors import SceneError
from diffsim.scene.search.assemble import Problem
from diffsim.scene.shots.shot_runs import predictions
from diffsim.stepping.declare.equation import Equation
from diffsim.stepping.declare.points import point_table

ALL = 1 - 1e-9
"""The weight of the cells of a receiver, but for rounding."""


def require_reached(problem: Problem) -> None:
    """Refuse a scene of which no receiver shows anything of the unknowns, where the equation can say so.

    A run from the starts of the unknowns is made only where all receivers are in cells that wait for something, such as dry land.

    Raises:
        SceneError: nothing reaches them.
    """
    setup, scene = problem.setup, problem.scene
    asked = all(misfit.of == "traces" for misfit in scene.misfit) and bool(scene.misfit) and not scene.design
    if not asked or setup.windows > 1 or problem.domains is not None or type(setup.equation).waiting is Equation.waiting:
        return
    inputs = problem.inputs(problem.start)
    states = {name: inputs.get(name, np.zeros(setup.grid.shape)) for name in setup.equation.states}
    fields = {name: value for name, value in inputs.items() if name in {*setup.equation.parameters, *states}}
    waiting = setup.equation.waiting(setup.over_cells({**states, **fields}), tuple(scene.unknowns))
    tables = {name: point_table(setup.grid, (0,) * setup.grid.ndim, points) for name, points in setup.receivers.items()}
    wanted = [("traces", misfit.state) for misfit in scene.misfit]
    for what, cells in waiting.items():
        if not all((tables[state].gather(cells.astype(float)) > ALL).all() for _, state in wanted):
            continue
        shots = predictions(problem.forward, wanted, problem.start, range(len(setup.shots)))
        if all(np.ptp(traces, axis=0).max(initial=0.0) == 0 for shot in shots for traces in shot.values()):
            count = sum(len(setup.receivers[state]) for state in {state for _, state in wanted})
            unknowns = ", ".join(map(shown, scene.unknowns))
            raise SceneError(
                f"receivers: all {count} of them are on {what}, which nothing reaches in the {setup.steps} steps from the start of the "
                f"unknowns, expected one that something reaches: the gradient for {unknowns} is 0; look at the unit and the sign of the "
                "fields, move receivers, or give a longer duration or another start"
            )
