"""Every program of the collection, on the library: its value, its derivative, and the derivative in the other direction."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy
import pytest

import diffsim as ds
import diffsim.numpy as np
from tests.sampled import together

from .cases import FIRST_ORDER, Case
from .collection import CASES
from .trees import flatten, is_float, leaves, structure, tree_map

RUN = [case for case in CASES if case.kind != "raises"]
# A result computed in another order than NumPy's differs by a few roundings.
VALUE_TOLERANCE = 1e-12


def derive(case: Case) -> Any:
    """The library's result for a case, as it is."""
    f, args = case.bind(np, ds), case.fresh_args()
    if case.kind == "grad":
        return ds.grad(f, argnums=case.wrt if len(case.wrt) > 1 else case.wrt[0])(*args)
    if case.kind == "vjp":
        bars = ds.vjp(f, *args)[1](case.cotangent())
        assert len(bars) == len(args)
        return tuple(bars[i] for i in case.wrt)
    f, args = in_arguments_of_interest(case)
    if case.kind == "jvp":
        return ds.jvp(f, args, case.tangents())[1]
    if case.kind == "hvp":
        return ds.hvp(f, args[0], case.vector())
    return {"jacobian": ds.jacobian, "hessian": ds.hessian}[case.kind](f)(args[0])


def in_arguments_of_interest(case: Case) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """The program as a function of the arguments `wrt` alone, and these."""
    f, args = case.bind(np, ds), case.fresh_args()

    def of_some(*chosen: Any) -> Any:
        every = list(args)
        for i, arg in zip(case.wrt, chosen, strict=True):
            every[i] = arg
        return f(*every)

    return of_some, tuple(args[i] for i in case.wrt)


def assert_built_like(found: Any, model: Any) -> None:
    """The same containers, None where the model has no floating-point number, and the model's shapes and precision."""
    model = tree_map(lambda leaf: leaf if is_float(leaf) else None, model)
    assert structure(found) == structure(model)
    for entry, leaf in zip(leaves(found), leaves(model), strict=True):
        if leaf is not None:
            assert numpy.shape(entry) == numpy.shape(leaf)
            assert not isinstance(leaf, numpy.ndarray) or numpy.asarray(entry).dtype == leaf.dtype


@together([case for case in CASES if case.kind == "raises"])
def test_raises(case: Case) -> None:
    with pytest.raises(case.expected):
        ds.vjp(case.bind(np, ds), *case.fresh_args())


@together(RUN)
def test_value(case: Case) -> None:
    """Called as it stands, and while it is being derived."""
    f, expected = case.bind(np, ds), case.value()
    tolerance = max(VALUE_TOLERANCE, case.tolerance if case.tolerance > 1e-9 else 0.0)
    for result in (f(*case.fresh_args()), ds.vjp(f, *case.fresh_args())[0]) if case.kind in ("vjp", "grad") else (f(*case.fresh_args()),):
        assert structure(result) == structure(expected)
        for entry, wanted in zip(leaves(result), leaves(expected), strict=True):
            assert numpy.shape(entry) == numpy.shape(wanted)
            numpy.testing.assert_allclose(numpy.asarray(entry), wanted, rtol=tolerance, atol=tolerance)


@together(RUN)
def test_derivative(case: Case) -> None:
    result, expected = derive(case), case.expected_derivative()
    if case.kind == "grad":
        assert_built_like(result if len(case.wrt) > 1 else (result,), tuple(case.args[i] for i in case.wrt))
    if case.kind == "vjp":
        assert_built_like(result, tuple(case.args[i] for i in case.wrt))
    vector = flatten(result)
    assert vector.shape == expected.shape
    assert numpy.max(numpy.abs(vector - expected), initial=0.0) <= case.tolerance * case.scale(expected)
    if case.exact_zeros:
        assert not numpy.any(vector[expected == 0])


@together([c for c in RUN if c.kind in ("vjp", "grad")])
def test_arguments_without_a_derivative_get_none(case: Case) -> None:
    bars = ds.vjp(case.bind(np, ds), *case.fresh_args())[1](case.cotangent())
    for bar, arg in zip(bars, case.args, strict=True):
        assert [leaf is None for leaf in leaves(bar)] == [not is_float(leaf) for leaf in leaves(arg)]


@together([c for c in RUN if c.kind in FIRST_ORDER and c.transposable])
def test_other_direction(case: Case) -> None:
    """<w, J v> = <J^T w, v>: forward where the case is in reverse, and the other way round, against the same expectation."""
    expected, tangents = case.expected_derivative(), flatten(case.tangents())
    f, args = in_arguments_of_interest(case)
    if case.kind == "jvp":
        terms = flatten(ds.vjp(f, *args)[1](case.cotangent())) * tangents
        wanted = flatten(case.cotangent()) @ expected
    elif case.kind == "vjp":
        terms = flatten(ds.jvp(f, args, case.tangents())[1]) * flatten(case.cotangent())
        wanted = expected @ tangents
    else:
        terms = flatten(ds.jvp(f, args, case.tangents())[1])
        wanted = expected.reshape(terms.size, tangents.size) @ tangents
        assert terms.shape == wanted.shape
        terms, wanted = terms.sum(), wanted.sum()
    scale = max(case.scale(numpy.atleast_1d(terms)), case.scale(numpy.atleast_1d(wanted)))
    assert abs(numpy.sum(terms) - wanted) <= case.tolerance * scale
