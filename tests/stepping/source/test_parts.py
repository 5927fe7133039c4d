"""Parts of a step between calls of the host that differ in names, levels and numbers alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import diffsim as ds
from diffsim.expr import diff_centred, laplacian
from diffsim.stepping.run import launcher
from diffsim.stepping.source import slabs

SHAPE = (12, 21)


class Smoothed(ds.Equation):
    """Two fields, advected by stages with weights of their own, each of which a linear system smooths.

    With `twice` the second stage has one more, so that no other is like it.
    """

    def __init__(self, weights: tuple[float, ...], boundary: Any = "periodic", twice: bool = False) -> None:
        self.grid, self.dt, self.weights, self.boundary, self.twice = ds.Grid(SHAPE, 1.0), 0.1, weights, boundary, twice
        self.states = {name: ds.Variable(boundary) for name in ("u", "v", "u_1")}
        self.parameters = {"k": ds.Variable(boundary), "c": ds.Variable(axes=())}

    def step(self, u: Any, v: Any, u_1: Any, k: Any, c: Any) -> dict[str, Any]:
        now = u, v
        for number, weight in enumerate(self.weights):
            a, b = now
            push = k * a * diff_centred(b, 0) - c * b * diff_centred(a, 1) + 0.2 * laplacian(a) * a
            rates = push, k * b * diff_centred(a, 1) + c * diff_centred(b * a, 0) + 0.3 * b * a
            stages = [ds.stage(s + weight * self.dt * r, boundary=self.boundary) for s, r in zip((u_1, v), rates, strict=True)]
            if self.twice and number == 1:
                stages[0] = ds.stage(stages[0] * stages[1], boundary=self.boundary)
            now = tuple(ds.solve(lambda q: q - 0.1 * laplacian(q), stage, boundary=self.boundary) for stage in stages)
        return {"u": now[0], "v": now[1], "u_1": u}


def run(equation: ds.Equation, precision: Any) -> tuple[list[bytes], Any]:
    """The bits of states and gradients, and the launcher."""
    rng = np.random.default_rng(3)
    simulation = ds.Simulation(equation, wrt=["u", "v", "k", "c"], precision=precision)
    inputs = {name: rng.uniform(0.5, 1.5, simulation.input_shape(name, 3)) for name in simulation.inputs}
    solution, pullback = simulation.vjp(inputs, 3)
    gradient = pullback(ds.Solution({name: np.cos(7 * values) for name, values in solution.final.items()}))
    bits = [np.ascontiguousarray(array).tobytes() for part in (solution.final, gradient) for _, array in sorted(part.items())]
    return bits, simulation._compiled.stepper.launcher


def kernels(launched: launcher.Launcher) -> tuple[int, int]:
    """How many parts of steps have been compiled, and how many kernels they have."""
    parts = {key: kernel for key, kernel in launched._compiled.items() if "_part_" in key[0]}
    return len(parts), len({id(kernel) for kernel in parts.values()})


@pytest.mark.parametrize(
    ("weights", "boundary", "precision", "threads"),
    [
        pytest.param((0.25, 1 / 3, 0.5, 1.0), "periodic", "f64", 1, marks=pytest.mark.slow),
        pytest.param((0.25, 1 / 3, 0.5, 1.0), "mirror", "f64", 2, marks=pytest.mark.slow),
        ((1 / 3, 0.5, 1.0), (("zero", "mirror"), "periodic"), "f32", 2),
    ],
)
def test_parts_that_are_alike_have_one_kernel_and_no_bit_changes(
    weights: tuple[float, ...], boundary: Any, precision: Any, threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slabs, "LEAST_CYCLES", 1)
    ds.init(precision=precision, threads=threads)
    together, shared = run(Smoothed(weights, boundary), precision)
    monkeypatch.setattr(launcher, "shared_parts", list)
    apart, own = run(Smoothed(weights, boundary), precision)
    parts, few = kernels(shared)
    assert kernels(own) == (parts, parts)  # each its own
    assert parts - few == 2 * len(weights) - 5  # all stages but the first one are alike, in the adjoint also but the last one
    assert together == apart


def test_a_part_of_its_own_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    together, shared = run(Smoothed((0.5, 1.0), twice=True), "f64")
    parts, few = kernels(shared)
    assert parts == few
    monkeypatch.setattr(launcher, "shared_parts", list)
    assert together == run(Smoothed((0.5, 1.0), twice=True), "f64")[0]
