"""Where arrays live: NumPy-owned memory that CPU kernels use as it is, or Taichi's own on a GPU."""

from __future__ import annotations

import functools
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from diffsim.runtime import aligned, compile_kernel, lock, settings, taichi


class Memory(Protocol):
    """Allocation, and copies from and to NumPy arrays. `level` picks one entry of the first axis."""

    def allocate(self, shape: tuple[int, ...], dtype: npt.DTypeLike) -> Any: ...

    def write(self, array: Any, values: npt.NDArray, level: int | None = None) -> None: ...

    def read(self, array: Any, level: int | None = None) -> npt.NDArray: ...


class HostMemory:
    """Aligned NumPy arrays; `read` gives a view."""

    def allocate(self, shape: tuple[int, ...], dtype: npt.DTypeLike) -> npt.NDArray:
        return aligned(shape, dtype)

    def write(self, array: npt.NDArray, values: npt.NDArray, level: int | None = None) -> None:
        (array if level is None else array[level])[...] = values

    def read(self, array: npt.NDArray, level: int | None = None) -> npt.NDArray:
        return array if level is None else array[level]


class DeviceMemory:
    """Taichi ndarrays of scalars (those of vectors are never freed by Taichi 1.7.4); `read` gives a copy."""

    def allocate(self, shape: tuple[int, ...], dtype: npt.DTypeLike) -> Any:
        ti = taichi()
        kinds = {"float32": ti.f32, "float64": ti.f64, "int32": ti.i32}
        with lock:
            array = ti.ndarray(kinds[np.dtype(dtype).name], shape)
            array.fill(0)
        return array

    def write(self, array: Any, values: npt.NDArray, level: int | None = None) -> None:
        values = np.ascontiguousarray(values)
        with lock:
            if level is None:
                array.from_numpy(values)
            else:
                _level_copy("put", values.ndim, settings().generation)(array, level, values)

    def read(self, array: Any, level: int | None = None) -> npt.NDArray:
        with lock:
            if level is None:
                return array.to_numpy()
            values = np.empty(tuple(array.shape[1:]), _numpy_type(array))
            _level_copy("get", values.ndim, settings().generation)(array, level, values)
            taichi().sync()
        return values


def memory() -> Memory:
    """The memory of the present arch."""
    return HostMemory() if settings().arch == "cpu" else DeviceMemory()


def _numpy_type(array: Any) -> npt.DTypeLike:
    return {"f32": np.float32, "f64": np.float64, "i32": np.int32}[str(array.dtype)]


@functools.cache
def _level_copy(name: str, ndim: int, generation: int) -> Any:
    """A kernel that copies one level of a pool to or from an array."""
    del generation  # part of the cache's key: kernels die with the Taichi program
    indices = ", ".join("ijkl"[:ndim])
    pool, values = f"pool[level, {indices}]", f"values[{indices}]"
    body = f"{pool} = {values}" if name == "put" else f"{values} = {pool}"
    source = f"@ti.kernel\ndef {name}(pool: Pool, level: ti.i32, values: Values):\n    for {indices} in values:\n        {body}\n"
    ti = taichi()
    return compile_kernel(source, name, {"Pool": ti.types.ndarray(ndim=ndim + 1), "Values": ti.types.ndarray(ndim=ndim)})
