"""Taichi source of scans and of their adjoints: chains of dependent operations, several interleaved.

Element 0 of a lane is its start; each further element is an *edge* from its predecessor. Edges are cut into blocks of a
length that depends on the shape alone. A chain is one block of one lane; chains are numbered block by block, then row by
row, then column by column, and a group of neighbours is worked on in one loop, so that one waits for its last result
while the others compute.

A scan (1) combines the edges of each block, (2) goes over the blocks of each lane to find the value before each, and
(3) scans each block from there. Its adjoint does the same backwards. By associativity y_i = op(a, s_i), where a is the
value before the block and s_i the scan of the block alone; so the cotangent of a by a block is the sum of the cotangents of a
in op(a, s_i), and the cotangent from behind the block passes through op(a, s_last): no Jacobian is ever multiplied with
another. A block whose total is not finite (or zero, if it is a product) is walked through one element after another,
since the true result may well be finite.

Reference: Blelloch, G. E. (1990), Prefix sums and their applications, CMU-CS-90-190.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from diffsim.kernels.operator import Operator, Typed
from diffsim.kernels.source import OperatorSource

ROWS, LENGTH, COLS, BLOCKS, EDGES, REVERSE, TOTAL = range(7)
"""Entries of the control array: the shape, blocks of a lane, edges of a block, 1 for reverse, number of chains."""


LARGEST_GROUP = 8


def interleaved(operations: int) -> int:
    """Chains of a group: many for a short operation, which waits for its own result; few for a long one, which needs the registers."""
    return LARGEST_GROUP if operations <= 4 else 4 if operations <= 12 else 2 if operations <= 40 else 1


class ChainSource(OperatorSource):
    """Loops over chains."""

    def __init__(self, op: Operator, dtypes: Sequence[np.dtype], workers: int | None) -> None:
        super().__init__(op, dtypes, workers)
        self.is_product = self.value.single == "mul" and self.dtypes[0].kind == "f"

    def dimensions(self) -> None:
        text = self.text
        text(f"rows, n, cols, blocks, edges = d[{ROWS}], d[{LENGTH}], d[{COLS}], d[{BLOCKS}], d[{EDGES}]")
        text(f"total = d[{TOTAL}]")
        text("stride = cols")
        with text.block(f"if d[{REVERSE}] == 1"):
            text("stride = -cols")

    def chain(self, q: str, suffix: str) -> None:
        """Block and address of the first edge of chain `q`, and its number of edges."""
        text = self.text
        text(f"block{suffix} = ({q}) // (rows * cols)")
        text(f"origin{suffix} = (({q}) // cols % rows) * n * cols + ({q}) % cols")
        with text.block(f"if d[{REVERSE}] == 1"):
            text(f"origin{suffix} = origin{suffix} + (n - 1) * cols")
        text(f"first{suffix} = origin{suffix} + (1 + block{suffix} * edges) * stride")
        text(f"size{suffix} = ti.min(edges, n - 1 - block{suffix} * edges)")

    def groups(self, size: int, body: Callable[[list[str]], None], blocks: str = "blocks") -> None:
        """Write `body` for groups of `size` chains of equal length, and one by one for the rest. It receives their suffixes.

        Args:
            size: chains of a group.
            body: writes the work of chains whose `q`, `block`, `first` and `size` variables have these suffixes.
            blocks: source of how many blocks of each lane take part, from the first on.
        """
        text = self.text
        many = f"d[{ROWS}] * d[{COLS}] * ({blocks.replace('blocks', f'd[{BLOCKS}]')})"
        with self.shared_out("g", f"({many} + {size - 1}) // {size}"):
            text(f"here = rows * cols * ({blocks})")
            text(f"q = g * {size}")
            text(f"last = (q + {size - 1}) // (rows * cols)")
            with text.block(f"if q + {size} <= here and (last < blocks - 1 or last == q // (rows * cols))"):
                suffixes = [f"_{i}" for i in range(size)]
                for i, suffix in enumerate(suffixes):
                    text(f"q{suffix} = q + {i}")
                    self.chain(f"q{suffix}", suffix)
                body(suffixes)
            if size > 1:
                with text.block("else"), text.block(f"for q_s in range(q, ti.min(q + {size}, here))"):
                    self.chain("q_s", "_s")
                    body(["_s"])

    def suspicious(self, names: Sequence[tuple[str, int]], carried: str) -> None:
        """Set `bad` where a float of `names` (variable, component) is not finite; or, for a product, is zero but `carried` is not."""
        text = self.text
        text("bad = 1")
        within = [f"ti.abs({name}) <= F({float(np.finfo(self.dtypes[k]).max)!r})" for name, k in names if self.dtypes[k].kind == "f"]
        if self.is_product:
            within.append(f"({names[0][0]} != 0 or {carried} == 0)")
        with text.block(f"if {' and '.join(within) or 'True'}"):
            text("bad = 0")


class ScanSource(ChainSource):
    """Inclusive scan of x0, x1 ... to those components of y that are stored; e0, e1 ... hold a value a chain.

    Args:
        op, dtypes, workers: of the chains.
        stored: components to write.
    """

    def __init__(self, op: Operator, dtypes: Sequence[np.dtype], workers: int | None, stored: tuple[int, ...]) -> None:
        super().__init__(op, dtypes, workers)
        self.stored = stored
        self.live, self.sweep = _live(op, dtypes, stored)
        everything = range(self.count)
        self.declare("x", everything)
        self.declare("y", stored)
        self.declare("e", everything)
        size = interleaved(len(self.value.steps) - len(self.value.reads()))
        self.text("@ti.kernel")
        with self.text.block(self.header("scan")):
            self.groups(size, self._totals, "blocks - 1")
            self._carry()
            self.groups(size, self._sweep)

    def _totals(self, chains: list[str]) -> None:
        write_totals(self, chains)

    def _carry(self) -> None:
        """The value before each block in place of its total, lane by lane."""
        text = self.text
        with self.shared_out("lane", f"d[{ROWS}] * d[{COLS}]"):
            self.chain("lane", "")
            for k in range(self.count):
                text(f"c{k} = {self.load('x', k, 'origin')}")
            for k in self.stored:
                self.store("y", k, "origin", f"c{k}")
            with text.block("for b in range(blocks)"):
                text("q = b * rows * cols + lane")
                for k in range(self.count):
                    text(f"s{k} = {self.load('e', k, 'q')}")
                    self.store("e", k, "q", f"c{k}")
                with text.block("if b < blocks - 1"):
                    add_block(self)

    def _sweep(self, chains: list[str]) -> None:
        text = self.text
        for chain in chains:
            for k in self.live:
                text(f"c{chain}_{k} = {self.load('e', k, f'q{chain}')}")
        with text.block(f"for j in range(size{chains[-1]})"):
            for chain in chains:
                text(f"i{chain} = first{chain} + j * stride")
                names = {f"a{k}": f"c{chain}_{k}" for k in self.live}
                for read in sorted(self.sweep.reads()):
                    if read[0] == "b":
                        names[read] = f"x{chain}_{read[1:]}"
                        text(f"{names[read]} = {self.load('x', int(read[1:]), f'i{chain}')}")
                self.apply(self.sweep, names, [f"c{chain}_{k}" for k in self.live], f"v{chain}_")
                for k in self.stored:
                    self.store("y", k, f"i{chain}", f"c{chain}_{k}")


class ReduceSource(ChainSource):
    """op over all of x0, x1 ... of each lane, to y0, y1 ...; e0, e1 ... hold the total of each block."""

    def __init__(self, op: Operator, dtypes: Sequence[np.dtype], workers: int | None) -> None:
        super().__init__(op, dtypes, workers)
        for letter in "xye":
            self.declare(letter, range(self.count))
        text = self.text
        text("@ti.kernel")
        with text.block(self.header("reduce")):
            self.groups(interleaved(len(self.value.steps) - len(self.value.reads())), lambda chains: write_totals(self, chains))
            with self.shared_out("lane", f"d[{ROWS}] * d[{COLS}]"):
                self.chain("lane", "")
                for k in range(self.count):
                    text(f"c{k} = {self.load('x', k, 'origin')}")
                with text.block("for b in range(blocks)"):
                    for k in range(self.count):
                        text(f"s{k} = {self.load('e', k, 'b * rows * cols + lane')}")
                    add_block(self)
                for k in range(self.count):
                    self.store("y", k, "lane", f"c{k}")


def write_totals(source: ChainSource, chains: list[str]) -> None:
    """e = op over the edges of each chain."""
    text = source.text
    for chain in chains:
        for k in range(source.count):
            text(f"c{chain}_{k} = {source.load('x', k, f'first{chain}')}")
    with text.block(f"for j in range(1, size{chains[-1]})"):
        for chain in chains:
            text(f"i{chain} = first{chain} + j * stride")
            for k in range(source.count):
                text(f"x{chain}_{k} = {source.load('x', k, f'i{chain}')}")
            source.step(f"c{chain}_", f"x{chain}_", f"v{chain}_")
    for chain in chains:
        for k in range(source.count):
            source.store("e", k, f"q{chain}", f"c{chain}_{k}")


def add_block(source: ChainSource) -> None:
    """c = op(c, s), where s is the total of block `b`; element by element where the total is suspicious."""
    text = source.text
    source.suspicious([(f"s{k}", k) for k in range(source.count)], "c0")
    with text.block("if bad == 1"), text.block("for j in range(b * edges + 1, ti.min((b + 1) * edges, n - 1) + 1)"):
        for k in range(source.count):
            text(f"h{k} = {source.load('x', k, 'origin + j * stride')}")
        source.step("c", "h", "v_")
    with text.block("else"):
        source.step("c", "s", "u_")


def _live(op: Operator, dtypes: Sequence[np.dtype], stored: tuple[int, ...]) -> tuple[tuple[int, ...], Typed]:
    """The components that are needed to compute the stored ones, and their program."""
    live = set(stored)
    while True:
        components = tuple(sorted(live))
        program = op.value(dtypes, components)
        needed = {int(read[1:]) for read in program.reads() if read[0] == "a"}
        if needed <= live:
            return components, program
        live |= needed
