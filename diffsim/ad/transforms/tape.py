"""The tape of a function made visible: as a list, as text for Graphviz, as a picture, and as the tree that it stands for."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from diffsim.ad.arrays.array import Array, core
from diffsim.ad.arrays.leaves import array_core, as_constant, as_input, differentiable, inputs_of
from diffsim.ad.core import Tracer, bottom, running
from diffsim.ad.transforms.modes import Node, ReverseTrace, ReverseTracer
from diffsim.ad.tree import flatten, unflatten
from diffsim.base import arguments

TREE_LINES = 200
"""Lines of a tree that are written out; a tape stands for a tree that can be exponentially larger."""


def label(x: Any, text: str) -> Any:
    """Attach a name to a value for `show_tape`. Returns `x`; it costs nothing where there is no tape.

    Args:
        x: an array, a number, or a pytree of them.
        text: the name.

    Returns:
        `x`.
    """
    arguments.instance("text", text, str, "a text", "write it like ds.label(x, 'speed')")
    value = core(x) if isinstance(x, Array) else x
    while isinstance(value, Tracer):
        if isinstance(value, ReverseTracer):
            value.node.label = text
        value = value.primal
    return x


@dataclass(frozen=True)
class Entry:
    """One operation of a tape.

    Attributes:
        number: its place, from 0 up; arguments have smaller numbers.
        operation: name of the operation, "input" for an input.
        label: the user's name of it, or "".
        arguments: numbers of the operations that it depends on.
        shapes: of its values.
        nbytes: of the arrays that it keeps for the reverse sweep; those that an earlier entry keeps are not counted again.
        uses: how often others depend on it. With more than one it is shared.
    """

    number: int
    operation: str
    label: str
    arguments: tuple[int, ...]
    shapes: tuple[str, ...]
    nbytes: int
    uses: int

    @property
    def shared(self) -> bool:
        return self.uses > 1

    @property
    def title(self) -> str:
        name = f"{self.label}: {self.operation}" if self.label else self.operation
        return f"{name} {' '.join(self.shapes)}"


@dataclass(frozen=True)
class Tape:
    """A tape: `print(tape)` lists it.

    Attributes:
        entries: operations, arguments first.
        outputs: numbers of the entries that give the value.
    """

    entries: tuple[Entry, ...]
    outputs: tuple[int, ...]

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays that the tape keeps."""
        return sum(e.nbytes for e in self.entries)

    def __str__(self) -> str:
        lines = [f"{'':>6} {'operation':24} {'from':20} {'value':20} {'keeps':>10}"]
        for e in self.entries:
            name = f"{e.label}: {e.operation}" if e.label else e.operation
            mark = f"  shared by {e.uses}" if e.shared else ""
            mark += "  -> result" if e.number in self.outputs else ""
            came = " ".join(f"#{a}" for a in e.arguments)
            lines.append(f"{f'#{e.number}':>6} {name:24} {came:20} {' '.join(e.shapes):20} {_size(e.nbytes):>10}{mark}")
        shared = sum(e.shared for e in self.entries)
        lines.append(f"{len(self.entries)} operations, {shared} shared, {_size(self.nbytes)} kept; as a tree {_count(self.tree_size())}")
        return "\n".join(lines)

    def tree_size(self) -> int:
        """Operations of the tree that the tape stands for, shared ones written out wherever they are used."""
        sizes: list[int] = []
        for e in self.entries:
            sizes.append(1 + sum(sizes[a] for a in e.arguments))
        return sum(sizes[k] for k in self.outputs)

    def tree(self, lines: int = TREE_LINES) -> str:
        """The tree as indented text, results first, cut after some lines."""
        out: list[str] = []
        walk = self._walk()
        for _ in range(lines):
            node = next(walk, None)
            if node is None:
                return "\n".join(out)
            out.append(node)
        return "\n".join([*out, f"... {_count(self.tree_size())} in all"])

    def _walk(self) -> Iterator[str]:
        stack = [(k, 0) for k in reversed(self.outputs)]
        while stack:
            number, depth = stack.pop()
            entry = self.entries[number]
            yield f"{'  ' * depth}#{number} {entry.title}{' (shared)' if entry.shared else ''}"
            stack += [(a, depth + 1) for a in reversed(entry.arguments)]

    @property
    def dot(self) -> str:
        """Text for Graphviz; shared operations are drawn with a double line."""
        lines = ["digraph tape {", "  rankdir=TB; node [shape=box, fontname=Helvetica];"]
        for e in self.entries:
            text = f"#{e.number} {e.title}".replace('"', '\\"') + (f"\\nkeeps {_size(e.nbytes)}" if e.nbytes else "")
            style = ", peripheries=2" if e.shared else ""
            style += ", style=filled, fillcolor=lightblue" if e.operation == "input" else ""
            style += ", style=bold" if e.number in self.outputs else ""
            lines.append(f'  n{e.number} [label="{text}"{style}];')
            lines += [f"  n{a} -> n{e.number};" for a in e.arguments]
        return "\n".join([*lines, "}", ""])

    def figure(self) -> Any:
        """A matplotlib figure: inputs at the top, each operation below its operands, shared ones with a thick edge."""
        from matplotlib.figure import Figure

        levels: list[int] = []
        for e in self.entries:
            levels.append(1 + max((levels[a] for a in e.arguments), default=-1))
        rows: dict[int, list[int]] = {}
        for number, level in enumerate(levels):
            rows.setdefault(level, []).append(number)
        places = _placed(rows, self.entries)
        width, height = max(map(len, rows.values())), len(rows)
        figure = Figure(figsize=(min(2.2 * width + 1.0, 30.0), min(0.9 * height + 0.6, 40.0)), layout="constrained")
        axes = figure.add_subplot()
        axes.set_axis_off()
        for e in self.entries:
            for a in e.arguments:
                axes.annotate(
                    "", places[e.number], places[a], arrowprops={"arrowstyle": "->", "color": "0.5", "shrinkA": 12, "shrinkB": 12}
                )
            colour = "#cfe8fc" if e.operation == "input" else "#fde9c8" if e.number in self.outputs else "white"
            name = f"{e.label}: {e.operation}" if e.label else e.operation
            text = f"{name}\n{' '.join(e.shapes)}" + (f", {_size(e.nbytes)}" if e.nbytes else "")
            box = {"boxstyle": "round", "facecolor": colour, "edgecolor": "black", "linewidth": 2.2 if e.shared else 0.8}
            axes.text(*places[e.number], text, ha="center", va="center", fontsize=8, bbox=box, zorder=3)
        axes.set_xlim(-0.6, width - 0.4)
        axes.set_ylim(-height + 0.4, 0.6)
        return figure


def _placed(rows: dict[int, list[int]], entries: tuple[Entry, ...]) -> dict[int, tuple[float, float]]:
    """Where each entry is drawn: in its row, in the order of the places of its arguments."""
    width = max(map(len, rows.values()))
    places: dict[int, tuple[float, float]] = {}
    for level, numbers in sorted(rows.items()):
        key = {k: np.mean([places[a][0] for a in entries[k].arguments]) if entries[k].arguments else k for k in numbers}
        shift = (width - len(numbers)) / 2
        for column, k in enumerate(sorted(numbers, key=lambda k: (key[k], k))):
            places[k] = (column + shift, -float(level))
    return places


def show_tape(f: Callable[..., Any], *args: Any) -> Tape:
    """The tape that a reverse sweep of `f` at `args` would use.

    Args:
        f: of arrays, numbers and pytrees of them.
        args: where to run it. Inputs are called as the parameters of `f`; `label` names other values.

    Returns:
        The tape. `print` lists it, `.tree()` writes the tree that it stands for, `.dot` is text for Graphviz, `.figure()` a picture.

    Example:
        import numpy

        import diffsim as ds
        import diffsim.numpy as np

        def loss(pressure):
            slope = ds.label(np.diff(pressure), "slope")
            return np.sum(slope**2)

        tape = ds.show_tape(loss, numpy.linspace(0.0, 1.0, 5))
        print(tape)  # each operation, with its shape and its operands
        assert "slope" in str(tape) and "pressure" in str(tape)
    """
    arguments.function("f", f, "ds.show_tape(lambda x: x**2, x)", optional=False)
    leaves, tree = inputs_of(args)
    names = _names(f, args)
    trace = ReverseTrace()
    with running():
        watched = []
        inputs = []
        for leaf, name in zip(leaves, names, strict=True):
            value = differentiable(leaf)
            if value is None:
                watched.append(as_constant(leaf))
                continue
            tracer = trace.leaf(value)
            tracer.node.label = name
            inputs.append(tracer.node)
            watched.append(as_input(leaf, tracer))
        try:
            cores = [array_core(leaf) for leaf in flatten(f(*unflatten(tree, watched)))[0]]
        finally:
            trace.ended = True
    ends = [c.node for c in cores if isinstance(c, ReverseTracer) and c.trace is trace]
    return _entries(ends, inputs)


def _names(f: Callable[..., Any], args: tuple[Any, ...]) -> list[str]:
    """A name for each leaf of the arguments."""
    try:
        parameters = list(inspect.signature(f).parameters)
    except (TypeError, ValueError):
        parameters = []
    out = []
    for k, arg in enumerate(args):
        base = parameters[k] if k < len(parameters) else f"argument {k}"
        count = len(flatten(arg)[0])
        out += [base] if count == 1 else [f"{base}[{i}]" for i in range(count)]
    return out


def _entries(ends: list[Node], inputs: list[Node]) -> Tape:
    by_id: dict[int, Node] = {}
    stack = [*ends, *inputs]
    while stack:
        node = stack.pop()
        if node.id not in by_id:
            by_id[node.id] = node
            stack += [p for p in node.parents if p is not None]
    nodes = [by_id[k] for k in sorted(by_id)]
    number = {node.id: k for k, node in enumerate(nodes)}
    uses = dict.fromkeys(number, 0)
    for node in nodes:
        for parent in node.parents:
            if parent is not None:
                uses[parent.id] += 1
    entries, seen = [], set()
    for node in nodes:
        nbytes = 0
        for kept in (*node.args, node.out):
            plain = bottom(kept)
            if isinstance(plain, np.ndarray) and id(plain) not in seen:
                seen.add(id(plain))
                nbytes += plain.nbytes
        arguments = tuple(number[p.id] for p in node.parents if p is not None)
        shapes = tuple(f"{a.dtype}{list(a.shape)}" for a in node.params.get("avals", [node]) if a is not None)
        entries.append(Entry(number[node.id], node.name, node.label or "", arguments, shapes, nbytes, uses[node.id]))
    return Tape(tuple(entries), tuple(number[node.id] for node in ends))


def _size(nbytes: float) -> str:
    for unit in ("B", "kB", "MB"):
        if nbytes < 1000:
            return f"{nbytes:.4g} {unit}"
        nbytes /= 1000
    return f"{nbytes:.4g} GB"


def _count(operations: int) -> str:
    digits = str(operations)
    return f"{operations} operations" if len(digits) < 10 else f"some 10^{len(digits) - 1} operations"
