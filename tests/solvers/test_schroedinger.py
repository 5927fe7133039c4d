"""A quantum particle: closed forms, the norm, the order in time, an independent NumPy version, and the gradient."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import diffsim as ds
from diffsim.errors import ParameterError
from diffsim.solvers import Schroedinger

LINE = ds.Grid((256,), 40 / 256, -20.0)
X = LINE.coordinates(0)


def run(grid: ds.Grid, dt: float, V: np.ndarray, psi: np.ndarray, steps: int) -> np.ndarray:
    final = ds.Simulation(Schroedinger(grid, dt), wrt=[], precision="f64").run({"V": V, "re": psi.real, "im": psi.imag}, steps).final
    return np.asarray(final["re"] + 1j * final["im"])


def test_a_free_packet_spreads_and_moves_as_its_closed_form() -> None:
    def packet(t: float) -> np.ndarray:
        width = 1 + 0.5j * t
        return np.asarray((2 * np.pi) ** -0.25 / np.sqrt(width) * np.exp(-((X - 2 * t) ** 2) / (4 * width) + 1j * (2 * X - 2 * t)))

    np.testing.assert_allclose(run(LINE, 0.02, np.zeros(256), packet(0.0), 100), packet(2.0), atol=1e-13)


def test_a_coherent_state_swings_in_its_well_with_second_order_and_the_norm_is_kept() -> None:
    def coherent(t: float) -> np.ndarray:
        phase = t / 2 + 3 * np.sin(t) * X - 9 / 4 * np.sin(2 * t)
        return np.asarray(np.pi**-0.25 * np.exp(-((X - 3 * np.cos(t)) ** 2) / 2 - 1j * phase))

    errors = []
    for steps in (30, 60):
        psi = run(LINE, 3 / steps, 0.5 * X**2, coherent(0.0), steps)
        assert (np.abs(psi) ** 2).sum() * LINE.spacing[0] == pytest.approx(1, abs=1e-13)
        errors.append(np.abs(psi - coherent(3.0)).max())
    assert np.log2(errors[0] / errors[1]) == pytest.approx(2, abs=0.05) and errors[1] < 1.6e-3


def test_steps_in_the_plane_are_those_of_exponentials_of_matrices() -> None:
    """The kinetic energy as a matrix, made of plane waves one by one."""
    rng = np.random.default_rng(0)
    shape, dt = (5, 6), 0.3
    V, psi = rng.normal(size=shape), rng.normal(size=shape) + 1j * rng.normal(size=shape)
    places = np.stack(np.meshgrid(*(np.arange(n) for n in shape), indexing="ij")).reshape(2, -1)
    kinetic = np.zeros((30, 30), complex)
    for ky in range(-2, 3):
        for kx in range(-3, 3):
            k = 2 * np.pi * np.array([ky / 5, kx / 6]) / 0.5
            wave = np.exp(1j * 0.5 * k @ places)
            kinetic += np.exp(-0.5j * dt * (k @ k)) * np.outer(wave, wave.conj()) / 30
    expected = psi.ravel()
    for _ in range(3):
        half = np.exp(-0.5j * dt * V.ravel())
        expected = half * (kinetic @ (half * expected))
    np.testing.assert_allclose(run(ds.Grid(shape, 0.5), dt, V, psi, 3).ravel(), expected, atol=1e-12)


def test_the_gradient_is_that_of_differences() -> None:
    grid = ds.Grid((6, 7), 0.8)
    simulation = ds.Simulation(Schroedinger(grid, 0.2), precision="f64")
    rng = np.random.default_rng(1)
    inputs = {name: rng.normal(size=grid.shape) for name in ("V", "re", "im")}
    weights = {name: rng.normal(size=grid.shape) for name in ("re", "im")}

    def loss(found: ds.Solution) -> Any:
        return sum((weight * found.final[name] ** 3).sum() for name, weight in weights.items())

    assert ds.certify(simulation, loss, inputs, 5, seed=1).passed
    _, gradient = simulation.value_and_grad(loss, inputs, 5)
    for name, start in inputs.items():
        way, step = rng.normal(size=grid.shape), 1e-5
        low, high = (float(loss(simulation.run(inputs | {name: start + sign * step * way}, 5))) for sign in (-1, 1))
        assert float((gradient[name] * way).sum()) == pytest.approx((high - low) / (2 * step), rel=1e-6), name


def test_cells_of_several_sizes_are_refused() -> None:
    with pytest.raises(ParameterError, match="expected cells of one size, for transforms"):
        Schroedinger(ds.Grid.from_faces(([0.0, 1.0, 3.0, 6.0],)), 0.1)
