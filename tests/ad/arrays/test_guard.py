"""NumPy arrays that are edited in place around and inside a derivative: the result is right, or an error says where; never wrong."""

from __future__ import annotations

import re

import numpy as np
import pytest

import diffsim as ds
import diffsim.numpy as dnp
from diffsim.ad.arrays import guard
from diffsim.ad.arrays.indices import normalise
from diffsim.errors import StaleValueError

SMALL, LARGE = 40, guard.COPY_BYTES // 8 + 1
SIZES = pytest.mark.parametrize("n", [3, SMALL, LARGE], ids=["tiny", "small", "large"])
# The reference is written with other operations in another order.
TOLERANCE = 1e-13


def normal(seed: int, n: int) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(n)


def assert_right_or_stale(run, expected) -> None:
    """`run` gives the expected values, or raises an error that names two places of this file."""
    try:
        result, message = run(), ""
    except StaleValueError as error:
        result, message = expected, str(error)
    np.testing.assert_allclose(result, expected, rtol=TOLERANCE, atol=TOLERANCE)
    assert not message or len(re.findall(r"test_guard\.py:\d+", message)) == 2


@SIZES
@pytest.mark.parametrize("edited", ["input", "constant"])
def test_edit_between_forward_and_reverse(n, edited):
    x, c = normal(1, n), normal(2, n)
    _, pullback = ds.vjp(lambda x: dnp.sum(x * x * c), x)
    expected = 2 * x * c
    (x if edited == "input" else c)[n // 2] += 1.0
    assert_right_or_stale(lambda: pullback(1.0)[0], expected)


def test_the_error_of_a_large_array_names_both_places():
    x, weights = normal(1, LARGE), normal(2, LARGE)
    _, pullback = ds.vjp(lambda x: dnp.sum(x * weights), x)
    weights[:] = 0.0
    with pytest.raises(StaleValueError, match=r"test_guard\.py:\d+ and edited in place before .*\n?.*test_guard\.py:\d+") as caught:
        pullback(1.0)
    assert str(x.shape) in str(caught.value)


@SIZES
def test_work_buffer_that_is_filled_anew_in_a_loop(n):
    x, buffer = normal(1, n), np.zeros(n)

    def f(x):
        total = 0.0
        for k in range(4):
            buffer[:] = k + 1.0
            total = total + dnp.sum(x * x * buffer)
        return total

    assert_right_or_stale(lambda: ds.grad(f)(x), 20.0 * x)


@SIZES
def test_input_edited_inside_of_the_function(n):
    x, start = normal(1, n), normal(1, n)

    def f(y):
        first = dnp.sum(y * y)
        x[0] = 7.0
        return first + dnp.sum(y)

    expected = 2 * start + 1
    assert_right_or_stale(lambda: ds.grad(f)(x), expected)
    x[:] = start
    assert_right_or_stale(lambda: ds.jvp(f, (x,), (start,))[1], np.sum(expected * start))


@SIZES
def test_tangent_edited_inside_of_the_function(n):
    x, v = normal(1, n), normal(2, n)
    expected = np.sum(2 * x * v)

    def f(y):
        v[0] += 1.0
        return dnp.sum(y * y)

    assert_right_or_stale(lambda: ds.jvp(f, (x,), (v,))[1], expected)


@SIZES
def test_cotangent_is_left_alone_and_may_be_edited_afterwards(n):
    x, ct = normal(1, n), normal(2, n)
    before = ct.copy()

    def f(y):
        z = y.copy()
        z[0] = 0.0
        z[1:] *= 2.0
        return z

    _, pullback = ds.vjp(f, x)
    (bar,) = pullback(ct)
    np.testing.assert_array_equal(ct, before)
    expected = np.r_[0.0, 2 * before[1:]]
    ct[:] = 0.0
    np.testing.assert_array_equal(bar, expected)


@SIZES
def test_results_may_be_edited(n):
    x = normal(1, n)
    value, pullback = ds.vjp(lambda x: (x, x, dnp.exp(x)), x)
    expected = 1.0 + np.exp(x)
    for part in value:
        part[:] = 0.0
    cts = (np.ones(n), None, np.ones(n))
    (bar,) = pullback(cts)
    np.testing.assert_allclose(bar, expected, rtol=TOLERANCE)
    bar[:] = 0.0
    np.testing.assert_array_equal(cts[0], 1.0)
    np.testing.assert_allclose(pullback(cts)[0], expected, rtol=TOLERANCE)
    value, dot = ds.jvp(lambda x: (x, x), (x,), (np.ones(n),))
    value[0][:], dot[0][:] = 5.0, 5.0
    np.testing.assert_array_equal(dot[1], 1.0)
    np.testing.assert_array_equal(value[1], x)


@SIZES
def test_auxiliary_result_may_be_edited(n):
    x = normal(1, n)
    _, pullback, aux = ds.vjp(lambda x: (dnp.sum(x * x), x), x, has_aux=True)
    aux[:] = 0.0
    np.testing.assert_allclose(pullback(1.0)[0], 2 * x, rtol=TOLERANCE)


@SIZES
def test_pullback_that_leaves_an_outer_derivative(n):
    x, c = normal(1, n), normal(2, n)
    kept = []

    def f(x):
        kept.append(ds.vjp(lambda y: dnp.sum(y * y * c), normal(3, n))[1])
        return dnp.sum(x)

    ds.grad(f)(x)
    expected = 2 * normal(3, n) * c
    c[0] += 1.0
    assert_right_or_stale(lambda: kept[0](1.0)[0], expected)


LOOPS = {
    "remat": lambda body, x: ds.remat(body)(x),
    "fori_loop": lambda body, x: ds.fori_loop(0, 1, lambda _, s: body(s), x),
    "while_loop": lambda body, x: ds.while_loop(lambda s: s[1] < 1, lambda s: (body(s[0]), s[1] + 1), (x, 0))[0],
}


@SIZES
@pytest.mark.parametrize("loop", LOOPS)
def test_constant_of_a_body_that_is_run_again(n, loop):
    x, c = normal(1, n), normal(2, n)
    _, pullback = ds.vjp(lambda x: dnp.sum(LOOPS[loop](lambda s: s * s * c, x)), x)
    expected = 2 * x * c
    np.testing.assert_allclose(pullback(1.0)[0], expected, rtol=TOLERANCE)
    c[0] += 1.0
    assert_right_or_stale(lambda: pullback(1.0)[0], expected)


@pytest.mark.parametrize("traced", [True, False], ids=["traced", "constant"])
@pytest.mark.parametrize("loop", LOOPS)
def test_array_read_by_a_body_and_assigned_to_later(loop, traced):
    x = normal(1, 3)

    def f(x):
        c = x * 3.0 if traced else dnp.zeros(3) + 3.0
        y = LOOPS[loop](lambda s: s * s * c, x)
        c[:] = 0.0
        return dnp.sum(y)

    assert_right_or_stale(lambda: ds.grad(f)(x), 9 * x**2 if traced else 6 * x)


@SIZES
def test_constant_edited_between_two_gradients(n):
    x, c = normal(1, n), normal(2, n)
    f = ds.grad(lambda x: dnp.sum(ds.remat(lambda s: s * s * c)(x)))
    np.testing.assert_allclose(f(x), 2 * x * c, rtol=TOLERANCE)
    c *= 2.0
    np.testing.assert_allclose(f(x), 2 * x * c, rtol=TOLERANCE)


def test_shape_of_a_constant_changed_in_place():
    c = normal(2, SMALL)

    def f(x):
        first = dnp.sum(x * c)
        return first + dnp.sum(x * c.reshape(8, 5)[:, :1])

    assert ds.grad(f)(2.0) == pytest.approx(c.sum() + c.reshape(8, 5)[:, 0].sum(), rel=TOLERANCE)


EDITS = {
    "one bit": lambda a: a.view(np.uint64).__setitem__((3, 5), a.view(np.uint64)[3, 5] ^ 1),
    "all signs": lambda a: np.negative(a, out=a),
    "two signs in a row": lambda a: np.negative(a[7, 4:6], out=a[7, 4:6]),
    "two signs in a column": lambda a: np.negative(a[4:6, 7], out=a[4:6, 7]),
    "two rows": lambda a: a.__setitem__([0, 1], a[[1, 0]]),
    "far rows": lambda a: a.__setitem__([3, -3], a[[-3, 3]]),
    "two columns": lambda a: a.__setitem__((slice(None), [0, 9]), a[:, [9, 0]]),
    "two entries of opposite sign": lambda a: a.__setitem__((2, [0, 1]), a[2, [1, 0]]),
    "order": lambda a: a.sort(axis=0),
    "reversed": lambda a: a.__setitem__(..., a[::-1, ::-1].copy()),
    "sum kept": lambda a: (a.__setitem__((0, 0), a[0, 0] + 1), a.__setitem__((0, 1), a[0, 1] - 1)),
    "one to the other of equal columns": lambda a: a.__setitem__((slice(4, 6), 3), [a[4, 3] + 1, a[5, 3] - 1]),
    "last entry": lambda a: a.__setitem__((-1, -1), 0.0),
}


@pytest.mark.parametrize("edit", EDITS)
@pytest.mark.parametrize("shape", [(600, 512), (601, 513), (16, 20)])
def test_fingerprint_tells_edits(edit, shape):
    rng = np.random.default_rng(4)
    for start in (rng.standard_normal(shape), rng.integers(-3, 4, shape) + 0.5, np.where(rng.random(shape) < 0.5, 1.0, -1.0)):
        start[2, :2] = 1.0, -1.0
        start[3, :], start[-3, :], start[0, :], start[1, :] = 1.0, 2.0, 3.0, 4.0
        edited = start.copy()
        EDITS[edit](edited)
        same = np.array_equal(start.view(np.uint64), edited.view(np.uint64))
        assert (guard.fingerprint(edited) == guard.fingerprint(start)) == same


@pytest.mark.parametrize("kind", [np.float32, np.complex128, np.int8, bool])
def test_fingerprint_of_other_types_and_layouts(kind):
    a = (normal(3, 70_001) * 10).astype(kind)
    for view in (a, a[1:], a[::3], a[:-1].reshape(700, 100).T, a[:-1].reshape(70, 10, 100)[:, ::2]):
        before = guard.fingerprint(view)
        assert guard.fingerprint(view) == before
        last = view[(-1,) * view.ndim]
        view[(-1,) * view.ndim] = not last if kind is bool else last + 1
        assert guard.fingerprint(view) != before


def test_fingerprint_of_a_broadcast_array_reads_its_memory_once():
    a = np.array([1.0, 2.0])
    huge = np.broadcast_to(a, (1 << 40, 2))
    before = guard.fingerprint(huge)
    a[1] = 3.0
    assert guard.fingerprint(huge) != before


@SIZES
def test_memory_that_cannot_be_written_to_is_neither_copied_nor_looked_at(n, monkeypatch):
    """Read-only is not enough: the owner of such an array may write to it again."""
    x, values = normal(1, n), normal(2, n)
    fixed = guard.constant(values)
    values[:] = 0.0
    with pytest.raises(ValueError, match="WRITEABLE"):
        fixed.flags.writeable = True
    looked = []
    fingerprint = guard.fingerprint
    monkeypatch.setattr(guard, "fingerprint", lambda array: looked.append(array.shape) or fingerprint(array))
    gradient = ds.grad(lambda x: dnp.sum(x * fixed) + dnp.sum(x * fixed.reshape(1, n)[0]))(x)
    assert looked == []
    np.testing.assert_array_equal(gradient, 2 * normal(2, n))


@SIZES
def test_a_read_only_array_may_become_writable(n):
    x, c = normal(1, n), normal(2, n)
    c.flags.writeable = False
    _, pullback = ds.vjp(lambda x: dnp.sum(x * x * c), x)
    expected = 2 * x * c
    c.flags.writeable = True
    c[n // 2] += 1.0
    assert_right_or_stale(lambda: pullback(1.0)[0], expected)


def test_an_index_in_memory_that_cannot_be_written_to_is_not_copied():
    index = np.array([2, 0, 2])
    fixed = guard.constant(index)
    assert normalise(fixed, plain=np.asarray)[0][0] is fixed
    assert not np.shares_memory(normalise(index, plain=np.asarray)[0][0], index)
    np.testing.assert_array_equal(ds.grad(lambda x: dnp.sum(x[fixed] ** 2))(np.arange(3.0)), [0.0, 0.0, 8.0])
