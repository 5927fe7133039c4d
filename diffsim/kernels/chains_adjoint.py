"""Taichi source of the adjoints of scans; see `diffsim.kernels.chains` for how they work."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from diffsim.kernels.chains import COLS, ROWS, ChainSource, interleaved
from diffsim.kernels.operator import Operator, Typed


class AdjointSource(ChainSource):
    """Cotangents z of x, given those t of y = scan(x); e holds the total of each chain, p the cotangent that comes back into it.

    Args:
        op, dtypes, workers: of the chains.
    """

    float_letters = "tzp"

    def __init__(self, op: Operator, dtypes: Sequence[np.dtype], workers: int | None) -> None:
        super().__init__(op, dtypes, workers)
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

    def _totals(self, chains: list[str]) -> None:
        """The total s of each chain, and the contribution of its cotangents to the value before it."""
        text, left = self.text, self.pullback.left

        def owe(chain: str, at: str) -> None:
            self.loads("t", f"t{chain}_", at)
            self.pull(left, f"a{chain}_", f"s{chain}_", f"t{chain}_", [f"o{chain}_{j}" for j in self.floats], f"u{chain}_")

        for chain in chains:
            self.loads("y", f"a{chain}_", f"first{chain} - stride")
            self.loads("x", f"s{chain}_", f"first{chain}")
            for j in self.floats:
                text(f"o{chain}_{j} = t{j}[first{chain}]")
            owe(chain, f"first{chain}")
            for j in self.floats:
                text(f"p{chain}_{j} = o{chain}_{j}")
        with text.block(f"for j in range(1, size{chains[-1]})"):
            for chain in chains:
                text(f"i{chain} = first{chain} + j * stride")
                self.loads("x", f"x{chain}_", f"i{chain}")
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
        """Replace the contribution of each block by the cotangent at its end, lane by lane from the last block."""
        text, left = self.text, self.pullback.left
        with self.shared_out("lane", f"d[{ROWS}] * d[{COLS}]"):
            self.chain("lane", "")
            for j in self.floats:
                text(f"o{j} = t{j}[origin]")
                text(f"o{j} = 0")
            with text.block("for b_ in range(blocks)"):
                text("b = blocks - 1 - b_")
                text("q = b * rows * cols + lane")
                self.loads("e", "s", "q")
                for j in self.floats:
                    text(f"m{j} = p{j}[q]")
                    self.store("p", j, "q", f"o{j}")
                with text.block("if b > 0"):
                    names = [(f"s{k}", k) for k in range(self.count)] + [(f"m{j}", j) for j in self.floats]
                    self.suspicious(names, "o0")
                    with text.block("if bad == 1"):
                        text("size = ti.min(edges, n - 1 - b * edges)")
                        with text.block("for j in range(size)"):
                            text("i = origin + (b * edges + size - j) * stride")
                            self._back("", left, [f"o{j}" for j in self.floats])
                    with text.block("else"):
                        text("i = origin + (1 + b * edges) * stride")
                        self.loads("y", "a", "i - stride")
                        self.pull(left, "a", "s", "o", [f"o{j}" for j in self.floats], "u_")
                        for j in self.floats:
                            text(f"o{j} = o{j} + m{j}")

    def _back(self, chain: str, program: Typed, targets: list[str]) -> None:
        """Pull the cotangent o of element i, with its own added, through the edge that leads there."""
        self.loads("y", f"l{chain}_", f"i{chain} - stride", self.reads(program, "a"))
        self.loads("x", f"x{chain}_", f"i{chain}", self.reads(program, "b"))
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
