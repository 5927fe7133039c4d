"""The GPU kernel: each loop nest is a parallel top-level loop over the cells, a few steps unrolled in one launch."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from diffsim.expr.source import ExpressionWriter, TileLoader, identifier, row_start
from diffsim.stepping.kernel import FIRST, STEPS, Kernel, images
from diffsim.stepping.program import Assign, Nest, Strip

UNROLL = 4
"""Steps in one launch."""


class DeviceKernel(Kernel):
    """Source of a program for a GPU. Besides the arrays it takes `begin`, the local index of its first step."""

    def _write(self) -> None:
        text, program = self.text, self.program
        text("@ti.kernel")
        with text.block(self.header(", begin: ti.i32")):
            for step in range(UNROLL):
                for index, operation in enumerate(program.operations):
                    if isinstance(operation, Nest):
                        self._nest(operation, step)
                    elif isinstance(operation, Strip):
                        self._strip(operation, step, back=False)
                    else:
                        with text.block(f"for r in range({identifier(operation.points)}_point_starts.shape[0] - 1)"), self._step(step):
                            self.write_gather(operation, index)

    @contextmanager
    def _step(self, step: int) -> Iterator[None]:
        """The locals of a step, and the guard that ends a launch early; every top-level loop needs its own."""
        text, program = self.text, self.program
        text(f"t = begin + {step}")
        with text.block(f"if t < control[{STEPS}]"):
            text(f"n = control[{FIRST}] {'+' if program.direction > 0 else '-'} t")
            for place in self.levels_used():
                text(f"{self.level(place)} = {self.level_start(place)}")
            yield

    def _nest(self, nest: Nest, step: int) -> None:
        text, layout = self.text, self.layout
        ranges = [f"({h}, {n + h})" for n, h in zip(layout.rows, layout.row_halo, strict=True)]
        ranges.append(f"({layout.halo_tiles}, {layout.halo_tiles + layout.tiles})")
        indices = ", ".join((*self.rows, "j"))
        if nest.assigns:
            with text.block(f"for {indices} in ti.ndrange({', '.join(ranges)})"), self._step(step):
                text(f"at = {row_start(self.rows, layout.strides)}j")
                writer = ExpressionWriter(text, TileLoader(text, self.sources), self.lanes)
                values = [writer(assign.node) for assign in nest.assigns]
                for assign, value in zip(nest.assigns, values, strict=True):
                    target = f"{identifier(assign.target.array)}[{self.lead(assign.target)}at]"
                    text(f"{target} = {target} + {value}" if assign.accumulate else f"{target} = {value}")
        for index, assign in enumerate(nest.assigns):
            if assign.scatter:
                self._fold(assign, index, step)
        for index, scatter in enumerate(nest.scatters):
            with text.block(f"for e in range({identifier(scatter.points)}_starts.shape[0] - 1)"), self._step(step):
                self.write_scatter(scatter, index)
        for strip in nest.restores:
            self._strip(strip, step, back=True)
        for assign in nest.assigns:
            self._extend(assign, step)

    def _strip(self, strip: Strip, step: int, back: bool) -> None:
        with self.text.block(f"for e in range({identifier(strip.name)}_tiles.shape[0])"), self._step(step):
            self.write_strip(strip, back)

    def _fold(self, assign: Assign, index: int, step: int) -> None:
        text, shape = self.text, self.layout.shape
        names = [f"c{axis}" for axis in range(self.ndim)]
        near = [f"{name} < {r} or {name} >= {n - r}" for name, r, n in zip(names, self.fold_reach(assign), shape, strict=True) if r]
        loop = f"for {', '.join(names)} in ti.ndrange({', '.join(map(str, shape))})"
        with text.block(loop), self._step(step), text.block(f"if {' or '.join(near)}"):
            self.write_fold(assign, index, lambda axis: names[axis])

    def _extend(self, assign: Assign, step: int) -> None:
        """Halo by halo, the last axis first, so that corners are right. Nothing writes the halo of a zero rule."""
        array, layout = assign.target.array, self.layout
        reach = self.reach.get(array, (0,) * self.ndim)
        name, lead = identifier(array), self.lead(assign.target)
        sizes = layout.storage
        offset = len(sizes) - self.ndim
        for axis in reversed(range(self.ndim)):
            if not reach[axis] or assign.rules[axis] == "zero":
                continue
            halo = layout.halo_tiles if axis == self.ndim - 1 else layout.halo[axis]
            stored = axis + offset
            others = [f"o{a}" for a in range(len(sizes)) if a != stored]
            spans = ", ".join(str(sizes[a]) for a in range(len(sizes)) if a != stored)
            with self.text.block(f"for {', '.join(others)} in ti.ndrange({spans})"), self._step(step):
                for target, source in images(assign.rules[axis], layout.shape[axis], halo, reach[axis]):
                    rows: list[list[str | int]] = [[i if a == stored else f"o{a}" for a in range(len(sizes))] for i in (target, source)]
                    to, of = (row_start(row[:-1], layout.strides) + str(row[-1]) for row in rows)
                    self.text(f"{name}[{lead}{to}] = {name}[{lead}{of}]")
