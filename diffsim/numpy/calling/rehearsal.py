"""Calls that NumPy refuses are refused inside of a derivative too, by NumPy itself where diffsim has no message of its own.

The first call of each form (types, shapes and the arguments that are no arrays) is rehearsed: NumPy's function takes copies of the values,
as it may write into them, and its result is dropped. Later calls of that form only compare the form. The lengths of large arrays
are no part of the form, so that a program pays once for each kind of call, not for each length; and a rehearsal takes their first entries.
"""

from __future__ import annotations

import dis
import functools
import inspect
import math
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any, ParamSpec, TypeVar

import numpy as np

from diffsim.ad.arrays.array import Array
from diffsim.ad.arrays.refusals import refused
from diffsim.ad.core import laid_out, local
from diffsim.errors import ArrayCallError, DerivativeError, DiffsimError

P = ParamSpec("P")
T = TypeVar("T")

_SMALL = 1 << 12
"""Entries of an array whose lengths belong to the form of a call: a rehearsal takes some microseconds."""
_LARGEST = 8
"""Whole numbers up to this one (axes, orders, counts) belong to the form; of larger ones the sign does."""
_PARTS = 32
"""Parts of a list whose order belongs to the form; of a longer one, the set of its kinds of parts does."""
_MOST = 1 << 14
"""Forms that are remembered; then all are forgotten."""
_SIGNS = ("negative", "positive")
_ROUND = (-2.0, -1.0, 0.0, 1.0, 2.0)
_RAISE = dis.opmap["RAISE_VARARGS"]
_EXACT = (bool, str, bytes, type(None), type, np.dtype, np.bool_, type(Ellipsis))


class _State(threading.local):
    inside: bool = False


_state = _State()
_known: set[Any] = set()


def _form(x: Any) -> Any:
    """The form of an argument, which decides whether NumPy takes it; raises TypeError where that is not known."""
    kind = type(x)
    if kind is Array:
        value = x._value
        shape = value.shape
        if shape:
            return (shape if math.prod(shape) <= _SMALL else len(shape), value.dtype, x._scalar)
        number: Any = laid_out(value)
        return (shape, value.dtype, x._scalar, _form(number.flat[0]) if isinstance(number, (np.ndarray, np.generic)) else None)
    if kind is np.ndarray:
        return (x.shape if x.size <= _SMALL else x.ndim, x.dtype, _form(x[()]) if not x.ndim else None)
    if kind is int or isinstance(x, np.integer):
        return (kind, int(x) if -_LARGEST <= x <= _LARGEST else _SIGNS[x > 0])
    if kind is float or isinstance(x, np.floating):
        return (kind, float(x) if x in _ROUND else str(x) if not np.isfinite(x) else _SIGNS[int(x > 0)])
    if isinstance(x, (complex, np.complexfloating)):
        return (kind, _form(x.real), _form(x.imag))
    if kind is tuple or kind is list:
        return (kind, *map(_form, x)) if len(x) <= _PARTS else (kind, frozenset(map(_form, x)))
    if kind is dict:
        return (dict, *((k, _form(v)) for k, v in x.items()))
    if kind is slice:
        return (slice, _form(x.start), _form(x.stop), _form(x.step))
    if not isinstance(x, _EXACT):  # it is not remembered, as it may refer to much memory
        raise TypeError(kind)
    return (kind, x)


def _form_of(name: str, args: Any, kwargs: Any) -> Any:
    """The form of a call: NumPy takes all calls of a form, or none. None if an argument cannot be compared with others."""
    try:
        form = (name, *map(_form, args), *((k, _form(v)) for k, v in kwargs.items())) if kwargs else (name, *map(_form, args))
        hash(form)
    except TypeError:
        return None
    return form


class _UnknownError(Exception):
    """NumPy's answer cannot be known: an argument has no values yet, or a large array would be written to."""


def _mapped(x: Any, of: Callable[[Any], Any]) -> Any:
    """An argument with a function applied to the contents of its lists, tuples and dicts."""
    kind = type(x)
    if kind is tuple or kind is list:
        return kind([_mapped(part, of) for part in x])
    return {k: _mapped(v, of) for k, v in x.items()} if kind is dict else of(x)


def _value(x: Any) -> Any:
    """The value of one argument."""
    if type(x) is Array:
        value: Any = laid_out(x._current())
        if not isinstance(value, (np.ndarray, np.generic)):
            raise _UnknownError
        return value.flat[0] if x._scalar else value
    return laid_out(x)


def _short(values: Any) -> Any:
    """The values with arrays that are cut along their long axes, and copied; None: none of them is large."""
    arrays: list[np.ndarray] = []
    _mapped(values, lambda x: arrays.append(x) if isinstance(x, np.ndarray) else None)
    if all(array.size <= _SMALL for array in arrays):
        return None
    long = sorted({n for array in arrays for n in array.shape if n > _LARGEST})
    cuts = {n: slice(_LARGEST + 1 + k) for k, n in enumerate(long)}  # equal lengths stay equal, and longer ones stay longer

    def short(x: Any) -> Any:
        if not isinstance(x, np.ndarray):
            return x
        index: Any = (*(cuts.get(n, slice(None)) for n in x.shape), ...)
        return x[index].copy("K")

    return _mapped(values, short)


def _guarded(x: Any) -> Any:
    """A value that a call cannot change: of small arrays a copy, of large ones a view that cannot be written to."""
    if not isinstance(x, np.ndarray):
        return x
    if x.size <= _SMALL:
        return x.copy("K")
    x = x.view()
    x.flags.writeable = False
    return x


def rehearse(name: str, theirs: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    """Raise the error of NumPy's function for these arguments, or return shapes (or numbers of axes) and types of its result if not known.

    Args:
        name: of the function.
        theirs: NumPy's.
        args: by position.
        kwargs: by name.
    """
    form = _form_of(name, args, kwargs)
    if form is not None and form in _known:
        return None
    try:
        forms = _forms_of_numpy(name, theirs, _mapped((tuple(args), kwargs), _value))
    except _UnknownError:
        return None
    if form is not None:  # of a call that NumPy takes
        if len(_known) >= _MOST:
            _known.clear()
        _known.add(form)
    return forms


def _forms_of_numpy(name: str, theirs: Callable[..., Any], values: Any) -> Any:
    """Shapes and types of the result of NumPy's function, from parts of large arrays if it takes those; then ranks stand for shapes."""
    short = _short(values)
    if short is not None:
        with suppress(Exception):  # lengths may be among the arguments, as in a reshape
            return _without_lengths(_forms(_perform(name, theirs, short)))
    return _forms(_perform(name, theirs, _mapped(values, _guarded)))


def _perform(name: str, theirs: Callable[..., Any], values: Any) -> Any:
    """Call NumPy's function."""
    args, kwargs = values
    try:
        with np.errstate(all="ignore"):
            return theirs(*args, **kwargs)
    except np.linalg.LinAlgError as error:
        if local.tiling is not None and "dimension" not in str(error):  # an abstract array is no regular matrix
            raise _UnknownError from error
        raise
    except ValueError as error:
        if "read-only" in str(error):
            raise _UnknownError from error
        raise
    except (AttributeError, KeyError, AssertionError, RecursionError) as error:
        raise TypeError(f"{name} does not take these arguments, NumPy stops with: {error}") from error


def _forms(result: Any) -> Any:
    """Shapes and types of arrays; None stands for other things."""
    if isinstance(result, (Array, np.ndarray, np.generic)):
        return (result.shape, result.dtype)
    return [_forms(part) for part in result] if isinstance(result, (list, tuple)) else None


def _without_lengths(forms: Any) -> Any:
    if isinstance(forms, list):
        return [_without_lengths(part) for part in forms]
    return (len(forms[0]), forms[1]) if isinstance(forms, tuple) else forms


def require_alike(name: str, ours: Any, wanted: Any) -> None:
    """Refuse a result that NumPy would give in another shape or type."""
    if isinstance(ours, list) and isinstance(wanted, list):
        for a, b in zip(ours, wanted, strict=False):
            require_alike(name, a, b)
    elif isinstance(ours, tuple) and isinstance(wanted, tuple) and wanted not in (ours, _without_lengths(ours)):
        shape = f"{wanted[0]} axes" if isinstance(wanted[0], int) else wanted[0]
        raise DerivativeError(
            f"{name} of these arguments has the shape {ours[0]} and the type {ours[1]} inside of a derivative, where NumPy gives "
            f"{shape} and {wanted[1]}; convert the arguments to one floating-point type before"
        )


def explain(own: Callable[..., Any], args: Any, kwargs: Any) -> None:
    """Raise diffsim's own message for a call that NumPy refuses, if it has one. The function takes copies, as it may write into them."""
    args, kwargs = _mapped((tuple(args), kwargs), lambda x: x.copy() if type(x) is Array and x.ndim else x)
    try:
        own(*args, **kwargs)
    except Exception as error:
        if not isinstance(error, ArrayCallError) and (isinstance(error, DiffsimError) or _deliberate(error)):
            raise


def _deliberate(error: Exception) -> bool:
    """True if a `raise` of diffsim raised it, not an operation that failed."""
    if isinstance(error, ArrayCallError):  # an operator on the way refused arguments as NumPy does
        return False
    last = error.__traceback__
    while last is not None and last.tb_next is not None:
        last = last.tb_next
    if last is None or not last.tb_frame.f_globals.get("__name__", "").startswith("diffsim."):
        return False
    return last.tb_frame.f_code.co_code[last.tb_lasti] == _RAISE


def unlike_numpy(name: str, theirs: Callable[..., Any], call: Any, error: Exception) -> Exception:
    """The error outside for an error of diffsim: NumPy's own for the same values, or a message that NumPy would have taken them."""
    try:
        _forms_of_numpy(name, theirs, _mapped(call, _value))
    except _UnknownError:
        return error
    except Exception as wanted:
        return error if _deliberate(error) else wanted
    return DerivativeError(
        f"{name} inside of a derivative does not take these arguments, which NumPy takes: {error}; give arrays of numbers and plain "
        "options, or hold its arguments constant with ds.stop_gradient and call NumPy's function"
    )


def rehearsed(theirs: Callable[..., Any], *, alone: bool = False) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Make a function refuse calls that NumPy's of that name refuses, and NumPy's parameters that it does not have."""

    def decorate(own: Callable[P, T]) -> Callable[P, T]:
        name = f"numpy.{own.__name__}" if theirs.__module__ == "numpy" else f"{theirs.__module__}.{own.__name__}"
        places, names, missing = _compared(own, theirs)
        further = names - set(_defaults(theirs) or ()) if missing is not None else set()

        @functools.wraps(own)
        def function(*args: Any, **kwargs: Any) -> Any:
            if _state.inside or not local.depth:
                return own(*args, **kwargs)
            _state.inside = True
            call, forms = (args, kwargs), None
            try:
                if not alone and not (further and further & kwargs.keys()):
                    try:
                        forms = rehearse(name, theirs, args, kwargs)
                    except Exception as wanted:
                        if not isinstance(wanted, (MemoryError, OverflowError)):
                            explain(own, args, kwargs)
                        raise wanted from None
                if missing is not None and (len(args) > places or not kwargs.keys() <= names):
                    args, kwargs = _fitted(name, theirs, missing, args, kwargs, places)
                if kwargs.get("where", True) is None:  # which NumPy takes for False
                    kwargs = {**kwargs, "where": False}
                result = own(*args, **kwargs)
                if forms is not None and (result_forms := _forms(result)) != forms:
                    try:
                        require_alike(name, result_forms, forms)
                    except DerivativeError:
                        _known.discard(_form_of(name, *call))  # so that it is refused each time
                        raise
                return result
            except FAILURES as error:
                if isinstance(error, DiffsimError) and not isinstance(error, ArrayCallError):
                    raise
                raise refused(name, unlike_numpy(name, theirs, call, error), *call) from error
            finally:
                _state.inside = False

        return function

    return decorate


def _compared(own: Callable[..., Any], theirs: Callable[..., Any]) -> tuple[int, set[str], dict[str, Any] | None]:
    """The number of arguments by position, the keywords, and NumPy's further ones with their defaults (None: not known)."""
    ours = inspect.signature(own).parameters.values()
    defaults = _defaults(theirs)
    if defaults is None or any(p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD) for p in ours):
        return 0, set(), None
    places = sum(p.kind is not p.KEYWORD_ONLY for p in ours)
    names = {p.name for p in ours}
    return places, names, {n: default for n, default in defaults.items() if n not in names}


def _defaults(theirs: Callable[..., Any]) -> dict[str, Any] | None:
    """NumPy's parameters with their defaults; None if they cannot be found."""
    if isinstance(theirs, np.ufunc):
        return {**dict.fromkeys(f"x{k + 1}" for k in range(theirs.nin)), **OPTIONS}
    try:
        return {n: p.default for n, p in inspect.signature(theirs).parameters.items()}
    except ValueError:
        return None


FAILURES = (TypeError, ValueError, LookupError, AttributeError, ArithmeticError, AssertionError, RecursionError)
"""Errors of operations for arguments that they do not take."""
OPTIONS = {"out": None, "where": True, "casting": "same_kind", "order": "K", "dtype": None, "subok": True, "signature": None}
"""Options of all universal functions of NumPy, with the defaults."""


def _shown(value: Any) -> str:
    text = "an array" if isinstance(value, (Array, np.ndarray)) else repr(value)
    return text if len(text) < 80 else f"a {type(value).__name__}"


def _fitted(name: str, theirs: Any, missing: dict[str, Any], args: Any, kwargs: Any, places: int) -> tuple[Any, dict[str, Any]]:
    """The arguments by name, without those of NumPy's that are left at their defaults; the others are refused."""
    kept = {k: v for k, v in kwargs.items() if k not in missing}
    late = dict(zip(list(_defaults(theirs) or ())[places:], args[places:], strict=False))
    for key, value in {**late, **kwargs}.items():
        if key not in missing:
            kept[key] = value
        elif not (value is missing[key] or (type(value) is type(missing[key]) and value == missing[key])):
            raise DerivativeError(
                f"{name} inside of a derivative takes no {key} = {_shown(value)}; leave {key} out, or call NumPy's function with values "
                "that are not differentiated (ds.stop_gradient)"
            )
    return args[:places], kept
