"""Numbers in bodies that are run again: programs of Python's and NumPy's numbers and of arrays without axes give the same bits each time.

NumPy's power of a number and of an array without axes differ in the last bit. A program that sees one in one run and the other in the
next is refused by the comparison of runs, though it does nothing wrong.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import diffsim as ds
import diffsim.numpy as dnp
from diffsim.checkpoint import Policy
from tests.sampled import sampled

PROGRAMS = range(12), range(12, 40)
"""Seeds: those of the gate, and others."""
STEPS = 5
TOLERANCE = 1e-10
"""Tolerance of a gradient against the one without checkpoints: the sums are taken in another order."""

Step = Callable[[Any, Any], Any]
UNARY: tuple[Callable[[Any, float], Any], ...] = (
    lambda s, c: s**2,
    lambda s, c: s**3,
    lambda s, c: abs(s) ** 0.5,
    lambda s, c: abs(s) ** (1.0 + c),
    lambda s, c: (1.0 + c) ** s,
    lambda s, c: dnp.power(abs(s), c),
    lambda s, c: ds.stop_gradient(s) ** 2,
    lambda s, c: ds.stop_gradient(abs(s)) ** 1.7 * s,
    lambda s, c: float(ds.stop_gradient(s)) ** 2,
    lambda s, c: dnp.floor(s) ** 2 + s,
    lambda s, c: math.sin(ds.stop_gradient(s)) * s,
    lambda s, c: np.float64(c) ** 2 * s,
    lambda s, c: np.array(c) ** 2 * s,
    lambda s, c: dnp.asarray(s) ** 2,
    lambda s, c: dnp.array([s, s * c])[0] ** 2,
    lambda s, c: dnp.array([s, c]).sum() ** 3,
    lambda s, c: dnp.where(s > 0, s, c) ** 2,
    lambda s, c: dnp.full((), c) ** 2 + s,
    lambda s, c: dnp.sum(dnp.full(3, c)) ** 1.3 * s,
    lambda s, c: s % (1.0 + c),
    lambda s, c: dnp.exp(-abs(s)) ** 2,
    lambda s, c: dnp.reshape(s, ()) ** 2,
    lambda s, c: dnp.sqrt(c) ** 3 * s,
    lambda s, c: s.real ** 2 if isinstance(s, float) else dnp.real(s) ** 2,
)  # fmt: skip
BINARY: tuple[Callable[[Any, Any], Any], ...] = (
    lambda a, b: a + b,
    lambda a, b: a * b,
    lambda a, b: a - 0.5 * b,
    lambda a, b: a / (1.0 + abs(b)),
    lambda a, b: dnp.maximum(a, b),
    lambda a, b: dnp.hypot(a, b),
    lambda a, b: abs(a) ** dnp.tanh(b),
)
FORMS: dict[str, Callable[[float], Any]] = {"number of Python": float, "number of NumPy": np.float64, "array": np.array}


def program(seed: int) -> Step:
    """A random step of a number s that also reads a number c from around it; it stays between -1.3 and 1.3."""
    rng = np.random.default_rng(seed)
    chosen = [(UNARY[k], float(c)) for k, c in zip(rng.integers(0, len(UNARY), 3), rng.uniform(0.2, 0.9, 3), strict=True)]
    joined = [BINARY[k] for k in rng.integers(0, len(BINARY), 3)]

    def step(s: Any, c: Any) -> Any:
        t = s
        for (unary, constant), binary in zip(chosen, joined, strict=True):
            t = binary(unary(t, constant), c)
            t = dnp.tanh(t) * 1.3
        return t

    return step


LOOPS: dict[str, Callable[[Step, Any, Any], Any]] = {
    "remat": lambda step, s, c: ds.remat(lambda v: step(v, c))(ds.remat(step)(s, c)),
    "fori_loop": lambda step, s, c: ds.fori_loop(0, STEPS, lambda i, v: step(v, c), s, checkpoint=2),
    "fori_loop with its own c": lambda step, s, c: ds.fori_loop(0, STEPS, lambda i, v: (step(*v), v[1]), (s, c), checkpoint=2)[0],
    "while_loop": lambda step, s, c: ds.while_loop(lambda v: v[1] < STEPS, lambda v: (step(v[0], c), v[1] + 1), (s, 0), checkpoint=2)[0],
    "integrate": lambda step, s, c: ds.integrate(lambda v: step(v, c), s, steps=STEPS, checkpoint=2),
    "custom_jvp in a loop": lambda step, s, c: ds.fori_loop(0, STEPS, lambda i, v: by_rule(step)(v, c), s, checkpoint=2),
    "nested": lambda step, s, c: ds.fori_loop(0, 2, lambda i, v: ds.remat(step)(step(v, c), c), s, checkpoint=1),
}


def by_rule(step: Step) -> Any:
    f = ds.custom_jvp(step)
    f.defjvp(lambda args, dots: ds.jvp(step, args, dots))
    return f


def by_adjoint(step: Step) -> Any:
    f = ds.custom_vjp(step)
    f.defvjp(lambda s, c: (step(s, c), (s, c)), lambda kept, ct: ds.vjp(step, *kept)[1](ct))
    return f


def plainly(loop: str, step: Step, s: Any, c: Any) -> Any:
    """The same without running anything again."""
    for _ in range({"remat": 2, "nested": 4}.get(loop, STEPS)):
        s = step(s, c)
    return s


@pytest.mark.parametrize("seeds", sampled(PROGRAMS, ids=str))
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("loop", LOOPS)
def test_scalar_programs_are_run_again_with_the_same_bits(loop: str, form: str, seeds: range) -> None:
    for seed in seeds:
        step = program(seed)
        for start, around in ((0.37, 0.81), (-0.9, 0.35)):
            s, c = FORMS[form](start), FORMS[form](around)
            result = ds.value_and_grad(lambda s, c, step=step: LOOPS[loop](step, s, c), (0, 1))(s, c)
            expected = ds.value_and_grad(lambda s, c, step=step: plainly(loop, step, s, c), (0, 1))(s, c)
            for a, b in zip((result[0], *result[1]), (expected[0], *expected[1]), strict=True):
                np.testing.assert_allclose(a, b, rtol=TOLERANCE, atol=TOLERANCE, err_msg=f"program {seed}")


def test_power_of_a_constant_and_of_a_number() -> None:
    f = ds.remat(lambda s: s * ds.stop_gradient(s) ** 2)
    for x in np.random.default_rng(3).uniform(0.1, 3.0, 300):
        assert ds.grad(f)(x) == pytest.approx(x**2, rel=1e-14)


def test_numbers_of_a_body_convert_as_they_do_outside() -> None:
    seen = []

    def body(s: Any) -> Any:
        seen.append((float(ds.stop_gradient(s)), f"{ds.stop_gradient(s):.2f}", math.floor(s), s > 0.5))
        return s * seen[-1][0]

    assert ds.grad(ds.remat(body))(1.5) == 1.5
    assert len(seen) == 2
    assert seen[0] == seen[1] == (1.5, "1.50", 1, True)


@pytest.mark.parametrize("arranged", [lambda x: x, lambda x: np.asfortranarray(x), lambda x: x[::-1], lambda x: x[:, ::2]])
def test_views_in_a_body_are_those_of_the_function_itself(arranged: Callable[[np.ndarray], np.ndarray]) -> None:
    x = arranged(np.arange(1.0, 13.0).reshape(3, 4))

    def f(x: Any) -> Any:
        y = x.ravel()
        y[0] = 100.0
        return dnp.sum(x * x) + dnp.sum(y)

    np.testing.assert_array_equal(ds.grad(ds.remat(f))(x), ds.grad(f)(x))


@pytest.mark.parametrize("folder", [False, True])
def test_states_of_a_loop_lie_in_memory_in_one_way(folder: bool, tmp_path: Any) -> None:
    x = np.asfortranarray(np.arange(1.0, 13.0).reshape(3, 4) / 10)

    def body(i: int, s: Any) -> Any:
        s = s * 1.1
        y = s.ravel()
        y[0] = 0.5
        return s.T.T * 1.0

    policy = Policy(slots=1, folder=str(tmp_path), disk="1 MB") if folder else 2
    gradient = ds.grad(lambda x: dnp.sum(ds.fori_loop(0, 7, body, x, checkpoint=policy) ** 2))(x)
    assert gradient[0, 0] == 0
    np.testing.assert_allclose(gradient[1:], 2 * x[1:] * 1.1**14, rtol=1e-13)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("loop", [loop for loop in LOOPS if "custom" not in loop])
@pytest.mark.parametrize("by_hand", [by_rule, by_adjoint])
def test_a_function_with_a_derivative_by_hand_sees_the_same_types_in_each_run(by_hand: Callable[[Step], Any], loop: str, form: str) -> None:
    """Its bits depend on them. They are the same for its rule and for itself, as runs of a sweep may call either."""
    seen = set()

    def step(s: Any, c: Any) -> Any:
        seen.add((type(s), type(c)))
        return dnp.tanh(s**3 * c)

    s, c = FORMS[form](0.63), FORMS[form](0.84)
    ds.value_and_grad(lambda s, c: LOOPS[loop](by_hand(step), s, c), (0, 1))(s, c)
    assert len(seen) == 1
