"""Operations entry by entry, each a line of a table: NumPy's function, and the partial derivatives as expressions.

Elementary functions are those of `diffsim.elementwise`; arithmetic, choices, kinks and steps are here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from types import SimpleNamespace
from typing import Any

import numpy as np

from diffsim.ad.core import Primitive, Tracer, bind, bottom, is_empty, is_finite, is_known, is_plain, local
from diffsim.ad.ops.structure import astype, broadcast_to, conjugate, imag, like, real, unbroadcast
from diffsim.base import buffers
from diffsim.elementwise.function import Partial as TablePartial
from diffsim.elementwise.function import read_by
from diffsim.elementwise.table import FUNCTIONS
from diffsim.errors import DerivativeError

Partial = tuple[Callable[..., Any], str]
"""(x, y, ..., out) -> partial derivative, and which of them it reads: letters of "xyo"."""

_product = buffers.reusing(np.multiply)


def _plain_product(t: Any, p: Any) -> Any:
    return _product(t, p) if isinstance(t, np.ndarray) and isinstance(p, np.ndarray) else t * p


def _carried(ct: Any, p: Any) -> Any:
    """A cotangent times a partial derivative. Times the ones that come from a sum, that is the partial derivative itself."""
    alike = type(ct) is np.ndarray and type(p) is np.ndarray and ct.shape == p.shape and ct.dtype == p.dtype
    if alike and ct.dtype.kind == "f" and ct.size and not any(ct.strides) and ct.flat[0] == 1:
        return p.view()  # a view, so that it is copied before it is a result while anybody refers to `p`
    return _plain_product(ct, p)


TABLE: dict[str, Primitive] = {}
"""All elementwise primitives by name."""


def elementwise(name: str, evaluate: Callable[..., Any], *partials: Partial | None, singular: bool = False) -> Primitive:
    """Define a primitive.

    Args:
        name: NumPy's.
        evaluate: the NumPy function.
        partials: one an argument; None where the derivative is zero. The partial `ONE` stands for 1.
        singular: a partial derivative may be infinite or NaN where the value is finite, also by overflow. Then a tangent of exactly 0
            stays exactly 0. (A cotangent does for every function: see `diffsim.ad.transforms.sweep`.)
    """

    def along(t: Any, partial: Partial, args: Any, out: Any) -> Any:
        """A tangent times a partial derivative."""
        if partial is ONE:
            return t
        if local.moving:
            with np.errstate(all="ignore"):
                return moved(name, t, partial[0](*args, out))
        if not singular:
            return _plain_product(t, partial[0](*args, out))
        with np.errstate(all="ignore"):
            p = partial[0](*args, out)
            if is_finite(p):
                return t * p
            note(name, t, p)
            return scale(t, p)

    def jvp(args: Any, tangents: Any, out: Any, params: Any) -> Any:
        total = None
        for partial, t in zip(partials, tangents, strict=True):
            if t is not None and partial is not None:
                term = along(t, partial, args, out)
                total = term if total is None else total + term
        if total is None:
            return None
        if total.shape != out.shape:
            total = broadcast_to(total, shape=out.shape)
        return like(total, out)

    def vjp(ct: Any, args: Any, out: Any, params: Any, wanted: Any) -> Any:
        return [
            unbroadcast(ct if partial is ONE else pulled(name, ct, partial[0](*args, out)), args[i]) if w and partial is not None else None
            for i, (partial, w) in enumerate(zip(partials, wanted, strict=True))
        ]

    def keeps(wanted: tuple[bool, ...]) -> tuple[Sequence[bool], bool]:
        reads = "".join(p[1] for p, w in zip(partials, wanted, strict=True) if w and p is not None)
        return tuple(letter in reads for letter in "xyz"[: len(partials)]), "o" in reads

    def live(entries: Any, args: Any, params: Any, parents: Any) -> list[Any]:
        pairs = zip(partials, parents, strict=True)
        return [None if parent is None or p is None else _read(entries, p, args, parents) for p, parent in pairs]

    constant = all(p is None for p in partials)
    if isinstance(evaluate, np.ufunc) and not constant:
        evaluate = buffers.reusing(evaluate)
    TABLE[name] = Primitive(name, evaluate, jvp=jvp, vjp=vjp, keeps=keeps, live=live, constant=constant)
    return TABLE[name]


def _read(live: Any, partial: Partial, args: Any, parents: Any) -> Any:
    """Which entries the live ones of a value read: not those times a constant 0."""
    read = [k for k, letter in enumerate("xyz"[: len(args)]) if letter in partial[1]]
    if not read or "o" in partial[1] or any(parents[k] is not None for k in read) or not is_plain(*(args[k] for k in read)):
        return live
    with np.errstate(all="ignore"):
        return live & (partial[0](*args, None) != 0)


POINTS = {"power", "divide", "reciprocal"} | {name for name, each in FUNCTIONS.items() if each.slope == "infinite"}
"""Functions whose derivative is infinite at a point. (Those that overflow far away have limits there.)"""
KINK = "a kink"
KINKS = {"absolute", "hypot", "a norm or a standard deviation", KINK}
"""Functions whose derivative jumps at a point, where it is 0 by convention."""


def _in_tile(t: Any, p: Any) -> bool:
    """True if these are real values of a tile program, by which nothing can be decided."""
    return not is_known(t, p) and all(np.result_type(getattr(x, "dtype", float)).kind != "c" for x in (t, p))


def note(name: str, t: Any, p: Any) -> None:
    """Note that a tangent of 0 has met an infinite derivative, for `jvp` to test whether that is by its value."""
    if name in POINTS and not local.sweeping and is_known(t, p) and np.any((bottom(t) == 0) & np.isinf(bottom(p))):
        local.met = name
    elif name in POINTS and local.noted is not None and _in_tile(t, p):
        local.noted.append((name, where(TABLE["isinf"](p), where(equal(t, 0.0), 1.0, 0.0), 0.0)))


def moved(name: str, t: Any, p: Any) -> Any:
    """Where the value of a function is moved, by where its argument is; NaN where its derivative is infinite."""
    size = absolute(t)
    if name in POINTS and _in_tile(t, p):
        return where(TABLE["isinf"](p), where(equal(t, 0.0), size, np.nan), size)
    return where(np.isinf(bottom(p)) & (bottom(t) != 0), np.nan, size) if name in POINTS and is_known(t, p) else size


def pulled(name: str, ct: Any, p: Any) -> Any:
    """A cotangent times a partial derivative of a function."""
    if not local.zero_wins:
        return _carried(ct, p)
    if local.live is not None and name in POINTS | KINKS and is_known(ct, p):
        _require_known(name, ct, p)
    if local.live is not None and name in POINTS and _in_tile(ct, p):  # a zero by its value does not win
        return where(local.live.entries, ct * p, scale(ct, p))
    if name in KINKS and not is_known(ct, p):  # in a tile program: a zero does not win over an undefined derivative of p
        finite = isfinite(p)
        return where(finite, ct * where(finite, p, 0.0), scale(ct, p))
    return scale(ct, p)


def _require_known(name: str, ct: Any, p: Any) -> None:
    """Raise where a cotangent that is 0 by its value, and not because nothing reads the entry, meets an infinite derivative."""
    doubtful, nested = False, not is_plain(ct, p)
    while isinstance(p, Tracer):
        tangent = getattr(p, "tangent", None)
        doubtful = doubtful | (~np.isfinite(bottom(tangent)) if tangent is not None else False)
        p = p.primal
    if name in KINKS:
        lost, what = local.live.entries & (np.isnan(p) if name == KINK else doubtful & np.isfinite(p)), "the second derivative at a kink"
        what += " (of an absolute value, a norm or a standard deviation)" if name == KINK else f" of {name}"
        way = "take an even power in one expression (norm(x)**2)"
    else:
        lost = local.live.entries & (bottom(ct) == 0) & (doubtful | np.isinf(p))
        if np.any(lost) and not nested and not local.live.varies():
            return
        what, way = f"the product of 0 and an infinite derivative of {name}", "take a power in one expression (sqrt(x)**2)"
    if np.any(lost):
        place = f" at index {tuple(int(i) for i in np.argwhere(lost)[0])}" if np.ndim(lost) else ""
        raise DerivativeError(
            f"{what} is not defined{place}, expected arguments at which it is; {way}, choose entries with numpy.where, or move off "
            "that argument"
        )


ONE: Partial = (lambda *_: 1.0, "")

# arithmetic

add: Primitive = elementwise("add", np.add, ONE, ONE)
subtract: Primitive = elementwise("subtract", np.subtract, ONE, (lambda x, y, o: -1.0, ""))
multiply: Primitive = elementwise("multiply", np.multiply, (lambda x, y, o: y, "y"), (lambda x, y, o: x, "x"))


def _inverse(y: Any) -> Any:
    """1 / y; of a Python number a Python number, which does not widen its factor."""
    return 1.0 / y if type(y) in (int, float) and y else divide(1.0, y)


divide: Primitive = elementwise("divide", np.divide, (lambda x, y, o: _inverse(y), "y"), (lambda x, y, o: -o / y, "yo"), singular=True)
negative: Primitive = elementwise("negative", np.negative, (lambda x, o: -1.0, ""))
positive: Primitive = elementwise("positive", np.positive, ONE)


def _power_x(x: Any, y: Any, o: Any) -> Any:
    if type(y) in (int, float) or (not isinstance(y, Tracer) and np.ndim(y) == 0):
        if y == 2:
            return 2.0 * x
        return 0.0 * x if y == 0 else y * power(x, y - 1)
    none = equal(y, 0)
    return where(none, 0.0, y * power(x, where(none, 1.0, y - 1)))


def _power_y(x: Any, y: Any, o: Any) -> Any:
    zero = equal(x, 0)
    return where(zero, 0.0, log(where(zero, 1.0, x)) * o)


power: Primitive = elementwise("power", np.power, (_power_x, "xy"), (_power_y, "xo"), singular=True)
mod: Primitive = elementwise("remainder", np.remainder, ONE, (lambda x, y, o: -floor(x / y), "xy"))
fmod: Primitive = elementwise("fmod", np.fmod, ONE, (lambda x, y, o: -trunc(x / y), "xy"))


def _choice(name: str, evaluate: np.ufunc, first: Callable[[Any, Any], Any]) -> Primitive:
    """A choice between two entries; `first` says where it is the first one, which of equal ones it must be."""

    def jvp(args: Any, tangents: Any, out: Any, params: Any) -> Any:
        return _where_jvp((first(*args), *args), (None, *tangents), out, params)

    def vjp(ct: Any, args: Any, out: Any, params: Any, wanted: Any) -> Any:
        is_first = first(*args)
        if local.zero_wins:  # an infinite cotangent as well ends where another entry was chosen
            return _where_vjp(ct, (is_first, *args), out, params, (False, *wanted))[1:]
        chosen = is_first, logical_not(is_first)
        return [
            unbroadcast(_plain_product(ct, astype(c, dtype=ct.dtype)), x) if w else None
            for c, x, w in zip(chosen, args, wanted, strict=True)
        ]

    def live(entries: Any, args: Any, params: Any, parents: Any) -> list[Any]:
        if not is_known(*args):
            return [entries, entries]
        is_first = bottom(first(*args))
        return [entries & is_first, entries & ~is_first]

    keeps = lambda wanted: ((True, True), False)  # noqa: E731
    TABLE[name] = Primitive(name, buffers.reusing(evaluate), jvp=jvp, vjp=vjp, keeps=keeps, live=live)
    return TABLE[name]


maximum: Primitive = _choice("maximum", np.maximum, lambda x, y: logical_or(greater_equal(x, y), isnan(x)))
minimum: Primitive = _choice("minimum", np.minimum, lambda x, y: logical_or(less_equal(x, y), isnan(x)))
fmax: Primitive = _choice("fmax", np.fmax, lambda x, y: logical_or(greater_equal(x, y), isnan(y)))
fmin: Primitive = _choice("fmin", np.fmin, lambda x, y: logical_or(less_equal(x, y), isnan(y)))
square: Primitive = elementwise("square", np.square, (lambda x, o: 2.0 * x, "x"))
reciprocal: Primitive = elementwise("reciprocal", np.reciprocal, (lambda x, o: -1.0 / (x * x), "x"), singular=True)


def _with_kink(p: Any, x: Any, r: Any) -> Any:
    """A partial derivative that is 0 by convention where r is 0, and whose own derivative for x is infinite there."""
    at = equal(r, 0)
    if is_empty(at):
        return p
    return where(at, kink(x), p)


def _abs_partial(x: Any, o: Any) -> Any:
    if x.dtype.kind != "c":
        return _with_kink(sign(x), x, x)
    return _with_kink(conjugate(x) / where(equal(o, 0), 1.0, o), x, o)


kink: Primitive = elementwise(KINK, np.zeros_like, (lambda x, o: np.full(x.shape, np.nan, x.dtype), "x"))
"""0 with an undefined derivative: the partial derivative of a function at its kink.

Also along a tangent of 0: the argument may be of second order, as that of abs(x * x) at x = 0, whose second derivative is 2.
"""
absolute: Primitive = elementwise("absolute", np.absolute, (_abs_partial, "xo"))


def _hypot_partial(x: Any, o: Any) -> Any:
    return _with_kink(x / where(equal(o, 0), 1.0, o), x, o)


hypot: Primitive = elementwise(
    "hypot", np.hypot, (lambda x, y, o: _hypot_partial(x, o), "xo"), (lambda x, y, o: _hypot_partial(y, o), "yo")
)


def _root_or_zero(x: Any, exponent: Any) -> Any:
    none = np.equal(x, 0)
    return np.where(none, 0.0, np.where(none, 1.0, x) ** exponent)[()]


def _slope(x: Any, e: Any, o: Any) -> Any:
    none = equal(x, 0)
    return _with_kink(e * where(none, 1.0, x) ** (e - 1), x, x)


root_or_zero: Primitive = elementwise("a norm or a standard deviation", _root_or_zero, (_slope, "xy"), None)
"""x to an exponent (a number), with the derivative 0 where x is 0: a norm, made of a sum of powers."""

# elementary functions

_operations = SimpleNamespace()
"""The operations by name, for the partial derivatives of the table of functions."""


def _of_table(partial: TablePartial, count: int) -> Partial:
    read = read_by(partial)
    places = ["xyz"[:count].index(one) if one != "o" else -1 for one in read]
    return lambda *values: partial(_operations, *(values[place] for place in places)), "".join(read)


for _function in FUNCTIONS.values():
    _partials = (_of_table(partial, _function.count) for partial in _function.partials)
    elementwise(_function.name, _function.reference, *_partials, singular=_function.singular)
sqrt, cbrt, exp, exp2, expm1 = TABLE["sqrt"], TABLE["cbrt"], TABLE["exp"], TABLE["exp2"], TABLE["expm1"]
log, log2, log1p, sin, cos = TABLE["log"], TABLE["log2"], TABLE["log1p"], TABLE["sin"], TABLE["cos"]
sinh, cosh, arctan2 = TABLE["sinh"], TABLE["cosh"], TABLE["arctan2"]


def _share(x: Any, o: Any, function: Any) -> Any:
    """exp(x - o), where both may be minus infinity."""
    return function(x - where(equal(o, -np.inf), 0.0, o))


logaddexp: Primitive = elementwise(
    "logaddexp", np.logaddexp, (lambda x, y, o: _share(x, o, exp), "xo"), (lambda x, y, o: _share(y, o, exp), "yo")
)
logaddexp2: Primitive = elementwise(
    "logaddexp2", np.logaddexp2, (lambda x, y, o: _share(x, o, exp2), "xo"), (lambda x, y, o: _share(y, o, exp2), "yo")
)
heaviside: Primitive = elementwise("heaviside", np.heaviside, None, (lambda x, y, o: astype(equal(x, 0), dtype=o.dtype), "xo"))
copysign: Primitive = elementwise("copysign", np.copysign, (lambda x, y, o: where(equal(signbit(x), signbit(y)), 1.0, -1.0), "xy"), None)

# modified Bessel functions


def _bessel_values(order: int) -> Callable[[Any], Any]:
    def values(x: Any) -> Any:
        from scipy.special import iv

        values = np.i0(x)[()] if order == 0 else iv(order, x)
        return values.astype(x.dtype, copy=False) if hasattr(x, "dtype") else values

    return values


@cache
def bessel_i(order: int) -> Primitive:
    """The modified Bessel function of the first kind of a whole order. Its derivative is the mean of those of the orders beside it."""

    def partial(x: Any, o: Any) -> Any:
        return bessel_i(1)(x) if order == 0 else 0.5 * (bessel_i(order - 1)(x) + bessel_i(order + 1)(x))

    return elementwise(f"bessel_i{order}", _bessel_values(order), (partial, "x"), singular=True)


bessel_i(0)

# powers of 2


def _ldexp_jvp(args: Any, tangents: Any, out: Any, params: Any) -> Any:
    t = tangents[0]
    return None if t is None else like(ldexp(t, args[1]), out)


def _ldexp_vjp(ct: Any, args: Any, out: Any, params: Any, wanted: Any) -> Any:
    return unbroadcast(ldexp(ct, args[1]), args[0]) if wanted[0] else None, None


ldexp: Primitive = Primitive("ldexp", np.ldexp, jvp=_ldexp_jvp, vjp=_ldexp_vjp, keeps=lambda wanted: ((False, True), False))
TABLE["ldexp"] = ldexp

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


def _where_live(entries: Any, args: Any, params: Any, parents: Any) -> list[Any]:
    condition = np.asarray(bottom(args[0]), bool) if is_known(args[0]) else None
    return [None, entries, entries] if condition is None else [None, entries & condition, entries & ~condition]


where: Primitive = Primitive(
    "where",
    lambda c, x, y: np.where(c, x, y),
    jvp=_where_jvp,
    vjp=_where_vjp,
    keeps=lambda wanted: ((True, False, False), False),
    live=_where_live,
)
TABLE["where"] = where

# products in which zero wins


def _scaled(t: Any, p: Any) -> Any:
    with np.errstate(all="ignore"):
        product = t * p
        none = (t == 0) & ~np.isfinite(p)
    return np.where(none, product.dtype.type(0), product)[()] if np.any(none) else product


def _cut(t: Any, p: Any) -> Any:
    """`p`, but 0 where it is infinite or NaN and `t` is 0."""
    return where(logical_or(not_equal(t, 0), isfinite(p)), p, 0.0)


def _scale_jvp(args: Any, tangents: Any, out: Any, params: Any) -> Any:
    (t, p), (t_dot, p_dot) = args, tangents
    parts = [*([] if t_dot is None else [scale(t_dot, _cut(t, p))]), *([] if p_dot is None else [scale(t, p_dot)])]
    total = parts[0] if len(parts) == 1 else parts[0] + parts[1]
    return like(total if total.shape == out.shape else broadcast_to(total, shape=out.shape), out)


def _scale_vjp(ct: Any, args: Any, out: Any, params: Any, wanted: Any) -> Any:
    t, p = args
    return (
        unbroadcast(scale(ct, _cut(t, p)), t) if wanted[0] else None,
        unbroadcast(scale(t, ct), p) if wanted[1] else None,
    )


def _scale_live(entries: Any, args: Any, params: Any, parents: Any) -> list[Any]:
    """A product that was cut off reads neither factor: that the zero counts was decided when it was made."""
    t, p = (bottom(a) for a in args)
    goes_on = entries & ((t != 0) | np.isfinite(p)) if is_known(*args) else entries
    return [goes_on, goes_on]


scale: Primitive = Primitive("scale", _scaled, jvp=_scale_jvp, vjp=_scale_vjp, live=_scale_live)
"""The product of a cotangent (or tangent) and a partial derivative: 0 where the first is 0, whatever the second. Nothing goes back
through a product that was cut off so."""

# steps and comparisons: no derivative


def _constant(name: str) -> Primitive:
    function = getattr(np, name)
    return elementwise(name, function, *(None,) * function.nin)


for _name in ("ceil", "rint", "floor_divide", "logical_and", "logical_xor", "isinf", "gcd", "lcm"):
    _constant(_name)
for _name in ("bitwise_and", "bitwise_or", "bitwise_xor", "invert", "left_shift", "right_shift"):
    _constant(_name)
floor: Primitive = _constant("floor")
trunc: Primitive = _constant("trunc")
sign: Primitive = _constant("sign")
signbit: Primitive = _constant("signbit")
isfinite: Primitive = _constant("isfinite")
isnan: Primitive = _constant("isnan")
equal: Primitive = _constant("equal")
not_equal: Primitive = _constant("not_equal")
less: Primitive = _constant("less")
less_equal: Primitive = _constant("less_equal")
greater: Primitive = _constant("greater")
greater_equal: Primitive = _constant("greater_equal")
logical_or: Primitive = _constant("logical_or")
logical_not: Primitive = _constant("logical_not")
TABLE |= {"conjugate": conjugate, "real": real, "imag": imag}
vars(_operations).update(TABLE)


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
setattr(Tracer, "__neg__", lambda self: bind(negative, (self,), {}))  # noqa: B010 -- the class does not declare it
