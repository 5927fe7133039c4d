"""Cotangents outside the grid are the same, whether the loops over the cells compute them or sweeps of their own."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest

import diffsim as ds
from diffsim.layers import CPML
from diffsim.stepping.ir import program
from diffsim.stepping.ir.program import Nest
from diffsim.stepping.passes import interior, rolling
from diffsim.stepping.source.tile_loops import TileKernel

SHAPES = [(20, 60), (8, 30), (5, 12)]
"""The smallest and the largest number of cells along an axis, for grids of one, two and three axes."""


class Fluxes(ds.Equation):
    """Two fields with nonlinear fluxes along some axes, with random rules on the sides, some in an absorbing layer, some with a stage."""

    def __init__(self, rng: np.random.Generator, ndim: int, along: Sequence[int]) -> None:
        self.along = along
        self.grid, self.dt = ds.Grid(tuple(int(n) for n in rng.integers(*SHAPES[ndim - 1], ndim)), 1.0), 0.05
        self.staged, self.axis = bool(rng.integers(2)), int(rng.integers(ndim))
        layers = [(int(rng.integers(3)), int(rng.integers(3))) if axis == self.axis else 0 for axis in range(ndim)]
        self.layer = CPML(self.grid, self.dt, layers, 1.0, 0.5) if rng.integers(2) else None
        sides = ["zero", "mirror", ds.OddImage(), ds.Extrapolate(2), ds.Dirichlet("g"), ds.Neumann("g"), ds.Outflow(0.4)]

        def rules() -> tuple[Any, ...]:
            return tuple(
                ("periodic" if self.layer is None or axis != self.axis else "mirror")
                if rng.random() < 0.25
                else tuple(sides[i] for i in rng.integers(len(sides), size=2))
                for axis in range(ndim)
            )

        self.states = {"u": ds.Variable(rules()), "v": ds.Variable(rules())}
        self.parameters = {"k": ds.Variable("mirror"), "g": ds.Variable(axes=())}
        if self.layer is not None:
            self.states["m"] = self.layer.memory(self.axis)

    def step(self, u: Any, v: Any, k: Any, g: Any, **memory: Any) -> dict[str, Any]:
        change, m = {"u": 0.0, "v": 0.0}, memory.get("m")
        for axis in self.along:
            wide = u + 0.3 * (u.shifted(axis, 1) - u.shifted(axis, -1))
            low = wide * v / (1 + wide * wide)
            flux = k * low + low.shifted(axis, 1) ** 2
            gain = flux.shifted(axis, -1) - flux
            if m is not None and axis == self.axis:
                gain, m = self.layer.stretch(gain, axis, m)
            change["u"], change["v"] = change["u"] + gain, change["v"] + gain * v
        u, v = u + self.dt * change["u"] * g, v + self.dt * change["v"]
        if self.staged:
            u = ds.stage(u, boundary=self.states["u"].boundary)
            v = v + self.dt * (u.shifted(0, 1) - u) ** 2 / (1 + u.shifted(0, -1) ** 2)
        return {"u": u, "v": v} | ({} if m is None else {"m": m})


def _result(equation: Fluxes, inputs: dict[str, Any], precision: Any, threads: int) -> list[np.ndarray]:
    """A gradient along random cotangents of all states."""
    ds.init(arch="cpu", precision=precision, threads=threads)
    simulation = ds.Simulation(equation, precision=precision)
    solution, pullback = simulation.vjp(inputs, 3)
    rng = np.random.default_rng(1)
    return [*pullback(ds.Solution({name: rng.normal(size=value.shape) for name, value in solution.final.items()})).values()]


@pytest.fixture(autouse=True)
def _precision_as_before() -> Iterator[None]:
    yield
    ds.init(arch="cpu", precision="f64")


IN_GATE = [
    (1, (0,), [29]),
    pytest.param(2, (1,), [11], marks=pytest.mark.gradients),
    pytest.param(3, (0, 1, 2), [2], marks=pytest.mark.slow),
]
"""Few operations, which compile in half of the time, and yet all ways."""


@pytest.mark.parametrize(
    ("ndim", "along", "seeds"),
    [*IN_GATE, *(pytest.param(ndim, range(ndim), range(30), marks=pytest.mark.slow) for ndim in (1, 2, 3))],
)
def test_one_sweep_over_the_grid_and_beyond_changes_no_bit(
    ndim: int, along: Sequence[int], seeds: Sequence[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Random equations, with values kept and interiors wherever that saves an operation. On two threads some rules need other slabs."""
    monkeypatch.setattr(rolling, "WORTH", 100.0)
    monkeypatch.setattr(interior, "WORTH", 1.0)
    monkeypatch.setattr(interior, "LEAST", 0.1)
    original, ways = TileKernel.beyond, set[str]()

    def noted(kernel: TileKernel, nest: Nest) -> tuple[int, ...]:
        beyond = original(kernel, nest)
        if nest.groups and nest.folded:
            ways.add("all together" if ndim == 1 or beyond[0] else "rows apart")
            ways.update(["interior"] if nest.interior else [], ["not all"] if len({a.outside for a in nest.assigns}) > 1 else [])
            ways.update(["added"] if any(a.accumulate for a in nest.folded) else [])
        return beyond

    for seed in seeds:
        rng = np.random.default_rng(seed)
        equation = Fluxes(rng, ndim, along)
        shape, precision = equation.grid.shape, rng.choice(["f32", "f64"])
        inputs = {name: rng.normal(size=shape) for name in "uv"} | {"k": rng.uniform(0.5, 1, shape), "g": np.array(0.7)}
        with monkeypatch.context() as patch:
            patch.setattr(TileKernel, "beyond", lambda kernel, nest: (0,) * kernel.ndim)
            apart = _result(equation, inputs, precision, 1)
        monkeypatch.setattr(TileKernel, "beyond", noted)
        assert all(np.isfinite(each).all() for each in apart) and all(map(np.any, apart[:2]))
        for one, other in zip(_result(equation, inputs, precision, 2), apart, strict=True):
            np.testing.assert_array_equal(one, other, err_msg=f"{seed} {shape} {equation.states['u'].boundary}")
    assert ways >= {"all together", "interior", "not all", "added"} | ({"rows apart"} if ndim == 2 else set())


def test_long_nests_are_swept_without_kept_values(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every nest counts as long, and none keeps values. On two threads the rows outside belong to different slabs."""
    monkeypatch.setattr(rolling, "WORTH", 0.0)
    monkeypatch.setattr(program, "LONG", 1)
    rng = np.random.default_rng(11)
    equation = Fluxes(rng, 2, (0,))
    inputs = {name: rng.normal(size=equation.grid.shape) for name in "uv"} | {
        "k": rng.uniform(0.5, 1, equation.grid.shape),
        "g": np.array(0.7),
    }
    original, far = TileKernel.beyond, list[tuple[int, ...]]()
    with monkeypatch.context() as patch:
        patch.setattr(TileKernel, "beyond", lambda kernel, nest: (0,) * kernel.ndim)
        apart = _result(equation, inputs, "f64", 1)

    def noted(kernel: TileKernel, nest: Nest) -> tuple[int, ...]:
        far.append(original(kernel, nest))
        return far[-1]

    monkeypatch.setattr(TileKernel, "beyond", noted)
    for one, other in zip(_result(equation, inputs, "f64", 2), apart, strict=True):
        np.testing.assert_array_equal(one, other)
    assert any(map(any, far)) and all(map(np.any, apart[:2]))


def test_cells_outside_are_computed_by_one_call() -> None:
    """LLVM puts a function in the place of each of its calls, which took a third of the time to compile an adjoint in three dimensions."""
    heat = ds.Simulation(ds.solvers.Heat(ds.Grid((6, 6), 1.0), dt=0.1), wrt=["kappa", "T"])
    calls = re.findall(r"called = (nest_\d+_folded_\d+)\(", heat.source("vjp"))
    assert calls and len(calls) == len(set(calls))
