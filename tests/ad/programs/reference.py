"""The operators of the library as plain loops over NumPy arrays, so that every program runs without the library.

They take real, complex and object arrays alike: a complex step and a computation with many digits go through the same loops.
Derivatives inside a program are differences of eighth order here: good to some 1e-12, and to 1e-8 when nested three deep. That is
enough to check the plain form that such a program is given beside it, and it is the plain form that the library is held to.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy

from .trees import flatten, is_float, tree_map, unflatten

STEP = 1e-2
STENCIL = ((1, 4 / 5), (2, -1 / 5), (3, 4 / 105), (4, -1 / 280))


def _smaller(a: Any, b: Any) -> Any:
    return b if b < a else a


def _larger(a: Any, b: Any) -> Any:
    return b if b > a else a


OPERATORS: dict[str, Any] = {"+": (numpy.add, 0.0), "*": (numpy.multiply, 1.0), "min": (_smaller, numpy.inf), "max": (_larger, -numpy.inf)}
NEUTRAL: dict[Any, float] = {numpy.add: 0.0, numpy.multiply: 1.0, numpy.minimum: numpy.inf, numpy.maximum: -numpy.inf}


def _operator(op: Any, neutral: Any) -> tuple[Callable[[Any, Any], Any], Any]:
    """The operator on two scalars, and its neutral element where it is known."""
    if isinstance(op, str):
        op, known = OPERATORS[op]
        return op, known if neutral is None else neutral
    if isinstance(op, numpy.ufunc) and neutral is None:
        neutral = NEUTRAL.get(op)
    return op, neutral


def _columns(xs: Any, axis: int) -> tuple[tuple[numpy.ndarray, ...], bool]:
    """The arrays with the axis in front, and a flag if there was a tuple of them."""
    many = isinstance(xs, tuple)
    return tuple(numpy.moveaxis(numpy.asarray(x), axis, 0) for x in (xs if many else (xs,))), many


def _array(entries: list[Any], like: numpy.ndarray) -> numpy.ndarray:
    return numpy.array(entries) if entries else numpy.zeros(0, like.dtype)


def scan(op: Any, xs: Any, neutral: Any = None, *, axis: int = 0, reverse: bool = False, exclusive: bool = False) -> Any:
    """Running combinations along an axis, inclusive or exclusive, from the front or from the back."""
    op, neutral = _operator(op, neutral)
    arrays, many = _columns(xs, axis)
    order = range(len(arrays[0]))[:: -1 if reverse else 1]
    results = [numpy.zeros(a.shape, a.dtype) for a in arrays]
    for place in numpy.ndindex(arrays[0].shape[1:]):
        state = neutral
        for i in order:
            element = tuple(a[(i, *place)] for a in arrays) if many else arrays[0][(i, *place)]
            after = element if state is None else op(state, element)
            for result, entry in zip(results, (state if exclusive else after) if many else [state if exclusive else after], strict=True):
                result[(i, *place)] = entry
            state = after
    results = [numpy.moveaxis(r, 0, axis) for r in results]
    return tuple(results) if many else results[0]


def reduce(op: Any, xs: Any, neutral: Any = None, *, axis: int = 0) -> Any:
    """All entries along an axis combined from the first to the last."""
    op, neutral = _operator(op, neutral)
    arrays, many = _columns(xs, axis)
    results = [numpy.zeros(a.shape[1:], a.dtype) for a in arrays]
    for place in numpy.ndindex(arrays[0].shape[1:]):
        state = neutral
        for i in range(len(arrays[0])):
            element = tuple(a[(i, *place)] for a in arrays) if many else arrays[0][(i, *place)]
            state = element if state is None else op(state, element)
        for result, entry in zip(results, state if many else [state], strict=True):
            result[place] = entry
    return tuple(r[()] for r in results) if many else results[0][()]


def reduce_by_index(op: Any, dst: Any, index: Any, values: Any, neutral: Any = None) -> Any:
    """`dst` with each value combined into the entry its index names; indices outside are dropped."""
    op, _ = _operator(op, neutral)
    many = isinstance(dst, tuple)
    results, columns = (dst, values) if many else ((dst,), (values,))
    results = tuple(numpy.array(d, dtype=numpy.result_type(d, v)) for d, v in zip(results, columns, strict=True))
    for i, target in enumerate(numpy.asarray(index)):
        if 0 <= target < len(results[0]):
            new = op(tuple(r[target] for r in results), tuple(c[i] for c in columns)) if many else op(results[0][target], values[i])
            for result, entry in zip(results, new if many else (new,), strict=True):
                result[target] = entry
    return results if many else results[0]


def scatter(dst: Any, index: Any, values: Any) -> numpy.ndarray:
    """A copy of `dst` with the values at the indices; indices outside are dropped."""
    result = numpy.array(dst, dtype=numpy.result_type(dst, values))
    for i, target in enumerate(numpy.asarray(index)):
        if 0 <= target < len(result):
            result[target] = values[i]
    return result


def map(function: Callable[..., Any], *xs: Any) -> Any:
    """The function of each row, stacked; a tuple of arrays where it returns a tuple."""
    rows = [function(*row) for row in zip(*xs, strict=True)]
    if rows and isinstance(rows[0], tuple):
        return tuple(numpy.array(column) for column in zip(*rows, strict=True))
    return _array(rows, numpy.asarray(xs[0]))


def fori_loop(lower: int, upper: int, body: Callable[[int, Any], Any], init: Any, checkpoint: Any = None) -> Any:
    state = init
    for i in range(lower, upper):
        state = body(i, state)
    return state


def while_loop(cond: Callable[[Any], Any], body: Callable[[Any], Any], init: Any, checkpoint: Any = None) -> Any:
    state = init
    while cond(state):
        state = body(state)
    return state


def cond(pred: Any, true_fun: Callable[..., Any], false_fun: Callable[..., Any], *operands: Any) -> Any:
    return true_fun(*operands) if pred else false_fun(*operands)


def remat(function: Callable[..., Any]) -> Callable[..., Any]:
    return function


def stop_gradient(tree: Any) -> Any:
    """Identity; of a complex step it keeps the value and drops the perturbation."""
    return tree_map(lambda leaf: numpy.real(leaf) if is_float(leaf) else leaf, tree)


class custom_vjp:  # noqa: N801
    """The function itself: its rules test the library, and are not the source of the expectation."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function

    def __call__(self, *args: Any) -> Any:
        return self.function(*args)

    def defvjp(self, fwd: Callable[..., Any], bwd: Callable[..., Any]) -> None:
        pass


class custom_jvp(custom_vjp):  # noqa: N801
    """The function itself, as above."""

    def defjvp(self, rule: Callable[..., Any]) -> None:
        pass


def jvp(function: Callable[..., Any], primals: tuple[Any, ...], tangents: tuple[Any, ...]) -> tuple[Any, Any]:
    """Value and tangent, by differences."""
    out, point, direction = function(*primals), flatten(primals), flatten(tangents)

    def moved(shift: int) -> Any:
        return flatten(function(*unflatten(primals, point + shift * STEP * direction)))

    return out, unflatten(out, sum(weight * (moved(shift) - moved(-shift)) for shift, weight in STENCIL) / STEP)


def linearize(function: Callable[..., Any], *primals: Any) -> tuple[Any, Callable[..., Any]]:
    return function(*primals), lambda *tangents: jvp(function, primals, tangents)[1]


def _jacobian(function: Callable[..., Any], primals: tuple[Any, ...]) -> numpy.ndarray:
    size = flatten(primals).size
    return numpy.array([flatten(jvp(function, primals, unflatten(primals, row))[1]) for row in numpy.eye(size)]).T


def vjp(function: Callable[..., Any], *primals: Any) -> tuple[Any, Callable[[Any], Any]]:
    jacobian = _jacobian(function, primals)
    return function(*primals), lambda bar: unflatten(primals, flatten(bar) @ jacobian)


def value_and_grad(function: Callable[..., Any], argnums: int = 0) -> Callable[..., Any]:
    def both(*args: Any) -> tuple[Any, Any]:
        bound = lambda x: function(*args[:argnums], x, *args[argnums + 1 :])  # noqa: E731
        out, pullback = vjp(bound, args[argnums])
        return out, pullback(1.0)[0]

    return both


def grad(function: Callable[..., Any], argnums: int = 0) -> Callable[..., Any]:
    return lambda *args: value_and_grad(function, argnums)(*args)[1]


def jacobian(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda x: _jacobian(function, (x,)).reshape(numpy.shape(function(x)) + numpy.shape(x))


jacfwd = jacrev = jacobian


def hvp(function: Callable[[Any], Any], x: Any, v: Any) -> Any:
    return jvp(grad(function), (x,), (v,))[1]


def hessian(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return jacobian(grad(function))
