"""Reverse mode through one step: cotangents of all fields that it reads, as expressions that gather.

The step is split at its stages and at the values that it uses at several cells. Starting at the outputs, each part is
differentiated when the cotangents of all its users are known. Parts of one rank are differentiated together, because they share terms.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from diffsim.boundary import Rules, fills, zero_rules
from diffsim.expr.derive import singular, vjp
from diffsim.expr.factor import factored, unfactored
from diffsim.expr.graph import Node, Offset, is_const, linear_terms, operations, reads
from diffsim.stepping.ir.names import bar
from diffsim.stepping.ir.program import Assign, Part, Place
from diffsim.stepping.passes.sharing import cost, inlined, shared_values
from diffsim.stepping.trace.fields import Stage
from diffsim.stepping.trace.stages import SelfTransposed, StoredExpression, written_by
from diffsim.stepping.trace.trace import TracedStep

SHORTER = 0.95
"""Common factors of a cotangent are factored out if less than this part of its operations remains. Other expressions may share products."""

Weighted = tuple[Node, dict[Offset, float]]
"""An expression at a cell, and the weights that it has at offsets from there."""

Box = tuple[tuple[int, int], ...]
"""Cells of a computation: how far beyond the first and the last cell of the grid, along each axis."""


class Reverse:
    """Cotangents of the fields that a step reads.

    Args:
        step: the step.
        outputs: expressions of the states whose cotangents are stored.

    Attributes:
        terms: after `stages` has ended: field -> offset -> contribution of a cell that reads the field there, evaluated at that cell.
    """

    def __init__(self, step: TracedStep, outputs: Mapping[str, Node]) -> None:
        self.step, self.graph, self.outputs = step, step.graph, outputs
        self.zero = (0,) * step.grid.ndim
        self.terms: dict[str, dict[Offset, Node]] = {}
        self._stages = {s.name: s for s in _moving(step)}
        self._placed = {**step.coefficients, **step.series, **step.states, **written_by(self._stages.values())}
        fields = {*step.states, *step.active, *written_by(self._stages.values())}
        bodies = {f"next {name}": node for name, node in outputs.items()}
        bodies |= {s.name: s.node for s in self._stages.values() if isinstance(s, StoredExpression)}
        shared = shared_values(self.graph, bodies, fields.__contains__)
        self._values = shared.values
        self._bodies = {**shared.bodies, **shared.values}
        self._wanted = fields | shared.values.keys()
        self._reads = {name: reads([body]) for name, body in self._bodies.items()}
        self._reads |= {s.name: s.reads() for s in self._stages.values() if isinstance(s, SelfTransposed)}
        self._ranks = self._ranked()
        self._computed = self._where_computed()

    def _users(self, name: str) -> Iterator[tuple[str, set[Offset]]]:
        for user, found in self._reads.items():
            if name in found:
                yield user, found[name]

    def _written(self, part: str) -> list[str]:
        """Fields that a part of the step computes."""
        return [field.name for field in self._stages[part].outputs] if part in self._stages else [part]

    def _ranked(self) -> list[list[str]]:
        """Parts of the step in the order of the reverse sweep: each rank follows all its users."""
        uses = {name: [user for field in self._written(name) for user, _ in self._users(field)] for name in self._reads}
        rank: dict[str, int] = {}

        def of(name: str) -> int:
            if name not in rank:
                rank[name] = 1 + max((of(user) for user in uses[name]), default=-1)
            return rank[name]

        for name in self._reads:
            of(name)
        # parts that no output needs have no cotangent
        used = {f"next {s}" for s in self.outputs}
        for name in sorted(rank, key=rank.__getitem__):
            if any(user in used for user in uses[name]):
                used.add(name)
        ranks: list[list[str]] = [[] for _ in range(max(rank.values(), default=-1) + 1)]
        for name in self._reads:
            if name in used:
                ranks[0 if name.startswith("next ") else rank[name]].append(name)
        return ranks

    def _where_computed(self) -> dict[str, Box]:
        """The cells at which the step computes each part: outputs and stages on the grid, shared values wherever they are used."""
        grid = tuple((0, 0) for _ in self.zero)
        boxes: dict[str, Box] = {}
        for rank in self._ranks:
            for name in rank:
                boxes[name] = self._where_read(name, boxes) if name in self._values else grid
        return boxes

    def _where_read(self, name: str, boxes: Mapping[str, Box]) -> Box:
        """The smallest box that contains the grid and all reads of a field."""
        out = [(0, 0) for _ in self.zero]
        for user, offsets in self._users(name):
            if user in boxes:
                for axis, (low, high) in enumerate(boxes[user]):
                    along = [o[axis] for o in offsets]
                    out[axis] = (max(out[axis][0], low - min(along)), max(out[axis][1], high + max(along)))
        return tuple(out)

    def outside(self, name: str, rules: Rules) -> tuple[int, ...]:
        """How far beyond the grid a field is read, along the axes on which a rule fills its halo."""
        return tuple(max(ends) if fills(sides) else 0 for ends, sides in zip(self._where_read(name, self._computed), rules, strict=True))

    def stages(self) -> Iterator[Stage]:
        """Sweep, and stop at each stage whose terms are complete.

        The caller stores the cotangents of its outputs, from `gathered`, as `bar`. For a stage that is no expression it calls `through`.
        """
        graph = self.graph
        needed = self._where_needed()
        for rank in self._ranks:
            seeds: dict[Node, Node] = {}
            parts: dict[str, tuple[Node, bool]] = {}  # seeds, and True if cells beyond those of the step need contributions
            for name in rank:
                if name in self._stages:
                    yield self._stages[name]
                    if name not in self._bodies:
                        continue
                    seed = graph.read(bar(name), self.zero)
                elif name in self._values:
                    seed = self._total(self.terms.pop(name, {}), None)
                else:
                    seed = graph.read(bar(name.removeprefix("next ")), self.zero)
                if is_const(seed, 0):  # only conditions read this value
                    continue
                # two states may have the same next value: their cotangents add
                seeds[self._bodies[name]] = graph.add(seeds.get(self._bodies[name], graph.const(0)), seed)
                parts[name] = seed, not _within(needed[name], self._computed[name])
            for name, contributions in vjp(graph, seeds, self._wanted.__contains__).items():
                mine = self.terms.setdefault(name, {})
                for offset, node in contributions.items():
                    (whole,) = inlined(graph, [node], self._values)
                    if singular(whole):
                        whole = self._guarded(whole, [part for user, part in parts.items() if offset in self._reads[user].get(name, ())])
                    mine[offset] = graph.add(mine.get(offset, graph.const(0)), whole)

    def _guarded(self, contribution: Node, parts: Sequence[tuple[Node, bool]]) -> Node:
        """A contribution, 0 where the seeds are 0 of all parts that it comes from, if cells beyond those of the forward step need it.

        The other parts of a rank do not count: their seeds would have to be computed wherever this contribution is.
        """
        if not any(beyond for _, beyond in parts):
            return contribution
        return self.graph.apply("select", self.graph.all_zero([seed for seed, _ in parts]), self.graph.const(0), contribution)

    def through(self, stage: SelfTransposed) -> dict[str, Part]:
        """Continue through a stage that is no expression: return parts that compute cotangents of its inputs from those of its outputs."""
        transposed = stage.transposed(self.graph, self._wanted.__contains__)
        for name, contributions in transposed.terms.items():
            mine = self.terms.setdefault(name, {})
            for offset, node in contributions.items():
                mine[offset] = self.graph.add(mine.get(offset, self.graph.const(0)), node)
        return transposed.parts

    def _where_needed(self) -> dict[str, Box]:
        """The cells at which each part's contributions are computed: those at which the cotangents of its inputs are computed."""
        boxes: dict[str, Box] = {}
        for rank in reversed(self._ranks):
            for name in rank:
                out = [(0, 0) for _ in self.zero]
                for field, offsets in self._reads[name].items():
                    if field not in self._wanted:
                        continue
                    box = boxes[field] if field in self._values else self._where_gathered(field)
                    for axis, (low, high) in enumerate(box):
                        along = [o[axis] for o in offsets]
                        out[axis] = (max(out[axis][0], low + max(along)), max(out[axis][1], high - min(along)))
                boxes[name] = tuple(out)
        return boxes

    def _where_gathered(self, field: str) -> Box:
        """The cells at which the cotangent of a stored field is computed: the grid, and the cells that are folded back."""
        return tuple((far, far) for far in self.outside(field, self._placed[field].rules))

    def gathered(self, name: str, target: Place, rules: Rules, inline: dict[str, Node]) -> Assign:
        """The cotangent of a stored field, computed on the grid and at the cells outside of it where the field was read."""
        total = self._total(self.terms.get(name, {}), inline)
        outside = self.outside(name, rules) if name in self.terms else ()
        return Assign(target, total, zero_rules(len(rules)), fold=rules if any(outside) else (), outside=outside if any(outside) else ())

    def _total(self, contributions: Mapping[Offset, Node], inline: dict[str, Node] | None) -> Node:
        """The sum of the neighbours' contributions. Products at one cell that several offsets read go to `inline`, if it is given."""
        graph = self.graph
        cores: dict[int, tuple[Node, dict[Offset, float]]] = {}
        for offset, node in contributions.items():
            for core, weight in linear_terms(graph, node).values():
                cores.setdefault(core.id, (core, {}))[1][offset] = weight
        terms: list[tuple[float, Node]] = []
        for core, weights in self._products(cores.values(), inline) if inline is not None else cores.values():
            for offset in sorted(weights, key=lambda o: (sum(map(abs, o)), o)):
                terms.append((weights[offset], graph.shift(core, tuple(-o for o in offset))))
        plain, short = unfactored(graph, terms), factored(graph, terms)
        return short if cost([short]) < SHORTER * cost([plain]) else plain

    def _products(self, cores: Iterable[Weighted], inline: dict[str, Node]) -> Iterator[Weighted]:
        """The terms, where sums of products at one cell that several offsets read are in `inline`: one for products with equal weights."""
        graph = self.graph
        sums: dict[tuple[tuple[Offset, float], ...], list[Node]] = {}
        for core, weights in cores:
            if len(weights) > 1 and operations([core]) and not any(any(o) for offsets in reads([core]).values() for o in offsets):
                sums.setdefault(tuple(sorted(weights.items())), []).append(core)
            else:
                yield core, weights
        for key, products in sums.items():
            whole = graph.sum(products)
            inline[f"product {whole.id}"] = whole
            yield graph.read(f"product {whole.id}", self.zero), dict(key)


def _within(inner: Box, outer: Box) -> bool:
    return all(a <= c and b <= d for (a, b), (c, d) in zip(inner, outer, strict=True))


def _moving(step: TracedStep) -> list[Stage]:
    """Stages that depend on fields that are differentiated for, or on states."""
    moving = {*step.states, *step.active}
    found = []
    for stage in step.stages:
        if not moving.isdisjoint(stage.reads()):
            found.append(stage)
            moving |= {field.name for field in stage.outputs}
    return found
