# /// script
# [tool.diffsim-bench]
# title = "diffsim"
# own = true
# ///
"""diffsim itself, by which the results of the peers are judged."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from exchange import Problem, Results, serve, waves

import diffsim
import diffsim.numpy as dnp
from diffsim.checkpoint import StoreAll
from diffsim.solvers import Acoustic, Elastic, Heat, Maxwell, NavierStokes


def acoustic(problem: Problem) -> Callable[[], Results]:
    diffsim.init(threads=problem.threads)
    settings, dx = problem.settings, problem.settings["dx"]
    speed, steps = problem["speed"], problem.steps
    simulation = diffsim.Simulation(
        Acoustic(diffsim.Grid(speed.shape, dx), settings["dt"], order=settings["order"]),
        sources={"f": problem["source"] * dx},
        receivers={"p": problem["receivers"] * dx},
        wrt=["c"],
    )
    inputs = {"c": speed, "f": problem["wavelet"][:, None]}

    def forward() -> Results:
        solution = simulation.run(inputs, steps)
        return {"pressure": solution.final["p"], "traces": solution.traces["p"]}

    def gradient() -> Results:
        solution, pullback = simulation.vjp(inputs, steps, checkpoint=problem.slots or StoreAll(steps))
        return {"gradient": pullback(diffsim.Solution(traces={"p": solution.traces["p"]}))["c"]}

    return gradient if problem.gradient else forward


def elastic(problem: Problem) -> Callable[[], Results]:
    diffsim.init(threads=problem.threads)
    settings, names = problem.settings, ("vp", "vs", "rho")
    waves = Elastic(diffsim.Grid(problem["vp"].shape, settings["dx"]), settings["dt"])
    return _staggered(problem, waves, names, "fy", "vy", (0.5, 0.0))


def maxwell(problem: Problem) -> Callable[[], Results]:
    diffsim.init(threads=problem.threads)
    settings = problem.settings
    return _staggered(
        problem, Maxwell(diffsim.Grid(problem["eps"].shape, settings["dx"]), settings["dt"]), ("eps",), "Jz", "Ez", (0.5, 0.5)
    )


def _staggered(
    problem: Problem, equation: diffsim.Equation, names: tuple[str, ...], forcing: str, state: str, displaced: tuple[float, float]
) -> Callable[[], Results]:
    """Sources and receivers lie where the state is stored, `displaced` cells from the centres."""
    dx, steps, move = problem.settings["dx"], problem.steps, np.array(displaced)
    simulation = diffsim.Simulation(
        equation,
        sources={forcing: (problem["source"] + move) * dx},
        receivers={state: (problem["receivers"] + move) * dx},
        wrt=names,
    )
    inputs = {name: problem[name] for name in names} | {forcing: problem["wavelet"][:, None]}

    def forward() -> Results:
        return {"traces": simulation.run(inputs, steps).traces[state]}

    def gradient() -> Results:
        solution, pullback = simulation.vjp(inputs, steps, checkpoint=problem.slots or StoreAll(steps))
        gradient = pullback(diffsim.Solution(traces={state: solution.traces[state]}))
        return {name: gradient[name] for name in names}

    return gradient if problem.gradient else forward


def diffusion(problem: Problem) -> Callable[[], Results]:
    diffsim.init(threads=problem.threads)
    settings, steps = problem.settings, problem.steps
    grid = diffsim.Grid(problem["kappa"].shape, settings["dx"])
    simulation = diffsim.Simulation(Heat(grid, settings["dt"]), wrt=["kappa"])
    inputs = {"kappa": problem["kappa"], "T": problem["initial"]}

    def forward() -> Results:
        return {"temperature": simulation.run(inputs, steps).final["T"]}

    def gradient() -> Results:
        solution, pullback = simulation.vjp(inputs, steps, checkpoint=problem.slots or StoreAll(steps))
        return {"gradient": pullback(diffsim.Solution(final={"T": solution.final["T"]}))["kappa"]}

    return gradient if problem.gradient else forward


def flow(problem: Problem) -> Callable[[], Results]:
    diffsim.init(threads=problem.threads)
    settings, n, ndim = problem.settings, problem.settings["n"], problem.settings["ndim"]
    equation = NavierStokes(diffsim.Grid((n,) * ndim, 2 * np.pi / n), settings["dt"], method="rk2")
    simulation = diffsim.Simulation(equation, precision="f64")
    parts = {}
    for axis, name in enumerate("uvw"[:ndim]):  # along x, y, z; the grid has them the other way round
        shift = [1.0 if other == axis else 0.5 for other in range(ndim)]
        parts[name] = np.ascontiguousarray(np.moveaxis(waves(problem, shift, axis), range(1, ndim + 1), range(ndim, 0, -1)))
    inputs = {"nu": settings["nu"]} | {name: part.sum(axis=0) for name, part in parts.items()}

    def energy(solution: diffsim.Solution) -> Any:
        return sum(0.5 * (solution.final[name] ** 2).mean() for name in parts)

    def forward() -> Results:
        return {"energy": np.asarray(energy(simulation.run(inputs, problem.steps)))}

    def gradient() -> Results:
        _, slopes = simulation.value_and_grad(energy, inputs, problem.steps, checkpoint=StoreAll(problem.steps))
        return {"gradient": sum(np.tensordot(part, slopes[name], axes=ndim) for name, part in parts.items())}

    return gradient if problem.gradient else forward


def product(problem: Problem) -> Callable[[], Results]:
    diffsim.init(threads=problem.threads)
    x = problem["x"]

    def value(x: Any) -> Any:
        return dnp.sum(dnp.cumprod(x) * x)

    function = diffsim.value_and_grad(value)

    def gradient() -> Results:
        value, slope = function(x)
        return {"value": value, "gradient": slope}

    return gradient


WORK = {
    "acoustic": acoustic,
    "volume": acoustic,
    "diffusion": diffusion,
    "elastic": elastic,
    "maxwell": maxwell,
    "flow": flow,
    "product": product,
}
"""The work of each kind."""

if __name__ == "__main__":
    serve(WORK)
