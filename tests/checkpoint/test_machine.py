"""Each rule of the simulated machine refuses the schedule that breaks it, and nothing else."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from diffsim.checkpoint import (
    Advance,
    EndForward,
    Fetch,
    Free,
    Keep,
    Load,
    OnlineSchedule,
    Record,
    Reverse,
    Save,
    Shared,
    Summary,
    Tier,
    Undo,
    simulate,
)
from diffsim.errors import ScheduleError

from .toy_model import Segments, declaring, scripted

# Two steps in one slot: the smallest schedule with every action. Each illegal one below is a change of it.
LEGAL = (Save(0, 0), Advance(0, 1), Record(1, 2), EndForward(2), Reverse(1, 2), Load(0, 0), Free(0), Reverse(0, 1))


def with_change(index, *actions, drop=1):
    return LEGAL[:index] + actions + LEGAL[index + drop :]


def test_the_legal_schedule_passes():
    summary = simulate(scripted(2, 1, LEGAL))
    assert summary == Summary(
        advances=1, recorded=1, undone=0, writes=(1,), reads=(1,), peak_slots=(1,), peak_record=1, peak_states=2, starts=4, cost=2.0
    )


@pytest.mark.parametrize("length", [1, 3, 4, 12, 20])
def test_a_schedule_that_records_several_times_passes(length):
    summary = simulate(Segments(12, length))
    assert summary.recorded == 12
    assert summary.peak_record == min(length, 12)
    assert summary.peak_states == Segments(12, length).slots + (12 % length or min(length, 12))


def test_kept_runs_pass():
    """A run is reversed alone, or with the step above it, and takes the slots that others leave."""
    listed = (Save(0, 0), Advance(0, 2), Keep(2, 4), Record(4, 5), EndForward(5), Reverse(4, 5), Reverse(2, 4))
    summary = simulate(scripted(5, 3, (*listed, Load(0, 0), Free(0), Keep(0, 1), Reverse(0, 2))))
    assert summary == Summary(
        advances=5, recorded=1, undone=0, writes=(1,), reads=(1,), peak_slots=(3,), peak_record=1, peak_states=4, starts=7, cost=6.0
    )


ILLEGAL = {
    "advance from elsewhere": (with_change(1, Advance(1, 2)), r"the working state at 1, got it is at 0"),
    "advance by nothing": (with_change(1, Advance(0, 0)), r"start < stop, got start = 0, stop = 0"),
    "advance backwards": (with_change(2, Advance(1, 0)), r"start < stop, got start = 1, stop = 0"),
    "keep from elsewhere": (with_change(1, Keep(1, 2)), r"the working state at 1, got it is at 0"),
    "keep more than there are slots": (with_change(1, Keep(0, 1)), r"at most 0 states, for which there are free slots, got 1"),
    "save where a run is": ((Keep(0, 1), Save(1, 0)), r"a slot that no kept run takes, got 1 states of kept runs in slots"),
    "reverse recorded steps and a kept run at once": (
        (Keep(0, 1), Record(1, 2), EndForward(2), Reverse(0, 2)),
        r"steps 0\.\.1 recorded or kept at once, or .* got steps 1\.\.1 recorded or kept last",
    ),
    "reverse a kept run and a step that was left": (
        (Keep(0, 1), Advance(1, 2), EndForward(2), Reverse(0, 2)),
        r"steps 0\.\.1 recorded or kept at once, or .* got steps 0\.\.0 recorded or kept last, working state at 2",
    ),
    "advance past the end": (with_change(1, Advance(0, 3)), r"a stop of at most 2, .* got 3"),
    "advance past the adjoint": (with_change(6, Advance(0, 2)), r"a stop of at most 1, .* got 2"),
    "advance from an undefined state": (with_change(5, Advance(1, 2)), r"the working state at 1, got it is undefined"),
    "record from elsewhere": (with_change(2, Record(0, 2)), r"the working state at 0, got it is at 1"),
    "record by nothing": (with_change(2, Record(1, 1)), r"start < stop, got start = 1"),
    "record what is not reversed in its turn": (
        with_change(4, Load(0, 0), Record(0, 1), drop=0),
        r"all recorded steps reversed when the schedule ends, got steps 1\.\.1 left",
    ),
    "save another state": (with_change(0, Save(1, 0)), r"the working state at 1, got it is at 0"),
    "save the undefined state": (with_change(5, Free(0), Save(0, 0)), r"the working state at 0, got it is undefined"),
    "save over a state": (with_change(1, Save(0, 0), drop=0), r"slot 0 empty, got state 0 in it"),
    "save beyond the slots": (with_change(0, Save(0, 1)), r"one of 1 slots, counted from 0, got slot 1"),
    "save to a negative slot": (with_change(0, Save(0, -1)), r"one of 1 slots, counted from 0, got slot -1"),
    "load from an empty slot": (with_change(5, Free(0), Load(0, 0)), r"a state in slot 0, got an empty slot"),
    "load another state": (with_change(5, Load(1, 0)), r"state 1 in slot 0, got state 0"),
    "free an empty slot": (with_change(6, Free(0), Free(0)), r"a state in slot 0, got an empty slot"),
    "end before the final state": (with_change(2, EndForward(1)), r"EndForward\(2\), the final state, got state 1"),
    "end with the working state elsewhere": (with_change(2, EndForward(2)), r"the working state at 2, got it is at 1"),
    "end twice": (with_change(3, EndForward(2), EndForward(2)), r"one EndForward, got a second one"),
    "reverse before the loss": (with_change(3), r"EndForward before the first Reverse, got none yet"),
    "reverse nothing": (with_change(4, Reverse(2, 2)), r"0 <= start < stop, got start = 2"),
    "reverse below zero": (with_change(7, Reverse(-1, 1)), r"0 <= start < stop, got start = -1"),
    "reverse out of order": (with_change(4, Reverse(0, 1)), r"stop = 2, the steps still to be reversed, got stop = 1"),
    "reverse twice": (with_change(5, Reverse(1, 2)), r"stop = 1, the steps still to be reversed, got stop = 2"),
    "reverse what is not recorded": (
        with_change(2, Advance(1, 2)),
        r"steps 1\.\.1 recorded or kept at once, or .*, got none recorded, working state at 2",
    ),
    "reverse more than is recorded": (
        with_change(4, Reverse(0, 2)),
        r"steps 0\.\.1 recorded or kept at once, or .* got steps 1\.\.1 recorded or kept last",
    ),
    "reverse two steps from one state": (
        (Save(0, 0), Advance(0, 2), EndForward(2), Load(0, 0), Reverse(0, 2)),
        r"steps 0\.\.1 recorded or kept at once, or a single step .*, got none recorded, working state at 0",
    ),
    "reverse from an undefined state": (with_change(5, drop=2), r"steps 0\.\.0 recorded or kept at once, or .* working state undefined"),
    "go on after the end": ((*LEGAL, Load(0, 0)), r"nothing but Free after the last step is reversed"),
    "end too early": (LEGAL[:-1], r"every step reversed when the schedule ends, got steps 0\.\.0 not reversed"),
    "leave a slot": (with_change(6), r"all slots empty when the schedule ends, got slots \[0\] of tier 0 in use"),
    "use an unknown action": (with_change(1, "rest"), r"one of the actions of diffsim\.checkpoint\.actions, got str"),
}


@pytest.mark.parametrize("name", ILLEGAL)
def test_an_illegal_schedule_is_refused(name):
    listed, message = ILLEGAL[name]
    with pytest.raises(ScheduleError, match=message):
        simulate(scripted(2, 1, listed))


def test_recorded_steps_may_wait_while_a_later_step_is_reversed():
    before = (Save(0, 0), Advance(0, 1), Save(1, 1), Advance(1, 2), EndForward(2))
    recorded_first = (Load(0, 0), Free(0), Record(0, 1), Load(1, 1), Free(1), Reverse(1, 2))
    assert simulate(scripted(2, 2, (*before, *recorded_first, Reverse(0, 1)))).peak_states == 2


def test_steps_recorded_at_once_are_reversed_at_once():
    listed = (Record(0, 2), EndForward(2), Reverse(1, 2), Reverse(0, 1))
    with pytest.raises(
        ScheduleError, match=r"^action 3, .* steps 1\.\.1 recorded or kept at once, or .*, got steps 0\.\.1 recorded or kept last"
    ):
        simulate(scripted(2, 0, listed))


def test_recorded_steps_are_a_stack():
    listed = (Record(0, 1), Record(1, 3), EndForward(3), Reverse(1, 3), Reverse(0, 1))
    assert simulate(scripted(3, 0, listed)).peak_states == 3


def test_a_state_reversed_without_residuals_is_still_there():
    listed = (Advance(0, 2), EndForward(2), Undo(1, 2), Reverse(1, 2), Undo(0, 1), Reverse(0, 1))
    schedule = scripted(2, 0, listed)
    assert simulate(schedule).undone == 2
    with pytest.raises(ScheduleError, match="expected undone = 1, as the schedule declares, got 2"):
        simulate(declaring(schedule, undone=1))


def test_the_message_names_the_action_and_a_remedy():
    with pytest.raises(ScheduleError, match=r"^action 2, Advance\(start=1, stop=2\): expected .*, got .*; Load a state and Advance to 1$"):
        simulate(scripted(2, 1, with_change(1, Advance(1, 2))))


@pytest.mark.parametrize(("name", "value"), [("advances", 2), ("recorded", 2), ("recorded", 0), ("all_recorded", 2)])
def test_a_wrong_declaration_is_refused(name, value):
    schedule = declaring(scripted(2, 1, LEGAL), **{name: value})
    with pytest.raises(ScheduleError, match=f"{name} = {value}, as the schedule declares, got 1"):
        simulate(schedule)


DISK = Tier("disk", 1, write_cost=2.0, read_cost=3.0)
TWO_TIERS = (
    Save(0, 0, 1), Advance(0, 1), Save(1, 0), Advance(1, 2), Record(2, 3), EndForward(3), Reverse(2, 3),
    Load(1, 0), Free(0), Reverse(1, 2), Fetch(0, 0, 1), Load(0, 0, 1), Free(0, 1), Reverse(0, 1),
)  # fmt: skip


def two_tiers(index=0, *actions, drop=0):
    listed = TWO_TIERS[:index] + actions + TWO_TIERS[index + drop :]
    return scripted(3, 1, listed, (DISK,))


def test_slots_of_every_tier_count_apart():
    summary = simulate(two_tiers())
    assert (summary.writes, summary.reads, summary.peak_slots, summary.peak_states) == ((1, 1), (1, 1), (1, 1), 2)
    assert summary.cost == 2 + 1 + 2.0 + 3.0


ILLEGAL_IN_TIERS = {
    "an unknown tier": (two_tiers(0, Save(0, 0, 2), drop=1), r"one of 2 tiers, counted from 0, got tier 2"),
    "beyond the slots of a tier": (two_tiers(0, Save(0, 1, 1), drop=1), r"one of 1 slots, .* got slot 1 of tier 1"),
    "over a state of a tier": (two_tiers(1, Save(0, 0, 1)), r"slot 0 of tier 1 empty, got state 0 in it"),
    "fetch from the first tier": (two_tiers(4, Fetch(1, 0, 0)), r"a slow tier, got tier 0"),
    "fetch what is not there": (two_tiers(10, Fetch(1, 0, 1), drop=1), r"state 1 in slot 0 of tier 1, got state 0"),
    "fetch two": (two_tiers(10, Fetch(0, 0, 1)), r"one state on its way from a tier at most"),
    "load from another tier": (two_tiers(11, Load(0, 0), drop=1), r"a state in slot 0, got an empty slot"),
    "undo nothing": (two_tiers(9, Undo(1, 1)), r"0 <= start < stop"),
    "undo from elsewhere": (two_tiers(9, Undo(0, 2)), r"the working state at 2, got it is at 1"),
}


@pytest.mark.parametrize("name", ILLEGAL_IN_TIERS)
def test_an_illegal_schedule_of_tiers_is_refused(name):
    schedule, message = ILLEGAL_IN_TIERS[name]
    with pytest.raises(ScheduleError, match=message):
        simulate(schedule)


def test_a_shared_memory_is_not_exceeded():
    listed = (Save(0, 0), Record(0, 1), Record(1, 2), EndForward(2), Reverse(1, 2), Reverse(0, 1), Free(0))
    assert simulate(scripted(2, 1, listed, together=Shared(total=8, state=2, record=3))).peak_record == 2
    with pytest.raises(ScheduleError, match=r"^action 3, .* at most 7 units of memory in use, got 8"):
        simulate(scripted(2, 1, listed, together=Shared(total=7, state=2, record=3)))


@dataclass(frozen=True)
class EverySecond(OnlineSchedule):
    """Online: keeps every second state, in as many slots as it takes."""

    slots: int
    more: int = 0

    def advances_of(self, steps):
        return steps + steps // 2 + self.more

    def online_actions(self, ended):
        reached = 0
        while ended() is None:
            yield Save(reached, reached // 2)
            yield Advance(reached, reached + 2)
            reached += 2
        steps = ended()
        yield EndForward(steps)
        for step in reversed(range(steps)):
            yield Load(step - step % 2, step // 2)
            if step % 2:
                yield Advance(step - 1, step)
            else:
                yield Free(step // 2)
            yield Reverse(step, step + 1)


@pytest.mark.parametrize("steps", range(1, 9))
def test_an_online_schedule_learns_where_the_run_ends(steps):
    assert simulate(EverySecond(4), steps).advances == steps + steps // 2


def test_an_online_schedule_must_keep_its_word():
    with pytest.raises(ScheduleError, match="advances = 8, as the schedule declares, got 7"):
        simulate(EverySecond(3, more=1), 5)
    with pytest.raises(ScheduleError, match="one of 2 slots"):
        simulate(EverySecond(2), 5)
