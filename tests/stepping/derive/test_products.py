"""Products that neighbours in many planes read: stored or computed in each place, an adjoint has the same bits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import diffsim as ds
from diffsim.expr import Symbol, laplacian
from diffsim.solvers import Acoustic, Elastic
from diffsim.stepping.derive import reverse
from tests.sampled import sampled

SHAPE = (13, 11, 12)
NEVER = 99


class Laps(ds.Equation):
    """A field whose diffusion is computed lap by lap."""

    def __init__(self) -> None:
        self.grid, self.dt = ds.Grid(SHAPE, 1.0), 0.01
        self.states, self.parameters = {"u": ds.Variable("mirror")}, {"k": ds.Variable("mirror")}

    def step(self, u: Symbol, k: Symbol) -> dict[str, Symbol]:
        return {"u": ds.repeat(3, lambda v: v + 0.01 * k * laplacian(v), u)}


EQUATIONS: dict[str, tuple[Callable[[], ds.Equation], list[str]]] = {
    **{
        f"acoustic {side}": (lambda side=side: Acoustic(ds.Grid(SHAPE, 1.0), 0.1, order=8, boundary=side, sponge_speed=2.0), ["c"])  # type: ignore[misc]
        for side in ("zero", "mirror", "periodic")
    },
    "acoustic mixed": (lambda: Acoustic(ds.Grid(SHAPE, 1.0), 0.1, order=4, boundary=("periodic", ("mirror", "zero"), "mirror")), ["c"]),
    "elastic": (lambda: Elastic(ds.Grid(SHAPE, 1.0), 0.1, 4), ["vp", "rho"]),
    "laps": (Laps, ["k", "u"]),
}


@pytest.mark.gradients
@pytest.mark.parametrize("checkpoint", ["all", 2])
@pytest.mark.parametrize("name", sampled(EQUATIONS, gate=("acoustic mixed", "laps")))
def test_no_bit_depends_on_whether_products_are_stored(name: str, checkpoint: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    make, wrt = EQUATIONS[name]

    def gradient(planes: int) -> tuple[bool, dict[str, Any]]:
        monkeypatch.setattr(reverse, "PLANES", planes)
        simulation, rng, steps = ds.Simulation(make(), wrt=wrt), np.random.default_rng(0), 5
        inputs = {each: rng.uniform(0.5, 1.5, simulation.input_shape(each, steps)) for each in simulation.inputs}
        if "vs" in inputs:
            inputs["vs"] *= 0.2  # a solid resists compression
        solution, pullback = simulation.vjp(inputs, steps, checkpoint=steps if checkpoint == "all" else checkpoint)
        seed = {each: rng.standard_normal(np.shape(value)) for each, value in solution.final.items()}
        return "product" in simulation.source("vjp"), dict(pullback(ds.Solution(final=seed)))

    (stored, one), (inlined, other) = gradient(1), gradient(NEVER)
    assert stored and not inlined
    for each in wrt:
        np.testing.assert_array_equal(one[each], other[each], each)
        assert np.any(one[each])


def test_a_product_is_stored_where_eight_planes_read_it() -> None:
    def stored(shape: tuple[int, ...], order: int) -> bool:
        return "product" in ds.Simulation(Acoustic(ds.Grid(shape, 1.0), 0.1, order=order), wrt=["c"]).source("vjp")

    assert stored(SHAPE, 8) and not stored(SHAPE, 4) and not stored(SHAPE[1:], 8)
