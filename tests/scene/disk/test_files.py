"""Files of a run are there whole, old or new, whatever happens while they are written."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from diffsim.errors import StorageError
from diffsim.scene.disk.files import write_aside


def test_a_file_takes_its_name_when_it_is_on_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "run.json"
    path.write_bytes(b"old")
    calls: list[str] = []

    def watched(name: str) -> None:
        right = getattr(os, name)

        def call(*arguments: object) -> None:
            calls.append(name)
            assert path.read_bytes() == (b"old" if "replace" not in calls[:-1] else b"new")
            right(*arguments)

        monkeypatch.setattr(os, name, call)

    watched("fsync")
    watched("replace")
    write_aside(path, b"new")
    assert calls == ["fsync", "replace", "fsync"]  # the last is the folder
    assert path.read_bytes() == b"new"


@pytest.mark.parametrize("failing", ["fsync", "replace"])
@pytest.mark.parametrize("old", [b"old", None])
def test_old_files_stay_if_new_ones_cannot_be_written(
    failing: str, old: bytes | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "run.json"
    if old is not None:
        path.write_bytes(old)

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, failing, full)
    with pytest.raises(StorageError, match=r"run.json.*No space left on device"):
        write_aside(path, b"new")
    assert [entry.read_bytes() for entry in tmp_path.iterdir()] == ([] if old is None else [old])
