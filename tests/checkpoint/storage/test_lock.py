"""One process at a time, and no lock of a process that has ended."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from diffsim.checkpoint.storage.lock import PathLock
from diffsim.errors import StorageError

HOLDER = """
import sys
from pathlib import Path
from diffsim.checkpoint.storage.lock import PathLock
with PathLock(Path(sys.argv[1]), "the folder", "wait"):
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "run.lock"


def lock(path: Path) -> PathLock:
    return PathLock(path, "the folder", "wait")


def holder(path: Path) -> subprocess.Popen[str]:
    process = subprocess.Popen([sys.executable, "-c", HOLDER, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None and process.stdout.readline() == "held\n"
    return process


def test_another_process_is_named(path: Path) -> None:
    with holder(path) as process:
        for _ in range(2):  # asking changes nothing
            with pytest.raises(StorageError, match=f"the folder: expected .*, found that the process {process.pid} uses it; wait"):
                lock(path).__enter__()
        process.communicate()
    assert not path.exists()
    with lock(path):
        assert path.exists()
    assert not path.exists()


def test_a_killed_process_holds_nothing(path: Path) -> None:
    with holder(path) as process:
        process.kill()
    assert path.exists()
    with lock(path):
        pass
    assert not path.exists()


def test_another_object_of_this_process_is_refused_too(path: Path) -> None:
    with lock(path), pytest.raises(StorageError, match="not in use"):
        lock(path).__enter__()
    with lock(path):
        pass


def test_a_file_with_any_content_is_taken_over(path: Path) -> None:
    path.write_bytes(b"\xff\x001234567890" * 100)
    with lock(path):
        pass


def test_a_folder_that_cannot_be(path: Path) -> None:
    path.touch()
    with pytest.raises(StorageError, match="locking the folder: "):
        lock(path / "lock").__enter__()


def test_a_file_that_stays_while_it_is_open_is_deleted_when_it_is_closed(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on Windows, where it also stays if another process has opened it; there is no lock on it then."""
    held, unlink = lock(path), Path.unlink

    def refused(self: Path, missing_ok: bool = False) -> None:
        if held._lock.is_locked or somebody:
            raise PermissionError(13, "it is open")
        unlink(self, missing_ok)

    monkeypatch.setattr(Path, "unlink", refused)
    for somebody in (False, True):
        with held:
            pass
        assert path.exists() is somebody
        with held:
            pass
