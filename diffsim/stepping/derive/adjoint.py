"""The program of the adjoint step: cotangents at time n from those at n + 1, as gathers.

A step computes y(i) = F(x(i + o), ...) at every cell i. Let g_o(i) be the cotangent that cell i contributes to the value that it read
at offset o (`diffsim.expr.derive.vjp`). The cotangent of x at cell j is the sum over o of g_o(j - o): each cell gathers.
Values that a step uses at several cells (`diffsim.stepping.passes.sharing`) are intermediate fields. Their cotangents are gathered
first, at every cell where the step uses them. A few of these cells lie outside the grid.

Cotangents of the results of a step are zero outside the grid, because nothing is computed there. Cotangents of the fields that it reads
are not zero there: a boundary rule filled the halo from cells, so these cotangents are folded back onto the cells (`Assign.fold`). So the
transposes are exact at the boundary as well. Along axes whose ends are joined (`TracedStep.joined`) nothing is folded: beyond an end,
cotangents have the values of the other end, and each cell gathers from there.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from diffsim.boundary import Rules
from diffsim.expr.derive import vjp
from diffsim.expr.graph import Graph, Node, Offset, reads
from diffsim.mesh.field import Slim
from diffsim.stepping.derive.forward import (
    arranged,
    receiver_points,
    receiver_stream,
    ring_depths,
    source_points,
    source_stream,
    split_forcings,
)
from diffsim.stepping.derive.reverse import Reverse
from diffsim.stepping.ir.names import bar
from diffsim.stepping.ir.program import (
    Assign,
    HostCall,
    Loop,
    Nest,
    Operation,
    Part,
    Place,
    PointGather,
    PointScatter,
    Program,
    Total,
    needed,
    written,
)
from diffsim.stepping.passes.arithmetic import with_cheaper_arithmetic
from diffsim.stepping.trace.fields import Placed, Stage
from diffsim.stepping.trace.stages import SelfTransposed, written_by
from diffsim.stepping.trace.trace import TracedStep


@dataclass(frozen=True)
class Adjoint:
    """The adjoint program, and the expressions of cotangents of delayed states by those of their primaries.

    Attributes:
        program: one adjoint step. Rings: primal states at the level tables' times n, n - 1, ...; cotangents at n + 1, ...
        depths: cotangents with storage -> how many later time levels a step reads.
        delayed: states whose cotangent is not stored -> its expression, which is read at the next later level.
        alternative: the same program with other forms of the sums over neighbours, see `Reverse`; None: there are none.
    """

    program: Program
    depths: dict[str, int]
    delayed: dict[str, Node]
    alternative: Program | None = None


def adjoint_program(
    step: TracedStep,
    receivers: Iterable[str],
    name: str = "adjoint",
    points_last: bool = False,
    within: str = "",
    kept: Mapping[str, Place] = MappingProxyType({}),
) -> Adjoint:
    """Transpose of `forward_program(step, receivers)`, for states, coefficients and the forcings' amplitudes.

    `points_last`: whether the cotangent of a state that is that of a stage, and those of receivers, is stored once: as that of the stage,
    to which those of the receivers are added last. Otherwise it is a copy. `within` ends names of subtotals and of shares of cells, which a
    step and the body of its loop may have for the same field. `kept` are the places of fields of stages that are not computed again.
    """
    graph, ndim = step.graph, step.grid.ndim
    zero = (0,) * ndim
    delays = step.delays()
    outputs, forcings = split_forcings(step)
    parts: dict[str, Part] = {}
    inline: dict[str, Node] = {}
    places: dict[str, Place] = {}

    # cotangents of the fields that were read, from those of the outputs, then of each stage and shared value, last to first
    follows = {s: p for s, (p, steps) in delays.items() if steps}
    own_outputs = {state: outputs[state] for state in step.states if state not in follows}
    reverse = Reverse(step, own_outputs, within)

    def gathered(name: str, target: Place, rules: Rules) -> Assign:
        """The cotangent of a field, after the products of which it is the sum."""
        assign = reverse.gathered(name, target, rules, inline)
        new = {product: node for product, node in reverse.products.items() if product not in parts}
        add({product: Assign(Place(product), node, step.cotangent_rules) for product, node in new.items()})
        return assign

    def gather(name: str, placed: Placed) -> None:
        """Add the parts that compute the cotangent of a field. For a slim field these are the cotangent of each cell, and then totals."""
        if placed.axes is None:
            new: dict[str, Part] = {bar(name): gathered(name, Place(bar(name)), placed.rules)}
        else:
            cells = f"{bar(name)} of each cell{within}"
            total = Total(bar(name), cells, tuple(range(ndim)), Slim(placed.axes, series=True))
            new = {cells: gathered(name, Place(cells), placed.rules), bar(name): total}
        add(new)

    def add(new: Mapping[str, Part]) -> None:
        for name, part in new.items():
            parts[name] = _joined(part, step.cotangent_rules)
            places.update(written(name, part))

    for stage in reverse.stages():
        for field in stage.outputs:
            gather(field.name, field)
        if isinstance(stage, SelfTransposed):
            add(reverse.through(stage))
    terms = reverse.terms
    for series, placed in step.series.items():
        if series in terms:
            gather(series, placed)

    delayed = _delayed(step, terms, follows)
    own_bars = [s for s in step.states if s not in delayed]
    depths = {bar(s): 1 for s in own_bars}
    for state in delayed:
        for other in _bars_read(terms[state].values()) if state in terms else ():
            depths[other] = max(depths[other], 1 + delays[state][1])
    for state, depth in ((s, depths[bar(s)]) for s in own_bars):
        places[bar(state)] = Place(bar(state), depth - 1)
        for extra in range(1, depth):
            places[_later(bar(state), extra)] = Place(bar(state), depth - 1 - extra)

    for state in own_bars:
        plain = gathered(state, Place(bar(state), depths[bar(state)]), step.states[state].rules)
        node = plain.node
        for follower, primary in follows.items():
            if follower in delayed:
                if primary == state:
                    node = graph.add(node, _at_later(graph, delayed[follower], delays[follower][1]))
            elif _follows_directly(step, follower, state):
                node = graph.add(node, graph.read(bar(follower), zero))
        parts[f"next {bar(state)}"] = dataclasses.replace(plain, node=node)
    scatters: list[PointScatter] = []
    first: list[PointScatter] = []
    gathers: list[Operation] = []
    for state, forcing, factor in forcings:
        seed = graph.read(bar(state), zero)
        gathers.append(PointGather(graph.mul(factor, seed), source_points(forcing), bar(source_stream(forcing)), 0, accumulate=True))
        for coefficient, given in vjp(graph, {factor: seed}, step.active.__contains__).items():
            scatter = PointScatter(Place(bar(coefficient)), given[zero], source_points(forcing), source_stream(forcing))
            (first if depths[bar(state)] == 1 else scatters).append(scatter)  # before a step may overwrite the seed
    for coefficient, placed in step.coefficients.items():
        if coefficient in terms:
            plain = gathered(coefficient, Place(bar(coefficient)), placed.rules)
            parts[f"next {bar(coefficient)}"] = dataclasses.replace(plain, accumulate=True)
    last: list[PointScatter] = []
    own = _own_stages(step, parts, places) if points_last else {}
    for cotangent, (state, assign) in own.items():
        places[cotangent] = Place(bar(state), depths[bar(state)])
        own[cotangent] = state, dataclasses.replace(assign, target=places[cotangent])
        parts[cotangent] = own[cotangent][1]
        del parts[f"next {bar(state)}"]
    once = {state for state, _ in own.values()}
    one = graph.const(1)
    for state in receivers:
        scatter = PointScatter(Place(bar(state), depths[bar(state)]), one, receiver_points(state), bar(receiver_stream(state)))
        (last if state in once else scatters).append(scatter)

    ring = ring_depths(step)
    places |= {s: Place(primary, steps) for s, (primary, steps) in delays.items()}
    places |= {name: Place(name) for name in step.fixed}
    again = _needed_stages(step.stages, parts.values(), inline, kept)
    targets = {name: Place(name) for name in written_by(again)}
    places |= {**targets, **kept}
    stored = {s.name: s.operation(targets) for s in again}
    for part in (*stored.values(), *parts.values()):
        if isinstance(part, Loop):
            places |= part.places
            inline |= part.inline
    body = [*gathers, *([Nest((), tuple(first))] if first else []), *arranged(stored | parts, scatters, inline)]
    if last:
        changed = {scatter.target for scatter in last}
        body.append(Nest((), tuple(last), refills=tuple(assign for _, assign in own.values() if step.joined and assign.target in changed)))
    entries = ring | {b: depth + 1 for b, depth in depths.items()}
    run = [*step.expressions().values(), *reverse.bodies.values()]

    def program(body: Sequence[Operation]) -> Program:
        return Program(name, tuple(with_cheaper_arithmetic(body, graph, run)), places, -1, entries, inline)

    alternative = program(_replaced(body, graph, reverse.other_sums)) if reverse.other_sums else None
    return Adjoint(program(body), depths, delayed, alternative)


def _replaced(body: Iterable[Operation], graph: Graph, nodes: Mapping[int, Node]) -> list[Operation]:
    """The operations with other nodes, by their ids, in the assignments of nests."""
    memo = dict(nodes)

    def replaced(assign: Assign) -> Assign:
        return dataclasses.replace(assign, node=graph.replace([assign.node], lambda read: read, memo, graph.apply_exactly)[0])

    return [dataclasses.replace(each, assigns=tuple(map(replaced, each.assigns))) if isinstance(each, Nest) else each for each in body]


def _joined(part: Part, rules: Rules) -> Part:
    """A part of the transpose of a stage, with the rules of cotangents."""
    if isinstance(part, HostCall):
        return dataclasses.replace(part, outputs=tuple(dataclasses.replace(each, rules=rules) for each in part.outputs))
    return dataclasses.replace(part, rules=rules) if isinstance(part, Assign) else part


def _own_stages(step: TracedStep, parts: Mapping[str, Part], places: Mapping[str, Place]) -> dict[str, tuple[str, Assign]]:
    """Cotangents of stages that equal the next ones of states, apart from those of receivers: name -> state, assignment of the stage."""
    found: dict[str, tuple[str, Assign]] = {}
    for state, placed in step.states.items():
        part = parts.get(f"next {bar(state)}")
        if not isinstance(part, Assign) or part.node.op != "read" or any(part.node.data[1]) or part.fold or placed.region is not None:
            continue
        name = part.node.data[0]
        stage = parts.get(name)
        if isinstance(stage, Assign) and places.get(name) == stage.target == Place(name) and not stage.accumulate:
            found.setdefault(name, (state, stage))
    return found


def _delayed(step: TracedStep, terms: dict[str, dict[Offset, Node]], follows: dict[str, str]) -> dict[str, Node]:
    """Cotangents that need no storage: functions, at the same cell, of stored cotangents and of fields that are constant in time."""
    fixed = step.coefficients.keys() | step.profiles.keys()
    bars = {bar(s) for s in step.states if s not in follows}
    zero = (0,) * step.grid.ndim
    found: dict[str, Node] = {}
    for state in follows:
        contributions = terms.get(state, {})
        used = reads(contributions.values())
        local = contributions.keys() <= {zero} and all(offsets == {zero} for offsets in used.values())
        if local and used.keys() <= fixed | bars:
            found[state] = contributions.get(zero, step.graph.const(0))
    # all followers of one primary, or none: the sums over time levels assume that
    primaries = {step.delays()[s][0] for s in follows if s not in found}
    return {s: node for s, node in found.items() if step.delays()[s][0] not in primaries}


def _follows_directly(step: TracedStep, follower: str, state: str) -> bool:
    node = step.outputs[follower]
    return node.op == "read" and node.data[0] == state


def _bars_read(nodes: Iterable[Node]) -> list[str]:
    return [name for name in reads(nodes) if name.endswith(" bar")]


def _later(name: str, steps: int) -> str:
    return f"{name} {steps} later"


def _at_later(graph: Graph, node: Node, steps: int) -> Node:
    (moved,) = graph.replace(
        [node], lambda read: graph.read(_later(read.data[0], steps), read.data[1]) if read.data[0].endswith(" bar") else read
    )
    return moved


def _needed_stages(stages: Sequence[Stage], parts: Iterable[Part], inline: dict[str, Node], kept: Container[str]) -> list[Stage]:
    """Stages of the primal step that the adjoint reads, and those that they read, in order; without those whose fields are kept."""
    wanted: set[str] = set()
    for part in parts:
        wanted |= needed(part, inline)
    found: list[Stage] = []
    for stage in reversed(stages):
        if any(field.name in wanted and field.name not in kept for field in stage.outputs):
            found.insert(0, stage)
            wanted |= stage.reads().keys()
    return found
