"""Taichi source that applies operators, shared by scans and histograms."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from diffsim.expr.source import Text
from diffsim.kernels.operator import Operator, Pullback, Typed


@dataclass(frozen=True)
class Array:
    """An array of the kernel: its name and type."""

    name: str
    dtype: np.dtype


class KernelSource:
    """A generated kernel: its text, which declares `d: Control` first and then `name: T_name` for each argument.

    In the text, F and I are the types of `precisions`, those of floats and of integers.
    """

    text: Text
    arguments: list[Array]
    precisions: tuple[np.dtype, np.dtype]


class OperatorSource(KernelSource):
    """A kernel with arrays of an operator's components: a letter and the component's number each.

    Args:
        op: the operator.
        dtypes: of its components.
        workers: CPU threads; None: a GPU, where each turn of a loop is a thread of its own.
    """

    float_letters = ""
    """Arrays that only components with cotangents have."""

    def __init__(self, op: Operator, dtypes: Sequence[np.dtype], workers: int | None) -> None:
        self.op, self.dtypes, self.workers = op, list(dtypes), workers
        self.value = op.value(dtypes)
        self.precisions = (self.value.floats, self.value.integers)
        self.text = Text()
        self.arguments: list[Array] = []
        self.count = len(self.dtypes)

    @cached_property
    def pullback(self) -> Pullback:
        return self.op.pullback(self.dtypes)

    @property
    def floats(self) -> tuple[int, ...]:
        """Components that have a cotangent."""
        return self.pullback.floats

    def declare(self, letter: str, components: Sequence[int]) -> None:
        self.arguments += [Array(f"{letter}{k}", self.dtypes[k]) for k in components]

    def header(self, name: str) -> str:
        return f"def {name}(d: Control, {', '.join(f'{a.name}: T_{a.name}' for a in self.arguments)})"

    # values

    def load(self, letter: str, k: int, at: str) -> str:
        element = f"{letter}{k}[{at}]"
        return f"{element} != 0" if self.dtypes[k].kind == "b" else element

    def store(self, letter: str, k: int, at: str, value: str) -> None:
        self.text(f"{letter}{k}[{at}] = " + (f"ti.cast({value}, ti.u8)" if self.dtypes[k].kind == "b" else value))

    def wide(self, program: Typed, k: int, name: str) -> str:
        """The variable `name` of component k in the precision of the program."""
        dtype = self.dtypes[k]
        if dtype.kind == "b":
            return name
        return (
            name if dtype == program.dtype("f" if dtype.kind == "f" else "i") else f"ti.cast({name}, {'F' if dtype.kind == 'f' else 'I'})"
        )

    def apply(self, program: Typed, names: dict[str, str], targets: Sequence[str], prefix: str) -> None:
        """Assign the results of a program to variables that exist; `names` are those of its reads a0, b0, r0 ..."""
        wide = {read: self.wide(program, int(read[1:]), names[read]) for read in program.reads()}
        lines, results = program.source(wide, prefix)
        for line in lines:
            self.text(line)
        if len(targets) > 1:  # all are computed before any is overwritten
            for k, result in enumerate(results):
                self.text(f"{prefix}t{k} = {result}")
            results = [f"{prefix}t{k}" for k in range(len(targets))]
        for target, result in zip(targets, results, strict=True):
            self.text(f"{target} = {result}")

    def operands(self, left: str, right: str) -> dict[str, str]:
        return {f"{side}{k}": f"{name}{k}" for side, name in (("a", left), ("b", right)) for k in range(self.count)}

    def step(self, left: str, right: str, prefix: str) -> None:
        """left = op(left, right), for variables left0, left1 ..."""
        self.apply(self.value, self.operands(left, right), [f"{left}{k}" for k in range(self.count)], prefix)

    def loads(self, letter: str, variable: str, at: str, needed: set[str] | None = None) -> None:
        """variable0, variable1 ... of the components that are read as the given names, or of all."""
        components = range(self.count) if letter not in self.float_letters else self.floats
        for k in components:
            if needed is None or str(k) in needed:
                self.text(f"{variable}{k} = {self.load(letter, k, at)}")

    def reads(self, program: Typed, side: str) -> set[str]:
        return {read[1:] for read in program.reads() if read[0] == side}

    def pull(self, program: Typed, left: str, right: str, r: str, targets: Sequence[str], prefix: str) -> None:
        """targets = cotangents of the operands left and right of an application whose result has the cotangent r."""
        names = self.operands(left, right) | {f"r{j}": f"{r}{j}" for j in self.floats}
        self.apply(program, names, targets, prefix)

    # loops

    @contextmanager
    def shared_out(self, variable: str, count: str) -> Iterator[None]:
        """A loop of the program's top level, over 0 .. count - 1."""
        text = self.text
        if self.workers is None:
            with text.block(f"for {variable} in range({count})"):
                self.dimensions()
                yield
            return
        text("ti.loop_config(serialize=True)" if self.workers == 1 else "ti.loop_config(block_dim=1)")
        with text.block(f"for w in range({self.workers})"):
            self.dimensions()
            text(f"share = (({count}) + {self.workers - 1}) // {self.workers}")
            with text.block(f"for {variable} in range(w * share, ti.min((w + 1) * share, {count}))"):
                yield

    def dimensions(self) -> None:
        """Read the parameters of the loops from the control array."""
        raise NotImplementedError
