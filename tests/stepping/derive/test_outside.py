"""Cells outside the grid, whose cotangents an adjoint step computes and folds back."""

from __future__ import annotations

import numpy as np
import pytest

import diffsim as ds
from diffsim.boundary import bound, ghosts
from diffsim.expr import exp, sqrt, where
from diffsim.stepping.derive.adjoint import adjoint_program
from tests.cases import Case
from tests.sampled import sampled
from tests.stepping.passes.test_sharing import traced
from tests.stepping.run_cases import outputs

Symbol = ds.expr.Symbol


class Coupled(ds.Equation):
    """Two states, of which the earlier value of one enters the other: the oldest cotangent of `b` is read at its own cell alone."""

    def __init__(self, a: ds.boundary.Boundary, b: ds.boundary.Boundary, shape: tuple[int, int] = (12, 15)) -> None:
        self.grid, self.dt = ds.Grid(shape, 1.0), 0.1
        self.states = {"a": ds.Variable(a), "a_1": ds.Variable(a), "b": ds.Variable(b)}

    def step(self, a: Symbol, a_1: Symbol, b: Symbol) -> dict[str, Symbol]:
        neighbours = b.shifted(0, 1) * b + a.shifted(0, 1) * a.shifted(0, -1)
        return {"a": 0.6 * a + 0.3 * a * b, "a_1": a, "b": 0.5 * b + 0.2 * b.shifted(0, -1) + 0.1 * neighbours + 0.2 * a_1}


class Wide(ds.Equation):
    """Products of neighbours on both sides, along both axes: an adjoint reads three times as far."""

    def __init__(self, shape: tuple[int, ...], rule: str) -> None:
        self.grid, self.dt = ds.Grid(shape, 1.0), 0.1
        self.states, self.parameters = {"u": ds.Variable(rule)}, {"k": ds.Variable(rule)}

    def step(self, u: Symbol, k: Symbol) -> dict[str, Symbol]:
        products = [u.shifted(axis, -3) * k.shifted(axis, 3) + u.shifted(axis, 3) * k for axis in range(len(self.grid.shape))]
        return {"u": 0.5 * u + 0.1 * sum(products[1:], products[0])}


class Upwind(ds.Equation):
    """The sign of a costly value at two cells chooses, beside another costly value that is differentiated."""

    def __init__(self) -> None:
        self.grid, self.dt = ds.Grid((12, 15), 1.0), 0.1
        self.states = {"u": ds.Variable("mirror"), "v": ds.Variable("mirror")}
        self.parameters = {"k": ds.Variable("mirror")}

    def step(self, u: Symbol, v: Symbol, k: Symbol) -> dict[str, Symbol]:
        speed = sqrt(1 + u * u) * exp(u) / (1 + k * k)
        flux = u * sqrt(1 + k * k) / (2 + u * u.shifted(0, 1))
        taken = where(speed > speed.shifted(1, 1), v * v, v.shifted(0, 1) * v)
        return {"u": 0.9 * u + 0.1 * taken + 0.1 * (flux - flux.shifted(0, -1)), "v": 0.9 * v}


def check(equation: ds.Equation) -> None:
    found, wanted = outputs(Case("", lambda: equation, 4, {}, {}, {}), "f64")
    for name, values in wanted.items():
        np.testing.assert_allclose(found[name], values, rtol=0, atol=1e-13 * np.abs(values).max(), err_msg=name)


def test_values_that_only_conditions_read() -> None:
    check(Upwind())


@pytest.mark.parametrize("rules", [("mirror", "zero"), ("zero", "mirror"), ("periodic", "mirror")], ids="-".join)
def test_states_with_different_rules(rules: ds.boundary.Boundary) -> None:
    check(Coupled(rules, ("periodic", "zero")))


@pytest.mark.parametrize("rule", ["mirror", "periodic", "zero"])
@pytest.mark.parametrize("shape", sampled([((3, 15),), ((12, 4),), ((3, 3),), ((3, 4, 5),)], 2, ids=lambda case: str(case[0])))
def test_a_grid_is_as_narrow_as_the_step_allows(shape: tuple[int, ...], rule: str) -> None:
    check(Wide(shape, rule))


@pytest.mark.parametrize("rule", ["mirror", "periodic"])
def test_halos_are_copied_from_cells(rule: str) -> None:
    (sides,) = bound((rule,), (0,), (1.0,))
    found = ghosts(sides, 3, 7)
    assert len(found) == 6
    assert all(not 0 <= ghost.position < 3 and 0 <= cell < 3 for ghost in found for cell, _ in ghost.cells)


def test_no_cotangent_is_overwritten_where_other_rules_read_it() -> None:
    """Another worker computes the same row outside the grid for a field with other rules, at the same time."""
    same = adjoint_program(traced(Coupled(("periodic", "zero"), ("periodic", "zero"))), ()).program
    other = adjoint_program(traced(Coupled(("mirror", "zero"), ("periodic", "zero"))), ()).program
    assert same.in_place("b bar")
    assert not other.in_place("b bar")
