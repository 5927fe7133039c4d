# /// script
# [tool.diffsim-bench]
# title = "diffsim"
# own = true
# ///
"""diffsim itself, by which the results of the peers are judged."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from exchange import Problem, Results, serve

import diffsim
import diffsim.numpy as dnp
from diffsim.checkpoint import StoreAll
from diffsim.solvers import Acoustic, Heat


def acoustic(problem: Problem) -> Callable[[], Results]:
    diffsim.init(threads=problem.threads)
    given, dx = problem.settings, problem.settings["dx"]
    speed, steps = problem["speed"], problem.steps
    simulation = diffsim.Simulation(
        Acoustic(diffsim.Grid(speed.shape, dx), given["dt"], order=given["order"]),
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


def diffusion(problem: Problem) -> Callable[[], Results]:
    diffsim.init(threads=problem.threads)
    given, steps = problem.settings, problem.steps
    grid = diffsim.Grid(problem["kappa"].shape, given["dx"])
    simulation = diffsim.Simulation(Heat(grid, given["dt"]), wrt=["kappa"])
    inputs = {"kappa": problem["kappa"], "T": problem["initial"]}

    def forward() -> Results:
        return {"temperature": simulation.run(inputs, steps).final["T"]}

    def gradient() -> Results:
        solution, pullback = simulation.vjp(inputs, steps, checkpoint=problem.slots or StoreAll(steps))
        return {"gradient": pullback(diffsim.Solution(final={"T": solution.final["T"]}))["kappa"]}

    return gradient if problem.gradient else forward


def product(problem: Problem) -> Callable[[], Results]:
    diffsim.init(threads=problem.threads)
    x = problem["x"]

    def value(x: Any) -> Any:
        return dnp.sum(dnp.cumprod(x) * x)

    function = diffsim.value_and_grad(value)

    def gradient() -> Results:
        found, slope = function(x)
        return {"value": found, "gradient": slope}

    return gradient


if __name__ == "__main__":
    serve({"acoustic": acoustic, "diffusion": diffusion, "product": product})
