"""What a kernel does in one time step, before it is text: loop nests over cells, and sums at points.

A program knows nothing of CPU or GPU. `diffsim.stepping.workers` and `diffsim.stepping.device` turn it into source.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from diffsim.expr.graph import Node, Offset, reads
from diffsim.field import Rules


@dataclass(frozen=True)
class Place:
    """Where a field of the expressions is stored: a kernel argument, and for a ring of time levels which level.

    `level` = k means that local step t uses the pool level in entry t + k of the array's level table.
    """

    array: str
    level: int | None = None


@dataclass(frozen=True)
class Assign:
    """target = node at every cell (or target += node), then the target's halo by `rules`.

    `scatter` holds what the gather form of an adjoint leaves out: contributions that reached a cell through the halo.
    Offset o -> the contribution of a reading cell i to the cell i + o, folded back into the grid by `fold`.
    """

    target: Place
    node: Node
    rules: Rules
    accumulate: bool = False
    scatter: dict[Offset, Node] = field(default_factory=dict)
    fold: Rules = ()


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
class Nest:
    """Assignments that share one loop nest, then point sums into their targets, then kept values, then the targets' halos."""

    assigns: tuple[Assign, ...]
    scatters: tuple[PointScatter, ...] = ()
    restores: tuple[Strip, ...] = ()


Operation: TypeAlias = Nest | PointGather | Strip


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
        operations: in order; after each `Nest` its targets are complete, halo included, before the next one starts.
        places: every field that the expressions read.
        direction: +1 if the step index grows within a launch, -1 if it falls. Stream row of local step t is
            first + direction * t + row.
        entries: for each array of time levels, how many table entries a step spans.
        inline: fields that are not stored: name -> a function, at the same cell, of those that are. Reading one at an
            offset evaluates it there. On a CPU that is done for whole tiles, which are then spliced, so a product that
            is read at many offsets costs one multiplication a tile and no memory.
    """

    name: str
    operations: tuple[Operation, ...]
    places: dict[str, Place]
    direction: int
    entries: dict[str, int]
    inline: dict[str, Node] = field(default_factory=dict)

    @property
    def nests(self) -> Iterator[Nest]:
        return (operation for operation in self.operations if isinstance(operation, Nest))

    @property
    def gathers(self) -> Iterator[PointGather]:
        return (operation for operation in self.operations if isinstance(operation, PointGather))

    @property
    def strips(self) -> Iterator[Strip]:
        """Those that are kept, and those that are put back."""
        yield from (operation for operation in self.operations if isinstance(operation, Strip))
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
                nodes += [assign.node, *assign.scatter.values()]
            nodes += [scatter.factor for scatter in nest.scatters]
        return nodes + [gather.node for gather in self.gathers]

    def reads(self, nodes: Iterable[Node] | None = None) -> dict[str, set[Offset]]:
        """Stored fields that the nodes (by default all) read, with the offsets; inline fields are looked through."""
        return stored_reads(self.roots() if nodes is None else nodes, self.inline)

    def arrays(self) -> list[str]:
        """Field arrays that the kernel touches, in order of name."""
        targets = {assign.target.array for nest in self.nests for assign in nest.assigns} | {s.target.array for s in self.scatters}
        return sorted(targets | {self.places[name].array for name in self.reads()})

    def reach(self) -> dict[str, tuple[int, ...]]:
        """Largest offset along each axis at which each array is read; 0 for those read in place."""
        out: dict[str, tuple[int, ...]] = {}
        for name, offsets in self.reads().items():
            array = self.places[name].array
            widest = tuple(max(abs(o[axis]) for o in offsets) for axis in range(len(next(iter(offsets)))))
            out[array] = tuple(map(max, out.get(array, widest), widest))
        return out

    def affected_by(self, arrays: Iterable[str]) -> set[str]:
        """Field arrays that are computed from these, directly or through others."""
        found, known = set(arrays), 0
        while known < len(found):
            known = len(found)
            for nest in self.nests:
                values = [(a.target, [a.node, *a.scatter.values()]) for a in nest.assigns] + [(s.target, [s.factor]) for s in nest.scatters]
                found |= {to.array for to, nodes in values if not found.isdisjoint(self.places[name].array for name in self.reads(nodes))}
        return found - set(arrays)

    def in_place(self, array: str) -> bool:
        """Whether the new level of a ring may overwrite the oldest: that one is read at the same cell only, and not after it is written."""
        written = False
        for operation in self.operations:
            if isinstance(operation, Nest):
                here = self._offsets_of_oldest(array, [a.node for a in operation.assigns])
                after = self._offsets_of_oldest(array, [n for a in operation.assigns for n in a.scatter.values()])
                now = any(a.target.array == array for a in operation.assigns)
            elif isinstance(operation, Strip):  # each cell is copied by the worker that will overwrite it
                here, after, now = set(), set(), False
                if written and operation.place == Place(array, 0):
                    return False
            else:
                here, after, now = self._offsets_of_oldest(array, [operation.node]), set(), False
            if (written and here) or any(any(offset) for offset in here) or ((written or now) and after):
                return False
            written = written or now
        return True

    def _offsets_of_oldest(self, array: str, nodes: list[Node]) -> set[Offset]:
        return {o for name, offsets in self.reads(nodes).items() if self.places.get(name) == Place(array, 0) for o in offsets}
