"""The file of a `DiskStore`: a header, an index, and blocks for states. All input and output of the store happens here.

```
header       magic, length, JSON (version, key, layout, slots), checksum                 rounded up to pages
index        two entries of 64 bytes a slot, written in turns                            rounded up to pages
blocks       slots + 1 of them, each for a row of bytes or for its shorter stream        whole pages each
```

A state goes to the block that no slot uses, and then an entry that says so goes over the older of its slot's two. Whenever the process is
killed, the newest whole entry of a slot speaks of a block that was whole before the entry was begun. Entries are numbered throughout,
so that of two that claim one block the newer is right. After a power cut data may be missing where the entry is not: checksums find it.
"""

from __future__ import annotations

import errno
import json
import os
import shutil
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from hashlib import blake2b
from mmap import PAGESIZE
from pathlib import Path
from typing import Any

import numpy as np

from diffsim.checkpoint.compression import BLOCK, Compression, decode
from diffsim.checkpoint.storage import StateLayout, round_up
from diffsim.errors import StorageError

try:
    import fcntl
except ImportError:  # not on Windows
    fcntl = None  # type: ignore[assignment]

MAGIC = b"DSSTATES"
VERSION = 1
_HEAD = struct.Struct("<8sI")
_CHECKSUM = struct.Struct("<I")
_ENTRY = struct.Struct("<QqqQQII")
_ENTRY_BYTES = 64
_NOTHING = -1


@dataclass(frozen=True)
class Entry:
    """What a slot keeps, or that it keeps nothing.

    Attributes:
        number: of this entry in the order of their writing, from 1.
        slot: whose entry it is.
        step: of the state, -1 if there is none.
        block: where the state is.
        stored: bytes it takes there.
        checksum: of these bytes.
        packed: they are a compressed stream, not a row.
    """

    number: int
    slot: int
    step: int = _NOTHING
    block: int = 0
    stored: int = 0
    checksum: int = 0
    packed: bool = False

    def to_bytes(self) -> bytes:
        body = _ENTRY.pack(self.number, self.slot, self.step, self.block, self.stored, self.checksum, self.packed)
        return (body + _CHECKSUM.pack(zlib.crc32(body))).ljust(_ENTRY_BYTES, b"\0")

    @staticmethod
    def from_bytes(found: bytes | bytearray) -> Entry | None:
        """The entry, or None if it is not whole or was never written."""
        body = found[: _ENTRY.size]
        if len(found) < _ENTRY_BYTES or found[_ENTRY.size :][:4] != _CHECKSUM.pack(zlib.crc32(body)):
            return None
        number, slot, step, block, stored, checksum, packed = _ENTRY.unpack(body)
        return Entry(number, slot, step, block, stored, checksum, bool(packed)) if number else None


class DiskFile:
    """An open, locked file of states. Only `open_new` and `open_found` make one."""

    def __init__(self, path: Path, descriptor: int, layout: StateLayout, slots: int, header: bytes) -> None:
        self.path = path
        self.layout = layout
        self.slots = slots
        self._descriptor = descriptor
        self._header = header
        self._index, self._blocks, self._stride, self.nbytes = _places(len(header), layout, slots)
        self.entries: dict[int, Entry] = {}
        self._spare = list(range(slots, -1, -1))
        self._number = 0
        self._turn = [0] * slots

    @classmethod
    def open_new(cls, path: Path, layout: StateLayout, slots: int, key: str) -> DiskFile:
        """Make a file of empty slots, in place of what a killed run of the same key left.

        Raises:
            StorageError: the disk has too little room; the path is taken by something else, or is in use.
        """
        descriptor = _open_locked(path, os.O_CREAT)
        try:
            found = _read_header(descriptor)
            if os.fstat(descriptor).st_size and (found is None or found.get("key") != _digest(key)):
                what = "something else" if found is None else "the states of a run with another key"
                raise StorageError(
                    f"{path}: expected no file, or what a killed run with this key left, got {what}; name another file, or delete this one"
                )
            file = cls(path, descriptor, layout, slots, _header(layout, slots, key))
        except BaseException:
            os.close(descriptor)
            raise
        try:
            os.ftruncate(descriptor, 0)
            file._put(file._header, 0)
            file._allocate()
        except BaseException as error:
            path.unlink(missing_ok=True)
            os.close(descriptor)
            if isinstance(error, OSError) and not isinstance(error, StorageError):
                raise failure(path, "making the file of states", error, file.nbytes) from error
            raise
        return file

    @classmethod
    def open_found(cls, path: Path, layout: StateLayout, slots: int, key: str) -> DiskFile:
        """Open what a killed run left, and find the states that are whole.

        Raises:
            StorageError: there is no such file, it is in use, damaged, or of another key, layout or number of slots; it is left as it is.
        """
        descriptor = _open_locked(path, 0)
        try:
            _require_same(path, _read_header(descriptor), layout, slots, key)
            file = cls(path, descriptor, layout, slots, _header(layout, slots, key))
            size = os.fstat(descriptor).st_size
            if size < file.nbytes:
                raise StorageError(f"{path}: expected {file.nbytes} bytes, got {size}: it was cut off; delete it and start anew")
            file._find_entries()
        except BaseException:
            os.close(descriptor)
            raise
        return file

    def put(self, slot: int, step: int, row: np.ndarray, compression: Compression | None) -> None:
        """Write the state in a row to the disk and then its entry.

        Raises:
            OSError: from the system.
        """
        block = self._spare[-1]
        place = self.place_of(block)
        found = None if compression is None else self._put_packed(compression.encode(self.layout.views(row)), place)
        if found is None:
            self._put(row.data, place)
            stored, checksum = row.nbytes, zlib.crc32(row.data)
        else:
            stored, checksum = found
        self._put_entry(Entry(0, slot, step, block, stored, checksum, found is not None))
        self._spare.remove(block)

    def erase(self, slot: int) -> None:
        """Write that a slot is empty.

        Raises:
            OSError: from the system.
        """
        self._put_entry(Entry(0, slot))

    def get(self, slot: int, row: np.ndarray) -> None:
        """Read the state in a slot into a row.

        Raises:
            StorageError: what is on the disk is not what was written.
            OSError: from the system.
        """
        entry = self.entries[slot]
        if not entry.packed:
            good = self._get(row.data, self.place_of(entry.block)) == row.nbytes and zlib.crc32(row.data) == entry.checksum
        else:
            parts = _Parts(self, entry)
            try:
                decode(parts, self.layout.views(row))
                good = parts.checksum == entry.checksum
            except zlib.error:
                good = False
        if not good:
            raise StorageError(
                f"{self.path}: state {entry.step} in slot {slot} is damaged: its checksum differs from what was written; check the disk, "
                "delete the file, and run again"
            )

    def close(self, keep: bool) -> None:
        """Give up the file, and remove it unless it is to be kept."""
        if not keep:
            self.path.unlink(missing_ok=True)  # while it is locked, so that it is ours
        os.close(self._descriptor)

    def place_of(self, block: int) -> int:
        """Where a block begins in the file."""
        return self._blocks + block * self._stride

    def _allocate(self) -> None:
        if hasattr(os, "posix_fallocate"):
            os.posix_fallocate(self._descriptor, 0, self.nbytes)
            return
        if shutil.disk_usage(self.path.parent).free < self.nbytes:  # macOS has no such call
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        os.ftruncate(self._descriptor, self.nbytes)

    def _put_packed(self, parts: Iterator[bytes], place: int) -> tuple[int, int] | None:
        """Write a stream; return its length and checksum, or None if it gets no shorter than the state."""
        stored = checksum = 0
        for part in parts:
            if stored + len(part) >= self.layout.nbytes:
                return None
            self._put(part, place + stored)
            stored += len(part)
            checksum = zlib.crc32(part, checksum)
        return stored, checksum

    def _put_entry(self, entry: Entry) -> None:
        self._number += 1
        entry = replace(entry, number=self._number)
        turn = self._turn[entry.slot]
        self._put(entry.to_bytes(), self._index + (2 * entry.slot + turn) * _ENTRY_BYTES)
        self._turn[entry.slot] = 1 - turn
        old = self.entries.pop(entry.slot, None)
        if old is not None:
            self._spare.append(old.block)
        if entry.step != _NOTHING:
            self.entries[entry.slot] = entry

    def _find_entries(self) -> None:
        """Take the newest whole entry of each slot whose state is whole too."""
        index = bytearray(2 * self.slots * _ENTRY_BYTES)
        self._get(memoryview(index), self._index)
        found = []
        for position in range(2 * self.slots):
            entry = Entry.from_bytes(index[position * _ENTRY_BYTES : (position + 1) * _ENTRY_BYTES])
            if entry is not None and entry.slot == position // 2:
                found.append((entry.number, position, entry))
        decided = set()
        row = np.empty(self.layout.row_bytes, dtype=np.uint8)
        for number, position, entry in sorted(found, key=lambda item: item[0], reverse=True):
            self._number = max(self._number, number)
            if entry.slot in decided:
                continue
            if entry.step == _NOTHING:
                decided.add(entry.slot)
                self._turn[entry.slot] = 1 - position % 2
            elif entry.block in self._spare and self._is_whole(entry, row):
                decided.add(entry.slot)
                self._turn[entry.slot] = 1 - position % 2
                self._spare.remove(entry.block)

    def _is_whole(self, entry: Entry, row: np.ndarray) -> bool:
        self.entries[entry.slot] = entry
        try:
            self.get(entry.slot, row)
        except OSError:
            del self.entries[entry.slot]
            return False
        return True

    def _put(self, data: bytes | memoryview, place: int) -> None:
        left = memoryview(data)
        while left:  # the system may write less than it is asked to
            count = os.pwrite(self._descriptor, left, place)
            left, place = left[count:], place + count

    def _get(self, view: memoryview, place: int) -> int:
        """Fill a buffer from a place on; return how many bytes there were."""
        done = 0
        while done < len(view):
            count = os.preadv(self._descriptor, [view[done:]], place + done)
            if not count:
                break
            done += count
        return done


def planned_file_bytes(layout: StateLayout, slots: int) -> int:
    """Size of the file on disk."""
    return _places(len(_header(layout, slots, "")), layout, slots)[-1]


def failure(path: Path, what: str, error: OSError, needed: int) -> StorageError:
    """A StorageError for an error of the system, with the room that is needed and left if there is too little."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        free = shutil.disk_usage(path.parent).free
        return StorageError(
            error.errno,
            f"{path}: {what}: expected room for a file of {needed} bytes, got {error.strerror!r} with {free} bytes free; make room, choose "
            "another disk, keep fewer states, or raise the quota or the limit on file sizes",
        )
    return StorageError(error.errno, f"{path}: {what}: {error.strerror}; check the disk and the permissions, or name another file")


class _Parts:
    """What is stored of a stream, a part at a time, and the checksum of the parts so far."""

    def __init__(self, file: DiskFile, entry: Entry) -> None:
        self._file, self._entry = file, entry
        self.checksum = 0

    def __iter__(self) -> Iterator[bytes]:
        place, left = self._file.place_of(self._entry.block), self._entry.stored
        buffer = bytearray(min(left, BLOCK))
        while left:
            count = self._file._get(memoryview(buffer)[:left], place)
            if not count:
                return
            part = bytes(memoryview(buffer)[:count])
            self.checksum = zlib.crc32(part, self.checksum)
            yield part
            place, left = place + count, left - count


def _open_locked(path: Path, flags: int) -> int:
    """A descriptor of the file that is at `path` now, which no other store has open.

    Raises:
        StorageError: it cannot be opened, or is in use.
    """
    if fcntl is None:
        raise StorageError(f"{path}: expected a POSIX system for states on disk, got {os.name!r}; keep states in memory")
    while True:
        try:
            descriptor = os.open(path, os.O_RDWR | flags, 0o600)
        except OSError as error:
            raise failure(path, "opening the file of states", error, 0) from error
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if _is_at(descriptor, path):
                return descriptor
        except BlockingIOError:
            os.close(descriptor)
            raise StorageError(
                f"{path}: expected a file that is not in use, got one that another run has open; name another file"
            ) from None
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)  # removed by its owner between the two calls


def _is_at(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), os.stat(path))
    except FileNotFoundError:
        return False


def _digest(key: str) -> str:
    return blake2b(key.encode(), digest_size=16).hexdigest()


def _description(layout: StateLayout, slots: int, key: str) -> dict[str, Any]:
    arrays = [[dtype.str, list(shape)] for shape, dtype in zip(layout.shapes, layout.dtypes, strict=True)]
    return {"version": VERSION, "key": _digest(key), "slots": slots, "layout": arrays}


def _header(layout: StateLayout, slots: int, key: str) -> bytes:
    text = json.dumps(_description(layout, slots, key)).encode()
    body = _HEAD.pack(MAGIC, len(text)) + text
    return body + _CHECKSUM.pack(zlib.crc32(body))


def _read_header(descriptor: int) -> dict[str, Any] | None:
    """What the header says, or None if this is no whole header of a file of states."""
    head = os.pread(descriptor, _HEAD.size, 0)
    if len(head) < _HEAD.size or not head.startswith(MAGIC):
        return None
    length = min(_HEAD.unpack(head)[1], os.fstat(descriptor).st_size)  # a broken length may say anything
    body = os.pread(descriptor, _HEAD.size + length, 0)
    if os.pread(descriptor, _CHECKSUM.size, len(body)) != _CHECKSUM.pack(zlib.crc32(body)):
        return None
    return json.loads(body[_HEAD.size :])


def _require_same(path: Path, found: dict[str, Any] | None, layout: StateLayout, slots: int, key: str) -> None:
    if found is None:
        raise StorageError(f"{path}: expected a file of states, got something else or a damaged one; name another file, or delete this one")
    for name, expected in _description(layout, slots, key).items():
        if found.get(name) != expected:
            raise StorageError(
                f"{path}: expected states of {name} {expected}, got {found.get(name)}; restore the settings of the run that was killed, or "
                "delete the file and start anew"
            )


def _places(header: int, layout: StateLayout, slots: int) -> tuple[int, int, int, int]:
    """Where the index begins, where the blocks begin, the length of a block, and of the file."""
    index = round_up(header, PAGESIZE)
    blocks = index + round_up(2 * slots * _ENTRY_BYTES, PAGESIZE)
    stride = round_up(layout.row_bytes, PAGESIZE)
    return index, blocks, stride, blocks + (slots + 1) * stride
