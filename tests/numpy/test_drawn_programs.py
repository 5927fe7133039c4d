"""Drawn array programs: values are NumPy's, derivatives those of differences, and recorded calls have the bits of plain ones."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy
import pytest

import diffsim as ds
import diffsim.numpy as dnp
from diffsim.errors import DerivativeError, JitError
from tests.sampled import sampled

from .drawn_programs import Program

ROUNDING = 1e-9
"""Sums in another order, through as many statements."""
CONVERGED, CLOSE = 1e-7, 1e-5
"""Two extrapolated differences that differ by less than the former have no kink between them, and are as close as the latter."""


def extrapolated(f: Callable[[float], Any], step: float) -> tuple[Any, Any]:
    """Two estimates of the slope at 0, of fourth order, the second one with half the steps."""
    wide, middle, narrow = ((f(h) - f(-h)) / (2 * h) for h in (step, step / 2, step / 4))
    return (4 * middle - wide) / 3, (4 * narrow - middle) / 3


def require_slope(value: float, f: Callable[[float], float], step: float, what: str) -> None:
    first, second = extrapolated(f, step)
    scale = max(1.0, abs(value))
    if abs(first - second) < CONVERGED * scale:
        assert abs(value - second) < CLOSE * scale, f"{what}: {value}, by differences {second}"


def check(seed: int) -> None:
    program = Program.drawn(seed)
    what, args = f"seed {seed}: {', '.join(program.names)}", program.arguments
    every = tuple(range(len(args)))
    generator = numpy.random.default_rng([seed, 1])
    dots = tuple(generator.normal(size=x.shape) for x in args)

    def f(*xs: Any) -> Any:
        return program.value(dnp, xs)

    def moved(h: float) -> list[numpy.ndarray]:
        return [numpy.array(x + h * dot) for x, dot in zip(args, dots, strict=True)]

    def along(bars: Any) -> Any:
        return sum(dnp.sum(bar * dot) for bar, dot in zip(bars, dots, strict=True))

    expected = float(program.value(numpy, args))
    assert numpy.isfinite(expected), what
    before = copy.deepcopy(args)
    value, gradient = ds.value_and_grad(f, argnums=every)(*args)
    for result in (value, f(*args)):
        assert abs(float(result) - expected) < ROUNDING * max(1, abs(expected)), f"{what}: {result}, by NumPy {expected}"
    assert all(map(numpy.array_equal, args, before)), f"{what}: an argument was edited"
    slope = float(along(gradient))
    require_slope(slope, lambda h: float(program.value(numpy, moved(h))), 1e-3, what)
    tangent = float(ds.jvp(f, args, dots)[1])
    assert abs(tangent - slope) < ROUNDING * max(1, abs(slope)), f"{what}: jvp {tangent}, vjp {slope}"
    grad = ds.grad(f, argnums=every)
    try:
        product = ds.jvp(grad, args, dots)[1]
        again = ds.grad(lambda *xs: along(grad(*xs)), argnums=every)(*args)
    except DerivativeError:
        product = again = ()  # at a kink there is no second derivative
    if product:
        require_slope(float(along(product)), lambda h: float(along(grad(*moved(h)))), 1e-4, f"{what}: second derivative")
    for one, other in zip(product, again, strict=True):
        numpy.testing.assert_allclose(one, other, rtol=1e-8, atol=1e-8 * max(1, numpy.abs(one).max(initial=0)), err_msg=what)
    recorded = ds.jit(ds.value_and_grad(f, argnums=every))
    for h in (0.0, 1e-3, 0.0, 0.7, 0.7):
        try:
            ready = recorded(*moved(h))
        except JitError:
            return
        plain = ds.value_and_grad(f, argnums=every)(*moved(h))
        for one, other in zip((ready[0], *ready[1]), (plain[0], *plain[1]), strict=True):
            numpy.testing.assert_array_equal(one, other, err_msg=f"{what}: recorded, at {h}")


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("seed", sampled(range(300), gate=range(5)))
def test_a_drawn_program(seed: int) -> None:
    check(seed)
