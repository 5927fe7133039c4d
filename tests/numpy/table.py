"""The table: every public function, operator and method that has a derivative, in the variants that matter."""

from __future__ import annotations

import operator
from typing import Any

import numpy

from .entry import (
    Argument,
    Table,
    apart,
    complex_normal,
    complex_regular,
    complex_ring,
    definite,
    graded,
    increasing,
    normal,
    positive,
    regular,
    scalar,
    uniform,
)

TABLE = Table()
call, add = TABLE.call, TABLE.add

# Entry by entry: for each function the domains of its arguments.
_ANY, _POSITIVE, _INSIDE, _ABOVE = (-2.0, 2.0), (0.5, 2.0), (-0.8, 0.8), (1.2, 3.0)
_UNARY = {
    **dict.fromkeys(["negative", "positive", "square", "exp", "exp2", "expm1", "sin", "cos", "arctan", "atan"], _ANY),
    **dict.fromkeys(["sinh", "cosh", "tanh", "arcsinh", "asinh", "deg2rad", "rad2deg", "radians", "degrees", "sinc"], _ANY),
    **dict.fromkeys(["sqrt", "cbrt", "log", "log2", "log10", "log1p", "reciprocal"], _POSITIVE),
    **dict.fromkeys(["tan", "arcsin", "arccos", "arctanh", "asin", "acos", "atanh"], _INSIDE),
    **dict.fromkeys(["arccosh", "acosh"], _ABOVE),
}
for _name, _domain in _UNARY.items():
    call(_name, uniform(*_domain, 2, 3))
    call(_name, scalar(*_domain))
for _name in ("absolute", "abs", "fabs"):
    call(_name, apart(2, 3))
    call(_name, apart(1))
for _name in ("conjugate", "conj", "real", "imag", "angle", "nan_to_num"):
    call(_name, apart(2, 3))
for _name in ("exp", "log", "sin", "cos", "tan", "tanh", "sinh", "cosh", "sqrt", "square", "reciprocal", "absolute"):
    call(_name, complex_ring(2, 3), options={"single": False})
for _name in ("arcsin", "arccos", "arctan", "arcsinh", "arccosh", "arctanh", "log1p", "expm1", "negative", "exp2", "log2", "log10"):
    call(_name, complex_ring(3), options={"single": False})
for _name in ("conjugate", "real", "imag", "angle", "sign", "positive"):
    call(_name, complex_ring(2, 3), options={"single": False})
call("angle", complex_ring(3), deg=True, options={"single": False})

_BINARY = {
    **dict.fromkeys(["add", "subtract", "multiply", "logaddexp", "logaddexp2"], (_ANY, _ANY)),
    **dict.fromkeys(["arctan2", "atan2", "hypot"], (_ANY, (-2.0, -0.5))),
    **dict.fromkeys(["maximum", "fmax", "copysign"], (_POSITIVE, (0.1, 0.4))),
    **dict.fromkeys(["minimum", "fmin"], (_POSITIVE, (-2.0, -0.1))),
    **dict.fromkeys(["divide", "true_divide"], (_ANY, _POSITIVE)),
    **dict.fromkeys(["power", "pow", "float_power"], (_POSITIVE, _ANY)),
    **dict.fromkeys(["remainder", "mod", "fmod"], ((4.2, 4.4), (0.9, 1.0))),
}
for _name, (_first, _second) in _BINARY.items():
    call(_name, uniform(*_first, 2, 3), uniform(*_second, 2, 3))
    call(_name, uniform(*_first, 3), uniform(*_second, 4, 1))
    call(_name, uniform(*_first, 2, 1, 3), uniform(*_second, 1))
    call(_name, uniform(*_first, 0, 3), uniform(*_second, 1, 3))
    call(_name, scalar(*_first), uniform(*_second, 2).every_other())
    call(_name, scalar(*_first), scalar(*_second))
    call(_name, 4.3 if _name in ("remainder", "mod", "fmod") else 1.5, uniform(*_second, 3))
    call(_name, uniform(*_first, 3), 0.95)
for _name in ("maximum", "minimum", "fmax", "fmin"):
    call(_name, apart(4), numpy.array([0.05, -0.05, 9.0, -9.0]))
    call(_name, numpy.array([0.05, -0.05, 9.0, -9.0]), apart(4))
for _name in ("add", "subtract", "multiply", "divide", "power"):
    call(_name, complex_ring(2, 1), complex_ring(3), options={"single": False})
    call(_name, positive(2), complex_ring(2), options={"single": False})
for _exponent in (0, 1, 2, 3, -1, 2.0, 0.5, -1.5, numpy.array([0, 1, 2])):
    call("power", positive(3), _exponent)
call("power", apart(3), 3)
call("heaviside", apart(3), normal(3), options={"constant": True})
for _name in ("add", "multiply", "maximum"):
    add(_name, lambda np, x, y, n=_name: getattr(np, n).outer(x, y), (normal(2), normal(3)), "outer")
for _name in ("add", "multiply", "maximum", "minimum"):
    add(_name, lambda np, x, n=_name: getattr(np, n).reduce(x), (apart(3, 2),), "reduce")
    add(_name, lambda np, x, n=_name: getattr(np, n).accumulate(x, axis=1), (apart(3, 2),), "accumulate")
add("divmod", lambda np, x, y: np.divmod(x, y), (uniform(4.2, 4.4, 2, 3), uniform(0.9, 1.0, 3)))
call("modf", uniform(1.2, 1.8, 3))
call("frexp", apart(2, 3))
call("frexp", scalar(0.2, 9.0))
call("ldexp", normal(2, 3), numpy.array([1, -2, 0]))
call("ldexp", normal(3), 4)
call("ldexp", scalar(0.1, 1.0), numpy.array([[1], [2]]))
for _low, _high in ((-2.0, 2.0), (6.0, 10.0)):
    call("i0", uniform(_low, _high, 2, 3))
    call("i0", scalar(_low, _high))
call("i0", uniform(-1.0, 1.0, 3, 2).every_other())
call("sin", normal(3), dtype=numpy.float64, options={"single": False})

# choice
add("where", lambda np, x, y: np.where(np.array([True, False, True]), x, y), (normal(3), normal(2, 3)))
add("where", lambda np, x: np.where(x > 0, x, 0.0), (apart(2, 3),))
add("where", lambda np, x: np.where(True, x, 1.0), (normal(),))
call("clip", apart(3, 2), -0.5, 0.6)
call("clip", apart(3, 2), normal(2), None)
call("clip", apart(3, 2), min=0.0, max=1.0)
call("select", [numpy.array([True, False, False]), numpy.array([True, True, False])], [1.0, 2.0], options={"constant": True})
add("select", lambda np, x, y: np.select([np.asarray(x) > 0, np.asarray(x) < -1.0], [x, y], 0.0), (apart(4), normal(4)), dispatch=False)
add("choose", lambda np, x, y: np.choose(np.array([0, 1, 1]), [x, y]), (normal(3), normal(2, 3)))
add("choose", lambda np, x, y: np.choose(np.array([5, -1]), [x, y], mode="clip"), (normal(2), normal(2)))
add("vectorize", lambda np, x, y: np.vectorize(lambda a, b: a * np.sin(b) if a > 0 else b)(x, y), (apart(3, 1), normal(4)), dispatch=False)
add("apply_along_axis", lambda np, x: np.apply_along_axis(lambda v: v[:2] * np.sum(v), 1, x), (normal(2, 3, 2),))
add("apply_along_axis", lambda np, x: np.apply_along_axis(lambda v: np.sum(v**2), 0, x), (normal(3, 2),), "to numbers")
add("piecewise", lambda np, x: np.piecewise(x, [x < 0, x > 1.0], [lambda t: t * t, np.sqrt, 0.5]), (apart(2, 4),))
call("compress", [True, False, True], normal(3, 2), axis=0)
call("extract", numpy.array([[True, False], [False, True]]), normal(2, 2))

# making
call("array", normal(2, 3), options={"dispatch": False})
call("asarray", normal(2, 3), options={"dispatch": False})
for _name in ("asanyarray", "ascontiguousarray", "asfortranarray"):
    call(_name, normal(2, 2), options={"dispatch": False})
add("array", lambda np, x, y: np.array([[x, 1.0], [y, x * y]]), (scalar(0, 1), scalar(0, 1)), "nested", dispatch=False)
add("array", lambda np, x: np.array(x, ndmin=3), (normal(2),), "ndmin", dispatch=False)
call("copy", normal(2, 3).every_other())
add("full", lambda np, x: np.full((2, 3), x), (scalar(0, 1),), dispatch=False)
add("full_like", lambda np, x: np.full_like(np.ones(3), x), (scalar(0, 1),), dispatch=False)
for _name in ("zeros", "empty"):
    add(_name, lambda np, x, n=_name: _filled(getattr(np, n)(3), x), (normal(3),), dispatch=False)
for _name in ("zeros_like", "empty_like", "ones_like"):
    add(_name, lambda np, x, n=_name: _filled(getattr(np, n)(x), x), (normal(3),))


def _filled(made: Any, x: Any) -> Any:
    made[:] = x
    return made


call("linspace", scalar(0, 1), scalar(2, 3), 5)
call("linspace", scalar(0, 1), 2.0, 4, endpoint=False)
call("linspace", normal(2), normal(2), 3, axis=1)
call("linspace", scalar(0, 1), scalar(2, 3), 1)
call("linspace", scalar(0, 1), scalar(2, 3), 4, retstep=True)
call("logspace", scalar(0, 1), scalar(1, 2), 4)
call("logspace", 0.0, scalar(1, 2), 3, base=2.0)
call("geomspace", scalar(0.5, 1), scalar(2, 3), 4)
call("geomspace", scalar(-1, -0.5), -3.0, 3)
add("arange", lambda np, x: np.arange(x, 3.0, 0.7), (scalar(0.1, 0.2),), dispatch=False)
add("meshgrid", lambda np, x, y: np.meshgrid(x, y), (normal(2), normal(3)))
add("meshgrid", lambda np, x, y: np.meshgrid(x, y, indexing="ij", sparse=True), (normal(2), normal(3)))
add("fromfunction", lambda np, x: np.fromfunction(lambda i, j: i * x + j, (2, 3)), (scalar(0, 1),))

# shapes
call("reshape", normal(2, 3), (3, 2))
call("reshape", normal(2, 3), -1)
call("reshape", normal(2, 3), (3, -1), order="F")
call("reshape", normal(0, 3), (3, 0))
call("reshape", normal(1), ())
call("reshape", normal(3, 2).every_other(), 6)
call("ravel", normal(2, 3))
call("ravel", normal(2, 3), order="F")
add("ravel", lambda np, x: np.ravel(x.T), (normal(2, 3),), "of a transpose")
call("transpose", normal(2, 3, 4))
for _name in ("transpose", "permute_dims"):
    call(_name, normal(2, 3, 4), (1, -1, 0))
call("matrix_transpose", normal(2, 3, 4))
call("swapaxes", normal(2, 3, 4), 0, -1)
call("moveaxis", normal(2, 3, 4), 0, -1)
call("moveaxis", normal(2, 3, 4), (0, 1), (-1, 0))
for _start in (0, 1, 3, -1):
    call("rollaxis", normal(2, 3, 4), 1, _start)
call("expand_dims", normal(2, 3), 1)
call("expand_dims", normal(2, 3), (0, -1))
call("expand_dims", normal(), 0)
call("squeeze", normal(1, 3, 1))
call("squeeze", normal(1, 3, 1), axis=-1)
call("squeeze", normal(1, 1))
call("broadcast_to", normal(3, 1), (2, 3, 4))
call("broadcast_to", normal(1), 4)
call("broadcast_to", scalar(0, 1), (2, 2))
add("broadcast_arrays", lambda np, x, y: np.broadcast_arrays(x, y), (normal(3, 1), normal(2)))
for _name in ("atleast_1d", "atleast_2d", "atleast_3d"):
    for _shape in ((), (2,), (2, 3), (2, 1, 3)):
        call(_name, normal(*_shape))
    call(_name, normal(), normal(2))
add("astype", lambda np, x: np.astype(x, np.float32), (normal(2),), "to f32", tolerance=3e-4, second=False, why="no digits for differences")
call("astype", normal(2), numpy.complex128, options={"single": False})
call("astype", normal(2), int, options={"constant": True})

# joining and cutting
for _name in ("concatenate", "concat"):
    add(_name, lambda np, x, y, n=_name: getattr(np, n)([x, y]), (normal(2, 3), normal(1, 3)))
add("concatenate", lambda np, x, y: np.concatenate([x, np.ones((2, 1)), y], axis=-1), (normal(2, 3), normal(2, 0)), "axis")
add("concatenate", lambda np, x, y: np.concatenate([x, y], axis=1), (normal(2, 3), normal(2, 2)), "pieces")
add("concatenate", lambda np, x, y: np.concatenate([x, y], axis=None), (normal(2, 3), normal(2)), "flat")
for _axis in (0, 1, -1):
    add("stack", lambda np, x, y, a=_axis: np.stack([x, y], axis=a), (normal(2, 3), normal(2, 3)), f"axis {_axis}")
add("stack", lambda np, x, y: np.stack([x, y]), (scalar(0, 1), scalar(0, 1)), "of numbers")
for _name in ("vstack", "hstack", "dstack", "column_stack"):
    add(_name, lambda np, x, y, n=_name: getattr(np, n)([x, y]), (normal(2), normal(2)))
    add(_name, lambda np, x, y, n=_name: getattr(np, n)((x, y)), (normal(2, 2), normal(2, 2)))
add("block", lambda np, x, y: np.block([[x, np.zeros((2, 1))], [np.ones((1, 2)), y]]), (normal(2, 2), normal(1, 1)))
add("block", lambda np, x, y: np.block([x, y]), (normal(2), normal(3)), "of vectors")
call("append", normal(2, 3), normal(2))
call("append", normal(2, 3), normal(1, 3), axis=0)
call("insert", normal(4), 1, scalar(0, 1))
call("insert", normal(4), [0, -1], normal(2))
call("insert", normal(4), 2, normal(3))
call("insert", normal(2, 3), 1, normal(2), axis=1)
call("insert", normal(2, 3), 1, normal(2, 3), axis=0)
call("insert", normal(2, 3), slice(0, 2), scalar(0, 1), axis=1)
call("delete", normal(5), [0, 3])
call("delete", normal(3, 4), slice(1, 3), axis=1)
call("delete", normal(3), -1)
for _name in ("split", "array_split"):
    call(_name, normal(4, 3), 2)
    call(_name, normal(4, 3), [1, 2], axis=-1)
call("array_split", normal(7), 3)
call("vsplit", normal(4, 2), 2)
call("hsplit", normal(4, 2), 2)
call("hsplit", normal(4), 2)
call("dsplit", normal(2, 1, 4), [1])
call("unstack", normal(2, 3))
call("unstack", normal(2, 3), axis=-1)

# moving
call("flip", normal(2, 3))
call("flip", normal(2, 3), -1)
call("flip", normal(2, 3, 2), (0, -1))
call("fliplr", normal(2, 3))
call("flipud", normal(2, 3))
for _turns in range(4):
    call("rot90", normal(2, 3), _turns)
call("rot90", normal(2, 3, 2), -1, (0, 2))
call("roll", normal(5), 2)
call("roll", normal(2, 3), -4)
call("roll", normal(2, 3), 1, axis=-1)
call("roll", normal(2, 3), (1, -1), axis=(0, 1))
call("roll", normal(3), 0)
call("roll", normal(0, 2), 1, axis=0)
call("repeat", normal(3), 2)
call("repeat", normal(2, 3), [2, 0, 1], axis=1)
call("repeat", scalar(0, 1), 3)
call("tile", normal(2, 3), 2)
call("tile", normal(3), (2, 1, 2))
call("tile", normal(2, 1, 3), (2, 1))
call("pad", normal(2, 3), 1)
call("pad", normal(3), (1, 2), constant_values=1.5)
call("pad", normal(2, 3), ((1, 0), (2, 1)), constant_values=((1.0, 2.0), (3.0, 4.0)))
for _mode in ("edge", "reflect", "symmetric", "wrap"):
    call("pad", normal(3, 4), ((1, 2), (3, 0)), mode=_mode)
    call("pad", normal(2), 5, mode=_mode)
for _mode in ("reflect", "symmetric"):
    call("pad", normal(3, 4), ((1, 2), (3, 0)), mode=_mode, reflect_type="odd")
    for _n in (1, 2, 3):
        call("pad", normal(_n), (4, 9), mode=_mode, reflect_type="odd")
for _mode in ("maximum", "minimum", "mean", "median"):
    call("pad", apart(3, 4), ((1, 2), (3, 0)), mode=_mode)
    call("pad", apart(5, 2), ((1, 2), (0, 1)), mode=_mode, stat_length=((2, 3), (1, 9)))
call("pad", normal(3, 4), ((1, 2), (3, 0)), mode="linear_ramp")
call("pad", normal(3, 4), ((1, 2), (3, 4)), mode="linear_ramp", end_values=((1.0, 2.0), (3.0, 4.0)))
add("pad", lambda np, x, y: np.pad(x, (3, 2), "linear_ramp", end_values=(y, -y)), (normal(3), scalar(0, 1)), "end_values")
call("pad", normal(2, 0), ((1, 2), (0, 0)), mode="mean")
for _offset in (0, 1, -1):
    for _name in ("tril", "triu", "diag", "diagonal", "trace"):
        call(_name, normal(3, 4), _offset)
    call("diag", normal(3), _offset)
    call("diagflat", normal(2, 2), _offset)
call("tril", normal(3))
call("triu", normal(2, 3, 3), 1)
call("diagonal", normal(2, 3, 4), 0, 1, -1)
call("trace", normal(2, 3, 4), 1, axis1=0, axis2=2)
call("vander", normal(3))
call("vander", normal(3), 2, increasing=True)

# reading by position
call("take", normal(5), [0, 3, 3, -1])
call("take", normal(2, 3), 1, axis=1)
call("take", normal(2, 3), [[0, 2], [1, 1]], axis=-1)
call("take", normal(4), [5, -7], mode="wrap")
call("take", normal(4), [5, -7], mode="clip")
call("take_along_axis", normal(2, 3), numpy.array([[0, 0], [2, 1]]), axis=1)
call("take_along_axis", normal(2, 3), numpy.array([[1, 0, 1]]), axis=0)
call("take_along_axis", normal(1, 3), numpy.array([[0, 2], [1, 1]]), axis=1)
call("take_along_axis", normal(2, 3), numpy.array([4, 4, 0]), axis=None)


def _edit(name: str, *rest: Any, shape: tuple[int, ...] = (2, 3), values: Argument | None = None, **kwargs: Any) -> None:
    """A function that assigns to a copy of its first argument."""

    def function(np: Any, x: Any, *v: Any) -> Any:
        copy = np.copy(x)
        getattr(np, name)(copy, *rest, *v, **kwargs)
        return copy

    add(name, function, (normal(*shape), normal(2) if values is None else values))


_edit("put", [0, 4])
_edit("put", [1, -1, 2])
_edit("place", numpy.array([[True, False, True], [True, False, False]]))
_edit("putmask", numpy.array([[True, False, True], [True, False, False]]), values=normal(2, 3))
_edit("fill_diagonal", shape=(3, 3), values=scalar(0, 1))
add("copyto", lambda np, x, y: _copied(np, x, y, True), (normal(2, 3), normal(3)))
add("copyto", lambda np, x, y: _copied(np, x, y, [[True], [False]]), (normal(2, 3), normal(3)), "where")
add("put_along_axis", lambda np, x, y: _put_along(np, x, y), (normal(2, 3), normal(2, 1)))
add("add", lambda np, x, y: _added_at(np.add, np, x, y), (normal(3), normal(4)), "at")
add("subtract", lambda np, x, y: _added_at(np.subtract, np, x, y), (normal(3), normal(4)), "at")


def _copied(np: Any, x: Any, y: Any, where: Any) -> Any:
    copy = np.copy(x)
    np.copyto(copy, y, where=where)
    return copy


def _put_along(np: Any, x: Any, y: Any) -> Any:
    copy = np.copy(x)
    np.put_along_axis(copy, numpy.array([[2], [0]]), y, axis=1)
    return copy


def _added_at(function: Any, np: Any, x: Any, y: Any) -> Any:
    copy = np.copy(x)
    function.at(copy, [0, 2, 0, 1], y)
    return copy


add("ndenumerate", lambda np, x: np.stack([v * (i + 2 * j) for (i, j), v in np.ndenumerate(x)]), (normal(2, 2),), dispatch=False)

# reductions
_AXES: tuple[Any, ...] = (None, 0, -1, (0, 2), (), (2, -2))
for _name in ("sum", "prod", "mean", "var", "std", "nansum", "nanprod", "nanmean"):
    for _axis in _AXES:
        if _axis != () or _name in ("sum", "prod"):
            call(_name, apart(2, 3, 2) if _name == "std" else normal(2, 3, 2), axis=_axis)
    call(_name, normal(2, 3).every_other(), axis=1, keepdims=True)
    call(_name, scalar(0, 1)) if _name not in ("var", "std") else None
    call(_name, normal(1))
for _name in ("max", "min", "amax", "amin", "ptp", "nanmax", "nanmin"):
    for _axis in _AXES:
        if _axis != ():
            call(_name, apart(2, 3, 2), axis=_axis)
    call(_name, apart(2, 3), axis=1, keepdims=True)
    call(_name, scalar(0, 1))
for _name in ("sum", "prod"):
    call(_name, normal(0))
    call(_name, normal(2, 0), axis=1)
    call(_name, normal(2, 3), axis=0, initial=2.5)
    call(_name, complex_normal(2, 3), axis=0, options={"single": False})
for _name in ("sum", "prod", "mean", "var", "std"):
    call(_name, normal(2, 3), axis=1, where=numpy.array([True, False, True]))
for _name in ("max", "min"):
    call(_name, apart(2, 3), axis=1, initial=0.05)
    call(_name, apart(0, 2), axis=0, initial=0.05)
    call(_name, apart(2, 3), where=numpy.array([True, False, True]), initial=-9.0 if _name == "max" else 9.0)
for _name in ("var", "std", "nanvar", "nanstd"):
    call(_name, normal(2, 3), axis=0, ddof=1)
    call(_name, normal(4))
call("var", complex_normal(4), options={"single": False})
call("mean", normal(2, 3), dtype=numpy.float64)
call("average", normal(2, 3), axis=1)
call("average", normal(2, 3), 1, positive(3))
call("average", normal(2, 3), None, positive(2, 3), returned=True)
call("average", normal(2, 3, 2), (2, 0), positive(2, 2))
for _name in ("sum", "prod", "mean", "max", "min", "var", "std", "cumsum", "cumprod"):
    add("nan" + _name, lambda np, x, n=_name: getattr(np, "nan" + n)(_holed(np, x), axis=1), (apart(3, 4),), "with NaN")


def _holed(np: Any, x: Any) -> Any:
    copy = np.copy(x)
    copy[0, 1] = copy[2, 0] = numpy.nan
    return copy


def _logsumexp(x: Any, axis: Any = None, keepdims: bool = False) -> Any:
    return numpy.log(numpy.sum(numpy.exp(x), axis=axis, keepdims=keepdims))


for _options in ({}, {"axis": 0}, {"axis": -1, "keepdims": True}, {"axis": (0, 1)}):
    call("logsumexp", normal(2, 3), options={"reference": lambda x, o=_options: _logsumexp(x, **o)}, **_options)

# running
for _name in ("cumsum", "cumprod", "nancumsum", "nancumprod"):
    for _axis in (None, 0, -1):
        call(_name, normal(2, 3), axis=_axis)
    call(_name, scalar(0, 1))
    call(_name, normal(0))
call("cumsum", complex_normal(3), options={"single": False})
call("cumprod", complex_normal(3), options={"single": False})
for _name in ("cumulative_sum", "cumulative_prod"):
    call(_name, normal(3))
    call(_name, normal(2, 3), axis=1, include_initial=True)
for _name, _ufunc in (("cummax", numpy.maximum), ("cummin", numpy.minimum)):
    call(_name, apart(5), options={"reference": lambda x, u=_ufunc: u.accumulate(x)})
    call(_name, apart(3, 2), axis=0, options={"reference": lambda x, u=_ufunc: u.accumulate(x, axis=0)})
    call(_name, apart(2, 2), options={"reference": lambda x, u=_ufunc: u.accumulate(x.ravel())})
for _axis in (0, -1):
    call("unwrap", uniform(-9.0, 9.0, 5, 4), axis=_axis)
call("unwrap", uniform(-9.0, 9.0, 6), 5.0)
call("unwrap", uniform(-9.0, 9.0, 6), period=3.0)
add("unwrap", lambda np, x, y: np.unwrap(x, period=y), (uniform(-9.0, 9.0, 6), uniform(3.0, 3.1)), "by the period")
call("unwrap", uniform(-9.0, 9.0, 4, 3).every_other())
call("diff", normal(5))
call("diff", normal(3, 4), 2, axis=0)
call("diff", normal(3), prepend=0.0)
add("diff", lambda np, x, y: np.diff(x, prepend=0.5, append=y), (normal(2, 3), normal(2, 2)), "ends")
call("ediff1d", normal(2, 3))
add("ediff1d", lambda np, x, y: np.ediff1d(x, to_end=y, to_begin=1.0), (normal(4), normal(2)), "ends")
call("gradient", normal(5))
call("gradient", normal(4, 3))
call("gradient", normal(4, 3), 0.5, axis=1)
call("gradient", normal(4, 3), 0.5, increasing(3))
call("gradient", normal(5), increasing(5), edge_order=2)
call("gradient", normal(2), scalar(0.5, 1))
call("trapezoid", normal(2, 5))
call("trapezoid", normal(2, 5), increasing(5))
call("trapezoid", normal(5, 2), dx=0.5, axis=0)
add("trapezoid", lambda np, y, h: np.trapezoid(y, dx=h), (normal(5), scalar(1, 2)), "spacing")

# sorted
call("sort", apart(5))
call("sort", apart(3, 4), axis=0)
call("sort", apart(2, 3), axis=None)
call("partition", apart(5), 2)
call("unique", apart(4))
for _axis in (None, 0, -1, (0, 1)):
    call("median", apart(3, 4), axis=_axis)
    call("quantile", apart(3, 4), 0.3, axis=_axis, keepdims=True)
call("quantile", apart(2, 5), [0.1, 0.55, 1.0], axis=1)
call("quantile", apart(5), uniform(0.3, 0.4, 2))
call("percentile", apart(5), 35.0)
call("percentile", apart(4, 2), [0.0, 40.0], axis=0)

# statistics
for _options in ({}, {"bias": True}, {"ddof": 0}, {"aweights": numpy.array([1.0, 0.5, 2.0, 0.7])}, {"fweights": numpy.array([1, 2, 0, 3])}):
    call("cov", normal(3, 4), **_options)
call("cov", normal(4, 3), rowvar=False)
call("cov", normal(4))
call("cov", normal(2, 4), normal(4))
call("cov", normal(4, 2), normal(4, 1), rowvar=False)
call("cov", complex_normal(2, 4), options={"single": False})
add("cov", lambda np, x, w: np.cov(x, aweights=w, fweights=numpy.array([1, 2, 1, 3])), (normal(2, 4), positive(4)), "weights")
add("cov", lambda np, x, w: np.cov(x, aweights=w, ddof=0), (normal(2, 4), positive(4)), "weights, ddof=0")
call("corrcoef", normal(3, 5))
call("corrcoef", normal(5, 2), rowvar=False)
call("corrcoef", normal(5), normal(5))
call("corrcoef", complex_normal(2, 4), options={"single": False})
call("corrcoef", normal(4), options={"constant": True})
call("histogram", apart(7), 3, options={"single": False})
call("histogram", apart(7), 3, (-1.0, 2.0), options={"constant": True})
_SPREAD = numpy.array([0.1, 0.4, 2.0, 0.2, 1.5, -9.0])
_EDGES = [0.0, 0.3, 1.0, 2.0]
add("histogram", lambda np, x: np.histogram(x, _EDGES), (apart(7),), "between edges", constant=True)
add("histogram", lambda np, w: np.histogram(_SPREAD, 4, (0.0, 2.0), weights=w), (normal(6),), "weights")
add("histogram", lambda np, w: np.histogram(_SPREAD, _EDGES, weights=w), (normal(6),), "weights between edges")
add("histogram", lambda np, w: np.histogram(_SPREAD, _EDGES, weights=w), (complex_normal(6),), "complex weights", single=False)
add("histogram", lambda np, x, w: np.histogram(x, 3, weights=w, density=True), (apart(6), positive(6)), "density", single=False)
add("histogram", lambda np, x, e: np.histogram(x, e, density=True), (apart(6), increasing(4)), "density between edges", single=False)
add("histogram", lambda np, x, e: np.histogram(x, 4, (e, 2.5), density=True), (apart(6), scalar(-2.0, -1.5)), "range", single=False)
call("histogram", apart(9), "sturges", options={"single": False})

# sampling
call("interp", uniform(-1.0, 6.0, 4), numpy.arange(5.0), normal(5))
call("interp", uniform(1.1, 1.9, 2, 2), increasing(4), normal(4))
call("interp", numpy.array([-3.0, 0.4, 9.0]), numpy.arange(5.0), normal(5), left=-1.0, right=2.0)
call("bincount", numpy.array([0, 2, 2, 1]), normal(4))
call("bincount", numpy.array([0, 2]), normal(2), minlength=5)
for _mode in ("full", "same", "valid"):
    for _lengths in ((5, 3), (3, 4), (4, 4), (6, 2)):
        call("convolve", normal(_lengths[0]), normal(_lengths[1]), mode=_mode)
        call("correlate", normal(_lengths[0]), normal(_lengths[1]), mode=_mode)
    call("correlate", complex_normal(3), complex_normal(5), mode=_mode, options={"single": False})
call("polyval", normal(3), normal(2, 2))

# products
for _left, _right in (((3,), (3,)), ((2, 3), (3,)), ((3,), (3, 2)), ((2, 3), (3, 4)), ((4, 2, 3), (3,)), ((2, 0), (0, 3))):
    call("matmul", normal(*_left), normal(*_right))
    call("dot", normal(*_left), normal(*_right))
call("matmul", normal(2, 1, 2, 3), normal(4, 3, 2))
call("matmul", normal(3), normal(2, 3, 4))
call("matmul", complex_normal(2, 3), complex_normal(3, 2), options={"single": False})
call("matmul", numpy.array([[1, 2], [3, 4]]), normal(2))
call("dot", normal(2, 3), normal(2, 3, 4))
call("dot", scalar(0, 1), normal(2, 3))
call("dot", normal(2, 3).every_other(), normal(3, 2).every_other())
call("inner", normal(2, 3), normal(4, 3))
call("inner", normal(3), normal(3))
call("outer", normal(2), normal(3))
call("outer", normal(2, 2), scalar(0, 1))
call("vdot", normal(2, 3), normal(2, 3))
call("vdot", complex_normal(3), complex_normal(3), options={"single": False})
call("vecdot", normal(2, 3), normal(3))
call("vecdot", normal(2, 3), normal(2, 3), axis=0)
call("vecdot", complex_normal(2, 3), complex_normal(2, 3), options={"single": False})
call("tensordot", normal(2, 3, 4), normal(3, 4, 2))
call("tensordot", normal(2, 3), normal(4), axes=0)
call("tensordot", normal(2, 3, 4), normal(4, 2, 5), axes=([0, -1], [1, 0]))
call("kron", normal(2, 3), normal(2, 2))
call("kron", normal(2), normal(2, 3))
call("cross", normal(3), normal(3))
call("cross", normal(2, 3), normal(3))
call("cross", normal(3, 2), normal(3, 2), axis=0)
call("cross", normal(3, 2), normal(2, 3), axisa=0, axisc=0)
for _subscripts, *_shapes in (
    ("ij,jk->ik", (2, 3), (3, 4)),
    ("ij,jk", (2, 3), (3, 4)),
    ("ii->i", (3, 3)),
    ("ii", (3, 3)),
    ("ij->ji", (2, 3)),
    ("ij->", (2, 3)),
    ("i,i", (3,), (3,)),
    ("i,j->ij", (2,), (3,)),
    ("...ij,...jk->...ik", (2, 1, 2, 3), (4, 3, 2)),
    ("bij,bj->bi", (2, 3, 3), (2, 3)),
    ("ij,jk,kl->il", (2, 3), (3, 4), (4, 2)),
    ("ij,ij,ij->j", (2, 3), (2, 3), (2, 3)),
    ("iij,j->i", (2, 2, 3), (3,)),
    ("ij,kj->ik", (2, 1), (3, 4)),
    ("a...,...->...a", (2, 3), (3,)),
    (",i->i", (), (3,)),
):
    call("einsum", _subscripts, *(normal(*s) for s in _shapes))
call("einsum", "ij,j->i", complex_normal(2, 3), complex_normal(3), options={"single": False})

# linear algebra
for _shape in ((1, 1), (2, 2), (3, 3), (4, 4), (2, 3, 3), (2, 4, 4)):
    call("linalg.det", regular(*_shape))
    call("linalg.inv", regular(*_shape))
    call("linalg.slogdet", regular(*_shape))
call("linalg.det", normal(0, 3, 3))
call("linalg.det", complex_regular(3, 3), options={"single": False})
call("linalg.det", complex_regular(4, 4), options={"single": False})
call("linalg.inv", complex_regular(3, 3), options={"single": False})
call("linalg.solve", regular(3, 3), normal(3))
call("linalg.solve", regular(3, 3), normal(3, 2))
call("linalg.solve", regular(2, 3, 3), normal(3, 2))
call("linalg.solve", regular(2, 3, 3), normal(3))
call("linalg.solve", regular(3, 3), normal(2, 3, 1))
call("linalg.solve", complex_regular(3, 3), complex_normal(3), options={"single": False})
for _shape in ((3, 3), (2, 2, 2)):
    for _name in ("cholesky", "eigvalsh", "eigh"):
        add(
            f"linalg.{_name}",
            lambda np, x, n=_name: getattr(np.linalg, n)((x + np.matrix_transpose(x)) * 0.5),
            (definite(*_shape),),
        )
add("linalg.cholesky", lambda np, x: np.linalg.cholesky((x + x.T) * 0.5, upper=True), (definite(3, 3),), "upper")
for _shape in ((3, 3), (4, 2), (2, 4), (2, 3, 2), (1, 1)):
    call("linalg.qr", graded(*_shape))
    call("linalg.qr", graded(*_shape), mode="r")
    call("linalg.svd", graded(*_shape), full_matrices=False)
    call("linalg.svd", graded(*_shape), compute_uv=False)
    call("linalg.svdvals", graded(*_shape))
call("linalg.qr", graded(3, 3), "complete")
call("linalg.qr", graded(2, 3, 4), "complete")
call("linalg.svd", graded(2, 3, 3))
call("linalg.tensorsolve", regular(4, 4), normal(4))
add("linalg.tensorsolve", lambda np, x, y: np.linalg.tensorsolve(np.reshape(x, (2, 3, 6)), y), (regular(6, 6), normal(2, 3)), "rows")
add("linalg.tensorsolve", lambda np, x, y: np.linalg.tensorsolve(np.reshape(x, (6, 2, 3)), y, (0,)), (regular(6, 6), normal(2, 3)), "axes")
add("linalg.tensorinv", lambda np, x: np.linalg.tensorinv(np.reshape(x, (2, 3, 6))), (regular(6, 6),))
call("linalg.tensorinv", regular(3, 3), ind=1)
call("linalg.pinv", normal(4, 2))
call("linalg.pinv", normal(2, 4))
call("linalg.pinv", complex_normal(3, 2), options={"single": False})
add("linalg.lstsq", lambda np, x, y: np.linalg.lstsq(x, y)[:2], (normal(5, 2), normal(5)))
add("linalg.lstsq", lambda np, x, y: np.linalg.lstsq(x, y)[:2], (normal(5, 2), normal(5, 3)))
add("linalg.lstsq", lambda np, x, y: np.linalg.lstsq(x, y)[:2], (regular(2, 2), normal(2)))
for _order in (None, 1, 2, 3, 2.5, numpy.inf, -numpy.inf, -1, 1.5):
    call("linalg.norm", apart(4), ord=_order)
    call("linalg.norm", apart(2, 3), ord=_order, axis=1, keepdims=True)
    call("linalg.vector_norm", apart(2, 3), **({} if _order is None else {"ord": _order}))
call("linalg.norm", apart(4), ord=0, options={"constant": True})
call("linalg.norm", apart(2, 3))
call("linalg.norm", apart(2, 3, 2))
call("linalg.norm", apart(2, 3, 2), axis=(0, 2))
call("linalg.norm", complex_normal(3), options={"single": False})
call("linalg.norm", complex_normal(3), ord=3, options={"single": False})
for _order in ("fro", "nuc", 1, -1, 2, -2, numpy.inf, -numpy.inf):
    call("linalg.norm", apart(3, 3), ord=_order)
    call("linalg.norm", apart(2, 3, 2), ord=_order, axis=(2, 0), keepdims=True)
    call("linalg.matrix_norm", apart(2, 3, 2), ord=_order)
    call("linalg.norm", apart(2, 3, 2), ord=_order, axis=(2, 0))
for _power in (0, 1, 2, 5, -2):
    call("linalg.matrix_power", regular(3, 3), _power, options={"constant": _power == 0})
call("linalg.matrix_power", regular(2, 2, 2), 3)
add("linalg.multi_dot", lambda np, x, y, z: np.linalg.multi_dot([x, y, z]), (normal(2, 3), normal(3, 2), normal(2)))
call("linalg.cross", normal(2, 3), normal(2, 3))
call("linalg.outer", normal(2), normal(3))
call("linalg.diagonal", normal(2, 3, 4), offset=1)
call("linalg.trace", normal(2, 3, 4))
call("linalg.matmul", normal(2, 3), normal(3))
call("linalg.matrix_transpose", normal(2, 3))
call("linalg.tensordot", normal(2, 3), normal(3, 2), axes=1)
call("linalg.vecdot", normal(2, 3), normal(2, 3))

# transforms
for _name in ("fft", "ifft"):
    for _length in (1, 4, 5):
        call(f"fft.{_name}", normal(_length))
        call(f"fft.{_name}", complex_normal(_length), options={"single": False})
    call(f"fft.{_name}", normal(3, 4), axis=0)
    for _n in (3, 7):
        call(f"fft.{_name}", normal(2, 5), _n)
    for _norm in ("ortho", "forward", "backward"):
        call(f"fft.{_name}", complex_normal(4), norm=_norm, options={"single": False})
for _name in ("rfft", "ihfft"):
    for _length in (1, 2, 5, 6):
        call(f"fft.{_name}", normal(_length))
    call(f"fft.{_name}", normal(3, 4), 6, axis=0, norm="ortho")
    call(f"fft.{_name}", normal(2, 5), 3, norm="forward")
for _name in ("irfft", "hfft"):
    for _length in (2, 3, 4):
        call(f"fft.{_name}", complex_normal(_length), options={"single": False})
        call(f"fft.{_name}", complex_normal(_length), 2 * _length - 1, options={"single": False})
    call(f"fft.{_name}", normal(3))
    call(f"fft.{_name}", complex_normal(3, 2), 8, axis=0, norm="ortho", options={"single": False})
for _name in ("fft2", "ifft2", "fftn", "ifftn", "rfft2", "rfftn"):
    call(f"fft.{_name}", normal(3, 4))
    call(f"fft.{_name}", normal(2, 3, 4), axes=(0, 2), s=(3, 2), norm="ortho")
for _name in ("irfft2", "irfftn"):
    call(f"fft.{_name}", complex_normal(3, 3), options={"single": False})
    call(f"fft.{_name}", complex_normal(3, 3), s=(2, 5), axes=(0, 1), options={"single": False})
for _name in ("fftshift", "ifftshift"):
    call(f"fft.{_name}", normal(5))
    call(f"fft.{_name}", normal(4, 3))
    call(f"fft.{_name}", normal(4, 3), axes=1)

# operators
for _name in ("add", "sub", "mul", "truediv", "pow"):
    _do = getattr(operator, _name)
    add(f"operator.{_name}", lambda np, x, y, f=_do: f(x, y), (positive(2, 1), positive(3)))
    add(f"operator.{_name}", lambda np, x, f=_do: f(x, 1.5), (positive(2),), "number right")
    add(f"operator.{_name}", lambda np, x, f=_do: f(1.5, x), (positive(2),), "number left")
    add(f"operator.{_name}", lambda np, x, f=_do: f(numpy.array([1.5, 2.5]), x), (positive(2),), "array left")
    _update = getattr(operator, f"i{_name}")
    add(f"operator.i{_name}", lambda np, x, y, f=_update: f(np.copy(x), y), (positive(2, 3), positive(3)))
for _name in ("mod", "imod"):
    add(f"operator.{_name}", lambda np, x, y, n=_name: getattr(operator, n)(x + 0, y), (uniform(4.2, 4.4, 2, 3), uniform(0.9, 1.0, 3)))
add("operator.mod", lambda np, x: 4.3 % x, (uniform(0.9, 1.0, 3),), "number left")
add("operator.floordiv", lambda np, x: 4.3 // x, (uniform(0.9, 1.0, 3),), "number left", constant=True)
add("operator.divmod", lambda np, x: divmod(x, 1.0), (uniform(1.2, 1.8, 3),))
add("operator.divmod", lambda np, x: divmod(4.3, x), (uniform(0.9, 1.0, 3),), "number left")
add("operator.neg", lambda np, x: -x, (normal(2),))
add("operator.pos", lambda np, x: +x, (normal(2),))
add("operator.abs", lambda np, x: abs(x), (apart(3),))
add("operator.matmul", lambda np, x, y: x @ y, (normal(2, 3), normal(3)))
add("operator.matmul", lambda np, x: numpy.ones((2, 3)) @ x, (normal(3),), "array left")
add("operator.imatmul", lambda np, x, y: operator.imatmul(np.copy(x), y), (normal(2, 2), normal(2, 2)))
for _note, _index in {
    "number": 1,
    "slice": slice(None, None, -2),
    "dots": (..., 0),
    "new axis": (None, slice(1)),
    "list": [2, 0, 0],
    "mask": numpy.array([True, False, True]),
    "mixed": (numpy.array([0, 2]), slice(1), 1),
}.items():
    add("operator.getitem", lambda np, x, i=_index: x[i], (normal(3, 2, 2),), _note)
    add("operator.setitem", lambda np, x, y, i=_index: _assigned(np, x, y, i), (normal(3, 2, 2), scalar(0, 1)), _note)


def _assigned(np: Any, x: Any, y: Any, index: Any) -> Any:
    copy = np.copy(x)
    copy[index] = y * x[index]
    return copy


# methods
_METHODS: dict[str, tuple[Any, ...]] = {
    "sum": (0,), "prod": (1,), "mean": (-1,), "max": (0,), "min": (1,), "std": (), "var": (0,), "cumsum": (0,), "cumprod": (1,),
    "swapaxes": (0, 1), "squeeze": (), "take": ([0, 1], 1), "repeat": (2, 0), "clip": (-0.5, 1.0), "trace": (1,), "diagonal": (),
    "compress": ([True, False], 0), "dot": (numpy.ones((3, 2)),), "conj": (), "conjugate": (), "reshape": (3, 2), "ravel": (),
    "flatten": (), "transpose": (), "copy": (), "view": (),
}  # fmt: skip
for _name, _args in _METHODS.items():
    add(f"method.{_name}", lambda np, x, n=_name, a=_args: getattr(x, n)(*a), (apart(2, 3),))
add("method.sum", lambda np, x: x.sum(axis=1, keepdims=True), (apart(2, 3),))
add("method.clip", lambda np, x: x.clip(max=1.0), (apart(2, 3),))
add("method.astype", lambda np, x: x.astype(complex), (normal(2),), single=False)
add("method.T", lambda np, x: x.T, (normal(2, 3),))
add("method.mT", lambda np, x: x.mT, (normal(2, 3, 2),))
add("method.flat", lambda np, x: np.array([v * v for v in x.flat]), (normal(2, 2),), dispatch=False)
add("method.real", lambda np, x: x.real, (complex_normal(2),), single=False)
add("method.imag", lambda np, x: x.imag, (complex_normal(2),), single=False)
add("method.sort", lambda np, x: _sorted_in_place(np, x), (apart(2, 3),))
add("method.put", lambda np, x, y: _put_in_place(np, x, y), (normal(2, 3), normal(2)))
add("method.fill", lambda np, x, y: _filled_in_place(np, x, y), (normal(2, 3), scalar(0, 1)))
add("method.choose", lambda np, x, y: np.array([1, 0]).choose([x, y]), (normal(2), normal(2)), dispatch=False)


def _sorted_in_place(np: Any, x: Any) -> Any:
    copy = np.copy(x)
    copy.sort(0)
    return copy


def _put_in_place(np: Any, x: Any, y: Any) -> Any:
    copy = np.copy(x)
    copy.put([0, -1], y)
    return copy


def _filled_in_place(np: Any, x: Any, y: Any) -> Any:
    copy = np.copy(x)
    copy[0].fill(y)
    return copy


# zero derivative, or none
for _name in ("floor", "ceil", "trunc", "rint", "sign", "round", "around", "fix"):
    call(_name, uniform(1.2, 1.4, 2, 3), options={"constant": True})
call("round", uniform(1.22, 1.24, 3), 1, options={"constant": True})
call("floor_divide", uniform(4.2, 4.4, 3), uniform(0.9, 1.0, 3), options={"constant": True})
add("operator.floordiv", lambda np, x, y: x // y, (uniform(4.2, 4.4, 3), uniform(0.9, 1.0, 3)), constant=True)
add("operator.ifloordiv", lambda np, x: operator.ifloordiv(np.copy(x), 0.7), (uniform(4.3, 4.8, 3),), constant=True)
for _name in ("equal", "not_equal", "less", "less_equal", "greater", "greater_equal", "logical_and", "logical_or", "logical_xor"):
    call(_name, normal(2, 3), normal(3), options={"constant": True})
for _name in ("lt", "le", "gt", "ge", "eq", "ne"):
    add(f"operator.{_name}", lambda np, x, y, n=_name: getattr(operator, n)(x, y), (normal(2, 3), normal(3)), constant=True)
    add(f"operator.{_name}", lambda np, x, n=_name: getattr(operator, n)(0.5, x), (normal(3),), "number left", constant=True)
for _name in ("logical_not", "isfinite", "isinf", "isnan", "signbit", "isneginf", "isposinf", "iscomplex", "isreal"):
    call(_name, normal(2, 3), options={"constant": True})
for _name in ("argmax", "argmin", "nanargmax", "nanargmin", "argsort", "all", "any", "count_nonzero"):
    call(_name, apart(3, 4), options={"constant": True})
    call(_name, apart(3, 4), axis=0, options={"constant": True})
    if _name in ("argmax", "argmin", "argsort", "all", "any"):
        add(f"method.{_name}", lambda np, x, n=_name: getattr(x, n)(0), (apart(3, 4),), constant=True)
for _name in ("nonzero", "flatnonzero", "argwhere"):
    add(_name, lambda np, x, n=_name: getattr(np, n)(x > 0), (apart(3, 2),), constant=True)
add("method.nonzero", lambda np, x: x.nonzero(), (apart(3),), constant=True)
add("method.round", lambda np, x: x.round(1), (uniform(1.22, 1.24, 3),), constant=True)
add("where", lambda np, x: np.where(x > 0), (apart(3, 2),), "positions", constant=True)
call("argpartition", apart(5), 2, options={"constant": True})
call("searchsorted", numpy.arange(4.0), uniform(0, 3, 5), options={"constant": True})
add("method.searchsorted", lambda np, x: np.sort(x).searchsorted([0.1, 0.7]), (apart(4),), constant=True)
call("digitize", uniform(0, 3, 5), numpy.arange(4.0), options={"constant": True})
add("lexsort", lambda np, x, y: np.lexsort((x, y)), (apart(4), apart(4)), constant=True)
call("isin", apart(4), [0.1, 0.2], options={"constant": True})
for _name in ("isclose", "allclose", "array_equal", "array_equiv"):
    call(_name, normal(3), normal(3), options={"constant": True})
call("nan_to_num", numpy.array([numpy.nan, numpy.inf, 1.0]), posinf=9.0, options={"constant": True})
call("isclose", numpy.array([1.0, 2.0]), numpy.array([1.0, 2.1]), rtol=0.1, options={"constant": True})

# of plain values: whole numbers, conditions, shapes and types
_INTEGERS, _CONDITIONS = numpy.array([[6, 4, 9], [-3, 8, 10]]), numpy.array([True, False, True])
for _name in ("gcd", "lcm", "bitwise_and", "bitwise_or", "bitwise_xor"):
    call(_name, _INTEGERS, numpy.array([4, 6, 3]), options={"constant": True})
for _name in ("left_shift", "right_shift", "bitwise_left_shift", "bitwise_right_shift"):
    call(_name, _INTEGERS, 2, options={"constant": True})
for _name in ("invert", "bitwise_not", "bitwise_invert"):
    call(_name, _CONDITIONS, options={"constant": True})
for _name in ("and", "or", "xor", "lshift", "rshift"):
    for _prefix in ("", "i"):
        _do = getattr(operator, _prefix + _name + "_" * (not _prefix and _name in ("and", "or")))
        add(f"operator.{_prefix}{_name}", lambda np, f=_do: f(np.array(_INTEGERS), 2), (), dispatch=False, constant=True)
    _do = getattr(operator, _name + "_" * (_name in ("and", "or")))
    add(f"operator.{_name}", lambda np, f=_do: f(2, np.array([1, 2, 3])), (), "number left", dispatch=False, constant=True)
add("operator.invert", lambda np: ~np.array(_CONDITIONS), (), dispatch=False, constant=True)
for _name, _args in {
    "zeros": ((2, 3),), "ones": (3,), "empty": ((0, 2),), "full": ((2,), 7), "eye": (3, 4, 1), "identity": (2,), "tri": (3, 2),
    "arange": (5,), "indices": ((2, 3),), "hanning": (5,), "hamming": (5,), "blackman": (5,), "bartlett": (5,), "zeros_like": (_INTEGERS,),
    "ones_like": (_CONDITIONS,), "full_like": (_INTEGERS, 2.7), "unravel_index": (5, (2, 3)), "ravel_multi_index": (([1], [2]), (2, 3)),
    "tril_indices": (3,), "triu_indices": (3, 1), "diag_indices": (3,), "tril_indices_from": (numpy.ones((3, 3)),),
    "triu_indices_from": (numpy.ones((3, 3)),), "diag_indices_from": (numpy.ones((3, 3)),), "ix_": ([0, 2], [1]),
    "broadcast_shapes": ((2, 1), (3,)), "iscomplexobj": (1j,), "isrealobj": (_INTEGERS,),
    "isscalar": (2.0,), "shape": (_INTEGERS,), "ndim": (_INTEGERS,), "size": (_INTEGERS,), "shares_memory": (_INTEGERS, _CONDITIONS),
    "fft.fftfreq": (5, 0.5), "fft.rfftfreq": (6,), "bincount": ([0, 2, 2],), "searchsorted": ([1, 2, 3], 2.5), "sum": (_CONDITIONS,),
    "cumsum": (numpy.array([1, 2], numpy.int16),), "mean": (_INTEGERS,), "sort": (_INTEGERS,), "diff": (_CONDITIONS,),
}.items():  # fmt: skip
    call(_name, *_args, options={"constant": True, "dispatch": False})
call("arange", 1, 2.5, 0.5, options={"constant": True})
call("arange", 0, 4, dtype=numpy.float32, options={"constant": True})
add("ndindex", lambda np: list(np.ndindex(2, 2)), (), constant=True)
add("result_type", lambda np, x: np.result_type(x, numpy.float32) == numpy.float64, (normal(2),), constant=True, dispatch=False)
add("iscomplexobj", lambda np, x: np.iscomplexobj(x), (complex_normal(2),), "of an array", constant=True)
add("isrealobj", lambda np, x: np.isrealobj(x), (complex_normal(2),), "of an array", constant=True, dispatch=False)
add("isscalar", lambda np, x, y: [np.isscalar(x), np.isscalar(y)], (scalar(0, 1), normal()), "of ours", constant=True, dispatch=False)
add("shares_memory", lambda np, x: [np.shares_memory(x, x[1:]), np.shares_memory(x, x + 0)], (normal(3),), constant=True, dispatch=False)
for _name in ("shape", "ndim", "size"):
    add(_name, lambda np, x, n=_name: getattr(np, n)(x), (normal(2, 3),), constant=True)
    add(f"method.{_name}", lambda np, x, n=_name: getattr(x, n), (normal(2, 3),), constant=True)
for _name in ("itemsize", "nbytes"):
    add(f"method.{_name}", lambda np, x, n=_name: getattr(x, n), (normal(2, 3),), constant=True)

ENTRIES = TABLE.entries
OF_EACH = frozenset({entry.covers: entry for entry in reversed(ENTRIES)}.values())
"""The first entry of each public name."""
