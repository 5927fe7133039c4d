"""Sends a user's kernel to a fresh interpreter: as source text and values, so that the user's script is not run there.

These can be sent: the kernel, the `ti.func`s and plain functions that it or its hand-written adjoint uses, all as source;
modules, by name; numbers, strings, arrays, and tuples, lists and dicts of them; Taichi's types; classes and functions of
modules other than the user's script, by name. These cannot: Taichi fields, objects and classes that the script defines,
functions written as lambda or with decorators of their own.
"""

from __future__ import annotations

import ast
import builtins
import importlib
import pickle
import types
from typing import Any

import numpy as np

from diffsim import engine
from diffsim.ad.userkernel.kernel import UserKernel, kernel
from diffsim.ad.userkernel.operations import name_in_language
from diffsim.ad.userkernel.signature import Like
from diffsim.ad.userkernel.source import MISSING, Source
from diffsim.errors import KernelError

Packed = tuple[Any, ...]
OWN_DECORATORS = ("adjoint", "tangent", "kernel", "func", "pyfunc", "custom_vjp")
PLAIN = (int, float, complex, str, bytes, bool, type(None), np.ndarray, np.generic, np.dtype)


def pack(kernel: UserKernel, shapes: dict[str, tuple[int, ...]]) -> Packed:
    """A kernel as data that `pickle` takes. `shapes` are those of its outputs, where a function would give them.

    Raises:
        KernelError: something that it uses cannot be sent.
    """
    return _pack_kernel(kernel, (), shapes)


def _pack_kernel(kernel: UserKernel, chain: tuple[int, ...], shapes: dict[str, tuple[int, ...]] | None = None) -> Packed:
    signature = kernel.signature
    writes: dict[str, Like] = {}
    for name, like in signature.outputs.items():
        shape = (shapes or {}).get(name)
        if callable(like) and shape is None:
            raise _cannot(f"the shape of {name}", "it is a function of the inputs of a kernel that is itself an adjoint; name an input")
        writes[name] = name if like is None else shape if callable(like) else like
    reads = tuple(name for name in signature.inputs if name not in writes)
    hand = [None if f is None else _pack_value(f, f.__name__, chain) for f in (kernel.hand_adjoint, kernel.hand_tangent)]
    return ("kernel", _pack_function(kernel.source, "", chain), reads, writes, *hand)


def _pack_function(source: Source, decorator: str, chain: tuple[int, ...]) -> Packed:
    identity = id(source.function)
    if identity in chain:
        raise _cannot(source.function.__name__, "it calls itself, directly or not; write a loop")
    names = {}
    for name in sorted(source.free_names):
        value = source.resolve(name)
        if value is MISSING:
            raise _cannot(name, f"{source.function.__name__} uses it, and it is not defined; define it first")
        if value is not getattr(builtins, name, MISSING):
            names[name] = _pack_value(value, name, (*chain, identity))
    return ("function", source.function.__name__, decorator + source.text, names)


def _pack_value(value: Any, name: str, chain: tuple[int, ...]) -> Packed:
    """One value that a function uses under `name`."""
    ti = engine.language()
    if isinstance(value, UserKernel):
        return _pack_kernel(value, chain)
    if isinstance(value, types.ModuleType):
        return ("module", value.__name__)
    if isinstance(value, PLAIN):
        return ("value", value)
    if isinstance(value, (tuple, list)):
        return ("sequence", type(value), [_pack_value(v, f"{name}[{i}]", chain) for i, v in enumerate(value)])
    if isinstance(value, dict):
        return ("dict", [(k, _pack_value(v, f"{name}[{k!r}]", chain)) for k, v in value.items()])
    if isinstance(value, ti.types.ndarray):
        return ("array type", _pack_value(value.dtype, name, chain), value.ndim)
    if (dtype := next((k for k in ti.types.primitive_types.__all__ if getattr(ti, k, MISSING) is value), None)) is not None:
        return ("number type", dtype)
    if name_in_language(value) == "Matrix" and not isinstance(value, type):
        return ("vector type", value.n, value.m, value.ndim, _pack_value(value.dtype, name, chain))
    module = getattr(value, "__module__", None)
    function, package = isinstance(value, types.FunctionType) or engine.present().is_function(value), (module or "").partition(".")[0]
    if function and package not in ("numpy", "scipy", "diffsim") and not engine.present().is_own(package):
        return _pack_callable(value, name, chain)
    return _by_name(value, name)


def _pack_callable(value: Any, name: str, chain: tuple[int, ...]) -> Packed:
    """A `ti.func`, or a plain function."""
    source = Source.of(value)
    for decorator in source.tree.decorator_list:
        called = decorator.func if isinstance(decorator, ast.Call) else decorator
        if getattr(called, "attr", getattr(called, "id", "")) not in OWN_DECORATORS:
            raise _cannot(name, f"it is decorated with {ast.unparse(decorator)}; define it in a module, or without")
    kind = "@ti.real_func\n" if getattr(value, "_is_real_function", False) else "@ti.func\n" if engine.present().is_function(value) else ""
    return _pack_function(source, kind, chain)


def _by_name(value: Any, name: str) -> Packed:
    """Something importable, or that pickles; else it cannot be sent."""
    module, qualified = getattr(value, "__module__", None), getattr(value, "__qualname__", "")
    if module and module != "__main__" and qualified and "<" not in qualified:
        return ("import", module, qualified)
    try:
        if (module or type(value).__module__) == "__main__":
            raise pickle.PicklingError("it is defined in the script that runs")
        pickle.dumps(value)
    except (pickle.PicklingError, TypeError, AttributeError, RuntimeError) as error:
        raise _cannot(name, f"it is a {type(value).__name__}: {error}; define it in a module, or pass its values") from error
    return ("value", value)


def _cannot(name: str, why: str) -> KernelError:
    return KernelError(f"{name} cannot be sent to the process that checks the kernel: {why}. isolated=False checks it in this process")


def unpack(packed: Packed) -> Any:
    """Make the packed object in this process."""
    kind, *rest = packed
    if kind == "kernel":
        function, reads, writes, adjoint, tangent = rest
        restored = kernel(reads=reads, writes=writes)(unpack(function))
        restored.hand_adjoint = None if adjoint is None else unpack(adjoint)
        restored.hand_tangent = None if tangent is None else unpack(tangent)
        return restored
    if kind == "function":
        name, text, names = rest
        return engine.compile_kernel(text, name, {key: unpack(value) for key, value in names.items()})
    return _unpack_value(kind, rest)


def _unpack_value(kind: str, rest: list[Any]) -> Any:
    ti = engine.language()
    match kind:
        case "module":
            return importlib.import_module(rest[0])
        case "value":
            return rest[0]
        case "sequence":
            return rest[0](unpack(v) for v in rest[1])
        case "dict":
            return {key: unpack(value) for key, value in rest[0]}
        case "array type":
            return ti.types.ndarray(dtype=unpack(rest[0]), ndim=rest[1])
        case "number type":
            return getattr(ti, rest[0])
        case "vector type":
            n, m, ndim, dtype = rest
            return ti.types.vector(n, unpack(dtype)) if ndim == 1 else ti.types.matrix(n, m, unpack(dtype))
    thing: Any = importlib.import_module(rest[0])
    for part in rest[1].split("."):
        thing = getattr(thing, part)
    return thing
