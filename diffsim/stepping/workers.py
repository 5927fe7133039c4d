"""The CPU kernel: the time loop runs inside it, on persistent workers.

There is one worker a pool thread, each with a slab of the first axis, and a spin barrier after each loop nest. Taichi's
pool has exactly as many threads as there are workers. Each cell is computed by the same instructions whoever's slab it is
in, so the number of workers never changes a bit.

Nobody spins for long: a worker whose others have no core leaves the launch, and so does everybody else at the same
barrier. All work up to there is done then, and another launch goes on from there. Whether a barrier is left is decided by
one word, which counts arrivals and has a flag: the flag counts if it was set before the last one arrived, and that one
sees whether it was; until it has opened or closed the gate, the others wait.
"""

from __future__ import annotations

from collections.abc import Mapping

from diffsim.expr.graph import Graph, Node
from diffsim.expr.source import ExpressionWriter, TileLoader, identifier, row_start
from diffsim.field import Layout
from diffsim.stepping.equation import Profile
from diffsim.stepping.kernel import ARRIVALS, BEGIN, DONE, FIRST, GATE, LEFT_BEGIN, LEFT_DONE, STEPS, Kernel, images
from diffsim.stepping.program import Assign, Nest, Operation, Place, Program, Strip

TALLEST_BLOCK = 4
PATIENCE = 20_000
"""Looks at a gate before a worker leaves, 0.1 - 0.4 ms: about what it costs to wake a sleeping thread twice. A scheduler tick is 4 ms."""
FLAG = 1 << 30
"""Of arrivals: somebody wants to leave. Of openings: a gate is closed, and all leave. More than there are of either in a launch."""
NOTHING = 1 << 20
"""More operations than a step has: a worker that has left begins with this one."""


def row_block(reach: int) -> int:
    """Rows computed together by a nest that reads `reach` rows up and down, so that rows which several need are loaded once.

    More rows save loads and cost registers. Measured on acoustics at 1024 x 1024, one thread, Gpoints/s with blocks of 1, 2
    and 4 rows: order 4 (reach 2) 2.7, 3.6, 4.2; order 8 (reach 4) 2.0, 2.1, 1.8.
    """
    return 1 if reach == 0 else 4 if reach <= 2 else 2


def useful_workers(layout: Layout, threads: int) -> int:
    """As many of the threads as get a slab."""
    return max(1, min(threads, layout.rows[0] // _grain(layout)))


def _grain(layout: Layout) -> int:
    return TALLEST_BLOCK if len(layout.rows) == 1 else 1


def slab_bounds(layout: Layout, workers: int) -> list[int]:
    """First row (in three dimensions, plane) of each worker's slab, and the end. Blocks of rows never depend on the workers."""
    n, grain = layout.rows[0], _grain(layout)
    return [worker * (n // grain) // workers * grain for worker in range(workers)] + [n]


class WorkerKernel(Kernel):
    """Source of a program for `workers` CPU threads."""

    def __init__(
        self,
        program: Program,
        graph: Graph,
        layout: Layout,
        reach: Mapping[str, tuple[int, ...]],
        profiles: Mapping[str, Profile],
        workers: int,
    ) -> None:
        super().__init__(program, graph, layout, reach, profiles)
        self.workers = workers

    def _write(self) -> None:
        text, program = self.text, self.program
        text("@ti.kernel")
        with text.block(self.header()):
            text("ti.loop_config(serialize=True)" if self.workers == 1 else "ti.loop_config(block_dim=1)")
            with text.block(f"for w in range({self.workers})"):
                bounds = slab_bounds(self.layout, self.workers)
                text(f"lo, hi = {bounds[0]}, {bounds[1]}")
                for worker in range(1, self.workers):
                    with text.block(f"if w == {worker}"):
                        text(f"lo, hi = {bounds[worker]}, {bounds[worker + 1]}")
                text(f"begin = control[{BEGIN}]")
                if self.workers > 1:
                    text("arrivals = 0")
                    text("openings = 0")
                with text.block(f"for t in range(control[{DONE}], control[{STEPS}])"):
                    text(f"n = control[{FIRST}] {'+' if program.direction > 0 else '-'} t")
                    for place in self.levels_used():
                        text(f"{self.level(place)} = {self.level_start(place)}")
                    for index, operation in enumerate(program.operations):
                        with text.block(f"if begin <= {index}"):
                            self._operation(operation, index)
                    with text.block(f"if begin < {NOTHING}"):
                        text("begin = 0")

    def _operation(self, operation: Operation, index: int) -> None:
        if isinstance(operation, Nest):
            self._nest(operation)
            if self.workers > 1:
                self._barrier(index + 1)
        elif isinstance(operation, Strip):
            self._strip(operation, back=False)
        else:
            with self.text.block(f"for turn in range(({self._points(operation.points)} - w + {self.workers - 1}) // {self.workers})"):
                self.text(f"r = w + turn * {self.workers}")
                self.write_gather(operation, index)

    def _points(self, points: str) -> str:
        return f"{identifier(points)}_point_starts.shape[0] - 1"

    def _barrier(self, done: int) -> None:
        """Wait until all workers have done so many operations of this step, or leave the launch with all of them."""
        text = self.text
        text(f"arrivals = arrivals + {self.workers}")
        text("openings = openings + 1")
        text(f"seen = ti.atomic_add(control[{ARRIVALS}], 1)")
        with text.block(f"if seen & {FLAG - 1} == arrivals - 1"):  # the last one
            with text.block(f"if seen < {FLAG}"):
                text(f"ti.atomic_add(control[{GATE}], 1)")
            with text.block("else"):
                text(f"control[{LEFT_DONE}] = t")
                text(f"control[{LEFT_BEGIN}] = {done}")
                text(f"ti.atomic_add(control[{GATE}], {FLAG})")
                text(f"begin = {NOTHING}")
        with text.block("else"):
            text(f"gate = ti.atomic_add(control[{GATE}], 0)")
            text("looks = 0")
            with text.block(f"while gate < openings and begin < {NOTHING}"):
                text("looks = looks + 1")
                with text.block(f"if looks == {PATIENCE}"):
                    text(f"seen = ti.atomic_or(control[{ARRIVALS}], {FLAG})")
                    with text.block(f"if seen & {FLAG - 1} < arrivals"):
                        text(f"begin = {NOTHING}")
                text(f"gate = ti.atomic_add(control[{GATE}], 0)")
            with text.block(f"if gate >= {FLAG}"):
                text(f"begin = {NOTHING}")

    def _nest(self, nest: Nest) -> None:
        text, halo = self.text, self.layout.row_halo
        offsets = [o for found in self.program.reads([a.node for a in nest.assigns]).values() for o in found]
        block = row_block(max((abs(o[-2]) for o in offsets), default=0)) if self.ndim > 1 else 1
        if nest.assigns:
            if len(self.rows) == 1:
                self._row_loop(nest, block, "lo", "hi", halo[0])
            else:
                with text.block(f"for k in range(lo + {halo[0]}, hi + {halo[0]})"):
                    self._row_loop(nest, block, "0", str(self.layout.rows[1]), halo[1])
        for index, assign in enumerate(nest.assigns):
            if assign.scatter:
                self._fold(assign, index)
        for index, scatter in enumerate(nest.scatters):
            name = identifier(scatter.points)
            with text.block(f"for e in range({name}_slabs[w], {name}_slabs[w + 1])"):
                self.write_scatter(scatter, index)
        for strip in nest.restores:
            self._strip(strip, back=True)
        for assign in nest.assigns:
            self._extend(assign)

    def _strip(self, strip: Strip, back: bool) -> None:
        name = identifier(strip.name)
        with self.text.block(f"for e in range({name}_slabs[w], {name}_slabs[w + 1])"):
            self.write_strip(strip, back)

    def _row_loop(self, nest: Nest, block: int, first: str, last: str, halo: int) -> None:
        text = self.text
        if block == 1:
            with text.block(f"for i in range({first} + {halo}, {last} + {halo})"):
                self._tile_loop(nest, 1)
            return
        with text.block(f"for b in range({first} // {block}, {last} // {block})"):
            text(f"i = b * {block} + {halo}")
            self._tile_loop(nest, block)
        rows = self.layout.rows[-1]
        if rows % block:
            with text.block(f"for i in range({last} // {block} * {block} + {halo}, {last} + {halo})"):
                self._tile_loop(nest, 1)

    def _tile_loop(self, nest: Nest, rows: int) -> None:
        text, layout = self.text, self.layout
        start = row_start(self.rows, layout.strides)
        with text.block(f"for j in range({layout.halo_tiles}, {layout.halo_tiles + layout.tiles})"):
            text(f"at = {start}j")
            writer = ExpressionWriter(text, TileLoader(text, self.sources), self.lanes)
            stores = []
            for row in range(rows):
                for assign in nest.assigns:
                    node: Node = assign.node if row == 0 else self.graph.shift(assign.node, (*(0,) * (self.ndim - 2), row, 0))
                    target = self._tile(assign.target, row)
                    value = writer(node)
                    if node.op == "const":
                        value = f"Tile({node.data!r})"
                    stores.append(f"{target} = {target} + {value}" if assign.accumulate else f"{target} = {value}")
                if rows == 1 or row == rows - 1:
                    for store in stores:
                        text(store)

    def _tile(self, place: Place, row: int) -> str:
        ahead = row * self.layout.strides[-1]
        return f"{identifier(place.array)}[{self.lead(place)}at{f' + {ahead}' if ahead else ''}]"

    def _fold(self, assign: Assign, index: int) -> None:
        """Visit the cells within reach of a folding edge: whole rows near an edge of the leading axes, both ends of the others."""
        text, shape = self.text, self.layout.shape
        reach = self.fold_reach(assign)
        if len(self.rows) == 2:
            text("for kk in range(lo, hi):")
            text.depth += 1
            text(f"for ii in range({shape[1]}):")
        else:
            text("for ii in range(lo, hi):")
        text.depth += 1
        ends = min(2 * reach[-1], shape[-1])
        text(f"count = {ends}")
        leading = ("kk", "ii") if len(self.rows) == 2 else ("ii",)
        for axis, name in enumerate(leading if self.ndim > 1 else ()):
            if reach[axis]:
                with text.block(f"if {name} < {reach[axis]} or {name} >= {shape[axis] - reach[axis]}"):
                    text(f"count = {shape[-1]}")
        with text.block("for c in range(count)"):
            text("x = c")
            with text.block(f"if count < {shape[-1]} and c >= {reach[-1]}"):
                text(f"x = c + {shape[-1] - ends}")
            self.write_fold(assign, index, lambda axis: "x" if axis == self.ndim - 1 else leading[axis])
        text.depth -= len(self.rows)

    def _extend(self, assign: Assign) -> None:
        """Fill the halo of the slab's own rows; rows of the halo are copied by the owner of their source."""
        array = assign.target.array
        reach = self.reach.get(array, (0,) * self.ndim)
        if not any(reach):
            return
        text, layout, rules = self.text, self.layout, assign.rules
        name, lead = identifier(array), self.lead(assign.target)
        planes = len(self.rows) == 2
        if reach[-1] and (rules[-1] != "zero" or layout.shape[-1] % self.lanes):
            if planes:
                text(f"for k in range(lo + {layout.row_halo[0]}, hi + {layout.row_halo[0]}):")
                text.depth += 1
                bounds = f"{layout.row_halo[1]}, {layout.row_halo[1] + layout.rows[1]}"
            else:
                bounds = f"lo + {layout.row_halo[0]}, hi + {layout.row_halo[0]}"
            with text.block(f"for i in range({bounds})"):
                self._extend_row(assign, reach[-1])
            text.depth -= planes
        if planes and reach[1] and rules[1] != "zero":
            with text.block(f"for k in range(lo + {layout.row_halo[0]}, hi + {layout.row_halo[0]})"):
                text(f"plane = {lead}k * {layout.strides[0]}")
                for target, source in images(rules[1], layout.rows[1], layout.row_halo[1], reach[1]):
                    with text.block(f"for j in range({layout.stride})"):
                        text(f"{name}[plane + {target * layout.stride} + j] = {name}[plane + {source * layout.stride} + j]")
        if self.ndim > 1 and reach[0] and rules[0] != "zero":
            h, size = layout.row_halo[0], layout.strides[0]
            for target, source in images(rules[0], layout.rows[0], h, reach[0]):
                with text.block(f"if lo + {h} <= {source} and {source} < hi + {h}"), text.block(f"for j in range({size})"):
                    text(f"{name}[{lead}{target * size} + j] = {name}[{lead}{source * size} + j]")

    def _extend_row(self, assign: Assign, reach: int) -> None:
        n, first = self.layout.shape[-1], self.first_column
        if assign.rules[-1] == "zero":  # only what whole tiles wrote beyond the last cell
            for x in range(n, min(n + reach, self.layout.tiles * self.lanes)):
                self.text(f"{self.target_cell(assign.target, self.rows, str(x + first))} = F(0.0)")
            return
        for target, source in images(assign.rules[-1], n, first, reach):
            to, of = (self.target_cell(assign.target, self.rows, str(x)) for x in (target, source))
            self.text(f"{to} = {of}")
