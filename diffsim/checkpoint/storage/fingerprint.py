"""64 bits that change when a state does, at a fraction of the time it takes to copy it.

Rows of `ROW` words of 8 bytes are summed modulo 2^64 with odd weights, one a column, and the sums are hashed in their order. A word is
folded before, x ^ (x >> 31):

- one word that changes changes its sum, for an odd factor and the fold are invertible;
- columns differ in weight, rows in place, so words, rows and arrays that change places are seen;
- without the fold, an even number of sign bits that change in a row would cancel, 2^63 (w + w') = 0: a negated state would look the same.
  With it they come to 2^32 times odd numbers.

By chance two different states look the same once in 2^64, or once in 2^32 if they differ in sign bits alone. It is no defence against
somebody who looks for such states.
"""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import blake2b

import numpy as np

from diffsim.checkpoint.storage.store import pieces

ROW = 512
"""Words whose weighted sum is hashed."""
BLOCK = 64
"""Rows that are folded at a time: 256 KiB, which stay in the second cache, and take long enough to forget the calls they cost."""
SMALL = 4096
"""Bytes up to which an array is hashed as it is."""
# Digests, because NumPy may change its random numbers, and what is on disk may be older.
_WEIGHTS = np.frombuffer(b"".join(blake2b(bytes([k])).digest() for k in range(ROW // 8)), dtype="<u8").astype(np.uint64) | np.uint64(1)


def fingerprint(arrays: Iterable[np.ndarray]) -> int:
    """Return 64 bits that depend on all bits of a state, and on its shapes and types, but not on how it lies in memory.

    Bits count, not values: 0.0 and -0.0 differ, and so do two NaN of different payload.

    Args:
        arrays: of numbers, in any memory order.
    """
    digest = blake2b(digest_size=8)
    scratch: np.ndarray | None = None
    for array in arrays:
        digest.update(f"{array.dtype.str}{array.shape}".encode())
        if array.nbytes <= SMALL:
            digest.update(array.tobytes())
            continue
        if scratch is None:
            scratch = np.empty((BLOCK, ROW), dtype=np.uint64)
        for piece in pieces(array, scratch.nbytes):
            flat = piece.view(np.uint8)
            whole = flat.size // 8
            digest.update(_sums(flat[: whole * 8].view(np.uint64), scratch).data)
            digest.update(flat[whole * 8 :].data)
    return int.from_bytes(digest.digest(), "little")


def _sums(words: np.ndarray, scratch: np.ndarray) -> np.ndarray:
    """Weighted sums of the rows of up to `scratch.size` words; the last row may be short."""
    folded = scratch.reshape(-1)[: words.size]
    np.right_shift(words, 31, out=folded)
    np.bitwise_xor(folded, words, out=folded)
    rows, rest = divmod(words.size, ROW)
    sums = np.empty(rows + 1, dtype=np.uint64)
    np.einsum("ij,j->i", scratch[:rows], _WEIGHTS, out=sums[:rows])
    sums[rows] = np.dot(folded[rows * ROW :], _WEIGHTS[:rest])
    return sums
