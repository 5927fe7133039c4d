"""Loops that fill halos, and fold their cotangents."""

from __future__ import annotations

import re
from typing import Any

import pytest

import diffsim as ds
from diffsim.solvers import Acoustic
from diffsim.stepping.source.alike import Function


def halos(shape: tuple[int, ...], order: int, boundary: Any) -> list[Function]:
    """The functions of a step and its adjoint that work on cells outside the grid."""
    stepper = ds.Simulation(Acoustic(ds.Grid(shape, 10.0), 1e-3, order, boundary), wrt=["c", "p"], precision="f64")._compiled.stepper
    assert stepper.adjoint is not None
    kernels = [stepper.launcher.source_of(program, workers=2) for program in (stepper.forward, stepper.adjoint.program)]
    return [each for kernel in kernels for each in kernel.functions() if re.match("fill_halo|fold|clear", each.name)]  # type: ignore[attr-defined]


@pytest.mark.parametrize("shape", [(17, 30), (13, 12, 19)])
def test_lengths_of_loops_outside_the_grid_are_unknown_to_llvm(shape: tuple[int, ...]) -> None:
    """It writes out eight turns of a loop whose length it can compute, also of those around others."""
    written = [line.strip() for each in halos(shape, 4, "mirror") for line in each.body]
    assert not [line for line in written if line.startswith("for ")]
    assert sum(line.startswith("while ") for line in written) > 4
