"""Loop nests of a CPU read and write few rows at once."""

from __future__ import annotations

from collections import Counter

import pytest

import diffsim as ds
from diffsim.stepping.derive.adjoint import adjoint_program
from diffsim.stepping.derive.forward import forward_program
from diffsim.stepping.derive.residuals import residual_programs
from diffsim.stepping.ir.program import Nest, Program
from diffsim.stepping.passes.sharing import cost
from diffsim.stepping.passes.streams import MOST_STREAMS, SHARED, rows_together, with_sums_apart
from tests.cases import CASES, Case
from tests.stepping.passes.test_sharing import traced


def local(program: Program, nest: Nest) -> list[bool]:
    """For each assignment, whether it adds what it reads at the same cell."""
    return [
        a.accumulate and not a.fold and all(not any(o) for found in program.reads([a.node]).values() for o in found) for a in nest.assigns
    ]


def contents(program: Program) -> Counter:
    return Counter(each for nest in program.nests for each in (*nest.assigns, *nest.scatters))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_local_sums_are_apart_and_nothing_is_lost(case: Case) -> None:
    step = traced(case.equation())
    program = adjoint_program(step, [next(iter(step.states))]).program
    apart = with_sums_apart(program)
    assert contents(apart) == contents(program)
    for nest in apart.nests:
        sums = local(apart, nest)
        mine, others = ([a.node for a, each in zip(nest.assigns, sums, strict=True) if each == which] for which in (True, False))
        assert not mine or not others or cost(mine) + cost(others) - cost([*mine, *others]) >= SHARED
    assert with_sums_apart(apart) == apart


def residual_adjoint(equation: ds.Equation) -> Program:
    step = traced(equation)
    found = residual_programs(step, forward_program(step, ()), adjoint_program(step, ()))
    assert found is not None
    return found.adjoint


class Flattened(ds.Equation):
    """A coefficient and a state of which neighbours read one costly value: their cotangents need the same operations."""

    def __init__(self) -> None:
        self.grid, self.dt = ds.Grid((20, 21), 1.0), 0.1
        self.states, self.parameters = {"u": ds.Variable("zero")}, {"k": ds.Variable("zero")}

    def step(self, u: ds.expr.Symbol, k: ds.expr.Symbol) -> dict[str, ds.expr.Symbol]:
        mixed = ds.expr.sqrt(1 + u * u * k * k) / (2 + u * u + k * k)
        return {"u": u + ds.expr.sqrt(1 + mixed * mixed) / (3 + mixed * mixed)}


def test_sums_that_share_costly_operations_with_others_stay_with_them() -> None:
    program = adjoint_program(traced(Flattened()), []).program
    (nest,) = program.nests
    assert sorted(local(program, nest)) == [False, True]
    assert with_sums_apart(program) == program


GRID = ds.Grid((20, 21), 10.0)
STAGGERED = [ds.solvers.Acoustic(GRID, 1e-3), ds.solvers.Elastic(GRID, 1e-3), ds.solvers.Maxwell(GRID, 1.0)]


@pytest.mark.parametrize("equation", STAGGERED, ids=lambda equation: type(equation).__name__)
def test_sums_of_residuals_are_added_before_what_they_read_is_overwritten(equation: ds.Equation) -> None:
    program = residual_adjoint(equation)
    apart = list(with_sums_apart(program).nests)
    assert len(apart) == len(list(program.nests)) + 1
    (number,) = (number for number, nest in enumerate(apart) if any(local(program, nest)))
    read = {program.places[name] for name in program.reads([a.node for a in apart[number].assigns])}
    overwritten = {a.target for nest in apart[:number] for a in nest.assigns}
    assert not {place for place in read if place in overwritten and place.level is not None}


def test_a_body_of_many_arrays_takes_one_row() -> None:
    for equation in STAGGERED:
        program = with_sums_apart(residual_adjoint(equation))
        for nest in program.nests:
            arrays = {a.target for a in nest.assigns} | {program.places[name] for name in program.reads([a.node for a in nest.assigns])}
            rows = rows_together(program, nest)
            assert rows == 1 or rows * len(arrays) <= MOST_STREAMS
    (nest,) = forward_program(traced(STAGGERED[0]), ()).nests
    assert rows_together(forward_program(traced(STAGGERED[0]), ()), nest) > 1


@pytest.mark.parametrize("order", [2, 4, 8])
def test_each_plane_of_an_array_counts(order: int) -> None:
    grid = ds.Grid((20, 21, 22), 10.0)
    for equation in (ds.solvers.Acoustic(grid, 1e-3, order=order), ds.solvers.Elastic(grid, 1e-3, order), ds.solvers.Heat(grid, 1.0)):
        program = forward_program(traced(equation), ())
        for nest in program.nests:
            reads = program.reads([a.node for a in nest.assigns])
            planes = {(program.places[name], offset[0]) for name, offsets in reads.items() for offset in offsets}
            rows = rows_together(program, nest)
            assert rows == 1 or rows * len(planes) <= MOST_STREAMS
    (nest,) = forward_program(traced(ds.solvers.Acoustic(GRID, 1e-3, order=order)), ()).nests
    assert rows_together(forward_program(traced(ds.solvers.Acoustic(GRID, 1e-3, order=order)), ()), nest) > 1
