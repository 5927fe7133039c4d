"""Bounds of the cost of the generated adjoint beside the forward step."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import diffsim as ds
from diffsim.expr.graph import Node, reads
from diffsim.stepping.ir.program import Program
from diffsim.stepping.passes.sharing import cost
from diffsim.stepping.passes.streams import rows_together
from diffsim.stepping.stages.solve import Solution
from tests.steps import SOME
from tests.steps.step import Step
from tests.steps.test_gradient import simulation

LINES = 4.0
"""Lines of the adjoint over those of the step: its kernels compile in a time in proportion."""
LINES_OF_FLUXES = {"shallow water, HLL, van Albada, two stages": 5.5, "WENO 5 with three stages": 4.6}
"""The same for steps of several stages by fluxes. The fluxes of all stages are one function of the step, but the adjoint of each stage is a
nest with sums of its own; that of shallow water computes a stage again. They were 5.9 and 4.0 while adjoint steps of WENO 5 computed a
third more."""
NONLINEAR = ("shallow water", "WENO", "advection", "Swift", "Navier-Stokes", "Burgers")
OPERATIONS = {"linear": 4.0, "nonlinear": 6.0, "flow": 4.0}
"""Operations of a stored gradient over those of a run: forward 1, reverse 2 to 3, and nonlinear parts computed anew."""
FLUXES = {"shallow water, HLL, wetting and drying": 3.6, "shallow water, HLL, van Albada, two stages": 4.5, "WENO 5 with three stages": 3.6}
"""The same for steps by fluxes. They were 4.2, 4.8 and 4.6 while guards stood around divisors such as max(u + c, 0) - min(u - c, 0), and
values that save less than a fifth of an expression were differentiated at each use."""
DRAG = 5.0
"""Operations that drag adds to a stored gradient over those that it adds to a run: each half acts on one cell alone."""
LINE_SOLUTION = 44
"""Cost of a tridiagonal system at a cell: two divisions, three products and three differences."""


def bodies(run: ds.Simulation, program: Program) -> Iterator[tuple[list[Node], int]]:
    """Expressions that a kernel for CPUs computes together, and for how many cells."""
    graph, ndim = run._step.graph, run.grid.ndim
    for nest in program.nests:
        for group in nest.groups:
            yield [*group.values.values()], 1
        if nest.groups:
            yield [*nest.roots], 1
        else:  # rows that are computed together have values in common
            rows = rows_together(program, nest) if ndim > 1 else 1
            shifts = [(*(0,) * (ndim - 2), row, 0) if ndim > 1 else (0,) for row in range(rows)]
            yield [graph.shift(assign.node, shift) for assign in nest.assigns for shift in shifts], rows


def operations(run: ds.Simulation, program: Program) -> float:
    """Cost of a step at a tile; what is not stored counts at each tile where it is read, and a shift along the last axis needs two."""
    total = 0.0
    for nodes, cells in bodies(run, program):
        total += cost(nodes) / cells
        for name, offsets in reads(nodes).items():
            if name in program.inline:
                tiles = {(*offset[:-1], tile) for offset in offsets for tile in {0, int(np.sign(offset[-1]))}}
                total += len(tiles) * cost([program.inline[name]]) / cells
    solutions = sum(isinstance(call.function, Solution) for call in program.calls)
    return total + LINE_SOLUTION * solutions


@pytest.mark.parametrize("step", SOME)
def test_the_adjoint_is_not_much_longer_than_the_step(step: Step) -> None:
    forward, adjoint = (len(simulation(step).source(kind).splitlines()) for kind in ("forward", "vjp"))  # type: ignore[arg-type]
    assert adjoint <= LINES_OF_FLUXES.get(step.name, LINES) * forward


def of_a_gradient(run: ds.Simulation) -> float:
    """Operations of a stored gradient over those of a run."""
    stepper = run._stepper
    assert stepper.adjoint is not None
    programs = (
        (stepper.forward, stepper.adjoint.program)
        if stepper.with_residuals is None
        else (stepper.with_residuals.forward, stepper.with_residuals.adjoint)
    )
    return sum(operations(run, program) for program in programs) / operations(run, stepper.forward)


@pytest.mark.parametrize("step", SOME)
def test_a_gradient_computes_not_much_more_than_a_run(step: Step) -> None:
    kind = "nonlinear" if step.name.startswith(NONLINEAR) else "linear"
    assert of_a_gradient(simulation(step)) <= FLUXES.get(step.name, OPERATIONS[kind])


@pytest.mark.parametrize(("order", "method"), [(2, "rk2"), (2, "rk4"), (4, "rk3")])
def test_a_gradient_of_a_flow_computes_not_much_more_than_a_run(order: Any, method: Any) -> None:
    flow = ds.solvers.NavierStokes(ds.Grid((16, 16), spacing=0.1), dt=0.01, order=order, method=method)
    assert of_a_gradient(ds.Simulation(flow, wrt=["nu", "u", "v"])) <= OPERATIONS["flow"]


@pytest.mark.parametrize("method", ["euler", "rk2"])
def test_a_gradient_of_shallow_water_computes_less_than_four_and_a_half_runs(method: Any) -> None:
    """Before contributions were kept whole without a guard, and rises were stored, it was 6.5, and 4.6 before stages were kept."""
    sea = ds.solvers.ShallowWater(ds.Grid((16, 16), spacing=10.0), dt=0.1, method=method)
    assert of_a_gradient(ds.Simulation(sea, wrt=["z", "eta"])) <= 4.4


@pytest.mark.parametrize("method", ["euler", "rk2"])
@pytest.mark.parametrize("drag", ["manning", "quadratic"])
def test_drag_of_shallow_water_is_differentiated_apart_from_its_fluxes(drag: Any, method: Any) -> None:
    """A gradient with drag computes more than one without by no more than a few times what a run with drag computes more."""
    costs = []
    for each in "none", drag:
        run = ds.Simulation(ds.solvers.ShallowWater(ds.Grid((24, 24), 10.0), 0.1, method=method, drag=each), wrt=("z", "eta"))
        forward = operations(run, run._stepper.forward)
        costs.append((forward, of_a_gradient(run) * forward))
    (run_without, gradient_without), (run_with, gradient_with) = costs
    assert gradient_with - gradient_without <= DRAG * (run_with - run_without)
