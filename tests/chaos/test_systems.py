"""Systems without a grid and chaotic systems: what they compute, and what they refuse."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import diffsim as ds
from diffsim.errors import DivergenceError, ParameterError


def line(cells: int) -> ds.Grid:
    return ds.Grid((cells,), spacing=22 / cells)


@pytest.mark.parametrize(("method", "order"), [("euler", 1), ("rk2", 2), ("rk3", 3), ("rk4", 4)])
def test_an_ode_has_the_order_of_its_method(method: Any, order: int) -> None:
    """A pendulum of large swings beside a rotation, two members; states are named out of order."""

    def rates(mass: Any, x: Any, y: Any) -> tuple[Any, Any]:
        return y, -mass * x

    errors = []
    for steps in (20, 40):
        pair = ds.Simulation(ds.ODE(rates, 2.0 / steps, states=("y", "x"), method=method, members=2), wrt=[], precision="f64")
        final = pair.run({"x": [1.0, 0.0], "y": [0.0, 1.0], "mass": 4.0}, steps=steps).final
        errors.append(np.abs(final["x"] - [np.cos(4.0), np.sin(4.0) / 2]).max())
    assert np.log2(errors[0] / errors[1]) == pytest.approx(order, abs=0.35)


@pytest.mark.parametrize(
    ("rates", "options", "message"),
    [
        (lambda *s: s, {}, "arguments without names"),
        (lambda: (), {}, "arguments without names"),
        (3, {}, "expected a function"),
        (lambda x: (x,), {"states": ["z"]}, "expected some of the arguments x of rates"),
        (lambda x: (x,), {"method": "rk9"}, "method = 'rk9'"),
        (lambda x: (x,), {"members": 0}, "members = 0"),
        (lambda x: (x,), {"dt": -1.0}, "dt = -1"),
    ],
    ids=["positional", "none", "number", "states", "method", "members", "dt"],
)
def test_an_ode_says_what_it_expects(rates: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        ds.ODE(rates, **{"dt": 0.1, **options})


def test_an_ode_with_a_rate_too_few_is_refused() -> None:
    with pytest.raises(ParameterError, match="expected 2 rates, of x, y; return a tuple of them"):
        ds.Simulation(ds.ODE(lambda x, y: (x,), 0.1))


def test_lorenz96_is_that_of_a_program_in_numpy() -> None:
    def rate(x: np.ndarray) -> np.ndarray:
        return (np.roll(x, -1) - np.roll(x, 2)) * np.roll(x, 1) - x + force

    x, force = 8.0 + np.random.default_rng(0).standard_normal(11), np.linspace(7.0, 9.0, 11)
    circle = ds.Simulation(ds.solvers.Lorenz96(ds.Grid((11,), 1.0), 0.05, varies=True), wrt=[], precision="f64")
    final = circle.run({"x": x, "F": force}, steps=20).final["x"]
    for _ in range(20):
        k1 = rate(x)
        k2 = rate(x + 0.025 * k1)
        k3 = rate(x + 0.025 * k2)
        x = x + 0.05 / 6 * (k1 + 2 * k2 + 2 * k3 + rate(x + 0.05 * k3))
    assert np.abs(final - x).max() < 1e-11


def test_kuramoto_sivashinsky_keeps_its_mean_and_grows_one_tangent_after_another() -> None:
    """Its step has a solver, so tangents cannot run side by side; the mean of a perturbation neither grows nor decays."""
    flame = ds.Simulation(ds.solvers.KuramotoSivashinsky(line(16), dt=0.1, order=2), precision="f64")
    u = 0.3 + np.cos(2 * np.pi * np.arange(16) / 16)
    assert flame.run({"u": u, "nu": 1.0}, steps=50).final["u"].mean() == pytest.approx(0.3, abs=1e-12)
    start = {"u": np.zeros(16), "nu": 1.0}  # at rest the exponents are those of the linear equation
    exponents = ds.chaos.lyapunov(flame, start, steps=20, laps=20, settle=60, count=3)
    k = 2 * np.pi * np.arange(9) / 22
    h = 22 / 16
    minus = (2 * np.sin(k * h / 2) / h) ** 2  # of the difference of second order
    z, g = 0.1 * (minus - minus**2), 1 - 1 / np.sqrt(2)
    factors = (1 + (1 - 2 * g) * z) / (1 - g * z) ** 2
    wanted = np.sort(np.repeat(np.log(np.abs(factors)) / 0.1, [1] + [2] * 7 + [1]))[::-1][:3]
    assert np.abs(exponents.values - wanted).max() < 2e-3


@pytest.mark.slow
def test_kuramoto_sivashinsky_has_the_exponent_of_the_literature() -> None:
    """0.043 to 0.048 on a line of 22, by spectral programs."""
    flame = ds.Simulation(ds.solvers.KuramotoSivashinsky(line(64), dt=0.1), precision="f64")
    x = 2 * np.pi * np.arange(64) / 64
    exponents = ds.chaos.lyapunov(flame, {"u": np.cos(x) + 0.1 * np.cos(2 * x + 1), "nu": 1.0}, 20, 1500, count=1, settle=100)
    assert abs(exponents.values[0] - 0.046) < 3 * exponents.errors[0] and exponents.errors[0] < 0.005


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda: ds.solvers.Lorenz96(ds.Grid((3,), 1.0), 0.1), "grid of 3 cells, expected one axis of at least 4"),
        (lambda: ds.solvers.Lorenz96(ds.Grid((4, 4), 1.0), 0.1), "grid of 4 x 4 cells, expected one axis"),
        (lambda: ds.solvers.KuramotoSivashinsky(ds.Grid((16, 16), 1.0), 0.1), "expected one axis of at least 13"),
        (lambda: ds.solvers.KuramotoSivashinsky(line(16), 0.1, order=8), "order"),  # type: ignore[arg-type]
    ],
    ids=["few", "plane", "flame", "order"],
)
def test_grids_are_checked(wrong: Any, message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        wrong()


def test_a_lap_that_is_too_long_for_its_tangents_is_refused() -> None:
    """After 300 steps one tangent of Lorenz 63 is rounding of another."""
    system = ds.Simulation(ds.solvers.Lorenz63(dt=0.01), precision="f64")
    start = {"x": 1.0, "y": 2.0, "z": 20.0, "sigma": 10.0, "rho": 28.0, "beta": 8 / 3}
    with pytest.raises(DivergenceError, match="take fewer steps a lap, or a smaller count"):
        ds.chaos.lyapunov(system, start, steps=300, laps=10)
    assert ds.chaos.lyapunov(system, start, steps=300, laps=10, count=1).values[0] > 0.5


@pytest.mark.parametrize("wrt", ["r", "x"])
def test_a_slope_for_what_is_no_parameter_is_refused(wrt: str) -> None:
    system = ds.Simulation(ds.solvers.Lorenz63(dt=0.01), precision="f64")
    start = {"x": 1.0, "y": 2.0, "z": 20.0, "sigma": 10.0, "rho": 28.0, "beta": 8 / 3}
    with pytest.raises(ParameterError, match=f"wrt = '{wrt}', expected one of the parameters among inputs that are numbers"):
        ds.chaos.linear_response(system, start, lambda now: now["z"][:, 0], wrt, 1.0, 10, members=2)
    with pytest.raises(ParameterError, match="expected a value for each of 10 times"):
        ds.chaos.linear_response(system, start, lambda now: now["z"].mean(), "rho", 1.0, 10, members=2)
