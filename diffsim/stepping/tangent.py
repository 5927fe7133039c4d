"""The tangent-linear equation: every field paired with its tangent.

Its parts are again a traced step and traced maps, so everything that runs or differentiates an equation does the same with its
tangent: the adjoint of the tangent gives second derivatives.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from diffsim.boundary import linear
from diffsim.expr.derive import jvp
from diffsim.expr.graph import Node
from diffsim.stepping.trace import Placed, Stage, TracedMap, TracedStep


def dot(name: str, order: int = 1) -> str:
    """Name of a field's tangent: one that no field of an equation can have, and no tangent of an earlier order."""
    return f"{name} dot" if order == 1 else f"{name} dot {order}"


def with_tangents(placed: Mapping[str, Placed], order: int = 1) -> dict[str, Placed]:
    """Fields, and after them their tangents at the same places."""
    return {**placed, **{dot(name, order): Placed(place.location, linear(place.rules)) for name, place in placed.items()}}


def tangent_map(traced: TracedMap, others: Iterable[str] = (), order: int = 1) -> TracedMap:
    """The map of (inputs, tangents) to (outputs, tangents); it may read `others` with theirs."""
    graph = traced.graph
    moving = {*traced.inputs, *others}

    def tangent_of(read: Node) -> Node | None:
        return graph.read(dot(read.data[0], order), read.data[1]) if read.data[0] in moving else None

    names = list(traced.outputs)
    tangents = jvp(graph, [traced.outputs[name] for name in names], tangent_of)
    outputs = traced.outputs | {dot(name, order): node for name, node in zip(names, tangents, strict=True)}
    return TracedMap(graph, with_tangents(traced.inputs, order), traced.profiles, outputs, with_tangents(traced.placed, order))


def tangent_step(step: TracedStep, order: int = 1) -> TracedStep:
    """The step of (states, tangents), given (coefficients, tangents), linear in the tangents."""
    graph = step.graph
    moving = {*step.states, *step.coefficients, *step.forcings, *(s.name for s in step.stages)}

    def tangent_of(read: Node) -> Node | None:
        name, offset = read.data
        return graph.read(dot(name, order), offset) if name in moving else None

    names = list(step.outputs)
    roots = [s.node for s in step.stages] + [step.outputs[name] for name in names]
    tangents = jvp(graph, roots, tangent_of)
    stages: list[Stage] = []
    for stage, node in zip(step.stages, tangents, strict=False):
        stages += [stage, Stage(stage.location, linear(stage.rules), dot(stage.name, order), node)]
    outputs = dict(step.outputs)
    outputs |= {dot(name, order): node for name, node in zip(names, tangents[len(step.stages) :], strict=True)}
    return TracedStep(
        graph,
        step.grid,
        with_tangents(step.states, order),
        with_tangents(step.coefficients, order),
        step.active | {dot(name, order) for name in step.active},
        step.profiles,
        (*step.forcings, *(dot(name, order) for name in step.forcings)),
        tuple(stages),
        outputs,
    )
