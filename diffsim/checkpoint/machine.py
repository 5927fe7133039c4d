"""A simulated machine that executes a schedule on step numbers alone, and refuses actions that a model could not run."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NoReturn

from diffsim.checkpoint.actions import Action, Advance, EndForward, Fetch, Free, Keep, Load, Record, Reverse, Save, Undo
from diffsim.checkpoint.schedule import AnySchedule, Schedule, require_count, require_schedule
from diffsim.errors import ScheduleError


@dataclass(frozen=True)
class Summary:
    """Counts of an executed schedule.

    Attributes:
        advances: steps run by `Advance` and `Keep`.
        recorded: steps run by `Record`.
        undone: steps run by `Undo`.
        writes: number of saves, one entry a tier.
        reads: number of loads, one entry a tier.
        peak_slots: most slots in use at a time, those of kept runs included, one entry a tier.
        peak_record: most steps at a time whose residuals are kept.
        peak_states: most states kept in slots of the first tier and recorded steps together at a time.
        starts: number of runs over consecutive steps: of `Advance`, `Record`, `Keep`, `Undo` and `Reverse`.
        cost: steps run forward or undone, plus saves and loads at the cost of their tiers, in steps of the primal.
    """

    advances: int
    recorded: int
    undone: int
    writes: tuple[int, ...]
    reads: tuple[int, ...]
    peak_slots: tuple[int, ...]
    peak_record: int
    peak_states: int
    starts: int
    cost: float


def simulate(schedule: AnySchedule, steps: int | None = None) -> Summary:
    """Execute `schedule`, check that every action is legal, and count.

    A schedule is legal if:

    - the primal starts at the working state, and never runs past the steps still to be reversed;
    - a slot is within the limit of its tier, empty before a save, and full before a fetch, load or free;
    - a shared memory is never exceeded;
    - the loss is evaluated once, on the final state, before any reversal;
    - the values that reversed steps need are present;
    - each step is reversed once, from the last to the first;
    - at the end no slot and no residual is in use, and the declared counts are right.

    It takes O(actions) time and O(slots) memory.

    Args:
        schedule: the schedule to execute.
        steps: the step at which the primal ends, for an online schedule.

    Raises:
        ParameterError: `schedule` is no schedule.
        ScheduleError: an action is illegal at its place, the schedule ends too early or late, or a declared count is wrong.

    Returns:
        The counts.

    Example:
        from dataclasses import dataclass

        from diffsim.checkpoint import Advance, EndForward, Free, Load, Record, Reverse, Save, Schedule, Summary, simulate

        @dataclass(frozen=True)
        class Halves(Schedule):
            # Record the second half of the steps and reverse it, then the first.

            steps: int
            slots: int = 1

            def actions(self):
                half = self.steps // 2
                yield from (Save(0, 0), Advance(0, half), Record(half, self.steps), EndForward(self.steps), Reverse(half, self.steps))
                yield from (Load(0, 0), Free(0), Record(0, half), Reverse(0, half))

        summary = simulate(Halves(1000))  # raises where an action is not legal
        assert isinstance(summary, Summary)
        assert (summary.advances, summary.recorded, summary.peak_record) == (500, 1000, 500)
    """
    machine = _Machine(schedule, steps)
    for action in machine.actions():
        machine.execute(action)
    return machine.finish()


class _Machine:
    """A model that stores step numbers in place of states."""

    def __init__(self, schedule: AnySchedule, steps: int | None) -> None:
        self.schedule = require_schedule(schedule)
        self.steps = require_count("steps", schedule.steps if isinstance(schedule, Schedule) else steps)
        self.tiers, self.shared = schedule.all_tiers, schedule.shared
        self.working: int | None = 0  # step of the working state, None while it is undefined
        self.slots: list[dict[int, int]] = [{} for _ in self.tiers]  # slot: step of the state in it
        self.fetched: set[tuple[int, int]] = set()  # tier, slot
        self.held: list[range] = []  # steps that are recorded at once, or of a kept run, the newest last
        self.runs: list[range] = []  # the kept runs among them
        self.remaining = self.steps  # steps 0..remaining-1 are still to be reversed
        self.forward_ended = False
        self.count = self.starts = 0
        self.action: Action | None = None
        self.advances = self.recorded = self.undone = 0
        self.writes, self.reads = [0] * len(self.tiers), [0] * len(self.tiers)
        self.peak_slots = [0] * len(self.tiers)
        self.peak_record = self.peak_states = 0

    def actions(self) -> Iterator[Action]:
        return self.schedule.actions_until(lambda: self.steps if self.working == self.steps else None)

    def execute(self, action: Action) -> None:
        self.count += 1
        self.action = action
        self.starts += isinstance(action, (Advance, Record, Keep, Undo, Reverse))
        if self.remaining == 0 and not isinstance(action, Free):
            self._refuse("nothing but Free after the last step is reversed", "a further action", "end the schedule there")
        match action:
            case Advance(start, stop):
                if self.schedule.online and not self.forward_ended:
                    stop = min(stop, self.steps)
                self._run(start, stop)
                self.advances += stop - start
            case Record(start, stop):
                self._run(start, stop)
                self.held.append(range(start, stop))
                self.recorded += stop - start
                self._note_peaks()
            case Keep(start, stop):
                self._keep(start, stop)
            case Undo(start, stop):
                self._undo(start, stop)
            case Save(step, slot, tier):
                self._save(step, slot, tier)
            case Load(step, slot, tier):
                self._require_in_slot(slot, tier, step)
                self.fetched.discard((tier, slot))
                self.working = step
                self.reads[tier] += 1
            case Fetch(step, slot, tier):
                self._fetch(step, slot, tier)
            case Free(slot, tier):
                self._require_in_slot(slot, tier, None)
                self.fetched.discard((tier, slot))
                del self.slots[tier][slot]
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
        if self.held:
            left = _steps(self.held[-1])
            self._refuse("all recorded steps reversed when the schedule ends", f"{left} left", "Reverse those recorded last first")
        if any(self.slots):
            used = [f"{sorted(used)} of tier {tier}" for tier, used in enumerate(self.slots) if used]
            self._refuse("all slots empty when the schedule ends", f"slots {', '.join(used)} in use", "Free each after its last Load")
        schedule = self.schedule
        for name, declared, actual in (
            ("advances", schedule.advances_of(self.steps), self.advances),
            ("recorded", schedule.recorded, self.peak_record),
            ("all_recorded", schedule.all_recorded, self.recorded),
            ("undone", schedule.undone, self.undone),
        ):
            if declared != actual:
                self._refuse(f"{name} = {declared}, as the schedule declares", f"{actual}", "correct the closed form or the actions")
        transfers = zip(self.tiers, self.writes, self.reads, strict=True)
        cost = self.advances + self.recorded + self.undone + sum(t.write_cost * w + t.read_cost * r for t, w, r in transfers)
        return Summary(
            self.advances,
            self.recorded,
            self.undone,
            tuple(self.writes),
            tuple(self.reads),
            tuple(self.peak_slots),
            self.peak_record,
            self.peak_states,
            self.starts,
            cost,
        )

    def _run(self, start: int, stop: int) -> None:
        if not start < stop:
            self._refuse("start < stop", f"start = {start}, stop = {stop}", "run at least one step")
        self._require_working(start)
        if stop > self.remaining:
            self._refuse(f"a stop of at most {self.remaining}, the steps still to be reversed", f"{stop}", "stop earlier")
        self.working = stop

    def _keep(self, start: int, stop: int) -> None:
        self._run(start, stop)
        self.advances += stop - start
        self.runs.append(range(start, stop))
        self.held.append(self.runs[-1])
        free = self.tiers[0].slots - self._in_use(0) + stop - start
        if stop - start > free:
            self._refuse(f"at most {free} states, for which there are free slots", f"{stop - start}", "Keep fewer, or Free slots first")
        self._note_peaks()

    def _in_use(self, tier: int) -> int:
        """Slots of a tier that hold a state."""
        return len(self.slots[tier]) + (0 if tier else sum(map(len, self.runs)))

    def _undo(self, start: int, stop: int) -> None:
        if not 0 <= start < stop:
            self._refuse("0 <= start < stop", f"start = {start}, stop = {stop}", "undo at least one step")
        self._require_working(stop)
        self.working = start
        self.undone += stop - start

    def _save(self, step: int, slot: int, tier: int) -> None:
        self._require_working(step)
        self._require_tier(tier)
        if not 0 <= slot < self.tiers[tier].slots:
            limit = f"one of {self.tiers[tier].slots} slots, counted from 0"
            self._refuse(limit, f"{_slot(slot, tier)}", "Free a slot and use that")
        if slot in self.slots[tier]:
            self._refuse(f"{_slot(slot, tier)} empty", f"state {self.slots[tier][slot]} in it", "Free it first")
        if self._in_use(tier) == self.tiers[tier].slots:
            kept = sum(map(len, self.runs))
            self._refuse(
                "a slot that no kept run takes", f"{kept} states of kept runs in slots", "Reverse the run first, or Keep fewer states"
            )
        self.slots[tier][slot] = step
        self.writes[tier] += 1
        self._note_peaks(tier)

    def _fetch(self, step: int, slot: int, tier: int) -> None:
        self._require_in_slot(slot, tier, step)
        if tier == 0:
            self._refuse("a slow tier", "tier 0", "Load its states, which are there already")
        if any(t == tier for t, _ in self.fetched):
            self._refuse("one state on its way from a tier at most", f"a second one of tier {tier}", "Load the first one before")
        self.fetched.add((tier, slot))

    def _end_forward(self, step: int) -> None:
        if self.forward_ended:
            self._refuse("one EndForward", "a second one", "evaluate the loss once")
        if step != self.steps:
            self._refuse(f"EndForward({self.steps}), the final state", f"state {step}", "run the primal to the end first")
        self._require_working(step)
        self.forward_ended = True

    def _reverse(self, start: int, stop: int) -> None:
        if not self.forward_ended:
            self._refuse("EndForward before the first Reverse", "none yet", "evaluate the loss first")
        if not 0 <= start < stop:
            self._refuse("0 <= start < stop", f"start = {start}, stop = {stop}", "reverse at least one step")
        if stop != self.remaining:
            self._refuse(f"stop = {self.remaining}, the steps still to be reversed", f"stop = {stop}", "reverse from the last step down")
        newest = self.held[-1] if self.held else range(0)
        joined = bool(self.runs) and newest is self.runs[-1] and newest == range(start, stop - 1) and self.working == stop - 1
        if newest == range(start, stop) or joined:
            self.held.pop()
            if self.runs and newest is self.runs[-1]:
                self.runs.pop()
            self.working = None
        elif stop != start + 1 or self.working != start:
            held = f"{_steps(newest)} recorded or kept last" if self.held else "none recorded"
            self._refuse(
                f"{_steps(range(start, stop))} recorded or kept at once, or a single step with the working state at {start}",
                f"{held}, working state {_name(self.working)}",
                "Record the steps, or Load and Advance to the step",
            )
        self.remaining = start

    def _require_working(self, step: int) -> None:
        if self.working != step:
            self._refuse(f"the working state at {step}", f"it is {_name(self.working)}", f"Load a state and Advance to {step}")

    def _require_tier(self, tier: int) -> None:
        if not 0 <= tier < len(self.tiers):
            self._refuse(f"one of {len(self.tiers)} tiers, counted from 0", f"tier {tier}", "use a tier that the schedule declares")

    def _require_in_slot(self, slot: int, tier: int, step: int | None) -> None:
        self._require_tier(tier)
        if slot not in self.slots[tier]:
            self._refuse(f"a state in {_slot(slot, tier)}", "an empty slot", "Save to it first")
        if step is not None and self.slots[tier][slot] != step:
            self._refuse(f"state {step} in {_slot(slot, tier)}", f"state {self.slots[tier][slot]}", "Load the state that the slot keeps")

    def _note_peaks(self, tier: int = 0) -> None:
        self.peak_slots[tier] = max(self.peak_slots[tier], self._in_use(tier))
        states = self._in_use(0)
        recorded = sum(map(len, self.held)) - sum(map(len, self.runs))
        self.peak_record = max(self.peak_record, recorded)
        self.peak_states = max(self.peak_states, states + recorded)
        if self.shared is not None:
            used = states * self.shared.state + recorded * self.shared.record
            if used > self.shared.total:
                self._refuse(
                    f"at most {self.shared.total} units of memory in use", f"{used}", "Free a slot or reverse recorded steps first"
                )

    def _refuse(self, expected: str, got: str, remedy: str) -> NoReturn:
        raise ScheduleError(f"action {self.count}, {self.action}: expected {expected}, got {got}; {remedy}")


def _slot(slot: int, tier: int) -> str:
    return f"slot {slot} of tier {tier}" if tier else f"slot {slot}"


def _steps(steps: range) -> str:
    return f"steps {steps.start}..{steps.stop - 1}"


def _name(step: int | None) -> str:
    return "undefined" if step is None else f"at {step}"
