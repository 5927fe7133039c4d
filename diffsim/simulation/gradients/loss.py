"""The value of a loss on a solution, and its cotangents: from a tape, or as the loss returns them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

from diffsim.ad.arrays.array import Array, wrap
from diffsim.ad.transforms.results import result_of
from diffsim.ad.transforms.vjp import Recording
from diffsim.base.arguments import number
from diffsim.base.messages import shown
from diffsim.errors import DerivativeError, ParameterError
from diffsim.simulation.prepared.checks import LEAST_F32
from diffsim.simulation.prepared.solution import Solution

Loss: TypeAlias = Callable[[Solution], Any]
"""solution -> a number computed with `diffsim.numpy` and arithmetic, or a pair (value, cotangents) with cotangents as a `Solution`."""


def value_and_cotangents(loss: Loss, solution: Solution) -> tuple[float, Solution]:
    """The value of a loss, and its cotangents for the solution.

    The loss is called with arrays that write a tape. If it does not accept them, or returns cotangents itself, it is called with
    the plain solution.

    Raises:
        DerivativeError: it returns only a number, and uses an operation that loses a derivative.
        ParameterError: it returns neither a number that depends on the solution, nor a number and cotangents.
        MissingError: it reads a state that the solution does not have.
    """
    refused: Exception | None = None
    tape, core = Recording(), None
    try:
        with tape:
            parts = [{name: tape.input(a, a) for name, a in part.items()} for part in (solution.final, solution.traces)]
            result = loss(Solution(*parts, groups=solution.vectors))
            if isinstance(result, Array):
                core = result.core()
    except Exception as error:  # any error may mean that the loss needs plain NumPy arrays
        refused = error
    else:
        if core is not None and core.shape == () and core.dtype.kind == "f":  # one that may depend on the solution
            return _with_cotangents(tape, core, solution)
    result = loss(solution)
    if isinstance(refused, DerivativeError) and isinstance(result, (int, float, np.number)):
        raise refused
    if not isinstance(result, tuple) or len(result) != 2 or not isinstance(result[1], Solution):
        raise ParameterError(
            f"loss gave {shown(result)}, expected a number computed from the solution with diffsim.numpy, or (value, cotangents), the "
            "latter a diffsim.Solution; return one of these"
        ) from refused
    return number("value of the loss", result[0], "a number", lambda x: True, "return one"), result[1]


def _with_cotangents(tape: Recording, core: Any, solution: Solution) -> tuple[float, Solution]:
    """The value of a loss and its cotangents, by the tape that has it as a core value."""
    end = tape.node_of(core)
    value = float(result_of(core if end is None else core.primal))
    bars = iter(tape.swept([] if end is None else [(end, core.dtype.type(1.0))]))
    parts = [{name: wrap(next(bars)) for name in part} for part in (solution.final, solution.traces)]
    return value, _within_range(value, Solution(*parts))


def _within_range(value: float, cotangents: Solution) -> Solution:
    """The cotangents, unless all of them are 0 because f32 has no numbers as small as the loss."""
    if not 0.0 < abs(value) < LEAST_F32:
        return cotangents
    bars = [np.asarray(bar) for part in (cotangents.final, cotangents.traces) for bar in part.values()]
    if any(bar.dtype == np.float32 for bar in bars) and not any(np.any(bar) for bar in bars):
        raise ParameterError(
            f"loss: expected a value of at least {LEAST_F32:.3g} for a simulation in f32, got {value:.3g}, whose derivatives f32 holds as "
            "0; multiply the loss by a constant, or build the simulation with precision='f64'"
        )
    return cotangents
