"""Operators of scans, reductions and histograms, and their expressions with a type on every value.

Expressions of `diffsim.expr` are untyped. Here every value is a float, an integer or a boolean: floats are all of one
precision, the widest among the components (f64 if there is none), and so are integers. Integers that meet floats
become floats of that precision. NumPy evaluation and Taichi source are made from the same typed steps.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from diffsim.base.messages import shown
from diffsim.errors import ParameterError
from diffsim.expr.derive import vjp
from diffsim.expr.graph import OPERATIONS, Graph, Node, ordered

Kind: TypeAlias = Literal["f", "i", "b"]
DTYPES = tuple(np.dtype(t) for t in (np.float32, np.float64, np.int32, np.int64, np.bool_))


@dataclass(frozen=True)
class Operator:
    """An associative operator on k-tuples of scalars.

    Attributes:
        graph: of the expressions.
        outputs: k expressions of the left operand's components, `graph.read("a0", ())` to `graph.read("a{k-1}", ())`, and
            of the right one's, `"b0"` to `"b{k-1}"`.
    """

    graph: Graph
    outputs: tuple[Node, ...]

    @property
    def arity(self) -> int:
        """Components of an operand, k."""
        return len(self.outputs)

    @cached_property
    def _typed(self) -> dict[Any, Any]:
        return {}

    def value(self, dtypes: Sequence[npt.DTypeLike], components: tuple[int, ...] | None = None) -> Typed:
        """The program of one application: a0, b0 ... -> the given components of the result, or all."""
        wanted = tuple(range(self.arity)) if components is None else components
        key = ("value", *(np.dtype(t) for t in dtypes), wanted)
        if key not in self._typed:
            roots, results = [self.outputs[k] for k in wanted], [dtypes[k] for k in wanted]
            self._typed[key] = type_expressions(roots, operand_types(dtypes), results)
        return self._typed[key]

    def pullback(self, dtypes: Sequence[npt.DTypeLike]) -> Pullback:
        """The vector-Jacobian product of one application."""
        key = ("pullback", *(np.dtype(t) for t in dtypes))
        if key not in self._typed:
            self._typed[key] = Pullback.of(self, dtypes)
        return self._typed[key]


def operand_types(dtypes: Sequence[npt.DTypeLike]) -> dict[str, np.dtype]:
    """Types of the reads of an operator whose components have `dtypes`."""
    return {f"{side}{k}": np.dtype(dtype) for side in "ab" for k, dtype in enumerate(dtypes)}


@dataclass(frozen=True)
class Step:
    """One typed operation: a "const", a "read", a "cast" to `kind`, or one of `OPERATIONS`. `args` are numbers of steps."""

    op: str
    args: tuple[int, ...]
    data: Any
    kind: Kind


@dataclass(frozen=True)
class Typed:
    """A straight-line program of typed steps. Equal for expressions of equal structure, whatever graph they are from.

    Attributes:
        steps: arguments before users.
        results: step of each result.
        dtypes: type in which each result is stored.
        floats, integers: the precisions in force.
    """

    steps: tuple[Step, ...]
    results: tuple[int, ...]
    dtypes: tuple[np.dtype, ...]
    floats: np.dtype
    integers: np.dtype

    def reads(self) -> set[str]:
        """Names of the reads."""
        return {step.data for step in self.steps if step.op == "read"}

    @property
    def single(self) -> str | None:
        """The operation, if the program is one operation on numbers a0 and b0 of the result's type."""
        *reads, last = self.steps
        plain = len(reads) == 2 and all(r.op == "read" and r.kind == last.kind for r in reads)
        return last.op if plain and len(last.args) == len(self.results) + 1 == 2 else None

    def dtype(self, kind: Kind) -> np.dtype:
        return {"f": self.floats, "i": self.integers, "b": np.dtype(np.bool_)}[kind]

    def __call__(self, **arrays: npt.NDArray) -> list[npt.NDArray]:
        """Evaluate with NumPy; results are broadcast and of their `dtypes`. The caller silences floating-point warnings."""
        values: list[Any] = []
        for step in self.steps:
            match step.op:
                case "const":
                    values.append(self.dtype(step.kind).type(step.data))
                case "read":
                    values.append(arrays[step.data].astype(self.dtype(step.kind), copy=False))
                case "cast":
                    values.append(values[step.args[0]].astype(self.dtype(step.kind)))
                case _:
                    extra = () if step.data is None else (self.floats.type(step.data),)
                    values.append(OPERATIONS[step.op].evaluate(*(values[a] for a in step.args), *extra))
        shape = np.broadcast_shapes(*(array.shape for array in arrays.values()))
        out = (np.asarray(values[r]).astype(dtype, copy=False) for r, dtype in zip(self.results, self.dtypes, strict=True))
        return [array if array.shape == shape else np.broadcast_to(array, shape) for array in out]

    def source(self, names: dict[str, str], prefix: str) -> tuple[list[str], list[str]]:
        """Taichi source: lines that assign to variables that start with `prefix`, and an expression a result.

        Args:
            names: source of each read.
            prefix: of the variables, so that several copies can share a scope.
        """
        lines: list[str] = []
        temporaries: list[str] = []
        for number, step in enumerate(self.steps):
            if step.op == "const":
                temporaries.append(_constant(step))
                continue
            if step.op == "read":
                temporaries.append(names[step.data])
                continue
            variable = f"{prefix}{number}"
            lines.append(f"{variable} = {_operation(step, [temporaries[a] for a in step.args])}")
            temporaries.append(variable)
        return lines, [temporaries[r] for r in self.results]


def _constant(step: Step) -> str:
    return {"f": f"F({step.data!r})", "i": f"I({int(step.data)})", "b": str(int(bool(step.data)))}[step.kind]


def _operation(step: Step, args: list[str]) -> str:
    if step.op == "cast":
        return f"({args[0]}) != 0" if step.kind == "b" else f"ti.cast({args[0]}, {'F' if step.kind == 'f' else 'I'})"
    if step.op == "abs" and step.kind == "i":
        return f"ti.max({args[0]}, -{args[0]})"
    if step.op in ("min", "max") and step.kind == "i":
        return f"ti.{step.op}({', '.join(args)})"
    data = None if step.data is None else f"F({step.data!r})"
    return OPERATIONS[step.op].written(args, data, 1)


SAME_KIND = ("add", "sub", "mul", "min", "max", "abs")
"""Operations whose result is an integer when all arguments are."""
COMPARISONS = ("lt", "le", "eq")
LOGIC = ("and", "or", "not")


class _Typist:
    """Builds the typed steps of expressions; equal steps exist once."""

    def __init__(self, reads: dict[str, np.dtype]) -> None:
        self.reads = reads
        self.steps: dict[Step, int] = {}
        self.of_node: dict[int, int | float] = {}  # a step, or the value of a constant, whose kind its user decides
        self.kinds: list[Kind] = []

    def add(self, op: str, args: tuple[int, ...], data: Any, kind: Kind) -> int:
        step = Step(op, args, data, kind)
        if step not in self.steps:
            self.steps[step] = len(self.steps)
            self.kinds.append(kind)
        return self.steps[step]

    def visit(self, node: Node) -> None:
        if node.op == "const":
            return
        if node.op == "read":
            name = node.data[0]
            if name not in self.reads:
                raise ParameterError(
                    f"an operator reads {shown(name)}, expected one of {', '.join(self.reads)}; k outputs mean a0 to b(k-1)"
                )
            kind = _kind(self.reads[name])
            self.of_node[node.id] = self.add("read", (), name, kind)
            return
        kind = self.result_kind(node)
        wanted = [self.kind_of(a) for a in node.args]
        if node.op in SAME_KIND:
            wanted = [kind] * len(node.args)
        elif node.op in COMPARISONS:
            wanted = [self.common(node.args)] * len(node.args)
        elif node.op in LOGIC:
            wanted = ["b"] * len(node.args)
        elif node.op == "select":
            wanted = ["b", kind, kind]
        else:
            wanted = ["f"] * len(node.args)
        args = tuple(self.value(a, k) for a, k in zip(node.args, wanted, strict=True))
        self.of_node[node.id] = args[0] if node.op == "floor" and kind == "i" else self.add(node.op, args, node.data, kind)

    def result_kind(self, node: Node) -> Kind:
        if node.op in COMPARISONS or node.op in LOGIC:
            return "b"
        if node.op in SAME_KIND:
            return self.common(node.args)
        if node.op == "select":
            branches = node.args[1:]
            return "b" if all(a.op != "const" and self.kind_of(a) == "b" for a in branches) else self.common(branches)
        return "f"

    def kind_of(self, node: Node) -> Kind:
        if node.op == "const":
            return "i" if float(node.data).is_integer() else "f"
        return self.kinds[int(self.of_node[node.id])]

    def common(self, nodes: Sequence[Node]) -> Kind:
        return "f" if any(self.kind_of(n) == "f" for n in nodes) else "i"

    def value(self, node: Node, kind: Kind) -> int:
        """The step with the value of `node` as `kind`."""
        if node.op == "const":
            return self.add("const", (), node.data if kind == "f" else int(node.data), kind)
        step = int(self.of_node[node.id])
        return step if self.kinds[step] == kind else self.add("cast", (step,), None, kind)


def _kind(dtype: np.dtype) -> Kind:
    return {"f": "f", "i": "i", "b": "b"}[dtype.kind]  # type: ignore[return-value]


def type_expressions(roots: Sequence[Node], reads: dict[str, np.dtype], results: Sequence[npt.DTypeLike]) -> Typed:
    """The typed program of `roots`.

    Args:
        roots: expressions.
        reads: type of everything that they may read.
        results: type in which each root is stored.
    """
    typist = _Typist(reads)
    for node in ordered(roots):
        typist.visit(node)
    dtypes = tuple(np.dtype(t) for t in results)
    kinds = tuple(typist.value(root, _kind(dtype)) for root, dtype in zip(roots, dtypes, strict=True))
    all_types = {*reads.values(), *dtypes}
    singles = np.dtype(np.float32) in all_types and np.dtype(np.float64) not in all_types
    floats = np.dtype(np.float32 if singles else np.float64)
    integers = np.dtype(np.int64 if np.dtype(np.int64) in all_types else np.int32)
    return Typed(tuple(typist.steps), kinds, dtypes, floats, integers)


@dataclass(frozen=True)
class Pullback:
    """Cotangents of both operands of an application, given those of its result.

    Attributes:
        floats: components that have a cotangent; the others are integers or booleans.
        left: reads a, b and r{j}, the cotangent of component j -> cotangents of the left operand's `floats`.
        right: the same for the right operand's.
        both: those of the left operand, then those of the right one.
        entries: (j, i) -> the program of d result_j / d a_i, where that is not zero everywhere.
    """

    floats: tuple[int, ...]
    left: Typed
    right: Typed
    both: Typed
    entries: dict[tuple[int, int], Typed]

    @staticmethod
    def of(op: Operator, dtypes: Sequence[npt.DTypeLike]) -> Pullback:
        types = [np.dtype(t) for t in dtypes]
        floats = tuple(k for k, t in enumerate(types) if t.kind == "f")
        graph, operands = op.graph, operand_types(types)
        seeds: dict[Node, Node] = {}
        for j in floats:
            output = op.outputs[j]
            seeds[output] = graph.add(seeds.get(output, graph.const(0)), graph.read(f"r{j}", ()))
        reads = operands | {f"r{j}": types[j] for j in floats}
        bars = {side: _bars(graph, seeds, side, floats) for side in "ab"}
        results = [types[k] for k in floats]
        entries: dict[tuple[int, int], Typed] = {}
        for j in floats:
            column = _bars(graph, {op.outputs[j]: graph.const(1)}, "a", floats)
            entries |= {
                (j, i): type_expressions([node], operands, [types[i]])
                for i, node in zip(floats, column, strict=True)
                if not (node.op == "const" and node.data == 0)
            }
        return Pullback(
            floats,
            type_expressions(bars["a"], reads, results),
            type_expressions(bars["b"], reads, results),
            type_expressions(bars["a"] + bars["b"], reads, results * 2),
            entries,
        )


def _bars(graph: Graph, seeds: dict[Node, Node], side: str, floats: Sequence[int]) -> list[Node]:
    wanted = {f"{side}{k}" for k in floats}
    partials = vjp(graph, seeds, lambda name: name in wanted)
    return [graph.sum(partials.get(f"{side}{k}", {}).values()) for k in floats]
