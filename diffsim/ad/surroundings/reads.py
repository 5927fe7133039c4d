"""Names that the byte code of a function reads or assigns, and the attributes that follow them."""

from __future__ import annotations

import dis
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from types import CodeType
from typing import Literal

SILENT = {"EXTENDED_ARG", "CACHE", "NOP", "PUSH_NULL", "PRECALL"}


@dataclass(frozen=True)
class Read:
    """A name that is read.

    Attributes:
        kind: of the name; "class": a class is defined, without a name; "stored": a name from outside is assigned.
        name: the name, or that of a module.
        attributes: that are read of the value, each of the one before.
        assigned: the attribute of the last value that is then assigned; "": none.
        entry: an entry of the last value is then assigned.
    """

    kind: Literal["class", "import", "global", "local", "stored"]
    name: str = ""
    attributes: tuple[str, ...] = ()
    assigned: str = ""
    entry: bool = False


def reads_of(code: CodeType) -> Iterator[Read]:
    """The names that byte code reads, without those of functions inside."""
    yield from reads_among(list(dis.get_instructions(code)))


def reads_among(instructions: Sequence[dis.Instruction]) -> Iterator[Read]:
    """The names that instructions read. One may load two local names, of which the attributes that follow belong to the second."""
    steps = [step for step in instructions if step.opname not in SILENT]
    for number, step in enumerate(steps):
        operation = step.opname
        if operation == "LOAD_BUILD_CLASS":
            yield Read("class")
        elif operation == "IMPORT_NAME":
            yield Read("import", step.argval)
        elif operation in ("STORE_GLOBAL", "STORE_NAME", "STORE_DEREF"):
            yield Read("stored", step.argval)
        elif operation in ("LOAD_GLOBAL", "LOAD_NAME"):
            yield Read("global", step.argval, *_attributes(steps[number + 1 :]))
        elif "LOAD" in operation and ("_DEREF" in operation or "_FAST" in operation):
            *before, last = step.argval if isinstance(step.argval, tuple) else (step.argval,)
            if not operation.startswith("STORE"):  # the first is bound then, not read
                yield from (Read("local", name) for name in before)
            yield Read("local", last, *_attributes(steps[number + 1 :]))


def _attributes(steps: Sequence[dis.Instruction]) -> tuple[tuple[str, ...], str, bool]:
    """The attributes that instructions read of the value before them, and the attribute or the entry that is then assigned."""
    count = next((k for k, step in enumerate(steps) if step.opname not in ("LOAD_ATTR", "LOAD_METHOD")), len(steps))
    after = [step.opname for step in steps[count : count + 3]]
    assigned = ""
    if after[:1] == ["STORE_ATTR"]:
        assigned = steps[count].argval
    elif after[:1] in (["COPY"], ["DUP_TOP"]) and after[1:2] == ["LOAD_ATTR"]:  # x.a += 1
        assigned = steps[count + 1].argval
    entry = after[1:2] in (["STORE_SUBSCR"], ["DUP_TOP_TWO"]) or after[1:] == ["COPY", "COPY"]  # x[k] = 1, x[k] += 1
    return tuple(step.argval for step in steps[:count]), assigned, entry and after[0].startswith("LOAD")
