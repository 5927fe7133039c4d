"""Errors of Python that methods of a user's own equation raise, as one line that names the method."""

from __future__ import annotations

import inspect
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import CodeType
from typing import Any

from diffsim.base.kinds import is_packaged
from diffsim.base.messages import cut, path_shown, printable
from diffsim.errors import DiffsimError, SceneError
from diffsim.stepping.declare.equation import Equation


@contextmanager
def named_errors(equation: type[Equation]) -> Iterator[None]:
    """Turn errors from methods of a user's own equation into those of a scene.

    Errors of diffsim stay, for they say what was expected. So do errors that come from elsewhere: they are no fault of the equation.

    Args:
        equation: its class.

    Raises:
        SceneError: a method of the class raised another error.
    """
    try:
        yield
    except (DiffsimError, MemoryError):
        raise
    except Exception as error:  # the code of a user may raise anything
        methods = _methods(equation)
        for frame, line in traceback.walk_tb(error.__traceback__):
            if (name := methods.get(frame.f_code)) is not None:
                text = cut(printable(traceback.format_exception_only(error)[-1].strip()), 200)
                place = f"{path_shown(Path(frame.f_code.co_filename))}, line {line}"
                raise SceneError(
                    f"equation: {equation.__name__}.{name} raised {text} ({place}), expected a result or an error of diffsim.errors; "
                    "correct the values of the scene, or the code"
                ) from error
        raise


def _methods(equation: type[Equation]) -> dict[CodeType, str]:
    """Code -> name of each method, and of the functions of each property, that the classes of a user give to an equation."""
    named: dict[CodeType, str] = {}
    for kind in equation.__mro__:
        if kind.__module__ != "builtins" and not is_packaged(kind):
            for name, value in vars(kind).items():
                for function in _functions(value):
                    if code := getattr(function, "__code__", None):
                        named.setdefault(code, name)
    return named


def _functions(value: Any) -> list[Any]:
    """The functions in an attribute of a class, with those that a decorator wraps."""
    # a class method has __func__, a cached property func
    outer = [value.fget, value.fset] if isinstance(value, property) else [getattr(value, "__func__", getattr(value, "func", value))]
    return [function for each in outer if callable(each) for function in (each, inspect.unwrap(each))]
