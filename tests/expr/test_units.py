"""Limited values of fields of any size: the same bits and derivatives where a field and its eps are in another unit."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import diffsim as ds
from diffsim.expr import Symbol, diff, muscl, van_albada, weno5

SIZES = (2.0**-40, 2.0**-24, 2.0**-10, 2.0**13, 2.0**36)
EPS = 2.0**-10
ROUND_OFF = 1e-3
"""In f32, of weights whose terms nearly cancel."""
FACES: dict[str, Callable[[Symbol, float], Symbol]] = {
    "van Albada": lambda c, eps: muscl(c, 0, van_albada(eps))[0],
    "WENO": lambda c, eps: weno5(c, 0, eps**2)[0],
    "WENO-Z": lambda c, eps: weno5(c, 0, eps**2, "z")[0],
}


class Carried(ds.Equation):
    def __init__(self, faces: Callable[[Symbol], Symbol]) -> None:
        self.grid, self.dt, self.faces = ds.Grid((40,), 1.0), 0.25, faces
        self.states = {"c": ds.Variable("periodic")}

    def step(self, c: Symbol) -> dict[str, Symbol]:
        return {"c": c - self.dt * diff(self.faces(c), 0)}


@pytest.mark.parametrize("kind", FACES)
def test_a_run_and_its_gradient_do_not_depend_on_the_unit(kind: str) -> None:
    rng = np.random.default_rng(5)
    start = np.where(np.arange(40) < 20, 0.0, 1.0) + 10 * EPS * rng.normal(size=40) * (np.arange(40) % 3 > 0)
    bars = rng.normal(size=40)
    results = []
    for size in (1.0, *SIZES):
        simulation = ds.Simulation(Carried(lambda c, size=size: FACES[kind](c, EPS * size)), precision="f32")  # type: ignore[misc]
        solution, pullback = simulation.vjp({"c": size * start}, 4)
        results.append((solution.final["c"] / size, pullback(ds.Solution(final={"c": bars}))["c"]))
    for final, gradient in results[1:]:
        assert np.array_equal(final, results[0][0])
        assert np.abs(gradient - results[0][1]).max() < ROUND_OFF * np.abs(gradient).max()
