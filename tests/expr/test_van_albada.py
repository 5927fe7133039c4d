"""The limiter of van Albada: smooth at flat states, second order, and no more oscillation than its eps allows."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import diffsim as ds
from diffsim.errors import ParameterError
from diffsim.expr import Graph, Symbol, diff, mc, minmod, muscl, superbee, van_albada, van_leer, weno5
from diffsim.expr.derive import vjp
from diffsim.expr.evaluate import evaluate

CELLS = 100
X = 2 * np.pi * np.arange(CELLS) / CELLS
KINKED = (van_leer, minmod, mc, superbee)
ROUND_OFF = 1e-15


class Carried(ds.Equation):
    """A substance in a flow of 1 m/s."""

    def __init__(self, grid: ds.Grid, dt: float, faces: Callable[[Symbol], Symbol]) -> None:
        self.grid, self.dt, self.faces = grid, dt, faces
        self.states = {"c": ds.Variable("periodic")}

    def rate(self, now: dict[str, Symbol]) -> dict[str, Symbol]:
        return {"c": -diff(self.faces(now["c"]), 0)}

    def step(self, c: Symbol) -> dict[str, Symbol]:
        return ds.integrators.ssp_rk2(self.rate, {"c": c}, self.dt)


class Lake(ds.Equation):
    """Linear shallow water over a flat bed, with Rusanov fluxes of limited values: ηₜ = -qₓ, qₜ = -ηₓ."""

    def __init__(self, grid: ds.Grid, dt: float, limiter: Any) -> None:
        self.grid, self.dt, self.limiter = grid, dt, limiter
        self.states = {"eta": ds.Variable("mirror", unit="m"), "q": ds.Variable("odd_image", unit="m²/s")}

    def rate(self, now: dict[str, Symbol]) -> dict[str, Symbol]:
        (eta, eta_above), (q, q_above) = (muscl(now[name], 0, self.limiter) for name in ("eta", "q"))
        flux = ds.stage(0.5 * (q + q_above) - 0.5 * (eta_above - eta), boundary="odd_image")
        push = ds.stage(0.5 * (eta + eta_above) - 0.5 * (q_above - q), boundary="mirror")
        return {"eta": -diff(flux, 0), "q": -diff(push, 0)}

    def step(self, eta: Symbol, q: Symbol) -> dict[str, Symbol]:
        return ds.integrators.ssp_rk2(self.rate, {"eta": eta, "q": q}, self.dt)


def carried(limiter: Any, cells: int = CELLS, spacing: float = 1.0, dt: float = 0.4) -> ds.Simulation:
    return ds.Simulation(Carried(ds.Grid((cells,), spacing), dt, lambda c: muscl(c, 0, limiter)[0]), wrt=["c"], precision="f64")


def slopes(simulation: ds.Simulation, state: np.ndarray, steps: int = 100, h: float = 1e-4) -> tuple[float, float]:
    """The derivative of a loss along a wave, by the gradient and by differences."""
    weights, wave = np.sin(3 * X), np.sin(3 * X + 0.3)

    def loss(found: ds.Solution) -> Any:
        return (found.final["c"] * weights).sum()

    gradient = simulation.value_and_grad(loss, {"c": state}, steps)[1]["c"]
    up, down = (loss(simulation.run({"c": state + sign * h * wave}, steps)) for sign in (1, -1))
    return float(gradient @ wave), float(up - down) / (2 * h)


@pytest.mark.parametrize("noise", [0.0, ROUND_OFF])
def test_the_gradient_at_a_flat_state_is_that_of_the_smooth_limiter_only(noise: float) -> None:
    flat = 1 + noise * np.random.default_rng(0).standard_normal(CELLS)
    for limiter in (None, van_albada(), van_albada(1e-2)):
        slope, expected = slopes(carried(limiter), flat)
        assert slope == pytest.approx(expected, rel=1e-3)
    for kinked in KINKED:
        slope, expected = slopes(carried(kinked), flat)
        assert abs(slope / expected - 1) > 0.05, "if this fails, docs/limits.md is wrong"


@pytest.mark.parametrize(("eps", "right"), [(1e-6, True), (1e-20, True), (1e-40, False)])
def test_weights_of_weno_are_smooth_where_eps_is_above_round_off(eps: float, right: bool) -> None:
    simulation = ds.Simulation(Carried(ds.Grid((CELLS,), 1.0), 0.2, lambda c: weno5(c, 0, eps)[0]), wrt=["c"], precision="f64")
    slope, expected = slopes(simulation, 1 + ROUND_OFF * np.random.default_rng(0).standard_normal(CELLS), steps=10)
    assert (abs(slope / expected - 1) < 1e-3) is right


def test_the_slope_is_the_mean_at_a_flat_state_and_limited_far_from_it() -> None:
    graph = Graph()
    a, b = (Symbol(graph, graph.read(name, (0,)), (0,), (1.0,)) for name in "ab")
    limited = van_albada(1e-3)(a, b)
    bars = vjp(graph, {limited.node: graph.const(1)}, lambda name: True)
    nothing = {"a": np.zeros(1), "b": np.zeros(1)}
    assert [part.item() for part in evaluate([bars["a"][0,], bars["b"][0,]], nothing, (1,), (0,))] == [0.5, 0.5]
    fields = {"a": np.array([1.0, 1.0, 2.0, 1.0]), "b": np.array([1.0, -1.0, 1.0, 0.0])}
    assert evaluate([limited.node], fields, (4,), (0,))[0] == pytest.approx([1.0, 0.0, 1.2, 0.0], abs=1e-6)


def means(cells: int, moved: float) -> np.ndarray:
    """Means over the cells of a wave that was moved."""
    edges = np.arange(cells + 1) / cells - moved
    return -np.diff(np.cos(2 * np.pi * edges)) * cells / (2 * np.pi)


@pytest.mark.parametrize("eps", [1e-6, 1e-3, 1e-1])
def test_it_is_of_second_order(eps: float) -> None:
    errors = []
    for cells in (50, 100, 200):
        steps = round(1.25 * cells)
        moved = carried(van_albada(eps), cells, 1 / cells, 0.4 / cells).run({"c": means(cells, 0.0)}, steps).final["c"]
        errors.append(np.abs(moved - means(cells, 0.4 * steps / cells)).mean())
    orders = np.log2(np.array(errors[:-1]) / errors[1:])
    assert (orders > 1.9).all(), orders


@pytest.mark.parametrize("eps", [1e-6, 1e-3, 1e-1])
def test_oscillations_are_of_the_size_of_eps(eps: float) -> None:
    """The bounds of docs/limits.md, over 800 steps of a block of height 1."""
    block = np.where(abs(np.arange(200) - 60) < 20, 1.0, 0.0)
    simulation = carried(van_albada(eps), 200)
    for steps in (1, 10, 50, 200, 800):
        final = simulation.run({"c": block}, steps).final["c"]
        assert max(final.max() - 1, -final.min()) < 2 * eps
        assert np.abs(np.diff(final, append=final[0])).sum() < 2 + 10 * eps
        assert final.sum() == pytest.approx(block.sum())


@pytest.mark.parametrize(("limiter", "verdict"), [(van_albada(), "pass"), (None, "pass"), (van_leer, "fail"), (mc, "fail")])
def test_a_certificate_of_a_lake_at_rest(limiter: Any, verdict: str) -> None:
    lake = ds.Simulation(Lake(ds.Grid((60,), 1.0), 0.4, limiter), wrt=["eta"], precision="f64")
    rest = {"eta": np.full(60, 0.7), "q": np.zeros(60)}
    weights = np.sin(np.arange(60) / 5)
    assert np.abs(lake.run(rest, 20).final["q"]).max() < 1e-14
    report = ds.certify(lake, lambda solution: (solution.final["eta"] * weights).sum(), rest, steps=20)
    assert report.verdict == verdict, report
    failing = [line.note for line in report if line.passed is False]
    assert all("a limiter has it at a flat state" in note and "van_albada(eps)" in note for note in failing)
    assert bool(failing) is (verdict == "fail")


def test_a_limiter_is_pickled_and_its_eps_is_checked() -> None:
    again = pickle.loads(pickle.dumps(van_albada(0.5)))
    assert (again.func, again.args) == (van_albada(0.5).func, (0.5,))
    for wrong in (0.0, -1.0, float("nan")):
        with pytest.raises(ParameterError, match=r"^eps = "):
            van_albada(wrong)
