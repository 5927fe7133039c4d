"""Compression of states for slow tiers: exact, or within a relative error on request.

Neighbours in space have similar exponents and different last digits. So the bytes of a block are sorted by their place in the
number (*shuffled*), into *planes*: all first bytes, all second ones, and so on. zlib packs the planes of similar bytes. Planes of
different bytes, which would take longest for no gain, are not packed. A state becomes a stream of planes. Four bytes before each plane
contain its number of bytes and, in the lowest bit, whether it is packed.

Rounding to fewer binary digits turns different bytes into zeros, which take almost no space.
"""

from __future__ import annotations

import math
import struct
import zlib
from collections.abc import Iterable, Iterator
from typing import Protocol

import numpy as np

from diffsim.base.arguments import whole
from diffsim.base.messages import shown
from diffsim.checkpoint.storage.store import State, pieces
from diffsim.errors import ParameterError

BLOCK = 1 << 20
"""Bytes that are shuffled at a time."""
SCRATCH = 8 * BLOCK
"""Most memory of packing or unpacking in addition to the state: a block, its rounded and shuffled copies, and zlib's own memory."""
SAMPLE = 4096
"""Bytes from the middle of a plane that are packed to decide whether packing the plane is worth it."""
WORTH = 0.95
"""A plane is packed if its sample shrinks below this fraction."""
_SIZE = struct.Struct("<I")
_SIGNIFICAND_BITS = {"f2": 10, "f4": 23, "f8": 52}
"""Binary digits after the point, by type. Longer types have no integer type of their size, and are stored exactly."""


class Compression(Protocol):
    """A way to compress states in a store."""

    def encode(self, arrays: State) -> Iterator[bytes]:
        """Yield a state's stream in parts of any length. `decode` of all parts restores the state."""


class Lossless:
    """Compression that restores the same bits.

    Args:
        level: zlib's, from 1 (fast) to 9 (small). Good value: 1. Higher levels gain a per cent or two on floating-point numbers, and
            take at least twice as long.

    Raises:
        ParameterError: another level.
    """

    def __init__(self, level: int = 1) -> None:
        self.level = whole("compression level", level, 1, 9, "1 is fast, 9 is small")

    def __repr__(self) -> str:
        return f"Lossless({self.level})"

    def encode(self, arrays: State) -> Iterator[bytes]:
        """See `Compression`."""
        for array in arrays:
            for block in pieces(array, BLOCK):
                for plane in _planes(self._rounded(block)):
                    packed = _packed(plane, self.level)
                    yield _SIZE.pack(2 * len(plane)) if packed is None else _SIZE.pack(2 * len(packed) + 1)
                    yield plane if packed is None else packed

    def _rounded(self, block: np.ndarray) -> np.ndarray:
        return block


class Lossy(Lossless):
    """Rounds real and imaginary parts to as few binary digits as a relative error allows. Integers do not change.

    Zeros, infinities, NaN, numbers without full precision (denormals) and the few numbers that would round to infinity do not change.
    Rounding twice gives the same as rounding once. The gradient is that of a run which was perturbed by this error wherever a state was
    loaded. The caller decides whether that matters.

    Args:
        relative_error: bound on |rounded - x| / |x| of every number, above 0 and at most 0.5. Good values: 1e-4 to 1e-7.
        level: see `Lossless`.

    Attributes:
        relative_error: the bound.
        error: the largest relative error so far, 0 if no number was rounded.

    Raises:
        ParameterError: another bound or level.

    Example:
        import numpy as np

        from diffsim.checkpoint import Compression, HostStore, Lossless, Lossy, StateLayout

        field = np.sin(np.linspace(0.0, 3.0, 10_000))
        layout, taken = StateLayout.of([field]), {}
        for how in (Lossless(), Lossy(1e-3)):
            compression: Compression = how
            with HostStore(layout, slots=1, compression=compression) as store:
                store.write(0, 0, [field])
                taken[type(how)] = store.nbytes
                (back,) = store.read(0, 0)
                assert np.allclose(back, field, rtol=1e-3, atol=0)
        assert taken[Lossy] < taken[Lossless]
    """

    def __init__(self, relative_error: float, level: int = 1) -> None:
        super().__init__(level)
        if not 0.0 < relative_error <= 0.5:
            raise ParameterError(
                f"expected a relative_error above 0 and at most 0.5, got {shown(relative_error)}; use Lossless() to keep all bits"
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
    """Fill contiguous arrays with the state from a stream of `encode`.

    Args:
        parts: the stream, cut anywhere.
        arrays: arrays of the state's shapes and types. Each block is written when it arrives.

    Raises:
        zlib.error: this is no stream of such a state.
    """
    stream = _Stream(parts)
    for array in arrays:
        for block in pieces(array, BLOCK):
            if block.size:
                for column in block.view(np.uint8).reshape(-1, block.dtype.itemsize).T:
                    column[...] = np.frombuffer(stream.plane(block.size), dtype=np.uint8)
    stream.finish()


def _planes(block: np.ndarray) -> Iterator[bytes]:
    """The first bytes of all numbers, then the second ones, and so on."""
    if block.size:
        for column in block.view(np.uint8).reshape(-1, block.dtype.itemsize).T:
            yield column.tobytes()


def _packed(plane: bytes, level: int) -> bytes | None:
    """The packed plane, or None if packing is not worth it."""
    middle = len(plane) // 2
    sample = plane[middle : middle + SAMPLE]
    if len(plane) > 4 * SAMPLE and len(zlib.compress(sample, level)) > WORTH * SAMPLE:
        return None
    packed = zlib.compress(plane, level)
    return packed if len(packed) < len(plane) else None


def _rounded_to(native: np.ndarray, bits: int, dropped: int) -> np.ndarray:
    """Round to the nearest number whose last `dropped` of `bits` significand digits are zero, halves away from zero."""
    unsigned = np.dtype(f"u{native.dtype.itemsize}")
    one = unsigned.type(1)
    words = native.view(unsigned)
    # a carry into the exponent gives the next power of two, which is correct
    rounded: np.ndarray = words + (one << unsigned.type(dropped - 1))
    rounded &= ~((one << unsigned.type(dropped)) - one)
    exponents = unsigned.type((1 << (8 * native.dtype.itemsize - 1)) - (1 << bits))
    as_is = (words & exponents) == 0  # zero and denormals
    as_is |= (rounded & exponents) == exponents  # infinite, or infinite after rounding
    as_is |= (words & exponents) == exponents  # NaN, whose payload could carry into the sign
    np.copyto(rounded, words, where=as_is)
    return rounded.view(native.dtype)


class _Stream:
    """A stream of planes that arrives in parts."""

    def __init__(self, parts: Iterable[bytes]) -> None:
        self._parts = iter(parts)
        self._part = memoryview(b"")

    def plane(self, size: int) -> bytes:
        """The next plane, which has `size` bytes."""
        (head,) = _SIZE.unpack(self._read(_SIZE.size))
        stored = self._read(head // 2)
        if head % 2:
            unpacker = zlib.decompressobj()
            stored = unpacker.decompress(stored, size + 1)
            if not unpacker.eof:
                raise zlib.error("a plane is longer than its array")
        if len(stored) != size:
            raise zlib.error("a plane is not as long as its array")
        return stored

    def finish(self) -> None:
        """Raise unless everything was read."""
        if self._part or any(self._parts):
            raise zlib.error("the stream is longer than the state")

    def _read(self, count: int) -> bytes:
        data = bytearray()
        while len(data) < count:
            if not self._part:
                part = next(self._parts, None)
                if part is None:
                    raise zlib.error("the stream is shorter than the state")
                self._part = memoryview(part)
            taken = self._part[: count - len(data)]
            data += taken
            self._part = self._part[len(taken) :]
        return bytes(data)
