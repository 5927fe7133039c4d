"""One process at a time: a lock on a path, which the system takes from a process that has ended, however it ended."""

from __future__ import annotations

import os
from pathlib import Path
from types import TracebackType

from filelock import FileLock, Timeout

from diffsim.checkpoint.storage.failure import failure
from diffsim.errors import StorageError

_LONGEST_PID = 20


class PathLock:
    """Held while entered. The file has the number of the process that holds it, and is deleted at the end.

    The lock is the system's own, on the open file, so a killed process leaves a file but no lock. A number that was given to another
    process since, or that means another process in another container, does no harm: it is for messages only.

    Args:
        path: of the file.
        what: is locked, for messages, such as "the folder runs/tsunami".
        remedy: if another process holds it.

    Raises:
        StorageError: on entering: another process, or another thread, holds it.
    """

    def __init__(self, path: Path, what: str, remedy: str) -> None:
        self.path, self._what, self._remedy = path, what, remedy
        self._lock = FileLock(path, timeout=0, thread_local=False)

    def __enter__(self) -> PathLock:
        try:
            self._lock.acquire()
            self.path.write_text(f"{os.getpid()}\n", encoding="ascii")
        except Timeout:
            raise StorageError(
                f"{self._what}: expected one that is not in use, found that {self._holder()} uses it; {self._remedy}"
            ) from None
        except OSError as error:
            self._lock.release()
            raise failure(self.path, f"locking {self._what}", error, _LONGEST_PID) from error
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.release()

    def release(self) -> None:
        """Give it up; again is harmless."""
        if self._lock.is_locked:
            try:
                self.path.unlink(missing_ok=True)  # while it is ours: whoever opened it before sees that it has no name any more
            finally:
                self._lock.release()

    def _holder(self) -> str:
        try:
            text = self.path.read_text(encoding="ascii")[:_LONGEST_PID].strip()
        except (OSError, ValueError):  # it ends just now, or the system does not let others read a locked file
            text = ""
        return f"the process {text}" if text.isdecimal() else "another process"
