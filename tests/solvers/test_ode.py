"""Systems without a grid: vectors, linear parts, and refused arguments."""

from __future__ import annotations

import functools
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

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
    with pytest.raises(ParameterError, match="expected 1 rates, of x"):
        ds.Simulation(ds.ODE(lambda x: (x, x), 0.1))


def test_names_that_are_unknown_are_answered_with_few_of_many() -> None:
    many = ds.Simulation(ds.ODE(falls, 0.1, states={"x": 20}), wrt=[], precision="f64")
    with pytest.raises(ParameterError, match=r"inputs names y, but the inputs are k, x_0, x_1 \.\.\. x_19; expected"):
        many.run({"y": 1.0, "k": 1.0}, 2)
    with pytest.raises(MissingError, match=r"expected one of x_0, x_1 \.\.\. x_19; name"):
        many.run({"x": np.ones(20), "k": 1.0}, 2).final["y"]
