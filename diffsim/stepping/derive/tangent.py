"""The tangent-linear equation: every field paired with its tangent.

Its parts are again a traced step and traced maps. So the same code runs and differentiates an equation and its tangent, and the
adjoint of the tangent gives second derivatives.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from diffsim.boundary import linear
from diffsim.expr.derive import Singular, jvp
from diffsim.expr.graph import Node
from diffsim.stepping.ir.names import dot
from diffsim.stepping.trace.fields import Placed, Stage
from diffsim.stepping.trace.stages import unbounded_stages, written_by
from diffsim.stepping.trace.trace import TracedMap, TracedStep


def with_tangents(placed: Mapping[str, Placed], order: int = 1) -> dict[str, Placed]:
    """Fields, followed by their tangents at the same locations."""
    return {**placed, **{dot(name, order): replace(place, rules=linear(place.rules)) for name, place in placed.items()}}


def tangent_map(traced: TracedMap, others: Iterable[str] = (), order: int = 1) -> TracedMap:
    """The map from (inputs, tangents) to (outputs, tangents). It may read `others` with their tangents."""
    graph = traced.graph
    moving = {*traced.inputs, *others}

    def tangent_of(read: Node) -> Node | None:
        return graph.read(dot(read.data[0], order), read.data[1]) if read.data[0] in moving else None

    names = list(traced.outputs)
    tangents = jvp(graph, [traced.outputs[name] for name in names], tangent_of)
    outputs = traced.outputs | {dot(name, order): node for name, node in zip(names, tangents, strict=True)}
    return TracedMap(graph, with_tangents(traced.inputs, order), traced.profiles, outputs, with_tangents(traced.placed, order))


def tangent_step(step: TracedStep, order: int = 1) -> TracedStep:
    """The step of (states, tangents) for given (coefficients, tangents). It is linear in the tangents."""
    graph = step.graph
    moving = {*step.states, *step.coefficients, *step.series, *step.forcings, *written_by(step.stages)}

    def tangent_of(read: Node) -> Node | None:
        name, offset = read.data
        return graph.read(dot(name, order), offset) if name in moving else None

    stages: list[Stage] = []

    def derive(roots: list[Node]) -> list[Node]:
        return jvp(graph, roots, tangent_of, Singular(unbounded=unbounded_stages(stages)))

    for stage in step.stages:
        stages += stage.with_tangents(graph, order, derive)
    tangents = derive(list(step.outputs.values()))
    outputs = step.outputs | {dot(name, order): node for name, node in zip(step.outputs, tangents, strict=True)}
    return TracedStep(
        graph,
        step.grid,
        with_tangents(step.states, order),
        with_tangents(step.coefficients, order),
        step.active | {dot(name, order) for name in step.active},
        step.profiles,
        (*step.forcings, *(dot(name, order) for name in step.forcings)),
        with_tangents(step.series, order),
        step.clock,
        tuple(stages),
        outputs,
    )
