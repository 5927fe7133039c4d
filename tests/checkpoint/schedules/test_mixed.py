"""States and records in one memory: equal to the recursion for every small size, within the memory, at the predicted counts."""

from __future__ import annotations

import functools
import itertools
from dataclasses import dataclass

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from diffsim.checkpoint import EndForward, Mixed, Record, Reverse, Schedule, Shared, simulate
from diffsim.checkpoint.schedules.mixed_plan import MixedPlan
from diffsim.checkpoint.schedules.splits import Pool
from diffsim.errors import PlanError

GRID_LOSS = 0.10  # over the optimum; states of three records on a grid of four steps are the worst
ROUNDING_LOSS = 0.03


@functools.cache
def optimum(steps, memory, state, record):
    """Fewest steps run, recorded or not, from a working state that is not kept."""
    if memory < record:
        return float("inf")
    if steps == 1:
        return 1
    best = 1 + optimum(steps - 1, memory - record, state, record)
    if memory > state:
        for i in range(1, steps):
            best = min(best, i + optimum(steps - i, memory - state, state, record) + optimum(i, memory, state, record))
    return best


@pytest.mark.parametrize(("state", "record"), [(1, 1), (1, 2), (2, 1), (3, 2), (2, 5), (5, 1), (4, 4)])
def test_every_small_size(state, record):
    for steps, memory in itertools.product((1, 2, 3, 4, 7, 12, 17), range(state + record, 5 * state + 4 * record)):
        schedule = Mixed(steps, memory, state, record)
        summary = simulate(schedule)  # refuses what exceeds the memory and compares advances and records
        assert schedule.forward == summary.advances + summary.recorded == optimum(steps, memory, state, record), (steps, memory)
        assert summary.peak_slots == (schedule.slots,)


PUBLISHED = [(5, 6.828), (10, 3.921), (20, 2.823), (40, 2.142), (60, 1.958), (80, 1.932)]


@pytest.mark.parametrize(("others", "expected"), PUBLISHED)
def test_published_counts_of_a_thousand_steps(others, expected):
    schedule = Mixed(1000, others + 1)  # they count the record that is being reversed apart
    assert round(schedule.forward / 1000, 3) == expected
    assert simulate(schedule).advances == schedule.advances == schedule.forward - 1000


@settings(deadline=None, max_examples=10, phases=(Phase.explicit, Phase.generate))
@given(data=st.data(), steps=st.integers(1, 2500), state=st.integers(1, 10**3), record=st.integers(1, 10**3))
def test_larger_sizes_keep_the_promises(data, steps, state, record):
    memory = data.draw(st.integers(int(1.1 * (state + record)) + 1, 40 * (state + record)), label="memory")
    schedule = Mixed(steps, memory, state, record)
    summary = simulate(schedule)
    assert summary.recorded == steps
    assert summary.peak_slots == (schedule.slots,)
    assert summary.cost == schedule.forward


@dataclass(frozen=True)
class TwoLevels(Schedule):
    """A `Mixed` that plans its run in few blocks."""

    steps: int
    memory: Shared
    plan: MixedPlan

    @property
    def shared(self):
        return self.memory

    @property
    def advances(self):
        return self.plan.forward - self.steps

    @property
    def recorded(self):
        return self.plan.recorded

    @property
    def slots(self):
        return self.plan.slots

    def actions(self):
        return self.plan.moves(Pool(self.slots))


@settings(deadline=None, max_examples=60, phases=(Phase.explicit, Phase.generate))
@given(data=st.data(), steps=st.integers(11, 250), state=st.integers(1, 9), record=st.integers(1, 9), blocks=st.integers(2, 12))
def test_two_levels_keep_the_promises(data, steps, state, record, blocks):
    memory = data.draw(st.integers(state + record, max(state + record, min(steps * record - 1, 150))), label="memory")
    schedule = TwoLevels(steps, Shared(memory, state, record), MixedPlan(steps, memory, state, record, blocks))
    assert simulate(schedule).peak_slots == (schedule.slots,)


@pytest.mark.parametrize(("state", "record"), [(1, 1), (3, 1), (1, 3), (5, 4)])
def test_two_levels_lose_little(state, record):
    for steps, count in itertools.product((211, 350), (4, 8, 20)):
        memory = count * max(state, record) + record
        best, coarse = MixedPlan(steps, memory, state, record), MixedPlan(steps, memory, state, record, blocks=100)
        assert best.forward <= coarse.forward <= (1 + GRID_LOSS) * best.forward


@pytest.mark.parametrize(("state", "record"), [(1003, 997), (1003, 1999), (2999, 1003)])
def test_rounding_loses_little(state, record):
    memory = 30 * max(state, record) + record
    best, rounded = MixedPlan(300, memory, state, record, fillings=4096), MixedPlan(300, memory, state, record, fillings=500)
    assert best.forward <= rounded.forward <= (1 + ROUNDING_LOSS) * best.forward


def test_sizes_count_in_proportion():
    assert Mixed(300, 7 * 12345, 12345, 12345).forward == Mixed(300, 7).forward
    assert Mixed(300, 7 * 12345 + 12344, 12345, 12345).forward == Mixed(300, 7).forward


@pytest.mark.parametrize("steps", [1, 5, 100])
def test_what_fits_is_recorded_at_once(steps):
    schedule = Mixed(steps, 3 * steps, 10**6, 3)
    assert list(schedule.actions()) == [Record(0, steps), EndForward(steps), Reverse(0, steps)]
    assert (schedule.forward, schedule.advances, schedule.recorded, schedule.slots) == (steps, 0, steps, 0)


def test_the_protocol():
    assert Mixed(20, 50, 7, 4).shared == Shared(50, 7, 4)


def test_too_small_a_memory_is_refused():
    with pytest.raises(PlanError, match=r"a memory of at least 12 for 9 steps, states of 7 and records of 5, got 11; raise the memory"):
        Mixed(9, 11, 7, 5)
    assert Mixed(9, 12, 7, 5).forward == 44  # 9 + 8 + .. + 3 and 2: a step is reached from the first state, but two fit as records


def test_a_memory_too_small_after_rounding_is_refused():
    schedule = Mixed(2 * 10**5, 100_004, 10**5 - 1, 5)
    with pytest.raises(PlanError, match="after rounding both up to 1/1024 of it, got 100004"):
        schedule.forward  # noqa: B018
