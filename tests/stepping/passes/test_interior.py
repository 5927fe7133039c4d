"""Nests with a shorter form for the interior compute the same bits as those without."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import diffsim as ds
from diffsim.expr import diff, interpolate, laplacian, where
from diffsim.layers import CPML
from diffsim.stepping.derive import programs
from diffsim.stepping.passes import interior
from tests.sampled import sampled


class Edges(ds.Equation):
    """A wave in layers of random width, on a grid whose sides have values by name or rules that say what the outermost cell is."""

    def __init__(self, rng: np.random.Generator) -> None:
        ndim = int(rng.integers(1, 4))
        self.grid = ds.Grid(tuple(int(n) for n in rng.integers(*[(30, 70), (16, 40), (9, 15)][ndim - 1], ndim)), 1.0)
        self.dt, self.order = 0.1, int(rng.choice([2, 4]))
        self.axis = int(rng.integers(ndim))
        cells = [(int(rng.integers(4)), int(rng.integers(4))) if axis == self.axis else 0 for axis in range(ndim)]
        self.layer = CPML(self.grid, self.dt, cells, 2.0, 0.5)
        rules = ["zero", "mirror", ds.Dirichlet("g"), ds.Neumann("g"), ds.Robin(1.0, 0.5, "g"), ds.Outflow(0.4)]
        sides = [tuple(rules[i] for i in rng.integers(len(rules), size=2)) for _ in range(ndim)]
        self.states = {"p": ds.Variable(tuple(sides)), "q": ds.Variable("mirror"), "m": self.layer.memory(self.axis)}
        self.parameters = {"k": ds.Variable("mirror"), "g": ds.Variable(axes=())}

    def step(self, p: Any, q: Any, m: Any, k: Any, g: Any) -> dict[str, Any]:
        slope = diff(interpolate(k, self.axis) * diff(p * p, self.axis), self.axis)
        stretched, m = self.layer.stretch(slope, self.axis, m)
        stored = ds.stage(q + self.dt * stretched.shifted(0, 1), "zero")
        push = laplacian(p, order=self.order) + stored.shifted(-1, -1) * k
        return {"p": p + self.dt * push, "q": stored * (1 + 0.1 * g), "m": m}


class Constant(ds.Equation):
    """A state that is set to a number."""

    def __init__(self) -> None:
        self.grid, self.dt = ds.Grid((3, 20), 1.0), 1.0
        self.states = {"a": ds.Variable()}

    def step(self, a: Any) -> dict[str, Any]:
        return {"a": 0.1 + 0 * a}


def test_a_constant_has_the_precision_of_the_field() -> None:
    assert (ds.Simulation(Constant(), precision="f64").run({}, 1).final["a"] == 0.1).all()


def _found(equation: ds.Equation, inputs: dict[str, Any], threads: int) -> tuple[list[np.ndarray], bool]:
    """A run, its gradient, and whether a nest has an interior."""
    ds.init(arch="cpu", precision="f64", threads=threads)
    simulation = ds.Simulation(equation, precision="f64")
    solution, pullback = simulation.vjp(inputs, 4, 2)
    gradient = pullback(ds.Solution({name: np.sin(3 * value) for name, value in solution.final.items()}))
    has = any(nest.interior for program in simulation._stepper.programs for nest in program.nests)
    return [*solution.final.values(), *gradient.values()], has


@pytest.mark.gradients
@pytest.mark.parametrize("seeds", sampled([range(12, 13), range(6)]))
def test_an_interior_changes_no_bit(seeds: range, monkeypatch: pytest.MonkeyPatch) -> None:
    """Random equations, with interiors wherever they save one operation in as little as a tenth of the cells."""
    some = 0
    monkeypatch.setattr(interior, "WORTH", 1.0)
    monkeypatch.setattr(interior, "LEAST", 0.1)
    for seed in seeds:
        rng = np.random.default_rng(seed)
        equation = Edges(rng)
        shape = equation.grid.shape
        inputs = {name: rng.normal(size=shape) for name in "pqmk"} | {"g": np.array(0.7)}
        with monkeypatch.context() as patch:
            patch.setattr(programs, "with_interiors", lambda program, *_: program)
            plain, none = _found(equation, inputs, 1)
        found, has = _found(equation, inputs, 2)
        assert not none
        some += has
        for one, other in zip(found, plain, strict=True):
            np.testing.assert_array_equal(one, other, err_msg=f"{seed} {shape} {equation.states['p'].boundary}")
    ds.init(arch="cpu", precision="f64")
    assert some >= len(seeds) // 2


class Flat(ds.Equation):
    """A state that exists at the low end of the axis in the middle, where there are few cells."""

    def __init__(self, cells: int) -> None:
        self.grid, self.dt = ds.Grid((8, cells, 40), 1.0), 0.1
        exists = np.zeros(self.grid.shape, bool)
        exists[:, : {2: 1, 3: 2, 7: 5}[cells]] = True
        self.states = {"u": ds.Variable("zero"), "m": ds.Variable(region=exists)}

    def step(self, u: Any, m: Any) -> dict[str, Any]:
        return {"u": u + 0.1 * (diff(diff(u, 1), 1) + m + m * m * u), "m": 0.9 * m + 0.1 * u * u - 0.2 * m * m + 0.3 * m * m * m}


@pytest.mark.parametrize("cells", sampled([3, 2, 7]))
def test_an_interior_ends_where_the_grid_does(cells: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng, equation = np.random.default_rng(0), Flat(cells)
    inputs = {"u": rng.uniform(-1, 1, equation.grid.shape), "m": np.zeros(equation.grid.shape)}
    found, has = _found(equation, inputs, 2)
    monkeypatch.setattr(programs, "with_interiors", lambda program, *_: program)
    plain, _ = _found(equation, inputs, 2)
    ds.init(arch="cpu", precision="f64")
    assert has
    for one, other in zip(found, plain, strict=True):
        np.testing.assert_array_equal(one, other)


class Ground(ds.Equation):
    """A state that exists in most cells, and one in a layer at the low end."""

    def __init__(self) -> None:
        self.grid, self.dt = ds.Grid((30, 44), 1.0), 0.1
        ground, layer = np.ones(self.grid.shape, bool), np.zeros(self.grid.shape, bool)
        ground[:4], ground[:9, 10:20], layer[:, :6] = False, False, True
        self.states = {"u": ds.Variable(region=ground), "m": ds.Variable(region=layer)}

    def step(self, u: Any, m: Any) -> dict[str, Any]:
        return {"u": u + 0.1 * (laplacian(u) + m * m * u + m), "m": 0.9 * m + 0.1 * u * u - 0.2 * m * m + 0.3 * m * m * m}


def test_a_state_of_most_cells_does_not_prevent_an_interior(monkeypatch: pytest.MonkeyPatch) -> None:
    equation, rng = Ground(), np.random.default_rng(0)
    inputs = {name: rng.uniform(-1, 1, equation.grid.shape) * variable.region for name, variable in equation.states.items()}
    found, has = _found(equation, inputs, 2)
    monkeypatch.setattr(programs, "with_interiors", lambda program, *_: program)
    plain, _ = _found(equation, inputs, 2)
    ds.init(arch="cpu", precision="f64")
    assert has
    for one, other in zip(found, plain, strict=True):
        np.testing.assert_array_equal(one, other)


class Compared(ds.Equation):
    """A branch by a profile whose values are numbers that f32 has not."""

    def __init__(self) -> None:
        self.grid, self.dt = ds.Grid((40, 64), 1.0), 0.1
        self.states = {"q": ds.Variable()}
        self.profiles = {"w": ds.Profile(0, np.where(np.arange(40) < 4, 0.5, 0.1))}

    def step(self, q: Any, w: Any) -> dict[str, Any]:
        return {"q": where(w > 0.1, q + 1, q * (1 - 0.3 * w) * (1 + 0.1 * w) * w)}


@pytest.mark.parametrize("precision", ["f32", "f64"])
def test_conditions_compare_numbers_of_the_kernel(precision: Any) -> None:
    simulation = ds.Simulation(Compared(), precision=precision)
    assert simulation._stepper.forward.operations[0].interior is not None  # type: ignore[union-attr]
    q = simulation.run({"q": np.ones((40, 64))}, 1).final["q"]
    assert (q[:4] == 2).all() and np.allclose(q[4:], 0.97 * 1.01 * 0.1, rtol=1e-6)
