"""Ways in which a derivative could be lost without a word: each is right, or raises."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import numpy
import pytest
from scipy import special

import diffsim as ds
import diffsim.numpy as np
from diffsim.errors import DerivativeError, ParameterError, ShapeError, StaleValueError

X = numpy.array([1.1, 0.9, 0.7])


def test_a_simulation_moved_after_it_was_run() -> None:
    grid = ds.Grid((16, 18), 10.0)
    equation = ds.solvers.Acoustic(grid, dt=1e-3, order=2)
    places = [[[60.0, 100.0]], [[120.0, 60.0]]]
    wavelet = numpy.random.default_rng(0).standard_normal((12, 1))

    def moved(c: Any) -> Any:
        total = 0.0
        for place in places:
            simulation.move(sources={"f": place})
            total = total + np.sum(simulation.run({"c": c, "f": wavelet}, 12).traces["p"] ** 2)
        return total

    simulation = ds.Simulation(equation, sources={"f": places[0]}, receivers={"p": [[90.0, 90.0]]})
    shots = [ds.Simulation(equation, sources={"f": place}, receivers={"p": [[90.0, 90.0]]}) for place in places]
    c = 1500 + numpy.random.default_rng(1).standard_normal(grid.shape)
    v = numpy.random.default_rng(2).standard_normal(grid.shape)
    apart = lambda c: sum(np.sum(s.run({"c": c, "f": wavelet}, 12).traces["p"] ** 2) for s in shots)  # noqa: E731
    assert numpy.array_equal(ds.grad(moved)(c), ds.grad(apart)(c))
    assert numpy.allclose(ds.hvp(moved, c, v), ds.hvp(apart, c, v), rtol=1e-12, atol=0)


@pytest.mark.parametrize("body", ["fori_loop", "while_loop", "remat"])
def test_values_that_leave_a_body_sideways_are_refused(body: str) -> None:
    def f(x: Any) -> Any:
        kept: list[Any] = []

        def step(s: Any) -> Any:
            kept.append(np.sum(s * s))
            return s * x[0]

        if body == "fori_loop":
            ds.fori_loop(0, 3, lambda i, s: step(s), x)
        elif body == "while_loop":
            ds.while_loop(lambda s: len(kept) < 3, step, x)
        else:
            ds.remat(step)(x)
        return kept[0] * 1.0

    with pytest.raises(DerivativeError, match="a derivative that has ended"):
        ds.grad(f)(X)


def test_a_state_that_begins_as_an_integer_is_refused() -> None:
    with pytest.raises(ShapeError, match=r"begin with a floating-point value, such as 0\.0"):
        ds.jvp(lambda x: ds.fori_loop(0, 3, lambda i, s: s + x, 0), (2.0,), (1.0,))


def test_a_tangent_of_an_integer_is_refused() -> None:
    with pytest.raises(DerivativeError, match="tangent is given for int"):
        ds.jvp(lambda a: a * 3.0, (2,), (1.0,))


def test_rules_by_hand_may_edit_their_arguments() -> None:
    f = ds.custom_vjp(lambda x: x * 3.0)

    def backward(residual: Any, ct: Any) -> Any:
        ct *= 3
        residual *= 0
        return (ct + residual,)

    f.defvjp(lambda x: (x * 3.0, x * 1.0), backward)
    w = numpy.array([1.0, 10.0, 100.0])
    assert numpy.array_equal(ds.grad(lambda x: np.sum((f(x) + x) * w))(X), 4 * w)
    _, pullback = ds.vjp(f, X)
    ct = numpy.ones(3)
    assert numpy.array_equal(pullback(ct)[0], pullback(ct)[0]) and numpy.array_equal(ct, numpy.ones(3))


def test_a_rule_that_returns_its_own_array_does_not_lose_it() -> None:
    weights = numpy.array([1.0, 2.0, 3.0])
    f = ds.custom_vjp(lambda x: np.sum(x))
    f.defvjp(lambda x: (np.sum(x), None), lambda r, ct: (weights,))
    gradient = ds.grad(f)(X)
    gradient *= 0
    assert numpy.array_equal(weights, [1, 2, 3])


def test_functions_without_rules_do_not_share_memory_that_is_written_in_place() -> None:
    def f(x: Any) -> Any:
        a = np.zeros(3)
        a[:] = 2.0
        y = x * np.trim_zeros(a)
        a[0] = 5.0
        return np.sum(y)

    assert numpy.array_equal(ds.grad(f)(X), [2, 2, 2])


def test_an_argument_named_twice_is_refused() -> None:
    with pytest.raises(ShapeError, match="names an argument twice"):
        ds.grad(lambda a, b: a * b, argnums=(0, -2))(2.0, 3.0)


def test_overflow_behind_a_mask_and_linearize_at_a_singular_point() -> None:
    with numpy.errstate(over="ignore"):
        assert ds.grad(lambda x: np.where(x > 700, 0.0, np.exp(x)))(1000.0) == 0
    assert ds.linearize(lambda x: x * x, 3.0)[1](2.0) == 12


def test_aux_may_be_a_view() -> None:
    def f(x: Any) -> Any:
        y = np.zeros(3)
        y[:] = x
        view = y[1:]
        y[1] = y[0] * 2
        return np.sum(y), view

    gradient, aux = ds.grad(f, has_aux=True)(X)
    assert numpy.array_equal(gradient, [3, 0, 1]) and numpy.allclose(aux, [2.2, 0.7])


def test_arrays_of_numpy_that_are_to_hold_differentiated_values_name_a_remedy() -> None:
    def stored(x: Any) -> Any:
        y = numpy.zeros(3)
        y[0] = x[0]
        return y

    def added(x: Any) -> Any:
        y = numpy.zeros(3)
        np.add.at(y, [0], x[:1])
        return y

    with pytest.raises(ValueError, match="sequence") as caught:  # NumPy's; ours is its cause
        ds.vjp(stored, X)
    assert "use functions and arrays of diffsim.numpy" in str(caught.value.__cause__)
    with pytest.raises(DerivativeError, match=r"make the array with diffsim\.numpy"):
        ds.vjp(added, X)


def test_arguments_that_are_not_differentiated_for_stay_as_they_are() -> None:
    def f(x: Any, w: Any) -> Any:
        w[0] = 5.0
        return np.sum(x * w)

    w = numpy.ones(3)
    assert numpy.array_equal(ds.grad(f)(X, w), [5, 1, 1]) and numpy.array_equal(w, numpy.ones(3))


def test_an_array_that_bodies_read_and_is_edited_between_them_is_told() -> None:
    def f(x: Any) -> Any:
        w = numpy.array([2.0])
        s = ds.remat(lambda s: np.sum(s * w))(x[1])
        w[0] = 5.0
        return ds.remat(lambda s: np.sum(s * w))(s)

    with pytest.raises(StaleValueError, match="edited in place"):
        ds.grad(f)(X)


def test_temporaries_of_numpy_in_a_long_loop_are_not_kept() -> None:
    import tracemalloc

    def f(x: Any) -> Any:
        return np.sum(ds.fori_loop(0, 400, lambda i, s: s * numpy.cos(numpy.full(20000, 1e-3 * i)), x, checkpoint=5))

    tracemalloc.start()
    try:
        ds.grad(f)(numpy.ones(20000))
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert most < 40 * 20000 * 8  # not 400


def test_functions_of_other_libraries_join_by_a_rule() -> None:
    erf = ds.custom_jvp(lambda x: special.erf(x))
    erf.defjvp(lambda primals, tangents: (erf(primals[0]), tangents[0] * 2 / math.sqrt(math.pi) * np.exp(-(primals[0] ** 2))))
    ds.check_grads(lambda x: np.sum(erf(x) * x), (X,))
    assert numpy.allclose(ds.grad(lambda x: np.sum(x * special.erf(ds.stop_gradient(x))))(X), special.erf(X))
    with pytest.raises(DerivativeError, match="custom_vjp"):
        ds.grad(lambda x: np.sum(special.gamma(x)))(X)
    slope = ds.grad(lambda x: np.sum(special.erf(x)))(X)  # which diffsim has too
    assert numpy.allclose(slope, 2 / math.sqrt(math.pi) * numpy.exp(-(numpy.asarray(X) ** 2)))


def test_an_operator_that_is_not_associative_is_refused() -> None:
    for call in (ds.scan, ds.reduce):
        with pytest.raises(ParameterError, match="the operator is not associative"):
            call(lambda a, b: 0.5 * a + b, X)


def test_masked_arrays_and_matrices_are_refused() -> None:
    with pytest.raises(DerivativeError, match="takes part in a derivative"):
        ds.grad(lambda x: np.sum(x * x))(numpy.ma.masked_less(X, 1.0))
    with pytest.raises(DerivativeError, match=r"use numpy\.asarray on it"):
        ds.grad(lambda x: np.sum(x * x))(numpy.ones((2, 2)).view(numpy.matrix))


def test_tuples_are_arrays_in_arithmetic() -> None:
    assert numpy.array_equal(ds.grad(lambda x: np.sum(x * (1.0, 2.0, 3.0)))(X), [1, 2, 3])


def test_a_record_that_is_none_is_not_taken_for_one() -> None:
    _, pullback = ds.vjp(lambda x: SimpleNamespace(a=x * 2), X)
    with pytest.raises(ShapeError, match="register_pytree"):
        pullback(SimpleNamespace(a=X))


@pytest.mark.parametrize(
    "f",
    [
        lambda x, y: x,
        lambda x, y: x + y,
        lambda x, y: np.reshape(np.reshape(x, (4, 3)), (3, 4)) + y,
        lambda x, y: (x.T + y.T).T,
        lambda x, y: x + x + y,
    ],
    ids=["identity", "sum", "reshaped", "transposed", "twice"],
)
@pytest.mark.parametrize("repeats", [1, 200], ids=["small", "large"])
def test_results_have_memory_of_their_own(f, repeats):
    """Rules hand cotangents on as they are: the user may edit the arrays that a rule gets, and those that it returned."""
    x, y, cotangent = numpy.random.default_rng(0).standard_normal((3, 3, 4))
    f_of_many = lambda x, y: np.concatenate([np.ravel(f(a, b)) for a, b in zip(np.split(x, repeats), np.split(y, repeats), strict=True)])  # noqa: E731
    f_used, ct = (f, cotangent) if repeats == 1 else (f_of_many, numpy.tile(cotangent.ravel(), repeats))
    x, y = (numpy.tile(a, (repeats, 1)) for a in (x, y))
    bars = ds.vjp(f_used, x, y)[1](ct)
    arrays = [ct, x, y, *(bar for bar in bars if bar is not None)]
    assert not any(numpy.shares_memory(a, b) for k, a in enumerate(arrays) for b in arrays[:k])


def test_an_edit_through_axes_in_another_order():
    """An order that is not its own inverse."""
    rng = numpy.random.default_rng(0)
    x, weights, along = rng.standard_normal((3, 2, 3, 4))

    def f(x):
        y = x * 1.0
        view = np.transpose(y, (1, 2, 0))
        view[0] = view[0] * 3.0
        view[:, 1] = view[:, 1] ** 2
        return np.sum(y * weights)

    slope = (f(x + 1e-6 * along) - f(x - 1e-6 * along)) / 2e-6
    assert (ds.grad(f)(x) * along).sum() == pytest.approx(slope, rel=1e-7)
