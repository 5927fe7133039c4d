"""Shots in groups of ranks: each group runs its own, and all ranks get all results in the order of the shots."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from diffsim.domains import mpi
from diffsim.domains.ranks import Alone
from diffsim.errors import ParameterError
from diffsim.scene.shots.groups import Groups

RANKS, SIZE = 6, 2


class Thread(Alone):
    """A rank that is a thread of this process."""

    size, launched = RANKS, True

    def __init__(self, rank: int, values: list[Any], barrier: threading.Barrier) -> None:
        self.rank, self._values, self._barrier = rank, values, barrier

    def gathered(self, value: Any) -> list[Any]:
        self._values[self.rank] = value
        self._barrier.wait(10)
        every = list(self._values)
        self._barrier.wait(10)
        return every

    def group(self, size: int) -> Alone:
        group = Alone(launched=True)
        group.rank, group.size = self.rank % size, size
        return group


def threads() -> list[Thread]:
    values, barrier = [None] * RANKS, threading.Barrier(RANKS)
    return [Thread(rank, values, barrier) for rank in range(RANKS)]


@pytest.mark.parametrize("shots", [[0, 1, 2, 3, 4, 5, 6], [5, 2], [4]], ids=str)
def test_shots_are_shared_out_and_come_in_their_order(shots: list[int]) -> None:
    ran: list[tuple[int, int]] = []

    def square(rank: int, factor: int, numbers: Sequence[int]) -> Iterator[int]:
        for number in numbers:
            ran.append((rank, number))
            yield factor * number**2

    def run(rank: Thread) -> list[int]:
        return list(Groups(rank, SIZE).run(square, (rank.rank,), (10,), shots))

    with ThreadPoolExecutor(RANKS) as pool:
        every = list(pool.map(run, threads()))
    assert every == [[10 * shot**2 for shot in shots]] * RANKS
    expected = [(rank, shot) for place, shot in enumerate(shots) for rank in range(RANKS) if rank // SIZE == place % (RANKS // SIZE)]
    assert sorted(ran) == sorted(expected)


def test_groups_are_divided_and_joined_again(monkeypatch: pytest.MonkeyPatch) -> None:
    everyone = threads()[3]
    monkeypatch.setattr(mpi, "_known", [everyone])
    with mpi.in_groups(SIZE) as whole:
        assert whole is everyone and (mpi.ranks().rank, mpi.ranks().size) == (1, SIZE)
    assert mpi.ranks() is everyone
    refusal = "domains of 4 boxes, expected a multiple of 4 ranks, got 6; start the program with mpiexec -n 4, or 8 for 2 groups of shots"
    with pytest.raises(ParameterError, match=refusal), mpi.in_groups(4):
        raise AssertionError("ranks that are no multiple")
    assert mpi.ranks() is everyone
