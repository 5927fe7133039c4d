"""A kernel that is cut into functions, which its source defines before it and calls.

Taichi's compile time grows with the square of the lines of one function.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from diffsim.expr.graph import Graph
from diffsim.expr.source import Text
from diffsim.stepping.ir.program import Program
from diffsim.stepping.ir.stored import StoredFields
from diffsim.stepping.source.kernel import Kernel, annotation

INDICES = ("w", "lo", "hi", "n", "lap", "first", "last", "below", "above", "left", "right", "k", "i")
"""Integer arguments of functions in the source."""


class FunctionKernel(Kernel):
    """Source of a program that calls functions."""

    def __init__(self, program: Program, graph: Graph, fields: StoredFields) -> None:
        super().__init__(program, graph, fields)
        self.functions = Text()  # their source
        self._arguments_of: dict[str, list[str]] = {}
        self._numbers: dict[float, int] = {}

    def call(self, name: str, write: Callable[[], None], given: Mapping[str, str] | None = None) -> None:
        """Call a function of the source with some arguments by name. Write the function first if it does not exist yet.

        Args:
            name: name of the function.
            write: writes its body.
            given: source of arguments that differ from the caller's variables of the same name.
        """
        if name not in self._arguments_of:
            caller, self.text = self.text, Text()
            self.text.depth = 1
            write()
            body, self.text = self.text.lines, caller
            used = set(re.findall(r"[A-Za-z_]\w*", "\n".join(body)))
            numbers = (*INDICES, *(self.level(place) for place in self.levels_used))
            kinds = {a.name: annotation(a) for a in self.arguments} | dict.fromkeys(numbers, "ti.i32")
            assigned = {match for line in body for match in re.findall(r"^\s*(?:for )?(\w+) (?:in|=) ", line)}
            kinds = {n: kind for n, kind in kinds.items() if n in used - assigned}
            self._arguments_of[name] = list(kinds) if body else []
            if body:
                declared = ", ".join(f"{n}: {kind}" for n, kind in kinds.items())
                self.functions.lines += ["@ti.real_func", f"def {name}({declared}) -> ti.i32:", *body, "    return 0", ""]
        if self._arguments_of[name]:
            self.text(f"called = {name}({', '.join((given or {}).get(n, n) for n in self._arguments_of[name])})")

    def number(self, weight: float) -> int:
        """A unique number for each weight, for names of functions."""
        return self._numbers.setdefault(weight, len(self._numbers))
