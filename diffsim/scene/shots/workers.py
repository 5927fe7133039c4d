"""Where the shots of a scene run: one after another in this process, or in several processes (`diffsim.scene.shots.cluster`)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol, TypeVar

from diffsim.scene.disk.shot_progress import ShotProgress

T = TypeVar("T")


class Workers(Protocol):
    """Processes that run shots.

    Attributes:
        sharing: number of the processes that share the memory and the disk that a scene grants.
    """

    sharing: int

    def run(
        self,
        function: Callable[..., Iterator[T]],
        kept: Sequence[Any],
        given: Sequence[Any],
        shots: Sequence[int],
        progress: ShotProgress | None = None,
    ) -> Iterator[T]:
        """Run a function for some shots. Yield their results in the order of the shots.

        Args:
            function: called with `kept`, `given` and the numbers of some of the shots. It yields a result for each of these. With
                `progress`, it takes an argument of that name too. See `diffsim.scene.shots.shot_runs`.
            kept: arguments that stay the same from call to call. Another process gets each object of them once, and keeps what it
                compiles for it.
            given: arguments of this call.
            shots: their numbers.
            progress: gets the progress.
        """

    def available(self) -> int | None:
        """Bytes of memory that the process of a shot may still take; None: those of this process."""


class Here:
    """This process, in which shots follow one another."""

    sharing = 1

    def run(
        self,
        function: Callable[..., Iterator[T]],
        kept: Sequence[Any],
        given: Sequence[Any],
        shots: Sequence[int],
        progress: ShotProgress | None = None,
    ) -> Iterator[T]:
        return function(*kept, *given, shots, **({} if progress is None else {"progress": progress}))

    def available(self) -> int | None:
        return None


HERE = Here()
