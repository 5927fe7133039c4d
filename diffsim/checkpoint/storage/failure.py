"""Messages for errors of files: the file, the activity, the needed and the free space, and the remedy."""

from __future__ import annotations

import errno
from pathlib import Path

from diffsim.base.system import free_disk
from diffsim.checkpoint.planning.memory import least_text, memory_text
from diffsim.errors import StorageError

NO_ROOM = (errno.ENOSPC, errno.EDQUOT)
NO_ACCESS = (errno.EACCES, errno.EPERM, errno.EROFS)


def failure(path: Path, what: str, error: OSError, needed: int = 0) -> StorageError:
    """Make a StorageError from an error of the system.

    Args:
        path: path of the file.
        what: the activity, such as "writing the results".
        error: the error of the system.
        needed: intended size of the file in bytes; 0: it was not being written.
    """
    if error.errno in NO_ROOM:
        return no_room(path, what, needed, error)
    if error.errno == errno.EFBIG:
        return StorageError(
            error.errno,
            f"{path}: {what}: expected to write a file of {least_text(needed)}, got {error.strerror!r} with {_free(path)} free; "
            "raise the limit on the size of a file (ulimit -f), or choose another disk",
        )
    if error.errno in NO_ACCESS:
        return StorageError(
            error.errno,
            f"{path}: {what}: expected a writable folder {path.parent}, got {error.strerror!r}; change its permissions, or "
            "name another folder",
        )
    return StorageError(error.errno, f"{path}: {what}: {error.strerror or error}; check the disk and the permissions, or name another file")


def no_room(path: Path, what: str, needed: int, error: OSError) -> StorageError:
    """Make a StorageError for a file that has, or will have, too little space."""
    return StorageError(
        error.errno,
        f"{path}: {what}: expected room for a file of {least_text(needed)}, got {error.strerror!r} with {_free(path)} free; "
        "make room, choose another disk, write less (fewer states, say), or raise the quota",
    )


def _free(path: Path) -> str:
    try:
        return memory_text(free_disk(path))
    except OSError:
        return "an unknown amount"
