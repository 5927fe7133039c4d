"""Kernels from sources: compiled once, found by a digest, and dropped when the engine's program ends."""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import linecache
import os
import time
import types
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from diffsim.engine import translation
from diffsim.engine.engines import language, present
from diffsim.engine.expressions import expression
from diffsim.engine.session import before_start, lock, options_in_force, settings

PACKAGE = __name__.partition(".")[0]
_IMPORTED = time.time()
_source_names = itertools.count(1)
_shared: dict[tuple[str, Hashable], Any] = {}  # kernels by source and key
_made: list[tuple[str, Any]] = []  # every kernel of the present program, with the name of its source


def compile_kernel(source: str, name: str, namespace: dict[str, Any], generated: bool = False) -> Any:
    """Turn the source of one kernel into a kernel of the present engine.

    The text is registered with `linecache`, since engines read the source of the code that they compile, and so do tracebacks.

    Args:
        source: of the kernel, and of functions that it calls.
        name: of the kernel in it.
        namespace: the objects of the names in the source.
        generated: whether diffsim wrote all of it, so that errors need not say where.
    """
    filename = f"{translation.GENERATED if generated else '<diffsim '}{name} {next(_source_names)}>"
    with lock:
        linecache.cache[filename] = (len(source), None, source.splitlines(True), filename)
        module = types.ModuleType(filename)
        module.__dict__.update(namespace, ti=language())
        if generated:
            translation.load(source, filename, module.__dict__, present().real_function)
        else:
            exec(compile(source, filename, "exec", dont_inherit=True), module.__dict__)
        kernel = getattr(module, name)
        _made.append((filename, kernel))
    return kernel


def shared_kernel(source: str, name: str, key: Hashable, namespace: Callable[[], dict[str, Any]]) -> Any:
    """The kernel of a source, compiled once for all that need it.

    An engine keeps each compiled kernel, some megabytes, as long as its program lives, even if no object refers to it.

    Args:
        source: of the kernel.
        name: of the kernel in it.
        key: the meanings of the names in the source.
        namespace: makes those names.
    """
    with lock:
        settings()
        if (source, key) not in _shared:
            names = namespace()
            names["source_digest"] = _digest(source, key, [namespace, *names.values()])
            _shared[source, key] = compile_kernel(source, name, names, generated=True)
        return _shared[source, key]


def _digest(source: str, key: Hashable, things: Iterable[Any]) -> Callable[[], None]:
    """A function that a kernel calls to mark it with a digest of its source, the meanings of its names, and the functions behind them.

    An engine finds a compiled kernel, in memory or on disk, by its instructions, but knows no order of the functions that it calls: a
    second process finds nothing. With `offline_cache` off it does not look at functions at all, and takes a kernel that calls others for
    the same. So functions are left out (`Engine.functions_left_out`), and the digest, which they are part of, stands for them.

    Files are read now, and the code was read when it was imported: where a file has changed since, the kernel is shared with no process.
    """
    files = {*map(str, Path(__file__).parent.glob("*.py")), *files_behind(things)}
    engine = present()
    digest = hashlib.sha256(repr((source, key, engine.name, engine.version, options_in_force, len(files))).encode())
    for file in sorted(files):
        digest.update(hashlib.sha256(Path(file).read_bytes()).digest())
    if any(Path(file).stat().st_mtime > _IMPORTED for file in files):
        digest.update(os.urandom(16))
    words = np.frombuffer(digest.digest(), np.int32).tolist()

    @expression
    def source_digest() -> None:
        present().mark(words)

    return source_digest


def files_behind(things: Iterable[Any]) -> set[str]:
    """Files of the functions and methods among some things, of those that they close over, and of the package's own that they name."""
    left, seen = list(things), dict[int, types.FunctionType]()
    while left:
        function = left.pop()
        function = getattr(function, "__func__", function)
        if isinstance(function, types.FunctionType) and id(function) not in seen:  # functions of one code may close over different things
            seen[id(function)] = function
            left += [*_closed_over(function), *_named(function.__code__, function.__globals__)]
    return {function.__code__.co_filename for function in seen.values()}


def _closed_over(function: types.FunctionType) -> Iterator[Any]:
    for cell in function.__closure__ or ():
        with contextlib.suppress(ValueError):  # of a name that has no value yet
            yield cell.cell_contents


def _named(code: types.CodeType, names: Mapping[str, Any]) -> Iterator[Any]:
    """Things of the package that a function, or one written inside of it, names."""
    for name in code.co_names:
        if str(getattr(names.get(name), "__module__", "")).partition(".")[0] == PACKAGE:
            yield names[name]
    for inside in code.co_consts:
        if isinstance(inside, types.CodeType):
            yield from _named(inside, names)


def forget_kernels() -> None:
    """Drop all compiled kernels, which end with their program."""
    present().forget([kernel for _, kernel in _made])
    for filename, _ in _made:
        linecache.cache.pop(filename, None)
        translation.forget(filename)
    _made.clear()
    _shared.clear()


before_start.append(forget_kernels)


@contextlib.contextmanager
def hand_written(default_float: npt.DTypeLike) -> Iterator[None]:
    """Compile and launch kernels of a user with the settings that they need. Holds `lock`.

    The settings of `init` are for generated kernels. With `real_matrix_scalarize=False` an engine's own derivative of any local
    vector is NaN or ends the process; untyped literals and locals take the default float type, and in f32 they would
    silently make the eighth digit of f64 arrays wrong. The settings apply to the whole program, so they are restored.

    Args:
        default_float: type of untyped literals and locals.
    """
    with lock:
        settings()
        with present().hand_written(np.dtype(default_float) == np.float64):
            yield
