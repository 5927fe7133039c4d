"""The table of elementary functions.

An entry is all that a function needs to work in array programs, steps, scans and tiles. Public namespaces list its name besides:
`diffsim.expr`, and `diffsim.numpy` or `diffsim.numpy.special`.

Arithmetic, choices (minimum, where), functions with a kink (abs, hypot) and rounding are not here: each kind of program treats them in its
own way.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from diffsim.elementwise import cube_root, special
from diffsim.elementwise.function import Function, InSteps

_LN2, _LN10, _DEGREE = float(np.log(2.0)), float(np.log(10.0)), float(np.pi / 180)


def _over_square(m: Any, numerator: Any, x: Any, y: Any) -> Any:
    """numerator / (x² + y²), 0 at the origin."""
    r = m.hypot(x, y)
    r = m.where(m.equal(r, 0), 1.0, r)
    return numerator / r / r


_TABLE = (
    # roots, exponentials, logarithms
    Function(
        "sqrt", "The square root.", np.sqrt, (lambda m, o: 0.5 / o,), "ti.sqrt({x})", slope="infinite", finite=False, domain=(0.0, np.inf)
    ),
    Function(
        "cbrt",
        "The cube root.",
        np.cbrt,
        (lambda m, o: 1.0 / (3.0 * o * o),),
        cube_root.SOURCE,
        slope="infinite",
    ),
    Function("exp", "The exponential function.", np.exp, (lambda m, o: o,), "{exp}({x})", slope="overflows", finite=False),
    Function("exp2", "2 to the power of x.", np.exp2, (lambda m, o: o * _LN2,), "{pow}({2}, {x})", slope="overflows", finite=False),
    Function(
        "expm1",
        "exp(x) - 1, which keeps its digits for small x.",
        np.expm1,
        (lambda m, o: o + 1.0,),
        (
            "u = {exp}(x)",
            "v = ti.select(u == {1}, {2}, u)",
            "found = ti.select(u - {1} == {0} - {1}, {0} - {1}, (u - {1}) * (x / {log}(v)))",
            "return ti.select(u == {1}, x, ti.select(u - u == {0}, found, u))",
        ),
        slope="overflows",
        finite=False,
    ),
    Function(
        "log",
        "The natural logarithm.",
        np.log,
        (lambda m, x: 1.0 / x,),
        "{log}({x})",
        slope="infinite",
        finite=False,
        domain=(0.0, np.inf),
    ),
    Function(
        "log2",
        "The logarithm to base 2.",
        np.log2,
        (lambda m, x: float(1 / np.log(2.0)) / x,),
        f"({{log}}({{x}}) * {{{1 / _LN2!r}}})",
        slope="infinite",
        finite=False,
        domain=(0.0, np.inf),
    ),
    Function(
        "log10",
        "The logarithm to base 10.",
        np.log10,
        (lambda m, x: float(1 / np.log(10.0)) / x,),
        f"({{log}}({{x}}) * {{{1 / _LN10!r}}})",
        slope="infinite",
        finite=False,
        domain=(0.0, np.inf),
    ),
    Function(
        "log1p",
        "log(1 + x), which keeps its digits for small x.",
        np.log1p,
        (lambda m, x: 1.0 / (1.0 + x),),
        ("u = {1} + x", "return ti.select(u == {1}, x, ti.select(u - u == {0}, x * ({log}(u) / (u - {1})), {log}(u)))"),
        slope="infinite",
        finite=False,
        domain=(-1.0, np.inf),
    ),
    # trigonometry
    Function("sin", "The sine of an angle in radians.", np.sin, (lambda m, x: m.cos(x),), "{sin}({x})"),
    Function("cos", "The cosine of an angle in radians.", np.cos, (lambda m, x: -m.sin(x),), "{cos}({x})"),
    Function("tan", "The tangent of an angle in radians.", np.tan, (lambda m, o: 1.0 + o * o,), "{tan}({x})", finite=False),
    Function(
        "arcsin",
        "The angle in radians whose sine is x, -π/2 to π/2.",
        np.arcsin,
        (lambda m, x: 1.0 / m.sqrt(1.0 - x * x),),
        "{asin}({x})",
        slope="infinite",
        finite=False,
        domain=(-1.0, 1.0),
    ),
    Function(
        "arccos",
        "The angle in radians whose cosine is x, 0 to π.",
        np.arccos,
        (lambda m, x: -1.0 / m.sqrt(1.0 - x * x),),
        "{acos}({x})",
        slope="infinite",
        finite=False,
        domain=(-1.0, 1.0),
    ),
    Function(
        "arctan",
        "The angle in radians whose tangent is x, -π/2 to π/2.",
        np.arctan,
        (lambda m, x: 1.0 / (1.0 + x * x),),
        "{atan2}({x}, {1})",
    ),
    Function(
        "arctan2",
        "The angle of the point (y, x), whose height is the first argument, -π to π.",
        np.arctan2,
        (lambda m, x, y: _over_square(m, y, x, y), lambda m, x, y: -_over_square(m, x, x, y)),
        "{atan2}({x}, {y})",
        InSteps("{atan2}({x}, {y})", (lambda m, x, y: y / (y * y + x * x), lambda m, x, y: -(x / (y * y + x * x)))),
    ),
    Function("deg2rad", "An angle in degrees, in radians.", np.deg2rad, (lambda m: _DEGREE,), f"({{x}} * {{{_DEGREE!r}}})"),
    Function(
        "rad2deg", "An angle in radians, in degrees.", np.rad2deg, (lambda m: float(180 / np.pi),), f"({{x}} * {{{float(180 / np.pi)!r}}})"
    ),
    # hyperbolic functions
    Function(
        "sinh",
        "The hyperbolic sine.",
        np.sinh,
        (lambda m, x: m.cosh(x),),
        ("m = {expm1}({abs}(x))", "s = {0.5} * (m + m / (m + {1}))", "return ti.select(m - m == {0}, {sign}(x) * s, x * m)"),
        # not a difference of exponentials, which cancels near 0
        InSteps("{tanh}({x}) * ({0.5} * ({exp}({x}) + {exp}({0.0} - {x})))"),
        slope="overflows",
        finite=False,
    ),
    Function(
        "cosh",
        "The hyperbolic cosine.",
        np.cosh,
        (lambda m, x: m.sinh(x),),
        ("e = {exp}({abs}(x))", "return {0.5} * (e + {1} / e)"),
        InSteps("{0.5} * ({exp}({x}) + {exp}({0.0} - {x}))"),
        slope="overflows",
        finite=False,
    ),
    Function("tanh", "The hyperbolic tangent.", np.tanh, (lambda m, o: 1.0 - o * o,), "{tanh}({x})"),
    Function(
        "arcsinh",
        "The number whose hyperbolic sine is x.",
        np.arcsinh,
        (lambda m, x: 1.0 / m.sqrt(1.0 + x * x),),
        (
            "a = {abs}(x)",
            "b = ti.select(a > {1e9}, {1}, a)",
            "found = {log1p}(b + b * b / ({1} + ti.sqrt({1} + b * b)))",
            f"return {{sign}}(x) * ti.select(a > {{1e9}}, {{log}}(a) + {{{_LN2!r}}}, found)",
        ),
    ),
    Function(
        "arccosh",
        "The number that is not negative and whose hyperbolic cosine is x.",
        np.arccosh,
        (lambda m, x: 1.0 / (m.sqrt(x - 1.0) * m.sqrt(x + 1.0)),),
        (
            "r = ti.sqrt(x - {1}) * ti.sqrt(x + {1})",
            "return ti.select(x < {1.125}, {log1p}(x - {1} + r), {log}(x + r))",
        ),
        slope="infinite",
        finite=False,
        domain=(1.0, np.inf),
    ),
    Function(
        "arctanh",
        "The number whose hyperbolic tangent is x.",
        np.arctanh,
        (lambda m, x: 1.0 / (1.0 - x * x),),
        ("a = {abs}(x)", "return {sign}(x) * ({0.5} * {log1p}({2} * a / ({1} - a)))"),
        slope="infinite",
        finite=False,
        domain=(-1.0, 1.0),
    ),
    # functions of SciPy
    Function(
        "erf",
        "The error function, 2/√π ∫₀ˣ exp(-t²) dt.",
        special.of_scipy("erf"),
        (lambda m, x: 2 / math.sqrt(math.pi) * m.exp(-(x * x)),),
        special.ERF,
    ),
    Function(
        "erfc",
        "1 - erf(x), which keeps its digits for large x.",
        special.of_scipy("erfc"),
        (lambda m, x: -2 / math.sqrt(math.pi) * m.exp(-(x * x)),),
        special.ERFC,
    ),
    Function(
        "expit",
        "The logistic function, 1 / (1 + exp(-x)).",
        special.of_scipy("expit"),
        (lambda m, x, o: o * m.expit(-x),),
        ("e = {exp}({0} - {abs}(x))", "return ti.select(x < {0}, e, {1}) / ({1} + e)"),
    ),
    Function(
        "softplus",
        "log(1 + exp(x)), a smooth maximum of x and 0.",
        lambda x: np.logaddexp(0.0, x),
        (lambda m, x: m.expit(x),),
        ("return ti.max(x, {0}) + {log1p}({exp}({0} - {abs}(x)))",),
    ),
)
FUNCTIONS: dict[str, Function] = {each.name: each for each in _TABLE}
"""Every function by its name."""
