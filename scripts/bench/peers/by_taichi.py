# /// script
# requires-python = ">=3.10"
# dependencies = ["taichi==1.7.4", "numpy==2.2.6"]
# [tool.diffsim-bench]
# title = "Taichi"
# notes = "As one writes it first: scalar fields, a kernel a step, `ti.ad.Tape` over a field that has all steps."
# ///
"""Taichi by itself: scalar fields, a kernel a step, and its tape."""

import os
from collections.abc import Callable

os.environ.setdefault("ENABLE_TAICHI_HEADER_PRINT", "0")

import numpy as np
import taichi as ti
from exchange import WEIGHTS, Cannot, Problem, Results, serve


def acoustic(problem: Problem) -> Callable[[], Results]:
    """A field for all steps if there is a gradient to take, otherwise for three."""
    _start(problem)
    settings, speed, steps = problem.settings, problem["speed"], problem.steps
    n, taped, reach = speed.shape[0], problem.gradient, settings["order"] // 2
    depth = steps + 2 if taped else 3
    count = len(problem["receivers"])
    weights = [float(w / settings["dx"] ** 2) for w in WEIGHTS[settings["order"]]]
    scale = float(settings["dt"] ** 2)
    row, column = map(int, problem["source"][0])
    c = ti.field(float, (n, n), needs_grad=taped)
    m = ti.field(float, (n, n), needs_grad=taped)
    p = ti.field(float, (depth, n, n), needs_grad=taped)
    traces = ti.field(float, (steps + 1, count), needs_grad=taped)
    loss = ti.field(float, (), needs_grad=taped)
    f, cells = ti.field(float, steps), ti.field(int, (count, 2))

    @ti.func
    def at(t: int, i: int, j: int) -> float:
        value = 0.0
        if i >= 0 and j >= 0 and i < n and j < n:
            value = p[t, i, j]
        return value

    @ti.kernel
    def squares():
        for i, j in c:
            m[i, j] = c[i, j] ** 2 * scale

    @ti.kernel
    def step(t: int, before: int, now: int, after: int):
        for i, j in ti.ndrange(n, n):
            total = 2 * weights[0] * p[now, i, j]
            for k in ti.static(range(1, reach + 1)):
                total += weights[k] * (at(now, i - k, j) + at(now, i + k, j) + at(now, i, j - k) + at(now, i, j + k))
            if i == row and j == column:
                total += f[t]
            p[after, i, j] = 2 * p[now, i, j] - p[before, i, j] + m[i, j] * total

    @ti.kernel
    def record(t: int, after: int):
        for r in range(count):
            traces[t + 1, r] = p[after, cells[r, 0], cells[r, 1]]

    @ti.kernel
    def misfit():
        for t, r in traces:
            loss[None] += 0.5 * traces[t, r] ** 2

    cells.from_numpy(problem["receivers"].astype(np.int32))
    f.from_numpy(problem["wavelet"] / np.float32(settings["dx"] ** 2))

    def run() -> None:
        squares()
        for t in range(steps):
            before, now, after = ((t + k) % depth for k in range(3))
            step(t, before, now, after)
            record(t, after)

    @ti.kernel
    def read(t: int, out: ti.types.ndarray()):
        for i, j in ti.ndrange(n, n):
            out[i, j] = p[t, i, j]

    def forward() -> Results:
        c.from_numpy(speed)
        p.fill(0)
        run()
        pressure = np.empty_like(speed)
        read((steps + 1) % depth, pressure)
        return {"pressure": pressure, "traces": traces.to_numpy()}

    def gradient() -> Results:
        c.from_numpy(speed)
        with ti.ad.Tape(loss):
            run()
            misfit()
        return {"gradient": c.grad.to_numpy()}

    return gradient if problem.gradient else forward


def diffusion(problem: Problem) -> Callable[[], Results]:
    _start(problem)
    n, steps, taped = problem["kappa"].shape[0], problem.steps, problem.gradient
    depth = steps + 1 if taped else 2
    half = float(0.5 * problem.settings["dt"] / problem.settings["dx"] ** 2)
    kappa = ti.field(float, (n, n), needs_grad=taped)
    T = ti.field(float, (depth, n, n), needs_grad=taped)
    loss = ti.field(float, (), needs_grad=taped)

    @ti.kernel
    def step(now: int, after: int):
        for i, j in ti.ndrange(n, n):
            total = 0.0
            for a, b in ti.static([(-1, 0), (1, 0), (0, -1), (0, 1)]):
                if i + a >= 0 and i + a < n and j + b >= 0 and j + b < n:
                    total += (kappa[i, j] + kappa[i + a, j + b]) * (T[now, i + a, j + b] - T[now, i, j])
            T[after, i, j] = T[now, i, j] + half * total

    @ti.kernel
    def write(given: ti.types.ndarray()):
        for i, j in ti.ndrange(n, n):
            T[0, i, j] = given[i, j]

    @ti.kernel
    def read(t: int, out: ti.types.ndarray()):
        for i, j in ti.ndrange(n, n):
            out[i, j] = T[t, i, j]

    @ti.kernel
    def misfit(t: int):
        for i, j in ti.ndrange(n, n):
            loss[None] += 0.5 * T[t, i, j] ** 2

    def start() -> None:
        kappa.from_numpy(problem["kappa"])
        write(problem["initial"])

    def run() -> None:
        for t in range(steps):
            step(t % depth, (t + 1) % depth)

    def forward() -> Results:
        start()
        run()
        temperature = np.empty_like(problem["kappa"])
        read(steps % depth, temperature)
        return {"temperature": temperature}

    def gradient() -> Results:
        start()
        with ti.ad.Tape(loss):
            run()
            misfit(steps)
        return {"gradient": kappa.grad.to_numpy()}

    return gradient if problem.gradient else forward


def _start(problem: Problem) -> None:
    if problem.gradient and problem.slots:
        raise Cannot("its tape has no checkpoints")
    ti.init(arch=ti.cpu, cpu_max_num_threads=problem.threads, default_fp=ti.f32, offline_cache=False, log_level=ti.WARN)


if __name__ == "__main__":
    serve({"acoustic": acoustic, "diffusion": diffusion})
