"""What the source of a GPU's kernel merges."""

from __future__ import annotations

import collections
import itertools

import pytest

import diffsim as ds
from diffsim.stepping.ir.program import Place
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
