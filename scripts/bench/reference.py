"""The C version from Python: memory, arguments, and its gradient driver."""

from __future__ import annotations

import ctypes
import functools
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from common import LIBRARY

from diffsim.checkpoint import Advance, Binomial, EndForward, Free, Keep, Load, Record, Reverse, Save

HALO = 4
LANES = 16

_Pointer, _Int, _Long = ctypes.c_void_p, ctypes.c_int, ctypes.c_long


class _Wave(ctypes.Structure):
    _fields_ = [
        *((name, _Int) for name in ("order", "threads", "rows", "columns")),
        ("stride", _Long),
        ("m", _Pointer),
        *((name, _Int) for name in ("source_row", "source_column")),
        ("amplitudes", _Pointer),
        *((name, _Int) for name in ("receiver_row", "receiver_column", "receiver_step", "receivers")),
        *((name, _Pointer) for name in ("traces", "residuals")),
    ]


class _Heat(ctypes.Structure):
    _fields_ = [*((name, _Int) for name in ("threads", "rows", "columns")), ("stride", _Long), ("k", _Pointer)]


@functools.cache
def library() -> Any:
    """The compiled C version, its functions declared."""
    lib = ctypes.CDLL(os.environ[LIBRARY])
    lib.allocate.restype, lib.allocate.argtypes = _Pointer, [ctypes.c_ulong]
    lib.release.restype, lib.release.argtypes = None, [_Pointer]
    lib.wake.restype, lib.wake.argtypes = None, [_Int]
    lib.rest.restype, lib.rest.argtypes = None, []
    lib.wave_run.restype, lib.wave_run.argtypes = None, [_Pointer, _Pointer, _Pointer, _Int]
    lib.wave_step.restype, lib.wave_step.argtypes = None, [_Pointer, _Pointer, _Pointer, _Pointer, _Int]
    lib.adjoint_step.restype, lib.adjoint_step.argtypes = None, [*(_Pointer,) * 6, _Int, _Pointer, _Int]
    lib.copy_state.restype, lib.copy_state.argtypes = None, [*(_Pointer,) * 4, ctypes.c_ulong, _Int]
    lib.heat_run.restype, lib.heat_run.argtypes = None, [_Pointer, _Pointer, _Pointer, _Int]
    return lib


@contextmanager
def threads_awake(count: int) -> Iterator[None]:
    """OpenMP's threads exist, spinning between loops, inside this block alone."""
    library().wake(count)
    try:
        yield
    finally:
        library().rest()


class Fields:
    """`count` zeroed fields over a grid of `rows` x `columns` cells with a halo; freed with this object.

    `at[k]` is the address of cell (0, 0) of field k, `stored[k]` its array, halo included, `cells[k]` the view of its cells.
    """

    def __init__(self, rows: int, columns: int, count: int = 1) -> None:
        tiles = -(-columns // LANES) + 2
        self.stride = LANES * (tiles | 1)  # odd: never a multiple of 4 KiB
        shape = (count, rows + 2 * HALO, self.stride)
        self.nbytes = int(np.prod(shape[1:])) * 4  # a multiple of 64
        self.block = library().allocate(count * self.nbytes)
        if not self.block:
            raise MemoryError(f"the C version needs {count * self.nbytes} bytes")
        buffer = (ctypes.c_float * int(np.prod(shape))).from_address(self.block)
        self.stored = np.frombuffer(memoryview(buffer), np.float32).reshape(shape)
        self.cells = self.stored[:, HALO : HALO + rows, LANES : LANES + columns]
        first = (HALO * self.stride + LANES) * 4
        self.at = [self.block + k * self.nbytes + first for k in range(count)]

    def __del__(self) -> None:
        if getattr(self, "block", None):
            library().release(self.block)


class Wave:
    """Constant-density acoustics in C, from wave speed to traces and gradient, as `diffsim.Simulation` is used.

    Args:
        shape: cells; the number of rows is even.
        order: of the Laplacian, 4 or 8.
        threads: OpenMP threads.
        scale: dt / dx, s/m.
        source: cell of the point source.
        receivers: row, first column, step, count.
    """

    def __init__(
        self, shape: tuple[int, int], order: int, threads: int, scale: float, source: tuple[int, int], receivers: tuple[int, int, int, int]
    ) -> None:
        self.lib, self.threads, self.scale = library(), threads, scale
        self.receivers = receivers[3]
        self.m, self.p = Fields(*shape), Fields(*shape, 2)
        self.c = _Wave(order, threads, *shape, self.m.stride, self.m.at[0], *source, None, *receivers, None, None)
        self.address = ctypes.addressof(self.c)
        self.shape = shape
        self.history: Fields | None = None
        self.slots: Fields | None = None

    def start(self, speed: np.ndarray, amplitudes: np.ndarray) -> None:
        """Coefficients from the wave speed, a state of zeros, room for the traces."""
        np.square(speed * np.float32(self.scale), out=self.m.cells[0])
        self.p.stored[...] = 0
        self.amplitudes = np.ascontiguousarray(amplitudes, np.float32)
        self.traces = np.zeros((len(amplitudes) + 1, self.receivers), np.float32)
        self.c.amplitudes, self.c.traces = self.amplitudes.ctypes.data, self.traces.ctypes.data

    def loop(self) -> None:
        """All time steps, inside C."""
        self.lib.wave_run(self.address, self.p.at[1], self.p.at[0], len(self.amplitudes))

    def run(self, speed: np.ndarray, amplitudes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The last pressure and the traces."""
        self.start(speed, amplitudes)
        self.loop()
        return self.p.cells[len(amplitudes) % 2].copy(), self.traces

    def gradient(self, speed: np.ndarray, amplitudes: np.ndarray, observed: np.ndarray, slots: int | None) -> np.ndarray:
        """Gradient of half the squared misfit for the wave speed; `slots` snapshots, or None: every Laplacian kept.

        Steps and adjoint steps are called one by one. Fields stay allocated for the next call.
        """
        self.start(speed, amplitudes)
        if not hasattr(self, "bars"):
            self.bars, self.products, self.total = Fields(*self.shape, 2), Fields(*self.shape, 2), Fields(*self.shape)
        for fields in (self.bars, self.products, self.total):
            fields.stored[...] = 0
        if slots is None:
            self._stored(len(amplitudes), observed)
        else:
            self._checkpointed(len(amplitudes), observed, slots)
        gradient: np.ndarray = 2 * np.float32(self.scale) ** 2 * speed * self.total.cells[0]
        return gradient

    def _stored(self, steps: int, observed: np.ndarray) -> None:
        if self.history is None:
            self.history = Fields(*self.shape, steps)
        p, step, adjoint = self.p.at, self.lib.wave_step, self.lib.adjoint_step
        for n in range(steps):
            step(self.address, p[(n + 1) % 2], p[n % 2], self.history.at[n], n)
        self._seed(steps, observed)
        for n in reversed(range(steps)):
            adjoint(self.address, *self._adjoint_fields(n), self.history.at[n], 1, self.total.at[0], n)

    def _checkpointed(self, steps: int, observed: np.ndarray, slots: int) -> None:
        if self.slots is None:
            self.slots = Fields(*self.shape, 2 * slots)
        p, nbytes = self.p, self.p.nbytes
        first = [fields.block + k * nbytes for fields in (p, self.slots) for k in range(len(fields.at))]
        state, saved = first[:2], first[2:]
        now = 0  # which of the two pressures is the present one
        saved_in: dict[int, int] = {}  # slot -> the saved step
        kept: dict[int, int] = {}  # step -> slot of its pressure

        def run(start: int, stop: int) -> None:
            nonlocal now
            for n in range(start, stop):
                self.lib.wave_step(self.address, p.at[1 - now], p.at[now], None, n)
                now = 1 - now

        for action in Binomial(steps, slots).actions():
            match action:
                case Advance(start, stop):
                    run(start, stop)
                case Record(start, stop):
                    run(start, stop)
                    self._seed(steps, observed)
                    now = 1 - now  # back to the state before the last step
                case Keep(start, stop):
                    free = [slot for slot in range(slots) if slot not in saved_in and slot not in kept.values()]
                    for n, slot in zip(range(start, stop), free, strict=False):
                        self.lib.copy_state(saved[2 * slot], None, state[now], None, nbytes, self.threads)
                        kept[n] = slot
                        run(n, n + 1)
                case Save(step, slot):
                    saved_in[slot] = step
                    self.lib.copy_state(saved[2 * slot], saved[2 * slot + 1], state[now], state[1 - now], nbytes, self.threads)
                case Load(_, slot):
                    self.lib.copy_state(state[now], state[1 - now], saved[2 * slot], saved[2 * slot + 1], nbytes, self.threads)
                case Free(slot):
                    del saved_in[slot]
                case EndForward():
                    pass
                case Reverse(start, stop):
                    for n in reversed(range(start, stop)):
                        primal = self.slots.at[2 * kept.pop(n)] if n in kept else p.at[now]
                        self.lib.adjoint_step(self.address, *self._adjoint_fields(n), primal, 0, self.total.at[0], n)
                case _:
                    raise TypeError(f"the C version has no {action}")

    def _adjoint_fields(self, n: int) -> tuple[int, int, int, int]:
        here = n % 2  # cotangents of times n and n + 2 share a place
        return self.bars.at[here], self.bars.at[1 - here], self.products.at[1 - here], self.products.at[here]

    def _seed(self, steps: int, observed: np.ndarray) -> None:
        self.residuals = self.traces - observed
        self.c.residuals = self.residuals.ctypes.data
        row, column, step, count = self.c.receiver_row, self.c.receiver_column, self.c.receiver_step, self.c.receivers
        last = steps % 2
        cells = self.bars.cells[last][row, column : column + step * count : step]
        cells += self.residuals[-1]
        self.products.cells[last][...] = self.m.cells[0] * self.bars.cells[last]


class Diffusion:
    """Variable-coefficient diffusion with insulated edges in C.

    Args:
        shape: cells; the number of rows is even.
        threads: OpenMP threads.
        scale: dt / dx², s/m².
    """

    def __init__(self, shape: tuple[int, int], threads: int, scale: float) -> None:
        self.lib, self.scale = library(), scale
        self.k, self.T = Fields(*shape), Fields(*shape, 2)
        self.c = _Heat(threads, *shape, self.k.stride, self.k.at[0])

    def start(self, kappa: np.ndarray, initial: np.ndarray) -> None:
        """Coefficients and the initial temperature, their halos mirrored."""
        np.multiply(kappa, np.float32(self.scale / 2), out=self.k.cells[0])
        self.T.cells[0][...] = initial
        for stored in (self.k.stored[0], self.T.stored[0]):
            inner = stored[HALO - 1 : 1 - HALO, LANES - 1 : LANES + self.c.columns + 1]
            inner[0], inner[-1] = inner[1], inner[-2]
            inner[:, 0], inner[:, -1] = inner[:, 1], inner[:, -2]

    def loop(self, steps: int) -> None:
        """All time steps, inside C."""
        self.lib.heat_run(ctypes.addressof(self.c), self.T.at[0], self.T.at[1], steps)

    def run(self, kappa: np.ndarray, initial: np.ndarray, steps: int) -> np.ndarray:
        """The last temperature."""
        self.start(kappa, initial)
        self.loop(steps)
        return self.T.cells[steps % 2].copy()
