"""Sends a user's kernel to a fresh interpreter: as source text and values, so that the user's script is not run there.

Functions go as source: the kernel, the `ti.func`s and plain functions that it or its hand-written adjoint uses. Modules, and classes and
functions of libraries, go by name, other values as `pickle` has them. These cannot be sent: Taichi fields, objects and classes
that the script defines, functions written as lambda or with decorators of their own.
"""

from __future__ import annotations

import ast
import builtins
import importlib
import io
import pickle
import types
from collections.abc import Mapping
from typing import Any

from diffsim import engine
from diffsim.ad.surroundings.reading import is_library
from diffsim.ad.userkernel.kernel import UserKernel, kernel
from diffsim.ad.userkernel.signature import Like
from diffsim.ad.userkernel.source import MISSING, Source
from diffsim.errors import KernelError

OWN_DECORATORS = ("adjoint", "tangent", "kernel", "func", "pyfunc", "custom_vjp")
Shapes = Mapping[str, tuple[int, ...]]


def pack(value: Any, name: str, shapes: Shapes | None = None, chain: tuple[types.FunctionType, ...] = ()) -> bytes:
    """A kernel, or a value that it uses under `name`, as bytes for `unpack`.

    Args:
        value: what is sent.
        name: of it, for errors.
        shapes: those of the outputs of a kernel, where a function would give them.
        chain: functions that use it.

    Raises:
        KernelError: it, or something that it uses, cannot be sent.
    """
    buffer = io.BytesIO()
    packer = _Packer(buffer)
    packer.name, packer.shapes, packer.chain = name, shapes or {}, chain
    try:
        packer.dump(value)
    except KernelError:
        raise
    except (pickle.PicklingError, TypeError, AttributeError, RuntimeError) as error:
        raise _cannot(name, f"it is a {type(value).__name__}: {error}; define it in a module, or pass its values") from error
    return buffer.getvalue()


unpack = pickle.loads


class _Packer(pickle.Pickler):
    name: str
    shapes: Shapes
    chain: tuple[types.FunctionType, ...]

    def reducer_override(self, value: Any) -> Any:
        """How a value is made again: a function and its arguments; `NotImplemented` where `pickle` knows."""
        ti = engine.language()
        if isinstance(value, UserKernel):
            return self._kernel(value)
        if isinstance(value, types.ModuleType):
            return importlib.import_module, (value.__name__,)
        if isinstance(value, ti.types.ndarray):
            return _array_type, (value.dtype, value.ndim)
        if (dtype := next((k for k in ti.types.primitive_types.__all__ if getattr(ti, k, MISSING) is value), None)) is not None:
            return _number_type, (dtype,)
        if engine.present().is_own(type(value).__module__) and hasattr(value, "n") and hasattr(value, "dtype"):
            return _vector_type, (value.n, value.m, value.ndim, value.dtype)
        if isinstance(value, types.FunctionType) or engine.present().is_function(value):
            return NotImplemented if is_library(value) else self._function(value)
        if (getattr(value, "__module__", None) or type(value).__module__) == "__main__":
            raise pickle.PicklingError("it is defined in the script that runs")
        return NotImplemented

    def _kernel(self, value: UserKernel) -> Any:
        writes: dict[str, Like] = {}
        for name, like in value.signature.outputs.items():
            shape = self.shapes.get(name)
            if callable(like) and shape is None:
                raise _cannot(f"the shape of {name}", "it is a function of the inputs of a kernel that is itself an adjoint; name an input")
            writes[name] = name if like is None else shape if callable(like) else like
        reads = tuple(name for name in value.signature.inputs if name not in writes)
        rules = (value.hand_adjoint, value.hand_tangent)
        return _made_kernel, (*self._source(value.source, ""), reads, writes, *(pack(f, getattr(f, "__name__", "")) for f in rules))

    def _function(self, value: Any) -> Any:
        """A `ti.func`, or a plain function."""
        source = Source.of(value)
        for decorator in source.tree.decorator_list:
            called = decorator.func if isinstance(decorator, ast.Call) else decorator
            if getattr(called, "attr", getattr(called, "id", "")) not in OWN_DECORATORS:
                raise _cannot(self.name, f"it is decorated with {ast.unparse(decorator)}; define it in a module, or without")
        real = getattr(value, "_is_real_function", False)
        return _made, self._source(source, "@ti.real_func\n" if real else "@ti.func\n" if engine.present().is_function(value) else "")

    def _source(self, source: Source, decorator: str) -> tuple[str, str, dict[str, bytes]]:
        """Name and text of a function, and all that it uses."""
        if source.function in self.chain:
            raise _cannot(source.function.__name__, "it calls itself, directly or not; write a loop")
        names = {}
        for name in sorted(source.free_names):
            value = source.resolve(name)
            if value is MISSING:
                raise _cannot(name, f"{source.function.__name__} uses it, and it is not defined; define it first")
            if value is not getattr(builtins, name, MISSING):
                names[name] = pack(value, name, chain=(*self.chain, source.function))
        return source.function.__name__, decorator + source.text, names


def _cannot(name: str, why: str) -> KernelError:
    return KernelError(f"{name} cannot be sent to the process that checks the kernel: {why}. isolated=False checks it in this process")


def _made(name: str, text: str, names: Mapping[str, bytes]) -> Any:
    return engine.compile_kernel(text, name, {key: unpack(value) for key, value in names.items()})


def _made_kernel(name: str, text: str, names: Mapping[str, bytes], reads: Any, writes: Any, adjoint: bytes, tangent: bytes) -> UserKernel:
    restored = kernel(reads=reads, writes=writes)(_made(name, text, names))
    restored.hand_adjoint, restored.hand_tangent = unpack(adjoint), unpack(tangent)
    return restored


def _array_type(dtype: Any, ndim: Any) -> Any:
    return engine.language().types.ndarray(dtype=dtype, ndim=ndim)


def _number_type(name: str) -> Any:
    return getattr(engine.language(), name)


def _vector_type(n: int, m: int, ndim: int, dtype: Any) -> Any:
    types_of = engine.language().types
    return types_of.vector(n, dtype) if ndim == 1 else types_of.matrix(n, m, dtype)
