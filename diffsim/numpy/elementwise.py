"""Functions entry by entry."""

from __future__ import annotations

from typing import Any

import numpy as np

from diffsim.ad.arrays.array import Array, core, wrap
from diffsim.ad.arrays.refusals import refusing
from diffsim.ad.core import Tracer
from diffsim.ad.ops import elementwise as ew
from diffsim.ad.ops import structure as st
from diffsim.numpy.calling.dispatch import as_array, as_copied, is_complex, outside, plain, value_of
from diffsim.numpy.decisions import nonzero
from diffsim.numpy.shapes.creation import asarray
from diffsim.numpy.ufunc import ufunc

add, subtract, multiply, divide = ufunc("add"), ufunc("subtract"), ufunc("multiply"), ufunc("divide")
negative, positive, absolute, square, sqrt = ufunc("negative"), ufunc("positive"), ufunc("absolute"), ufunc("square"), ufunc("sqrt")
power, hypot, reciprocal, cbrt = ufunc("power"), ufunc("hypot"), ufunc("reciprocal"), ufunc("cbrt")
remainder, fmod, floor_divide = ufunc("remainder"), ufunc("fmod"), ufunc("floor_divide")
maximum, minimum, fmax, fmin = ufunc("maximum"), ufunc("minimum"), ufunc("fmax"), ufunc("fmin")
exp, exp2, expm1, log = ufunc("exp"), ufunc("exp2"), ufunc("expm1"), ufunc("log")
log2, log10, log1p = ufunc("log2"), ufunc("log10"), ufunc("log1p")
logaddexp, logaddexp2 = ufunc("logaddexp"), ufunc("logaddexp2")
sin, cos, tan, arcsin, arccos, arctan = ufunc("sin"), ufunc("cos"), ufunc("tan"), ufunc("arcsin"), ufunc("arccos"), ufunc("arctan")
sinh, cosh, tanh, arcsinh, arccosh, arctanh = (
    ufunc("sinh"), ufunc("cosh"), ufunc("tanh"), ufunc("arcsinh"), ufunc("arccosh"), ufunc("arctanh")
)  # fmt: skip
arctan2, deg2rad, rad2deg = ufunc("arctan2"), ufunc("deg2rad"), ufunc("rad2deg")
copysign, heaviside, conjugate = ufunc("copysign"), ufunc("heaviside"), ufunc("conjugate")
floor, ceil, trunc, rint = ufunc("floor"), ufunc("ceil"), ufunc("trunc"), ufunc("rint")
equal, not_equal, less, less_equal = ufunc("equal"), ufunc("not_equal"), ufunc("less"), ufunc("less_equal")
greater, greater_equal = ufunc("greater"), ufunc("greater_equal")
logical_and, logical_or, logical_xor, logical_not = ufunc("logical_and"), ufunc("logical_or"), ufunc("logical_xor"), ufunc("logical_not")
isfinite, isinf, isnan, signbit = ufunc("isfinite"), ufunc("isinf"), ufunc("isnan"), ufunc("signbit")
bitwise_and, bitwise_or, bitwise_xor, invert = ufunc("bitwise_and"), ufunc("bitwise_or"), ufunc("bitwise_xor"), ufunc("invert")
ldexp = ufunc("ldexp")
left_shift, right_shift, gcd, lcm = ufunc("left_shift"), ufunc("right_shift"), ufunc("gcd"), ufunc("lcm")

abs, true_divide, mod, pow, conj, radians, degrees = absolute, divide, remainder, power, conjugate, deg2rad, rad2deg
asin, acos, atan, asinh, acosh, atanh, atan2 = arcsin, arccos, arctan, arcsinh, arccosh, arctanh, arctan2
bitwise_not = bitwise_invert = invert
bitwise_left_shift, bitwise_right_shift = left_shift, right_shift


@outside(np)
def sign(x: Any) -> Any:
    """-1, 0 or 1, whose derivative is zero; of complex numbers, the number of length 1 in their direction."""
    if not is_complex(x):
        return wrap(ew.TABLE["sign"](core(x)))
    length = absolute(x)
    endless = ~np.isfinite(plain(length))
    if endless.any():
        return where(endless, np.sign(plain(x)), sign(where(endless, 0.0, x)))
    return x / where(length == 0, 1.0, length)


def _floating(name: str, x: Any) -> Any:
    """`x` in the floating-point type that NumPy takes for its type."""
    value = value_of(x)
    if value.dtype.kind == "c":
        raise TypeError(f"{name} of {value.dtype}, expected real numbers; take the real part, or abs")
    return x if value.dtype.kind == "f" else wrap(st.astype(value, dtype=np.fabs.resolve_dtypes((value.dtype, None))[0]))


@outside(np)
def fabs(x: Any) -> Any:
    """The absolute value, as a floating-point number."""
    return absolute(_floating("fabs", x))


@outside(np)
def float_power(x1: Any, x2: Any) -> Any:
    """`power` in double precision at least."""
    base = value_of(x1)
    dtype = np.result_type(base.dtype, float)
    return power(wrap(base if base.dtype == dtype else st.astype(base, dtype=dtype)), x2)


@outside(np)
def divmod(x1: Any, x2: Any) -> tuple[Any, Any]:
    """(floor_divide, remainder)."""
    return floor_divide(x1, x2), remainder(x1, x2)


@outside(np)
def modf(x: Any) -> tuple[Any, Any]:
    """(fractional part, integral part), both with the sign of `x`."""
    x = _floating("modf", x)
    whole = trunc(x)
    endless = np.isinf(plain(x))
    return (either(endless, copysign(0.0, x), x - whole) if endless.any() else x - whole), whole


@outside(np)
def frexp(x: Any) -> tuple[Any, Any]:
    """(mantissa, exponent): x = mantissa * 2**exponent; the exponent is a whole number and has no derivative."""
    x = _floating("frexp", x)
    mantissa, exponent = np.frexp(plain(x))
    odd = ~np.isfinite(mantissa)
    fraction = ldexp(x, -exponent)
    return (either(odd, x, fraction) if odd.any() else fraction), wrap(exponent)


@outside(np)
def i0(x: Any) -> Any:
    """The modified Bessel function of the first kind, of order 0; derivatives of any order."""
    value = value_of(x)
    if value.dtype.kind == "c":
        raise TypeError("i0 of complex numbers, expected real ones; take the real part, or abs")
    return as_array(wrap(ew.bessel_i(0)(value if value.dtype.kind == "f" else st.astype(value, dtype=np.dtype(float)))))


# complex numbers


@outside(np)
def real(val: Any) -> Any:
    """The real part; a view of a complex array."""
    if isinstance(val, np.ndarray):
        val = asarray(val)
    if hasattr(val, "real"):
        return val.real
    return wrap(ew.real(value_of(val))) if is_complex(val) else asarray(val)


@outside(np)
def imag(val: Any) -> Any:
    """The imaginary part; a view of a complex array."""
    if isinstance(val, np.ndarray):
        val = asarray(val)
    if hasattr(val, "imag"):
        return val.imag
    return wrap(ew.imag(value_of(val))) if is_complex(val) else wrap(np.array(np.asarray(plain(val)).imag))


@outside(np)
def isreal(x: Any) -> Any:
    """True if the imaginary part is 0, entry by entry."""
    return equal(imag(x), 0)


@outside(np)
def iscomplex(x: Any) -> Any:
    """True if the imaginary part is not 0, entry by entry."""
    return not_equal(imag(x), 0) if is_complex(x) else wrap(np.zeros(np.shape(plain(x)), bool)[()])


@outside(np)
def angle(z: Any, deg: bool = False) -> Any:
    """The argument of complex numbers, in radians or degrees."""
    radians = arctan2(imag(z), real(z)) if is_complex(z) else arctan2(0, z)
    return rad2deg(radians) if deg else radians


# choice


@refusing("numpy.where")
def where(condition: Any, *choices: Any) -> Any:
    """Entries of the first choice where the condition holds, else of the second; the condition is not differentiated.

    With the condition alone: the indices where it holds.
    """
    if not choices:
        return nonzero(condition)
    if len(choices) != 2:
        raise ValueError(f"where takes a condition and two choices or none, got {len(choices)}")
    result = ew.where(core(condition), core(choices[0]), core(choices[1]))
    return Array(result) if isinstance(result, Tracer) else wrap(result)


def either(condition: Any, x: Any, y: Any) -> Any:
    """As `where`, but a number (not an array without axes) where a formula of numbers gives one."""
    result = ew.where(core(condition), core(x), core(y))
    return wrap(result if isinstance(result, Tracer) else result[()])


@outside(np)
def clip(a: Any, a_min: Any = None, a_max: Any = None, *, min: Any = None, max: Any = None) -> Any:
    """`a` held between two bounds; at a bound the derivative is that of `a`."""
    low, high = min if a_min is None else a_min, max if a_max is None else a_max
    held = a if low is None else maximum(a, low)
    held = held if high is None else minimum(held, high)
    return positive(asarray(a)) if held is a else held


@outside(np)
def nan_to_num(x: Any, copy: bool = True, nan: float = 0.0, posinf: float | None = None, neginf: float | None = None) -> Any:
    """NaN and infinities replaced by numbers, whose derivative is zero."""
    x = x if copy or not isinstance(x, np.ndarray) else asarray(x)
    value = plain(x)
    result = where(np.isfinite(value), x, np.nan_to_num(value, nan=nan, posinf=posinf, neginf=neginf))
    if copy or not isinstance(x, Array) or x._scalar:
        result = as_copied(result, x)
        return result if np.ndim(value) else result[()]
    x[...] = result
    return x if x.ndim else x[()]


# rounding


@outside(np)
def round(a: Any, decimals: int = 0) -> Any:
    """Rounded to some decimals; the derivative is zero."""
    return wrap(np.round(plain(a), decimals))


around = round


@outside(np)
def fix(x: Any) -> Any:
    """Rounded towards zero; the derivative is zero."""
    return trunc(x)


# where a formula would divide by zero


@outside(np)
def sinc(x: Any) -> Any:
    """sin(pi x) / (pi x), by its series where |x| < 0.05, so that derivatives of any order hold at 0."""
    angles = multiply(x, float(np.pi))
    y = square(angles)
    near = less(absolute(plain(angles)), 0.05 * np.pi)
    series: Any = 0.0
    for k in range(9, 0, -1):
        series = (1.0 + series) * y * (-1.0 / ((2 * k) * (2 * k + 1)))
    apart = where(near, 1.0, angles)
    return either(near, 1.0 + series, sin(apart) / apart)


def root_or_zero(x: Any, exponent: Any = 0.5) -> Any:
    """`x ** exponent`, whose derivative is 0 (not infinite) where x is 0: norms and standard deviations."""
    if isinstance(exponent, (int, float)):
        return wrap(ew.root_or_zero(core(x), exponent))
    none = x == 0  # the exponent has a derivative too
    return either(none, 0.0, where(none, 1.0, x) ** exponent)
