"""States that a step overwrites, and stages that are stored in place of states: the same bits, and barriers where workers need them."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

import diffsim as ds
from diffsim.base.system import usable_cores
from diffsim.checkpoint import Binomial, Reversible, StoreAll
from diffsim.expr import laplacian, tanh
from diffsim.stepping.derive import programs
from diffsim.stepping.derive.forward import forward_program
from diffsim.stepping.ir.program import Program
from diffsim.stepping.source.kernel import ARRIVALS
from tests.sampled import sampled
from tests.stepping.passes.test_sharing import traced

THREADS = min(2, usable_cores())
STEPS = 6
GRID = ds.Grid((37, 21), 1.0)
ALWAYS, NEVER = 0, 10**9


def elastic(boundary: Any, receivers: Any = None) -> ds.Simulation:
    """Forces and receivers at the sides, and where the slabs of two workers meet."""
    places = [[0.5, 0.0], [16.2, 7.4], [17.9, 20.0], [36.5, 3.0]]
    return ds.Simulation(
        ds.solvers.Elastic(GRID, 0.2, boundary=boundary),
        sources={"fy": places, "mxx": [[3.5, 4.5]]},
        receivers=receivers or {"vy": places, "sxy": [[17.2, 4.0]]},
        wrt=["vp", "vs", "rho"],
    )


def maxwell() -> ds.Simulation:
    return ds.Simulation(
        ds.solvers.Maxwell(GRID, 0.5, boundary="periodic"), sources={"Jz": [[17.5, 3.5], [0.5, 0.5]]}, receivers={"Ez": [[18.0, 4.0]]}
    )


class Driven(ds.Equation):
    """Two fields. The first has sources, and a step reads it at neighbours, also outside the grid."""

    forcings = ("f",)

    def __init__(self, grid: ds.Grid) -> None:
        self.grid, self.dt = grid, 0.1
        self.states = {"a": ds.Variable("mirror"), "b": ds.Variable("periodic")}
        self.parameters = {"k": ds.Variable("mirror")}

    def step(self, a: Any, b: Any, k: Any, f: Any) -> dict[str, Any]:
        moved = ds.stage(a + self.dt * k * laplacian(a) + self.dt * b, "mirror")
        return {"a": moved + self.dt * f, "b": b - self.dt * k * laplacian(moved)}


def driven() -> ds.Simulation:
    return ds.Simulation(Driven(GRID), sources={"f": [[0.0, 0.0], [17.0, 20.0], [36.0, 8.0]]}, receivers={"a": [[18.0, 4.0]]})


SIMULATIONS = {"driven": driven, "periodic": lambda: elastic("periodic"), "zero": lambda: elastic("zero"), "maxwell": maxwell}
MEDIA = {"vp": (1.5, 2.2), "vs": (0.7, 1.1), "rho": (0.8, 1.2), "eps": (1.0, 2.0)}


def found(simulation: ds.Simulation, checkpoint: Any) -> dict[str, np.ndarray]:
    """Solution and gradient of random inputs with random cotangents."""
    random = np.random.default_rng(0)
    inputs = {name: random.uniform(*MEDIA.get(name, (-1, 1)), simulation.input_shape(name, STEPS)) for name in simulation.inputs}
    solution, pullback = simulation.vjp(inputs, STEPS, checkpoint=checkpoint)
    out = {f"{kind} {name}": value for kind in ("final", "traces") for name, value in getattr(solution, kind).items()}
    seeds = {key: random.standard_normal(value.shape) for key, value in out.items()}
    final, traces = ({key.split()[1]: seed for key, seed in seeds.items() if key.startswith(kind)} for kind in ("final", "traces"))
    return out | {f"gradient {name}": value for name, value in pullback(ds.Solution(final=final, traces=traces)).items()}


def differing(one: dict[str, np.ndarray], other: dict[str, np.ndarray]) -> list[str]:
    assert one.keys() == other.keys()
    return [key for key, value in one.items() if value.tobytes() != other[key].tobytes()]


@pytest.mark.parametrize("name", sampled(SIMULATIONS, gate=("zero", "maxwell")))
def test_what_is_overwritten_changes_no_bit(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    ds.init(precision="f64", threads=THREADS)
    monkeypatch.setattr(programs, "LARGE", NEVER)
    apart = SIMULATIONS[name]()
    wanted = found(apart, StoreAll(STEPS))
    monkeypatch.setattr(programs, "LARGE", ALWAYS)
    simulation = SIMULATIONS[name]()
    for checkpoint in (StoreAll(STEPS), Binomial(STEPS, 2)):
        assert differing(found(simulation, checkpoint), wanted) == []
    stepper = simulation._stepper
    assert stepper.adjoint is not None
    rings = {*stepper.depths, *stepper.adjoint.depths}
    assert {ring for ring in rings if not stepper.programs.in_place(ring)} == ({"a"} if name == "driven" else set())
    assert not any(apart._stepper.programs.in_place(ring) for ring in rings)
    ds.init(precision="f64", threads=1)
    assert differing(found(SIMULATIONS[name](), Binomial(STEPS, 2)), wanted) == []


def test_a_stage_with_sources_is_stored_once(monkeypatch: pytest.MonkeyPatch) -> None:
    ds.init(precision="f64", threads=THREADS)
    monkeypatch.setattr(programs, "LARGE", ALWAYS)
    stepper = elastic("zero")._stepper
    assert stepper.adjoint is not None and stepper.with_residuals is not None
    for program in (stepper.forward, stepper.with_residuals.forward, stepper.with_residuals.adjoint):
        assert not [array for array in program.arrays() if array.startswith("stage")]
        for nest in program.nests:
            assert all(assign.node.op != "read" for assign in nest.assigns)


def barriers(simulation: ds.Simulation, program: Program) -> int:
    return simulation._stepper.launcher.source_of(program, workers=2).source.count(f"ti.atomic_add(control[{ARRIVALS}], 1)")


def test_workers_wait_where_points_need_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two nests. The next nest reads the velocities that forces change at its own cells, so only receivers of them make others wait."""
    ds.init(precision="f64", threads=THREADS)
    monkeypatch.setattr(programs, "LARGE", ALWAYS)
    velocity, stress = elastic("zero"), elastic("zero", {"sxx": [[3.0, 4.0]]})
    assert barriers(velocity, velocity._stepper.forward) == 4
    assert barriers(stress, stress._stepper.forward) == 2
    assert velocity._stepper.with_residuals is not None
    # sources' cotangents are read before the first of three nests overwrites them; receivers' are added last, and are among them
    assert barriers(velocity, velocity._stepper.with_residuals.adjoint) == 5
    monkeypatch.setattr(programs, "LARGE", NEVER)
    apart = elastic("zero")
    assert barriers(apart, apart._stepper.forward) == 2


class Three(ds.Equation):
    """Three fields with the next values that a test gives."""

    def __init__(self, step: Any) -> None:
        self.grid, self.dt, self._step = GRID, 0.1, step
        self.states = {name: ds.Variable("zero") for name in "abd"}
        self.parameters = {"k": ds.Variable("zero")}

    def step(self, a: Any, b: Any, d: Any, k: Any) -> dict[str, Any]:
        return self._step(a, b, d, k)


def _before(a: Any, b: Any, d: Any, k: Any) -> dict[str, Any]:
    moved = ds.stage(a + 0.1 * laplacian(b), "zero")
    return {"a": moved, "b": b + 0.1 * k * laplacian(moved), "d": d + 0.1 * b * laplacian(moved)}


def _in_the_same_nest(a: Any, b: Any, d: Any, k: Any) -> dict[str, Any]:
    return {"a": a + 0.1 * laplacian(b), "b": b + 0.1 * k, "d": d + 0.1 * b}


def _after(a: Any, b: Any, d: Any, k: Any) -> dict[str, Any]:
    moved = ds.stage(a + 0.1 * laplacian(b), "zero")
    return {"a": moved, "b": b + 0.1 * k * laplacian(moved), "d": d + tanh(a) * moved}


@pytest.mark.parametrize(("step", "overwritten"), [(_before, "abd"), (_in_the_same_nest, "ad"), (_after, "bd")])
def test_what_a_step_may_overwrite(step: Any, overwritten: str) -> None:
    program = dataclasses.replace(forward_program(traced(Three(step)), ()), overwrites=True)
    assert {name for name in "abd" if program.in_place(name)} == {*overwritten}


def test_a_step_backwards_may_leave_what_a_step_overwrites(monkeypatch: pytest.MonkeyPatch) -> None:
    """Backwards, `a` is computed in the nest that reads its neighbours."""
    ds.init(precision="f64", threads=THREADS)
    monkeypatch.setattr(programs, "LARGE", ALWAYS)
    simulation = ds.Simulation(Three(_before), wrt=["k"])
    stepper, random = simulation._stepper, np.random.default_rng(1)
    assert stepper.programs.undone is not None
    assert all(stepper.programs.in_place(name) for name in "abd") and not stepper.programs.undone.program.in_place("a")
    start = {name: random.uniform(-1, 1, GRID.shape) for name in "abd"}
    stepper.set_coefficients({"k": random.uniform(0.5, 1, GRID.shape)})
    stepper.storage.plan(0, 0, undone=True)
    stepper.start(start, {}, STEPS, undone=True)
    stepper.advance(0, STEPS)
    stepper.undo(0, STEPS)
    for name, value in start.items():
        np.testing.assert_allclose(stepper.state()[name], value, rtol=0, atol=1e-12)
    wanted = found(simulation, StoreAll(STEPS))
    backwards = Reversible(STEPS)
    got = found(simulation, backwards)
    assert simulation.allocated_bytes() >= simulation.predicted_bytes(backwards)
    for key, value in wanted.items():
        np.testing.assert_allclose(got[key], value, rtol=0, atol=1e-12 * np.abs(value).max(), err_msg=key)
