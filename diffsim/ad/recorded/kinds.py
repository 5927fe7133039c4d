"""Kinds of values, told without running code of the user's: those of libraries, which have no state, those whose attributes are
looked at one by one, and those that differ from call to call."""

from __future__ import annotations

import functools
import sys
from types import BuiltinFunctionType, FunctionType, MemberDescriptorType, MethodDescriptorType, MethodType, ModuleType
from typing import Any

import numpy as np

from diffsim.ad.arrays.array import Array
from diffsim.ad.core import Tracer
from diffsim.ad.transforms.custom import _Custom
from diffsim.base.copies import Remade

IMMUTABLE = {int, float, complex, bool, str, bytes, type(None), type(...), slice, range, type(NotImplemented)}
LIBRARIES = {
    "numpy", "scipy", "diffsim", "taichi", "math", "cmath", "operator", "functools", "itertools", "collections", "dataclasses", "typing",
    "contextlib", "warnings", "numbers", "copy", "abc", "builtins", "_operator", "_functools", "_collections", "_warnings",
}  # fmt: skip
"""Packages whose functions and classes have no state of their own."""
STATEFUL = ("numpy.random", "scipy.stats")
RANDOM = (*STATEFUL, "random", "_random", "secrets", "uuid")
CLOCKS = ("time", "datetime", "_datetime")
ABSENT = object()


def _root_of(thing: Any) -> str:
    if isinstance(thing, FunctionType):  # functools.wraps copies __module__
        return str(thing.__globals__.get("__name__", ""))
    if isinstance(thing, ModuleType):
        return thing.__name__
    return str(getattr(thing if isinstance(thing, type) else type(thing), "__module__", ""))


def is_library(thing: Any) -> bool:
    """True for modules, classes and functions of libraries that have no state that would go unseen."""
    root = _root_of(thing)
    if isinstance(thing, BuiltinFunctionType) or type(thing).__name__ in ("_ArrayFunctionDispatcher", "PyCapsule"):
        home = getattr(thing, "__self__", None)
        root = str(getattr(thing, "__module__", None) or "")
        if home is not None and not isinstance(home, (ModuleType, type)):
            return False
        root = root or str(getattr(home, "__module__", None) or getattr(home, "__name__", ""))
    elif isinstance(thing, MethodDescriptorType):
        root = thing.__objclass__.__module__
    elif not isinstance(thing, (ModuleType, type, FunctionType)):
        return root.startswith("diffsim.numpy")
    return root.partition(".")[0] in LIBRARIES and not root.startswith(STATEFUL)


def is_numpys(ufunc: np.ufunc) -> bool:
    """True for ufuncs of numbers; those of `np.frompyfunc` call a function of the user's on objects."""
    return any(set(signature) - {"O", "-", ">"} for signature in ufunc.types)


def is_own(value: Any) -> bool:
    """True for objects of diffsim that are no functions or arrays: solutions, equations, grids, simulations."""
    if isinstance(value, (type, ModuleType, FunctionType, MethodType, Tracer, Array, Remade)) or callable(value):
        return False
    root = type(value).__module__
    return root.partition(".")[0] == "diffsim" and not root.startswith("diffsim.numpy")


def own_parts(value: Any) -> dict[str, Any]:
    """The attributes that an object of diffsim has itself, by name."""
    parts = dict(getattr(value, "__dict__", {}))
    for kind in type(value).__mro__:
        slots = [name for name, part in kind.__dict__.items() if isinstance(part, MemberDescriptorType)]
        parts |= {name: getattr(value, name) for name in slots if hasattr(value, name)}
    return parts


def is_frozen(value: Any) -> bool:
    """True for dataclasses whose attributes cannot be assigned."""
    parameters = getattr(value, "__dataclass_params__", None)
    return parameters is not None and parameters.frozen is True


def source_of_chance(thing: Any) -> str:
    """A phrase for a function or an object that has another result each time, such as "draws random numbers"; "" for others."""
    home = getattr(thing, "__self__", None)
    things = [thing, type(thing), getattr(thing, "__objclass__", None), home, type(home)]
    roots = [str(each.__name__ if isinstance(each, ModuleType) else getattr(each, "__module__", "")) for each in things if each is not None]
    for kind, modules in (("draws random numbers", RANDOM), ("asks a clock", CLOCKS)):
        if any(root == module or root.startswith(f"{module}.") for root in roots for module in modules):
            return kind
    return ""


def has_parts(value: Any) -> bool:
    """True for objects and classes of the user's, and for modules, whose attributes are taken one by one."""
    if isinstance(value, ModuleType):
        return True
    if isinstance(value, type):
        return not is_library(value)
    simple = isinstance(value, (np.ndarray, np.generic, np.dtype, tuple, list, dict, set, str, bytes, int, float, complex, type(None)))
    functions = isinstance(value, (FunctionType, MethodType, BuiltinFunctionType, functools.partial, Remade, _Custom))
    home = type(value).__module__.partition(".")[0]
    return not simple and not functions and home not in LIBRARIES and home not in sys.stdlib_module_names


def attribute_of(thing: Any, name: str) -> Any:
    """An attribute without running code of the user's; ABSENT where such code would look for it, or it is not there."""
    if isinstance(thing, type):
        if type(thing) is not type:
            return ABSENT
        return next((kind.__dict__[name] for kind in thing.__mro__ if name in kind.__dict__), ABSENT)
    shared = ABSENT
    for kind in type(thing).__mro__:
        parts = kind.__dict__
        if name in parts and shared is ABSENT:
            shared = parts[name]
        if kind is not object and kind is not ModuleType and ("__getattr__" in parts or "__getattribute__" in parts):
            return ABSENT
    if isinstance(shared, (property, MemberDescriptorType)):
        return shared
    own = getattr(thing, "__dict__", {}).get(name, ABSENT)
    if own is not ABSENT:
        return own
    kind_of = type(shared)
    return ABSENT if hasattr(kind_of, "__get__") and not isinstance(shared, (FunctionType, Remade, staticmethod, classmethod)) else shared


def is_generated(part: Any) -> bool:
    """True for what dataclasses and named tuples write themselves, from the class alone."""
    function = getattr(part, "__func__", part)
    if isinstance(function, FunctionType):
        text = function.__code__.co_filename.startswith("<") and function.__closure__ is None
        return text or _root_of(function) in ("dataclasses", "collections", "reprlib")
    return type(part).__module__ in ("_collections", "collections")
