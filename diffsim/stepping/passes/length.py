"""Warn of expressions whose adjoints take minutes to derive and to compile, before that begins."""

from __future__ import annotations

from collections.abc import Mapping

from diffsim.base.messages import name_shown, warn_user
from diffsim.errors import LongStepWarning
from diffsim.expr.graph import Graph, Node, Offset, ordered
from diffsim.stepping.passes.sharing import Classes

LONG = 8000
"""Operations of an expression whose adjoint takes some 20 s to derive and to compile."""
SECONDS, POWER = 12.0, 1.4
"""The seconds for 5000 operations, and how they grow with the operations, as measured for steps of Runge-Kutta stages in one expression."""
CANDIDATES = 60
"""Values of which the operations are counted, to say which one to store."""


def warn_if_long(graph: Graph, expressions: Mapping[str, Node]) -> None:
    """Warn if an expression of a step has more than `LONG` operations, and say what to store.

    Args:
        graph: graph of the expressions.
        expressions: those of the stages and of the next state, by name.
    """
    sizes = {name: operations(node) for name, node in expressions.items()}
    name = max(sizes, key=sizes.__getitem__, default="")
    if not name or sizes[name] <= LONG:
        return
    minutes = SECONDS * (sizes[name] / 5000) ** POWER / 60
    value, cells = most_repeated(graph, expressions[name])
    warn_user(
        f"the expression for {name_shown(name)} has {sizes[name]} operations, expected at most {LONG}: its adjoint takes about "
        f"{minutes:.2g} minutes to derive and to compile. A value of {value} operations is computed at {cells} neighbouring cells; compute "
        "it once a cell by value = ds.stage(value, boundary), for example the state after each stage of a Runge-Kutta method",
        LongStepWarning,
    )


def operations(node: Node) -> int:
    """The number of different operations in an expression."""
    return sum(bool(each.args) for each in ordered([node]))


def most_repeated(graph: Graph, node: Node) -> tuple[int, int]:
    """The operations of the value that costs the expression most, because it is computed at several cells, and the number of cells."""
    classes = Classes(graph)
    where: dict[int, set[Offset]] = {}
    latest: dict[int, Node] = {}
    for each in ordered([node]):
        if each.args and classes.anchor(each) is not None:
            number, anchor = classes.of(each)
            where.setdefault(number, set()).add(anchor)
            latest[number] = each
    largest: dict[int, Node] = {}  # by the number of cells: an operation comes after its operands
    for number, each in latest.items():
        largest[len(where[number])] = each
    counts = {cells: operations(each) for cells, each in sorted(largest.items(), reverse=True)[:CANDIDATES]}
    cells = max(counts, key=lambda cells: (cells - 1) * counts[cells])
    return counts[cells], cells
