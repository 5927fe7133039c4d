"""The base classes of checkpointing schedules, independent of any model."""

from __future__ import annotations

import operator
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import cached_property
from inspect import signature
from math import prod
from typing import TYPE_CHECKING, Any, ClassVar

from diffsim.base.kinds import Kinds
from diffsim.base.messages import shown
from diffsim.checkpoint.actions import Action, Advance, Keep, Record, Reverse, Undo
from diffsim.errors import ParameterError, ScheduleError, ShapeError

AUTO = "auto"
"""The name that requests the fastest kind within the memory."""
KINDS: Kinds[AnySchedule] = Kinds("schedule", taken=(AUTO,))
"""The class of each name that `schedule=` of a `Policy` may be. A class enters itself: `class Halves(Schedule, kind="halves")`.

Example:
    from diffsim.checkpoint import KINDS, Binomial, Policy

    assert KINDS["binomial"] is Binomial
    policies = [Policy(slots=8, schedule=name) for name, kind in KINDS.items() if kind.takes_slots and not kind.needs_slow_tiers]
    assert len(policies) >= 2
"""


@dataclass(frozen=True)
class Tier:
    """A kind of storage: the memory that the primal runs in, the host's memory, or a disk.

    Attributes:
        name: "device", "host" or "disk".
        slots: states it may keep at a time.
        write_cost: cost of a `Save`, in steps of the primal.
        read_cost: cost of a `Load`, in steps of the primal.
    """

    name: str
    slots: int
    write_cost: float = 0.0
    read_cost: float = 0.0


@dataclass(frozen=True)
class Shared:
    """One memory for slots of the first tier and for residuals. Either may use all of it.

    Attributes:
        total: its size, in any unit.
        state: size of a slot.
        record: size of the residuals of a step.
    """

    total: int
    state: int
    record: int


class AnySchedule(ABC):
    """The base of all schedules: use `Schedule` for a known number of steps, and `OnlineSchedule` for an unknown one.

    The counts are known before the first action, so a plan can predict the cost of a gradient, and a driver can report its progress.

    A subclass may name its kind, `class Halves(Schedule, kind="halves")`. Then `schedule="halves"` of a `Policy`, of `diffsim.plan` and
    of a scene requests it, and `fitted` makes it.

    Raises:
        ParameterError: the kind is no identifier or is "auto", another schedule has it, or the class has no `fitted`.

    Attributes:
        states_only: whether it keeps states in slots and nothing else. With a slot for each step, `StoreAll` replaces it.
        takes_slots: whether a number of slots limits its storage.
        needs_slow_tiers: whether it needs a disk, or the host's memory for a model on another device.
        runs_backwards: whether it has `Undo` actions.
        online: whether the run may end anywhere.
    """

    states_only: ClassVar[bool] = False
    takes_slots: ClassVar[bool] = True
    needs_slow_tiers: ClassVar[bool] = False
    runs_backwards: ClassVar[bool] = False
    online: ClassVar[bool] = False

    def __init_subclass__(cls, kind: str | None = None, **others: object) -> None:
        super().__init_subclass__(**others)
        if kind is not None and next(base for base in cls.__mro__ if "fitted" in vars(base)) is AnySchedule:
            raise ParameterError(
                f"kind = {shown(kind)} of {cls.__name__}, expected a class method fitted(request), which makes the schedule that a planner "
                "asks for, found none; add one, or leave the kind out"
            )
        KINDS.enter(cls, kind)

    if TYPE_CHECKING:  # only declared: a dataclass with a field of this name would take a property here for its default

        @property
        def slots(self) -> int:
            """Most states in slots of the first tier at a time, without the working state and residuals."""

    @property
    @abstractmethod
    def recorded(self) -> int:
        """Most steps at a time whose residuals are kept."""

    @property
    def all_recorded(self) -> int:
        """Steps that are recorded at some time, each time counted."""
        return 0

    @property
    def undone(self) -> int:
        """Steps that are run backwards."""
        return 0

    @property
    def slow_tiers(self) -> tuple[Tier, ...]:
        """Storage for states in addition to the first tier. Actions number these tiers 1, 2, ..."""
        return ()

    @property
    def all_tiers(self) -> tuple[Tier, ...]:
        """All storage for states, the memory that the primal runs in first."""
        return (Tier("device", self.slots), *self.slow_tiers)

    @property
    def shared(self) -> Shared | None:
        """The one memory of slots and residuals; None: each has its own."""
        return None

    @property
    def waits(self) -> float:
        """Time that the run waits for slow tiers, in steps of the primal."""
        return 0.0

    @property
    def tolerance(self) -> float | None:
        """Largest allowed relative error of the gradient by undone steps; None: the stepper's default."""
        return None

    @classmethod
    def fitted(cls, request: Any) -> AnySchedule | int:
        """The best schedule of this kind for a `Request`, or the least memory in bytes for which there is one. A kind must have it.

        Args:
            request: steps, bytes, seconds and the allowed memory or slots: a `Request`.

        Raises:
            PlanError: no memory is enough.
            ParameterError: the class does not have this method.
        """
        raise ParameterError(f"{cls.__name__} has no method fitted, expected one that makes the schedule; give an object of the class")

    @abstractmethod
    def advances_of(self, steps: int) -> int:
        """Primal steps run by `Advance` and `Keep` over the whole schedule, if the run takes `steps` steps."""

    @abstractmethod
    def starts_of(self, steps: int) -> int:
        """How many runs over consecutive steps the schedule starts, forward or backwards, if the run takes `steps` steps."""

    @abstractmethod
    def actions_until(self, ended: Callable[[], int | None]) -> Iterator[Action]:
        """Return a fresh iterator over the actions of a run.

        Args:
            ended: called after each `Advance` of the forward run of an online schedule; see `OnlineSchedule.online_actions`.
        """

    def forward_of(self, steps: int) -> int:
        """Steps run forward, including recorded ones, if the run takes `steps` steps."""
        return self.advances_of(steps) + self.all_recorded

    def cost_of(self, steps: int) -> float:
        """Steps run forward and backwards, and waiting, in steps of the primal; the adjoint is not counted."""
        return self.forward_of(steps) + self.undone + self.waits


class Schedule(AnySchedule):
    """A plan to reverse `steps` steps with `slots` kept states. Inherit from it to write a schedule of your own.

    A subclass has attributes `steps`, the number of primal steps, and `slots`, and the method `actions`. All other members have defaults:
    the counts are found by iterating over the actions once, 0.4 us each, unless the subclass overrides them with closed forms.

    With a `kind` it can be requested by name. Then it also has the class method `fitted(request)`: it returns the best schedule of the
    kind for a `Request`, or the least memory in bytes for which there is one.

    Raises:
        ParameterError: the kind is no identifier or is "auto", another schedule has it, or the class has no `fitted`.

    Example:
        from dataclasses import dataclass

        from diffsim.checkpoint import Advance, EndForward, Free, Load, Policy, Record, Request, Reverse, Save, Schedule, Sizes, resolve

        @dataclass(frozen=True)
        class Halves(Schedule, kind="halves"):
            # It records the second half of the steps, and then the first half from the initial state.
            steps: int
            slots = 1
            takes_slots = False

            @classmethod
            def fitted(cls, request: Request):
                schedule = cls(request.steps)
                need = request.sizes.peak(schedule)
                return schedule if request.fits(need) else need

            def actions(self):
                half = self.steps // 2
                yield from (Save(0, 0), Advance(0, half), Record(half, self.steps), EndForward(self.steps), Reverse(half, self.steps))
                yield from (Load(0, 0), Free(0), Record(0, half), Reverse(0, half))

        sizes = Sizes(state=1_000_000)
        assert resolve(Policy(memory="100 MB", schedule="halves"), 100, sizes) == Halves(100)
        assert isinstance(Halves.fitted(Request(100, sizes, budget=1_000_000)), int)  # the bytes that it needs
    """

    if TYPE_CHECKING:  # as `slots`

        @property
        def steps(self) -> int:
            """Number of primal steps, each reversed exactly once."""

    @abstractmethod
    def actions(self) -> Iterator[Action]:
        """Return a fresh iterator over the actions. It does not store a list of all steps."""

    @property
    def advances(self) -> int:
        """Primal steps run by `Advance` and `Keep` over the whole schedule; those run by `Record` do not count."""
        return self._counted.advances

    @property
    def recorded(self) -> int:
        """Most steps at a time whose residuals are kept."""
        return self._counted.recorded

    @property
    def all_recorded(self) -> int:
        """Steps that are recorded at some time, each time counted."""
        return self._counted.all_recorded

    @property
    def undone(self) -> int:
        """Steps that are run backwards."""
        return self._counted.undone if self.runs_backwards else 0

    @property
    def starts(self) -> int:
        """How many runs over consecutive steps the schedule starts, forward or backwards."""
        return self._counted.starts

    @property
    def forward(self) -> int:
        """Steps run forward, recorded or not."""
        return self.forward_of(self.steps)

    @property
    def cost(self) -> float:
        """Steps run forward and backwards, and waiting, in steps of the primal; the adjoint is not counted."""
        return self.cost_of(self.steps)

    @cached_property
    def _counted(self) -> _Counts:
        return _Counts.of(self.actions())

    def advances_of(self, steps: int) -> int:
        return self.advances

    def starts_of(self, steps: int) -> int:
        return self.starts

    def actions_until(self, ended: Callable[[], int | None]) -> Iterator[Action]:
        return self.actions()

    def shortened(self, steps: int) -> Schedule | None:
        """The schedule for the first `steps` steps of its run; None if it works only for its own number of steps."""
        if not is_dataclass(self):
            return None
        names = {field.name for field in fields(self)}
        if "slots" in names:
            return replace(self, steps=steps, slots=max(min(self.slots, steps), 1))
        return replace(self, steps=steps) if "steps" in names else None


class RecordsLast(Schedule):
    """A schedule that records only the last step, because that cannot be reversed before the final state is reached."""

    recorded = all_recorded = 1


class Tiered(RecordsLast):
    """A schedule whose `tiers` begin with the memory that the primal runs in."""

    tiers: tuple[Tier, ...]

    @property
    def slots(self) -> int:
        """Slots of the first tier."""
        return self.tiers[0].slots

    @property
    def slow_tiers(self) -> tuple[Tier, ...]:
        """All tiers but the first."""
        return self.tiers[1:]


class OnlineSchedule(AnySchedule):
    """A plan for a run whose number of steps is unknown before it ends."""

    online = True
    recorded = 0  # each step is reversed from its state, in the working state

    @abstractmethod
    def online_actions(self, ended: Callable[[], int | None]) -> Iterator[Action]:
        """Return a fresh iterator over the actions.

        Args:
            ended: called after each `Advance` of the forward run. It returns the step at which the primal ended, or None if the run
                continues. An `Advance` that the end cuts short leaves the primal in its final state.
        """

    def starts_of(self, steps: int) -> int:
        return steps

    def actions_until(self, ended: Callable[[], int | None]) -> Iterator[Action]:
        return self.online_actions(ended)


@dataclass(frozen=True)
class _Counts:
    """Counts of a schedule, from its actions."""

    advances: int
    recorded: int
    all_recorded: int
    undone: int
    starts: int

    @classmethod
    def of(cls, actions: Iterator[Action]) -> _Counts:
        advances = all_recorded = undone = starts = held = most_held = 0
        held_from: list[int] = []  # first steps of recorded and kept runs that are not reversed yet
        for action in actions:
            match action:
                case Advance(start, stop) | Keep(start, stop):
                    advances += stop - start
                case Record(start, stop):
                    all_recorded += stop - start
                    held += stop - start
                    most_held = max(most_held, held)
                    held_from.append(start)
                case Undo(start, stop):
                    undone += stop - start
                case Reverse(start, stop):
                    if held_from and held_from[-1] == start:
                        held_from.pop()
                        held -= stop - start
                case _:
                    continue
            starts += 1
        return cls(advances, most_held, all_recorded, undone, starts)


def require_schedule(value: object, wanted: str = "a schedule") -> AnySchedule:
    """Return `value` if it is a schedule. `wanted` names the accepted values in the error.

    Raises:
        ParameterError: it is not a schedule. It is another object, the class itself, or an object with the methods of a schedule whose
            class does not inherit from it.
    """
    if isinstance(value, AnySchedule) and not isinstance(value, type) and not _lacking(value):
        return value
    raise ParameterError(f"expected {wanted}, got {_unfit(value)}")


def _unfit(value: object) -> str:
    """The end of a message: the wrong value, and a remedy."""
    if isinstance(value, type):
        if not (hasattr(value, "actions") or hasattr(value, "online_actions")):
            return f"the class {value.__name__} itself; give an instance, such as Online(20) for 20 states"
        arguments = [p.name for p in signature(value).parameters.values() if p.default is p.empty]
        example = ", ".join("20" if name == "slots" else name for name in arguments)
        return f"the class {value.__name__} itself; give an instance of it, {value.__name__}({example})"
    name = type(value).__name__
    if isinstance(value, AnySchedule):
        return f"an object of {name} without {' and '.join(_lacking(value))}; give its objects these attributes"
    for method, base in (("actions", Schedule), ("online_actions", OnlineSchedule)):
        if hasattr(value, method):
            return f"an object of {name}, which is no {base.__name__}; let the class inherit from diffsim.checkpoint.{base.__name__}"
    return f"{shown(value)}; give one of these, such as Online(20) for 20 states"


def _lacking(schedule: AnySchedule) -> list[str]:
    wanted = ("steps", "slots") if isinstance(schedule, Schedule) else ("slots",)
    return [name for name in wanted if not hasattr(schedule, name)]


def require_count(name: str, value: int | None) -> int:
    """Return `value` as a plain int of at least one.

    Raises:
        ScheduleError: it is not an integer, is a bool, or is below one.
    """
    try:
        count = 0 if value is None else operator.index(value)
    except TypeError:
        count = 0
    if isinstance(value, bool) or count < 1:
        raise ScheduleError(f"expected {name} to be an integer of at least 1, got {shown(value)}; give a whole number of {name}")
    return count


def require_truth(name: str, value: object) -> bool:
    """Return the result of a condition as a plain bool.

    Args:
        name: name of the condition, for the error.
        value: a truth value of Python or NumPy, or an array with one truth value.

    Raises:
        ShapeError: an array of another number of elements.
        ParameterError: any other object that Python can treat as true or false, such as a text: "no" would be true.
    """
    shape = tuple(getattr(value, "shape", ()))
    if prod(shape) != 1:
        raise ShapeError(
            f"expected {name} to give one truth value, got an array of shape {shape}; make one of it, by .any() or .all() for example"
        )
    if not isinstance(value, bool) and getattr(getattr(value, "dtype", None), "kind", "") != "b":
        raise ParameterError(f"expected {name} to give True or False, got {shown(value)}; compare with something, such as value > 0")
    return bool(value)
