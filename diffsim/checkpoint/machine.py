"""A simulated machine that executes a schedule on step numbers alone and refuses whatever a model could not do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NoReturn

from diffsim.checkpoint.actions import Action, Advance, EndForward, Free, Load, Record, Reverse, Save
from diffsim.checkpoint.schedule import Schedule
from diffsim.errors import ScheduleError


@dataclass(frozen=True)
class Summary:
    """What executing a schedule took.

    Attributes:
        advances: steps run by `Advance`.
        recorded: steps run by `Record`.
        writes: number of saves.
        reads: number of loads.
        peak_slots: most slots in use at a time.
        peak_record: most steps in the record at a time.
        peak_states: most states kept in slots and record together at a time.
    """

    advances: int
    recorded: int
    writes: int
    reads: int
    peak_slots: int
    peak_record: int
    peak_states: int


def simulate(schedule: Schedule) -> Summary:
    """Execute `schedule`, check that every action is legal, and count.

    Legal means: the primal starts where the working state is and never runs past the steps still to be reversed; a slot is within the
    limit, empty when saved to and full when loaded or freed; the loss is evaluated once, on the final state, before any reversal;
    what the reversed steps need is present; steps are reversed once each, from the last to the first; and at the end no slot is in
    use and the declared counts have come true.

    Takes O(actions) time and O(slots) memory.

    Raises:
        ScheduleError: an action is not legal when its turn comes, the schedule ends too early or late, or a declared count is wrong.
    """
    machine = _Machine(schedule)
    for action in schedule.actions():
        machine.execute(action)
    return machine.finish()


class _Machine:
    """Holds step numbers where a model holds states."""

    def __init__(self, schedule: Schedule) -> None:
        self.schedule = schedule
        self.working: int | None = 0  # step of the working state, None while it is undefined
        self.slots: dict[int, int] = {}  # slot: step of the state in it
        self.record: range | None = None  # steps in the record
        self.remaining = schedule.steps  # steps 0..remaining-1 are still to be reversed
        self.forward_ended = False
        self.count = 0
        self.action: Action | None = None
        self.advances = self.recorded = self.writes = self.reads = 0
        self.peak_slots = self.peak_record = self.peak_states = 0

    def execute(self, action: Action) -> None:
        self.count += 1
        self.action = action
        if self.remaining == 0 and not isinstance(action, Free):
            self._refuse("nothing but Free after the last step is reversed", "a further action", "end the schedule there")
        match action:
            case Advance(start, stop):
                self._run(start, stop)
                self.advances += stop - start
            case Record(start, stop):
                self._start_record(start, stop)
            case Save(step, slot):
                self._save(step, slot)
            case Load(step, slot):
                self._require_in_slot(slot, step)
                self.working = step
                self.reads += 1
            case Free(slot):
                self._require_in_slot(slot, None)
                del self.slots[slot]
            case EndForward(step):
                self._end_forward(step)
            case Reverse(start, stop):
                self._reverse(start, stop)
            case _:
                self._refuse("one of the actions of diffsim.checkpoint.actions", type(action).__name__, "yield only those")

    def finish(self) -> Summary:
        if self.remaining:
            self._refuse(
                "every step reversed when the schedule ends", f"steps 0..{self.remaining - 1} not reversed", "add the missing Reverse"
            )
        if self.slots:
            self._refuse("all slots empty when the schedule ends", f"slots {sorted(self.slots)} in use", "Free each after its last Load")
        for name, declared, actual in (
            ("advances", self.schedule.advances, self.advances),
            ("recorded", self.schedule.recorded, self.peak_record),
        ):
            if declared != actual:
                self._refuse(f"{name} = {declared}, as the schedule declares", f"{actual}", "correct the closed form or the actions")
        return Summary(self.advances, self.recorded, self.writes, self.reads, self.peak_slots, self.peak_record, self.peak_states)

    def _run(self, start: int, stop: int) -> None:
        if not start < stop:
            self._refuse("start < stop", f"start = {start}, stop = {stop}", "run at least one step")
        self._require_working(start)
        if stop > self.remaining:
            self._refuse(f"a stop of at most {self.remaining}, the steps still to be reversed", f"{stop}", "stop earlier")
        self.working = stop

    def _start_record(self, start: int, stop: int) -> None:
        if self.record is not None:
            self._refuse("no record in use", f"a record of {_steps(self.record)}", "Reverse it before the next Record")
        self._run(start, stop)
        self.record = range(start, stop)
        self.recorded += stop - start
        self.peak_record = max(self.peak_record, stop - start)
        self._note_peak_states()

    def _save(self, step: int, slot: int) -> None:
        self._require_working(step)
        if not 0 <= slot < self.schedule.slots:
            self._refuse(f"one of {self.schedule.slots} slots, counted from 0", f"slot {slot}", "Free a slot and use that")
        if slot in self.slots:
            self._refuse(f"slot {slot} empty", f"state {self.slots[slot]} in it", "Free it first")
        self.slots[slot] = step
        self.writes += 1
        self.peak_slots = max(self.peak_slots, len(self.slots))
        self._note_peak_states()

    def _end_forward(self, step: int) -> None:
        if self.forward_ended:
            self._refuse("one EndForward", "a second one", "evaluate the loss once")
        if step != self.schedule.steps:
            self._refuse(f"EndForward({self.schedule.steps}), the final state", f"state {step}", "run the primal to the end first")
        self._require_working(step)
        self.forward_ended = True

    def _reverse(self, start: int, stop: int) -> None:
        if not self.forward_ended:
            self._refuse("EndForward before the first Reverse", "none yet", "evaluate the loss first")
        if not 0 <= start < stop:
            self._refuse("0 <= start < stop", f"start = {start}, stop = {stop}", "reverse at least one step")
        if stop != self.remaining:
            self._refuse(f"stop = {self.remaining}, the steps still to be reversed", f"stop = {stop}", "reverse from the last step down")
        if self.record is not None and start in self.record and stop - 1 in self.record:
            self.record = None  # it never outlives the schedule: all its steps are still to be reversed, and the first one to be drops it
        elif stop != start + 1 or self.working != start:
            self._refuse(
                f"a record of {_steps(range(start, stop))}, or a single step with the working state at {start}",
                f"{'no record' if self.record is None else 'a record of ' + _steps(self.record)}, working state {_name(self.working)}",
                "Record the steps, or Load and Advance to the step",
            )
        self.working = None
        self.remaining = start

    def _require_working(self, step: int) -> None:
        if self.working != step:
            self._refuse(f"the working state at {step}", f"it is {_name(self.working)}", f"Load a state and Advance to {step}")

    def _require_in_slot(self, slot: int, step: int | None) -> None:
        if slot not in self.slots:
            self._refuse(f"a state in slot {slot}", "an empty slot", "Save to it first")
        if step is not None and self.slots[slot] != step:
            self._refuse(f"state {step} in slot {slot}", f"state {self.slots[slot]}", "Load the state that the slot keeps")

    def _note_peak_states(self) -> None:
        self.peak_states = max(self.peak_states, len(self.slots) + len(self.record or ()))

    def _refuse(self, expected: str, got: str, remedy: str) -> NoReturn:
        raise ScheduleError(f"action {self.count}, {self.action}: expected {expected}, got {got}; {remedy}")


def _steps(steps: range) -> str:
    return f"steps {steps.start}..{steps.stop - 1}"


def _name(step: int | None) -> str:
    return "undefined" if step is None else f"at {step}"
