"""Writes the kernel of a tile program: each operation, entry by entry, for as many tiles as a register has lanes.

Operations on entries of one shape wait in a *group*, and are written as one loop when something needs their results in another way: so
the values between them stay in registers. Results are stored in scratch memory if something reads them later. A value that nothing else
refers to is written in place when a program assigns to a part of it.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np

from diffsim.errors import DiffsimError, TileError
from diffsim.expr.source import Text
from diffsim.tile.source.values import Affine, Buffer, Uniform, Value, View, coalesced, kind_of, row_strides, stored, strided
from diffsim.tile.trace.program import Operation, Program, Variable

Entry = Callable[..., str]
"""Source of an entry of a result from sources of the entries of the operands."""


class Group:
    """Operations entry by entry on one shape that are still to be written.

    Attributes:
        shape: of their results.
        members: result -> (its entry's source from those of the operands, operands).
        held: buffers that they read.
    """

    def __init__(self, shape: tuple[int, ...]) -> None:
        self.shape = shape
        self.members: dict[Variable, tuple[Entry, tuple[Any, ...]]] = {}
        self.held: list[Buffer] = []


class Writer:
    """The body of a kernel under construction.

    Attributes:
        text: lines so far.
        lanes: tiles at a time.
        scratch: entries of each kind that the scratch memory needs.
        constants: arrays of constants by kind, one after the other.
        checks: error and message of each place where values may turn out to be wrong.
    """

    def __init__(self, text: Text, lanes: int, limit: int) -> None:
        self.text, self.lanes, self.limit = text, lanes, limit
        self.scratch: Counter[str] = Counter()
        self.free: dict[str, list[tuple[int, int]]] = {}
        self.constants: dict[str, list[np.ndarray]] = {}
        self._places: dict[tuple[str, bytes], int] = {}
        self.checks: list[tuple[type[DiffsimError], str]] = []
        self.values: dict[Variable, Value] = {}
        self.uses: Counter[Variable] = Counter()
        self.groups: dict[tuple[int, ...], Group] = {}
        self.waiting: dict[Variable, Group] = {}
        self.place = ""
        self._names = 0

    # names and memory

    def name(self, prefix: str = "v") -> str:
        self._names += 1
        return f"{prefix}{self._names}"

    def variable(self, source: str) -> str:
        """A variable of the kernel with this value."""
        name = self.name()
        self.text(f"{name} = {source}")
        return name

    def allocate(self, shape: tuple[int, ...], kind: str) -> View:
        """Scratch memory for a value."""
        kept, size = stored(kind), max(math.prod(shape), 1)
        spaces = self.free.setdefault(kept, [])
        fitting = min((space for space in spaces if space[1] >= size), key=lambda space: space[1], default=None)
        if fitting is None:
            start = self.scratch[kept]
            self.scratch[kept] += size
            if 8 * sum(self.scratch.values()) > self.limit:
                raise TileError(
                    f"{self.place}: a tile program needs {8 * sum(self.scratch.values())} bytes of scratch memory for a tile, expected at "
                    f"most {self.limit}; use smaller tiles, or fewer turns of loops that are differentiated"
                )
        else:
            spaces.remove(fitting)
            start = fitting[0]
            if fitting[1] > size:
                spaces.append((start + size, fitting[1] - size))
        buffer = Buffer(kept, start, size)
        return View("s", kind, shape, row_strides(shape), Affine(start), buffer)

    def hold(self, value: Value) -> None:
        if isinstance(value, View) and value.buffer is not None:
            value.buffer.users += 1

    def release(self, value: Value | Buffer) -> None:
        buffer = value if isinstance(value, Buffer) else getattr(value, "buffer", None)
        if buffer is None:
            return
        buffer.users -= 1
        if buffer.users <= 0:
            self._freed(buffer)

    def _freed(self, buffer: Buffer) -> None:
        spaces = self.free.setdefault(buffer.kind, [])
        start, size = buffer.start, buffer.size
        for space in [s for s in spaces if s[0] + s[1] == start or s[0] == start + size]:
            spaces.remove(space)
            start, size = min(start, space[0]), size + space[1]
        spaces.append((start, size))

    def constant(self, array: np.ndarray) -> Value:
        """An array of constants; a number where all entries are equal."""
        array = np.asarray(array)
        kind = self.kind(array.dtype)
        first = array.flat[0] if array.size else array.dtype.type(0)
        if array.size <= 1 or ((array == first).all() and (kind not in "fd" or (np.signbit(array) == np.signbit(first)).all())):
            return Uniform(self.number(first, kind), kind, array.shape)
        kept = stored(kind)
        data = np.ascontiguousarray(array, {"f": np.float32, "d": np.float64, "i": np.int32, "n": np.int64}[kept])
        key = kept, data.tobytes()
        parts = self.constants.setdefault(kept, [])
        if key not in self._places:
            self._places[key] = sum(p.size for p in parts)
            parts.append(data.ravel())
        return View("c", kind, array.shape, row_strides(array.shape), Affine(self._places[key]))

    def kind(self, dtype: Any) -> str:
        try:
            return kind_of(dtype)
        except KeyError:
            raise TileError(
                f"{self.place or 'an argument'}: an array of {np.dtype(dtype)} in a tile program, expected float32, float64, int32, int64 "
                "or bool; convert it with astype"
            ) from None

    def number(self, value: Any, kind: str) -> str:
        """Source of a number."""
        if kind == "b":
            return f"({self.number(int(bool(value)), 'i')} != 0)"
        if kind in "fd":
            value = float(value)
            if value != value:
                return f"nan_{kind}(V_{kind}(F_{kind}(1.0)))"
            if math.isinf(value):
                return f"{'' if value > 0 else 'minus_'}inf_{kind}(V_{kind}(F_{kind}(1.0)))"
            return f"V_{kind}(F_{kind}({value!r}))"
        return f"V_{kind}(F_{kind}({int(value)}))"

    # reading and writing entries

    def read(self, value: Value, index: Sequence[Affine]) -> str:
        """Source of an entry."""
        if isinstance(value, Uniform):
            return value.text
        place, kept = value.at(index), stored(value.kind)
        if value.array == "s":
            text = f"s_{kept}[s0_{kept} + {place}]"
        elif value.array == "c":
            text = f"V_{kept}(c_{kept}[{place}])"
        elif value.array.startswith("u"):  # shared by all tiles
            one = f"{value.array}[{place}]"
            text = f"V_{kept}(ti.cast({one}, ti.i32))" if value.kind == "b" else f"V_{kept}({one})"
        else:
            entries = [f"{value.array}[{value.array}_at + {lane} * {value.array}_size + {place}]" for lane in range(self.lanes)]
            if value.kind == "b":
                entries = [f"ti.cast({entry}, ti.i32)" for entry in entries]
            # a register gets a name: compared where it is put together, a register of truth values is all true
            text = self.variable(self.gathered(entries))
        return f"({text} != 0)" if value.kind == "b" else text

    def gathered(self, entries: Sequence[str]) -> str:
        return f"ti.Vector([{', '.join(entries)}])" if self.lanes > 1 else entries[0]

    def assign(self, view: View, index: Sequence[Affine], source: str) -> None:
        """Write an entry of a value in scratch memory."""
        kept = stored(view.kind)
        source = f"ti.select({source}, V_i(F_i(1)), V_i(F_i(0)))" if view.kind == "b" else source
        self.text(f"s_{kept}[s0_{kept} + {view.at(index)}] = {source}")

    # loops

    @contextmanager
    def loops(self, shape: Sequence[int], strides: Sequence[Sequence[int]] = ()) -> Iterator[list[Affine]]:
        """Loops over the indices of a shape; neighbouring axes are one loop where these strides allow it."""
        index = [Affine() for _ in shape]
        opened = []
        for axes in coalesced(shape, strides) if strides else [(k,) for k, n in enumerate(shape) if n != 1]:
            count = math.prod(shape[k] for k in axes)
            name = self.name("i")
            block = self.text.block(f"for {name} in range({count})")
            block.__enter__()
            opened.append(block)
            index[axes[-1]] = Affine(0, ((name, 1),))
        yield index
        for block in reversed(opened):
            block.__exit__(None, None, None)

    def entries(self, shape: tuple[int, ...], target: View, operands: Sequence[Value], entry: Entry) -> None:
        """Write `entry` of the operands, which have this shape, to a value in scratch memory."""
        views = [v.strides for v in (target, *operands) if isinstance(v, View)]
        with self.loops(shape, views) as index:
            self.assign(target, index, entry(*(self.read(o, index) for o in operands)))

    def copied(self, source: Value, target: View) -> None:
        if math.prod(target.shape):
            self.entries(target.shape, target, (source,), lambda x: x)

    # values of the program

    def operand(self, operand: Any) -> Value:
        """The value of an operand, written out if it waits in a group."""
        if isinstance(operand, Variable):
            if operand in self.waiting:
                self.close(self.waiting[operand])
            return self.values[operand]
        if isinstance(operand, (bool, int, float)) and not hasattr(operand, "dtype"):
            return Uniform(repr(operand), "number")  # typed where it is used
        return self.constant(operand)

    def dtype(self, operand: Any) -> np.dtype[Any] | None:
        """The type of an operand; None of a Python number, which takes that of the others."""
        return getattr(operand, "dtype", None)

    def in_memory(self, value: Value) -> View:
        """A value in scratch memory, its rows side by side; the value itself if it is."""
        if isinstance(value, View) and value.array == "s" and value.contiguous:
            return value
        copy = self.allocate(value.shape, value.kind)
        self.copied(value, copy)
        return copy

    def give(self, variable: Variable, value: Value) -> None:
        """The value of a variable."""
        if not self.uses[variable]:
            self.hold(value)
            self.release(value)
            return
        self.values[variable] = value
        self.hold(value)

    def used(self, operand: Any) -> None:
        """An operation that reads an operand has been written, or holds the operand."""
        if not isinstance(operand, Variable):
            return
        self.uses[operand] -= 1
        if not self.uses[operand] and operand in self.values:
            self.release(self.values.pop(operand))

    # groups

    def join(self, operation: Operation, entry: Entry) -> None:
        """Let an operation entry by entry wait in the group of its shape."""
        (result,) = operation.results
        group = self.groups.get(result.shape)
        for operand in operation.operands:
            waiting = self.waiting.get(operand) if isinstance(operand, Variable) else None
            if waiting is not None and waiting is not group:
                self.close(waiting)
        group = self.groups.get(result.shape)
        if group is None:
            group = self.groups[result.shape] = Group(result.shape)
        resolved: list[Any] = []
        for operand in operation.operands:
            if isinstance(operand, Variable) and operand in self.waiting:
                resolved.append(operand)
                continue
            value = self.operand(operand)
            if isinstance(value, View) and value.buffer is not None:
                self.hold(value)
                group.held.append(value.buffer)
            resolved.append(broadcast(value, result.shape))
        group.members[result] = entry, tuple(resolved)
        self.waiting[result] = group
        for operand in operation.operands:
            self.used(operand)

    def close(self, group: Group) -> None:
        """Write the operations of a group as one loop."""
        if self.groups.get(group.shape) is not group:
            return
        del self.groups[group.shape]
        for member in group.members:
            del self.waiting[member]
        needed = [member for member in group.members if self.uses[member]]
        size = math.prod(group.shape)
        if size == 1:
            sources = self._statements(group, [Affine() for _ in group.shape], needed)
            for member in needed:
                self.give(member, Uniform(sources[member], self.kind(member.dtype), member.shape))
        else:
            targets = {member: self.allocate(group.shape, self.kind(member.dtype)) for member in needed}
            views = [t.strides for t in targets.values()]
            views += [o.strides for _, operands in group.members.values() for o in operands if isinstance(o, View)]
            if needed and size:
                with self.loops(group.shape, views) as index:
                    sources = self._statements(group, index, needed)
                    for member, target in targets.items():
                        self.assign(target, index, sources[member])
            for member, target in targets.items():
                self.give(member, target)
        for buffer in group.held:
            self.release(buffer)

    def _statements(self, group: Group, index: Sequence[Affine], needed: Sequence[Variable]) -> dict[Variable, str]:
        """Variables of one turn of the loop of a group."""
        sources_of: dict[Variable, str] = {}
        known: dict[str, str] = {}
        wanted = set(needed)
        for member in reversed(group.members):
            if member in wanted:
                wanted.update(o for o in group.members[member][1] if isinstance(o, Variable))
        for member, (entry, operands) in group.members.items():
            if member not in wanted:
                continue
            sources = []
            for operand in operands:
                if isinstance(operand, Variable):
                    sources.append(sources_of[operand])
                    continue
                source = self.read(operand, index)
                if isinstance(operand, View) and source not in known:
                    known[source] = self.variable(source)
                sources.append(known.get(source, source))
            sources_of[member] = self.variable(entry(*sources))
        return sources_of

    def close_all(self) -> None:
        """Write all that waits."""
        for group in list(self.groups.values()):
            self.close(group)

    # checks

    def check(self, bad: str, error: type[DiffsimError], message: str) -> None:
        """Note the tile in which a condition holds that must not, and the error that it is."""
        number = len(self.checks)
        self.checks.append((error, message))
        if self.lanes == 1:
            with self.text.block(f"if {bad}"):
                self.text(f"errors[{number}] = ti.max(errors[{number}], t0 + 1)")
            return
        any_bad = self.variable(f"ti.select({bad}, V_i(F_i(1)), V_i(F_i(0)))")
        with self.text.block(f"if {any_bad}.sum() > 0"):
            for lane in range(self.lanes):
                with self.text.block(f"if {any_bad}[{lane}] > 0"):  # lanes beyond the last tile repeat it
                    self.text(f"errors[{number}] = ti.max(errors[{number}], ti.min(t0 + {lane + 1}, control[4]))")

    # programs

    def run(self, program: Program, arguments: Sequence[Value], rules: Any) -> list[Value]:
        """Write a program. The caller holds the arguments, and gets results that it must release."""
        uses: Counter[Variable] = Counter()
        for operation in program.operations:
            uses.update(o for o in operation.operands if isinstance(o, Variable))
        uses.update(r for r in program.results if isinstance(r, Variable))
        self.uses.update(uses)
        for variable, value in zip(program.arguments, arguments, strict=True):
            if uses[variable]:
                self.values[variable] = value
                self.hold(value)
        for operation in program.operations:
            self.place = operation.place or self.place
            rules(self, operation)
        results = []
        for result in program.results:
            value = self.operand(result)
            if value.kind == "number":
                raise AssertionError(result)
            self.hold(value)
            results.append(value)
        for result in program.results:
            self.used(result)
        return results


def broadcast(value: Value, shape: tuple[int, ...]) -> Value:
    """A value of another shape, by repetition."""
    if isinstance(value, Uniform):
        return value if value.kind == "number" else value.reshaped(shape)
    lead = len(shape) - len(value.shape)
    strides = [0] * lead + [0 if n == 1 and m != 1 else s for n, m, s in zip(value.shape, shape[lead:], value.strides, strict=True)]
    return replace(value, shape=tuple(shape), strides=tuple(strides))


def picked(value: View, positions: np.ndarray) -> View | None:
    """The part of a contiguous value at positions among its entries, if that is a view."""
    view = strided(positions)
    if view is None:
        return None
    start, strides = view
    return replace(value, shape=positions.shape, strides=strides, offset=value.offset + start)
