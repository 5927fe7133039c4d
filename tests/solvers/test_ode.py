"""Systems without a grid: vectors, linear parts, and refused arguments."""

from __future__ import annotations

import functools
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from scipy.linalg import expm

import diffsim as ds
from diffsim.errors import MissingError, ParameterError


def rest(x: Any, y: Any, *, k: Any) -> Any:
    return (k * y, -k * x)


@dataclass
class Derived:
    x: Any
    y: Any
    both: Any = field(init=False)


def test_methods_have_the_names_of_the_table() -> None:
    start = {"x": [1.0], "y": [0.5], "k": 2.0}
    for short, name in (("rk2", "ssp_rk2"), ("rk3", "ssp_rk3")):
        both: list[Any] = [short, name]
        ends = [ds.Simulation(ds.ODE(rest, 0.1, method=one), wrt=[], precision="f64").run(start, 3).final["x"] for one in both]
        assert np.array_equal(*ends)


def test_linear_parts_of_a_vector_are_exact() -> None:
    """A number for each component, beside a parameter for another state."""

    def none(x: Any, y: Any) -> Any:
        return tuple(0.0 * one for one in x), tuple(0.0 * one for one in y)

    ode = ds.ODE(none, 0.5, states={"x": 2, "y": 1}, method="etdrk2", members=2, linear={"x": [np.array(-1.0), -300.0], "y": "c"})
    start = {"x_0": [1.0, 2.0], "x_1": [1.0, 1.0], "y_0": [1.0, 3.0], "c": 0.2}
    final = ds.Simulation(ode, wrt=[], precision="f64").run(start, 4).final
    np.testing.assert_allclose(final["x_0"], np.exp(-2.0) * np.array([1, 2]), rtol=1e-13)
    np.testing.assert_allclose(final["y_0"], np.exp(0.4) * np.array([1, 3]), rtol=1e-13)
    assert np.abs(final["x_1"]).max() < 1e-200
    assert ds.ODE(rest, 0.1, method="etdrk2", linear={"x": np.array(-1.0)}).linear == {"x": -1.0}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"method": "rk5"}, "method = 'rk5' is unknown; choose one of euler, rk2"),
        ({"method": "etdrk4"}, "linear = None with method = 'etdrk4', expected linear parts"),
        ({"linear": {"x": 1.0}}, "with method = 'rk4', expected no linear parts"),
        ({"method": "etdrk4", "linear": {"z": 1.0}}, "expected a part for some of x, y; name these"),
        ({"method": "etdrk4", "linear": {"x": [1.0, 2.0]}}, r"linear\['x'\] has 2 parts, expected one, or 1"),
        ({"states": "xy"}, "states = 'xy', expected names, numbers of components by name, or a dataclass"),
        ({"states": ["z"]}, r"states = \['z'\], expected some of the arguments x, y, k"),
        ({"states": [["x"]]}, r"states = \[\['x'\]\], expected some of the arguments x, y, k"),
        ({"states": Derived}, "has both with init=False, expected fields that are states; make a property of it"),
        ({"states": {"x": 0, "y": 1}}, r"states\['x'\] = 0"),
    ],
)
def test_wrong_arguments_are_refused(options: Any, message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        ds.ODE(rest, 0.1, **options)


def falls(x: Any, *, k: Any) -> Any:
    return tuple(-k * one for one in x)


@functools.cache
def falling() -> ds.Simulation:
    return ds.Simulation(ds.ODE(falls, 0.1, states={"x": 4}), precision="f64")


def test_one_state_or_vector_may_have_its_rate_itself() -> None:
    def bare(x: Any, *, k: Any) -> Any:
        return -k * x

    def wrapped(x: Any, *, k: Any) -> Any:
        return (falls(x, k=k),)

    start = {f"x_{i}": [1.0 + i] for i in range(4)} | {"k": 1.0}
    whole = falling().run(start, 2).final
    again = ds.Simulation(ds.ODE(wrapped, 0.1, states={"x": 4}), wrt=[], precision="f64").run(start, 2).final
    alone = ds.Simulation(ds.ODE(bare, 0.1), wrt=[], precision="f64").run({"x": [3.0], "k": 1.0}, 2).final
    assert all(np.array_equal(whole[name], again[name]) for name in whole) and whole["x_2"] == alone["x"]
    with pytest.raises(ParameterError, match="expected 3 rates, of x_0, x_1, x_2"):
        ds.Simulation(ds.ODE(lambda x: (x[0], x[1]), 0.1, states={"x": 3}))
    with pytest.raises(ParameterError, match="expected 1 rate, of x"):
        ds.Simulation(ds.ODE(lambda x: (x, x), 0.1))


def test_names_that_are_unknown_are_answered_with_few_of_many() -> None:
    many = ds.Simulation(ds.ODE(falls, 0.1, states={"x": 20}), wrt=[], precision="f64")
    with pytest.raises(ParameterError, match=r"inputs names y, but the inputs are k, x_0, x_1 \.\.\. x_19; expected"):
        many.run({"y": 1.0, "k": 1.0}, 2)
    with pytest.raises(MissingError, match=r"expected one of x_0, x_1 \.\.\. x_19; name"):
        many.run({"x": np.ones(20), "k": 1.0}, 2).final["y"]


def steered(x: Any, v: Any, *, u: Any, c: Any) -> Any:
    return v, u[0] * x - c * v + u[1]


def test_a_control_holds_for_a_step_and_is_differentiated_for() -> None:
    """Steps with constant coefficients by matrix exponentials; dopri5 has errors of 1e-11 here."""
    steps, dt, members = 12, 0.02, 2
    rng = np.random.default_rng(4)
    u, x, v, c = rng.normal(size=(2, steps)), rng.normal(size=members), rng.normal(size=members), 0.3
    run = ds.Simulation(ds.ODE(steered, dt, method="dopri5", members=members, series={"u": 2}), precision="f64")
    now = np.stack([x, v, np.ones(members)])
    for n in range(steps):
        now = expm(dt * np.array([[0, 1, 0], [u[0, n], -c, u[1, n]], [0, 0, 0]])) @ now
    inputs = {"x": x, "v": v, "u": u, "c": c}
    final = run.run(inputs, steps).final
    assert np.abs(final["x"] - now[0]).max() < 1e-9 and np.abs(final["v"] - now[1]).max() < 1e-9

    def loss(found: ds.Solution) -> Any:
        return (found.final["x"] ** 3).sum()

    _, gradient = run.value_and_grad(loss, inputs, steps)
    assert gradient["u"].shape == (2, steps) and np.array_equal(gradient["u_1"], gradient["u"][1])
    way, h = rng.normal(size=(2, steps)), 1e-3
    one, two = (
        (float(loss(run.run(inputs | {"u": u + k * h * way}, steps))) - float(loss(run.run(inputs | {"u": u - k * h * way}, steps))))
        / (2 * k * h)
        for k in (1, 2)
    )
    assert float((gradient["u"] * way).sum()) == pytest.approx((4 * one - two) / 3, rel=1e-8)
    report = ds.certify(run, loss, inputs, steps, directions=1)
    assert report.passed, str(report)


def test_a_control_of_each_member_is_a_row_and_series_take_part_in_linear_parts() -> None:
    def grows(x: Any, *, rate: Any) -> Any:
        return rate * x

    rates = np.random.default_rng(1).normal(size=(6, 3))
    own = ds.Simulation(ds.ODE(grows, 0.01, method="dopri5", members=3, series={"rate": ds.Variable(axes=(0,))}), precision="f64")
    final = own.run({"x": 1.0, "rate": rates}, 6).final["x"]
    np.testing.assert_allclose(final, np.exp(0.01 * rates.sum(axis=0)), rtol=1e-12)

    def still(x: Any, *, decay: Any) -> Any:
        return 0.0 * x

    exact = ds.Simulation(ds.ODE(still, 0.5, method="etdrk4", linear={"x": "decay"}, series=["decay"]), wrt=["decay"], precision="f64")
    value, gradient = exact.value_and_grad(lambda found: found.final["x"][0], {"x": 1.0, "decay": rates[:, 0]}, 6)
    assert value == pytest.approx(np.exp(0.5 * rates[:, 0].sum()), rel=1e-12)
    np.testing.assert_allclose(gradient["decay"], 0.5 * value, rtol=1e-10)


def test_a_series_may_stand_among_the_states() -> None:
    """Arguments that are no series are the states, whatever their order."""
    driven = ds.Simulation(ds.ODE(lambda x, u, v: (v, u), 0.1, method="euler", series=["u"]), precision="f64")
    assert [*driven.equation.states] == ["x", "v"]
    final = driven.run({"x": 0.0, "v": 0.0, "u": [1.0, 2.0, 4.0]}, 3).final
    assert final["v"][0] == pytest.approx(0.7) and final["x"][0] == pytest.approx(0.1 * (0.1 + 0.3))


@pytest.mark.parametrize(
    ("rates", "options", "message"),
    [
        (lambda u_1, *, u: u[0] * u_1, {"series": {"u": 2}}, "u_1 is a state and a series"),
        (lambda x, *, u, u_1: u[0] * u_1 * x, {"series": {"u": 2}}, "u_1 is a parameter and a series"),
        (lambda x, *, x_1: (x[1], x_1), {"states": {"x": 2}}, "x_1 is a state and a parameter"),
    ],
    ids=["state", "parameter", "component"],
)
def test_components_with_the_name_of_another_input_are_refused(rates: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        ds.ODE(rates, 0.1, **options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"series": "u"}, "series = 'u', expected some of the arguments"),
        ({"series": ["w"]}, "expected some of the arguments x, v, u, c"),
        ({"series": {"u": 0}}, r"series\['u'\] = 0"),
        ({"series": ["x"], "states": ["x", "v"]}, "x is a state and a series"),
    ],
)
def test_series_that_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        ds.ODE(steered, 0.1, **options)


@pytest.mark.parametrize(
    ("rates", "options", "remark"),
    [
        (lambda t, x, v: (v, -x * t), {}, "expected 3 rates, of t, x, v; return a tuple of them; t counts as a state here"),
        (lambda x, v: (v, -x), {"series": ["x"]}, "expected 1 rate, of v; return a tuple of them; series have no rates, here x"),
        (lambda x, u, w: (u, w), {"series": ["u", "w"]}, "series have no rates, here u, w"),
    ],
)
def test_rates_of_what_is_no_state_say_so(rates: Any, options: dict[str, Any], remark: str) -> None:
    with pytest.raises(ParameterError, match=remark):
        ds.Simulation(ds.ODE(rates, 0.1, **options))
