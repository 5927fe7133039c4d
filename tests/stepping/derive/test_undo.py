"""Which steps can be undone, and which cells cannot."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import diffsim as ds
from diffsim.boundary import Boundary
from diffsim.checkpoint import Reversible, StoreAll
from diffsim.errors import PlanError
from diffsim.expr import diff, laplacian, tanh, where
from diffsim.mesh.field import Layout
from diffsim.stepping.derive.undo import undo
from diffsim.stepping.run.strips import damped_tiles, strip_rows, tile_addresses
from tests.cases import CASES
from tests.sampled import sampled

CAN = ("acoustic", "long", "overwritten", "staggered")
CANNOT = ("heat", "oddities", "nonlinear", "fluxes", "functions", "stretched", "regions", "sides", "numbers", "loop", "walls")


@pytest.mark.parametrize("case", [case for case in CASES if case.name.startswith(CAN + CANNOT)], ids=lambda c: c.name)
def test_what_can_be_undone(case: Any) -> None:
    assert (case.simulation()._stepper.backwards is None) == case.name.startswith(CANNOT)


class Pair(ds.Equation):
    """Two fields with the next values that a test gives."""

    def __init__(self, step: Any) -> None:
        self.grid, self.dt, self._step = ds.Grid((11, 9), 1.0), 0.1, step
        self.states = {"a": ds.Variable("zero"), "b": ds.Variable("zero")}
        self.parameters = {"k": ds.Variable("zero")}

    def step(self, a: Any, b: Any, k: Any) -> dict[str, Any]:
        return self._step(a, b, k)


def _one_after_the_other(a: Any, b: Any, k: Any) -> dict[str, Any]:
    moved = ds.stage(0.9 * a + 0.1 * laplacian(b))
    return {"a": moved, "b": b - 0.1 * k * tanh(laplacian(moved) * moved)}


def _through_a_stage(a: Any, b: Any, k: Any) -> dict[str, Any]:
    flux = ds.stage(k * diff(diff(a, 0), 0))
    moved = ds.stage(b + 0.1 * tanh(laplacian(flux)))
    return {"a": a * (1 + 0.1 * k) - 0.1 * tanh(moved), "b": moved}


def _both_at_once(a: Any, b: Any, k: Any) -> dict[str, Any]:
    return {"a": a + 0.1 * laplacian(b), "b": b - 0.1 * laplacian(a)}


def _at_a_neighbour(a: Any, b: Any, k: Any) -> dict[str, Any]:
    return {"a": a.shifted(0, 1) + 0.1 * b, "b": b}


def _not_linearly(a: Any, b: Any, k: Any) -> dict[str, Any]:
    return {"a": a * a + k, "b": b}


def _where_it_is_large(a: Any, b: Any, k: Any) -> dict[str, Any]:
    return {"a": a + 1e-8 * where(a > 0.5, k, 0.0), "b": b}


def _forgotten(a: Any, b: Any, k: Any) -> dict[str, Any]:
    return {"a": k * b, "b": b}


def _factor_of_a_state(a: Any, b: Any, k: Any) -> dict[str, Any]:
    return {"a": a * (2 + b), "b": b + 0.1 * k}


STEPS = {
    _one_after_the_other: True,
    _through_a_stage: True,
    _both_at_once: False,
    _at_a_neighbour: False,
    _not_linearly: False,
    _where_it_is_large: False,
    _forgotten: False,
    _factor_of_a_state: False,
}


@pytest.mark.parametrize("step", STEPS, ids=lambda s: s.__name__.strip("_"))
def test_a_step_is_undone_where_its_oldest_values_follow(step: Any) -> None:
    simulation = ds.Simulation(Pair(step), precision="f64")
    stepper, rng = simulation._stepper, np.random.default_rng(0)
    assert (stepper.backwards is not None) == STEPS[step]
    if stepper.backwards is None:
        return
    start = {name: rng.uniform(-1, 1, simulation.grid.shape) for name in "ab"}
    stepper.set_coefficients({"k": rng.uniform(0.5, 1, simulation.grid.shape)})
    for _ in range(2):
        stepper.storage.plan(0, 0, undone=True)
        stepper.start(start, {}, 6, undone=True)
        stepper.advance(0, 6)
        moved = stepper.state()
        stepper.undo(2, 6)
        stepper.undo(0, 2)
        for name, value in start.items():
            assert np.abs(moved[name] - value).max() > 1e-3
            np.testing.assert_allclose(stepper.state()[name], value, rtol=0, atol=1e-12)


@pytest.mark.parametrize(("shape", "lanes"), [((5, 37), 16), ((5, 37), 1), ((40,), 8), ((4, 3, 10), 4)])
def test_tiles_with_damped_cells_are_found(shape: tuple[int, ...], lanes: int) -> None:
    layout = Layout(shape, (2,) * len(shape), lanes, np.dtype(np.float32))
    rng = np.random.default_rng(0)
    stored = np.zeros(layout.storage, np.float32)
    cells = layout.cells(stored)
    cells[...] = rng.uniform(size=shape) < 0.05
    assert 0 < cells.sum() < cells.size
    factor = np.where(cells, -0.9, -1.0)
    tiles = damped_tiles(factor, 100, layout)
    flat = stored.reshape(-1, lanes)
    expected = np.flatnonzero(flat.any(axis=1))
    np.testing.assert_array_equal(tile_addresses(tiles, layout), expected)


def test_how_much_damping_counts_depends_on_the_steps() -> None:
    layout = Layout((8,), (1,), 1, np.dtype(np.float64))
    factor = np.array([-1, 1, 0.999, -0.9, -1.5, 0.0, np.nan, 1])
    assert damped_tiles(factor, 10, layout).ravel().tolist() == [3, 5, 6]
    assert damped_tiles(factor, 1000, layout).ravel().tolist() == [2, 3, 5, 6]


def test_more_strips_than_can_be_counted_are_refused() -> None:
    tiles = {"strip of p": np.zeros((2**20, 2), np.int64)}
    assert strip_rows(tiles, 2**10) == {"strip of p": 2**30}
    with pytest.raises(PlanError, match=r"got 2147483648 over 2048 steps"):
        strip_rows(tiles, 2**11)


def test_fields_are_undone_in_opposite_order() -> None:
    found = undo(ds.Simulation(Pair(_one_after_the_other))._step)
    assert found is not None and list(found.factors) == ["b", "a"]


class Staggered(ds.Equation):
    """Velocity, then pressure: p damped by a parameter, u along the edges of the first axis, in proportion to their neighbours' damping."""

    def __init__(self, grid: ds.Grid, boundary: Boundary) -> None:
        self.grid, self.dt, self.boundary = grid, 0.3, boundary
        self.states = {"p": ds.Variable(boundary), "u": ds.Variable(boundary)}
        self.parameters = {"s": ds.Variable(boundary), "r": ds.Variable(boundary)}

    def step(self, p: Any, u: Any, s: Any, r: Any) -> dict[str, Any]:
        moved = ds.stage((1 - r.shifted(0, 1)) * u - self.dt * (p.shifted(1, 1) - p), self.boundary)
        return {"p": (1 - s) * p - self.dt * (moved - moved.shifted(1, -1)), "u": moved}


BOUNDARIES, DAMPED = ("zero", "mirror", "periodic"), ("neither", "p", "u", "both")


@pytest.mark.parametrize(
    ("boundary", "damped"),
    sampled([(b, d) for d in DAMPED for b in BOUNDARIES], gate=[("zero", "both"), ("mirror", "p"), ("periodic", "u"), ("zero", "neither")]),
)
def test_each_field_keeps_what_it_loses(boundary: str, damped: str) -> None:
    """To the last bits, with damping that would amplify rounding errors by e^18; another run damps other cells."""
    steps, rng, shape = 60, np.random.default_rng(0), (11, 45)
    simulation = ds.Simulation(Staggered(ds.Grid(shape, 1.0), boundary), precision="f64")
    given = {name: rng.uniform(0.5, 1, shape) for name in "pu"} | {name: np.zeros(shape) for name in "sr"}
    for columns in (slice(30, 45), slice(0, 4)):
        given["s"][:], given["r"][:] = 0, 0
        given["s"][:, columns] = 0.3 if damped in ("p", "both") else 0
        given["r"][-1:] = 0.3 if damped in ("u", "both") else 0
        solution, pullback = simulation.vjp(given, steps, StoreAll(steps))
        expected = pullback(solution)
        found = simulation.vjp(given, steps, Reversible(steps, 20))[1](solution)
        for name, value in expected.items():
            np.testing.assert_allclose(found[name], value, rtol=0, atol=1e-12 * np.abs(value).max())
        kept = {name.removeprefix("strip of ") for name in simulation._stepper.launcher.strips}
        assert kept == {"neither": set(), "p": {"p"}, "u": {"u"}, "both": {"p", "u"}}[damped]


@pytest.mark.parametrize("boundary", ["periodic", ("mirror", "periodic"), ("periodic", "mirror")], ids=str)
@pytest.mark.parametrize("shape", [(5, 13), (3, 37)], ids=str)
def test_what_lies_beside_the_cells_is_no_error_of_the_gradient(shape: tuple[int, ...], boundary: Boundary) -> None:
    """Lanes that are not full have values that mean nothing, others in each run backwards. Where cotangents go round, so do sums there."""
    rng, steps = np.random.default_rng(0), 12
    simulation = ds.Simulation(Staggered(ds.Grid(shape, 1.0), boundary), precision="f64")
    fields = {name: rng.uniform(0.5, 1, shape) for name in "pu"} | {name: np.zeros(shape) for name in "sr"}
    solution, pullback = simulation.vjp(fields, steps, Reversible(steps, 6))
    pullback(solution)
    assert 0 < simulation.last_sweep.drift < 1e-12


class Forgetful(ds.Equation):
    """A wave that keeps nothing of its past at the edges, where it is continued by its mirror image."""

    def __init__(self, grid: ds.Grid) -> None:
        self.grid, self.dt = grid, 1.0
        self.states = {"p": ds.Variable("mirror"), "p_prev": ds.Variable("mirror")}
        self.parameters = {"k": ds.Variable("mirror")}
        self.profiles = {f"w{axis}": ds.Profile(axis, np.r_[0.0, np.ones(n - 2), 0.0]) for axis, n in enumerate(grid.shape)}

    def step(self, p: Any, p_prev: Any, k: Any, w0: Any, w1: Any) -> dict[str, Any]:
        return {"p": p + w0 * w1 * (p - p_prev) + 0.1 * k * laplacian(p, 4), "p_prev": p}


def test_cells_that_forget_everything_are_put_back_before_others_read_them() -> None:
    """Computed backwards they are not finite, and so would be the halo that is made of them."""
    steps, rng = 15, np.random.default_rng(0)
    simulation = ds.Simulation(Forgetful(ds.Grid((12, 45), 1.0)), precision="f64")
    given = {name: rng.uniform(0.5, 1, simulation.grid.shape) for name in simulation.inputs}
    solution, pullback = simulation.vjp(given, steps, StoreAll(steps))
    expected = pullback(solution)
    found = simulation.vjp(given, steps, Reversible(steps, 5))[1](solution)
    for name, value in expected.items():
        np.testing.assert_allclose(found[name], value, rtol=0, atol=1e-12 * np.abs(value).max())
