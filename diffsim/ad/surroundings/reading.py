"""Values that a Python function reads from outside, by its byte code and that of the functions it calls."""

from __future__ import annotations

import functools
import inspect
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache, partial
from types import CellType, CodeType, FunctionType, MemberDescriptorType, MethodType, ModuleType, SimpleNamespace
from typing import Any, NamedTuple

from diffsim.ad.surroundings.looks import look_of
from diffsim.ad.surroundings.reads import reads_of
from diffsim.base.copies import Remade

ABSENT = object()
"""The result of a reader where there is no value by now."""
LIBRARIES = frozenset({"diffsim", "numpy", "scipy", "taichi", "quadrants"}) | sys.stdlib_module_names
"""Packages whose functions and objects are assumed not to change."""

WRITES = {("append",), ("extend",), ("insert",), ("update",), ("clear",)}
"""Methods of lists and dicts that change them and return none of their contents."""

Reader = Callable[[], Any]
Readers = dict[tuple[int, str], Reader]
"""Functions that find a value, by the id of the scope of the first part of its name, and its name with dots."""


class _Chain(NamedTuple):
    """A name that is read, and the attributes that follow it. `kind` is its scope: "global", "closure", "local" or "import"."""

    kind: str
    name: str
    attributes: tuple[str, ...]


class _Call(NamedTuple):
    """A function, and the values of those of its parameters that are known beforehand."""

    function: Any  # a FunctionType, which mypy would take for a method here
    bound: Mapping[str, Any]


def readers_of(rule: Any, codes: list[CodeType] | None = None) -> Readers:
    """Readers of the numbers, arrays and records that a callable takes from outside, but for names that it assigns itself.

    Args:
        rule: any callable.
        codes: a list to which the code of the callable and of all functions that it calls is added.
    """
    readers: Readers = {}
    visited: set[tuple[int, ...]] = set()
    calls = list(_calls(rule, readers))
    while calls:
        call = calls.pop()
        identity = (id(call.function.__code__), id(call.function.__globals__), *map(id, call.function.__closure__ or ()))
        identity += tuple(map(id, call.bound.values()))
        if identity not in visited:
            visited.add(identity)
            if codes is not None:
                codes.append(call.function.__code__)
            for chain in _read(call.function.__code__):
                calls += _follow(call, chain, readers)
    return readers


def look(value: Any, seen: set[int] | None = None) -> Any:
    """`look_of`, or for objects and records with other contents too, that of the numbers and arrays among their parts, at any depth.

    Args:
        value: any.
        seen: ids of objects that were looked at before. Each is looked at once: objects may contain one another.
    """
    own, seen = look_of(value), set() if seen is None else seen
    if own is not None or id(value) in seen or (seen and _is_installed(type(value))):
        return own
    seen.add(id(value))
    looks = ((name, look(part, seen)) for name, part in parts_of(value))
    parts = {name: each for name, each in looks if each is not None}
    return (type(value), parts) if parts else None


def parts_of(value: Any) -> list[tuple[Any, Any]]:
    """Entries or attributes of a record, with their names."""
    if isinstance(value, dict):
        return list(value.items())
    if isinstance(value, (list, tuple)):
        return list(enumerate(value))
    if isinstance(value, ModuleType) and value.__name__.partition(".")[0] not in LIBRARIES:
        return [(name, part) for name, part in vars(value).items() if not name.startswith("__")]
    if isinstance(value, (ModuleType, type)) or callable(value) or (is_library(type(value)) and not isinstance(value, SimpleNamespace)):
        return []
    slots = [name for kind in type(value).__mro__ for name, member in vars(kind).items() if isinstance(member, MemberDescriptorType)]
    return [*vars(value).items()] if hasattr(value, "__dict__") else [(name, getattr(value, name, ABSENT)) for name in slots]


def is_library(thing: Any) -> bool:
    """True if a function, a class or a module's object is a library's."""
    return (getattr(thing, "__module__", None) or "").partition(".")[0] in LIBRARIES


def _is_installed(kind: type) -> bool:
    """True for a class of an installed package: such objects may change what they contain by being read, as tables with a cache do."""
    file = getattr(sys.modules.get(kind.__module__), "__file__", None) or ""
    return f"{os.sep}site-packages{os.sep}" in file or f"{os.sep}dist-packages{os.sep}" in file


def _calls(value: Any, readers: Readers, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None) -> Iterator[_Call]:
    """The functions that run when a value is called. Values that kernels take from outside are added to `readers`."""
    kwargs = kwargs or {}
    if isinstance(value, partial):
        yield from _calls(value.func, readers, (*value.args, *args), {**value.keywords, **kwargs})
    elif isinstance(value, MethodType):
        yield from _calls(value.__func__, readers, (value.__self__, *args), kwargs)
    elif isinstance(value, (staticmethod, classmethod)):
        yield from _calls(value.__func__, readers, args, kwargs)
    elif isinstance(value, Remade):
        for part in value.made_of:
            yield from _calls(part, readers)
    elif isinstance(value, FunctionType):
        yield _Call(value, _bound(value, args, kwargs))
        if hasattr(value, "__wrapped__"):
            yield from _calls(value.__wrapped__, readers)
    elif hasattr(value, "names_around"):  # a kernel
        for source, name in value.names_around():
            readers[id(source.function), name] = partial(source.resolve_dotted, name)
            yield from _calls(source.resolve_dotted(name), readers)
        yield from _calls(getattr(value, "hand_adjoint", None), readers)
    elif isinstance(wrapped := inspect.getattr_static(value, "__wrapped__", None), FunctionType):
        yield from _calls(wrapped, readers, args, kwargs)
    elif isinstance(method := inspect.getattr_static(type(value), "__call__", None), FunctionType):
        yield from _calls(method, readers, (value, *args), kwargs)


def _bound(function: FunctionType, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    code = function.__code__
    names, defaults = code.co_varnames[: code.co_argcount], function.__defaults__ or ()
    bound = dict(zip(names[len(names) - len(defaults) :], defaults, strict=True)) | (function.__kwdefaults__ or {})
    bound |= dict(zip(names, args, strict=False)) | dict(kwargs)
    if code.co_flags & inspect.CO_VARARGS and len(args) > len(names):
        bound[code.co_varnames[code.co_argcount + code.co_kwonlyargcount]] = tuple(args[len(names) :])
    return bound


def _follow(call: _Call, chain: _Chain, readers: Readers) -> Iterator[_Call]:
    """Add a reader of the value at the end of a chain of names, or yield the functions there, also those in a list or a dict."""
    root = _root(call, chain)
    if root is None:
        return
    scope, reader = root
    value = reader()
    for depth in range(len(chain.attributes) + 1):
        if look_of(value) is not None or depth == len(chain.attributes):
            break
        value = _attribute(value, chain.attributes[depth])
        if isinstance(value, _Call):
            yield value
            return
    if isinstance(value, (list, dict)) and chain.attributes[depth : depth + 1] in WRITES:
        return
    if isinstance(value, (tuple, list, dict)):
        for _, part in parts_of(value):
            if isinstance(part, FunctionType) and not is_library(part):
                yield from _calls(part, readers)
    name = ".".join((chain.name, *chain.attributes[:depth]))
    if look(value) is not None:
        readers[scope, name] = partial(_find, reader, chain.attributes[:depth])
    elif (
        callable(value)
        and not isinstance(value, type)
        and (not is_library(value) or isinstance(value, (partial, Remade)) or hasattr(value, "names_around"))
    ):
        yield from _calls(value, readers)


def _root(call: _Call, chain: _Chain) -> tuple[int, Reader] | None:
    """The id of the scope of a chain's first name, and a reader of its value; None for a local of the function, or a builtin."""
    function = call.function
    if chain.kind == "global":
        return (id(function.__globals__), partial(function.__globals__.get, chain.name)) if chain.name in function.__globals__ else None
    if chain.kind == "import":
        package = function.__globals__.get("__package__")
        name = chain.name if chain.name in sys.modules else f"{package}.{chain.name}"
        return id(sys.modules), partial(sys.modules.get, name, ABSENT)
    if chain.name in call.bound:
        value = call.bound[chain.name]
        return id(value), lambda: value
    if chain.kind == "closure" and chain.name in function.__code__.co_freevars:
        cell = (function.__closure__ or ())[function.__code__.co_freevars.index(chain.name)]
        return id(cell), partial(_content, cell)
    return None


def _find(reader: Reader, attributes: Sequence[str]) -> Any:
    value = reader()
    for attribute in attributes:
        value = _attribute(value, attribute)
    return value


def _attribute(value: Any, name: str) -> Any:
    """An attribute, without running code of the user's. Where a function would run, it is that function."""
    static = inspect.getattr_static(value, name, ABSENT)
    if isinstance(static, property) and isinstance(static.fget, FunctionType):
        return _Call(static.fget, _bound(static.fget, (value,), {}))
    if isinstance(static, functools.cached_property):
        return _Call(static.func, _bound(static.func, (value,), {}))  # type: ignore[arg-type]
    if isinstance(static, MemberDescriptorType):
        return getattr(value, name, ABSENT)
    if isinstance(static, classmethod):
        return MethodType(static.__func__, value if isinstance(value, type) else type(value))
    if isinstance(static, FunctionType) and not isinstance(value, (ModuleType, type)) and name not in getattr(value, "__dict__", {}):
        return MethodType(static, value)
    return static.__func__ if isinstance(static, staticmethod) else static


def _content(cell: CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # named, but not assigned yet
        return ABSENT


@lru_cache(256)
def _read(code: CodeType) -> tuple[_Chain, ...]:
    """The names with attributes that a function reads, and the functions inside of it, but for the names that they assign."""
    chains, assigned = _scanned(code)
    return tuple(dict.fromkeys(c for c in chains if (c.kind, c.name) not in assigned))


def _scanned(code: CodeType) -> tuple[list[_Chain], set[tuple[str, str]]]:
    chains: list[_Chain] = []
    assigned: set[tuple[str, str]] = set()
    shared = {*code.co_freevars, *code.co_cellvars}
    for read in reads_of(code):
        if read.kind == "stored":
            assigned.add(("closure" if read.name in shared else "global", read.name))
        elif not read.assigned and not read.entry:
            chains.append(_Chain("closure" if read.kind == "local" and read.name in shared else read.kind, read.name, read.attributes))
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            more, stored = _scanned(inner)
            chains += [c for c in more if c.kind != "local"]
            assigned |= stored
    return chains, assigned
