"""Smaller states for slow tiers: exact, or within a relative error if that is asked for.

Numbers that are neighbours in space have like exponents and unlike last digits. So the bytes of a block are sorted by their place in the
number (*shuffled*), which makes long runs of the like ones, and zlib packs them. A state becomes one zlib stream.

Rounding to fewer binary digits turns the unlike bytes into zeros, which take next to no room.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Iterable, Iterator
from typing import Protocol

import numpy as np

from diffsim.checkpoint.storage import State, pieces
from diffsim.errors import ParameterError

BLOCK = 1 << 20
"""Bytes that are shuffled at a time."""
SCRATCH = 8 * BLOCK
"""Memory that packing or unpacking takes at most beside the state: a block, its copies while it is rounded and shuffled, zlib's own."""
_SIGNIFICAND_BITS = {"f2": 10, "f4": 23, "f8": 52}
"""Binary digits after the point, by type. Longer types have no integer of their size, and are kept exactly."""


class Compression(Protocol):
    """How a store makes states smaller."""

    def encode(self, arrays: State) -> Iterator[bytes]:
        """Yield a state's stream in parts of any length; `decode` of the whole gives the state back."""


class Lossless:
    """Gives the same bits back.

    Args:
        level: zlib's, from 1 (fast) to 9 (small). Good value: 1; higher ones gain a few per cent on floating-point numbers and take several
            times as long.

    Raises:
        ParameterError: another level.
    """

    def __init__(self, level: int = 1) -> None:
        if isinstance(level, bool) or level not in range(1, 10):
            raise ParameterError(f"expected a compression level from 1 to 9, got {level!r}; 1 is fast, 9 is small")
        self.level = level

    def __repr__(self) -> str:
        return f"Lossless({self.level})"

    def encode(self, arrays: State) -> Iterator[bytes]:
        """See `Compression`."""
        packer = zlib.compressobj(self.level)
        for array in arrays:
            for block in pieces(array, BLOCK):
                yield packer.compress(_shuffled(self._rounded(block)).data)
        yield packer.flush()

    def _rounded(self, block: np.ndarray) -> np.ndarray:
        return block


class Lossy(Lossless):
    """Rounds real and imaginary parts to as few binary digits as a relative error allows; integers stay as they are.

    Zeros, infinities, NaN and numbers that have no full precision themselves (denormals) stay as they are, and so do the few that
    would round to infinity. Rounding twice is rounding once. A gradient then belongs to a run that was disturbed by as much wherever a
    state was loaded; whether that matters is the caller's to know.

    Args:
        relative_error: bound on |rounded - x| / |x| of every number, above 0 and at most 0.5. Good values: 1e-4 to 1e-7.
        level: see `Lossless`.

    Attributes:
        relative_error: the bound.
        error: the largest relative error made so far, 0 if nothing was rounded.

    Raises:
        ParameterError: another bound or level.
    """

    def __init__(self, relative_error: float, level: int = 1) -> None:
        super().__init__(level)
        if not 0.0 < relative_error <= 0.5:
            raise ParameterError(
                f"expected a relative_error above 0 and at most 0.5, got {relative_error!r}; use Lossless() to keep all bits"
            )
        self.relative_error = float(relative_error)
        self.error = 0.0
        # rounding to the nearest of `digits` binary digits after the point errs by at most 2^-(digits+1)
        self._digits = max(math.ceil(-math.log2(self.relative_error)) - 1, 0)

    def __repr__(self) -> str:
        return f"Lossy({self.relative_error!r}, {self.level})"

    def _rounded(self, block: np.ndarray) -> np.ndarray:
        if block.dtype.kind == "c":
            part = np.dtype(f"{block.dtype.byteorder}f{block.dtype.itemsize // 2}")
            return self._rounded(block.view(part)).view(block.dtype)
        bits = _SIGNIFICAND_BITS.get(f"{block.dtype.kind}{block.dtype.itemsize}")
        if bits is None or bits <= self._digits:
            return block
        native = block.astype(block.dtype.newbyteorder("="), copy=False)
        rounded = _rounded_to(native, bits, bits - self._digits)
        self._note_error(native, rounded)
        return rounded.astype(block.dtype, copy=False)

    def _note_error(self, exact: np.ndarray, rounded: np.ndarray) -> None:
        changed = exact != rounded
        changed &= exact == exact  # a NaN differs from itself
        if changed.any():
            x = exact[changed].astype(np.float64)
            error = np.abs(rounded[changed].astype(np.float64) - x) / np.abs(x)
            self.error = max(self.error, float(error.max()))


def decode(parts: Iterable[bytes], arrays: State) -> None:
    """Fill contiguous arrays with the state that `encode` made a stream of.

    Args:
        parts: the stream, cut anywhere.
        arrays: of the state's shapes and types; each block is written to as it comes.

    Raises:
        zlib.error: this is no such stream of such a state.
    """
    stream = _Stream(parts)
    for array in arrays:
        for block in pieces(array, BLOCK):
            size = block.dtype.itemsize
            if block.size:
                shuffled = np.frombuffer(stream.read(block.nbytes), dtype=np.uint8)
                block.view(np.uint8).reshape(-1, size)[...] = shuffled.reshape(size, -1).T
    stream.finish()


def _shuffled(block: np.ndarray) -> np.ndarray:
    """The first bytes of all numbers, then the second ones, and so on."""
    if not block.size:
        return np.empty(0, dtype=np.uint8)
    return np.ascontiguousarray(block.view(np.uint8).reshape(-1, block.dtype.itemsize).T).reshape(-1)


def _rounded_to(native: np.ndarray, bits: int, dropped: int) -> np.ndarray:
    """Round to the nearest number whose last `dropped` of `bits` significand digits are zero, halves away from zero."""
    unsigned = np.dtype(f"u{native.dtype.itemsize}")
    one = unsigned.type(1)
    words = native.view(unsigned)
    rounded = words + (one << unsigned.type(dropped - 1))  # a carry into the exponent is the next power of two, as it should be
    rounded &= ~((one << unsigned.type(dropped)) - one)
    exponents = unsigned.type((1 << (8 * native.dtype.itemsize - 1)) - (1 << bits))
    as_is = (words & exponents) == 0  # zero and denormals
    as_is |= (rounded & exponents) == exponents  # infinite, or about to be
    as_is |= (words & exponents) == exponents  # NaN, whose payload may carry over into the sign
    np.copyto(rounded, words, where=as_is)
    return rounded.view(native.dtype)


class _Stream:
    """A zlib stream, unpacked as it is read."""

    def __init__(self, parts: Iterable[bytes]) -> None:
        self._parts = iter(parts)
        self._unpacker = zlib.decompressobj()

    def read(self, count: int) -> bytes:
        """The next `count` bytes."""
        found = bytearray()
        while len(found) < count:
            found += self._next(count - len(found))
        return bytes(found)

    def finish(self) -> None:
        """Raise unless everything was read; zlib checks its own sum of it."""
        while not self._unpacker.eof:
            if self._next(1):
                raise zlib.error("the stream is longer than the state")
        if self._unpacker.unused_data or any(self._parts):
            raise zlib.error("something follows the stream")

    def _next(self, most: int) -> bytes:
        packed = self._unpacker.unconsumed_tail
        if not packed:
            part = next(self._parts, None)
            if part is None or self._unpacker.eof:
                raise zlib.error("the stream is shorter than the state")
            packed = part
        return self._unpacker.decompress(packed, most)
