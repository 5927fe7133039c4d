"""Nests with a shorter form for the interior compute the same bits as those without."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import diffsim as ds
from diffsim.expr import diff, interpolate, laplacian
from diffsim.layers import CPML
from diffsim.stepping import interior, programs


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
def test_an_interior_changes_no_bit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Random equations, with interiors wherever they save one operation in as little as a tenth of the cells."""
    some = 0
    monkeypatch.setattr(interior, "WORTH", 1.0)
    monkeypatch.setattr(interior, "LEAST", 0.1)
    for seed in range(6):
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
    assert some >= 4
