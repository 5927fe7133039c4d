"""What the source of a GPU's kernel merges."""

from __future__ import annotations

import pytest

import diffsim as ds
from diffsim.stepping.ir.program import Place
from diffsim.stepping.source.device import DeviceKernel


@pytest.fixture(scope="module")
def kernel() -> DeviceKernel:
    places = [(40.0, 40.0)]
    simulation = ds.Simulation(ds.solvers.Acoustic(ds.Grid((8, 8), 10.0), 1e-3, order=2), sources={"f": places}, receivers={"p": places})
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
