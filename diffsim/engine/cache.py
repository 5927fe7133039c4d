"""The folder in which diffsim keeps compiled kernels and the file of `diffsim tune`, chosen before an engine starts.

An engine ends the process, at its end or at import, if it can make neither its own default folder nor the one that it is given. So it
always gets one that is there. An engine with a full disk below its folder keeps nothing, and works.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
import time
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from diffsim.errors import BackendError

VARIABLE = "DIFFSIM_CACHE"
"""Environment variable with the folder."""
XDG = "XDG_CACHE_HOME"
"""Environment variable with the user's folder for caches, in which diffsim makes one of its own."""
LEAST_FILES = 16
"""Files that a disk must have room for: an engine that can lock its folder, but not make a second file in it, ends the process."""

LOCKS = ("ticache.lock", "qdcache.lock")
"""Names of the engines' locks in their folders, which may have other files of the user."""
OLD = 600
"""Seconds after which an engine's lock in a folder is that of a killed process: to write kernels takes a few."""


@dataclass(frozen=True)
class Folder:
    """A folder of compiled kernels.

    Attributes:
        path: of it.
        variable: environment variable that names it; "": none does.
        temporary: whether it goes with this process.
    """

    path: Path
    variable: str
    temporary: bool = False


_made: list[Path] = []  # the temporary folder, if this process has one


def cache_folder() -> Folder | None:
    """The folder of diffsim's caches: DIFFSIM_CACHE, else diffsim in XDG_CACHE_HOME, else ~/.cache/diffsim; None: there is no home."""
    if named := os.environ.get(VARIABLE):
        return Folder(_expanded(named), VARIABLE)
    shared = os.environ.get(XDG, "")
    if os.path.isabs(shared):  # the specification ignores others
        return Folder(Path(shared) / "diffsim", "")
    with contextlib.suppress(RuntimeError):  # a user without a home
        return Folder(Path.home().absolute() / ".cache" / "diffsim", "")
    return None


def kernel_folder(engine: str, variable: str, part: str = "") -> Folder:
    """The folder in which an engine keeps compiled kernels: a temporary one if the one that is meant cannot be made or read.

    Args:
        engine: name of the engine.
        variable: the engine's own environment variable for its folder, which goes before diffsim's rules.
        part: name of a folder that the engine makes in it.

    Raises:
        BackendError: not even a temporary folder can be made.
    """
    if named := os.environ.get(variable):
        wanted: Folder | None = Folder(_expanded(named), variable)
    else:
        base = cache_folder()
        wanted = None if base is None else Folder(base.path / engine, base.variable)
    why = "there is no home" if wanted is None else _obstacle(wanted.path / part)
    if wanted is not None and not why:
        _remove_old_locks(wanted.path / part)
        return wanted
    if wanted is not None and wanted.variable:
        warnings.warn(
            f"{wanted.variable}: expected a folder that can be made and read, got {str(wanted.path)!r} ({why}); every process compiles its "
            "kernels anew; name another folder",
            RuntimeWarning,
            stacklevel=2,
        )
    folder = _temporary(why) / engine
    (folder / part).mkdir(parents=True, exist_ok=True)
    return Folder(folder, "", temporary=True)


def remove_temporary() -> None:
    """Remove the temporary folder, if there is one."""
    while _made:
        shutil.rmtree(_made.pop(), ignore_errors=True)


@contextlib.contextmanager
def with_home() -> Iterator[None]:
    """While an engine is imported or started: it asks for the user's folder for caches, and ends the process if there is none."""
    if os.name != "posix" or "HOME" in os.environ or XDG in os.environ:
        yield
        return
    os.environ[XDG] = os.path.abspath(os.sep)  # nothing is written there: the engine gets its folder by `kernel_folder`
    try:
        yield
    finally:
        del os.environ[XDG]


def _expanded(named: str) -> Path:
    with contextlib.suppress(RuntimeError):  # the home of nobody
        return Path(named).expanduser().absolute()
    return Path(named).absolute()


def _obstacle(folder: Path) -> str:
    """Why an engine cannot use a folder; "": it can. One that it may only read has kernels for it."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        room = os.statvfs(folder) if hasattr(os, "statvfs") else None
    except (FileExistsError, NotADirectoryError):
        return "a file is in its place"
    except OSError as error:
        return error.strerror or str(error)
    if not os.access(folder, os.R_OK | os.X_OK):
        return "it cannot be read"
    if room is not None and room.f_files and room.f_favail < LEAST_FILES and os.access(folder, os.W_OK):
        return f"its disk has room for {room.f_favail} more files"
    return ""


def _remove_old_locks(folder: Path) -> None:
    """Remove the lock of a process that was killed as it read or wrote kernels: while it is there, an engine keeps and reads none."""
    for lock in map(folder.joinpath, LOCKS):
        with contextlib.suppress(OSError):  # another process may have removed it, and who may only read leaves it
            if time.time() - lock.stat().st_mtime > OLD:
                lock.unlink()


def _temporary(why: str) -> Path:
    """The temporary folder of this process."""
    if not _made:
        try:
            _made.append(Path(tempfile.mkdtemp(prefix="diffsim-cache-")))
        except OSError as error:
            raise BackendError(
                f"expected a folder for compiled kernels, found none that can be used ({why}; {error}); set {VARIABLE} to a folder that "
                "can be written"
            ) from error
    return _made[0]
