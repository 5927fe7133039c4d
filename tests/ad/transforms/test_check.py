"""Checking gradients in one line: right ones pass, planted faults do not."""

from __future__ import annotations

from typing import Any

import numpy
import pytest

import diffsim as ds
import diffsim.numpy as np
from diffsim.errors import GradientError, ParameterError

X = numpy.array([0.3, -1.2, 2.0])


def cube(rule: Any) -> Any:
    f = ds.custom_jvp(lambda x: x**3)
    f.defjvp(lambda primals, tangents: (primals[0] ** 3, rule(primals[0]) * tangents[0]))
    return f


def test_right_derivatives_pass_to_third_order() -> None:
    ds.check_grads(lambda x, y: {"a": np.sin(x) * y[0], "b": np.cumprod(x) ** y[1]}, (abs(X), (1.5, 2.5)), order=3)


def test_single_precision_passes() -> None:
    ds.check_grads(lambda x: np.exp(x) * np.sum(x), (X.astype(numpy.float32),))


def test_complex_arguments_pass() -> None:
    ds.check_grads(lambda z: np.abs(np.fft.fft(z)) ** 2, (X + 1j * X[::-1],), order=1)


def test_a_wrong_rule_is_found_in_forward_mode() -> None:
    with pytest.raises(GradientError, match="forward derivative of the function"):
        ds.check_grads(cube(lambda x: 3.001 * x**2), (X,))


def test_a_rule_right_at_first_order_and_wrong_at_second_is_found() -> None:
    f = cube(lambda x: 3 * ds.stop_gradient(x) ** 2)
    ds.check_grads(f, (X,), order=1)
    with pytest.raises(GradientError, match="derivative of the forward derivative of the function"):
        ds.check_grads(f, (X,), order=2)


def test_a_wrong_transpose_is_found() -> None:
    f = ds.custom_vjp(lambda x: np.sum(x**2))
    f.defvjp(lambda x: (np.sum(x**2), x), lambda x, ct: (2.001 * x * ct,))
    with pytest.raises(GradientError, match="reverse derivative of the function"):
        ds.check_grads(f, (X,), modes=("reverse",))


def test_one_wrong_component_of_many_is_found() -> None:
    def rule(primals: Any, tangents: Any) -> Any:
        dot = 2 * primals[0] * tangents[0]
        dot[7] = dot[7] * 1.01
        return primals[0] ** 2, dot

    f = ds.custom_jvp(lambda x: x**2)
    f.defjvp(rule)
    with pytest.raises(GradientError):
        ds.check_grads(f, (numpy.linspace(1, 2, 50),), order=1)


def test_bad_calls_name_the_expected_form() -> None:
    with pytest.raises(ParameterError, match=r"write check_grads\(f, \(x,\)\)"):
        ds.check_grads(np.sin, X)
    with pytest.raises(ParameterError, match="expected some to differentiate for"):
        ds.check_grads(np.sin, (3,))
    with pytest.raises(ParameterError, match="modes"):
        ds.check_grads(np.sin, (X,), modes=("backward",))
