"""A traced equation in one box of the grid: the same expressions on fewer cells.

The parts are again a traced step and traced maps, so the same code runs and differentiates a box and a whole grid, and a cell has the same
bits in each box. At a side of a box that is no side of the grid, everything outside counts as 0: such values are wrong, and the ghost cells
keep them away from the owned ones.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from diffsim.boundary import Rules, zero_rules
from diffsim.domains.boxes import Box
from diffsim.expr.graph import Node
from diffsim.mesh.field import Region
from diffsim.mesh.grid import Grid
from diffsim.stepping.declare.equation import Profile
from diffsim.stepping.trace.moved import Moved, P
from diffsim.stepping.trace.side_profiles import Beyond, Ones


class Cut(Moved):
    """Cuts a box out of the parts of a traced equation.

    Args:
        box: the box.
        grid: the whole grid.

    Attributes:
        grid: the cells of the box.
    """

    def __init__(self, box: Box, grid: Grid) -> None:
        super().__init__(grid.part(box.wide))
        self.box = box

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

    def _read(self, node: Node) -> tuple[str, tuple[int, ...]]:
        name, offset = node.data
        return name, tuple(offset)
