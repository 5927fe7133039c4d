"""The collection checked against itself, without the library: on plain NumPy, by differences."""

from __future__ import annotations

import numpy
import pytest

from tests.sampled import together

from . import oracles, reference
from .cases import STORED, Case, stored_numbers
from .collection import CASES
from .trees import flatten, is_float, leaves, unflatten

# Errors of typing are of the order of one; fourth-order differences of these programs are good to some 1e-9.
DIFFERENCE_TOLERANCE = 1e-6

RUN = [case for case in CASES if case.kind != "raises"]


def test_names_are_unique() -> None:
    names = [str(case) for case in CASES]
    assert len(set(names)) == len(names) >= 170


def test_stored_numbers_are_those_of_the_cases() -> None:
    assert set(stored_numbers()) == {str(case) for case in CASES if case.expected is STORED}


@together([case for case in CASES if case.kind == "raises"])
def test_raises(case: Case) -> None:
    with pytest.raises(case.expected):
        case.value()


@together(RUN)
def test_expectation_is_the_derivative(case: Case) -> None:
    expected = case.expected_derivative()
    assert numpy.all(numpy.isfinite(flatten(case.value())))
    assert numpy.all(numpy.isfinite(expected))
    if not case.differences:
        return
    if case.kind in ("hessian", "hvp"):
        jacobian = oracles.difference_hessian(case.bind_plain(), case.args, case.wrt)
    else:
        jacobian = oracles.difference_jacobian(case.bind_plain(), case.args, case.wrt, case.difference_step)
    derivative = case.from_jacobian(jacobian)
    assert expected.shape == derivative.shape
    assert numpy.max(numpy.abs(expected - derivative), initial=0.0) < DIFFERENCE_TOLERANCE * case.scale(expected)


@together([case for case in RUN if case.plain])
def test_plain_form_is_the_program(case: Case) -> None:
    """With the inner derivatives by differences."""
    values = flatten(case.bind(numpy, reference)(*case.fresh_args()))
    numpy.testing.assert_allclose(values, flatten(case.value()), rtol=DIFFERENCE_TOLERANCE, atol=DIFFERENCE_TOLERANCE)


def test_unflatten_undoes_flatten() -> None:
    tree = {"b": [numpy.arange(3.0), 2], "a": (1.5, None, numpy.array([1, 2]))}
    back = unflatten(tree, flatten(tree))
    assert [numpy.array_equal(a, b) for a, b in zip(leaves(back), leaves(tree), strict=True)] == [True] * 5
    assert [is_float(leaf) for leaf in leaves(tree)] == [True, False, False, True, False]
