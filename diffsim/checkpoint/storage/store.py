"""Stores of states outside of the memory that the primal runs in: the layout of a state, and the interface of stores.

A *state* is a list of arrays with the same shapes and types at every step. A store copies states and does not know their meaning.
"""

from __future__ import annotations

import math
import mmap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Protocol, TypeVar

import numpy as np

from diffsim.errors import ParameterError, ScheduleError, ShapeError

ALIGNMENT = 64
"""Each array of a row begins at a multiple of this number of bytes, aligned to a cache line and to the widest vectors."""
KINDS = "?biufc"
"""Allowed kinds of NumPy types in a state: numbers, whose bytes are their value."""

State = Sequence[np.ndarray]
_Self = TypeVar("_Self", bound="Store")


@dataclass(frozen=True)
class StateLayout:
    """Shapes and types of a state's arrays.

    Attributes:
        shapes: one for each array.
        dtypes: one for each array: types of numbers, in either byte order.
        offsets: offset of each array in a *row*, which contains the bytes of a state, one array after another.
        row_bytes: length of a row. It is a few bytes more than `nbytes`, because each array is aligned.
        nbytes: sum of the arrays' sizes.

    Raises:
        ParameterError: the numbers of types and shapes differ, or a type is not one of numbers.
    """

    shapes: tuple[tuple[int, ...], ...]
    dtypes: tuple[np.dtype, ...]
    offsets: tuple[int, ...] = field(init=False, repr=False, compare=False)
    row_bytes: int = field(init=False, repr=False, compare=False)
    nbytes: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if len(self.shapes) != len(self.dtypes):
            raise ParameterError(f"expected a type for each of {len(self.shapes)} shapes, got {len(self.dtypes)}; give one an array")
        for dtype in self.dtypes:
            if dtype.kind not in KINDS:
                raise ParameterError(f"expected arrays of numbers in a state, got {dtype}; keep other things outside the state")
        sizes = [math.prod(shape) * dtype.itemsize for shape, dtype in zip(self.shapes, self.dtypes, strict=True)]
        offsets = [0]
        for size in sizes:
            offsets.append(round_up(offsets[-1] + size, ALIGNMENT))
        object.__setattr__(self, "offsets", tuple(offsets[:-1]))
        object.__setattr__(self, "row_bytes", offsets[-1])
        object.__setattr__(self, "nbytes", sum(sizes))

    @classmethod
    def of(cls, arrays: State) -> StateLayout:
        """The layout of a state."""
        return cls(tuple(array.shape for array in arrays), tuple(array.dtype for array in arrays))

    def check(self, arrays: State) -> None:
        """Raise unless a state has this layout.

        Raises:
            ShapeError: the number of arrays, or the shape or type of one, differs.
        """
        if len(arrays) != len(self.shapes):
            raise ShapeError(f"expected a state of {len(self.shapes)} arrays, got {len(arrays)}; a store keeps states of one layout")
        for number, array in enumerate(arrays):
            if array.shape != self.shapes[number] or array.dtype != self.dtypes[number]:
                raise ShapeError(
                    f"array {number} of a state: expected {self.shapes[number]} of {self.dtypes[number]}, got {array.shape} of "
                    f"{array.dtype}; a store keeps states of one layout"
                )

    def views(self, row: np.ndarray) -> list[np.ndarray]:
        """The arrays in a row of bytes, without copying."""
        return [
            np.ndarray(shape, dtype, buffer=row, offset=offset)
            for shape, dtype, offset in zip(self.shapes, self.dtypes, self.offsets, strict=True)
        ]

    def pack(self, arrays: State, row: np.ndarray) -> None:
        """Copy a state of this layout into a row, bit for bit."""
        for view, array in zip(self.views(row), arrays, strict=True):
            np.copyto(view, array, casting="no")

    def constants(self, row: np.ndarray) -> list[np.ndarray]:
        """`views` that cannot be written to."""
        out = self.views(row)
        for view in out:
            view.flags.writeable = False
        return out


class Store(Protocol):
    """Slots for states of one layout. One thread may call it. It may use threads of its own in the background.

    An error in the background is raised once, by the next call, and names slot and step. The slot then keeps its earlier state.

    Attributes:
        layout: layout of the states.
        slots: most states stored.
    """

    layout: StateLayout
    slots: int

    @property
    def nbytes(self) -> int:
        """Bytes of memory in use now, including buffers for reading and writing."""

    def write(self, slot: int, step: int, arrays: State) -> None:
        """Store a copy of state `step` in `slot`, which replaces its content. The arrays may change as soon as this returns."""

    def fetch(self, slot: int) -> None:
        """Start to read the state in `slot`, for the next `read` of it. This is a hint: without that `read` it only costs time."""

    def read(self, slot: int, step: int) -> list[np.ndarray]:
        """Return state `step` from `slot` as read-only arrays. The slot keeps the state.

        The arrays are valid until the next `read`, or until the slot is written to.
        """

    def free(self, slot: int) -> None:
        """Empty a slot."""

    def kept(self) -> dict[int, int]:
        """Return the step of the state in each full slot, after all writes are done."""

    def close(self, keep: bool = False) -> None:
        """Free all memory and files, including the states. Closing twice is harmless.

        Args:
            keep: leave a file of states, if there is one, for another process.
        """

    def __enter__(self: _Self) -> _Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


def require_slot(slot: int, slots: int) -> None:
    """Raise ScheduleError unless `slot` is one of `slots`."""
    if not 0 <= slot < slots:
        raise ScheduleError(f"expected a slot from 0 to {slots - 1}, got {slot}; make the store with as many slots as the schedule uses")


def require_step(step: int) -> None:
    """Raise ScheduleError unless `step` is a valid number of a state."""
    if step < 0:
        raise ScheduleError(f"expected the step of a state, counted from 0, got {step}; check the schedule with simulate()")


def require_kept(slot: int, present: int | None, step: int | None = None) -> None:
    """Raise ScheduleError unless a slot has a state (`present`), and it is state `step` unless that is None."""
    if present is None:
        raise ScheduleError(f"expected a state in slot {slot}, got none; write it before, and check the schedule with simulate()")
    if step is not None and present != step:
        raise ScheduleError(f"expected state {step} in slot {slot}, got state {present}; check the schedule with simulate()")


def row_buffer(size: int) -> np.ndarray:
    """Bytes that begin on a page and are already touched, so that a shortage of memory appears here and not in the middle of a run."""
    page = mmap.PAGESIZE
    memory = np.empty(size + page, dtype=np.uint8)
    memory.fill(0)
    begin = -memory.ctypes.data % page
    return memory[begin : begin + size]


def pieces(array: np.ndarray, most: int) -> Iterator[np.ndarray]:
    """Cut an array into flat parts of at most `most` bytes, in the order of its elements.

    The cuts depend only on shape and type. Parts of a contiguous array are views, others are copies.
    """
    if array.nbytes <= most:
        yield np.ascontiguousarray(array).reshape(-1)
        return
    row = array.nbytes // len(array)
    if row > most:
        for part in array:
            yield from pieces(part, most)
        return
    count = most // row
    for start in range(0, len(array), count):
        yield np.ascontiguousarray(array[start : start + count]).reshape(-1)


def round_up(size: int, unit: int) -> int:
    """The next multiple of `unit`."""
    return -(-size // unit) * unit
