"""The CPU kernel of a whole step that solves linear systems by functions of a kernel (`diffsim.linear.periodic`), for one worker.

A step with calls of the host takes a launch for each system and for each part between them. On a small grid these launches, and Python
around them, take a fifth of the time. Here the parts are functions of one kernel, and so is the system. All parts have the levels of the
whole program in one control array. A launch does one step, after which Python looks at the norms of the right sides.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from diffsim.engine import aligned, language, shared_kernel
from diffsim.expr.graph import Graph
from diffsim.expr.shapes import Shape
from diffsim.expr.source import Text, with_functions
from diffsim.linear import Inside
from diffsim.linear.periodic import ARGUMENTS, OWN, PLACE, WITHIN
from diffsim.stepping.ir.program import Place, Program
from diffsim.stepping.ir.stored import StoredFields
from diffsim.stepping.source.alike import Function, definitions, merged
from diffsim.stepping.source.inner import InnerKernel, joined
from diffsim.stepping.source.kernel import DONE, ZERO, Argument, annotation, table_offset
from diffsim.stepping.source.slabs import slab_bounds
from diffsim.typing import Array, IntArray


@dataclass(frozen=True)
class Solving:
    """The solution of a system in a step.

    Attributes:
        inside: the function, and where its arrays lie, at level 0 of those that move.
        moving: places of the right side and of the solution, for those whose level changes from step to step.
    """

    inside: Inside
    moving: tuple[Place | None, Place | None]


class WholeStep:
    """Source of a step.

    Args:
        program: of the step.
        parts: programs, and solutions between them. The systems have one source.
        graph, fields: see `Kernel`.
        common: shapes of bodies that parts have in common.

    Attributes:
        arguments: the control array, and all arguments of the parts.
        rolled_tiles: see `Kernel`.
    """

    def __init__(
        self,
        program: Program,
        parts: Sequence[Program | Solving],
        graph: Graph,
        fields: StoredFields,
        common: set[tuple[Shape, ...]] | None,
    ) -> None:
        self.program, self.tiles = program, fields.layout.tile_count
        # a part finds its levels in the control array of the whole program
        parts = [part if isinstance(part, Solving) else replace(part, entries=program.entries) for part in parts]
        self.parts = [part if isinstance(part, Solving) else InnerKernel(part, graph, fields, common) for part in parts]
        own = [part for part in self.parts if isinstance(part, InnerKernel)]
        self.rolled_tiles = max(part.rolled_tiles for part in own)
        others = {each.name: each for part in own for each in part.arguments if each.kind != "control"}
        self.arguments = [Argument("control", "control", program.name), *others.values()]
        self._own, self._lanes = own, fields.layout.lanes
        self.solvings = [part for part in self.parts if isinstance(part, Solving)]
        self.system = self.solvings[0].inside.kernel
        self._text = Text()

    @property
    def has_one_system(self) -> bool:
        """True if one function solves all systems."""
        return all(each.inside.kernel.is_as(self.system) for each in self.solvings)

    def arrays(self) -> tuple[list[Array | IntArray], Array]:
        """The arrays of the system and of its calls, as the kernel takes them after `arguments`, and the sums that the calls leave."""
        entries = [place.entries for each in self.solvings for place in (each.inside.source, each.inside.target)]
        places, sums = aligned((len(entries), PLACE + 1), np.int32), aligned((len(self.solvings), 2), self.system.dtype)
        places[:, :PLACE] = entries
        places[:, PLACE] = places[:, 0]
        outside = [place.tiles for each in self.solvings for place in (each.inside.source, each.inside.target)]
        return [*self.system.others(), places.reshape(-1), sums.reshape(-1), *outside], sums

    @property
    def source(self) -> str:
        """The kernel as readable Taichi source."""
        if not self._text.lines:
            self._write()
        return with_functions(str(self._text))

    def _write(self) -> None:
        functions, runs = joined(self._own)
        functions, body = merged(functions, self._body(iter(runs)))
        text = self._text
        text.lines += definitions(functions, body) + self.system.functions()[0] + [""]
        text("@ti.kernel")
        with text.block(f"def kernel({', '.join(f'{name}: {kind}' for name, kind in self._kinds().items())})"):
            text("ti.loop_config(serialize=True)")
            with text.block("for w in range(1)"):
                text("source_digest()")
                text("lo, hi = {}, {}".format(*slab_bounds(self._own[0].layout, 1)))
                text(f"t = control[{DONE}]")
                text.lines += [f"        {line}" for line in body]

    def _body(self, runs: Iterator[tuple[Function, str]]) -> list[str]:
        """The calls of a step. Those of the system are one call in a loop, for LLVM puts a function in the place of each of its calls."""
        before: list[list[str]] = [[]]  # what comes before each solution, and after the last
        for part in self.parts:
            if isinstance(part, InnerKernel):
                function, name = next(runs)
                before[-1].append(f"called = {name}({', '.join(function.kinds)})")
                continue
            number = len(before) - 1
            before[-1] += self._copied("take_right_side", part, number, 0)
            before.append(self._copied("put_solution", part, number, 1))
        count = len(before) - 1
        lines = [f"for number in range({count} + control[{ZERO}]):"]
        for number, calls in enumerate(before[:-1]):
            lines += [f"    if number == {number}:", *(f"        {line}" for line in calls)]
        lines.append(f"    called = solve_within({', '.join(_of_system(name) for name in WITHIN)})")
        lines += [f"    sums__left[2 * number + {k}] = {_of_system('sums')}[{k}]" for k in range(2)]
        return [*lines, *before[-1]]

    def _copied(self, function: str, part: Solving, number: int, end: int) -> list[str]:
        """The copy of a right side (`end` 0) or of a solution (1)."""
        at, place, lines = (PLACE + 1) * (2 * number + end), part.moving[end], list[str]()
        if place is not None:
            level = f"control[{table_offset(self.program, place.array) + (place.level or 0)} + t]"
            lines.append(
                f"places__of_calls[{at}] = places__of_calls[{at + PLACE}] + {level} * {self.tiles * self._lanes // self.system.lanes}"
            )
        return [*lines, f"called = {function}(outside__{2 * number + end}, {_of_system('w')}, places__of_calls, {at})"]

    def _kinds(self) -> dict[str, str]:
        """The kernel's arguments with the names of their types."""
        kinds = {each.name: annotation(each) for each in self.arguments}
        kinds |= {_of_system(name): OWN.format(ARGUMENTS[name]) for name in WITHIN}
        kinds |= {"places__of_calls": OWN.format("Table"), "sums__left": OWN.format("Numbers")}
        return kinds | {f"outside__{number}": OWN.format("Tiles") for number in range(2 * len(self.solvings))}

    def compile(self) -> object:
        """The Taichi kernel."""
        key = (*(part.meanings for part in self._own), self.system.lanes)
        return shared_kernel(self.source, "kernel", key, self._namespace)

    def _namespace(self) -> dict[str, object]:
        ti, out = language(), dict[str, object](self.system.functions()[1])
        for part in self._own:
            out |= part._namespace()
        return out | {annotation(self.arguments[0]): ti.types.ndarray(dtype=ti.i32, ndim=1)}


def _of_system(name: str) -> str:
    """The name of an argument of the system among those of the kernel."""
    return f"{name}__of_system"
