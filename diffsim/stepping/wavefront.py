"""Several steps in one sweep over the rows of a slab, so that the next step finds them in the cache (temporal blocking).

The nests of these steps are *stages*. A sweep computes a few rows of each stage in turn. Each stage is `lag` rows behind the one before it,
so it finds complete what it reads at neighbouring rows, and overwrites nothing that an earlier stage still reads. Rows near the ends of a
slab depend on the neighbouring slab: there, stage s leaves out `margin` + s `lag` rows. After a barrier, the worker below an end computes
the rows that were left out on both sides of it, stage by stage. So each cell is computed by the same operations in the same order as
without a wavefront, and no bit changes.

Receivers are read before a sweep or after it, where the values that they need are not overwritten.

Reference: M. Wolf, More iteration space tiling, Supercomputing 1989; with threads Wellein et al., Efficient temporal blocking for stencil
computations by multicore-aware wavefront parallelization, 2009, doi:10.1109/COMPSAC.2009.82.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import TypeAlias

from diffsim.boundary import Rules, ghosts
from diffsim.expr.graph import Graph, Node
from diffsim.field import Layout
from diffsim.stepping.kernel import DONE, STEPS
from diffsim.stepping.program import Nest, PointGather, Program
from diffsim.stepping.stored import StoredFields
from diffsim.stepping.workers import NOTHING, WorkerKernel, grain, slab_bounds
from diffsim.system import last_cache_bytes

TOGETHER = 2
"""Steps in a sweep."""
BLOCK = 8
"""Rows of a stage that a sweep computes before it goes on to the next stage, in two dimensions. A call of a function takes as long as some
hundred cells."""


Gathers: TypeAlias = tuple[tuple[int, int], ...]
"""Some gathers of a sweep: the step, and the number of the operation."""


@dataclass(frozen=True)
class Wavefront:
    """How the steps of a program are computed together.

    Attributes:
        steps: number of steps in a sweep.
        lag: rows from one stage to the next.
        margin: rows at the sides of the grid that are computed together, because cells outside the grid depend on them.
        before: gathers before the sweep.
        after: gathers after it.
    """

    steps: int
    lag: int
    margin: int
    before: Gathers
    after: Gathers

    @classmethod
    def of(cls, program: Program, fields: StoredFields, workers: int, steps: int = TOGETHER) -> Wavefront | None:
        """The wavefront of a program, or None if its steps cannot be computed together."""
        layout, nests = fields.layout, list(program.nests)
        if len(layout.shape) == 1 or program.alone or not all(map(_simple, program.operations)):
            return None
        written = {assign.target.array for nest in nests for assign in nest.assigns} | {each.target.array for each in program.scatters}
        if _reach(program, [each.factor for each in program.scatters], written):
            return None
        unit = grain(layout)
        lag = _multiple(_reach(program, [a.node for nest in nests for a in nest.assigns], written), unit)
        margin = _margin(program, fields)
        gathers = _placed_gathers(program, steps)
        if margin is None or gathers is None:
            return None
        found = cls(steps, lag, _multiple(margin, unit), *gathers)
        bounds = slab_bounds(layout, workers)
        least = min(after - before for before, after in pairwise(bounds))
        return found if least >= 2 * (found.margin + steps * len(nests) * lag) + unit else None

    def pays(self, program: Program, fields: StoredFields, workers: int) -> bool:
        """Whether what a step reads and writes does not fit into the cache, and the rows between the first and the last stage do."""
        layout = fields.layout
        arrays = [array for array in program.arrays() if array not in fields.slim]
        levels = sum(program.period(array) if array in program.entries else 1 for array in arrays)
        row = layout.nbytes // (layout.rows[0] + 2 * layout.row_halo[0]) * levels
        rows = self.steps * len(list(program.nests)) * self.lag + rows_of_block(layout) + 2 * layout.row_halo[0]
        cache = last_cache_bytes()
        return layout.nbytes * levels > cache and 2 * workers * rows * row <= cache


def rows_of_block(layout: Layout) -> int:
    """Rows (planes in three dimensions) of a stage that a sweep computes before it goes on to the next stage."""
    return grain(layout) if len(layout.rows) == 2 else _multiple(BLOCK, grain(layout))


def _multiple(rows: int, unit: int) -> int:
    return -(-rows // unit) * unit


def _simple(operation: object) -> bool:
    """Whether an operation may be part of a stage, or be moved before or after all."""
    if isinstance(operation, Nest):
        return not operation.restores and not any(each.groups for each in operation.variants)
    return isinstance(operation, PointGather)


def _reach(program: Program, nodes: list[Node], written: set[str]) -> int:
    """How far away along the first axis the nodes read arrays that the program writes."""
    found = program.reads(nodes)
    return max((abs(o[0]) for name, offsets in found.items() if program.places[name].array in written for o in offsets), default=0)


def _margin(program: Program, fields: StoredFields) -> int | None:
    """How far from the sides of the first axis the cells are on which cells outside the grid depend; None if the rule joins both ends."""
    n, far = fields.layout.shape[0], 0
    for nest in program.nests:
        for assign in nest.assigns:
            reach = fields.reach.get(assign.target.array, (0,))[0]
            outside = assign.outside[0] if assign.outside else 0
            for rules, depth in ((assign.rules, reach), (assign.fold, outside)):
                if depth and rules:
                    if rules[0][0].rule.joins:
                        return None
                    far = max(far, _deepest(rules, n, depth))
    return far


def _deepest(rules: Rules, n: int, reach: int) -> int:
    """The distance from a side of the farthest cell on which a cell outside depends."""
    found = 0
    for ghost in ghosts(rules[0], n, reach):
        cells = [cell for cell, _ in ghost.cells] or [0 if ghost.position < 0 else n - 1]
        found = max(found, *(1 + cell if ghost.position < 0 else n - cell for cell in cells))
    return found


def _placed_gathers(program: Program, steps: int) -> tuple[Gathers, Gathers] | None:
    """The gathers before and after a sweep, or None if one reads values that are only complete in the middle, or if the order in which
    gathers add to one row would change."""
    before, after = [], []
    for step in range(steps):
        for number, operation in enumerate(program.operations):
            if not isinstance(operation, PointGather):
                continue
            if not any(_changes(program, operation, (step, number), at) for at in _nests(program, steps) if at < (step, number)):
                before.append((step, number))
            elif not any(_changes(program, operation, (step, number), at) for at in _nests(program, steps) if at > (step, number)):
                after.append((step, number))
            else:
                return None
    streams = [{_stream(program, at) for at in gathers} for gathers in (before, after)]
    return None if streams[0] & streams[1] else (tuple(before), tuple(after))


def _stream(program: Program, at: tuple[int, int]) -> tuple[str, int]:
    """The row that a gather adds to, or writes."""
    gather = program.operations[at[1]]
    assert isinstance(gather, PointGather)
    return gather.stream, gather.row + program.direction * at[0]


def _nests(program: Program, steps: int) -> Iterator[tuple[int, int]]:
    """The stages of a sweep: the step, and the number of the operation."""
    for step in range(steps):
        for number, operation in enumerate(program.operations):
            if isinstance(operation, Nest):
                yield step, number


def _changes(program: Program, gather: PointGather, at: tuple[int, int], stage: tuple[int, int]) -> bool:
    """Whether a stage writes memory that a gather reads."""
    nest = program.operations[stage[1]]
    assert isinstance(nest, Nest)
    targets = [assign.target for assign in nest.assigns] + [scatter.target for scatter in nest.scatters]
    for name in program.reads([gather.node]):
        place = program.places.get(name)
        for target in targets:
            if place is None or place.array != target.array:
                continue
            if place.level is None or target.level is None:
                return True
            if (target.level + stage[0] - place.level - at[0]) % program.period(place.array) == 0:
                return True
    return False


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
        super().__init__(program, graph, fields, workers)
        self.wavefront = wavefront

    def _time_loop(self) -> None:
        text, wave = self.text, self.wavefront
        with text.block(f"for sweep in range((control[{STEPS}] - control[{DONE}]) // {wave.steps})"):
            text(f"t = control[{DONE}] + sweep * {wave.steps}")
            done = 0
            if wave.before:
                self._receivers(wave.before, done)
                done += 1
            self._rows_in_turn(done)
            if wave.after:
                self._receivers(wave.after, done + 2)
            with text.block(f"if begin < {NOTHING}"):
                text("begin = 0")

    def _receivers(self, gathers: Gathers, done: int) -> None:
        """A part of a sweep that `done` parts precede."""
        with self.text.block(f"if begin <= {done}"):
            for step, number in gathers:
                gather = self.program.operations[number]
                assert isinstance(gather, PointGather)
                self._call(f"gather_{number}", partial(self._gather, gather, str(number)), self._at_step(f"(t + {step})"))
            if self.workers > 1:
                self._barrier(str(done + 1))

    def _rows_in_turn(self, done: int) -> None:
        """Two parts of a sweep, that `done` parts precede: the rows of the slab between those that depend on other slabs, a few of each
        stage in turn; then those that were left out, at the first end of the grid and at the end of the slab.

        One loop computes both, because LLVM compiles a function that is called at one place 10 - 15 % faster.
        """
        text, wave, rows = self.text, self.wavefront, rows_of_block(self.layout)
        unit = grain(self.layout)
        numbers = [number for number, operation in enumerate(self.program.operations) if isinstance(operation, Nest)]
        text(f"blocks = (hi - lo + {rows - 1}) // {rows}")
        with text.block("for b in range(blocks + 2)"):
            if self.workers > 1:
                with text.block(f"if b == blocks and begin <= {done}"):
                    self._barrier(str(done + 1))
            text(f"part = {done}")
            with text.block("if b >= blocks"):
                text(f"part = {done + 1}")
            with text.block("if begin <= part"), text.block(f"for ahead in range({wave.steps})"):
                for stage, number in enumerate(numbers):
                    behind = f"({stage} + ahead * {len(numbers)}) * {wave.lag}"
                    text(f"margin = {wave.margin} + {behind}")
                    text(f"low = lo + b * {rows} - {behind}")
                    text(f"high = ti.min(low + {rows}, hi // {unit} * {unit} - margin)")
                    text("low = ti.max(low, lo + margin)")
                    with text.block("if b == blocks"):
                        text("low, high = 0, margin")
                        with text.block("if w > 0"):
                            text("high = 0")
                    with text.block("if b > blocks"):
                        text(f"low, high = hi // {unit} * {unit} - margin, ti.min(hi + margin, {self.layout.rows[0]})")
                    with text.block("if low < high"):
                        self._rows_of(number)
        if self.workers > 1:
            with text.block(f"if begin <= {done + 1}"):
                self._barrier(str(done + 2))

    def _rows_of(self, number: int) -> None:
        """Compute some rows of a stage."""
        nest = self.program.operations[number]
        assert isinstance(nest, Nest)
        given = self._at_step("(t + ahead)") | {"lo": "low", "hi": "high"}
        self._call(f"rows_of_{number}", partial(self._nest, nest, f"nest_{number}"), given)

    def _at_step(self, step: str) -> dict[str, str]:
        """The arguments of functions that depend on the local step."""
        return {"n": self.step_index(step), **{self.level(place): self.level_start(place, step) for place in self.levels_used}}
