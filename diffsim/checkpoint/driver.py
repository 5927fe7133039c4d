"""Run a schedule on a model: only here actions become calls of the stepper."""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from types import MappingProxyType, TracebackType
from typing import Any, TypeVar

from diffsim.base.arguments import whole
from diffsim.base.messages import shown
from diffsim.checkpoint.actions import Action, Advance, EndForward, Fetch, Free, Keep, Load, Record, Reverse, Save, Undo
from diffsim.checkpoint.clock import REVERSE_WEIGHT, Clock
from diffsim.checkpoint.growth import FEW_STEPS
from diffsim.checkpoint.guard import ReplayGuard
from diffsim.checkpoint.one_by_one import OneByOne
from diffsim.checkpoint.schedule import AnySchedule, Schedule, require_schedule
from diffsim.checkpoint.stepper import Stepper
from diffsim.checkpoint.storage.store import Store
from diffsim.engine import backend, clock
from diffsim.errors import ParameterError, ReplayError, ScheduleError, StaleValueError

Result = TypeVar("Result")
MOST_DRIFT = 1e-3  # largest relative error of the gradient by undone steps, if neither schedule nor stepper sets one
TURN_SECONDS = 0.25  # after this time `on_piece` is called
RECORD_SECONDS = 0.1  # a recorded piece takes at most this long, since it is reversed in one call
SHORT_SECONDS = 5e-2  # recorded pieces are no shorter, unless there are `LEAST_PIECES`: each of both sweeps begins with cold caches
LEAST_PIECES, MOST_PIECES = 24, 200  # a `Record` is cut into this many pieces, if it has enough steps


class _Phase(enum.Enum):
    READY = "not run yet"
    FORWARD = "in the forward run"
    AT_END = "at the final state"
    REVERSE = "in the reverse run"
    DONE = "used up"


class Sweep:
    """One forward and one reverse run of a stepper along a schedule.

    ```
    with Sweep(schedule, stepper) as sweep:
        sweep.forward()  # the working state is now the final one: evaluate the loss and its cotangent
        sweep.reverse()
    ```

    On leaving the `with` block, early or not, slots still in use are freed.

    Args:
        schedule: the actions to run. The sweep checks only the two ends; `simulate` checks every action beforehand.
        stepper: the model that runs the actions. Its working state is state 0. Slow tiers need a `Portable` stepper, and schedules that
            undo steps an `Undoable` one.
        stores: one for each tier of the schedule after the first.
        guard: compares repeated states with those of the first run.
        on_action: called after each action, for a display. It may raise to stop the run.
        on_piece: called after each piece of an action. `Advance`, `Record`, `Keep` and `Reverse` are then cut into pieces, so that it is
            called every quarter of a second. It needs a stepper that holds the residuals of several pieces.
        sampled: whether `on_piece` is called at least 24 times in the reversal of 100 and more recorded steps, even if that is short.
        reverse_weight: cost of a reversed step in primal steps, until it is measured.
        step_seconds: seconds of a step of each kind, as `clock.measured` of an earlier sweep has them.
        every: pieces that are reversed end at each multiple of this number of steps, so that `on_piece` is called there; 0: anywhere.

    Attributes:
        clock: the work done, and the time left.
        seconds: time of the forward and the reverse run together, without the time between them.
        drift: relative error of the gradient from states computed backwards, as the stepper estimates it.
        resumable: whether files of states remain for another process when Ctrl-C ends the sweep.

    Raises:
        ParameterError: `schedule` is not a schedule, `reverse_weight` is not a positive number, or stores are missing.
        ScheduleError: the schedule undoes steps, and the stepper cannot undo them.

    Example:
        import numpy as np

        from diffsim.checkpoint import Binomial, ReplayGuard, Stepper, Sweep

        class Logistic:
            # x becomes r x (1 - x); `x_bar` is carried back, and `r_bar` is the gradient for r.

            def __init__(self, x, r):
                self.x, self.r, self.slots, self.residuals, self.r_bar = x, r, {}, {}, 0.0

            def advance(self, start, stop):
                for _ in range(start, stop):
                    self.x = self.r * self.x * (1 - self.x)

            def record(self, start, stop):
                for step in range(start, stop):
                    self.residuals[step] = self.x
                    self.advance(step, step + 1)

            def save(self, step, slot):
                self.slots[slot] = self.x

            def load(self, step, slot):
                self.x = self.slots[slot]

            def free(self, slot):
                del self.slots[slot]

            def reverse(self, start, stop):
                for step in reversed(range(start, stop)):
                    x = self.residuals.pop(step, self.x)
                    self.r_bar += self.x_bar * x * (1 - x)
                    self.x_bar *= self.r * (1 - 2 * x)

        model: Stepper = Logistic(0.3, 2.5)
        guard = ReplayGuard(lambda: [np.array([model.x])])
        with Sweep(Binomial(steps=50, slots=5), model, guard=guard) as sweep:
            sweep.forward()
            final, model.x_bar = model.x, 1.0
            sweep.reverse()
        moved = Logistic(0.3, 2.5 + 1e-6)
        moved.advance(0, 50)
        assert np.isclose(model.r_bar, (moved.x - final) / 1e-6, rtol=1e-4)
    """

    def __init__(
        self,
        schedule: AnySchedule,
        stepper: Stepper,
        *,
        stores: Sequence[Store] = (),
        guard: ReplayGuard | None = None,
        on_action: Callable[[Action], None] | None = None,
        on_piece: Callable[[Action], None] | None = None,
        sampled: bool = True,
        reverse_weight: float = REVERSE_WEIGHT,
        step_seconds: Mapping[str, float] = MappingProxyType({}),
        every: int = 0,
    ) -> None:
        if not 0.0 < reverse_weight < float("inf"):
            raise ParameterError(f"expected a finite reverse_weight above 0, got {shown(reverse_weight)}; give a cost in primal steps")
        slow = require_schedule(schedule).slow_tiers
        if len(stores) != len(slow):
            names = ", ".join(tier.name for tier in slow) or "none"
            raise ParameterError(f"expected a store for each slow tier ({names}), got {len(stores)}; give stores=")
        if schedule.runs_backwards:
            _require_undo(stepper)
        self.schedule = schedule
        self.end = schedule.steps if isinstance(schedule, Schedule) else None
        self.drift, self.seconds = 0.0, 0.0
        self._stepper: Any = stepper if hasattr(stepper, "keep") else OneByOne(stepper, schedule.slots, guard)
        # the required protocol depends on the actions
        self.resumable = False
        self._stores, self._guard, self._on_action, self._on_piece = stores, guard, on_action, on_piece
        self.clock = Clock(self._work(), reverse_weight, step_seconds)
        self._sampled, self._on_host = sampled, backend().on_host
        self._every = whole("every", every, 0)
        self._actions = schedule.actions_until(lambda: self.end)
        self._phase = _Phase.READY
        self._in_use: dict[tuple[int, int], int] = {}  # tier and slot: step of the state there
        self._held: list[tuple[int, int, bool]] = []  # pieces of recorded steps (True) and of kept runs (False), the newest last
        self._since = 0  # the state that the working one was computed from
        self._at: int | None = 0  # the working state, None while it is undefined
        self._undone = False

    def _work(self) -> dict[str, int]:
        """Steps of each kind in the whole sweep, as far as they are known."""
        schedule, steps = self.schedule, self.end
        if steps is None:
            return {"advance": 0, "record": 0, "reverse": 0, "undo": 0}
        return {"advance": schedule.advances_of(steps), "record": schedule.all_recorded, "reverse": steps, "undo": schedule.undone}

    @property
    def progress(self) -> float:
        """Fraction of the work done, from 0 to 1. The work is the steps run forward plus the weighted steps reversed.

        It is 0 while the number of steps is unknown.
        """
        if self._phase is _Phase.DONE:
            return 1.0
        return 0.0 if self.end is None else self.clock.share

    @property
    def done(self) -> dict[str, int]:
        """Steps of each kind so far: advanced, recorded, reversed, undone."""
        return dict(self.clock.done)

    @property
    def kept(self) -> dict[tuple[int, int], int]:
        """(tier, slot) -> number of the state that is stored there now."""
        return dict(self._in_use)

    @property
    def exact(self) -> bool:
        """True if the working state equals that of the forward run bit for bit. While steps are undone it does not."""
        return not self._undone

    @property
    def remaining(self) -> int:
        """Steps that are still to be reversed."""
        return 0 if self.end is None else self.end - self.clock.done["reverse"]

    def forward(self) -> None:
        """Run the primal to the final state.

        Raises:
            StaleValueError: it was called before, successfully or not.
            ScheduleError: the schedule ends or reverses before the final state.
        """
        if self._phase is not _Phase.READY:
            raise self._stale("forward")
        self._phase, began = _Phase.FORWARD, clock()
        for action in self._actions:
            if isinstance(action, Reverse):
                raise ScheduleError(f"expected EndForward before {action}, got none; check the schedule with simulate()")
            self._execute(action)
            if isinstance(action, EndForward):
                self._phase, self.seconds = _Phase.AT_END, clock() - began
                return
        raise ScheduleError("expected EndForward, got the end of the schedule; check the schedule with simulate()")

    def reverse(self) -> None:
        """Run the adjoint from the final state back to the initial one, to the end of the schedule.

        Raises:
            StaleValueError: `forward` has not been run to its end, or `reverse` was called before.
            ScheduleError: the schedule ends before all steps are reversed or with slots in use.
            ReplayError: a repeated step gave another result than the first time.
        """
        if self._phase is not _Phase.AT_END:
            raise self._stale("reverse")
        self._phase, began = _Phase.REVERSE, clock()
        for action in self._actions:
            self._execute(action)
        if self.remaining or self._in_use:
            raise ScheduleError(
                f"expected all steps reversed and all slots freed at the end of the schedule, got {self.remaining} steps left and slots "
                f"{sorted(slot for _, slot in self._in_use)} in use; check the schedule with simulate()"
            )
        if self._guard is not None:
            self._guard.finished()
        if self.clock.done["undo"]:
            self._check_drift()
        self._phase, self.seconds = _Phase.DONE, self.seconds + clock() - began

    def close(self, keep: bool = False) -> None:
        """Free the slots still in use. The sweep cannot continue afterwards. Closing twice is harmless.

        Args:
            keep: leave the files of states for a process that resumes this run.
        """
        self._phase = _Phase.DONE
        with ExitStack() as stack:  # if one of them raises, the others are still closed and freed
            for store in self._stores:
                stack.callback(store.close, keep)
            for tier, slot in sorted(self._in_use, reverse=True):
                if tier == 0:
                    stack.callback(self._stepper.free, slot)
            if isinstance(self._stepper, OneByOne):
                stack.callback(self._stepper.close)
            self._in_use.clear()

    def __enter__(self) -> Sweep:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        try:
            self.close(keep=self.resumable and isinstance(error, KeyboardInterrupt))
        except Exception:
            if error is None:  # else the first error is raised
                raise

    def _execute(self, action: Action) -> None:
        match action:
            case Advance(start, stop):
                self._require_at(start, action)
                for begin, end in self._pieces("advance", start, stop):
                    self._reached(begin, end, self._timed("advance", self._stepper.advance, begin, end))
            case Load(step, slot, tier):
                self._load(step, slot, tier)
            case Reverse(start, stop):
                self._reverse(start, stop)
            case Save(step, slot, tier):
                self._require_at(step, action)
                self._save(step, slot, tier)
            case Free(slot, tier):
                if tier:
                    self._stores[tier - 1].free(slot)
                else:
                    self._stepper.free(slot)
                self._in_use.pop((tier, slot), None)
            case Record(start, stop) | Keep(start, stop):
                self._require_at(start, action)
                self._hold(action, start, stop)
            case Undo(start, stop):
                _require_undo(self._stepper)
                self._require_at(stop, action)
                self._timed("undo", self._stepper.undo, start, stop)
                self._at, self._undone = start, True
            case Fetch(_, slot, tier):
                self._stores[tier - 1].fetch(slot)
            case EndForward():
                if self._guard is not None:
                    self._guard.ended()
            case _:
                raise ScheduleError(
                    f"expected an action of diffsim.checkpoint.actions, got {shown(action)}; check the schedule with simulate()"
                )
        if self._on_piece is not None and not isinstance(action, (Advance, Record, Keep, Reverse)):
            self._on_piece(action)
        if self._on_action is not None:
            self._on_action(action)

    def _require_at(self, step: int, action: Action) -> None:
        """Refuse an action that expects another working state, because the gradient would be wrong."""
        if step != self._at:
            where = "undefined" if self._at is None else f"at {self._at}"
            raise ScheduleError(f"{action}: expected the working state at {step}, got it {where}; check the schedule with simulate()")

    def _timed(self, kind: str, call: Callable[[int, int], Result], start: int, stop: int) -> Result:
        measured = self._on_host or self.clock.measures_next(kind)  # a GPU has to be waited for
        began = clock() if measured else 0.0
        result = call(start, stop)
        self.clock.note(kind, start, stop, clock() - began if measured else None)
        return result

    def _reached(self, start: int, asked: int, final: int | None) -> None:
        """Note that the working state was advanced to `asked`, or to the final step, where that came first."""
        self._at = asked
        if final is not None and self.end is None:
            self.end = self._at = final
            self.clock.done["advance"] -= asked - final
            self.clock.total = self._work()
        elif self._guard is not None and not self._undone:
            self._guard.reached(asked, self._since)
        if self._on_piece is not None:
            self._on_piece(Advance(start, self._at))

    def _hold(self, action: Record | Keep, start: int, stop: int) -> None:
        """Record steps, or keep their states."""
        recorded = isinstance(action, Record)
        call = self._stepper.record if recorded else self._stepper.keep
        for begin, end in self._pieces("record" if recorded else "keep", start, stop):
            self._timed("record" if recorded else "advance", call, begin, end)
            self._held.append((begin, end, recorded))
            self._at = end
            if self._guard is not None and not self._undone and (not recorded or self._phase is _Phase.REVERSE):
                self._guard.reached(end, self._since)
            if self._on_piece is not None:
                self._on_piece(type(action)(begin, end))

    def _reverse(self, start: int, stop: int) -> None:
        """Reverse the pieces that were recorded or kept last, or one step from the working state and then the kept run before it."""
        while start < stop:
            begin, end, recorded = self._held[-1] if self._held else (-1, -1, True)
            both = end == stop - 1 == self._at and not recorded and not (self._every and end % self._every == 0)
            held = start <= begin and (end == stop or both)
            if held:
                self._held.pop()
            else:
                begin = stop - 1
                self._require_at(begin, Reverse(start, stop))
            self._timed("reverse", self._stepper.reverse, begin, stop)
            if held:
                self._at = None
            if self._on_piece is not None:
                self._on_piece(Reverse(begin, stop))
            stop = begin

    def _pieces(self, kind: str, start: int, stop: int) -> Iterator[tuple[int, int]]:
        """Cut an action where the guard compares states and where `on_piece` is called."""
        steps, known = stop - start, self.end is not None
        while start < stop and known == (self.end is not None):  # no piece follows the one that found the end of the run
            end = stop
            if self._guard is not None and not self._undone and (kind != "record" or self._phase is _Phase.REVERSE):
                end = self._guard.next(start, stop)
            if self._on_piece is not None:
                end = min(end, start + self._steps_a_turn(kind, steps))
            if self._every and kind != "advance":
                end = min(end, start - start % self._every + self._every)
            yield start, end
            start = end

    def _steps_a_turn(self, kind: str, whole: int) -> int:
        """The number of steps in a piece of an action of `whole` steps."""
        pace = self.clock.step_seconds("record" if kind == "record" else "advance")
        if pace is None:
            return whole if whole < FEW_STEPS else whole // MOST_PIECES + 1
        if kind == "advance":
            return max(int(TURN_SECONDS / max(pace, 1e-9)), 1)
        if kind == "keep":
            steps = whole if not self._sampled or self.end is None or self.end < FEW_STEPS else self.end // LEAST_PIECES
            return max(min(steps, int(RECORD_SECONDS / max(pace, 1e-9))), 1)
        least = LEAST_PIECES if self._sampled and whole >= FEW_STEPS else 1
        pieces = min(max(int(whole * pace / SHORT_SECONDS), least), MOST_PIECES)
        return max(min(whole // pieces, int(RECORD_SECONDS / max(pace, 1e-9))), 1)

    def _save(self, step: int, slot: int, tier: int) -> None:
        if tier:
            self._stores[tier - 1].write(slot, step, self._stepper.state_arrays())
        else:
            self._stepper.save(step, slot)
        self._in_use[tier, slot] = step
        if self._guard is not None:
            self._guard.saved(step, slot, tier)

    def _load(self, step: int, slot: int, tier: int) -> None:
        if self._undone and tier == 0 and step == self._at == self.remaining - 1:
            self._stepper.compare(step, slot)
        if tier:
            self._stepper.set_state(self._stores[tier - 1].read(slot, step))
        else:
            self._stepper.load(step, slot)
        self._since = self._at = step
        self._undone = False
        if self._guard is not None:
            self._guard.loaded(step, slot, tier)

    def _check_drift(self) -> None:
        """Refuse a gradient whose error is too large."""
        self.drift = self._stepper.drift()
        most: float = self.schedule.tolerance or getattr(self._stepper, "tolerated_drift", None) or MOST_DRIFT
        if not self.drift <= most:
            raise ReplayError(
                f"expected a gradient within {most:.0e} of the exact one, got an error of about {self.drift:.1e} from states that were "
                "computed backwards; keep states more often (a smaller period), let more pass (tolerance), or use a schedule that runs "
                "forward only"
            )

    def _stale(self, method: str) -> StaleValueError:
        return StaleValueError(
            f"expected forward() once and then reverse() once, got {method}() on a sweep that is {self._phase.value}; make a new Sweep"
        )


def _require_undo(stepper: object) -> None:
    if not hasattr(stepper, "undo"):
        raise ScheduleError(
            f"expected a model whose steps can be undone, for a schedule that runs backwards, got {type(stepper).__name__}, which cannot; "
            "use another schedule, such as Binomial"
        )
