"""Values that a recorded function takes from outside: only kinds whose changes are seen before each replay are taken.

The byte code of the function, and of the functions of the user's that it names, is read. Every name, and every attribute of an object that
is no array, number or part of a library, is bound to the same thing in a replay, or the function is recorded again.
"""

from __future__ import annotations

import builtins
import functools
import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import CodeType, FunctionType, MemberDescriptorType, MethodType, ModuleType
from typing import Any

import numpy as np

from diffsim.ad.core import UnrecordableError
from diffsim.ad.model import Model
from diffsim.ad.recorded.conditions import Conditions
from diffsim.ad.recorded.kinds import (
    ABSENT,
    IMMUTABLE,
    LIBRARIES,
    STATEFUL,
    attribute_of,
    has_parts,
    is_frozen,
    is_generated,
    is_library,
    is_numpys,
    is_own,
    own_parts,
    source_of_chance,
)
from diffsim.ad.surroundings.looks import look_of
from diffsim.ad.surroundings.reads import Read, reads_of
from diffsim.ad.transforms.custom import _Custom
from diffsim.base.copies import Remade
from diffsim.engine import Rebuilt

BUILTINS = {
    "abs", "all", "any", "bool", "bytes", "callable", "complex", "dict", "divmod", "enumerate", "filter", "float", "format",
    "frozenset", "hasattr", "int", "isinstance", "issubclass", "iter", "len", "list", "map", "max", "min", "next", "object", "pow",
    "print", "property", "range", "repr", "reversed", "round", "set", "slice", "sorted", "staticmethod", "str", "sum", "tuple", "type",
    "zip", "NotImplemented", "Ellipsis", "__debug__", "__name__",
}  # fmt: skip
"""Builtins by which nothing from outside is read."""
WRITES: dict[type, set[str]] = {
    list: {"append", "extend", "insert", "remove", "pop", "clear", "sort", "reverse"},
    dict: {"update", "setdefault", "pop", "popitem", "clear"},
}
"""Methods of lists and dicts that change them, which a replay would not do."""
OF_CLASSES = {"__dict__", "__weakref__", "__annotations__", "__dataclass_fields__", "__dataclass_params__", "__slots__", "__orig_bases__"}
REMEDY = "pass it as an argument, or take the numbers and arrays that are needed into local names before"
TAKEN = object()
SEEN = {*IMMUTABLE, np.ndarray}
Env = Mapping[str, Any]
"""Names of a function that are parameters of a known value, cells, or (ABSENT) its own."""


class WritesError(UnrecordableError):
    """A function changes a list or a dict from outside in each call."""


class Outside:
    """Conditions on what functions take from outside, which hold while all of it is as it is now.

    Attributes:
        conditions: to be looked at before each replay.
    """

    def __init__(self) -> None:
        self.conditions = Conditions()
        self._visited: set[tuple[Any, ...]] = set()
        self._kept: list[Any] = []  # so that ids stay theirs

    # values

    def value(self, value: Any, what: str) -> None:
        """Take a value as a whole.

        Raises:
            UnrecordableError: a change of it would not be seen.
        """
        name = self.conditions.name
        if type(value) in IMMUTABLE or isinstance(value, (np.generic, np.dtype)) or (isinstance(value, np.ufunc) and is_numpys(value)):
            return
        if type(value) is np.ndarray and not value.dtype.hasobject:
            self.conditions.arrays.append(value)
        elif type(value) in (tuple, frozenset):
            for k, part in enumerate(value):
                self.value(part, f"{what}[{k}]")
        elif type(value) in (list, dict) and (look := look_of(value)) is not None:
            self.conditions.require(f"{name(look_of)}({name(value)}) == {name(look)}")
        elif isinstance(value, FunctionType):
            self.function(value, {}, what)
        elif isinstance(value, MethodType):
            self._method(value.__func__, value.__self__, what)
        elif isinstance(value, functools.partial):
            self.callable(value.func)
            self._all((*value.args, *value.keywords.values()), what)
            self.conditions.require(f"{name(_partial_of)}({name(value)}) == {name(_partial_of(value))}")
        elif isinstance(value, Remade):
            for part in value.made_of:
                self.callable(part, what)
        elif isinstance(value, functools._lru_cache_wrapper) and not inspect.signature(value).parameters:
            result = value()  # the object that it keeps
            self.value(result, f"{what}()")
            self.conditions.require(f"{name(value)}() is {name(result, literal=False)}")
        elif isinstance(value, _Custom):
            self._all((part for part in vars(value).values() if isinstance(part, (FunctionType, Remade))), what)
            self.conditions.require(f"{name(_parts_of)}({name(value)}) == {name(_parts_of(value))}")
        elif isinstance(value, type):
            self.kind(value, what)
        elif is_own(value):
            self._own(value, what)
        elif chance := source_of_chance(value):
            raise UnrecordableError(
                f"it {chance} by {what}, which a replay would not do again; do that outside, and pass the numbers as arguments"
            )
        elif not is_library(value):
            raise UnrecordableError(f"it reads {what} (a {type(value).__name__}) from outside, of which changes are not seen; {REMEDY}")

    def _own(self, value: Any, what: str) -> None:
        """Take an object of diffsim with all that a user may change of it.

        A simulation computes with what it was compiled of, and its solver looks at its places. So of a simulation the attributes of its
        equation are taken, which a function may read.
        """
        if (id(value), "own") in self._visited:
            return
        self._visited.add((id(value), "own"))
        self._kept.append(value)
        if isinstance(value, Rebuilt):
            equation = getattr(value, "equation", None)
            parts = {
                name: part for name, part in getattr(equation, "__dict__", {}).items() if type(part) in SEEN or look_of(part) is not None
            }
            if equation is not None:
                self.conditions.same_parts(value, {"equation": equation})
            self.conditions.same_parts(equation, parts)
            self._all(parts.values(), f"{what}.equation")
            return
        if isinstance(value, dict):
            self.conditions.require(f"len({self.conditions.name(value)}) == {len(value)}")
            self.conditions.same_items(value, value)
            self._all(value.values(), what)
        parts = own_parts(value)
        if not is_frozen(value):
            self.conditions.same_parts(value, parts)
        for name, part in parts.items():
            if type(part) is dict and look_of(part) is None:
                self._own(part, f"{what}.{name}")
            else:
                self.value(part, f"{what}.{name}")

    def _all(self, values: Iterable[Any], what: str) -> None:
        for value in values:
            self.value(value, what)

    def kind(self, kind: type, what: str) -> None:
        """Take a class, with all its methods."""
        for each in kind.__mro__:
            if is_library(each) or (id(each),) in self._visited:
                continue
            self._visited.add((id(each),))
            if type(each) is not type:
                raise UnrecordableError(f"it reads {what}, a class of a class of its own ({type(each).__name__}); {REMEDY}")
            self.conditions.same_class(each)
            for key, part in vars(each).items():
                if key in OF_CLASSES or isinstance(part, MemberDescriptorType) or is_generated(part):
                    continue
                parts = (part.fget, part.fset, part.fdel) if isinstance(part, property) else (getattr(part, "__func__", part),)
                self._all(parts, f"{what}.{key}")

    def _method(self, function: Any, thing: Any, what: str) -> None:
        if not isinstance(function, FunctionType):
            self.value(thing, what)
            self.value(function, what)
        elif is_library(function):
            self.value(thing, what)
        elif not function.__code__.co_argcount:
            raise UnrecordableError(f"it calls {what}, which takes its object among others; {REMEDY}")
        else:
            self.function(function, {function.__code__.co_varnames[0]: thing}, what)

    def _assignment(self, owner: Any, attribute: str, what: str) -> None:
        """Take what runs when an attribute is assigned.

        Raises:
            UnrecordableError: it is code of the user's that cannot be taken with its object.
        """
        if not has_parts(owner) or isinstance(owner, type) or type(owner) is ModuleType:
            return  # a class of a class of its own is refused where it is read
        name, kind = self.conditions.name, type(owner)
        for each in ("__setattr__", attribute):
            setter = attribute_of(kind, each)
            self.conditions.same(f"{name(attribute_of)}({name(kind)}, {each!r})", setter)
            if each == "__setattr__" and (setter is object.__setattr__ or is_generated(setter)):
                continue
            if isinstance(setter, property):
                if setter.fset is not None:
                    self._method(setter.fset, owner, f"{what}.{attribute}")
            elif each == "__setattr__" or (hasattr(type(setter), "__set__") and not isinstance(setter, MemberDescriptorType)):
                raise UnrecordableError(
                    f"it assigns {what}.{attribute}, by code of its own of which changes are not seen; return the value"
                )

    def function(self, function: Any, bound: Env, what: str) -> None:
        """Take a function, some of whose parameters have a known value."""
        code, name = function.__code__, self.conditions.name
        if is_library(function) and function.__closure__ is None:
            return
        visit = (id(code), id(function), *map(id, bound.values()))
        if visit in self._visited:
            return
        self._visited.add(visit)
        self._kept += [function, *bound.values()]
        known = name(function)
        for part in ("__code__", "__defaults__", "__kwdefaults__"):
            self.conditions.require(f"{known}.{part} is {name(getattr(function, part), literal=False)}")
        self._all((*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()), f"a default value of {what}")
        cells = dict(zip(code.co_freevars, function.__closure__ or (), strict=True))
        if is_library(function):  # a wrapper of a function, which its closure has
            for content in (cell.cell_contents for cell in cells.values()):
                if isinstance(content, (FunctionType, MethodType, functools.partial, Remade, _Custom)) or has_parts(content):
                    self.value(content, what)
                elif isinstance(content, dict) and any(map(callable, content.values())):
                    raise UnrecordableError(
                        f"it calls {what}, which chooses among functions of a table (functools.singledispatch); call the one that is meant"
                    )
            return
        self._code(code, function.__globals__, {**cells, **bound}, set(bound))

    # names

    def _code(self, code: CodeType, names: dict[str, Any], env: Env, bound: set[str]) -> None:
        """Take the names that byte code reads.

        Args:
            code: of a function, or of one inside.
            names: its globals.
            env: cells by name, and known values of parameters.
            bound: names of these parameters.
        """
        own = {*code.co_varnames, *code.co_cellvars} - {*code.co_freevars} - bound  # comprehensions have names of both kinds
        for read in reads_of(code):
            if read.kind == "class":
                raise UnrecordableError("it defines a class; define it outside")
            if read.kind == "import":
                if read.name.partition(".")[0] not in LIBRARIES or read.name.startswith(STATEFUL):
                    raise UnrecordableError(f"it imports {read.name} inside, of which changes are not seen; import it outside")
            elif read.kind == "global":
                self._global(names, read)
            elif read.kind == "local" and read.name in env and read.name not in own:
                self._local(read, env[read.name], read.name in bound)
        for inner in code.co_consts:
            if isinstance(inner, CodeType):
                parameters = {*inner.co_varnames} - {*inner.co_freevars}
                self._code(
                    inner,
                    names,
                    {key: value for key, value in env.items() if key not in own and key not in parameters},
                    {key for key in bound if key not in parameters},
                )

    def _global(self, names: dict[str, Any], read: Read) -> None:
        key = read.name
        value = names.get(key, ABSENT)
        known = self.conditions.name(names, literal=False)
        if value is not ABSENT:
            self.conditions.same(f"{known}.get({key!r})", value)
            self._chain(value, read)
            return
        self.conditions.require(f"{key!r} not in {known}")
        value = getattr(builtins, key, ABSENT)
        if key not in BUILTINS and not (isinstance(value, type) and issubclass(value, BaseException)):
            raise UnrecordableError(
                f"it uses {key}, {'which is not bound' if value is ABSENT else 'by which it may read anything'}; {REMEDY}"
            )

    def _local(self, read: Read, value: Any, bound: bool) -> None:
        """Take a parameter that is known, or the contents of a cell."""
        if not bound:
            try:
                content = value.cell_contents
            except ValueError as error:
                raise UnrecordableError(f"it reads {read.name}, which is not bound") from error
            self.conditions.same(f"{self.conditions.name(value)}.cell_contents", content)
            value = content
        self._chain(value, read)

    def _chain(self, value: Any, read: Read) -> None:
        """Take a value and the attributes that are read of it, up to one that is no object of the user's."""
        what = read.name
        for attribute in read.attributes:
            if not has_parts(value) and not is_own(value):
                if attribute in WRITES.get(type(value), ()):
                    raise WritesError(f"it calls {what}.{attribute}, which a replay would not do; return the value, and do that outside")
                if isinstance(value, (FunctionType, MethodType)) and not is_library(value):
                    raise UnrecordableError(f"it reads {what}.{attribute}, an attribute of a function; {REMEDY}")
                break
            owner, what = value, f"{what}.{attribute}"
            if isinstance(owner, ModuleType) and is_library(owner):
                value = getattr(owner, attribute, ABSENT)
                continue
            value = self._attribute(owner, attribute, what)
            if value is TAKEN:
                return
        if read.assigned and (has_parts(value) or is_own(value)):
            self._assignment(value, read.assigned, what)
        else:
            self.value(value, what)

    def _attribute(self, owner: Any, attribute: str, what: str) -> Any:
        """Take an attribute of an object, a class or a module of the user's: what is read of it, or TAKEN if it is a method or a property,
        which is taken with its object."""
        name, value = self.conditions.name, attribute_of(owner, attribute)
        if is_own(owner):
            parts = own_parts(owner)
            if attribute not in parts:  # a method or a property
                if not isinstance(owner, Rebuilt):
                    self.value(owner, what)
                return TAKEN
            self.conditions.same_parts(owner, {attribute: parts[attribute]})
            return parts[attribute]
        if value is ABSENT:
            raise UnrecordableError(f"it reads {what}, which is found by code of its own, or not there; {REMEDY}")
        if isinstance(value, MemberDescriptorType):
            value = getattr(owner, attribute)
            self.conditions.same(f"{name(owner)}.{attribute}", value)
            return value
        self.conditions.same(f"{name(attribute_of)}({name(owner)}, {attribute!r})", value)
        if isinstance(value, staticmethod):
            return value.__func__
        of_class = not isinstance(owner, (ModuleType, type)) and attribute not in getattr(owner, "__dict__", {})
        if isinstance(value, property) and not isinstance(owner, type):
            self._method(value.fget, owner, what)
        elif isinstance(value, classmethod):
            self._method(value.__func__, owner if isinstance(owner, type) else type(owner), what)
        elif isinstance(value, Remade) and of_class:
            raise UnrecordableError(f"it calls {what}, a method that diffsim wraps; {REMEDY}")
        elif isinstance(value, FunctionType) and of_class:
            self._method(value, owner, what)
        else:
            return value
        return TAKEN

    def callable(self, function: Any, what: str = "the function") -> None:
        """Take the recorded function itself, or one that is an argument."""
        if has_parts(function) and not isinstance(function, (type, ModuleType)):
            called = attribute_of(type(function), "__call__")
            if isinstance(called, FunctionType):
                self.conditions.same(f"{self.conditions.name(attribute_of)}({self.conditions.name(type(function))}, '__call__')", called)
                self._method(called, function, what)
                return
        self.value(function, getattr(function, "__name__", what))


def require_no_writes(function: Callable[..., Any]) -> None:
    """Refuse a function that changes a list or a dict from outside, before it is recorded: what it leaves there has to be of plain calls.

    Raises:
        WritesError: it does.
    """
    try:
        Outside().callable(function)
    except WritesError:
        raise
    except (UnrecordableError, AttributeError, LookupError, TypeError, ValueError, RecursionError):
        return  # the call may still bind what is missing


def unchanged_of(
    function: Callable[..., Any], arrays: Sequence[np.ndarray], models: Sequence[Model], callables: Sequence[Any], kinds: Sequence[type]
) -> Callable[[], bool]:
    """A function that says whether all that a function takes from outside is as it is now.

    Args:
        function: the recorded function.
        arrays: that took part in its operations.
        models: solvers that it ran.
        callables: arguments that are functions, or objects of diffsim.
        kinds: classes of its arguments.

    Raises:
        UnrecordableError: it takes a thing of which a change would not be seen.
    """
    outside = Outside()
    for each in (function, *callables):
        outside.callable(each)
    for kind in kinds:
        outside.kind(kind, kind.__name__)
    outside.conditions.arrays += arrays
    return outside.conditions.compiled(models)


def _partial_of(value: Any) -> tuple[int, ...]:
    return (id(value.func), *map(id, value.args), *map(id, value.keywords.values()))


def _parts_of(value: Any) -> tuple[int, ...]:
    return tuple(map(id, vars(value).values()))
