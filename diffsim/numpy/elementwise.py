"""Functions entry by entry, with the methods of NumPy's universal functions."""

from __future__ import annotations

from typing import Any

import numpy as np

from diffsim.ad.array import Array, core, wrap
from diffsim.ad.core import Primitive, bottom
from diffsim.ad.ops import elementwise as ew
from diffsim.ad.ops.structure import astype
from diffsim.errors import DerivativeError


class ufunc:  # noqa: N801 -- NumPy's name for it
    """A function that works entry by entry and broadcasts its arguments.

    Attributes:
        nin: number of arguments.
    """

    def __init__(self, primitive: Primitive, name: str, nin: int) -> None:
        self._primitive = primitive
        self.__name__ = self.__qualname__ = name
        self.__doc__ = f"As `numpy.{name}`, differentiable."
        self.nin = nin

    def __repr__(self) -> str:
        return f"<ufunc {self.__name__}>"

    def __call__(self, *args: Any, out: Any = None, where: Any = True, dtype: Any = None, casting: str = "same_kind") -> Any:
        if len(args) == self.nin + 1 and out is None:
            *args, out = args  # type: ignore[assignment]
        if len(args) != self.nin:
            raise TypeError(f"{self.__name__} takes {self.nin} arguments, got {len(args)}")
        value = self._primitive(*map(core, args))
        if dtype is not None and value.dtype != np.dtype(dtype):
            value = astype(value, dtype=np.dtype(dtype))
        if out is not None:
            out = out[0] if isinstance(out, tuple) else out
            if where is not True:
                value = ew.where(core(where), value, core(out))
            out[...] = wrap(value)
            return out
        if where is not True:
            raise DerivativeError(f"{self.__name__} with where= and no out= leaves entries undefined; give out=, or use numpy.where")
        return wrap(value)

    def outer(self, a: Any, b: Any) -> Any:
        """The function of every pair of entries."""
        x, y = core(a), core(b)
        from diffsim.ad.ops.structure import reshape

        return self(wrap(reshape(x, shape=(*np.shape(bottom(x)), *(1,) * np.ndim(bottom(y))))), b)

    def reduce(self, a: Any, axis: Any = 0, keepdims: bool = False) -> Any:
        """Entries along an axis combined from first to last."""
        from diffsim.numpy import reductions

        found = {"add": reductions.sum, "multiply": reductions.prod, "maximum": reductions.max, "minimum": reductions.min}
        found |= {"logical_and": reductions.all, "logical_or": reductions.any}
        return self._named(found, "reduce")(a, axis=axis, keepdims=keepdims)

    def accumulate(self, a: Any, axis: int = 0) -> Any:
        """Running results along an axis."""
        from diffsim.numpy import reductions

        found = {"add": reductions.cumsum, "multiply": reductions.cumprod, "maximum": reductions.cummax, "minimum": reductions.cummin}
        return self._named(found, "accumulate")(a, axis=axis)

    def at(self, a: Array, index: Any, b: Any = None) -> None:
        """In place, as often as an entry is named; `add` and `subtract` only."""
        if self.__name__ not in ("add", "subtract"):
            raise DerivativeError(f"{self.__name__}.at has no derivative; use ds.reduce_by_index")
        if not isinstance(a, Array):
            getattr(np, self.__name__).at(a, index, b)
            return
        a.add_at(index, core(b) if self.__name__ == "add" else -core(b))

    def _named(self, found: dict[str, Any], what: str) -> Any:
        if self.__name__ not in found:
            raise DerivativeError(f"{self.__name__}.{what} is not supported, only that of {', '.join(found)}; use ds.scan or ds.reduce")
        return found[self.__name__]


def _function(name: str, primitive: str | None = None) -> ufunc:
    return ufunc(ew.TABLE[primitive or name], name, getattr(np, name).nin)


add, subtract, multiply, divide = (_function(n) for n in ("add", "subtract", "multiply", "divide"))
true_divide = divide
negative, positive, absolute, square, sqrt, cbrt = (_function(n) for n in ("negative", "positive", "absolute", "square", "sqrt", "cbrt"))
abs = fabs = absolute
power, hypot, reciprocal, fmod = (_function(n) for n in ("power", "hypot", "reciprocal", "fmod"))
pow = float_power = power
mod = remainder = _function("remainder")
maximum, minimum = _function("maximum"), _function("minimum")
exp, exp2, expm1, log, log2, log10, log1p = (_function(n) for n in ("exp", "exp2", "expm1", "log", "log2", "log10", "log1p"))
logaddexp, logaddexp2 = _function("logaddexp"), _function("logaddexp2")
sin, cos, tan, arcsin, arccos, arctan = (_function(n) for n in ("sin", "cos", "tan", "arcsin", "arccos", "arctan"))
sinh, cosh, tanh, arcsinh, arccosh, arctanh = (_function(n) for n in ("sinh", "cosh", "tanh", "arcsinh", "arccosh", "arctanh"))
asin, acos, atan, asinh, acosh, atanh = arcsin, arccos, arctan, arcsinh, arccosh, arctanh
arctan2 = atan2 = _function("arctan2")
deg2rad = radians = _function("deg2rad")
rad2deg = degrees = _function("rad2deg")
copysign = _function("copysign")
conjugate = conj = ufunc(ew.TABLE["conjugate"], "conjugate", 1)
floor, ceil, trunc, rint, sign, heaviside, floor_divide = (
    _function(n) for n in ("floor", "ceil", "trunc", "rint", "sign", "heaviside", "floor_divide")
)
equal, not_equal, less, less_equal, greater, greater_equal = (
    _function(n) for n in ("equal", "not_equal", "less", "less_equal", "greater", "greater_equal")
)
logical_and, logical_or, logical_xor, logical_not = (_function(n) for n in ("logical_and", "logical_or", "logical_xor", "logical_not"))
isfinite, isinf, isnan, signbit = (_function(n) for n in ("isfinite", "isinf", "isnan", "signbit"))
bitwise_and, bitwise_or, bitwise_xor, invert = (_function(n) for n in ("bitwise_and", "bitwise_or", "bitwise_xor", "invert"))
left_shift, right_shift, gcd, lcm = (_function(n) for n in ("left_shift", "right_shift", "gcd", "lcm"))
bitwise_not = bitwise_invert = invert


def fmax(a: Any, b: Any) -> Any:
    """The larger entry; where one is NaN, the other."""
    return where(isnan(a), b, where(isnan(b), a, maximum(a, b)))


def fmin(a: Any, b: Any) -> Any:
    """The smaller entry; where one is NaN, the other."""
    return where(isnan(a), b, where(isnan(b), a, minimum(a, b)))


def divmod(a: Any, b: Any) -> tuple[Any, Any]:
    """(floor_divide, remainder)."""
    return floor_divide(a, b), remainder(a, b)


def real(x: Any) -> Any:
    """The real part; a view, as NumPy's."""
    if isinstance(x, Array):
        return x.real
    value = core(x)
    return wrap(ew.real(value)) if np.iscomplexobj(bottom(value)) else x


def imag(x: Any) -> Any:
    """The imaginary part; a view, as NumPy's."""
    if isinstance(x, Array):
        return x.imag
    value = core(x)
    return wrap(ew.imag(value)) if np.iscomplexobj(bottom(value)) else wrap(np.zeros_like(bottom(value))[()])


def angle(x: Any) -> Any:
    """The argument of complex numbers, in radians."""
    return arctan2(imag(x), real(x))


def sinc(x: Any) -> Any:
    """sin(pi x) / (pi x), by its series where |x| < 0.05, so that derivatives of any order hold at 0."""
    y = square(multiply(x, float(np.pi)))
    near = less(y, (0.05 * np.pi) ** 2)
    series: Any = 0.0
    for k in range(9, 0, -1):
        series = (1.0 + series) * y * (-1.0 / ((2 * k) * (2 * k + 1)))
    root = where(near, 1.0, multiply(x, float(np.pi)))
    return where(near, 1.0 + series, sin(root) / root)


def where(condition: Any, *choices: Any) -> Any:
    """Entries of the first choice where the condition holds, else of the second; the condition is not differentiated.

    With the condition alone: the indices where it holds.
    """
    if not choices:
        from diffsim.numpy.indexing import nonzero

        return nonzero(condition)
    first, second = choices
    return wrap(ew.where(core(condition), core(first), core(second)))


def clip(x: Any, min: Any = None, max: Any = None, *, a_min: Any = None, a_max: Any = None) -> Any:
    """`x` held between two bounds; at a bound the derivative is that of `x`."""
    low, high = min if a_min is None else a_min, max if a_max is None else a_max
    if low is not None:
        x = maximum(x, low)
    return x if high is None else minimum(x, high)


def round(x: Any, decimals: int = 0) -> Any:
    """Rounded to some decimals; the derivative is zero."""
    return wrap(np.round(bottom(core(x)), decimals))


around = round


def fix(x: Any) -> Any:
    """Rounded towards zero; the derivative is zero."""
    return trunc(x)


def nan_to_num(x: Any, nan: float = 0.0, posinf: float | None = None, neginf: float | None = None) -> Any:
    """NaN and infinities replaced by numbers, whose derivative is zero."""
    value = bottom(core(x))
    replaced = np.nan_to_num(value, nan=nan, posinf=posinf, neginf=neginf)
    return where(np.isfinite(value), x, replaced)


def iscomplex(x: Any) -> Any:
    """Whether an entry has an imaginary part."""
    return wrap(np.iscomplex(bottom(core(x))))


def isreal(x: Any) -> Any:
    """Whether an entry has no imaginary part."""
    return wrap(np.isreal(bottom(core(x))))


def isclose(a: Any, b: Any, **tolerances: Any) -> Any:
    """As `numpy.isclose`."""
    return wrap(np.isclose(bottom(core(a)), bottom(core(b)), **tolerances))
