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


def square(scale: float, factor: float, corner: float) -> Any:
    """scale x², whose adjoint is wrong by factors, everywhere and in one entry."""
    f = ds.custom_vjp(lambda x: scale * x**2)

    def backward(x: Any, ct: Any) -> Any:
        bar = factor * 2 * scale * numpy.asarray(x) * ct
        bar[0] *= corner
        return (bar,)

    f.defvjp(lambda x: (scale * x**2, x), backward)
    return f


@pytest.mark.parametrize("size", [1e-9, 1e-3, 1.0, 1e9])
@pytest.mark.parametrize("scale", [1e-18, 1e-9, 1.0, 1e12])
def test_units_hide_no_wrong_rule(scale: float, size: float) -> None:
    ds.check_grads(square(scale, 1.0, 1.0), (size * X,), order=1, modes=("reverse",))
    for factor, corner in ((-1.0, 1.0), (1.001, 1.0), (0.0, 1.0), (1.0, 1.001), (1.0, -1.0)):
        with pytest.raises(GradientError, match="a rule is wrong"):
            ds.check_grads(square(scale, factor, corner), (size * X,), order=1, modes=("reverse",))


@pytest.mark.parametrize("scale", [1e-18, 1.0, 1e12])
def test_units_hide_no_wrong_transpose_of_a_right_tangent(scale: float) -> None:
    """By the comparison of reverse with forward mode alone: a rule that is linear in the tangents but for their sign."""

    def rule(primals: Any, tangents: Any) -> Any:
        (x,), (dot,) = primals, tangents
        return scale * x, scale * (dot + slip * transposed_alone(dot))

    transposed_alone = ds.custom_jvp(lambda dot: 0.0 * dot)
    transposed_alone.defjvp(lambda primals, tangents: (0.0 * primals[0], tangents[0]))
    f = ds.custom_jvp(lambda x: scale * x)
    f.defjvp(rule)
    slip = 0.0
    ds.check_grads(f, (X,), order=1)
    slip = 1e-3
    with pytest.raises(GradientError, match="reverse derivative"):
        ds.check_grads(f, (X,), order=1)


def pressed(wrong: tuple[float, float]) -> Any:
    """A function of a pressure and a length, and one of the pressure alone that is small. `wrong`: factors of the adjoints for both."""
    f = ds.custom_vjp(lambda p, d: (p * (1 + np.sum(d**5)), 1e-20 * p**2))

    def backward(kept: Any, cts: Any) -> Any:
        (p, d), (first, second) = kept, cts
        along = numpy.sum(p * numpy.asarray(first)) * 5 * d**4
        return wrong[0] * (numpy.asarray(first) * (1 + numpy.sum(d**5)) + 2e-20 * p * numpy.asarray(second)), wrong[1] * along

    f.defvjp(lambda p, d: ((p * (1 + numpy.sum(d**5)), 1e-20 * p**2), (p, d)), backward)
    return f


def test_arguments_of_other_sizes_hide_no_wrong_rule() -> None:
    """One step for both would move the length by a million times itself."""
    p, d = 1e9 * (2 + abs(X)), 0.2 * X
    ds.check_grads(pressed((1.0, 1.0)), (p, d), order=1, modes=("reverse",))
    for wrong in ((-1.0, 1.0), (1.001, 1.0), (0.0, 1.0), (1.0, -1.0), (1.0, 1.001), (1.0, 0.0)):
        with pytest.raises(GradientError, match="a rule is wrong"):
            ds.check_grads(pressed(wrong), (p, d), order=1, modes=("reverse",))


def test_a_function_that_changes_fast_has_shorter_steps() -> None:
    f = ds.custom_jvp(lambda x: np.sin(3000 * x))
    f.defjvp(lambda primals, tangents: (np.sin(3000 * primals[0]), factor * 3000 * np.cos(3000 * primals[0]) * tangents[0]))
    factor = 1.0
    ds.check_grads(f, (X,), order=1)
    factor = 1.001
    with pytest.raises(GradientError, match="a rule is wrong"):
        ds.check_grads(f, (X,), order=1)


def beside_a_kink(slope: float) -> Any:
    f = ds.custom_jvp(lambda x: np.abs(x - 1.00015))
    f.defjvp(lambda primals, tangents: (np.abs(primals[0] - 1.00015), slope * tangents[0]))
    return f


def test_differences_that_disagree_judge_nothing() -> None:
    """Beside a kink differences with two steps are far apart, which was allowed to a wrong rule."""
    said = []
    for slope in numpy.linspace(-0.98, 0.98, 99):
        with pytest.raises(GradientError) as caught:
            ds.check_grads(beside_a_kink(slope), (numpy.array([1.0]),), order=1, modes=("forward",), step=1e-3)
        said.append(str(caught.value))
    assert any("they cannot judge it" in text for text in said)


@pytest.mark.parametrize("precision", ["f4", "f8"])
@pytest.mark.parametrize("scale", [1e-12, 1.0, 1e6])
def test_right_derivatives_pass_where_a_misfit_is_0(precision: str, scale: float) -> None:
    """Moved arguments are rounded, so differences are not 0 at the minimum, where all derivatives are."""
    data = numpy.linspace(0.7, 1.9, 7).astype(precision)
    ds.check_grads(lambda x: scale * np.sum((np.sin(x) - np.sin(data)) ** 2), (data,), directions=8)


LEFT: dict[str, Any] = {
    "mean": lambda x: np.sum(x - np.mean(x)),
    "logarithm": lambda x: np.log(np.exp(x)) - x,
    "beside": lambda x: {"left": np.sum(np.exp(x) / np.sum(np.exp(x))) - 1.0, "value": x**2},
    "softmax": lambda x: np.sum(np.exp(x) / np.sum(np.exp(x))),
    "norm": lambda x: np.sum((x / np.sqrt(np.sum(x**2))) ** 2),
}
"""Functions of which rounding alone is left, or whose derivatives are such."""


@pytest.mark.parametrize("precision", ["f4", "f8"])
@pytest.mark.parametrize("name", LEFT)
def test_right_derivatives_pass_where_rounding_is_left(name: str, precision: str) -> None:
    ds.check_grads(LEFT[name], (numpy.random.default_rng(3).standard_normal(30).astype(precision),))


def test_rounding_beside_it_hides_no_wrong_rule() -> None:
    with pytest.raises(GradientError, match="forward derivative of the function"):
        ds.check_grads(lambda x: {"left": np.log(np.exp(x)) - x, "value": cube(lambda x: 3.001 * x**2)(x)}, (X,), order=1)


@pytest.mark.parametrize("slope", [1e-5, 1.0])
def test_a_wrong_derivative_at_a_minimum_is_found(slope: float) -> None:
    f = ds.custom_jvp(lambda x: np.sum((x - 1.0) ** 2))
    f.defjvp(lambda primals, tangents: (np.sum((primals[0] - 1.0) ** 2), slope * np.sum(tangents[0])))
    with pytest.raises(GradientError, match="forward derivative of the function"):
        ds.check_grads(f, (numpy.ones(5),), order=1)


@pytest.mark.parametrize("end", [numpy.log, numpy.sqrt], ids=["log", "sqrt"])
def test_a_function_that_ends_within_the_step_is_named(end: Any) -> None:
    """The largest entry says how far all are moved: the small one goes where the function has no value."""
    with numpy.errstate(invalid="ignore"), pytest.raises(GradientError, match=r"has no value within .* give a smaller step"):
        ds.check_grads(lambda x: np.sum(end(x)), (numpy.array([1e-6, 1.0]),))
    ds.check_grads(lambda x: np.sum(end(x)), (numpy.array([1e-6, 1.0]),), order=1, step=1e-8)


def test_bad_calls_name_the_expected_form() -> None:
    with pytest.raises(ParameterError, match=r"write check_grads\(f, \(x,\)\)"):
        ds.check_grads(np.sin, X)
    with pytest.raises(ParameterError, match="expected some to differentiate for"):
        ds.check_grads(np.sin, (3,))
    with pytest.raises(ParameterError, match="modes"):
        ds.check_grads(np.sin, (X,), modes=("backward",))
