from __future__ import annotations

import itertools

import numpy as np
import pytest

from diffsim.checkpoint.storage.fingerprint import BLOCK, ROW, SMALL, fingerprint
from tests.sampled import together

SIZES = (1, 127, SMALL // 8, SMALL // 8 + 1, 3 * ROW + 5, BLOCK * ROW, BLOCK * ROW + ROW + 1)
"""Entries of 8 bytes: below, at and above the limits of what is done at once."""


def numbers(size, seed=0):
    return np.random.default_rng(seed).standard_normal(size)


@together(itertools.product(SIZES, ("f8", "f4", ">f8", "i2", "u1", "c16", "?")), apart=True)
def test_every_bit_counts(size, dtype):
    array = (100 * numbers(size)).astype(dtype)
    before = fingerprint([array])
    rng = np.random.default_rng(size)
    raw = array.view(np.uint8)
    for _ in range(20):
        place, bit = rng.integers(raw.size), np.uint8(1 << rng.integers(8))
        raw[place] ^= bit
        assert fingerprint([array]) != before
        raw[place] ^= bit
    raw[-1] ^= 128
    assert fingerprint([array]) != before
    raw[-1] ^= 128
    assert fingerprint([array]) == before


@pytest.mark.parametrize("seed", range(20))
def test_what_changes_places_is_seen(seed):
    array = numbers((BLOCK * 2 + 3, ROW), seed)
    before = fingerprint([array])
    rng = np.random.default_rng(seed)
    i, k = rng.choice(len(array), 2, replace=False)
    a, b = rng.choice(ROW, 2, replace=False)
    for first, second in (((i, a), (i, b)), ((i, a), (k, a)), ((i,), (k,)), ((slice(None), a), (slice(None), b))):
        changed = array.copy()
        changed[first], changed[second] = array[second], array[first]
        assert fingerprint([changed]) != before
    assert fingerprint([np.roll(array, 1, axis=0)]) != before
    assert fingerprint([np.roll(array, BLOCK, axis=0)]) != before
    assert fingerprint([np.roll(array.ravel(), 1).reshape(array.shape)]) != before


@pytest.mark.parametrize("dtype", ["f8", "f4"])
def test_signs_do_not_cancel(dtype):
    """In a plain weighted sum modulo 2^64 an even number of them would."""
    array = np.ones((4, ROW), dtype=dtype)
    seen = {fingerprint([array])}
    for part in [np.s_[:], np.s_[0], np.s_[:2, :2], np.s_[0, :2], np.s_[0, 1:3], np.s_[0, :4], np.s_[:, ::2], np.s_[::2]]:
        changed = array.copy()
        changed[part] *= -1
        seen.add(fingerprint([changed]))
    assert len(seen) == 9
    zeros = np.zeros(4 * ROW, dtype=dtype)
    assert fingerprint([zeros]) != fingerprint([-zeros])


def test_no_two_sign_bits_in_a_row_cancel():
    words = np.zeros((2, ROW), dtype=np.uint64)
    seen = set()
    for other in range(1, ROW):
        words[0, [0, other]] = 1 << 63
        seen.add(fingerprint([words]))
        words[0, other] = 0
    assert len(seen) == ROW - 1 and fingerprint([np.zeros_like(words)]) not in seen


def test_payloads_of_nan_count():
    words = np.full(2 * ROW, 0x7FF8_0000_0000_0000, dtype=np.uint64)
    other = words.copy()
    other[7] |= 1
    assert fingerprint([words.view("f8")]) != fingerprint([other.view("f8")])


@pytest.mark.parametrize("shape", [(3, 5), (40, 50), (70, 600), (3, 300, 301), (2, 1, 40_000)])
def test_memory_order_does_not_count(shape):
    array = numbers(shape)
    wide = np.zeros(tuple(n + 4 for n in shape))
    inner = wide[tuple(slice(2, -2) for _ in shape)]
    inner[...] = array
    unaligned = np.zeros(array.nbytes + 1, dtype=np.uint8)[1:].view("f8").reshape(shape)
    unaligned[...] = array
    backwards = array[::-1].copy()[::-1]
    expected = fingerprint([array])
    for same in (inner, np.asfortranarray(array), unaligned, backwards):
        assert fingerprint([same]) == expected
    wide[0] = 1.0
    assert fingerprint([inner]) == expected


def test_arrays_count_in_their_order():
    one, two = numbers(1000, 1), numbers(1000, 2)
    small, empty = numbers(3), np.zeros(0)
    states = ([one, two], [two, one], [one], [one, two, empty], [np.concatenate([one, two])], [one.reshape(10, 100), two])
    assert len({fingerprint(state) for state in states}) == len(states)
    assert fingerprint([small, one]) != fingerprint([one, small])
    assert fingerprint([np.zeros(8, "f4")]) != fingerprint([np.zeros(4, "f8")])


def test_it_is_the_same_in_every_run():
    """A run that resumes compares with what another process has stored."""
    state = [np.arange(5000.0), np.arange(7, dtype="i4"), np.array(2.5)]
    assert fingerprint(state) == 0xB36413DAA61826AD
