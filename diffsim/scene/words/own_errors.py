"""Errors of Python that methods of a user's own classes raise, as one line that names the method, and the part of the scene."""

from __future__ import annotations

import inspect
import traceback
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import CodeType
from typing import Any, TypeAlias

from diffsim.base.messages import cut, path_shown, printable
from diffsim.base.misspelt import is_packaged
from diffsim.boundary import KINDS as RULES
from diffsim.errors import DiffsimError, SceneError

Classes: TypeAlias = Iterable[tuple[str, type]]
"""The key of a part of a scene, and its class."""


@contextmanager
def named_errors(classes: Classes, rules: str = "equation.boundary") -> Iterator[None]:
    """Turn errors from methods of a user's own classes into those of a scene.

    Errors of diffsim stay, for they say what was expected. So do errors that come from elsewhere: they are no fault of these classes.

    Args:
        classes: of the parts of the scene. Rules of a user's own are added.
        rules: the key of these; "": that of the rule, which the caller says.

    Raises:
        SceneError: a method of a class raised another error.
    """
    try:
        yield
    except (DiffsimError, MemoryError):
        raise
    except Exception as error:  # the code of a user may raise anything
        methods = _methods((*classes, *((rules, rule) for rule in RULES.values())))
        for frame, line in traceback.walk_tb(error.__traceback__):
            if (name := methods.get(frame.f_code)) is not None:
                text = cut(printable(traceback.format_exception_only(error)[-1].strip()), 200)
                place = f"{path_shown(Path(frame.f_code.co_filename))}, line {line}"
                raise SceneError(
                    f"{name} raised {text} ({place}), expected a result or an error of diffsim.errors; "
                    "correct the values of the scene, or the code"
                ) from error
        raise


def _methods(classes: Classes) -> dict[CodeType, str]:
    """Code -> key and name of each method, and of the functions of each property, that the classes of a user give to a part."""
    named: dict[CodeType, str] = {}
    for key, whole in classes:
        for kind in whole.__mro__:
            if kind.__module__ != "builtins" and not is_packaged(kind):
                for name, value in vars(kind).items():
                    for function in _functions(value):
                        if code := getattr(function, "__code__", None):
                            named.setdefault(code, f"{key}: {whole.__name__}.{name}".removeprefix(": "))
    return named


def _functions(value: Any) -> list[Any]:
    """The functions in an attribute of a class, with those that a decorator wraps."""
    # a class method has __func__, a cached property func
    outer = [value.fget, value.fset] if isinstance(value, property) else [getattr(value, "__func__", getattr(value, "func", value))]
    return [function for each in outer if callable(each) for function in (each, inspect.unwrap(each))]
