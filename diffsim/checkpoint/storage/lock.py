"""A lock on a path for one process at a time. The system releases it when the process ends, however it ends."""

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
"""Offset of the process number in the file. On Windows the lock covers the first byte, which others can neither read nor write."""


class PathLock:
    """A lock held inside of a `with` block. Its file contains the number of the process that holds it, and is deleted at the end.

    The lock is the system's lock on the open file, so a killed process leaves a file but no lock. The number is for messages only. So it
    does no harm if it now belongs to another process, or means another process in another container.

    Args:
        path: path of the file.
        what: the locked object, for messages, such as "the folder runs/tsunami".
        remedy: advice if another process holds it, for messages.

    Raises:
        StorageError: raised on entering: another process, or another thread, holds it.
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
        """Release the lock. Releasing it twice is harmless."""
        if not self._lock.is_locked:
            return
        try:
            self.path.unlink(missing_ok=True)  # while it is locked: a process that opened it before sees that its name is gone
        except PermissionError:  # Windows does not delete an open file, also if another process opened it
            self._lock.release()
            with suppress(PermissionError):
                self.path.unlink(missing_ok=True)
        finally:
            self._lock.release()  # releasing twice is harmless

    def _holder(self) -> str:
        try:
            with open(self.path, "rb", buffering=0) as file:
                file.seek(_PID_PLACE)
                text = file.read(_LONGEST_PID).decode("ascii").strip()
        except (OSError, ValueError):  # the process ends just now, or the system does not allow reading a locked file
            text = ""
        return f"the process {text}" if text.isdecimal() else "another process"
