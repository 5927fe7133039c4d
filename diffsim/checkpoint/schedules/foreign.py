"""Schedules of the package checkpoint_schedules, recognised by the names of their actions. The package itself is not imported.

The storage RAM becomes tier 0, DISK tier 1, and WORK the working state and the newest record. The actions become:

    Forward(n0, n1, ics, adj_deps, storage)   Save(n0) if ics; then Record(n0, n1) if adj_deps, else Advance(n0, n1)
    Copy(n, storage, WORK)                    Load(n); nothing if n is recorded: records are a stack here, wherever they are there
    Move(n, storage, WORK or NONE)            the same, and Free
    Copy or Move(n, storage, storage)         Load(n) from the one and Save(n) to the other
    EndForward()                              EndForward(steps)
    Reverse(n1, n0, clear)                    a Reverse for each record

States that are kept after the last step is reversed are freed, and no second reversal is requested. In that package, every step is run
once more with its record before it is reversed.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NoReturn

from diffsim.checkpoint.actions import Action, Advance, EndForward, Free, Load, Record, Reverse, Save
from diffsim.checkpoint.schedule import Schedule, Tier, require_count
from diffsim.errors import ScheduleError

TIERS = {"RAM": 0, "DISK": 1}


@dataclass(frozen=True)
class Adapted(Schedule):
    """An adapter for a schedule object of the package checkpoint_schedules.

    Args:
        schedule: an object that was not iterated yet. Each iteration works on a deep copy of it. A schedule that does not know its number
            of steps gets it by its method `finalize`.
        steps: number of primal steps, at least 1.

    Raises:
        ScheduleError: `schedule` is no such object, is for another number of steps, or was iterated already. Its actions and counts raise
            it if an action cannot be mapped.

    Example:
        from diffsim.checkpoint import Adapted
        from diffsim.errors import ScheduleError

        try:
            Adapted([("forward", 0, 10)], steps=10)  # no schedule of that package
        except ScheduleError as error:
            message = str(error)
        assert "checkpoint_schedules" in message
    """

    schedule: Any
    steps: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "steps", require_count("steps", self.steps))
        if not hasattr(self.schedule, "__iter__") or not hasattr(self.schedule, "finalize"):
            raise ScheduleError(
                f"expected a schedule of the package checkpoint_schedules, got {type(self.schedule).__name__}; "
                "give one of its objects, or use a schedule of diffsim.checkpoint directly"
            )
        known = getattr(self.schedule, "max_n", None)
        if known is not None and known != self.steps:
            raise ScheduleError(f"expected a schedule of {self.steps} steps, got one of {known}; make one of {self.steps} steps")
        if getattr(self.schedule, "n", 0) or getattr(self.schedule, "r", 0):
            raise ScheduleError("expected a schedule that was not iterated, got one that was; make a new one")

    @property
    def slots(self) -> int:
        """Most states in RAM at a time."""
        return self._used[0]

    @property
    def slow_tiers(self) -> tuple[Tier, ...]:
        """Disk with its used slots, if any."""
        disk = self._used[1]
        return (Tier("disk", disk),) if disk else ()

    @cached_property
    def _used(self) -> tuple[int, int]:
        """Numbers of used slots in RAM and on disk, counted from the actions."""
        most = [0, 0]
        for action in self.actions():
            if isinstance(action, Save):
                most[action.tier] = max(most[action.tier], action.slot + 1)
        return most[0], most[1]

    def shortened(self, steps: int) -> None:
        return None

    def actions(self) -> Iterator[Action]:
        """Return a fresh iterator over the mapped actions."""
        return _Mapping(copy.deepcopy(self.schedule), self.steps).actions()


class _Mapping:
    """Map the actions, and track the places of the states."""

    def __init__(self, schedule: Any, steps: int) -> None:
        self._schedule, self._steps = schedule, steps
        self._remaining = steps
        self._slots: dict[tuple[int, int], int] = {}  # tier and step of a kept state: its slot
        self._free: tuple[list[int], list[int]] = ([], [])
        self._used = [0, 0]
        self._records: list[range] = []

    def actions(self) -> Iterator[Action]:
        for action in self._schedule:
            match type(action).__name__:
                case "Forward":
                    yield from self._forward(action)
                case "Copy" | "Move":
                    yield from self._transfer(action, moves=type(action).__name__ == "Move")
                case "EndForward":
                    yield EndForward(self._steps)
                case "Reverse":
                    yield from self._reverse(action)
                case "EndReverse":
                    break
                case _:
                    self._refuse("Forward, Copy, Move, EndForward, Reverse or EndReverse", action)
            if self._remaining == 0:
                break
        for (tier, _), slot in self._slots.items():
            yield Free(slot, tier)

    def _forward(self, action: Any) -> Iterator[Action]:
        start, stop = action.n0, min(action.n1, self._steps)
        storage = _name(action.storage)
        if action.write_ics:
            if storage not in TIERS:
                self._refuse("a state written to RAM or DISK", action)
            yield self._save(start, TIERS[storage], action)
        if action.write_adj_deps:
            self._records.append(range(start, stop))
            yield Record(start, stop)
        else:
            yield Advance(start, stop)
        if stop == self._steps and self._schedule.max_n is None:
            self._schedule.finalize(self._steps)

    def _transfer(self, action: Any, moves: bool) -> Iterator[Action]:
        step, source, target = action.n, _name(action.from_storage), _name(action.to_storage)
        place = TIERS.get(source, -1), step
        if place not in self._slots:
            if any(step in record for record in self._records) and target in ("WORK", "NONE"):
                return
            self._refuse(f"a state that is kept in RAM or on DISK, such as {sorted(n for _, n in self._slots)}", action)
        if target != "NONE":
            yield Load(step, self._slots[place], place[0])
        if target in TIERS:
            yield self._save(step, TIERS[target], action)
        if moves:
            slot = self._slots.pop(place)
            self._free[place[0]].append(slot)
            yield Free(slot, place[0])

    def _reverse(self, action: Any) -> Iterator[Action]:
        while self._remaining > action.n0:
            if not self._records or self._records[-1].stop != self._remaining or self._records[-1].start < action.n0:
                newest = self._records[-1] if self._records else "none"
                self._refuse(f"a record of steps up to {self._remaining - 1}, reversed whole; the newest is {newest}", action)
            record = self._records.pop()
            self._remaining = record.start
            yield Reverse(record.start, record.stop)

    def _save(self, step: int, tier: int, action: object) -> Save:
        if (tier, step) in self._slots:
            self._refuse(f"state {step} written once", action)
        if not self._free[tier]:
            self._free[tier].append(self._used[tier])
            self._used[tier] += 1
        self._slots[tier, step] = self._free[tier].pop()
        return Save(step, self._slots[tier, step], tier)

    def _refuse(self, expected: str, got: object) -> NoReturn:
        raise ScheduleError(
            f"expected {expected}, got {got!r} of {type(self._schedule).__name__}; this schedule cannot be mapped: "
            "use one of diffsim.checkpoint in its place"
        )


def _name(storage: object) -> str:
    return str(getattr(storage, "name", storage))
