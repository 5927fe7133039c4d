"""What the source of a GPU's kernel merges."""

from __future__ import annotations

import collections
import copy
import dataclasses
import itertools
from collections.abc import Sequence
from types import SimpleNamespace

import numpy as np
import pytest

import diffsim as ds
from diffsim.expr.graph import Graph, reads
from diffsim.stepping.ir.program import Assign, Nest, Place
from diffsim.stepping.source.device import POINT_THREADS, DeviceKernel


@pytest.fixture(scope="module")
def kernel() -> DeviceKernel:
    return kernel_of((8, 8))


def kernel_of(shape: tuple[int, ...]) -> DeviceKernel:
    places = [(40.0,) * len(shape)]
    simulation = ds.Simulation(ds.solvers.Acoustic(ds.Grid(shape, 10.0), 1e-3, order=2), sources={"f": places}, receivers={"p": places})
    stepper = simulation._compiled.stepper
    return DeviceKernel(stepper.forward, stepper.launcher.graph, stepper.launcher.fields)


def test_receivers_are_read_by_the_first_loop_of_the_next_step(kernel: DeviceKernel) -> None:
    assert len(kernel._joining()) == 1


@pytest.mark.parametrize(
    ("read", "written", "untouched"),
    [
        (Place("p", 2), Place("p", 2), True),  # entry t + 2, and t + 3
        (Place("p", 2), Place("p", 1), False),  # both are entry t + 2
        (Place("p", 0), Place("p", 2), False),  # the next step does not use entry t, whose level it may overwrite
        (Place("m"), Place("p", 2), True),
        (Place("m"), Place("m"), False),
        (Place("p", 2, size=3), Place("p", 2), False),
    ],
)
def test_not_if_that_loop_may_write_what_they_read(kernel: DeviceKernel, read: Place, written: Place, untouched: bool) -> None:
    assert kernel._untouched(read, [written]) == untouched


@pytest.mark.parametrize(
    ("shape", "far"), [((7,), (2,)), ((5, 8), (1, 2)), ((5, 8), (0, 1)), ((5, 6, 7), (2, 0, 1)), ((5, 6, 7), (1, 3, 2))]
)
def test_each_cell_outside_is_computed_once(shape: tuple[int, ...], far: tuple[int, ...]) -> None:
    kernel = kernel_of(shape)
    layout, names = kernel.layout, (*kernel.rows, "j")
    with kernel._outside(far, 0):
        kernel.text(f"cells.append(({', '.join(names)}))")
    cells: list[tuple[int, ...]] = []
    exec(str(kernel.text), {"cells": cells, "begin": 0, "control": collections.defaultdict(lambda: 1)})
    far = (0, *far) if len(shape) == 1 else far
    first, sizes = (*layout.row_halo, layout.halo_tiles), (*layout.rows, layout.tiles)
    whole = itertools.product(*(range(h - f, h + n + f) for h, n, f in zip(first, sizes, far, strict=True)))
    outside = {cell for cell in whole if not all(h <= i < h + n for i, h, n in zip(cell, first, sizes, strict=True))}
    assert len(cells) == len(outside) and set(cells) == outside


def test_wide_grids_read_receivers_beside_the_forcings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("diffsim.stepping.source.device.WIDE", 64)
    kernel = kernel_of((8, 8))
    assert kernel._host == 0 and kernel._wide and len(kernel._joining()) == 1
    assert f"for w in range({2 * POINT_THREADS})" in kernel.source


def stored(memory: dict[str, float], assigns: Sequence[Assign]) -> None:
    """A loop at one cell: all of its values are computed before any is stored."""
    values = [sum((k + 1) * memory[name] for k, name in enumerate(sorted(reads([each.node])))) for each in assigns]
    for each, value in zip(assigns, values, strict=True):
        memory[each.target.array] = value + (memory[each.target.array] if each.accumulate else 0.0)


@pytest.mark.parametrize("number", range(20))
def test_loops_of_parts_store_what_one_loop_does(number: int, kernel: DeviceKernel, monkeypatch: pytest.MonkeyPatch) -> None:
    """Assignments overwrite what others read, also each other's. A loop has more arrays than it may only where no cut is possible."""
    generator, graph, most = np.random.default_rng(number), Graph(), 8
    names, new = [f"a{k}" for k in range(9)], [f"b{k}" for k in range(4)]
    assigns = []
    for target in generator.permutation([*names[:6], *new]):
        read = generator.choice(names, size=generator.integers(1, 4), replace=False)
        node = graph.sum([graph.apply("sqrt", graph.read(str(name), (0, 0))) for name in read])
        assigns.append(Assign(Place(str(target)), node, (), accumulate=bool(generator.random() < 0.3)))
    nest = Nest(tuple(assigns))
    program = dataclasses.replace(kernel.program, operations=(nest,), places={name: Place(name) for name in (*names, *new)})
    drawn = copy.copy(kernel)
    drawn.program, drawn.graph = program, graph
    monkeypatch.setattr("diffsim.stepping.source.device.backend", lambda: SimpleNamespace(most_arrays=most))
    parts = drawn._parts(nest)
    assert len(parts) > 1 and sorted(id(each) for part in parts for each in part.assigns) == sorted(map(id, assigns))
    start = {name: float(value) for name, value in zip([*names, *new], generator.uniform(1, 2, 13), strict=True)}
    together, apart = dict(start), dict(start)
    stored(together, assigns)
    for part in parts:
        assert part.roots == tuple(each.node for each in part.assigns)
        stored(apart, part.assigns)
    assert apart == together
    for part in parts:
        arrays = {each.target.array for each in part.assigns}.union(*(reads([each.node]) for each in part.assigns)) | {"control", "rolled"}
        written = [each.target.array for each in part.assigns]
        in_cycles = all(
            any(name in reads([other.node]) for other in part.assigns if other is not each)
            for each, name in zip(part.assigns, written, strict=True)
        )
        assert len(arrays) <= most or in_cycles
