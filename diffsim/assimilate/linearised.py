"""The cost of 4D-Var at a point, its gradient, and products with its Gauss-Newton Hessian."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from diffsim.ad import jvp, vjp
from diffsim.assimilate.control import Control
from diffsim.assimilate.observations import Observations
from diffsim.errors import ConvergenceError
from diffsim.typing import Array

F64 = npt.NDArray[np.float64]

SMALL = 1e-10
"""Relative residual at which systems with the Hessian are solved."""


class Linearised:
    """The run around a point z.

    Args:
        outputs: unknowns -> jumps and predictions, an array program.
        z: the point.
        control: variables and unknowns.
        observations: what the predictions are compared with.
        model_error: state -> prior of its jumps.

    Attributes:
        unknowns: their values there.
        costs: the parts of the cost: "background", "observations" and "jumps".
        jumps: state -> its jumps, shape (windows - 1, cells).
    """

    def __init__(
        self,
        outputs: Callable[[Any], Any],
        z: F64,
        control: Control,
        observations: Sequence[Observations],
        model_error: Mapping[str, Any],
    ) -> None:
        self.z, self.control, self.observations, self.model_error = z, control, observations, model_error
        self._outputs, self.unknowns = outputs, control.unknowns(z)
        value, self._pullback = vjp(outputs, self.unknowns)
        self.jumps = dict(zip(model_error, map(np.asarray, value["jumps"]), strict=True))
        misfits = [np.asarray(one) - each.values for one, each in zip(value["predicted"], observations, strict=True)]
        self._departures = self._weighted({"jumps": list(self.jumps.values()), "predicted": misfits})
        before = control.background_part(z)
        squares = {
            "background": before @ before,
            "observations": sum(np.vdot(m, w) for m, w in zip(misfits, self._departures["predicted"], strict=True)),
            "jumps": sum(np.vdot(m, w) for m, w in zip(self.jumps.values(), self._departures["jumps"], strict=True)),
        }
        self.costs = {name: 0.5 * float(square) for name, square in squares.items()}

    @property
    def cost(self) -> float:
        """J."""
        return sum(self.costs.values())

    def gradient(self) -> F64:
        """The derivative of J for z."""
        return self.control.background_part(self.z) + self._back(self._departures)

    def __matmul__(self, v: Array) -> F64:
        """The Gauss-Newton Hessian of J times v."""
        return self.control.background_part(v) + self._back(self._weighted(self._along(v)))

    def informed(self, v: Array) -> F64:
        """The Gauss-Newton Hessian of observations and jumps for the unknowns themselves, one after another, times v."""
        parts = np.split(np.asarray(v), np.cumsum([value.size for value in self.unknowns.values()])[:-1])
        moved = {name: part.reshape(value.shape) for (name, value), part in zip(self.unknowns.items(), parts, strict=True)}
        (bars,) = self._pullback(self._weighted(jvp(self._outputs, (self.unknowns,), (moved,))[1]))
        return np.concatenate([np.ravel(bars[name]) for name in self.unknowns])

    def solved(self, right_side: F64) -> F64:
        """The solution of a system with the Hessian, by conjugate gradients.

        Raises:
            ConvergenceError: there is none after 20 products for each variable, or 100.
        """
        x, residual = np.zeros_like(right_side), right_side.copy()
        direction, square = residual, float(residual @ residual)
        first, most = square, max(20 * self.control.size, 100)
        for _ in range(most):
            if square <= SMALL**2 * first:
                return x
            bent = self @ direction
            length = square / float(direction @ bent)
            x, residual = x + length * direction, residual - length * bent
            square, before = float(residual @ residual), square
            direction = residual + (square / before) * direction
        raise ConvergenceError(
            f"conjugate gradients left a residual of {(square / first) ** 0.5:.1e} after {most} products, expected {SMALL:g}; "
            "take a larger error of the model, or shorter windows"
        )

    def _along(self, v: Array) -> Any:
        return jvp(self._outputs, (self.unknowns,), (self.control.root(v),))[1]

    def _back(self, bars: Any) -> F64:
        return self.control.root_transpose(self._pullback(bars)[0])

    def _weighted(self, outputs: Mapping[str, Sequence[Any]]) -> dict[str, list[Any]]:
        """Inverse covariances times departures."""
        jumps = [
            np.stack([prior.precision(np.ravel(one)).reshape(np.shape(one)) for one in each])
            for each, prior in zip(outputs["jumps"], self.model_error.values(), strict=True)
        ]
        seen = [each.weight * np.asarray(value) for value, each in zip(outputs["predicted"], self.observations, strict=True)]
        return {"jumps": jumps, "predicted": seen}
