"""The magnitude of an objective does not matter, as far as f64 has all digits of it."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import diffsim as ds
from diffsim.errors import ParameterError
from diffsim.optimize import Adam, GaussNewton, minimise
from diffsim.typing import Array

MIDDLE = np.array([3.0, -1.0, 0.5, 20.0])
STIFF = np.array([1.0, 10.0, 0.1, 3.0])


def objective(factor: float) -> Callable[[Array], tuple[float, Array]]:
    """A quartic, whose Hessian changes, times a factor."""

    def evaluate(x: Array) -> tuple[float, Array]:
        apart = x - MIDDLE
        return factor * float((STIFF * apart**2 + 0.01 * apart**4).sum()), factor * (2 * STIFF * apart + 0.04 * apart**3)

    return evaluate


class Hessian:
    def __init__(self, factor: float, x: Array) -> None:
        self.diagonal = factor * (2 * STIFF + 0.12 * (x - MIDDLE) ** 2)

    def __matmul__(self, v: Array) -> Array:
        return self.diagonal * v


METHODS: dict[str, Callable[[float], Any]] = {
    "L-BFGS-B": lambda factor: "L-BFGS-B",
    "Adam": lambda factor: Adam(0.3),
    "Gauss-Newton": lambda factor: GaussNewton(lambda x: Hessian(factor, x)),
}


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("exponent", [-900, -700, -500, -300, -100, 100, 300, 500, 700, 900])
@pytest.mark.parametrize("bounds", [None, [(None, 2.0)] * 4])
def test_a_power_of_two_changes_no_bit(method: str, exponent: int, bounds: Any) -> None:
    factor = math.ldexp(1.0, exponent)
    one, other = (minimise(objective(f), np.zeros(4), METHODS[method](f), bounds, iterations=25) for f in (1.0, factor))
    assert one.x.tobytes() == other.x.tobytes() and (one.reason, len(one.history)) == (other.reason, len(other.history))
    assert other.value == factor * one.value


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("factor", [1e-295, 1e-302, 1e-305])
def test_numbers_that_lack_digits_are_refused(method: str, factor: float) -> None:
    with pytest.raises(ParameterError, match=r"^objective: expected a (value|gradient) of at least 1e-290 .* lacks digits; multiply"):
        minimise(objective(factor), np.zeros(4), METHODS[method](factor))


@pytest.mark.parametrize("factor", [1e-41, 1e-100, 1e-200])
def test_a_loss_that_f32_cannot_hold_is_refused(factor: float) -> None:
    rod = ds.Simulation(ds.solvers.Heat(ds.Grid((20,), 0.05), dt=0.1), precision="f32")
    inputs = {"kappa": np.full(20, 5e-3), "T": np.ones(20)}

    def loss(found: ds.Solution) -> Any:
        return ds.numpy.sum(ds.numpy.asarray(found.final["T"], float) ** 2) * factor

    def by_hand(found: ds.Solution) -> Any:
        return factor, ds.Solution(final={"T": np.full(20, factor)})

    for each, named in ((loss, "loss: expected a value of"), (by_hand, "cotangent of final T: expected numbers of")):
        with pytest.raises(ParameterError, match=rf"^{named} at least 1.1.*e-38 .* f32 holds as 0; multiply the loss by a constant"):
            rod.value_and_grad(each, inputs, 5)
    wide = ds.Simulation(ds.solvers.Heat(ds.Grid((20,), 0.05), dt=0.1), precision="f64")
    assert np.any(wide.value_and_grad(loss, inputs, 5)[1]["T"])
