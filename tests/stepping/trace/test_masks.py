"""A singularity that a step masks does not count: solution, adjoint and tangent of the kernels against an array program."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import diffsim as ds
import diffsim.numpy as dn
from diffsim.errors import TraceError
from tests.expr.masked import Expression, expression, fields
from tests.expr.test_masks import SYMBOLS

SHAPE, STEPS, SEEDS = (7, 12), 3, (1, 5, 6)


class Masked(ds.Equation):
    """Two states on a torus: q changes by an expression of both, here and at a neighbour; h is carried along."""

    def __init__(self, f: Expression) -> None:
        self.grid, self.dt, self.f = ds.Grid(SHAPE, 1.0), 1.0, f
        self.states = {"q": ds.Variable("periodic"), "h": ds.Variable("periodic")}

    def step(self, q: Any, h: Any) -> dict[str, Any]:
        f = self.f(SYMBOLS, q, h)
        return {"q": 0.8 * q + 0.1 * f.shifted(1, 1) + 0.05 * f.shifted(0, -1), "h": h}


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("seed", SEEDS)
def test_a_masked_singularity_in_a_step(seed: int) -> None:
    rng = np.random.default_rng(seed)
    f = expression(rng)
    q, h = fields(rng, SHAPE)
    q_dot, h_dot, q_bar, h_bar = rng.normal(size=(4, *SHAPE))

    def program(q: Any, h: Any) -> Any:
        for _ in range(STEPS):
            y = f(dn, q, h)
            q = 0.8 * q + 0.1 * dn.roll(y, -1, 1) + 0.05 * dn.roll(y, 1, 0)
        return q, h

    simulation = ds.Simulation(Masked(f))
    solution, pullback = simulation.vjp({"q": q, "h": h}, STEPS)
    bars = pullback(ds.Solution({"q": q_bar, "h": h_bar}, {}))
    _, tangent = simulation.jvp({"q": q, "h": h}, {"q": q_dot, "h": h_dot}, STEPS)
    (value, _), of_program = ds.vjp(program, q, h)
    wanted = of_program((q_bar, h_bar))
    moved = ds.jvp(program, (q, h), (q_dot, h_dot))[1]
    pairs = [(solution.final["q"], value), (bars["q"], wanted[0]), (bars["h"], wanted[1]), (tangent.final["q"], moved[0])]
    for x, y in pairs:
        assert np.isfinite(y).all()
        np.testing.assert_allclose(x, y, rtol=1e-9, atol=1e-11)


class Stored(ds.Equation):
    """A step that stores, or gives, a condition."""

    def __init__(self, whole: bool) -> None:
        self.grid, self.dt, self.whole = ds.Grid(SHAPE, 1.0), 1.0, whole
        self.states = {"q": ds.Variable()}

    def step(self, q: Any) -> dict[str, Any]:
        return {"q": q > 0 if self.whole else q * ds.stage(q > 0)}


@pytest.mark.parametrize(("whole", "what"), [(True, "q"), (False, r"stage\(\)")])
def test_conditions_are_not_stored(whole: bool, what: str) -> None:
    with pytest.raises(TraceError, match=rf"^{what} expected numbers, got a condition; write where\(condition, 1\.0, 0\.0\)"):
        ds.Simulation(Stored(whole))


class Fluid(ds.Equation):
    """Heat in a fluid around solids, which a coefficient knows by their conductivity alone."""

    def __init__(self) -> None:
        self.grid, self.dt = ds.Grid(SHAPE, 1.0), 0.1
        self.states = {"T": ds.Variable("mirror")}
        self.parameters = {"k": ds.Variable("mirror"), "q": ds.Variable("mirror")}

    def coefficients(self, k: Any, q: Any) -> dict[str, Any]:
        return {"fluid": ds.expr.where(ds.expr.minimum(k, k.shifted(0, 1)) > 0.5, 1.0, 0.0), "k": k, "q": q * ds.expr.sign(k)}

    def step(self, T: Any, fluid: Any, k: Any, q: Any) -> dict[str, Any]:
        return {"T": T + self.dt * fluid * (k * ds.expr.laplacian(T) + q)}


@pytest.mark.parametrize(("wrt", "active"), [(["k"], {"k"}), (["k", "q"], {"k", "q"}), (["q"], {"q"}), (["T"], set())])
def test_a_coefficient_that_only_compares_an_input_has_no_cotangent(wrt: list[str], active: set[str]) -> None:
    rng = np.random.default_rng(3)
    simulation = ds.Simulation(Fluid(), wrt=wrt, precision="f64")
    assert simulation._step.active == active
    inputs = {"T": rng.normal(size=SHAPE), "k": rng.uniform(0.2, 0.9, SHAPE), "q": rng.normal(size=SHAPE)}
    assert ds.certify(simulation, lambda solution: 0.5 * (solution.final["T"] ** 2).sum(), inputs, steps=4, seed=2).passed
