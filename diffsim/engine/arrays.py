"""Memory of arrays: NumPy memory, which CPU kernels use directly, or the engine's memory on a GPU."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from diffsim.base import buffers
from diffsim.engine.cuda import Driver
from diffsim.engine.engines import language, present
from diffsim.engine.kernels import shared_kernel
from diffsim.engine.session import before_start, check_generation, lock, settings

ALIGNMENT = buffers.ALIGNMENT
"""Alignment in bytes. A full-width vector store to a less aligned buffer ends the process."""


GUARD = 1024
"""Bytes of memory before and after an array that kernels see with one index. Whole tiles at the ends of rows read beyond
their neighbours, and do not use what lies there."""


class Memory(Protocol):
    """Allocation, and copies from and to NumPy arrays. `level` picks one entry of the first axis."""

    def allocate(self, shape: tuple[int, ...], dtype: npt.DTypeLike, flat: bool = False) -> Any:
        """A zeroed array; `flat` if kernels are to see it with one index, by `flat`."""

    def write(self, array: Any, values: npt.NDArray, level: int | None = None) -> None: ...

    def read(self, array: Any, level: int | None = None) -> npt.NDArray: ...

    def clear(self, array: Any, level: int | None = None) -> None:
        """Set the values to zero. A level is of an array that is `flat` for kernels."""

    def fill(self, array: Any, level: int | None, change: Callable[[npt.NDArray], None]) -> None:
        """Let `change` write the values. Values that it does not write are kept, or zero."""

    def flat(self, array: Any, lanes: int) -> Any:
        """The array as kernels see it: tiles in a row, shape (tiles, lanes), or (values,) with one lane."""


def aligned(shape: Sequence[int], dtype: npt.DTypeLike) -> np.ndarray:
    """A zeroed C-contiguous array that starts on an `ALIGNMENT` boundary."""
    dtype = np.dtype(dtype)
    count = math.prod(shape)
    if count * dtype.itemsize >= buffers.SMALLEST:
        return buffers.zeros(shape, dtype)
    raw = np.zeros(count * dtype.itemsize + ALIGNMENT, np.uint8)
    start = -raw.ctypes.data % ALIGNMENT
    return raw[start : start + count * dtype.itemsize].view(dtype).reshape(shape)


class Displaced(np.ndarray):
    """An array that begins some cells before or after another one, whose memory it shares. Only cells of the other one may be read."""


class _Displacement:
    """Keeps the memory of an array for one that begins elsewhere."""

    __slots__ = ("__array_interface__", "_array")

    def __init__(self, array: npt.NDArray, cells: int) -> None:
        self._array = array
        self.__array_interface__ = array.__array_interface__ | {"data": (array.ctypes.data + cells * array.itemsize, True)}


def displaced(array: npt.NDArray, cells: int) -> Displaced:
    """An array of the shape of `array` whose start is displaced by some cells, towards its end if their number is positive."""
    return np.asarray(_Displacement(array, cells)).view(Displaced)


class HostMemory:
    """Aligned NumPy arrays; `read` gives a view."""

    def allocate(self, shape: tuple[int, ...], dtype: npt.DTypeLike, flat: bool = False) -> npt.NDArray:
        if not flat:
            return aligned(shape, dtype)
        count, guard = math.prod(shape), GUARD // np.dtype(dtype).itemsize
        return aligned((count + 2 * guard,), dtype)[guard : guard + count].reshape(shape)

    def write(self, array: npt.NDArray, values: npt.NDArray, level: int | None = None) -> None:
        (array if level is None else array[level])[...] = values

    def read(self, array: npt.NDArray, level: int | None = None) -> npt.NDArray:
        return array if level is None else array[level]

    def fill(self, array: npt.NDArray, level: int | None, change: Callable[[npt.NDArray], None]) -> None:
        change(self.read(array, level))

    def clear(self, array: npt.NDArray, level: int | None = None) -> None:
        self.read(array, level).fill(0)

    def flat(self, array: npt.NDArray, lanes: int) -> npt.NDArray:
        return array.reshape(-1, lanes) if lanes > 1 else array.reshape(-1)


@dataclass(frozen=True)
class DeviceArray:
    """An ndarray of the engine, which may be flat, its logical shape, and the initialisation with which it ends."""

    data: Any
    shape: tuple[int, ...]
    dtype: np.dtype
    generation: int


_dropped: list[tuple[int, Any]] = []
"""Arrays of the engine to which no reference is left, with their initialisations. Any thread may drop the last one, as a collector of
garbage does, but only one that holds the lock may free an array."""
before_start.append(_dropped.clear)


def engine_array(kind: Any, shape: Sequence[int], with_gradient: bool = False) -> Any:
    """A zeroed array of the engine, to which any thread may drop the last reference. It is freed when another one is made."""
    with lock:
        generation = settings().generation
        if _dropped:
            language().sync()  # an array is not freed while a kernel may use it
        while _dropped:
            before, array = _dropped.pop()
            if before == generation:
                present().runtime.prog.delete_ndarray(array)
        new = language().ndarray(kind, tuple(shape), needs_grad=with_gradient)
        for each in (new, new.grad) if with_gradient else (new,):
            each.fill(0)
            plain: Any = type(each)
            each.__class__, each.generation = _droppable(plain), generation
    return new


@functools.cache
def _droppable(kind: Any) -> type:
    """A class of arrays that the engine does not free where the last reference is dropped."""

    def drop(array: Any, dropped: list[tuple[int, Any]] = _dropped) -> None:
        dropped.append((array.generation, array.arr))

    return type(kind.__name__, (kind,), {"__del__": drop})


class DeviceMemory:
    """The engine's ndarrays of scalars (those of vectors are never freed by Taichi 1.7.4); `read` gives a copy."""

    def allocate(self, shape: tuple[int, ...], dtype: npt.DTypeLike, flat: bool = False) -> DeviceArray:
        with lock:
            generation = settings().generation
            data = engine_array(_kind(dtype), (math.prod(shape),) if flat else shape)
        return DeviceArray(data, tuple(shape), np.dtype(dtype), generation)

    def write(self, array: DeviceArray, values: npt.NDArray, level: int | None = None) -> None:
        values = np.ascontiguousarray(values, array.dtype).reshape(array.shape if level is None else array.shape[1:])
        with lock:
            check_generation(array.generation)
            self._put(array, values.reshape(-1), level)

    def read(self, array: DeviceArray, level: int | None = None) -> npt.NDArray:
        values = buffers.empty(array.shape if level is None else array.shape[1:], array.dtype)
        with lock:
            check_generation(array.generation)
            self._get(array, values.reshape(-1), level)
        return values

    def _put(self, array: DeviceArray, values: npt.NDArray, level: int | None) -> None:
        if level is None:
            array.data.from_numpy(values.reshape(array.data.shape))
        else:
            _level_copy("put", array.dtype)(array.data, level, values)

    def _get(self, array: DeviceArray, values: npt.NDArray, level: int | None) -> None:
        if level is None:
            values[...] = array.data.to_numpy().reshape(-1)
        else:
            _level_copy("get", array.dtype)(array.data, level, values)
            language().sync()

    def fill(self, array: DeviceArray, level: int | None, change: Callable[[npt.NDArray], None]) -> None:
        values = aligned(array.shape if level is None else array.shape[1:], array.dtype)
        change(values)
        self.write(array, values, level)

    def clear(self, array: DeviceArray, level: int | None = None) -> None:
        size = math.prod(array.shape[1:])
        with lock:
            check_generation(array.generation)
            if level is None:
                array.data.fill(0)
            else:
                _clearing(array.dtype)(array.data, level * size, size)

    def flat(self, array: DeviceArray, lanes: int) -> Any:
        return array.data


class CudaMemory(DeviceMemory):
    """Device memory that CUDA's driver copies. Taichi's copies go through a kernel, to which it copies the host's array, and back again."""

    def _put(self, array: DeviceArray, values: npt.NDArray, level: int | None) -> None:
        _driver().to_device(_address(array, level), values)

    def _get(self, array: DeviceArray, values: npt.NDArray, level: int | None) -> None:
        language().sync()  # raises the errors of kernels
        _driver().to_host(values, _address(array, level))


def _driver() -> Driver:
    driver = present().cuda
    assert driver is not None
    return driver


def _address(array: DeviceArray, level: int | None) -> int:
    """The address of an array, or of a level of it, in the memory of a CUDA device."""
    start = int(present().runtime.prog.get_ndarray_data_ptr_as_int(array.data.arr))
    return start + (level or 0) * math.prod(array.shape[1:]) * array.dtype.itemsize


def _level_copy(name: str, dtype: np.dtype) -> Any:
    """A kernel that copies one level of a pool to or from an array."""
    pool, values = "pool[level * values.shape[0] + i]", "values[i]"
    body = f"{pool} = {values}" if name == "put" else f"{values} = {pool}"
    source = f"@ti.kernel\ndef {name}(pool: Values, level: ti.i32, values: Values):\n    for i in values:\n        {body}\n"
    return of_type(source, name, dtype)


def _clearing(dtype: np.dtype) -> Any:
    """A kernel that sets a part of a flat array to zero."""
    source = (
        "@ti.kernel\ndef clear(array: Values, first: ti.i32, count: ti.i32):\n    for i in range(count):\n        array[first + i] = 0\n"
    )
    return of_type(source, "clear", dtype)


def of_type(source: str, name: str, dtype: np.dtype, others: Mapping[str, Any] = MappingProxyType({})) -> Any:
    """A kernel of flat arrays (`Values`) of one type: a generated kernel is translated once, so it cannot be compiled for a second type."""
    values = {"Values": language().types.ndarray(dtype=_kind(dtype), ndim=1)}
    return shared_kernel(source, name, dtype.name, lambda: {**values, **others})


def _kind(dtype: npt.DTypeLike) -> Any:
    """The engine's type of numbers."""
    ti = language()
    kinds = {"float32": ti.f32, "float64": ti.f64, "int32": ti.i32, "int64": ti.i64, "int8": ti.i8, "uint8": ti.u8}
    return kinds[np.dtype(dtype).name]
