"""Operations entry by entry, each a line of a table: what NumPy does, and the partial derivatives as expressions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from diffsim.ad.core import Primitive, Tracer, bind, bottom
from diffsim.ad.ops.structure import astype, broadcast_to, conjugate, imag, like, real, unbroadcast

Partial = tuple[Callable[..., Any], str]
"""(x, y, ..., out) -> partial derivative, and which of them it reads: letters of "xyo"."""

TABLE: dict[str, Primitive] = {}
"""All elementwise primitives by name."""


def elementwise(name: str, evaluate: Callable[..., Any], *partials: Partial | None, singular: bool = False) -> Primitive:
    """Define a primitive.

    Args:
        name: NumPy's.
        evaluate: the NumPy function.
        partials: one an argument; None where the derivative is zero. The partial `ONE` stands for 1.
        singular: a partial derivative may be infinite or NaN. Then a cotangent or tangent of exactly 0 stays exactly 0.
    """

    def scaled(t: Any, partial: Partial, args: Any, out: Any) -> Any:
        if partial is ONE:
            return t
        if not singular:
            return t * partial[0](*args, out)
        with np.errstate(all="ignore"):
            p = partial[0](*args, out)
            if np.isfinite(bottom(p)).all():
                return t * p
            return where((t != 0) | isfinite(p), t * p, 0.0)

    def jvp(args: Any, tangents: Any, out: Any, params: Any) -> Any:
        total = None
        for partial, t in zip(partials, tangents, strict=True):
            if t is not None and partial is not None:
                term = scaled(t, partial, args, out)
                total = term if total is None else total + term
        if total is None:
            return None
        if total.shape != out.shape:
            total = broadcast_to(total, shape=out.shape)
        return like(total, out)

    def vjp(ct: Any, args: Any, out: Any, params: Any, wanted: Any) -> Any:
        return [
            unbroadcast(scaled(ct, partial, args, out), args[i]) if w and partial is not None else None
            for i, (partial, w) in enumerate(zip(partials, wanted, strict=True))
        ]

    def keeps(wanted: tuple[bool, ...]) -> tuple[Sequence[bool], bool]:
        reads = "".join(p[1] for p, w in zip(partials, wanted, strict=True) if w and p is not None)
        return tuple(letter in reads for letter in "xyz"[: len(partials)]), "o" in reads

    constant = all(p is None for p in partials)
    TABLE[name] = Primitive(name, evaluate, jvp=jvp, vjp=vjp, keeps=keeps, constant=constant)
    return TABLE[name]


ONE: Partial = (lambda *_: 1.0, "")

# arithmetic

add = elementwise("add", np.add, ONE, ONE)
subtract = elementwise("subtract", np.subtract, ONE, (lambda x, y, o: -1.0, ""))
multiply = elementwise("multiply", np.multiply, (lambda x, y, o: y, "y"), (lambda x, y, o: x, "x"))
divide = elementwise("divide", np.divide, (lambda x, y, o: 1.0 / y, "y"), (lambda x, y, o: -o / y, "yo"), singular=True)
negative = elementwise("negative", np.negative, (lambda x, o: -1.0, ""))
positive = elementwise("positive", np.positive, ONE)


def _power_x(x: Any, y: Any, o: Any) -> Any:
    if not isinstance(y, Tracer) and np.ndim(y) == 0:
        if y == 2:
            return 2.0 * x
        return 0.0 * x if y == 0 else y * power(x, y - 1)
    none = equal(y, 0)
    return where(none, 0.0, y * power(x, where(none, 1.0, y - 1)))


def _power_y(x: Any, y: Any, o: Any) -> Any:
    zero = equal(x, 0)
    return where(zero, 0.0, log(where(zero, 1.0, x)) * o)


power = elementwise("power", np.power, (_power_x, "xy"), (_power_y, "xo"), singular=True)
mod = elementwise("remainder", np.remainder, ONE, (lambda x, y, o: -floor(x / y), "xy"))
fmod = elementwise("fmod", np.fmod, ONE, (lambda x, y, o: -trunc(x / y), "xy"))
maximum = elementwise("maximum", np.maximum, (lambda x, y, o: astype(greater_equal(x, y), dtype=o.dtype), "xyo"), (lambda x, y, o: astype(less(x, y), dtype=o.dtype), "xyo"))
minimum = elementwise("minimum", np.minimum, (lambda x, y, o: astype(less_equal(x, y), dtype=o.dtype), "xyo"), (lambda x, y, o: astype(greater(x, y), dtype=o.dtype), "xyo"))
square = elementwise("square", np.square, (lambda x, o: 2.0 * x, "x"))
reciprocal = elementwise("reciprocal", np.reciprocal, (lambda x, o: -o * o, "o"), singular=True)


def _abs_partial(x: Any, o: Any) -> Any:
    if x.dtype.kind != "c":
        return sign(x)
    return conjugate(x) / where(equal(o, 0), 1.0, o)


absolute = elementwise("absolute", np.absolute, (_abs_partial, "xo"))
sqrt = elementwise("sqrt", np.sqrt, (lambda x, o: 0.5 / o, "o"), singular=True)
cbrt = elementwise("cbrt", np.cbrt, (lambda x, o: 1.0 / (3.0 * o * o), "o"), singular=True)


def _hypot_partial(x: Any, o: Any) -> Any:
    return x / where(equal(o, 0), 1.0, o)


hypot = elementwise("hypot", np.hypot, (lambda x, y, o: _hypot_partial(x, o), "xo"), (lambda x, y, o: _hypot_partial(y, o), "yo"))

# exponentials and logarithms

exp = elementwise("exp", np.exp, (lambda x, o: o, "o"))
exp2 = elementwise("exp2", np.exp2, (lambda x, o: o * float(np.log(2.0)), "o"))
expm1 = elementwise("expm1", np.expm1, (lambda x, o: o + 1.0, "o"))
log = elementwise("log", np.log, (lambda x, o: 1.0 / x, "x"), singular=True)
log2 = elementwise("log2", np.log2, (lambda x, o: float(1 / np.log(2.0)) / x, "x"), singular=True)
log10 = elementwise("log10", np.log10, (lambda x, o: float(1 / np.log(10.0)) / x, "x"), singular=True)
log1p = elementwise("log1p", np.log1p, (lambda x, o: 1.0 / (1.0 + x), "x"), singular=True)


def _share(x: Any, o: Any, function: Any) -> Any:
    """exp(x - o), where both may be minus infinity."""
    return function(x - where(equal(o, -np.inf), 0.0, o))


logaddexp = elementwise("logaddexp", np.logaddexp, (lambda x, y, o: _share(x, o, exp), "xo"), (lambda x, y, o: _share(y, o, exp), "yo"))
logaddexp2 = elementwise("logaddexp2", np.logaddexp2, (lambda x, y, o: _share(x, o, exp2), "xo"), (lambda x, y, o: _share(y, o, exp2), "yo"))

# trigonometry

sin = elementwise("sin", np.sin, (lambda x, o: cos(x), "x"))
cos = elementwise("cos", np.cos, (lambda x, o: -sin(x), "x"))
tan = elementwise("tan", np.tan, (lambda x, o: 1.0 + o * o, "o"))
arcsin = elementwise("arcsin", np.arcsin, (lambda x, o: 1.0 / sqrt(1.0 - x * x), "x"), singular=True)
arccos = elementwise("arccos", np.arccos, (lambda x, o: -1.0 / sqrt(1.0 - x * x), "x"), singular=True)
arctan = elementwise("arctan", np.arctan, (lambda x, o: 1.0 / (1.0 + x * x), "x"))
arctan2 = elementwise(
    "arctan2", np.arctan2, (lambda x, y, o: y / (x * x + y * y), "xy"), (lambda x, y, o: -x / (x * x + y * y), "xy"), singular=True
)
sinh = elementwise("sinh", np.sinh, (lambda x, o: cosh(x), "x"))
cosh = elementwise("cosh", np.cosh, (lambda x, o: sinh(x), "x"))
tanh = elementwise("tanh", np.tanh, (lambda x, o: 1.0 - o * o, "o"))
arcsinh = elementwise("arcsinh", np.arcsinh, (lambda x, o: 1.0 / sqrt(1.0 + x * x), "x"))
arccosh = elementwise("arccosh", np.arccosh, (lambda x, o: 1.0 / (sqrt(x - 1.0) * sqrt(x + 1.0)), "x"), singular=True)
arctanh = elementwise("arctanh", np.arctanh, (lambda x, o: 1.0 / (1.0 - x * x), "x"), singular=True)
deg2rad = elementwise("deg2rad", np.deg2rad, (lambda x, o: float(np.pi / 180), ""))
rad2deg = elementwise("rad2deg", np.rad2deg, (lambda x, o: float(180 / np.pi), ""))
copysign = elementwise("copysign", np.copysign, (lambda x, y, o: where(equal(signbit(x), signbit(y)), 1.0, -1.0), "xy"), None)

# choice


def _where_jvp(args: Any, tangents: Any, out: Any, params: Any) -> Any:
    _, x, y = tangents
    if x is None and y is None:
        return None
    chosen = where(args[0], 0.0 if x is None else x, 0.0 if y is None else y)
    return like(chosen if chosen.shape == out.shape else broadcast_to(chosen, shape=out.shape), out)


def _where_vjp(ct: Any, args: Any, out: Any, params: Any, wanted: Any) -> Any:
    c, x, y = args
    x_bar = unbroadcast(where(c, ct, 0.0), x) if wanted[1] else None
    return None, x_bar, unbroadcast(where(c, 0.0, ct), y) if wanted[2] else None


where = Primitive("where", lambda c, x, y: np.where(c, x, y)[()], jvp=_where_jvp, vjp=_where_vjp, keeps=lambda wanted: ((True, False, False), False))
TABLE["where"] = where

# steps and comparisons: no derivative

_CONSTANT = (
    "floor ceil trunc rint sign heaviside floor_divide equal not_equal less less_equal greater greater_equal logical_and logical_or "
    "logical_xor logical_not isfinite isinf isnan signbit bitwise_and bitwise_or bitwise_xor invert left_shift right_shift gcd lcm "
    "nextafter spacing"
).split()
for _name in _CONSTANT:
    elementwise(_name, getattr(np, _name), *(None,) * getattr(np, _name).nin)

floor, trunc, sign = TABLE["floor"], TABLE["trunc"], TABLE["sign"]
equal, not_equal, less, less_equal = TABLE["equal"], TABLE["not_equal"], TABLE["less"], TABLE["less_equal"]
greater, greater_equal, isfinite, signbit = TABLE["greater"], TABLE["greater_equal"], TABLE["isfinite"], TABLE["signbit"]
logical_or = TABLE["logical_or"]
TABLE |= {"conjugate": conjugate, "real": real, "imag": imag}


# rules are written with operators


def _operator(primitive: Primitive, swapped: bool = False) -> Callable[[Any, Any], Any]:
    if swapped:
        return lambda a, b: bind(primitive, (b, a), {})
    return lambda a, b: bind(primitive, (a, b), {})


OPERATORS = {
    "add": add, "sub": subtract, "mul": multiply, "truediv": divide, "pow": power, "mod": mod, "floordiv": TABLE["floor_divide"],
    "and": TABLE["bitwise_and"], "or": TABLE["bitwise_or"], "xor": TABLE["bitwise_xor"], "lshift": TABLE["left_shift"],
    "rshift": TABLE["right_shift"],
}  # fmt: skip
"""Python's binary operators."""
COMPARISONS = {"lt": less, "le": less_equal, "gt": greater, "ge": greater_equal, "eq": equal, "ne": not_equal}

for _name, _primitive in OPERATORS.items():
    setattr(Tracer, f"__{_name}__", _operator(_primitive))
    setattr(Tracer, f"__r{_name}__", _operator(_primitive, swapped=True))
for _name, _primitive in COMPARISONS.items():
    setattr(Tracer, f"__{_name}__", _operator(_primitive))
Tracer.__neg__ = lambda self: bind(negative, (self,), {})  # type: ignore[attr-defined]
