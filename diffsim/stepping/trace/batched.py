"""Several runs of one step side by side: the same expressions on a grid with one more axis, along which no cell reads another.

The parts of a batch are again a traced step and traced maps. So the same code runs and differentiates one run and many. Nodes keep their
ids, on which the order of operations depends, so each run has the same bits as alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TypeVar

import numpy as np

from diffsim.boundary import after_one_more
from diffsim.expr.graph import Graph, Node
from diffsim.mesh.field import Region
from diffsim.mesh.grid import MAX_DIMENSIONS, Grid
from diffsim.stepping.declare.equation import Profile
from diffsim.stepping.trace.fields import Placed, Stage
from diffsim.stepping.trace.stages import StoredExpression
from diffsim.stepping.trace.trace import Trace, TracedMap, TracedStep

P = TypeVar("P", bound=Placed)


def why_not_batched(step: TracedStep) -> str | None:
    """The part of a step that cannot be computed for several runs at once; None: there is none."""
    if step.grid.ndim == MAX_DIMENSIONS:
        return f"a grid of {MAX_DIMENSIONS} dimensions"
    others = [stage for stage in step.stages if not isinstance(stage, StoredExpression)]
    if others:
        return f"a stage of the kind {type(others[0]).__name__}, which reads all cells"
    numbers = [name for name, placed in step.states.items() if placed.axes is not None]
    return f"a state that is a number, {numbers[0]}" if numbers else None


class Batched:
    """Adds an axis of runs, before the others, to the parts of a traced equation.

    Attributes:
        grid: grid of all runs.
    """

    def __init__(self, grid: Grid, runs: int) -> None:
        self.grid = grid.repeated(runs, "run")

    def step(self, step: TracedStep) -> TracedStep:
        """The step of all runs."""
        states, coefficients = self._placed(step.states), self._placed(step.coefficients)
        graph = Trace(self.grid, step.graph.dt, states, coefficients, step.graph.reduce_by)
        nodes = step.graph.copied_to(graph, _read)
        stages: list[Stage] = []
        for stage in step.stages:
            assert isinstance(stage, StoredExpression)
            stages.append(replace(self._field(stage), node=nodes[stage.node.id]))
        return replace(
            step,
            graph=graph,
            grid=self.grid,
            states=states,
            coefficients=coefficients,
            profiles=_profiles(step.profiles),
            series={name: replace(self._field(field), axes=_later(field.axes or ())) for name, field in step.series.items()},
            stages=tuple(stages),
            outputs={name: nodes[node.id] for name, node in step.outputs.items()},
        )

    def map(self, traced: TracedMap) -> TracedMap:
        """The map of all runs, whose inputs all vary from run to run."""
        graph = Graph()
        nodes = traced.graph.copied_to(graph, _read)
        outputs = {name: nodes[node.id] for name, node in traced.outputs.items()}
        return TracedMap(graph, self._placed(traced.inputs), _profiles(traced.profiles), outputs, self._placed(traced.placed))

    def _placed(self, fields: Mapping[str, Placed]) -> dict[str, Placed]:
        return {name: self._field(field) for name, field in fields.items()}

    def _field(self, field: P) -> P:
        """A field that varies from run to run."""
        region = None if field.region is None else Region(np.broadcast_to(field.region.inside, self.grid.shape))
        axes = None if field.axes is None else (0, *_later(field.axes))
        return replace(field, location=(0, *field.location), rules=after_one_more(field.rules), region=region, axes=axes)


def _read(node: Node) -> tuple[str, tuple[int, ...]]:
    """The data of a read within the same run."""
    name, offset = node.data
    return name, (0, *offset)


def _later(axes: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(axis + 1 for axis in axes)


def _profiles(profiles: Mapping[str, Profile]) -> dict[str, Profile]:
    return {name: profile.after_one_more() for name, profile in profiles.items()}
