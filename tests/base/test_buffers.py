"""Memory of large arrays: it is used again, but never while somebody refers to it, and the kept memory is bounded."""

from __future__ import annotations

import gc
import threading

import numpy as np
import pytest

import diffsim as ds
import diffsim.numpy as dnp
from diffsim.base import buffers
from diffsim.base.buffers import SMALLEST, Pool, size_class

LARGE = SMALLEST // 8  # entries of f64
PLENTY = 1 << 30


@pytest.fixture
def pool() -> Pool:
    return Pool(lambda: PLENTY)


def address(array: np.ndarray) -> int:
    return array.__array_interface__["data"][0]


def test_memory_is_used_again(pool: Pool) -> None:
    first = pool.empty(LARGE, "f8")
    where = address(first)
    del first
    assert pool.held == size_class(8 * LARGE)
    again = pool.empty((2, LARGE), "f4")
    assert address(again) == where and again.shape == (2, LARGE) and again.dtype == np.float32
    assert pool.held == 0


@pytest.mark.parametrize("view", [lambda a: a[5:9], lambda a: a.reshape(2, -1).T, lambda a: a.view("i8")[::3][1:], lambda a: memoryview(a)])
def test_a_view_keeps_memory(pool: Pool, view) -> None:
    array = pool.empty(LARGE, "f8")
    array[:] = np.arange(LARGE)
    kept = view(array)
    before = np.array(kept)
    del array
    gc.collect()
    assert pool.held == 0
    for _ in range(3):
        pool.empty(LARGE, "f8")[:] = -1
    assert np.array_equal(kept, before)
    del kept
    assert pool.held > 0


def test_kept_memory_is_bounded_and_the_oldest_goes() -> None:
    size = size_class(SMALLEST)
    pool = Pool(lambda: 3 * size)
    arrays = [pool.empty(SMALLEST, "u1") for _ in range(5)]
    places = [address(a) for a in arrays]
    while arrays:
        del arrays[0]
        assert pool.held <= 3 * size
    assert pool.held == 3 * size
    again = [pool.empty(SMALLEST, "u1") for _ in range(3)]
    assert {address(a) for a in again} == set(places[2:])


def test_new_memory_takes_the_place_of_kept_memory() -> None:
    """Before memory is asked of the system, unused memory goes that would not stay within the limit with it."""
    size = size_class(SMALLEST)
    pool = Pool(lambda: 3 * size)
    del (arrays := [pool.empty(SMALLEST, "u1") for _ in range(3)])[:]
    assert pool.held == 3 * size
    other = pool.empty(SMALLEST + SMALLEST // 2, "u1")
    assert pool.held == size
    huge = pool.empty(4 * SMALLEST, "u1")
    assert pool.held == 0 and not arrays and other.size < huge.size


def test_zeros_are_zero_also_in_used_memory(pool: Pool) -> None:
    for _ in range(3):
        array = pool.zeros((3, LARGE), "f4")
        assert array.shape == (3, LARGE) and array.dtype == np.float32 and not array.any()
        assert address(array) % buffers.ALIGNMENT == 0
        array[...] = np.nan
        del array


def test_release(pool: Pool) -> None:
    array, other = pool.empty(LARGE, "f8"), pool.empty(LARGE, "f8")
    array[:] = 1
    del other
    pool.release()
    assert pool.held == 0 and np.all(array == 1)


@pytest.mark.parametrize("shape", [(), 3, (0, LARGE), (2, 3), (LARGE,), (4, LARGE, 2)])
@pytest.mark.parametrize("dtype", ["f4", "f8", "c16", "i4", "?", "u1"])
def test_arrays_are_as_those_of_numpy(pool: Pool, shape, dtype: str) -> None:
    array, wanted = pool.empty(shape, dtype), np.empty(shape, dtype)
    assert (array.shape, array.dtype, array.strides) == (wanted.shape, wanted.dtype, wanted.strides)
    assert array.flags.writeable and array.flags.aligned and array.flags.c_contiguous
    array[...] = 1
    assert np.all(array == 1)


def test_a_class_holds_its_size() -> None:
    for size in (SMALLEST, SMALLEST + 1, 4_000_000, 8_000_000, (1 << 20) - 1, 1 << 20, (1 << 24) + 12345):
        assert size + buffers.ALIGNMENT <= size_class(size) <= 1.126 * (size + buffers.ALIGNMENT)


def test_threads_never_share_memory(pool: Pool) -> None:
    errors: list[str] = []

    def work(number: int) -> None:
        random = np.random.default_rng(number)
        held: list[np.ndarray] = []
        for _ in range(300):
            array = pool.empty(LARGE + int(random.integers(3)) * LARGE, "f8")
            array[:: LARGE // 8] = number
            held.append(array)
            if len(held) > 3:
                old = held.pop(int(random.integers(4)))
                if not np.all(old[:: LARGE // 8] == number):
                    errors.append(f"thread {number} found {old[:: LARGE // 8]}")

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    assert pool.held == sum(size * len(blocks) for size, blocks in pool._free.items()) > 0


def test_a_return_while_the_pool_is_busy_is_not_lost(pool: Pool) -> None:
    """As when a garbage collection ends an array inside a method of the pool."""
    array = pool.empty(LARGE, "f8")
    where = address(array)
    with pool._lock:
        other = pool.empty(LARGE, "f8")  # nothing waits
        del array
        assert pool.held == 0
    again = pool.empty(LARGE, "f8")
    assert address(again) == where
    del again, other
    assert pool.held == 2 * size_class(8 * LARGE)


@pytest.mark.parametrize("dtype", ["f4", "f8", "i8", "?"])
@pytest.mark.parametrize("make", [lambda a: a, lambda a: a.T, lambda a: a[::2], lambda a: np.broadcast_to(a[0], a.shape)])
def test_copy_is_that_of_numpy(dtype: str, make) -> None:
    array = make(np.random.default_rng(0).standard_normal((64, LARGE // 16)).astype(dtype))
    copied, wanted = buffers.copy(array), np.array(array)
    assert np.array_equal(copied, wanted) and copied.dtype == wanted.dtype and copied.strides == wanted.strides
    assert not np.shares_memory(copied, array)


@pytest.mark.parametrize(
    "make",
    [
        lambda a: (a, a),
        lambda a: (a, 2.0),
        lambda a: (3, a),
        lambda a: (a, np.float64(0.1)),
        lambda a: (a, np.float32(0.1)),
        lambda a: (a, a.astype("f8")),
        lambda a: (a, a[0]),
        lambda a: (a[0], a),
        lambda a: (a.T, a.T),
        lambda a: (a, np.broadcast_to(a[:1, :1], a.shape)),
        lambda a: (np.broadcast_to(a[:1, :1], a.shape), a),
        lambda a: (a, np.asfortranarray(a)),
        lambda a: (a, np.arange(a.size).reshape(a.shape)),
        lambda a: (a, 1j),
        lambda a: (a.reshape(-1, 1), a[:1, :2]),
    ],
)
@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_functions_give_the_results_of_numpy(dtype: str, make) -> None:
    args = make(np.random.default_rng(1).standard_normal((64, LARGE // 16)).astype(dtype))
    for function in (np.add, np.multiply, np.hypot) if not any(np.iscomplexobj(a) for a in args) else (np.add, np.multiply):
        result, wanted = buffers.reusing(function)(*args), function(*args)
        assert result.tobytes("A") == wanted.tobytes("A") and result.dtype == wanted.dtype and result.strides == wanted.strides


def gradient_of(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    index = np.random.default_rng(2).integers(-2, 70, x.size)

    def f(x):
        histogram = ds.reduce_by_index("*", dnp.ones(64), index, x)
        pairs = ds.reduce_by_index(lambda a, b: (a[0] * b[0], a[1] * b[0] + b[1]), (dnp.ones(64), dnp.ones(64)), index, (x, x))
        return dnp.sum(dnp.cumprod(x) * x) + dnp.sum(histogram * pairs[1])

    value, gradient = ds.value_and_grad(f)(x)
    return np.asarray(value), gradient


def test_bits_do_not_depend_on_the_old_contents_of_memory() -> None:
    x = np.random.default_rng(3).uniform(0.999, 1.001, 1 << 16)
    buffers.release()
    value, gradient = gradient_of(x)
    for junk in (np.nan, 1e300):
        for factor in (0.5, 1.0, 1.0, 1.0, 1.0, 2.0):
            buffers.empty(int(x.size * factor), "f8")[:] = junk
        held = [buffers.empty(x.size, "f8") for _ in range(8)]
        for array in held:
            array[:] = junk
        del held, array
        again = gradient_of(x)
        assert again[0] == value and np.array_equal(again[1], gradient)


def test_results_are_the_callers_own() -> None:
    """A gradient that is kept, or edited, has nothing to do with the next one."""
    x = np.random.default_rng(4).uniform(0.999, 1.001, 1 << 16)
    value, pullback = ds.vjp(lambda x: dnp.reshape(dnp.cumprod(x), (2, -1)), x)
    seed = np.ones((2, 1 << 15))
    (first,) = pullback(seed)
    before = first.copy()
    (second,) = pullback(seed)
    assert not np.shares_memory(first, second) and not np.shares_memory(first, x)
    second[:] = np.nan
    value[:] = np.nan
    assert np.array_equal(first, before) and np.array_equal(pullback(seed)[0], before)
    (same,) = ds.vjp(lambda x: dnp.reshape(x, (2, -1)), x)[1](seed)
    assert not np.shares_memory(same, seed)
    whole = np.ones((4, 1 << 15))
    (part,) = ds.vjp(lambda x: dnp.reshape(x, (2, -1)), x)[1](whole[:2])
    assert not np.shares_memory(part, whole)


def test_a_cotangent_of_ones_gives_results_that_are_the_callers_own() -> None:
    """The gradient of sum(x * y) for x has the entries of y, but not its memory; also if the tape stays, and for numbers of y itself."""
    x, y = np.linspace(1.0, 2.0, LARGE), np.linspace(3.0, 4.0, LARGE)
    before = y.copy()
    _, pullback = ds.vjp(lambda x, y: dnp.sum(x * y), x, y)
    for _ in range(2):
        for bar, wanted in zip(pullback(1.0), (before, x), strict=True):
            assert np.array_equal(bar, wanted) and not np.shares_memory(bar, x) and not np.shares_memory(bar, y)
            bar[:] = np.nan
    constant = ds.grad(lambda x: dnp.sum(x * y))(x)
    squares = ds.grad(lambda x: dnp.sum(x * x))(x)
    constant[:] = 0
    assert np.array_equal(y, before) and np.array_equal(squares, 2 * x)
