"""A traced equation on another grid. Nodes keep their ids, on which the order of operations depends."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import replace
from typing import TypeVar

from diffsim.expr.graph import Graph, Node
from diffsim.mesh.grid import Grid
from diffsim.stepping.declare.equation import Profile
from diffsim.stepping.trace.fields import Placed, Stage
from diffsim.stepping.trace.reductions import Reduction
from diffsim.stepping.trace.stages import StoredExpression
from diffsim.stepping.trace.trace import Trace, TracedMap, TracedStep

P = TypeVar("P", bound=Placed)


class Moved(ABC):
    """Moves the parts of a traced equation to another grid.

    Attributes:
        grid: the other grid.
    """

    def __init__(self, grid: Grid) -> None:
        self.grid = grid

    def step(self, step: TracedStep) -> TracedStep:
        """The step on the other grid."""
        states, coefficients = self._placed(step.states), self._placed(step.coefficients)
        graph = Trace(self.grid, step.graph.dt, states, coefficients, step.graph.reduce_by)
        nodes = step.graph.copied_to(graph, self._read)
        stages: list[Stage] = []
        for stage in step.stages:
            if isinstance(stage, Reduction):
                stages.append(replace(stage, output=self._field(stage.output)))
                continue
            assert isinstance(stage, StoredExpression)  # others are refused
            stages.append(replace(self._field(stage), node=nodes[stage.node.id]))
        return replace(
            step,
            graph=graph,
            grid=self.grid,
            states=states,
            coefficients=coefficients,
            profiles=self._profiles(step.profiles),
            series=self._series(step.series),
            stages=tuple(stages),
            outputs={name: nodes[node.id] for name, node in step.outputs.items()},
        )

    def map(self, traced: TracedMap) -> TracedMap:
        """The map on the other grid."""
        graph = Graph()
        nodes = traced.graph.copied_to(graph, self._read)
        return replace(
            traced,
            graph=graph,
            inputs=self._placed(traced.inputs),
            profiles=self._profiles(traced.profiles),
            outputs={name: nodes[node.id] for name, node in traced.outputs.items()},
            placed=self._placed(traced.placed),
        )

    def _placed(self, fields: Mapping[str, Placed]) -> dict[str, Placed]:
        return {name: self._field(field) for name, field in fields.items()}

    def _series(self, fields: Mapping[str, Placed]) -> dict[str, Placed]:
        return self._placed(fields)

    def _profiles(self, profiles: Mapping[str, Profile]) -> dict[str, Profile]:
        return {name: self._profile(profile) for name, profile in profiles.items()}

    @abstractmethod
    def _field(self, field: P) -> P:
        """A field there."""

    @abstractmethod
    def _profile(self, profile: Profile) -> Profile:
        """A profile there."""

    @abstractmethod
    def _read(self, node: Node) -> tuple[str, tuple[int, ...]]:
        """The data of a read there."""
