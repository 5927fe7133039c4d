"""What the generated adjoint may cost beside the forward step."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

import diffsim as ds
from diffsim.expr.graph import Node, reads
from diffsim.stepping.program import Program
from diffsim.stepping.rolling import rows_together
from diffsim.stepping.sharing import cost
from tests.steps import MARKED
from tests.steps.step import Step
from tests.steps.test_gradient import simulation

LINES = 4.0
OPERATIONS = 4.1  # elastic waves 4.03, with gradients for three parameters


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
    return total


@pytest.mark.parametrize("step", MARKED, ids=lambda step: step.name)
def test_the_adjoint_is_not_much_longer_than_the_step(step: Step) -> None:
    forward, adjoint = (len(simulation(step).source(kind).splitlines()) for kind in ("forward", "vjp"))  # type: ignore[arg-type]
    assert adjoint <= LINES * forward


@pytest.mark.parametrize("step", MARKED, ids=lambda step: step.name)
def test_the_adjoint_computes_not_much_more_than_the_step(step: Step) -> None:
    run = simulation(step)
    adjoint = run._stepper.adjoint
    assert adjoint is not None
    assert operations(run, adjoint.program) <= OPERATIONS * operations(run, run._stepper.forward)
