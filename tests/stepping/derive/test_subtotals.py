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


def _quotient(u: Symbol, w: Symbol, axis: int) -> Symbol:
    left, right = u * w / (1 + u * u), (u * w).shifted(axis, 1) / (1 + u.shifted(axis, 1) ** 2)
    return left * right / (2 + left * left + right * right)


def _rusanov(u: Symbol, w: Symbol, axis: int) -> Symbol:
    left, right = w, w.shifted(axis, 1)
    speed = maximum(sqrt(1 + u * u), sqrt(1 + u.shifted(axis, 1) ** 2))
    return (left * left + right * right - speed * (right - left) * (u + u.shifted(axis, 1))) / (left * left + right * right + speed)


FLUXES = {"quotient": _quotient, "Rusanov": _rusanov}
RULES = {"mirror": "mirror", "periodic": "periodic", "odd": ds.OddImage()}


class Staged(ds.Equation):
    """A field that changes by fluxes of itself and of a stored function of it, in one or more stages of time."""

    def __init__(self, ndim: int, flux: Callable[[Symbol, Symbol, int], Symbol], rule: object, stages: int) -> None:
        self.grid, self.dt, self.flux, self.rule, self.stages = ds.Grid((17, 19)[:ndim], 1.0), 0.05, flux, rule, stages
        self.states = {"u": ds.Variable(rule)}  # type: ignore[arg-type]

    def step(self, u: Symbol) -> dict[str, Symbol]:
        for number in range(self.stages):
            w = ds.stage(u * (1 + u * u), boundary=self.rule)  # type: ignore[arg-type]
            for axis in range(self.grid.ndim):
                flux = self.flux(u, w, axis)
                u = u - self.dt * (flux - flux.shifted(axis, -1)) if axis == 0 else u + self.dt * flux
            if number < self.stages - 1:
                u = ds.stage(u, boundary=self.rule)  # type: ignore[arg-type]
        return {"u": u}


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


CASES = [(flux, rule, stages, ndim) for ndim in (1, 2) for flux in FLUXES for rule in RULES for stages in (1, 2)]


@pytest.mark.parametrize(("flux", "rule", "stages", "ndim"), sampled(CASES))
def test_gradients_agree_with_tangents(flux: str, rule: str, stages: int, ndim: int) -> None:
    simulation = ds.Simulation(Staged(ndim, FLUXES[flux], RULES[rule], stages), precision="f64")
    rng = np.random.default_rng(ndim)
    inputs, along = {"u": rng.normal(size=simulation.grid.shape)}, {"u": rng.normal(size=simulation.grid.shape)}
    _, tangent = simulation.jvp(inputs, along, 3)
    solution, pullback = simulation.vjp(inputs, 3)
    weights = rng.normal(size=solution.final["u"].shape)
    gradient = pullback(ds.Solution({"u": weights}))
    assert np.sum(gradient["u"] * along["u"]) == pytest.approx(np.sum(weights * tangent.final["u"]), rel=1e-11)
