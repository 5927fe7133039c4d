"""Users' own NumPy arrays on the tape: copies, or for large ones fingerprints that are checked before use.

An operation on the tape may need the values of its arguments in the reverse sweep, and the body of a checkpointed loop reads outside
values again. If a program edits an array in place after that, the gradient would be silently wrong.
"""

from __future__ import annotations

import sys
from types import FrameType
from typing import Any

import numpy as np

from diffsim.ad.core import local
from diffsim.ad.ops.layout import once, snapshot
from diffsim.checkpoint.storage.fingerprint import fingerprint as digest_of
from diffsim.errors import DerivativeError, StaleValueError

COPY_BYTES = 1 << 20
"""Arrays up to this size are copied."""
REMEMBERED = 1 << 20
"""Bytes of arrays after whose use it is looked which are still held."""
SMALL = 4096
"""Bytes up to which an array is compared itself."""


class _Seen:
    """An array that was used, how it looked, and where.

    Attributes:
        array: NumPy's.
        copy: the array that the tape refers to: a copy, or the array itself.
        look: its fingerprint.
        reread: the body of a loop that is run again in the reverse sweep uses it.
    """

    __slots__ = ("array", "copy", "look", "place", "reread")

    def __init__(self, array: np.ndarray, copy: np.ndarray, look: bytes | int, reread: bool) -> None:
        self.array, self.copy, self.look, self.reread = array, copy, look, reread
        self.place = caller() if reread or copy is array else ""

    def changed(self) -> bool:
        return fingerprint(self.array) != self.look

    @property
    def referred(self) -> bool:
        return self.copy is self.array


class _Read:
    """A differentiated array that the body of a loop reads from around it, at the version that it had."""

    __slots__ = ("array", "place", "version")
    reread, referred = True, False

    def __init__(self, array: Any) -> None:
        self.array, self.version, self.place = array, array._version, caller()

    def changed(self) -> bool:
        return self.array._version != self.version


Kept = dict[int, Any]
"""The checked states, by the ids of the arrays; they live as long."""


def private(array: np.ndarray) -> np.ndarray:
    """An array with these values that nobody will edit unnoticed."""
    require_plain(array)
    reread = local.interceptor is not None
    if not array.size or is_constant(array):
        return array
    if array.dtype.hasobject or (array.nbytes <= 256 and not reread and not local.recording):
        return snapshot(array)
    known, look = local.seen.get(id(array)), fingerprint(array)
    if known is not None and known.look == look and known.copy.shape == array.shape and (known.reread or not reread):
        return known.copy
    if known is not None and known.reread and known.look != look:
        raise _stale(known)
    if array.nbytes <= COPY_BYTES:
        copy = snapshot(array)
    else:
        if known is not None and known.look != look:
            raise _stale(known)
        copy = array
    local.seen[id(array)] = _Seen(array, copy, look, reread)
    local.unpruned += array.nbytes + 1000
    if local.unpruned > REMEMBERED:
        _prune()
    return copy


def constant(array: np.ndarray) -> np.ndarray:
    """A copy in memory that cannot be written to, so that the tape refers to it without a look at its entries."""
    return np.frombuffer(array.tobytes(), array.dtype).reshape(array.shape) if array.size else array


def is_constant(array: Any) -> bool:
    """True if this is an array in memory that cannot be written to."""
    base: Any = array
    while isinstance(base, np.ndarray):
        base = base.base
    return isinstance(base, bytes)


def require_plain(array: np.ndarray) -> None:
    """Raise for kinds of arrays whose operations mean something else."""
    if isinstance(array, (np.ma.MaskedArray, np.matrix)):
        raise DerivativeError(
            f"a {type(array).__name__} takes part in a derivative, whose operations are not those of an array; "
            + ("give its data, and use where for the mask" if isinstance(array, np.ma.MaskedArray) else "use numpy.asarray on it, and @")
        )


def require_both_parts(value: Any, dtype: Any) -> None:
    """Raise if a complex value would be made real. NumPy warns only, and the dropped part has a derivative."""
    is_complex = value.dtype.kind == "c" if hasattr(value, "dtype") else isinstance(value, complex)
    if is_complex and dtype is not None and np.dtype(dtype).kind in "fiu":
        raise DerivativeError(
            f"a complex value becomes {np.dtype(dtype)}, which would lose its imaginary part; take its real(x), or keep it in an array "
            "of a complex type"
        )


def _prune() -> None:
    """Forget copies that nothing refers to, and arrays that nobody else holds any more, and so can edit."""
    local.seen = {key: seen for key, seen in kept().items() if not isinstance(seen, _Seen) or sys.getrefcount(seen.array) > 2}
    local.unpruned = 0


def outside() -> list[np.ndarray]:
    """The arrays of NumPy's that took part, and that somebody else holds, so that they may be edited."""
    return [seen.array for seen in local.seen.values() if isinstance(seen, _Seen) and sys.getrefcount(seen.array) > 2]


def note_outside(array: Any) -> None:
    """A differentiated array is read in the body of a loop: one from around it must stay as it is."""
    if array._scope is local.interceptor or array._scalar:
        return
    known = local.seen.get(id(array))
    if known is None or known.version != array._version:
        local.seen[id(array)] = _Read(array)


def kept() -> Kept:
    """Arrays that must not change until the reverse sweep: the present tape refers to them, or will read them again."""
    return {key: seen for key, seen in local.seen.items() if seen.referred or seen.reread}


def check(arrays: Kept, referred_only: bool = False) -> None:
    """Raise if one of the arrays was edited since.

    Raises:
        StaleValueError: naming where the tape took it and where it is used.
    """
    for seen in arrays.values():
        if (seen.referred or not referred_only) and seen.changed():
            raise _stale(seen)


def _stale(seen: _Seen | _Read) -> StaleValueError:
    return StaleValueError(
        f"an array of shape {seen.array.shape} was used at {seen.place} and edited in place before its value was needed again at "
        f"{caller()}; the gradient would be wrong. Give the function a copy, or edit after the reverse sweep"
    )


def fingerprint(array: np.ndarray) -> bytes | int:
    """A digest that changes when an entry does, or the order of entries, at the speed of a copy; small arrays are their own."""
    array = array[once(array)]  # a broadcast array is no larger than its memory
    if array.nbytes <= SMALL:
        return array.tobytes()
    return digest_of([array.T if array.flags.f_contiguous else array])


def user_frame() -> FrameType | None:
    """The frame of the user's code that called the library."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and is_library(frame):
        frame = frame.f_back
    return frame


def is_library(frame: FrameType) -> bool:
    """True if a frame belongs to code of the library, or to its callers and callees."""
    return frame.f_globals.get("__name__", "").partition(".")[0] in ("diffsim", "numpy", "contextlib")


def caller() -> str:
    """File and line of the user's code that called the library."""
    frame = user_frame()
    return "an unknown place" if frame is None else f"{frame.f_code.co_filename}:{frame.f_lineno}"
