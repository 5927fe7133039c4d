"""A recording as straight-line source of Python: one line an operation, values in local variables.

A solver and its adjoint are one pair there: the run keeps what its reverse sweep needs, as it does on a tape.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import is_
from typing import Any

import numpy as np

from diffsim.ad.model import ADJOINT, SOLVE, Model
from diffsim.ad.recorded.recording import Operation, Recording, Register
from diffsim.ad.tree import Tree
from diffsim.base import buffers
from diffsim.errors import JitError

NEW = {"add", "subtract", "multiply", "divide", "negative", "power", "square", "exp", "log", "sin", "cos", "sqrt", SOLVE.name, ADJOINT.name}
"""Operations whose results share memory with nothing."""


class NotReplayedError(JitError):
    """A replay met values for which other operations would be done: the function is called instead."""


class Source:
    """Lines of a function, and the objects that they name."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.names: dict[str, Any] = {}
        self._known: dict[int, str] = {}

    def name(self, thing: Any, literal: bool = True) -> str:
        """The name of an object; where `literal`, a number or a text stands for itself."""
        if literal and type(thing) in (int, bool, type(None), str):
            return repr(thing)
        known = self._known.get(id(thing))
        if known is None:
            known = self._known[id(thing)] = f"c{len(self.names)}"
            self.names[known] = thing
        return known

    def function(self, header: str) -> Callable[..., Any]:
        """The function of all lines."""
        body = "\n".join(f"    {line}" for line in self.lines)
        namespace = {"__name__": f"{__name__} of a function", **self.names}  # of diffsim, by file and name: warnings pass over it
        exec(compile(f"{header}\n{body}\n", f"{__file__}:replay", "exec"), namespace)
        function: Callable[..., Any] = namespace[header.removeprefix("def ").partition("(")[0]]
        return function


def require_finite(*values: Any) -> None:
    """Raise unless all entries are finite.

    Raises:
        NotReplayedError: one is not.
    """
    for value in values:
        if b"\0" in np.isfinite(value).tobytes():
            raise NotReplayedError("a value is not finite")


def require_empty(*masks: Any) -> None:
    """Raise if an entry of a mask holds.

    Raises:
        NotReplayedError: one does.
    """
    for mask in masks:
        if np.any(mask):
            raise NotReplayedError("an entry is at a kink")


def _raising() -> dict[str, Any]:
    """Errors in place of NumPy's warnings, after which the function is called: it warns at its own line."""
    return {kind: "raise" for kind, how in np.geterr().items() if how == "warn"}


def built(tree: Tree, leaves: Sequence[str], source: Source) -> str:
    """The expression of a pytree with these expressions as leaves."""
    left = list(leaves)

    def walk(part: Tree) -> str:
        if part.kind is None:
            return left.pop(0)
        if part.kind is type(None):
            return "None"
        children = [walk(child) for child in part.children]
        if part.kind is dict:
            return f"{{{', '.join(f'{source.name(k)}: {c}' for k, c in zip(part.data, children, strict=True))}}}"
        if part.kind in (tuple, list):
            inside = "".join(f"{c}, " for c in children)
            return f"({inside})" if part.kind is tuple else f"[{inside}]"
        return f"{source.name(part.unflatten)}({source.name(part.data)}, [{', '.join(children)}])"

    return walk(tree)


class Program:
    """The operations of a recording that its results need.

    Args:
        recording: of a function.
        arguments: registers of its arguments.
        results: registers, or constants.
        tree: of the results.
        leaves: the results of a plain call, for their types and layouts.
    """

    def __init__(
        self, recording: Recording, arguments: Sequence[Register], results: Sequence[Any], tree: Tree, leaves: Sequence[Any]
    ) -> None:
        self._source, self._results = Source(), results
        self._arguments = [r.number for r in arguments]
        needed = {r.number for r in (*recording.doubted, *recording.empty, *results) if isinstance(r, Register)}
        self.operations: list[Operation] = []
        for operation in reversed(recording.operations):
            if any(r is not None and r.number in needed for r in operation.results):
                self.operations.append(operation)
                needed |= {a.number for a in operation.args if isinstance(a, Register)}
        self.operations.reverse()
        self._new = {r.number for o in self.operations if o.name in NEW for r in o.results if r is not None}
        self._written = any(o.params.get("donate") for o in self.operations)
        self._pairs = self._paired()
        self._write(recording, tree, leaves)
        name = self._source.name
        self._source.lines[:] = [f"with {name(np.errstate)}(**{name(_raising)}()):", *(f"    {line}" for line in self._source.lines)]
        header = f"def replay({', '.join(f'v{r}' for r in self._arguments)})"
        self.run = self._source.function(f"{header}:")

    def _paired(self) -> dict[int, int]:
        """Place of each adjoint of a solver -> the place of the run that it belongs to."""
        pairs: dict[int, int] = {}
        for place, operation in enumerate(self.operations):
            if operation.name == ADJOINT.name:
                args = operation.args[: operation.params["count"]]
                for before, run in enumerate(self.operations[:place]):
                    same = run.name == SOLVE.name and run.params["model"] is operation.params["model"]
                    if same and all(map(_same, run.args, args)):
                        pairs[place] = before
        return pairs

    def _write(self, recording: Recording, tree: Tree, leaves: Sequence[Any]) -> None:
        lines, name = self._source.lines, self._source.name
        silent = False
        quiet = name(np.errstate)
        for place, operation in enumerate(self.operations):
            if operation.silent and not silent:
                lines.append(f"with {quiet}(all='ignore'):")
            silent = operation.silent
            lines.append(f"{'    ' if silent else ''}{self._line(place, operation)}")
        looked = {r.number for o in self.operations if o.name == ADJOINT.name for r in (*o.results, *o.args) if isinstance(r, Register)}
        ends = [r for r in self._results if isinstance(r, Register) and r.number not in self._of_runs()]
        doubted = list(
            dict.fromkeys(f"v{r.number}" for r in (*recording.doubted, *ends) if r.number not in looked)
        )  # a solver looks itself
        if doubted:
            lines.append(f"{name(require_finite)}({', '.join(doubted)})")
        if recording.empty:
            lines.append(f"{name(require_empty)}({', '.join(f'v{r.number}' for r in recording.empty)})")
        lines.append(f"return {built(tree, self._leaves(leaves), self._source)}")

    def _of_runs(self) -> set[int]:
        return {r.number for o in self.operations if o.name == SOLVE.name for r in o.results if r is not None}

    def _line(self, place: int, operation: Operation) -> str:
        name = self._source.name
        values = ", ".join(f"v{r.number}" if r is not None else "_" for r in operation.results)
        if operation.multiple:
            values += ","
        args = ", ".join(self._operand(a) for a in operation.args)
        if place in self._pairs:
            run, count = self._pairs[place], operation.params["count"]
            cts = ", ".join(self._operand(a) for a in operation.args[count:])
            return f"{values} = p{run}(({cts},))"
        if operation.name == SOLVE.name:
            model: Model = operation.params["model"]
            if place in self._pairs.values():
                return f"({values}), p{place} = {name(model.bound(pulled=True))}({args})"
            return f"{values} = {name(model.bound(pulled=False))}({args})"
        params = "".join(f", {key}={name(value)}" for key, value in operation.params.items())
        function = buffers.plain(operation.function) if operation.small else operation.function
        return f"{values} = {name(function)}({args}{params})"

    def _operand(self, value: Any) -> str:
        return f"v{value.number}" if isinstance(value, Register) else self._source.name(value)

    def _leaves(self, likes: Sequence[Any]) -> list[str]:
        """The results, each in memory of its own."""
        leaves, name = [], self._source.name
        numbers = [r.number for r in self._results if isinstance(r, Register)]
        for value, like in zip(self._results, likes, strict=True):
            if not isinstance(value, Register):
                leaves.append(f"{name(value)}.copy()" if isinstance(value, np.ndarray) else name(value))
            elif isinstance(like, np.generic):
                leaves.append(f"v{value.number}[()]")
            elif type(like) is float:
                leaves.append(f"float(v{value.number})")
            elif value.number in self._new and numbers.count(value.number) == 1 and not self._written:
                leaves.append(f"v{value.number}")
            else:
                of_rows = isinstance(like, np.ndarray) and like.flags.c_contiguous
                leaves.append(f"{name(np.array if of_rows else buffers.copy)}(v{value.number}{', order=' + repr('C') if of_rows else ''})")
        return leaves


def _same(a: Any, b: Any) -> bool:
    return a == b if isinstance(a, Register) and isinstance(b, Register) else is_(a, b)
