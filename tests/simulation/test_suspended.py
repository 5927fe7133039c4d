"""The kept part of a reverse sweep belongs to one run, and no other can use it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import diffsim as ds
import diffsim.numpy as dn
from diffsim.checkpoint import Binomial, DiskStore, MultiTier, Online, Policy, Reverse, Reversible, SweepFile
from diffsim.errors import ParameterError, StorageError
from diffsim.expr import laplacian
from diffsim.simulation import Simulation
from diffsim.solvers import Acoustic
from diffsim.stepping.run.stepper import ERRORS, Stepper

STEPS = 40
INPUTS = {"c": np.full((14, 15), 2000.0), "f": np.sin(np.arange(STEPS) / 3.0)[:, None]}


class CutError(Exception):
    """Raised where a process would have been killed."""


def acoustic(dt: float = 1e-3, sponge: int = 4, at: float = 70.0) -> Simulation:
    return Simulation(Acoustic(ds.Grid((14, 15), 10.0), dt, 4, sponge=sponge), sources={"f": [[60.0, 60.0]]}, receivers={"p": [[at, 50.0]]})


def weights(solution: ds.Solution) -> ds.Solution:
    return ds.Solution(traces={"p": np.random.default_rng(1).normal(size=solution.traces["p"].shape)})


def policy(folder: Path, schedule: object = None) -> Policy:
    return Policy(schedule=schedule or Binomial(STEPS, 4), folder=folder, resume=1e-9)  # type: ignore[arg-type]


def cut(model: Simulation, folder: Path, schedule: object = None, at: int = 20) -> None:
    """Stop a gradient in its reverse sweep, leaving what a killed process leaves."""

    def watch(action: object) -> None:
        if isinstance(action, Reverse) and action.start < at:
            raise CutError

    solution, pullback = model.vjp(INPUTS, STEPS, policy(folder, schedule), watch)
    with pytest.raises(CutError):
        pullback(weights(solution))
    assert list(folder.iterdir())


def gradient(model: Simulation, checkpoint: object) -> tuple[np.ndarray, int]:
    """By the wave speed, and how many steps were reversed for it."""
    count = 0

    def watch(action: object) -> None:
        nonlocal count
        count += action.stop - action.start if isinstance(action, Reverse) else 0

    solution, pullback = model.vjp(INPUTS, STEPS, checkpoint, watch)  # type: ignore[arg-type]
    return pullback(weights(solution))["c"], count


OTHERS = {"dt": {"dt": 8e-4}, "sponge": {"sponge": 5}, "receiver": {"at": 80.0}}


@pytest.mark.parametrize("change", OTHERS)
def test_a_run_of_another_equation_does_not_take_it(change: str, tmp_path: Path) -> None:
    cut(acoustic(), tmp_path)
    other = acoustic(**OTHERS[change])
    resumed, reversed_steps = gradient(other, policy(tmp_path))
    assert reversed_steps == STEPS
    np.testing.assert_array_equal(resumed, gradient(other, 4)[0])


@pytest.mark.parametrize("change", ["input", "loss"])
def test_a_run_with_another_input_or_loss_does_not_take_it(change: str, tmp_path: Path) -> None:
    """The other run has the same shapes, equation and places."""
    cut(acoustic(), tmp_path)
    inputs = INPUTS | ({"c": 2000.0 + np.random.default_rng(2).uniform(-50, 50, (14, 15))} if change == "input" else {})
    factor = 2.0 if change == "loss" else 1.0

    def gradient_of(checkpoint: object) -> np.ndarray:
        solution, pullback = acoustic().vjp(inputs, STEPS, checkpoint)  # type: ignore[arg-type]
        return pullback(ds.Solution(traces={"p": factor * weights(solution).traces["p"]}))["c"]

    np.testing.assert_array_equal(gradient_of(policy(tmp_path)), gradient_of(4))


def test_the_same_run_takes_it(tmp_path: Path) -> None:
    cut(acoustic(), tmp_path)
    resumed, reversed_steps = gradient(acoustic(), policy(tmp_path))
    assert reversed_steps < 25
    np.testing.assert_array_equal(resumed, gradient(acoustic(), 4)[0])
    assert not list(tmp_path.iterdir())


def test_states_in_tiles_of_another_width_are_not_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A long step has narrow tiles, whose width is that of the machine's registers: the run begins anew."""
    for width in 4, 8:
        monkeypatch.setattr("diffsim.stepping.derive.programs.lanes", lambda dtype, narrow, width=width: width)
        model = acoustic()
        if width == 4:
            cut(model, tmp_path)
            assert list(tmp_path.iterdir())
    gradients = []
    for way in (policy(tmp_path), Policy(schedule=Binomial(STEPS, 4))):
        solution, pullback = model.vjp(INPUTS, STEPS, way)
        gradients.append(pullback(weights(solution)))
    assert gradients[0].keys() == gradients[1].keys()
    assert all(np.array_equal(gradients[0][name], gradients[1][name]) for name in gradients[0])


def test_traces_that_differ_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the key does not know of: the run computes its traces again, and they must be the kept ones."""
    monkeypatch.setattr("diffsim.simulation.gradients.suspended.run_key", lambda *what: "the same for all runs")
    cut(acoustic(), tmp_path)
    with pytest.raises(StorageError, match="another run: its traces of p differ"):
        gradient(acoustic(8e-4), policy(tmp_path))


def test_a_solution_edited_in_place_is_not_kept(tmp_path: Path) -> None:
    """A residual is often formed in the array of the traces."""

    def stop(action: object) -> None:
        if isinstance(action, Reverse) and action.start < 20:
            raise CutError

    solution, pullback = acoustic().vjp(INPUTS, STEPS, policy(tmp_path), stop)
    exact = solution.traces["p"].copy()
    residual = solution.traces["p"]
    residual -= 0.5
    with pytest.raises(CutError):
        pullback(ds.Solution(traces={"p": residual}))
    again, pullback = acoustic().vjp(INPUTS, STEPS, policy(tmp_path))
    np.testing.assert_array_equal(again.traces["p"], exact)
    residual = again.traces["p"]
    residual -= 0.5
    resumed = pullback(ds.Solution(traces={"p": residual}))["c"]
    plain, pullback = acoustic().vjp(INPUTS, STEPS, 4)
    np.testing.assert_array_equal(resumed, pullback(ds.Solution(traces={"p": plain.traces["p"] - 0.5}))["c"])


def test_inputs_edited_before_the_reverse_sweep_do_not_matter() -> None:
    model, fields = acoustic(), {name: value.copy() for name, value in INPUTS.items()}
    solution, pullback = model.vjp(fields, STEPS, 4)
    fields["c"] *= 1.5
    np.testing.assert_array_equal(pullback(weights(solution))["c"], gradient(model, 4)[0])


def test_an_online_schedule_is_resumed_too(tmp_path: Path) -> None:
    cut(acoustic(), tmp_path, Online(4))
    resumed, reversed_steps = gradient(acoustic(), policy(tmp_path, Online(4)))
    assert reversed_steps < 25
    np.testing.assert_array_equal(resumed, gradient(acoustic(), 4)[0])


@pytest.mark.parametrize(("schedule", "kept"), [(Reversible(STEPS, 8), 24), ("reversible", 20)])
def test_steps_that_are_undone_are_resumed_at_a_kept_state(schedule: object, kept: int, tmp_path: Path) -> None:
    """Between kept states it would begin with a true state in place of one computed backwards: not the same bits."""
    cut(acoustic(), tmp_path, schedule)
    resumed, reversed_steps = gradient(acoustic(), policy(tmp_path, schedule))
    assert reversed_steps == kept
    np.testing.assert_array_equal(resumed, gradient(acoustic(), Policy(schedule=schedule))[0])  # type: ignore[arg-type]


def test_what_was_found_out_about_rounding_errors_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error of a gradient is that of all of its sweep, not of the part after it was cut off: it only grows."""
    schedule, kept = Reversible(STEPS, 8), []
    right = Stepper.set_cotangent

    def noted(self: Stepper, arrays: dict[str, np.ndarray]) -> None:
        right(self, arrays)
        kept.append(arrays[ERRORS].copy())

    monkeypatch.setattr(Stepper, "set_cotangent", noted)
    for at in (32, 1):  # after one of five intervals, and before the last
        model = acoustic(sponge=0)  # with one, tiles of damped cells are kept, and there are no others on wide registers
        cut(model, tmp_path, schedule, at)
        resumed = acoustic(sponge=0)
        gradient(resumed, policy(tmp_path, schedule))
        assert resumed._stepper._rounding is not None
        assert kept[-1].any()
        assert (resumed._stepper._rounding.errors >= kept[-1]).all()
    assert len(kept) == 2


class Delayed(ds.Equation):
    """A step that looks two steps back."""

    def __init__(self) -> None:
        self.grid, self.dt = ds.Grid((6, 7), 1.0), 0.1
        self.states = {name: ds.Variable("zero") for name in ("u", "u_prev", "u_older")}
        self.parameters = {"k": ds.Variable("zero")}

    def step(self, u: Any, u_prev: Any, u_older: Any, k: Any) -> dict[str, Any]:
        return {"u": u + 0.1 * k * laplacian(u) - 0.05 * u_older, "u_prev": u, "u_older": u_prev}


def test_cotangents_of_delayed_final_states_are_kept(tmp_path: Path) -> None:
    """When the sweep is one step back, that of a state two steps old still waits for its turn."""
    rng = np.random.default_rng(5)
    inputs = {name: rng.standard_normal((6, 7)) for name in ("u", "u_prev", "u_older", "k")}
    bars = ds.Solution(final={name: rng.standard_normal((6, 7)) for name in ("u", "u_prev", "u_older")})
    reversed_from: list[int] = []

    def stop(action: object) -> None:
        if isinstance(action, Reverse):
            raise CutError

    def note(action: object) -> None:
        if isinstance(action, Reverse):
            reversed_from.append(action.stop)

    _, pullback = ds.Simulation(Delayed()).vjp(inputs, STEPS, policy(tmp_path), stop)
    with pytest.raises(CutError):
        pullback(bars)
    _, pullback = ds.Simulation(Delayed()).vjp(inputs, STEPS, policy(tmp_path), note)
    resumed = pullback(bars)
    assert reversed_from[0] == STEPS - 1  # it went on after the first step
    _, pullback = ds.Simulation(Delayed()).vjp(inputs, STEPS, 4)
    for name, expected in pullback(bars).items():
        np.testing.assert_array_equal(resumed[name], expected, err_msg=name)


def tiers(slots: int) -> MultiTier:
    return MultiTier(STEPS, [("device", 2, 0, 0), ("disk", slots, 1.0, 1.0)])


def leave_states(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The remains of a run with states on disk after SIGKILL."""
    original = DiskStore.close
    monkeypatch.setattr(DiskStore, "close", lambda self, keep=False: original(self, keep=True))
    cut(acoustic(), folder, tiers(6))
    monkeypatch.undo()
    return next(path for path in folder.iterdir() if path.name.startswith("states-"))


@pytest.mark.parametrize("slots", [6, 8])
def test_states_on_disk_of_any_number_of_slots_are_no_fault(slots: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The traces of the steps before them are computed in replays only, and that is no fault."""
    leave_states(tmp_path, monkeypatch)
    resumed, reversed_steps = gradient(acoustic(), policy(tmp_path, tiers(slots)))
    assert reversed_steps < 25
    np.testing.assert_array_equal(resumed, gradient(acoustic(), 4)[0])
    assert not list(tmp_path.iterdir())


def test_nothing_is_left_if_the_states_are_not_needed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    leave_states(tmp_path, monkeypatch)
    gradient(acoustic(), policy(tmp_path))
    assert not list(tmp_path.iterdir())


def test_two_sweeps_may_be_kept_at_once(tmp_path: Path) -> None:
    """Two processes that compute the same gradient do not disturb each other: copies have names of their own until they are whole."""
    first, second = SweepFile(tmp_path / "sweep", "key"), SweepFile(tmp_path / "sweep", "key")
    first.save(3, {"x": np.ones(3)})
    second.save(2, {"x": np.ones(3)})
    first.remove()
    second.save(1, {"x": np.ones(3)})
    saved = first.load()
    assert saved is not None
    assert saved[0] == 1


def test_a_run_that_ends_by_a_condition_is_refused(tmp_path: Path) -> None:
    """It is not resumed; without a word, hours of a killed sweep would be lost."""
    model = acoustic()

    def ends(done: int, states: object) -> bool:
        return done >= 10

    with pytest.raises(ParameterError, match=r"expected no until= with Policy\(resume=...\)"):
        model.vjp(INPUTS, STEPS, policy(tmp_path, Online(4)), until=ends)
    with pytest.raises(ParameterError, match="expected no until="):
        ds.grad(lambda c: dn.sum(model.run(INPUTS | {"c": c}, STEPS, until=ends, checkpoint=policy(tmp_path)).traces["p"]))(INPUTS["c"])
    model.vjp(INPUTS, STEPS, Policy(schedule=Online(4)), until=ends)


class Exchanged(ds.Equation):
    """Two states that swap places or not; the time step enters through the time alone."""

    def __init__(self, swap: bool = False, dt: float = 0.1) -> None:
        self.grid, self.dt, self.swap = ds.Grid((12,), 1.0), dt, swap
        self.states = {"x": ds.Variable("mirror"), "y": ds.Variable("mirror")}
        self.parameters = {"k": ds.Variable("mirror")}

    def step(self, x: Any, y: Any, k: Any, t: Any) -> dict[str, Any]:
        p, q = x + 0.01 * k * ds.expr.sin(t) * y * y, y - 0.01 * k * x * x
        return {"x": q, "y": p} if self.swap else {"x": p, "y": q}


@pytest.mark.parametrize("other", [Exchanged(swap=True), Exchanged(dt=0.2)], ids=["outputs", "time"])
def test_another_equation_does_not_take_it(tmp_path: Path, other: ds.Equation) -> None:
    """Neither has traces, so the key alone tells them apart."""
    inputs = {"x": np.ones(12), "y": np.full(12, 0.5), "k": np.ones(12)}
    reversed_steps = 0

    def stop(action: object) -> None:
        nonlocal reversed_steps
        reversed_steps += isinstance(action, Reverse)
        if reversed_steps == 10:
            raise KeyboardInterrupt

    def gradient_of(equation: ds.Equation, checkpoint: Any, **options: Any) -> np.ndarray:
        simulation = ds.Simulation(equation, precision="f64")
        return simulation.value_and_grad(lambda solution: 0.5 * (solution.final["x"] ** 2).sum(), inputs, 40, checkpoint, **options)[1]["k"]

    keeping = Policy(schedule=Binomial(40, 4), resume=1e-6, folder=tmp_path)
    with pytest.raises(KeyboardInterrupt):
        gradient_of(Exchanged(), keeping, on_action=stop)
    np.testing.assert_array_equal(gradient_of(other, keeping), gradient_of(other, Binomial(40, 4)))
