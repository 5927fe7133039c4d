"""Taichi source of histograms, of their adjoints, and of the counting sort.

Rows of values are cut into parts; their number depends on the shape alone. Each part has bins of its own, which are then
combined in order after the values of `dst`. With one part the bins are those of the result. Columns are independent: they
are cut into chunks, which are shared out as parts are.

The adjoint walks through each part twice. Forwards it notes the content of the bin before each value, backwards it pulls the
cotangent of the bin through each value's application. The start of a part, and the cotangent at its end, follow from the
totals of the parts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np

from diffsim.expr.source import Text
from diffsim.kernels.operator import Operator
from diffsim.kernels.source import Array, KernelSource, OperatorSource

N, BINS, COLUMNS, PARTS, SPAN = range(5)
"""Entries of the control array: rows of values, bins, columns, parts, rows of a part."""
CHUNK = 16
"""Columns of a chunk: two cache lines of f64."""


class BinsSource(OperatorSource):
    """Loops over the values of each part.

    Args:
        op, dtypes, workers: of the operator.
        index: type of the index.
        single: there is one column.
        numbered: the last component of a value is the number of its row, and no array.
    """

    float_letters = "tzr"

    def __init__(
        self, op: Operator, dtypes: Sequence[np.dtype], workers: int | None, index: np.dtype, single: bool, numbered: bool = False
    ) -> None:
        super().__init__(op, dtypes, workers)
        self.single, self.numbered = single, numbered
        self.arguments.append(Array("index", index))
        self.declare("v", range(self.count - numbered))

    def dimensions(self) -> None:
        self.text(f"n, bins, cols, parts, span = d[{N}], d[{BINS}], d[{COLUMNS}], d[{PARTS}], d[{SPAN}]")

    @contextmanager
    def tasks(self) -> Iterator[None]:
        """A top-level loop over parts and chunks of columns."""
        text = self.text
        chunks = "1" if self.single else f"((d[{COLUMNS}] + {CHUNK - 1}) // {CHUNK})"
        with self.shared_out("task", f"d[{PARTS}] * {chunks}"):
            text(f"part = task // {chunks}")
            if not self.single:
                text(f"low = (task % {chunks}) * {CHUNK}")
                text(f"high = ti.min(low + {CHUNK}, cols)")
            yield

    @contextmanager
    def values(self, backwards: bool = False) -> Iterator[None]:
        """A loop over the values of the task: `at` is the value, `kept` whether it is in a bin, `slot` its bin in the part."""
        text = self.text
        with text.block("for step in range(ti.min(span, n - part * span))"):
            text("i = part * span + step")
            if backwards:
                text("i = ti.min(n, (part + 1) * span) - 1 - step")
            text("b = index[i]")
            text("kept = b >= 0 and b < bins")
            text("bin = part * bins + ti.cast(b, ti.i32)")
            if self.single:
                text("at = i")
                text("slot = bin")
                yield
                return
            with text.block("for c in range(low, high)"):
                text("at = i * cols + c")
                text("slot = bin * cols + c")
                yield

    def variables(self, letter: str, variable: str, at: str) -> None:
        for k in range(self.count):
            row = letter == "v" and self.numbered and k == self.count - 1
            self.text(f"{variable}{k} = {'i' if row else self.load(letter, k, at)}")

    def keep(self, letter: str, variable: str, at: str) -> None:
        for k in range(self.count):
            self.store(letter, k, at, f"{variable}{k}")

    def add_values(self, letter: str) -> None:
        """letter[slot] = op(letter[slot], v)."""
        self.variables("v", "x", "at")
        self.variables(letter, "c", "slot")
        self.step("c", "x", "u_")
        self.keep(letter, "c", "slot")

    def write_totals(self) -> None:
        """e = the values of each part in each bin, and seen = 1 where there are any; not for a single part."""
        text = self.text
        with self.tasks(), text.block("if parts > 1"), self.values(), text.block("if kept"):
            with text.block("if seen[slot] == 1"):
                self.add_values("e")
            with text.block("else"):
                self.variables("v", "x", "at")
                self.keep("e", "x", "slot")
                text("seen[slot] = 1")


class HistogramSource(BinsSource):
    """y = op over o, the initial bins, and the values v in order. With one part, y is o and is changed in place."""

    def __init__(
        self,
        op: Operator,
        dtypes: Sequence[np.dtype],
        workers: int | None,
        index: np.dtype,
        single: bool,
        numbered: bool,
        parts: bool,
    ) -> None:
        super().__init__(op, dtypes, workers, index, single, numbered)
        text = self.text
        self.declare("y", range(self.count))
        if parts:
            self.declare("e", range(self.count))
            self.arguments.append(Array("seen", np.dtype(np.int32)))
        text("@ti.kernel")
        with text.block(self.header("histogram")):
            if not parts:
                with self.tasks(), self.values(), text.block("if kept"):
                    self.add_values("y")
                return
            self.write_totals()
            with self.shared_out("s", f"d[{BINS}] * d[{COLUMNS}]"):
                self.variables("y", "c", "s")
                with text.block("for p in range(parts)"):
                    text("slot = p * bins * cols + s")
                    with text.block("if seen[slot] == 1"):
                        self.variables("e", "x", "slot")
                        self.step("c", "x", "u_")
                self.keep("y", "c", "s")


class HistogramAdjointSource(BinsSource):
    """Cotangents z of the values and r (first part) of the bins, from those t of the result; o are the initial bins.

    h holds the content of a bin at the start of a part, then during its values. The content before each value is stored in z
    until its cotangent replaces it, and in l for components without cotangents.

    Args:
        op, dtypes, workers, index, single: see `BinsSource`.
        totals: e and seen hold the records of the histogram's kernel.
    """

    def __init__(self, op: Operator, dtypes: Sequence[np.dtype], workers: int | None, index: np.dtype, single: bool, totals: bool) -> None:
        super().__init__(op, dtypes, workers, index, single)
        text = self.text
        for letter in "otzrhe":
            self.declare(letter, self.floats if letter in self.float_letters else range(self.count))
        self.found = ["z" if k in self.floats else "l" for k in range(self.count)]
        self.declare("l", [k for k in range(self.count) if self.found[k] == "l"])
        self.arguments.append(Array("seen", np.dtype(np.int32)))
        text("@ti.kernel")
        with text.block(self.header("histogram_adjoint")):
            if not totals:
                self.write_totals()
            with self.shared_out("s", f"d[{BINS}] * d[{COLUMNS}]"):
                self._starts()
                self._ends()
            with self.tasks():
                with self.values(), text.block("if kept"):
                    self.variables("v", "x", "at")
                    self.variables("h", "c", "slot")
                    for k, letter in enumerate(self.found):
                        self.store(letter, k, "at", f"c{k}")
                    self.step("c", "x", "u_")
                    self.keep("h", "c", "slot")
                with self.values(backwards=True):
                    self._back()

    def _starts(self) -> None:
        text = self.text
        self.variables("o", "c", "s")
        with text.block("for p in range(parts)"):
            text("slot = p * bins * cols + s")
            self.keep("h", "c", "slot")
            with text.block("if p < parts - 1"), text.block("if seen[slot] == 1"):
                self.variables("e", "x", "slot")
                self.step("c", "x", "u_")

    def _ends(self) -> None:
        text = self.text
        self.loads("t", "q", "s")
        with text.block("for p_ in range(parts)"):
            text("slot = (parts - 1 - p_) * bins * cols + s")
            for j in self.floats:
                text(f"r{j}[slot] = q{j}")
            with text.block("if p_ < parts - 1"), text.block("if seen[slot] == 1"):
                self.variables("h", "g", "slot")
                self.variables("e", "f", "slot")
                self.pull(self.pullback.left, "g", "f", "q", [f"q{j}" for j in self.floats], "m_")

    def _back(self) -> None:
        text = self.text
        with text.block("if kept"):
            for k, letter in enumerate(self.found):
                text(f"g{k} = {self.load(letter, k, 'at')}")
            self.variables("v", "f", "at")
            self.loads("r", "q", "slot")
            for j in self.floats:
                text(f"k{j} = q{j}")
            self.pull(self.pullback.both, "g", "f", "q", [f"{letter}{j}" for letter in "qk" for j in self.floats], "m_")
            for j in self.floats:
                text(f"z{j}[at] = k{j}")
                text(f"r{j}[slot] = q{j}")
        with text.block("else"):
            for j in self.floats:
                text(f"z{j}[at] = 0")


class SortSource(KernelSource):
    """Stable counting sort: permutation, starts; counts holds a number a part and bin, zero at first."""

    precisions = (np.dtype(np.float32), np.dtype(np.int32))

    def __init__(self, workers: int | None, index: np.dtype, places: np.dtype) -> None:
        types = {"index": index, "permutation": places, "starts": places, "counts": np.dtype(np.int32)}
        self.arguments = [Array(name, dtype) for name, dtype in types.items()]
        self.text = Text()
        self.text("@ti.kernel")
        with self.text.block("def sort(d: Control, index: T_index, permutation: T_permutation, starts: T_starts, counts: T_counts)"):
            self._parts(workers, ["counts[bin] = counts[bin] + 1"])
            self._starts()
            self._parts(workers, ["permutation[counts[bin]] = i", "counts[bin] = counts[bin] + 1"])

    def _parts(self, workers: int | None, lines: Sequence[str]) -> None:
        text = self.text
        if workers is not None:
            text("ti.loop_config(serialize=True)" if workers == 1 else "ti.loop_config(block_dim=1)")
        with text.block(f"for w in range({workers})" if workers else f"for part in range(d[{PARTS}])"):
            text(f"n, bins, span = d[{N}], d[{BINS}], d[{SPAN}]")
            if workers:
                text(f"part = w - {workers}")
                with text.block(f"while part + {workers} < d[{PARTS}]"):
                    text(f"part = part + {workers}")
                    self._rows(lines)
            else:
                self._rows(lines)

    def _rows(self, lines: Sequence[str]) -> None:
        text = self.text
        with text.block("for i in range(part * span, ti.min(n, (part + 1) * span))"):
            text("b = index[i]")
            with text.block("if b >= 0 and b < bins"):
                text("bin = part * bins + ti.cast(b, ti.i32)")
                for line in lines:
                    text(line)

    def _starts(self) -> None:
        """Counts become the first place of each part's rows in each bin."""
        text = self.text
        text("ti.loop_config(serialize=True)")
        with text.block("for once in range(1)"):
            text(f"bins, parts, place = d[{BINS}], d[{PARTS}], 0")
            with text.block("for b in range(bins)"):
                text("starts[b] = place")
                with text.block("for p in range(parts)"):
                    text("found = counts[p * bins + b]")
                    text("counts[p * bins + b] = place")
                    text("place = place + found")
            text("starts[bins] = place")
