"""Derivatives of long averages: shadowing beside slopes of averages, and closed forms."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import diffsim as ds
import diffsim.numpy as dnp
from diffsim.errors import ConvergenceError, ParameterError

CONVECTION = {"x": 1.0, "y": 2.0, "z": 20.0, "sigma": 10.0, "rho": 28.0, "beta": 8 / 3}


def height(now: Any) -> Any:
    return now["z"][:, 0]


def lorenz63() -> ds.Simulation:
    return ds.Simulation(ds.solvers.Lorenz63(dt=0.01), precision="f64")


def test_a_limit_cycle_has_the_derivative_of_its_closed_form() -> None:
    """A state runs around the circle r² = μ with the angular velocity ω; z' = x² - z. So the mean of z is μ / 2, and that of r² does not
    depend on ω."""

    def rates(x: Any, y: Any, z: Any, *, mu: Any, turn: Any) -> tuple[Any, ...]:
        away = mu - (x * x + y * y)
        return away * x - turn * y, turn * x + away * y, x * x - z

    system = ds.Simulation(ds.ODE(rates, dt=0.02), precision="f64")
    start = {"x": 1.2, "y": 0.0, "z": 0.5, "mu": 1.5, "turn": 2.0}
    shadow = ds.chaos.shadowing(system, start, lambda now: now["z"][:, 0], "mu", steps=157, segments=200, unstable=1)  # half a turn each
    assert abs(shadow.average - 0.75) < 2e-3 and abs(shadow.value - 0.5) < 5e-3  # the mean of x² is μ / 2
    faster = ds.chaos.shadowing(system, start, lambda now: now["x"][:, 0] ** 2 + now["y"][:, 0] ** 2, "turn", 157, 200, unstable=1)
    assert abs(faster.value) < 1e-3 and abs(faster.average - 1.5) < 1e-3  # the cycle is the same, faster


def test_lorenz63_by_shadowing_and_by_the_slope_of_averages() -> None:
    """Literature: 1.01 +- 0.04 by long averages (Lea, Allen and Haine 2000), 1.00 - 1.02 by shadowing."""
    shadow = ds.chaos.shadowing(lorenz63(), CONVECTION, height, "rho", steps=100, segments=100, unstable=1)
    assert abs(shadow.value - 1.01) < 0.03 and 0 < shadow.error < 0.02 and 23.0 < shadow.average < 24.1
    slope = ds.chaos.linear_response(lorenz63(), CONVECTION, height, "rho", change=1.5, steps=3000, members=32, settle=1000)
    assert abs(slope.value - shadow.value) < 4 * slope.error + 0.02 and slope.error < 0.03
    assert str(slope).startswith(f"{slope.value:.4g} ± ")


@pytest.mark.slow
def test_the_error_falls_with_time_and_holds() -> None:
    """Eight runs from other states differ by as much as their errors say."""
    runs = []
    for k in range(8):
        start = {**CONVECTION, "x": 1.0 + 0.5 * k}
        runs.append(ds.chaos.shadowing(lorenz63(), start, height, "rho", steps=100, segments=300, unstable=1))
    spread, said = np.std([each.value for each in runs], ddof=1), np.mean([each.error for each in runs])
    assert 0.4 < spread / said < 2.5 and said < 0.004
    assert abs(np.mean([each.value for each in runs]) - 1.016) < 0.004


@pytest.mark.slow
def test_lorenz96_by_shadowing_and_by_the_slope_of_averages() -> None:
    """The mean of x grows with F as long averages say; 14 unstable tangents."""
    system = ds.Simulation(ds.solvers.Lorenz96(ds.Grid((40,), spacing=1.0), dt=0.02), precision="f64")
    start = {"x": 8.0 + np.random.default_rng(0).standard_normal(40), "F": 8.0}
    shadow = ds.chaos.shadowing(system, start, lambda now: dnp.mean(now["x"], axis=1), "F", steps=50, segments=200, unstable=16)
    slope = ds.chaos.linear_response(system, start, lambda now: dnp.mean(now["x"], axis=1), "F", change=0.5, steps=5000, members=32)
    assert abs(shadow.value - slope.value) < 3 * (shadow.error + slope.error), (str(shadow), str(slope))
    assert slope.error < 0.01 and 2.2 < shadow.average < 2.5


def test_what_does_not_settle_is_refused() -> None:
    """Lorenz 96 has 13 exponents above 0: one tangent does not keep the shadowing direction small."""
    system = ds.Simulation(ds.solvers.Lorenz96(ds.Grid((40,), spacing=1.0), dt=0.05), precision="f64")
    start = {"x": 8.0 + np.random.default_rng(0).standard_normal(40), "F": 8.0}
    with pytest.raises(ConvergenceError, match=r"expected one that stays small; raise unstable = 1, to one more"):
        ds.chaos.shadowing(system, start, lambda now: dnp.mean(now["x"], axis=1), "F", steps=20, segments=40, unstable=1)


def test_a_system_at_rest_is_refused() -> None:
    with pytest.raises(ConvergenceError, match="the run has come to rest"):
        ds.chaos.shadowing(lorenz63(), {**CONVECTION, "rho": 10.0}, height, "rho", steps=100, segments=50, unstable=1)


@pytest.mark.slow
def test_errors_of_slopes_are_those_of_runs_from_other_states() -> None:
    runs = []
    for k in range(10):
        start = {**CONVECTION, "x": 1.0 + 0.3 * k}
        runs.append(ds.chaos.linear_response(lorenz63(), start, height, "rho", change=1.0, steps=1000, members=16))
    assert 0.4 < np.std([each.value for each in runs], ddof=1) / np.mean([each.error for each in runs]) < 2.5


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"wrt": "x"}, "wrt = 'x', expected one of the parameters among inputs that are numbers, sigma, rho, beta"),
        ({"average": 3}, "average = 3"),
        ({"average": lambda now: now["z"]}, "expected a value for each of"),
        ({"unstable": 3}, "unstable = 3"),
        ({"segments": 2}, "segments = 2"),
    ],
    ids=["wrt", "average", "shape", "unstable", "segments"],
)
def test_errors_say_what_is_expected(change: dict[str, Any], message: str) -> None:
    call: dict[str, Any] = {"average": height, "wrt": "rho", "steps": 10, "segments": 4, "unstable": 1} | change
    with pytest.raises(ParameterError, match=message):
        ds.chaos.shadowing(lorenz63(), CONVECTION, **call)
