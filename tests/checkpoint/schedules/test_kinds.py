"""Every kind of schedule that has a name: a new kind is tested by one entry of `CASES`."""

from __future__ import annotations

import itertools
import re
import tracemalloc
from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import pytest

from diffsim import checkpoint
from diffsim.checkpoint import (
    KINDS,
    Action,
    Advance,
    AnySchedule,
    Binomial,
    Costs,
    EndForward,
    Free,
    Load,
    Mixed,
    MultiTier,
    Online,
    OnlineSchedule,
    PartlyRecorded,
    Policy,
    Record,
    Request,
    Reverse,
    Reversible,
    Save,
    Schedule,
    Sizes,
    Spilling,
    StoreAll,
    Sweep,
    Tier,
    resolve,
    simulate,
)
from diffsim.checkpoint.planning.memory import least_text
from diffsim.errors import ParameterError, PlanError, ScheduleError
from tests.sampled import sampled
from tests.simulation import chaotic

pytestmark = pytest.mark.filterwarnings("ignore::diffsim.checkpoint.growth.ChaosWarning")
STEPS = chaotic.STEPS
DISK = Tier("disk", 20, 2.0, 3.0)
CASES: dict[str, AnySchedule] = {
    "store_all": StoreAll(STEPS),
    "binomial": Binomial(STEPS, 4),
    "online": Online(5),
    "multi_tier": MultiTier(STEPS, (Tier("device", 3), DISK)),
    "spilling": Spilling(STEPS, 3, DISK),
    "mixed": Mixed(STEPS, 40, 3, 2),
    "reversible": Reversible(STEPS, 7),
    "partly_recorded": PartlyRecorded(STEPS, 9),
}
SIZES, COSTS = Sizes(100, 80, 500, 30, 20, second=10), Costs(1.0, 1.2, 3.0, 2.5, 1.1, 0.1, 4.0, 2.0)
ENOUGH = 10**6
DOCS = Path(__file__).parents[3] / "docs" / "checkpointing.md"


def test_there_is_a_case_of_each_kind() -> None:
    assert {name: type(case) for name, case in CASES.items()} == dict(KINDS)


@pytest.mark.parametrize("name", CASES)
def test_it_is_legal_and_keeps_its_counts(name: str) -> None:
    schedule = CASES[name]
    summary = simulate(schedule, STEPS if schedule.online else None)
    assert summary.advances + summary.recorded == schedule.forward_of(STEPS)
    assert len(summary.peak_slots) == 1 + len(schedule.slow_tiers)


@pytest.mark.parametrize("name", CASES)
def test_it_is_written_as_it_is_made(name: str) -> None:
    assert isinstance(CASES[name], AnySchedule)
    assert eval(repr(CASES[name]), vars(checkpoint)) == CASES[name]


def actions_of(schedule: AnySchedule, steps: int) -> Iterator[Action]:
    """The actions of a run of so many steps, of which an online schedule does not know beforehand."""
    if not isinstance(schedule, OnlineSchedule):
        yield from schedule.actions()  # type: ignore[attr-defined]
        return
    reached = 0
    for action in schedule.online_actions(lambda: steps if reached >= steps else None):  # noqa: B023
        reached = max(reached, action.stop) if isinstance(action, Advance) else reached
        yield action


LARGE = {
    "binomial": (Binomial(100_000, 25), 100_000, 20_000),
    "online": (Online(25), 40_000, 4_000_000),
    "multi_tier": (MultiTier(200_000, (Tier("ram", 25), Tier("disk", 60, 5.0, 5.0))), 100_000, 3_000_000),
    "mixed": (Mixed(200_000, 11), 1_000, 8_000_000),
}
"""A schedule, its actions that are taken or the steps of an online run, and the most bytes: tables of the plan, and some for an action.
A list of all actions would take 0.8, 15, 8 and 30 MB."""


@pytest.mark.parametrize("name", sampled(LARGE, gate=LARGE.keys() - {"mixed"}))
def test_memory_does_not_grow_with_the_steps(name: str) -> None:
    schedule, count, most = LARGE[name]
    tracemalloc.start()
    try:
        for _ in itertools.islice(actions_of(schedule, count), None if schedule.online else 5 * count):
            pass
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < most


@pytest.mark.parametrize("wrong", [0, -1, 2.0, True, None, "2"])
@pytest.mark.parametrize("name", CASES)
def test_counts_that_cannot_be_are_refused(name: str, wrong: Any) -> None:
    """Each count that a kind takes is a whole number of at least 1."""
    counts = [field.name for field in fields(CASES[name]) if isinstance(getattr(CASES[name], field.name), int)]
    assert counts
    for count in counts:
        if not (count in ("every", "period") and wrong is None):  # which leaves the choice to the schedule
            with pytest.raises(ScheduleError, match=f"expected {count} to be"):
                replace(CASES[name], **{count: wrong})


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if not case.runs_backwards])
def test_it_gives_the_stored_bits(name: str, tmp_path: Path) -> None:
    simulation = chaotic.simulation()
    assert chaotic.gradient(simulation, Policy(schedule=CASES[name], folder=tmp_path)) == chaotic.gradient(simulation, StoreAll(STEPS))


@pytest.mark.parametrize("costs", [None, COSTS], ids=["counted", "measured"])
@pytest.mark.parametrize("name", CASES)
def test_the_least_memory_that_it_names_is_enough_and_no_less(name: str, costs: Costs | None) -> None:
    kind, request = KINDS[name], Request(STEPS, SIZES, costs, 1, tiers=(DISK,), online=KINDS[name].online)
    least = kind.fitted(request)
    assert isinstance(least, int)
    assert isinstance(kind.fitted(replace(request, budget=least - 1)), int)
    for budget in (least, 2 * least, ENOUGH):
        schedule = kind.fitted(replace(request, budget=budget))
        assert not isinstance(schedule, int) and SIZES.peak(schedule) <= budget


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if not case.online])
def test_the_rest_of_its_run_has_a_schedule(name: str) -> None:
    rest = Policy(schedule=CASES[name]).for_rest(9).schedule
    assert isinstance(rest, Schedule) and rest.steps == 9
    simulate(rest)


def test_each_kind_is_exported_and_the_page_explains_the_main_ones() -> None:
    assert {name: getattr(checkpoint, kind.__name__) for name, kind in KINDS.items()} == dict(KINDS)
    explained = re.findall(r"^\| `(\w+)`", DOCS.read_text().split("| kind |")[1].split("\n\n")[0], re.MULTILINE)
    assert len(set(explained)) == len(explained) >= 7 and set(explained) <= set(KINDS)


@pytest.fixture
def thirds(monkeypatch: pytest.MonkeyPatch) -> type[Schedule]:
    """A schedule of a user's own with a name, which is forgotten after the test."""
    monkeypatch.setattr(KINDS, "_classes", dict(KINDS))

    @dataclass(frozen=True)
    class Thirds(Schedule, kind="thirds"):
        steps: int
        slots: int = 2

        @classmethod
        def fitted(cls, request: Request) -> Thirds | int:
            schedule = cls(request.steps)
            need = request.sizes.peak(schedule)
            return schedule if request.fits(need) else need

        def actions(self) -> Iterator[Action]:
            marks = [part * self.steps // 3 for part in range(4)]
            for slot in range(2):
                yield from (Save(marks[slot], slot), Advance(marks[slot], marks[slot + 1]))
            yield from (Record(marks[2], self.steps), EndForward(self.steps), Reverse(marks[2], self.steps))
            for slot in (1, 0):
                yield from (Load(marks[slot], slot), Free(slot), Record(marks[slot], marks[slot + 1]))
                yield Reverse(marks[slot], marks[slot + 1])

    return Thirds


def test_a_schedule_of_ones_own_is_requested_by_its_name(thirds: Any) -> None:
    sizes = Sizes(100, 80)
    assert resolve(Policy(schedule="thirds", memory=10**6), STEPS, sizes) == thirds(STEPS)
    least = sizes.peak(thirds(STEPS))
    with pytest.raises(PlanError, match=re.escape(f"expected a memory of at least {least_text(least)} for {STEPS} steps")):
        resolve(Policy(schedule="thirds", memory=least - 1), STEPS, sizes)
    simulation = chaotic.simulation()
    assert chaotic.gradient(simulation, Policy(schedule="thirds")) == chaotic.gradient(simulation, StoreAll(STEPS))
    with pytest.raises(ScheduleError, match=r"expected an online schedule .* got schedule = 'thirds'"):
        resolve(Policy(schedule="thirds", memory=10**6), STEPS, sizes, online=True)


def test_errors_name_a_schedule_of_ones_own(thirds: Any) -> None:
    with pytest.raises(ParameterError, match=r"schedule = 'third' is unknown; choose one of auto, .*thirds, or give a Schedule"):
        Policy(schedule="third")
    with pytest.raises(ParameterError, match=r"got 'third'; for a kind .* Policy\(schedule=...\) with one of auto, .*thirds$"):
        Policy.of("third")
    with pytest.raises(ParameterError, match=r"got 'thirds'; for a kind of schedule write Policy\(schedule='thirds'\)$"):
        Policy.of("thirds")


def test_amounts_of_memory_are_not_taken_for_kinds() -> None:
    assert Policy.of("4GB") == Policy(memory="4GB") and Policy.of(" Auto ") == Policy()
    with pytest.raises(ParameterError, match="expected an amount of memory of at least 1 byte, got '4 G'"):
        Policy.of("4 G")


def test_a_name_of_two_schedules_or_without_fitted_is_refused(thirds: Any) -> None:
    with pytest.raises(ParameterError, match="kind = 'thirds' of Third, expected a name that no other schedule has"):

        class Third(thirds, kind="thirds"): ...

    with pytest.raises(ParameterError, match=r"kind = 'auto' of Third, expected a name .* other than 'auto'"):

        class Third(thirds, kind="auto"): ...  # type: ignore[no-redef]

    with pytest.raises(ParameterError, match=r"kind = 'half' of Half, expected a class method fitted\(request\).*; add one, or leave"):

        class Half(Halves, kind="half"): ...

    assert "half" not in KINDS and KINDS["thirds"] is thirds
    with pytest.raises(ParameterError, match="Halves has no method fitted"):
        Halves.fitted(Request(STEPS, SIZES))


@dataclass(frozen=True)
class Halves(Schedule):
    """Records the second half, then the first: it declares no counts."""

    steps: int
    slots: int = 1

    def actions(self) -> Iterator[Action]:
        half = self.steps // 2
        yield from (Save(0, 0), Advance(0, half), Record(half, self.steps), EndForward(self.steps), Reverse(half, self.steps))
        yield from (Load(0, 0), Free(0), Record(0, half), Reverse(0, half))


def test_counts_are_found_in_the_actions() -> None:
    schedule = Halves(7)
    assert (schedule.advances, schedule.recorded, schedule.all_recorded, schedule.starts) == (3, 4, 7, 5)
    assert (schedule.forward, schedule.undone, schedule.slow_tiers, schedule.cost) == (10, 0, (), 10)
    assert simulate(schedule).cost == schedule.cost
    assert COSTS.seconds(schedule, 7) == pytest.approx(3 * 1.0 + 7 * 1.2 + 7 * 2.5 + 5 * 0.1)


class LooksLikeOne:
    """It has all that a schedule has, but does not inherit from one."""

    steps, slots, advances, recorded, undone = 7, 1, 3, 4, 0

    def actions(self) -> Iterator[Action]:
        return Halves(7).actions()


class Unsaid(Schedule):
    """It does not say how many slots it needs."""

    steps = 7

    def actions(self) -> Iterator[Action]:
        return Halves(7).actions()


@pytest.mark.parametrize("use", [simulate, lambda given: Sweep(given, object()), lambda given: Policy(schedule=given), Policy.of])
def test_what_merely_looks_like_a_schedule_is_refused(use) -> None:
    with pytest.raises(ParameterError, match=r"got an object of LooksLikeOne, which is no Schedule; let the class inherit from"):
        use(LooksLikeOne())
    with pytest.raises(ParameterError, match=r"got an object of Unsaid without slots; give its objects"):
        use(Unsaid())


def test_the_rest_of_a_schedule_that_cannot_be_shortened_is_binomial() -> None:
    class Fixed(Schedule):
        steps, slots = 3, 1

        def actions(self) -> Iterator[Action]:
            return Binomial(3, 1).actions()

    assert Policy(schedule=Fixed(), memory="1 GB").for_rest(2).schedule == Binomial(2, 1)
