"""L-BFGS-B, by SciPy."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable

import numpy as np
import numpy.typing as npt
from scipy import optimize

from diffsim.optimize.evaluation import Evaluator, Point
from diffsim.optimize.method import Box, Limits, Stop, all_done, no_lower_value, nothing_gained, zero_gradient
from diffsim.typing import Array

LARGEST_EXPONENT = 500
"""Largest magnitude of the exponent of the power of two that scales the objective."""


def minimise_lbfgsb(evaluate: Evaluator, start: Point, box: Box, limits: Limits, accept: Callable[[Array], None]) -> Stop:
    """Limited-memory quasi-Newton with bounds: 10 pairs of history, line search for the strong Wolfe conditions.

    The objective is handed to SciPy times a power of two that brings its starting value to [½, 1), because SciPy's stopping test on small
    decreases is absolute below 1: a misfit of 1e-12 Pa² s would stop at once. A power of two alters no digit.

    Reference: Zhu, Byrd, Lu and Nocedal (1997), "Algorithm 778: L-BFGS-B", ACM TOMS 23, 550, doi:10.1145/279232.279236.
    """
    # Clamped so that a value much larger than that at the start does not overflow when scaled.
    exponent = min(max(math.frexp(start.value)[1], -LARGEST_EXPONENT), LARGEST_EXPONENT)
    scaled_start = abs(math.ldexp(start.value, -exponent)) or 1.0

    def objective(x: Array) -> tuple[float, npt.NDArray[np.float64]]:
        point = evaluate(x)
        return math.ldexp(point.value, -exponent), np.ldexp(point.gradient, -exponent)

    halted = False

    def callback(intermediate_result: optimize.OptimizeResult) -> None:
        nonlocal halted
        try:
            accept(intermediate_result.x)
        except StopIteration:
            halted = True
            raise

    result = optimize.minimize(
        objective,
        start.x,
        jac=True,
        method="L-BFGS-B",
        bounds=None if box.is_open else optimize.Bounds(box.lower, box.upper),
        callback=callback,
        options={"maxiter": limits.iterations, "ftol": limits.tolerance * scaled_start, "gtol": 0.0, "maxfun": sys.maxsize},
    )
    if halted:
        return Stop("callback", False, "the callback asked to stop")
    if result.status == 0:
        return zero_gradient() if "GRADIENT" in result.message else nothing_gained(limits)
    return all_done(limits) if result.status == 1 else no_lower_value(f"; SciPy says {result.message!r}")
