"""Arrays share memory, copy it and are assigned to as NumPy's do: random programs, against NumPy and against complex step."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as some

import diffsim as ds
import diffsim.numpy as dnp

# A program only moves, adds and multiplies: complex step loses a few roundings of it, but no digits to a difference.
GRADIENT_TOLERANCE = 1e-11
STEP = 1e-150
EXPECTED_ERRORS = (TypeError, ValueError, IndexError)


class Choices:
    """Numbers that a program is made of, dealt out one after another, and zeros when they have run out."""

    def __init__(self, numbers: list[int]) -> None:
        self.numbers: Iterator[int] = iter(numbers)

    def below(self, n: int) -> int:
        return next(self.numbers, 0) % max(n, 1)

    def of(self, options: Any) -> Any:
        return options[self.below(len(options))]


def basic_index(c: Choices, shape: tuple[int, ...]) -> Any:
    parts: list[Any] = []
    for n in shape[: c.below(len(shape) + 1) or len(shape)]:
        kind = c.below(4)
        if kind == 0 and n:
            parts.append(c.below(2 * n) - n)
        elif kind == 1:
            parts.append(slice(None, None, c.of((1, -1, 2, -2))))
        else:
            parts.append(slice(c.of((None, 0, 1, -2, -1)), c.of((None, n, -1, 1, n + 3)), c.of((None, 1, 2, -1, -3))))
    extra = c.below(6)
    if extra == 1:
        parts.insert(c.below(len(parts) + 1), None)
    elif extra == 2:
        parts.append(Ellipsis)
    elif extra == 3:
        parts.insert(0, Ellipsis)
    return tuple(parts) if len(parts) != 1 or c.below(2) else parts[0]


def advanced_index(c: Choices, shape: tuple[int, ...]) -> Any:
    if not shape or not math.prod(shape):
        return numpy.zeros(shape, bool)
    kind = c.below(6)
    n = shape[0]
    if kind == 0:
        return (numpy.arange(math.prod(shape)) * (1 + c.below(7)) % 3 == 1).reshape(shape)
    if kind == 1:
        return numpy.arange(n) % 2 == c.below(2)
    if kind == 2:
        return [c.below(2 * n) - n for _ in range(1 + c.below(4))]
    if kind == 3:
        return numpy.array(c.below(n))
    if kind == 4:
        return tuple(numpy.array([c.below(m), c.below(m) - m, c.below(m)]) for m in shape)
    return (Ellipsis, numpy.array([[c.below(2 * shape[-1]) - shape[-1] for _ in range(2)]]))


def index(c: Choices, shape: tuple[int, ...]) -> Any:
    return advanced_index(c, shape) if c.below(3) == 2 else basic_index(c, shape)


def another_shape(c: Choices, size: int) -> tuple[int, ...]:
    shape, rest = [], size
    for _ in range(c.below(3)):
        factors = [k for k in range(1, rest + 1) if rest % k == 0] or [0]
        shape.append(c.of(factors))
        rest = rest // shape[-1] if shape[-1] else 0
    return (*shape, -1 if size and c.below(2) else rest)


def value_for(np: Any, c: Choices, shape: tuple[int, ...], a: Any) -> Any:
    """Something that can be assigned at a place of this shape."""
    kind = c.below(5)
    if kind == 0:
        return c.below(9) - 4.0
    if kind == 1:
        return np.sum(a)
    if kind == 2:
        return np.sum(a) * (1.0 + numpy.arange(math.prod(shape)).reshape(shape))
    flat = np.reshape(a, -1)
    if kind == 3 and shape and flat.shape[0]:
        return flat[numpy.arange(shape[-1]) % flat.shape[0]][None]
    if flat.shape[0] < math.prod(shape):
        return 0.5
    return np.reshape(flat[: math.prod(shape)], shape)


def place_of(a: Any, where: Any) -> tuple[int, ...]:
    return numpy.empty(numpy.shape(a))[where].shape


# Each takes the namespace, the choices, an array and a second one; its result is a further array of the program.


def read(np: Any, c: Choices, a: Any, b: Any) -> Any:
    return a[index(c, a.shape)]


def view(np: Any, c: Choices, a: Any, b: Any) -> Any:
    return a[basic_index(c, a.shape)]


def turned(np: Any, c: Choices, a: Any, b: Any) -> Any:
    order = list(range(a.ndim))
    for k in range(a.ndim):
        order.insert(c.below(a.ndim), order.pop(k))
    return np.transpose(a, order) if c.below(2) else a.T


def reshaped(np: Any, c: Choices, a: Any, b: Any) -> Any:
    kind = c.below(4)
    return a.ravel() if kind == 0 else a.flatten() if kind == 1 else np.reshape(a, another_shape(c, a.size))


def other_view(np: Any, c: Choices, a: Any, b: Any) -> Any:
    kind = c.below(6)
    if kind == 0:
        return np.flip(a)
    if kind == 1:
        return np.expand_dims(a, c.below(a.ndim + 1))
    if kind == 2:
        return np.squeeze(a)
    if kind == 3:
        return np.broadcast_to(a, (2, *a.shape))
    if kind == 4 and a.ndim > 1:
        return np.diagonal(a, c.below(3) - 1)
    return np.moveaxis(a, 0, -1) if a.ndim else np.atleast_1d(a)


def copied(np: Any, c: Choices, a: Any, b: Any) -> Any:
    kind = c.below(4)
    return a.copy() if kind == 0 else np.array(a) if kind == 1 else np.copy(a) if kind == 2 else a * 2.0


def alias(np: Any, c: Choices, a: Any, b: Any) -> Any:
    return a if c.below(2) else np.asarray(a)


def combined(np: Any, c: Choices, a: Any, b: Any) -> Any:
    return a * b if a.shape == b.shape else a - np.sum(b)


def assigned(np: Any, c: Choices, a: Any, b: Any) -> None:
    where = index(c, a.shape)
    value = value_for(np, c, place_of(a, where), b)
    is_mask = isinstance(where, numpy.ndarray) and where.dtype == bool
    a[where] = value * 1.0 if is_mask else value  # through a mask NumPy reads entries of a view after it has overwritten them


def added(np: Any, c: Choices, a: Any, b: Any) -> None:
    where = index(c, a.shape)
    a[where] += value_for(np, c, place_of(a, where), b)


def scaled_view(np: Any, c: Choices, a: Any, b: Any) -> Any:
    v = a[basic_index(c, a.shape)]
    v *= 2.0
    return v


def added_whole(np: Any, c: Choices, a: Any, b: Any) -> None:
    a += value_for(np, c, a.shape, b)


def overlapping(np: Any, c: Choices, a: Any, b: Any) -> None:
    kind = c.below(3)
    if kind == 0:
        a[1:] = a[:-1]
    elif kind == 1:
        a[...] = a[::-1]
    else:
        a[numpy.arange(a.shape[0])[::-1]] = a


def flat_entry(np: Any, c: Choices, a: Any, b: Any) -> Any:
    where = c.of((slice(None, None, 2), slice(1, 3)))
    a.flat[c.below(a.size)] = np.sum(b)
    return a.flat[where]


def added_at(np: Any, c: Choices, a: Any, b: Any) -> None:
    where = index(c, a.shape)
    if isinstance(a, numpy.ndarray) and not a.flags.writeable:
        raise ValueError("NumPy's add.at writes to read-only arrays")
    place = place_of(a, where)
    value = value_for(np, c, place, b)
    np.add.at(a, where, value[0] if numpy.ndim(value) > len(place) else value)  # NumPy takes a leading axis at some indices only


def filled(np: Any, c: Choices, a: Any, b: Any) -> None:
    if a.ndim:  # NumPy's numbers have a fill() that does nothing
        a.fill(np.sum(b))


OPERATIONS: tuple[Callable[..., Any], ...] = (
    read, view, turned, reshaped, other_view, copied, alias, combined, assigned, added, scaled_view, added_whole, overlapping, flat_entry,
    added_at, filled, assigned, added, view, reshaped,
)  # fmt: skip
LARGEST = 200
"""Entries of an array that a program may make; broadcasting grows them."""


def run(np: Any, program: list[list[int]], x: Any, y: Any, s: Any) -> tuple[list[Any], list[str]]:
    """All arrays of a program, and which steps were refused."""
    arrays = [x, y, s, np.zeros((2, 5)) + s * 0.0, np.array(s)]
    refused = []
    for k, numbers in enumerate(program):
        c = Choices(numbers)
        operation, a, b = c.of(OPERATIONS), c.below(len(arrays)), c.below(len(arrays))
        try:
            result = operation(np, c, arrays[a], arrays[b])
        except EXPECTED_ERRORS:
            refused.append(f"{k} {operation.__name__}")
            continue
        if result is not None and result.size <= LARGEST:
            arrays.append(result)
    return arrays, refused


def inputs(kind: type = float) -> tuple[Any, Any, Any]:
    """Rows, a padded array with its axes turned, and a number."""
    rng = numpy.random.default_rng(5)
    padded = rng.integers(-3, 4, (4, 5, 3)).astype(kind)
    return rng.integers(-3, 4, (3, 4)).astype(kind), padded[:2, ::2].T, numpy.dtype(kind).type(2.0)


def complex_step(program: list[list[int]], directions: tuple[Any, ...], cts: list[Any]) -> float:
    moved = tuple(p + 1j * STEP * d for p, d in zip(inputs(complex), directions, strict=True))
    # adding makes a compact array: the layout of the second input is part of the program
    padded = numpy.zeros((4, 5, 3), complex)
    padded[:2, ::2].T[...] = moved[1]
    arrays, _ = run(numpy, program, moved[0], padded[:2, ::2].T, moved[2])
    with numpy.errstate(over="ignore", invalid="ignore"):
        return sum(float(numpy.sum(numpy.imag(a) / STEP * ct)) for a, ct in zip(arrays, cts, strict=True))


@settings(derandomize=True, max_examples=250, deadline=None, database=None, suppress_health_check=list(HealthCheck))
@given(some.lists(some.lists(some.integers(0, 719), min_size=6, max_size=14), min_size=2, max_size=12))
def test_programs_of_assignments_and_views_do_as_numpy(program):
    expected, refused = run(numpy, program, *inputs())
    skipped: list[str] = []

    def f(x, y, s):
        arrays, mine = run(dnp, program, x, y, s)
        skipped.extend(mine)
        return arrays

    results, pullback = ds.vjp(f, *inputs())
    assert skipped == refused
    assert len(results) == len(expected)
    for a, model in zip(results, expected, strict=True):
        assert numpy.shape(a) == model.shape
        numpy.testing.assert_array_equal(a, model)
    rng = numpy.random.default_rng(7)
    cts = [rng.standard_normal(m.shape)[()] for m in expected]
    directions = tuple(rng.standard_normal(numpy.shape(p))[()] for p in inputs())
    bars = pullback(cts)
    along = sum(float(numpy.sum(bar * d)) for bar, d in zip(bars, directions, strict=True))
    scale = sum(float(numpy.sum(numpy.abs(bar * d))) for bar, d in zip(bars, directions, strict=True))
    assert along == pytest.approx(complex_step(program, directions, cts), rel=0, abs=GRADIENT_TOLERANCE * (scale + 1))


# cases that random programs seldom reach


def test_value_with_leading_axes_of_one_is_assigned():
    for place in (slice(0, 2), numpy.array([2, 0])):

        def f(v, place=place):
            y = dnp.zeros(3)
            y[place] = v[None, None]
            return y

        numpy.testing.assert_array_equal(ds.vjp(f, numpy.ones(2))[1](numpy.array([1.0, 2.0, 3.0]))[0], numpy.array([1.0, 2.0, 3.0])[place])


def test_result_of_an_operation_in_place_is_not_overwritten():
    """The rule of the division reads the quotient, and an entry of it is assigned to afterwards."""

    def f(x):
        y = dnp.ones(2)
        y /= x
        first = y[0]
        y[0] = 7.0
        return first

    numpy.testing.assert_array_equal(ds.grad(f)(numpy.array([2.0, 4.0])), [-0.25, 0.0])


def test_operation_in_place_keeps_the_order_of_memory():
    """The columns of y are contiguous before and after the product, so that ravel copies."""

    def f(np, x):
        y = np.array(x.T)
        y @= numpy.eye(2)
        y.ravel()[1] = 9.0
        return y * 1.0

    x = numpy.arange(6.0).reshape(2, 3)
    numpy.testing.assert_array_equal(ds.vjp(lambda x: f(dnp, x), x)[0], f(numpy, x))
