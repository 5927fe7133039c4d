"""Kernels compiled once for operators of equal structure, and when to use them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from diffsim import engine
from diffsim.expr.source import with_functions
from diffsim.kernels.source import KernelSource

SMALLEST = 1 << 15
"""Elements from which a kernel is used. Below, NumPy takes a few milliseconds, and a compilation 0.1 to 0.5 s."""
LARGEST = 2**31 - 1
"""Kernels index elements with 32 bits."""
MOST_ARRAYS = 60
"""Arrays of components that a kernel takes. Taichi passes 64 arguments, and there are the control array, an index and marks beside them."""


_compiled: dict[Any, Any] = {}
_generation = 0


def worthwhile(size: int, dtypes: Sequence[np.dtype], serial: int, arrays: int) -> bool:
    """True if to use a compiled kernel for arrays, or NumPy.

    Args:
        size: elements.
        dtypes: of the arrays.
        serial: turns of the longest loop of one thread.
        arrays: those of components that the kernel takes.
    """
    backend = engine.backend()
    if not SMALLEST <= size <= LARGEST or arrays > MOST_ARRAYS or serial > (backend.longest_loop or serial):
        return False
    return all(dtype in backend.numbers for dtype in dtypes)


def workers() -> int | None:
    """CPU threads to share work out to; None on a GPU."""
    return engine.backend().threads


def launch(key: tuple[Any, ...], make: Callable[[], KernelSource], control: Sequence[int], arrays: Sequence[npt.NDArray]) -> None:
    """Run a kernel, compiling it first if there is none of that key since the last initialisation.

    On a GPU, Taichi copies every array there and back.

    Args:
        key: everything that the source depends on, except the arch and the number of threads.
        make: its source.
        control: numbers that it reads from its first argument.
        arrays: C-contiguous, one an argument.
    """
    global _generation
    with engine.lock:
        generation = engine.settings().generation
        if generation != _generation:
            _compiled.clear()
            _generation = generation
        if key not in _compiled:
            _compiled[key] = _compile(make())
        flat = [a.reshape(-1) for a in arrays]
        _compiled[key](np.array(control, np.int32), *(a.view(np.uint8) if a.dtype == np.bool_ else a for a in flat))


def _compile(source: KernelSource) -> Any:
    ti = engine.language()
    types = {"float32": ti.f32, "float64": ti.f64, "int32": ti.i32, "int64": ti.i64, "bool": ti.u8, "uint8": ti.u8}
    namespace: dict[str, Any] = {f"T_{a.name}": ti.types.ndarray(dtype=types[a.dtype.name], ndim=1) for a in source.arguments}
    namespace |= {name: types[dtype.name] for name, dtype in zip("FI", source.precisions, strict=True)}
    namespace |= {"Control": ti.types.ndarray(dtype=ti.i32, ndim=1)}
    text = str(source.text)
    name = text.split("def ", 1)[1].split("(", 1)[0]
    return engine.compile_kernel(with_functions(text), name, namespace, generated=True)
