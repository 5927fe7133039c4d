"""Reuse the memory of large arrays.

C's allocator returns the memory of an array of megabytes to the system, and the system clears the pages of the next one when they are
first touched. Often that takes longer than the computation. So this module keeps the memory of large arrays after their last view is
deleted, for the next arrays of about that size: results of array programs, and the fields and residuals of simulations.
"""

from __future__ import annotations

import contextlib
import itertools
import math
import os
import sys
import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from diffsim.base.system import clear_memory, reserves, total_memory
from diffsim.errors import PlanError

SMALLEST = 1 << 18
"""Least bytes of memory that is kept: 64 pages cost more than the bookkeeping."""
STEPS = 8
"""Sizes between powers of two, so that arrays of similar sizes share memory. At most an eighth of it is unused."""
SHARE, MOST, UNKNOWN = 8, 1 << 32, 1 << 30
"""Unused memory is at most 1 / `SHARE` of the machine's memory, and at most `MOST` bytes, residuals of 1000 steps of a million cells. Where
the system does not report its memory, it is at most `UNKNOWN` bytes."""
ALIGNMENT = 64
"""Bytes to a multiple of which each array is aligned: those of the widest vector registers, and of a cache line."""

LINES, STRIDE = 64, 13
"""Blocks begin at different lines of a page of 4 KiB, `STRIDE` lines from one block to the next. If all began at the start of a page, cells
with the same index in two arrays would share a set of the first cache, and a read would wait for a write to the other array: a step of
diffusion ran at 0.71 of the speed."""

Block = npt.NDArray[np.uint8]


class Pool:
    """Unused blocks of memory, at most `limit()` bytes. It is called on first use, because asking the system takes long.

    The last view of an array may be deleted anywhere, also in a garbage collection within these methods. So no call waits for the lock:
    returned blocks stay in `_returned` until the holder of the lock is done, and a request meanwhile gets a new block.
    """

    def __init__(self, limit: Callable[[], int]) -> None:
        self._limit = limit
        self._most: int | None = None
        self.held = 0
        self._lock = threading.Lock()
        self._returned: deque[Block] = deque()
        self._free: dict[int, deque[tuple[int, Block]]] = {}  # by size, each with the time of its return, the oldest first
        self._clock = 0
        self._lines = itertools.count()

    @property
    def limit(self) -> int:
        """Most bytes that are kept unused."""
        if self._most is None:  # no lock: at worst two threads find the same
            self._most = self._limit()
        return self._most

    def empty(self, shape: int | Sequence[int], dtype: npt.DTypeLike) -> npt.NDArray[Any]:
        """A C-contiguous array with any content. Its memory returns to the pool when its last view is deleted."""
        dtype = np.dtype(dtype)
        shape = (shape,) if isinstance(shape, int) else tuple(shape)
        size = math.prod(shape) * dtype.itemsize
        if size < SMALLEST or dtype.kind not in "fciub":
            return np.empty(shape, dtype)
        return np.asarray(_Lease(self, self._take(size)[0], shape, dtype))

    def zeros(self, shape: Sequence[int], dtype: npt.DTypeLike) -> npt.NDArray[Any]:
        """A zeroed array of at least `SMALLEST` bytes as from `empty`. Memory that is new from the system is not touched."""
        dtype, shape = np.dtype(dtype), tuple(shape)
        size = math.prod(shape) * dtype.itemsize
        block, new = self._take(size)
        array = np.asarray(_Lease(self, block, shape, dtype))
        if not new:
            array.reshape(-1).view(np.uint8).fill(0)
        return array

    def give(self, block: Block) -> None:
        """Return a block to the pool."""
        self._returned.append(block)
        self._settle()

    def release(self) -> None:
        """Return unused memory to the system."""
        with self._lock:
            dropped, self._free, self.held = self._free, {}, 0
        self._settle()
        del dropped  # after the lock is released, because it takes time

    def forked(self) -> None:
        """Reset the lock in a child process, where its holder does not exist."""
        self._lock = threading.Lock()
        self._free, self.held = {}, 0

    def _take(self, used: int) -> tuple[Block, bool]:
        """A block for `used` bytes, and whether it is new.

        The unused blocks and a new one stay within the limit together: the oldest go first. So no unused block is left beside a new one
        that takes all of the limit.
        """
        self._settle()
        size, most, block, dropped = size_class(used), self.limit, None, []
        if self._lock.acquire(blocking=False):
            try:
                if blocks := self._free.get(size):
                    block = blocks.pop()[1]  # the youngest: it may be in the cache
                    self.held -= size
                else:
                    dropped = self._drop(most - size)
            finally:
                self._lock.release()
        del dropped
        self._settle()
        if block is not None:
            return block, False
        try:
            return self._new(size, used), True
        except MemoryError:
            self.release()
            return self._new(size, used), True

    def _new(self, size: int, used: int) -> Block:
        """A block that was never used."""
        start = next(self._lines) * STRIDE % LINES * ALIGNMENT
        return clear_memory(size + start, used + ALIGNMENT + start)[start:]

    def _settle(self) -> None:
        """Store returned blocks. Blocks that return while the lock is held are stored by the holder's next turn."""
        while self._returned and self._lock.acquire(blocking=False):
            try:
                dropped = self._put_away()
            finally:
                self._lock.release()
            del dropped

    def _put_away(self) -> list[Block]:
        """Keep the returned blocks. Remove and return those beyond the limit."""
        while self._returned:
            block = self._returned.popleft()
            self._clock += 1
            self._free.setdefault(block.size, deque()).append((self._clock, block))
            self.held += block.size
        return self._drop(self.limit)

    def _drop(self, most: int) -> list[Block]:
        """Remove and return blocks until at most `most` bytes are held, the least recently used first."""
        dropped = []
        while self.held > max(most, 0):
            size = min((blocks[0][0], size) for size, blocks in self._free.items() if blocks)[1]
            dropped.append(self._free[size].popleft()[1])
            self.held -= size
        return dropped


class _Lease:
    """Owner of a block while arrays use it. NumPy keeps it as their base."""

    __slots__ = ("__array_interface__", "_block", "_pool")

    def __init__(self, pool: Pool, block: Block, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
        self._pool, self._block = pool, block
        address = block.ctypes.data
        self.__array_interface__ = {
            "version": 3,
            "data": (address + -address % ALIGNMENT, False),
            "shape": shape,
            "typestr": dtype.str,
        }

    def __del__(self, ending: Callable[[], bool] = sys.is_finalizing) -> None:
        if not ending():  # then names of this module may be None already
            self._pool.give(self._block)


def size_class(size: int) -> int:
    """The size of the block for `size` bytes: a multiple of an eighth of the power of two below it."""
    step = 1 << max((size + ALIGNMENT).bit_length() - STEPS.bit_length(), 0)
    return -(-(size + ALIGNMENT) // step) * step


def _limit() -> int:
    """Most bytes that the pool keeps: `UNKNOWN` if the system does not report its memory."""
    with contextlib.suppress(PlanError):
        return min(MOST, total_memory() // SHARE)
    return UNKNOWN


_pool = Pool(_limit)
reserves.append(_pool)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pool.forked)
empty = _pool.empty
zeros = _pool.zeros
release = _pool.release


def empty_like(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """An array of the shape and type of a C-contiguous one, with any content."""
    return _pool.empty(array.shape, array.dtype)


def copy(array: npt.ArrayLike) -> npt.NDArray[Any]:
    """The same result as `numpy.array(array)`."""
    if not isinstance(array, np.ndarray) or array.nbytes < SMALLEST or not _in_order_of_c(array):
        return np.array(array)
    out = _pool.empty(array.shape, array.dtype)
    np.copyto(out, array)
    return out


def _in_order_of_c(array: npt.NDArray[Any]) -> bool:
    """True if a copy of the array by NumPy is C-contiguous: it is so itself, or a part of an array that is."""
    strides = array.strides
    return array.flags.c_contiguous or (min(strides) > 0 and all(a >= b for a, b in itertools.pairwise(strides)))


def is_lease(owner: object) -> bool:
    """True if an array with this base has its memory from this pool, and is not a view of another array."""
    return type(owner) is _Lease


def reusing(function: np.ufunc) -> Callable[..., Any]:
    """A function with the same results as `function`, and large results in memory of this pool.

    Args:
        function: a function whose result has the type of its arguments if they are of one floating-point type.
    """

    def evaluate(*args: Any) -> Any:
        for first in args:
            if type(first) is np.ndarray and first.nbytes >= SMALLEST:
                if first.dtype.kind == "f" and all(_fits(a, first) for a in args):
                    return function(*args, out=_pool.empty(first.shape, first.dtype))
                break
        return function(*args)

    evaluate.__wrapped__ = function  # type: ignore[attr-defined]
    return evaluate


def plain(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function that `reusing` was given, for small results, or any other one itself."""
    return getattr(function, "__wrapped__", function)


def _fits(arg: object, first: npt.NDArray[Any]) -> bool:
    """True if with `arg` the result still has shape, type and order of `first`."""
    if type(arg) in (float, int):
        return True
    if type(arg) is not np.ndarray:
        return isinstance(arg, np.generic) and arg.dtype == first.dtype
    return arg.dtype == first.dtype and arg.shape == first.shape and (arg.flags.c_contiguous or not any(arg.strides))
