"""Compute less beyond the grid, where loops go for the cotangents of cells outside.

Cotangents of the results of a step are 0 outside the grid. So are products with them, and contributions that they guard. So most of the
values that a nest keeps are 0 there: the derivatives of a flux along one axis are 0 beyond the sides of the others. These are not computed.
And assignments that are not needed outside the grid have a loop of their own.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from itertools import compress
from typing import TypeAlias

from diffsim.boundary import fills
from diffsim.expr.graph import Graph, Node, is_const, ordered
from diffsim.stepping.ir.program import LONG, Group, Nest, Program
from diffsim.stepping.passes.sharing import cost

Support: TypeAlias = tuple[tuple[float, float], ...]
"""How far beyond the first and the last cell of the grid something may be other than 0, along each axis."""

FAR = float("inf")
SHARED = 0.125
"""Assignments have a loop of their own if they share at most this part of their operations with others."""


def zero_outside(program: Program) -> dict[str, tuple[bool, ...]]:
    """The fields that a program computes, and along which axes they are 0 outside the grid."""
    zero: dict[str, tuple[bool, ...]] = {}
    written = [each for nest in program.nests for each in (*nest.assigns, *nest.refills)]
    for each in (*written, *(output for call in program.calls for output in call.outputs)):
        mine = tuple(not fills(sides) for sides in each.rules)
        zero[each.target.array] = tuple(a and b for a, b in zip(mine, zero.get(each.target.array, mine), strict=True))
    return {name: zero[place.array] for name, place in program.places.items() if place.array in zero}


def with_supports(nest: Nest, program: Program, zero: Mapping[str, tuple[bool, ...]], graph: Graph) -> Nest:
    """A nest whose kept values are not computed where they are 0, if it computes cells outside the grid.

    Values that begin some cells before a row, and end as many before its end, are kept as far along it: then they fill its tiles alone.
    """
    if not nest.swept or nest.interior is not None:
        return nest
    kept: dict[str, Support] = {}
    along: dict[str, int] = {}  # kept values -> cells along the row by which they are kept farther on
    groups: list[Group] = []

    def moved(read: Node) -> Node:
        name, offset = read.data
        return graph.read(name, (*offset[:-1], offset[-1] + along[name])) if name in along else read

    for group in nest.groups:
        values = dict(zip(group.values, graph.replace(group.values.values(), moved, apply=graph.apply_exactly), strict=True))
        mine = {name: _support(node, program, zero, kept) for name, node in values.items()}
        begin, end = _either(mine.values())[-1]
        if 0 < begin <= -end:
            far = int(begin)
            back = (*(0,) * (len(group.low) - 1), -far)
            values = {name: graph.shift(node, back) for name, node in values.items()}
            mine = {name: _support(node, program, zero, kept) for name, node in values.items()}
            along |= dict.fromkeys(values, far)
            low, high = (*group.low[:-1], group.low[-1] - far), (*group.high[:-1], group.high[-1] + far)
            group = dataclasses.replace(group, low=low, high=high)
        kept |= mine
        groups.append(dataclasses.replace(group, values=values, support=_either(mine.values())))
    return dataclasses.replace(nest, groups=tuple(groups), roots=tuple(graph.replace(nest.roots, moved, apply=graph.apply_exactly)))


def only_inside(program: Program, nest: Nest) -> list[Nest]:
    """A nest that computes cells outside the grid, after another one with those of its assignments that are not needed there."""
    roots = nest.roots or tuple(assign.node for assign in nest.assigns)
    inside = [not any(each.outside) and root is each.node for each, root in zip(nest.assigns, roots, strict=True)]  # read no kept value
    if not nest.swept or nest.interior is not None or all(inside):
        return [nest]
    first = Nest(tuple(compress(nest.assigns, inside)))
    outside = [not each for each in inside]
    rest = dataclasses.replace(
        nest, assigns=tuple(compress(nest.assigns, outside)), roots=tuple(compress(roots, outside)) if nest.roots else ()
    )
    own, others = [each.node for each in first.assigns], [*compress(roots, outside)]
    if cost(own) < LONG or cost(own) + cost(others) - cost([*own, *others]) > SHARED * cost(own):
        return [nest]
    read = program.reads([each.node for each in rest.assigns])
    if any(program.places[name].array == each.target.array for name in read if name in program.places for each in first.assigns):
        return [nest]
    return [first, rest]


def _support(root: Node, program: Program, zero: Mapping[str, tuple[bool, ...]], kept: Mapping[str, Support]) -> Support:
    """The cells at which an expression may be other than 0, and a condition false."""
    nodes = ordered([root])
    axes = next(len(node.data[1]) for node in nodes if node.op == "read")
    everywhere, nowhere = ((FAR, FAR),) * axes, ((-FAR, -FAR),) * axes
    supports: dict[int, Support] = {}
    for node in nodes:
        parts = [supports[each.id] for each in node.args]
        match node.op:
            case "read":
                name, offset = node.data
                if name in program.inline:
                    here = _support(program.inline[name], program, zero, kept)
                else:
                    here = kept.get(name) or tuple((0.0, 0.0) if each else (FAR, FAR) for each in zero.get(name, (False,) * axes))
                here = tuple((low + o, high - o) for (low, high), o in zip(here, offset, strict=True))
            case "const" if node.data == 0:
                here = nowhere
            case "div":
                here = parts[0]
            case "eq" if is_const(node.args[1], 0):
                here = parts[0]
            case "mul":
                here = _both(parts)
            case "select" if is_const(node.args[1], 0):
                here = _both([parts[0], parts[2]])
            case "select":
                here = _either(parts[1:])
            case "add" | "sub" | "min" | "max" | "abs" | "and":
                here = _either(parts)
            case _:
                here = everywhere
        supports[node.id] = here
    return supports[root.id]


def _either(supports: Iterable[Support]) -> Support:
    """A box with all cells of some boxes."""
    return tuple((max(low for low, _ in ends), max(high for _, high in ends)) for ends in zip(*supports, strict=True))


def _both(supports: Iterable[Support]) -> Support:
    """The cells that all of some boxes have."""
    return tuple((min(low for low, _ in ends), min(high for _, high in ends)) for ends in zip(*supports, strict=True))
