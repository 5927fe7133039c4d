"""Derivatives of long averages: shadowing beside slopes of averages, and closed forms."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import diffsim as ds
import diffsim.numpy as dnp
from diffsim.chaos.segments import spread
from diffsim.errors import ConvergenceError, ParameterError, ShapeError

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
    assert str(slope).startswith(f"{slope.value:.4g} ± ") and str(slope).endswith(f" ± {slope.average_error:.2g})")
    assert 0.01 < slope.average_error < 0.1 and abs(slope.average - 23.55) < 4 * slope.average_error  # 23.55 of 10 000 units of time
    assert str(shadow).endswith("leaves out the bias of shadowing: compare diffsim.chaos.linear_response")


def test_the_error_of_an_average_is_that_of_long_parts_of_the_run() -> None:
    start = {**CONVECTION, "x": -3.0, "y": -5.0}
    shadow = ds.chaos.shadowing(lorenz63(), start, height, "rho", steps=50, segments=40, unstable=1, settle=0)
    recorded = ds.Simulation(ds.solvers.Lorenz63(dt=0.01), receivers={"z": [[0.0]]}, precision="f64")
    z = recorded.run({**start, "x": [-3.0], "y": [-5.0], "z": [20.0]}, 2000).traces["z"][:, 0]
    means = np.array([np.trapezoid(z[50 * k : 50 * k + 51]) / 50 for k in range(40)])
    parts = means[:36].reshape(6, 6).mean(axis=1)
    assert np.isclose(shadow.average, means.mean(), rtol=1e-6)
    assert np.isclose(shadow.average_error, parts.std(ddof=1) / 6**0.5, rtol=1e-5)


def forced(x: Any, y: Any, z: Any, *, f: Any) -> tuple[Any, ...]:
    return 10.0 * (y - x) + f * np.cos(2.4), x * (28.0 - z) - y + f * np.sin(2.4), x * y - 8 / 3 * z


@pytest.mark.slow
def test_an_average_that_depends_on_visits_to_lobes_has_a_large_error_and_its_derivative_the_bias_of_docs_chaos_md() -> None:
    """A force that favours one lobe: shadowing runs visit the lobes as before, so their averages of x miss the change of visits."""
    system, start = ds.Simulation(ds.ODE(forced, dt=0.01), precision="f64"), {"x": 1.0, "y": 2.0, "z": 20.0, "f": 2.0}
    runs = [
        ds.chaos.shadowing(system, {**start, "x": 1.0 + 0.3 * k}, lambda now: now["x"][:, 0], "f", 100, 400, unstable=1) for k in range(8)
    ]
    scatter, said = np.std([each.average for each in runs], ddof=1), np.mean([each.average_error for each in runs])
    assert 0.5 < scatter / said < 2.0 and said > 0.2
    slope = ds.chaos.linear_response(system, start, lambda now: now["x"][:, 0], "f", 1.0, steps=20_000, members=128, settle=2000)
    assert all(abs(each.value + 0.0414) < 5 * each.error for each in runs)
    assert slope.error < 0.05 and abs(slope.value - 0.173) < 3.5 * slope.error and slope.value > 3.5 * slope.error


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


def lorenz96(varies: bool = False) -> tuple[ds.Simulation, dict[str, Any]]:
    equation = ds.solvers.Lorenz96(ds.Grid((40,), spacing=1.0), dt=0.05, varies=varies)
    start = {"x": 8.0 + np.random.default_rng(0).standard_normal(40), "F": np.full(40, 8.0) if varies else 8.0}
    return ds.Simulation(equation, precision="f64"), start


def energy(now: Any) -> Any:
    return dnp.mean(now["x"] ** 2, axis=1)


def test_the_reverse_sweep_gives_the_derivatives_of_one_parameter_after_another() -> None:
    together = ds.chaos.shadowing(lorenz63(), CONVECTION, height, ["beta", "sigma", "rho"], steps=50, segments=60, unstable=1)
    for name in ("sigma", "rho", "beta"):
        alone = ds.chaos.shadowing(lorenz63(), CONVECTION, height, name, steps=50, segments=60, unstable=1)
        assert np.isclose(together.values[name], alone.value, rtol=1e-9) and together.average == alone.average
        assert together.errors[name] > 0.5 * alone.error  # an upper estimate
    assert str(together).startswith(f"beta {together.values['beta']:.4g} ± ")


def test_the_derivative_for_a_field_is_that_along_a_direction() -> None:
    """A change of F that is the same in all cells is a change of the number F."""
    system, start = lorenz96(varies=True)
    field = ds.chaos.shadowing(system, start, energy, ["F"], steps=10, segments=12, unstable=15, settle=100)
    one, number = lorenz96()
    alone = ds.chaos.shadowing(one, number, energy, "F", steps=10, segments=12, unstable=15, settle=100)
    assert field.values["F"].shape == field.errors["F"].shape == (40,)
    assert np.isclose(field.values["F"].sum(), alone.value, rtol=1e-8) and np.isclose(field.average, alone.average, rtol=1e-12)
    assert str(field).startswith("F of shape (40,) (average ")
    pattern = np.cos(np.arange(40.0))
    along = ds.chaos.shadowing(system, start, energy, "F", steps=10, segments=12, unstable=15, settle=100, along=pattern)
    assert np.isclose(along.value, field.values["F"] @ pattern, rtol=1e-8)


def mean_energy(system: ds.Simulation, start: dict[str, Any], settle: int, steps: int) -> float:
    """The mean of a run, after the steps before those that count."""
    receivers = {"x": [[float(k)] for k in range(40)]}
    recorded = ds.Simulation(system.equation, receivers=receivers, precision="f64")
    begin = {**start, "x": recorded.run(start, settle).final["x"]}
    return float(np.mean(recorded.run(begin, steps).traces["x"][1:] ** 2))


def test_averages_are_differentiated_along_a_field() -> None:
    """A change that is the same in all cells is a change of the number F; any other is that of its pattern."""
    (system, start), (one, number) = lorenz96(varies=True), lorenz96()
    few: dict[str, Any] = {"steps": 20, "members": 3, "settle": 20}
    pattern = np.cos(np.arange(40.0))
    for method, options in ((ds.chaos.linear_response, {"change": 1e-4, **few}), (ds.chaos.ensemble_gradient, few)):
        alone, field = method(one, number, energy, "F", **options), method(system, start, energy, "F", **options)
        assert np.isclose(field.value, alone.value, rtol=1e-7) and np.isclose(field.error, alone.error, rtol=1e-6)
        assert np.isclose(field.average_error, alone.average_error, rtol=1e-6)
    slope = ds.chaos.linear_response(one, number, energy, "F", change=1e-4, **few)
    assert np.isclose(slope.average, alone.average, rtol=0.02) and np.isclose(slope.average_error, alone.average_error, rtol=0.2)
    gradient = ds.chaos.ensemble_gradient(system, start, energy, "F", along=pattern, **few)
    assert abs(gradient.value - field.value) > 0.1
    slope = ds.chaos.linear_response(system, start, energy, "F", change=1e-4, along=pattern, **{**few, "spread": 0.0})
    by_hand = [mean_energy(system, {**start, "F": 8.0 + sign * 1e-4 * pattern}, 20, 20) for sign in (1, -1)]
    assert np.isclose(slope.value, (by_hand[0] - by_hand[1]) / 2e-4, rtol=1e-5)
    ahead = ds.chaos.predictability(system, start, energy, "F", steps=20, members=3, settle=20, along=pattern)
    assert np.isclose(ahead.gradient[-1], gradient.value, rtol=1e-9)


def test_directions_of_another_shape_are_refused() -> None:
    system, start = lorenz96(varies=True)
    for along, message in (
        (np.ones(3), r"along .*\(3,\), expected \(40,\)"),
        (np.zeros(40), "along is 0 everywhere, expected the direction in"),
    ):
        with pytest.raises((ParameterError, ShapeError), match=message):
            ds.chaos.linear_response(system, start, energy, "F", change=0.1, steps=4, members=2, along=along)
    with pytest.raises(ParameterError, match="along with a list of names, expected it with one name"):
        ds.chaos.shadowing(system, start, energy, ["F"], steps=10, segments=12, unstable=15, along=np.ones(40))  # type: ignore[call-overload]


def test_changes_grow_to_the_size_of_states_and_cotangents_by_the_largest_exponent() -> None:
    result = ds.chaos.predictability(lorenz63(), CONVECTION, height, "rho", steps=2000, change=1e-7)
    assert 0.5e-7 < result.error[0] < 2e-7 and 0.4 < result.error[-200:].mean() < 1.2
    assert 0.7 < np.polyfit(result.times, np.log(result.cotangent), 1)[0] < 1.1  # 0.906
    growing = result.error < 1e-2
    assert 0.7 < np.polyfit(result.times[growing], np.log(result.error[growing]), 1)[0] < 1.1
    assert 0.4 < result.horizon < 1.6 and result.times[-1] == 20.0  # 0.7 with 2048 members
    assert str(result).startswith("a plain gradient is worth more than its noise up to ")


def test_plain_gradients_of_an_ensemble_are_noise_where_they_are_long() -> None:
    """The gradient of one average, by differences; and the noise of many is that which the horizon is made of."""
    options: dict[str, Any] = {"steps": 300, "members": 4, "settle": 200}
    gradient = ds.chaos.ensemble_gradient(lorenz63(), CONVECTION, height, "rho", **options)
    many = ds.chaos.predictability(lorenz63(), CONVECTION, height, "rho", **options)
    assert np.isclose(gradient.value, many.gradient[-1], rtol=1e-9) and np.isclose(gradient.error * 2, many.noise[-1], rtol=1e-9)
    still: dict[str, Any] = {"steps": 100, "members": 2, "settle": 1, "spread": 0.0}
    one = ds.chaos.ensemble_gradient(lorenz63(), CONVECTION, height, "rho", **still)
    system = ds.Simulation(ds.solvers.Lorenz63(dt=0.01), receivers={"z": [[0.0]]}, precision="f64")
    first = system.run({**CONVECTION, "x": [1.0], "y": [2.0], "z": [20.0]}, 1).final

    def mean(rho: float) -> float:
        return float(np.trapezoid(system.run({**CONVECTION, **first, "rho": rho}, 100).traces["z"][:, 0])) / 100

    assert one.error < 1e-12 and np.isclose(one.average, mean(28.0), rtol=1e-12)
    assert np.isclose(one.value, (mean(28.0 + 1e-5) - mean(28.0 - 1e-5)) / 2e-5, rtol=1e-6)


def test_what_does_not_settle_is_refused() -> None:
    """Lorenz 96 has 13 exponents above 0: one tangent does not keep the shadowing direction small."""
    system = ds.Simulation(ds.solvers.Lorenz96(ds.Grid((40,), spacing=1.0), dt=0.05), precision="f64")
    start = {"x": 8.0 + np.random.default_rng(0).standard_normal(40), "F": 8.0}
    with pytest.raises(ConvergenceError, match=r"expected one that stays small; raise unstable = 1, to one more"):
        ds.chaos.shadowing(system, start, lambda now: dnp.mean(now["x"], axis=1), "F", steps=20, segments=40, unstable=1)


def test_systems_without_chaos_and_in_f32_are_refused() -> None:
    with pytest.raises(ConvergenceError, match="no exponent is above 0"):
        ds.chaos.shadowing(lorenz63(), {**CONVECTION, "rho": 10.0}, height, "rho", steps=100, segments=50)
    with pytest.raises(ParameterError, match="precision f32, expected f64"):
        ds.chaos.shadowing(ds.Simulation(ds.solvers.Lorenz63(dt=0.01), precision="f32"), CONVECTION, height, "rho", 10, 4)


def test_a_state_that_stays_at_0_is_no_obstacle() -> None:
    def rates(x: Any, y: Any, z: Any, w: Any, *, rho: Any) -> tuple[Any, ...]:
        return 10.0 * (y - x), x * (rho - z) - y, x * y - 8 / 3 * z, -w

    system = ds.Simulation(ds.ODE(rates, dt=0.01), precision="f64")
    result = ds.chaos.predictability(system, {"x": 1.0, "y": 2.0, "z": 20.0, "w": 0.0, "rho": 28.0}, height, "rho", 200, members=8)
    assert np.isfinite(result.cotangent).all()


def test_a_system_at_rest_is_refused() -> None:
    with pytest.raises(ConvergenceError, match="the run has come to rest"):
        ds.chaos.shadowing(lorenz63(), {**CONVECTION, "rho": 10.0}, height, "rho", steps=100, segments=50, unstable=1)


def test_a_slope_of_runs_one_after_another_is_that_of_runs_side_by_side(monkeypatch: pytest.MonkeyPatch) -> None:
    """Over few steps, before rounding grows."""
    options: dict[str, Any] = {"change": 1.0, "steps": 30, "members": 3, "settle": 20}
    together = ds.chaos.linear_response(lorenz63(), CONVECTION, height, "rho", **options)
    monkeypatch.setattr(ds.Batch, "obstacle", staticmethod(lambda simulation: "a solver"))
    alone = ds.chaos.linear_response(lorenz63(), CONVECTION, height, "rho", **options)
    assert np.isclose(alone.value, together.value, rtol=1e-9) and np.isclose(alone.error, together.error, rtol=1e-7)


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
        ({"wrt": "x"}, "wrt = 'x', expected one of the parameters among inputs, sigma, rho, beta; take one"),
        ({"average": 3}, "average = 3"),
        ({"average": lambda now: now["w"][:, 0]}, "average reads 'w', expected states, x, y, z; correct the name"),
        ({"average": lambda now: now.traces["z"]}, "average asks states for traces, expected them by name"),
        ({"average": lambda now: now["z"]}, "expected a value for each of"),
        ({"unstable": 3}, "unstable = 3"),
        ({"segments": 2}, "segments = 2"),
        ({"wrt": ["rho", "x"]}, "wrt names 'x', expected parameters among inputs, sigma, rho, beta; take some"),
    ],
    ids=["wrt", "average", "state", "attribute", "shape", "unstable", "segments", "names"],
)
def test_errors_say_what_is_expected(change: dict[str, Any], message: str) -> None:
    call: dict[str, Any] = {"average": height, "wrt": "rho", "steps": 10, "segments": 4, "unstable": 1} | change
    with pytest.raises(ParameterError, match=message):
        ds.chaos.shadowing(lorenz63(), CONVECTION, **call)


def test_an_estimate_that_rests_on_few_segments_is_refused() -> None:
    """Heavy tails do not settle; normal errors of any size do, and so does an estimate that is sure."""
    rng = np.random.default_rng(0)
    for _ in range(20):
        spread(1.0 + 50 * rng.standard_normal(200), "rho")
        with pytest.raises(ConvergenceError, match=r"9 of 181 segments away from the ends .* of the derivative for rho"):
            spread(np.insert(rng.standard_normal(200), rng.integers(20, 180), 60.0), "rho")
        with pytest.raises(ConvergenceError, match="of the variance"):  # no single one has most of it
            spread(rng.standard_cauchy(1000), "rho")
    few, many = (np.insert(rng.standard_normal(size), 100, 200.0) for size in (1000, 1599))
    with pytest.raises(ConvergenceError, match=r"take 1600 segments once, or diffsim\.chaos\.linear_response"):
        spread(few, "rho")
    with pytest.raises(ConvergenceError, match=r"more segments do not help: take diffsim\.chaos\.linear_response"):
        spread(many, "rho")
    spread(np.insert(np.full(200, 1.0), 90, 1.5), "rho")
    spread(np.append(rng.standard_normal(200), 60.0), "rho")  # an end
    spread(np.insert(rng.standard_normal(50), 20, 60.0), "rho")  # too few to say
