"""A run that was interrupted, anyhow and anywhere, resumes with the same bits."""

from __future__ import annotations

import dataclasses
import os
import signal
import subprocess
import sys
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
import rosenbrock_run
from rosenbrock_run import FINGERPRINT, rosenbrock, run

import diffsim
from diffsim.errors import ShapeError
from diffsim.optimize import Journal, JournalError, Result, minimise
from diffsim.optimize.journal import Evaluation, recorded
from diffsim.typing import Array

RECORD = 64 + 8 * rosenbrock_run.X0.size
HEADER = 40


class Counted:
    """The objective, which raises instead of giving its n-th evaluation."""

    def __init__(self, error: type[BaseException] | None = None, at: int = 0) -> None:
        self.calls, self._error, self._at = 0, error, at

    def __call__(self, x: Array) -> tuple[float, Array]:
        self.calls += 1
        if self._error is not None and self.calls == self._at:
            raise self._error
        return rosenbrock(x)


@pytest.fixture(scope="module")
def uninterrupted() -> Result:
    return run()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "run.journal"


@pytest.fixture
def complete(path: Path) -> Path:
    """The journal of a whole run."""
    with Journal(path, FINGERPRINT) as journal:
        run(journal=journal)
    return path


def resume(path: Path) -> tuple[Result, int]:
    """Its result, and how many evaluations were computed anew."""
    objective = Counted()
    with Journal(path, FINGERPRINT) as journal:
        return run(objective, journal), objective.calls


def assert_same_bits(result: Result, expected: Result) -> None:
    assert result.x.tobytes() == expected.x.tobytes()
    assert result.gradient.tobytes() == expected.gradient.tobytes()
    assert (result.value, result.message, result.reason) == (expected.value, expected.message, expected.reason)
    without_seconds = [[dataclasses.replace(i, seconds=0.0) for i in r.history] for r in (result, expected)]
    assert without_seconds[0] == without_seconds[1]


def evaluations(result: Result) -> int:
    return result.history[-1].evaluations


def test_the_run_is_long_enough_to_be_interrupted(uninterrupted: Result) -> None:
    assert len(uninterrupted.history) == 26
    assert evaluations(uninterrupted) > 26  # some line searches take more than one


def test_a_journal_changes_nothing(path: Path, uninterrupted: Result) -> None:
    with Journal(path, FINGERPRINT) as journal:
        assert_same_bits(run(journal=journal), uninterrupted)
    assert path.stat().st_size == HEADER + evaluations(uninterrupted) * RECORD


@pytest.mark.parametrize("error", [KeyboardInterrupt, RuntimeError])
@pytest.mark.parametrize("at", [1, 2, 3, 7, 20, 27])
def test_resumes_after_an_exception(path: Path, uninterrupted: Result, error: type[BaseException], at: int) -> None:
    with Journal(path, FINGERPRINT) as journal, pytest.raises(error):
        run(Counted(error, at), journal)
    assert path.stat().st_size == HEADER + (at - 1) * RECORD
    result, calls = resume(path)
    assert_same_bits(result, uninterrupted)
    assert calls == evaluations(uninterrupted) - (at - 1)


def test_resumes_after_many_interruptions_with_one_journal_object(path: Path, uninterrupted: Result) -> None:
    with Journal(path, FINGERPRINT) as journal:
        for _ in range(5):
            with pytest.raises(KeyboardInterrupt):
                run(Counted(KeyboardInterrupt, at=4), journal)
        objective = Counted()
        assert_same_bits(run(objective, journal), uninterrupted)
    assert objective.calls == evaluations(uninterrupted) - 5 * 3


@pytest.mark.parametrize("tail", [b"", b"\x00" * 200, b"\xff" * 50], ids=["cut", "zeros", "ones"])
def test_resumes_from_a_file_cut_anywhere(complete: Path, uninterrupted: Result, tail: bytes) -> None:
    """A torn file ends early, or where its size was set before its contents, in blocks of something else."""
    whole = complete.read_bytes()
    draws = np.random.default_rng(3).integers(HEADER, len(whole), 20).tolist()
    edges = [HEADER + 3 * RECORD + k for k in (-1, 0, 1, 47, 48, 49, RECORD - 16, RECORD - 1)]
    for size in draws + edges + [HEADER]:
        complete.write_bytes(whole[:size] + tail)
        result, calls = resume(complete)
        assert_same_bits(result, uninterrupted)
        assert calls == evaluations(uninterrupted) - (size - HEADER) // RECORD
        assert len(complete.read_bytes()) == len(whole)  # the torn tail is gone, and the lost records are there again


@pytest.mark.parametrize("size", [0, 1, 8, 20, 39])
def test_resumes_from_a_torn_header(complete: Path, uninterrupted: Result, size: int) -> None:
    complete.write_bytes(complete.read_bytes()[:size])
    assert_same_bits(resume(complete)[0], uninterrupted)
    assert resume(complete)[1] == 0


@pytest.mark.parametrize("offset", [0, 9, 20, 33, 41, 60, RECORD - 3])
def test_a_flipped_bit_is_never_believed(complete: Path, uninterrupted: Result, offset: int) -> None:
    data = bytearray(complete.read_bytes())
    data[HEADER + 5 * RECORD + offset] ^= 4
    complete.write_bytes(data)
    result, calls = resume(complete)
    assert_same_bits(result, uninterrupted)
    assert calls == evaluations(uninterrupted) - 5


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="no SIGKILL on this system")
@pytest.mark.parametrize(("at", "where"), [(1, "write"), (4, "objective"), (4, "write"), (19, "write")])
def test_resumes_after_kill_9(path: Path, uninterrupted: Result, at: int, where: str) -> None:
    environment = {**os.environ, "PYTHONPATH": str(Path(diffsim.__file__).parents[1])}
    killed = subprocess.run([sys.executable, rosenbrock_run.__file__, str(path), str(at), where], check=False, env=environment)
    assert killed.returncode == -signal.SIGKILL
    torn = 48 + (RECORD - 64) // 2 if where == "write" else 0
    assert path.stat().st_size == HEADER + (at - 1) * RECORD + torn
    result, calls = resume(path)
    assert_same_bits(result, uninterrupted)
    assert calls == evaluations(uninterrupted) - (at - 1)


def test_a_finished_run_is_recalled_without_computing(complete: Path, uninterrupted: Result) -> None:
    result, calls = resume(complete)
    assert_same_bits(result, uninterrupted)
    assert calls == 0


def test_a_finished_run_goes_on_for_more_iterations(path: Path, uninterrupted: Result) -> None:
    with Journal(path, FINGERPRINT) as journal:
        first = run(journal=journal, iterations=10)
        objective = Counted()
        assert_same_bits(run(objective, journal), uninterrupted)
    assert objective.calls == evaluations(uninterrupted) - evaluations(first)


def test_every_record_is_on_disk_before_the_next_is_asked_for(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whole, not in a buffer: a power failure leaves the bytes that the system was asked to write."""
    synced: list[int] = []
    sync = os.fsync

    def noted(descriptor: int) -> None:
        sync(descriptor)
        synced.append(os.fstat(descriptor).st_size)

    monkeypatch.setattr(os, "fsync", noted)
    with Journal(path, FINGERPRINT) as journal:
        assert synced == [HEADER]

        def objective(x: Array) -> tuple[float, Array]:
            assert synced[-1] == path.stat().st_size == HEADER + (len(synced) - 1) * RECORD
            return rosenbrock(x)

        count = evaluations(run(objective, journal, iterations=5))
    assert synced == [HEADER + number * RECORD for number in range(count + 1)]


def test_seconds_of_the_interrupted_run_count(path: Path) -> None:
    with Journal(path, FINGERPRINT) as journal:
        assert journal.recall(rosenbrock_run.X0) is None
        journal.record(rosenbrock_run.X0, Evaluation(*rosenbrock(rosenbrock_run.X0), seconds=1000.0))
    assert resume(path)[0].history[0].seconds == 1000.0


def test_only_one_record_is_in_memory(path: Path) -> None:
    """50 gradients of 1 MB: reading them one by one must not need the room of three."""
    n = 125_000
    with Journal(path, "large") as journal:
        x = np.zeros(n)
        assert journal.recall(x) is None
        for k in range(50):
            journal.record(x, Evaluation(float(k), np.full(n, float(k)), 0.0))
        journal.rewind()
        tracemalloc.start()
        for k in range(50):
            evaluation = journal.recall(x)
            assert evaluation is not None
            assert evaluation.gradient[-1] == k
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert peak < 3 * 8 * n


def test_another_fingerprint_is_refused_and_the_file_left_alone(complete: Path) -> None:
    before = complete.read_bytes()
    with pytest.raises(JournalError, match="other settings"):
        Journal(complete, "rosenbrock, 7 unknowns")
    assert complete.read_bytes() == before


@pytest.mark.parametrize("content", [b"x", b"not a journal, but somebody's only copy of a thesis", b"DSJRNL99" + bytes(100)])
def test_a_file_that_is_no_journal_is_refused_and_left_alone(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    with pytest.raises(JournalError, match="something else"):
        Journal(path, FINGERPRINT)
    assert path.read_bytes() == content


def test_a_run_that_goes_another_way_is_refused(complete: Path) -> None:
    before = complete.read_bytes()
    with Journal(complete, FINGERPRINT) as journal:
        with pytest.raises(JournalError, match="evaluation 1 was recorded at another x"):
            minimise(rosenbrock, np.nextafter(rosenbrock_run.X0, 2.0), journal=journal)
        with pytest.raises(JournalError, match=r"evaluation \d+ was recorded at another x"):
            minimise(rosenbrock, rosenbrock_run.X0, journal=journal)  # no bounds this time
        with pytest.raises(JournalError, match="evaluation 1 was"):
            minimise(rosenbrock, np.append(rosenbrock_run.X0, 0.0), journal=journal)
    assert complete.read_bytes() == before


def test_appending_before_all_is_recalled_is_refused(complete: Path) -> None:
    with Journal(complete, FINGERPRINT) as journal, pytest.raises(JournalError, match="recalled"):
        journal.record(rosenbrock_run.X0, Evaluation(*rosenbrock(rosenbrock_run.X0), seconds=0.0))


def test_bytes_after_the_last_whole_record_go_when_the_next_is_written(complete: Path) -> None:
    data = bytearray(complete.read_bytes())
    data[HEADER + 60] ^= 4
    complete.write_bytes(data)
    with Journal(complete, FINGERPRINT) as journal:
        assert journal.recall(rosenbrock_run.X0) is None
        assert complete.read_bytes() == data  # looking does no harm
        journal.record(rosenbrock_run.X0, Evaluation(*rosenbrock(rosenbrock_run.X0), seconds=0.0))
    assert complete.stat().st_size == HEADER + RECORD


def test_a_gradient_that_does_not_fit_is_refused(path: Path) -> None:
    with Journal(path, FINGERPRINT) as journal:
        assert journal.recall(rosenbrock_run.X0) is None
        with pytest.raises(ShapeError, match="gradient"):
            journal.record(rosenbrock_run.X0, Evaluation(0.0, np.zeros(2), 0.0))


def test_the_contents_of_a_journal_are_read_without_opening_it(complete: Path, uninterrupted: Result, tmp_path: Path) -> None:
    content = complete.read_bytes()
    count, seconds = recorded(complete)
    assert count == evaluations(uninterrupted)
    assert 0 < seconds < 60
    complete.write_bytes(content[: HEADER + 4 * RECORD - 3])  # killed while it wrote the fourth
    assert recorded(complete)[0] == 3
    complete.write_bytes(content[:HEADER])
    assert recorded(complete) == (0, 0.0)
    assert recorded(tmp_path / "none") == (0, 0.0)
    assert not (tmp_path / "none").exists()
