"""Parts of a step that differ in names, levels and numbers alone have one kernel.

A program that calls functions on the host is cut into parts, each with a kernel of its own (`Program.parts`). Those of the stages of a
Runge-Kutta method are the same loops over other fields. Their kernel takes the fields in the order in which it uses them, the places of
their levels in the control array, and the numbers that differ.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from diffsim.engine import language, shared_kernel
from diffsim.expr.source import with_functions
from diffsim.stepping.source.alike import Form, Function, Merged, called, definitions, form_of, paired
from diffsim.stepping.source.kernel import ZERO, Argument, annotation
from diffsim.stepping.source.workers import WorkerKernel
from diffsim.typing import Array, IntArray

LEVELS, NUMBERS = "levels__", "numbers__"
"""Arguments with the places of levels, and with numbers."""

_LEVEL = re.compile(r"^ *(\w+) = control\[(\d+) \+ t \+ (\d+)\] \* (\d+)$")
_LITERAL = re.compile(r"^F\([-+.\deE]+\)$")
_STEP = re.compile(r"^( *)n = control\[")


@dataclass(frozen=True)
class _Part:
    """A part of a step.

    Attributes:
        kernel: its own kernel.
        functions: of its source, each after those that it calls, with names that no other part has.
        body: the lines of the kernel, without those of levels.
        levels: level -> its first entry in the control array.
        tiles: tiles of a level.
    """

    kernel: WorkerKernel
    functions: list[Function]
    body: Function
    levels: dict[str, int]
    tiles: str

    @classmethod
    def of(cls, kernel: WorkerKernel, number: int) -> _Part:
        types = {annotation(each): _type(kernel, each) for each in kernel.arguments}
        names = {each.name: f"{each.name}_{number}" for each in kernel.functions()}
        functions = [
            Function(names[each.name], {name: types.get(kind, kind) for name, kind in each.kinds.items()}, each.renamed(names).body)
            for each in kernel.functions()
        ]
        levels, tiles, lines = dict[str, int](), set[str](), list[str]()
        for line in kernel.body:
            match = _LEVEL.match(line)
            if match is None:
                lines.append(line)
            else:
                levels[match[1]] = int(match[2]) + int(match[3])
                tiles.add(match[4])
        kinds = {each.name: types[annotation(each)] for each in kernel.arguments} | dict.fromkeys(levels, "ti.i32")
        own = Function(f"kernel_{number}", kinds, lines)
        return cls(kernel, functions, own.renamed(names), levels, " ".join(tiles))

    @property
    def form(self) -> tuple[str, ...] | None:
        """Texts that are the same for parts that can share a kernel. None if the part cannot share one."""
        forms: dict[str, tuple[str, Function, Form]] = {}
        for number, function in enumerate([*self.functions, self.body]):
            lines = [paired(line, forms) for line in function.body]
            forms[function.name] = f"function_{number}", function, form_of(Function(function.name, function.kinds, lines))
        _, _, kernel = forms[self.body.name]
        starts = {start for _, start in kernel.arrays} - {"0"}
        literal = all(_LITERAL.match(number) for _, _, form in forms.values() for number in form.numbers)
        if self.kernel.sparse or not starts <= self.levels.keys() or not literal:
            return None
        return (self.tiles, *(form.text for _, _, form in forms.values()))


class PartKernel:
    """The kernel of a part of a step that others share.

    Args:
        part: number of the part among those that share it.
        source: of the kernel.
        kernel: the part's own one.
        arguments: of the shared one.
        levels: for each level the entry of the control array, and how much farther on it is in the next step.
        numbers: that differ between parts.

    Attributes:
        rolled_tiles: see `Kernel`.
    """

    def __init__(self, source: str, kernel: WorkerKernel, arguments: list[Argument], levels: IntArray, numbers: Array) -> None:
        self.source, self.kernel, self.arguments, self.levels, self.numbers = source, kernel, arguments, levels, numbers
        self.rolled_tiles = kernel.rolled_tiles

    def compile(self) -> object:
        """The Taichi kernel."""
        layout = self.kernel.layout
        return shared_kernel(self.source, "kernel", (layout.dtype.name, self.kernel.lanes), self._namespace)

    def _namespace(self) -> dict[str, object]:
        ti, own = language(), self.kernel._namespace()
        types = {_type(self.kernel, each): own[annotation(each)] for each in self.kernel.arguments}
        return own | types | {"Numbers": ti.types.ndarray(dtype=own["F"], ndim=1)}


def shared_parts(kernels: Sequence[WorkerKernel]) -> list[WorkerKernel | PartKernel]:
    """The kernels of the parts of a step, with one for all those that are alike."""
    parts = [_Part.of(kernel, number) for number, kernel in enumerate(kernels)]
    groups: dict[tuple[str, ...], list[int]] = {}
    for number, part in enumerate(parts):
        form = part.form
        if form is not None:
            groups.setdefault(form, []).append(number)
    out: list[WorkerKernel | PartKernel] = list(kernels)
    for group in groups.values():
        if len(group) > 1:
            for number, kernel in zip(group, _one([parts[number] for number in group]), strict=True):
                out[number] = kernel
    return out


def _one(parts: Sequence[_Part]) -> list[PartKernel]:
    """The kernels of parts that are alike."""
    ones, functions = dict[str, Merged](), list[Function]()
    for alike in zip(*([*part.functions, part.body] for part in parts), strict=True):
        members = [Function(each.name, each.kinds, [called(line, ones) for line in each.body]) for each in alike]
        one = Merged([(each, form_of(each)) for each in members])
        ones |= dict.fromkeys(one.names, one)
        functions.append(one.function)
    *functions, kernel = functions
    arguments = {name: kind for name, kind in kernel.kinds.items() if kind not in ("control", "ti.i32", "F")}
    starts = [name for name, kind in kernel.kinds.items() if kind == "ti.i32"]
    numbers = [name for name, kind in kernel.kinds.items() if kind == "F"]
    declared = {"control": "control", **arguments, LEVELS: "control", NUMBERS: "Numbers"}
    lines = definitions(functions, kernel.body)
    lines += ["@ti.kernel", f"def kernel({', '.join(f'{name}: {kind}' for name, kind in declared.items())}):"]
    for line in kernel.body:
        lines.append(line)
        step = _STEP.match(line)
        if step is not None:
            lines += [
                f"{step[1]}{start} = control[{LEVELS}[{2 * k}] + t * {LEVELS}[{2 * k + 1}]] * {parts[0].tiles}"
                for k, start in enumerate(starts)
            ]
            lines += [f"{step[1]}{number} = {NUMBERS}[{k}]" for k, number in enumerate(numbers)]
    source = with_functions("\n".join(lines) + "\n")
    return [_of_part(part, source, ones[part.body.name], list(arguments)) for part in parts]


def _of_part(part: _Part, source: str, one: Merged, declared: Sequence[str]) -> PartKernel:
    """The shared kernel of a part, with its own arguments."""
    passed = dict(zip(one.function.kinds, one.passed(part.body.name, list(part.body.kinds)), strict=True))
    known = {each.name: each for each in part.kernel.arguments}
    arguments = [known["control"], *(known[passed[name]] for name in declared)]
    arguments += [Argument(LEVELS, "levels", part.kernel.program.name), Argument(NUMBERS, "numbers", part.kernel.program.name)]
    starts = [passed[name] for name, kind in one.function.kinds.items() if kind == "ti.i32"]
    levels = [entry for start in starts for entry in ((part.levels[start], 1) if start in part.levels else (ZERO, 0))]
    numbers = [float(passed[name][2:-1]) for name, kind in one.function.kinds.items() if kind == "F"]
    return PartKernel(source, part.kernel, arguments, np.array(levels or [0], np.int32), np.array(numbers or [0.0]))


def _type(kernel: WorkerKernel, argument: Argument) -> str:
    """Name of an argument's type in the source, the same for all arguments of the type."""
    if argument.kind in ("ring", "field"):
        return "Array"
    tiled = argument.kind == "slim" and kernel.layout.tiled(kernel.slim[argument.key])
    return f"{argument.kind.replace(' ', '_')}{'_of_tiles' if tiled else ''}"
