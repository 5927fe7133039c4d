"""Checkpointed loops: the same gradient for every budget, bounded memory, and bodies that break the rules."""

from __future__ import annotations

import threading
import tracemalloc
from typing import Any

import numpy
import pytest

import diffsim as ds
import diffsim.numpy as np
from diffsim.checkpoint import Binomial, ChaosWarning, MultiTier, Policy, Reversible, StoreAll, Tier
from diffsim.errors import DiffsimError, ParameterError, PlanError, ScheduleError, ShapeError, StaleValueError

STEPS = 37
FIRST = 3  # not 0: steps keep their numbers when they are run again


def oscillator(checkpoint, around=lambda f: f):
    """A damped oscillator with an entry of a table as its force; everything is traced, some of it from around the loop."""

    def f(x, v, table, damping):
        scale = damping * damping

        def body(i, state):
            x, v = state["x"], state["v"]
            v = v * (1.0 - 0.1 * scale) - 0.1 * np.sin(x) + table[i % 5]
            return {"x": x + 0.1 * v, "v": v}

        if checkpoint is None:
            state = {"x": x, "v": v}
            for i in range(FIRST, FIRST + STEPS):
                state = body(i, state)
        else:
            state = ds.fori_loop(FIRST, FIRST + STEPS, body, {"x": x, "v": v}, checkpoint=checkpoint)
        return np.sum(state["x"] * state["v"])

    return f


def start():
    rng = numpy.random.default_rng(8)
    return rng.standard_normal(3), rng.standard_normal(3), rng.standard_normal(5), 0.7


BUDGETS = [1, 2, 3, 7, STEPS, "auto", "10 MB", StoreAll(STEPS), Binomial(STEPS, 4)]


@pytest.mark.parametrize("checkpoint", BUDGETS, ids=lambda b: b if isinstance(b, (int, str)) else type(b).__name__)
def test_every_budget_gives_the_gradient_of_the_python_loop(checkpoint):
    arguments = range(4)
    expected = ds.grad(oscillator(None), argnums=arguments)(*start())
    stored = ds.grad(oscillator(StoreAll(STEPS)), argnums=arguments)(*start())
    gradient = ds.grad(oscillator(checkpoint), argnums=arguments)(*start())
    for bar, one, other in zip(gradient, stored, expected, strict=True):
        numpy.testing.assert_array_equal(bar, one)
        numpy.testing.assert_allclose(bar, other, rtol=1e-13)  # outside values are summed in another order


def test_hessian_vector_product_of_a_budget():
    x, v, table, damping = start()
    dot = numpy.random.default_rng(9).standard_normal(3)
    expected = ds.hvp(lambda x: oscillator(None)(x, v, table, damping), x, dot)
    for checkpoint in (1, 5, "auto"):
        product = ds.hvp(lambda x, c=checkpoint: oscillator(c)(x, v, table, damping), x, dot)
        numpy.testing.assert_allclose(product, expected, rtol=1e-12)


def test_steps_are_run_again_as_often_as_binomial_checkpointing_says():
    calls = 0

    def body(i, s):
        nonlocal calls
        calls += 1
        return s * 1.01

    ds.grad(lambda x: ds.fori_loop(0, 20, body, x, checkpoint=20))(1.0)
    everything_kept, calls = calls, 0
    ds.grad(lambda x: ds.fori_loop(0, 20, body, x, checkpoint=3))(1.0)
    assert everything_kept == 41  # to find the values, to see the memory of a tape, and for the tapes
    assert 59 < calls <= 100  # 20 steps in three slots: two more repetitions at most


def test_memory_is_bounded_by_the_slots():
    n, steps = 1 << 15, 400  # 256 KiB a state

    def most(checkpoint):
        x = numpy.full(n, 0.5)
        tracemalloc.start()
        try:
            ds.grad(lambda x: np.sum(ds.fori_loop(0, steps, lambda i, s: np.sin(s) + 0.1 * x, x, checkpoint=checkpoint)))(x)
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    assert most(5) < 40 * 8 * n  # five states, the tape of a step, what is being made, and memory that waits for use; not 400 tapes


def test_many_steps_in_fifty_slots():
    """s + h (1 - s^2): the slope at the end is the product of 1 - 2 h s."""
    steps, h = 5_000, 1 / 5_000
    tracemalloc.start()
    try:
        slope = ds.grad(lambda x: ds.fori_loop(0, steps, lambda i, s: s + h * (1.0 - s * s), x, checkpoint=50))(0.0)
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert float(slope) == pytest.approx(numpy.cosh(1.0) ** -2, rel=1e-3)  # of tanh, which the steps approximate
    assert most < 16 << 20


# kinds of states


def test_loop_without_steps_is_the_identity():
    def f(x):
        return ds.fori_loop(3, 3, lambda i, s: s * 7.0, x) + ds.while_loop(lambda s: False, lambda s: s * 7.0, x)

    assert float(ds.grad(f)(2.0)) == 2.0
    assert float(f(2.0)) == 4.0


@pytest.mark.parametrize(
    "loop",
    [
        lambda a: ds.fori_loop(0, 0, lambda _, s: 0.5 * s, a),
        lambda a: ds.fori_loop(0, 3, lambda _, s: s[::-1], a),
        lambda a: ds.while_loop(lambda s: s[0] > 9, lambda s: 0.5 * s, a),
    ],
)
def test_a_result_is_no_view_of_the_first_state(loop: Any) -> None:
    def edited(x: Any) -> Any:
        a = np.sin(x)
        result = loop(a)
        a[:2] = 7.0
        return result

    x = numpy.linspace(0.1, 0.4, 4)
    assert numpy.array_equal(edited(x), ds.vjp(edited, x)[0])
    assert not (edited(x) == 7.0).any()


def test_bounds_give_the_numbers_of_the_steps():
    seen = []
    assert ds.fori_loop(-2, 3, lambda i, s: seen.append(i) or s + i, 0) == 0
    assert seen == [-2, -1, 0, 1, 2]


def test_state_of_numbers_flags_and_nothing():
    def f(x):
        def body(s):
            y, count, flag, nothing = s
            return y * x, count + 1, not flag, nothing

        y, count, flag, nothing = ds.while_loop(lambda s: s[1] < 3, body, (1.0, 0, False, None))
        assert (count, flag, nothing) == (3, True, None)
        return y

    assert float(ds.grad(f)(2.0)) == 12.0


def test_number_that_becomes_differentiated():
    """The first state is a plain number, and the later ones depend on outside values."""
    assert float(ds.grad(lambda x: ds.fori_loop(0, 3, lambda i, s: s * x, 1.0))(2.0)) == 12.0


def test_results_outside_of_a_derivative_are_numpy():
    out = ds.fori_loop(0, 2, lambda i, s: s * 2.0, numpy.ones(3))
    assert type(out) is numpy.ndarray
    numpy.testing.assert_array_equal(out, 4.0)


def test_a_body_may_assign_to_its_own_arrays_and_to_its_state():
    def f(x):
        def body(i, s):
            s[i] = s[i - 1] * x[i]
            work = np.zeros(3)
            work[1] = s[i]
            return s + work

        return np.sum(ds.fori_loop(0, 3, body, x, checkpoint=1))

    def written_out(x):
        s = x * 1.0
        for i in range(3):
            s[i] = s[i - 1] * x[i]
            s = s + np.stack([0.0 * x[0], s[i], 0.0 * x[0]])
        return np.sum(s)

    x = numpy.array([0.5, -1.5, 2.0])
    numpy.testing.assert_allclose(ds.grad(f)(x), ds.grad(written_out)(x), rtol=1e-13)
    numpy.testing.assert_array_equal(x, [0.5, -1.5, 2.0])


def counted(checkpoint, first=1, factor=6364136223846793005):
    """A loop that counts in Python's integers, which outgrow 64 bits, or stay small for a factor of 1."""

    def f(x):
        def body(i, s):
            return {"x": s["x"] * (1.01 + 1e-9 * (s["k"] % 97)), "k": s["k"] * factor + 1, "b": not s["b"]}

        return np.sum(ds.fori_loop(0, 8, body, {"x": x, "k": first, "b": True}, checkpoint=checkpoint)["x"])

    return ds.grad(f)(numpy.ones(2))


def test_integers_of_any_length_are_compared_by_value():
    numpy.testing.assert_array_equal(counted(2), counted(StoreAll(8)))


def with_text(checkpoint):
    def f(x):
        def body(i, s):
            return {"x": s["x"] * (1.5 if s["m"] == "a" else 0.5) + 0.1 * s["x"] ** 2, "m": "b" if s["m"] == "a" else "a"}

        return np.sum(ds.fori_loop(0, 8, body, {"x": x, "m": "a"}, checkpoint=checkpoint)["x"])

    return ds.grad(f)(numpy.full(2, 0.3))


HOST = MultiTier(8, (Tier("device", 1), Tier("host", 4, 0.1, 0.1)))


def test_numbers_come_back_from_slow_tiers_and_nothing_else_goes_there():
    numpy.testing.assert_array_equal(counted(HOST, factor=1), counted(StoreAll(8), factor=1))
    numpy.testing.assert_array_equal(with_text(2), with_text(StoreAll(8)))
    for refused in (lambda: with_text(Policy(schedule=HOST, verify=False)), lambda: counted(HOST), lambda: counted(HOST, first=2**63)):
        with pytest.raises(PlanError, match=r"expected numbers, of 64 bits .* schedule without slow tiers"):
            refused()


def test_more_slots_than_steps_are_as_many_as_steps():
    def f(x, checkpoint):
        return np.sum(ds.while_loop(lambda s: s[0] < 3.0, lambda s: s * 1.5, x, checkpoint=checkpoint))

    x = numpy.ones(2)
    numpy.testing.assert_array_equal(ds.grad(f)(x, 30), ds.grad(f)(x, 2))


def test_progress_of_a_loop_is_told(monkeypatch):
    monkeypatch.setattr("diffsim.checkpoint.progress.REPORT_SECONDS", 0.0)
    shares: list[float] = []
    policy = Policy(slots=3, progress=lambda share, left: shares.append(share))
    oscillator_gradient = ds.grad(oscillator(policy))(*start())
    numpy.testing.assert_array_equal(oscillator_gradient, ds.grad(oscillator(3))(*start()))
    assert len(shares) > 10
    assert shares == sorted(shares)
    assert shares[-1] == 1.0


def test_nested_loops_share_a_policy_with_files(tmp_path):
    tier = Policy(schedule=MultiTier(6, (Tier("device", 1), Tier("disk", 3, 0.1, 0.1))), folder=tmp_path)

    def f(x, checkpoint):
        def inner(y):
            return ds.integrate(lambda z: z * 1.01 + 0.01 * z * z, y, steps=6, checkpoint=checkpoint)

        return np.sum(ds.integrate(inner, x, steps=6, checkpoint=checkpoint))

    x = numpy.full(3, 0.3)
    numpy.testing.assert_array_equal(ds.grad(f)(x, tier), ds.grad(f)(x, StoreAll(6)))
    assert not list(tmp_path.iterdir())


# errors


@pytest.mark.parametrize("loop", [ds.fori_loop, ds.while_loop, ds.integrate], ids=lambda f: f.__name__)
def test_a_loop_does_not_resume(loop, tmp_path):
    policy = Policy(folder=tmp_path, resume=60.0)
    calls = {
        ds.fori_loop: lambda: loop(0, 2, lambda i, s: s, 1.0, checkpoint=policy),
        ds.while_loop: lambda: loop(lambda s: s < 2.0, lambda s: s + 1.0, 1.0, checkpoint=policy),
        ds.integrate: lambda: loop(lambda s: s, 1.0, steps=2, checkpoint=policy),
    }
    with pytest.raises(ParameterError, match="no resume= in the policy of a loop"):
        calls[loop]()


class BodyError(Exception):
    pass


@pytest.mark.parametrize("when", ["first run", "run again"])
def test_error_of_a_body_comes_out_as_it_is_and_leaves_nothing_behind(when):
    runs = 0

    def body(i, s):
        nonlocal runs
        runs += 1
        if runs > (2 if when == "first run" else 5):
            raise BodyError("of the user")
        return s * 2.0

    f = ds.grad(lambda x: ds.fori_loop(0, 4, body, x, checkpoint=1))
    with pytest.raises(BodyError, match="of the user"):
        f(1.0)
    assert type(np.ones(2)) is numpy.ndarray  # no transformation is running
    assert float(ds.grad(lambda x: ds.remat(np.exp)(x))(0.0)) == 1.0


@pytest.mark.parametrize(
    ("body", "error", "message"),
    [
        (lambda i, s: (s, s), ShapeError, r"returned a state of the structure \(\*, \*\), expected that of the first, \*"),
        (lambda i, s: s[:1], ShapeError, r"returned an array of shape \(1,\), expected that of the state, \(2,\)"),
        (lambda i, s: None, ShapeError, r"returned a state of the structure None"),
    ],
)
def test_body_that_changes_the_state(body, error, message):
    with pytest.raises(error, match=message):
        ds.grad(lambda x: np.sum(ds.fori_loop(0, 2, body, x)))(numpy.ones(2))


def test_body_that_assigns_to_an_array_from_around():
    def f(x):
        outside = np.zeros(2)

        def body(i, s):
            outside[i] = s
            return s

        return ds.fori_loop(0, 2, body, x) + np.sum(outside)

    with pytest.raises(StaleValueError, match=r"made outside is assigned to inside .* return it, or make it inside"):
        ds.grad(f)(1.0)


def test_body_that_assigns_to_a_view_of_an_array_from_around():
    def f(x):
        outside = np.zeros(4) + x

        def body(s):
            part = outside[1:3]
            part += s
            return s

        return ds.remat(body)(x) + np.sum(outside)

    with pytest.raises(StaleValueError, match="made outside"):
        ds.grad(f)(1.0)


@pytest.mark.parametrize(("limit", "right"), [(4, True), (3, False)])
def test_while_loop_that_takes_too_many_steps(limit, right):
    def f(x):
        return ds.while_loop(lambda s: s[1] < 4, lambda s: (s[0] * x, s[1] + 1), (x, 0), max_steps=limit)[0]

    if right:
        assert float(ds.grad(f)(1.0)) == 5.0
    else:
        with pytest.raises(ParameterError, match="more than max_steps = 3"):
            ds.grad(f)(1.0)


@pytest.mark.parametrize("checkpoint", [0, -1, "1 B", "lots", Binomial(5, 2)])
def test_budget_that_cannot_work(checkpoint):
    with pytest.raises((PlanError, ScheduleError, ParameterError)) as caught:
        ds.grad(lambda x: np.sum(ds.fori_loop(0, 9, lambda i, s: s * x, x, checkpoint=checkpoint)))(numpy.ones(100))
    assert isinstance(caught.value, DiffsimError) and len(str(caught.value)) > 30


def test_one_pullback_in_two_threads_at_once():
    """The number of the step is no state that runs share."""
    weights = numpy.random.default_rng(6).standard_normal(300)

    def f(x):
        w = x * weights
        return ds.fori_loop(0, 300, lambda i, s: s + np.sin(s) * w[i], 0.1 * x, checkpoint=3)

    _, pullback = ds.vjp(f, 1.0)
    expected = float(pullback(1.0)[0])
    gradients: list[float] = []
    threads = [threading.Thread(target=lambda: gradients.append(float(pullback(1.0)[0]))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
    assert gradients == [expected] * 4


def test_body_may_return_its_dict_in_another_order():
    def f(x):
        return ds.fori_loop(0, 3, lambda i, s: {"b": s["b"] * s["a"], "a": s["a"] + 1.0}, {"a": x, "b": 1.0})["b"]

    assert float(ds.grad(f)(2.0)) == pytest.approx(3 * 4 + 2 * 4 + 2 * 3)


@pytest.mark.parametrize("checkpoint", ["auto", 100])
def test_chaos_in_a_loop_is_told_at_the_users_line(checkpoint):
    """Lorenz 1963, whose errors double about every second."""

    def lorenz(s):
        x, y, z = s[0], s[1], s[2]
        return s + 0.01 * np.stack([10.0 * (y - x), x * (28.0 - z) - y, x * y - 8.0 / 3.0 * z])

    with pytest.warns(ChaosWarning) as warnings:
        ds.grad(lambda s: ds.integrate(lorenz, s, steps=2000, checkpoint=checkpoint)[0])(numpy.array([1.0, 1.0, 20.0]))
    assert warnings[0].filename == __file__


@pytest.mark.parametrize("checkpoint", ["auto", 10])
def test_growth_of_a_linear_loop_is_no_chaos(checkpoint):
    gradient = ds.grad(lambda u: ds.integrate(lambda v: 1.1 * v, u, steps=300, checkpoint=checkpoint))(1.0)  # warnings are errors
    assert float(gradient) == pytest.approx(1.1**300)


def test_a_loop_cannot_be_undone():
    with pytest.raises(ScheduleError, match="can be undone"):
        ds.grad(lambda u: ds.integrate(lambda v: 1.1 * v, u, steps=12, checkpoint=Reversible(12, 6)))(1.0)


def test_a_condition_that_gives_an_array_is_refused() -> None:
    start = numpy.array([1.0, 2.0])
    loops = {
        "until": lambda x: ds.integrate(lambda s: s * 1.5, x, until=lambda s: s > 9),
        "cond": lambda x: ds.while_loop(lambda s: s < 9, lambda s: s * 1.5, x),
        "pred": lambda x: ds.cond(x > 1, lambda: x, lambda: -x),
    }
    for name, loop in loops.items():
        for call in (loop, ds.grad(lambda x, loop=loop: np.sum(loop(x)))):
            with pytest.raises(ShapeError, match=rf"expected {name} to give one truth value, got an array of shape \(2,\); make one of it"):
                call(start)
    one = ds.integrate(lambda s: s * 1.5, start, until=lambda s: s.sum(keepdims=True) > 9)
    numpy.testing.assert_array_equal(one, start * 1.5**3)
