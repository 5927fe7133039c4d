"""Values that an operation keeps for its derivative, edited afterwards: over all ways to hand a value over, and all times to edit it.

Each way is a function of x and of a weight w that it gets otherwise than as a differentiated argument: the sum of w x^2. Its gradient
is 2 w x with the w that there was at the call; an error that names the edit is right too, another number never.
"""

from __future__ import annotations

import array
import itertools
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import diffsim as ds
import diffsim.numpy as dnp
from diffsim.ad.arrays import guard
from diffsim.errors import ReplayError, StaleValueError
from tests.language import ti
from tests.sampled import together

Array1 = ti.types.ndarray(dtype=ti.f64, ndim=1)
TINY, LARGE = 3, guard.COPY_BYTES // 8 + 1
START = 2.0
TOLERANCE = 1e-12

# weights that are taken from around
WEIGHTS = np.full(TINY, START)
WEIGHT = START
LIST = [START, 7.0]
VECTOR = ti.Vector([START, 7.0])
PLACE = SimpleNamespace(weight=START)


@ds.kernel(reads=("x", "w"), writes={"y": "x"})
def product(x: Array1, w: Array1, y: Array1):
    for i in x:
        y[i] = w[i] * x[i] ** 2


@ds.kernel(reads=("x",), writes=("w",))
def product_in_place(x: Array1, w: Array1):
    for i in x:
        w[i] = w[i] * x[i] ** 2


@ds.kernel(reads=("x", "w"), writes={"y": "x"})
def by_hand(x: Array1, w: Array1, y: Array1):
    for i in x:
        y[i] = w[i] * x[i] ** 2


BUFFERS: dict[int, tuple[np.ndarray, np.ndarray]] = {}


@by_hand.adjoint
def in_buffers(inputs: Any, outputs: Any, cotangents: Any) -> Any:
    """Works in place on all that it gets, and gives the same memory each time."""
    x, w = inputs
    buffers = BUFFERS.setdefault(x.size, (np.empty(x.size), np.empty(x.size)))
    np.multiply(2 * x * w, cotangents[0], out=buffers[0])
    np.multiply(x**2, cotangents[0], out=buffers[1])
    for each in (*inputs, *outputs, *cotangents):
        each[:] = np.nan
    return buffers


@ds.kernel(reads=("x",), writes={"y": "x"})
def with_global(x: Array1, y: Array1):
    for i in x:
        y[i] = WEIGHT * x[i] ** 2


@ds.kernel(reads=("x",), writes={"y": "x"})
def with_list(x: Array1, y: Array1):
    for i in x:
        y[i] = LIST[0] * x[i] ** 2


@ds.kernel(reads=("x",), writes={"y": "x"})
def with_vector(x: Array1, y: Array1):
    for i in x:
        y[i] = VECTOR[0] * x[i] ** 2


@ds.kernel(reads=("x",), writes={"y": "x"})
def with_attribute(x: Array1, y: Array1):
    for i in x:
        y[i] = PLACE.weight * x[i] ** 2


@ti.func
def weighed(v):
    return WEIGHT * v


@ds.kernel(reads=("x",), writes={"y": "x"})
def with_function(x: Array1, y: Array1):
    for i in x:
        y[i] = weighed(x[i] ** 2)


@ds.kernel(reads=("x", "y_bar"), writes={"x_bar": "x"})
def adjoint_with_global(x: Array1, y_bar: Array1, x_bar: Array1):
    for i in x:
        x_bar[i] = 2 * WEIGHT * x[i] * y_bar[i]


@ds.kernel(reads=("x",), writes={"y": "x"})
def with_adjoint_kernel(x: Array1, y: Array1):
    for i in x:
        y[i] = WEIGHT * x[i] ** 2


with_adjoint_kernel.adjoint(adjoint_with_global)


@ds.kernel(reads=("x",), writes={"y": "x"})
def with_adjoint_function(x: Array1, y: Array1):
    for i in x:
        y[i] = WEIGHT * x[i] ** 2


@with_adjoint_function.adjoint
def reads_global(inputs: Any, outputs: Any, cotangents: Any) -> Any:
    return (2 * WEIGHT * inputs[0] * cotangents[0],)


def with_closure() -> tuple[Callable[[Any, Any], Any], Callable[[float], None]]:
    weight = START

    @ds.kernel(reads=("x",), writes={"y": "x"})
    def kernel(x: Array1, y: Array1):
        for i in x:
            y[i] = weight * x[i] ** 2

    def assign(value: float) -> None:
        nonlocal weight
        weight = value

    return lambda x, w: dnp.sum(kernel(x)), assign


def custom(backward: Callable[..., Any], residual: Callable[[Any, Any], Any], nondiff: tuple[int, ...] = ()) -> Any:
    f = ds.custom_vjp(lambda w, x: dnp.sum(w * x * x), nondiff_argnums=nondiff)
    f.defvjp(lambda w, x: (dnp.sum(w * x * x), residual(w, x)), backward)
    return f


def keeping(w: Any) -> Any:
    f = ds.custom_vjp(lambda x: dnp.sum(w * x * x))
    f.defvjp(lambda x: (dnp.sum(w * x * x), (w, x)), lambda kept, ct: (2 * ct * kept[0] * kept[1],))
    return f


of_argument = custom(lambda kept, ct: (None, 2 * ct * kept[0] * kept[1]), lambda w, x: (w, x))
of_nondiff = custom(lambda w, kept, ct: (2 * ct * w * kept,), lambda w, x: x, (0,))
of_surroundings = custom(lambda kept, ct: (None, 2 * ct * WEIGHTS * kept), lambda w, x: x)
of_number = custom(lambda kept, ct: (None, 2 * ct * WEIGHT * kept), lambda w, x: x)
forward_rule = ds.custom_jvp(lambda w, x: dnp.sum(w * x * x))
forward_rule.defjvp(lambda args, dots: (forward_rule(*args), dnp.sum(2 * args[0] * args[1] * dots[1])))

OF_ARRAYS: dict[str, Callable[[Any, Any], Any]] = {
    "kernel": lambda x, w: dnp.sum(product(x, w)),
    "kernel by name": lambda x, w: dnp.sum(product(w=w, x=x)),
    "kernel in place": lambda x, w: dnp.sum(product_in_place(x, w)),
    "kernel by hand": lambda x, w: dnp.sum(by_hand(x, w)),
    "kernel, a view": lambda x, w: dnp.sum(product(x, w[:])),
    "kernel, a buffer": lambda x, w: dnp.sum(product(x, memoryview(w))),
    "kernel, reversed": lambda x, w: dnp.sum(product(x, w[::-1])),
    "custom_vjp": lambda x, w: of_argument(w, x),
    "custom_vjp, not differentiated": lambda x, w: of_nondiff(w, x),
    "custom_vjp, residual": lambda x, w: keeping(w)(x),
    "custom_jvp": lambda x, w: forward_rule(w, x),
    "fori_loop": lambda x, w: ds.fori_loop(0, 1, lambda i, s: dnp.sum(w * x * x), 0.0),
    "integrate": lambda x, w: ds.integrate(lambda s: s + dnp.sum(w * x * x), 0.0, steps=1),
    "while_loop": lambda x, w: ds.while_loop(lambda s: s[0] < 1, lambda s: (s[0] + 1, dnp.sum(w * x * x)), (0, 0.0))[1],
    "state of a loop": lambda x, w: ds.fori_loop(0, 1, lambda i, s: (s[0], s[0] * s[1] ** 2), (w, x))[1].sum(),
    "remat": lambda x, w: ds.remat(lambda v: dnp.sum(w * v * v))(x),
    "remat, an argument": lambda x, w: ds.remat(lambda v, u: dnp.sum(u * v * v))(x, w),
    "map": lambda x, w: dnp.sum(ds.map(lambda v, u: v * v * u, x, w)),
    "scan": lambda x, w: ds.scan("+", w * x * x)[-1],
    "reduce_by_index": lambda x, w: dnp.sum(ds.reduce_by_index("+", np.zeros(1), np.zeros(x.size, int), w * x * x)),
    "operator": lambda x, w: dnp.sum(w * x * x),
    "a buffer": lambda x, w: dnp.sum(dnp.multiply(memoryview(w), x * x)),
    "einsum": lambda x, w: dnp.einsum("i,i,i", w, x, x),
    "interp": lambda x, w: dnp.sum(dnp.interp(x * x, np.array([-100.0, 100.0]), np.array([-100.0, 100.0])) * dnp.asarray(w)),
    "matmul": lambda x, w: dnp.asarray(w) @ (x * x),
    "where": lambda x, w: dnp.sum(dnp.where(w > 0, w, w) * x * x),
}


def globally(name: str) -> Callable[[float], None]:
    def assign(value: float) -> None:
        globals()[name] = value

    return assign


def fill(value: float) -> None:
    WEIGHTS[:] = value


def set_attribute(value: float) -> None:
    PLACE.weight = value


def set_entry(value: float) -> None:
    LIST[0] = value


def set_vector(value: float) -> None:
    globals()["VECTOR"] = ti.Vector([value, 7.0])


def closure_of_loop() -> tuple[Callable[[Any, Any], Any], Callable[[float], None]]:
    weight = START

    def assign(value: float) -> None:
        nonlocal weight
        weight = value

    return lambda x, w: ds.fori_loop(0, 1, lambda i, s: weight * dnp.sum(x * x), 0.0), assign


OF_SURROUNDINGS: dict[str, tuple[Callable[[Any, Any], Any], Callable[[float], None]]] = {
    "global": (lambda x, w: dnp.sum(with_global(x)), globally("WEIGHT")),
    "list": (lambda x, w: dnp.sum(with_list(x)), set_entry),
    "vector": (lambda x, w: dnp.sum(with_vector(x)), set_vector),
    "attribute": (lambda x, w: dnp.sum(with_attribute(x)), set_attribute),
    "closure": with_closure(),
    "function of Taichi": (lambda x, w: dnp.sum(with_function(x)), globally("WEIGHT")),
    "adjoint kernel": (lambda x, w: dnp.sum(with_adjoint_kernel(x)), globally("WEIGHT")),
    "adjoint function": (lambda x, w: dnp.sum(with_adjoint_function(x)), globally("WEIGHT")),
    "rule, array": (lambda x, w: of_surroundings(WEIGHTS, x), fill),
    "rule, number": (lambda x, w: of_number(np.full(TINY, WEIGHT), x), globally("WEIGHT")),
    "loop, number": closure_of_loop(),
}

EDITS: dict[str, Callable[[np.ndarray], None]] = {
    "all": lambda w: w.fill(100.0),
    "one": lambda w: w.__setitem__(1, -5.0),
    "in place": lambda w: np.negative(w, out=w),
    "through a view": lambda w: w[::-1].__setitem__(slice(0, 2), [8.0, 9.0]),
}


def right_or_refused(run: Callable[[], Any], expected: np.ndarray) -> None:
    """`run` gives the expected values, or raises an error that names the edited array."""
    try:
        result = run()
    except (StaleValueError, ReplayError):
        return
    np.testing.assert_allclose(result, expected, rtol=TOLERANCE, atol=TOLERANCE)


def weights(n: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(n)
    return rng.normal(size=n), np.full(n, START)


@together(itertools.product(OF_ARRAYS, EDITS, (TINY, LARGE)), apart=True)
def test_array_edited_after_the_call(way: str, edit: str, n: int) -> None:
    operation, change = OF_ARRAYS[way], EDITS[edit]
    x, w = weights(n)

    def f(x: Any) -> Any:
        y = operation(x, w)
        change(w)
        return y

    right_or_refused(lambda: ds.grad(f)(x), 2 * START * x)
    w.fill(START)
    _, pullback = ds.vjp(lambda x: operation(x, w), x)
    change(w)
    right_or_refused(lambda: pullback(1.0)[0], 2 * START * x)


@together(itertools.product(OF_ARRAYS, (TINY, LARGE)), apart=True)
def test_work_buffer_filled_for_each_call(way: str, n: int) -> None:
    x, w = weights(n)

    def f(x: Any) -> Any:
        total = 0.0
        for k in (1.0, 2.0, 3.0):
            w.fill(k)
            total = total + OF_ARRAYS[way](x, w)
        return total

    right_or_refused(lambda: ds.grad(f)(x), 12 * x)


@together(OF_ARRAYS)
def test_without_an_edit_the_gradient_is_there(way: str) -> None:
    x, w = weights(TINY)
    value, pullback = ds.vjp(lambda x: OF_ARRAYS[way](x, w) + OF_ARRAYS[way](x, w), x)
    for _ in range(2):
        np.testing.assert_allclose(pullback(1.0)[0], 4 * START * x, rtol=TOLERANCE, atol=TOLERANCE)
    np.testing.assert_allclose(value, 2 * START * np.sum(x * x), rtol=TOLERANCE)


@pytest.mark.parametrize("way", OF_SURROUNDINGS)
def test_surroundings_changed_after_the_call(way: str) -> None:
    operation, assign = OF_SURROUNDINGS[way]
    x, w = weights(TINY)
    try:
        assign(START)
        value, pullback = ds.vjp(lambda x: operation(x, w), x)
        np.testing.assert_allclose(pullback(1.0)[0], 2 * START * x, rtol=TOLERANCE)
        assign(5.0)
        right_or_refused(lambda: pullback(1.0)[0], 2 * START * x)
        assert value == pytest.approx(START * np.sum(x * x))
        np.testing.assert_allclose(ds.grad(lambda x: operation(x, w))(x), 10.0 * x, rtol=TOLERANCE)

        def f(x: Any) -> Any:
            total = 0.0
            for k in (1.0, 2.0, 3):
                assign(k)
                total = total + operation(x, w)
            return total

        assign(START)
        right_or_refused(lambda: ds.grad(f)(x), 12 * x)
    finally:
        assign(START)


@pytest.mark.parametrize("way", ["global", "list", "vector", "attribute", "closure", "function of Taichi", "adjoint kernel"])
def test_a_kernel_whose_surroundings_change_within_a_function_has_no_derivative(way: str) -> None:
    operation, assign = OF_SURROUNDINGS[way]
    x, w = weights(TINY)

    def f(x: Any) -> Any:
        assign(2.0)
        first = operation(x, w)
        assign(3.0)
        return first + operation(x, w)

    try:
        assert f(x) == pytest.approx(5.0 * np.sum(x * x))
        with pytest.raises(StaleValueError, match=r"changed itself or in a part after the kernel was called .* pass it as an argument"):
            ds.grad(f)(x)
    finally:
        assign(START)


def test_other_arrays_than_numpys_are_copied() -> None:
    w = array.array("d", [START] * TINY)
    x, _ = weights(TINY)

    def f(x: Any) -> Any:
        y = dnp.sum(product(x, w)) + dnp.sum(dnp.multiply(w, x * x))
        w[1] = 100.0
        return y

    np.testing.assert_allclose(ds.grad(f)(x), 4 * START * x, rtol=TOLERANCE)


def test_a_rule_may_count_its_calls() -> None:
    count = 0

    def backward(kept: Any, ct: Any) -> Any:
        nonlocal count
        count += 1
        return (2 * ct * kept,)

    f = ds.custom_vjp(lambda x: dnp.sum(x * x))
    f.defvjp(lambda x: (f(x), x), backward)
    x, _ = weights(TINY)
    np.testing.assert_allclose(ds.grad(lambda x: f(x) + f(2.0 * x))(x), 10 * x, rtol=TOLERANCE)
    assert count == 2


def test_the_error_names_the_changed_array() -> None:
    x, _ = weights(TINY)
    _, pullback = ds.vjp(lambda x: of_surroundings(WEIGHTS, x), x)
    try:
        WEIGHTS[0] = 9.0
        with pytest.raises(StaleValueError, match=r"reads WEIGHTS, which was changed after the operation at .*test_kept\.py:\d+"):
            pullback(1.0)
    finally:
        WEIGHTS[:] = START


@pytest.mark.parametrize("view", [lambda w: w[:], lambda w: w[::-1], lambda w: np.asarray(memoryview(w))])
def test_a_large_view_is_watched_as_long_as_its_memory_is_held(view: Callable[[np.ndarray], Any]) -> None:
    x, w = weights(LARGE)

    def f(x: Any) -> Any:
        y = dnp.sum(x * x * view(w))
        for _ in range(3):  # after so many bytes it is looked which arrays nobody else holds
            y = y + 0.0 * dnp.sum(x * np.ones(LARGE))
        return y

    _, pullback = ds.vjp(f, x)
    w[:] = 100.0
    with pytest.raises(StaleValueError):
        pullback(1.0)
