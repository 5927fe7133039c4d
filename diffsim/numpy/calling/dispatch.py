"""Parts of all functions of these names: the choice of NumPy's own, values without derivative, and axes."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable
from types import ModuleType
from typing import Any, ParamSpec, TypeVar

import numpy as np

from diffsim.ad.arrays.array import Array, core, wrap, wrapped
from diffsim.ad.arrays.guard import require_plain
from diffsim.ad.arrays.refusals import REFUSALS, raise_refused
from diffsim.ad.core import Tracer, bottom, is_known, laid_out, local
from diffsim.ad.ops import structure as st
from diffsim.ad.ops.layout import Axes, axes_in_memory, axes_of_result
from diffsim.errors import DerivativeError
from diffsim.numpy.calling.rehearsal import rehearsed

P = ParamSpec("P")
T = TypeVar("T")


def outside(
    module: ModuleType, *, alone: bool = False, calls: bool = False, large: Callable[..., Any] = lambda *args, **kwargs: None
) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Outside of a derivative, take the function of the same name of a module of NumPy; inside, refuse calls that NumPy refuses.

    The function itself is kept as `own`, which runs if NumPy dispatches to arrays of diffsim.

    Args:
        module: of NumPy.
        alone: NumPy's is called inside only to explain an error: it would be much slower.
        calls: the function calls functions of the user's, which NumPy must not call as well.
        large: a function of the same arguments, which returns the result where it is faster than NumPy's, otherwise None.
    """

    def decorate(own: Callable[P, T]) -> Callable[P, T]:
        theirs = getattr(module, own.__name__, None)
        if theirs is None:
            return own
        inside = own if calls else rehearsed(theirs, alone=alone)(own)

        @functools.wraps(own)
        def function(*args: P.args, **kwargs: P.kwargs) -> T:
            if local.depth:
                return inside(*args, **kwargs)
            result: T | None = large(*args, **kwargs)
            return theirs(*args, **kwargs) if result is None else result

        function.own = inside  # type: ignore[attr-defined]
        return function

    return decorate


def of_values(function: Callable[P, T]) -> Callable[P, T]:
    """A function of NumPy whose result has no derivative: it sees values only."""

    def find(*args: P.args, **kwargs: P.kwargs) -> Any:
        try:
            return wrapped(function, args, kwargs, _stripped)
        except REFUSALS as error:
            if "output array is read-only" not in str(error):
                if not local.depth:
                    raise
                raise_refused(f"numpy.{function.__name__}", error, *args, *kwargs.values())
            raise DerivativeError(
                f"numpy.{function.__name__} inside of a derivative takes no out = an array; leave out out, and assign the result"
            ) from None

    find.__name__ = find.__qualname__ = function.__name__
    find.__doc__ = f"As `numpy.{function.__name__}`; it has no derivative."
    return find


def _stripped(x: Any) -> Any:
    if isinstance(x, (list, tuple)):
        return type(x)(map(_stripped, x))
    if isinstance(x, np.ndarray):
        require_plain(x)
    if not isinstance(x, Array):
        return x
    value = bottom(x.core())
    if isinstance(value, np.ndarray):
        value = value.view()
        value.flags.writeable = False  # the tape may refer to it
    return value


def without_rules(module: ModuleType) -> Callable[[str], Any]:
    """A function that finds the other names of a module of NumPy: their functions work on plain values."""

    def find(name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        attribute = getattr(module, name)
        if not callable(attribute) or isinstance(attribute, type):
            return attribute
        values = of_values(attribute)

        def without_rule(*args: Any, **kwargs: Any) -> Any:
            _require_plain(f"{module.__name__}.{name}", [*args, *kwargs.values()])
            return values(*args, **kwargs)

        without_rule.__name__ = without_rule.__qualname__ = name
        return without_rule

    return find


def _require_plain(name: str, values: Any) -> None:
    for x in values:
        if isinstance(x, (list, tuple)):
            _require_plain(name, x)
        elif isinstance(x, Array) and isinstance(x._current(), Tracer):
            raise DerivativeError(
                f"{name} has no derivative in diffsim.numpy; write it with other functions, give a rule with ds.custom_vjp, or hold its "
                "argument constant with ds.stop_gradient"
            )


def value_of(x: Any) -> Any:
    """The core value of anything that an array function takes, with a shape and a type."""
    value = core(x)
    return value if hasattr(value, "dtype") else np.asarray(value)


def layout_of(x: Any) -> np.ndarray:
    """An array with the memory layout that NumPy would give `x`. Its entries must not be read."""
    return x._layout() if isinstance(x, Array) else np.asarray(x)


def in_rows(x: Any) -> Any:
    """An array, that nobody else holds, with its entries side by side, the last axis innermost: as NumPy makes new arrays."""
    return wrap(st.compact(value_of(x)))


def in_order(x: Any, axes: Axes) -> Any:
    """An array, that nobody else holds, with its entries side by side and the axes in this order in memory."""
    return wrap(st.compact(value_of(x), axes))


def as_copied(x: Any, model: Any) -> Any:
    """An array, that nobody else holds, laid out in memory as a copy of `model`, of as many axes."""
    return in_order(x, axes_in_memory(laid_out(value_of(model))))


def as_computed(x: Any, *models: Any) -> Any:
    """An array, that nobody else holds, laid out in memory as the result of a universal function of the models."""
    return in_order(x, axes_of_result(*(laid_out(value_of(m)) for m in models)))


def as_array(x: Any) -> Any:
    """An array, without axes where `x` is a number."""
    value = value_of(x)
    return Array(value) if local.depth else np.asarray(value)


def as_number(value: Any) -> Any:
    """A core value, as a number where it has no axes, as NumPy's functions return it unless an array is requested."""
    return value[()] if isinstance(value, np.ndarray) else value


def plain(x: Any) -> Any:
    """The values of `x`, that decide something and are not differentiated."""
    return bottom(core(x))


def places_of(x: Any) -> Any:
    """Positions that decide something: NumPy's array of them, or the abstract value that stands for them."""
    places = plain(x)
    return np.asarray(places) if is_known(places) else places


def is_complex(x: Any) -> bool:
    """True if the entries are complex."""
    return np.iscomplexobj(laid_out(core(x)))


# axes


def one_axis(axis: Any, rank: int) -> int:
    """An axis counted from the first.

    Raises:
        AxisError: there is no such axis.
    """
    axis = operator.index(axis)
    if not -rank <= axis < rank:
        raise np.exceptions.AxisError(axis, rank)
    return axis % rank


def axes_of(axis: Any, rank: int) -> tuple[int, ...]:
    """One axis, several or (None) all of them, counted from the first.

    Raises:
        AxisError: there is no such axis.
        ValueError: an axis is named twice.
    """
    if axis is None:
        return tuple(range(rank))
    axes = tuple(one_axis(a, rank) for a in (axis if isinstance(axis, (tuple, list, range)) else (axis,)))
    if len(set(axes)) < len(axes):
        raise ValueError(f"axis = {axis} names an axis twice, expected distinct ones")
    return axes


def reduced_axes(axis: Any, rank: int) -> tuple[int, ...]:
    """As `axes_of`, for reductions of universal functions: a number has an axis 0 there."""
    return () if rank == 0 and not isinstance(axis, (tuple, list)) and axis in (0, -1) else axes_of(axis, rank)
