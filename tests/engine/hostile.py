"""Surroundings in which a process finds no folder for its caches, or none that is any good."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest

Surroundings = dict[str, str | None]
"""Changes of the environment; None: the variable is not set."""
CACHES = ("TI_OFFLINE_CACHE_FILE_PATH", "QD_OFFLINE_CACHE_FILE_PATH", "DIFFSIM_CACHE", "XDG_CACHE_HOME")


@contextmanager
def mounted(folder: Path, options: str) -> Iterator[None]:
    """A small disk of memory on a folder, where mounting is permitted."""
    command = ["mount", "-t", "tmpfs", "-o", options, "none", str(folder)]
    if shutil.which("mount") is None or subprocess.run(command, capture_output=True).returncode:
        pytest.skip("mounting is not permitted")
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


@contextmanager
def no_home(folder: Path) -> Iterator[Surroundings]:
    yield {"HOME": None, "DIFFSIM_CACHE": str(folder)}  # not the user's own folder, which the system knows without HOME


@contextmanager
def home_nowhere(_: Path) -> Iterator[Surroundings]:
    yield {"HOME": "/proc/none"}


@contextmanager
def home_below_a_file(folder: Path) -> Iterator[Surroundings]:
    (folder / "file").touch()
    yield {"HOME": str(folder / "file" / "home")}


@contextmanager
def cache_is_a_file(folder: Path) -> Iterator[Surroundings]:
    (folder / ".cache").touch()
    yield {"HOME": str(folder)}


@contextmanager
def xdg_nowhere(folder: Path) -> Iterator[Surroundings]:
    yield {"HOME": str(folder), "XDG_CACHE_HOME": "/proc/none"}


@contextmanager
def home_only_read(folder: Path) -> Iterator[Surroundings]:
    with mounted(folder, "size=1m"):
        subprocess.run(["mount", "-o", "remount,ro", str(folder)], check=True)
        yield {"HOME": str(folder)}


@contextmanager
def no_bytes_left(folder: Path) -> Iterator[Surroundings]:
    with mounted(folder, "size=64k"):
        (folder / "full").write_bytes(bytes(1 << 16))
        yield {"HOME": str(folder)}


@contextmanager
def few_bytes_left(folder: Path) -> Iterator[Surroundings]:
    with mounted(folder, "size=64k"):
        yield {"HOME": str(folder)}


@contextmanager
def few_files_left(folder: Path) -> Iterator[Surroundings]:
    with mounted(folder, "size=1m,nr_inodes=5"):  # for the root, three folders, and the lock of the engine
        yield {"HOME": str(folder)}


Hostile = Callable[[Path], AbstractContextManager[Surroundings]]
DISKS: list[Hostile] = [no_bytes_left, few_bytes_left, few_files_left]
"""Those with a disk on which something stays."""
HOSTILE: list[Hostile] = [no_bytes_left, no_home, home_nowhere, home_below_a_file, home_only_read, *DISKS[1:], cache_is_a_file, xdg_nowhere]


def environment(changes: Surroundings, temporary: Path) -> dict[str, str]:
    """The environment of this process without folders of caches, and with changes."""
    variables = {name: value for name, value in os.environ.items() if name not in CACHES} | {"TMPDIR": str(temporary)}
    for name, value in changes.items():
        variables.pop(name, None)
        if value is not None:
            variables[name] = value
    return variables
