from __future__ import annotations

import struct
import tracemalloc
import zlib

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from diffsim.checkpoint.storage.compression import BLOCK, SCRATCH, Lossless, Lossy, decode
from diffsim.errors import ParameterError

SPECIAL = [0.0, -0.0, np.nan, -np.nan, np.inf, -np.inf, 5e-324, -5e-324, 1.5e-310, np.finfo(float).max, np.finfo(float).tiny, 1.0]
TYPES = ["f8", "f4", "f2", ">f8", ">f4", "c16", "c8", ">c16", "i8", "i4", ">i2", "u1", "?"]


def bits(array):
    return np.ascontiguousarray(array).tobytes()


def round_trip(compression, arrays, cut=1 << 30):
    stream = b"".join(compression.encode(arrays))
    out = [np.zeros(array.shape, array.dtype) for array in arrays]
    decode((stream[k : k + cut] for k in range(0, len(stream), cut)), out)
    return out


@given(
    st.lists(
        st.sampled_from(TYPES).flatmap(lambda dtype: hnp.arrays(dtype, hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=9))),
        max_size=4,
    ),
    st.integers(1, 50),
)
@example([np.array(SPECIAL)], 3)
@settings(max_examples=150, deadline=None)
def test_lossless_gives_the_same_bits(arrays, cut):
    for got, array in zip(round_trip(Lossless(), arrays, cut), arrays, strict=True):
        assert bits(got) == bits(array)


@pytest.mark.parametrize("level", [1, 6, 9])
@pytest.mark.parametrize("dtype", ["f8", "f4", "u1"])
def test_longer_than_a_block(level, dtype):
    array = np.cumsum(np.random.default_rng(0).standard_normal(BLOCK // 4 + 7)).astype(dtype)
    assert bits(round_trip(Lossless(level), [array, array[:3]], cut=100_000)[0]) == bits(array)


def test_planes_of_unlike_bytes_are_left_as_they_are(monkeypatch):
    rng = np.random.default_rng(0)
    tried, compress = [], zlib.compress
    monkeypatch.setattr(zlib, "compress", lambda plane, level: (tried.append(len(plane)), compress(plane, level))[1])
    array = rng.uniform(1.0, 1.9, BLOCK // 4)  # 1 or 2 of 8 bytes are alike
    parts = list(Lossless().encode([array]))
    assert sum(len(part) == BLOCK // 8 for part in parts) == 2 * 6
    assert sum(tried) < 0.4 * array.nbytes  # the others cost a sample
    assert bits(round_trip(Lossless(), [array])[0]) == bits(array)
    few = rng.integers(0, 1 << 63, 100)
    assert len(b"".join(Lossless().encode([few]))) <= few.nbytes + 8 * 4
    deceptive = np.zeros(BLOCK, dtype="u1")  # where the sample is
    deceptive[: BLOCK // 2] = rng.integers(0, 256, BLOCK // 2)
    (got,) = round_trip(Lossless(), [deceptive])
    assert bits(got) == bits(deceptive)


def test_memory_order_does_not_matter():
    wide = np.random.default_rng(0).standard_normal((400, 600))
    for array in (wide[3:-3, 5:-5], wide.T, wide[::-2], wide[0, 0], np.broadcast_to(wide[0], (500, 600))):
        assert bits(round_trip(Lossless(), [array])[0]) == bits(array)


def test_smooth_fields_get_smaller():
    x = np.linspace(0, 1, 300)
    field = np.sin(9 * x)[:, None] * np.exp(-x)
    exact = len(b"".join(Lossless().encode([field])))
    rounded = len(b"".join(Lossy(1e-4).encode([field])))
    assert exact < 0.95 * field.nbytes and rounded < 0.4 * field.nbytes


@given(
    st.sampled_from(["f8", "f4", "f2", ">f8", ">f4"]).flatmap(lambda dtype: hnp.arrays(dtype, 12)),
    st.floats(1e-17, 0.5),
)
@example(np.array(SPECIAL), 1e-3)
@example(np.full(1, -1, "i8").view("f8"), 1e-3)  # a NaN whose payload carries over into the sign
@example(np.array([1 + 2.0**-11, 1 + 3 * 2.0**-11, 2 - 2.0**-12]), 2.0**-11)  # halves, and a carry into the exponent
@example(np.array([np.finfo("f4").max, -np.finfo("f4").max], "f4"), 0.5)
@settings(max_examples=300, deadline=None)
def test_lossy_keeps_its_bound(array, relative_error):
    lossy = Lossy(relative_error)
    (got,) = round_trip(lossy, [array])
    assert got.dtype == array.dtype
    as_is = ~np.isfinite(array) | (np.abs(array) < np.finfo(array.dtype).tiny)
    assert bits(got[as_is]) == bits(array[as_is])
    assert np.isfinite(got[~as_is]).all()
    x = array[~as_is].astype("f8")
    error = np.abs(got[~as_is].astype("f8") - x) / np.abs(x)
    assert lossy.error == error.max(initial=0.0) <= relative_error
    (again,) = round_trip(lossy, [got])
    assert bits(again) == bits(got)


def test_lossy_rounds_parts_of_complex_numbers_and_no_integers():
    rng = np.random.default_rng(0)
    complex_ = rng.standard_normal((40, 30)) + 1j * 1e-9 * rng.standard_normal((40, 30))
    integers = rng.integers(0, 1 << 60, 50)
    lossy = Lossy(1e-3)
    got, same, swapped = round_trip(lossy, [complex_, integers, complex_.astype(">c8")])
    assert bits(same) == bits(integers)
    for part in (np.real, np.imag):
        for values in (got, swapped):
            error = np.abs(part(values) - part(complex_)) / np.abs(part(complex_))
            assert 1e-5 < error.max() < 1e-3
    assert 1e-4 < lossy.error <= 1e-3


def test_lossy_remembers_its_largest_error():
    lossy = Lossy(0.01)
    assert lossy.error == 0.0
    round_trip(lossy, [np.array([1.004])])
    largest = lossy.error
    assert largest > 0.0
    round_trip(lossy, [np.array([1.00001])])
    assert lossy.error == largest


@pytest.mark.parametrize("level", [0, 10, True, "fast", None])
def test_levels_that_zlib_has_not_are_refused(level):
    with pytest.raises(ParameterError, match=r"compression level = .*, expected a whole number from 1 to 9"):
        Lossless(level)


@pytest.mark.parametrize("bound", [0.0, -1e-3, 0.6, float("nan"), float("inf")])
def test_bounds_that_are_none_are_refused(bound):
    with pytest.raises(ParameterError, match=r"expected a relative_error above 0 and at most 0\.5, got"):
        Lossy(bound)


def test_streams_of_another_length_are_refused():
    state = [np.arange(1000.0)]
    stream = b"".join(Lossless().encode(state))
    plane = zlib.compress(bytes(1000))
    cut = struct.pack("<I", 2 * len(plane) - 7) + plane[:-4]  # all is there but zlib's checksum
    with pytest.raises(zlib.error):
        decode([cut], [np.empty(1000, "u1")])
    for parts, size in (
        ([stream[:-5]], 1000),
        ([], 1000),
        ([stream], 999),
        ([stream], 1001),
        ([stream, b"x"], 1000),
        ([stream + b"x"], 1000),
    ):
        with pytest.raises(zlib.error):
            decode(parts, [np.empty(size)])


@pytest.mark.parametrize("compression", [Lossless(), Lossy(1e-4)])
def test_scratch_memory_is_bounded(compression):
    """The bound holds for any state, contiguous or not; zlib's own memory, some 300 KiB, is not seen here."""
    state = [np.random.default_rng(0).standard_normal((1000, 4000)).T]
    out = [np.empty(state[0].shape)]
    parts = []
    tracemalloc.start()
    for part in compression.encode(state):
        parts.append(len(part))
    packing = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    stream = b"".join(compression.encode(state))
    views = memoryview(stream)
    tracemalloc.start()
    decode((bytes(views[k : k + BLOCK]) for k in range(0, len(stream), BLOCK)), out)
    unpacking = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert max(packing, unpacking) < SCRATCH - 512 * 1024
