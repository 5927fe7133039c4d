"""The shots of a scene in groups of ranks of MPI: each group runs other shots, with the grid in domains."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

from diffsim.domains import Ranks
from diffsim.scene.disk.shot_progress import ShotProgress

T = TypeVar("T")


class Groups:
    """Shots shared out among groups of ranks; see `Workers`.

    All ranks call it together. The groups take a shot each, and then all ranks get their results in the order of the shots. So sums over
    shots have the bits of one process.

    Args:
        ranks: all processes.
        size: those of a group. They have neighbouring numbers and the same results.
    """

    sharing = 1  # a simulation in domains itself shares out the memory of a machine

    def __init__(self, ranks: Ranks, size: int) -> None:
        self._ranks, self._count = ranks, ranks.size // size
        self._group, self._first = ranks.rank // size, ranks.rank % size == 0

    def run(
        self,
        function: Callable[..., Iterator[T]],
        kept: Sequence[Any],
        given: Sequence[Any],
        shots: Sequence[int],
        progress: ShotProgress | None = None,
    ) -> Iterator[T]:
        for place in range(0, len(shots), self._count):
            turn = shots[place : place + self._count]
            own = turn[self._group : self._group + 1]
            results = list(function(*kept, *given, own)) if own else []
            for every in self._ranks.gathered(results if self._first else []):
                yield from every
            if progress is not None:
                progress.finished(place + len(turn))

    def available(self) -> int | None:
        return None
