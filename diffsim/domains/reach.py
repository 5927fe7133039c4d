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
from diffsim.stepping.trace.fields import Placed
from diffsim.stepping.trace.trace import TracedMap, TracedStep
from diffsim.typing import IntArray

Far = Mapping[str, IntArray]
"""A kind of values on which another one depends -> how far away they are along each axis."""
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
        known = walk.through(backward, kept)
        primal, bars = np.maximum(primal, walk.farthest(known, PRIMAL)), np.maximum(bars, walk.farthest(known, BARS))
    return Reach(forward, primal, bars)


class _Walk:
    """Follows the operations of a program from what it starts with to what it computes."""

    def __init__(self, step: TracedStep) -> None:
        self._step, self._none = step, np.zeros(step.grid.ndim, int)
        states = [*step.delays()]
        self._kinds = dict.fromkeys(states, PRIMAL) | dict.fromkeys(map(bar, states), BARS)
        fields = [*step.states.values(), *step.coefficients.values(), *(field for stage in step.stages for field in stage.outputs)]
        self._deep = _deep(fields, step.grid.shape)

    def farthest(self, known: Mapping[Place, Far], kind: str) -> IntArray:
        out = self._none
        for far in known.values():
            out = np.maximum(out, far.get(kind, self._none))
        return out

    def through(self, program: Program, before: Mapping[Place, Far]) -> dict[Place, Far]:
        """Storage -> how far its value depends on what the step starts with."""
        known: dict[Place, Far] = dict(before)
        for number, operation in enumerate(program.operations):
            now: dict[Place, Far] = {}
            if isinstance(operation, Nest):
                for assign in operation.assigns:
                    _merge(now, assign.target, self._of(program, assign.node, known))
                for scatter in operation.scatters:
                    _merge(now, scatter.target, self._of(program, scatter.factor, known))
            elif isinstance(operation, PointGather):
                _merge(now, Place(f"sum at points {number}"), self._of(program, operation.node, known))
            for place, far in now.items():
                _merge(known, place, far)
        return known

    def _of(self, program: Program, node: Node, known: Mapping[Place, Far]) -> Far:
        """The dependences of an expression."""
        out: dict[str, IntArray] = {}
        for name, offsets in program.reads([node]).items():
            place = program.places.get(name)
            if place is None:
                continue
            away = np.max(np.abs(np.array(sorted(offsets))), axis=0)
            away = np.where(away > 0, np.maximum(away, self._deep), 0)
            start: Far = known[place] if place in known else {self._kinds[place.array]: self._none} if place.array in self._kinds else {}
            for kind, far in start.items():
                out[kind] = np.maximum(out.get(kind, self._none), far + away)
        return out


def _merge(into: dict[Place, Far], place: Place, far: Far) -> None:
    """Add what a value depends on. One that is added to depends on what it was before too."""
    total = dict(into.get(place, {}))
    for kind, away in far.items():
        total[kind] = np.maximum(total[kind], away) if kind in total else away
    into[place] = total


def _deep(fields: Iterable[Placed], shape: tuple[int, ...]) -> IntArray:
    """How far from a side of the grid the cells are of which a value beyond it is made, where it is made of several."""
    placed = list(fields)
    return np.array([max((depth(field.rules[axis], n, 16) for field in placed), default=1) - 1 for axis, n in enumerate(shape)])


def reach_of_maps(maps: Iterable[TracedMap], shape: tuple[int, ...]) -> IntArray:
    """How far maps read that are evaluated one after the other, on a grid of this shape."""
    total = np.zeros(len(shape), int)
    for each in maps:
        offsets = [offset for offsets in reads(each.outputs.values()).values() for offset in offsets]
        far = np.max(np.abs(np.array([(0,) * len(shape), *offsets])), axis=0)
        total = total + np.where(far > 0, np.maximum(far, _deep([*each.inputs.values(), *each.placed.values()], shape)), 0)
    return total
