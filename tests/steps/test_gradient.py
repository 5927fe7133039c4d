"""Gradients of every step by the certificate, which has differences, tangents and checkpointed gradients, and of second order."""

from __future__ import annotations

import functools

import numpy as np
import pytest

import diffsim as ds
from tests.steps import (
    SOME,
    advection,
    navier_stokes,
    peaceman_rachford,
    schroedinger,
    swift_hohenberg,
    weno,
)
from tests.steps.step import Fields, Step, direction

SYMMETRIC = 1e-10  # of the sum of magnitudes: products of two directions with the Hessian cancel more
CURVATURE = 1e-6  # likewise: central differences of gradients, of a step of 1e-7, which hardly ever crosses a kink
SECOND = [
    pytest.param(module.STEP, marks=pytest.mark.slow if module in (navier_stokes,) else (), id=module.STEP.name)
    for module in (schroedinger, advection, swift_hohenberg, peaceman_rachford, navier_stokes)
]
"""Steps of which second derivatives are tested: the adjoint of a tangent takes longest of all to compile."""


@functools.cache
def simulation(step: Step) -> ds.Simulation:
    return step.simulation()


def loss(solution: ds.Solution) -> tuple[float, ds.Solution]:
    """Something that is not quadratic, of records and final fields, with weights that make no entry like another."""
    value, bars = 0.0, []
    for part in (solution.final, solution.traces):
        mine: Fields = {}
        for name, values in part.items():
            weight = np.cos(0.7 * np.arange(values.size)).reshape(values.shape)
            value += float(np.sum(weight * values + 0.5 * values**2 + 0.1 * values**3))
            mine[name] = weight + values + 0.3 * values**2
        bars.append(mine)
    return value, ds.Solution(*bars)


@pytest.mark.parametrize("step", SOME)
def test_certificate_passes(step: Step) -> None:
    certificate = ds.certify(simulation(step), loss, step.all_inputs(), step.steps)
    assert certificate.passed, str(certificate)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("make", [loss, lambda solution: (solution.final["u"] ** 2).sum()], ids=["of all", "of squares"])
def test_slopes_of_weno_where_curvature_is_small_beside_what_follows(make: ds.simulation.loss.Loss, seed: int) -> None:
    """Its weights change within 1e-3 of a field's size, so remainders fall as h² for very short steps only."""
    run, inputs = simulation(weno.STEP), weno.inputs(np.random.default_rng(seed), weno.STEP.shape)
    lines = [line for line in ds.certify(run, make, inputs, weno.STEP.steps, seed=1) if "Taylor with gradient" in line.name]
    assert len(lines) == 5
    assert all(abs(line.value - 2) < 0.1 and line.passed for line in lines), "\n".join(map(str, lines))


@pytest.mark.parametrize("step", SECOND)
def test_products_with_the_hessian(step: Step) -> None:
    """v·(H w) = w·(H v), and H v is the difference of gradients."""
    inputs, rng = step.all_inputs(), np.random.default_rng(2)

    def value(fields: Fields) -> object:
        solution = simulation(step).run(fields, step.steps)
        parts = [*solution.final.values(), *solution.traces.values()]
        return sum(ds.numpy.sum(0.5 * part**2 + 0.1 * part**3) for part in parts)

    v, w = direction(rng, inputs), direction(rng, inputs)
    gradient = ds.grad(value)
    of_v, of_w = ds.hvp(value, inputs, v), ds.hvp(value, inputs, w)
    products = [v[name] * of_w[name] for name in inputs]
    size = sum(float(np.abs(f).sum()) for f in products)
    assert size > 0
    other = sum(float((w[name] * of_v[name]).sum()) for name in inputs)
    assert abs(sum(float(f.sum()) for f in products) - other) <= SYMMETRIC * size
    h = 1e-7
    sides = [gradient({name: values + sign * h * v[name] for name, values in inputs.items()}) for sign in (1, -1)]
    difference = sum(float((w[name] * (sides[0][name] - sides[1][name])).sum()) for name in inputs) / (2 * h)
    assert abs(difference - other) <= CURVATURE * size
