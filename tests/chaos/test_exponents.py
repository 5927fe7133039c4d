"""Lyapunov exponents: closed forms, and values of the literature."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import diffsim as ds
from diffsim.chaos.exponents import Spectrum
from diffsim.errors import DivergenceError, ParameterError

CONVECTION = {"x": 1.0, "y": 2.0, "z": 20.0, "sigma": 10.0, "rho": 28.0, "beta": 8 / 3}


def of_lorenz63(steps: int, laps: int, **options: Any) -> Any:
    return ds.chaos.lyapunov(ds.Simulation(ds.solvers.Lorenz63(dt=0.01), precision="f64"), CONVECTION, steps, laps, **options)


def test_those_of_a_linear_system_are_the_real_parts_of_its_eigenvalues() -> None:
    """A spiral and an axis. The method multiplies by the polynomial of fourth order in z = dt λ, whose logarithm is known exactly."""

    def rates(x: Any, y: Any, z: Any, *, turn: Any) -> tuple[Any, ...]:
        return 0.3 * x - turn * y, turn * x + 0.3 * y, -0.7 * z

    system = ds.Simulation(ds.ODE(rates, dt=0.1), precision="f64")
    exponents = ds.chaos.lyapunov(system, {"x": 1e-9, "y": 0.0, "z": 1e-9, "turn": 2.0}, steps=7, laps=200, settle=200)
    z = 0.1 * np.array([0.3 + 2j, 0.3 + 2j, -0.7])
    wanted = np.log(np.abs(1 + z + z**2 / 2 + z**3 / 6 + z**4 / 24)) / 0.1
    assert (
        np.abs(exponents.values - wanted).max() < 5e-4 and exponents.unstable == 2
    )  # the two of the spiral differ by its phase at the end
    assert abs(exponents.values.sum() - wanted.sum()) < 1e-12
    assert np.isclose(exponents.dimension, 2 + 2 * 0.3 / 0.7, atol=2e-2)
    basis = np.stack([exponents.vectors[name][:, 0] for name in "xyz"])
    assert np.abs(basis.T @ basis - np.eye(3)).max() < 1e-14 and abs(abs(basis[2, 2]) - 1) < 1e-12


def test_the_sum_is_the_divergence_of_the_flow() -> None:
    exponents = of_lorenz63(10, 150)
    assert abs(exponents.values.sum() + 10 + 1 + 8 / 3) < 1e-3
    assert abs(exponents.values[0] - 0.906) < 4 * exponents.errors[0] + 0.01 and abs(exponents.values[1]) < 4 * exponents.errors[1] + 0.02
    again = of_lorenz63(10, 150, count=1)
    assert np.isclose(again.values[0], exponents.values[0], rtol=1e-9)  # each exponent is independent of how many follow
    assert set(exponents.state) == {"x", "y", "z"} and exponents.state["x"].shape == (1,)


@pytest.mark.parametrize(("rho", "dimension"), [(10.0, 0), (160.0, 1)], ids=["a state at rest", "a limit cycle"])
def test_the_dimension_of_what_is_not_chaotic_is_whole(rho: float, dimension: int) -> None:
    system = ds.Simulation(ds.solvers.Lorenz63(dt=0.01), precision="f64")
    exponents = ds.chaos.lyapunov(system, {**CONVECTION, "rho": rho}, 10, 400, settle=400)
    assert exponents.unstable == 0 and abs(exponents.dimension - dimension) < 1e-12, exponents


def test_the_dimension_of_a_torus_counts_both_directions() -> None:
    spectrum = Spectrum(np.array([2e-4, -3e-4, -0.5]), np.array([1e-4, 2e-4, 1e-3]))
    assert spectrum.unstable == 0 and spectrum.dimension == 2


@pytest.mark.parametrize(
    ("values", "errors", "dimension"), [([-0.1], [0.05], 0.0), ([0.2, -0.01, -0.3], [0.01, 0.01, 0.15], 2 + 0.2 / 0.3)]
)
def test_an_exponent_with_a_large_error_still_ends_the_sum(values: list[float], errors: list[float], dimension: float) -> None:
    assert np.isclose(Spectrum(np.array(values), np.array(errors)).dimension, dimension)


@pytest.mark.slow
def test_lorenz63_has_those_of_the_literature() -> None:
    """0.9056, 0 and -14.5723 (Sprott, Chaos and Time-Series Analysis, 2003, table A.4), and dimension 2.062."""
    exponents = of_lorenz63(20, 20_000)
    assert np.abs(exponents.values - [0.9056, 0.0, -14.5723]).max() < 0.015 and exponents.errors.max() < 0.008
    assert abs(exponents.dimension - 2.062) < 2e-3


@pytest.mark.slow
def test_lorenz96_has_13_above_0() -> None:
    system = ds.Simulation(ds.solvers.Lorenz96(ds.Grid((40,), spacing=1.0), dt=0.05), precision="f64")
    x = 8.0 + np.random.default_rng(0).standard_normal(40)
    exponents = ds.chaos.lyapunov(system, {"x": x, "F": 8.0}, steps=20, laps=4000)
    assert 1.67 < exponents.values[0] < 1.69 and (exponents.values > 0.02).sum() == 13
    assert abs(exponents.values.sum() + 40) < 0.02
    assert abs(exponents.dimension - 27.1) < 0.15  # Lorenz and Emanuel (1998)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"steps": 0}, "steps = 0"),
        ({"laps": 1}, "laps = 1"),
        ({"count": 4}, "count = 4"),
        ({"inputs": {"x": 1.0, "y": 1.0}}, "inputs without z"),
        ({"steps": 100_000}, "tangents overflow within 100000 steps"),
        ({"simulation": 3}, "expected a diffsim.Simulation"),
    ],
    ids=lambda value: value if isinstance(value, str) else next(iter(value)),
)
def test_errors_say_what_is_expected(change: dict[str, Any], message: str) -> None:
    system = ds.Simulation(ds.solvers.Lorenz63(dt=0.01), precision="f64")
    call = {"simulation": system, "inputs": CONVECTION, "steps": 10, "laps": 2} | change
    with pytest.raises((ParameterError, DivergenceError), match=message):
        ds.chaos.lyapunov(**call)
