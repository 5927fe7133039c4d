"""A 64-bit hash of a state, computed in a fraction of the time of a copy.

Rows of `ROW` words of 8 bytes are summed modulo 2^64 with odd weights, one a column, and the sums are hashed in order. Before, each
word is folded by x ^ (x >> 31):

- if one word changes, its sum changes, because the odd weight and the fold are invertible;
- columns have different weights and rows different places, so a swap of words, rows or arrays changes the hash;
- without the fold, an even number of changed sign bits in a row would cancel, 2^63 (w + w') = 0: a negated state would have the same hash.
  With it they contribute 2^32 times odd numbers.

Two different states have the same hash by chance once in 2^64, or once in 2^32 if they differ only in sign bits. The hash does not
protect against somebody who searches for such states.
"""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import blake2b

import numpy as np

from diffsim.checkpoint.storage.store import pieces

ROW = 512
"""Number of words in a weighted sum."""
BLOCK = 64
"""Rows that are folded at a time: 256 KiB fit into the second-level cache, and are enough to make the cost of calls negligible."""
SMALL = 4096
"""Arrays up to this number of bytes are hashed directly."""
# The weights are digests: NumPy may change its random numbers, and files on disk may be older.
_WEIGHTS = np.frombuffer(b"".join(blake2b(bytes([k])).digest() for k in range(ROW // 8)), dtype="<u8").astype(np.uint64) | np.uint64(1)


def fingerprint(arrays: Iterable[np.ndarray]) -> int:
    """Return 64 bits that depend on all bits of a state, its shapes and types, but not on its memory layout.

    Bits count, not values: 0.0 and -0.0 differ, and so do two NaN with different payloads.
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
