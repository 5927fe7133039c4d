"""The format of the file of a `DiskStore`: a header, an index, and blocks for states.

```
header       magic, length, JSON (version, key, layout, slots), checksum                 rounded up to pages
index        two entries of 64 bytes a slot, written in turns                            rounded up to pages
blocks       slots + 1 of them, each for a row of bytes or for its shorter stream        whole pages each
```

A state is written to the block that no slot uses. Then an entry that points to it overwrites the older of the slot's two entries.
Whenever the process is killed, the newest complete entry of a slot points to a block that was complete before the entry was written.
All entries are numbered, so of two entries that point to one block the newer is right. After a power cut an entry may exist without its
data. Checksums detect that.
"""

from __future__ import annotations

import json
import os
import struct
import zlib
from dataclasses import dataclass
from hashlib import blake2b
from mmap import PAGESIZE
from pathlib import Path

from diffsim.checkpoint.storage.store import StateLayout, round_up
from diffsim.errors import StorageError

MAGIC = b"DSSTATES"
VERSION = 1
_HEAD = struct.Struct("<8sI")
_CHECKSUM = struct.Struct("<I")
_ENTRY = struct.Struct("<QqqQQII")
ENTRY_BYTES = 64
NOTHING = -1


@dataclass(frozen=True)
class Entry:
    """The content of a slot, which may be empty.

    Attributes:
        number: number of this entry in the order of writing, from 1.
        slot: the slot.
        step: step of the state, -1 if there is none.
        block: block of the state.
        stored: bytes of the state in that block.
        checksum: checksum of these bytes.
        packed: whether they are a compressed stream, not a row.
    """

    number: int
    slot: int
    step: int = NOTHING
    block: int = 0
    stored: int = 0
    checksum: int = 0
    packed: bool = False

    @property
    def is_empty(self) -> bool:
        """True if the slot is empty."""
        return self.step == NOTHING

    def to_bytes(self) -> bytes:
        """The entry as bytes of the index."""
        body = _ENTRY.pack(self.number, self.slot, self.step, self.block, self.stored, self.checksum, self.packed)
        return (body + _CHECKSUM.pack(zlib.crc32(body))).ljust(ENTRY_BYTES, b"\0")

    @staticmethod
    def from_bytes(data: bytes | bytearray) -> Entry | None:
        """The entry, or None if it is incomplete or was never written."""
        body = data[: _ENTRY.size]
        if len(data) < ENTRY_BYTES or data[_ENTRY.size :][:4] != _CHECKSUM.pack(zlib.crc32(body)):
            return None
        number, slot, step, block, stored, checksum, packed = _ENTRY.unpack(body)
        return Entry(number, slot, step, block, stored, checksum, bool(packed)) if number else None


def planned_file_bytes(layout: StateLayout, slots: int) -> int:
    """Size of the file on disk."""
    return places(len(make_header(layout, slots, "")), layout, slots)[-1]


def key_digest(key: str) -> str:
    """The digest of a key that the file stores."""
    return blake2b(key.encode(), digest_size=16).hexdigest()


def _description(layout: StateLayout, slots: int, key: str) -> dict[str, object]:
    arrays = [[dtype.str, list(shape)] for shape, dtype in zip(layout.shapes, layout.dtypes, strict=True)]
    return {"version": VERSION, "key": key_digest(key), "slots": slots, "layout": arrays}


def make_header(layout: StateLayout, slots: int, key: str) -> bytes:
    """The first bytes of a file."""
    text = json.dumps(_description(layout, slots, key)).encode()
    body = _HEAD.pack(MAGIC, len(text)) + text
    return body + _CHECKSUM.pack(zlib.crc32(body))


def read_header(descriptor: int) -> dict[str, object] | None:
    """The contents of the header, or None if this is no complete header of a file of states."""
    head = os.pread(descriptor, _HEAD.size, 0)
    if len(head) < _HEAD.size or not head.startswith(MAGIC):
        return None
    length = min(_HEAD.unpack(head)[1], os.fstat(descriptor).st_size)  # a damaged length may have any value
    body = os.pread(descriptor, _HEAD.size + length, 0)
    if os.pread(descriptor, _CHECKSUM.size, len(body)) != _CHECKSUM.pack(zlib.crc32(body)):
        return None
    header: dict[str, object] = json.loads(body[_HEAD.size :])
    return header


def require_same(path: Path, header: dict[str, object] | None, layout: StateLayout, slots: int, key: str) -> None:
    """Raise StorageError unless a header has these settings."""
    if header is None:
        raise StorageError(f"{path}: expected a file of states, got something else or a damaged one; name another file, or delete this one")
    for name, expected in _description(layout, slots, key).items():
        if header.get(name) != expected:
            raise StorageError(
                f"{path}: expected states of {name} {expected}, got {header.get(name)}; restore the settings of the run that was killed, "
                "or delete the file and start anew"
            )


def places(header: int, layout: StateLayout, slots: int) -> tuple[int, int, int, int]:
    """The offsets of the index and of the blocks, the length of a block, and the length of the file."""
    index = round_up(header, PAGESIZE)
    blocks = index + round_up(2 * slots * ENTRY_BYTES, PAGESIZE)
    stride = round_up(layout.row_bytes, PAGESIZE)
    return index, blocks, stride, blocks + (slots + 1) * stride
