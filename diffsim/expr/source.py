"""Expressions as Taichi source: once for a tile of lanes (or a scalar, when there is one lane), once for a single cell."""

from __future__ import annotations

import keyword
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from diffsim.expr.graph import OPERATIONS, Node, Offset


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


_OWN_NAMES = re.compile(r"[a-z]\d+(_\w+)?|[bcehijknqrtwx]|ii|kk|lo|hi|ti|F|Tile|ok\d|side\d|count|control|arrivals|begin|turn|.*_at_\d+")


def identifier(name: str) -> str:
    """A field's name as a Python identifier that no local variable of a kernel has."""
    plain = "".join(c if c.isalnum() or c == "_" else "_" for c in name)
    return f"{plain}_field" if _OWN_NAMES.fullmatch(plain) or keyword.iskeyword(plain) else plain


class ExpressionWriter:
    """Writes each node once, arguments first, in the order in which the roots need them.

    Args:
        text: where the lines go.
        load: the source of a read; it may write lines of its own.
        prefix: of the variables, so that several writers can share a scope.
    """

    def __init__(self, text: Text, load: Callable[[str, Offset], str], prefix: str = "v") -> None:
        self.text = text
        self.load = load
        self.prefix = prefix
        self.names: dict[int, str] = {}

    def __call__(self, root: Node) -> str:
        """Write what `root` needs and return the name of (or the literal for) its value."""
        stack = [root]
        while stack:
            node = stack[-1]
            if node.id in self.names:
                stack.pop()
                continue
            missing = [a for a in node.args if a.id not in self.names]
            if missing:
                stack.extend(reversed(missing))
                continue
            stack.pop()
            if node.op == "const":
                self.names[node.id] = f"F({node.data!r})"
            elif node.op == "read":
                self.names[node.id] = self.load(*node.data)
            else:
                name = f"{self.prefix}{node.id}"
                data = None if node.data is None else f"F({node.data!r})"
                self.text(f"{name} = " + OPERATIONS[node.op].source.format(*(self.names[a.id] for a in node.args), data=data))
                self.names[node.id] = name
        return self.names[root.id]


class TileLoader:
    """Reads of whole tiles at row `rows` and tile `j`; values from neighbouring tiles are spliced from two of them.

    Args:
        text: where the loads are written.
        prefixes: field -> (array identifier, leading index text such as "p_1, " or ""). Profiles: see `profiles`.
        rows: names of the row indices, one a leading storage axis.
        lanes: lanes of a tile.
        profiles: one-axis fields -> (array identifier, axis).
        ndim: axes of the grid.
    """

    def __init__(
        self, text: Text, prefixes: Mapping[str, tuple[str, str]], rows: tuple[str, ...], lanes: int, profiles: Mapping[str, tuple[str, int]], ndim: int
    ) -> None:
        self.text, self.prefixes, self.rows, self.lanes, self.profiles, self.ndim = text, prefixes, rows, lanes, profiles, ndim
        self.loaded: dict[str, str] = {}

    def __call__(self, name: str, offset: Offset) -> str:
        if name in self.profiles:
            array, axis = self.profiles[name]
            if axis < self.ndim - 1:
                return self._cached(f"{array}[{_plus(self.rows[axis], offset[axis])}]")
            return self._spliced(lambda tile: f"{array}[{tile}]", offset[-1])
        array, lead = self.prefixes[name]
        rows = row_indices(self.rows, offset)
        return self._spliced(lambda tile: f"{array}[{lead}{rows}{tile}]", offset[-1])

    def _spliced(self, element: Callable[[str], str], cells: int) -> str:
        tiles, lane = divmod(cells, self.lanes)
        first = self._cached(element(_plus("j", tiles)))
        if lane == 0:
            return first
        second = self._cached(element(_plus("j", tiles + 1)))
        return self._cached(f"splice_{lane}({first}, {second})")

    def _cached(self, source: str) -> str:
        if source not in self.loaded:
            self.loaded[source] = f"a{len(self.loaded)}"
            self.text(f"{self.loaded[source]} = {source}")
        return self.loaded[source]


class CellLoader:
    """Reads of the single cell at storage row `rows` and padded position `x` along the last axis."""

    def __init__(
        self, prefixes: Mapping[str, tuple[str, str]], rows: tuple[str, ...], x: str, lanes: int, profiles: Mapping[str, tuple[str, int]], ndim: int
    ) -> None:
        self.prefixes, self.rows, self.x, self.lanes, self.profiles, self.ndim = prefixes, rows, x, lanes, profiles, ndim

    def __call__(self, name: str, offset: Offset) -> str:
        last = _plus(self.x, offset[-1])
        if name in self.profiles:
            array, axis = self.profiles[name]
            return f"{array}[{_plus(self.rows[axis], offset[axis])}]" if axis < self.ndim - 1 else cell(array, "", last, self.lanes)
        array, lead = self.prefixes[name]
        return cell(array, lead + row_indices(self.rows, offset), last, self.lanes)


def cell(array: str, lead: str, x: str, lanes: int) -> str:
    """Source of one cell, `x` counted from the start of the stored row."""
    if lanes == 1:
        return f"{array}[{lead}{x}]"
    shift = lanes.bit_length() - 1
    return f"{array}[{lead}({x}) >> {shift}][({x}) & {lanes - 1}]"


def row_indices(rows: tuple[str, ...], offset: Offset) -> str:
    """Index text of the leading axes, with a trailing comma; a one-dimensional grid is a single row."""
    offsets = offset[:-1] or (0,)
    return "".join(f"{_plus(row, o)}, " for row, o in zip(rows, offsets, strict=True))


def _plus(name: str, number: int) -> str:
    if number == 0:
        return name
    return f"{name} {'+' if number > 0 else '-'} {abs(number)}"
