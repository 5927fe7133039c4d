"""The files of a reverse sweep that all ranks save at the same steps, of which one complete set is always there."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from diffsim.checkpoint import SweepFile
from diffsim.domains import Domain
from diffsim.typing import Array

_SWEEP = "which sweep"


class SweepFiles:
    """The files of one rank. One process alone has one, in which each copy of the sweep takes the place of the last.

    Where there are several ranks, all may be killed while only some have written a copy. So each rank writes two files in turns, and
    overwrites the older one when all ranks have the newer one. Then there is always a copy that all ranks have.
    Copies are compared by their step and a random number of the sweep that wrote them.

    Args:
        path: the file of one process alone. Others add a number to its name.
        key: identifies the run and the part of the grid.
        domain: the part of the grid.
    """

    def __init__(self, path: Path, key: str, domain: Domain) -> None:
        paths = [path] if domain.alone else [path.with_name(f"{path.name}-{number}") for number in (0, 1)]
        self._files, self._domain = [SweepFile(each, key) for each in paths], domain
        self._next = 0
        self._sweep: Array | None = None

    def load(self) -> tuple[int, dict[str, Array]] | None:
        """The steps that are left and the arrays of the newest copy that all ranks have; None: there is none.

        Raises:
            StorageError: a file of some rank is damaged.
        """
        if self._domain.alone:
            return self._files[0].load()
        copies = self._domain.agreed(lambda: {self._copy(number): number for number in range(len(self._files))})
        common = set(copies).intersection(*self._domain.every(set(copies))) - {None}
        if not common:
            return None
        number = copies[min(each for each in common if each is not None)]
        kept = self._domain.agreed(self._files[number].load)
        assert kept is not None
        step, arrays = kept
        self._sweep, self._next = arrays.pop(_SWEEP, None), (number + 1) % len(self._files)
        return step, arrays

    def save(self, step: int, arrays: Mapping[str, Array]) -> None:
        """Save a copy. All ranks save that of the same step."""
        if not self._domain.alone:
            if self._sweep is None:
                self._sweep = np.frombuffer(self._domain.every(os.urandom(8))[0], np.uint8)
            arrays = {**arrays, _SWEEP: self._sweep}
        self._domain.agreed(lambda: self._files[self._next].save(step, arrays))  # returns when all have it
        self._next = (self._next + 1) % len(self._files)

    def remove(self) -> None:
        """Delete the files."""
        self._next, self._sweep = 0, None
        for file in self._files:
            file.remove()

    def _copy(self, number: int) -> tuple[int, bytes] | None:
        """The step and the sweep of a copy."""
        kept = self._files[number].load()
        return None if kept is None else (kept[0], kept[1].get(_SWEEP, np.zeros(0, np.uint8)).tobytes())
