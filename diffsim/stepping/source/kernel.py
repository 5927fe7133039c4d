"""The common parts of the sources of CPU and GPU kernels: arguments, and all work done cell by cell."""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np

from diffsim.boundary import Ghost, Rules, ghosts
from diffsim.elementwise.source import ENGINE
from diffsim.engine import expression, lanes_of, language, shared_kernel, tile_from, tile_of
from diffsim.expr.graph import Graph, Node
from diffsim.expr.shapes import Shape
from diffsim.expr.source import (
    CellLoader,
    ExpressionWriter,
    SlimSource,
    Sources,
    StoredSource,
    Text,
    TileWriter,
    identifier,
    literal,
    row_start,
    with_functions,
)
from diffsim.mesh.field import Slim
from diffsim.stepping.ir.program import Laps, Nest, Place, PointGather, PointScatter, Program, Strip, Total
from diffsim.stepping.ir.sparse import Sparse
from diffsim.stepping.ir.stored import StoredFields

STEPS, FIRST, DONE, BEGIN, LOOKS, ZERO, NARROW, NARROWER = 0, 1, 2, 3, 4, 5, 6, 7
"""Entries of the control array: steps of this launch, and after them the index of its first step. If an earlier launch of these steps
was abandoned, the place to continue from: steps that are done, and operations of the next step that are done. Then the polls of a gate
before a worker abandons it, and a 0, of which LLVM does not know that it is one. Then the rows by which windows are narrower in the first
step of `FIRST` (`Nest.narrowest`), and how many more these are in each later step."""
NARROWING = "rows of windows"
"""The key of these two among the tables of a launch."""
ARRIVALS, GATE, LEFT_DONE, LEFT_BEGIN = 64, 96, 112, 113
"""Entries of workers, in separate cache lines: arrivals at barriers, opened barriers, and the place at which this launch was abandoned
(see `DONE`)."""
HEADER = 128
CAPACITY = 16384
"""Most steps in a launch: the length of a level table."""
SLACK = 8
LARGER = "ti.select({0} < {1}, {1}, ti.select({1} <= {0}, {0}, {0} + {1}))"
"""The larger of two values, or NaN if one of them is NaN. `ti.max` returns the other value, and Taichi assumes that a value equals
itself."""
PART = 64
"""Tiles of a row that are summed first and then added to the total, so that rounding errors of long rows stay small."""

Kind = Literal[
    "control",
    "ring",
    "field",
    "slim",
    "stream",
    "cells",
    "starts",
    "members",
    "weights",
    "rows",
    "slabs",
    "point starts",
    "point cells",
    "point weights",
    "point rows",
    "point order",
    "point last rows",
    "strip",
    "tiles",
    "rolled",
    "chunks",
    "inside",
    "levels",
    "numbers",
]


STRIP_KINDS: tuple[Kind, ...] = ("strip", "tiles", "slabs")


@dataclass(frozen=True)
class Argument:
    """One kernel argument: its identifier in the source, its kind, and the object that it belongs to, displaced by some cells."""

    name: str
    kind: Kind
    key: str
    cells: int = 0


def annotation(argument: Argument) -> str:
    """Name of an argument's type in the source."""
    return f"{argument.kind.replace(' ', '_')}_of_{argument.name}"


def table_offset(program: Program, array: str) -> int:
    """The index of the first entry of a ring's level table in the control array."""
    return HEADER + sorted(program.entries).index(array) * (CAPACITY + SLACK)


def control_size(program: Program) -> int:
    return HEADER + len(program.entries) * (CAPACITY + SLACK)


class Kernel(ABC):
    """Source of the kernel of a program.

    Args:
        program: the program of a step.
        graph: the graph of its expressions.
        fields: how the arrays are stored.
    """

    def __init__(self, program: Program, graph: Graph, fields: StoredFields) -> None:
        self.program, self.graph, self.layout, self.reach = program, graph, fields.layout, fields.reach
        self.ndim = len(self.layout.shape)
        self.lanes = self.layout.lanes
        self.rows = ("i",) if len(self.layout.rows) == 1 else ("k", "i")
        self.text = Text()
        used = program.arrays()
        self.slim = {name: each for name, each in fields.slim.items() if name in used}
        self.arrays = [a for a in used if a not in self.slim]
        self.sparse = {name: each for name, each in fields.sparse.items() if name in used}
        regions: dict[Sparse, None] = dict.fromkeys(self.sparse.values())
        self._regions = {each: f"region__{number}" for number, each in enumerate(regions)}  # no field has a double underscore
        self.arguments = self._arguments()

    def _kind(self, array: str) -> Kind:
        return "ring" if array in self.program.entries else "field"

    @cached_property
    def _displaced(self) -> dict[tuple[str, int], str]:
        """Arrays that nests read at other lanes, displaced: (array, cells) -> identifier."""
        return {}

    @cached_property
    def _displaced_kept(self) -> dict[int, str]:
        """Distances, in cells, at which kept values are read from their memory -> identifier of the latter, displaced by so many."""
        return {}

    def _arguments(self) -> list[Argument]:
        out = [Argument("control", "control", "")]
        out += [Argument(identifier(a), self._kind(a), a) for a in self.arrays]
        out += [Argument(name, self._kind(a), a, cells) for (a, cells), name in self._displaced.items()]
        out += [Argument(identifier(name), "slim", name) for name in self.slim]
        for array, sparse in self.sparse.items():
            kind: Kind
            for kind in ("chunks", "inside"):
                argument = Argument(f"{self._regions[sparse]}_{kind}", kind, array)
                out += [argument] if all(argument.name != other.name for other in out) else []
        kinds: dict[str, dict[Kind, None]] = {}
        streams: dict[str, None] = {}
        for scatter in self.program.scatters:
            wanted: tuple[Kind, ...] = ("cells", "starts", "members", "weights", "rows")
            kinds.setdefault(scatter.points, {}).update(dict.fromkeys(wanted))
            streams[scatter.stream] = None
        for gather in self.program.gathers:
            kinds.setdefault(gather.points, {}).update(dict.fromkeys(("point starts", "point cells", "point weights")))
            streams[gather.stream] = None
        for strip in self.program.strips:
            out += [Argument(f"{identifier(strip.name)}_{kind}", kind, strip.name) for kind in STRIP_KINDS]
        out += [
            Argument(f"{identifier(points)}_{kind.replace(' ', '_')}", kind, points) for points, found in kinds.items() for kind in found
        ]
        if any(each.groups for nest in self.program.nests for each in nest.variants):
            out.append(Argument("rolled", "rolled", self.program.name))
            out += [Argument(name, "rolled", self.program.name, cells) for cells, name in self._displaced_kept.items()]
        return out + [Argument(identifier(stream), "stream", stream) for stream in streams]

    @property
    @abstractmethod
    def rolled_tiles(self) -> int:
        """Number of tiles of the array in which nests keep values."""

    @property
    def source(self) -> str:
        """The kernel as readable Taichi source."""
        if not self.text.lines:
            self._write()
        return with_functions(str(self.text))

    @abstractmethod
    def _write(self) -> None:
        """Fill `self.text`."""

    def compile(self) -> object:
        """The Taichi kernel. Simulations, and programs of one, with the same source but for its name share it."""
        source = self.source.replace(f"def {self.program.name}(", "def kernel(")
        return shared_kernel(source, "kernel", self.meanings, self._namespace)

    @property
    def meanings(self) -> tuple[object, ...]:
        """The types and layouts that the source has names for: with it they decide which kernel it is."""
        return self.layout.dtype.name, self.lanes, *(self.layout.tiled(slim) for slim in self.slim.values())

    def _namespace(self) -> dict[str, object]:
        """The objects that names in the source stand for."""
        ti = language()
        scalar = ti.f32 if self.layout.dtype == np.float32 else ti.f64
        element = ti.types.vector(self.lanes, scalar) if self.lanes > 1 else scalar
        namespace: dict[str, object] = {"F": scalar, "Tile": element, "Array": ti.types.ndarray(dtype=element, ndim=1)}
        for argument in self.arguments:
            ndim, dtype = {
                "ring": (1, element),
                "field": (1, element),
                "strip": (1, element),
                "rolled": (1, element),
                "inside": (1, element),
                "stream": (2, scalar),
                "cells": (2, ti.i32),
                "point cells": (2, ti.i32),
                "weights": (1, scalar),
                "point weights": (1, scalar),
            }.get(argument.kind, (1, ti.i32))
            if argument.kind == "slim":
                ndim, dtype = 1, element if self.layout.tiled(self.slim[argument.key]) else scalar
            namespace[annotation(argument)] = ti.types.ndarray(dtype=dtype, ndim=ndim)
        for lane in range(1, self.lanes):
            namespace[f"splice_{lane}"] = _splice(element, lane)
        namespace["tile_from"] = _tile_from(element)
        for function in (*ENGINE, "floor") if self.lanes > 1 else ():
            namespace[f"tile_{function}"] = _lanewise(getattr(ti, function), element)
        return namespace

    def header(self, extra: str = "") -> str:
        declared = ", ".join(f"{a.name}: {annotation(a)}" for a in self.arguments)
        return f"def {self.program.name}({declared}{extra})"

    # addresses

    def level(self, place: Place) -> str:
        """Name of the local variable with the first tile of a level."""
        return f"{identifier(place.array)}_{'lap' if place.turns else 'first' if place.first else 'at'}_{place.level}"

    def lead(self, place: Place) -> str:
        return "" if place.level is None else f"{self.level(place)} + "

    def level_start(self, place: Place, step: str = "t") -> str:
        """Source of the first tile of a level at a local step, and lap `lap`."""
        tiles = self.sparse[place.array].tile_count if place.array in self.sparse else self.layout.tile_count
        if place.size:
            lap = "lap" if place.turns else self.first_lap(place.first) if place.first else ""
            level = f"({lap} + {place.level}) % {place.size}" if lap else f"{(place.level or 0) % place.size}"
            return f"{level} * {tiles}"
        return f"control[{table_offset(self.program, place.array)} + {step} + {place.level or 0}] * {tiles}"

    def laps_run(self, laps: Laps) -> str:
        """Source of the number of laps that run, at step `n`."""
        number = self._slim_source(laps.number, self.slim[laps.number]).value((), ())
        return f"ti.cast(ti.min(ti.max({number}, F(0.0)), F({laps.count}.0)), ti.i32)"

    def first_lap(self, laps: Laps) -> str:
        """Source of the first lap that runs."""
        return f"({laps.count} - {self.laps_run(laps)})"

    def stored(self, place: Place) -> StoredSource:
        """The storage to which a field is written."""
        sparse = self.sparse.get(place.array)
        if sparse is None:
            return StoredSource(identifier(place.array), self.lead(place))
        return StoredSource(identifier(place.array), self.lead(place), f"{self._regions[sparse]}_chunks", sparse.chunk)

    @property
    def sources(self) -> Sources:
        arrays = {name: self.stored(place) for name, place in self.program.places.items()}
        slim = {name: self._slim_source(name, each) for name, each in self.slim.items()}
        displaced = {(identifier(array), cells): name for (array, cells), name in self._displaced.items()}
        displaced |= {(array, 0): array for array, _ in displaced}
        halo = zip(self.layout.row_halo, self.layout.strides, strict=True)
        behind = sum(rows * stride for rows, stride in halo) + self.layout.halo_tiles
        return Sources(
            arrays, slim, self.program.inline, self.rows, self.layout.strides, self.lanes, self.ndim, displaced=displaced, behind=behind
        )

    def _slim_source(self, name: str, slim: Slim) -> SlimSource:
        *strides, step = self.layout.slim_strides(slim)
        rows = {axis: stride for axis, stride in zip(slim.axes, strides, strict=True) if axis < self.ndim - 1}
        return SlimSource(identifier(name), rows, self.layout.tiled(slim), step if slim.series else 0)

    @cached_property
    def levels_used(self) -> list[Place]:
        """Ring levels that the program uses."""
        used = {self.program.places[name] for name in self.program.reads()}
        used |= {a.target for nest in self.program.nests for a in nest.assigns} | {s.target for s in self.program.scatters}
        used |= {each.target for nest in self.program.nests for each in nest.refills}
        used |= {strip.place for strip in self.program.strips}
        used |= {self.program.places[total.source] for total in self.program.totals if total.source not in self.slim}
        return sorted((p for p in used if p.level is not None), key=lambda p: (p.array, p.level or 0))

    def stream_row(self, row: int) -> str:
        return "n" if row == 0 else f"n + {row}"

    # work done cell by cell

    def cell_writer(self, rows: tuple[str, ...], x: str, prefix: str) -> ExpressionWriter:
        return ExpressionWriter(self.text, CellLoader(self.sources, rows, x), 1, prefix)

    def target_cell(self, place: Place, rows: Sequence[str | int], x: str) -> str:
        """A cell of the target, at storage rows and a padded position."""
        return self.stored(place).cell(row_start(rows, self.layout.strides), x, self.lanes)

    def put_cell(self, place: Place, rows: Sequence[str | int], x: str, value: str) -> None:
        """Write a cell, at storage rows and a padded position."""
        row, stored = row_start(rows, self.layout.strides), self.stored(place)
        index = f"{row}{x}" if self.lanes == 1 else f"{row}(({x}) >> {self.lanes.bit_length() - 1})"
        with self._where_stored(place, index):
            inside = dataclasses.replace(stored, array=self._inside(place), lead="").cell(row, x, self.lanes) if stored.chunks else ""
            self.text(f"{stored.cell(row, x, self.lanes)} = {_within(inside, value, 'F(0.0)')}")

    def put_tile(self, place: Place, index: str, value: str) -> None:
        """Write a tile by its number."""
        with self._where_stored(place, index):
            self._put_tile(place, index, value)

    def _put_tile(self, place: Place, index: str, value: str) -> None:
        stored = self.stored(place)
        inside = f"{self._inside(place)}[{stored.address(index)}]" if stored.chunks else ""
        self.text(f"{stored.tile(index)} = {_within(inside, value, 'Tile(0.0)')}")

    def _where_stored(self, place: Place, index: str) -> AbstractContextManager[None]:
        """A block for the case that a tile of a sparse field is stored. Tiles of other fields always are."""
        stored = self.stored(place)
        return self.text.block(f"if {stored.chunk_of(index)} > 0") if stored.chunks else nullcontext()

    def _inside(self, place: Place) -> str:
        """The array with the cells of a sparse field's region."""
        return f"{self._regions[self.sparse[place.array]]}_inside"

    def order(self, body: Sequence[Node]) -> Mapping[int, Shape]:
        """The order in which operands of a body are written, for those whose text is to be that of another one."""
        return {}

    def put_values(self, values: Sequence[tuple[Place, str, Node, bool]]) -> None:
        """Write expressions at the tile `at`: place, number of the tile, expression, and whether it is added.

        All are computed before any is written. Expressions for a sparse field are computed only where it is stored, unless they
        read values that are written where other fields are stored.
        """
        order = self.order([node for _, _, node, _ in values])
        values = sorted(values, key=lambda value: order[value[2].id]) if order else values
        writer = TileWriter(self.text, self.sources, order)
        found: dict[int, str] = {}
        later: dict[tuple[str, str], list[int]] = {}
        written = {(place.array, index): self.stored(place).chunks for place, index, _, _ in values if place.array in self.sparse}
        for number, (place, index, node, _) in enumerate(values):
            read = {(self.program.places[name].array, index) for name in self.program.reads([node]) if name in self.program.places}
            chunks = self.stored(place).chunks
            if chunks and all(written[each] == chunks for each in read & written.keys()):
                later.setdefault((chunks, index), []).append(number)
            else:
                found[number] = writer(node)
        for (_, index), numbers in later.items():
            with writer.block(f"if {self.stored(values[numbers[0]][0]).chunk_of(index)} > 0"):
                self._put(values, {number: writer(values[number][2]) for number in numbers}, self._put_tile)
        self._put(values, found, self.put_tile)

    def _put(
        self, values: Sequence[tuple[Place, str, Node, bool]], found: Mapping[int, str], put: Callable[[Place, str, str], None]
    ) -> None:
        for number, value in found.items():
            place, index, node, accumulate = values[number]
            if node.op == "const":
                value = f"Tile({value})"
            put(place, index, f"{self.stored(place).tile(index)} + {value}" if accumulate else value)

    @property
    def first_column(self) -> int:
        """Padded position of the first cell along the last axis."""
        return self.layout.halo_tiles * self.lanes

    def write_scatter(self, scatter: PointScatter, index: int) -> None:
        """target[cell] += factor * sum of the stream over the cell's members, for the cell in table row `e`."""
        name = identifier(scatter.points)
        rows = tuple(f"s{index}_{row}" for row in self.rows)
        for column, row in enumerate(rows):
            self.text(f"{row} = {name}_cells[e, {column}]")
        self.text(f"s{index}_x = {name}_cells[e, {len(rows)}]")
        self.text(f"s{index} = F(0.0)")
        with self.text.block(f"for q in range({name}_starts[e], {name}_starts[e + 1])"):
            self.text(f"s{index} = s{index} + {name}_weights[q] * {identifier(scatter.stream)}[{self.stream_row(0)}, {name}_members[q]]")
        factor = self.cell_writer(rows, f"s{index}_x", f"s{index}_v")(scatter.factor)
        x = f"s{index}_x"
        self.put_cell(scatter.target, rows, x, f"{self.target_cell(scatter.target, rows, x)} + {factor} * s{index}")

    def write_gather(self, gather: PointGather, index: str) -> None:
        """stream[row, point] = weighted sum over the point's cells, for point `r`."""
        name, stream = identifier(gather.points), f"{identifier(gather.stream)}[{self.stream_row(gather.row)}, r]"
        rows = tuple(f"g{index}_{row}" for row in self.rows)
        self.text(f"g{index} = F(0.0)")
        with self.text.block(f"for q in range({name}_point_starts[r], {name}_point_starts[r + 1])"):
            for column, row in enumerate(rows):
                self.text(f"{row} = {name}_point_cells[q, {column}]")
            self.text(f"g{index}_x = {name}_point_cells[q, {len(rows)}]")
            value = self.cell_writer(rows, f"g{index}_x", f"g{index}_v")(gather.node)
            self.text(f"g{index} = g{index} + {name}_point_weights[q] * {value}")
        self.text(f"{stream} = {stream} + g{index}" if gather.accumulate else f"{stream} = g{index}")

    def write_strip(self, strip: Strip, back: bool) -> None:
        """Copy the tile in table row `e` to the array of kept values, or restore it."""
        name = identifier(strip.name)
        kept = f"{name}_strip[n * {name}_tiles.shape[0] + e]"
        tile = f"{identifier(strip.place.array)}[{self.lead(strip.place)}{name}_tiles[e]]"
        self.text(f"{tile} = {kept}" if back else f"{kept} = {tile}")

    def write_total(self, total: Total, kept: Mapping[int, str]) -> None:
        """The total at one place of the target. `kept` has the source of the row of each of its axes, or of the tile.

        Tiles are summed lane by lane, full ones first, and long rows in parts of `PART`.
        """
        text, layout, last = self.text, self.layout, self.ndim - 1
        names = {axis: kept.get(axis, name) for axis, name in enumerate(self.rows[:last])} | {last: kept.get(last, "j")}
        slim = self.slim.get(total.source)
        step = "{0} + {1}" if total.how == "sum" else LARGER
        start = "F(0.0)" if total.how == "sum" else "F(-ti.math.inf)"

        def value(column: str) -> str:
            if slim is not None:
                source = self._slim_source(total.source, slim)
                lead = source.lead([names[axis] for axis in range(last)], (0,) * self.ndim)
                return f"{source.array}[{lead}{column}]" if source.tiled else f"{source.array}[{lead.removesuffix(' + ')}]"
            place = self.program.places[total.source]
            return self.stored(place).tile(f"{row_start(self._rows_at(names), layout.strides)}{column}")

        across = last in total.along and last not in kept
        tiled = last in total.along and self.lanes > 1
        text(f"total = Tile({start})" if tiled else f"total = {start}")
        if across:
            text(f"rest = {start}")
        with ExitStack() as loops:
            for axis in total.along:
                if axis < last and axis not in kept:
                    first, count = layout.halo[axis], layout.shape[axis]
                    loops.enter_context(text.block(f"for {names[axis]} in range({first}, {first + count})"))
            if not across:
                text(f"total = {step.format('total', value(names[last]))}")
            else:
                self._write_row_total(step, start, value)
        if across and self.lanes > 1:
            text("of_lanes = total[0]")
            for part in (*(f"total[{lane}]" for lane in range(1, self.lanes)), "rest"):
                text(f"of_lanes = {step.format('of_lanes', part)}")
        found = "of_lanes" if across and self.lanes > 1 else step.format("total", "rest") if across else "total"
        target = self._slim_source(total.target, total.slim)
        lead = target.lead([names.get(axis, "") for axis in range(last)], (0,) * self.ndim)
        place = f"{target.array}[{lead}{names[last]}]" if target.tiled else f"{target.array}[{lead.removesuffix(' + ') or '0'}]"
        text(f"{place} = {place} + {found}" if total.accumulate else f"{place} = {found}")

    def _write_row_total(self, step: str, start: str, value: Callable[[str], str]) -> None:
        """Add the cells of a row to `total`, lane by lane, and those of a partial last tile to `rest`."""
        text, layout = self.text, self.layout
        first, whole = layout.halo_tiles, layout.shape[-1] // self.lanes
        parts = whole // PART if whole >= 2 * PART else 0
        if parts:
            with text.block(f"for b in range({parts})"):
                text(f"part = Tile({start})" if self.lanes > 1 else f"part = {start}")
                with text.block(f"for j in range({first} + b * {PART}, {first + PART} + b * {PART})"):
                    text(f"part = {step.format('part', value('j'))}")
                text(f"total = {step.format('total', 'part')}")
        if whole > parts * PART:
            with text.block(f"for j in range({first + parts * PART}, {first + whole})"):
                text(f"total = {step.format('total', value('j'))}")
        for lane in range(layout.shape[-1] - whole * self.lanes):
            text(f"rest = {step.format('rest', f'{value(str(first + whole))}[{lane}]')}")

    def _rows_at(self, names: Mapping[int, str]) -> list[str | int]:
        """Rows in storage: those of all axes but the last, or the single row of a one-dimensional grid."""
        return [names[axis] for axis in range(self.ndim - 1)] if self.ndim > 1 else [0]

    def folds(self, nest: Nest) -> list[tuple[Rules, tuple[int, ...], list[int]]]:
        """Groups of a nest's assignments that are computed outside the grid: their common rules, how far, and their numbers."""
        found: dict[Rules, list[int]] = {}
        for index, assign in enumerate(nest.assigns):
            if any(assign.outside):
                found.setdefault(assign.fold, []).append(index)
        far = [tuple(max(nest.assigns[i].outside[axis] for i in which) for axis in range(self.ndim)) for which in found.values()]
        return list(zip(found, far, found.values(), strict=True))

    def ghosts(self, rules: Rules, reach: tuple[int, ...], axis: int) -> list[Ghost]:
        """Cells beyond both sides of an axis, with positions counted in storage."""
        first = self.first_column if axis == self.ndim - 1 else self.layout.halo[axis]
        return [
            Ghost(first + ghost.position, tuple((first + cell, weight) for cell, weight in ghost.cells), ghost.constant)
            for ghost in ghosts(rules[axis], self.layout.shape[axis], reach[axis])
        ]

    def weighted(self, weight: float, source: str) -> str:
        """Source of a value times a weight."""
        return source if weight == 1 else f"{literal(weight)} * {source}"

    def combined(self, terms: Sequence[tuple[float, str]], constant: float, nothing: str) -> str:
        """Source of a sum of weighted values and a constant. `nothing` is the source of 0."""
        out = " + ".join(self.weighted(weight, source) for weight, source in terms) or nothing
        return f"{out} + {literal(constant)}" if constant else out


def _within(inside: str, value: str, zero: str) -> str:
    """Source of a value. A sparse field is 0 outside of its region."""
    return f"ti.select({inside} > F(0.5), {value}, {zero})" if inside else value


def _lanewise(function: Callable[..., object], element: Any) -> object:
    """Apply `function` to each lane of tiles. An argument that is no tile is passed to all lanes."""

    @expression
    def of_lanes(tile: Any, *others: Any) -> Any:
        lanes = [lanes_of(other) if other.is_tensor() else [other] * element.n for other in (tile, *others)]
        return tile_of([function(*values) for values in zip(*lanes, strict=True)], element.dtype)

    return of_lanes


def _splice(element: Any, lane: int) -> object:
    """A function that returns a tile of values which starts at `lane` of the first of two neighbouring tiles."""

    @expression
    def splice(first: Any, second: Any) -> Any:
        return tile_of(lanes_of(first)[lane:], element.dtype, lanes_of(second)[:lane])

    return splice


def _tile_from(element: Any) -> object:
    """A function that returns the tile of the cells that begin `first` cells after the tile `index` of an array."""

    @expression
    def from_cell(array: Any, index: Any, first: int) -> Any:
        return tile_from(array, index, first, element.n)

    return from_cell
