"""Steps with calls of host functions: halos that kernels fill, residuals that are kept as cells alone, and the ends of rows."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import pytest

import diffsim as ds
from diffsim.checkpoint import Binomial
from diffsim.engine.arrays import GUARD
from diffsim.errors import SingularError
from diffsim.expr import diff_centred, laplacian
from diffsim.stepping.ir.program import Program
from diffsim.stepping.run import storage
from diffsim.stepping.run.launcher import Launcher
from tests.cases import CASES

STEPS = 7


class Squared(ds.Equation):
    """Implicit diffusion of a field that was squared and carried along: its adjoint needs the states and the solutions."""

    def __init__(self, shape: tuple[int, ...], boundary: Any) -> None:
        self.grid, self.dt = ds.Grid(shape, 1.0), 0.1
        self.states = {"u": ds.Variable(boundary)}
        self.parameters = {"k": ds.Variable("mirror")}

    def step(self, u: Any, k: Any) -> dict[str, Any]:
        w = ds.solve(lambda x: x - 0.3 * laplacian(x), u + 0.1 * u * u, boundary=u)
        return {"u": w - 0.1 * k * w * diff_centred(w, 0) + 0.05 * laplacian(w)}


def gradient(boundary: Any, shape: tuple[int, ...], checkpoint: Any = "auto") -> tuple[dict[str, np.ndarray], Any]:
    simulation = ds.Simulation(Squared(shape, boundary), wrt=["u", "k"], precision="f64")
    rng = np.random.default_rng(0)
    inputs = {name: rng.uniform(0.5, 1.0, shape) for name in ("u", "k")}
    solution, pullback = simulation.vjp(inputs, STEPS, checkpoint)
    bars = pullback(ds.Solution({"u": np.cos(solution.final["u"])}))
    return {"final": solution.final["u"], **bars}, simulation._stepper


def require_equal(one: dict[str, np.ndarray], other: dict[str, np.ndarray]) -> None:
    for name, value in one.items():
        assert np.isfinite(value).all() and np.ptp(value) > 1e-3
        np.testing.assert_array_equal(value, other[name])


@pytest.mark.parametrize("boundary", ["periodic", ("mirror", ds.Dirichlet(0.7))], ids=["periodic", "given"])
def test_kernels_fill_halos_of_solutions_as_the_host_does(boundary: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    filled, stepper = gradient(boundary, (9, 21))
    own = Program.parts
    kernels = [part for part in own(stepper.forward, True) if isinstance(part, Program)]
    assert any(nest.refills for part in kernels for nest in part.nests)
    monkeypatch.setattr(Program, "parts", lambda program, by_kernels, owed=(): own(program, False, owed))
    require_equal(filled, gradient(boundary, (9, 21))[0])


@pytest.mark.parametrize("boundary", ["periodic", "mirror"])
def test_residuals_of_small_boxes_are_cells_alone(boundary: str, monkeypatch: pytest.MonkeyPatch) -> None:
    shape = (6, 5, 7)
    packed, stepper = gradient(boundary, shape)
    names = stepper.with_residuals.names
    assert stepper.storage.recorded_bytes() == len(names) * np.prod(shape) * 8
    assert {stepper.launcher.arrays[name].shape[0] for name in names} == {1}
    assert sum(each.rows.nbytes for each in stepper.launcher.packed.values()) == STEPS * stepper.storage.recorded_bytes()
    require_equal(packed, gradient(boundary, shape, checkpoint=Binomial(STEPS, 2))[0])  # runs some steps again, and records them one by one
    monkeypatch.setattr(storage, "PACKED", np.inf)
    whole, stepper = gradient(boundary, shape)
    assert stepper.storage.recorded_bytes() == len(names) * stepper.layout.nbytes and not stepper.launcher.packed
    require_equal(packed, whole)


def test_large_fields_keep_their_halos() -> None:
    stepper = ds.Simulation(Squared((64, 64), "periodic"), precision="f64")._stepper
    assert stepper.layout.nbytes < storage.PACKED * 64 * 64 * 8
    assert stepper.storage.recorded_bytes() == len(stepper.with_residuals.names) * stepper.layout.nbytes


@pytest.mark.parametrize("name", ["fluxes zero", "nonlinear mirror", "advection with an inlet"])
def test_what_lies_before_and_after_an_array_changes_nothing(name: str) -> None:
    """Whole tiles at the ends of rows read there. A row has no tiles but those of its cells and of the halo."""
    case = next(each for each in CASES if each.name == name)
    simulation = case.simulation()
    inputs = case.inputs(simulation, np.random.default_rng(0))

    def results() -> list[np.ndarray]:
        solution, pullback = simulation.vjp(inputs, case.steps)
        bars = pullback(ds.Solution({name: np.cos(value) for name, value in solution.final.items()}))
        return [*solution.final.values(), *bars.values()]

    before, stepper = results(), simulation._stepper
    layout = stepper.layout
    assert layout.stride - layout.tiles - 2 * (layout.margin + -(-layout.halo[-1] // layout.lanes)) in (0, 1)
    poisoned: list[np.ndarray] = []
    for array in stepper.launcher.arrays.values():
        if isinstance(array.base, np.ndarray) and array.base.dtype == np.uint8:
            begin = array.ctypes.data - array.base.ctypes.data
            for start, stop in ((begin - GUARD, begin), (begin + array.nbytes, begin + array.nbytes + GUARD)):
                poisoned.append(array.base[start:stop])
                poisoned[-1][...] = 0xFF  # bytes of a NaN
    assert poisoned
    for one, other in zip(before, results(), strict=True):
        np.testing.assert_array_equal(one, other)
    assert all((each == 0xFF).all() for each in poisoned)  # nothing was written there


class Projected(ds.Equation):
    """A field that is squared, and from which the part that a potential gives is taken, twice: two solutions of one system."""

    states: ClassVar = {"u": ds.Variable("periodic")}
    dt = 0.1

    def __init__(self, shape: tuple[int, ...], mean: float = 0.0) -> None:
        self.grid, self.mean = ds.Grid(shape, 1.0), mean

    def step(self, u: Any) -> dict[str, Any]:
        q = ds.solve(laplacian, laplacian(u * u) + self.mean, boundary="periodic")
        w = ds.stage(u + 0.1 * laplacian(q), boundary="periodic")
        r = ds.solve(laplacian, diff_centred(w * w * w, 0), boundary="periodic")
        return {"u": w - 0.1 * diff_centred(r, 0)}


def projected(shape: tuple[int, ...], checkpoint: Any = "auto") -> tuple[dict[str, np.ndarray], Any]:
    ds.init(precision="f64", threads=1)
    simulation = ds.Simulation(Projected(shape), wrt=["u"], precision="f64")
    solution, pullback = simulation.vjp({"u": np.random.default_rng(0).uniform(0.5, 1.0, shape)}, STEPS, checkpoint)
    bars = pullback(ds.Solution({"u": np.cos(solution.final["u"])}))
    return {"final": solution.final["u"], **bars}, simulation._stepper.launcher


@pytest.mark.parametrize("shape", [(12, 16), (4, 8, 16)])
@pytest.mark.parametrize("checkpoint", ["auto", 2])
def test_a_step_in_one_launch_changes_no_bit(shape: tuple[int, ...], checkpoint: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    whole, launcher = projected(shape, checkpoint)
    assert launcher._prepared and all(len(parts) == 1 for parts in launcher._prepared.values())
    monkeypatch.setattr(Launcher, "_whole_step", lambda *_: None)
    parts, launcher = projected(shape, checkpoint)
    assert all(len(each) > 2 for each in launcher._prepared.values())
    require_equal(whole, parts)


def test_a_step_in_one_launch_refuses_what_the_matrix_cannot_give() -> None:
    ds.init(precision="f64", threads=1)
    simulation = ds.Simulation(Projected((12, 16), mean=0.5), precision="f64")
    with pytest.raises(SingularError, match=r"step 0.*its mean is 0"):
        simulation.run({"u": np.random.default_rng(0).uniform(0.5, 1.0, (12, 16))}, 3)
    assert all(len(parts) == 1 for parts in simulation._stepper.launcher._prepared.values())
