"""The program of the forward step."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from diffsim.errors import TraceError
from diffsim.expr.derive import jvp
from diffsim.expr.graph import Graph, Node, ordered, reads
from diffsim.stepping.program import Assign, Nest, Operation, Place, PointGather, PointScatter, Program, stored_reads
from diffsim.stepping.trace import TracedStep


def ring_depths(step: TracedStep) -> dict[str, int]:
    """States that have storage of their own -> how many earlier time levels a step reads."""
    depths: dict[str, int] = {}
    for primary, steps in step.delays().values():
        depths[primary] = max(depths.get(primary, 1), steps + 1)
    return depths


def source_points(forcing: str) -> str:
    return f"points of {forcing}"


def source_stream(forcing: str) -> str:
    return f"amplitudes of {forcing}"


def receiver_points(state: str) -> str:
    return f"points at {state}"


def receiver_stream(state: str) -> str:
    return f"traces of {state}"


def forward_program(step: TracedStep, records: Iterable[str], name: str = "forward") -> Program:
    """Advance every state by one step, inject the forcings, record the states named in `records`.

    Args:
        step: the traced step.
        records: states sampled at receivers after each step, at stream row n + 1 after step n.
        name: name of the kernel.
    """
    delays, depths = step.delays(), ring_depths(step)
    places = {name: Place(primary, depths[primary] - 1 - steps) for name, (primary, steps) in delays.items()}
    places |= {name: Place(name) for name in (*step.coefficients, *step.profiles)}
    outputs, forcings = split_forcings(step)
    own = own_stages(step)
    targets = {s.name: Place(own[s.name], depths[own[s.name]]) if s.name in own else Place(s.name) for s in step.stages}
    places |= targets
    outputs = {state: node for state, node in outputs.items() if state not in own.values()}
    assigns: dict[str, Assign] = {s.name: Assign(targets[s.name], s.node, s.rules) for s in step.stages}
    for state in depths:
        if state in outputs:
            assigns[f"next {state}"] = Assign(Place(state, depths[state]), outputs[state], step.states[state].rules)
    operations: list[Operation] = list(nests(assigns, _scatters(step, forcings, depths)))
    for state in records:
        now = step.graph.read(f"next {state}", (0,) * step.grid.ndim)
        places[f"next {state}"] = Place(state, depths[state])
        operations.append(PointGather(now, receiver_points(state), receiver_stream(state), 1))
    return Program(name, tuple(operations), places, +1, {state: depth + 1 for state, depth in depths.items()})


def own_stages(step: TracedStep) -> dict[str, str]:
    """Stages that are the next value of a state with storage of its own, and are stored as that: stage -> state."""
    found: dict[str, str] = {}
    for stage in step.stages:
        for state in ring_depths(step):
            same = _is_read(step.outputs[state], stage.name) and step.states[state].rules == stage.rules
            if same and state not in found.values():
                found[stage.name] = state
                break
    return found


def nests(assigns: dict[str, Assign], scatters: list[PointScatter], inline: Mapping[str, Node] | None = None) -> list[Nest]:
    """Group assignments into as few loop nests as their dependences allow.

    Args:
        assigns: name under which others read the result -> assignment, in an order in which they could run.
        scatters: point sums, each put where its target is assigned (or in the last nest).
        inline: fields that are not stored.
    """
    level: dict[str, int] = {}
    for name, assign in assigns.items():
        needed = stored_reads([assign.node], inline or {})
        level[name] = 1 + max((level[other] for other in needed if other in level), default=-1)
    out = []
    for depth in range(max(level.values(), default=-1) + 1):
        here = tuple(a for name, a in assigns.items() if level[name] == depth)
        out.append(Nest(here, tuple(s for s in scatters if any(s.target == a.target for a in here))))
    placed = [s for nest in out for s in nest.scatters]
    rest = tuple(s for s in scatters if s not in placed)
    if rest:
        last = out.pop() if out else Nest(())
        out.append(Nest(last.assigns, last.scatters + rest))
    return out


def split_forcings(step: TracedStep) -> tuple[dict[str, Node], list[tuple[str, str, Node]]]:
    """Each output without its point sources, and the point sources as (state, forcing, factor).

    Raises:
        TraceError: a forcing enters a stage, or not linearly, or with a factor that varies in time or reads neighbours.
    """
    graph = step.graph
    wanted = set(step.forcings)
    for stage in step.stages:
        if wanted & reads([stage.node]).keys():
            raise TraceError(f"a forcing enters a stored stage ({stage.name}); add it to the next value of a state")
    outputs: dict[str, Node] = {}
    found: list[tuple[str, str, Node]] = []
    for state, node in step.outputs.items():
        outputs[state] = _without(graph, node, wanted)
        for forcing in sorted(wanted & reads([node]).keys()):
            factor = _derivative(graph, node, forcing)
            used = reads([factor])
            fixed = used.keys() <= step.coefficients.keys() | step.profiles.keys()
            if not fixed or any(any(offset) for offsets in used.values() for offset in offsets):
                raise TraceError(
                    f"forcing {forcing} enters {state} with a factor that is not a function of the coefficients at the same cell; "
                    "make the step linear in it"
                )
            found.append((state, forcing, factor))
    return outputs, found


def _scatters(step: TracedStep, forcings: list[tuple[str, str, Node]], depths: dict[str, int]) -> list[PointScatter]:
    out = []
    for state, forcing, factor in forcings:
        if state not in depths:
            raise TraceError(f"forcing {forcing} enters {state}, which is an earlier value of another state; add it to that one")
        out.append(PointScatter(Place(state, depths[state]), factor, source_points(forcing), source_stream(forcing), 0))
    return out


def _derivative(graph: Graph, node: Node, field: str) -> Node:
    zero = (0,) * len(next(iter(reads([node])[field])))
    if reads([node])[field] != {zero}:
        raise TraceError(f"forcing {field} is read at a neighbouring cell; a point source acts on its own cell")
    (factor,) = jvp(graph, [node], lambda read: graph.const(1) if read.data[0] == field else None)
    if field in reads([factor]):
        raise TraceError(f"the step is not linear in forcing {field}; write it as a term of its own")
    return factor


def _without(graph: Graph, node: Node, fields: set[str]) -> Node:
    if not any(n.op == "read" and n.data[0] in fields for n in ordered([node])):
        return node
    (clean,) = graph.replace([node], lambda read: graph.const(0) if read.data[0] in fields else read)
    return clean


def _is_read(node: Node, name: str) -> bool:
    return node.op == "read" and node.data[0] == name and not any(node.data[1])
