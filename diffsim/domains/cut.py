"""A traced equation in one box of the grid: the same expressions on fewer cells.

The parts are again a traced step and traced maps, so the same code runs and differentiates a box and a whole grid. Nodes keep their ids, on
which the order of operations depends, so a cell has the same bits in each box. At a side of a box that is no side of the grid, everything
outside counts as 0: such values are wrong, and the ghost cells keep them away from the owned ones.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TypeVar

import numpy as np

from diffsim.boundary import Rules, zero_rules
from diffsim.domains.boxes import Box
from diffsim.expr.graph import Graph, Node
from diffsim.mesh.field import Region
from diffsim.mesh.grid import Grid
from diffsim.stepping.declare.equation import Profile
from diffsim.stepping.trace.fields import Placed, Stage
from diffsim.stepping.trace.reductions import Reduction
from diffsim.stepping.trace.side_profiles import Beyond, Ones
from diffsim.stepping.trace.stages import StoredExpression
from diffsim.stepping.trace.trace import Trace, TracedMap, TracedStep

P = TypeVar("P", bound=Placed)


class Cut:
    """Cuts a box out of the parts of a traced equation.

    Args:
        box: the box.
        grid: the whole grid.

    Attributes:
        grid: the cells of the box.
    """

    def __init__(self, box: Box, grid: Grid) -> None:
        self.box, self.grid = box, grid.part(box.wide)

    def step(self, step: TracedStep) -> TracedStep:
        """The step in the box."""
        states, coefficients = self._placed(step.states), self._placed(step.coefficients)
        graph = Trace(self.grid, step.graph.dt, states, coefficients, step.graph.reduce_by)
        nodes = step.graph.copied_to(graph, _data)
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
            series=self._placed(step.series),
            stages=tuple(stages),
            outputs={name: nodes[node.id] for name, node in step.outputs.items()},
        )

    def map(self, traced: TracedMap) -> TracedMap:
        """The map in the box."""
        graph = Graph()
        nodes = traced.graph.copied_to(graph, _data)
        outputs = {name: nodes[node.id] for name, node in traced.outputs.items()}
        return replace(
            traced,
            graph=graph,
            inputs=self._placed(traced.inputs),
            profiles=self._profiles(traced.profiles),
            outputs=outputs,
            placed=self._placed(traced.placed),
        )

    def _placed(self, fields: Mapping[str, Placed]) -> dict[str, Placed]:
        return {name: self._field(field) for name, field in fields.items()}

    def _field(self, field: P) -> P:
        region = None if field.region is None else Region(np.ascontiguousarray(self.box.cut(field.region.inside)))
        return replace(field, rules=self._rules(field.rules), region=region)

    def _rules(self, rules: Rules) -> Rules:
        zero = zero_rules(len(rules))
        out = []
        for axis, (low, high) in enumerate(rules):
            at_low, at_high = self.box.real(axis)
            out.append((low if at_low else zero[axis][0], high if at_high else zero[axis][1]))
        return tuple(out)

    def _profiles(self, profiles: Mapping[str, Profile]) -> dict[str, Profile]:
        return {name: self._profile(profile) for name, profile in profiles.items()}

    def _profile(self, profile: Profile) -> Profile:
        values = np.ascontiguousarray(self.box.cut(np.asarray(profile.values), (profile.axis,)))
        if isinstance(profile, Beyond):
            assert profile.side is not None
            at_low, at_high = self.box.real(profile.axis)
            if not (at_high if profile.side.place.high else at_low):
                return Profile(profile.axis, values, profile.location)
        if isinstance(profile, Ones):
            assert profile.sides is not None
            before = zero_rules(profile.axis)
            sides = self._rules((*before, profile.sides, *zero_rules(len(self.box.grid))[profile.axis + 1 :]))[profile.axis]
            return replace(profile, values=values, sides=sides)
        return replace(profile, values=values)


def _data(node: Node) -> tuple[str, tuple[int, ...]]:
    name, offset = node.data
    return name, tuple(offset)
