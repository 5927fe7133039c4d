"""The expression graph: immutable, hash-consed nodes, and traversals that are linear in their number at any depth.

The same operation on the same arguments is the same node, so a shared subexpression exists once. A node's id is larger
than those of its arguments: increasing ids are an evaluation order, decreasing ids a reverse sweep.

This layer has neither grids nor locations on the cell. `diffsim.expr.symbol` adds them.
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable, Container, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from diffsim.elementwise.function import Function, read_by
from diffsim.elementwise.powers import log_times_power
from diffsim.elementwise.source import Dialect
from diffsim.elementwise.table import FUNCTIONS
from diffsim.errors import TraceError

Result = TypeVar("Result")
Offset: TypeAlias = tuple[int, ...]
Data: TypeAlias = float | tuple[str, Offset] | None
"""The data of a node beside its arguments: a number, or the name and the offset of a read."""
CELL, TILE = "tile_cell_", "tile_"
"""Prefixes of the names of functions of the table in a kernel, for single values and for tiles."""


class Node:
    """One operation. `data` is the value of a "const", the (field, offset) of a "read", the exponent of a "pow".

    `known` has the results of functions that are `once_for`.
    """

    __slots__ = ("args", "data", "id", "known", "op")

    def __init__(self, id: int, op: str, args: tuple[Node, ...], data: Data) -> None:
        self.id = id
        self.op = op
        self.args = args
        self.data: Any = data  # its operation says which
        self.known: dict[tuple[object, ...], Any] | None = None

    def __repr__(self) -> str:
        inner = ", ".join(f"#{a.id}" for a in self.args)
        return f"#{self.id} = {self.op}({inner}{', ' if inner and self.data is not None else ''}{'' if self.data is None else self.data})"


@dataclass(frozen=True)
class Operation:
    """An operation: its NumPy function, its Taichi source, and its partial derivatives as graph expressions.

    `source` is a format with {0}, {1}, ... for the arguments, and {data}. {call} stands before functions that Taichi cannot apply to a tile
    of lanes (they abort the process): `elementwise.source.ENGINE` and floor. {own} stands before functions that have lines in the table, or
    in `expr.source`. `single` is the source for single values, where it differs.
    `partials(graph, node)` gives one node an argument, or None where the derivative is zero everywhere.
    """

    evaluate: Callable[..., Any]
    source: str
    partials: Callable[[Graph, Node], tuple[Node | None, ...]]
    single: str = ""

    def written(self, args: Sequence[str], data: str | None, lanes: int) -> str:
        """The source for arguments that are single values (one lane) or tiles."""
        call, own = ("ti.", CELL) if lanes == 1 else ("tile_", TILE)
        return ((self.single if lanes == 1 else "") or self.source).format(*args, data=data, call=call, own=own)


class Graph:
    """Nodes of one trace, each existing once.

    Example:
        from diffsim.expr import OPERATIONS, Graph, Node

        graph = Graph()
        u = graph.read("u", (0,))
        slope = graph.sub(graph.read("u", (1,)), u)  # u of the next cell minus u
        assert isinstance(slope, Node) and slope is graph.sub(graph.read("u", (1,)), graph.read("u", (0,)))
        assert "exp" in OPERATIONS and graph.apply("exp", slope).args == (slope,)
    """

    def __init__(self) -> None:
        self.forcings: frozenset[str] = frozenset()  # names of point sources, which have no place until they enter a state
        self._interned: dict[tuple[Any, ...], Node] = {}
        self._shifted: dict[Offset, dict[int, Node]] = {}

    def _intern(self, op: str, args: tuple[Node, ...], data: Data = None) -> Node:
        key = (op, data, args)
        node = self._interned.get(key)
        if node is None:
            node = self._interned[key] = Node(len(self._interned), op, args, data)
        return node

    def const(self, value: float) -> Node:
        value = float(value)
        if not math.isfinite(value):
            raise TraceError(f"a constant of a step is {value}, expected a finite number; check dt, spacing, and the equation's numbers")
        return self._intern("const", (), value + 0.0)  # + 0.0 turns -0.0 into 0.0, so that it is one node

    def read(self, field: str, offset: Offset) -> Node:
        """Value of `field` at the present cell displaced by `offset` cells."""
        return self._intern("read", (), (field, tuple(offset)))

    def apply(self, op: str, *args: Node, data: Data = None) -> Node:
        """The node of an operation, simplified where that changes values only by rounding."""
        for each in args:
            if each.op != "const":
                break
        else:
            with np.errstate(all="ignore"):
                values = [a.data for a in args] + ([data] if data is not None else [])
                return self.const(float(OPERATIONS[op].evaluate(*values)))
        simple = self._simplify(op, args, data)
        if simple is not None:
            return simple
        if op in ("add", "mul") and args[0].id > args[1].id:
            args = (args[1], args[0])
        return self._intern(op, args, data)

    def apply_exactly(self, op: str, *args: Node, data: Data = None, dtype: npt.DTypeLike = float) -> Node:
        """The node of an operation, simplified only where that changes no bit of a finite value except the sign of 0.

        So no constants are moved, and conditions compare numbers of the type that kernels have.
        """
        if op in CONDITIONS and all(a.op == "const" for a in args):
            return self.apply(op, *(self.const(float(np.dtype(dtype).type(a.data))) for a in args), data=data)
        if op in LOGIC:
            return self.apply(op, *args, data=data)
        if op in ("add", "sub", "mul", "div"):
            first, second = args
            if first.op == "const" or second.op == "const":
                match op:
                    case "add" if is_const(first, 0) or is_const(second, 0):
                        return second if is_const(first, 0) else first
                    case "sub" if is_const(second, 0):
                        return first
                    case "mul" if is_const(first, 0) or is_const(second, 0):
                        return self.const(0)
                    case "mul" if is_const(first, 1) or is_const(second, 1):
                        return second if is_const(first, 1) else first
                    case "div" if is_const(first, 0) or is_const(second, 1):
                        return first
            if op in ("add", "mul"):  # in the order of `apply`
                ahead = op == "mul" and second.op == "const" and first.op != "const"
                if ahead or (first.id > second.id and not (op == "mul" and first.op == "const")):
                    args = (second, first)
        elif op == "select" and args[0].op == "const":
            return args[1] if args[0].data else args[2]
        return self._intern(op, args, data)

    def _simplify(self, op: str, args: tuple[Node, ...], data: Data) -> Node | None:
        first = args[0]
        second = args[1] if len(args) > 1 else None
        match op:
            case "add":
                if is_const(first, 0):
                    return second
                if is_const(second, 0):
                    return first
                return self._scaled_alike(op, first, second)
            case "sub":
                if is_const(second, 0):
                    return first
                if is_const(first, 0):
                    return self.negative(second)  # type: ignore[arg-type]
                if first is second:
                    return self.const(0)
                return self._scaled_alike(op, first, second)
            case "mul":
                assert second is not None
                if second.op == "const":
                    first, second = second, first
                if first.op == "const":
                    if first.data == 0 or first.data == 1:
                        return first if first.data == 0 else second
                    if is_scaled(second):
                        return self.mul(self.const(first.data * second.args[0].data), second.args[1])
                    return self._intern("mul", (first, second))  # the constant comes first
                for one, other in ((first, second), (second, first)):  # c x * y = c (x y): constants float outwards
                    if is_scaled(one):
                        return self.mul(one.args[0], self.mul(one.args[1], other))
            case "div":
                assert second is not None
                if second.op == "const" and second.data != 0:
                    return self.mul(self.const(1 / second.data), first)
                if is_const(first, 0):
                    return first
            case "pow":
                if data == 0:
                    return self.const(1)
                if data == 1:
                    return first
                if data == 2:
                    return self.mul(first, first)
                if data == 0.5:
                    return self.apply("sqrt", first)
                if data == 3:
                    return self.mul(first, self.mul(first, first))
                if data == -1:
                    return self.div(self.const(1), first)
            case "power":
                assert second is not None
                if second.op == "const":
                    return self.apply("pow", first, data=second.data)
                if first.op == "const" and first.data > 0:
                    return self.apply("exp", self.mul(self.const(math.log(first.data)), second))
            case "select":
                if args[1] is args[2]:
                    return args[1]
                if first.op == "const":
                    return args[1] if first.data else args[2]
            case "min" | "max":
                if first is second:
                    return first
            case "and" | "or":
                assert second is not None
                if first is second:
                    return first
                if first.op == "const":
                    first, second = second, first
                if second.op == "const":  # True decides "or", False decides "and"
                    return second if bool(second.data) == (op == "or") else first
            case "not":
                if first.op == "not":
                    return first.args[0]
        return None

    def _scaled_alike(self, op: str, first: Node, second: Node | None) -> Node | None:
        """c x + c y = c (x + y), also with other signs; None for other sums and differences.

        The sign of a result that is 0 may change, and x + y must be in the range of the type, as c x and c y must.
        """
        assert second is not None
        if not (is_scaled(first) and is_scaled(second)):
            return None
        (scale, x), (other, y) = first.args, second.args
        if abs(scale.data) != abs(other.data):
            return None
        return self.mul(scale, self.apply(op if scale is other else {"add": "sub", "sub": "add"}[op], x, y))

    def add(self, a: Node, b: Node) -> Node:
        return self.apply("add", a, b)

    def sub(self, a: Node, b: Node) -> Node:
        return self.apply("sub", a, b)

    def mul(self, a: Node, b: Node) -> Node:
        return self.apply("mul", a, b)

    def div(self, a: Node, b: Node) -> Node:
        return self.apply("div", a, b)

    def negative(self, a: Node) -> Node:
        return self.mul(self.const(-1), a)

    def remainder(self, a: Node, b: Node) -> Node:
        """a - b floor(a / b), with the sign of b and smaller than b. A quotient that was rounded across a whole number is corrected."""
        rest = self.sub(a, self.mul(b, self.apply("floor", self.div(a, b))))
        product = self.mul(rest, b)
        below, above = self.apply("lt", product, self.const(0)), self.apply("le", self.mul(b, b), product)
        return self.apply("select", below, self.add(rest, b), self.apply("select", above, self.sub(rest, b), rest))

    def all_zero(self, nodes: Iterable[Node]) -> Node:
        """The condition that every node is 0. There must be at least one node."""
        first, *others = [self.apply("eq", node, self.const(0)) for node in nodes]
        for other in others:
            first = self.apply("and", first, other)
        return first

    def sum(self, nodes: Iterable[Node]) -> Node:
        total = self.const(0)
        for node in nodes:
            total = self.add(total, node)
        return total

    def copied_to(self, graph: Graph, leaf: Callable[[Node], Data]) -> dict[int, Node]:
        """Copy all nodes to an empty graph, where they have the same ids, and return them by id. `leaf` gives the data of a read there."""
        done: dict[int, Node] = {}
        for node in self._interned.values():
            done[node.id] = graph._intern(node.op, tuple(done[a.id] for a in node.args), leaf(node) if node.op == "read" else node.data)
        return done

    def copies(self, roots: Sequence[Node]) -> list[Node]:
        """The same expressions, of another graph, in this one. Nodes keep their order."""
        done: dict[int, Node] = {}
        for node in ordered(roots):
            done[node.id] = self._intern(node.op, tuple(done[each.id] for each in node.args), node.data)
        return [done[root.id] for root in roots]

    def replace(
        self,
        roots: Iterable[Node],
        leaf: Callable[[Node], Node],
        memo: dict[int, Node] | None = None,
        apply: Callable[..., Node] | None = None,
    ) -> list[Node]:
        """The roots with each read replaced by `leaf(read)`; shared nodes are rebuilt once, by `apply` or that of the graph."""
        roots = list(roots)
        done = {} if memo is None else memo
        apply = apply or self.apply
        for node in ordered(roots, known=done):
            if node.op == "read":
                done[node.id] = leaf(node)
            elif not node.args:
                done[node.id] = node
            else:
                done[node.id] = apply(node.op, *(done[a.id] for a in node.args), data=node.data)
        return [done[root.id] for root in roots]

    def shift(self, node: Node, offset: Offset) -> Node:
        """The expression `node` at the cell displaced by `offset`: every read in it moves."""
        if not any(offset):
            return node

        def moved(read: Node) -> Node:
            return self.read(read.data[0], tuple(map(operator.add, read.data[1], offset)))

        known = self._shifted.setdefault(offset, {})
        if node.id not in known:
            self.replace([node], moved, known, self.apply_exactly)
        return known[node.id]


def is_const(node: Node | None, value: float) -> bool:
    return node is not None and node.op == "const" and node.data == value


def is_scaled(node: Node) -> bool:
    """True if a node is a constant, its first argument, times its second one."""
    return node.op == "mul" and node.args[0].op == "const"


def is_weighted_sum(node: Node) -> bool:
    """True if a node is a sum with constant weights of its arguments."""
    return node.op in ("add", "sub") or is_scaled(node)


def ordered(roots: Iterable[Node], known: Container[int] = ()) -> list[Node]:
    """All nodes that the roots need, arguments before users. Nodes whose id is in `known` are left out."""
    nodes = {root.id: root for root in roots if root.id not in known}
    waiting = list(nodes.values())
    pop, push = waiting.pop, waiting.append
    while waiting:
        for node in pop().args:
            number = node.id
            if number not in nodes and number not in known:
                nodes[number] = node
                if node.args:
                    push(node)
    return [nodes[number] for number in sorted(nodes)]


def once_for(function: Callable[[Sequence[Node]], Result]) -> Callable[[Iterable[Node]], Result]:
    """A function of nodes that is computed once for the same nodes in the same order. Its results may not be changed."""

    @functools.wraps(function)
    def of(roots: Iterable[Node]) -> Result:
        roots = tuple(roots)
        if not roots:
            return function(roots)
        first = roots[0]
        if first.known is None:
            first.known = {}
        key = (function, *[root.id for root in roots])
        if key not in first.known:
            first.known[key] = function(roots)
        result: Result = first.known[key]
        return result

    return of


def reads(roots: Iterable[Node]) -> dict[str, set[Offset]]:
    """Fields that the roots read, each with the offsets at which it is read."""
    return {name: set(offsets) for name, offsets in _reads(roots).items()}


@once_for
def _reads(roots: Sequence[Node]) -> dict[str, list[Offset]]:
    out: dict[str, list[Offset]] = {}
    for node in ordered(roots):
        if node.op == "read":
            out.setdefault(node.data[0], []).append(node.data[1])
    return out


@once_for
def operations(roots: Sequence[Node]) -> int:
    """Arithmetic operations of the roots, shared ones counted once."""
    return sum(1 for node in ordered(roots) if node.args)


def linear_terms(graph: Graph, node: Node, whole: Container[int] = ()) -> dict[int, tuple[Node, float]]:
    """`node` as a sum of constant multiples: core node's id -> (core, coefficient). A constant has the core `1`.

    Nodes whose ids are in `whole` are not split.
    """
    weights: dict[int, float] = {node.id: 1.0}
    terms: dict[int, tuple[Node, float]] = {}
    for current in _sums(node, whole):
        weight = weights.pop(current.id, 0.0)
        if weight == 0.0:
            continue
        if current.id in whole:
            terms[current.id] = (current, weight)
        elif current.op in ("add", "sub"):
            left, right = current.args
            weights[left.id] = weights.get(left.id, 0.0) + weight
            weights[right.id] = weights.get(right.id, 0.0) + (weight if current.op == "add" else -weight)
        elif is_scaled(current):
            inner = current.args[1]
            weights[inner.id] = weights.get(inner.id, 0.0) + weight * current.args[0].data
        elif current.op == "const":
            one = graph.const(1)
            terms[one.id] = (one, terms.get(one.id, (one, 0.0))[1] + weight * current.data)
        else:
            terms[current.id] = (current, weight)
    return terms


def _sums(node: Node, whole: Container[int]) -> list[Node]:
    """A node, and the terms of those that are sums with constant weights, users before arguments."""
    nodes, waiting = {node.id: node}, [node]
    while waiting:
        current = waiting.pop()
        if current.id not in whole and is_weighted_sum(current):
            for each in current.args:
                if each.id not in nodes:
                    nodes[each.id] = each
                    waiting.append(each)
    return [nodes[number] for number in sorted(nodes, reverse=True)]


def _constant(*_: object) -> tuple[Node | None, ...]:
    return (None, None)


def _chosen(wins: Literal["<", ">"]) -> str:
    """The extremum of two values, NaN where one of them is: `ti.min` and `ti.max` give the other, which hides a run that went wrong.

    Taichi assumes that a value equals itself, so the test of the second one is a comparison with infinity.
    """
    return f"ti.select({{1}} <= F(ti.math.inf), ti.select({{1}} {wins} {{0}}, {{1}}, {{0}}), {{1}})"


def _extremum(compare_first: bool) -> Callable[[Graph, Node], tuple[Node | None, ...]]:
    """A tie gives the whole derivative to the first operand."""

    def partials(g: Graph, n: Node) -> tuple[Node | None, ...]:
        a, b = n.args
        wins = g.apply("le", a, b) if compare_first else g.apply("le", b, a)
        one, zero = g.const(1), g.const(0)
        return g.apply("select", wins, one, zero), g.apply("select", wins, zero, one)

    return partials


def _quotient(g: Graph, n: Node) -> tuple[Node | None, ...]:
    """1 / d and -(n / d) / d. For a number c over d the latter is -(c / d)² / c, without a second division."""
    above, below = n.args
    squared = above.op == "const" and 0.1 <= abs(above.data) <= 10  # else c² may be out of range in f32
    slope = g.mul(g.const(-1 / above.data), g.mul(n, n)) if squared else g.negative(g.div(n, below))
    return g.div(g.const(1), below), slope


def _sign(g: Graph, x: Node) -> Node:
    zero = g.const(0)
    return g.apply("select", g.apply("lt", x, zero), g.const(-1), g.apply("select", g.apply("lt", zero, x), g.const(1), zero))


def _power(g: Graph, n: Node) -> tuple[Node | None, ...]:
    return (g.mul(g.const(n.data), g.apply("pow", n.args[0], data=n.data - 1)),)


def _power_of_fields(g: Graph, n: Node) -> tuple[Node | None, ...]:
    """y xʸ⁻¹, which is 0 for the exponent 0, and log(x) xʸ, which is 0 at x = 0."""
    x, y = n.args
    if x.op == "const" and x.data < 0:
        raise TraceError(
            f"a derivative of {x.data:g} ** f for f, expected a base of at least 0, got {x.data:g}, whose powers are real for whole f; "
            "write cos(pi * f) in place of (-1) ** f, or leave the inputs that f depends on out of wrt"
        )
    zero = g.const(0)
    slope = g.mul(y, g.apply("power", x, g.sub(y, g.const(1))))
    return g.apply("select", g.apply("eq", y, zero), zero, slope), g.apply("power_log", x, y)


def _log_times_power(g: Graph, n: Node) -> tuple[Node | None, ...]:
    """xʸ⁻¹ + y log(x) xʸ⁻¹, the node that the derivative of y xʸ⁻¹ for y has too, and log(x)² xʸ."""
    x, y = n.args
    zero, less = g.const(0), g.sub(y, g.const(1))
    mixed = g.add(g.apply("power", x, less), g.mul(y, g.apply("power_log", x, less)))
    squared = g.mul(g.apply("log", x), n)
    return g.apply("select", g.apply("eq", y, zero), zero, mixed), g.apply("select", g.apply("eq", x, zero), zero, squared)


class _Term:
    """A node with operators, in the partial derivatives of the table of functions."""

    __slots__ = ("graph", "node")

    def __init__(self, graph: Graph, node: Node) -> None:
        self.graph = graph
        self.node = node

    def _of(self, value: _Term | float) -> Node:
        return value.node if isinstance(value, _Term) else self.graph.const(value)

    def __add__(self, other: _Term | float) -> _Term:
        return _Term(self.graph, self.graph.add(self.node, self._of(other)))

    def __radd__(self, other: float) -> _Term:
        return _Term(self.graph, self.graph.add(self._of(other), self.node))

    def __sub__(self, other: _Term | float) -> _Term:
        return _Term(self.graph, self.graph.sub(self.node, self._of(other)))

    def __rsub__(self, other: float) -> _Term:
        return _Term(self.graph, self.graph.sub(self._of(other), self.node))

    def __mul__(self, other: _Term | float) -> _Term:
        return _Term(self.graph, self.graph.mul(self.node, self._of(other)))

    def __rmul__(self, other: float) -> _Term:
        return _Term(self.graph, self.graph.mul(self._of(other), self.node))

    def __truediv__(self, other: _Term | float) -> _Term:
        return _Term(self.graph, self.graph.div(self.node, self._of(other)))

    def __rtruediv__(self, other: float) -> _Term:
        return _Term(self.graph, self.graph.div(self._of(other), self.node))

    def __neg__(self) -> _Term:
        return _Term(self.graph, self.graph.negative(self.node))


class _Functions:
    """The functions of the table as functions of terms."""

    def __getattr__(self, name: str) -> Callable[..., _Term]:
        return lambda first, *others: _Term(first.graph, first.graph.apply(name, first.node, *(each.node for each in others)))


_FUNCTIONS = _Functions()
_DIALECT = Dialect(own="{{own}}{name}", engine="{{call}}{name}", number="F({value})")


def _of_table(function: Function) -> Operation:
    """A function of the table as an operation."""
    reads = [read_by(partial) for partial in function.partials_in_steps]

    def partials(g: Graph, n: Node) -> tuple[Node | None, ...]:
        terms = dict(zip("xyo", (*(_Term(g, a) for a in n.args), *[None] * (2 - len(n.args)), _Term(g, n)), strict=True))
        derivatives = (p(_FUNCTIONS, *(terms[name] for name in names)) for p, names in zip(function.partials_in_steps, reads, strict=True))
        return tuple(each.node if isinstance(each, _Term) else g.const(each) for each in derivatives)

    arguments = dict(zip("xy"[: function.count], ("{0}", "{1}"), strict=False))
    return Operation(function.reference, _DIALECT.expression(function.name, function.source_in_steps, arguments), partials)


OPERATIONS: dict[str, Operation] = {
    "add": Operation(np.add, "{0} + {1}", lambda g, n: (g.const(1), g.const(1))),
    "sub": Operation(np.subtract, "{0} - {1}", lambda g, n: (g.const(1), g.const(-1))),
    "mul": Operation(np.multiply, "{0} * {1}", lambda g, n: (n.args[1], n.args[0])),
    "div": Operation(np.divide, "{0} / {1}", _quotient),
    "pow": Operation(np.power, "{call}pow({0}, {data})", _power, "{own}power({0}, {data})"),
    "power": Operation(np.power, "{call}pow({0}, {1})", _power_of_fields, "{own}power({0}, {1})"),
    "power_log": Operation(log_times_power, "{own}power_log({0}, {1})", _log_times_power),
    "abs": Operation(np.abs, "ti.max({0}, F(0.0) - {0})", lambda g, n: (_sign(g, n.args[0]),)),
    "floor": Operation(np.floor, "{call}floor({0})", _constant),
    "min": Operation(np.minimum, _chosen("<"), _extremum(True)),
    "max": Operation(np.maximum, _chosen(">"), _extremum(False)),
    "lt": Operation(np.less, "{0} < {1}", _constant),
    "le": Operation(np.less_equal, "{0} <= {1}", _constant),
    "eq": Operation(np.equal, "{0} == {1}", _constant),
    "and": Operation(np.logical_and, "({0}) & ({1})", _constant),
    "or": Operation(np.logical_or, "({0}) | ({1})", _constant),
    "not": Operation(np.logical_not, "({0}) == 0", _constant),
    "select": Operation(
        np.where,
        "ti.select({0}, {1}, {2})",
        lambda g, n: (None, g.apply("select", n.args[0], g.const(1), g.const(0)), g.apply("select", n.args[0], g.const(0), g.const(1))),
    ),
} | {name: _of_table(function) for name, function in FUNCTIONS.items()}
"""Name of each operation of a `Node` -> its value in NumPy, its text in a kernel, and its partial derivatives. A function of numbers is an
entry of `diffsim.elementwise.table`; to add another operation, add a line here."""

LOGIC = ("and", "or", "not")
"""Operations on conditions."""
CONDITIONS = ("lt", "le", "eq", *LOGIC)
"""Operations whose value is a condition, not a number."""
COMMUTATIVE = ("add", "mul")
"""Operations whose arguments may be exchanged without a change of a bit."""
