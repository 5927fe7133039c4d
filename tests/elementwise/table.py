"""Every elementary function, with numbers to try it at. A new one gets all tests of this folder by a line here."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

INF = float("inf")


@dataclass(frozen=True)
class Tried:
    """Where a function is tried.

    Attributes:
        low: least argument.
        high: largest one.
        second: least and largest second argument.
        rounding: the largest relative error of a kernel, in units of rounding.
        limits: values of the function at minus and plus infinity, where it has limits.
        exact: a more accurate function of numbers than that of the table, to compare kernels with.
    """

    low: float
    high: float
    second: tuple[float, float] | None = None
    rounding: float = 4.0
    limits: tuple[float | None, float | None] = (None, None)
    exact: Callable[[float], float] | None = None


FUNCTIONS = {
    "sqrt": Tried(0.0, 1e6, limits=(None, INF)),
    "cbrt": Tried(-1e6, 1e6, limits=(-INF, INF)),
    "exp": Tried(-80.0, 80.0, limits=(0.0, INF)),
    "exp2": Tried(-120.0, 120.0, limits=(0.0, INF)),
    "expm1": Tried(-80.0, 88.5, limits=(-1.0, INF)),
    "log": Tried(1e-30, 1e30),
    "log2": Tried(1e-30, 1e30),
    "log10": Tried(1e-30, 1e30),
    "log1p": Tried(-0.9, 1e30),
    "sin": Tried(-30.0, 30.0),
    "cos": Tried(-30.0, 30.0),
    "tan": Tried(-1.5, 1.5),
    "arcsin": Tried(-1.0, 1.0),
    "arccos": Tried(-1.0, 1.0),
    "arctan": Tried(-1e3, 1e3),
    "arctan2": Tried(-2.0, 2.0, (-2.0, 2.0)),
    "deg2rad": Tried(-720.0, 720.0),
    "rad2deg": Tried(-30.0, 30.0),
    "sinh": Tried(-80.0, 80.0),
    "cosh": Tried(-80.0, 80.0),
    "tanh": Tried(-30.0, 30.0, limits=(-1.0, 1.0)),
    "arcsinh": Tried(-1e6, 1e6),
    "arccosh": Tried(1.0001, 1e6, rounding=10.0),
    "arctanh": Tried(-0.999, 0.999),
    "erf": Tried(-10.0, 10.0, limits=(-1.0, 1.0), exact=math.erf),
    "erfc": Tried(-10.0, 9.0, limits=(2.0, 0.0), exact=math.erfc),
    "expit": Tried(-80.0, 80.0, limits=(0.0, 1.0)),
    "softplus": Tried(-80.0, 80.0, limits=(0.0, INF)),
}
