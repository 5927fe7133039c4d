"""A function that edits its arguments: each transformation gives it arrays of its own, whatever called the transformation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy
import pytest

import diffsim as ds
import diffsim.numpy as np
from tests.sampled import together

X = numpy.array([1.5, -0.7])


def edited(y: Any, c: Any) -> Any:
    """A number of both arguments, after an edit of the second."""
    c[0] = 5.0 * c[1]
    return np.sum(np.sin(y) * c)


def both(y: Any, c: Any) -> Any:
    """A number of both arguments, after an edit of each, the first by a view."""
    np.reshape(y, (-1,))[0] = 0.5
    return edited(y, c)


TRANSFORMED: dict[str, Callable[[Any], Callable[[Any, Any], Any]]] = {
    "grad": lambda f: ds.grad(f),
    "grad of the second": lambda f: ds.grad(f, argnums=1),
    "value_and_grad": lambda f: lambda y, c: ds.value_and_grad(f)(y, c)[0],
    "by keyword": lambda f: lambda y, c: ds.grad(lambda y, c: f(y, c))(y, c=c),
    "vjp": lambda f: lambda y, c: ds.vjp(f, y, c)[0],
    "jvp": lambda f: lambda y, c: ds.jvp(f, (y, c), (y, None))[1],
    "jvp of both": lambda f: lambda y, c: ds.jvp(f, (y, c), (y, c))[1],
    "jacobian": lambda f: ds.jacobian(f),
    "jacrev": lambda f: ds.jacrev(f),
    "jacfwd": lambda f: ds.jacfwd(f),
    "hessian": lambda f: ds.hessian(lambda y, c: f(y, c) ** 2),
    "linearize": lambda f: lambda y, c: ds.linearize(f, y, c)[1](y, c),
    "pytree": lambda f: lambda y, c: ds.grad(lambda y, p: f(y, p["c"][0]))(y, {"c": [c]}),
}


def result(name: str, f: Any, y: Any) -> tuple[Any, Any]:
    """The result of a transformation, and the second argument afterwards."""
    c = np.array([3.0, 1.0]) * np.sum(y)
    return np.sum(TRANSFORMED[name](f)(y, c)), c


@together([(name, f) for name in TRANSFORMED for f in (edited, both)], name=lambda case: f"{case[0]} of {case[1].__name__}", apart=True)
def test_a_caller_keeps_the_arguments_that_a_function_edits(name: str, f: Any) -> None:
    c, y = numpy.array([3.0, 1.0]) * X.sum(), X.copy()
    expected = numpy.sum(TRANSFORMED[name](f)(y, c))
    assert numpy.array_equal(c, numpy.array([3.0, 1.0]) * X.sum()) and numpy.array_equal(y, X)

    def loss(y: Any) -> Any:
        value, c = result(name, f, y)
        return value + np.sum(c * c * y)

    wanted = expected + numpy.sum(c * c * X)
    value, gradient = ds.value_and_grad(loss)(X)
    _, slope = ds.jvp(loss, (X,), (X,))
    h = 1e-4
    difference = (4 * (loss(X + h * X) - loss(X - h * X)) - 0.5 * (loss(X + 2 * h * X) - loss(X - 2 * h * X))) / (6 * h)
    assert abs(value - wanted) < 1e-12 * abs(wanted)
    assert abs(gradient @ X - slope) < 1e-12 * abs(slope)
    assert abs(slope - difference) < 1e-8 * abs(slope)


@pytest.mark.parametrize("f", [lambda y: both(y, 1.0 * y[::-1]), lambda y: np.sin(y).__iadd__(edited(y, y))])
def test_a_check_leaves_arguments_as_they_are(f: Any) -> None:
    y = X.copy()
    ds.check_grads(f, (y,))
    assert numpy.array_equal(y, X)


def of_no_axes(x: Any) -> Any:
    """A function that edits an array of no axes through a view."""
    view = x[None]
    view += 0.3
    return np.sum(np.sin(x) ** 2)


def of_columns(x: Any) -> Any:
    """A function that edits what is a copy where the columns of an array lie together in memory, and a view where its rows do."""
    flat = x.reshape(-1)
    flat[1] = flat[1] ** 2
    return np.sum(x**3)


PLACES = {
    "no axes": (of_no_axes, numpy.array(-0.8)),
    "columns together": (of_columns, numpy.asfortranarray(numpy.arange(6.0).reshape(2, 3) + 0.3)),
    "rows together": (of_columns, numpy.arange(6.0).reshape(2, 3) + 0.3),
}
NESTED: dict[str, Callable[[Any, Any], Any]] = {
    "grad": lambda f, x: ds.value_and_grad(f)(x)[0],
    "jvp": lambda f, x: ds.jvp(f, (x,), (x,))[0],
    "vjp": lambda f, x: ds.vjp(f, x)[0],
}


@together([(place, inner, outer) for place in PLACES for inner in NESTED for outer in NESTED], name=" of ".join, apart=True)
def test_nested_derivatives_see_the_array_that_was_given(place: str, inner: str, outer: str) -> None:
    """An array of no axes has views, a number has none; and which reshapes are views depends on the memory."""
    f, x = PLACES[place]
    value = f(x.copy(order="K"))
    assert NESTED[outer](lambda y: NESTED[inner](f, y), x) == pytest.approx(value, rel=1e-14)


def test_the_second_derivative_of_an_edited_array_of_no_axes() -> None:
    x = numpy.array(-0.8)
    assert float(ds.grad(ds.grad(of_no_axes))(x)) == pytest.approx(2 * numpy.cos(2 * (x + 0.3)), rel=1e-12)


JACOBIANS = [ds.jacobian, ds.jacfwd, ds.jacrev]


@pytest.mark.parametrize("jacobian", JACOBIANS)
def test_jacobians_take_an_array_that_is_filled_anew(jacobian: Any) -> None:
    def loss(x: Any) -> Any:
        work, total = numpy.ones(200_000), 0.0
        for lap in range(3):
            work[:] = lap + 1.0
            total = total + np.sum(jacobian(lambda v, w: v * v * w[0])(x, work))
        return total

    assert ds.grad(loss)(X) == pytest.approx([12.0, 12.0], rel=1e-14)


@pytest.mark.parametrize("jacobian", JACOBIANS)
def test_an_array_that_is_passed_twice_is_one(jacobian: Any) -> None:
    def f(y: Any, a: Any, b: Any) -> Any:
        a[0] = 9.0
        return y * b

    twice = numpy.array([2.0, 3.0])
    assert numpy.array_equal(jacobian(f)(X, twice, twice), numpy.diag([9.0, 3.0]))
    assert numpy.array_equal(twice, [2.0, 3.0])


@pytest.mark.parametrize("jacobian", JACOBIANS)
@pytest.mark.parametrize(
    ("argument", "use"),
    [
        (numpy.arange(3.0), lambda c: len(c.tobytes()) / 24),
        (numpy.arange(3.0), lambda c: float(c.view("i8")[0]) + 1),
        (numpy.ones(2, [("a", "f8"), ("b", "i4")]), lambda c: c["a"][0]),
        (numpy.ma.masked_array([1.0, 5.0], [False, True]), lambda c: c.sum()),
    ],
    ids=["bytes", "other type", "structure", "mask"],
)
def test_jacobians_pass_arrays_of_numpy_as_such(jacobian: Any, argument: Any, use: Any) -> None:
    assert numpy.array_equal(jacobian(lambda y, c: y * use(c))(X, argument), numpy.eye(2))


def test_what_holds_no_array_is_passed_as_it_is() -> None:
    log: list[float] = []
    ds.jacfwd(lambda y, seen: (seen.append(1.0), y * 2.0)[1])(X, log)
    assert log == [1.0, 1.0]
