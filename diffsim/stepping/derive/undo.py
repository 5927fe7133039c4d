"""The program that undoes a step: from the states after a step to those before it.

For each state, the value that a step overwrites is computed from the values after the step. That works if the next value depends on it
in a simple way: u_next = B u_oldest + rest, at the same cell, so u_oldest = (rest - u_next) / -B. The rest may read values that are known
after the step, and values that are already computed. That undoes leap-frogs, with B = -1, and staggered schemes, which update one field
after the other and are undone in opposite order.

Where |B| < 1 the step damps, and in the run backwards rounding errors grow by 1 / |B| a step. There the overwritten values are stored
instead (`diffsim.stepping.run.strips`).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass

from diffsim.expr.derive import jvp
from diffsim.expr.graph import Graph, Node, ordered, reads
from diffsim.stepping.derive.forward import arranged, own_stages, ring_depths, source_points, source_stream, split_forcings
from diffsim.stepping.ir.names import strip
from diffsim.stepping.ir.program import Assign, Nest, Part, Place, PointScatter, Program, Strip
from diffsim.stepping.trace.stages import StoredExpression
from diffsim.stepping.trace.trace import TracedStep


@dataclass(frozen=True)
class Undo:
    """The program that undoes steps.

    Attributes:
        program: computes the values that a step overwrote. Its time levels are those of the forward program in opposite order: entry 0 is
            the newest, and the last one is written.
        factors: B of each state with its own storage, an expression of coefficients and profiles.
    """

    program: Program
    factors: dict[str, Node]

    def with_strips(self, forward: Program, states: Sequence[str]) -> tuple[Program, Program]:
        """The forward program that also stores the overwritten values of these states in strips, and the program that restores them."""
        keeps = tuple(Strip(Place(state, 0), strip(state)) for state in states)
        of = "_".join(states)
        keeping = dataclasses.replace(forward, name=f"{forward.name}_keeping_{of}", operations=(*keeps, *forward.operations))
        back = []
        for operation in self.program.operations:
            assert isinstance(operation, Nest)
            kept = [assign.target for assign in operation.assigns if assign.target.array in states]
            back.append(dataclasses.replace(operation, restores=tuple(Strip(place, strip(place.array)) for place in kept)))
        return keeping, dataclasses.replace(self.program, name=f"{self.program.name}_from_strips_of_{of}", operations=tuple(back))


def undo(step: TracedStep) -> Undo | None:
    """The program that undoes the step, or None if there is none."""
    stages = [s for s in step.stages if isinstance(s, StoredExpression)]
    if len(stages) < len(step.stages):  # no inverse is known for stages that are no expressions
        return None
    graph, depths, delays, own = step.graph, ring_depths(step), step.delays(), own_stages(step, step.outputs)
    outputs, forcings = split_forcings(step)
    fixed = {*step.coefficients, *step.profiles}
    places = {name: Place(name) for name in step.fixed} | {name: Place(primary, late + 1) for name, (primary, late) in delays.items()}
    places |= {s.name: Place(own[s.name], 0) if s.name in own else Place(s.name) for s in stages}
    places |= {f"next {state}": Place(state, 0) for state in depths}
    hidden: dict[str, StoredExpression | str] = {s.name: s for s in stages if s.name not in own}  # fields that are not computed yet
    hidden |= {name: primary for name, (primary, late) in delays.items() if late == depths[primary] - 1}
    following = {primary: outputs[primary] for primary in depths} | {own[s.name]: s.node for s in stages if s.name in own}
    assigns: dict[str, Part] = {}
    factors: dict[str, Node] = {}
    while hidden:
        for name, what in hidden.items():
            others = hidden.keys() - {name}
            if isinstance(what, StoredExpression):
                if not reads([what.node]).keys() & others:
                    assigns[name] = Assign(places[name], what.node, what.rules)
                    break
            elif not reads([following[what]]).keys() & others and (factor := _factor(graph, following[what], name, fixed)) is not None:
                factors[what] = factor
                (rest,) = graph.replace([following[what]], lambda read, name=name: graph.const(0) if read.data[0] == name else read)  # type: ignore[misc]
                back = graph.div(graph.sub(rest, graph.read(f"next {what}", (0,) * step.grid.ndim)), graph.negative(factor))
                assigns[name] = Assign(places[name], back, step.states[what].rules)
                break
        else:
            return None
        del hidden[name]
    scatters = []
    for state, forcing, strength in forcings:
        given = graph.div(strength, graph.negative(factors[state]))
        scatters.append(PointScatter(Place(state, depths[state]), given, source_points(forcing), source_stream(forcing)))
    entries = {state: depth + 1 for state, depth in depths.items()}
    return Undo(Program("undo", tuple(arranged(assigns, scatters)), places, -1, entries), factors)


def why_not(step: TracedStep) -> str:
    """The reason why a step cannot be undone, as text."""
    if all(isinstance(s, StoredExpression) for s in step.stages):
        return "its oldest values do not follow from the newer ones"
    return "one of its stages is a function on the host, a solution or a number of all cells, and no inverse of that is known"


STEPWISE = ("lt", "le", "eq", "and", "or", "not", "floor")
"""Operations whose derivative is 0, though they are not constant."""


def _factor(graph: Graph, node: Node, name: str, fixed: set[str]) -> Node | None:
    """B, if node = B name + rest, at the same cell, with B a function of fixed fields alone; otherwise None."""
    here = reads([node]).get(name)
    if here is None or any(any(offset) for offset in here) or decided_by(node, name):
        return None
    (factor,) = jvp(graph, [node], lambda read: graph.const(1) if read.data[0] == name else None)
    simple = reads([factor]).keys() <= fixed and not (factor.op == "const" and factor.data == 0)
    return factor if simple else None


def decided_by(node: Node, name: str) -> bool:
    """Whether a condition or a rounding in the expression depends on a field. Then the expression is not linear in it."""
    depend: set[int] = set()
    for each in ordered([node]):
        if (each.op == "read" and each.data[0] == name) or any(a.id in depend for a in each.args):
            if each.op in STEPWISE:
                return True
            depend.add(each.id)
    return False
