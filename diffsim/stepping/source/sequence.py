"""The CPU kernel of several launches, one after the other: for reverse sweeps of small systems, whose steps take less time than a launch.

A launch costs some 10 us and half a microsecond an argument, in which a small system does tens of steps. Here one worker reads from an
array, the *plan*, which program runs next, from which step, and at which levels; it writes these into the control array of the program,
where the steps find them as in a launch of their own.

The plan begins with the number of launches and the place of each. At its place a launch has the number of its program, its first step,
its steps, and for each ring of the program the place and the length of the level table.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from diffsim.engine import language, shared_kernel
from diffsim.expr.graph import Graph
from diffsim.expr.source import Text, with_functions
from diffsim.stepping.ir.program import Program
from diffsim.stepping.ir.stored import StoredFields
from diffsim.stepping.source.alike import definitions
from diffsim.stepping.source.inner import InnerKernel, joined
from diffsim.stepping.source.kernel import BEGIN, DONE, FIRST, STEPS, Argument, annotation, table_offset
from diffsim.stepping.source.slabs import slab_bounds
from diffsim.typing import IntArray

LONGEST = 600
"""Lines of a source that are compiled a second time, for launches in one."""
PLAN = "plan__entries"


class SequenceKernel:
    """Source of launches of some programs.

    Args:
        programs: the programs.
        graph, fields: see `Kernel`.

    Attributes:
        arguments: the plan, the control array of each program, and all arguments of the programs.
        rolled_tiles: see `Kernel`.
    """

    def __init__(self, programs: Sequence[Program], graph: Graph, fields: StoredFields) -> None:
        self.parts = [InnerKernel(program, graph, fields) for program in programs]
        self.rolled_tiles = max(part.rolled_tiles for part in self.parts)
        others = {each.name: each for part in self.parts for each in part.arguments if each.kind != "control"}
        controls = [Argument(_control(k), "control", part.program.name) for k, part in enumerate(self.parts)]
        self.arguments = [Argument(PLAN, "control", ""), *controls, *others.values()]
        self._text = Text()

    @property
    def source(self) -> str:
        """The kernel as readable Taichi source."""
        if not self._text.lines:
            self._write()
        return with_functions(str(self._text))

    def _write(self) -> None:
        text = self._text
        functions, runs = joined(self.parts)
        text("@ti.kernel")
        with text.block(f"def kernel({', '.join(f'{each.name}: {annotation(each)}' for each in self.arguments)})"):
            text("ti.loop_config(serialize=True)")
            with text.block("for w in range(1)"):
                text("source_digest()")
                text("lo, hi = {}, {}".format(*slab_bounds(self.parts[0].layout, 1)))
                with text.block(f"for number in range({PLAN}[0])"):
                    text(f"place = {PLAN}[1 + number]")
                    for k, (function, name) in enumerate(runs):
                        with text.block(f"if {PLAN}[place] == {k}"):
                            self._describe(self.parts[k].program, _control(k))
                            text(f"called = {name}({', '.join(_control(k) if n == 'control' else n for n in function.kinds)})")
        text.lines = definitions(functions, text.lines) + text.lines

    def _describe(self, program: Program, control: str) -> None:
        text = self._text
        text(f"{control}[{FIRST}] = {PLAN}[place + 1]")
        text(f"{control}[{STEPS}] = {PLAN}[place + 2]")
        for entry in (DONE, BEGIN):
            text(f"{control}[{entry}] = 0")
        for ring, array in enumerate(sorted(program.entries)):
            with text.block(f"for e in range({PLAN}[place + {4 + 2 * ring}])"):
                text(f"{control}[{table_offset(program, array)} + e] = {PLAN}[{PLAN}[place + {3 + 2 * ring}] + e]")

    def compile(self) -> object:
        """The Taichi kernel."""
        key = tuple(part.meanings for part in self.parts)
        return shared_kernel(self.source, "kernel", key, self._namespace)

    def _namespace(self) -> dict[str, object]:
        ti, out = language(), dict[str, object]()
        for part in self.parts:
            out |= part._namespace()
        return out | {annotation(each): ti.types.ndarray(dtype=ti.i32, ndim=1) for each in self.arguments if each.kind == "control"}

    def plan(self, launches: Sequence[tuple[Program, int, int, Mapping[str, IntArray]]]) -> IntArray:
        """The plan of some launches: of each the program, its first step, its steps, and the level table of each ring."""
        numbers = {part.program.name: k for k, part in enumerate(self.parts)}
        places, parts = list[int](), list[Sequence[int] | IntArray]()
        at = 1 + len(launches)
        for program, first, steps, levels in launches:
            places.append(at)
            head = [numbers[program.name], first, steps]
            tables = [levels.get(array, np.empty(0, np.int32)) for array in sorted(program.entries)]
            at += len(head) + 2 * len(tables)
            for table in tables:
                head += [at, len(table)]
                at += len(table)
            parts += [head, *tables]
        return np.concatenate([[len(launches), *places], *parts]).astype(np.int32)


def _control(number: int) -> str:
    return f"control__{number}"
