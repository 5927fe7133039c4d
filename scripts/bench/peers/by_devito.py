# /// script
# requires-python = ">=3.11"
# dependencies = ["devito==4.8.23", "numpy==2.4.3"]
# [tool.diffsim-bench]
# title = "Devito"
# needs = "gcc"
# notes = """
# Operators for the run and for its adjoint, `opt=advanced`, `DEVITO_LANGUAGE=openmp`, gcc. The adjoint is written by hand. \
# Diffusion has two coefficients a cell, one for each face, which are zero at the edges."""
# ///
"""Devito: operators from symbolic equations, compiled by gcc. It does not differentiate operators: the adjoints are written here."""

from __future__ import annotations

import os
from collections.abc import Callable

os.environ.update(DEVITO_LANGUAGE="openmp", DEVITO_ARCH="gcc", DEVITO_OPT="advanced", DEVITO_LOGGING="ERROR")

import numpy as np
from devito import Eq, Function, Grid, Inc, Operator, SparseTimeFunction, TimeFunction
from exchange import Cannot, Problem, Results, serve


def acoustic(problem: Problem) -> Callable[[], Results]:
    """A field that is kept has the pressure of step n at index n + 1, so that it begins with the two initial states.

    With m = (c dt)² the adjoint state λ of the leap-frog gives w = m λ, which obeys the equation of the pressure itself backwards in time.
    The gradient for m is the sum of λ (pⁿ⁺¹ - 2 pⁿ + pⁿ⁻¹) / m over the steps.
    """
    _without_slots(problem)
    settings, speed, steps = problem.settings, problem["speed"], problem.steps
    dx, dt, order = settings["dx"], np.float32(settings["dt"]), settings["order"]
    grid = Grid(speed.shape, extent=[dx * (n - 1) for n in speed.shape], dtype=np.float32)
    m = Function(name="m", grid=grid, space_order=order)
    kept = {"save": steps + 3} if problem.gradient else {}
    p = TimeFunction(name="p", grid=grid, space_order=order, time_order=2, **kept)
    source = SparseTimeFunction(name="source", grid=grid, npoint=1, nt=steps + 3, coordinates=problem["source"] * dx)
    record = SparseTimeFunction(
        name="record", grid=grid, npoint=len(problem["receivers"]), nt=steps + 3, coordinates=problem["receivers"] * dx
    )
    run = Operator(
        [
            Eq(p.forward, 2 * p - p.backward + m * p.laplace),
            source.inject(field=p.forward, expr=source * m),
            record.interpolate(expr=p.forward),
        ],
        name="Run",
    )

    def start() -> None:
        m.data[:] = (speed * dt) ** 2
        p.data[:] = 0
        source.data[1 : steps + 1, 0] = problem["wavelet"] / dx**speed.ndim

    def forward() -> Results:
        start()
        run.apply(time_m=1, time_M=steps)
        traces = np.concatenate([np.zeros((1, record.npoint), np.float32), record.data[1 : steps + 1]])
        return {"pressure": np.array(p.data[(steps + 1) % 3]), "traces": traces}

    if not problem.gradient:
        return forward
    w = TimeFunction(name="w", grid=grid, space_order=order, time_order=2)
    total = Function(name="total", grid=grid)
    residual = SparseTimeFunction(name="residual", grid=grid, npoint=record.npoint, nt=steps + 3, coordinates=problem["receivers"] * dx)
    back = Operator(
        [
            Eq(w.backward, 2 * w - w.forward + m * w.laplace),
            residual.inject(field=w.backward, expr=residual * m),
            Inc(total, w * (p.forward - 2 * p + p.backward)),
        ],
        name="Back",
    )

    def gradient() -> Results:
        start()
        run.apply(time_m=1, time_M=steps)
        residual.data[:] = 0
        residual.data[2 : steps + 2] = record.data[1 : steps + 1]
        w.data[:], total.data[:] = 0, 0
        back.apply(time_m=1, time_M=steps + 1)
        return {"gradient": total.data / m.data**2 * (2 * speed * dt**2)}

    return gradient


def diffusion(problem: Problem) -> Callable[[], Results]:
    """No heat crosses the edges, whose faces conduct nothing; so values beyond them have no effect."""
    _without_slots(problem)
    kappa, steps = problem["kappa"], problem.steps
    scale = np.float32(problem.settings["dt"] / problem.settings["dx"] ** 2)
    grid = Grid(kappa.shape, extent=[n - 1 for n in kappa.shape], dtype=np.float32)
    x, y = grid.dimensions
    kept = {"save": steps + 1} if problem.gradient else {}
    temperature = TimeFunction(name="T", grid=grid, space_order=2, time_order=1, **kept)
    faces = [Function(name=name, grid=grid, space_order=2) for name in ("kx", "ky")]

    def stepped(field: TimeFunction) -> object:
        total = field
        for k, axis in zip(faces, (x, y), strict=True):
            upper, lower = field.subs(axis, axis + axis.spacing), field.subs(axis, axis - axis.spacing)
            total = total + k * (upper - field) - k.subs(axis, axis - axis.spacing) * (field - lower)
        return total

    run = Operator([Eq(temperature.forward, stepped(temperature))], name="Run")

    def start() -> None:
        faces[0].data[:-1] = 0.5 * scale * (kappa[1:] + kappa[:-1])
        faces[1].data[:, :-1] = 0.5 * scale * (kappa[:, 1:] + kappa[:, :-1])
        temperature.data[0] = problem["initial"]

    def forward() -> Results:
        start()
        run.apply(time_m=0, time_M=steps - 1)
        return {"temperature": np.array(temperature.data[steps % 2])}

    if not problem.gradient:
        return forward
    bar = TimeFunction(name="bar", grid=grid, space_order=2, time_order=1)
    totals = [Function(name=name, grid=grid, space_order=2) for name in ("gx", "gy")]
    sums = [
        Inc(total, (bar - bar.subs(axis, axis + axis.spacing)) * (T_up - temperature))
        for total, axis in zip(totals, (x, y), strict=True)
        for T_up in [temperature.subs(axis, axis + axis.spacing)]
    ]
    back = Operator([Eq(bar.backward, stepped(bar)), *sums], name="Back")

    def gradient() -> Results:
        """The step is symmetric: its adjoint is itself. At time n `bar` is the cotangent of the temperature after step n."""
        start()
        run.apply(time_m=0, time_M=steps - 1)
        for total in totals:
            total.data[:] = 0
        bar.data[(steps - 1) % 2] = temperature.data[steps]
        back.apply(time_m=0, time_M=steps - 1)
        owed = np.zeros_like(kappa)
        for part, total in (((slice(None, -1),), totals[0]), ((slice(None), slice(None, -1)), totals[1])):
            axis = len(part) - 1
            face = np.array(total.data)[part] * (0.5 * scale)
            beyond = (*part[:-1], slice(1, None))
            owed[part] += face
            owed[beyond] += face
            assert face.shape[axis] == kappa.shape[axis] - 1
        return {"gradient": owed}

    return gradient


def _without_slots(problem: Problem) -> None:
    if problem.gradient and problem.slots:
        raise Cannot("checkpoints need pyRevolve and operators that are called step by step")


if __name__ == "__main__":
    serve({"acoustic": acoustic, "volume": acoustic, "diffusion": diffusion})
