"""Truncated Gauss-Newton: steps by conjugate gradients from products with the Gauss-Newton Hessian."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from diffsim.base.arguments import function, number, whole
from diffsim.optimize.evaluation import Evaluator, Point
from diffsim.optimize.method import Box, Limits, Stop, all_done, no_lower_value, nothing_gained, zero_gradient
from diffsim.typing import Array

F64: TypeAlias = npt.NDArray[np.float64]

DECREASE = 1e-4
"""A step is accepted if the value falls by this part of the fall by the slope (Armijo)."""
TRIALS = 12
"""Trial points on one direction."""
STAGNATION = 0.5
"""The conjugate gradients stop when a product gains less than this part of the average of all (Nash and Sofer)."""
LOOSEST, TIGHTEST = 0.5, 1e-3
"""Range of the relative residual at which the conjugate gradients stop."""
ROUND_OFF = 1e-14
"""A promised decrease below this part of the value cannot be measured."""


class GaussNewton:
    """Truncated Gauss-Newton with bounds, a `method` of `minimise` for sums of squares and other convex misfits of a simulation.

    Each iteration solves H p = -g by conjugate gradients for the entries that no bound holds, and takes the first of the points
    clip(x + p), clip(x + p/2) ... with a sufficiently lower value. H is the Gauss-Newton Hessian Jᵀ W J, known by its products. The
    conjugate gradients stop early: at a relative residual that follows how well the last quadratic model predicted the gradient (Eisenstat
    and Walker, choice 1), when a product gains less than half of the average (Nash and Sofer), or where H has no positive curvature.
    Products are journaled like evaluations.

    Args:
        hessian: x -> the Hessian there, an object with products `H @ v`, such as SciPy's LinearOperator. It is called only where products
            are needed.
        products: at most this many in an iteration.
        residual: relative residual at which the conjugate gradients stop, or after `products`, or where the curvature is not positive;
            None: early, as above. 1e-6 and many products suit problems that are nearly linear, and ill-conditioned ones.

    Good for: problems where few well-aimed iterations cost less than many, such as those whose unknowns differ in influence by orders of
    magnitude. A product costs a run of the tangent and a gradient.

    Reference: Eisenstat and Walker (1996), "Choosing the forcing terms in an inexact Newton method", SIAM J. Sci. Comput. 17, 16,
    doi:10.1137/0917003. Nash and Sofer (1990), "Assessing a search direction within a truncated-Newton method", Oper. Res. Lett. 9,
    219, doi:10.1016/0167-6377(90)90065-D. Bertsekas (1982), "Projected Newton methods for optimization problems with simple constraints",
    SIAM J. Control Optim. 20, 221, doi:10.1137/0320018; the entries near a bound are found here by a first trial.

    Example:
        import numpy as np

        import diffsim as ds

        # Which diffusivity explains two thermometers? The residual's derivative gives the Gauss-Newton Hessian.
        rod = ds.Simulation(ds.solvers.Heat(ds.Grid((40,), spacing=0.05), dt=0.1), receivers={"T": [[0.5], [1.5]]}, precision="f64")
        hot = np.linspace(0.0, 1.0, 40) ** 2
        predict = lambda x: rod.run({"kappa": 5e-3 + 1e-3 * x, "T": hot}, steps=60).traces["T"]
        misfit = ds.losses.L2Misfit(predict(np.linspace(-1.0, 1.0, 40)), weight=1e4)

        def hessian(x):
            jacobian = ds.linear_operator(predict, x)
            return 1e4 * (jacobian.H @ jacobian)

        method = ds.optimize.GaussNewton(hessian)
        found = ds.optimize.minimise(ds.value_and_grad(lambda x: misfit(predict(x))), np.zeros(40), method, iterations=5)
        assert found.value < 1e-3 * found.history[0].value
    """

    batches = None

    def __init__(self, hessian: Callable[[Array], Any], products: int = 50, residual: float | None = None) -> None:
        function("hessian", hessian, "lambda x: J.H @ J", optional=False)
        self._hessian = hessian
        remedy = "1e-6 solves each system well, None stops early"
        self._residual = None if residual is None else number("residual", residual, "a number in (0, 1)", lambda x: 0 < x < 1, remedy)
        self._most = whole("products", products, 1)

    def __call__(self, evaluate: Evaluator, start: Point, box: Box, limits: Limits, accept: Callable[[Array], None]) -> Stop:
        """Minimise from `start`, inside `box`."""
        point, forcing = start, self._residual or LOOSEST
        for _ in range(limits.iterations):
            gradient = box.open_gradient(point)
            size = float(np.linalg.norm(gradient))
            if size == 0:
                return zero_gradient()
            step = self._step(evaluate, point, box, forcing)
            if step is None:
                measurable = abs(point.value) * ROUND_OFF
                return nothing_gained(limits) if self._promise <= measurable else no_lower_value()
            new, residual = step
            fell = point.value - new.value
            left = float(np.linalg.norm(box.open_gradient(new)))
            least = forcing ** ((1 + math.sqrt(5)) / 2)
            forcing = abs(left - residual) / size
            forcing = self._residual or min(max(forcing, least if least > 0.1 else 0.0, TIGHTEST), LOOSEST)
            point = new
            try:
                accept(new.x)
            except StopIteration:
                return Stop("callback", False, "the callback asked to stop")
            if fell <= limits.tolerance * (abs(start.value) or 1.0):
                return nothing_gained(limits)
        return all_done(limits)

    def _step(self, evaluate: Evaluator, point: Point, box: Box, forcing: float) -> tuple[Point, float] | None:
        """The next point, and the norm of the residual of its linear system; None: no lower value was found."""
        free = (point.x > box.lower) & (point.x < box.upper) | (box.open_gradient(point) != 0)
        target = np.zeros_like(point.x)
        self._promise = math.inf
        while True:
            solution = self._solve(evaluate, point, free, target, forcing)
            new = self._search(evaluate, point, box, solution.step)
            if new is not None:
                return new, solution.residual
            full = point.x + solution.step
            blocked = free & ((full < box.lower) | (full > box.upper))
            if not blocked.any():
                break
            # entries that the step drives through a bound are put onto it, and the others solved for anew
            free = free & ~blocked
            target = np.where(blocked, np.clip(full, box.lower, box.upper) - point.x, target)
        descent = -box.open_gradient(point)
        curvature = float(descent @ evaluate.product(point.x, descent, self._hessian))
        new = self._search(evaluate, point, box, descent * (float(descent @ descent) / curvature if curvature > 0 else 1.0))
        return None if new is None else (new, float(np.linalg.norm(descent)))

    def _solve(self, evaluate: Evaluator, point: Point, free: npt.NDArray[np.bool_], target: F64, forcing: float) -> Solved:
        """Conjugate gradients for the free entries of the step; the others are those of `target`."""

        def product(v: F64) -> F64:
            return np.where(free, evaluate.product(point.x, v, self._hessian), 0.0)

        step = np.where(free, 0.0, target)
        residual = np.where(free, -point.gradient, 0.0)
        if step.any():
            residual = residual - product(step)
        first = square = float(residual @ residual)
        gained = 0.0  # by the quadratic model
        direction = residual
        for count in range(self._most):
            if square <= forcing**2 * first:
                break
            bent = product(direction)
            curvature = float(direction @ bent)
            if curvature <= 0:
                if count == 0:  # as far as the slope would bring the value to zero
                    step = step + direction * (abs(point.value) / square)
                break
            length = square / curvature
            step, residual = step + length * direction, residual - length * bent
            before, square = square, float(residual @ residual)
            gain = 0.5 * length * before
            gained += gain
            if self._residual is None and (count + 1) * gain <= STAGNATION * gained:
                break
            direction = residual + (square / before) * direction
        return Solved(step, math.sqrt(square))

    def _search(self, evaluate: Evaluator, point: Point, box: Box, step: F64) -> Point | None:
        """The first sufficiently lower point on the path of steps clipped to the box."""
        length = 1.0
        for _ in range(TRIALS):
            x = np.clip(point.x + length * step, box.lower, box.upper)
            slope = float(point.gradient @ (x - point.x))
            self._promise = min(self._promise, abs(slope))
            if slope >= 0 or np.array_equal(x, point.x):
                return None
            new = evaluate(x)
            if new.value <= point.value + DECREASE * slope and new.value < point.value:
                return new
            parabola = -0.5 * slope / (new.value - point.value - slope)
            length *= min(max(parabola, 0.1), 0.5)
        return None


@dataclass(frozen=True, eq=False)
class Solved:
    """A step, and the norm of the residual that it leaves."""

    step: F64
    residual: float
