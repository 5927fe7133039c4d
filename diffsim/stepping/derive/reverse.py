"""Reverse mode through one step: cotangents of all fields that it reads, as expressions that gather.

The step is split at its stages and at the values that it uses at several cells. Starting at the outputs, each part is
differentiated when the cotangents of all its users are known. Parts of one rank are differentiated together, because they share terms.

The *level* of a cotangent is the length of the longest chain of stored cotangents that it depends on, and so the number of the nest that
computes it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from diffsim.boundary import Rules, fills
from diffsim.expr.derive import OUTSIDE, Divides, Singular, in_choices, vjp
from diffsim.expr.factor import factored, unfactored
from diffsim.expr.graph import Node, Offset, is_const, is_scaled, linear_terms, operations, reads
from diffsim.stepping.ir.names import bar
from diffsim.stepping.ir.program import Assign, Part, Place, needed, written
from diffsim.stepping.passes.meeting import meeting_values
from diffsim.stepping.passes.sharing import alike, cost, costly_parts, inlined, shared_values
from diffsim.stepping.trace.fields import Stage, Stored
from diffsim.stepping.trace.stages import SelfTransposed, StoredExpression, unbounded_stages, written_by
from diffsim.stepping.trace.trace import TracedStep

SHORTER = 0.95
"""Common factors of a cotangent are factored out if less than this part of its operations remains. Other expressions may share products."""

STORING = 40
"""Least cost that a sum of contributions must save if it is stored apart."""

MOST = 6
"""Terms for each offset of a contribution, beyond which what a cell gives at an offset is one value, in three dimensions: planes of kept
values take more time than operations."""

PLANES = 8
"""Planes in which neighbours read a product, from which on it is stored, in three dimensions: in place of those of each of its factors."""

Weighted = tuple[Node, dict[Offset, float]]
"""An expression at a cell, and the weights that it has at offsets from there."""

Box = tuple[tuple[int, int], ...]
"""Cells of a computation: how far beyond the first and the last cell of the grid, along each axis."""


@dataclass(frozen=True)
class Subtotals:
    """Sums of contributions to stored fields, stored before what remains of their cotangents.

    Attributes:
        outputs: a field for each, with the rules of the one to which it belongs.
    """

    outputs: tuple[Stored, ...]


@dataclass
class Contributions:
    """Terms of the cotangent of a field that come from some parts of a step.

    Attributes:
        terms: offset -> contribution of a cell that reads the field there, evaluated at that cell.
        readers: parts of the step, with the offsets at which they read the field.
    """

    terms: dict[Offset, Node] = field(default_factory=dict)
    readers: set[tuple[str, Offset]] = field(default_factory=set)


class Reverse:
    """Cotangents of the fields that a step reads.

    Args:
        step: the step.
        outputs: expressions of the states whose cotangents are stored.
        within: ends the names of subtotals. The body of a loop has its own, for it gives to the same fields as the step around it.

    Attributes:
        other_sums: the id of a gathered sum -> the same sum in another form: terms that a cell gives at one offset are one value if they
            share costly operations. This form may keep fewer values for neighbours, or compute shared operations once for each neighbour.
        bodies: the expressions of the step, and the values that it uses at several cells, by name.
        products: sums of products at one cell that are stored for those which read them in many planes, by name.
        terms: after `stages` has ended: field -> offset -> contribution of a cell that reads the field there, evaluated at that cell.
    """

    def __init__(self, step: TracedStep, outputs: Mapping[str, Node], within: str = "") -> None:
        self.step, self.graph, self.outputs, self.within = step, step.graph, outputs, within
        self.other_sums: dict[int, Node] = {}
        self.zero, self._rules = (0,) * step.grid.ndim, step.cotangent_rules
        self.terms: dict[str, dict[Offset, Node]] = {}
        self.products: dict[str, Node] = {}
        self._stages = {s.name: s for s in _moving(step)}
        self._subtotals: dict[str, tuple[str, set[tuple[str, Offset]]]] = {}  # name -> the field, and the readers
        delayed = {state for state, (_, steps) in step.delays().items() if steps}
        self._full = [
            name
            for name, placed in {**step.states, **step.coefficients}.items()
            if placed.axes is None and placed.region is None and name not in delayed
        ]
        self._placed = {**step.coefficients, **step.series, **step.states, **written_by(self._stages.values())}
        fields = {*step.states, *step.active, *written_by(self._stages.values())}
        bodies = {f"next {name}": node for name, node in outputs.items()}
        bodies |= {s.name: s.node for s in self._stages.values() if isinstance(s, StoredExpression)}
        shared, self._values = shared_values(self.graph, bodies, fields.__contains__), dict[str, Node]()
        while True:
            self._values |= shared.values
            self.bodies = {**shared.bodies, **shared.values}
            self._wanted = fields | self._values.keys()
            self._reads = {name: reads([body]) for name, body in self.bodies.items()}
            self._reads |= {s.name: s.reads() for s in self._stages.values() if isinstance(s, SelfTransposed)}
            self._ranks = self._ranked()
            shared = meeting_values(self.graph, self.bodies, self._ranks, self._wanted.__contains__)
            if not shared.values:
                break
        # axes along which a cell reads others: runs side by side have one more, along which none does, and each has the bits it has alone
        offsets = [offset for fields in self._reads.values() for each in fields.values() for offset in each]
        self._reaching = sum(any(offset[axis] for offset in offsets) for axis in range(step.grid.ndim))
        self._by_level: dict[str, dict[int, Contributions]] = {}
        self._levels: dict[str, int] = {}  # stored cotangents -> length of the longest chain of others that they depend on
        self._nests: dict[int, list[Node]] = {}  # stored cotangents of a level
        self._chosen: set[str] = set()  # values and fields of stages whose cotangents are 0 where a condition does not choose them
        self._put_back: dict[int, Node] = {}  # node -> the same with shared values in place of their names
        unbounded = unbounded_stages(step.stages)
        self._singular, self._infinite, self._divides = Singular(OUTSIDE, unbounded), Singular(unbounded=unbounded), Divides()
        self._whole: set[int] = set()  # contributions that are not split into their terms: a neighbour reads one value in place of some
        self._computed = self._where_computed()

    def _users(self, name: str) -> Iterator[tuple[str, Collection[Offset]]]:
        """The parts of the step that read a field, with the offsets. Readers that give to a subtotal count for this alone."""
        if name in self._subtotals:
            for user, offset in self._subtotals[name][1]:
                yield user, (offset,)
            return
        stored: set[tuple[str, Offset]] = set().union(*(readers for of, readers in self._subtotals.values() if of == name))
        for user, fields in self._reads.items():
            if offsets := [offset for offset in fields.get(name, ()) if (user, offset) not in stored]:
                yield user, offsets

    def _written(self, part: str) -> list[str]:
        """Fields that a part of the step computes."""
        return [output.name for output in self._stages[part].outputs] if part in self._stages else [part]

    def _ranked(self) -> list[list[str]]:
        """Parts of the step in the order of the reverse sweep: each rank follows all its users."""
        uses = {name: [user for output in self._written(name) for user, _ in self._users(output)] for name in self._reads}
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
        return self._apart(out)

    def _apart(self, box: Iterable[tuple[int, int]]) -> Box:
        """The box without the cells beyond joined ends: these are the cells of the other end."""
        return tuple((0, 0) if axis in self.step.joined else ends for axis, ends in enumerate(box))

    def outside(self, name: str, rules: Rules) -> tuple[int, ...]:
        """How far beyond the grid a field is read, along the axes on which a rule fills its halo."""
        return tuple(max(ends) if fills(sides) else 0 for ends, sides in zip(self._where_read(name, self._computed), rules, strict=True))

    def stages(self) -> Iterator[Stage | Subtotals]:
        """Sweep, and stop at each stage whose terms are complete. Before that come subtotals of its outputs, and at the end those of states
        and coefficients.

        The caller stores the cotangents of its outputs, from `gathered`, as `bar`. For a stage that is no expression it calls `through`.
        """
        graph = self.graph
        where_needed = self._where_needed()
        for rank in self._ranks:
            together: dict[int, dict[str, Node]] = {}  # level -> part -> seed; without shared values there is nothing to store apart
            for name in rank:
                if name in self._stages:
                    yield from self._stored_apart(
                        [each.name for each in self._stages[name].outputs if each.axes is None and each.region is None]
                    )
                    yield self._stages[name]
                    if name not in self.bodies:
                        continue
                    seed = graph.read(bar(name), self.zero)
                elif name in self._values:
                    seed = self._total(self.terms.pop(name, {}), None)
                else:
                    seed = graph.read(bar(name.removeprefix("next ")), self.zero)
                if not is_const(seed, 0):  # else only conditions read this value
                    together.setdefault(0 if self._values.keys().isdisjoint(rank) else self._level(seed), {})[name] = seed
            for parts in together.values():
                self._differentiate(parts, where_needed)
        yield from self._stored_apart([name for name in self._full if name in self.terms])

    def _differentiate(self, parts: Mapping[str, Node], where_needed: Mapping[str, Box]) -> None:
        """Add the contributions of some parts of the step, whose seeds are given, to the terms of all that they read."""
        graph, seeds = self.graph, dict[Node, Node]()
        for name, seed in parts.items():  # two states may have the same next value: their cotangents add
            seeds[self.bodies[name]] = graph.add(seeds.get(self.bodies[name], graph.const(0)), seed)
        chosen = self._conditions(parts)
        beyond = {name for name in parts if not _within(where_needed[name], self._computed[name])}
        for name, contributions in vjp(graph, seeds, self._wanted.__contains__, chosen, self._may_be_infinite).items():
            mine = self.terms.setdefault(name, {})
            for offset, node in contributions.items():
                (whole,) = inlined(graph, [node], self._values, memo=self._put_back)
                users = [user for user in parts if offset in self._reads[user].get(name, ())]
                if self._divides(whole) and not beyond.isdisjoint(users):
                    if self._singular(whole):
                        # the seeds of other parts do not count: they would have to be computed wherever this contribution is
                        whole = self._guarded(whole, graph.all_zero([parts[user] for user in users]))
                    else:
                        self._whole.add((whole.args[1] if is_scaled(whole) else whole).id)
                mine[offset] = graph.add(mine.get(offset, graph.const(0)), whole)
                self._note(name, offset, whole, users)

    def _conditions(self, parts: Mapping[str, Node]) -> dict[Node, Node]:
        """For the bodies of parts that choices read, the condition that their seeds are not 0: where a choice drops a value, its
        cotangent is 0, and so are all that follow from it, even if a partial derivative is infinite."""
        graph = self.graph
        of: dict[Node, list[str]] = {}
        for name in parts:
            of.setdefault(self.bodies[name], []).append(name)
            read = self._reads[name].keys() if name in self._chosen else in_choices([self.bodies[name]])
            self._chosen |= {each for each in read if each in self._wanted}
        conditions: dict[Node, Node] = {}
        for body, names in of.items():
            if all(name in self._chosen for name in names):
                conditions[body] = graph.apply("not", graph.all_zero([parts[name] for name in names]))
        return conditions

    def _may_be_infinite(self, partial: Node) -> bool:
        """True if a partial derivative may be infinite or NaN, with all values in place of their names."""
        return self._infinite(inlined(self.graph, [partial], self._values, memo=self._put_back)[0])

    def _guarded(self, contribution: Node, without: Node) -> Node:
        """A contribution that is 0 where a condition holds. In three dimensions parts that share nothing costly are guarded one by one."""
        graph = self.graph
        parts = [contribution]
        if self._reaching == 3:
            terms = [*linear_terms(graph, contribution, self._whole).values()]
            parts = [unfactored(graph, [(terms[n][1], terms[n][0]) for n in part]) for part in alike([core for core, _ in terms])]
        return graph.sum([graph.apply("select", without, graph.const(0), part) for part in parts])

    def _level(self, expression: Node) -> int:
        """The largest level of the cotangents that an expression reads, or 0."""
        return max((self._levels.get(name, 0) for name in reads([expression])), default=0)

    def _note(self, name: str, offset: Offset, contribution: Node, users: Iterable[str]) -> None:
        """Note a contribution of some parts of the step to a stored field, by its level."""
        if name in self._values:
            return
        mine = self._by_level.setdefault(name, {}).setdefault(self._level(contribution), Contributions())
        mine.terms[offset] = self.graph.add(mine.terms.get(offset, self.graph.const(0)), contribution)
        mine.readers |= {(user, offset) for user in users}

    def _stored_apart(self, names: Iterable[str]) -> Iterator[Subtotals]:
        """Subtotals of some fields whose contributions are complete.

        A contribution that reads cotangents of a lower level than others may share values with what is stored at that level, as the
        derivatives of a flux do for all that the flux reads. If it does, it is stored there, and not computed again at the highest level.
        """
        stored: list[Stored] = []
        for name in names:
            levels = self._by_level.get(name, {})
            for level in sorted(levels)[:-1]:
                if not self._saves(name, level):
                    continue
                subtotal, placed = f"{name} of level {level}{self.within}", self._placed[name]
                stored.append(Stored(placed.location, placed.rules, name=subtotal))
                self.terms[subtotal] = levels[level].terms
                self._by_level[subtotal] = {level: levels[level]}
                self._subtotals[subtotal] = name, levels[level].readers
                self._nests.setdefault(level, []).append(self._total(self.terms[subtotal], None))
                levels[level] = Contributions({self.zero: self.graph.read(bar(subtotal), self.zero)})
                self.terms[name] = self._sum(levels.values())
        if stored:
            yield Subtotals(tuple(stored))

    def _saves(self, name: str, level: int) -> bool:
        """Whether to store what one level gives to a field saves more than it takes."""
        levels = self._by_level[name]
        if cost(levels[level].terms.values()) < STORING:
            return False
        rest = self._sum(each for number, each in levels.items() if number != level)
        again = cost([self._total(self.terms[name], None)]) - cost([self._total(rest, None)])
        others = self._nests.get(level, [])
        return cost([*others, self._total(levels[level].terms, None)]) - cost(others) + STORING <= again

    def _sum(self, levels: Iterable[Contributions]) -> dict[Offset, Node]:
        """The sums of all terms, by offset."""
        whole: dict[Offset, Node] = {}
        for each in levels:
            for offset, node in each.terms.items():
                whole[offset] = self.graph.add(whole.get(offset, self.graph.const(0)), node)
        return whole

    def through(self, stage: SelfTransposed) -> dict[str, Part]:
        """Continue through a stage that is no expression: return parts that compute cotangents of its inputs from those of its outputs."""
        transposed = stage.transposed(self.graph, self._wanted.__contains__)
        for each, part in transposed.parts.items():
            level = 1 + max((self._levels.get(name, 0) for name in needed(part, {})), default=0)
            self._levels |= dict.fromkeys(written(each, part), level)
        for name, contributions in transposed.terms.items():
            mine = self.terms.setdefault(name, {})
            for offset, node in contributions.items():
                mine[offset] = self.graph.add(mine.get(offset, self.graph.const(0)), node)
                self._note(name, offset, node, [stage.name])
        return transposed.parts

    def _where_needed(self) -> dict[str, Box]:
        """The cells at which each part's contributions are computed: those at which the cotangents of its inputs are computed."""
        boxes: dict[str, Box] = {}
        for rank in reversed(self._ranks):
            for name in rank:
                out = [(0, 0) for _ in self.zero]
                for read, offsets in self._reads[name].items():
                    if read not in self._wanted:
                        continue
                    box = boxes[read] if read in self._values else self._where_gathered(read)
                    for axis, (low, high) in enumerate(box):
                        along = [o[axis] for o in offsets]
                        out[axis] = (max(out[axis][0], low + max(along)), max(out[axis][1], high - min(along)))
                boxes[name] = self._apart(out)
        return boxes

    def _where_gathered(self, field: str) -> Box:
        """The cells at which the cotangent of a stored field is computed: the grid, and the cells that are folded back.

        All sides that are not joined count, whether a rule fills what is beyond or not: a box of a domain lacks some, and adds in the same
        order."""
        return tuple((max(ends), max(ends)) for ends in self._where_read(field, self._computed))

    def gathered(self, name: str, target: Place, rules: Rules, inline: dict[str, Node]) -> Assign:
        """The cotangent of a stored field, computed on the grid and at the cells outside of it where the field was read."""
        total = self._total(self.terms.get(name, {}), inline)
        if self._may_be_whole(name):
            self.other_sums[total.id] = self._sum_of(self._whole_terms(self.terms[name]), inline)
        level = max(self._by_level.get(name, ()), default=0)
        self._levels[bar(name)] = level + 1
        if name not in self._subtotals:
            self._nests.setdefault(level, []).append(self._total(self.terms.get(name, {}), None))
        outside = self.outside(name, rules) if name in self.terms else ()
        return Assign(target, total, self._rules, fold=rules if any(outside) else (), outside=outside if any(outside) else ())

    def _total(self, contributions: Mapping[Offset, Node], inline: dict[str, Node] | None) -> Node:
        """The sum of the neighbours' contributions. Products at one cell that several offsets read go to `inline`, if it is given."""
        graph = self.graph
        cores: dict[int, Weighted] = {}
        for offset, node in contributions.items():
            for core, weight in linear_terms(graph, node, self._whole).values():
                cores.setdefault(core.id, (core, {}))[1][offset] = weight
        if self._reaching == 3 and sum(len(weights) for _, weights in cores.values()) > MOST * len(contributions):
            cores = self._whole_terms(contributions)
        return self._sum_of(cores, inline)

    def _sum_of(self, cores: Mapping[int, Weighted], inline: dict[str, Node] | None) -> Node:
        """The sum of terms over all neighbours."""
        graph = self.graph
        terms: list[tuple[float, Node]] = []
        for core, weights in self._products(cores.values(), inline) if inline is not None else cores.values():
            for offset in sorted(weights, key=lambda o: (sum(map(abs, o)), o)):
                terms.append((weights[offset], graph.shift(core, tuple(-o for o in offset))))
        plain, short = unfactored(graph, terms), factored(graph, terms)
        return short if cost([short]) < SHORTER * cost([plain]) else plain

    def _may_be_whole(self, name: str) -> bool:
        """True if a cell gives several terms that share costly values to a field at several offsets."""
        terms = self.terms.get(name, {})
        if self._reaching == 3 or len(terms) < 2:
            return False
        cores = ([core for core, _ in linear_terms(self.graph, node, self._whole).values()] for node in terms.values())
        return any(len(part) > 1 for each in cores for part in self._together(each))

    def _whole_terms(self, contributions: Mapping[Offset, Node]) -> dict[int, Weighted]:
        """The terms of contributions, where those at one offset that share costly values are one term."""
        cores: dict[int, Weighted] = {}
        for offset, node in contributions.items():
            terms = [*linear_terms(self.graph, node, self._whole).values()]
            for part in self._together([core for core, _ in terms]):
                core, weight = unfactored(self.graph, [(terms[number][1], terms[number][0]) for number in part]), 1.0
                if is_scaled(core):
                    core, weight = core.args[1], core.args[0].data
                cores.setdefault(core.id, (core, {}))[1][offset] = weight
        return cores

    def _together(self, terms: Sequence[Node]) -> list[list[int]]:
        """The numbers of terms, in parts that share costly values. Cheap ones are apart, but for three dimensions."""
        if self._reaching == 3:
            return alike(terms)
        costly, cheap = costly_parts(terms)
        return sorted([*costly, *([number] for number in cheap)])

    def _products(self, cores: Iterable[Weighted], inline: dict[str, Node]) -> Iterator[Weighted]:
        """The terms, where sums of products at one cell that several offsets read are in `inline`, or in `products`: one for products with
        equal weights."""
        graph = self.graph
        sums: dict[tuple[tuple[Offset, float], ...], list[Node]] = {}
        for core, weights in cores:
            if len(weights) > 1 and operations([core]) and not any(any(o) for offsets in reads([core]).values() for o in offsets):
                sums.setdefault(tuple(sorted(weights.items())), []).append(core)
            else:
                yield core, weights
        for key, products in sums.items():
            whole = graph.sum(products)
            name = f"product {whole.id}{self.within}"
            stored = len(self.zero) == 3 and len({offset[0] for offset, _ in key}) >= PLANES
            (self.products if stored else inline)[name] = whole
            yield graph.read(name, self.zero), dict(key)


def _within(inner: Box, outer: Box) -> bool:
    return all(a <= c and b <= d for (a, b), (c, d) in zip(inner, outer, strict=True))


def _moving(step: TracedStep) -> list[Stage]:
    """Stages that depend on fields that are differentiated for, or on states."""
    moving = {*step.states, *step.active}
    found = []
    for stage in step.stages:
        if stage.moves and not moving.isdisjoint(stage.reads()):
            found.append(stage)
            moving |= {field.name for field in stage.outputs}
    return found
