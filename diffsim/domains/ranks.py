"""The interface of the processes that hold the domains, and that of one process alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol, TypeVar

from diffsim.typing import Array

Value = TypeVar("Value")


class Ranks(Protocol):
    """The processes of one simulation, each with its number.

    Attributes:
        rank: the number of this process.
        size: the number of processes.
        launched: whether a launcher started them.
    """

    rank: int
    size: int
    launched: bool

    def gathered(self, value: Value) -> list[Value]:
        """The values of all processes, in the order of their numbers."""

    def exchanged(self, outgoing: Mapping[int, Sequence[Array]], incoming: Mapping[int, Sequence[Array]]) -> None:
        """Send flat arrays to some processes, and receive those of others.

        Args:
            outgoing: receiver -> values.
            incoming: sender -> arrays that are filled, as many and as long as it sends, in the same order.
        """

    def shared(self, values: Array, root: int) -> Array:
        """The contiguous array of the process `root`, in all processes. Others give one of its shape, which is filled."""

    def abort(self, status: int) -> None:
        """End all processes of the program."""

    def group(self, size: int) -> Ranks:
        """The processes of the group of this one, where groups have `size` neighbouring numbers."""


class Alone:
    """One process."""

    rank, size = 0, 1

    def __init__(self, launched: bool = False) -> None:
        self.launched = launched

    def gathered(self, value: Value) -> list[Value]:
        return [value]

    def exchanged(self, outgoing: Mapping[int, Sequence[Array]], incoming: Mapping[int, Sequence[Array]]) -> None:
        pass

    def shared(self, values: Array, root: int) -> Array:
        return values

    def abort(self, status: int) -> None:
        raise SystemExit(status)

    def group(self, size: int) -> Ranks:
        return self
