"""The interface of an optimisation method.

A new method is a function of this kind in a file of its own, and a line in `minimise.METHODS`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt
from scipy.optimize import Bounds

from diffsim.base.arguments import plural, real_array
from diffsim.base.messages import shown
from diffsim.errors import ParameterError, ShapeError
from diffsim.optimize.evaluation import Evaluator, Point
from diffsim.typing import Array

Reason: TypeAlias = Literal["gradient", "value", "iterations", "line search", "callback"]


@dataclass(frozen=True)
class Limits:
    """Limits of a search: the number of iterations, and the fraction of the start value by which an iteration must lower the value."""

    iterations: int
    tolerance: float


@dataclass(frozen=True)
class Stop:
    """Why a method stopped."""

    reason: Reason
    converged: bool
    message: str


def zero_gradient() -> Stop:
    """There is nothing to follow."""
    return Stop("gradient", True, "the gradient is zero along every direction that the bounds leave open")


def nothing_gained(limits: Limits) -> Stop:
    """The tolerance is reached."""
    return Stop("value", True, f"the value fell by less than {limits.tolerance:g} of its start in the last iteration")


def all_done(limits: Limits) -> Stop:
    """The iterations are used up."""
    return Stop("iterations", False, f"{plural(limits.iterations, 'iteration')} done; raise `iterations` to go on")


def no_lower_value(further: str = "") -> Stop:
    """The line search failed."""
    return Stop(
        "line search",
        False,
        "the line search found no lower value: the value is at its round-off, or the gradient is not that of the value "
        f"(check it by a Taylor test){further}",
    )


@dataclass(frozen=True, eq=False)
class Box:
    """Bounds on x, one pair an entry, infinite where there are none."""

    lower: npt.NDArray[np.float64]
    upper: npt.NDArray[np.float64]

    @property
    def is_open(self) -> bool:
        """True if there are no bounds."""
        return bool(np.all(self.lower == -np.inf) and np.all(self.upper == np.inf))

    def open_gradient(self, point: Point) -> npt.NDArray[np.float64]:
        """The gradient, zero where descending would leave the box."""
        held = (point.x <= self.lower) & (point.gradient > 0) | (point.x >= self.upper) & (point.gradient < 0)
        return np.where(held, 0.0, point.gradient)

    def check(self, x0: npt.NDArray[np.float64]) -> None:
        """Raise unless x0 lies inside."""
        if self.lower.shape != x0.shape or self.upper.shape != x0.shape:
            raise ShapeError(
                f"bounds: expected one pair for each of {x0.size} unknowns, got shapes {self.lower.shape} and {self.upper.shape}; "
                "take them from the same parametrisation as x0"
            )
        if not np.all(self.lower <= self.upper):
            raise ParameterError("bounds: expected lower <= upper, got crossed bounds or NaN; exchange or widen them")
        outside = (x0 < self.lower) | (x0 > self.upper)
        if np.any(outside):
            k = int(np.argmax(outside))
            raise ParameterError(
                f"x0: expected {self.lower[k]:g} <= x0[{k}] <= {self.upper[k]:g}, got {x0[k]:g} and "
                f"{np.count_nonzero(outside) - 1} more outside; clip x0 or widen the bounds"
            )


def make_box(bounds: Bounds | Sequence[tuple[float | None, float | None]] | None, size: int) -> Box:
    """Bounds as SciPy takes them, as a Box."""
    if bounds is None:
        return Box(np.full(size, -np.inf), np.full(size, np.inf))
    if isinstance(bounds, Bounds):
        # SciPy lets a single number stand for all entries.
        lower, upper = (np.array(np.broadcast_to(b, size) if b.size == 1 else b, np.float64) for b in map(_bound, (bounds.lb, bounds.ub)))
        return Box(lower, upper)
    listed = isinstance(bounds, Sequence) or (isinstance(bounds, np.ndarray) and bounds.ndim > 0)
    pairs: Any = bounds if listed and not isinstance(bounds, str) else [bounds]
    if not all(len(pair) == 2 if isinstance(pair, (tuple, list)) else np.shape(pair) == (2,) for pair in pairs):
        raise ParameterError(f"bounds = {shown(bounds)}, expected SciPy's Bounds or a pair an entry; write [(0.0, None)] * {size}")
    lower = real_array("lower bounds", [-np.inf if low is None else low for low, _ in pairs], np.float64)
    upper = real_array("upper bounds", [np.inf if high is None else high for _, high in pairs], np.float64)
    return Box(lower, upper)


def _bound(values: Any) -> npt.NDArray[np.float64]:
    return real_array("bounds", values, np.float64)


class Method(Protocol):
    """A minimisation method.

    It evaluates by `evaluate` alone, takes products with a Hessian by `evaluate.product`, calls `accept(x)` once after each iteration
    (`StopIteration` from it means stop), and depends on its arguments alone: the same evaluations must lead to the same x, or a
    journal cannot be resumed. One that takes batches has them as `batches`.
    """

    def __call__(self, evaluate: Evaluator, start: Point, box: Box, limits: Limits, accept: Callable[[Array], None]) -> Stop:
        """Minimise from `start`, inside `box`."""
        ...
