"""Systems with constant symmetric weights on small periodic boxes, solved by one kernel.

SciPy's transforms of 64 x 64 numbers and the calls around them take some 60 us, as long as the kernels of a step of `NavierStokes` there.
Here real transforms (`codelets.py`) go along each axis in place, many lines side by side in the lanes of registers. The last axis is turned
into the place of the lanes first. Coefficients are multiplied by their numbers, and the same transforms go back.

A line of more than `SINGLE` numbers, n = R S, takes two stages: S transforms of R numbers each, and for each of their coefficients a
transform of S numbers that are turned by factors.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache
from typing import Any
from weakref import WeakValueDictionary

import numpy as np
import numpy.typing as npt

from diffsim import engine
from diffsim.linear.codelets import LARGEST_ODD, Code, Codelet, Value, complex_modes, hartley, negacyclic_modes, real_modes

SINGLE = 20
"""Longest line that one codelet transforms."""
MOST = 1 << 15
"""Most cells: beyond, the arrays do not fit the cache."""
EVEN = 1e-9
"""Largest relative difference between the numbers of two waves in opposite directions."""


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
    """The Hartley transform of a line of `outer * inner` numbers, as source."""

    outer: int
    inner: int

    @property
    def _complex(self) -> int:
        """Complex coefficients of the first stage: its frequencies are 1, 2, ..."""
        return (self.outer - 1) // 2

    @cached_property
    def whole(self) -> Codelet:
        """The transform of as many numbers as the second stage has, and of all if there is one stage alone."""
        n = self.outer if self.inner == 1 else self.inner
        return Codelet.of(n, lambda code, x: _ordered(hartley(code, real_modes(code, x), n)))

    @cached_property
    def first(self) -> Codelet:
        """The first stage: the sum, the coefficient of the shortest wave if there is one, and the parts of the others."""
        n = self.outer

        def of(code: Code, x: list[Value]) -> list[Value]:
            modes = [mode if mode.frequency % n <= n // 2 else mode.conjugate() for mode in real_modes(code, x)]
            real = [mode.re for mode in modes if mode.im is None]
            others = sorted((mode for mode in modes if mode.im is not None), key=lambda mode: mode.frequency % n)
            return [*real, *(part for mode in others for part in (mode.re, mode.im) if part is not None)]

        return Codelet.of(n, of)

    @cached_property
    def shortest(self) -> Codelet | None:
        """The second stage of the coefficient of the shortest wave, if there is one."""
        n = self.inner
        if self.outer % 2:
            return None
        return Codelet.of(n, lambda code, x: _ordered(hartley(code, negacyclic_modes(code, x), 2 * n)))

    @cached_property
    def turned(self) -> Codelet | None:
        """The second stage of a complex coefficient, with factors `c1`, `s1`, ... Of each frequency, the value and that of its opposite."""
        if not self._complex:
            return None

        def of(code: Code, x: list[Value]) -> list[Value]:
            pairs = [(x[2 * r], x[2 * r + 1]) for r in range(self.inner)]
            values = dict(complex_modes(code, [pairs[0], *(code.named_turn(pair, f"c{r}", f"s{r}") for r, pair in enumerate(pairs) if r)]))
            parts = [values[k] for k in range(self.inner)]
            return [value for re, im in parts for value in (code.subtract(re, im), code.add(re, im))]

        return Codelet.of(2 * self.inner, of)

    @property
    def length(self) -> int:
        """Lines of its source."""
        stages = (self.whole,) if self.inner == 1 else (self.first, self.whole, self.shortest, self.turned)
        return sum(each.length for each in stages if each)

    @cached_property
    def twiddles(self) -> npt.NDArray:
        """The factors of the complex coefficients."""
        turns = np.outer(np.arange(1, self._complex + 1), np.arange(self.inner)) / (self.outer * self.inner)
        values = np.exp(-2j * np.pi * turns)
        return np.stack([values.real, values.imag], axis=-1).reshape(-1)

    def source(self, name: str, first_twiddle: int) -> list[str]:
        """A function that transforms the line from tile `start` of an array, in steps of `stride` tiles, in place.

        Tiles from `spare` on are for what the first stage gives.
        """
        head = f"def {name}(w: Tiles, twiddles: Numbers, start: ti.i32, stride: ti.i32, spare: ti.i32) -> ti.i32:"
        return ["@ti.real_func", head, *_indented(self._stages(first_twiddle)), "    return 0"]

    def _stages(self, first_twiddle: int) -> list[str]:
        outer, inner = self.outer, self.inner
        n = outer * inner
        if inner == 1:
            places = [_place("start", k) for k in range(n)]
            return self.whole.lines("a", places, places)
        kept = [[f"w[spare + {slot * inner + r}]" for r in range(inner)] for slot in range(outer)]
        between = [f"w[spare + r + {slot * inner}]" for slot in range(outer)]
        body = [f"for r in range({inner}):"]
        body += _indented(self.first.lines("a", [_place("start + r * stride", k * inner) for k in range(outer)], between))
        body += self.whole.lines("b", kept[0], [_place("start", outer * k) for k in range(inner)])
        if self.shortest:
            body += self.shortest.lines("d", kept[1], [_place("start", outer // 2 * f) for f in range(1, 2 * inner, 2)])
        if self.turned:
            begin = inner * (2 if self.shortest else 1)
            at = [f"m * {2 * inner} + {first_twiddle + 2 * r}" for r in range(inner)]
            loop = [text for r in range(1, inner) for text in (f"c{r} = twiddles[{at[r]}]", f"s{r} = twiddles[{at[r]} + 1]")]
            loop += [f"first = spare + m * {2 * inner}", "low = start + (m + 1) * stride", "high = start - (m + 1) * stride"]
            inputs = [f"w[first + {begin + k}]" for r in range(inner) for k in (r, inner + r)]
            outputs = [place for k in range(inner) for place in (_place("low", outer * k), _place("high", n - outer * k))]
            body += [f"for m in range({self._complex}):", *_indented(loop + self.turned.lines("e", inputs, outputs))]
        return body


def _ordered(values: Mapping[int, Value]) -> list[Value]:
    return [values[k] for k in sorted(values)]


@lru_cache(maxsize=64)
def line(outer: int, inner: int) -> Line:
    return Line(outer, inner)


def _place(start: str, number: int) -> str:
    return f"w[{start} + {number} * stride]" if number else f"w[{start}]"


def _indented(lines: Sequence[str]) -> list[str]:
    return [f"    {text}" for text in lines]


ARGUMENTS = {"source": "Tiles", "target": "Tiles", "w": "Tiles", "numbers": "Tiles", "null": "Tiles"}
ARGUMENTS |= {"twiddles": "Numbers", "table": "Table", "sums": "Numbers"}
WITHIN = ("w", "numbers", "null", "twiddles", "table", "sums")
"""The arguments of a system whose right side lies in the memory `w`."""
PASS = 10
"""Entries of the table for a transform along an axis."""
PLAIN, FORWARD, BACK = range(3)
"""Along the last axis, rows become lanes before the transform, and lanes rows after the one back."""
PLACE = 3
"""Entries of the table for the place of an array: its first tile, and the tiles between planes and between rows."""


def norms(sums: npt.NDArray) -> tuple[float, float]:
    """The norm of the part of a right side in the null space, and that of all of it, of the sums of squares that a kernel leaves."""
    part, whole = sums.tolist()
    return math.sqrt(part), math.sqrt(whole)


@dataclass(frozen=True)
class Place:
    """Where cells lie: an array of tiles, and in it the first one, and the tiles between planes and between rows."""

    tiles: npt.NDArray
    entries: tuple[int, int, int]

    @property
    def memory(self) -> tuple[int, int]:
        """The address and the size of the array of tiles."""
        return self.tiles.ctypes.data, self.tiles.nbytes

    @staticmethod
    def of(cells: npt.NDArray, lanes: int) -> Place | None:
        """The place of a view of cells; None if rows do not begin with whole tiles."""
        whole = isinstance(cells.base, np.ndarray) and cells.base.flags.c_contiguous  # the base of large arrays may be no array
        owner = cells.base if whole else cells
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
        return Place(tiles.reshape(-1, lanes) if lanes > 1 else tiles, (first, *between))  # type: ignore[arg-type]


OWN = "{}__of_solve"
"""Names of a system in a larger source."""
_NAMES = re.compile(r"\b(?:F|Tiles?|Numbers|Table|added|lane_\d+|transform_\d+)\b")


class _Ready:
    """The kernel of a system with its memory, for one initialisation of the engine."""

    def __init__(self, system: PeriodicKernel, generation: int) -> None:
        self.generation, self._kernel, self._singular = generation, cache(system.compiled), system.singular
        lanes, dtype = system.lanes, system.dtype
        whole = engine.aligned((*system.shape[:-1], system.tiles * lanes), dtype)
        self.cells = whole[..., : system.shape[-1]]
        self._sums = engine.aligned((2,), dtype)
        self._table = _copied([0] * 2 * PLACE + system.passes(), np.int32)
        memory = engine.aligned((system.spare + max(system.shape), lanes), dtype)
        numbers, null, twiddles = (_copied(each, dtype) for each in system.tables())
        tiles = [each.reshape(-1, lanes) if lanes > 1 else each.reshape(-1) for each in (memory, numbers, null)]
        self.others = [*tiles, twiddles, self._table, self._sums]
        # A bound kernel keeps its arrays, so that no other array has their place meanwhile. It lives as long as functions that call it.
        self._bound: WeakValueDictionary[tuple[int, ...], engine.BoundKernel] = WeakValueDictionary()
        self._own = Place.of(whole, lanes)

    @cached_property
    def solve(self) -> Callable[[], tuple[float, float]]:
        assert self._own is not None  # its rows are whole tiles
        return self.between(self._own, self._own)

    def between(self, source: Place, target: Place) -> Callable[[], tuple[float, float]]:
        key = *source.memory, *target.memory
        kernel = self._bound.get(key)
        if kernel is None:
            kernel = self._bound[key] = engine.BoundKernel(self._kernel(), [source.tiles, target.tiles, *self.others])
        table, sums, singular = self._table, self._sums, self._singular
        places = np.array([*source.entries, *target.entries], np.int32)
        count = len(places)

        def solve() -> tuple[float, float]:
            table[:count] = places
            kernel()
            return norms(sums) if singular else (0.0, 0.0)

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
        self.spare = self.second + self.groups * self.turned_row  # first tile of those between the stages of a line
        norm = math.prod(shape[axis] for axis in self.axes)
        self._numbers = self._by_groups(inverse / norm)
        self._null = self._by_groups(np.where(inverse == 0, 1 / math.sqrt(norm), 0.0))[:, :1]
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
            norms = ready.solve()
            return ready.cells.copy(), *norms

    def between(self, source: Place, target: Place) -> Callable[[], tuple[float, float]]:
        """A function that solves for the right side in one array, writes the solution into the other, and returns the norms of `solve`.

        It is right for the present settings of the engine, while the arrays exist.
        """
        with engine.lock:
            return self._present().between(source, target)

    def places(self, right_side: npt.NDArray, solution: npt.NDArray) -> tuple[Place, Place] | None:
        """Where the cells of both arrays lie; None where their rows are no whole tiles."""
        source, target = (Place.of(cells, self.lanes) for cells in (right_side, solution))
        return None if self.shape[-1] % self.lanes or source is None or target is None else (source, target)

    def others(self) -> list[npt.NDArray]:
        """Arrays of the function `solve_within` of `functions`."""
        with engine.lock:
            return self._present().others

    def _present(self) -> _Ready:
        generation = engine.settings().generation
        if self._ready is None or self._ready.generation != generation:
            self._ready = _Ready(self, generation)
        return self._ready

    @cached_property
    def kinds(self) -> list[Line]:
        """The lines of different lengths."""
        return list(dict.fromkeys(self.lines[axis] for axis in self.axes))

    def passes(self) -> list[int]:
        """For each transform along an axis: first tile, loops over lines, stride, number of its line, and what is done before or after."""
        ndim = len(self.shape)
        strides = [math.prod(self.shape[a + 1 : -1]) * self.row for a in range(ndim - 1)]
        each: list[list[int]] = []
        for axis in self.axes[:-1]:
            others = [(self.shape[a], strides[a]) for a in range(ndim - 1) if a != axis]
            pair = [*[(1, 0)] * (2 - len(others)), *others]
            each.append([0, *pair[0], *pair[1], self.tiles, 1, strides[axis], self.kinds.index(self.lines[axis]), PLAIN])
        last = [self.second, 1, 0, 1, 0, self.groups, self.turned_row, 1, self.kinds.index(self.lines[-1])]
        return [entry for one in (*each, [*last, FORWARD], [*last, BACK], *each) for entry in one]

    def compiled(self) -> Any:
        return engine.shared_kernel(self._source(), "solve_periodic", (self.dtype.name, self.lanes), self._names)

    def functions(self) -> tuple[list[str], dict[str, Any]]:
        """The system as functions of a larger source, with what their names stand for. Their types have names of their own.

        `take_right_side` copies to the memory in which `solve_within` solves, and `put_solution` from there. Both find the place of the
        array in a table, from entry `place` on.
        """
        names = {OWN.format(name): value for name, value in self._names().items()}
        lines = self._transforms()
        arrays, place = "w: Tiles, places: Table", "place: ti.i32"
        within = [f"{name}: {ARGUMENTS[name]}" for name in WITHIN]
        for name, arguments, body in (
            ("take_right_side", f"source: Tiles, {arrays}, {place}", self._copy("w[{0}] = source[{1}]", "places", "place")),
            ("solve_within", ", ".join(within), self._body()),
            ("put_solution", f"target: Tiles, {arrays}, {place}", self._copy("target[{1}] = w[{0}]", "places", "place")),
        ):
            lines += ["@ti.real_func", f"def {name}({arguments}) -> ti.i32:", *_indented(body), "    return 0"]
        return [_NAMES.sub(lambda name: OWN.format(name[0]), each) for each in lines], names

    def is_as(self, other: PeriodicKernel) -> bool:
        """True if both solve the same system, in the same way."""
        same = self is other or (self.shape, self.dtype, self.lanes) == (other.shape, other.dtype, other.lanes)
        return same and all(np.array_equal(a, b) for a, b in zip(self.tables(), other.tables(), strict=True))

    def tables(self) -> list[npt.NDArray]:
        """Numbers of coefficients, those of the null space, and factors within lines."""
        return [self._numbers, self._null, np.concatenate([[0.0], *(each.twiddles for each in self.kinds)])]

    def _names(self) -> dict[str, Any]:
        ti = engine.language()
        scalar = ti.f32 if self.dtype == np.float32 else ti.f64
        tile = ti.types.vector(self.lanes, scalar) if self.lanes > 1 else scalar
        array = ti.types.ndarray
        names = {"F": scalar, "Tile": tile, "Tiles": array(dtype=tile, ndim=1), "Numbers": array(dtype=scalar, ndim=1)}
        lane = {f"lane_{k}": _lane_of_all(tile, k) for k in range(self.lanes)}
        return {**names, **lane, "Table": array(dtype=ti.i32, ndim=1), "added": _added}

    def _source(self) -> str:
        out = [
            *self._transforms(),
            "@ti.kernel",
            f"def solve_periodic({', '.join(f'{name}: {kind}' for name, kind in ARGUMENTS.items())}):",
        ]
        out += ["    ti.loop_config(serialize=True)", "    for worker in range(1):", "        source_digest()"]
        body = [*self._copy("w[{0}] = source[{1}]", "table", "0"), *self._body(), *self._copy("target[{1}] = w[{0}]", "table", str(PLACE))]
        return "\n".join(out + [f"        {text}" for text in body]) + "\n"

    def _transforms(self) -> list[str]:
        """The functions that transform lines of each length."""
        out, first = list[str](), 1
        for number, each in enumerate(self.kinds):
            out += each.source(f"transform_{number}", first)
            first += len(each.twiddles)
        return out

    def _body(self) -> list[str]:
        """From the right side in `w` to the solution."""
        body = list[str]()
        if self.singular:
            body += ["whole = Tile(0.0)", f"for i in range({self.second}):", "    whole = whole + w[i] * w[i]", "sums[1] = added(whole)"]
        at = [f"table[at + {k}]" for k in range(PASS)]
        body += [f"for p in range({2 * len(self.axes)}):", f"    at = {2 * PLACE} + {PASS} * p"]
        body += _indented([f"if {at[9]} == {FORWARD}:", *_indented(self._turning(back=False))])
        body += _indented([f"for a in range({at[1]}):", f"    for b in range({at[3]}):", f"        for c in range({at[5]}):"])
        body.append(f"                begin = {at[0]} + a * {at[2]} + b * {at[4]} + c * {at[6]}")
        for number in range(len(self.kinds)):
            body.append(f"                if {at[8]} == {number}:")
            body.append(f"                    called = transform_{number}(w, twiddles, begin, {at[7]}, {self.spare})")
        body += _indented([f"if {at[9]} == {FORWARD}:", *_indented(self._scaling())])
        body += _indented([f"if {at[9]} == {BACK}:", *_indented(self._turning(back=True))])
        return body

    def _scaling(self) -> list[str]:
        """Coefficients times their numbers, and the norm of those of the null space."""
        row, body = f"{self.second} + g * {self.turned_row}", list[str]()
        if self.singular:
            body += ["part = Tile(0.0)", f"for g in range({self.groups}):", f"    v = w[{row}] * null[g]", "    part = part + v * v"]
            body += ["sums[0] = added(part)"]
        body += [f"for g in range({self.groups}):", f"    for x in range({self.shape[-1]}):"]
        return [*body, f"        w[{row} + x] = w[{row} + x] * numbers[g * {self.shape[-1]} + x]"]

    def _copy(self, text: str, table: str, entry: str) -> list[str]:
        """A copy between `w` and an array outside, whose place is in a table, from an entry on."""
        planes, rows = (self.shape[0], self.shape[1]) if len(self.shape) == 3 else (1, self.shape[0])
        outside = f"{table}[{entry}] + a * {table}[{entry} + 1] + b * {table}[{entry} + 2] + t"
        copy = text.format(f"(a * {rows} + b) * {self.row} + t", outside)
        return [
            f"for a in range({planes}):",
            f"    for b in range({rows}):",
            f"        for t in range({self.tiles}):",
            f"            {copy}",
        ]

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
    for axis in range(len(shape) - 1):
        opposite = np.roll(np.flip(whole, axis), 1, axis)
        if (np.abs(whole - opposite) > EVEN * np.abs(whole)).any():
            return None
    if not np.ptp(whole, axis=-1).any() or (singular and (whole[..., 1:] == 0).any()):
        return None
    return PeriodicKernel(shape, dtype, whole, singular)
