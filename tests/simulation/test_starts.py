"""Steps whose states fit into free slots go in one launch there and one back, with the bits of a gradient that stores all."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import diffsim as ds
from diffsim.checkpoint import (
    Advance,
    Binomial,
    EndForward,
    Keep,
    Mixed,
    MultiTier,
    Online,
    Policy,
    Reverse,
    Spilling,
    StoreAll,
    Tier,
    simulate,
)
from diffsim.solvers import Acoustic, Heat
from diffsim.stepping.run.launcher import Launcher
from tests.simulation import chaotic

pytestmark = pytest.mark.filterwarnings("ignore::diffsim.checkpoint.growth.ChaosWarning")

MOST_STEPS = 90  # below 100 a kept run stays in one piece
HOST = Tier("host", MOST_STEPS, 2.0, 1.0)
KINDS: dict[str, Callable[[int, int], Any]] = {
    "binomial": lambda steps, slots: Binomial(steps, min(slots, steps)),
    "online": lambda _, slots: Online(slots),
    "multi_tier": lambda steps, slots: MultiTier(steps, (Tier("device", slots), HOST)),
    "spilling": lambda steps, slots: Spilling(steps, slots, HOST, 11),
}
Gradient = Callable[[Any, int], bytes]


def wave(state: str) -> Gradient:
    """Gradient of a wave, whose state is two values of p and whose recorded steps keep residuals; or of heat, with one."""
    grid = ds.Grid((9, 13), 10.0)
    equation: Any = Acoustic(grid, 1e-3, 4) if state == "p" else Heat(grid, 10.0)
    model = ds.Simulation(equation, receivers={state: [[40.0, 50.0]]}, precision="f64")
    rng = np.random.default_rng(3)
    fields = {"c" if state == "p" else "kappa": rng.uniform(0.8, 1.0, grid.shape) * (2000.0 if state == "p" else 1.0)}
    fields[state] = rng.normal(size=grid.shape)

    def gradient(checkpoint: Any, steps: int) -> bytes:
        solution, pullback = model.vjp(fields, steps, checkpoint)
        bars = pullback(chaotic.cotangents(solution))
        return b"".join(bars[name].tobytes() for name in sorted(bars))

    return gradient


def lattice() -> Gradient:
    model = chaotic.simulation(cells=5)
    return lambda checkpoint, steps: chaotic.gradient(model, checkpoint, steps).encode()


@pytest.fixture(scope="module", params=["wave", "heat", "lattice"])
def gradient(request: pytest.FixtureRequest) -> Gradient:
    return lattice() if request.param == "lattice" else wave("p" if request.param == "wave" else "T")


@pytest.fixture
def launched(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Steps of each start of a kernel over consecutive steps."""
    counts: list[int] = []
    sweep, at_once = Launcher.sweep, Launcher.at_once

    def counted(self: Launcher, program: Any, first: int, steps: int, tables: Any) -> None:
        counts.append(steps)
        sweep(self, program, first, steps, tables)

    def counted_at_once(self: Launcher, program: Any, first: int, steps: int, levels: Any) -> bool:
        launched = at_once(self, program, first, steps, levels)
        counts.extend([steps] * launched)
        return launched

    monkeypatch.setattr(Launcher, "sweep", counted)
    monkeypatch.setattr(Launcher, "at_once", counted_at_once)
    return counts


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("verify", [False, True], ids=["", "compared"])
def test_any_steps_and_slots_give_the_stored_bits(kind: str, verify: bool, gradient: Gradient) -> None:
    rng = random.Random(kind)
    for _ in range(8):
        steps = rng.randint(1, MOST_STEPS)
        slots = rng.choice([rng.randint(1, 6), rng.randint(1, steps), max(steps - 1, 1), steps])
        schedule = KINDS[kind](steps, slots)
        assert gradient(Policy(schedule=schedule, verify=verify), steps) == gradient(StoreAll(steps), steps), schedule


@pytest.mark.parametrize("kind", ["binomial", "multi_tier", "spilling"])
def test_each_run_is_one_start(kind: str, launched: list[int]) -> None:
    gradient, rng = wave("p"), random.Random(kind)
    for _ in range(12):
        steps = rng.randint(2, MOST_STEPS)
        schedule = KINDS[kind](steps, rng.randint(1, steps - 1))
        gradient(Policy(schedule=schedule, verify=False), steps)
        summary = simulate(schedule)
        assert len(launched) == summary.starts, schedule
        assert sum(launched) == summary.advances + summary.recorded + steps, schedule
        launched.clear()


def test_the_way_back_of_a_run_that_ends_by_itself_goes_in_runs_too(launched: list[int]) -> None:
    model, end, slots = chaotic.simulation(cells=5), 70, 6
    solution, pullback = model.vjp(chaotic.inputs(model, 80), 80, Policy(slots=slots, verify=False), until=lambda done, _: done == end)
    launched.clear()
    pullback(ds.Solution(final=dict(solution.final)))
    actions = list(Online(slots).online_actions(Ended(end)))
    back = actions[actions.index(EndForward(end)) :]
    assert launched == [action.stop - action.start for action in back if isinstance(action, (Advance, Keep, Reverse))]
    assert len(launched) < end


class Ended:
    """Tells an online schedule that the run is over after so many steps, given how it advances."""

    def __init__(self, end: int) -> None:
        self._end, self._steps = end, iter(Online(6).online_actions(lambda: None))

    def __call__(self) -> int | None:
        advance = next(action for action in self._steps if isinstance(action, Advance))
        return self._end if advance.stop >= self._end else None


@pytest.mark.parametrize("more", [0, 1, 1000])
@pytest.mark.parametrize(
    "asked",
    [
        lambda steps, slots: slots,
        lambda steps, slots: Policy(slots=slots),
        lambda steps, slots: Policy(slots=slots, schedule="binomial"),
        lambda steps, slots: Policy(slots=slots, schedule="online"),
        lambda steps, slots: Policy(memory="1 GB", schedule="binomial"),
        lambda steps, slots: "1 GB",
        lambda steps, slots: Binomial(steps, steps),
        lambda steps, slots: Policy(schedule=Binomial(steps, steps)),
        lambda steps, slots: Online(slots),
        lambda steps, slots: MultiTier(steps, (Tier("device", slots), HOST)),
        lambda steps, slots: Spilling(steps, slots, HOST, 11),
        lambda steps, slots: Mixed(steps, 2 * slots, 2, 1),
    ],
)
def test_as_many_states_as_steps_store_all(asked: Callable[[int, int], Any], more: int, launched: list[int]) -> None:
    gradient, steps = wave("p"), 60
    stored = gradient(StoreAll(steps), steps)
    expected = launched.copy()
    for _ in range(2):  # by then each kernel is compiled and its pace known, as it was the first time
        launched.clear()
        assert gradient(asked(steps, steps + more), steps) == stored
        assert launched == expected


def test_records_in_the_memory_of_the_states_asked_for_store_all(launched: list[int]) -> None:
    """The residuals of a wave's step are half of a state."""
    gradient, steps = wave("p"), 60
    gradient(StoreAll(steps), steps)
    expected = launched.copy()
    launched.clear()
    gradient(steps // 2, steps)
    assert launched == expected
    launched.clear()
    gradient(steps // 2 - 2, steps)
    assert len(launched) > len(expected)


def test_a_loop_with_a_state_for_each_step_runs_none_twice() -> None:
    calls = 0

    def body(state: Any) -> Any:
        nonlocal calls
        calls += 1
        return 0.9 * state

    for asked in (12, 500, Binomial(12, 12), Online(12)):
        calls = 0
        ds.grad(lambda x, asked=asked: ds.integrate(body, x, steps=12, checkpoint=asked))(1.0)
        assert calls == 12 + 1 + 12, asked  # to find the value, to see what a tape takes, and for the tapes


def test_a_loop_keeps_no_more_than_it_may(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tapes of a loop are larger than its states; where they do not fit, states alone are kept."""
    monkeypatch.setattr("diffsim.checkpoint.planning.memory.available_memory", lambda: 1000)
    monkeypatch.setattr("diffsim.checkpoint.planning.memory.SMALL", 100)
    calls = 0

    def body(state: Any) -> Any:
        nonlocal calls
        calls += 1
        return 0.9 * state

    ds.grad(lambda x: ds.integrate(body, x, steps=12, checkpoint=12))(1.0)
    assert calls == 12 + 1 + 11 + 12  # the last step is recorded on the way; the others are run up to it, and again for their tapes
