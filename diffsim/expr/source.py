"""Taichi source of expressions, for a tile of lanes (or a scalar if there is one lane) and for a single cell."""

from __future__ import annotations

import itertools
import keyword
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import NamedTuple

from diffsim.elementwise.source import Dialect, library
from diffsim.elementwise.table import FUNCTIONS
from diffsim.expr.graph import CELL, OPERATIONS, TILE, Node, Offset, ordered
from diffsim.expr.shapes import Shape, arguments


class Text:
    """Lines of source under construction."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.depth = 0

    def __call__(self, line: str) -> None:
        self.lines.append("    " * self.depth + line)

    @contextmanager
    def block(self, header: str) -> Iterator[None]:
        """Lines written inside are indented under `header:`."""
        self(header + ":")
        self.depth += 1
        before = len(self.lines)
        yield
        if len(self.lines) == before:
            self("pass")
        self.depth -= 1

    def __str__(self) -> str:
        return "\n".join(self.lines) + "\n"


_OWN_NAMES = re.compile(
    r"[a-z]\d+(_\w+)?|[bcehijknqrtwx]|ii|kk|lo|hi|ti|at|F|Tile|total|rest|part|of_lanes|control|arrivals|begin|turn|round|plane|rolled|first|last|below|above|left|right|called"
    r"|back|band|box|end|front|height|narrow|number|place|seen|gate|[ijk]_by|source_digest|looks|openings|sweep|blocks|ahead|margin|begun|low|high|bottom|top|fresh|start|pieces?|tile_from|.*__by_m?\d+|(nest|gather|strip|splice|rows_of|weight)_\d+.*|tile_.*|.*_(at|lap|first|start)_\d+|lap"
)


def identifier(name: str) -> str:
    """A field's name as a Python identifier that no local variable of a kernel has."""
    plain = name.replace(" ", "__")  # no field of an equation has a double underscore
    return f"{plain}__field" if _OWN_NAMES.fullmatch(plain) or keyword.iskeyword(plain) else plain


class ExpressionWriter:
    """Writes each node once, arguments first, in the order in which the roots need them.

    Args:
        text: receives the lines.
        load: returns the source of a read. It may write lines itself.
        lanes: number of values in a read.
        prefix: prefix of the variables, so that several writers can share a scope.
        order: shapes of nodes whose operands are written in the order of these. Expressions of one shape then have one text.
    """

    def __init__(
        self, text: Text, load: Callable[[str, Offset], str], lanes: int, prefix: str = "v", order: Mapping[int, Shape] | None = None
    ) -> None:
        self.text = text
        self.lanes = lanes
        self.load = load
        self.prefix = prefix
        self.order = order or {}
        self.names: dict[int, str] = {}

    def __call__(self, root: Node) -> str:
        """Write the operands of `root` and return the name of (or the literal for) its value."""
        stack = [root]
        while stack:
            node = stack[-1]
            if node.id in self.names:
                stack.pop()
                continue
            operands = arguments(node, self.order)
            missing = [a for a in operands if a.id not in self.names]
            if missing:
                stack.extend(reversed(missing))
                continue
            stack.pop()
            if node.op == "const":
                self.names[node.id] = literal(node.data)
            elif node.op == "read":
                self.names[node.id] = self.load(*node.data)
            else:
                name = f"{self.prefix}{node.id}"
                self.text(f"{name} = {operation_source(node, self.names, self.lanes, operands)}")
                self.names[node.id] = name
        return self.names[root.id]


@dataclass(frozen=True)
class SlimSource:
    """The source of a field that varies along some axes only.

    Attributes:
        array: its identifier.
        rows: axis other than the last -> values, or tiles, from one row to the next.
        tiled: whether it varies along the last axis, in tiles.
        step: values, or tiles, from one time step to the next; 0 if it does not vary in time.
    """

    array: str
    rows: Mapping[int, int]
    tiled: bool
    step: int

    def lead(self, rows: Sequence[str], offset: Offset) -> str:
        """The start of the row at `offset`, as source that ends in " + "."""
        terms = [_times("n", self.step)] if self.step else []
        terms += [_times(_plus(rows[axis], offset[axis]), stride) for axis, stride in self.rows.items()]
        return "".join(f"{term} + " for term in terms)

    def value(self, rows: Sequence[str], offset: Offset) -> str:
        """The value in the row at `offset`, for a field that does not vary along the last axis."""
        return f"{self.array}[{self.lead(rows, offset).removesuffix(' + ') or '0'}]"


@dataclass(frozen=True)
class StoredSource:
    """The source of a stored field.

    Attributes:
        array: its identifier.
        lead: start of its level, such as "p_at_1 + ", or "".
        chunks: for a sparse field: the array with the address of each chunk of tiles; "" for others.
        chunk: number of tiles in a chunk, a power of two.
    """

    array: str
    lead: str = ""
    chunks: str = ""
    chunk: int = 1

    def chunk_of(self, index: str) -> str:
        """The address of the chunk of a tile; 0 if it is not stored."""
        return f"{self.chunks}[{index}]" if self.chunk == 1 else f"{self.chunks}[({index}) >> {self.chunk.bit_length() - 1}]"

    def address(self, index: str) -> str:
        """The address of a tile within a level."""
        if not self.chunks:
            return index
        if self.chunk == 1:
            return self.chunk_of(index)
        return f"{self.chunk_of(index)} * {self.chunk} + (({index}) & {self.chunk - 1})"

    def tile(self, index: str) -> str:
        """A tile, by its number in a field that is stored at all cells."""
        return f"{self.array}[{self.lead}{self.address(index)}]"

    def cell(self, row: str, x: str, lanes: int) -> str:
        """A cell, `x` counted from the start of the stored row, whose first tile is `row`, source that ends in " + ", or ""."""
        if lanes == 1:
            return self.tile(f"{row}{x}")
        shift = lanes.bit_length() - 1
        return f"{self.tile(f'{row}(({x}) >> {shift})')}[({x}) & {lanes - 1}]"


class Ring(NamedTuple):
    """A field that is kept for a few rows (planes in three dimensions), beside others.

    Attributes:
        start: source of the first tile of all.
        at: its first tile among them.
        mask: rows less one.
        size: tiles of a row.
    """

    start: str
    at: int
    mask: int
    size: int

    def row(self, sources: Sources, offset: Offset) -> str:
        """Source of the number of tile `j` in the row at `offset`, less `at`."""
        terms = [self.start]
        if sources.ndim > 1:
            terms.append(f"(({_plus(sources.rows[0], offset[0])}) & {self.mask}) * {self.size}")
        if sources.ndim == 3:
            terms.append(f"({_plus(sources.rows[1], offset[1])}) * {sources.strides[1]}")
        return " + ".join((*terms, "j"))


@dataclass(frozen=True)
class Sources:
    """The sources of all fields in expressions.

    Attributes:
        arrays: stored field -> its source.
        slim: field that varies along some axes only -> its source.
        inline: field that is not stored -> its expression, which reads stored fields at the same cell.
        rows: names of the row indices, one a leading storage axis.
        strides: tiles from one row to the next along each leading storage axis.
        lanes: lanes of a tile.
        ndim: axes of the grid.
        rings: fields that are kept for a few rows.
        displaced_kept: cells -> identifier of the memory of these fields, displaced by so many cells, from where they are read at other
            lanes.
        displaced: (identifier of an array, cells) -> identifier of the same array, displaced by so many cells. Tiles of these arrays are
            read from memory wherever they begin.
        behind: tiles from the farthest tile that an expression may read to the present one.
    """

    arrays: Mapping[str, StoredSource]
    slim: Mapping[str, SlimSource]
    inline: Mapping[str, Node]
    rows: tuple[str, ...]
    strides: tuple[int, ...]
    lanes: int
    ndim: int
    rings: Mapping[str, Ring] = field(default_factory=dict)
    displaced_kept: Mapping[int, str] = field(default_factory=dict)
    displaced: Mapping[tuple[str, int], str] = field(default_factory=dict)
    behind: int = 0

    def displacement(self, offset: Offset) -> int:
        """Tiles from a tile to that of the row at `offset`."""
        return sum(o * stride for o, stride in zip(offset[:-1] or (0,), self.strides, strict=True))


class TileLoader:
    """Reads whole tiles around the present one, number `at` of its level.

    Fields are flat arrays of tiles: a neighbour is a constant away, which costs one addition. (With an index an axis, Taichi
    multiplies strides again for each read: the order-4 step ran at 0.75 of the speed.)

    Reads across tiles are either spliced from two of them, or read from memory as they lie there, where the array comes displaced by the
    lanes of the read. LLVM would make splices of loads from one array, because they share cells. All reads of a level have one index, that
    of its farthest tile, and constant displacements from there, which cost nothing.
    """

    def __init__(self, text: Text, sources: Sources) -> None:
        self.text, self.sources = text, sources
        self.loaded: dict[str, str] = {}
        self._number = itertools.count()

    def __call__(self, name: str, offset: Offset) -> str:
        tiles, lane = divmod(offset[-1], self.sources.lanes)
        if name in self.sources.slim and not self.sources.slim[name].tiled:
            return self._tile(name, offset, 0)
        if name in self.sources.rings and lane and offset[-1] in self.sources.displaced_kept:
            return self._read_kept(self.sources.rings[name], offset)
        displaced = self._displaced(name, offset, lane)
        if displaced is not None:
            return displaced
        first = self._tile(name, offset, tiles)
        return self._cached(f"splice_{lane}({first}, {self._tile(name, offset, tiles + 1)})") if lane else first

    def _read_kept(self, ring: Ring, offset: Offset) -> str:
        """A tile of a kept value from memory, wherever it begins."""
        array, row = self.sources.displaced_kept[offset[-1]], self._cached(ring.row(self.sources, offset))
        return self._cached(f"tile_from({array}, {row}, {ring.at * self.sources.lanes})")

    def _displaced(self, name: str, offset: Offset, lane: int) -> str | None:
        """A tile of an array that comes displaced, wherever it begins; None for other arrays."""
        sources = self.sources
        stored = sources.arrays.get(name)
        if stored is None or name in sources.inline or name in sources.rings:
            return None
        array = sources.displaced.get((stored.array, offset[-1] if lane else 0))
        if array is None:
            return None
        farthest = self._cached(f"{stored.lead}{_plus('at', -sources.behind)}")
        first = (sources.displacement(offset) + sources.behind) * sources.lanes + (0 if lane else offset[-1])
        return self._cached(f"tile_from({array}, {farthest}, {first})")

    def _tile(self, name: str, offset: Offset, tile: int) -> str:
        """The tile `tile` to the right of the present one, in the row at `offset`."""
        sources = self.sources
        if name in sources.inline:
            return self._inline(sources.inline[name], offset, tile)
        if name in sources.slim:
            slim = sources.slim[name]
            if slim.tiled:
                return self._cached(f"{slim.array}[{slim.lead(sources.rows, offset)}{_plus('j', tile)}]")
            return self._cached(f"Tile({slim.value(sources.rows, offset)})")
        if name in sources.rings:
            return self._cached(self.kept(name, offset, tile))
        return self._cached(sources.arrays[name].tile(_plus("at", sources.displacement(offset) + tile)))

    def kept(self, name: str, offset: Offset, tile: int = 0) -> str:
        """A tile of a kept value. Those of a row have one address but for a number."""
        ring = self.sources.rings[name]
        return f"rolled[{_plus(self._cached(ring.row(self.sources, offset)), ring.at + tile)}]"

    def _inline(self, root: Node, offset: Offset, tile: int) -> str:
        names: dict[int, str] = {}
        for node in ordered([root]):
            if node.op == "const":
                names[node.id] = literal(node.data)
            elif node.op == "read":
                names[node.id] = self._tile(node.data[0], offset, tile)
            else:
                names[node.id] = self._cached(operation_source(node, names, self.sources.lanes))
        return names[root.id]

    def _cached(self, source: str) -> str:
        if source not in self.loaded:
            self.loaded[source] = f"a{next(self._number)}"
            self.text(f"{self.loaded[source]} = {source}")
        return self.loaded[source]


class TileWriter(ExpressionWriter):
    """Writes expressions for the tile number `at`."""

    def __init__(self, text: Text, sources: Sources, order: Mapping[int, Shape] | None = None) -> None:
        self._tiles = TileLoader(text, sources)
        self.kept = self._tiles.kept
        super().__init__(text, self._tiles, sources.lanes, order=order)

    @contextmanager
    def block(self, header: str) -> Iterator[None]:
        """Lines in a separate block with local variables."""
        names, loaded = dict(self.names), dict(self._tiles.loaded)
        with self.text.block(header):
            yield
        self.names, self._tiles.loaded = names, loaded


class CellLoader:
    """Reads of the single cell at storage row `rows` and padded position `x` along the last axis."""

    def __init__(self, sources: Sources, rows: tuple[str, ...], x: str) -> None:
        self.sources, self.rows, self.x = sources, rows, x

    def __call__(self, name: str, offset: Offset) -> str:
        sources, last = self.sources, _plus(self.x, offset[-1])
        if name in sources.inline:
            names: dict[int, str] = {}
            for node in ordered([sources.inline[name]]):
                match node.op:
                    case "const":
                        names[node.id] = literal(node.data)
                    case "read":
                        names[node.id] = self(node.data[0], offset)
                    case _:
                        names[node.id] = f"({operation_source(node, names, 1)})"
            return names[sources.inline[name].id]
        if name in sources.slim:
            slim = sources.slim[name]
            if not slim.tiled:
                return slim.value(self.rows, offset)
            return StoredSource(slim.array).cell(slim.lead(self.rows, offset), last, sources.lanes)
        return sources.arrays[name].cell(row_start(self.rows, sources.strides, sources.displacement(offset)), last, sources.lanes)


BINARY = ("power", "power_log")
"""Operations on two fields that are neither arithmetic nor functions of the table."""
_BOUNDED = "zero = (x == {0}) & (y >= {0})"
EXTREMA: Mapping[str, str] = {"min": "<", "max": ">"}
"""The extremum of a value and a constant -> how the constant compares where it is taken. NaN stays, since no comparison with it holds."""
POWERS: Mapping[str, tuple[str, ...]] = {
    "power": (
        "a = {abs}(x)",
        "r = {pow}(ti.select(a == {0}, {1}, a), y)",
        "r = ti.select(a == {0}, ti.select(y > {0}, {0}, ({0} - y) / a), r)",
        "half = {0.5} * y",
        "signed = ti.select(ti.floor(half) < half, {0} - r, r)",
        "r = ti.select(x < {0}, ti.select(ti.floor(y) == y, signed, (a - a) / (a - a)), r)",
        "return ti.select(y == {0}, {1}, r)",
    ),
    "power_log": (_BOUNDED, "return ti.select(zero, {0}, {log}(ti.select(zero, {1}, x)) * {power}(x, y))"),
}
"""Lines of powers of single values. GPUs define `pow` for positive bases alone: SPIR-V has no 0 ** 0 and no sign of (-2) ** 3."""
TILE_POWERS = {"power_log": (_BOUNDED, "return ti.select(zero, {0}, {log}(ti.select(zero, {1}, x)) * {pow}(x, y))")}
"""Lines of powers of tiles, which only CPUs have: there `pow` is that of C."""


def literal(value: float) -> str:
    return f"F({value!r})"


def operation_source(node: Node, names: Mapping[int, str], lanes: int, operands: Sequence[Node] | None = None) -> str:
    """Source of an operation on named arguments, tiles of `lanes` values, in the order of `operands` if it does not matter."""
    data = None if node.data is None else literal(node.data)
    args = [names[a.id] for a in operands or node.args]
    if (node.op in FUNCTIONS or node.op in BINARY) and lanes > 1:  # a function of two tiles reads lanes of both
        args = [f"Tile({name})" if a.op == "const" else name for a, name in zip(node.args, args, strict=True)]
    if node.op in EXTREMA and (bound := next((place for place, a in enumerate(node.args) if a.op == "const"), None)) is not None:
        return f"ti.select({args[bound]} {EXTREMA[node.op]} {args[1 - bound]}, {args[bound]}, {args[1 - bound]})"
    return OPERATIONS[node.op].written(args, data, lanes)


def with_functions(source: str) -> str:
    """The source of a kernel with that of the functions of the table that it calls, for single values and for tiles."""
    cells = library(source, Dialect(f"{CELL}{{name}}", "ti.{name}", "F({value})"), POWERS, BINARY)
    tiles = library(source, Dialect(f"{TILE}{{name}}", "tile_{name}", "Tile(F({value}))"), TILE_POWERS, BINARY)
    return "\n".join(text for text in (cells, tiles, source) if text)


def row_start(rows: Sequence[str | int], strides: Sequence[int], displacement: int = 0) -> str:
    """Number of the first tile of a row, as source that ends in " + "."""
    known = displacement + sum(row * stride for row, stride in zip(rows, strides, strict=True) if isinstance(row, int))
    terms = [f"({row}) * {stride}" for row, stride in zip(rows, strides, strict=True) if not isinstance(row, int)]
    return "".join(f"{term} + " for term in [*terms, *([str(known)] if known else [])])


def _times(index: str, stride: int) -> str:
    if stride == 1:
        return index
    return f"({index}) * {stride}" if " " in index else f"{index} * {stride}"


def _plus(name: str, number: int) -> str:
    if number == 0:
        return name
    return f"{name} {'+' if number > 0 else '-'} {abs(number)}"
