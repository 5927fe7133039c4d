"""One process at a time: a lock on a path, which the system takes from a process that has ended, however it ended."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from types import TracebackType

from filelock import FileLock, Timeout

from diffsim.checkpoint.storage.failure import failure
from diffsim.errors import StorageError

_LONGEST_PID = 20
_PID_PLACE = 1
"""Of the number in the file: on Windows the lock is on the first byte, which others can neither read nor write."""


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
            with open(self.path, "r+b", buffering=0) as file:
                file.seek(_PID_PLACE)
                file.write(f"{os.getpid()}\n".ljust(_LONGEST_PID).encode("ascii"))
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
        if not self._lock.is_locked:
            return
        try:
            self.path.unlink(missing_ok=True)  # while it is ours: whoever opened it before sees that it has no name any more
        except PermissionError:  # on Windows an open file stays, also one that somebody else has opened since
            self._lock.release()
            with suppress(PermissionError):
                self.path.unlink(missing_ok=True)
        finally:
            self._lock.release()  # again is harmless

    def _holder(self) -> str:
        try:
            with open(self.path, "rb", buffering=0) as file:
                file.seek(_PID_PLACE)
                text = file.read(_LONGEST_PID).decode("ascii").strip()
        except (OSError, ValueError):  # it ends just now, or the system does not let others read a locked file
            text = ""
        return f"the process {text}" if text.isdecimal() else "another process"
