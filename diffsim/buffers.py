"""Memory of large arrays, used again.

C's allocator gives the memory of an array of megabytes back to the system, and the next one is made of pages that the system clears
when they are first touched: often that takes longer than what is computed. So the memory of large arrays is kept here when the last of
their views is gone, for the next arrays of about that size.
"""

from __future__ import annotations

import contextlib
import math
import os
import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from diffsim.errors import PlanError
from diffsim.system import total_memory

SMALLEST = 1 << 18
"""Bytes from which memory is kept: 64 pages cost more than keeping account of them."""
STEPS = 8
"""Sizes between powers of two, so that arrays of similar sizes share memory; an eighth of it is unused at most."""
SHARE, MOST = 16, 1 << 30
"""What nobody uses is at most the sixteenth part of the machine's memory, and so many bytes."""
ALIGNMENT = 64

Block = npt.NDArray[np.uint8]


class Pool:
    """Blocks of memory that nobody uses at present, at most `limit` bytes.

    The last view of an array may die anywhere, in a garbage collection within these methods too. So nothing waits for the lock: what
    comes back lies in `_returned` until whoever holds it is done, and who wants a block meanwhile gets a new one.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.held = 0
        self._lock = threading.Lock()
        self._returned: deque[Block] = deque()
        self._free: dict[int, deque[tuple[int, Block]]] = {}  # by size, each with the time of its return, the oldest first
        self._clock = 0

    def empty(self, shape: int | Sequence[int], dtype: npt.DTypeLike) -> npt.NDArray[Any]:
        """A C-contiguous array with any content, whose memory comes back when its last view is gone."""
        dtype = np.dtype(dtype)
        shape = (shape,) if isinstance(shape, int) else tuple(shape)
        size = math.prod(shape) * dtype.itemsize
        if size < SMALLEST or dtype.kind not in "fciub":
            return np.empty(shape, dtype)
        return np.asarray(_Lease(self, self._take(size_class(size)), shape, dtype))

    def give(self, block: Block) -> None:
        """Take a block back."""
        self._returned.append(block)
        self._settle()

    def release(self) -> None:
        """Give what nobody uses back to the system."""
        with self._lock:
            dropped, self._free, self.held = self._free, {}, 0
        self._settle()
        del dropped  # not while the lock is held: it takes time

    def forked(self) -> None:
        """In a child process: the thread that held the lock is not there."""
        self._lock = threading.Lock()
        self._free, self.held = {}, 0

    def _take(self, size: int) -> Block:
        self._settle()
        found = None
        if self._lock.acquire(blocking=False):
            try:
                if blocks := self._free.get(size):
                    found = blocks.pop()[1]  # the youngest: it may be in the cache
                    self.held -= size
            finally:
                self._lock.release()
        self._settle()
        if found is not None:
            return found
        try:
            return _new(size)
        except MemoryError:
            self.release()
            return _new(size)

    def _settle(self) -> None:
        """Put away what came back. What comes back while the lock is held is seen by the next turn of its holder."""
        while self._returned and self._lock.acquire(blocking=False):
            try:
                dropped = self._put_away()
            finally:
                self._lock.release()
            del dropped

    def _put_away(self) -> list[Block]:
        """Returns the blocks that are too many, those first that have not been used for longest."""
        dropped = []
        while self._returned:
            block = self._returned.popleft()
            self._clock += 1
            self._free.setdefault(block.size, deque()).append((self._clock, block))
            self.held += block.size
        while self.held > self.limit:
            size = min((blocks[0][0], size) for size, blocks in self._free.items() if blocks)[1]
            dropped.append(self._free[size].popleft()[1])
            self.held -= size
        return dropped


class _Lease:
    """Owner of a block, as long as there are arrays on it: NumPy keeps it as their base."""

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

    def __del__(self) -> None:
        self._pool.give(self._block)


def size_class(size: int) -> int:
    """The size of the block for so many bytes: a multiple of an eighth of the power of two below it."""
    step = 1 << max((size + ALIGNMENT).bit_length() - STEPS.bit_length(), 0)
    return -(-(size + ALIGNMENT) // step) * step


def _new(size: int) -> Block:
    return np.empty(size, np.uint8)


def _limit() -> int:
    """Bytes that the pool keeps at most; where the system does not tell its memory, 1 GiB is not known to be little of it."""
    with contextlib.suppress(PlanError):
        return min(MOST, total_memory() // SHARE)
    return MOST


_pool = Pool(_limit())
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pool.forked)
empty = _pool.empty
release = _pool.release


def empty_like(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """An array of the shape and type of a C-contiguous one, with any content."""
    return _pool.empty(array.shape, array.dtype)


def copy(array: Any) -> npt.NDArray[Any]:
    """What `numpy.array(array)` gives."""
    if not isinstance(array, np.ndarray) or array.nbytes < SMALLEST or not array.flags.c_contiguous:
        return np.array(array)
    out = _pool.empty(array.shape, array.dtype)
    np.copyto(out, array)
    return out


def is_lease(owner: object) -> bool:
    """Whether an array with this base has its memory from here, and is not a view of another array."""
    return type(owner) is _Lease


def reusing(function: np.ufunc) -> Callable[..., Any]:
    """A function that gives what `function` does, large results in memory from here.

    Args:
        function: one whose result has the type of its arguments if they are of one floating-point type.
    """

    def evaluate(*args: Any) -> Any:
        for first in args:
            if type(first) is np.ndarray and first.nbytes >= SMALLEST:
                if first.dtype.kind == "f" and all(_fits(a, first) for a in args):
                    return function(*args, out=_pool.empty(first.shape, first.dtype))
                break
        return function(*args)

    return evaluate


def _fits(arg: Any, first: npt.NDArray[Any]) -> bool:
    """Whether with `arg` the result still has shape, type and order of `first`."""
    if type(arg) in (float, int):
        return True
    if type(arg) is not np.ndarray:
        return isinstance(arg, np.generic) and arg.dtype == first.dtype
    return arg.dtype == first.dtype and arg.shape == first.shape and (arg.flags.c_contiguous or not any(arg.strides))
