"""Gradients of small systems: few launches, the same bits, and the warnings and choices that longer ones have."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import diffsim as ds
from diffsim.checkpoint import Binomial, ChaosWarning, Policy, StoreAll

from . import chaotic

rng = np.random.default_rng(0)


class Lorenz96(ds.Equation):
    """dx_k/dt = (x_{k+1} - x_{k-2}) x_{k-1} - x_k + F, by Heun's method."""

    def __init__(self, cells: int = 40, dt: float = 0.01) -> None:
        self.grid, self.dt = ds.Grid((cells,), 1.0), dt
        self.states = {"x": ds.Variable("periodic")}
        self.parameters = {"F": ds.Variable(axes=())}

    def step(self, x: Any, F: Any) -> dict[str, Any]:
        def rate(u: Any) -> Any:
            return (u.shifted(0, 1) - u.shifted(0, -2)) * u.shifted(0, -1) - u + F

        first = rate(x)
        return {"x": x + self.dt / 2 * (first + rate(x + self.dt * first))}


def launches(simulation: ds.Simulation, monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int]]:
    """Appends (kind, steps) at each launch."""
    seen: list[tuple[str, int]] = []
    stepper = simulation._stepper
    for kind in ("advance", "keep", "record", "reverse"):
        call = getattr(stepper, kind)

        def noted(start: int, stop: int, kind: str = kind, call: Any = call) -> Any:
            seen.append((kind, stop - start))
            return call(start, stop)

        monkeypatch.setattr(stepper, kind, noted)
    return seen


def square(solution: ds.Solution) -> Any:
    return (solution.final["x"] ** 2).sum()


@pytest.mark.parametrize("steps", [10, 110, 400])
def test_a_stored_gradient_is_two_launches(steps: int, monkeypatch: pytest.MonkeyPatch) -> None:
    simulation = ds.Simulation(Lorenz96(dt=0.002), precision="f64")
    inputs = {"x": rng.normal(size=40), "F": 2.0}
    first, second = (simulation.value_and_grad(square, inputs, steps) for _ in range(2))
    simulation._compiled.step_seconds = dict.fromkeys(("record", "advance", "reverse"), 1e-6)  # a busy machine measures anything
    seen = launches(simulation, monkeypatch)
    third = simulation.value_and_grad(square, inputs, steps)
    assert [(kind, count) for kind, count in seen if kind != "keep"] == [("record", steps), ("reverse", steps)]
    watched: list[int] = []
    fourth = simulation.value_and_grad(square, inputs, steps, watch=lambda step, bars: watched.append(step))
    assert len(watched) == steps + 1
    for value, gradient in (second, third, fourth):
        assert value == first[0]
        for name, bars in first[1].items():
            np.testing.assert_array_equal(gradient[name], bars)


@pytest.mark.parametrize("seeds", ["final", "middle"])
def test_chaos_is_seen_in_a_sweep_that_would_be_one_launch(seeds: str) -> None:
    """The sweep is repeated in pieces, which change no bit; later ones of the same simulation are in pieces from the start."""
    simulation = ds.Simulation(Lorenz96(dt=0.05), receivers={"x": [[3.0]]}, precision="f64")
    inputs = {"x": rng.normal(size=40), "F": 8.0}
    simulation._compiled.step_seconds = dict.fromkeys(("record", "advance", "reverse"), 1e-6)

    def loss(solution: ds.Solution) -> Any:
        return square(solution) if seeds == "final" else (solution.traces["x"][:550] ** 2).sum()

    gradients = []
    for _ in range(2):
        with pytest.warns(ChaosWarning, match="the adjoint grew by a factor"):
            gradients.append(simulation.value_and_grad(loss, inputs, 600)[1])
    fast = ds.jit(lambda x: simulation.value_and_grad(loss, {"x": x, "F": 8.0}, 600)[1])
    for _ in range(3):  # a call that records, and replays
        with pytest.warns(ChaosWarning) as caught:
            gradients.append({**gradients[0], **fast(inputs["x"])})
        assert [each.category for each in caught] == [ChaosWarning]
    report = simulation.last_sweep
    assert report is not None and report.growth is not None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        watched = simulation.value_and_grad(loss, inputs, 600, on_action=lambda action: None)[1]
    for name, bars in watched.items():
        for gradient in gradients:
            np.testing.assert_array_equal(gradient[name], bars)


def test_calm_runs_are_not_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    simulation = ds.Simulation(Lorenz96(dt=0.002), precision="f64")
    simulation._compiled.step_seconds = dict.fromkeys(("record", "advance", "reverse"), 1e-6)
    seen = launches(simulation, monkeypatch)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        simulation.value_and_grad(square, {"x": rng.normal(size=40), "F": 2.0}, 300)
    assert sum(steps for kind, steps in seen if kind == "reverse") == 300 and not simulation._compiled.grows


class Growing(ds.Equation):
    """du/dt = u / 5, whose cotangent grows as the state does."""

    def __init__(self) -> None:
        self.grid, self.dt = ds.Grid((40,), 1.0), 0.1
        self.states = {"x": ds.Variable("periodic")}

    def step(self, x: Any) -> dict[str, Any]:
        return {"x": (1 + 0.2 * self.dt) * x}


@pytest.mark.parametrize("pace", [1e-6, 1e-4])
def test_a_state_that_grows_is_no_chaos_in_few_pieces_nor_in_many(pace: float) -> None:
    simulation = ds.Simulation(Growing(), precision="f64")
    simulation._compiled.step_seconds = dict.fromkeys(("record", "advance", "reverse"), pace)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        simulation.value_and_grad(square, {"x": rng.normal(size=40)}, 2000)
    assert simulation.last_sweep is not None and simulation.last_sweep.growth is None


def test_a_loss_of_early_traces_is_no_cause_to_look_closer() -> None:
    """Its cotangent is zero at the end of the run."""
    simulation = ds.Simulation(Lorenz96(dt=0.002), receivers={"x": [[3.0]]}, precision="f64")
    simulation._compiled.step_seconds = dict.fromkeys(("record", "advance", "reverse"), 1e-6)
    simulation.value_and_grad(lambda found: (found.traces["x"][:250] ** 2).sum(), {"x": rng.normal(size=40), "F": 2.0}, 300)
    assert not simulation._compiled.grows


class Unhashable:
    """A progress of which two are compared."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Unhashable)

    def __call__(self, share: float, seconds: float | None) -> None:
        pass


def test_policies_need_no_hash_and_none_is_kept_for_ever() -> None:
    simulation = chaotic.simulation()
    for progress in (Unhashable(), *(lambda share, left, k=k: None for k in range(5))):
        chaotic.gradient(simulation, Policy(progress=progress), 30)
    assert len(simulation._compiled.schedules) == 1


def test_the_kept_choice_is_that_of_the_present_call() -> None:
    """Policies, numbers of steps, ends that are open, and other numbers of sources each have a choice of their own."""
    simulation = chaotic.simulation()
    expected = {}
    calls = [(30, StoreAll(30)), (30, "auto"), (30, 5), (40, "auto"), (30, Policy(schedule="binomial", slots=3)), (30, Binomial(30, 2))]
    for steps, checkpoint in calls:
        expected[steps, str(checkpoint)] = chaotic.gradient(chaotic.simulation(), checkpoint, steps)
    for steps, checkpoint in calls * 2:
        assert chaotic.gradient(simulation, checkpoint, steps) == expected[steps, str(checkpoint)]
    assert {type(each).__name__ for each in simulation._compiled.schedules.values()} == {"StoreAll", "Binomial"}
    known = len(simulation._compiled.schedules)
    simulation.vjp(chaotic.inputs(simulation, 30), 30, until=lambda done, states: done == 20)
    assert len(simulation._compiled.schedules) == known + 1
    simulation.move(sources={"f": [[3.0, 4.0], [5.0, 6.0]]})
    simulation.vjp(chaotic.inputs(simulation, 30) | {"f": rng.normal(size=(30, 2))}, 30)
    assert len(simulation._compiled.schedules) == known + 2


def test_large_gradients_are_planned_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """The memory that is free changes."""
    simulation = ds.Simulation(ds.solvers.Heat(ds.Grid((200, 200), 1.0), dt=0.1), precision="f64")
    inputs = {"kappa": np.full((200, 200), 0.5), "T": rng.normal(size=(200, 200))}
    free = [10**9]
    monkeypatch.setattr("diffsim.checkpoint.planning.memory.available_memory", lambda: free[0])
    for free[0], saves in ((10**9, False), (4 * 10**7, True)):
        actions: list[str] = []
        simulation.vjp(inputs, 60, on_action=lambda action, done=actions: done.append(type(action).__name__))
        assert ("Save" in actions) == saves and not simulation._compiled.schedules


def calls_of(call: Callable[[], object]) -> int:
    """Functions in Python that a call runs."""
    count = 0

    def note(frame: object, event: str, argument: object) -> None:
        nonlocal count
        count += event == "call"

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        call()
    finally:
        sys.setprofile(before)
    return count


def test_a_call_of_a_small_system_runs_few_functions() -> None:
    """Each costs as much as some steps do. The bounds are the counts of the day, with room for a few more."""
    simulation = ds.Simulation(Lorenz96(dt=0.002), precision="f64")
    inputs = {"x": rng.normal(size=40), "F": 2.0}

    def run() -> object:
        return simulation.run(inputs, 10)

    def gradient() -> object:
        return simulation.value_and_grad(square, inputs, 10)

    for call in (run, gradient):
        for _ in range(4):  # from the third one on, nothing is looked up for the first time
            call()
    simulation._stepper.launcher.pace(simulation._stepper.forward).seconds = 1e-6  # a busy machine measures anything
    assert simulation._stepper.adjoint is not None
    simulation._stepper.launcher.pace(simulation._stepper.adjoint.program).seconds = 1e-6
    assert calls_of(run) <= 92 and calls_of(gradient) <= 302


@pytest.mark.parametrize("wrt", [None, ["x"]])
def test_runs_of_other_lengths_and_kinds_between_change_no_bit(wrt: Any) -> None:
    """The levels of whole runs are kept by their number of steps, until storage grows."""
    inputs = {"x": rng.normal(size=40), "F": 2.0}

    def build() -> ds.Simulation:
        return ds.Simulation(Lorenz96(dt=0.002), wrt=wrt, receivers={"x": [[3.0]]}, precision="f64")

    def loss(solution: ds.Solution) -> Any:
        return square(solution) + (solution.traces["x"] ** 3).sum()

    simulation, calls = build(), [(10, "auto"), (30, "auto"), (10, 4), (10, "auto"), (60, 7), (150, "auto"), (30, "auto"), (10, "auto")]
    for steps, checkpoint in calls * 2:
        value, gradient = simulation.value_and_grad(loss, inputs, steps, checkpoint=checkpoint)
        fresh = build()
        expected, bars = fresh.value_and_grad(loss, inputs, steps, watch=lambda step, states: None)
        assert value == expected
        for name, bar in bars.items():
            np.testing.assert_array_equal(gradient[name], bar)
        np.testing.assert_array_equal(simulation.run(inputs, steps).final["x"], fresh.run(inputs, steps).final["x"])
    assert {10, 30, 150} <= simulation._stepper._wholes.keys()


def test_a_pullback_after_another_run_and_in_pieces_has_the_same_bits() -> None:
    simulation = ds.Simulation(Lorenz96(dt=0.002), precision="f64")
    inputs = {"x": rng.normal(size=40), "F": 2.0}
    bars = ds.Solution({"x": rng.normal(size=40)})
    for _ in range(3):
        pullback = simulation.vjp(inputs, 20)[1]
        first = pullback(bars)
        simulation.run(inputs, 7)
        second = pullback(bars)  # runs forward again
        other = simulation.vjp(inputs, 20, on_action=lambda action: None)[1](bars)
        for name in first:
            np.testing.assert_array_equal(first[name], second[name])
            np.testing.assert_array_equal(first[name], other[name])


def test_a_state_that_is_saved_before_a_whole_run_outlasts_it() -> None:
    simulation = ds.Simulation(Lorenz96(dt=0.002), precision="f64")
    inputs, stepper, compiled = {"x": rng.normal(size=40), "F": 2.0}, simulation._stepper, simulation._compiled
    for saved in (False, True, False, True):
        stepper.storage.plan(slots=2, recorded=10)
        compiled.start(compiled.checked(inputs, 10), 10)
        if saved:
            stepper.save(0, 0)
        stepper.record(0, 10)
        stepper.seed({"x": np.ones(40)}, {})
        stepper.reverse(0, 10)
        if saved:
            stepper.load(0, 0)
            np.testing.assert_array_equal(stepper.state()["x"], inputs["x"])
            stepper.free(0)


def test_a_state_that_is_saved_after_a_whole_run_outlasts_its_reverse_sweep() -> None:
    simulation = ds.Simulation(Lorenz96(dt=0.002), precision="f64")
    inputs, stepper, compiled = {"x": rng.normal(size=40), "F": 2.0}, simulation._stepper, simulation._compiled
    for _ in range(3):
        stepper.storage.plan(slots=2, recorded=10)
        compiled.start(compiled.checked(inputs, 10), 10)
        stepper.record(0, 10)
        final = stepper.state()["x"]
        stepper.save(10, 0)
        stepper.seed({"x": np.ones(40)}, {})
        stepper.reverse(0, 10)
        stepper.load(10, 0)
        np.testing.assert_array_equal(stepper.state()["x"], final)
        stepper.free(0)
