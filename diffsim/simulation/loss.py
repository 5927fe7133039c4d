"""The value of a loss on a solution, and its cotangents: recorded, or as the loss returns them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

from diffsim.ad.arrays.array import Array
from diffsim.ad.transforms.vjp import vjp
from diffsim.arguments import number, shown
from diffsim.errors import DerivativeError, ParameterError
from diffsim.simulation.solution import Solution

Loss: TypeAlias = Callable[[Solution], Any]
"""solution -> a number computed with `diffsim.numpy` and arithmetic, or a pair (value, cotangents) with cotangents as a `Solution`."""


def value_and_cotangents(loss: Loss, solution: Solution) -> tuple[float, Solution]:
    """The value of a loss, and its cotangents for the solution.

    The loss is called with arrays that record. If it does not accept them, or returns cotangents itself, it is called with
    the plain solution.

    Raises:
        DerivativeError: it returns only a number, and uses an operation that loses a derivative.
        ParameterError: it returns neither a number that depends on the solution, nor a number and cotangents.
    """
    refused: Exception | None = None
    numbers: list[np.dtype] = []

    def recorded(solution: Solution) -> Any:
        given = loss(solution)
        if isinstance(given, Array) and given.shape == () and given.dtype.kind == "f":  # one that depends on the solution
            numbers.append(given.dtype)
        return given

    try:
        value, pullback = vjp(recorded, solution)
    except Exception as error:  # any error may mean that the loss needs plain NumPy arrays
        refused = error
    else:
        if numbers:
            return float(value), pullback(np.ones((), numbers[0]))[0]
    given = loss(solution)
    if isinstance(refused, DerivativeError) and isinstance(given, (int, float, np.number)):
        raise refused
    if not isinstance(given, tuple) or len(given) != 2 or not isinstance(given[1], Solution):
        raise ParameterError(
            f"loss gave {shown(given)}, expected a number computed from the solution with diffsim.numpy, or (value, cotangents), the "
            "latter a diffsim.Solution; return one of these"
        ) from refused
    return number("value of the loss", given[0], "a number", lambda x: True, "return one"), given[1]
