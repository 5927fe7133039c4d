"""Values that several parts of a step need, which reverse mode goes through one after the other.

A flux may read a ratio of wave speeds that the step uses at several cells, and depend on one of the speeds itself. The flux is
differentiated first, then the ratio, so the cotangent of the speed has a contribution from each. As long as the speed has no name, both go
on to all that it was computed from, each on its own. With a name they are added first, and the rest is differentiated once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from diffsim.expr.graph import CONDITIONS, Graph, Node, ordered
from diffsim.stepping.passes.sharing import Shared, curved, shared_name


def meeting_values(graph: Graph, bodies: Mapping[str, Node], ranks: Sequence[Sequence[str]], active: Callable[[str], bool]) -> Shared:
    """Name the values on which bodies of several ranks depend at one cell. The bodies of the values may meet in others.

    Args:
        graph: graph of the expressions.
        bodies: expressions by name.
        ranks: names of the bodies that are differentiated together, in the order of the reverse sweep. There may be other names among them.
        active: tests whether a field is differentiated for.
    """
    met = [*_met(bodies, ranks, active)]
    if not met:
        return Shared(dict(bodies), {})
    zero = next(tuple(0 for _ in node.data[1]) for node in ordered(met) if node.op == "read")
    memo: dict[int, Node] = {}
    replaced = {node.id: graph.read(shared_name(node), zero) for node in met}
    for node in ordered(bodies.values()):
        if node.id in replaced:
            memo[node.id] = replaced[node.id]
        elif all(memo.get(each.id) is each for each in node.args):
            memo[node.id] = node
        else:
            memo[node.id] = graph.apply(node.op, *(memo[each.id] for each in node.args), data=node.data)
    values = {shared_name(node): graph.apply(node.op, *(memo[each.id] for each in node.args), data=node.data) for node in met}
    return Shared({name: memo[body.id] for name, body in bodies.items()}, values)


def _met(bodies: Mapping[str, Node], ranks: Sequence[Sequence[str]], active: Callable[[str], bool]) -> Iterator[Node]:
    """The values that several ranks need, and that something needs which only some of these ranks do. Sums count as well: the terms of a
    long chain of sums would meet in each of them."""
    needed: dict[int, frozenset[int]] = {}  # node -> ranks that need it
    for rank, names in enumerate(ranks):
        for name in names:
            if name in bodies:
                needed[bodies[name].id] = needed.get(bodies[name].id, frozenset()) | {rank}
    met = {number for number, of in needed.items() if len(of) > 1}
    nodes = ordered(bodies.values())
    for node in reversed(nodes):
        of = needed.get(node.id, frozenset())
        for each in node.args:
            needed[each.id] = needed.get(each.id, frozenset()) | of
    for node in reversed(nodes):
        for each in node.args:
            if len(needed[each.id]) > 1 and needed[each.id] != needed.get(node.id):
                met.add(each.id)
    moving = curved(nodes, active)
    for node in nodes:
        if node.id in met and node.id in moving and node.args and node.op not in CONDITIONS:
            yield node
