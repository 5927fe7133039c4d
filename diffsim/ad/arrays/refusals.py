"""Errors of NumPy in diffsim's words: they are of NumPy's kind too, with the given value and a remedy."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn, ParamSpec, TypeVar

import numpy as np

from diffsim.base.messages import shown
from diffsim.errors import (
    ArrayAxisError,
    ArrayCallError,
    ArrayIndexError,
    ArrayMatrixError,
    ArrayTypeError,
    ArrayValueError,
    DiffsimError,
)

P = ParamSpec("P")
T = TypeVar("T")

REFUSALS = (TypeError, ValueError, IndexError, OverflowError, ZeroDivisionError, AttributeError)
"""Errors of operations for arguments that they do not take."""
_KINDS: Sequence[tuple[type[Exception], type[ArrayCallError]]] = (
    (np.exceptions.AxisError, ArrayAxisError),
    (np.linalg.LinAlgError, ArrayMatrixError),
    (IndexError, ArrayIndexError),
    (TypeError, ArrayTypeError),
    (ValueError, ArrayValueError),
    (OverflowError, ArrayValueError),
    (ZeroDivisionError, ArrayValueError),
    (AttributeError, ArrayTypeError),
)
_LONGEST = 200
"""Characters of all arguments in a message, and of NumPy's text."""


def refused(name: str, error: Exception, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None) -> Exception:
    """The error to raise in place of one of NumPy's; an error of diffsim's, or of another kind, is that itself.

    Args:
        name: of the function that was called.
        error: the error that it raised.
        args: its arguments, by position.
        kwargs: likewise, by name.
    """
    ours = next((ours for theirs, ours in _KINDS if isinstance(error, theirs)), None)
    if ours is None or isinstance(error, DiffsimError):
        return error
    if isinstance(error, np.exceptions.AxisError) and error.axis is not None and error.ndim is not None:
        own = ArrayAxisError(f"{name}: axis {error.axis} is out of bounds, {_axes(error.ndim)}")
        own.axis, own.ndim = error.axis, error.ndim
        return own
    text = " ".join(str(error).split()).rstrip(".")
    text = text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."
    got = f"expected arguments that NumPy takes, got {_given(args, kwargs or {})}"
    remedy = f"see help({name})" if name.startswith("numpy.") else "correct the argument"
    if "expected" in text:
        return ours(f"{name}: {text}" if "; " in text else f"{name}: {text}; {remedy}")
    return ours(f"{name}: {got}: {text}" if "; " in text else f"{name}: {text}; {got}; {remedy}")


def raise_refused(name: str, error: Exception, *args: Any) -> NoReturn:
    """Raise the error of `refused`."""
    own = refused(name, error, args)
    if own is error:
        raise error
    raise own from error


def refusing(name: str) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Make a method raise the error of `refused`."""

    def decorate(method: Callable[P, T]) -> Callable[P, T]:
        @functools.wraps(method)
        def call(*args: P.args, **kwargs: P.kwargs) -> T:
            try:
                return method(*args, **kwargs)
            except REFUSALS as error:
                own = refused(name, error, args, kwargs)
                if own is error:
                    raise
                raise own from error

        return call

    return decorate


def _axes(ndim: int) -> str:
    if not ndim:
        return "expected an array with axes, got a number; leave the axis out, or give an array, x[None]"
    return f"expected {-ndim} to {ndim - 1} of an array with {ndim} axes; name one that there is"


def _given(args: Sequence[Any], kwargs: Mapping[str, Any]) -> str:
    text = ", ".join([*map(_shown, args), *(f"{key} = {_shown(value)}" for key, value in kwargs.items())]) or "none"
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."


def _shown(value: Any) -> str:
    shape = getattr(value, "shape", None)
    if not isinstance(shape, tuple) or not hasattr(value, "dtype"):
        return shown(value)
    return f"an array of shape {shape} and type {value.dtype}" if shape else f"a number of type {value.dtype}"
