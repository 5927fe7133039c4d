"""A kernel that is cut into functions, which its source defines before it and calls.

Taichi's compile time grows with the square of the lines of one function.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager

from diffsim.expr.graph import Graph
from diffsim.expr.source import Text, identifier, literal
from diffsim.stepping.ir.program import Loop, Place, Program
from diffsim.stepping.ir.stored import StoredFields
from diffsim.stepping.source.alike import REPEATED, WORTH, Function, definitions, merged
from diffsim.stepping.source.kernel import ZERO, Kernel, annotation

INDICES = ("w", "lo", "hi", "front", "back", "n", "lap", "fresh", "first", "last", "below", "above", "left", "right", "k", "i")
"""Integer arguments of functions in the source."""
TARGET = Place("one array", 0)
"""The array in functions that several arrays share."""


class FunctionKernel(Kernel):
    """Source of a program that calls functions.

    Attributes:
        banded: whether planes are computed in bands of rows, each from row `front` to `back`.
        body: the lines of the kernel that calls the functions, once they are written.
    """

    def __init__(self, program: Program, graph: Graph, fields: StoredFields, banded: bool = False) -> None:
        self.banded = banded
        super().__init__(program, graph, fields)
        self._functions: dict[str, Function] = {}
        self._shared: dict[tuple[str, ...], str] = {}  # body -> name of the function
        self._weights: dict[str, str] | None = None  # argument of the shared function that is being written -> source of its value
        self._merged: list[Function] = []
        self.body: list[str] = []

    def across(self, ahead: int = 0) -> tuple[str, str]:
        """Source of the first row of a plane that is computed, and of the end, both `ahead` rows farther on."""
        if not self.banded:
            return str(ahead), str(self.layout.rows[1] + ahead)
        return (f"front + {ahead}", f"back + {ahead}") if ahead else ("front", "back")

    def call(self, name: str, write: Callable[[], None], given: Mapping[str, str] | None = None, weights: Iterable[str] = ()) -> None:
        """Call a function of the source with some arguments by name. Write the function first if it does not exist yet.

        Args:
            name: name of the function.
            write: writes its body.
            given: source of arguments that differ from the caller's variables of the same name.
            weights: arguments that are numbers of the type of fields.
        """
        if name not in self._functions:
            body = self._body(write)
            used = set(re.findall(r"[A-Za-z_]\w*", "\n".join(body)))
            numbers = (*INDICES, *(self.level(place) for place in (TARGET, *self.levels_used)))
            kinds = {a.name: annotation(a) for a in self.arguments} | {identifier(TARGET.array): "Array"} | dict.fromkeys(numbers, "ti.i32")
            kinds |= dict.fromkeys(weights, "F")
            assigned = {match for line in body for match in re.findall(r"^\s*(?:for )?(\w+) (?:in|=) ", line)}
            kinds = {n: kind for n, kind in kinds.items() if n in used - assigned}
            self._functions[name] = Function(name, kinds, body)
        function = self._functions[name]
        if function.body:
            self.text(f"called = {name}({', '.join((given or {}).get(n, n) for n in function.kinds)})")

    def call_on(self, place: Place, purpose: str, write: Callable[[Place], None]) -> None:
        """Call a function that works on one array. All arrays for which its source is the same but for weights share it: halos and folds
        would otherwise be more than half of a kernel.

        Args:
            place: the array, or a level of it.
            purpose: begins the name of the function.
            write: writes its body for the given place. Sparse fields have arrays of their own beside theirs, so there it is written out.
        """
        if place.array in self.sparse:
            write(place)
            return
        self._weights = weights = dict[str, str]()
        body = self._body(lambda: write(TARGET))
        self._weights = None
        if body:
            name = self._shared.setdefault((purpose, *body), f"{purpose}_{len(self._shared)}")
            start = "0" if place.level is None else self.level(place)
            array = {identifier(TARGET.array): identifier(place.array), self.level(TARGET): start}
            self.call(name, lambda: self.text.lines.extend(body), {**array, **weights}, weights)

    def weighted(self, weight: float, source: str) -> str:
        """Source of a value times a weight, which is an argument of a function that several arrays share."""
        if self._weights is None:
            return super().weighted(weight, source)
        argument = f"weight_{len(self._weights)}"
        self._weights[argument] = literal(float(weight))
        return f"{argument} * {source}"

    def finish(self) -> None:
        """Put the functions before the kernel, which calls them."""
        back = any(isinstance(operation, Loop) and operation.down for operation in self.program.operations)
        used = [each for each in self._functions.values() if each.body]
        self._merged, kernel = merged(used, self.text.lines, REPEATED if back else WORTH)
        self.body = kernel[2:]
        self.text.lines = definitions(self._merged, kernel) + kernel

    def functions(self) -> list[Function]:
        """The functions of the source, each after those that it calls."""
        if not self.text.lines:
            self._write()
        return self._merged

    def _body(self, write: Callable[[], None]) -> list[str]:
        """The lines of a function."""
        caller, self.text = self.text, Text()
        self.text.depth = 1
        write()
        body, self.text = self.text.lines, caller
        return body

    @contextmanager
    def along(self, tiles: int) -> Iterator[None]:
        """A loop over `tiles` tiles `j`, see `counted`."""
        with self.counted("j", "0", str(tiles)):
            yield

    @contextmanager
    def counted(self, name: str, begin: str, end: str) -> Iterator[None]:
        """A loop whose length LLVM cannot compute. Others it writes out: the whole of short ones, and eight turns of those around them."""
        self.text(f"{name} = {begin}")
        self.text(f"{name}_by = 1 + control[{ZERO}]")
        with self.text.block(f"while {name} < {end}"):
            yield
            self.text(f"{name} = {name} + {name}_by")
