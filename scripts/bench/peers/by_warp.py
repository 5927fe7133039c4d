# /// script
# requires-python = ">=3.11"
# dependencies = ["warp-lang==1.19.0", "numpy==2.4.6"]
# [tool.diffsim-bench]
# title = "Warp"
# notes = "On the CPU its kernels run on one thread. A gradient is by `wp.Tape`, over an array for each step."
# ///
"""NVIDIA Warp on the CPU: a kernel a step, and its tape."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import warp as wp
from exchange import WEIGHTS, Cannot, Problem, Results, serve

wp.config.quiet = True
DEVICE = "cpu"


@wp.func
def at(p: wp.array2d(dtype=float), i: int, j: int):
    """A cell; zero outside of the grid."""
    value = 0.0
    if i >= 0 and j >= 0 and i < p.shape[0] and j < p.shape[1]:
        value = p[i, j]
    return value


@wp.func
def around(p: wp.array2d(dtype=float), i: int, j: int, k: int):
    return at(p, i - k, j) + at(p, i + k, j) + at(p, i, j - k) + at(p, i, j + k)


@wp.kernel
def squared(c: wp.array2d(dtype=float), scale: float, m: wp.array2d(dtype=float)):
    i, j = wp.tid()
    m[i, j] = c[i, j] * c[i, j] * scale


@wp.kernel
def step_4(
    p: wp.array2d(dtype=float),
    before: wp.array2d(dtype=float),
    m: wp.array2d(dtype=float),
    w: wp.vec3,
    f: wp.array(dtype=float),
    n: int,
    row: int,
    column: int,
    after: wp.array2d(dtype=float),
):
    i, j = wp.tid()
    total = w[0] * p[i, j] + w[1] * around(p, i, j, 1) + w[2] * around(p, i, j, 2)
    if i == row and j == column:
        total = total + f[n]
    after[i, j] = 2.0 * p[i, j] - before[i, j] + m[i, j] * total


@wp.kernel
def step_8(
    p: wp.array2d(dtype=float),
    before: wp.array2d(dtype=float),
    m: wp.array2d(dtype=float),
    w: wp.types.vector(length=5, dtype=float),
    f: wp.array(dtype=float),
    n: int,
    row: int,
    column: int,
    after: wp.array2d(dtype=float),
):
    i, j = wp.tid()
    total = w[0] * p[i, j] + w[1] * around(p, i, j, 1) + w[2] * around(p, i, j, 2)
    total = total + w[3] * around(p, i, j, 3) + w[4] * around(p, i, j, 4)
    if i == row and j == column:
        total = total + f[n]
    after[i, j] = 2.0 * p[i, j] - before[i, j] + m[i, j] * total


@wp.kernel
def recorded(p: wp.array2d(dtype=float), cells: wp.array2d(dtype=int), n: int, traces: wp.array2d(dtype=float)):
    r = wp.tid()
    traces[n, r] = p[cells[r, 0], cells[r, 1]]


@wp.kernel
def half_squares(values: wp.array2d(dtype=float), loss: wp.array(dtype=float)):
    i, j = wp.tid()
    wp.atomic_add(loss, 0, 0.5 * values[i, j] * values[i, j])


@wp.func
def flux(k: wp.array2d(dtype=float), T: wp.array2d(dtype=float), i: int, j: int, a: int, b: int):
    """Half of the flow from a neighbour; nothing from outside of the grid."""
    value = 0.0
    if a >= 0 and b >= 0 and a < T.shape[0] and b < T.shape[1]:
        value = (k[i, j] + k[a, b]) * (T[a, b] - T[i, j])
    return value


@wp.kernel
def conducted(T: wp.array2d(dtype=float), kappa: wp.array2d(dtype=float), half: float, after: wp.array2d(dtype=float)):
    i, j = wp.tid()
    x = flux(kappa, T, i, j, i - 1, j) + flux(kappa, T, i, j, i + 1, j)
    y = flux(kappa, T, i, j, i, j - 1) + flux(kappa, T, i, j, i, j + 1)
    after[i, j] = T[i, j] + half * (x + y)


def acoustic(problem: Problem) -> Callable[[], Results]:
    _without_slots(problem)
    settings, speed, steps = problem.settings, problem["speed"], problem.steps
    shape, order, taped = speed.shape, settings["order"], problem.gradient
    weights = [w / settings["dx"] ** 2 for w in WEIGHTS[order]]
    weights[0] *= 2
    vector: Any = wp.vec3(*weights) if order == 4 else wp.types.vector(length=5, dtype=float)(*weights)
    step = step_4 if order == 4 else step_8
    c, m = (wp.array(speed, dtype=float, device=DEVICE, requires_grad=taped) for _ in range(2))
    states = _states(shape, steps + 2 if taped else 3, taped)
    traces = wp.zeros((steps + 1, len(problem["receivers"])), dtype=float, device=DEVICE, requires_grad=taped)
    f = wp.array(problem["wavelet"] / np.float32(settings["dx"] ** 2), dtype=float, device=DEVICE)
    cells = wp.array(problem["receivers"], dtype=int, device=DEVICE)
    row, column = map(int, problem["source"][0])
    loss = wp.zeros(1, dtype=float, device=DEVICE, requires_grad=taped)

    def run() -> None:
        c.assign(speed)
        states[0].zero_()
        states[1].zero_()
        wp.launch(squared, shape, inputs=[c, settings["dt"] ** 2], outputs=[m], device=DEVICE)
        for n in range(steps):
            before, p, after = (states[(n + k) % len(states)] for k in range(3))
            wp.launch(step, shape, inputs=[p, before, m, vector, f, n, row, column], outputs=[after], device=DEVICE)
            wp.launch(recorded, len(problem["receivers"]), inputs=[after, cells, n + 1], outputs=[traces], device=DEVICE)

    def forward() -> Results:
        run()
        return {"pressure": states[(steps + 1) % 3].numpy().copy(), "traces": traces.numpy().copy()}

    def gradient() -> Results:
        loss.zero_()
        with wp.Tape() as tape:
            run()
            wp.launch(half_squares, traces.shape, inputs=[traces], outputs=[loss], device=DEVICE)
        tape.backward(loss)
        bar = c.grad.numpy().copy()
        tape.zero()
        return {"gradient": bar}

    return gradient if problem.gradient else forward


def diffusion(problem: Problem) -> Callable[[], Results]:
    _without_slots(problem)
    shape, steps, taped = problem["kappa"].shape, problem.steps, problem.gradient
    half = 0.5 * problem.settings["dt"] / problem.settings["dx"] ** 2
    kappa = wp.array(problem["kappa"], dtype=float, device=DEVICE, requires_grad=taped)
    states = _states(shape, steps + 1 if taped else 2, taped)
    loss = wp.zeros(1, dtype=float, device=DEVICE, requires_grad=taped)

    def run() -> None:
        kappa.assign(problem["kappa"])
        states[0].assign(problem["initial"])
        for n in range(steps):
            T, after = states[n % len(states)], states[(n + 1) % len(states)]
            wp.launch(conducted, shape, inputs=[T, kappa, half], outputs=[after], device=DEVICE)

    def forward() -> Results:
        run()
        return {"temperature": states[steps % 2].numpy().copy()}

    def gradient() -> Results:
        loss.zero_()
        with wp.Tape() as tape:
            run()
            wp.launch(half_squares, shape, inputs=[states[-1]], outputs=[loss], device=DEVICE)
        tape.backward(loss)
        bar = kappa.grad.numpy().copy()
        tape.zero()
        return {"gradient": bar}

    return gradient if problem.gradient else forward


def _states(shape: tuple[int, ...], count: int, taped: bool) -> list[Any]:
    return [wp.zeros(shape, dtype=float, device=DEVICE, requires_grad=taped) for _ in range(count)]


def _without_slots(problem: Problem) -> None:
    if problem.gradient and problem.slots:
        raise Cannot("its tape has no checkpoints")


if __name__ == "__main__":
    serve({"acoustic": acoustic, "diffusion": diffusion})
