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


def two_scales(K: int, J: int, dt: float, **options: Any) -> tuple[ds.Simulation, dict[str, Any]]:
    rng, x = np.random.default_rng(0), np.zeros(K * J)
    x[::J] = 8.0 + rng.standard_normal(K)
    equation = ds.solvers.Lorenz96TwoScale(ds.Grid((K * J,), 1.0), dt, fast=J)
    start = {"x": x, "y": 0.1 * rng.standard_normal(K * J), "F": 10.0, "h": 0.9, "b": 8.0, "c": 10.0}
    return ds.Simulation(equation, precision="f64", **options), start


def test_lorenz96_of_two_scales_is_that_of_scipy_and_has_exact_gradients() -> None:
    from scipy.integrate import solve_ivp

    K, J, (F, h, b, c) = 4, 3, (10.0, 0.9, 8.0, 10.0)

    def rate(_: float, state: np.ndarray) -> np.ndarray:
        X, Y = state[:K], state[K:].reshape(K, J)
        out_x, out_y = np.empty(K), np.empty((K, J))
        for k in range(K):
            out_x[k] = (X[(k + 1) % K] - X[k - 2]) * X[k - 1] - X[k] + F - h * c / b * Y[k].sum()
            for j in range(J):
                before, after, second = (Y.flat[(k * J + j + offset) % (K * J)] for offset in (-1, 1, 2))
                out_y[k, j] = c * b * (before - second) * after - c * Y[k, j] + h * c / b * X[k]
        return np.concatenate([out_x, out_y.ravel()])

    errors = []
    for steps in (50, 100):
        system, start = two_scales(K, J, 0.2 / steps)
        final = system.run(start, steps).final
        end = solve_ivp(rate, (0.0, 0.2), np.r_[start["x"][::J], start["y"]], "DOP853", rtol=1e-12, atol=1e-13).y[:, -1]
        errors.append(np.abs(np.r_[final["x"][::J], final["y"]] - end).max())
        assert not final["x"].reshape(K, J)[:, 1:].any()
    assert errors[1] < 2e-4 and np.log2(errors[0] / errors[1]) == pytest.approx(4.0, abs=0.4), errors
    report = ds.certify(system, lambda solution: (solution.final["x"] ** 2).sum() + (solution.final["y"] ** 3).sum(), start, 20)
    assert report.passed, str(report)
    exponents = ds.chaos.lyapunov(system, start, steps=8, laps=60)  # 16 of them, though x has 12 places
    assert exponents.values.shape == (16,) and abs(exponents.values.sum() + K + c * K * J) < 1e-2


def test_lorenz96_without_coupling_is_that_of_one_scale() -> None:
    system, start = two_scales(5, 3, 0.01)
    one = ds.Simulation(ds.solvers.Lorenz96(ds.Grid((5,), 1.0), 0.01), precision="f64")
    alone = one.run({"x": start["x"][::3], "F": 10.0}, 50).final["x"]
    assert np.abs(system.run({**start, "h": 0.0}, 50).final["x"][::3] - alone).max() < 1e-12


@pytest.mark.slow
def test_lorenz96_of_two_scales_gains_as_much_energy_as_it_loses() -> None:
    """The coupling and both products of neighbours keep Σ X² + Σ Y², so F <ΣX> = <ΣX²> + c <ΣY²>; with the numbers of Lorenz."""
    K, J = 36, 10
    places = {"x": [[float(J * k)] for k in range(K)], "y": [[float(k)] for k in range(K * J)]}
    system, start = two_scales(K, J, 0.005, receivers=places)
    start |= {"h": 1.0, "b": 10.0}
    start |= system.run(start, 4000).final
    traces = system.run(start, 20_000).traces
    gain = 10.0 * traces["x"].sum(axis=1).mean()
    loss = (traces["x"] ** 2).sum(axis=1).mean() + 10.0 * (traces["y"] ** 2).sum(axis=1).mean()
    assert abs(gain / loss - 1) < 2e-3, (gain, loss)  # measured 2.6e-4
    assert 2.4 < traces["x"].mean() < 2.7 and 0.2 < traces["y"].std() < 0.27


@pytest.mark.slow
def test_lorenz96_of_two_scales_by_shadowing_and_by_the_slope_of_averages() -> None:
    """A state with a region: its places without values are no unknowns of the least squares."""
    system, start = two_scales(4, 3, 0.005)

    def energy(now: Any) -> Any:
        return (now["x"] ** 2).sum(axis=1)

    shadow = ds.chaos.shadowing(system, start, energy, "F", steps=40, segments=400, unstable=4)
    slope = ds.chaos.linear_response(system, start, energy, "F", change=0.5, steps=8000, members=32)
    assert abs(shadow.value - slope.value) < 3 * (shadow.error + slope.error), (str(shadow), str(slope))
    assert slope.error < 0.5 and shadow.error < 2.0


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


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda: ds.solvers.Lorenz96(ds.Grid((3,), 1.0), 0.1), "grid of 3 cells, expected one axis of at least 4"),
        (lambda: ds.solvers.Lorenz96(ds.Grid((4, 4), 1.0), 0.1), "grid of 4 x 4 cells, expected one axis"),
        (
            lambda: ds.solvers.Lorenz96TwoScale(ds.Grid((41,), 1.0), 0.01),
            "grid of 41 cells with fast = 10, expected a multiple of it; take 40",
        ),
        (lambda: ds.solvers.Lorenz96TwoScale(ds.Grid((40,), 1.0), 0.01, fast=2), "fast = 2"),
        (lambda: ds.solvers.KuramotoSivashinsky(ds.Grid((16, 16), 1.0), 0.1), "expected one axis of at least 13"),
        (lambda: ds.solvers.KuramotoSivashinsky(line(16), 0.1, order=8), "order"),  # type: ignore[arg-type]
    ],
    ids=["few", "plane", "multiple", "fast", "flame", "order"],
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
    with pytest.raises(ParameterError, match=f"wrt = '{wrt}', expected one of the parameters among inputs"):
        ds.chaos.linear_response(system, start, lambda now: now["z"][:, 0], wrt, 1.0, 10, members=2)
    with pytest.raises(ParameterError, match="expected a value for each of 10 times"):
        ds.chaos.linear_response(system, start, lambda now: now["z"].mean(), "rho", 1.0, 10, members=2)
