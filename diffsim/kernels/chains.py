"""Taichi source of scans and of their adjoints: chains of dependent operations, several interleaved.

Element 0 of a lane is its start; each further element is an *edge* from its predecessor. Edges are cut into blocks of a
length that depends on the shape alone. A chain is one block of one lane; chains are numbered block by block, then row by
row, then column by column, and a group of neighbours is worked on in one loop, so that one waits for its last result
while the others compute.

A scan (1) combines the edges of each block, (2) goes over the blocks of each lane to find the value before each, and
(3) scans each block from there. Its adjoint does the same backwards. By associativity y_i = op(a, s_i), where a is the
value before the block and s_i the scan of the block alone; so what a block owes to a is the sum of the cotangents of a
in op(a, s_i), and what comes from behind the block passes through op(a, s_last): no Jacobian is ever multiplied with
another. A block whose total is not finite (or zero, if it is a product) is walked through one element after another,
since the true result may well be finite.

Reference: Blelloch, G. E. (1990), Prefix sums and their applications, CMU-CS-90-190.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np

from diffsim.expr.source import Text
from diffsim.kernels.operator import Operator, Pullback, Typed

ROWS, LENGTH, COLS, BLOCKS, EDGES, REVERSE, TOTAL = range(7)
"""Entries of the control array: the shape, blocks of a lane, edges of a block, 1 for reverse, number of chains."""


@dataclass(frozen=True)
class Array:
    """An array of the kernel: its name and type."""

    name: str
    dtype: np.dtype


def interleaved(operations: int) -> int:
    """Chains of a group: many for a short operation, which waits for its own result; few for a long one, which needs the registers."""
    return 8 if operations <= 4 else 4 if operations <= 12 else 2 if operations <= 40 else 1


class ChainSource:
    """What the kernels of one operator share.

    Args:
        op: the operator.
        dtypes: of its components.
        workers: CPU threads; None: a GPU, where each group is a thread of its own.
    """

    def __init__(self, op: Operator, dtypes: Sequence[np.dtype], workers: int | None) -> None:
        self.op, self.dtypes, self.workers = op, list(dtypes), workers
        self.value = op.value(dtypes)
        self.precisions = (self.value.floats, self.value.integers)
        self.text = Text()
        self.arguments: list[Array] = []
        self.count = len(self.dtypes)
        self.is_product = [s.op for s in self.value.steps] == ["read", "read", "mul"] and self.dtypes[0].kind == "f"

    def declare(self, letter: str, components: Sequence[int]) -> None:
        self.arguments += [Array(f"{letter}{k}", self.dtypes[k]) for k in components]

    def header(self, name: str) -> str:
        return f"def {name}(d: Control, {', '.join(f'{a.name}: T_{a.name}' for a in self.arguments)})"

    # values

    def load(self, letter: str, k: int, at: str) -> str:
        element = f"{letter}{k}[{at}]"
        return f"{element} != 0" if self.dtypes[k].kind == "b" else element

    def store(self, letter: str, k: int, at: str, value: str) -> None:
        self.text(f"{letter}{k}[{at}] = " + (f"ti.cast({value}, ti.u8)" if self.dtypes[k].kind == "b" else value))

    def wide(self, program: Typed, k: int, name: str) -> str:
        """The variable `name` of component k in the precision of the program."""
        dtype = self.dtypes[k]
        if dtype.kind == "b":
            return name
        return (
            name if dtype == program.dtype("f" if dtype.kind == "f" else "i") else f"ti.cast({name}, {'F' if dtype.kind == 'f' else 'I'})"
        )

    def apply(self, program: Typed, names: dict[str, str], targets: Sequence[str], prefix: str) -> None:
        """Assign the results of a program to variables that exist; `names` are those of its reads a0, b0, r0 ..."""
        wide = {read: self.wide(program, int(read[1:]), names[read]) for read in program.reads()}
        lines, results = program.source(wide, prefix)
        for line in lines:
            self.text(line)
        if len(targets) > 1:  # all are computed before any is overwritten
            for k, result in enumerate(results):
                self.text(f"{prefix}t{k} = {result}")
            results = [f"{prefix}t{k}" for k in range(len(targets))]
        for target, result in zip(targets, results, strict=True):
            self.text(f"{target} = {result}")

    def operands(self, left: str, right: str) -> dict[str, str]:
        return {f"{side}{k}": f"{name}{k}" for side, name in (("a", left), ("b", right)) for k in range(self.count)}

    def step(self, left: str, right: str, prefix: str) -> None:
        """left = op(left, right), for variables left0, left1 ..."""
        self.apply(self.value, self.operands(left, right), [f"{left}{k}" for k in range(self.count)], prefix)

    # loops

    @contextmanager
    def shared_out(self, variable: str, count: str) -> Iterator[None]:
        """A loop of the program's top level, over 0 .. count - 1."""
        text = self.text
        if self.workers is None:
            with text.block(f"for {variable} in range({count})"):
                self.dimensions()
                yield
            return
        text("ti.loop_config(serialize=True)" if self.workers == 1 else "ti.loop_config(block_dim=1)")
        with text.block(f"for w in range({self.workers})"):
            self.dimensions()
            text(f"share = (({count}) + {self.workers - 1}) // {self.workers}")
            with text.block(f"for {variable} in range(w * share, ti.min((w + 1) * share, {count}))"):
                yield

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
        """`body` for groups of `size` chains of equal length, and one by one for the rest; it is given their suffixes.

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

    def suspicious(self, names: Sequence[tuple[str, int]], zero: bool) -> None:
        """Set `bad` where a float of `names` (variable, component) is not finite, or is zero and `zero`."""
        self.text("bad = 0")
        for name, k in names:
            if self.dtypes[k].kind == "f":
                with self.text.block(f"if ti.abs({name}) <= F({float(np.finfo(self.dtypes[k]).max)!r})"):
                    if zero:
                        with self.text.block(f"if {name} == 0"):
                            self.text("bad = 1")
                    else:
                        self.text("bad = bad")
                with self.text.block("else"):
                    self.text("bad = 1")


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
    source.suspicious([(f"s{k}", k) for k in range(source.count)], source.is_product)
    with text.block("if bad == 1"), text.block("for j in range(b * edges + 1, ti.min((b + 1) * edges, n - 1) + 1)"):
        for k in range(source.count):
            text(f"h{k} = {source.load('x', k, 'origin + j * stride')}")
        source.step("c", "h", "v_")
    with text.block("else"):
        source.step("c", "s", "u_")


def _live(op: Operator, dtypes: Sequence[np.dtype], stored: tuple[int, ...]) -> tuple[tuple[int, ...], Typed]:
    """Components that must be carried along to find the stored ones, and the program of these."""
    live = set(stored)
    while True:
        components = tuple(sorted(live))
        program = op.value(dtypes, components)
        needed = {int(read[1:]) for read in program.reads() if read[0] == "a"}
        if needed <= live:
            return components, program
        live |= needed


class AdjointSource(ChainSource):
    """Cotangents z of x, given those t of y = scan(x); e holds the total of each chain, p what comes back into it.

    Args:
        op, dtypes, workers: of the chains.
    """

    def __init__(self, op: Operator, dtypes: Sequence[np.dtype], workers: int | None) -> None:
        super().__init__(op, dtypes, workers)
        self.pullback: Pullback = op.pullback(dtypes)
        self.floats = self.pullback.floats
        everything = range(self.count)
        self.declare("x", everything)
        self.declare("y", everything)
        self.declare("t", self.floats)
        self.declare("z", self.floats)
        self.declare("e", everything)
        self.declare("p", self.floats)
        self.text("@ti.kernel")
        with self.text.block(self.header("adjoint")):
            self.groups(interleaved(len(self.pullback.left.steps)), self._totals)
            self._carry()
            self.groups(interleaved(len(self.pullback.both.steps)), self._sweep)

    def _loads(self, letter: str, variable: str, at: str, needed: set[str] | None = None) -> None:
        """variable0, variable1 ... of the components that are read as the given names, or of all."""
        components = range(self.count) if letter in "xye" else self.floats
        for k in components:
            if needed is None or str(k) in needed:
                self.text(f"{variable}{k} = {self.load(letter, k, at)}")

    def _reads(self, program: Typed, side: str) -> set[str]:
        return {read[1:] for read in program.reads() if read[0] == side}

    def pull(self, program: Typed, left: str, right: str, r: str, targets: Sequence[str], prefix: str) -> None:
        """targets = cotangents of the operands left and right of an application whose result has the cotangent r."""
        names = self.operands(left, right) | {f"r{j}": f"{r}{j}" for j in self.floats}
        self.apply(program, names, targets, prefix)

    def _totals(self, chains: list[str]) -> None:
        """The total s of each chain, and what its cotangents owe to the value before it."""
        text, left = self.text, self.pullback.left

        def owe(chain: str, at: str) -> None:
            self._loads("t", f"t{chain}_", at)
            self.pull(left, f"a{chain}_", f"s{chain}_", f"t{chain}_", [f"o{chain}_{j}" for j in self.floats], f"u{chain}_")

        for chain in chains:
            self._loads("y", f"a{chain}_", f"first{chain} - stride")
            self._loads("x", f"s{chain}_", f"first{chain}")
            for j in self.floats:
                text(f"o{chain}_{j} = t{j}[first{chain}]")
            owe(chain, f"first{chain}")
            for j in self.floats:
                text(f"p{chain}_{j} = o{chain}_{j}")
        with text.block(f"for j in range(1, size{chains[-1]})"):
            for chain in chains:
                text(f"i{chain} = first{chain} + j * stride")
                self._loads("x", f"x{chain}_", f"i{chain}")
                self.step(f"s{chain}_", f"x{chain}_", f"v{chain}_")
                owe(chain, f"i{chain}")
                for j in self.floats:
                    text(f"p{chain}_{j} = p{chain}_{j} + o{chain}_{j}")
        for chain in chains:
            for k in range(self.count):
                self.store("e", k, f"q{chain}", f"s{chain}_{k}")
            for j in self.floats:
                self.store("p", j, f"q{chain}", f"p{chain}_{j}")

    def _carry(self) -> None:
        """What comes back into the end of each block, in place of what it owes, lane by lane from the last block."""
        text, left = self.text, self.pullback.left
        with self.shared_out("lane", f"d[{ROWS}] * d[{COLS}]"):
            self.chain("lane", "")
            for j in self.floats:
                text(f"o{j} = t{j}[origin]")
                text(f"o{j} = 0")
            with text.block("for b_ in range(blocks)"):
                text("b = blocks - 1 - b_")
                text("q = b * rows * cols + lane")
                self._loads("e", "s", "q")
                for j in self.floats:
                    text(f"m{j} = p{j}[q]")
                    self.store("p", j, "q", f"o{j}")
                with text.block("if b > 0"):
                    names = [(f"s{k}", k) for k in range(self.count)] + [(f"m{j}", j) for j in self.floats]
                    self.suspicious(names, False)
                    with text.block("if bad == 1"):
                        text("size = ti.min(edges, n - 1 - b * edges)")
                        with text.block("for j in range(size)"):
                            text("i = origin + (b * edges + size - j) * stride")
                            self._back("", left, [f"o{j}" for j in self.floats])
                    with text.block("else"):
                        text("i = origin + (1 + b * edges) * stride")
                        self._loads("y", "a", "i - stride")
                        self.pull(left, "a", "s", "o", [f"o{j}" for j in self.floats], "u_")
                        for j in self.floats:
                            text(f"o{j} = o{j} + m{j}")

    def _back(self, chain: str, program: Typed, targets: list[str]) -> None:
        """Pull the cotangent o of element i, with its own added, through the edge that leads there."""
        self._loads("y", f"l{chain}_", f"i{chain} - stride", self._reads(program, "a"))
        self._loads("x", f"x{chain}_", f"i{chain}", self._reads(program, "b"))
        for j in self.floats:
            self.text(f"r{chain}_{j} = o{chain}{'_' if chain else ''}{j} + t{j}[i{chain}]")
        self.pull(program, f"l{chain}_", f"x{chain}_", f"r{chain}_", targets, f"v{chain}_")

    def _sweep(self, chains: list[str]) -> None:
        text = self.text
        for chain in chains:
            for j in self.floats:
                text(f"o{chain}_{j} = p{j}[q{chain}]")
                text(f"z{chain}_{j} = o{chain}_{j}")
        last = f"size{chains[-1]}"
        with text.block(f"for j in range({last})"):
            for chain in chains:
                text(f"i{chain} = first{chain} + ({last} - 1 - j) * stride")
                targets = [f"{letter}{chain}_{j}" for letter in "oz" for j in self.floats]
                self._back(chain, self.pullback.both, targets)
                for j in self.floats:
                    self.store("z", j, f"i{chain}", f"z{chain}_{j}")
        for chain in chains:
            with text.block(f"if block{chain} == 0"):
                for j in self.floats:
                    text(f"z{j}[origin{chain}] = o{chain}_{j} + t{j}[origin{chain}]")
