"""The adjoint of a flux is computed in one nest, also where the flux reads a stored stage beside the field of which the stage is made."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import diffsim as ds
from diffsim.expr import Symbol, maximum, sqrt
from diffsim.expr.graph import ordered, reads
from diffsim.stepping.ir.program import Program
from diffsim.stepping.passes.sharing import inlined
from tests.sampled import sampled

ROUND_OFF = 1e-12
"""Relative error of a dot product: three steps of some hundred operations in f64."""


def _quotient(u: Symbol, w: Symbol, axis: int) -> Symbol:
    left, right = u * w / (1 + u * u), (u * w).shifted(axis, 1) / (1 + u.shifted(axis, 1) ** 2)
    return left * right / (2 + left * left + right * right)


def _rusanov(u: Symbol, w: Symbol, axis: int) -> Symbol:
    left, right = w, w.shifted(axis, 1)
    speed = maximum(sqrt(1 + u * u), sqrt(1 + u.shifted(axis, 1) ** 2))
    return (left * left + right * right - speed * (right - left) * (u + u.shifted(axis, 1))) / (left * left + right * right + speed)


FLUXES = {"quotient": _quotient, "Rusanov": _rusanov}
RULES = {"mirror": "mirror", "periodic": "periodic", "odd": ds.OddImage(), "mixed": ("zero", ds.Extrapolate(2))}


class Staged(ds.Equation):
    """A field that changes by fluxes of itself and of a stored function of it and of its last value, in one or more stages of time."""

    def __init__(self, ndim: int, flux: Callable[[Symbol, Symbol, int], Symbol], rule: object, stages: int) -> None:
        self.grid, self.dt, self.flux, self.stages = ds.Grid((11, 13, 9)[:ndim], 1.0), 0.05, flux, stages
        self.rule = rule = (rule,) * ndim
        self.states = {"u": ds.Variable(rule), "before": ds.Variable(rule)}  # type: ignore[arg-type]
        self.parameters = {"k": ds.Variable("mirror")}

    def step(self, u: Symbol, before: Symbol, k: Symbol) -> dict[str, Symbol]:
        start = u
        for number in range(self.stages):
            w = ds.stage(u * (1 + k * u * u) + 0.1 * before, boundary=self.rule)  # type: ignore[arg-type]
            for axis in range(self.grid.ndim):
                flux = k * self.flux(u, w, axis)
                u = u - self.dt * (flux - flux.shifted(axis, -1)) if axis == 0 else u + self.dt * flux
            if number < self.stages - 1:
                u = ds.stage(u, boundary=self.rule)  # type: ignore[arg-type]
        return {"u": u, "before": start}


def _nests_with_fluxes(program: Program, simulation: ds.Simulation) -> int:
    """Nests that compute cotangents with quotients of neighbours."""
    count = 0
    for nest in program.nests:
        nodes = inlined(
            simulation._step.graph, [assign.node for assign in nest.assigns if assign.target.array.endswith(" bar")], program.inline
        )
        quotients = [node for node in ordered(nodes) if node.op == "div"]
        count += any(any(any(offset) for offsets in reads([node]).values() for offset in offsets) for node in quotients)
    return count


@pytest.mark.parametrize("ndim", [1, 2])
@pytest.mark.parametrize("stages", [1, 2])
@pytest.mark.parametrize("flux", FLUXES)
def test_a_flux_is_differentiated_in_one_nest_a_stage(flux: str, stages: int, ndim: int) -> None:
    simulation = ds.Simulation(Staged(ndim, FLUXES[flux], "mirror", stages), precision="f64")
    programs = simulation._stepper.programs
    assert programs.adjoint is not None
    program = programs.adjoint.program if programs.with_residuals is None else programs.with_residuals.adjoint
    assert _nests_with_fluxes(program, simulation) == stages


CASES = [(flux, rule, stages, ndim) for ndim in (1, 2, 3) for flux in FLUXES for rule in RULES for stages in (1, 2)]
IN_GATE = [
    ("quotient", "mirror", 1, 1),
    ("Rusanov", "periodic", 1, 1),
    ("quotient", "odd", 2, 1),
    ("Rusanov", "mixed", 2, 1),
    ("quotient", "odd", 1, 2),
    ("Rusanov", "mixed", 1, 2),
    ("Rusanov", "mirror", 2, 2),
    ("quotient", "mirror", 1, 3),
]
"""Each flux with each kind of rule and number of stages. Several stages in three dimensions take longest to compile."""


@pytest.mark.parametrize(("flux", "rule", "stages", "ndim"), sampled(CASES, gate=IN_GATE))
def test_gradients_agree_with_tangents(flux: str, rule: str, stages: int, ndim: int) -> None:
    simulation = ds.Simulation(Staged(ndim, FLUXES[flux], RULES[rule], stages), precision="f64")
    rng = np.random.default_rng(ndim)
    programs = simulation._stepper.programs
    assert programs.adjoint is not None and any(" of level " in name for name in programs.adjoint.program.arrays())
    inputs, along = ({name: rng.normal(size=simulation.grid.shape) for name in ("u", "before", "k")} for _ in range(2))
    _, tangent = simulation.jvp(inputs, along, 3)
    solution, pullback = simulation.vjp(inputs, 3)
    weights = {name: rng.normal(size=value.shape) for name, value in solution.final.items()}
    gradient = pullback(ds.Solution(weights))
    one, other = ([a[name] * b[name] for name in a] for a, b in ((weights, tangent.final), (along, gradient)))
    scale = sum(np.abs(product).sum() for product in (*one, *other))
    assert abs(np.sum(one) - sum(map(np.sum, other))) <= ROUND_OFF * scale
