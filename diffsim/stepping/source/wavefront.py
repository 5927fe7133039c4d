"""Several steps, or the nests of one, in one sweep over the rows of a slab, so that later ones find them in the cache (temporal blocking).

The nests of these steps are *stages*. A sweep computes a few rows of each stage in turn. Each stage is some rows behind earlier ones, so it
finds complete what it reads at neighbouring rows, and overwrites nothing that an earlier stage still reads. Rows near the end of a slab
depend on the neighbouring slab: there, a stage that is b rows behind the first one leaves out `margin` + b rows. After a barrier, the
worker below such an end computes the rows that were left out on both sides of it, stage by stage. At the sides of the grid nothing is left
out, but a stage computes the `margin` rows together there, on which cells outside depend. Where the sides are joined, they are ends of
slabs like others. So each cell is computed by the same operations in the same order as without a wavefront, and no bit changes.

A single step is swept as well, if it has many nests, and fields that take several times the caches of the cores. A nest goes on with the
values that it keeps of the rows before. In the few cells around an interior, which share the memory of kept values, it computes them again.

A receiver is read when the stage before it has computed the last row of its cells, before a later stage overwrites them. So it belongs to
the stage of that row.

In three dimensions the planes of a few stages may not fit a cache. Then a sweep goes over them in *bands* of rows, one after the other.
Within a band each stage is `Bands.lag` rows behind the one before it, so that all said above holds along the second axis as well. Rows that
a stage leaves out at the end of a band are computed with the next band.

Reference: M. Wolf, More iteration space tiling, Supercomputing 1989; with threads Wellein et al., Efficient temporal blocking for stencil
computations by multicore-aware wavefront parallelization, 2009, doi:10.1109/COMPSAC.2009.82.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise, product

from diffsim.base.system import core_cache_bytes, last_cache_bytes
from diffsim.boundary import Sides, ghosts
from diffsim.expr.graph import Graph, Node
from diffsim.expr.source import identifier
from diffsim.mesh.field import Layout
from diffsim.stepping.ir.program import Nest, PointGather, Program
from diffsim.stepping.ir.stored import StoredFields
from diffsim.stepping.passes.streams import rows_together
from diffsim.stepping.source.barrier import NOTHING, write_barrier
from diffsim.stepping.source.kernel import DONE, STEPS, Argument, Kind
from diffsim.stepping.source.slabs import grain, slab_bounds
from diffsim.stepping.source.workers import WorkerKernel

TOGETHER = (8, 4, 2, 1)
"""Steps in a sweep: as many as the cache has room for. One step of many nests is swept too: later nests find in the cache what earlier
ones computed."""
MANY = 4
"""A step of so many nests or more is swept alone. The two of elastic waves or Maxwell's equations gained nothing."""
SIZES = (0, 1, 8)
"""Rows that receivers are taken to span: in one row, between two, by sincs. So most moves of receivers compile nothing."""
BLOCK = 8
"""Rows of a stage that a sweep computes before it goes on to the next stage, in two dimensions. A call of a function takes as long as some
hundred cells."""
LARGE = 4
"""Times the caches of the cores that the fields of one step take at least, if its nests are swept."""
LEAST_BAND = 8
"""Rows of a band, at least. More than two steps are swept together in bands only if these have room."""


@dataclass(frozen=True)
class Read:
    """The receivers of a gather, read in a sweep.

    Attributes:
        number: of the operation.
        nest: number of the nest that computes what they read.
        later: steps by which the gather is later than that nest: 0, or 1 where no nest precedes it in its own step.
    """

    number: int
    nest: int
    later: int


@dataclass(frozen=True)
class Bands:
    """How a sweep in three dimensions cuts planes.

    Attributes:
        rows: of a band. The last band has up to twice as many.
        lag: rows of the second axis from one stage to the next.
    """

    rows: int
    lag: int

    def count(self, layout: Layout) -> int:
        """The number of bands."""
        return max(1, layout.rows[1] // self.rows)


@dataclass(frozen=True)
class Wavefront:
    """How the steps of a program are computed together.

    Attributes:
        steps: number of steps in a sweep.
        unit: rows of which a stage computes a multiple. Nests of one step alone compute no rows together, so that they are close.
        rows: rows of a stage that a sweep computes before it goes on to the next stage.
        behind: rows by which each nest of a step is behind the first one.
        period: rows by which a nest is behind the same one of the step before.
        margin: rows at the sides of the grid that are computed together, because cells outside the grid depend on them.
        joined: whether the sides of the first axis are joined.
        reads: of receivers in a sweep.
        tallest: rows from the first to the last cell of a receiver, at most.
        bands: into which planes are cut; None: whole planes.
    """

    steps: int
    unit: int
    rows: int
    behind: tuple[int, ...]
    period: int
    margin: int
    joined: bool
    reads: tuple[Read, ...]
    tallest: int
    bands: Bands | None = None

    @classmethod
    def of(cls, program: Program, fields: StoredFields, workers: int, steps: int, tallest: int, banded: bool = False) -> Wavefront | None:
        """The wavefront of a program, or None if so many of its steps cannot be computed together.

        Args:
            program: the program of a step.
            fields: how the arrays are stored.
            workers: number of CPU threads.
            steps: number of steps in a sweep.
            tallest: see the attribute.
            banded: whether planes are cut into bands. None is returned if they cannot be cut, or need not be, since a core's cache has room
                for them.
        """
        layout, nests = fields.layout, list(program.nests)
        if len(layout.shape) < (3 if banded else 2) or program.alone or not nests or not all(map(_simple, program.operations)):
            return None
        if len(nests) < MANY if steps == 1 else any(each.groups for nest in nests for each in nest.variants):
            return None
        written = {assign.target.array for nest in nests for assign in nest.assigns} | {each.target.array for each in program.scatters}
        at_points = [each.factor for each in program.scatters] + [gather.node for gather in program.gathers]
        if any(_reach(program, at_points, written, axis) for axis in range(1 + banded)):
            return None
        planes = len(layout.rows) == 2
        unit = 1 if steps == 1 and not planes else grain(layout)
        reads = _reads(program)
        behind, period = _behind(program, unit, steps, reads, tallest)
        margin, joined = _margin(program, fields, 0)
        rows = unit if planes else _multiple(BLOCK, unit)
        found = cls(steps, unit, rows, behind, period, _multiple(margin, unit), joined, reads, tallest)
        if banded:
            bands = found._bands(program, fields, written)
            if bands is None:
                return None
            found = replace(found, bands=bands)
            if any((later - own) * bands.lag < tallest for own, later in _overwritten(program, steps, reads)):
                return None
        bounds = slab_bounds(layout, workers)
        least, ends = min(after - before for before, after in pairwise(bounds)), 2 if joined else min(workers - 1, 2)
        left_out = ends * (found.margin + found.farthest + unit + tallest)
        return found if least >= left_out + 2 * found.margin + unit else None

    @property
    def farthest(self) -> int:
        """Rows by which the last of all stages is behind the first one."""
        return max(self.behind) + (self.steps - 1) * self.period

    def pays(self, program: Program, fields: StoredFields, workers: int) -> bool:
        """True if a cache is too small for the fields of a step, and large enough for the rows between the first and the last stage.

        The last cache counts, and for steps without residuals also those of the cores. Residuals come from memory, or go there, anyway.
        Bands are made for the cache of a core. One step alone is swept if its fields take several times the caches of the cores: it has
        no other gain.
        """
        size, cores = _step_bytes(program, fields), workers * core_cache_bytes()
        if self.steps == 1:
            return 2 * workers * self._plane_bytes(program, fields) <= last_cache_bytes() and LARGE * cores < size
        if self.bands is not None:
            return cores < size
        caches = [last_cache_bytes(), *(() if _has_residuals(program) else (cores,))]
        return any(2 * workers * self._plane_bytes(program, fields) <= cache < size for cache in caches)

    def _plane_bytes(self, program: Program, fields: StoredFields) -> int:
        """Bytes of the rows (planes in three dimensions) of each array from the first stage that uses it to the last one."""
        layout, total = fields.layout, 0
        used = [_rows_read(program, nest).keys() | _written(nest) for nest in program.nests]
        for array, size in _bytes_of_arrays(program, fields).items():
            users = [behind for behind, arrays in zip(self.behind, used, strict=True) if array in arrays]
            apart = self.farthest if self.steps > 1 else max(users, default=0) - min(users, default=0)
            halos = 2 * layout.row_halo[0]
            total += (apart + self.rows + halos) * (size // (layout.rows[0] + halos))
        return total

    def _bands(self, program: Program, fields: StoredFields, written: set[str]) -> Bands | None:
        """Bands with room in the cache of a core, or None if planes cannot be cut into at least two, or have room themselves, or if
        bands of several steps have none.

        The first rows of a stage's bands are multiples of `Bands.lag`. So either a band of a stage has no row, or all those at the side on
        which cells outside depend.
        """
        nests, layout = list(program.nests), fields.layout
        margin, joined = _margin(program, fields, 1)
        if joined or any(nest.folded for nest in nests):
            return None
        unit = max(rows_together(program, variant) for nest in nests for variant in nest.variants)
        far = _reach(program, [assign.node for nest in nests for assign in nest.assigns], written, 1)
        lag = _multiple(max(far, margin, 1), unit)
        room = self._room(program, fields)
        bands = Bands(_multiple(max(room, LEAST_BAND), lag), lag)
        fewest = min(steps for steps in TOGETHER if steps > 1)
        return bands if bands.count(layout) > 1 and (room >= LEAST_BAND or self.steps == fewest) else None

    def _room(self, program: Program, fields: StoredFields) -> int:
        """The rows of a band for which the cache of a core has room, halos besides."""
        row_halo, rows = 2 * fields.layout.row_halo[1], fields.layout.rows[1]
        row = max(1, self._plane_bytes(program, fields) // (rows + row_halo))  # small regions: less than a byte
        return core_cache_bytes() // row - row_halo


def _multiple(rows: int, unit: int) -> int:
    return -(-rows // unit) * unit


def _simple(operation: object) -> bool:
    """Whether an operation may be part of a stage, or be moved before or after all."""
    if isinstance(operation, Nest):
        return not operation.restores and not (operation.window and any(each.groups for each in operation.variants))
    return isinstance(operation, PointGather)


def ways(program: Program, fields: StoredFields, workers: int, tallest: int) -> list[Wavefront]:
    """The ways in which steps of a program are computed together where that pays, the most steps first. Steps with residuals gain less by
    bands than by whole planes.

    Args:
        program: the program of a step.
        fields: how the arrays are stored.
        workers: number of CPU threads.
        tallest: rows from the first to the last cell of a receiver, at most.
    """
    sizes = [size for size in SIZES if size >= tallest][: 1 + (tallest == 0)] or [tallest]
    candidates = (
        Wavefront.of(program, fields, workers, steps, size, banded)
        for steps in TOGETHER
        for banded in ((True, False) if steps > 1 else (False,))
        for size in reversed(sizes)
    )
    paying = [each for each in candidates if each is not None and each.pays(program, fields, workers)]
    whole = [each for each in paying if each.bands is None]
    return whole if whole and _has_residuals(program) else paying


def _has_residuals(program: Program) -> bool:
    """Whether a step writes residuals, or reads them."""
    return program.direction < 0 or 1 in program.entries.values()


def _step_bytes(program: Program, fields: StoredFields) -> int:
    """Bytes of the fields that a step reads and writes."""
    return sum(_bytes_of_arrays(program, fields).values())


def _bytes_of_arrays(program: Program, fields: StoredFields) -> dict[str, int]:
    """Bytes of each field that a step reads or writes."""
    out = {}
    for array in program.arrays():
        if array not in fields.slim:
            levels = program.period(array) if array in program.entries else 1
            out[array] = levels * fields.sparse.get(array, fields.layout).nbytes
    return out


def _reach(program: Program, nodes: list[Node], written: set[str], axis: int) -> int:
    """How far away along an axis the nodes read arrays that the program writes."""
    found = program.reads(nodes)
    return max((abs(o[axis]) for name, offsets in found.items() if program.places[name].array in written for o in offsets), default=0)


def _behind(program: Program, unit: int, steps: int, reads: tuple[Read, ...], tallest: int) -> tuple[tuple[int, ...], int]:
    """The rows by which each nest is behind the first one, and by which a nest is behind the same one of the step before.

    A nest is behind an earlier one by the rows that it reads beyond its own one of arrays that the earlier one writes, and by those that
    the earlier one reads of arrays that the nest writes. If it overwrites an array that receivers read, it is also behind by the rows of
    one.
    """
    nests = list(program.nests)
    read, written = [_rows_read(program, nest) for nest in nests], [_written(nest) for nest in nests]
    gathered = set(_overwritten(program, steps, reads))

    def apart(before: int, after: int, later: int = 0) -> int:
        rows = [read[one].get(array, 0) for one, other in ((after, before), (before, after)) for array in written[other]]
        return _multiple(max([*rows, tallest * ((before, after + later * len(nests)) in gathered)]), unit)

    behind: list[int] = []
    for after in range(len(nests)):
        behind.append(max((behind[before] + apart(before, after) for before in range(after)), default=0))
    pairs = product(range(len(nests)), range(len(nests)), range(1, steps))
    between = (-(-(behind[before] + apart(before, after, later) - behind[after]) // later) for before, after, later in pairs)
    return tuple(behind), _multiple(max(between, default=0), unit)


def _overwritten(program: Program, steps: int, reads: tuple[Read, ...]) -> Iterator[tuple[int, int]]:
    """The stage after which receivers are read, and each later stage of a sweep that overwrites what they read, as numbers."""
    places = [number for number, operation in enumerate(program.operations) if isinstance(operation, Nest)]
    for read in reads:
        own, gather = places.index(read.nest), program.operations[read.number]
        assert isinstance(gather, PointGather)
        for later in range(own + 1, steps * len(places)):
            nest = program.operations[places[later % len(places)]]
            assert isinstance(nest, Nest)
            if program.changes(gather, nest, later // len(places) - read.later):
                yield own, later


def _rows_read(program: Program, nest: Nest) -> dict[str, int]:
    """Array -> how far away along the first axis a nest reads it, also for kept values that it computes and does not need."""
    out: dict[str, int] = {}

    def note(nodes: Iterable[Node], low: int = 0, high: int = 0) -> None:
        for name, offsets in program.reads(nodes).items():
            if name in program.places:  # else it is a kept value
                array = program.places[name].array
                out[array] = max(out.get(array, 0), *(max(low - offset[0], high + offset[0]) for offset in offsets))

    note([assign.node for assign in nest.assigns])
    for group in (group for variant in nest.variants for group in variant.groups):
        note(group.values.values(), group.low[0], group.high[0])
    return out


def _written(nest: Nest) -> set[str]:
    """Arrays that a nest writes."""
    return {each.target.array for each in (*nest.assigns, *nest.scatters, *nest.refills)}


def _margin(program: Program, fields: StoredFields, axis: int) -> tuple[int, bool]:
    """How far from the sides of an axis the cells are on which cells outside the grid depend, and whether a rule joins both sides."""
    n, far, joined = fields.layout.shape[axis], 0, False
    for nest in program.nests:
        for assign in nest.assigns:
            reach = fields.reach[assign.target.array][axis] if assign.target.array in fields.reach else 0
            outside = assign.outside[axis] if assign.outside else 0
            for rules, depth in ((assign.rules, reach), (assign.fold, outside)):
                if depth and rules:
                    joins = rules[axis][0].rule.joins
                    far, joined = max(far, depth if joins else _deepest(rules[axis], n, depth)), joined or joins
    return far, joined


def _deepest(sides: Sides, n: int, reach: int) -> int:
    """The distance from a side of the farthest cell on which a cell outside depends."""
    found = 0
    for ghost in ghosts(sides, n, reach):
        cells = [cell for cell, _ in ghost.cells] or [0 if ghost.position < 0 else n - 1]
        found = max(found, *(1 + cell if ghost.position < 0 else n - cell for cell in cells))
    return found


def _reads(program: Program) -> tuple[Read, ...]:
    """The gathers of a program, each with the nest before it, which may be the last one of the step before."""
    nests = [number for number, operation in enumerate(program.operations) if isinstance(operation, Nest)]
    found = []
    for number, operation in enumerate(program.operations):
        if isinstance(operation, PointGather):
            before = [nest for nest in nests if nest < number]
            found.append(Read(number, before[-1] if before else nests[-1], 0 if before else 1))
    return tuple(found)


class WavefrontKernel(WorkerKernel):
    """Source of a program whose steps are computed some at a time.

    Args:
        program: the program of a step.
        graph: the graph of its expressions.
        fields: how the arrays are stored.
        workers: number of CPU threads.
        wavefront: how its steps are computed together.
    """

    def __init__(self, program: Program, graph: Graph, fields: StoredFields, workers: int, wavefront: Wavefront) -> None:
        super().__init__(program, graph, fields, workers, banded=wavefront.bands is not None, resumed=True)
        self.wavefront = wavefront

    def _arguments(self) -> list[Argument]:
        points = dict.fromkeys(gather.points for gather in self.program.gathers)
        kinds: tuple[Kind, ...] = ("point rows", "point order", *(("point last rows",) if self.banded else ()))
        own = [Argument(f"{identifier(name)}_{kind.replace(' ', '_')}", kind, name) for name in points for kind in kinds]
        return super()._arguments() + own

    def _time_loop(self) -> None:
        text, wave = self.text, self.wavefront
        with text.block(f"for sweep in range((control[{STEPS}] - control[{DONE}]) // {wave.steps})"):
            text(f"t = control[{DONE}] + sweep * {wave.steps}")
            before = [read for read in wave.reads if read.later]
            if before:
                with text.block("if begin <= 0"):
                    for read in before:
                        self.call(
                            f"gather_{read.number}", partial(self._gather, self._gather_of(read), str(read.number)), self._at_step("t")
                        )
                    if self.workers > 1:
                        write_barrier(text, self.workers, "1")
            self._rows_in_turn(int(bool(before)))
            with text.block(f"if begin < {NOTHING}"):
                text("begin = 0")

    def _rows_in_turn(self, done: int) -> None:
        """Two parts of a sweep, that `done` parts precede: the rows of the slab that depend on no other slab, a few of each stage in turn;
        then those that were left out, at the end of the slab. One worker has all rows in the first part, unless the sides are joined.

        One loop computes both, because LLVM makes code that is 10 - 15 % faster of a function that is called at one place.
        """
        text, wave, rows, bands = self.text, self.wavefront, self.wavefront.rows, self.wavefront.bands
        numbers = [number for number, operation in enumerate(self.program.operations) if isinstance(operation, Nest)]
        if wave.steps == 1:
            text("bottom, top = lo, hi")
            text(f"n = {self.step_index('t')}")
            self._levels(self.levels_used)
        text(f"height = (hi - lo + {rows - 1}) // {rows}")  # of the slab, in blocks
        if not wave.joined:
            with text.block(f"if w == {self.workers - 1}"):
                text(f"height = (hi - lo + {wave.farthest + rows - 1}) // {rows}")  # until the last stage is at the side of the grid
        text("blocks = height" if bands is None else f"blocks = height * {bands.count(self.layout)}")
        with text.block("for b in range(blocks + 1)" if self._has_ends else "for b in range(blocks)"):
            if self.workers > 1:
                with text.block(f"if b == blocks and begin <= {done}"):
                    write_barrier(text, self.workers, str(done + 1))
            text(f"part = {done}")
            with text.block("if b >= blocks"):
                text(f"part = {done + 1}")
            with text.block("if begin <= part"), text.block(f"for ahead in range({wave.steps})"):
                for stage, number in enumerate(numbers):
                    behind = f"({wave.behind[stage]} + ahead * {wave.period})"
                    text(f"margin = {wave.margin} + {behind}")
                    text(f"begun = lo + {'b' if bands is None else 'b % height'} * {rows} - {behind}")
                    if bands is not None:
                        self._band(bands, f"({stage} + ahead * {len(numbers)})")
                    with self._pieces():
                        self._bounds(rows)
                        with text.block("if low < high"):
                            self._rows_of(number)
                    reads = sorted((each for each in wave.reads if each.nest == number), key=lambda each: (each.later, each.number))
                    with self._pieces() if reads else nullcontext():
                        if reads and (wave.joined or (wave.tallest and self.workers > 1)):
                            self._bounds(rows, f" + {wave.tallest}")
                        for read in reads:
                            with text.block("if low < high" + f" and ahead < {wave.steps - 1}" * read.later):
                                self._read(read)
        if self.workers > 1:
            with text.block(f"if begin <= {done + 1}"):
                write_barrier(text, self.workers, str(done + 2))

    @property
    def _has_ends(self) -> bool:
        """True if slabs have ends at which rows are left out."""
        return self.workers > 1 or self.wavefront.joined

    @contextmanager
    def _pieces(self) -> Iterator[None]:
        """A loop over the two pieces of the end where the sides are joined: the last rows of the grid, and the first ones."""
        if not self.wavefront.joined:
            yield
            return
        text = self.text
        text("pieces = 1")
        with text.block(f"if b >= blocks and w == {self.workers - 1}"):
            text("pieces = 2")
        with text.block("for piece in range(pieces)"):
            yield

    def block(self, nest: Nest) -> int:
        return 1 if self.wavefront.steps == 1 and len(self.rows) == 1 else super().block(nest)

    def _in_end_slabs(self, nest: Nest) -> bool:
        return not self.wavefront.joined and super()._in_end_slabs(nest)

    def _band(self, bands: Bands, before: str) -> None:
        """The rows of planes of the present block, `front` to `back`: those of its band, or all at the ends of a slab. So many stages are
        `before` the present one."""
        text, last = self.text, bands.count(self.layout) - 1
        text(f"band = b // height * {bands.rows} - {before} * {bands.lag}")
        text(f"front, back = ti.max(0, band), band + {bands.rows}")
        with text.block(f"if b // height >= {last}"):
            text(f"back = {self.layout.rows[1]}")
        with text.block("if b >= blocks"):
            text("front = 0")

    def _bounds(self, rows: int, receiver: str = "") -> None:
        """The rows of a stage in the present block, `low` to `high`: those that depend on no other slab, then those at the end of the slab.
        A receiver belongs to its last row; and one whose first row belongs to an end is read with that end."""
        text, unit, wave, last = self.text, self.wavefront.unit, self.wavefront, self.workers - 1
        margin, whole = wave.margin, "hi" if unit == 1 else f"hi // {unit} * {unit}"
        text(f"low, high = begun, begun + {rows}")
        if not wave.joined:
            with text.block("if w == 0"):
                with text.block(f"if low < {margin}"):
                    text("low = 0")
                with text.block(f"if high < {margin}"):
                    text("high = 0")
            with text.block(f"if w == {last} and high > {whole} - {margin}"):
                text(f"low, high = ti.select(low > {whole} - {margin}, hi, low), hi")  # the block before had the last rows
        if not self._has_ends:
            return
        with text.block("if w > 0") if not wave.joined else nullcontext():
            text(f"low = ti.max(low, lo + margin{receiver})")
        with text.block(f"if w < {last}") if not wave.joined else nullcontext():
            text(f"high = ti.min(high, {whole} - margin)")
        with text.block("if b >= blocks"):
            text(f"low, high = {whole} - margin, ti.min(hi + margin{receiver}, {self.layout.rows[0]})")
            if wave.joined:
                with text.block("if piece == 1"):
                    text(f"low, high = 0, margin{receiver}")
            else:
                with text.block(f"if w == {last}"):
                    text("high = low")

    def _rows_of(self, number: int) -> None:
        """Compute some rows of a stage. Of one step alone, the kernel's own variables say which: a function with its arguments for each
        stage would take a third longer to compile."""
        nest, alone = self.program.operations[number], self.wavefront.steps == 1
        assert isinstance(nest, Nest)
        if any(each.groups for each in nest.variants):
            first = "lo + margin" if self.wavefront.joined else "ti.select(w == 0, 0, lo + margin)" if self.workers > 1 else "0"
            self.text(f"fresh = ti.select(low == {first}, 1, 0)")
            with self.text.block("if b >= blocks"):
                self.text("fresh = 1")
        if alone:
            self.text("lo, hi = low, high")
            self._nest(nest, f"nest_{number}")
            self.text("lo, hi = bottom, top")
        else:
            given = self._at_step("(t + ahead)") | {"lo": "low", "hi": "high"}
            self.call(f"rows_of_{number}", partial(self._nest, nest, f"nest_{number}"), given)

    def _read(self, read: Read) -> None:
        """Read the receivers whose last row is one of some rows."""
        given = self._at_step(f"(t + ahead + {read.later})") | {"lo": "low", "hi": "high"}
        self.call(f"gather_{read.number}_in_rows", partial(self._gather_rows, read), given)

    def _gather_rows(self, read: Read) -> None:
        gather = self._gather_of(read)
        name = identifier(gather.points)
        with self.text.block(f"for e in range({name}_point_rows[lo], {name}_point_rows[hi])"):
            self.text(f"r = {name}_point_order[e]")
            last = f"{name}_point_last_rows[r]"
            with self.text.block(f"if front <= {last} and {last} < back") if self.banded else nullcontext():
                self.write_gather(gather, str(read.number))

    def _gather_of(self, read: Read) -> PointGather:
        gather = self.program.operations[read.number]
        assert isinstance(gather, PointGather)
        return gather

    def _at_step(self, step: str) -> dict[str, str]:
        """The arguments of functions that depend on the local step."""
        return {"n": self.step_index(step), **{self.level(place): self.level_start(place, step) for place in self.levels_used}}
