"""Put values that loop nests compute once, and keep for all neighbours that need them, into programs.

If a sum over neighbours contains a costly value of each neighbour, a nest that evaluates the expression directly computes that
value several times a cell. `search.py` looks for such values. A kernel keeps them: on a CPU in a ring of a few rows,
which stays in the cache, on a GPU in a field. The operations and numbers are the same, so no bit changes.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import inspect
import operator
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from diffsim.engine import load_result, store_result
from diffsim.expr.graph import Graph, Node, Offset, ordered, reads
from diffsim.expr.shapes import in_order
from diffsim.stepping.ir.program import Group, Loop, Nest, Operation, Program
from diffsim.stepping.passes import cut, search, sharing
from diffsim.stepping.passes.beyond import only_inside, with_supports, zero_outside
from diffsim.stepping.passes.search import Kept, axes, kept_values, reading, storing
from diffsim.stepping.passes.sharing import Classes, alike, cost
from diffsim.stepping.passes.streams import rows_together
from diffsim.version import __version__

WORTH = 0.8
"""Values are kept if less than this part of the operations remains."""
REMEMBERED = 1000
"""Searches whose results a process keeps."""


class Rolling:
    """Puts kept values into programs of one step. A nest that several of them have is looked at once.

    Args:
        graph: graph of their expressions.
        blocks: whether nests without kept values compute several rows together (`rows_together`).
    """

    def __init__(self, graph: Graph, blocks: bool) -> None:
        self._classes, self._blocks = Classes(graph), blocks
        self._known: dict[tuple[object, ...], tuple[tuple[Group, ...], tuple[Node, ...], float]] = {}
        self._searches: dict[tuple[int, ...], _Result] = {}
        self._zero: dict[str, tuple[bool, ...]] = {}  # fields of the present program that are 0 outside the grid
        self._here: list[tuple[object, ...]] = []  # nests of the present program: equal ones need names of their own

    def rolled(self, program: Program) -> Program:
        """A program with kept values in those of its nests where that pays."""
        self._here, self._zero = [], zero_outside(program)
        return dataclasses.replace(program, operations=self._operations(program, program.operations, "rolled"))

    def cost(self, nests: Iterable[Sequence[Node]]) -> float:
        """Cost of the expressions of some nests a cell, row by row, and of storing and reading what they keep."""
        return sum(self._search(nodes).cost for nodes in nests)

    def _operations(self, program: Program, operations: Sequence[Operation], prefix: str) -> tuple[Operation, ...]:
        found: list[Operation] = []
        for number, operation in enumerate(operations):
            if isinstance(operation, Loop):
                operation = dataclasses.replace(
                    operation, operations=self._operations(program, operation.operations, f"{prefix} {number} lap")
                )
            if isinstance(operation, Nest) and operation.assigns:
                found += only_inside(program, self._nest(program, operation, prefix))
            else:
                found.append(operation)
        return tuple(found)

    def _nest(self, program: Program, nest: Nest, prefix: str) -> Nest:
        if nest.interior is not None:
            within = self._nest(program, nest.interior.nest, f"{prefix} within")
            nest = dataclasses.replace(nest, interior=dataclasses.replace(nest.interior, nest=within))
        groups, roots, _ = self._kept(program, nest, prefix)
        nest = dataclasses.replace(nest, groups=groups, roots=roots)
        return with_supports(nest, program, self._zero, self._classes.graph)

    def _kept(self, program: Program, nest: Nest, prefix: str) -> tuple[tuple[Group, ...], tuple[Node, ...], float]:
        """The values that a nest keeps, what it computes of them, and the cost of both a cell."""
        block = rows_together(program, nest) if self._blocks else 1
        nodes = [assign.node for assign in nest.assigns]
        alike = (prefix, block, *(node.id for node in nodes))
        key = (self._here.count(alike), *alike)
        self._here.append(alike)
        if key not in self._known:
            kept = self._search(nodes).of(self._classes, nodes)
            self._known[key] = _groups(self._classes, nodes, kept, block, f"{prefix} {len(self._known)}")
        return self._known[key]

    def _search(self, nodes: Sequence[Node]) -> _Result:
        """The result of the search for values to keep for some expressions."""
        key = tuple(node.id for node in nodes)
        if key not in self._searches:
            self._searches[key] = _result(nodes)
        return self._searches[key]


@dataclass(frozen=True)
class _Result:
    """The result of a search, in a form that holds for the same expressions of any graph.

    Attributes:
        values: of each kept value, the number of a node among all that the expressions need, its place and its loop (`Kept`).
        aligned: see `Kept`.
        cost: that of the expressions a cell, row by row, and of storing and reading what they keep.
    """

    values: list[tuple[int, Offset, int]]
    aligned: bool
    cost: float

    def of(self, classes: Classes, roots: Sequence[Node]) -> Kept:
        """The values to keep for these expressions."""
        nodes = ordered(roots)
        kept = sorted((classes.of(nodes[number])[0], place, loop) for number, place, loop in self.values)
        return Kept({key: place for key, place, _ in kept}, {key: loop for key, _, loop in kept}, self.aligned)


_results: dict[str, _Result] = {}


def _result(roots: Sequence[Node]) -> _Result:
    """The result of a search: of one in this process, of one whose result is in a file, or of a new one."""
    key = _digest(roots)
    known = _results.get(key)
    if known is None:
        entry = load_result("searches", key)
        known = _read(entry) if isinstance(entry, dict) else _searched(roots)
        if entry is None:
            store_result("searches", key, dataclasses.asdict(known))
        if len(_results) >= REMEMBERED:
            _results.clear()
        _results[key] = known
    return known


def _searched(roots: Sequence[Node]) -> _Result:
    """The result of a new search. It goes on in a graph of its own, so that names of nodes do not depend on where a result comes from."""
    graph = Graph()
    classes, own = Classes(graph), graph.copies(roots)
    kept = kept_values(classes, own)
    nodes = ordered(own)
    number = {node.id: number for number, node in enumerate(nodes)}
    first: dict[int, int] = {}
    for node, key, _ in classes.varying(nodes):
        first.setdefault(key, number[node.id])
    values = [(first[key], kept.places[key], loop) for key, loop in kept.depths.items()]
    return _Result(values, kept.aligned, _groups(classes, own, kept, 1, "cost")[2])


def _read(entry: dict[str, Any]) -> _Result:
    """A result that was in a file."""
    return _Result([(number, tuple(place), loop) for number, place, loop in entry["values"]], entry["aligned"], entry["cost"])


def _digest(roots: Sequence[Node]) -> str:
    """A digest of expressions, of the search, and of its constants. Fields and numbers count by where they are the same, not by name and
    value."""
    position: dict[int, int] = {}
    names: dict[object, int] = {}
    lines: list[object] = []
    for node in ordered(roots):
        data: object = node.data
        if node.op == "read":
            data = names.setdefault(node.data[0], len(names)), node.data[1]
        elif node.op == "const":
            data = None
        lines.append((node.op, data, [position[each.id] for each in node.args]))
        position[node.id] = len(position)
    lines.append([position[root.id] for root in roots])
    return hashlib.blake2b(repr((_program(), WORTH, lines)).encode(), digest_size=16).hexdigest()


@functools.cache
def _program() -> str:
    """A digest of the search itself, and of the costs by which it judges."""
    try:
        text = "".join(inspect.getsource(module) for module in (cut, search, sharing, sys.modules[__name__]))
    except OSError:  # a package without its sources
        text = __version__
    return hashlib.blake2b(f"{text}{[*sharing.COSTS.items()]}".encode(), digest_size=16).hexdigest()


def _groups(
    classes: Classes, roots: Sequence[Node], values: Kept, block: int, prefix: str
) -> tuple[tuple[Group, ...], tuple[Node, ...], float]:
    """Values to keep, in order of their dependences, under names with a prefix, the roots that read them, and the cost of all."""
    names = [f"root {number}" for number in range(len(roots))]
    layers = _layers(classes, values, dict(zip(names, roots, strict=True)), prefix)
    kept = {name for layer in layers[1:] for name in layer}
    uses = sum(reading(o) for layer in layers for name, at in reads(layer.values()).items() if name in kept for o in at)
    ndim = axes(roots)
    with_kept = cost([n for layer in layers for n in layer.values()]) + storing(ndim) * len(kept) + uses
    without = _cost_in_blocks(classes, roots, block)
    if len(layers) == 1 or with_kept >= WORTH * without:
        return (), (), without
    groups: list[Group] = []
    nowhere = (0,) * ndim
    above = [(layers[0], nowhere, nowhere)]
    for layer in layers[1:]:
        parts = [(part, *_wanted(part, above)) for part in (_apart(layer) if values.aligned else [layer])]
        groups += [Group(in_order(part), low, high) for part, low, high in parts]
        above += parts
    return tuple(reversed(groups)), tuple(layers[0].values()), with_kept


def _apart(layer: Mapping[str, Node]) -> list[dict[str, Node]]:
    """The values of a layer in parts that share nothing costly, of which each is a loop: fluxes along one axis need no plane ahead."""
    names = [*layer]
    return [{names[number]: layer[names[number]] for number in part} for part in alike([*layer.values()])]


def _layers(classes: Classes, kept: Kept, bodies: dict[str, Node], prefix: str) -> list[dict[str, Node]]:
    """The bodies, which read kept values, then layers of kept values, each of which reads later layers."""
    depths, graph = kept.depths, classes.graph
    values = {key: graph.shift(classes.representative(key), kept.places[key]) for key in depths}
    names = {key: f"{prefix} {value.id}" for key, value in values.items()}

    def reading(nodes: Sequence[Node], depth: int) -> list[Node]:
        """The expressions, which read the values that layers below keep."""
        known: dict[int, Node] = {}
        for node, key, where in classes.varying(ordered(nodes)):
            if depths.get(key, depth) < depth:
                known[node.id] = graph.read(names[key], tuple(map(operator.sub, where, kept.places[key])))
        return graph.replace(nodes, lambda read: read, known, graph.apply_exactly)

    last = max(depths.values(), default=-1)
    layers = [dict(zip(bodies, reading(list(bodies.values()), last + 1), strict=True))]
    for depth in range(last, -1, -1):
        read = {name for layer in layers for name in reads(layer.values())}
        here = [key for key in depths if depths[key] == depth and names[key] in read]
        layers.append(dict(zip((names[key] for key in here), reading([values[key] for key in here], depth), strict=True)))
    return [layer for layer in layers if layer]


def _wanted(
    layer: Mapping[str, Node], above: Sequence[tuple[Mapping[str, Node], tuple[int, ...], tuple[int, ...]]]
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """How far the values of a layer are needed, given how far the layers that read them are needed."""
    lows, highs = [], []
    for readers, low, high in above:
        for name, offsets in reads(readers.values()).items():
            if name in layer:
                lows += [tuple(far - o for far, o in zip(low, offset, strict=True)) for offset in offsets]
                highs += [tuple(far + o for far, o in zip(high, offset, strict=True)) for offset in offsets]
    return tuple(map(max, zip(*lows, strict=True))), tuple(map(max, zip(*highs, strict=True)))


def _cost_in_blocks(classes: Classes, roots: Sequence[Node], block: int) -> float:
    """Cost of one row, if a block of rows is computed together and shares common values."""
    if block == 1:
        return cost(roots)
    shift = (0,) * (axes(roots) - 2)
    return cost([classes.graph.shift(root, (*shift, row, 0)) for root in roots for row in range(block)]) / block
