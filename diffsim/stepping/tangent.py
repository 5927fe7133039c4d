"""The tangent-linear step: the same equation with every state and coefficient paired with its tangent.

It is again a traced step, so everything that runs a step runs it.
"""

from __future__ import annotations

from diffsim.expr.derive import jvp
from diffsim.expr.graph import Node
from diffsim.stepping.trace import Stage, TracedStep


def dot(name: str) -> str:
    """Name of the tangent of a field: one that no field of an equation can have."""
    return f"{name} dot"


def tangent_step(step: TracedStep) -> TracedStep:
    """The step of (states, tangents), given (coefficients, tangents), linear in the tangents."""
    graph = step.graph
    moving = {*step.states, *step.coefficients, *step.forcings, *(s.name for s in step.stages)}

    def tangent_of(read: Node) -> Node | None:
        name, offset = read.data
        return graph.read(dot(name), offset) if name in moving else None

    names = list(step.outputs)
    roots = [s.node for s in step.stages] + [step.outputs[name] for name in names]
    tangents = jvp(graph, roots, tangent_of)
    stages: list[Stage] = []
    for stage, node in zip(step.stages, tangents, strict=False):
        stages += [stage, Stage(stage.location, stage.rules, dot(stage.name), node)]
    outputs = dict(step.outputs)
    outputs |= {dot(name): node for name, node in zip(names, tangents[len(step.stages) :], strict=True)}
    return TracedStep(
        graph,
        step.grid,
        step.states | {dot(name): placed for name, placed in step.states.items()},
        step.coefficients | {dot(name): placed for name, placed in step.coefficients.items()},
        step.active | set(map(dot, step.active)),
        step.profiles,
        (*step.forcings, *map(dot, step.forcings)),
        tuple(stages),
        outputs,
    )
