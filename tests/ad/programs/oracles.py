"""Jacobians of programs that know nothing of the library: by a complex step, and by differences.

A Jacobian here is a matrix: one row for each floating-point entry of the result, one column for each of the arguments asked for.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy

from .trees import flatten, tree_map, unflatten

COMPLEX_STEP = 1e-30
# Differences of differences lose 1e-16 / h^2 to rounding.
SECOND_DIFFERENCE_STEP = 5e-3
STENCIL = ((1, 2 / 3), (-1, -2 / 3), (2, -1 / 12), (-2, 1 / 12))

Function = Callable[[numpy.ndarray], numpy.ndarray]


class _ComplexLinalg:
    def __getattr__(self, name: str) -> Any:
        return getattr(numpy.linalg, name)

    def norm(self, x: Any) -> Any:
        return numpy.sqrt(numpy.sum(x * x))


class ComplexNumpy:
    """NumPy for a complex step: its arrays are complex, and functions that are not analytic are continued from the real axis.

    Comparisons, `maximum`, `sort` and their like order complex numbers by their real parts first, as wanted.
    Not for programs that conjugate, or that take apart a complex number.
    """

    linalg = _ComplexLinalg()

    def __getattr__(self, name: str) -> Any:
        return getattr(numpy, name)

    @staticmethod
    def _dtype(dtype: Any) -> Any:
        return complex if dtype is None or numpy.dtype(dtype).kind == "f" else dtype

    def zeros(self, shape: Any, dtype: Any = None) -> Any:
        return numpy.zeros(shape, self._dtype(dtype))

    def ones(self, shape: Any, dtype: Any = None) -> Any:
        return numpy.ones(shape, self._dtype(dtype))

    def full(self, shape: Any, value: Any, dtype: Any = None) -> Any:
        return numpy.full(shape, value, self._dtype(dtype))

    def eye(self, n: int) -> Any:
        return numpy.eye(n, dtype=complex)

    def array(self, entries: Any, dtype: Any = None) -> Any:
        numbers = numpy.array(entries, dtype)
        return numbers.astype(complex) if numbers.dtype.kind == "f" else numbers

    def zeros_like(self, x: Any) -> Any:
        return self.zeros(numpy.shape(x), numpy.asarray(x).dtype)

    def ones_like(self, x: Any) -> Any:
        return self.ones(numpy.shape(x), numpy.asarray(x).dtype)

    def abs(self, x: Any) -> Any:
        return numpy.where(numpy.real(x) < 0, -x, x)[()]

    def sign(self, x: Any) -> Any:
        return numpy.sign(numpy.real(x))

    def floor(self, x: Any) -> Any:
        return numpy.floor(numpy.real(x))


def on_vector(function: Callable[..., Any], args: tuple[Any, ...], wrt: tuple[int, ...]) -> tuple[Function, numpy.ndarray]:
    """The function of the entries of some arguments as one vector, and that vector. Half precision and single become double."""
    chosen = tuple(args[i] for i in wrt)
    point = flatten(chosen).astype(float)

    def of_vector(vector: numpy.ndarray) -> numpy.ndarray:
        # Each evaluation has arrays of its own: programs may overwrite their arguments.
        fresh = dict(enumerate(tree_map(lambda leaf: leaf.copy() if isinstance(leaf, numpy.ndarray) else leaf, args)))
        fresh |= dict(zip(wrt, unflatten(chosen, vector), strict=True))
        return flatten(function(*fresh.values()))

    return of_vector, point


def complex_step_jacobian(function: Callable[..., Any], args: tuple[Any, ...], wrt: tuple[int, ...]) -> numpy.ndarray:
    """The Jacobian to rounding, of a function that is bound to `ComplexNumpy` and analytic around its arguments."""
    of_vector, point = on_vector(function, args, wrt)
    columns = [numpy.imag(of_vector(point + 1j * COMPLEX_STEP * direction)) / COMPLEX_STEP for direction in numpy.eye(point.size)]
    return numpy.stack(columns, axis=1)


def complex_step_gradient(function: Callable[..., Any], *args: Any) -> Any:
    """The gradient of a real function for all floating-point arguments: the argument itself where there is one, else a tuple."""
    jacobian = complex_step_jacobian(function, args, tuple(range(len(args))))
    bars = unflatten(args, jacobian[0])
    return bars[0] if len(args) == 1 else bars


def difference_jacobian(function: Callable[..., Any], args: tuple[Any, ...], wrt: tuple[int, ...], step: float) -> numpy.ndarray:
    """The Jacobian by fourth-order central differences, to some 1e-9: a guard against errors of typing."""
    return _differences(*on_vector(function, args, wrt), step)


def difference_hessian(function: Callable[..., Any], args: tuple[Any, ...], wrt: tuple[int, ...]) -> numpy.ndarray:
    """The Hessian of a scalar function, by differences of differences."""
    of_vector, point = on_vector(function, args, wrt)
    return _differences(lambda x: _differences(of_vector, x, SECOND_DIFFERENCE_STEP)[0], point, SECOND_DIFFERENCE_STEP)


def _differences(of_vector: Function, point: numpy.ndarray, step: float) -> numpy.ndarray:
    columns = [numpy.zeros((of_vector(point).size, 0))]
    for direction in numpy.eye(point.size):
        h = step * max(1.0, float(abs(direction @ point)))
        moved = numpy.array([weight * of_vector(point + shift * h * direction) for shift, weight in STENCIL])
        columns.append(moved.sum(axis=0)[:, None] / h)
    return numpy.concatenate(columns, axis=1)
