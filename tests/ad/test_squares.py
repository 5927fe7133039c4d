"""The weighted sum of squares as one operation: values by NumPy, derivatives by differences, and zeros that win."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import diffsim as ds
from diffsim.ad.arrays.array import core, wrap
from diffsim.ad.ops.squares import sum_of_squares

ROUND_OFF = 1e-14
RANDOM = np.random.default_rng(5)
X = RANDOM.normal(size=(4, 5))
WEIGHTS = {"a number": np.float64(0.7), "each entry": RANDOM.random((4, 5)), "a row": RANDOM.random(5), "a column": RANDOM.random((4, 1))}


def squares(x: Any, weight: Any) -> Any:
    return wrap(sum_of_squares(core(x), core(weight)))


@pytest.mark.parametrize("weight", WEIGHTS.values(), ids=WEIGHTS)
def test_value_and_derivatives(weight: Any) -> None:
    assert abs(float(squares(X, weight)) - (weight * X**2).sum()) < ROUND_OFF
    ds.check_grads(squares, (X, weight))
    ds.check_grads(lambda x: squares(x, weight), (X,))
    ds.check_grads(lambda w: squares(X, w), (weight,))


def test_gradients_keep_the_types_of_their_arguments() -> None:
    gradient = ds.grad(lambda x: squares(x, WEIGHTS["each entry"]))(X.astype(np.float32))
    assert gradient.dtype == np.float32 and np.allclose(gradient, 2 * WEIGHTS["each entry"] * X, rtol=1e-6)


def test_values_that_a_cotangent_of_zero_cut_off_have_the_gradient_zero() -> None:
    endless = np.array([1.0, np.inf])
    with np.errstate(all="ignore"):
        assert (ds.grad(lambda x: 0.0 * squares(x, 1.0))(endless) == 0).all()
        assert (ds.grad(lambda x: 0.0 * squares(x, np.ones(2)))(endless) == 0).all()
