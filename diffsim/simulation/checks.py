"""What goes into a simulation and comes out of it: names that are known, shapes that fit, numbers that are finite."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from diffsim.errors import DivergenceError, ParameterError, ShapeError
from diffsim.simulation.solution import Solution
from diffsim.typing import Array


def check_names(what: str, given: Iterable[str], known: Iterable[str], kind: str) -> None:
    """Raise ParameterError if a name is not known."""
    unknown = sorted(set(given) - set(known))
    if unknown:
        raise ParameterError(f"{what} names {', '.join(unknown)}, but the {kind} are {', '.join(known) or 'none'}")


def check_input(name: str, value: Array, shape: tuple[int, ...]) -> None:
    """Raise ShapeError or ParameterError unless an input has its shape and is finite."""
    if value.shape != shape:
        raise ShapeError(f"input {name} has shape {value.shape}, expected {shape}")
    if not np.isfinite(value).all():
        raise ParameterError(f"input {name} has {np.count_nonzero(~np.isfinite(value))} values that are not finite; mend the data")


def check_cotangents(cotangents: Solution, solution: Solution) -> None:
    """Raise unless cotangents belong to parts of a solution, have their shapes, and are finite."""
    for given, made, what in ((cotangents.final, solution.final, "final"), (cotangents.traces, solution.traces, "traces")):
        check_names(f"{what} cotangents", given, made, f"{what} entries")
        for name, value in given.items():
            if np.shape(value) != made[name].shape:
                raise ShapeError(f"cotangent of {what} {name} has shape {np.shape(value)}, expected {made[name].shape}")
            if not np.isfinite(value).all():
                raise DivergenceError(f"cotangent of {what} {name} is not finite; the loss cannot be differentiated here")


def require_finite(fields: dict[str, Array], steps: int, what: str = "") -> dict[str, Array]:
    """The fields, unless one is no longer finite."""
    for name, value in fields.items():
        if value.size and not (np.isfinite(value.min()) and np.isfinite(value.max())):  # as telling as to ask every cell
            raise DivergenceError(f"{what}{name} is no longer finite after {steps} steps; lower dt, or check the parameters")
    return fields
