"""Elastic waves and light in C (staggered.c), from media to traces and gradients, as `diffsim.Simulation` is used."""

from __future__ import annotations

import ctypes
import functools
import os
from collections.abc import Sequence
from typing import Any

import numpy as np
from common import STAGGERED
from reference import Fields

_Pointer, _Int, _Long, _Float = ctypes.c_void_p, ctypes.c_int, ctypes.c_long, ctypes.c_float

Receivers = tuple[int, int, int, int]
"""Row, first column, step, count."""


class _Points(ctypes.Structure):
    _fields_ = [
        *((name, _Int) for name in ("source_row", "source_column")),
        ("amplitudes", _Pointer),
        *((name, _Int) for name in ("receiver_row", "receiver_column", "receiver_step", "receivers")),
        *((name, _Pointer) for name in ("traces", "residuals")),
    ]


_HEAD: list[tuple[str, Any]] = [*((name, _Int) for name in ("threads", "rows", "columns")), ("stride", _Long), ("points", _Points)]


class _Elastic(ctypes.Structure):
    _fields_ = [*_HEAD, ("c", _Pointer * 5)]


class _Light(ctypes.Structure):
    _fields_ = [*_HEAD, ("scale", _Float), ("push", _Pointer), ("per_h", _Float)]


@functools.cache
def _library() -> Any:
    lib = ctypes.CDLL(os.environ[STAGGERED])
    for name, arguments in (("elastic_run", 3), ("elastic_back", 5), ("light_run", 3), ("light_back", 5)):
        function = getattr(lib, name)
        function.restype, function.argtypes = None, [*(_Pointer,) * arguments, _Int]
    return lib


def _table(addresses: Sequence[int]) -> Any:
    return (_Pointer * len(addresses))(*addresses)


class _Run:
    """The base of both: fields, points, and a history of `kept` fields a step."""

    states: int
    kept: int
    sums: int
    products: int
    name: str

    def __init__(self, structure: Any, shape: tuple[int, int], source: tuple[int, int], receivers: Receivers) -> None:
        self.c, self.shape, self.count = structure, shape, receivers[3]
        self.f = Fields(*shape, self.states)
        self.points = structure.points
        self.points.source_row, self.points.source_column = source
        self.points.receiver_row, self.points.receiver_column, self.points.receiver_step, self.points.receivers = receivers
        self.history: Fields | None = None

    def forward(self, amplitudes: np.ndarray, keep: bool = False) -> np.ndarray:
        """The traces, shape (steps + 1, receivers)."""
        steps = len(amplitudes)
        if keep and self.history is None:
            self.history = Fields(*self.shape, self.kept * steps)
        self.f.stored[...] = 0
        self.amplitudes = np.ascontiguousarray(amplitudes, np.float32)
        self.traces = np.zeros((steps + 1, self.count), np.float32)
        self.points.amplitudes, self.points.traces = self.amplitudes.ctypes.data, self.traces.ctypes.data
        history = _table(self.history.at) if keep and self.history is not None else None
        getattr(_library(), f"{self.name}_run")(ctypes.byref(self.c), _table(self.f.at), history, steps)
        return self.traces

    def backward(self) -> Fields:
        """The sums for the coefficients, of half the squared traces."""
        assert self.history is not None
        if not hasattr(self, "bars"):
            self.bars, self.scratch = Fields(*self.shape, self.states), Fields(*self.shape, self.products)
            self.total = Fields(*self.shape, self.sums)
        for fields in (self.bars, self.scratch, self.total):
            fields.stored[...] = 0
        self.points.residuals = self.traces.ctypes.data
        tables = [_table(fields.at) for fields in (self.bars, self.scratch, self.total, self.history)]
        if self.products == 1:
            tables[1:3] = [self.scratch.at[0], self.total.at[0]]
        getattr(_library(), f"{self.name}_back")(ctypes.byref(self.c), *tables, len(self.amplitudes))
        return self.total


class Elastic(_Run):
    """Elastic waves in two dimensions, order 4, forces along axis 0 and records of vy.

    Args:
        shape: cells; the number of rows is even.
        threads: OpenMP threads.
        dx, dt: spacing and time step.
        source: cell.
        receivers: row, first column, step, count.
    """

    states, kept, sums, products, name = 5, 5, 5, 5, "elastic"

    def __init__(self, shape: tuple[int, int], threads: int, dx: float, dt: float, source: tuple[int, int], receivers: Receivers) -> None:
        self.scale, self.dx = np.float32(dt / dx), np.float32(dx)
        self.coefficients = Fields(*shape, 5)
        super().__init__(_Elastic(threads, *shape, self.coefficients.stride), shape, source, receivers)
        self.c.c = _table(self.coefficients.at)

    def run(self, vp: np.ndarray, vs: np.ndarray, rho: np.ndarray, force: np.ndarray, keep: bool = False) -> np.ndarray:
        """The records of vy; the force is in N/m."""
        mu = rho * vs**2
        corners = _corners(mu)
        coefficients = (
            rho * vp**2,
            rho * (vp**2 - 2 * vs**2),
            4 / sum(1 / each for each in corners),
            *(2 / _both(rho, axis) for axis in (0, 1)),
        )
        for cells, values in zip(self.coefficients.cells, coefficients, strict=True):
            np.multiply(values, self.scale, out=cells)
        return self.forward(force / self.dx, keep)

    def gradient(self, vp: np.ndarray, vs: np.ndarray, rho: np.ndarray, force: np.ndarray) -> dict[str, np.ndarray]:
        """Gradient of half the squared records, for vp, vs and rho."""
        self.run(vp, vs, rho, force, keep=True)
        c11, c12, edge, *faces = (self.scale * cells for cells in self.backward().cells)
        harmonic = self.coefficients.cells[2] / self.scale
        mu = _to_corners(edge * harmonic**2 / 4) / (rho * vs**2) ** 2
        out = {"vp": 2 * rho * vp * (c11 + c12), "vs": 2 * rho * vs * (mu - 2 * c12)}
        out["rho"] = vp**2 * c11 + (vp**2 - 2 * vs**2) * c12 + vs**2 * mu
        for axis, face in enumerate(faces):
            out["rho"] += _to_both(-2 * face / _both(rho, axis) ** 2, axis)
        return out


class Light(_Run):
    """Maxwell's equations in two dimensions with the electric field across the plane, on edges; arguments as of `Elastic`.

    The speed of light is 1.
    """

    states, kept, sums, products, name = 3, 1, 1, 1, "light"

    def __init__(self, shape: tuple[int, int], threads: int, dx: float, dt: float, source: tuple[int, int], receivers: Receivers) -> None:
        self.dx, self.dt = np.float32(dx), np.float32(dt)
        self.push = Fields(*shape)
        super().__init__(_Light(threads, *shape, self.push.stride), shape, source, receivers)
        self.c.scale, self.c.push, self.c.per_h = dt / dx, self.push.at[0], 1 / dx

    def run(self, eps: np.ndarray, current: np.ndarray, keep: bool = False) -> np.ndarray:
        """The records of Ez."""
        np.divide(4 * self.dt, sum(_corners(eps)), out=self.push.cells[0])
        return self.forward(current / self.dx**2, keep)

    def gradient(self, eps: np.ndarray, current: np.ndarray) -> dict[str, np.ndarray]:
        """Gradient of half the squared records, for eps."""
        self.run(eps, current, keep=True)
        return {"eps": _to_corners(-0.25 / self.dt * self.push.cells[0] ** 2 * self.backward().cells[0])}


def _beyond(f: np.ndarray, axis: int) -> np.ndarray:
    """The next cells along an axis; the last is its own."""
    return np.concatenate([np.delete(f, 0, axis), np.take(f, [-1], axis)], axis)


def _both(f: np.ndarray, axis: int) -> np.ndarray:
    return f + _beyond(f, axis)


def _to_both(face: np.ndarray, axis: int) -> np.ndarray:
    """The transpose of `_both`."""
    out = face.copy()
    to, moved = np.moveaxis(out, axis, 0), np.moveaxis(face, axis, 0)
    to[1:] += moved[:-1]
    to[-1] += moved[-1]
    return out


def _corners(f: np.ndarray) -> list[np.ndarray]:
    lower = _beyond(f, 0)
    return [f, lower, _beyond(f, 1), _beyond(lower, 1)]


def _to_corners(edge: np.ndarray) -> np.ndarray:
    """The transpose of the sum of `_corners`."""
    return _to_both(_to_both(edge, 1), 0)
