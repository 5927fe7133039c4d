"""The program of the forward step."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from diffsim.errors import TraceError
from diffsim.expr.derive import jvp
from diffsim.expr.graph import Graph, Node, ordered, reads
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
from diffsim.stepping.trace.stages import StoredExpression, written_by
from diffsim.stepping.trace.trace import TracedStep


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


def forward_program(step: TracedStep, receivers: Iterable[str], name: str = "forward", points_last: bool = False) -> Program:
    """Advance every state by one step, inject the forcings, and sample the states named in `receivers`.

    Args:
        step: the traced step.
        receivers: states sampled at receivers after each step, at stream row n + 1 after step n.
        name: name of the kernel.
        points_last: whether a state that is a stage and point sources is stored once: as the stage, to which the sources are added last,
            when nothing reads the stage any more. Otherwise it is a copy of the stage.
    """
    delays, depths = step.delays(), ring_depths(step)
    places = {name: Place(primary, depths[primary] - 1 - steps) for name, (primary, steps) in delays.items()}
    places |= {name: Place(name) for name in step.fixed}
    outputs, forcings = split_forcings(step)
    own = own_stages(step, outputs if points_last else step.outputs)
    targets = {name: Place(own[name], depths[own[name]]) if name in own else Place(name) for name in written_by(step.stages)}
    places |= targets
    outputs = {state: node for state, node in outputs.items() if state not in own.values()}
    parts: dict[str, Part] = {s.name: s.operation(targets) for s in step.stages}
    for state in depths:
        if state in outputs:
            parts[f"next {state}"] = Assign(Place(state, depths[state]), outputs[state], step.states[state].rules)
    inline: dict[str, Node] = {}
    for loop in (part for part in parts.values() if isinstance(part, Loop)):
        places |= loop.places
        inline |= loop.inline
    scatters = _scatters(forcings, depths)
    last = tuple(scatter for scatter in scatters if scatter.target.array in own.values())
    operations = arranged(parts, [scatter for scatter in scatters if scatter not in last])
    if last:
        changed = {scatter.target for scatter in last}
        stages = tuple(part for part in parts.values() if isinstance(part, Assign) and part.target in changed)
        operations.append(Nest((), last, refills=stages))
    for state in receivers:
        now = step.graph.read(f"next {state}", (0,) * step.grid.ndim)
        places[f"next {state}"] = Place(state, depths[state])
        operations.append(PointGather(now, receiver_points(state), receiver_stream(state), 1))
    return Program(name, tuple(operations), places, +1, {state: depth + 1 for state, depth in depths.items()}, inline)


def own_stages(step: TracedStep, outputs: Mapping[str, Node]) -> dict[str, str]:
    """Fields of stages that equal the next value of a state with its own storage, and are stored there: field -> state.

    Args:
        step: the traced step.
        outputs: the next values of the states. Without point sources, stages that are expressions need only equal that.
    """
    found: dict[str, str] = {}
    for stage in (stage for stage in step.stages if stage.movable):
        values = outputs if isinstance(stage, StoredExpression) else step.outputs
        for field in written_by([stage]).values():
            for state in ring_depths(step):
                placed = step.states[state]
                same = _is_read(values[state], field.name) and placed.rules == field.rules and placed.region is None
                if same and state not in found.values():
                    found[field.name] = state
                    break
    return found


def arranged(parts: Mapping[str, Part], scatters: Sequence[PointScatter], inline: Mapping[str, Node] | None = None) -> list[Operation]:
    """Group assignments into the fewest loop nests and the fewest calls of host functions that their dependences allow.

    Args:
        parts: the parts in a possible order of execution. The key of an assignment is the name under which others read its result.
        scatters: point sums. Each goes to the nest that assigns its target (or to the last nest).
        inline: fields that are not stored.
    """
    levels = _levels(parts, inline or {})
    out: list[Operation] = []
    for depth in range(max(levels.values(), default=-1) + 1):
        here = [part for name, part in parts.items() if levels[name] == depth]
        assigns = tuple(part for part in here if isinstance(part, Assign))
        if assigns:
            out.append(Nest(assigns, tuple(s for s in scatters if any(s.target == a.target for a in assigns))))
        out += [part for part in here if isinstance(part, HostCall)]
        for loop in (part for part in here if isinstance(part, Loop)):
            out += [Nest(loop.first), loop]
        totals = [part.by_rows() for part in here if isinstance(part, Total)]
        out += [total[0] for total in totals] + [total[1] for total in totals if len(total) > 1]
    placed = [s for operation in out if isinstance(operation, Nest) for s in operation.scatters]
    rest = tuple(s for s in scatters if s not in placed)
    if rest:
        last = out.pop() if out and isinstance(out[-1], Nest) else Nest(())
        assert isinstance(last, Nest)
        out.append(Nest(last.assigns, last.scatters + rest))
    return out


def _levels(parts: Mapping[str, Part], inline: Mapping[str, Node]) -> dict[str, int]:
    """For each part: the length of the longest chain of parts that it depends on."""
    levels: dict[str, int] = {}
    known: dict[str, int] = {}
    for name, part in parts.items():
        levels[name] = 1 + max((known[other] for other in needed(part, inline) if other in known), default=-1)
        known |= dict.fromkeys(written(name, part), levels[name])
    return levels


def split_forcings(step: TracedStep) -> tuple[dict[str, Node], list[tuple[str, str, Node]]]:
    """Each output without its point sources, and the point sources as (state, forcing, factor).

    Raises:
        TraceError: a forcing enters a stage, or not linearly, or with a factor that varies in time or reads neighbours.
    """
    graph = step.graph
    wanted = set(step.forcings)
    for stage in step.stages:
        if wanted & stage.reads().keys():
            raise TraceError(f"a forcing enters a stored stage ({stage.name}); add it to the next value of a state")
    outputs: dict[str, Node] = {}
    found: list[tuple[str, str, Node]] = []
    for state, node in step.outputs.items():
        outputs[state] = _without(graph, node, wanted)
        for forcing in sorted(wanted & reads([node]).keys()):
            if step.states[state].axes is not None:
                raise TraceError(f"forcing {forcing} enters {state}, which has axes = {step.states[state].axes}; use a series for it")
            factor = _derivative(graph, node, forcing)
            used = reads([factor])
            fixed = used.keys() <= step.coefficients.keys() | step.profiles.keys()
            if not fixed or any(any(offset) for offsets in used.values() for offset in offsets):
                raise TraceError(
                    f"forcing {forcing} enters {state} with a factor that is not a function of the coefficients and profiles at the same "
                    "cell; make the step linear in it, with such a factor"
                )
            found.append((state, forcing, factor))
    return outputs, found


def _scatters(forcings: list[tuple[str, str, Node]], depths: dict[str, int]) -> list[PointScatter]:
    out = []
    for state, forcing, factor in forcings:
        if state not in depths:
            raise TraceError(f"forcing {forcing} enters {state}, which is an earlier value of another state; add it to that one")
        out.append(PointScatter(Place(state, depths[state]), factor, source_points(forcing), source_stream(forcing)))
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
