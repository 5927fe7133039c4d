"""Search for the values of a loop nest that are computed once and kept for all neighbours that need them.

The choice is a minimum cut. Values that are the same function of the cell form one *class* (`Classes` of `sharing.py`), which is
needed at k cells. Either it is computed at all of them, at an extra cost of (k - 1) times its operation. Or it is kept, or only kept
values need it: then it is computed once. The cheapest choice is the minimum cut of the graph of classes between those that are computed
everywhere and those that are computed once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass

from diffsim.expr.graph import CONDITIONS, Node, Offset, is_weighted_sum, ordered, reads
from diffsim.stepping.passes.cut import FOREVER, minimum_cut
from diffsim.stepping.passes.sharing import COSTLY, Classes, alike, cost, inlined, operation_cost

ALIGNED = 0.8
"""Values are aligned if they cost less than this part of others."""
MANY = 40
"""Kept values in three dimensions above which their planes may have no room in a core's caches, so that others are tried."""
FAR = 5, 3
"""Factors of the cost of storing and of reading a kept value whose plane lies beyond a core's caches."""
APART = 1 << 24
"""More than twice the largest offset along an axis."""


@dataclass(frozen=True)
class Kept:
    """The values that are kept for some expressions.

    Attributes:
        places: class -> the cell at which its loop computes it.
        depths: class -> its loop, after those from which it reads values at other cells.
        aligned: whether loops are split into parts that share nothing costly.
    """

    places: dict[int, Offset]
    depths: dict[int, int]
    aligned: bool = False


def kept_values(classes: Classes, roots: Sequence[Node]) -> Kept:
    """The values to keep. In three dimensions a second search aligns values, to keep fewer planes."""
    plain = Search(classes, roots)
    kept = plain.best()
    if axes(roots) == 3 and len(kept) > MANY:
        aligned = Search(classes, roots, aligned=True, far=True)
        others = aligned.best()
        if aligned.cost(others) < ALIGNED * Search(classes, roots, far=True).cost(kept):
            return aligned.result(others)
    return plain.result(kept)


@dataclass(frozen=True)
class Use:
    """A class of nodes in some expressions: a representative, and its nodes by the cell at which they are evaluated."""

    value: Node
    nodes: dict[Offset, list[Node]]

    @property
    def cost(self) -> int:
        """Cost of the repeated evaluations if nothing is kept."""
        return (len(self.nodes) - 1) * operation_cost(self.value)

    @property
    def keeping(self) -> int:
        """Cost of storing it once, and of reading it at each cell."""
        if self.value.op in CONDITIONS:
            return FOREVER
        return storing(len(next(iter(self.nodes)))) + sum(map(reading, self.nodes))


def storing(ndim: int) -> int:
    """Cost of storing a kept value. In three dimensions whole planes are kept, which do not fit into the first-level cache."""
    return 8 if ndim == 3 else 4


def reading(offset: Offset) -> int:
    """Cost of reading a kept value. Across a tile's edge it takes two reads and a splice. Wide tiles that are read from memory as they lie
    there count the same, so that no choice depends on registers."""
    return (6 if offset[-1] else 2) * (2 if len(offset) == 3 else 1)


@dataclass(frozen=True)
class _Needs:
    """The needs of a loop for some values. They hold while the values that it reads are kept, and those that it computes are not.

    Attributes:
        computed: the values that it computes, as numbers of a `Search`.
        read: the kept values that it reads.
        of_classes: classes of what it computes beside the values themselves.
        from_classes: classes of what it reads.
        elsewhere: those of them that it reads at other cells than the present one.
    """

    computed: set[int]
    read: set[int]
    of_classes: Set[int]
    from_classes: Set[int]
    elsewhere: Set[int]


class Search:
    """A search for the values that are kept for some expressions.

    Minimum cuts are where the choice begins. A cut takes a value that only kept values need for computed once. But it is computed as often
    as the kept values need it at different cells, seen from where they are: if a sum of fluxes through the lower faces of a cell is kept
    beside one through the upper faces, each flux is computed twice; if fluxes are kept, once. So the terms of such sums are tried as well.
    Then one value less is tried, and its arguments in its place.

    A value is computed at the smallest offsets at which it reads. What a flux gives to each of six cells is so computed at six places, and
    the flux with it. The minimum cut sees that, and takes values within the flux in place of what it gives: of WENO 5 in three dimensions
    84, whose planes no cache has room for. Where values are `aligned`, each is computed at the place at which those before it compute most
    of what it needs. Then the terms of the sums are tried as well, and what these need at several cells: 36 of WENO 5.

    Args:
        classes: of the nodes.
        roots: the expressions.
        aligned: whether values are aligned.
        far: whether planes of kept values are taken to lie beyond a core's caches.
    """

    def __init__(self, classes: Classes, roots: Sequence[Node], aligned: bool = False, far: bool = False) -> None:
        self.classes, self._roots, self.aligned, self._far = classes, list(roots), aligned, far
        self._places: dict[int, tuple[Offset, int]] = {}  # kept class -> the cell at which its loop computes it, also as a number
        self._met: dict[int, set[int]] = {}  # class -> cells at which loops compute it, with all kept classes met so far
        self._uses = _uses(classes, roots)
        self._axes, self._count = axes(roots), max(self._uses, default=0) + 1
        whole = [classes.of(root) for root in roots if root.args and classes.anchor(root) is not None]
        self._whole = frozenset(self._number(key, where) for key, where in whole)
        self._fixed = {key for key, _ in whole}
        self._parts: dict[int, list[tuple[int, int]]] = {}  # class -> arguments that are operations, how far away
        for key in self._uses:
            arguments = classes.varying(classes.representative(key).args)
            self._parts[key] = [(part, self._number(part, where) - key) for _, part, where in arguments]
        self._costs = {key: operation_cost(use.value) for key, use in self._uses.items()}
        self._known: dict[frozenset[int], list[_Needs]] = {}
        self._loops: dict[frozenset[int], int] = {}  # the needs of a loop's values -> its cost

    def _number(self, key: int, where: Offset) -> int:
        """A class at a cell as one number: its own at the present cell, and those of neighbours as far apart anywhere."""
        cell = 0
        for offset in where:
            cell = cell * APART + offset
        return cell * self._count + key

    def place(self, key: int) -> Offset:
        """The cell at which the loop computes a kept class.

        A class is evaluated at the smallest offsets at which it reads. Where classes are aligned, each is computed where most of what it
        needs is computed for those before it.
        """
        if key not in self._places:
            cell = self._aligned_cell(key) if self.aligned else 0
            self._places[key] = self._offset(cell), key + cell * self._count
        return self._places[key][0]

    def value(self, key: int) -> Node:
        """The expression of a kept class at that cell."""
        return self.classes.graph.shift(self.classes.representative(key), self.place(key))

    def _at(self, key: int) -> int:
        """A kept class at that cell, as a number."""
        if key not in self._places:
            self.place(key)
        return self._places[key][1]

    def _aligned_cell(self, key: int) -> int:
        """The cell at which most of what a class needs is computed for those before it, as a number."""
        needs, waiting = {key}, [key]
        while waiting:
            number = waiting.pop()
            new = {number + apart for _, apart in self._parts[number % self._count]} - needs
            needs |= new
            waiting += new
        votes: dict[int, int] = {}
        for number in needs:
            cell, which = divmod(number, self._count)
            for other in self._met.get(which, ()) if self._size(which) >= COSTLY else ():
                votes[other - cell] = votes.get(other - cell, 0) + self._costs[which]
        best = max(votes, key=lambda apart: (votes[apart], -abs(apart), apart), default=0)
        for number in needs:
            cell, which = divmod(number, self._count)
            self._met.setdefault(which, set()).add(cell + best)
        return best

    def _offset(self, cell: int) -> Offset:
        """The offset that a number of a cell stands for."""
        out = []
        for _ in range(self._axes):
            along = (cell + APART // 2) % APART - APART // 2
            out.append(along)
            cell = (cell - along) // APART
        return tuple(reversed(out))

    def best(self) -> set[int]:
        """The classes to keep: the cheapest of those tried."""
        kept = {self.classes.of(node)[0] for node in self._cuts(self._roots, {})} - self._fixed
        starts = [kept, set().union(*(self._terms(key) for key in kept))]
        if self.aligned:
            tops = set().union(*map(self._unlike, sorted(self._fixed))) - self._fixed
            for key in sorted(tops, key=self._size, reverse=True):
                self.place(key)
            below = {self.classes.of(node)[0] for node in self._cuts([self.value(key) for key in sorted(tops)], {})} - self._fixed
            starts += [tops, tops | below]
        kept = min(starts, key=self.cost)
        least = self.cost(kept)
        for key in sorted(kept):
            for other in (kept - {key}, kept - {key} | self._keepable(key)):
                if (cheaper := self.cost(other)) < least:
                    kept, least = other, cheaper
                    break
        return kept

    def _cuts(self, bodies: list[Node], names: dict[str, Node]) -> list[Node]:
        """Values kept by minimum cuts of some expressions, then of those that read these, and of these. `names` has what is read."""
        graph, uses = self.classes.graph, _uses(self.classes, bodies)
        values = {key: self.classes.representative(key) for key in _cut(bodies, uses)}
        if not values:
            return []
        known = {
            node.id: graph.read(f"kept {value.id}", where)
            for key, value in values.items()
            for where, same in uses[key].nodes.items()
            for node in same
        }
        readers = graph.replace(bodies, lambda read: read, known, graph.apply_exactly)
        if bodies != self._roots and cost(readers) + cost(values.values()) + sum(uses[key].keeping for key in values) >= cost(bodies):
            return []
        whole = inlined(graph, values.values(), names, graph.apply_exactly)
        below = names | {f"kept {value.id}": each for value, each in zip(values.values(), whole, strict=True)}
        return whole + self._cuts(readers, below) + self._cuts(list(values.values()), names)

    def result(self, kept: Set[int]) -> Kept:
        """The values, their places and their loops."""
        depths = self.layers(kept)
        return Kept({key: self.place(key) for key in depths}, depths, self.aligned)

    def layers(self, kept: Set[int]) -> dict[int, int]:
        """The loop in which each kept class is computed: after those from which it reads values at other cells."""
        return self._depths({key: self._needs(frozenset([self._at(key)]), kept) for key in kept})

    @staticmethod
    def _depths(needs: Mapping[int, _Needs]) -> dict[int, int]:
        """`layers` for kept classes with their needs. A class has a larger number than those that it needs."""
        depths: dict[int, int] = {}
        for key in sorted(needs):
            mine = needs[key]
            depths[key] = max([depths[each] + (each in mine.elsewhere) for each in mine.from_classes], default=0)
        return depths

    def _size(self, key: int) -> int:
        return cost([self.classes.representative(key)])

    def _keepable(self, key: int) -> set[int]:
        """The arguments of a class that may be kept."""
        return {part for part, _ in self._parts[key] if self._uses[part].keeping < FOREVER} - self._fixed

    def _unlike(self, key: int) -> set[int]:
        """A class, or in place of a sum of terms that share nothing costly these terms."""
        terms, waiting = list[Node](), [self.classes.representative(key)]
        while waiting:
            node = waiting.pop()
            if is_weighted_sum(node):
                waiting += node.args
            else:
                terms.append(node)
        if sum(any(cost([terms[number]]) >= COSTLY for number in part) for part in alike(terms)) > 1:
            return set().union(*(self._unlike(part) for part in self._keepable(key)))
        return {key}

    def _terms(self, key: int) -> set[int]:
        """A class, or in place of a sum over different cells its terms."""
        terms, seen, waiting = set[int](), {key}, [key]
        while waiting:
            one = waiting.pop()
            if self._uses[one].value.op in ("add", "sub") and any(one + apart != part for part, apart in self._parts[one]):
                new = self._keepable(one) - seen
                seen |= new
                waiting += new
            else:
                terms.add(one)
        return terms

    def cost(self, kept: Set[int]) -> int:
        """Cost of all operations, and of storing and reading what is kept."""
        alone = {key: self._needs(frozenset([self._at(key)]), kept) for key in kept}
        loops: dict[int, list[int]] = {}
        for key, depth in self._depths(alone).items():
            loops.setdefault(depth, []).append(key)
        total = len(kept) * storing(self._axes) * (FAR[0] if self._far else 1) + self._loop([self._needs(self._whole, kept)], ())
        return total + sum(self._loop([alone[key] for key in keys], keys) for keys in loops.values())

    def _loop(self, needs: Sequence[_Needs], values: Iterable[int]) -> int:
        """Cost of the operations of a loop for some values with their needs, and of reading what is kept. It is computed once for the same
        needs: two choices that differ in a value have most loops in common."""
        which = frozenset(map(id, needs))  # needs live as long as the search
        if which not in self._loops:
            # values of one loop read one another at the present cell
            read = set[int]().union(*(each.read for each in needs)).difference(map(self._at, values))
            computed = set[int]().union(*(each.computed for each in needs))
            costs, count = self._costs, self._count
            self._loops[which] = sum([costs[each % count] for each in computed]) + sum(map(self._reading, read))
        return self._loops[which]

    def _reading(self, number: int) -> int:
        along = (number - self._at(number % self._count)) // self._count % APART
        return reading((*(0,) * (self._axes - 1), along)) * (FAR[1] if self._far else 1)

    def _needs(self, first: frozenset[int], kept: Set[int]) -> _Needs:
        """The values that a loop computes and the kept ones that it reads, for some classes at some cells."""
        known = self._known.setdefault(first, [])
        most: _Needs | None = None  # of more kept values than these, and so a part of the needs
        for place, needs in enumerate(known):
            if kept.isdisjoint(needs.of_classes):
                if needs.from_classes <= kept:
                    if place:
                        known.insert(0, known.pop(place))  # the next choice is much like this one
                    return needs
                most = most or needs
        count, parts = self._count, self._parts
        if most is None:
            computed, read, waiting = set(first), set[int](), list(first)
        else:
            waiting = [number for number in most.read if number % count not in kept]
            computed, read = most.computed.union(waiting), most.read.difference(waiting)
        new = [] if most is None else waiting.copy()
        while waiting:
            number = waiting.pop()
            for part, apart in parts[number % count]:
                there = number + apart
                if there in computed:
                    continue
                if part in kept:
                    read.add(there)
                else:
                    computed.add(there)
                    new.append(there)
                    waiting.append(there)
        of_classes = {number % count for number in new}
        if most is not None:
            of_classes |= most.of_classes
        from_classes = {number % count for number in read}
        elsewhere = {number % count for number in read if number != self._at(number % count)}
        known.insert(0, _Needs(computed, read, of_classes, from_classes, elsewhere))
        return known[0]


def axes(nodes: Iterable[Node]) -> int:
    """The axes of the grid, as far as the nodes read fields."""
    return next((len(o) for offsets in reads(nodes).values() for o in offsets), 0)


def _uses(classes: Classes, bodies: Sequence[Node]) -> dict[int, Use]:
    uses: dict[int, Use] = {}
    for node, number, where in classes.varying(ordered(bodies)):
        if number not in uses:
            uses[number] = Use(node, {})
        nodes = uses[number].nodes
        if where in nodes:
            nodes[where].append(node)
        else:
            nodes[where] = [node]
    return uses


def _cut(bodies: Sequence[Node], uses: Mapping[int, Use]) -> set[int]:
    """The classes to keep by the minimum cut."""
    if not any(len(use.nodes) > 1 for use in uses.values()):
        return set()
    of = {node.id: key for key, use in uses.items() for same in use.nodes.values() for node in same}
    repeated = _repeated(uses, of)
    index = {key: number for number, key in enumerate(uses)}
    whole = {of[body.id] for body in bodies if body.id in of}
    source, sink = 2 * len(index), 2 * len(index) + 1
    edges: dict[tuple[int, int], int] = {}
    for key, use in uses.items():
        into, out = 2 * index[key], 2 * index[key] + 1
        edges[into, out] = FOREVER if key in whole else use.keeping + repeated[key]
        if use.cost:
            edges[out, sink] = use.cost
        for same in use.nodes.values():
            for node in same:
                for argument in node.args:
                    if argument.id in of:
                        edges[out, 2 * index[of[argument.id]]] = FOREVER
    for key in whole:
        edges[source, 2 * index[key]] = FOREVER
    reached = minimum_cut(edges, source, sink)
    return {key for key in uses if 2 * index[key] in reached and 2 * index[key] + 1 not in reached}


def _repeated(uses: Mapping[int, Use], of: Mapping[int, int]) -> dict[int, int]:
    """Cost of one value of each class beyond one operation of each class that it needs. Keeping the value does not save this cost."""
    position = {key: number for number, key in enumerate(uses)}
    costs: dict[int, int] = {}  # masks of nodes by their cost
    once: dict[int, int] = {}  # masks of classes by their cost
    nodes = sorted((node for use in uses.values() for same in use.nodes.values() for node in same), key=lambda node: node.id)
    for number, node in enumerate(nodes):
        costs[operation_cost(node)] = costs.get(operation_cost(node), 0) | 1 << number
    for key, use in uses.items():
        once[operation_cost(use.value)] = once.get(operation_cost(use.value), 0) | 1 << position[key]
    below: dict[int, tuple[int, int]] = {}  # node -> masks of the nodes and of the classes that it needs
    last: dict[int, tuple[int, int]] = {}
    for number, node in enumerate(nodes):
        mine, classes = 1 << number, 1 << position[of[node.id]]
        for argument in node.args:
            if argument.id in below:
                mine |= below[argument.id][0]
                classes |= below[argument.id][1]
        below[node.id] = last[of[node.id]] = mine, classes
    return {key: _weight(mine, costs) - _weight(classes, once) for key, (mine, classes) in last.items()}


def _weight(mask: int, by_weight: Mapping[int, int]) -> int:
    return sum(weight * (mask & which).bit_count() for weight, which in by_weight.items())
