"""Reversing from kept states: legal from any of them, at the cost of the gaps' optima, in the slots that are free."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from diffsim.checkpoint import Advance, Binomial, EndForward, Fetch, Save, Schedule, Tier, simulate
from diffsim.checkpoint.schedules.gaps import gaps_advances, reverse_gaps
from diffsim.checkpoint.schedules.splits import Kept
from diffsim.errors import ScheduleError

from ..tables import splits_table


@dataclass(frozen=True)
class KeptOnTheWay(Schedule):
    """Keeps the given states on the way forward, then reverses from them."""

    steps: int
    slots: int
    states: tuple[Kept, ...]
    disk: int = 0
    end: bool = False
    ahead: bool = False

    @property
    def slow_tiers(self):
        return (Tier("disk", self.disk),)

    @property
    def reached(self):
        return self.states[-1].step if self.end else self.steps

    @property
    def advances(self):
        return self.reached + gaps_advances(self.states, self.steps, self.slots)

    def actions(self):
        for base, stop in itertools.zip_longest(self.states, (base.step for base in self.states[1:]), fillvalue=self.reached):
            yield Save(base.step, base.slot, base.tier)
            if stop > base.step:
                yield Advance(base.step, stop)
        if not self.end:
            yield EndForward(self.steps)
        yield from reverse_gaps(self.states, self.steps, self.slots, self.end, self.ahead)


def stack(draw, steps, slots, disk):
    """Draw kept states, state 0 among them, in slots of their own in any order."""
    count = draw(st.integers(1, min(steps, slots + disk)))
    numbers = [0, *sorted(draw(st.permutations(range(1, steps)))[: count - 1])]
    places = draw(st.permutations([(0, slot) for slot in range(slots)] + [(1, slot) for slot in range(disk)]))
    return tuple(Kept(step, slot, tier) for step, (tier, slot) in zip(numbers, places, strict=False))


@settings(deadline=None, max_examples=200)
@given(data=st.data(), steps=st.integers(1, 60), slots=st.integers(1, 6), disk=st.integers(0, 3), end=st.booleans(), ahead=st.booleans())
def test_any_kept_states_are_reversed_at_the_predicted_cost(data, steps, slots, disk, end, ahead):
    states = stack(data.draw, steps, slots, disk)
    schedule = KeptOnTheWay(steps, slots, states, disk, end, ahead)
    simulate(schedule)  # compares the declared advances with those made
    fetched = [action for action in schedule.actions() if isinstance(action, Fetch)]
    assert len(fetched) == ahead * sum(base.tier == 1 for base in states[:-1])


def test_each_gap_costs_its_optimum():
    best = splits_table(40, 5)
    states = (Kept(0, 2), Kept(13, 4), Kept(14, 0, 1), Kept(30, 1))  # of 5 slots 2 are free; state 14 is on the disk
    expected = best[10, 3] + best[16, 3] + best[1, 4] + best[13, 5]
    assert gaps_advances(states, 40, 5) == expected
    assert simulate(KeptOnTheWay(40, 5, states, disk=1)).advances == 40 + expected


def test_a_state_on_disk_is_read_in_place_if_no_slot_is_free():
    states = (Kept(0, 0), Kept(5, 0, 1))
    summary = simulate(KeptOnTheWay(9, 1, states, disk=1))
    assert summary.reads == (4, 4)
    assert summary.writes == (1, 1)


def test_one_kept_state_is_the_binomial_schedule():
    for steps, slots in ((1, 1), (17, 3), (50, 7)):
        assert list(Binomial(steps, slots).actions())[(steps > 1) :] == [
            action for action in reverse_gaps([Kept(0, 0)], steps, slots, end=True) if steps > 1 or type(action).__name__ != "Free"
        ]


@pytest.mark.parametrize(
    "states",
    [
        (),
        (Kept(1, 0),),
        (Kept(0, 0), Kept(9, 1)),
        (Kept(0, 0), Kept(5, 1), Kept(5, 2)),
        (Kept(0, 0), Kept(5, 1), Kept(4, 2)),
        (Kept(0, 0), Kept(5, 0)),
        (Kept(0, 3),),
        (Kept(0, -1),),
    ],
)
@pytest.mark.parametrize("function", [reverse_gaps, gaps_advances])
def test_states_that_cannot_be_are_refused(states, function):
    with pytest.raises(ScheduleError, match=r"expected .*, got .*; give"):
        function(states, 9, 3)


def test_steps_that_cannot_be_are_refused():
    with pytest.raises(ScheduleError, match="stop"):
        reverse_gaps([Kept(0, 0)], 0, 1)
