"""Systems with constant symmetric weights on small periodic boxes, solved by one kernel.

SciPy's transforms of 64 x 64 numbers and the calls around them take some 60 us, as long as the kernels of a step of `NavierStokes` there.
Here real transforms (`codelets.py`) go along each axis in place, many lines side by side in the lanes of registers. The last axis is turned
into the place of the lanes first. Between the transforms and their transposes there is one product with a number a coefficient.

A line of more than `SINGLE` numbers, n = R S, takes two stages: S transforms of R numbers each, and for each of their coefficients a
transform of S numbers that are turned by factors.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from diffsim import engine
from diffsim.linear.codelets import LARGEST_ODD, Codelet, complex_modes, negacyclic_modes, real_modes

SINGLE = 20
"""Longest line that one codelet transforms."""
MOST = 1 << 16
"""Most cells: beyond, the arrays do not fit the cache."""
EVEN = 1e-9
"""Largest relative difference between the numbers of two waves in opposite directions."""


@dataclass(frozen=True)
class Places:
    """The order of the coefficients of a line.

    Attributes:
        frequencies: of each place.
        norms: |t|² of the row t of the transform.
    """

    frequencies: npt.NDArray
    norms: npt.NDArray


def factors(n: int) -> tuple[int, int] | None:
    """The two stages of a line, (n, 1) for one codelet; None for a length with a larger odd factor, or that is too long."""
    if n <= SINGLE:
        return (n, 1) if _odd_part(n) <= LARGEST_ODD else None
    pairs = [(r, n // r) for r in range(2, SINGLE + 1) if n % r == 0 and n // r <= SINGLE]
    pairs = [pair for pair in pairs if max(map(_odd_part, pair)) <= LARGEST_ODD]
    return min(pairs, key=lambda pair: line(*pair).length, default=None)


def _odd_part(n: int) -> int:
    return n // (n & -n)


@dataclass(frozen=True)
class Line:
    """The transform of a line of `outer * inner` numbers, as source."""

    outer: int
    inner: int

    @cached_property
    def _modes(self) -> list[tuple[int, bool]]:
        """Frequencies of the first stage, and whether they are complex: real ones first."""
        modes: list[tuple[int, bool]] = []
        Codelet.of(self.outer, lambda code, x: modes.extend((m.frequency, m.im is not None) for m in real_modes(code, x)) or [])
        return sorted(modes, key=lambda mode: mode[1])

    @property
    def _complex(self) -> list[int]:
        return [frequency for frequency, is_complex in self._modes if is_complex]

    @cached_property
    def first(self) -> Codelet:
        """The real transform of the first stage."""
        return Codelet.of(self.outer, lambda code, x: [v for m in sorted(real_modes(code, x), key=lambda m: m.im is not None) for v in m.parts])

    @cached_property
    def constant(self) -> Codelet:
        """The second stage of the first coefficient."""
        return Codelet.of(self.inner, lambda code, x: [value for mode in real_modes(code, x) for value in mode.parts])

    @cached_property
    def shortest(self) -> Codelet | None:
        """The second stage of the coefficient of the shortest wave, if there is one."""
        if self.outer % 2:
            return None
        return Codelet.of(self.inner, lambda code, x: [value for mode in negacyclic_modes(code, x) for value in mode.parts])

    @cached_property
    def turned(self) -> Codelet | None:
        """The second stage of the complex coefficients, with factors `c1`, `s1`, ..."""
        if not self._complex:
            return None
        n = self.inner

        def of(code: Any, x: list[Any]) -> list[Any]:
            pairs = [x[0:2], *(code.named_turn((x[2 * r], x[2 * r + 1]), f"c{r}", f"s{r}") for r in range(1, n))]
            return [part for _, value in complex_modes(code, [(a, b) for a, b in pairs]) for part in value]

        return Codelet.of(2 * n, of)

    @property
    def length(self) -> int:
        """Lines of its source."""
        return sum(each.length for each in (self.first, self.constant, self.shortest, self.turned) if each)

    @cached_property
    def twiddles(self) -> npt.NDArray:
        """The factors of the complex coefficients."""
        turns = np.outer(self._complex, np.arange(self.inner)) / (self.outer * self.inner)
        values = np.exp(-2j * np.pi * turns)
        return np.stack([values.real, values.imag], axis=-1).reshape(-1)

    @cached_property
    def places(self) -> Places:
        n, outer, inner = self.outer * self.inner, self.outer, self.inner
        frequencies, norms = np.zeros(n, int), np.full(n, n / 2)
        if inner == 1:
            at = 0
            for frequency, is_complex in self._modes:
                width = 2 if is_complex else 1
                frequencies[at : at + width] = frequency
                norms[at : at + width] = n / width
                at += width
            return Places(frequencies, norms)
        found: list[tuple[int, float]] = []
        Codelet.of(inner, lambda code, x: found.extend((outer * m.frequency, n / len(m.parts)) for m in real_modes(code, x) for _ in m.parts) or [])
        if self.shortest:
            half = outer // 2
            Codelet.of(
                inner,
                lambda code, x: found.extend((half * m.frequency, n / len(m.parts)) for m in negacyclic_modes(code, x) for _ in m.parts) or [],
            )
        frequencies[: len(found)] = [frequency % n for frequency, _ in found]
        norms[: len(found)] = [norm for _, norm in found]
        order: list[int] = []
        Codelet.of(2 * inner, lambda code, x: order.extend(k for k, _ in complex_modes(code, [(a, a) for a in x[:inner]])) or [])
        for number, frequency in enumerate(self._complex):
            start = len(found) + 2 * inner * number
            frequencies[start : start + 2 * inner] = [(frequency + outer * k) % n for k in order for _ in range(2)]
        return Places(frequencies, norms)

    def source(self, name: str, back: bool, first_twiddle: int) -> list[str]:
        """A function that transforms the line from tile `start` of an array, in steps of `stride` tiles, in place."""
        head = f"def {name}(w: Tiles, twiddles: Numbers, start: ti.i32, stride: ti.i32) -> ti.i32:"
        stages = self._stages(first_twiddle, back)
        return ["@ti.real_func", head, *(f"    {text}" for stage in (reversed(stages) if back else stages) for text in stage), "    return 0"]

    def _stages(self, first_twiddle: int, back: bool) -> list[list[str]]:
        outer, inner = self.outer, self.inner

        def of(codelet: Codelet, prefix: str, inputs: Sequence[str], outputs: Sequence[str]) -> list[str]:
            return codelet.transposed.lines(prefix, outputs, inputs) if back else codelet.lines(prefix, inputs, outputs)

        if inner == 1:
            places = [_place("start", k) for k in range(outer)]
            return [of(self.first, "a", places, places)]
        places = [_place("start + r * stride", k * inner) for k in range(outer)]
        stages = [[f"for r in range({inner}):", *_indented(of(self.first, "a", places, places))]]
        places = [_place("start", k) for k in range(inner)]
        second = of(self.constant, "b", places, places)
        if self.shortest:
            places = [_place("start", inner + k) for k in range(inner)]
            second += of(self.shortest, "d", places, places)
        stages.append(second)
        if self.turned:
            begin = inner * (2 if self.shortest else 1)
            at = [f"m * {2 * inner} + {first_twiddle + 2 * r}" for r in range(inner)]
            body = [f"first = start + (m * {2 * inner} + {begin}) * stride"]
            body += [text for r in range(1, inner) for text in (f"c{r} = twiddles[{at[r]}]", f"s{r} = twiddles[{at[r]} + 1]")]
            inputs = [_place("first", k) for r in range(inner) for k in (r, inner + r)]
            outputs = [_place("first", k) for k in range(2 * inner)]
            body += of(self.turned, "e", inputs, outputs)
            stages.append([f"for m in range({len(self._complex)}):", *_indented(body)])
        return stages


@lru_cache(maxsize=64)
def line(outer: int, inner: int) -> Line:
    return Line(outer, inner)


def _place(start: str, number: int) -> str:
    return f"w[{start} + {number} * stride]" if number else f"w[{start}]"


def _indented(lines: Sequence[str]) -> list[str]:
    return [f"    {text}" for text in lines]


ARGUMENTS = {"source": "Tiles", "target": "Tiles", "w": "Tiles", "numbers": "Tiles", "null": "Tiles"}
ARGUMENTS |= {"twiddles": "Numbers", "table": "Table", "sums": "Numbers"}
PLACE = 3
"""Entries of the table for the place of an array: its first tile, and the tiles between planes and between rows."""


@dataclass(frozen=True)
class _Place:
    """Where cells lie: an array of tiles, and in it the first one, and the tiles between planes and between rows."""

    tiles: npt.NDArray
    owner: int
    entries: tuple[int, int, int]

    @staticmethod
    def of(cells: npt.NDArray, lanes: int) -> _Place | None:
        """The place of a view of cells; None if rows do not begin with whole tiles."""
        owner = cells if cells.base is None else cells.base
        if not isinstance(owner, np.ndarray) or not owner.flags.c_contiguous or cells.ndim not in (2, 3):
            return None
        size, *strides = lanes * cells.itemsize, *cells.strides
        spare = -owner.ctypes.data % engine.ALIGNMENT
        first, left = divmod(cells.ctypes.data - owner.ctypes.data - spare, size)
        if left or first < 0 or strides[-1] != cells.itemsize or any(stride % size for stride in strides[:-1]):
            return None
        count = (owner.nbytes - spare) // size
        tiles = owner.reshape(-1).view(np.uint8)[spare : spare + count * size].view(cells.dtype)
        between = [0] * (3 - cells.ndim) + [stride // size for stride in strides[:-1]]
        return _Place(tiles.reshape(-1, lanes) if lanes > 1 else tiles, id(owner), (first, *between))  # type: ignore[arg-type]


class _Ready:
    """The kernel of a system with its memory, for one initialisation of the engine."""

    def __init__(self, system: PeriodicKernel, generation: int) -> None:
        self.generation, self._kernel, self._singular = generation, system.compiled(), system.singular
        lanes, dtype = system.lanes, system.dtype
        whole = engine.aligned((*system.shape[:-1], system.tiles * lanes), dtype)
        self.cells = whole[..., : system.shape[-1]]
        self.own = _Place.of(whole, lanes)
        self._sums = engine.aligned((2,), dtype)
        self._table = _copied([0] * 2 * PLACE + [v for _, some in system.passes() for v in (len(some), *(e for one in some for e in one))], np.int32)
        memory = engine.aligned((system.second + system.groups * system.turned_row, lanes), dtype)
        numbers, null, twiddles = (_copied(each, dtype) for each in system.tables())
        tiles = [each.reshape(-1, lanes) if lanes > 1 else each.reshape(-1) for each in (memory, numbers, null)]
        self._others = [*tiles, twiddles, self._table, self._sums]
        self._bound: dict[tuple[int, int], engine.BoundKernel] = {}  # the kernels keep the arrays, so their ids, alive

    def between(self, source: _Place, target: _Place) -> Callable[[], tuple[float, float]]:
        key = source.owner, target.owner
        if key not in self._bound:
            self._bound[key] = engine.BoundKernel(self._kernel, [source.tiles, target.tiles, *self._others])
        kernel, table, sums, singular = self._bound[key], self._table, self._sums, self._singular
        places = np.array([*source.entries, *target.entries], np.int32)
        count = len(places)

        def solve() -> tuple[float, float]:
            table[:count] = places
            kernel()
            if not singular:
                return 0.0, 0.0
            part, whole = sums.tolist()
            return math.sqrt(part), math.sqrt(whole)

        return solve


class PeriodicKernel:
    """A system that real transforms along the axes of a periodic box diagonalise. Bits do not depend on threads.

    Args:
        shape: cells along each axis.
        dtype: type of the arithmetic.
        inverse: what coefficients of waves are multiplied by, for all frequencies along all axes: 0 for those of the null space.
        singular: whether it has a null space. Its waves are constant along the last axis.
    """

    def __init__(self, shape: tuple[int, ...], dtype: np.dtype, inverse: npt.NDArray, singular: bool) -> None:
        self.shape, self.dtype, self.singular = shape, dtype, singular
        self.lanes = max(1, engine.settings().register_bytes // dtype.itemsize)
        self.lines = [line(*factors(n)) for n in shape]  # type: ignore[misc]
        self.axes = [a for a in range(len(shape)) if np.ptp(inverse, axis=a).max() > 0]
        self.rows, self.tiles = math.prod(shape[:-1]), -(-shape[-1] // self.lanes)
        self.row, self.groups = self.tiles | 1, -(-self.rows // self.lanes)  # an odd stride, for the sake of the cache
        self.turned_row = self.tiles * self.lanes + 1
        self.second = self.groups * self.lanes * self.row  # first tile of the turned cells
        places = [each.places for each in self.lines]
        norms: npt.NDArray = np.ones(())
        for axis, each in enumerate(places):
            norms = np.multiply.outer(norms, each.norms if axis in self.axes else np.ones(shape[axis]))
        frequencies = [p.frequencies if axis in self.axes else np.arange(shape[axis]) for axis, p in enumerate(places)]
        picked = inverse[np.ix_(*frequencies)]
        self._numbers = self._by_groups(picked / norms)
        self._null = self._by_groups(np.where(picked == 0, 1 / np.sqrt(norms), 0.0))[:, :1]
        self._ready: _Ready | None = None

    def _by_groups(self, values: npt.NDArray) -> npt.NDArray:
        """Numbers of the coefficients in the order in which the kernel reads them, shape (groups, cells along the last axis, lanes)."""
        out = np.zeros((self.groups * self.lanes, self.shape[-1]))
        out[: self.rows] = values.reshape(self.rows, -1)
        return np.ascontiguousarray(np.moveaxis(out.reshape(self.groups, self.lanes, -1), 1, 2))

    def solve(self, right_side: npt.NDArray) -> tuple[npt.NDArray, float, float]:
        """The solution, the norm of the part of the right side in the null space, and that of all of it (of a singular system alone)."""
        with engine.lock:
            ready = self._present()
            ready.cells[...] = right_side
            norms = ready.between(ready.own, ready.own)()
            return ready.cells.copy(), *norms

    def between(self, right_side: npt.NDArray, solution: npt.NDArray) -> Callable[[], tuple[float, float]] | None:
        """A function that solves for the right side in one array, writes the solution into the other, and returns the norms of `solve`.

        None where rows of the arrays are no whole tiles. It is right for the present settings of the engine, while the arrays exist.
        """
        with engine.lock:
            places = [_Place.of(cells, self.lanes) for cells in (right_side, solution)]
            if self.shape[-1] % self.lanes or None in places:
                return None
            return self._present().between(*places)  # type: ignore[arg-type]

    def _present(self) -> _Ready:
        generation = engine.settings().generation
        if self._ready is None or self._ready.generation != generation:
            self._ready = _Ready(self, generation)
        return self._ready

    def passes(self) -> list[tuple[Line, list[list[int]]]]:
        """The axes in order, those of equal length together: of each its line, and for each axis the loops over its lines."""
        ndim = len(self.shape)
        strides = [math.prod(self.shape[a + 1 : -1]) * self.row for a in range(ndim - 1)]
        each: list[list[int]] = []
        for axis in self.axes[:-1]:
            others = [(self.shape[a], strides[a]) for a in range(ndim - 1) if a != axis]
            pair = [*[(1, 0)] * (2 - len(others)), *others]
            each.append([0, *pair[0], *pair[1], self.tiles, 1, strides[axis], 0])
        each.append([self.second, 1, 0, 1, 0, self.groups, self.turned_row, 1, 1])
        sizes = [self.shape[a] for a in self.axes]
        groups: list[tuple[Line, list[list[int]]]] = []
        for k in sorted(range(len(each)), key=lambda k: (sizes[k] == sizes[-1], k == len(each) - 1, sizes[k])):
            if not groups or groups[-1][0] is not self.lines[self.axes[k]]:
                groups.append((self.lines[self.axes[k]], []))
            groups[-1][1].append(each[k])
        return groups

    def compiled(self) -> Any:
        groups = [(each, len(some)) for each, some in self.passes()]
        return engine.shared_kernel(self._source(groups), "solve_periodic", (self.dtype.name, self.lanes), self._names)

    def tables(self) -> list[npt.NDArray]:
        """Numbers of coefficients, those of the null space, and factors within lines."""
        return [self._numbers, self._null, np.concatenate([[0.0], *(each.twiddles for each, _ in self.passes())])]

    def _names(self) -> dict[str, Any]:
        ti = engine.language()
        scalar = ti.f32 if self.dtype == np.float32 else ti.f64
        tile = ti.types.vector(self.lanes, scalar) if self.lanes > 1 else scalar
        array = ti.types.ndarray
        names = {"F": scalar, "Tile": tile, "Tiles": array(dtype=tile, ndim=1), "Numbers": array(dtype=scalar, ndim=1)}
        lane = {f"lane_{k}": _lane_of_all(tile, k) for k in range(self.lanes)}
        return {**names, **lane, "Table": array(dtype=ti.i32, ndim=1), "added": _added}

    def _source(self, groups: Sequence[tuple[Line, int]]) -> str:
        out = list[str]()
        first, name = 1, list[str]()
        for each, _ in groups:
            name.append(f"{each.outer}_{each.inner}")
            for way, back in (("forward", False), ("back", True)):
                out += each.source(f"{way}_{name[-1]}", back, first)
            first += len(each.twiddles)
        out += ["@ti.kernel", f"def solve_periodic({', '.join(f'{name}: {kind}' for name, kind in ARGUMENTS.items())}):"]
        out += ["    ti.loop_config(serialize=True)", "    for worker in range(1):", "        source_digest()"]
        body = self._copy("w[{0}] = source[{1}]", 0)
        if self.singular:
            body += ["whole = Tile(0.0)", f"for i in range({self.second}):", "    whole = whole + w[i] * w[i]", "sums[1] = added(whole)"]
        starts = [2 * PLACE + sum(1 + 9 * count for _, count in groups[:k]) for k in range(len(groups))]
        for k in range(len(groups)):
            body += self._passes(f"forward_{name[k]}", starts[k], False)
        if self.singular:
            body += ["part = Tile(0.0)", f"for g in range({self.groups}):"]
            body += [f"    v = w[{self.second} + g * {self.turned_row}] * null[g]", "    part = part + v * v", "sums[0] = added(part)"]
        body += [f"for g in range({self.groups}):", f"    for x in range({self.shape[-1]}):"]
        at = f"{self.second} + g * {self.turned_row} + x"
        body += [f"        w[{at}] = w[{at}] * numbers[g * {self.shape[-1]} + x]"]
        for k in reversed(range(len(groups))):
            body += self._passes(f"back_{name[k]}", starts[k], True)
        body += self._copy("target[{1}] = w[{0}]", PLACE)
        return "\n".join(out + [f"        {text}" for text in body]) + "\n"

    def _copy(self, text: str, entry: int) -> list[str]:
        """A copy between `w` and an array outside, whose place is in `table`."""
        planes, rows = (self.shape[0], self.shape[1]) if len(self.shape) == 3 else (1, self.shape[0])
        outside = f"table[{entry}] + a * table[{entry + 1}] + b * table[{entry + 2}] + t"
        copy = text.format(f"(a * {rows} + b) * {self.row} + t", outside)
        return [f"for a in range({planes}):", f"    for b in range({rows}):", f"        for t in range({self.tiles}):", f"            {copy}"]

    def _passes(self, function: str, start: int, back: bool) -> list[str]:
        """Transforms along some axes of equal length. `table` has their number, and for each its lines and whether its cells are turned."""
        number = f"(table[{start}] - 1 - p)" if back else "p"
        entry = [f"table[at + {k}]" for k in range(9)]
        turning = ["if table[at + 8] == 1:", *_indented(self._turning(back))]
        lines = [
            f"for a in range({entry[1]}):",
            f"    for b in range({entry[3]}):",
            f"        for c in range({entry[5]}):",
            f"            begin = {entry[0]} + a * {entry[2]} + b * {entry[4]} + c * {entry[6]}",
            f"            called = {function}(w, twiddles, begin, {entry[7]})",
        ]
        body = [f"at = {start + 1} + 9 * {number}", *([*lines, *turning] if back else [*turning, *lines])]
        return [f"for p in range(table[{start}]):", *_indented(body)]

    def _turning(self, back: bool) -> list[str]:
        """Rows become lanes, or lanes rows."""
        lanes = self.lanes
        rows = [f"w[(g * {lanes} + {k}) * {self.row} + t]" for k in range(lanes)]
        turned = [f"w[{self.second} + g * {self.turned_row} + t * {lanes} + {k}]" for k in range(lanes)]
        sources, targets = (turned, rows) if back else (rows, turned)
        names = [f"v{k}" for k in range(lanes)]
        body = [f"{name} = {source}" for name, source in zip(names, sources, strict=True)]
        body += [f"{target} = lane_{k}({', '.join(names)})" for k, target in enumerate(targets)]
        return [f"for g in range({self.groups}):", f"    for t in range({self.tiles}):", *_indented(_indented(body))]


def _copied(values: Any, dtype: npt.DTypeLike) -> npt.NDArray:
    values = np.asarray(values)
    out = engine.aligned(values.shape, dtype)
    out[...] = values
    return out


def _lane_of_all(tile: Any, lane: int) -> Any:
    """A function that returns the tile of one lane of some tiles."""

    @engine.expression
    def lane_of(*tiles: Any) -> Any:
        if len(tiles) == 1 and not tiles[0].is_tensor():
            return tiles[0]
        return engine.tile_of([engine.lanes_of(each)[lane] for each in tiles], tile.dtype)

    return lane_of


@engine.expression
def _added(tile: Any) -> Any:
    if not tile.is_tensor():
        return tile
    first, *others = engine.lanes_of(tile)
    for other in others:
        first = first + other
    return first


def periodic_kernel(shape: tuple[int, ...], dtype: np.dtype, inverse: npt.NDArray, singular: bool) -> PeriodicKernel | None:
    """The kernel of a system, if it may have one.

    Args:
        shape: cells along each axis.
        dtype: of the right side.
        inverse: factors of Fourier coefficients, along the last axis of those that are not conjugates of others.
        singular: whether some are 0.
    """
    if len(shape) not in (2, 3) or math.prod(shape) > MOST or np.iscomplexobj(inverse) or dtype not in (np.float32, np.float64):
        return None
    if min(shape) < 2 or any(factors(n) is None for n in shape) or not engine.running_on_host():
        return None
    mirrored = [np.arange(n // 2 + 1)[-(n % 2 == 0) - 1 : 0 : -1] for n in shape[-1:]]
    whole = np.concatenate([inverse, inverse[..., mirrored[0]]], axis=-1)
    scale = np.abs(whole).max()
    for axis in range(len(shape) - 1):
        opposite = np.roll(np.flip(whole, axis), 1, axis)
        if np.abs(whole - opposite).max() > EVEN * scale:
            return None
    if not np.ptp(whole, axis=-1).any() or (singular and (whole[..., 1:] == 0).any()):
        return None
    return PeriodicKernel(shape, dtype, whole, singular)
