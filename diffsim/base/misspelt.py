"""Attributes of a user's class that have no effect, because their names are misspelt.

A class of diffsim has options as attributes, which a subclass may set: `tolerance = 1e-6`. Another name is an attribute of the user's own,
for Python as for diffsim. It is taken for a misspelling of an option if all of this holds: it is nearly the name of the option, which the
class leaves at its default; its value is of the kind that the option takes; and no code of the modules of the class reads it. That is a
guess, for code elsewhere may read it: so it is a warning, once for each class and name.
"""

from __future__ import annotations

import ast
import difflib
import dis
import functools
import inspect
import linecache
import sys
from collections.abc import Collection, Iterator, Mapping
from numbers import Number
from types import CodeType, FunctionType, MappingProxyType
from typing import Any
from weakref import WeakKeyDictionary

from diffsim.base.messages import name_shown, warn_user
from diffsim.errors import MisspeltWarning

LIKENESS = 0.85
"""Likeness of two names (`difflib`) from which on one is a misspelling of the other: of 9 letters one may be wrong, or left out."""
SHORTEST = 4
"""Letters of the shortest name that counts: among shorter ones, too many are alike."""
LONGEST = 60
"""Letters of the longest name that is compared."""
GENERATED = ("__repr__", "__eq__", "__hash__", "__lt__", "__le__", "__gt__", "__ge__")
"""Methods that `dataclass` writes, which read each field."""
NOWHERE: Mapping[str, str] = MappingProxyType({})
_warned: WeakKeyDictionary[type, set[str]] = WeakKeyDictionary()
"""Class -> the names that it was warned of."""


def is_packaged(cls: type) -> bool:
    """True if a class is one of diffsim's."""
    return cls.__module__.partition(".")[0] == "diffsim"


def warn_of_misspelt(cls: type, elsewhere: Mapping[str, str] = NOWHERE) -> None:
    """Warn of misspelt options in the body of a class.

    Args:
        cls: a subclass of a class of diffsim.
        elsewhere: names that are no attributes, which a user may take for some -> where they belong.
    """
    base = _base(cls)
    if base is None or "__dataclass_fields__" in vars(cls):  # the second class of dataclass(slots=True) has the attributes of the first
        return
    arguments = dict.fromkeys(_arguments(base), f"an argument of {base.__name__}; give it to super().__init__()")
    for name, value in vars(cls).items():
        if not isinstance(value, type) and not any(hasattr(other, name) for other in cls.__mro__[1:]):
            _warn(cls, base, name, value, _own(cls), {**elsewhere, **arguments})


def warn_of_misspelt_on(instance: object) -> None:
    """Warn of misspelt options among the attributes of an object, which its constructor or other code has set."""
    cls = type(instance)
    base = _base(cls) or cls
    own = {*_own(cls), *vars(instance)}
    for name, value in vars(instance).items():
        if not hasattr(cls, name) and name not in _mentioned(base):
            _warn(cls, base, name, value, own, NOWHERE)


def _warn(cls: type, base: type, name: str, value: Any, own: Collection[str], elsewhere: Mapping[str, str]) -> None:
    """Warn if a name is a misspelling of an attribute of `base`. `own`: the names that the class itself sets."""
    if name.startswith("_") or not SHORTEST <= len(name) <= LONGEST or name in _warned.get(cls, ()):
        return
    right, remedy = _close(name, base), ""
    if right and right not in own and _of_one_kind(value, getattr(base, right, NOWHERE)):
        remedy = f"{right}, as {base.__name__} has it; rename it {right}"
    elif not callable(value) and (likely := difflib.get_close_matches(name, elsewhere, 1, LIKENESS)):
        remedy = f"{likely[0]} as {elsewhere[likely[0]]}"
    if remedy and not _is_read(cls, name):
        text = f"{cls.__name__} sets {name_shown(name)}, which its module does not read, expected {remedy}, or keep it for other code"
        if warn_user(text, MisspeltWarning, each=True):
            _warned.setdefault(cls, set()).add(name)


def _base(cls: type) -> type | None:
    """The class of diffsim that a user's class is made of."""
    return None if is_packaged(cls) else next((other for other in cls.__mro__ if is_packaged(other)), None)


@functools.lru_cache(maxsize=4096)
def _close(name: str, base: type) -> str:
    """The public attribute of a class that a name is nearly that of; "" if there is none."""
    declared = {name for other in base.__mro__ for name in vars(other).get("__annotations__", ())}  # some without a value
    known = {other.lower(): other for other in {*dir(base), *declared} if not other.startswith("_")}
    bare = name.lower().removeprefix("max_").removeprefix("num_").removeprefix("n_")
    close = [] if name in known else [bare] if bare in known else difflib.get_close_matches(name.lower(), known, 1, LIKENESS)
    return known[close[0]] if close else ""


def _arguments(base: type) -> list[str]:
    constructor = vars(base).get("__init__")
    return [*inspect.signature(constructor).parameters][1:] if isinstance(constructor, FunctionType) else []


def _of_one_kind(value: Any, usual: Any) -> bool:
    """True if a value may stand in place of another: a function that takes as many arguments, a number, a text, or a collection."""
    if isinstance(usual, property):
        return isinstance(value, property) or not callable(value)
    if isinstance(usual, (FunctionType, classmethod, staticmethod)):
        return isinstance(value, type(usual)) and _takes(value, usual)
    if isinstance(value, (FunctionType, classmethod, staticmethod, property)):
        return usual is None
    for kind in (bool, Number, str, Mapping, Collection):
        if isinstance(usual, kind):
            return isinstance(value, kind)
    return True


def _takes(value: Any, usual: Any) -> bool:
    """True if one function has as many arguments as another, or the other has any."""
    one, other = (inspect.signature(getattr(each, "__func__", each)).parameters.values() for each in (value, usual))
    free = any(each.kind in (each.VAR_POSITIONAL, each.VAR_KEYWORD) for each in other)
    return free or len(one) == len(other)


def _user_classes(cls: type) -> list[type]:
    return [other for other in cls.__mro__ if not is_packaged(other) and other.__module__ not in ("builtins", "abc", "typing")]


def _own(cls: type) -> set[str]:
    """The names that the user's classes of a class set, in their bodies and by their methods."""
    classes = _user_classes(cls)
    written = (name for other in classes for code in _codes(other) for name in _names(code, "STORE_ATTR"))
    return {*written, *(name for other in classes for name in vars(other))}


@functools.lru_cache(maxsize=256)
def _mentioned(base: type) -> frozenset[str]:
    """All names in the methods of a class of diffsim and of those that it is made of."""
    return frozenset(name for other in base.__mro__ for code in _codes(other) for name in code.co_names)


def _is_read(cls: type, name: str) -> bool:
    """True if the code of the user's classes of a class, or of their modules, reads an attribute of this name."""
    for other in _user_classes(cls):
        codes = list(_codes(other))
        if any(name in (*_names(code, "LOAD_ATTR"), *_names(code, "LOAD_METHOD"), *code.co_consts) for code in codes):
            return True
        files = {code.co_filename for code in codes} | {getattr(sys.modules.get(other.__module__), "__file__", None) or ""}
        if any(name in _reads(file) for file in files):
            return True
    return False


@functools.lru_cache(maxsize=16)
def _reads(file: str) -> frozenset[str]:
    """Names of attributes that a source reads, and its texts, which may be names for `getattr`."""
    try:
        nodes = [*ast.walk(ast.parse("".join(linecache.getlines(file))))]
    except (SyntaxError, ValueError):
        return frozenset()
    read = {node.attr for node in nodes if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load)}
    return frozenset(read | {node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)})


def _codes(cls: type) -> Iterator[CodeType]:
    """The code of the methods of a class, and of functions in them, but for those of a dataclass that read each field."""
    written = GENERATED if "__dataclass_fields__" in vars(cls) else ()
    for value in (value for name, value in vars(cls).items() if name not in written):
        for part in (value.fget, value.fset) if isinstance(value, property) else (value,):
            code = getattr(inspect.unwrap(getattr(part, "__func__", part)) if callable(part) else part, "__code__", None)
            if isinstance(code, CodeType):
                yield from _nested(code)


def _nested(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _nested(constant)


def _names(code: CodeType, operation: str) -> Iterator[str]:
    return (each.argval for each in dis.get_instructions(code) if each.opname == operation)
