"""Each rule of the simulated machine refuses the schedule that breaks it, and nothing else."""

from __future__ import annotations

from dataclasses import replace

import pytest

from diffsim.checkpoint import Advance, EndForward, Free, Load, Record, Reverse, Save, Summary, simulate
from diffsim.errors import ScheduleError

from .toy_model import Segments, scripted

# Two steps in one slot: the smallest schedule with every action. Each illegal one below is a change of it.
LEGAL = (Save(0, 0), Advance(0, 1), Record(1, 2), EndForward(2), Reverse(1, 2), Load(0, 0), Free(0), Reverse(0, 1))


def with_change(index, *actions, drop=1):
    return LEGAL[:index] + actions + LEGAL[index + drop :]


def test_the_legal_schedule_passes():
    summary = simulate(scripted(2, 1, LEGAL))
    assert summary == Summary(advances=1, recorded=1, writes=1, reads=1, peak_slots=1, peak_record=1, peak_states=2)


@pytest.mark.parametrize("length", [1, 3, 4, 12, 20])
def test_a_schedule_of_several_records_passes(length):
    summary = simulate(Segments(12, length))
    assert summary.recorded == 12
    assert summary.peak_record == min(length, 12)
    assert summary.peak_states == Segments(12, length).slots + (12 % length or min(length, 12))


ILLEGAL = {
    "advance from elsewhere": (with_change(1, Advance(1, 2)), r"the working state at 1, got it is at 0"),
    "advance by nothing": (with_change(1, Advance(0, 0)), r"start < stop, got start = 0, stop = 0"),
    "advance backwards": (with_change(2, Advance(1, 0)), r"start < stop, got start = 1, stop = 0"),
    "advance past the end": (with_change(1, Advance(0, 3)), r"a stop of at most 2, .* got 3"),
    "advance past the adjoint": (with_change(6, Advance(0, 2)), r"a stop of at most 1, .* got 2"),
    "advance from an undefined state": (with_change(5, Advance(1, 2)), r"the working state at 1, got it is undefined"),
    "record from elsewhere": (with_change(2, Record(0, 2)), r"the working state at 0, got it is at 1"),
    "record by nothing": (with_change(2, Record(1, 1)), r"start < stop, got start = 1"),
    "record over a record": (with_change(1, Record(0, 1)), r"no record in use, got a record of steps 0\.\.0"),
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
    "reverse without a record": (with_change(2, Advance(1, 2)), r"a record of steps 1\.\.1, or .*, got no record, working state at 2"),
    "reverse more than is recorded": (with_change(4, Reverse(0, 2)), r"a record of steps 0\.\.1, or .* got a record of steps 1\.\.1"),
    "reverse two steps from one state": (
        (Save(0, 0), Advance(0, 2), EndForward(2), Load(0, 0), Reverse(0, 2)),
        r"a record of steps 0\.\.1, or a single step .*, got no record, working state at 0",
    ),
    "reverse from an undefined state": (with_change(5, drop=2), r"a record of steps 0\.\.0, or .* working state undefined"),
    "go on after the end": ((*LEGAL, Load(0, 0)), r"nothing but Free after the last step is reversed"),
    "end too early": (LEGAL[:-1], r"every step reversed when the schedule ends, got steps 0\.\.0 not reversed"),
    "leave a slot": (with_change(6), r"all slots empty when the schedule ends, got slots \[0\] in use"),
    "use an unknown action": (with_change(1, "rest"), r"one of the actions of diffsim\.checkpoint\.actions, got str"),
}


@pytest.mark.parametrize("name", ILLEGAL)
def test_an_illegal_schedule_is_refused(name):
    listed, message = ILLEGAL[name]
    with pytest.raises(ScheduleError, match=message):
        simulate(scripted(2, 1, listed))


def test_a_record_may_wait_while_a_later_step_is_reversed():
    before = (Save(0, 0), Advance(0, 1), Save(1, 1), Advance(1, 2), EndForward(2))
    record_first = (Load(0, 0), Free(0), Record(0, 1), Load(1, 1), Free(1), Reverse(1, 2))
    assert simulate(scripted(2, 2, (*before, *record_first, Reverse(0, 1)))).peak_states == 2


def test_reversing_a_part_drops_the_whole_record():
    listed = (Record(0, 2), EndForward(2), Reverse(1, 2), Reverse(0, 1))
    with pytest.raises(ScheduleError, match=r"^action 4, .* a record of steps 0\.\.0, or .*, got no record"):
        simulate(scripted(2, 0, listed))


def test_the_message_names_the_action_and_a_remedy():
    with pytest.raises(ScheduleError, match=r"^action 2, Advance\(start=1, stop=2\): expected .*, got .*; Load a state and Advance to 1$"):
        simulate(scripted(2, 1, with_change(1, Advance(1, 2))))


@pytest.mark.parametrize(("name", "value"), [("advances", 2), ("recorded", 2), ("recorded", 0)])
def test_a_wrong_declaration_is_refused(name, value):
    schedule = replace(scripted(2, 1, LEGAL), **{name: value})
    with pytest.raises(ScheduleError, match=f"{name} = {value}, as the schedule declares, got 1"):
        simulate(schedule)
