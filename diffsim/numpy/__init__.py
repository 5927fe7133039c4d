"""NumPy's names, differentiable: a numerical program with `np` bound to this module differentiates as it stands.

Outside of a derivative the functions give NumPy's own arrays. Inside, they give `diffsim.ad.array.Array`s, which behave alike and can be
assigned to. Names follow NumPy, and the array API where the two differ. A function of NumPy that is not here works on plain values and
raises for differentiated ones.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as _np
from numpy import (
    bool_,
    complex64,
    complex128,
    dtype,
    e,
    errstate,
    euler_gamma,
    finfo,
    float16,
    float32,
    float64,
    floating,
    generic,
    iinfo,
    index_exp,
    inexact,
    inf,
    int8,
    int16,
    int32,
    int64,
    integer,
    intp,
    nan,
    newaxis,
    number,
    pi,
    printoptions,
    s_,
    set_printoptions,
    uint8,
    uint16,
    uint32,
    uint64,
)

from diffsim.ad import array as _array
from diffsim.ad.core import Tracer as _Tracer
from diffsim.ad.core import bottom as _bottom
from diffsim.errors import DerivativeError as _DerivativeError
from diffsim.numpy import creation as _creation
from diffsim.numpy import elementwise as _elementwise
from diffsim.numpy import fft, linalg
from diffsim.numpy import indexing as _indexing
from diffsim.numpy import products as _products
from diffsim.numpy import reductions as _reductions
from diffsim.numpy import shaping as _shaping

_OWN = (_creation, _elementwise, _indexing, _products, _reductions, _shaping)
_HELPERS = {"annotations", "Array", "Any", "Callable", "Iterator", "Primitive", "Sequence", "Tracer", "DerivativeError"}
for _module in _OWN:
    for _name, _value in vars(_module).items():
        if not _name.startswith("_") and _name not in _HELPERS and hasattr(_np, _name):
            globals()[_name] = _value
cummax, cummin, logsumexp = _reductions.cummax, _reductions.cummin, _reductions.logsumexp
asanyarray = ascontiguousarray = _creation.asarray
bool = bool_  # the array API's name


class _ArrayKind(type):
    def __instancecheck__(cls, instance: Any) -> Any:
        return isinstance(instance, (_array.Array, _np.ndarray))


class ndarray(metaclass=_ArrayKind):  # noqa: N801 -- NumPy's name
    """What `isinstance(x, np.ndarray)` asks for: an array of NumPy or a differentiated one."""


def result_type(*args: Any) -> Any:
    """The type that NumPy's promotion gives."""
    return _np.result_type(*(_bottom(_array.core(a)) if isinstance(a, _array.Array) else a for a in args))


def iscomplexobj(x: Any) -> Any:
    """Whether the type is complex."""
    return _np.iscomplexobj(_bottom(_array.core(x)))


def isscalar(x: Any) -> Any:
    """Whether `x` is a number."""
    return _np.isscalar(x) or (isinstance(x, _array.Array) and x._scalar)


def shares_memory(a: Any, b: Any) -> Any:
    """Whether one array is the other or a view of it."""

    def roots(x: Any) -> set[int]:
        found = set()
        while x is not None:
            found.add(id(x))
            x = getattr(x, "_base", None)
        return found

    if isinstance(a, _array.Array) or isinstance(b, _array.Array):
        return not roots(a).isdisjoint(roots(b))
    return _np.shares_memory(a, b)


def __getattr__(name: str) -> Any:
    """A function of NumPy without a rule: it works on plain values."""
    if name.startswith("_"):
        raise AttributeError(name)
    found = getattr(_np, name)
    if not callable(found) or isinstance(found, type):
        return found

    def without_rule(*args: Any, **kwargs: Any) -> Any:
        plain = [_without_derivative(name, a) for a in args]
        return _array.wrap(found(*plain, **{key: _without_derivative(name, a) for key, a in kwargs.items()}))

    without_rule.__name__ = without_rule.__qualname__ = name
    return without_rule


def _without_derivative(name: str, x: Any) -> Any:
    if isinstance(x, (list, tuple)):
        return type(x)(_without_derivative(name, v) for v in x)
    if not isinstance(x, _array.Array):
        return x
    value = x.core()
    if isinstance(value, _Tracer):
        raise _DerivativeError(
            f"numpy.{name} has no derivative in diffsim.numpy; write it with other functions, give a rule with ds.custom_vjp, or hold its "
            "argument constant with ds.stop_gradient"
        )
    return value


_METHODS = (
    "sum prod mean min max argmin argmax std var ptp cumsum cumprod dot swapaxes squeeze take repeat clip round conj conjugate trace diagonal any "
    "all argsort searchsorted nonzero astype compress choose put partition"
).split()


def _attach_methods() -> None:
    """Give arrays NumPy's methods, which are the functions of the same name."""
    here = sys.modules[__name__]
    for name in _METHODS:
        if name != "partition":
            setattr(_array.Array, name, getattr(here, name))
    plain, reflected = _array.binary(_matmul)
    _array.Array.__matmul__, _array.Array.__rmatmul__ = plain, reflected  # type: ignore[attr-defined]
    _array.Array.__imatmul__ = _array.in_place(plain)  # type: ignore[attr-defined]
    _array.Array.__divmod__ = lambda self, other: _elementwise.divmod(self, other)  # type: ignore[attr-defined]
    _array.set_namespace(here)


def _matmul(a: Any, b: Any) -> Any:
    return _array.core(_products.matmul(_array.wrap(a), _array.wrap(b)))


_attach_methods()
__array_api_version__ = "2023.12"
