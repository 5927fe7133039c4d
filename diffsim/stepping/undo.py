"""The program that takes a step back: from the states after a step to those before it.

The next value of a leap-frog depends on the oldest one that it reads in a simple way: u_next = B u_oldest + rest, at the same cell. So
u_oldest = (rest - u_next) / -B, which is found from the expression of the step; where B = -1 that is the leap-frog itself, run backwards.
"""

from __future__ import annotations

from diffsim.expr.derive import jvp
from diffsim.expr.graph import Node, reads
from diffsim.stepping.forward import nests, ring_depths, source_points, source_stream, split_forcings
from diffsim.stepping.program import Assign, Place, PointScatter, Program
from diffsim.stepping.trace import TracedStep


def undo_program(step: TracedStep) -> Program | None:
    """The program, or None if the step cannot be undone in this way.

    Its time levels are those of the forward program in opposite order: entry 0 is the newest, the last one is written.
    """
    graph, depths, delays = step.graph, ring_depths(step), step.delays()
    zero = (0,) * step.grid.ndim
    outputs, forcings = split_forcings(step)
    places = {name: Place(name) for name in (*step.coefficients, *step.profiles)}
    places |= {s.name: Place(s.name) for s in step.stages}
    oldest: dict[str, str] = {}
    for name, (primary, late) in delays.items():
        if late == depths[primary] - 1:
            oldest[primary] = name
        places[name] = Place(primary, late + 1)
    assigns: dict[str, Assign] = {s.name: Assign(Place(s.name), s.node, s.rules) for s in step.stages}
    if any(set(oldest.values()) & reads([s.node]).keys() for s in step.stages):
        return None
    factors: dict[str, Node] = {}  # -B
    for primary, depth in depths.items():
        node, unknown = outputs[primary], oldest[primary]
        used = reads([node])
        if depth < 2 or used.get(unknown) != {zero} or any(other in used for p, other in oldest.items() if p != primary):
            return None
        (factor,) = jvp(graph, [node], lambda read, unknown=unknown: graph.const(1) if read.data[0] == unknown else None)  # type: ignore[misc]
        if not reads([factor]).keys() <= step.coefficients.keys() | step.profiles.keys():
            return None
        (rest,) = graph.replace([node], lambda read, unknown=unknown: graph.const(0) if read.data[0] == unknown else read)  # type: ignore[misc]
        following = f"next {primary}"
        places[following] = Place(primary, 0)
        factors[primary] = graph.negative(factor)
        back = graph.div(graph.sub(rest, graph.read(following, zero)), factors[primary])
        assigns[f"before {primary}"] = Assign(Place(primary, depth), back, step.states[primary].rules)
    scatters = []
    for state, forcing, strength in forcings:
        given = graph.div(strength, factors[state])
        scatters.append(PointScatter(Place(state, depths[state]), given, source_points(forcing), source_stream(forcing), 0))
    return Program("undo", tuple(nests(assigns, scatters)), places, -1, {state: depth + 1 for state, depth in depths.items()})
