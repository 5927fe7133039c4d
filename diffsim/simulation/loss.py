"""The value of a loss on a solution, and its cotangents: by recording what it does, or as it gives them."""

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
"""solution -> a number, made by `diffsim.numpy` and arithmetic, or (value, cotangents), the latter a `Solution`."""


def value_and_cotangents(loss: Loss, solution: Solution) -> tuple[float, Solution]:
    """The value of a loss, and the cotangents of the solution that it owes.

    The loss is called with arrays that record. If it cannot take those, or gives cotangents itself, it is called with the
    solution as it is.

    Raises:
        DerivativeError: it gives a number alone, and does what loses a derivative.
        ParameterError: it gives something else than a number that depends on the solution, or than a number and cotangents.
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
    except Exception as error:  # whatever it was, the loss may be one of NumPy's arrays
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
