"""The operations of one time step, before they become source: loop nests over cells, sums at points, and calls of host functions.

A program is independent of CPU or GPU. `diffsim.stepping.source.workers` and `diffsim.stepping.source.device` turn it into source.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import groupby
from typing import Literal, Protocol, TypeAlias

from diffsim.boundary import Rules
from diffsim.expr.graph import Node, Offset, operations, reads
from diffsim.mesh.field import Slim
from diffsim.stepping.ir.levels import Ring
from diffsim.typing import Array

LONG = 64
"""Operations of a nest from which on cells outside the grid are computed by its own loops (`Nest.swept`)."""


@dataclass(frozen=True)
class Laps:
    """The laps of a loop that run are its last ones, so many as a number says, from 0 to `count`.

    Attributes:
        count: laps of the loop.
        number: name of the number, a slim field of the step.
    """

    count: int
    number: str


@dataclass(frozen=True)
class Place:
    """The storage of a field: a kernel argument and, for a ring of time levels, the level.

    `level` = k means that local step t uses the pool level in entry t + k of the array's level table. A field of a loop has an array of
    its own with `size` levels. Lap r uses level k, or level r + k modulo `size` if it `turns`. With `first` a level outside of a loop is
    level k of the first lap that runs.
    """

    array: str
    level: int | None = None
    size: int = 0
    turns: bool = False
    first: Laps | None = None


@dataclass(frozen=True)
class Assign:
    """target = node at every cell (or target += node), then the target's halo by `rules`.

    In an adjoint, cells of a field outside the grid have cotangents too: `node` at cells up to `outside` beyond the
    grid along each axis. They are folded back onto the cells from which the rules `fold` filled the halo.
    """

    target: Place
    node: Node
    rules: Rules
    accumulate: bool = False
    fold: Rules = ()
    outside: tuple[int, ...] = ()


@dataclass(frozen=True)
class PointScatter:
    """target += factor * (weighted sum of a stream's values) at the cells of a point table, in step t of a launch of the stream's row t."""

    target: Place
    factor: Node
    points: str
    stream: str


@dataclass(frozen=True)
class PointGather:
    """stream[row] = weighted sum of `node` over each point's cells (or += it)."""

    node: Node
    points: str
    stream: str
    row: int
    accumulate: bool = False


@dataclass(frozen=True)
class Strip:
    """Values of some tiles of a ring's level, kept in an array `name` with one row for each step.

    As an operation it stores them. In `Nest.restores` it restores them.
    """

    place: Place
    name: str


@dataclass(frozen=True)
class Total:
    """Set a slim field to the sum, or the largest value, of a field over the axes along which the slim field is constant, in a fixed order.

    Attributes:
        target: the slim field.
        source: name of the field, which is stored or slim.
        along: axes of the source.
        slim: axes and location of the target.
        how: "sum" or "max".
        accumulate: whether to add to the target.
    """

    target: str
    source: str
    along: tuple[int, ...]
    slim: Slim
    how: Literal["sum", "max"] = "sum"
    accumulate: bool = False

    def by_rows(self) -> tuple[Total, ...]:
        """The same in parts for several workers: a number is the total of the totals of the rows (planes in three dimensions)."""
        if self.slim.axes or len(self.along) == 1:
            return (self,)
        rows = rows_of(self.target)
        each = replace(self, target=rows, slim=Slim((0,)), accumulate=False)
        return each, replace(self, source=rows, along=(0,))


@dataclass(frozen=True)
class Loop:
    """Operations that repeat within a step.

    Attributes:
        count: number of laps.
        operations: operations of a lap.
        first: assignments before the first lap.
        places: the fields of the loop and its results.
        outputs: names of its results.
        inputs: names of the outside fields that it reads.
        inline: see `Program`.
        down: whether the lap number falls.
        laps: which of its laps run; None: all.
    """

    count: int
    operations: tuple[Operation, ...]
    first: tuple[Assign, ...]
    places: dict[str, Place]
    outputs: tuple[str, ...]
    inputs: tuple[str, ...]
    inline: dict[str, Node]
    down: bool
    laps: Laps | None = None


def rows_of(total: str) -> str:
    """Name of the totals of rows that are the parts of a total."""
    return f"{total} by rows"


class HostFunction(Protocol):
    """A function of arrays over the cells that runs on the host, between kernels.

    One with a single result may have a method `inside(cells, result)`, whose value is None, or an `Inside`, by which a kernel computes the
    result from these arrays in place. A `title` is a `Title` for messages.
    """

    def __call__(self, *cells: Array) -> Sequence[Array]:
        """Its values, of the same shape. They share no memory with its arguments, which it may not change."""

    def identity(self) -> str:
        """A text that identifies it, as far as possible."""

    def room(self, cells: int) -> int:
        """Approximate bytes that it keeps between calls, for a grid of `cells` cells."""


@dataclass(frozen=True)
class Written:
    """A result of a host function: its name for others, its storage, and its boundary rules.

    `filled`: whether the host fills its halo, not the kernel after the call.
    """

    name: str
    target: Place
    rules: Rules
    filled: bool = True


@dataclass(frozen=True)
class HostCall:
    """A call of a host function: from the cells of some fields to the cells of others.

    Attributes:
        total: a number, where the function adds up its rows in place of a kernel. There are no inputs and outputs then.
    """

    function: HostFunction
    inputs: tuple[str, ...]
    outputs: tuple[Written, ...]
    total: Total | None = None


@dataclass(frozen=True)
class Group:
    """Values that are computed once for each cell and kept while nearby cells need them.

    Attributes:
        values: name -> expression, which may read values of earlier groups.
        low, high: how many cells before the first and beyond the last cell of the nest they are needed, along each axis. A negative
            number means that the outermost cells do not need them.
        support: how far beyond the first and the last cell of the grid they may be other than 0, along each axis; (): anywhere.
    """

    values: dict[str, Node]
    low: tuple[int, ...]
    high: tuple[int, ...]
    support: tuple[tuple[float, float], ...] = ()


Box: TypeAlias = tuple[tuple[int, int], ...]
"""The first cell along each axis and the one after the last."""


@dataclass(frozen=True)
class Interior:
    """Shorter expressions of a nest in a box of cells. Targets that are left out are 0 there and not stored."""

    nest: Nest
    box: Box


@dataclass(frozen=True)
class Nest:
    """Assignments that share one loop nest, then point sums into their targets, then kept values, then the targets' halos.

    A nest of point sums alone adds to fields that earlier nests assigned.

    Attributes:
        assigns: the assignments.
        scatters: point sums.
        restores: strips whose values are restored.
        groups: values that the nest keeps for later cells, in order of computation (`diffsim.stepping.passes.rolling`).
        roots: if there are groups, the expressions of the assignments that read them.
        interior: shorter expressions for most cells, or None.
        refills: fields whose halos are filled: those of assignments of earlier nests, because point sums change them, and those that host
            functions gave.
        window: the cells that must be computed; None: all. Those around it may keep their values (on a CPU alone). If it gets narrower,
            its ends along the first axis may lie outside of the grid.
        narrowest: first row of the window, and the end, where it is narrowest; None: it is the same in all steps. A launch says by how
            many rows it is narrower in each step.
    """

    assigns: tuple[Assign, ...]
    scatters: tuple[PointScatter, ...] = ()
    restores: tuple[Strip, ...] = ()
    groups: tuple[Group, ...] = ()
    roots: tuple[Node, ...] = ()
    interior: Interior | None = None
    refills: tuple[Assign | Written, ...] = ()
    window: Box | None = None
    narrowest: tuple[int, int] | None = None

    @property
    def variants(self) -> tuple[Nest, ...]:
        """The nest, and the nest of its interior."""
        return (self,) if self.interior is None else (self, self.interior.nest)

    @property
    def folded(self) -> tuple[Assign, ...]:
        """Assignments that are computed outside the grid as well."""
        return tuple(a for a in self.assigns if any(a.outside))

    @cached_property
    def swept(self) -> bool:
        """Whether its loops compute the cells outside the grid as well. They do if it keeps values, which would be computed again for these
        cells, or is long: another function for these cells would take as long to compile."""
        return bool(self.folded) and (bool(self.groups) or operations(assign.node for assign in self.assigns) >= LONG)


Operation: TypeAlias = "Nest | PointGather | Strip | HostCall | Total | Loop"

Part: TypeAlias = Assign | HostCall | Total | Loop
"""A part of a step that computes fields."""


def needed(part: Part, inline: Mapping[str, Node]) -> set[str]:
    """Stored and slim fields that a part reads, directly or through inline fields."""
    if isinstance(part, Assign):
        return set(stored_reads([part.node], inline))
    return {part.source} if isinstance(part, Total) else set(part.inputs)


def written(name: str, part: Part) -> dict[str, Place]:
    """The storage of the results of a part, by name. The result of an assignment or a total has the given name."""
    if isinstance(part, HostCall):
        return {each.name: each.target for each in part.outputs}
    if isinstance(part, Loop):
        return {each: part.places[each] for each in part.outputs}
    return {name: part.target if isinstance(part, Assign) else Place(part.target)}


def stored_reads(nodes: Iterable[Node], inline: Mapping[str, Node]) -> dict[str, set[Offset]]:
    """Stored fields that the nodes read, directly or through inline fields, with the offsets."""
    out: dict[str, set[Offset]] = {}
    for name, offsets in reads(nodes).items():
        for stored in reads([inline[name]]) if name in inline else [name]:
            out.setdefault(stored, set()).update(offsets)
    return out


@dataclass(frozen=True)
class Program:
    """One time step of a kernel.

    Attributes:
        name: name of the kernel.
        operations: operations in order. The targets of each `Nest` and `Total`, halo included, are complete before the next operation
            starts.
        places: every field that the expressions read.
        direction: +1 if the step index grows within a launch, -1 if it falls. The stream row of local step t is
            first + direction * t + row.
        entries: array of time levels -> number of table entries that a step spans.
        inline: fields that are not stored: name -> a function, at the same cell, of stored fields. Reading one at an offset evaluates it
            there. A CPU evaluates whole tiles and then splices them: a product read at many offsets costs one multiplication a tile.
        alone: whether a launch does one step, because host functions are called between steps.
        overwrites: whether a step may overwrite also a state of which it reads no earlier value.
        keeps_residuals: whether a step keeps values for its adjoint.
    """

    name: str
    operations: tuple[Operation, ...]
    places: dict[str, Place]
    direction: int
    entries: dict[str, int]
    inline: dict[str, Node] = field(default_factory=dict)
    alone: bool = False
    overwrites: bool = False
    keeps_residuals: bool = False

    @property
    def each(self) -> Iterator[Operation]:
        """The operations, where each loop is replaced by the operations of a lap."""
        for operation in self.operations:
            if isinstance(operation, Loop):
                yield from operation.operations
            else:
                yield operation

    @property
    def loops(self) -> Iterator[Loop]:
        return (operation for operation in self.operations if isinstance(operation, Loop))

    @property
    def nests(self) -> Iterator[Nest]:
        return (operation for operation in self.each if isinstance(operation, Nest))

    @property
    def gathers(self) -> Iterator[PointGather]:
        return (operation for operation in self.each if isinstance(operation, PointGather))

    @property
    def calls(self) -> Iterator[HostCall]:
        return (operation for operation in self.each if isinstance(operation, HostCall))

    @property
    def totals(self) -> Iterator[Total]:
        for operation in self.each:
            if isinstance(operation, Total):
                yield operation
            elif isinstance(operation, HostCall) and operation.total is not None:
                yield operation.total

    @property
    def stacks(self) -> dict[str, int]:
        """Arrays of loops -> number of levels."""
        places = {*self.places.values(), *(assign.target for nest in self.nests for assign in nest.assigns)}
        return {place.array: place.size for place in places if place.size}

    def parts(self, by_kernels: bool, owed: tuple[Written, ...] = ()) -> list[Program | HostCall]:
        """The program cut into calls of host functions and the programs between them.

        Args:
            by_kernels: whether a program fills the halos of fields that calls before it gave.
            owed: fields without halos at the start, which the first program fills. It begins the step.
        """
        parts: list[Program | HostCall] = []
        last = max((n for n, operation in enumerate(self.operations) if not isinstance(operation, HostCall)), default=-1)
        for called, numbered in groupby(enumerate(self.operations), lambda each: isinstance(each[1], HostCall)):
            numbers, group = zip(*numbered, strict=True)
            if called:
                if by_kernels and numbers[0] < last:
                    owed += tuple(replace(each, filled=False) for call in group for each in call.outputs)
                    group = tuple(replace(call, outputs=tuple(replace(each, filled=False) for each in call.outputs)) for call in group)
                parts += group
                continue
            filling = (Nest((), refills=owed),) if owed else ()
            owed = ()
            part = replace(self, name=f"{self.name}_part_{len(parts)}", operations=(*filling, *group), alone=True)
            used = set(part.arrays())
            parts.append(replace(part, entries={name: count for name, count in self.entries.items() if name in used}))
        return parts

    @property
    def strips(self) -> Iterator[Strip]:
        """Strips that are stored or restored."""
        yield from (operation for operation in self.each if isinstance(operation, Strip))
        for nest in self.nests:
            yield from nest.restores

    @property
    def scatters(self) -> Iterator[PointScatter]:
        return (scatter for nest in self.nests for scatter in nest.scatters)

    def roots(self) -> list[Node]:
        """Every expression of the program."""
        nodes: list[Node] = []
        for nest in self.nests:
            for assign in nest.assigns:
                nodes.append(assign.node)
            nodes += [scatter.factor for scatter in nest.scatters]
        return nodes + [gather.node for gather in self.gathers]

    def reads(self, nodes: Iterable[Node] | None = None) -> dict[str, set[Offset]]:
        """Stored fields that the nodes (by default all, and totals) read, directly or through inline fields, with the offsets."""
        if nodes is not None:
            return stored_reads(nodes, self.inline)
        found = stored_reads(self.roots(), self.inline)
        for total in self.totals:
            if total.source in self.places:
                found.setdefault(total.source, set()).add((0,) * len(total.along))
        return found

    def arrays(self) -> list[str]:
        """Field arrays that the program uses, in order of name."""
        return [*self._arrays]

    @cached_property
    def _arrays(self) -> list[str]:
        targets = {assign.target.array for nest in self.nests for assign in nest.assigns} | {s.target.array for s in self.scatters}
        targets |= {written.target.array for call in self.calls for written in call.outputs}
        targets |= {each.target.array for nest in self.nests for each in nest.refills}
        taken = {name for call in self.calls for name in call.inputs} | {total.source for total in self.totals}
        slim = {total.target for total in self.totals} | {laps.number for laps in self._laps}
        return sorted(targets | slim | {self.places[name].array for name in (self.reads().keys() | taken) - slim})

    @property
    def _laps(self) -> Iterator[Laps]:
        yield from (loop.laps for loop in self.loops if loop.laps)
        yield from (place.first for place in self.places.values() if place.first)

    def reach(self) -> dict[str, tuple[int, ...]]:
        """Array -> how far beyond the grid it is read, or written for folding, along each axis; 0 for arrays used in place."""
        out: dict[str, tuple[int, ...]] = {}

        def note(array: str, far: tuple[int, ...]) -> None:
            out[array] = tuple(map(max, out.get(array, far), far))

        for nodes, beyond in self._extents():
            for name, offsets in self.reads(nodes).items():
                far = tuple(max(abs(o[axis]) for o in offsets) for axis in range(len(next(iter(offsets)))))
                note(self.places[name].array, tuple(f + b for f, b in zip(far, beyond or (0,) * len(far), strict=True)))
        for nest in self.nests:
            for assign in nest.assigns:
                if assign.outside:
                    note(assign.target.array, assign.outside)
        return out

    def spare(self) -> int:
        """Tiles beyond the halo along the last axis that kernels may write, because they work on whole tiles.

        A nest that keeps values beside its interior computes them for a tile more than those of its cells, and a tile more for each group
        of values that read others. Where there is no interior, the bounds of all loops are counted in cells, within the halo.
        """
        most = 0
        for nest in (nest for nest in self.nests if nest.interior is not None):
            along = max(sum(group.low[-1] > 0 or group.high[-1] > 0 for group in each.groups) for each in nest.variants)
            most = max(most, along and along + any(a.outside and a.outside[-1] for a in nest.assigns))
        return most

    def touched(self) -> list[tuple[int, ...]]:
        """How far beyond the grid, along each axis, nests read that keep values or are swept. A nest computes all its assignments, and all
        values of a group, wherever it computes one."""
        reach = []
        for nest in self.nests:
            for variant in (variant for variant in nest.variants if variant.groups or nest.swept):
                nowhere = (0,) * len(nest.folded[0].outside if nest.folded else variant.groups[0].low)
                beyond = [max((a.outside[axis] for a in nest.folded), default=0) for axis in range(len(nowhere))]
                roots = variant.roots or tuple(assign.node for assign in variant.assigns)
                bodies: list[tuple[Iterable[Node], tuple[int, ...], tuple[int, ...]]] = [(roots, nowhere, nowhere)]
                bodies += [(group.values.values(), group.low, group.high) for group in variant.groups]
                for nodes, low, high in bodies:
                    ends = [max(*sides) + far for *sides, far in zip(low, high, beyond, strict=True)]
                    for name, offsets in self.reads(nodes).items():
                        if name in self.places:
                            reach += [tuple(end + abs(o) for end, o in zip(ends, offset, strict=True)) for offset in offsets]
        return reach

    def _extents(self) -> Iterator[tuple[list[Node], tuple[int, ...]]]:
        """Every expression, with the distance beyond the grid up to which it is computed."""
        for operation in self.each:
            if isinstance(operation, Nest):
                for assign in operation.assigns:
                    yield [assign.node], assign.outside
                yield [scatter.factor for scatter in operation.scatters], ()
            elif isinstance(operation, PointGather):
                yield [operation.node], ()

    def affected_by(self, arrays: Iterable[str]) -> set[str]:
        """Field arrays that depend on these, directly or through others."""
        found, known = set(arrays), 0
        while known < len(found):
            known = len(found)
            for nest in self.nests:
                values = [(a.target, [a.node]) for a in nest.assigns] + [(s.target, [s.factor]) for s in nest.scatters]
                found |= {to.array for to, nodes in values if not found.isdisjoint(self.places[name].array for name in self.reads(nodes))}
            for call in self.calls:
                if not found.isdisjoint(self.places[name].array for name in call.inputs):
                    found |= {written.target.array for written in call.outputs}
            for total in self.totals:
                if total.source in found or (total.source in self.places and self.places[total.source].array in found):
                    found.add(total.target)
        return found - set(arrays)

    def period(self, array: str) -> int:
        """Entries of a ring after which its levels are used again, if no slot and no adjoint needs one."""
        return Ring.period(self.entries[array] - 1, self.in_place(array))

    def in_place(self, array: str) -> bool:
        """Whether the new level of a ring may overwrite the oldest: all that reads the oldest comes before, or reads the same cell in the
        same nest.

        Outside the grid, the worker that owns a cell's image may compute it, and each rule has another image. So there, no assignment may
        read an array that assignments with other rules overwrite.
        """
        if array not in self._in_place:
            self._in_place[array] = (self.entries[array] > 2 or self.overwrites) and self._is_in_place(array)
        return self._in_place[array]

    @cached_property
    def _in_place(self) -> dict[str, bool]:
        """What `in_place` found: each gradient asks for it."""
        return {}

    def _is_in_place(self, array: str) -> bool:
        written = False
        here: set[Offset]
        for operation in self._in_turn:
            if isinstance(operation, Nest):
                here = self._offsets_of_oldest(array, [a.node for a in operation.assigns])
                now = any(a.target.array == array for a in operation.assigns)
                mine = {a.fold for a in operation.folded if a.target.array == array}
                others = [a.node for a in operation.folded if mine and a.fold not in mine]
                factors = [scatter.factor for scatter in operation.scatters]  # they are computed after the cells
                if self._offsets_of_oldest(array, others) or ((written or now) and self._offsets_of_oldest(array, factors)):
                    return False
                if now and any(map(any, here)):
                    return False
            elif isinstance(operation, Strip):  # the worker that overwrites a cell also copies it
                here, now = {()} if operation.place == Place(array, 0) else set(), False
            elif isinstance(operation, HostCall):  # it reads all cells before it writes any
                here = {() for name in operation.inputs if self.places[name] == Place(array, 0)}
                now = any(w.target.array == array for w in operation.outputs)
            elif isinstance(operation, Total):
                here, now = {()} if self.places.get(operation.source) == Place(array, 0) else set(), False
            else:
                assert isinstance(operation, PointGather)
                here, now = self._offsets_of_oldest(array, [operation.node]), False
            if written and here:
                return False
            written = written or now
        return True

    @property
    def _in_turn(self) -> Iterator[Operation]:
        """The operations, with two laps of each loop: what follows a lap is the next one."""
        for operation in self.operations:
            if isinstance(operation, Loop):
                yield from (*operation.operations, *operation.operations)
            else:
                yield operation

    def changes(self, gather: PointGather, nest: Nest, later: int) -> bool:
        """Whether a nest, in the step that is `later` steps after that of a sum at points, writes memory that this sum reads."""
        targets = [assign.target for assign in nest.assigns] + [scatter.target for scatter in nest.scatters]
        for place in (self.places[name] for name in self.reads([gather.node]) if name in self.places):
            for target in targets:
                if place.array != target.array:
                    continue
                if place.level is None or target.level is None:
                    return True
                if (target.level + later - place.level) % self.period(place.array) == 0:
                    return True
        return False

    def _offsets_of_oldest(self, array: str, nodes: list[Node]) -> set[Offset]:
        return {o for name, offsets in self.reads(nodes).items() if self.places.get(name) == Place(array, 0) for o in offsets}
