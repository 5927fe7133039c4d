"""Burgers' equation against the transformation of Cole and Hopf, the speed of a shock, an independent NumPy version, and the gradient."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import diffsim as ds
from diffsim.errors import ParameterError, StabilityError
from diffsim.solvers import Burgers

TAU, NU = 2 * np.pi, 0.05


def cole_hopf(grid: ds.Grid, t: float) -> dict[str, np.ndarray]:
    """v = -2 ν ∇φ / φ, where φ = 1.5 + exp(-ν k² t) Π cos(2πx) obeys the heat equation, at the centres."""
    places = np.meshgrid(*(TAU * grid.coordinates(k) for k in range(grid.ndim)), indexing="ij")
    decay = np.exp(-NU * grid.ndim * TAU**2 * t)
    phi = 1.5 + decay * np.prod(np.cos(places), axis=0)
    slopes = [-TAU * decay * np.prod([(np.sin if j == k else np.cos)(x) for j, x in enumerate(places)], axis=0) for k in range(grid.ndim)]
    return {name: -2 * NU * slope / phi for name, slope in zip("wvu"[-grid.ndim :], slopes, strict=True)}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("scheme", "sizes", "least", "most", "error"),
    [
        ("muscl", (16, 32), 1.8, 2.2, 3.0e-4),
        ("weno5", (16, 32), 4.8, 5.7, 3.0e-6),
        ("weno5", (48, 96), 4.8, 5.7, 1.0e-6),
    ],
)
def test_the_error_falls_by_the_order(scheme: Any, sizes: tuple[int, int], least: float, most: float, error: float) -> None:
    """In the plane, and with the finer grids on a line. On coarse grids the sixth order of viscosity adds to the fifth of fluxes."""
    errors = []
    for n in sizes:
        grid = ds.Grid((n,) if n >= 48 else (n, n), 1 / n)
        steps = int(np.ceil(0.1 * NU * 8 * n**2 / 1.5))
        start = cole_hopf(grid, 0.0) | {"nu": NU}
        final = ds.Simulation(Burgers(grid, 0.1 / steps, scheme, scale=0.5), wrt=[], precision="f64").run(start, steps).final
        errors.append(max(np.abs(final[name] - exact).mean() for name, exact in cole_hopf(grid, 0.1).items()))
    assert least < np.log2(errors[0] / errors[1]) < most and errors[1] < error


@pytest.mark.parametrize("scheme", ["weno5", "muscl"])
def test_a_shock_without_viscosity_has_its_speed_and_momentum_is_kept(scheme: Any) -> None:
    """From 1 to 0 it moves at 1/2, from u = 1 on the low side."""
    grid = ds.Grid((100,), 0.01)
    equation = Burgers(grid, 0.005, scheme, boundary=((ds.Dirichlet(1.0), "mirror"),))
    u = np.where(grid.coordinates(0) < 0.2, 1.0, 0.0)
    final = ds.Simulation(equation, wrt=[], precision="f64").run({"u": u, "nu": 0.0}, 200).final["u"]
    assert 0.01 * (final.sum() - u.sum()) == pytest.approx(0.5, abs=1e-4)
    assert np.interp(0.5, final[::-1], grid.coordinates(0)[::-1]) == pytest.approx(0.695, abs=5e-3)
    assert final.max() < 1.003 and final.min() > -0.003


def test_steps_are_those_of_a_program_in_numpy() -> None:
    rng = np.random.default_rng(0)
    v, u = rng.normal(size=(2, 9, 11))
    simulation = ds.Simulation(Burgers(ds.Grid((9, 11), 0.5), 0.02, "muscl", scale=2.0), wrt=[], precision="f64")
    final = simulation.run({"v": v, "u": u, "nu": 0.3}, 2).final

    def at_faces(f: np.ndarray, axis: int, eps: float) -> tuple[np.ndarray, np.ndarray]:
        a, b = f - np.roll(f, 1, axis), np.roll(f, -1, axis) - f
        half = 0.25 * (a + b) * np.maximum((2 * a * b + eps**2) / (a**2 + b**2 + eps**2), 0)
        return f + half, np.roll(f - half, -1, axis)

    def slope(face: np.ndarray, axis: int) -> np.ndarray:
        return (face - np.roll(face, 1, axis)) / 0.5

    def rate(now: tuple[np.ndarray, ...]) -> tuple[np.ndarray, ...]:
        rates = []
        for k, f in enumerate(now):
            total = 0.3 * sum(np.roll(f, 1, axis) - 2 * f + np.roll(f, -1, axis) for axis in (0, 1)) / 0.25
            for axis, by in enumerate(now):
                s = np.sqrt(by**2 + 4.0)
                if axis == k:
                    total -= slope(at_faces(f * (f + s) / 4, axis, 4e-3)[0] + at_faces(f * (f - s) / 4, axis, 4e-3)[1], axis)
                else:
                    below, above = at_faces(f, axis, 2e-3)
                    total -= (by + s) / 2 * slope(below, axis) + (by - s) / 2 * slope(above, axis)
            rates.append(total)
        return tuple(rates)

    def moved(now: tuple[np.ndarray, ...]) -> tuple[np.ndarray, ...]:
        return tuple(f + 0.02 * r for f, r in zip(now, rate(now), strict=True))

    now = (v, u)
    for _ in range(2):
        second = tuple(0.75 * f + 0.25 * g for f, g in zip(now, moved(moved(now)), strict=True))
        now = tuple(f / 3 + 2 / 3 * g for f, g in zip(now, moved(second), strict=True))
    np.testing.assert_allclose(final["v"], now[0], atol=1e-12)
    np.testing.assert_allclose(final["u"], now[1], atol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize(("shape", "scheme"), [((17,), "weno5"), ((8, 9), "weno5")], ids=str)
def test_the_gradient_is_that_of_differences(shape: tuple[int, ...], scheme: Any) -> None:
    equation = Burgers(ds.Grid(shape, 0.5), 0.05, scheme, ("periodic", (ds.Dirichlet(0.3), "mirror"))[-len(shape) :])
    simulation = ds.Simulation(equation, receivers={"u": [[2.2] * len(shape)]}, precision="f64")
    rng = np.random.default_rng(1)
    inputs = {name: rng.uniform(-1, 1, shape) for name in equation.velocities} | {"nu": 0.1}
    weights = {name: rng.normal(size=shape) for name in equation.velocities}

    def loss(found: ds.Solution) -> Any:
        return sum((weight * found.final[name] ** 2).sum() for name, weight in weights.items()) + (found.traces["u"] ** 2).sum()

    assert ds.certify(simulation, loss, inputs, 6, seed=1).passed
    _, gradient = simulation.value_and_grad(loss, inputs, 6)
    for name, start in inputs.items():
        way, step = rng.normal(size=np.shape(start)), 1e-6
        low, high = (float(loss(simulation.run(inputs | {name: start + sign * step * way}, 6))) for sign in (-1, 1))
        assert float((gradient[name] * way).sum()) == pytest.approx((high - low) / (2 * step), rel=2e-6), name


def test_arguments_and_the_time_step_are_checked() -> None:
    with pytest.raises(ParameterError, match="expected cells of one size; take a uniform grid"):
        Burgers(ds.Grid.from_faces(([0.0, 1.0, 3.0, 6.0],)), 0.1, boundary="mirror")
    with pytest.raises(ParameterError, match=r"scale = -1.0, expected a positive finite number"):
        Burgers(ds.Grid((6,), 1.0), 0.1, scale=-1.0)
    line = ds.Simulation(Burgers(ds.Grid((12,), 0.5), 0.3, "muscl"), wrt=[], precision="f64")
    with pytest.raises(StabilityError, match=r"exceeds the stable 0.1569 s for nu = 1 m²/s"):
        line.run({"u": np.zeros(12), "nu": 1.0}, 1)
    with pytest.raises(ParameterError, match="viscosity nu has a value of -1"):
        line.run({"u": np.zeros(12), "nu": -1.0}, 1)
