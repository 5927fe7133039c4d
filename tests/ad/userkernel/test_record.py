"""Users' kernels as operations of the record, among array code."""

from __future__ import annotations

from typing import Any

import numpy
import pytest

import diffsim as ds
import diffsim.numpy as np
from diffsim.errors import KernelError
from tests.language import ti

Array1 = ti.types.ndarray(dtype=ti.f64, ndim=1)
X = numpy.array([0.5, -1.5, 2.0])


@ds.kernel(reads=("x", "k"), writes={"y": "x"})
def flux(x: Array1, k: ti.f64, y: Array1):
    for i in x:
        y[i] = k * x[i] ** 2


@ds.kernel(reads=("x",), writes={"y": "x"})
def cube(x: Array1, y: Array1):
    for i in x:
        y[i] = x[i] ** 3


@cube.adjoint
def cube_adjoint(inputs: Any, outputs: Any, cotangents: Any) -> Any:
    return (3 * inputs[0] ** 2 * cotangents[0],)


@cube.tangent
def cube_tangent(inputs: Any, outputs: Any, tangents: Any) -> Any:
    return (3 * inputs[0] ** 2 * tangents[0],)


def test_taichis_adjoint_joins_array_code() -> None:
    loss = lambda x, k: np.sum(np.sin(flux(x * 2.0, k)) * x)  # noqa: E731
    in_x, in_k = ds.grad(loss, (0, 1))(X, 0.7)
    y = 4 * 0.7 * X**2
    assert numpy.allclose(in_x, numpy.cos(y) * 8 * 0.7 * X * X + numpy.sin(y), rtol=1e-12)
    assert in_k == pytest.approx(numpy.sum(numpy.cos(y) * 4 * X**2 * X), rel=1e-12)
    ds.check_grads(loss, (X, 0.7), order=1, modes=("reverse",))


def test_a_kernel_shared_in_a_loop_and_assigned_into_an_array() -> None:
    def loss(x: Any) -> Any:
        rows = np.zeros((3, 3))
        for i in range(3):
            x = flux(x, 0.3)
            rows[i] = x
        return np.sum(rows)

    y1 = 0.3 * X**2
    y2 = 0.3 * y1**2
    d1 = 0.6 * X
    d2 = 0.6 * y1 * d1
    assert numpy.allclose(ds.grad(loss)(X), d1 + d2 + 0.6 * y2 * d2, rtol=1e-12)


def test_rules_by_hand_go_to_second_order_in_every_nesting() -> None:
    ds.check_grads(lambda x: np.sum(cube(x) * x), (X,), order=2)
    assert numpy.allclose(ds.hvp(lambda x: np.sum(cube(x)), X, numpy.ones(3)), 6 * X)
    assert numpy.allclose(ds.vjp(ds.grad(lambda x: np.sum(cube(x))), X)[1](numpy.ones(3))[0], 6 * X)


def test_what_is_not_to_be_had_is_said() -> None:
    with pytest.raises(KernelError, match="no second derivative"):
        ds.vjp(ds.grad(lambda x: np.sum(flux(x, 1.0))), X)[1](X)
    with pytest.raises(KernelError, match="no tangent"):
        ds.jvp(lambda x: flux(x, 1.0), (X,), (X,))


def test_a_kernel_in_a_checkpointed_loop() -> None:
    looped = lambda x: np.sum(ds.fori_loop(0, 4, lambda _, s: 0.5 * cube(s), x, checkpoint=2))  # noqa: E731

    def plain(x: Any) -> Any:
        for _ in range(4):
            x = 0.5 * cube(x)
        return np.sum(x)

    assert numpy.array_equal(ds.grad(looped)(X), ds.grad(plain)(X))
