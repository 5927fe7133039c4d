"""The journal of a search that several processes go through together: rank 0 has the file, and all get what it recalls."""

from __future__ import annotations

import os

from diffsim.domains import Ranks
from diffsim.optimize import Journal
from diffsim.optimize.journal import Evaluation
from diffsim.typing import Array


def opened_journal(ranks: Ranks, path: str | os.PathLike[str], fingerprint: str) -> Journal:
    """The journal of a search; see `Journal`."""
    return Journal(path, fingerprint) if ranks.size == 1 else SharedJournal(ranks, path, fingerprint)


class SharedJournal(Journal):
    """A journal that rank 0 reads and writes for all.

    All ranks ask for the same evaluations in the same order, since they compute the same bits. If rank 0 recalls one, all of them get it,
    and else all compute it.

    Args:
        ranks: the processes.
        path: see `Journal`.
        fingerprint: see `Journal`.
    """

    def __init__(self, ranks: Ranks, path: str | os.PathLike[str], fingerprint: str) -> None:
        self._ranks, self._file_of_all = ranks, ranks.rank == 0
        if self._file_of_all:
            super().__init__(path, fingerprint)

    def close(self) -> None:
        if self._file_of_all:
            super().close()

    def rewind(self) -> None:
        if self._file_of_all:
            super().rewind()

    def recall(self, x: Array, context: bytes = b"") -> Evaluation | None:
        here = super().recall(x, context) if self._file_of_all else None
        return self._ranks.gathered(here)[0]

    def record(self, x: Array, evaluation: Evaluation, context: bytes = b"") -> None:
        if self._file_of_all:
            super().record(x, evaluation, context)
