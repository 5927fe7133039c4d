"""Acoustics against closed forms."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import hankel2

import diffsim as ds
from diffsim.solvers import Acoustic
from diffsim.solvers.stability import laplacian_bound

EXACT = 1e-10  # a discrete mode obeys the discrete dispersion relation; round-off grows with the steps


def discrete_eigenvalue(k: float, h: float, order: int) -> float:
    """Of -d²/dx² for exp(ikx), by evaluating the stencil on the mode itself."""
    from diffsim.expr.weights import centred

    reach = order // 2
    return -sum(w * np.cos(k * h * (i - reach)) for i, w in enumerate(centred(2, order))) / h**2


@pytest.mark.parametrize("order", [2, 4, 6, 8])
def test_a_mode_obeys_the_discrete_dispersion_relation(order: int) -> None:
    n, h, c, dt, steps = 24, 10.0, 2000.0, 1.5e-3, 200
    grid = ds.Grid((n, n), h)
    k = 2 * np.pi / (n * h) * np.array([2, 3])
    y, x = np.meshgrid(np.arange(n) * h, np.arange(n) * h, indexing="ij")
    mode = np.cos(k[0] * y + k[1] * x)
    eigenvalue = sum(discrete_eigenvalue(ka, h, order) for ka in k)
    omega = 2 / dt * np.arcsin(0.5 * c * dt * np.sqrt(eigenvalue))
    simulation = ds.Simulation(Acoustic(grid, dt, order, "periodic"))
    solution = simulation.run({"c": np.full(grid.shape, c), "p": mode, "p_prev": mode * np.cos(omega * dt)}, steps)
    assert np.abs(solution.final["p"] - mode * np.cos(omega * dt * steps)).max() < EXACT


@pytest.mark.parametrize(("order", "expected"), [(2, 2), (4, 4), (8, 8)])
def test_order_of_accuracy_in_space(order: int, expected: int) -> None:
    """Eigenvalue of a mode that the grid resolves better and better: the error falls as h^order."""
    k = 2 * np.pi
    errors = [abs(discrete_eigenvalue(k, h, order) - k**2) for h in (1 / 16, 1 / 24)]
    assert np.log(errors[0] / errors[1]) / np.log(1.5) == pytest.approx(expected, abs=0.2)


def test_the_stable_step_is_sharp() -> None:
    grid = ds.Grid((16, 16), 5.0)
    c = np.full(grid.shape, 3000.0)
    noise = np.random.default_rng(0).normal(size=grid.shape)
    limit = 2 / (3000.0 * np.sqrt(laplacian_bound(grid, 8)))
    calm = ds.Simulation(Acoustic(grid, 0.999 * limit, 8, "periodic")).run({"c": c, "p": noise, "p_prev": noise}, 2000)
    assert np.abs(calm.final["p"]).max() < 100
    with pytest.raises(ds.errors.StabilityError, match="lower dt or coarsen the grid"):
        ds.Simulation(Acoustic(grid, 1.001 * limit, 8)).run({"c": c}, 2)


def test_a_point_source_in_the_plane() -> None:
    """Against -i/4 H0(kr) times the spectrum of the source, at a receiver between cells; the grid is large enough that nothing returns."""
    h, c, dt, steps, peak = 5.0, 2000.0, 5e-4, 700, 15.0
    grid = ds.Grid((181, 201), h)
    time = dt * np.arange(steps)
    argument = (np.pi * peak * (time - 0.1)) ** 2
    wavelet = (1 - 2 * argument) * np.exp(-argument)
    source, receiver = np.array([450.0, 402.0]), np.array([453.0, 650.5])
    simulation = ds.Simulation(Acoustic(grid, dt, 8), sources={"f": [source]}, receivers={"p": [receiver]})
    trace = simulation.run({"c": np.full(grid.shape, c), "f": wavelet[:, None]}, steps).traces["p"][:, 0]
    padded = 8 * steps
    omega = 2 * np.pi * np.fft.rfftfreq(padded, dt)
    r = np.linalg.norm(source - receiver)
    green = np.zeros(len(omega), complex)
    green[1:] = -0.25j * hankel2(0, omega[1:] * r / c)
    exact = np.fft.irfft(np.fft.rfft(wavelet, padded) * green, padded)
    exact = exact - exact[0]  # the static part, which rfft's missing zero frequency shifts
    assert np.abs(trace[:steps] - exact[:steps]).max() < 0.02 * np.abs(exact).max()


def test_reciprocity() -> None:
    """Source and receiver change places in a random medium: p_tt/c² is self-adjoint with the weight of an amplitude per c²."""
    grid, rng, steps = ds.Grid((31, 27), 10.0), np.random.default_rng(4), 150
    c = rng.uniform(1500, 2500, grid.shape)
    a, b = np.array([50.0, 60.0]), np.array([240.0, 190.0])
    wavelet = rng.normal(size=(steps, 1))
    traces = []
    for source, receiver in ((a, b), (b, a)):
        simulation = ds.Simulation(Acoustic(grid, 1e-3, 8), sources={"f": [source]}, receivers={"p": [receiver]})
        traces.append(simulation.run({"c": c, "f": wavelet}, steps).traces["p"])
    assert np.abs(traces[0] - traces[1]).max() < 1e-12 * np.abs(traces[0]).max()


def test_the_sponge_absorbs() -> None:
    """A pulse leaves: what is left of its energy after it had time to cross the grid twice, against the same without a sponge."""
    grid, c, dt = ds.Grid((96, 96), 10.0), 2000.0, 2e-3
    y, x = np.meshgrid(grid.coordinates(0), grid.coordinates(1), indexing="ij")
    pulse = np.exp(-((x - 475) ** 2 + (y - 475) ** 2) / 60**2)
    left = []
    for sponge in (0, 24):
        solution = ds.Simulation(Acoustic(grid, dt, 8, "zero", sponge, c)).run(
            {"c": np.full(grid.shape, c), "p": pulse, "p_prev": pulse}, 500
        )
        left.append((solution.final["p"] ** 2).sum())
    assert left[1] < 5e-3 * left[0]  # the rest is the slow wake of a pulse in two dimensions
