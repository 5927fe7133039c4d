"""Numbers about the cells of an array of a device, computed there: their largest magnitude, and sums that change with their bits."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from diffsim.engine.arrays import DeviceArray, Memory, of_type
from diffsim.engine.engines import language
from diffsim.engine.session import before_start, check_generation, lock

THREADS = 2**14
"""Threads, each of which takes every so many of the cells, and leaves a number."""
NUMBERS = ("first", "rows", "n", "count", "by_plane", "by_row", "by_cell")
KERNEL = """
@ti.kernel
def reduced(array: Values, {numbers}, out: {out}):
    for w in range({threads}):
        total = {start}
        e = w
        while e < count:
            x = array[first + (e // (rows * n)) * by_plane + (e // n % rows) * by_row + e % n * by_cell]
            value = {value}
            total = {total}
            e = e + {threads}
        out[w] = {end}
"""
LARGER = "ti.select(total < value, value, ti.select(value <= total, total, total + value))"
FACTORS = (739982445, 1640531527)
"""Odd numbers: one mixes the bits of a cell, multiples of the other are the weights of cells."""
MIXED = "(ti.bit_cast(x, Word) ^ (ti.bit_cast(x, Word) >> {half})) * ti.cast({factor}, Word)"
WEIGHTED = "(value ^ (value >> {less})) * (ti.cast(2 * e + 1, Word) * ti.cast({factor}, Word))"

_numbers: dict[np.dtype, DeviceArray] = {}
"""The numbers of the threads, by their type."""
before_start.append(_numbers.clear)


@dataclass(frozen=True)
class Cells:
    """The cells of a field in its storage, with at most three axes.

    Attributes:
        first: place of the first cell.
        shape: cells along each of three axes.
        steps: places from a cell to the next along each axis.
    """

    first: int
    shape: tuple[int, int, int]
    steps: tuple[int, int, int]

    @classmethod
    def of(cls, part: npt.NDArray, storage: npt.NDArray) -> Cells:
        """Those of a view of a contiguous array."""
        size, more = storage.itemsize, (1,) * (3 - part.ndim)
        first = (part.ctypes.data - storage.ctypes.data) // size
        return cls(first, (*more, *part.shape), (*more, *(step // size for step in part.strides)))  # type: ignore[arg-type]


def largest(memory: Memory, array: DeviceArray, cells: Cells, level: int) -> float:
    """The largest magnitude in a level of an array; NaN if a cell is NaN."""
    kernel = _kernel(array.dtype, {}, start="ti.abs(array[first])", value="ti.abs(x)", total=LARGER, end="total")
    return float(_of_threads(memory, kernel, array, cells, level, array.dtype).max())


def bit_sums(memory: Memory, array: DeviceArray, cells: Cells, level: int) -> npt.NDArray:
    """Integers that change if a bit of a cell in a level of an array does.

    Each is a sum over some cells, modulo 2^32 or 2^64. The bits of a cell are a number, which is folded, x ^ (x >> k), multiplied by an odd
    number, folded again, and has an odd weight of its own. All of that can be undone, so that a change of one cell changes its sum. With
    a single fold two changed signs cancelled where the weights of their cells fitted. Several changes in one sum cancel by chance, about
    once in 2^32 or 2^64.
    """
    ti, wide = language(), array.dtype.itemsize == 8
    word, kind = (ti.u64, ti.i64) if wide else (ti.u32, ti.i32)
    types = {"Word": word, "Sum": kind, "Sums": ti.types.ndarray(dtype=kind, ndim=1)}
    value = MIXED.format(half=32 if wide else 16, factor=FACTORS[0])
    total = "total + " + WEIGHTED.format(less=31 if wide else 15, factor=FACTORS[1])
    kernel = _kernel(array.dtype, types, start="ti.cast(0, Word)", value=value, total=total, end="ti.bit_cast(total, Sum)")
    return _of_threads(memory, kernel, array, cells, level, np.dtype(f"i{array.dtype.itemsize}"))


def _kernel(dtype: np.dtype, types: Mapping[str, Any], **sources: str) -> Any:
    """The kernel that adds up something of the cells in each of its threads."""
    numbers = ", ".join(f"{name}: ti.i32" for name in NUMBERS)
    source = KERNEL.format(numbers=numbers, out="Sums" if types else "Values", threads=THREADS, **sources)
    return of_type(source, "reduced", dtype, types)


def _of_threads(memory: Memory, kernel: Any, array: DeviceArray, cells: Cells, level: int, dtype: np.dtype) -> npt.NDArray:
    """The number that each thread of a kernel leaves."""
    planes, rows, n = cells.shape
    with lock:
        check_generation(array.generation)
        if dtype not in _numbers:
            _numbers[dtype] = memory.allocate((THREADS,), dtype)
        out = _numbers[dtype]
        kernel(array.data, level * math.prod(array.shape[1:]) + cells.first, rows, n, planes * rows * n, *cells.steps, out.data)
        return memory.read(out)
