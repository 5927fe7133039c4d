"""Time steps that people of the field use: to hold a step to all contracts of this package, give it a file and a line here."""

from __future__ import annotations

import pytest

from tests.sampled import sampled
from tests.steps import (
    acoustic_cpml,
    adaptive,
    advection,
    boundary_control,
    elastic,
    heat,
    maxwell_drude,
    navier_stokes,
    peaceman_rachford,
    schroedinger,
    shallow_water,
    shallow_water_limited,
    swift_hohenberg,
    weno,
)
from tests.steps.step import Step

STEPS: list[Step] = [
    acoustic_cpml.STEP,
    heat.STEP,
    elastic.STEP,
    maxwell_drude.STEP,
    shallow_water.STEP,
    shallow_water_limited.STEP,
    weno.STEP,
    schroedinger.STEP,
    advection.STEP,
    swift_hohenberg.STEP,
    peaceman_rachford.STEP,
    navier_stokes.STEP,
    boundary_control.STEP,
    adaptive.STEP,
]

FEW = [
    module.STEP
    for module in (
        maxwell_drude,
        shallow_water,
        schroedinger,
        advection,
        swift_hohenberg,
        peaceman_rachford,
        adaptive,
    )
]
"""One of each kind of kernel: staggered with stages, values kept for some rows, a product with a stage, planes, parts with
calls of functions on the host between them, and numbers of all cells."""
SOME = [
    *(pytest.param(step, marks=pytest.mark.gradients, id=step.name) for step in STEPS if step in FEW),
    *sampled([step for step in STEPS if step not in FEW], ids=lambda step: step.name, gate=[boundary_control.STEP]),
]
"""The few, marked as below, and one whose rules have values of each step; the rest are slow tests."""
MARKED = [pytest.param(step, marks=pytest.mark.gradients) if step in FEW else step for step in STEPS]
"""All steps; the few are marked, to be run with registers of every width."""
