"""Drifters in a current: closed forms and their order, an independent spline of SciPy, coasts, and the gradient through their paths."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.integrate import solve_ivp
from scipy.interpolate import RectBivariateSpline

import diffsim as ds
from diffsim.errors import ParameterError
from diffsim.solvers import QuasiGeostrophic
from diffsim.solvers.parts.drift import Drift

Array = np.ndarray


def basin(n: int) -> tuple[ds.Grid, Array, Array]:
    grid = ds.Grid((n, n), 1 / (n + 1), origin=1 / (n + 1))
    y, x = np.meshgrid(grid.coordinates(0), grid.coordinates(1), indexing="ij")
    return grid, y, x


def at_rest(psi: Array) -> dict[str, Any]:
    return {"psi": psi, "wind": np.zeros_like(psi), "beta": 0.0, "drag": 0.0, "nu": 0.0}


def test_paths_in_a_steady_gyre_are_those_of_its_closed_form() -> None:
    """ψ = sin(πx) sin(πy) / π is steady, also in the differences; paths are of third order or more in the size of the cells."""

    def velocity(t: float, place: Array) -> Array:
        y, x = np.pi * place.reshape(2, -1)
        return np.concatenate([np.sin(y) * np.cos(x), -np.cos(y) * np.sin(x)])

    errors = []
    for n in (11, 23):
        grid, y, x = basin(n)
        psi = np.sin(np.pi * x) * np.sin(np.pi * y) / np.pi
        steps = 4 * n
        final = ds.Simulation(QuasiGeostrophic(grid, 2 / steps, drifters=True), wrt=[], precision="f64").run(at_rest(psi), steps).final
        exact = solve_ivp(velocity, (0, 2), np.concatenate([y.ravel(), x.ravel()]), rtol=1e-9, atol=1e-11).y[:, -1].reshape(2, n, n)
        places = np.stack([y + final["drift_y"], x + final["drift_x"]])
        assert places.min() > 0 and places.max() < 1 and np.abs(places - np.stack([y, x])).max() > 0.5
        errors.append(np.abs(places - exact).max())
        along = np.sin(np.pi * places[1]) * np.sin(np.pi * places[0]) / np.pi
        assert np.abs(along - psi).max() < 0.1 * errors[-1]  # they stay on their stream lines
    assert errors[1] < 3e-5 and errors[0] / errors[1] > 8, errors


def test_a_shear_carries_particles_round_a_periodic_box() -> None:
    """u = sin(y) wherever a particle is along x, and it may leave the box at one end and come in at the other."""
    n = 16
    grid = ds.Grid((n, n), 2 * np.pi / n)
    y = grid.coordinates(0)[:, None] + np.zeros((1, n))
    sea = ds.Simulation(QuasiGeostrophic(grid, 0.5, "periodic", drifters=True), wrt=[], precision="f64")
    final = sea.run(at_rest(np.cos(y)), 20).final
    assert np.abs(final["drift_x"] - 10 * np.sin(y)).max() < 0.01 and np.abs(final["drift_y"]).max() < 1e-12
    assert np.abs(final["drift_x"]).max() > 1.5 * 2 * np.pi


@pytest.mark.parametrize("sides", [("slip", "slip"), ("no_slip", "slip"), ("periodic", "no_slip")])
def test_the_velocity_is_that_of_a_spline_of_scipy(sides: tuple[str, str]) -> None:
    """SciPy's spline of the field with its mirror images, forty points beyond the coasts, so that its own ends have no influence."""
    n, rng, wide = 7, np.random.default_rng(0), 40
    grid = ds.Grid((n, n), (0.5, 0.25))
    drift = Drift(grid, [(word, word) for word in sides])
    psi, y, x = rng.standard_normal((n, n)), rng.uniform(-1.0, n, (n, n)), rng.uniform(-1.0, n, (n, n))
    psi_around = psi
    for axis, word in enumerate(sides):
        line, coast, sign = np.moveaxis(psi_around, axis, 0), np.zeros((1, psi_around.shape[1 - axis])), -1 if word == "slip" else 1
        period = line if word == "periodic" else np.concatenate([line, coast, sign * line[::-1], coast])
        numbers = np.arange(-wide, n + wide) % len(period)
        psi_around = np.moveaxis(period[numbers], 0, axis)
    at = np.arange(-wide, n + wide)
    spline = RectBivariateSpline(at, at, psi_around)
    own_y, own_x = np.meshgrid(np.arange(n), np.arange(n), indexing="ij")
    v, u = drift.velocity(psi, (y - own_y) * 0.5, (x - own_x) * 0.25)
    assert np.allclose(v, spline.ev(y, x, dy=1) / 0.25, rtol=0, atol=1e-9)
    assert np.allclose(u, -spline.ev(y, x, dx=1) / 0.5, rtol=0, atol=1e-9)


@pytest.mark.parametrize("word", ["slip", "no_slip"])
def test_nothing_flows_through_a_coast(word: str) -> None:
    n = 9
    drift = Drift(ds.Grid((n, n), 1.0), [(word, word), (word, word)])
    psi, own = np.random.default_rng(1).standard_normal((n, n)), np.arange(n)
    for coast in (-1.0, float(n)):
        v, u = drift.velocity(psi, np.full((n, n), coast) - own[:, None], np.full((n, n), 0.3))
        assert np.abs(v).max() < 1e-14 and (np.abs(u).max() < 1e-14) == (word == "no_slip")
        _, u = drift.velocity(psi, np.full((n, n), 0.3), np.full((n, n), coast) - own[None])
        assert np.abs(u).max() < 1e-14


def test_the_gradient_through_paths_is_that_of_differences_and_certified() -> None:
    grid, y, x = basin(9)
    rng = np.random.default_rng(2)
    inputs = at_rest(np.sin(np.pi * x) * np.sin(np.pi * y) / np.pi + 0.02 * rng.standard_normal((9, 9)))
    inputs |= {"beta": 1.0, "nu": 1e-3, "drift_y": 0.02 * rng.standard_normal((9, 9)), "drift_x": 0.02 * rng.standard_normal((9, 9))}
    places = {f"drift_{axis}": [[0.3, 0.3], [0.7, 0.45]] for axis in "yx"}
    sea = ds.Simulation(QuasiGeostrophic(grid, 0.05, drifters=True), receivers=places, precision="f64")

    def apart(solution: Any) -> Any:
        return (solution.traces["drift_y"] ** 2).sum() + (solution.traces["drift_x"][:, 0] * solution.traces["drift_x"][:, 1]).sum()

    _, gradient = sea.value_and_grad(apart, inputs, steps=12)
    for name in ("psi", "wind", "drift_y", "beta"):
        way = 1e-6 * rng.standard_normal(np.shape(inputs[name]))
        ends = [float(apart(sea.run(inputs | {name: inputs[name] + sign * way}, 12))) for sign in (-1, 1)]
        slope = float((gradient[name] * way).sum())
        assert abs(0.5 * (ends[1] - ends[0]) - slope) < 1e-6 * abs(slope), name
    report = ds.certify(sea, apart, inputs, 4, directions=1)
    assert report.passed, str(report)


def test_a_flag_that_is_none_is_refused() -> None:
    with pytest.raises(ParameterError, match="drifters"):
        QuasiGeostrophic(ds.Grid((8, 8), 1.0), 0.1, drifters="yes")  # type: ignore[arg-type]
