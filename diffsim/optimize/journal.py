"""A journal on disk of every evaluation, from which a killed run resumes with the same bits."""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from hashlib import blake2b, sha256
from pathlib import Path
from types import TracebackType

import numpy as np
import numpy.typing as npt

from diffsim.checkpoint.storage.failure import failure
from diffsim.errors import ParameterError, ShapeError
from diffsim.typing import Array

_MAGIC = b"DSJRNL01"
_HEAD = struct.Struct("<QQ16sdd")  # number of the evaluation, entries of the gradient, digest of x, value, seconds
_DIGEST_BYTES = 16


class JournalError(ParameterError):
    """A journal belongs to other settings, or to a run that went another way."""


@dataclass(frozen=True, eq=False)
class Evaluation:
    """An evaluation of the objective: value, gradient and seconds."""

    value: float
    gradient: npt.NDArray[np.float64]
    seconds: float


class Journal:
    """Append-only file of the evaluations of one optimisation.

    To resume, the optimiser starts anew from x0 and is fed the recorded evaluations until they are used up. An optimiser that computes
    the same from the same inputs then stands, bit for bit, where it stood. Each entry holds a digest of its x, so a run that goes
    another way (another x0, method, SciPy, BLAS or number of BLAS threads) is found out at the first evaluation that differs.

    Survival: an entry is handed to the operating system and fsync'ed before the optimiser sees its value, so neither `kill -9` nor
    a power cut loses an evaluation that was recorded. Each entry has its length and a checksum; bytes after the last whole entry are
    dropped when the next one is written. Entries are read one at a time, so memory holds one gradient. On disk an entry takes 64 bytes
    and 8 more for each unknown.

    One process at a time may use a journal.

    Args:
        path: The file; made if it is not there. Its folder must exist.
        fingerprint: All settings that decide the objective's values (a canonical text of them, or a digest); another one is refused.
            Leave out settings that may change on resuming, such as the number of iterations.

    Raises:
        JournalError: The file is not a journal, or has another fingerprint. It is not changed.
        StorageError: It cannot be made or written to.

    Example:
        import tempfile
        from pathlib import Path

        import numpy as np

        import diffsim as ds
        from diffsim.optimize import Journal, JournalError, minimise

        objective = ds.value_and_grad(ds.losses.L2Misfit([1.0, 2.0, 4.0]))
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "run.journal"
            with Journal(path, "three values, no weight") as journal:
                first = minimise(objective, np.zeros(3), journal=journal)
            with Journal(path, "three values, no weight") as journal:  # later, maybe after a crash: nothing is evaluated anew
                again = minimise(lambda x: 1 / 0, np.zeros(3), journal=journal)
            assert (again.x == first.x).all()
            try:
                Journal(path, "another question")
            except JournalError as error:
                refusal = str(error)
        assert "three values" in refusal or "settings" in refusal
    """

    def __init__(self, path: str | os.PathLike[str], fingerprint: str | bytes) -> None:
        self.path = Path(path)
        text = fingerprint.encode() if isinstance(fingerprint, str) else fingerprint
        header = _MAGIC + sha256(text).digest()
        with self._writing(len(header)):
            self.path.touch()
            self._file = self.path.open("r+b")
        try:
            start = self._file.read(len(header))
            self._check_header(start, header)
            if len(start) < len(header):  # new, or killed while it was made
                self._file.seek(0)
                with self._writing(len(header)):
                    self._file.write(header)
                    self._sync()
        except BaseException:
            self.close()
            raise
        self._first = len(header)
        self.rewind()

    def __enter__(self) -> Journal:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Close the file; every entry is on disk already."""
        with suppress(OSError):  # an error of writing was raised before
            self._file.close()

    def rewind(self) -> None:
        """Go back to the first entry; `minimise` does this at its start."""
        self._position = self._first
        self._number = 0
        self._used_up = False

    def recall(self, x: Array, context: bytes = b"") -> Evaluation | None:
        """The next recorded evaluation, or None when all are used up.

        Args:
            x: Where the optimiser asks for it.
            context: Further dependences of the evaluation, such as the parts of a batch.

        Raises:
            JournalError: The next entry is of another x.
        """
        if self._used_up:
            return None
        entry = self._read()
        if entry is None:
            self._used_up = True
            return None
        number, digest, evaluation = entry
        if number != self._number or evaluation.gradient.shape != x.shape or digest != _digest_of(x, context):
            raise JournalError(
                f"{self.path}: evaluation {self._number + 1} was recorded at another x than the optimiser asks for now; resume with the "
                "same x0, bounds, method, SciPy and number of BLAS threads (OMP_NUM_THREADS), or start anew with a new journal"
            )
        self._position = self._file.tell()
        self._number += 1
        return evaluation

    def record(self, x: Array, evaluation: Evaluation, context: bytes = b"") -> None:
        """Append an evaluation and wait until it is on disk; the arguments are those of `recall`.

        Raises:
            JournalError: Entries are left that were not recalled; appending here would destroy them.
            ShapeError: The gradient has not x's shape.
            StorageError: It cannot be written.
        """
        if not self._used_up:
            raise JournalError(
                f"{self.path}: expected all entries to be recalled first, got one to append; call recall(x) until it gives None"
            )
        if evaluation.gradient.shape != x.shape:
            raise ShapeError(f"gradient: expected the shape of x, {x.shape}, got {evaluation.gradient.shape}; return one entry an unknown")
        head = _HEAD.pack(self._number, x.size, _digest_of(x, context), evaluation.value, evaluation.seconds)
        body = np.ascontiguousarray(evaluation.gradient, dtype="<f8")
        with self._writing(self._position + len(head) + body.nbytes + _DIGEST_BYTES):
            self._file.truncate(self._position)  # the last entry is incomplete
            self._file.seek(self._position)
            self._file.write(head)
            self._file.write(body.data)
            self._file.write(_checksum(head, body))
            self._sync()
        self._position = self._file.tell()
        self._number += 1

    def _read(self) -> tuple[int, bytes, Evaluation] | None:
        """The entry at the present position, or None if there is no whole one."""
        left = os.fstat(self._file.fileno()).st_size - self._position
        self._file.seek(self._position)
        head = self._file.read(_HEAD.size)
        if len(head) < _HEAD.size:
            return None
        number, entries, digest, value, seconds = _HEAD.unpack(head)
        if _HEAD.size + 8 * entries + _DIGEST_BYTES > left:  # checked before memory is allocated, since a damaged length may have any value
            return None
        body = np.empty(entries, dtype="<f8")
        self._file.readinto(body.data)
        if self._file.read(_DIGEST_BYTES) != _checksum(head, body):
            return None
        return number, digest, Evaluation(value, body.astype(np.float64, copy=False), seconds)

    def _check_header(self, start: bytes, header: bytes) -> None:
        magic = len(_MAGIC)
        if start[:magic] != header[: min(magic, len(start))]:
            raise JournalError(f"{self.path}: expected a journal or an empty file, got something else; name another file")
        if start != header[: len(start)]:
            raise JournalError(
                f"{self.path}: expected a journal of these settings, got one written under other settings (the fingerprints differ); "
                "restore the settings to resume, or name another file to start anew"
            )

    @contextmanager
    def _writing(self, needed: int) -> Iterator[None]:
        """Turn an error of the system into a message that names the file and the size it needs."""
        try:
            yield
        except OSError as error:
            raise failure(self.path, "writing the journal", error, needed) from error

    def _sync(self) -> None:
        self._file.flush()
        os.fsync(self._file.fileno())


def recorded(path: str | os.PathLike[str]) -> tuple[int, float]:
    """The number of evaluations in a journal, and their seconds; none if there is no journal. Checksums are not checked."""
    count, seconds = 0, 0.0
    try:
        with open(path, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            file.seek(len(_MAGIC) + sha256().digest_size)
            while len(head := file.read(_HEAD.size)) == _HEAD.size:
                _, entries, _, _, taken = _HEAD.unpack(head)
                if file.seek(8 * entries + _DIGEST_BYTES, os.SEEK_CUR) > size:  # incomplete
                    break
                count, seconds = count + 1, seconds + taken
    except FileNotFoundError:
        pass
    return count, seconds


def _digest_of(x: Array, context: bytes) -> bytes:
    digest = blake2b(np.ascontiguousarray(x, dtype="<f8").data, digest_size=_DIGEST_BYTES)
    digest.update(context)
    return digest.digest()


def _checksum(head: bytes, body: npt.NDArray[np.float64]) -> bytes:
    digest = blake2b(head, digest_size=_DIGEST_BYTES)
    digest.update(body.data)
    return digest.digest()
