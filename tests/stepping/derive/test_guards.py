"""Guards against singular derivatives beyond the cells of a step read the cotangents of their own part alone."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import diffsim as ds
from diffsim.expr import Symbol, maximum, sqrt, van_albada
from diffsim.expr.graph import reads

RULES = {"mirror": "mirror", "odd": ds.OddImage(), "extrapolated": ds.Extrapolate(2)}


def _rusanov(u: Symbol) -> Symbol:
    left, right = u, u.shifted(0, 1)
    speed = maximum(sqrt(left), sqrt(right))
    return left * left + right * right - speed * (right - left)


def _limited(u: Symbol) -> Symbol:
    half = 0.5 * van_albada()(u - u.shifted(0, -1), u.shifted(0, 1) - u)
    left, right = u + half, (u - half).shifted(0, 1)
    return left / right - right / left


def _powers(u: Symbol) -> Symbol:
    return u**1.5 * u.shifted(0, 1) - u.shifted(0, 1) ** 0.5


OWN = [{each, f"stage {number}", f"{each} bar", f"stage {number} bar"} for number, each in enumerate("uv")]
"""The arrays of each field: it, its stage, and their cotangents."""
FLUXES = {"Rusanov": _rusanov, "limited": _limited, "powers": _powers}


class Uncoupled(ds.Equation):
    """Two fields that do not see each other, with the same flux."""

    def __init__(self, grid: ds.Grid, dt: float, flux: Callable[[Symbol], Symbol], rule: object, staged: bool) -> None:
        self.grid, self.dt, self.flux, self.staged, self.rule = grid, dt, flux, staged, rule
        self.states = {"u": ds.Variable(rule), "v": ds.Variable(rule)}  # type: ignore[arg-type]

    def step(self, u: Symbol, v: Symbol) -> dict[str, Symbol]:
        def turn(w: Symbol) -> Symbol:
            flux = self.flux(w)
            first = w - self.dt * (flux - flux.shifted(0, -1))
            if self.staged:
                first = ds.stage(first, boundary=self.rule)  # type: ignore[arg-type]
            flux = self.flux(first)
            return 0.5 * (w + first - self.dt * (flux - flux.shifted(0, -1)))

        return {"u": turn(u), "v": turn(v)}


@pytest.mark.parametrize("staged", [False, True], ids=["one", "two"])
@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("flux", FLUXES)
def test_cotangents_of_uncoupled_fields_do_not_read_each_other(flux: str, rule: str, staged: bool) -> None:
    simulation = ds.Simulation(Uncoupled(ds.Grid((32,), 1.0), 0.1, FLUXES[flux], RULES[rule], staged))
    stepper = simulation._stepper
    assert stepper.adjoint is not None
    program = stepper.adjoint.program
    for nest in program.nests:
        for assign in nest.assigns:
            names = set(reads([assign.node]))
            while more := {name for each in names & program.inline.keys() for name in reads([program.inline[each]])} - names:
                names |= more
            arrays = {assign.target.array, *(program.places[name].array for name in names - program.inline.keys())}
            assert any(arrays <= own for own in OWN), arrays
