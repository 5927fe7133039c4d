"""Several launches as one: the bits of launches of their own, for all that a step may have, and the cases that stay as they are."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import diffsim as ds
from diffsim.engine import BoundKernel
from diffsim.stepping.run import launcher

from ...simulation.test_jit import bits, direct_runs
from ...simulation.test_small import Lorenz96

rng = np.random.default_rng(0)


def ring() -> ds.Simulation:
    return ds.Simulation(Lorenz96(12, dt=0.002), receivers={"x": [[3.0], [4.5]]}, precision="f64")


def plate() -> ds.Simulation:
    """A plane with sources and receivers, of which sums at points are part of the step."""
    heat, points = ds.solvers.Heat(ds.Grid((6, 9), spacing=0.1), dt=0.1), [[0.5, 0.5], [0.21, 0.3]]
    return ds.Simulation(heat, sources={"q": points[:1]}, receivers={"T": points}, wrt=["kappa", "T", "q"], precision="f64")


MODELS: dict[str, tuple[Any, dict[str, Any]]] = {
    "ring": (ring, {"x": rng.normal(size=12), "F": 2.0}),
    "plane": (plate, {"kappa": np.full((6, 9), 1e-2), "T": rng.normal(size=(6, 9)), "q": rng.normal(size=(40, 1))}),
}


def gradient(name: str, slots: int = 5, steps: int = 40) -> Any:
    simulation = MODELS[name][0]()
    state = next(iter(simulation.equation.states))

    def loss(some: dict[str, Any]) -> Any:
        solution = simulation.run(some, steps, checkpoint=slots)
        return (solution.final[state] ** 2).sum() + sum((each**2).sum() for each in solution.traces.values())

    return ds.value_and_grad(loss)


def moved(name: str, factor: float) -> dict[str, Any]:
    return {key: value * factor for key, value in MODELS[name][1].items()}


def counted(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The launches of kernels from now on."""
    seen: list[Any] = []
    launch = BoundKernel.__call__
    monkeypatch.setattr(BoundKernel, "__call__", lambda self, *numbers: (seen.append(self), launch(self, *numbers))[1])
    return seen


@pytest.mark.parametrize("name", MODELS)
def test_a_gradient_in_slots_is_replayed_in_two_launches_with_its_bits(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = gradient(name)
    fast = ds.jit(plain)
    fast(moved(name, 1.0))
    (run,) = (each for each in direct_runs(fast) if each._bindings >= 0)
    assert len(run._sweep) >= launcher.LEAST_TOGETHER and len(run._launches) == 1
    for factor in (1.1, 0.9, 1.2):
        fast(moved(name, 1.3))  # the sweep leaves other levels to the run than those of the run
        seen = counted(monkeypatch)
        again = fast(moved(name, factor))
        assert len(seen) == 2
        monkeypatch.undo()
        assert bits(again) == bits(plain(moved(name, factor)))


def test_what_is_not_worth_a_kernel_or_runs_too_long_is_launched_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = gradient("ring")
    wanted = bits(plain(moved("ring", 1.1)))

    def sweep() -> Any:
        fast = ds.jit(gradient("ring"))
        fast(moved("ring", 1.0))
        assert bits(fast(moved("ring", 1.1))) == wanted
        return next(each for each in direct_runs(fast) if each._bindings >= 0)._sweep_at_a_stroke

    assert sweep() is not None
    for name, value in (("LONGEST", 10), ("LEAST_TOGETHER", 100)):
        with monkeypatch.context() as patch:
            patch.setattr(launcher, name, value)
            assert sweep() is None
    with monkeypatch.context() as patch:
        patch.setattr(launcher.Pace, "steps", lambda self: 30)  # launches of 30 steps take as long as a launch may
        assert sweep() is None
