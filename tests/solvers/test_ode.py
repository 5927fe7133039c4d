"""Systems without a grid: vectors, linear parts, and refused arguments."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

import diffsim as ds
from diffsim.errors import ParameterError


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
