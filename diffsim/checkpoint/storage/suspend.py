"""The state of a reverse sweep on disk, so that a run can resume after it was killed.

```
magic, length of the text, JSON (key, step, arrays, their fingerprint), checksum of all that, the arrays' bytes
```
"""

from __future__ import annotations

import json
import operator
import os
import struct
import zlib
from collections.abc import Mapping
from hashlib import blake2b
from pathlib import Path
from typing import BinaryIO, TypedDict

import numpy as np

from diffsim.checkpoint.storage.aside import remove_asides, written_aside
from diffsim.checkpoint.storage.fingerprint import fingerprint
from diffsim.checkpoint.storage.store import KINDS, pieces
from diffsim.errors import ParameterError, StorageError

MAGIC = b"DSSWEEP1"
_HEAD = struct.Struct("<8sI")
_CHECKSUM = struct.Struct("<I")
_PIECE = 1 << 20


class _Header(TypedDict):
    """The header of a file: `arrays` has the name, the type and the shape of each."""

    key: str
    step: int
    arrays: list[tuple[str, str, list[int]]]
    fingerprint: int


class SweepFile:
    """One file with the state of a reverse sweep: its present step, and named arrays (cotangents, gradients).

    `save` writes a new file in the same folder, waits until it is on disk, and renames it. So the file is always the complete old one or
    the complete new one, even if the process is killed or the power fails. It does not contain the states that the rest of the sweep
    needs. If these are in a `DiskStore` on the same machine, call its `kept` before `save`, so that its writes are done.

    Args:
        path: the file. Its folder must exist.
        key: a text of all settings that determine the results of the sweep (canonical, or a digest).

    Raises:
        ParameterError: the key is empty.

    Example:
        import tempfile
        from pathlib import Path

        import numpy as np

        from diffsim.checkpoint import SweepFile

        with tempfile.TemporaryDirectory() as folder:
            file = SweepFile(Path(folder) / "sweep", key="borehole, 400 steps")
            assert file.load() is None  # nothing was left behind
            file.save(120, {"p_bar": np.ones(10)})
            step, arrays = file.load()
            assert step == 120 and (arrays["p_bar"] == 1).all()
            file.remove()
    """

    def __init__(self, path: str | os.PathLike[str], key: str) -> None:
        if not key:
            raise ParameterError("expected a key for a suspended sweep, got none; give a text of all settings that determine its results")
        self.path = Path(path)
        self._key = blake2b(key.encode(), digest_size=16).hexdigest()

    def save(self, step: int, arrays: Mapping[str, np.ndarray]) -> None:
        """Save a sweep. It replaces the one that was saved last.

        Args:
            step: number of the state at which the next step to reverse ends.
            arrays: arrays of numbers, by name, in any memory order. They may change after this returns.

        Raises:
            ParameterError: an array does not contain numbers.
            StorageError: the file cannot be written. The previous one remains.
        """
        for name, array in arrays.items():
            if array.dtype.kind not in KINDS:
                raise ParameterError(f"{name}: expected an array of numbers, got {array.dtype}; keep other things elsewhere")
        header = self._header(step, arrays)
        needed = len(header) + sum(array.nbytes for array in arrays.values())
        with written_aside(self.path, f"saving the sweep at step {step}", needed) as file:
            file.write(header)
            for array in arrays.values():
                for piece in pieces(array, _PIECE):
                    file.write(piece.view(np.uint8).data)

    def load(self) -> tuple[int, dict[str, np.ndarray]] | None:
        """Return the sweep that was saved last, or None if there is none with this key.

        Raises:
            StorageError: the file is damaged, or is no file of a sweep. None would be wrong here, because a sweep that starts anew after
                another one has freed states fails later.
        """
        try:
            with self.path.open("rb") as file:
                return self._read(file)
        except FileNotFoundError:
            return None

    def remove(self) -> None:
        """Delete the file, if it exists, because the sweep is done."""
        self.path.unlink(missing_ok=True)
        remove_asides(self.path.parent, self.path.name)

    def _header(self, step: int, arrays: Mapping[str, np.ndarray]) -> bytes:
        text = json.dumps(
            {
                "key": self._key,
                "step": operator.index(step),
                "arrays": [[name, array.dtype.str, list(array.shape)] for name, array in arrays.items()],
                "fingerprint": fingerprint(arrays.values()),
            }
        ).encode()
        body = _HEAD.pack(MAGIC, len(text)) + text
        return body + _CHECKSUM.pack(zlib.crc32(body))

    def _read(self, file: BinaryIO) -> tuple[int, dict[str, np.ndarray]] | None:
        header = self._read_header(file)
        if header["key"] != self._key:
            return None
        layout = [(name, np.dtype(dtype), tuple(shape)) for name, dtype, shape in header["arrays"]]
        arrays = {name: np.empty(shape, dtype) for name, dtype, shape in layout}
        self._require(file.tell() + sum(array.nbytes for array in arrays.values()) == os.fstat(file.fileno()).st_size)
        for array in arrays.values():
            file.readinto(array.reshape(-1).view(np.uint8).data)  # type: ignore[attr-defined]
        self._require(fingerprint(arrays.values()) == header["fingerprint"])
        return header["step"], arrays

    def _read_header(self, file: BinaryIO) -> _Header:
        size = os.fstat(file.fileno()).st_size
        head = file.read(_HEAD.size)
        self._require(len(head) == _HEAD.size and head.startswith(MAGIC))
        body = head + file.read(min(_HEAD.unpack(head)[1], size))
        self._require(file.read(_CHECKSUM.size) == _CHECKSUM.pack(zlib.crc32(body)))
        header: _Header = json.loads(body[_HEAD.size :])
        return header

    def _require(self, whole: bool) -> None:
        if not whole:
            raise StorageError(
                f"{self.path}: expected a suspended sweep, got a damaged file or another's; delete it to start the sweep anew"
            )
