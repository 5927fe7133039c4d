"""Residuals, which the adjoint reads in place of states: nothing is lost at cells beside or beyond the sides of the grid."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import diffsim as ds
from tests.sampled import sampled
from tests.stepping.derive.transposes import require_one_product
from tests.stepping.trace.test_sides import sides

STEPS = 4
SEEDS = range(24)
JOINED = range(16, 24)
"""Those with periodic axes: there a residual that is read beyond an end has the value of the other end."""


class Product(ds.Equation):
    """Two states, of which one gets a product of expressions at any places, through a stored stage or at once."""

    def __init__(self, seed: int) -> None:
        rng = np.random.default_rng(seed)
        self.grid = ds.Grid(tuple(int(n) for n in rng.integers(6, 24, 2)), 1.0)
        self.dt = 0.1
        a, b, k = (*sides(rng, 2, int(rng.integers(12)))[:2], "mirror") if seed not in JOINED else ("periodic",) * 3
        self.states = {"a": ds.Variable(a), "b": ds.Variable(b)}
        self.parameters = {"k": ds.Variable(k)}
        self.staged = seed % 3 == 1
        self.places = rng.integers(-1, 2, (4, 2))
        self.kind = seed % 4

    def step(self, a: Any, b: Any, k: Any) -> dict[str, Any]:
        def at(field: Any, number: int) -> Any:
            rows, columns = map(int, self.places[number])
            return field.shifted(0, rows).shifted(1, columns)

        if self.staged:
            a = ds.stage(a + self.dt * (at(b, 2) - b), boundary=a)
        factor = (k * (a + at(a, 1)), k * at(b, 2), a * a, k * ds.expr.where(a > 0.1, a, 0.3 * at(b, 1)))[self.kind]
        return {"a": a + self.dt * at(factor, 0), "b": b - self.dt * at(b, 3)}


def _has_residuals(simulation: ds.Simulation) -> bool:
    return simulation._stepper.with_residuals is not None


@pytest.mark.parametrize("seed", sampled(SEEDS))
def test_tangents_and_cotangents_of_stored_runs_have_one_product(seed: int) -> None:
    rng = np.random.default_rng(seed)
    simulation = ds.Simulation(Product(seed), precision="f64", wrt=("a", "b", "k"))
    assert (simulation._step.joined == (0, 1)) is (seed in JOINED)
    shape = simulation.grid.shape
    point, direction = ({name: rng.standard_normal(shape) for name in ("a", "b", "k")} for _ in range(2))
    weights = {name: rng.standard_normal(shape) for name in ("a", "b")}
    require_one_product(simulation, point, direction, weights, STEPS)


def test_a_good_part_of_them_keep_residuals() -> None:
    """Of steps with stages and without."""
    kept = {seed: _has_residuals(ds.Simulation(Product(seed), precision="f64", wrt=("a", "b", "k"))) for seed in SEEDS}
    for joined in (False, True):
        of = {staged: [kept[s] for s in SEEDS if (s in JOINED) is joined and (s % 3 == 1) is staged] for staged in (False, True)}
        assert sum(of[False]) >= 3 and sum(of[True]) >= (1 if joined else 3)
