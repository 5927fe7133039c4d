"""The tape: linear in the operations, of any depth, freed as soon as nothing needs it, and apart in every thread."""

from __future__ import annotations

import contextlib
import gc
import threading
import tracemalloc
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import numpy
import pytest

import diffsim as ds
import diffsim.numpy as np
from diffsim.ad.transforms import sweep
from diffsim.ad.transforms.modes import Node

MIB = 1 << 20
N = MIB // 8
"""Entries of an array of one MiB."""


@contextlib.contextmanager
def counted(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, int]]:
    """How many operations are on the tape, and how many rules are run."""
    counts = {"taped": 0, "pulled": 0}
    make, pull = Node.__init__, sweep._pull

    def counting_make(self: Any, *args: Any, **kwargs: Any) -> None:
        counts["taped"] += 1
        make(self, *args, **kwargs)

    def counting_pull(*args: Any) -> Any:
        counts["pulled"] += 1
        return pull(*args)

    with monkeypatch.context() as patch:
        patch.setattr(Node, "__init__", counting_make)
        patch.setattr(sweep, "_pull", counting_pull)
        yield counts


@contextlib.contextmanager
def without_collector() -> Iterator[None]:
    """Reference counts alone free memory here: no cycles."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


# linear cost


def doubled(x: Any, times: int) -> Any:
    for _ in range(times):
        x = x + x
    return x


@pytest.mark.parametrize("times", [10, 1000])
def test_shared_values_are_visited_once(monkeypatch, times):
    with counted(monkeypatch) as counts:
        _, pullback = ds.vjp(lambda x: doubled(x, times), 2.0**-times)
        pullback(1.0)
    assert counts == {"taped": times + 1, "pulled": times}


def test_value_added_to_itself_a_hundred_thousand_times():
    steps = 100_000

    def f(x):
        y = x
        for _ in range(steps):
            y = y + y
            y = y * 0.5
        return y

    assert float(ds.grad(f)(3.0)) == 1.0


def test_a_long_chain_needs_no_recursion():
    def f(x):
        y = x
        for _ in range(200_000):  # a hundred times Python's limit of recursion
            y = y * 1.0
        return y

    assert float(ds.grad(f)(3.0)) == 1.0


def test_views_of_views_without_end():
    def f(x):
        v = x
        while len(v) > 1:
            v = v[1:] if len(v) % 2 else v.T[1:]
        x[-1] *= 2.0
        return v[0]

    bar = ds.grad(f)(numpy.ones(3000))
    assert bar[-1] == 2.0 and numpy.count_nonzero(bar) == 1


def work_of_copies(f: Callable[[Any], Any], n: int) -> int:
    """Entries that are copied in whole by assignments in the forward run."""
    copied = 0
    from diffsim.ad.ops import structure

    writable = structure._writable

    def counting(x: Any, donate: bool, dtype: Any = None) -> Any:
        nonlocal copied
        out = writable(x, donate, dtype)
        copied += out.size if out is not x else 0
        return out

    structure._writable = counting  # type: ignore[assignment]
    try:
        ds.vjp(f, numpy.ones(n))
    finally:
        structure._writable = writable  # type: ignore[assignment]
    return copied


def by_entries(x):
    y = np.zeros(x.shape)
    for i in range(1, len(x)):
        y[i] = y[i - 1] + x[i]
    return y


def by_rows(x):
    y = np.zeros((len(x), 10))
    for i in range(1, len(x)):
        y[i, :] += y[i - 1] * x[i]
    return y


def by_entries_of_a_view(x):
    y = np.zeros((len(x), 2))
    v = y[1:, 0]
    for i in range(1, len(v)):
        v[i] = v[i - 1] + x[i]
    return y


def by_named_rows(x):
    y = np.zeros((len(x), 10))
    for i in range(1, len(x)):
        row = y[i]
        row[:] = y[i - 1]
        row[0] += x[i]
    return y


@pytest.mark.parametrize("f", [by_entries, by_rows, by_entries_of_a_view, by_named_rows])
def test_filling_an_array_bit_by_bit_is_linear(f):
    assert work_of_copies(f, 400) <= 4.5 * work_of_copies(f, 100) + 400


# memory


class Marked(numpy.ndarray):
    """An array whose end can be observed."""


def test_nothing_is_left_after_a_gradient():
    with without_collector():
        tracemalloc.start()
        try:
            x = numpy.ones(N)
            ds.grad(lambda x: np.sum(np.exp(x) * x))(x)
            before = tracemalloc.get_traced_memory()[0]
            for _ in range(5):
                ds.grad(lambda x: np.sum(np.exp(x) * x))(x)
            after = tracemalloc.get_traced_memory()[0]
        finally:
            tracemalloc.stop()
    assert after - before < MIB // 4


def nodes_alive() -> int:
    return sum(type(o) is Node for o in gc.get_objects())


def failing(x):
    raise_after = np.exp(x) * x
    raise KeyError(float(ds.stop_gradient(np.sum(raise_after))))


def failing_rule(x):
    @ds.custom_vjp
    def identity(y):
        return y * 1.0

    identity.defvjp(lambda y: (y * 1.0, None), lambda _, ct: (ct[:1],))
    return np.sum(identity(np.exp(x)))


PROGRAMS = {
    "assignments": lambda x: np.sum(by_entries(x) * x),
    "views": lambda x: np.sum(x.copy().reshape(2, -1).T[1:][::-1] * 2.0),
    "remat": lambda x: np.sum(ds.remat(np.exp)(x)),
    "fori_loop": lambda x: np.sum(ds.fori_loop(0, 7, lambda i, s: s * x, x, checkpoint=2)),
    "while_loop": lambda x: np.sum(ds.while_loop(lambda s: s[1] < 3, lambda s: (s[0] * x, s[1] + 1), (x, 0))[0]),
    "scan": lambda x: np.sum(ds.scan(lambda a, b: a * b, x)),
    "nested": lambda x: np.sum(ds.grad(lambda y: np.sum(np.sin(y) * x))(x)),
    "failing": failing,
    "failing rule": failing_rule,
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_no_node_outlives_a_gradient(name):
    def run() -> None:
        with contextlib.suppress(KeyError, ds.errors.ShapeError):
            ds.grad(PROGRAMS[name])(numpy.linspace(0.5, 1.5, 6))

    run()  # caches
    with without_collector():
        before = nodes_alive()
        run()
        assert nodes_alive() == before


def test_record_lives_as_long_as_its_pullback():
    with without_collector():
        before = nodes_alive()
        _, pullback = ds.vjp(lambda x: np.exp(x) * x, numpy.ones(3))
        assert nodes_alive() > before
        pullback(numpy.ones(3))
        assert nodes_alive() > before
        del pullback
        assert nodes_alive() == before


def test_users_arrays_are_let_go():
    with without_collector():
        used = [numpy.ones(n).view(Marked) for n in (50, 2 * N)]
        ends = [weakref.ref(array) for array in used]
        ds.grad(lambda x: np.sum(ds.remat(lambda s: s * used[0])(x[:50])) + np.sum(x * used[1]))(numpy.ones(2 * N))
        with contextlib.suppress(KeyError):
            ds.grad(lambda x: failing(x * used[1]))(numpy.ones(2 * N))
        ds.jvp(lambda x: x * used[1], (1.0,), (1.0,))
        used.clear()
        assert [end() for end in ends] == [None, None]


def test_unused_values_are_freed_while_running():
    most = 0

    def f(x):
        nonlocal most
        for _ in range(20):
            unused = np.exp(x) * 2.0
            unused = np.sin(unused)
            most = max(most, tracemalloc.get_traced_memory()[0])
        del unused
        return np.sum(x)

    x = numpy.ones(N)
    tracemalloc.start()
    try:
        ds.vjp(f, x)
    finally:
        tracemalloc.stop()
    assert most < 9 * MIB  # and not 60


def test_linear_operations_keep_no_values():
    x = numpy.ones(N)
    tracemalloc.start()
    try:
        _, pullback = ds.vjp(lambda x: np.sum(doubled(x, 30)), x)
        held = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert held < 3 * MIB
    assert pullback(1.0)[0][0] == 2.0**30


# threads


def power_by_loop(k: int) -> tuple[Callable[[Any], Any], Callable[[float], float]]:
    def f(x):
        y = np.ones(4)
        for _ in range(k):
            y[1:] = y[1:] * x
            y[0] += np.sum(y[1:]) * 0.0
        return ds.fori_loop(0, 2, lambda i, s: s * ds.remat(np.sum)(y), 1.0, checkpoint=1)  # (1 + 3 x^k)^2

    return f, lambda x: 2 * (1 + 3 * x**k) * 3 * k * x ** (k - 1)


@pytest.mark.parametrize("count", [2, 8])
def test_threads_differentiate_apart(count):
    start = threading.Barrier(count)
    wrong: list[Any] = []

    def work(k: int) -> None:
        f, slope = power_by_loop(k)
        start.wait(timeout=30)
        for x in numpy.linspace(0.8, 1.2, 12):
            slopes = float(ds.grad(f)(x)), float(ds.jvp(f, (x,), (1.0,))[1])
            if slopes != pytest.approx((slope(x),) * 2, rel=1e-12):
                wrong.append((k, x, slopes, slope(x)))

    threads = [threading.Thread(target=work, args=(k + 1,)) for k in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
    assert not any(thread.is_alive() for thread in threads)
    assert wrong == []


def test_pullback_is_called_in_another_thread():
    _, pullback = ds.vjp(lambda x: ds.remat(np.exp)(x) * x, 1.0)
    gradients: list[float] = []
    thread = threading.Thread(target=lambda: gradients.append(float(pullback(1.0)[0])))
    thread.start()
    thread.join(timeout=30)
    assert gradients == pytest.approx([2 * numpy.e])
