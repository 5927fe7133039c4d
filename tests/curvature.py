"""Second and third derivatives against differences."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import diffsim as ds


def require_second_derivatives(
    value: Callable[[Any], Any], inputs: dict[str, np.ndarray], rng: np.random.Generator, most: float, h: float = 1e-5
) -> None:
    """Compare the product of the Hessian and a random direction with the difference of gradients along it.

    Args:
        value: inputs -> a number.
        inputs: where.
        rng: draws the direction.
        most: largest error of an entry, relative to the largest difference of that input, which must not be 0.
        h: step of the central difference.
    """
    move = {name: rng.standard_normal(np.shape(values)) for name, values in inputs.items()}
    product, gradient = ds.hvp(value, inputs, move), ds.grad(value)
    high, low = (gradient({name: values + sign * h * move[name] for name, values in inputs.items()}) for sign in (1, -1))
    assert set(product) == set(inputs)
    for name in inputs:
        wanted = (np.asarray(high[name]) - np.asarray(low[name])) / (2 * h)
        assert np.abs(wanted).max() > 0, name
        np.testing.assert_allclose(np.asarray(product[name]), wanted, rtol=0, atol=most * np.abs(wanted).max(), err_msg=name)


def require_third_derivatives(
    value: Callable[[Any], Any], inputs: dict[str, np.ndarray], rng: np.random.Generator, most: float, round_off: float, h: float = 1e-4
) -> None:
    """Compare a third derivative, along three random directions, with differences of the second one, and with its gradient.

    Args:
        value: inputs -> a number.
        inputs: where.
        rng: draws the directions.
        most: largest relative error beside differences.
        round_off: the same beside the gradient.
        h: step of the central difference.
    """
    moves = [{name: rng.standard_normal(values.shape) for name, values in inputs.items()} for _ in range(3)]

    def along(f: Callable[[Any], Any], move: dict[str, np.ndarray]) -> Callable[[Any], Any]:
        return lambda fields: ds.jvp(f, (fields,), (move,))[1]

    second = along(along(value, moves[0]), moves[1])
    high, low = (second({name: values + s * h * moves[2][name] for name, values in inputs.items()}) for s in (1, -1))
    third = along(second, moves[2])(inputs)
    assert np.isclose(third, (high - low) / (2 * h), rtol=most)
    gradient = ds.grad(second)(inputs)
    assert np.isclose(third, np.sum([np.sum(gradient[name] * moves[2][name]) for name in inputs]), rtol=round_off)
