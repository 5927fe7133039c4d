"""Every solver against the plain NumPy version of its docstring, and physics against literals."""

from __future__ import annotations

import math

import numpy as np
import pytest

import diffsim as ds
from diffsim.solvers import Acoustic, Heat, LongWave, ViscoAcoustic
from tests.sampled import sampled
from tests.solvers import plain

STEPS = 12
ROUNDING = 1e-12  # of a dozen steps, relative to the largest value


def agree(found: np.ndarray, expected: np.ndarray) -> None:
    assert np.abs(found - expected).max() < ROUNDING * np.abs(expected).max()


BOUNDARIES = ("zero", "mirror", "periodic")
ACOUSTIC = [(order, boundary, sponge) for order in (2, 4, 6, 8) for boundary in BOUNDARIES for sponge in (0, 4)]
IN_GATE = [(2, "zero", 4), (2, "periodic", 0), (4, "mirror", 0), (4, "zero", 4), (6, "periodic", 4), (8, "zero", 0), (8, "mirror", 4)]
"""Each order and each boundary with and without a sponge."""


@pytest.mark.gradients
@pytest.mark.parametrize(("order", "boundary", "sponge"), sampled(ACOUSTIC, gate=IN_GATE))
def test_acoustic(order: int, boundary: str, sponge: int) -> None:
    rng = np.random.default_rng(order)
    grid = ds.Grid((15, 18), (8.0, 10.0))
    c, p, p_prev = rng.uniform(1500, 3000, grid.shape), rng.standard_normal(grid.shape), rng.standard_normal(grid.shape)
    solution = ds.Simulation(Acoustic(grid, 1e-3, order, boundary, sponge), precision="f64").run({"c": c, "p": p, "p_prev": p_prev}, STEPS)
    agree(solution.final["p"], plain.acoustic(c, p, p_prev, STEPS, 1e-3, (8.0, 10.0), order, boundary, sponge))


@pytest.mark.parametrize(
    ("order", "Q", "boundary"),
    sampled(
        [(*kind, boundary) for kind in ((2, "none"), (4, "given"), (8, "none"), (8, 20.0)) for boundary in BOUNDARIES],
        gate=[(2, "none", "zero"), (4, "given", "mirror"), (4, "given", "periodic"), (8, "none", "periodic"), (8, 20.0, "zero")],
    ),
)
def test_visco_acoustic(order: int, Q: str | float, boundary: str) -> None:
    rng = np.random.default_rng(order)
    grid = ds.Grid((17, 19), (8.0, 10.0))
    c, rho, p, p_prev = rng.uniform(1500, 3000, grid.shape), rng.uniform(1000, 3000, grid.shape), *rng.standard_normal((2, *grid.shape))
    factors = {"none": None, "given": rng.uniform(5.0, 200.0, grid.shape)}.get(Q, np.full(grid.shape, Q))
    equation = ViscoAcoustic(grid, 7e-4, order, boundary, Q, None if Q == "none" else 25.0)
    inputs = {"c": c, "rho": rho, "p": p, "p_prev": p_prev} | ({"Q": factors} if Q == "given" else {})
    solution = ds.Simulation(equation, precision="f64").run(inputs, STEPS)
    agree(solution.final["p"], plain.visco_acoustic(c, rho, factors, p, p_prev, STEPS, 7e-4, (8.0, 10.0), order, boundary, 25.0))


@pytest.mark.parametrize(
    ("latitude", "sponge"),
    sampled(
        [(latitude, sponge) for latitude in (None, -20.0, 48.0, 60.0) for sponge in (0, 3)],
        gate=[(None, 0), (None, 3), (-20.0, 3), (60.0, 0)],
    ),
)
def test_long_wave(latitude: float | None, sponge: int) -> None:
    rng = np.random.default_rng(1)
    shape = (11, 13)
    sphere = latitude is not None
    grid = ds.Grid(shape, (0.02, 0.03), (latitude, 200.0)) if sphere else ds.Grid(shape, (900.0, 1000.0))
    depth = np.where(rng.random(shape) < 0.2, 0.0, rng.uniform(100, 2000, shape))
    eta0 = rng.standard_normal(shape)
    equation = LongWave(grid, 3.0, "sphere" if sphere else "plane", sponge)
    eta = ds.Simulation(equation, precision="f64").run({"H": depth, "eta0": eta0}, STEPS).final["eta"]
    rows = latitude + 0.02 * np.arange(11) if sphere else None
    agree(eta, plain.long_wave(depth, eta0, STEPS, 3.0, (0.02, 0.03) if sphere else (900.0, 1000.0), rows, sponge))


@pytest.mark.parametrize("boundary", ["zero", "mirror", "periodic"])
def test_heat(boundary: str) -> None:
    rng = np.random.default_rng(2)
    grid = ds.Grid((9, 12), (0.5, 0.4))
    kappa, t = rng.uniform(0.1, 0.5, grid.shape), rng.standard_normal(grid.shape)
    temperature = ds.Simulation(Heat(grid, 0.05, boundary), precision="f64").run({"kappa": kappa, "T": t}, STEPS).final["T"]
    agree(temperature, plain.heat(kappa, t, STEPS, 0.05, (0.5, 0.4), boundary))


@pytest.mark.parametrize(("latitude", "degrees_an_hour"), [(0.0, 3.2066), (60.0, 6.4132)])
def test_a_wave_runs_along_a_parallel(latitude: float, degrees_an_hour: float) -> None:
    """In 1000 m of water at sqrt(9.81 m/s2 x 1000 m) = 99.045 m/s; a degree of longitude is 111.19 km at the equator, half of it at 60."""
    grid = ds.Grid((5, 400), (0.01, 0.02), (latitude - 0.02, 0.0))
    lon, dt, steps = grid.coordinates(1), 4.0, 450
    start = np.exp(-(((lon - 2.0) / 0.2) ** 2)) * np.ones((5, 1))
    final = ds.Simulation(LongWave(grid, dt, "sphere"), precision="f64").run({"H": np.full(grid.shape, 1000.0), "eta0": start}, steps).final
    right = final["eta"][2, 150:]
    crest = np.polyfit(lon[150:][right > 0.3], np.log(right[right > 0.3]), 2)
    travelled = -crest[1] / (2 * crest[0]) - 2.0
    assert travelled == pytest.approx(degrees_an_hour * dt * steps / 3600, rel=2e-3)


def test_a_damped_cell_forgets_at_the_rate_of_the_sponge() -> None:
    """Where waves hardly move, each cell is an oscillator without a spring: two steps from p = 1 after 0."""
    n, width, dt = 9, 4, 1e-3
    grid = ds.Grid((n,), 10.0)
    p = np.zeros(n)
    p[0] = 1.0
    pressure = ds.Simulation(Acoustic(grid, dt, 2, "zero", width), precision="f64").run({"c": np.full(n, 1e-3), "p": p}, 2).final["p"]
    d = dt / 2 * 3 * 2000.0 * math.log(1000.0) / 40.0  # sigma dt / 2 at the rim
    first = 2 / (1 + d)  # from p = 1 and 0 before; the wave speed is next to nothing
    assert pressure[0] == pytest.approx((2 * first - (1 - d)) / (1 + d), rel=1e-9)
    assert np.abs(pressure[1:]).max() < 1e-9
