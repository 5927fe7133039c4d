"""Heat conduction against closed forms."""

from __future__ import annotations

import numpy as np
import pytest

import diffsim as ds
from diffsim.solvers import Heat


def test_a_mode_decays_by_its_discrete_factor() -> None:
    n, h, dt, kappa, steps = 20, 0.5, 0.1, 0.4, 300
    grid = ds.Grid((n, n), h)
    angle = np.pi * np.array([3, 2]) / n  # cosine modes of insulated walls
    i, j = np.meshgrid(np.arange(n) + 0.5, np.arange(n) + 0.5, indexing="ij")
    mode = np.cos(angle[0] * i) * np.cos(angle[1] * j)
    r = kappa * dt / h**2
    factor = 1 - 4 * r * (np.sin(angle / 2) ** 2).sum()
    solution = ds.Simulation(Heat(grid, dt)).run({"kappa": np.full(grid.shape, kappa), "T": mode}, steps)
    assert np.abs(solution.final["T"] - factor**steps * mode).max() < 1e-12


def test_insulated_walls_keep_the_heat() -> None:
    grid, rng = ds.Grid((17, 23), 0.5), np.random.default_rng(1)
    start = rng.uniform(size=grid.shape)
    solution = ds.Simulation(Heat(grid, 0.1)).run({"kappa": rng.uniform(0.1, 0.5, grid.shape), "T": start}, 400)
    assert solution.final["T"].sum() == pytest.approx(start.sum(), rel=1e-13)
    assert start.min() < solution.final["T"].min() and solution.final["T"].max() < start.max()  # a maximum principle


def test_a_source_adds_its_amplitude() -> None:
    grid = ds.Grid((15, 15), 0.5)
    amplitude = np.random.default_rng(2).uniform(size=(50, 1))
    simulation = ds.Simulation(Heat(grid, 0.1), sources={"q": [[2.2, 3.1]]})
    solution = simulation.run({"kappa": np.full(grid.shape, 0.3), "q": amplitude}, 50)
    assert solution.final["T"].sum() * grid.cell_volume == pytest.approx(0.1 * amplitude.sum(), rel=1e-12)


def test_second_order_in_space_with_varying_conductivity() -> None:
    """The steady state T = sin(pi x) cos(2 pi y) of a given kappa needs a known heat supply; one step from it shows the error."""
    errors = []
    for n in (16, 32):
        h = 1 / n
        grid = ds.Grid((n, n), h, origin=h / 2)
        y, x = np.meshgrid(grid.coordinates(0), grid.coordinates(1), indexing="ij")
        t = np.cos(np.pi * x) * np.cos(2 * np.pi * y)
        kappa = 1.5 + 0.5 * np.cos(np.pi * x)
        exact = -5 * np.pi**2 * kappa * t + (-0.5 * np.pi * np.sin(np.pi * x)) * (-np.pi * np.sin(np.pi * x) * np.cos(2 * np.pi * y))
        dt = 0.1 * h**2
        rate = (ds.Simulation(Heat(grid, dt)).run({"kappa": kappa, "T": t}, 1).final["T"] - t) / dt
        errors.append(np.abs(rate - exact).max())
    assert np.log2(errors[0] / errors[1]) == pytest.approx(2, abs=0.2)
