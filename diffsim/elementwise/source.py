"""Source of functions for kernels of any kind: how a kind writes calls and numbers is its `Dialect`."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from diffsim.elementwise.function import Source
from diffsim.elementwise.table import FUNCTIONS

ENGINE: Mapping[str, int] = {
    "exp": 1, "log": 1, "sin": 1, "cos": 1, "tan": 1, "tanh": 1, "asin": 1, "acos": 1, "atan2": 2, "pow": 2,
}  # fmt: skip
"""Functions that engines have for a single number -> the number of their arguments. They are applied to each lane of a tile."""
HELPERS: Mapping[str, tuple[str, ...]] = {
    "abs": ("return ti.max(x, {0} - x)",),
    "sign": ("return ti.select(x > {0}, {1}, ti.select(x < {0}, {0} - {1}, x))",),
}
"""Functions that sources call and that are not in the table."""
_WORD = re.compile(r"\{([^{}]+)\}")
_CALL = re.compile(r"\b([a-z]\w*)\(")


@dataclass(frozen=True)
class Dialect:
    """How a kind of kernel writes functions and numbers.

    Attributes:
        own: name of a function that has lines, with {name} for its name.
        engine: name of one that the engine has.
        number: a number, with {value} for it.
    """

    own: str
    engine: str
    number: str

    def call(self, name: str) -> str:
        return (self.engine if name in ENGINE else self.own).format(name=name)

    def written(self, text: str, arguments: Mapping[str, str] | None = None) -> str:
        """A text of the table in this dialect; `arguments` are the sources of x and y."""

        def word(match: re.Match[str]) -> str:
            if arguments is not None and match[1] in arguments:
                return arguments[match[1]]
            try:
                return self.number.format(value=repr(float(match[1])))
            except ValueError:
                return self.call(match[1])

        return _WORD.sub(word, text)

    def expression(self, name: str, source: Source, arguments: Mapping[str, str]) -> str:
        """The use of a function of the table."""
        if isinstance(source, str):
            return self.written(source, arguments)
        return f"{self.call(name)}({', '.join(arguments.values())})"


LINES: Mapping[str, tuple[str, ...]] = {
    **HELPERS,
    **{each.name: each.source for each in FUNCTIONS.values() if isinstance(each.source, tuple)},
}
"""Functions that kernels have as functions -> their lines."""


def library(body: str, dialect: Dialect, others: Mapping[str, tuple[str, ...]] | None = None, binary: Collection[str] = ()) -> str:
    """Source of the functions that a kernel calls, each after those that it calls itself.

    Args:
        body: of the kernel.
        dialect: of the kernel.
        others: lines of functions that only this kind of kernel has.
        binary: those of the others that have two arguments.
    """
    lines = {**LINES, **(others or {})}
    written: dict[str, str] = {}
    calls = {name: dialect.call(name) for name in lines}

    def need(source: str) -> None:
        called = set(_CALL.findall(source))
        for name, call in calls.items():
            if call in called and name not in written:
                count = 2 if name in binary else FUNCTIONS[name].count if name in FUNCTIONS else 1
                own = "\n".join(f"    {dialect.written(line)}" for line in lines[name])
                written[name] = ""
                need(own)
                del written[name]
                written[name] = f"@ti.func\ndef {call}({', '.join('xy'[:count])}):\n{own}\n"

    need(body)
    return "\n".join(written.values())
