"""States on disk, written and read ahead in the background."""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

import numpy as np

from diffsim.checkpoint.schedule import require_count
from diffsim.checkpoint.storage.compression import SCRATCH, Compression
from diffsim.checkpoint.storage.disk_file import DiskFile
from diffsim.checkpoint.storage.disk_format import planned_file_bytes
from diffsim.checkpoint.storage.failure import failure
from diffsim.checkpoint.storage.store import State, StateLayout, Store, require_kept, require_slot, require_step, row_buffer
from diffsim.errors import ParameterError, StaleValueError, StorageError

_BUFFERS = 2


@dataclass
class _Change:
    """A write or a free that may be in progress. Its buffer is free when it is done."""

    slot: int
    future: Future[None]
    buffer: np.ndarray | None


@dataclass
class _Ahead:
    """A state that is being read into a buffer, or was read."""

    future: Future[None]
    buffer: np.ndarray


class DiskStore(Store):
    """A `Store` in one file, which is removed when the store is closed.

    A thread of the store does all input and output, in the order of the calls. Reads and writes share two buffers, each for one state: two
    writes in a row need not wait for the disk, a third waits for the first. A fetch is dropped if a write needs its buffer.

    The file has its full size from the start. It has one block more than slots, so that a state which replaces another does not destroy
    it before the new one is complete (`disk_format` says what survives). A killed process leaves the file. The next run may then `reopen`
    it, or create a `DiskStore` of the same key and path, which replaces it and starts empty. Any other file at the path is refused and not
    changed. Without a key all runs count as the same run, and `reopen` is refused.

    Args:
        path: the file. Its folder must exist.
        layout: layout of the states.
        slots: most states stored.
        compression: compression of the states. It saves time on a slow disk, but no space. None: no compression.
        key: a text of all settings that determine the values of the states (canonical, or a digest).

    Raises:
        ScheduleError: `slots` is not a positive integer.
        StorageError: the disk has too little space, the path is in use or taken, or the system reports an error.
    """

    def __init__(
        self, path: str | os.PathLike[str], layout: StateLayout, slots: int, compression: Compression | None = None, key: str = ""
    ) -> None:
        slots = require_count("slots", slots)
        self._start(DiskFile.open_new(Path(path), layout, slots, key), compression)

    @classmethod
    def nameless(cls, folder: str | os.PathLike[str], layout: StateLayout, slots: int, compression: Compression | None = None) -> DiskStore:
        """A store whose file has no name: no other process can open it, and it disappears however the process ends.

        Args:
            folder: a folder on the disk to use.
            layout: layout of the states.
            slots: most states stored.
            compression: see the class.

        Raises:
            ScheduleError: `slots` is not a positive integer.
            StorageError: the disk has too little space, or the folder is not writable.
        """
        slots = require_count("slots", slots)
        store = cls.__new__(cls)
        store._start(DiskFile.open_nameless(Path(folder), layout, slots), compression)
        return store

    @classmethod
    def reopen(
        cls, path: str | os.PathLike[str], layout: StateLayout, slots: int, key: str, compression: Compression | None = None
    ) -> DiskStore:
        """Open the file of a killed run, with its complete states, which `kept` lists. Every state is read to check it.

        Args:
            path: the file.
            layout: layout of its states.
            slots: its number of slots.
            key: its key, not empty.
            compression: compression of later states.

        Raises:
            ParameterError: the key is empty.
            StorageError: there is no such file, it is in use or damaged, or it has another key, layout or number of slots. It is not
                changed.
        """
        if not key:
            raise ParameterError("expected a key to reopen a file of states, got none; make the store with a key that identifies the run")
        slots = require_count("slots", slots)
        store = cls.__new__(cls)
        store._start(DiskFile.reopen(Path(path), layout, slots, key), compression)
        return store

    def _start(self, file: DiskFile, compression: Compression | None) -> None:
        self.path, self.layout, self.slots, self.compression = file.path, file.layout, file.slots, compression
        self._file = file
        self._free = [row_buffer(file.stride) for _ in range(_BUFFERS)]
        self._held: np.ndarray | None = None  # the buffer of the views that `read` returned
        self._ahead: dict[int, _Ahead] = {}  # by slot, the oldest first
        self._changes: list[_Change] = []  # the oldest first
        self._steps = {slot: entry.step for slot, entry in file.entries.items()}  # after all pending changes
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="diffsim-states")
        self._closed = False
        self._finalizer = weakref.finalize(self, _discard, self._thread, file)

    @staticmethod
    def planned_bytes(layout: StateLayout, slots: int, compression: Compression | None = None) -> int:
        """Bytes of memory of such a store."""
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
            ShapeError: the state has another layout.
            StaleValueError: the store is closed.
            StorageError: an earlier write failed, and this one was not done.
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
        """See `Store`. It does nothing while earlier reads and fetches occupy both buffers.

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
        # An interrupt during this wait does not affect the fetch.
        error = self._ahead[slot].future.exception()
        buffer = self._ahead.pop(slot).buffer
        if error is not None:
            self._free.append(buffer)
        else:
            self._held = buffer
        self._collect()  # a failed write explains more than the failed read that follows it
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
        """See `Store`. If the process were killed now, `reopen` would find these states.

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
            StorageError: an earlier write failed. The store is closed nevertheless.
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
            if error is None:  # else the first error is raised
                raise

    def _begin(self, call: str, slot: int) -> None:
        if self._closed:
            raise StaleValueError(f"expected an open store, got {call}() on a closed one; make a new DiskStore")
        require_slot(slot, self.slots)
        self._collect()

    def _submit(self, what: str, call: Callable[..., None], *arguments: object) -> Future[None]:
        # A job must not refer to the store. Otherwise the thread could hold the last reference and would have to join itself.
        return self._thread.submit(_guarded, self._file, what, call, *arguments)

    def _collect(self, wait: bool = False) -> None:
        """Reuse the buffers of finished changes, and raise the first error among them."""
        while self._changes and (wait or self._changes[0].future.done()):
            error = self._changes[0].future.exception()
            change = self._changes.pop(0)
            if change.buffer is not None:
                self._free.append(change.buffer)
            if error is not None:
                self._restore(change.slot)
                raise error

    def _restore(self, slot: int) -> None:
        """Handle a failed change: unless a later one is in progress, the slot keeps the state that is in the file."""
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
        """Return a free buffer. Wait for a write, or drop the oldest fetch."""
        while not self._free:
            if any(change.buffer is not None for change in self._changes):
                self._changes[0].future.exception()  # waits for the first one
                self._collect()
            else:
                self._forget(next(iter(self._ahead)))
        return self._free.pop()

    def _take_after_changes(self) -> np.ndarray | None:
        """A buffer that is free, or will be free after the pending changes. A read comes after them, because there is one thread."""
        if self._free:
            return self._free.pop()
        for change in self._changes:
            if change.buffer is not None:
                buffer, change.buffer = change.buffer, None
                return buffer
        return None

    def _forget(self, slot: int) -> None:
        """Drop a fetch."""
        ahead = self._ahead.get(slot)
        if ahead is not None:
            ahead.future.exception()
            self._free.append(self._ahead.pop(slot).buffer)


def _guarded(file: DiskFile, what: str, call: Callable[..., None], *arguments: object) -> None:
    """Run a call in the background, and name it in errors."""
    try:
        call(*arguments)
    except StorageError:
        raise
    except OSError as error:
        raise failure(file.path, what, error, file.nbytes) from error


def _discard(thread: ThreadPoolExecutor, file: DiskFile) -> None:
    """Clean up after a store that was not closed, when it is garbage or the interpreter ends."""
    try:
        thread.submit(file.close, False)  # after pending jobs; this may run in the thread itself, which cannot join itself
    except RuntimeError:  # it ended with the interpreter
        file.close(False)
    thread.shutdown(wait=False)
