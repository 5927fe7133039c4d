"""States on disk, written and read ahead in the background."""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

from diffsim.checkpoint.schedule import require_count
from diffsim.checkpoint.storage.compression import SCRATCH, Compression
from diffsim.checkpoint.storage.disk_file import DiskFile
from diffsim.checkpoint.storage.disk_format import planned_file_bytes
from diffsim.checkpoint.storage.failure import failure
from diffsim.checkpoint.storage.store import Closing, State, StateLayout, require_kept, require_slot, require_step, row_buffer
from diffsim.errors import ParameterError, StaleValueError, StorageError

_BUFFERS = 2


@dataclass
class _Change:
    """A write, or a free, that may not be done yet; its buffer is free once it is."""

    slot: int
    future: Future[None]
    buffer: np.ndarray | None


@dataclass
class _Ahead:
    """A state that is on its way into a buffer, or there."""

    future: Future[None]
    buffer: np.ndarray


class DiskStore(Closing):
    """A `Store` in one file, which is removed when the store is closed.

    One thread of its own does all input and output, in the order of the calls. Two buffers of a state each are shared by writing and
    reading: two writes in a row need not wait for the disk, a third waits for the first. A fetch is forgotten if a write needs its
    buffer.

    The file is as large as it ever gets from the start, with one block more than slots, so that a state that is written over another
    does not destroy it before it is whole (see `disk_format` for what survives). A killed process leaves the file. The next run may
    then `reopen` it; or make a `DiskStore` of the same key and path, which starts empty in its place. Whatever else is found at the
    path is refused and left alone. Without a key all runs are taken for the same, and `reopen` is refused.

    Args:
        path: the file; its folder must exist.
        layout: of the states.
        slots: states kept at most.
        compression: how to make them smaller; it saves time on a slow disk, not room. None: not at all.
        key: all that decides the values of the states (a canonical text of the settings, or a digest).

    Raises:
        ScheduleError: `slots` is not a positive integer.
        StorageError: the disk has too little room; the path is in use or taken; the system cannot.

    Example:
        See `HostStore`.
    """

    def __init__(
        self, path: str | os.PathLike[str], layout: StateLayout, slots: int, compression: Compression | None = None, key: str = ""
    ) -> None:
        slots = require_count("slots", slots)
        self._start(DiskFile.open_new(Path(path), layout, slots, key), compression)

    @classmethod
    def nameless(cls, folder: str | os.PathLike[str], layout: StateLayout, slots: int, compression: Compression | None = None) -> DiskStore:
        """A store whose file has no name: nobody else can open it, and nothing is left of it however the process ends.

        Args:
            folder: on the disk that is to be used.
            layout: of the states.
            slots: states kept at most.
            compression: see the class.

        Raises:
            ScheduleError: `slots` is not a positive integer.
            StorageError: the disk has too little room; the folder may not be written to.
        """
        slots = require_count("slots", slots)
        store = cls.__new__(cls)
        store._start(DiskFile.open_nameless(Path(folder), layout, slots), compression)
        return store

    @classmethod
    def reopen(
        cls, path: str | os.PathLike[str], layout: StateLayout, slots: int, key: str, compression: Compression | None = None
    ) -> DiskStore:
        """Open what a killed run left, with the states that are whole: `kept` tells which. Every one is read to make sure.

        Args:
            path: the file.
            layout: of its states.
            slots: how many it was made with.
            key: it was made with; not empty.
            compression: of states to come.

        Raises:
            ParameterError: the key is empty.
            StorageError: there is no such file, it is in use, damaged, or of another key, layout or number of slots; it is left as it is.
        """
        if not key:
            raise ParameterError("expected a key to reopen a file of states, got none; make the store with a key that tells runs apart")
        slots = require_count("slots", slots)
        store = cls.__new__(cls)
        store._start(DiskFile.open_found(Path(path), layout, slots, key), compression)
        return store

    def _start(self, file: DiskFile, compression: Compression | None) -> None:
        self.path, self.layout, self.slots, self.compression = file.path, file.layout, file.slots, compression
        self._file = file
        self._free = [row_buffer(file.stride) for _ in range(_BUFFERS)]
        self._held: np.ndarray | None = None  # what `read` returned views of
        self._ahead: dict[int, _Ahead] = {}  # by slot, the oldest first
        self._changes: list[_Change] = []  # the oldest first
        self._steps = {slot: entry.step for slot, entry in file.entries.items()}  # as if all changes were done
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="diffsim-states")
        self._closed = False
        self._finalizer = weakref.finalize(self, _discard, self._thread, file)

    @staticmethod
    def planned_bytes(layout: StateLayout, slots: int, compression: Compression | None = None) -> int:
        """Memory that such a store takes."""
        return _BUFFERS * layout.row_bytes + (0 if compression is None else SCRATCH)

    @staticmethod
    def planned_file_bytes(layout: StateLayout, slots: int) -> int:
        """Size of its file."""
        return planned_file_bytes(layout, slots)

    @property
    def nbytes(self) -> int:
        """See `Store`."""
        return 0 if self._closed else self.planned_bytes(self.layout, self.slots, self.compression)

    def write(self, slot: int, step: int, arrays: State) -> None:
        """See `Store`.

        Raises:
            ScheduleError: there is no such slot, or the step is negative.
            ShapeError: the state is of another layout.
            StaleValueError: the store is closed.
            StorageError: an earlier write failed; this one is not done.
        """
        self._begin("write", slot)
        require_step(step)
        self.layout.check(arrays)
        self._forget(slot)
        buffer = self._take()
        try:
            self.layout.pack(arrays, buffer)
            what = f"writing state {step} to slot {slot}"
            future = self._submit(what, self._file.put, slot, step, buffer, self.compression)
        except BaseException:
            self._free.append(buffer)
            raise
        self._changes.append(_Change(slot, future, buffer))
        self._steps[slot] = step

    def fetch(self, slot: int) -> None:
        """See `Store`. While both buffers are taken by what was read and fetched before, nothing is done.

        Raises:
            ScheduleError: the slot is empty.
            StaleValueError: the store is closed.
            StorageError: an earlier write failed.
        """
        self._begin("fetch", slot)
        require_kept(slot, self._steps.get(slot))
        if slot not in self._ahead:
            buffer = self._take_after_changes()
            if buffer is not None:
                self._read_ahead(slot, buffer)

    def read(self, slot: int, step: int) -> list[np.ndarray]:
        """See `Store`.

        Raises:
            ScheduleError: the slot keeps another state, or none.
            StaleValueError: the store is closed.
            StorageError: the state is damaged, or an earlier write failed.
        """
        self._begin("read", slot)
        require_kept(slot, self._steps.get(slot), step)
        if self._held is not None:
            self._free.append(self._held)
            self._held = None
        if slot not in self._ahead:
            buffer = self._take_after_changes()
            self._read_ahead(slot, self._take() if buffer is None else buffer)
        # An interrupt while this waits leaves the fetch where it is.
        error = self._ahead[slot].future.exception()
        buffer = self._ahead.pop(slot).buffer
        if error is not None:
            self._free.append(buffer)
        else:
            self._held = buffer
        self._collect()  # a write that failed before explains more than what then failed to be read
        if error is not None:
            raise error
        return self.layout.constants(buffer)

    def free(self, slot: int) -> None:
        """See `Store`.

        Raises:
            ScheduleError: the slot is empty.
            StaleValueError: the store is closed.
            StorageError: an earlier write failed.
        """
        self._begin("free", slot)
        require_kept(slot, self._steps.get(slot))
        self._forget(slot)
        self._changes.append(_Change(slot, self._submit(f"emptying slot {slot}", self._file.erase, slot), None))
        del self._steps[slot]

    def kept(self) -> dict[int, int]:
        """See `Store`. What it returns would be found by `reopen` if the process were killed.

        Raises:
            StaleValueError: the store is closed.
            StorageError: an earlier write failed.
        """
        self._begin("kept", 0)
        self._collect(wait=True)
        return dict(self._steps)

    def close(self, keep: bool = False) -> None:
        """See `Store`.

        Args:
            keep: leave the file for `reopen`.

        Raises:
            StorageError: an earlier write failed; the store is closed all the same.
        """
        if self._closed:
            return
        self._closed = True
        self._finalizer.detach()
        self._thread.shutdown(wait=True)
        self._file.close(keep)
        self._ahead.clear()
        self._free.clear()
        self._held = None
        self._collect()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        try:
            self.close()
        except StorageError:
            if error is None:  # else what went wrong first is the news
                raise

    def _begin(self, call: str, slot: int) -> None:
        if self._closed:
            raise StaleValueError(f"expected an open store, got {call}() on a closed one; make a new DiskStore")
        require_slot(slot, self.slots)
        self._collect()

    def _submit(self, what: str, call: Callable[..., None], *arguments: Any) -> Future[None]:
        # A job must not refer to the store, or the thread might be the last to do so and have to end itself.
        return self._thread.submit(_guarded, self._file, what, call, *arguments)

    def _collect(self, wait: bool = False) -> None:
        """Take back the buffers of changes that are done, and raise the first error among them."""
        while self._changes and (wait or self._changes[0].future.done()):
            error = self._changes[0].future.exception()
            change = self._changes.pop(0)
            if change.buffer is not None:
                self._free.append(change.buffer)
            if error is not None:
                self._restore(change.slot)
                raise error

    def _restore(self, slot: int) -> None:
        """A change failed: unless a later one is under way, the slot keeps what the file says."""
        if any(change.slot == slot for change in self._changes):
            return
        entry = self._file.entries.get(slot)
        self._forget(slot)
        self._steps.pop(slot, None)
        if entry is not None:
            self._steps[slot] = entry.step

    def _read_ahead(self, slot: int, buffer: np.ndarray) -> None:
        future = self._submit(f"reading state {self._steps[slot]} from slot {slot}", self._file.get, slot, buffer)
        self._ahead[slot] = _Ahead(future, buffer)

    def _take(self) -> np.ndarray:
        """A free buffer: wait for a write, or forget the oldest fetch."""
        while not self._free:
            if any(change.buffer is not None for change in self._changes):
                self._collect_first()
            else:
                self._forget(next(iter(self._ahead)))
        return self._free.pop()

    def _collect_first(self) -> None:
        self._changes[0].future.exception()
        self._collect()

    def _take_after_changes(self) -> np.ndarray | None:
        """A buffer that is free, or will be when the changes so far are done: what is read follows them in the one thread."""
        if self._free:
            return self._free.pop()
        for change in self._changes:
            if change.buffer is not None:
                buffer, change.buffer = change.buffer, None
                return buffer
        return None

    def _forget(self, slot: int) -> None:
        """Give up a fetch."""
        ahead = self._ahead.get(slot)
        if ahead is not None:
            ahead.future.exception()
            self._free.append(self._ahead.pop(slot).buffer)


def _guarded(file: DiskFile, what: str, call: Callable[..., None], *arguments: Any) -> None:
    """In the background: call, and name what failed."""
    try:
        call(*arguments)
    except StorageError:
        raise
    except OSError as error:
        raise failure(file.path, what, error, file.nbytes) from error


def _discard(thread: ThreadPoolExecutor, file: DiskFile) -> None:
    """A store that nobody closed is no longer referred to, or the interpreter ends."""
    try:
        thread.submit(file.close, False)  # after what is under way; this may be the thread itself, which cannot wait for its end
    except RuntimeError:  # with the interpreter it has ended
        file.close(False)
    thread.shutdown(wait=False)
