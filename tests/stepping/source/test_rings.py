"""Kept values stay in their rings for as long as they are read, and no ring is twice as long as that."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import diffsim as ds
from diffsim.expr.graph import reads
from diffsim.stepping.ir.program import Nest
from diffsim.stepping.source.tile_loops import TileKernel
from diffsim.stepping.source.workers import WorkerKernel
from tests.steps import STEPS
from tests.steps.step import Step

KEEPING = [step for step in STEPS if step.name.startswith(("shallow water", "WENO"))]


def stale(nest: Nest, rows: dict[str, int]) -> set[str]:
    """Values that a nest reads from a row of their ring that has another row by then, or none yet. The rows of its loops are gone through
    one by one, as the kernel does."""
    first = max(group.low[0] + group.high[0] for group in nest.groups)
    present: dict[str, dict[int, int]] = {name: {} for name in rows}
    found = set()

    def read(nodes: list[ds.expr.Node], row: int) -> None:
        for name, offsets in reads(nodes).items():
            if name in rows:
                found.update(name for offset in offsets if present[name].get((row + offset[0]) & (rows[name] - 1)) != row + offset[0])

    for row in range(-first, 3 * max(rows.values())):
        for group in nest.groups:
            if row >= -group.low[0] - group.high[0]:
                read([*group.values.values()], row + group.high[0])
                for name in group.values:
                    present[name][(row + group.high[0]) & (rows[name] - 1)] = row + group.high[0]
        if row >= 0:
            read([*nest.roots], row)
    return found


@pytest.mark.parametrize("step", KEEPING, ids=lambda step: step.name)
def test_rings_are_as_long_as_their_values_are_read(step: Step) -> None:
    simulation = step.simulation("f32")
    some = 0
    for program in simulation._stepper.programs:
        kernel: TileKernel = WorkerKernel(program, simulation._step.graph, simulation._stepper.launcher.fields, 1)
        for nest in (each for whole in program.nests for each in whole.variants if each.groups):
            rows = kernel._ring_rows(nest)
            assert not stale(nest, rows)
            for name in rows:
                if rows[name] > 1:
                    assert stale(nest, rows | {name: rows[name] // 2}) == {name}
                    some += 1
    assert some > 5


IN_GATE = ("shallow water, HLL, wetting and drying f64", "WENO 5 with three stages f32")
BOTH = [
    pytest.param(step, precision, id=name, marks=() if name in IN_GATE else pytest.mark.slow)
    for step in KEEPING
    for precision in ("f32", "f64")
    for name in [f"{step.name} {precision}"]
]


@pytest.mark.parametrize(("step", "precision"), BOTH)
def test_values_that_are_read_at_other_lanes_from_memory_have_the_same_bits(
    step: Step, precision: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    results = {}
    for unaligned in False, True:
        monkeypatch.setattr("diffsim.stepping.source.tile_loops.reads_unaligned", lambda unaligned=unaligned: unaligned)
        simulation = step.simulation(precision, (13, 37))
        assert ("rolled__by_" in simulation.source("vjp")) == unaligned
        inputs = step.all_inputs((13, 37))
        solution, pullback = simulation.vjp(inputs, step.steps)
        rng = np.random.default_rng(0)
        weights = ds.Solution({name: rng.normal(size=each.shape) for name, each in solution.final.items()})
        results[unaligned] = solution.final | {f"gradient {name}": each for name, each in pullback(weights).items()}
    for name, values in results[True].items():
        np.testing.assert_array_equal(values, results[False][name], err_msg=name)
