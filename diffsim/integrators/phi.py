"""The functions φ of exponential methods, of numbers, arrays, and expressions of a step."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from diffsim.expr.functions import exp, where
from diffsim.expr.symbol import Symbol

TERMS = 17
"""Terms of Taylor's series where |z| < 1: the next one is 1/18! of it, for φ_1."""


def phi_of(k: int, z: Any) -> Any:
    """φ_k(z) = Σ z^n / (n + k)!, so φ_0 = exp, φ_1 = (exp(z) - 1) / z, and φ_(k+1) = (φ_k - 1/k!) / z.

    Taylor's series where |z| < 1, and these formulas beyond, where they lose no more than two digits: errors of 1e-15 of φ_k for k up to 3
    and z up to 1.

    Args:
        k: 0 to 3.
        z: a number, an array (real or complex), or an expression.

    Returns:
        The value, of the shape of z.
    """
    if not isinstance(z, Symbol):
        z = np.asarray(z)
    power: Any
    choose: Any
    power, choose = (exp, where) if isinstance(z, Symbol) else (np.exp, np.where)
    if k == 0:
        return power(z)
    near = abs(z) < 1
    small, large = choose(near, z, 0.0), choose(near, 1.0, z)
    series: Any = 1.0 / math.factorial(TERMS - 1 + k)
    for n in range(TERMS - 2, -1, -1):
        series = series * small + 1.0 / math.factorial(n + k)
    value = power(large)
    for n in range(k):
        value = (value - 1.0 / math.factorial(n)) / large
    return choose(near, series, value)
