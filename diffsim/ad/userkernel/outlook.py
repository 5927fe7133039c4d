"""Looks of objects and plain functions that a kernel uses, which show a change: Taichi reads them once, when it compiles."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from types import FunctionType, MethodType, ModuleType, SimpleNamespace
from typing import Any

from diffsim.ad.surroundings.looks import look_of
from diffsim.ad.surroundings.reading import is_library, parts_of, readers_of

Seen = dict[int, Any]
"""Objects that were looked at already, by their id."""


def outlook(value: Any, seen: Seen | None = None) -> Any:
    """Numbers, texts and arrays that a value leads to: entries, attributes, values that its functions read. None: there are none."""
    own, seen = look_of(value), {} if seen is None else seen
    if own is not None:
        return own
    if id(value) in seen or isinstance(value, ModuleType):
        return None
    seen[id(value)] = value
    if isinstance(value, (list, tuple, set, frozenset)):
        return _several(type(value), enumerate(value), seen)
    if isinstance(value, dict):
        return _several(dict, value.items(), seen)
    if isinstance(value, partial):
        return partial, outlook(value.func, seen), outlook(value.args, seen), outlook(value.keywords, seen)
    if isinstance(value, property):
        return outlook(value.fget, seen)
    if isinstance(value, (staticmethod, classmethod)):
        return outlook(value.__func__, seen)
    if isinstance(value, MethodType):
        return outlook(value.__func__, seen), outlook(value.__self__, seen)
    if is_library(value) or (is_library(type(value)) and not isinstance(value, (FunctionType, type, SimpleNamespace))):
        return None
    if isinstance(value, FunctionType):
        return value.__code__, _several(FunctionType, [(key[1], reader()) for key, reader in readers_of(value).items()], seen)
    if isinstance(value, type):
        return _several(value, _attributes(value), seen)
    return _several(type(value), [*parts_of(value), *_attributes(type(value))], seen)


def _attributes(kind: type) -> list[tuple[str, Any]]:
    """The attributes of a class and of those that it inherits from, but for classes of libraries."""
    namespaces = [vars(k).items() for k in kind.__mro__ if not is_library(k)]
    return [(name, value) for items in namespaces for name, value in items if not name.startswith("__")]


def _several(kind: Any, parts: Iterable[tuple[Any, Any]], seen: Seen) -> Any:
    return kind, tuple((str(name), look) for name, part in parts if (look := outlook(part, seen)) is not None)
