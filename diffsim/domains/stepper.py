"""A stepper in the box of one rank. It takes ghost cells from their owners when those that it has are no longer right.

Each state, each of its earlier values and each cotangent has a *width* (`Widths`): how many ghost cells, counted from the owned ones, are
right along each axis. An exchange makes those right again that have become narrower than `Widths.enough`, beyond which there is no use of
more. A step makes them right less far, by as much as it reads. So steps run between two exchanges until the next one, with the points that
it samples, would read cells that are not right. This holds step by step for whatever a schedule does, so the owned cells are right after
each step by induction:

- forward: a new value has the width of the narrowest value that it reads, less the distance at which it reads it (`Reach.forward.by_next`).
  One that is read in place alone loses nothing, and is not exchanged again.
- ghost cells of which there is no use are not computed (`in_windows`).
- adjoint: the cotangent of step n reads later cotangents (`Reach.later`) and the states of step n (`Reach.primal`). So its width is the
  smallest one that these leave. If a step reads r away, in a piece of k steps that starts with w the state before its last step has the
  width w - (k - 1) r, and the cotangents have the width w - (2 k - 1) r at the start of the piece. With w = (2 k - 1) r one exchange of
  states and one of cotangents would serve k steps; boxes have fewer ghost cells, and cotangents are exchanged more often.
- sums for coefficients and amplitudes add the owned cells' terms step by step in the order of one process, and are not exchanged.

All ranks have the same widths, for these follow from the schedule and the step alone. So all of them exchange at the same steps, however
each of them cuts its work into launches.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Literal, Protocol, TypeAlias, TypeVar

import numpy as np

from diffsim.boundary import Rules, fills
from diffsim.checkpoint.growth import largest
from diffsim.domains.boxes import Slices
from diffsim.domains.pieces import Narrowing, Pieces
from diffsim.domains.points import BoxPoints
from diffsim.domains.reach import Reach, in_windows, reach_of
from diffsim.domains.totals import with_totals_of_ranks
from diffsim.domains.widths import Widths, after, covers, lasts
from diffsim.errors import ScheduleError
from diffsim.stepping.declare.points import PointTable
from diffsim.stepping.derive.forward import receiver_points, source_points
from diffsim.stepping.derive.programs import Programs
from diffsim.stepping.ir.program import Program
from diffsim.stepping.run.launcher import Launcher
from diffsim.stepping.run.launches import Tables
from diffsim.stepping.run.stepper import Before, Stepper
from diffsim.stepping.source.kernel import NARROWING
from diffsim.stepping.trace.trace import TracedStep
from diffsim.typing import Array, IntArray

Levels = Mapping[str, Sequence[int]]
"""Array -> levels."""

Result = TypeVar("Result")


Copy = Callable[[], object]
"""Copies values between fixed places, each time that it is called."""
MOST_EXCHANGES = 256
"""The most exchanges whose copies are kept."""


@dataclass(frozen=True)
class Stored:
    """A level of a field that a launcher stores, some cells of which are sent to other ranks.

    Attributes:
        far: how far from the owned cells its ghost cells are exchanged along each axis; None: all of them.
        in_place: whether planes may be sent as they lie in memory.
    """

    launcher: Launcher
    name: str
    level: int
    rules: Rules
    far: tuple[int, ...]
    in_place: bool

    def size(self, where: Slices) -> int:
        """The number of values of a part."""
        return self.launcher.packed_size(self.name, where)

    def run(self, where: Slices) -> Array | None:
        """A view of these if they lie side by side in memory, so that no copy is needed; None if not."""
        return self.launcher.planes(self.name, where, self.level) if self.in_place else None

    def packing(self, where: Slices, into: Array) -> Copy:
        """A call that copies these to an array of one dimension."""
        if (stored := self.launcher.places(self.name, where, self.level)) is not None:
            values, places = stored
            return partial(values.take, places, out=into, mode="clip")  # other modes buffer the result
        part = self.launcher.part(self.name, where, self.level)
        return partial(self.launcher.pack, self.name, where, into, self.level) if part is None else copy(part, into.reshape(part.shape))

    def unpacking(self, parts: Sequence[tuple[Slices, Array]]) -> Sequence[Copy]:
        """Calls that write some parts from such arrays, and whatever depends on parts that were received in place."""
        filled = any(map(fills, self.rules))
        if parts and not filled and self.launcher.places(self.name, parts[0][0], self.level) is not None:
            return [self._put(where, values) for where, values in parts]
        views = [(self.launcher.part(self.name, where, self.level), values) for where, values in parts]
        out = [copy(values.reshape(part.shape), part) for part, values in views if part is not None]
        if len(out) < len(parts) or (self.name not in self.launcher.sparse and filled):
            return [partial(self.launcher.unpack, self.name, parts, self.rules, self.level)]
        return out

    def _put(self, where: Slices, values: Array) -> Copy:
        stored = self.launcher.places(self.name, where, self.level)
        assert stored is not None
        return partial(stored[0].__setitem__, stored[1], values)


@dataclass(frozen=True)
class Plain:
    """An array over the box, with the methods of `Stored`."""

    cells: Array
    far: None = None

    def size(self, where: Slices) -> int:
        return math.prod(along.stop - along.start for along in where)

    def run(self, where: Slices) -> None:
        return None

    def packing(self, where: Slices, into: Array) -> Copy:
        part = self.cells[where]
        return copy(part, into.reshape(part.shape))

    def unpacking(self, parts: Sequence[tuple[Slices, Array]]) -> Sequence[Copy]:
        return [copy(values.reshape(self.cells[where].shape), self.cells[where]) for where, values in parts]


Field: TypeAlias = Stored | Plain


def copy(values: Array, into: Array) -> Copy:
    """A call that copies values."""
    return partial(np.copyto, into, values)


class Neighbours(Protocol):
    """The box of a stepper and the other ranks.

    Attributes:
        inner: the owned cells, of those of the box.
        overhang: how far the cells of a point lie outside of its owner's cells along each axis, at most.
        deep: how deep values beyond the sides of the whole grid reach into it, see `diffsim.domains.reach.deep_of`.
    """

    inner: Slices
    overhang: IntArray
    deep: IntArray

    def widths(self, reach: Reach) -> IntArray:
        """The ghost cells that an exchange makes right, along each axis. Raises ShapeError if they do not suffice for a step."""

    def exchange(self, fields: Sequence[Field], dtype: np.dtype) -> Copy:
        """A call that takes the ghost cells of some fields from their owners, as long as their memory stays where it is."""

    def points(self, name: str, table: PointTable) -> BoxPoints:
        """The points of the box."""

    def whole(self, owned: Mapping[str, Array]) -> dict[str, Array]:
        """Results of owned cells as the user gets them."""

    def of_whole(self, values: Mapping[str, Array]) -> dict[str, Array]:
        """Values as the user gives them, over the box."""

    def agreed(self, call: Callable[[], Result]) -> Result:
        """The result of a call, or the error of the first rank that has one."""

    def columns(self, points: BoxPoints, values: Array) -> Array:
        """The columns of all points, from those of the points of the box."""

    def total(self, rows: Array, how: Literal["sum", "max"]) -> Array:
        """The total of all cells, from the totals of the rows of the box along the first axis."""


@dataclass(frozen=True)
class Room:
    """The ghost cells that the programs of a stepper have.

    Attributes:
        reach: of the programs.
        widest: how many an exchange makes right along each axis.
    """

    reach: Reach
    widest: IntArray

    @property
    def of_states(self) -> IntArray:
        """For each level of states the width beyond which there is no use of more."""
        return self.widest - self.reach.most + self.reach.of_states

    @property
    def of_bars(self) -> IntArray:
        """The same for each level of cotangents."""
        return self.widest - self.reach.most + self.reach.of_bars

    @property
    def lasting(self) -> tuple[bool, bool]:
        """True if a second step can follow an exchange, and the same for a second step of the adjoint."""
        reach, widest = self.reach, self.widest
        return lasts(reach.states, widest, self.of_states, reach.forward), lasts(reach.bars, widest, self.of_bars, reach.later)


class DomainStepper(Stepper):
    """A stepper in a box.

    Args:
        neighbours: the box and the other ranks.
        step: the traced step in the box.
        points: all points.
        receivers: see `Stepper`.
        dtype: see `Stepper`.
        differentiable: see `Stepper`.

    Attributes:
        in_place: whether planes lie in memory alike on all ranks, so that they are sent without a copy.
    """

    _alone = False
    in_place = False

    def __init__(
        self,
        neighbours: Neighbours,
        step: TracedStep,
        points: Mapping[str, PointTable],
        receivers: Sequence[str],
        dtype: np.dtype,
        differentiable: bool,
    ) -> None:
        self._neighbours = neighbours
        self._points = {name: neighbours.points(name, table) for name, table in points.items()}
        super().__init__(step, {name: each.table for name, each in self._points.items()}, receivers, dtype, differentiable)
        room = self._room
        self._reach, widest = room.reach, room.widest
        self._right, self._bars_right = (
            Widths(levels, widest, enough, np.array([self._computed[array] for array, age in levels if age == 0]).reshape(-1, widest.size))
            for levels, enough in ((room.reach.states, room.of_states), (room.reach.bars, room.of_bars))
        )
        self._pieces = Pieces(self._right, room.reach)
        self._exchanges: dict[tuple[object, ...], Copy] = {}  # by the levels and their numbers, for the present arrays
        self._bound = self.launcher.bindings
        self._narrowing = 0, Narrowing(0, 0)  # of the adjoints of the steps before this one
        self._right_in_slot: dict[int, IntArray] = {}
        self._right_before: dict[int, IntArray] = {}  # step that is held -> width of the state before it

    def _programs(self, differentiable: bool) -> Programs:
        programs = super()._programs(differentiable)
        neighbours, points = self._neighbours, self._neighbours.overhang
        reach = reach_of(programs, points, neighbours.deep)
        self._room = room = Room(reach, neighbours.widths(reach))
        changed, self._computed = in_windows(programs, reach, neighbours.inner, room.widest, points, room.lasting, neighbours.deep)
        programs.replace(changed)
        programs.replace({program.name: with_totals_of_ranks(program, neighbours.total) for program in programs if any(program.totals)})
        return programs

    def move(self, points: Mapping[str, PointTable]) -> None:
        here = self._neighbours.agreed(lambda: {name: self._neighbours.points(name, table) for name, table in points.items()})
        self._points |= here
        super().move({name: self._points[name].table for name in points})

    # input and output

    def start(self, states: Mapping[str, Array], driven: Mapping[str, Array], steps: int, undone: bool = False) -> None:
        if undone:
            raise ScheduleError("expected a schedule that runs forward only for a grid in domains, got one that undoes steps; use another")
        here = {name: self._points[source_points(name)].columns(driven[name]) for name in self.step.forcings}
        super().start(states, {**driven, **here}, steps)
        self._right.start()
        self._right_in_slot, self._right_before = {}, {}

    def state(self) -> dict[str, Array]:
        inner = self._neighbours.inner
        owned = {name: self.launcher.cells(self.delays[name][0], self._level(name))[inner] for name in self.delays}
        return self._neighbours.whole({name: self.step.states[name].of_cells(values) for name, values in owned.items()})

    def traces(self) -> dict[str, Array]:
        traces = super().traces()
        return {name: self._neighbours.columns(self._points[receiver_points(name)], values) for name, values in traces.items()}

    def seed(self, final: Mapping[str, Array], traces: Mapping[str, Array]) -> None:
        here = {name: self._points[receiver_points(name)].columns(values) for name, values in traces.items()}
        super().seed(self._neighbours.of_whole(final), here)
        self._bars_right.start()

    def set_cotangent(self, arrays: Mapping[str, Array]) -> None:
        super().set_cotangent(arrays)
        self._bars_right.forget()  # they were saved between two exchanges

    def input_cotangents(self) -> tuple[dict[str, Array], dict[str, Array], dict[str, Array]]:
        states, coefficients, driven = super().input_cotangents()
        self._neighbours.exchange([Plain(cells) for cells in (*states.values(), *coefficients.values())], self.dtype)()
        columns = {name: self._neighbours.columns(self._points[source_points(name)], driven[name]) for name in self.step.forcings}
        return states, coefficients, {**driven, **columns}

    def adjoint_states(self) -> dict[str, Array]:
        return self._neighbours.whole({name: bars[self._neighbours.inner] for name, bars in super().adjoint_states().items()})

    # the protocol of schedules

    def save(self, step: int, slot: int) -> None:
        super().save(step, slot)
        self._right_in_slot[slot] = self._right.now

    def load(self, step: int, slot: int) -> None:
        super().load(step, slot)
        self._right.now = self._right_in_slot[slot]

    def state_arrays(self) -> list[Array]:
        """The owned cells of the working state: ghost cells that are not right differ from run to run."""
        inner, launcher, rings = self._neighbours.inner, self.launcher, self.storage.rings
        return [launcher.owned(name, inner, level) for name, ring in rings.items() for level in ring.working]

    def set_state(self, arrays: Sequence[Array]) -> None:
        values = iter(arrays)
        for name, ring in self.storage.rings.items():
            for level in ring.renew():
                self.launcher.clear(name, level)
                owned = np.ascontiguousarray(next(values)).reshape(-1)
                self.launcher.unpack(name, [(self._neighbours.inner, owned)], self.step.states[name].rules, level)
        self._right.forget()

    def outputs(self) -> list[Array]:
        """The traces of the owned receivers."""
        return [self._points[receiver_points(state)].owned(values) for state, values in super().traces().items()]

    def compared(self) -> list[Array]:
        return self.state_arrays()

    def state_size(self) -> float:
        return largest(self.state_arrays())

    def cotangent_size(self) -> float:
        inner, bars = self._neighbours.inner, self.storage.bars
        return largest(self.launcher.owned(name, inner, ring.working[ring.depth - 1]) for name, ring in bars.items())

    # steps between exchanges

    def _sweep(self, program: Program, start: int, steps: int, tables: Tables, before: Before, kept: bool = False) -> None:
        done = 0
        while done < steps:
            piece = self._pieces.coming(steps - done, kept)
            if piece.taken is not None:
                self._take(self._right, piece.taken, before(done), self._rules)
            if kept:
                self._right_before.update(enumerate(piece.widths, start + done))

            def tables_after(number: int, count: int, begin: int = done, narrowing: Narrowing = piece.narrowing) -> Mapping[str, IntArray]:
                return {**tables(begin + number, count), NARROWING: narrowing.after(number)}

            super()._sweep(program, start + done, len(piece.widths), tables_after, before, kept)
            done += len(piece.widths)

    def reverse(self, start: int, stop: int) -> None:
        if self.needs_primal and self._held and self._held[-1][:2] == (range(start, stop - 1), False):
            if not covers(self._right.now, self._reach.primal.by_any):  # the newest of these steps starts from the working state
                self._take_states(self._working(0))
            self._right_before[stop - 1] = self._right.now
        super().reverse(start, stop)

    def _reverse(self, program: Program, stop: int, count: int, held: bool) -> None:
        reach, right, bars = self._reach, self._right, self._bars_right
        while count:
            if not held and self.needs_primal and not covers(right.now, reach.primal.by_any):
                self._take_states(self._working(0))
            if not covers(bars.now, reach.later.by_any):
                rules = dict.fromkeys(self.storage.bars, self.step.cotangent_rules)
                self._take_old(bars, {name: ring.working for name, ring in self.storage.bars.items()}, rules)
            done, unused = 0, list[int]()
            while done < count and covers(bars.now, reach.later.by_any):
                width = after(bars.now, reach.later)
                if self.needs_primal:
                    states = self._right_before[stop - 1 - done] if held else right.now
                    width = np.minimum(width, after(states, reach.primal))
                unused.append(bars.unused(width))
                bars.advance(width, unused[-1])
                done += 1
            self._narrowing = stop, Narrowing.of(unused)
            super()._reverse(program, stop, done, held)
            stop, count = stop - done, count - done

    def _levels_back(self, stop: int, count: int, held: bool) -> dict[str, IntArray]:
        first, narrowing = self._narrowing
        return super()._levels_back(stop, count, held) | {NARROWING: narrowing.after(first - stop)}

    def _take_states(self, levels: Levels) -> None:
        """Exchange the ghost cells of the state in these levels, oldest first, so that the adjoint can read them."""
        self._take_old(self._right, levels, self._rules)

    @cached_property
    def _rules(self) -> Mapping[str, Rules]:
        return {name: placed.rules for name, placed in self.step.states.items()}

    def _take_old(self, right: Widths, levels: Levels, rules: Mapping[str, Rules]) -> None:
        """Exchange the ghost cells of those levels, oldest first, that would allow fewer steps than new ones."""
        numbers = right.old()
        self._take(right, numbers, levels, rules)
        right.exchanged(numbers)

    def _take(self, right: Widths, numbers: IntArray, levels: Levels, rules: Mapping[str, Rules]) -> None:
        """Exchange the ghost cells of the levels of these numbers, oldest first."""
        stored = self.launcher
        places = [(name, levels[name][-1 - age]) for name, age in (right.levels[number] for number in numbers)]
        bound = stored.bindings, len(self._exchanges) < MOST_EXCHANGES
        if bound != (self._bound, True):  # arrays were replaced, or there are too many
            self._exchanges.clear()
        key = id(right), numbers.tobytes(), *places
        if key not in self._exchanges:
            far = right.enough[numbers].tolist()
            fields = [
                Stored(stored, name, level, rules[name], tuple(each), self.in_place)
                for (name, level), each in zip(places, far, strict=True)
            ]
            self._exchanges[key] = self._neighbours.exchange(fields, self.dtype)
            self._bound = stored.bindings  # a field that was not there may have been allocated
        self._exchanges[key]()
