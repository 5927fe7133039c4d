"""Functions of SciPy: its values, and sources for kernels, which have neither erf nor erfc.

erf and erfc follow Cody: a rational approximation of erf(x)/x for |x| <= 0.46875, and two of exp(x²) erfc(x) for larger ones. exp(-x²) is
computed as exp(-s²) exp(-(x - s)(x + s)), where s is x cut off after 1/16, so that the square is exact.

Reference: Cody (1969), Rational Chebyshev approximations for the error function, Math. Comp. 23, 631-637,
    doi:10.1090/S0025-5718-1969-0247736-4.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any


def of_scipy(name: str) -> Callable[[Any], Any]:
    """A function of `scipy.special`, which is imported when it is called."""

    def values(x: Any) -> Any:
        import scipy.special

        return getattr(scipy.special, name)(x)

    values.__name__ = values.__qualname__ = name
    return values


_SMALL = (
    (1.85777706184603153e-1, 3.16112374387056560e0, 1.13864154151050156e2, 3.77485237685302021e2, 3.20937758913846947e3),
    (1.0, 2.36012909523441209e1, 2.44024637934444173e2, 1.28261652607737228e3, 2.84423683343917062e3),
)
_MIDDLE = (
    (
        2.15311535474403846e-8, 5.64188496988670089e-1, 8.88314979438837594e0, 6.61191906371416295e1, 2.98635138197400131e2,
        8.81952221241769090e2, 1.71204761263407058e3, 2.05107837782607147e3, 1.23033935479799725e3,
    ),
    (
        1.0, 1.57449261107098347e1, 1.17693950891312499e2, 5.37181101862009858e2, 1.62138957456669019e3, 3.29079923573345963e3,
        4.36261909014324716e3, 3.43936767414372164e3, 1.23033935480374942e3,
    ),
)  # fmt: skip
_LARGE = (
    (
        1.63153871373020978e-2, 3.05326634961232344e-1, 3.60344899949804439e-1, 1.25781726111229246e-1, 1.60837851487422766e-2,
        6.58749161529837803e-4,
    ),
    (1.0, 2.56852019228982242e0, 1.87295284992346725e0, 5.27905102951428412e-1, 6.05183413124413191e-2, 2.33520497626869185e-3),
)  # fmt: skip
"""Coefficients of numerators and denominators, the highest power first."""
_BEYOND = 30.0
"""erfc is 0 from here on in f64."""


def _polynomial(coefficients: Sequence[float], of: str) -> str:
    text = f"{{{coefficients[0]!r}}}"
    for c in coefficients[1:]:
        text = f"({text} * {of} + {{{c!r}}})"
    return text


def _ratio(pair: tuple[Sequence[float], Sequence[float]], of: str) -> str:
    return f"{_polynomial(pair[0], of)} / {_polynomial(pair[1], of)}"


_PARTS = (
    "a = {abs}(x)",
    f"y = ti.select(a > {{{_BEYOND!r}}}, {{{_BEYOND!r}}}, a)",
    "cut = ti.floor(y * {16}) / {16}",
    "decay = {exp}({0} - cut * cut) * {exp}({0} - (y - cut) * (y + cut))",
    "square = y * y",
    "z = {1} / ti.select(square == {0}, {1}, square)",
    f"large = ({{{1 / math.sqrt(math.pi)!r}}} - z * ({_ratio(_LARGE, 'z')})) / ti.select(y == {{0}}, {{1}}, y)",
    f"tail = decay * ti.select(y > {{4}}, large, {_ratio(_MIDDLE, 'y')})",
    f"near = x * ({_ratio(_SMALL, 'square')})",
)
ERF = (*_PARTS, "return ti.select(a <= {0.46875}, near, {sign}(x) * ({1} - tail))")
ERFC = (*_PARTS, "return ti.select(a <= {0.46875}, {1} - near, ti.select(x < {0}, {2} - tail, tail))")
