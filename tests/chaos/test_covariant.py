"""Covariant Lyapunov vectors: closed forms, the velocity of a flow, and tangencies where they are known."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import diffsim as ds
from diffsim.errors import DivergenceError, ParameterError

CONVECTION = {"x": 1.0, "y": 2.0, "z": 20.0, "sigma": 10.0, "rho": 28.0, "beta": 8 / 3}


def sine(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """That of the angle between directions along the first axis, without the loss of digits of a cosine near 1."""
    a, b = a / np.linalg.norm(a, axis=0), b / np.linalg.norm(b, axis=0)
    return np.linalg.norm(a - (a * b).sum(axis=0) * b, axis=0)


def test_those_of_a_linear_system_are_its_eigenvectors() -> None:
    """They are not orthogonal. The method multiplies each by the polynomial of fourth order in dt λ."""

    def rates(x: Any, y: Any, z: Any) -> tuple[Any, ...]:
        return 0.5 * x + 2.0 * y, -0.3 * y, x - z

    system = ds.Simulation(ds.ODE(rates, dt=0.1), precision="f64")
    result = ds.chaos.covariant_vectors(system, {"x": 1e-9, "y": 1e-9, "z": 0.0}, steps=5, laps=6, settle=120)
    for k, (rate, vector) in enumerate([(0.5, (1.5, 0.0, 1.0)), (-0.3, (2.0, -0.8, 2 / 0.7)), (-1.0, (0.0, 0.0, 1.0))]):
        z = 0.1 * rate
        assert np.abs(result.growth[:, k] - 5 * np.log(1 + z + z**2 / 2 + z**3 / 6 + z**4 / 24)).max() < 1e-12
        vectors = np.stack([result.vectors[name][:, k, 0] for name in "xyz"])
        assert sine(vectors, np.array(vector)[:, None]).max() < 1e-12 and np.abs(np.linalg.norm(vectors, axis=0) - 1).max() < 1e-14
    axis, plane = np.array([1.5, 0.0, 1.0]), np.cross([2.0, -0.8, 2 / 0.7], [0.0, 0.0, 1.0])
    wanted = np.arcsin(abs(axis @ plane) / np.linalg.norm(axis) / np.linalg.norm(plane))
    assert np.abs(result.angles(1) - wanted).max() < 1e-12


def test_lorenz63_has_the_velocity_of_the_flow_and_vectors_that_the_tangent_map_keeps() -> None:
    system = ds.Simulation(ds.solvers.Lorenz63(dt=0.005), precision="f64")
    result = ds.chaos.covariant_vectors(system, CONVECTION, steps=20, laps=150)
    x, y, z = (result.states[name][:, 0] for name in "xyz")
    vectors = np.stack([result.vectors[name][..., 0] for name in "xyz"])  # (3, laps + 1, exponents)
    velocity = np.stack([10.0 * (y - x), x * (28.0 - z) - y, x * y - 8 / 3 * z])
    assert sine(vectors[..., 1], velocity).max() < 1e-6  # measured: 1.8e-7, the error of the method over a step
    lap = 70
    start = {**CONVECTION, **{name: result.states[name][lap] for name in "xyz"}}
    for k in range(3):
        end, along = system.jvp(start, {name: result.vectors[name][lap, k] for name in "xyz"}, 20)
        moved = np.array([along.final[name][0] for name in "xyz"])
        assert np.isclose(np.linalg.norm(moved), np.exp(result.growth[lap, k]), rtol=1e-10)
        assert sine(moved, vectors[:, lap + 1, k]) < 1e-10 and np.isclose(end.final["x"][0], x[lap + 1], rtol=1e-12)
    first, last = (np.log(abs(np.linalg.det(vectors[:, end]))) for end in (0, -1))
    assert abs(result.growth.sum() + last - first + (10 + 1 + 8 / 3) * 15.0) < 1e-3  # volumes shrink by the divergence of the flow
    assert result.angles(2).min() > 0.2 and result.angles(2).shape == (151,)  # measured 0.28: Lorenz 63 is hyperbolic but for its flow
    few = ds.chaos.covariant_vectors(system, CONVECTION, steps=20, laps=150, count=2)
    assert np.abs(few.growth - result.growth[:, :2])[:75].max() < 1e-7  # each vector is independent of how many follow


class Map(ds.Equation):
    """x' = 1 - a f(x) + y, y' = b x: the map of Hénon with f = x², that of Lozi with f = |x|."""

    def __init__(self, lozi: bool, a: float = 1.4, b: float = 0.3) -> None:
        self.a, self.b, self.lozi = a, b, lozi
        self.states = {"x": ds.Variable("mirror"), "y": ds.Variable("mirror")}
        self.grid, self.dt = ds.Grid((1,), 1.0), 1.0

    def step(self, x: Any, y: Any) -> dict[str, Any]:
        return {"x": 1.0 - self.a * (abs(x) if self.lozi else x * x) + y, "y": self.b * x}


@pytest.mark.slow
def test_the_map_of_henon_has_tangencies_and_that_of_lozi_has_none() -> None:
    """As in figure 3 of Ginelli and others (2007). Exponents of Hénon's map: 0.419 and log 0.3 - 0.419 (Sprott 2003, table A.2)."""
    henon, lozi = (
        ds.chaos.covariant_vectors(ds.Simulation(Map(each), precision="f64"), {"x": 0.1, "y": 0.1}, 1, 20_000, settle=100)
        for each in (False, True)
    )
    assert abs(henon.values[0] - 0.419) < 3 * henon.errors[0] + 1e-3 and abs(henon.values.sum() - np.log(0.3)) < 1e-3
    assert henon.angles(1).min() < 1e-3 and lozi.angles(1).min() > 0.1, (henon.angles(1).min(), lozi.angles(1).min())


@pytest.mark.slow
def test_lorenz96_has_the_velocity_of_the_flow_behind_13_vectors_that_grow() -> None:
    system = ds.Simulation(ds.solvers.Lorenz96(ds.Grid((40,), spacing=1.0), dt=0.02), precision="f64")
    begin = 8.0 + np.random.default_rng(0).standard_normal(40)
    result = ds.chaos.covariant_vectors(system, {"x": begin, "F": 8.0}, steps=10, laps=1500, settle=1500)
    x = result.states["x"].T
    velocity = (np.roll(x, -1, 0) - np.roll(x, 2, 0)) * np.roll(x, 1, 0) - x + 8.0
    sines = sine(velocity, result.vectors["x"][:, 13].T)
    assert sines.max() < 1e-4, sines.max()
    assert (result.values > 0.02).sum() == 13 and abs(result.values.sum() + 40) < 0.5


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda system, result: result.angles(2), "first = 2"),
        (lambda system, result: ds.chaos.covariant_vectors(system, CONVECTION, 10, 2, count=1, settle=1).angles(1), "1 vector, expected 2"),
        (lambda system, result: ds.chaos.covariant_vectors(system, CONVECTION, 300, 2), "take fewer steps a lap, or a smaller count"),
        (lambda system, result: ds.chaos.covariant_vectors(system, CONVECTION, 10, 1), "laps = 1"),
    ],
    ids=["first", "one", "long", "laps"],
)
def test_errors_say_what_is_expected(wrong: Any, message: str) -> None:
    system = ds.Simulation(ds.solvers.Lorenz63(dt=0.01), precision="f64")
    result = ds.chaos.covariant_vectors(system, CONVECTION, 10, 2, count=2, settle=1)
    with pytest.raises((ParameterError, DivergenceError), match=message):
        wrong(system, result)
