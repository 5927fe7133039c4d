"""How far a step reads: the cells around a cell on which its next value, or its cotangent, depends."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from diffsim.boundary import depth
from diffsim.expr.graph import Node, reads
from diffsim.stepping.derive.programs import Programs
from diffsim.stepping.ir.names import bar
from diffsim.stepping.ir.program import Nest, Place, PointGather, Program
from diffsim.stepping.trace.trace import TracedMap, TracedStep
from diffsim.typing import IntArray

Far = Mapping[str, IntArray]
"""What a value depends on -> how far away along each axis."""
PRIMAL, BARS = "primal", "cotangents"


@dataclass(frozen=True)
class Reach:
    """Cells along each axis.

    Attributes:
        forward: on which a step's next state depends.
        primal: on whose states the adjoint of a step depends, or the residuals that are kept of them.
        bars: on whose later cotangents it depends.
    """

    forward: IntArray
    primal: IntArray
    bars: IntArray

    @property
    def most(self) -> IntArray:
        return np.maximum(self.forward, np.maximum(self.primal, self.bars))


def reach_of(programs: Programs) -> Reach:
    """The reach of a step and of its adjoint."""
    ndim = programs.step.grid.ndim
    walk = _Walk(programs.step)
    forward = walk.farthest(walk.through(programs.forward, {}), PRIMAL)
    primal, bars = np.zeros(ndim, int), np.zeros(ndim, int)
    adjoint, residuals = programs.adjoint, programs.with_residuals
    pairs: list[tuple[Program, Program | None]] = [] if adjoint is None else [(adjoint.program, None)]
    if residuals is not None:
        pairs.append((residuals.adjoint, residuals.forward))
    for backward, before in pairs:
        kept: dict[Place, Far] = {}
        if before is not None:
            everything = walk.through(before, {})
            forward = np.maximum(forward, walk.farthest(everything, PRIMAL))
            assert residuals is not None
            kept = {place: far for place, far in everything.items() if place.array in residuals.names}
        found = walk.through(backward, kept)
        primal, bars = np.maximum(primal, walk.farthest(found, PRIMAL)), np.maximum(bars, walk.farthest(found, BARS))
    return Reach(forward, primal, bars)


class _Walk:
    """Follows the operations of a program from what it starts with to what it computes."""

    def __init__(self, step: TracedStep) -> None:
        self._step, self._none = step, np.zeros(step.grid.ndim, int)
        states = [*step.delays()]
        self._kinds = dict.fromkeys(states, PRIMAL) | dict.fromkeys(map(bar, states), BARS)
        fields = [*step.states.values(), *step.coefficients.values(), *(field for stage in step.stages for field in stage.outputs)]
        # A value beyond a side of the grid may be made of several cells there. The farthest of them is `depth` - 1 from the side.
        self._deep = np.array([max((depth(f.rules[a], n, 16) for f in fields), default=1) - 1 for a, n in enumerate(step.grid.shape)])

    def farthest(self, found: Mapping[Place, Far], kind: str) -> IntArray:
        out = self._none
        for far in found.values():
            out = np.maximum(out, far.get(kind, self._none))
        return out

    def through(self, program: Program, before: Mapping[Place, Far]) -> dict[Place, Far]:
        """Storage -> how far its value depends on what the step starts with."""
        found: dict[Place, Far] = dict(before)
        for number, operation in enumerate(program.operations):
            now: dict[Place, Far] = {}
            if isinstance(operation, Nest):
                for assign in operation.assigns:
                    _merge(now, assign.target, self._of(program, assign.node, found))
                for scatter in operation.scatters:
                    _merge(now, scatter.target, self._of(program, scatter.factor, found))
            elif isinstance(operation, PointGather):
                _merge(now, Place(f"sum at points {number}"), self._of(program, operation.node, found))
            for place, far in now.items():
                _merge(found, place, far)
        return found

    def _of(self, program: Program, node: Node, found: Mapping[Place, Far]) -> Far:
        """What an expression depends on."""
        out: dict[str, IntArray] = {}
        for name, offsets in program.reads([node]).items():
            place = program.places.get(name)
            if place is None:
                continue
            away = np.max(np.abs(np.array(sorted(offsets))), axis=0)
            away = np.where(away > 0, np.maximum(away, self._deep), 0)
            start: Far = found[place] if place in found else {self._kinds[place.array]: self._none} if place.array in self._kinds else {}
            for kind, far in start.items():
                out[kind] = np.maximum(out.get(kind, self._none), far + away)
        return out


def _merge(into: dict[Place, Far], place: Place, far: Far) -> None:
    """Add what a value depends on. One that is added to depends on what it was before too."""
    known = dict(into.get(place, {}))
    for kind, away in far.items():
        known[kind] = np.maximum(known[kind], away) if kind in known else away
    into[place] = known


def reach_of_maps(maps: Iterable[TracedMap]) -> IntArray:
    """How far maps read that are evaluated one after the other."""
    total: IntArray = np.zeros(0, int)
    for each in maps:
        offsets = [offset for found in reads(each.outputs.values()).values() for offset in found]
        ndim = max((len(offset) for offset in offsets), default=0)
        far = np.max(np.abs(np.array(offsets or [(0,) * ndim])), axis=0)
        total = far if not total.size else total + far if far.size else total
    return total
