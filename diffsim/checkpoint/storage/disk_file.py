"""The file of a `DiskStore`, open and locked. All input and output of the store happens here, in its thread; see `disk_format`."""

from __future__ import annotations

import errno
import os
import tempfile
import zlib
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import numpy as np

from diffsim.base.messages import shown
from diffsim.base.system import LOCKS, allocate_file, lock_file
from diffsim.checkpoint.storage.aside import ENDING, aside_name
from diffsim.checkpoint.storage.channel import Channel
from diffsim.checkpoint.storage.compression import BLOCK, Compression, decode
from diffsim.checkpoint.storage.disk_format import ENTRY_BYTES, Entry, key_digest, make_header, places, read_header, require_same
from diffsim.checkpoint.storage.failure import failure
from diffsim.checkpoint.storage.store import StateLayout, row_buffer
from diffsim.errors import StorageError


class DiskFile:
    """An open, locked file of states. Only `open_new`, `open_nameless` and `reopen` make one."""

    def __init__(self, path: Path, descriptor: int, layout: StateLayout, slots: int, header: bytes) -> None:
        self.path = path
        self.layout = layout
        self.slots = slots
        self._descriptor = descriptor
        self._channel = Channel(descriptor)
        self._header = header
        self._index, self._blocks, self.stride, self.nbytes = places(len(header), layout, slots)
        self.entries: dict[int, Entry] = {}
        self._spare = list(range(slots, -1, -1))
        self._number = 0
        self._turn = [0] * slots
        self._named = True

    @classmethod
    def open_new(cls, path: Path, layout: StateLayout, slots: int, key: str) -> DiskFile:
        """Create a file of empty slots. It replaces the file that a killed run of the same key left.

        Raises:
            StorageError: the disk has too little space, or the path is in use or belongs to another file.
        """
        with ExitStack() as stack:
            old = _locked_or_none(path)
            if old is not None:  # it stays locked until the new file has replaced it
                stack.callback(os.close, old)
                header = read_header(old)
                if os.fstat(old).st_size and (header is None or header.get("key") != key_digest(key)):
                    what = "something else" if header is None else "the states of a run with another key"
                    raise StorageError(
                        f"{path}: expected no file, or the file of a killed run with this key, got {what}; name another file, "
                        "or delete this one"
                    )
            return cls._create(path, layout, slots, key)

    @classmethod
    def _create(cls, path: Path, layout: StateLayout, slots: int, key: str) -> DiskFile:
        """Create the file under another name and rename it when it is complete, so that a killed process leaves no partial file."""
        aside = aside_name(path)
        descriptor = _open_locked(aside, os.O_CREAT | os.O_EXCL)
        file = cls(path, descriptor, layout, slots, make_header(layout, slots, key))
        try:
            file._channel.put(file._header, 0)
            allocate_file(descriptor, aside, file.nbytes)
            os.replace(aside, path)
        except BaseException as error:
            aside.unlink(missing_ok=True)
            os.close(descriptor)
            if isinstance(error, OSError) and not isinstance(error, StorageError):
                raise failure(path, "making the file of states", error, file.nbytes) from error
            raise
        return file

    @classmethod
    def open_nameless(cls, folder: Path, layout: StateLayout, slots: int) -> DiskFile:
        """Create a file of empty slots that no other process can open, and that disappears with this process however it ends.

        Raises:
            StorageError: the disk has too little space, or the folder is not writable.
        """
        path, header = folder / "states", make_header(layout, slots, "")
        try:
            with tempfile.TemporaryFile(dir=folder, prefix=".states.", suffix=ENDING, buffering=0) as opened:
                file = cls(path, os.dup(opened.fileno()), layout, slots, header)
        except OSError as error:
            raise failure(path, "opening the file of states", error) from error
        try:
            file._channel.put(header, 0)
            allocate_file(file._descriptor, path, file.nbytes)
        except BaseException as error:
            file.close(keep=True)
            if isinstance(error, OSError):
                raise failure(path, "making the file of states", error, file.nbytes) from error
            raise
        file._named = False
        return file

    @classmethod
    def reopen(cls, path: Path, layout: StateLayout, slots: int, key: str) -> DiskFile:
        """Open the file of a killed run, and find its complete states.

        Raises:
            StorageError: there is no such file, it is in use or damaged, or it has another key, layout or number of slots. It is not
                changed.
        """
        descriptor = _open_locked(path, 0)
        try:
            require_same(path, read_header(descriptor), layout, slots, key)
            file = cls(path, descriptor, layout, slots, make_header(layout, slots, key))
            size = os.fstat(descriptor).st_size
            if size < file.nbytes:
                raise StorageError(f"{path}: expected {file.nbytes} bytes, got {size}: it was cut off; delete it and start anew")
            file._find_entries()
        except BaseException:
            os.close(descriptor)
            raise
        return file

    def put(self, slot: int, step: int, row: np.ndarray, compression: Compression | None) -> None:
        """Write the state in a row to the disk, and then its entry. A row here is a block of `stride` bytes in whole pages of memory.

        Raises:
            OSError: from the system.
        """
        block = self._spare[-1]
        place = self.place_of(block)
        packed = None if compression is None else self._put_packed(compression.encode(self.layout.views(row)), place)
        if packed is None:
            self._channel.put_block(row.data, place)
            stored, checksum = self.layout.row_bytes, zlib.crc32(row[: self.layout.row_bytes].data)
        else:
            stored, checksum = packed
        self._put_entry(Entry(0, slot, step, block, stored, checksum, packed is not None))
        self._spare.remove(block)

    def erase(self, slot: int) -> None:
        """Write an entry that the slot is empty.

        Raises:
            OSError: from the system.
        """
        self._put_entry(Entry(0, slot))

    def get(self, slot: int, row: np.ndarray) -> None:
        """Read the state in a slot into a row.

        Raises:
            StorageError: the data on the disk differ from those that were written.
            OSError: from the system.
        """
        entry = self.entries[slot]
        if not entry.packed:
            whole = self._channel.get_block(row.data, self.place_of(entry.block)) == row.nbytes
            good = whole and zlib.crc32(row[: entry.stored].data) == entry.checksum
        else:
            parts = _Parts(self, entry)
            try:
                decode(parts, self.layout.views(row))
                good = parts.checksum == entry.checksum
            except zlib.error:
                good = False
        if not good:
            raise StorageError(
                f"{self.path}: state {entry.step} in slot {slot} is damaged: its checksum is wrong; check the disk, "
                "delete the file, and run again"
            )

    def close(self, keep: bool) -> None:
        """Close the file, and remove it unless `keep` is set."""
        if self._named and not keep:
            self.path.unlink(missing_ok=True)  # while it is locked, so that no other process owns it
        os.close(self._descriptor)

    def place_of(self, block: int) -> int:
        """The offset of a block in the file."""
        return self._blocks + block * self.stride

    def _put_packed(self, parts: Iterator[bytes], place: int) -> tuple[int, int] | None:
        """Write a stream. Return its length and checksum, or None if it is no shorter than the state."""
        stored = checksum = 0
        for part in parts:
            if stored + len(part) >= self.layout.nbytes:
                return None
            self._channel.put(part, place + stored)
            stored += len(part)
            checksum = zlib.crc32(part, checksum)
        return stored, checksum

    def _put_entry(self, entry: Entry) -> None:
        self._number += 1
        entry = replace(entry, number=self._number)
        turn = self._turn[entry.slot]
        self._channel.put(entry.to_bytes(), self._index + (2 * entry.slot + turn) * ENTRY_BYTES)
        self._turn[entry.slot] = 1 - turn
        old = self.entries.pop(entry.slot, None)
        if old is not None:
            self._spare.append(old.block)
        if not entry.is_empty:
            self.entries[entry.slot] = entry

    def _find_entries(self) -> None:
        """Find the newest complete entry of each slot whose state is complete too."""
        index = bytearray(2 * self.slots * ENTRY_BYTES)
        self._channel.get(memoryview(index), self._index)
        entries = []
        for position in range(2 * self.slots):
            entry = Entry.from_bytes(index[position * ENTRY_BYTES : (position + 1) * ENTRY_BYTES])
            if entry is not None and entry.slot == position // 2:
                entries.append((entry.number, position, entry))
        decided = set()
        row = row_buffer(self.stride)
        for number, position, entry in sorted(entries, key=lambda item: item[0], reverse=True):
            self._number = max(self._number, number)
            if entry.slot in decided:
                continue
            if entry.is_empty or (entry.block in self._spare and self._is_whole(entry, row)):
                decided.add(entry.slot)
                self._turn[entry.slot] = 1 - position % 2
                if not entry.is_empty:
                    self._spare.remove(entry.block)

    def _is_whole(self, entry: Entry, row: np.ndarray) -> bool:
        self.entries[entry.slot] = entry
        try:
            self.get(entry.slot, row)
        except OSError:
            del self.entries[entry.slot]
            return False
        return True


class _Parts:
    """Read a stored stream, a part at a time, with the checksum of the parts so far."""

    def __init__(self, file: DiskFile, entry: Entry) -> None:
        self._file, self._entry = file, entry
        self.checksum = 0

    def __iter__(self) -> Iterator[bytes]:
        place, left = self._file.place_of(self._entry.block), self._entry.stored
        buffer = bytearray(min(left, BLOCK))
        while left:
            count = self._file._channel.get(memoryview(buffer)[:left], place)
            if not count:
                return
            part = bytes(memoryview(buffer)[:count])
            self.checksum = zlib.crc32(part, self.checksum)
            yield part
            place, left = place + count, left - count


def _open_locked(path: Path, flags: int) -> int:
    """Open the file at `path`, unless another store has it open, and return its descriptor.

    Raises:
        StorageError: it cannot be opened, or is in use.
    """
    if not LOCKS:
        raise StorageError(
            f"{path}: expected a POSIX system for states on disk with resume, got {shown(os.name)}; set resume = 0, or keep "
            "states in memory"
        )
    while True:
        try:
            descriptor = os.open(path, os.O_RDWR | flags, 0o600)
        except OSError as error:
            raise failure(path, "opening the file of states", error, 0) from error
        try:
            if not lock_file(descriptor):
                raise StorageError(f"{path}: expected a file that is not in use, got one that another run has open; name another file")
            if _is_at(descriptor, path):
                return descriptor
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)  # its owner removed it between the two calls


def _locked_or_none(path: Path) -> int | None:
    """Like `_open_locked`, but return None if there is no file."""
    try:
        return _open_locked(path, 0)
    except StorageError as error:
        if error.errno == errno.ENOENT:
            return None
        raise


def _is_at(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), os.stat(path))
    except FileNotFoundError:
        return False
