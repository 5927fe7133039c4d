"""What is done in one time step, before it is text: loop nests over cells, sums at points, and calls of functions on the host.

A program knows nothing of CPU or GPU. `diffsim.stepping.workers` and `diffsim.stepping.device` turn it into source.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import Literal, Protocol, TypeAlias

from diffsim.boundary import Rules
from diffsim.expr.graph import Node, Offset, reads
from diffsim.field import Slim
from diffsim.typing import Array


@dataclass(frozen=True)
class Place:
    """Where a field of the expressions is stored: a kernel argument, and for a ring of time levels which level.

    `level` = k means that local step t uses the pool level in entry t + k of the array's level table. A field of a loop has an array of
    its own with `size` levels, of which lap r uses level k, or r + k if it `turns`, counted in a circle.
    """

    array: str
    level: int | None = None
    size: int = 0
    turns: bool = False


@dataclass(frozen=True)
class Assign:
    """target = node at every cell (or target += node), then the target's halo by `rules`.

    In an adjoint, the cells that a field had outside the grid have cotangents too: `node` at cells up to `outside` beyond the
    grid along each axis. They are folded back onto the cells that the rules `fold` took the halo from.
    """

    target: Place
    node: Node
    rules: Rules
    accumulate: bool = False
    fold: Rules = ()
    outside: tuple[int, ...] = ()


@dataclass(frozen=True)
class PointScatter:
    """target += factor * (weighted sum of a stream's values) at the cells of a point table, one row of the stream a step."""

    target: Place
    factor: Node
    points: str
    stream: str
    row: int


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
    """Values of some tiles of a ring's level, kept in an array `name` with a row a step.

    As an operation of its own it keeps them, as one of `Nest.restores` it puts them back.
    """

    place: Place
    name: str


@dataclass(frozen=True)
class Total:
    """A slim field is the sum, or the largest value, of a field along the axes along which only that one varies. The order is fixed.

    Attributes:
        target: the slim field.
        source: name of the field, which is stored or slim.
        along: axes of the source.
        slim: how the target varies.
        how: "sum" or "max".
        accumulate: add to the target.
    """

    target: str
    source: str
    along: tuple[int, ...]
    slim: Slim
    how: Literal["sum", "max"] = "sum"
    accumulate: bool = False

    def by_rows(self) -> tuple[Total, ...]:
        """The same in parts that workers share: a number is the total of those of the rows (of three dimensions, planes)."""
        if self.slim.axes or len(self.along) == 1:
            return (self,)
        rows = rows_of(self.target)
        each = replace(self, target=rows, slim=Slim((0,)), accumulate=False)
        return each, replace(self, source=rows, along=(0,))


@dataclass(frozen=True)
class Loop:
    """Operations that are repeated within a step.

    Attributes:
        count: laps.
        operations: of a lap.
        first: assignments before the first lap.
        places: fields of the loop alone, and what it gives.
        outputs: names of what it gives.
        inputs: names of what it reads from around.
        inline: see `Program`.
        down: whether the number of the lap falls.
    """

    count: int
    operations: tuple[Operation, ...]
    first: tuple[Assign, ...]
    places: dict[str, Place]
    outputs: tuple[str, ...]
    inputs: tuple[str, ...]
    inline: dict[str, Node]
    down: bool


def rows_of(total: str) -> str:
    """Name of the totals of the rows of which a total is made."""
    return f"{total} by rows"


class HostFunction(Protocol):
    """A function of arrays over the cells that runs on the host, between kernels."""

    def __call__(self, *cells: Array) -> Sequence[Array]:
        """Its values, of the same shape; they share no memory with what it is given, which it may not change."""

    def identity(self) -> str:
        """What tells it from other functions, as far as that can be known."""

    def room(self, cells: int) -> int:
        """Bytes that it keeps from one call to the next, about, for a grid of so many cells."""


@dataclass(frozen=True)
class Written:
    """A field that a host function gives: its name for others, where it is stored, and what it is outside the grid."""

    name: str
    target: Place
    rules: Rules


@dataclass(frozen=True)
class HostCall:
    """A host function of the cells of fields, whose values are the cells of others."""

    function: HostFunction
    inputs: tuple[str, ...]
    outputs: tuple[Written, ...]


@dataclass(frozen=True)
class Group:
    """Values that are computed once a cell and kept while the cells near it need them.

    Attributes:
        values: name -> expression, which may read values of the groups before.
        low, high: how far before the first and beyond the last cell that the nest computes they are wanted, along each axis; where that is
            negative, not even there.
    """

    values: dict[str, Node]
    low: tuple[int, ...]
    high: tuple[int, ...]


Box: TypeAlias = tuple[tuple[int, int], ...]
"""The first cell along each axis and the one after the last."""


@dataclass(frozen=True)
class Interior:
    """What a nest computes in a box of cells, by shorter expressions; targets that are left out are 0 there and not stored."""

    nest: Nest
    box: Box


@dataclass(frozen=True)
class Nest:
    """Assignments that share one loop nest, then point sums into their targets, then kept values, then the targets' halos.

    Attributes:
        assigns: the assignments.
        scatters: point sums.
        restores: values of strips that are put back.
        groups: values that the nest keeps as it goes, in the order in which they are computed (`diffsim.stepping.rolling`).
        roots: where there are groups, the expressions of the assignments that read them.
        interior: what is computed in most cells, where that is less.
    """

    assigns: tuple[Assign, ...]
    scatters: tuple[PointScatter, ...] = ()
    restores: tuple[Strip, ...] = ()
    groups: tuple[Group, ...] = ()
    roots: tuple[Node, ...] = ()
    interior: Interior | None = None

    @property
    def variants(self) -> tuple[Nest, ...]:
        """The nest, and that of its interior."""
        return (self,) if self.interior is None else (self, self.interior.nest)

    @property
    def folded(self) -> tuple[Assign, ...]:
        """Assignments that are computed outside the grid as well."""
        return tuple(a for a in self.assigns if any(a.outside))


Operation: TypeAlias = "Nest | PointGather | Strip | HostCall | Total | Loop"


Part: TypeAlias = Assign | HostCall | Total | Loop
"""What computes fields of a step."""


def needed(part: Part, inline: Mapping[str, Node]) -> set[str]:
    """Stored and slim fields that a part reads; inline fields are looked through."""
    if isinstance(part, Assign):
        return set(stored_reads([part.node], inline))
    return {part.source} if isinstance(part, Total) else set(part.inputs)


def written(name: str, part: Part) -> dict[str, Place]:
    """Where the fields are stored that a part gives, one that gives one alone under a name."""
    if isinstance(part, HostCall):
        return {each.name: each.target for each in part.outputs}
    if isinstance(part, Loop):
        return {each: part.places[each] for each in part.outputs}
    return {name: part.target if isinstance(part, Assign) else Place(part.target)}


def stored_reads(nodes: Iterable[Node], inline: Mapping[str, Node]) -> dict[str, set[Offset]]:
    """Stored fields that the nodes read, with the offsets; inline fields are looked through."""
    out: dict[str, set[Offset]] = {}
    for name, offsets in reads(nodes).items():
        for stored in reads([inline[name]]) if name in inline else [name]:
            out.setdefault(stored, set()).update(offsets)
    return out


@dataclass(frozen=True)
class Program:
    """One time step of a kernel.

    Attributes:
        name: of the kernel.
        operations: in order; after each `Nest` its targets are complete, halo included, before the next one starts, and so are those
            of each `Total`.
        places: every field that the expressions read.
        direction: +1 if the step index grows within a launch, -1 if it falls. Stream row of local step t is
            first + direction * t + row.
        entries: for each array of time levels, how many table entries a step spans.
        inline: fields that are not stored: name -> a function, at the same cell, of those that are. Reading one at an
            offset evaluates it there. On a CPU that is done for whole tiles, which are then spliced, so a product that
            is read at many offsets costs one multiplication a tile and no memory.
        alone: whether a launch does one step, since calls of host functions come between.
    """

    name: str
    operations: tuple[Operation, ...]
    places: dict[str, Place]
    direction: int
    entries: dict[str, int]
    inline: dict[str, Node] = field(default_factory=dict)
    alone: bool = False

    @property
    def each(self) -> Iterator[Operation]:
        """The operations, in place of loops those of a lap."""
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
        return (operation for operation in self.each if isinstance(operation, Total))

    @property
    def stacks(self) -> dict[str, int]:
        """Arrays of loops, and how many levels each has."""
        places = {*self.places.values(), *(assign.target for nest in self.nests for assign in nest.assigns)}
        return {place.array: place.size for place in places if place.size}

    def parts(self) -> list[Program | HostCall]:
        """The program in parts, calls of host functions and what is between them."""
        parts: list[Program | HostCall] = []
        for called, group in groupby(self.operations, lambda operation: isinstance(operation, HostCall)):
            if called:
                parts += group  # type: ignore[arg-type]
                continue
            part = replace(self, name=f"{self.name}_part_{len(parts)}", operations=tuple(group), alone=True)
            used = set(part.arrays())
            parts.append(replace(part, entries={name: count for name, count in self.entries.items() if name in used}))
        return parts

    @property
    def strips(self) -> Iterator[Strip]:
        """Those that are kept, and those that are put back."""
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
        """Stored fields that the nodes (by default all, and totals) read, with the offsets; inline fields are looked through."""
        if nodes is not None:
            return stored_reads(nodes, self.inline)
        found = stored_reads(self.roots(), self.inline)
        for total in self.totals:
            if total.source in self.places:
                found.setdefault(total.source, set()).add((0,) * len(total.along))
        return found

    def arrays(self) -> list[str]:
        """Field arrays that the program touches, in order of name."""
        targets = {assign.target.array for nest in self.nests for assign in nest.assigns} | {s.target.array for s in self.scatters}
        targets |= {written.target.array for call in self.calls for written in call.outputs}
        taken = {name for call in self.calls for name in call.inputs} | {total.source for total in self.totals}
        slim = {total.target for total in self.totals}
        return sorted(targets | slim | {self.places[name].array for name in (self.reads().keys() | taken) - slim})

    def reach(self) -> dict[str, tuple[int, ...]]:
        """How far beyond the grid along each axis each array is read, or written to be folded back; 0 for those used in place."""
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

    def depth(self) -> int:
        """Tiles beside the halo along the last axis that the kernels may touch, since they work on whole tiles."""
        variants = [each for nest in self.nests for each in nest.variants]
        along = [sum(group.low[-1] > 0 or group.high[-1] > 0 for group in each.groups) for each in variants]
        ends = [bool(a.outside and a.outside[-1]) for nest in self.nests for a in nest.assigns]
        return max(along, default=0) + any(ends)

    def _extents(self) -> Iterator[tuple[list[Node], tuple[int, ...]]]:
        """Every expression, with how far beyond the grid it is computed."""
        for operation in self.each:
            if isinstance(operation, Nest):
                for assign in operation.assigns:
                    yield [assign.node], assign.outside
                yield [scatter.factor for scatter in operation.scatters], ()
            elif isinstance(operation, PointGather):
                yield [operation.node], ()

    def affected_by(self, arrays: Iterable[str]) -> set[str]:
        """Field arrays that are computed from these, directly or through others."""
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

    def in_place(self, array: str) -> bool:
        """Whether the new level of a ring may overwrite the oldest: that one is read at the same cell only, and not after it is written.

        Outside the grid a cell is computed by the worker that has its image, for each rule another one: there, nobody reads what
        assignments with other rules overwrite.
        """
        written = False
        here: set[Offset]
        for operation in self.each:
            if isinstance(operation, Nest):
                here = self._offsets_of_oldest(array, [a.node for a in operation.assigns])
                now = any(a.target.array == array for a in operation.assigns)
                mine = {a.fold for a in operation.folded if a.target.array == array}
                others = [a.node for a in operation.folded if mine and a.fold not in mine]
                if self._offsets_of_oldest(array, others):
                    return False
            elif isinstance(operation, Strip):  # each cell is copied by the worker that will overwrite it
                here, now = set(), False
                if written and operation.place == Place(array, 0):
                    return False
            elif isinstance(operation, HostCall):  # it takes the cells before it gives any
                here = {() for name in operation.inputs if self.places[name] == Place(array, 0)}
                now = any(w.target.array == array for w in operation.outputs)
            elif isinstance(operation, Total):  # by the worker that has the row, or by any
                offset = tuple(int(not operation.slim.axes or operation.slim.axes[0] > 0) for _ in operation.along)
                here, now = {offset} if self.places.get(operation.source) == Place(array, 0) else set(), False
            else:
                assert isinstance(operation, PointGather)
                here, now = self._offsets_of_oldest(array, [operation.node]), False
            if (written and here) or any(any(offset) for offset in here):
                return False
            written = written or now
        return True

    def _offsets_of_oldest(self, array: str, nodes: list[Node]) -> set[Offset]:
        return {o for name, offsets in self.reads(nodes).items() if self.places.get(name) == Place(array, 0) for o in offsets}
