# /// script
# [tool.diffsim-bench]
# title = "C"
# own = true
# notes = """
# Written by hand (reference.c and staggered.c in scripts/bench), `gcc -O3 -march=native -ffast-math -fopenmp`; checkpoints as \
# diffsim's."""
# ///
"""The hand-written C version; its driver has the schedule of its checkpoints from diffsim."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
from exchange import Cannot, Problem, Results, serve

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from reference import Diffusion, Wave, threads_awake
from staggered import Elastic, Light


def acoustic(problem: Problem) -> Callable[[], Results]:
    settings, speed, wavelet = problem.settings, problem["speed"], problem["wavelet"]
    wave = Wave(speed.shape, settings["order"], problem.threads, settings["dt"] / settings["dx"], *_places(problem))
    observed = np.zeros((problem.steps + 1, len(problem["receivers"])), np.float32)

    def forward() -> Results:
        with threads_awake(problem.threads):
            pressure, traces = wave.run(speed, wavelet)
        return {"pressure": pressure, "traces": traces}

    def gradient() -> Results:
        with threads_awake(problem.threads):
            return {"gradient": wave.gradient(speed, wavelet, observed, problem.slots or None)}

    return gradient if problem.gradient else forward


def elastic(problem: Problem) -> Callable[[], Results]:
    return _staggered(problem, Elastic, ("vp", "vs", "rho"))


def maxwell(problem: Problem) -> Callable[[], Results]:
    return _staggered(problem, Light, ("eps",))


def _staggered(problem: Problem, kind: type[Elastic] | type[Light], names: tuple[str, ...]) -> Callable[[], Results]:
    if problem.slots:
        raise Cannot("no checkpoints are written")
    settings, medium = problem.settings, [problem[name] for name in names]
    run = kind(medium[0].shape, problem.threads, settings["dx"], settings["dt"], *_places(problem))

    def forward() -> Results:
        with threads_awake(problem.threads):
            return {"traces": run.run(*medium, problem["wavelet"])}

    def gradient() -> Results:
        with threads_awake(problem.threads):
            return run.gradient(*medium, problem["wavelet"])

    return gradient if problem.gradient else forward


def _places(problem: Problem) -> tuple[tuple[int, int], tuple[int, int, int, int]]:
    """The cell of the source, and of the receivers row, first column, step and count."""
    (row, column), points = problem["source"][0], problem["receivers"]
    return (int(row), int(column)), (int(points[0, 0]), int(points[0, 1]), int(points[1, 1] - points[0, 1]), len(points))


def diffusion(problem: Problem) -> Callable[[], Results]:
    if problem.gradient:
        raise Cannot("no adjoint of diffusion is written")
    settings = problem.settings
    model = Diffusion(problem["kappa"].shape, problem.threads, settings["dt"] / settings["dx"] ** 2)

    def forward() -> Results:
        with threads_awake(problem.threads):
            return {"temperature": model.run(problem["kappa"], problem["initial"], problem.steps)}

    return forward


WORK = {"acoustic": acoustic, "diffusion": diffusion, "elastic": elastic, "maxwell": maxwell}
"""The work of each kind."""

if __name__ == "__main__":
    serve(WORK)
