"""What the record keeps of a user's own NumPy arrays: a copy, or for large ones a fingerprint that is checked before use.

A recorded operation may need the values of its arguments in the reverse sweep. If a program edits an array in place after that, the
gradient would be silently wrong.
"""

from __future__ import annotations

import sys
import threading

import numpy as np

from diffsim.errors import StaleValueError

COPY_BYTES = 1 << 20
"""Arrays up to this size are copied."""
REMEMBERED = 256
"""Copies kept to be used again when the same array is."""


class _Seen:
    """An array that was used, how it looked, and where."""

    __slots__ = ("array", "copy", "fingerprint", "place")

    def __init__(self, array: np.ndarray, copy: np.ndarray, fingerprint: bytes, place: str) -> None:
        self.array, self.copy, self.fingerprint, self.place = array, copy, fingerprint, place


class _Seens(threading.local):
    def __init__(self) -> None:
        self.by_id: dict[int, _Seen] = {}


_seen = _Seens()


def private(array: np.ndarray) -> np.ndarray:
    """An array with these values that nobody will edit unnoticed."""
    if not array.size:
        return array
    if array.nbytes <= 256:
        return array.copy(order="K")
    known = _seen.by_id.get(id(array))
    look = fingerprint(array)
    if known is not None and known.fingerprint == look:
        return known.copy
    if array.nbytes <= COPY_BYTES:
        copy = array.copy(order="K")
        if len(_seen.by_id) > REMEMBERED:
            _seen.by_id = large()
        _seen.by_id[id(array)] = _Seen(array, copy, look, "")
        return copy
    if known is not None and known.array is array:
        raise _stale(known, caller())
    _seen.by_id[id(array)] = _Seen(array, array, look, caller())
    return array


def large() -> dict[int, _Seen]:
    """The large arrays that the present record refers to."""
    return {key: seen for key, seen in _seen.by_id.items() if seen.copy is seen.array}


def forget() -> dict[int, _Seen]:
    """End of the outermost forward run: the large arrays that its record refers to, to be checked before the reverse sweep."""
    kept = large()
    _seen.by_id = {}
    return kept


def check(arrays: dict[int, _Seen]) -> None:
    """Raise if one of the arrays was edited since.

    Raises:
        StaleValueError: naming where it was recorded and where it is used.
    """
    for seen in arrays.values():
        if fingerprint(seen.array) != seen.fingerprint:
            raise _stale(seen, caller())


def _stale(seen: _Seen, place: str) -> StaleValueError:
    return StaleValueError(
        f"a NumPy array of shape {seen.array.shape} was used at {seen.place} and edited in place before its value was needed again at "
        f"{place}; the gradient would be wrong. Give the function a copy, or edit after the reverse sweep"
    )


def fingerprint(array: np.ndarray) -> bytes:
    """A digest that changes when an entry does, at the speed of memory."""
    if not array.flags.c_contiguous:
        array = np.ascontiguousarray(array)
    flat = array.reshape(-1).view(np.uint8)
    words = flat[: flat.size // 8 * 8].view(np.uint64)
    rows = words[: words.size // 512 * 512].reshape(-1, 512)
    half = len(rows) // 2
    rest = words[rows.size :].tobytes() + flat[words.size * 8 :].tobytes()
    with np.errstate(over="ignore"):
        return np.add.reduce(rows[:half], axis=0).tobytes() + np.add.reduce(rows[half:], axis=0).tobytes() + rest


def caller() -> str:
    """File and line of the user's code that called the library."""
    frame = sys._getframe(1)
    while frame is not None and frame.f_globals.get("__name__", "").partition(".")[0] in ("diffsim", "numpy", "contextlib"):
        frame = frame.f_back  # type: ignore[assignment]
    return "an unknown place" if frame is None else f"{frame.f_code.co_filename}:{frame.f_lineno}"
