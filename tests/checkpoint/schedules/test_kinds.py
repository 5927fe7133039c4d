"""Every kind of schedule that has a name: a new kind is tested by one entry of `CASES`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

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
    Policy,
    Record,
    Reverse,
    Reversible,
    Save,
    Schedule,
    Sizes,
    Spilling,
    StoreAll,
    Sweep,
    Tier,
    simulate,
)
from diffsim.checkpoint.planning.request import Request
from diffsim.errors import ParameterError
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
}
SIZES, COSTS = Sizes(100, 80, 500, 30, 20, second=10), Costs(1.0, 1.2, 3.0, 2.5, 1.1, 0.1, 4.0, 2.0)
ENOUGH = 10**6
DOCS = Path(__file__).parents[3] / "docs" / "checkpointing.md"


def test_there_is_a_case_of_each_kind() -> None:
    assert {name: type(case) for name, case in CASES.items()} == dict(KINDS)


@pytest.mark.parametrize("name", CASES)
def test_it_is_legal_and_keeps_its_counts(name: str) -> None:
    schedule = CASES[name]
    found = simulate(schedule, STEPS if schedule.online else None)
    assert found.advances + found.recorded == schedule.forward_of(STEPS)
    assert len(found.peak_slots) == 1 + len(schedule.slow_tiers)


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if not case.runs_backwards])
def test_it_gives_the_stored_bits(name: str, tmp_path: Path) -> None:
    made = chaotic.simulation()
    assert chaotic.gradient(made, Policy(schedule=CASES[name], folder=tmp_path)) == chaotic.gradient(made, StoreAll(STEPS))


@pytest.mark.parametrize("costs", [None, COSTS], ids=["counted", "measured"])
@pytest.mark.parametrize("name", CASES)
def test_the_least_memory_that_it_names_is_enough_and_no_less(name: str, costs: Costs | None) -> None:
    kind, request = KINDS[name], Request(STEPS, SIZES, costs, 1, tiers=(DISK,), online=KINDS[name].online)
    least = kind.fitted(request)
    assert isinstance(least, int)
    assert isinstance(kind.fitted(replace(request, budget=least - 1)), int)
    for budget in (least, 2 * least, ENOUGH):
        found = kind.fitted(replace(request, budget=budget))
        assert not isinstance(found, int) and SIZES.peak(found) <= budget


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if not case.online])
def test_the_rest_of_its_run_has_a_schedule(name: str) -> None:
    rest = Policy(schedule=CASES[name]).for_rest(9).schedule
    assert isinstance(rest, Schedule) and rest.steps == 9
    simulate(rest)


def test_the_page_explains_each_kind() -> None:
    table = DOCS.read_text().split("| kind |")[1].split("\n\n")[0]
    assert sorted(re.findall(r"^\| `(\w+)`", table, re.MULTILINE)) == sorted(KINDS)


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
