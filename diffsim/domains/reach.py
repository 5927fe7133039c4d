"""How far a step reads: the cells around a cell on which its next value, or its cotangent, depends; and which cells are worth computing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from diffsim.boundary import depth
from diffsim.expr.graph import Node, reads
from diffsim.stepping.derive.forward import ring_depths
from diffsim.stepping.derive.programs import Programs
from diffsim.stepping.ir.program import Box, Nest, Operation, Place, PointGather, Program
from diffsim.stepping.trace.fields import Placed
from diffsim.stepping.trace.trace import TracedMap, TracedStep
from diffsim.typing import IntArray

Level = tuple[str, int]
"""The storage of a state or of a cotangent, and an age: 0 for the values with which a step starts, 1 for those a step before."""
Far = Mapping[Level, IntArray]
"""Values on which another one depends -> how far away they are along each axis."""
GIVEN: Level = ("coefficients, series and profiles", 0)
"""In place of a level: what is given before the run, and right in the whole box."""
NOT_READ = -(2**40)
"""In place of a distance: there is no dependence."""


@dataclass(frozen=True)
class Reads:
    """How far away the levels are on which a step depends, along each axis; `NOT_READ` for others.

    Attributes:
        by_next: shape (arrays, levels, axes): for the next value of each array.
        by_any: shape (levels, axes): for all that the step computes, sums at points included.
    """

    by_next: IntArray
    by_any: IntArray


@dataclass(frozen=True)
class Reach:
    """How far a step and its adjoint read.

    Attributes:
        states: the levels with which a step starts.
        bars: the levels of cotangents with which its adjoint starts.
        forward: levels of states on which a step depends.
        primal: levels of states on which its adjoint depends, also through residuals that are kept of them.
        later: levels of cotangents on which its adjoint depends.
        given: how much farther away than states and cotangents a value reads what is given before the run, along each axis. The box has so
            many ghost cells more.
    """

    states: tuple[Level, ...]
    bars: tuple[Level, ...]
    forward: Reads
    primal: Reads
    later: Reads
    given: IntArray

    @property
    def of_states(self) -> IntArray:
        """How far any of them reads the levels of states, at least 0, shape (levels, axes)."""
        return np.maximum(np.maximum(self.forward.by_any, self.primal.by_any), 0)

    @property
    def of_bars(self) -> IntArray:
        """How far the adjoint reads the levels of cotangents, at least 0, shape (levels, axes)."""
        return np.maximum(self.later.by_any, 0)

    @property
    def most(self) -> IntArray:
        """The largest of all along each axis."""
        return np.vstack([self.of_states, self.of_bars]).max(axis=0)

    @property
    def by_next(self) -> IntArray:
        """The largest along each axis for next values: by so much fewer ghost cells are right after each step."""
        nothing = np.zeros((1, self.most.size), int)
        return np.vstack([nothing, *(reads.by_next.reshape(-1, self.most.size) for reads in (self.forward, self.primal, self.later))]).max(
            axis=0
        )


def reach_of(programs: Programs, points: IntArray, deep: IntArray | None = None) -> Reach:
    """The reach of a step and of its adjoint.

    Args:
        programs: of a step.
        points: how far the cells of a point lie outside of its owner's cells along each axis, at most.
        deep: `deep_of` the step on the whole grid, if this is the step in a box; None: that of this step.
    """
    walk = _Walk(programs, points, deep)
    states, bars, ndim = _levels(walk.states), _levels(walk.bars), programs.step.grid.ndim

    def nothing(arrays: Mapping[str, int], levels: Sequence[Level]) -> Reads:
        return Reads(*(np.full((*rows, len(levels), ndim), NOT_READ) for rows in ((len(arrays),), ())))

    forward, primal, later = nothing(walk.states, states), nothing(walk.bars, states), nothing(walk.bars, bars)
    farther = np.zeros(ndim, int)
    for program, before in walk.of_all():
        ahead = program.direction > 0
        arrays = walk.states if ahead else walk.bars
        targets = {Place(array, depth): number for number, (array, depth) in enumerate(arrays.items())}
        for place, all_far in walk.through(program, before).items():
            far = {level: away for level, away in all_far.items() if level != GIVEN}
            if GIVEN in all_far and (far or place in targets):
                farther = np.maximum(farther, all_far[GIVEN] - walk.farthest(far))
            for level, away in far.items():
                into, levels = (later, bars) if level[0] in walk.bars else (forward if ahead else primal, states)
                at = levels.index(level)
                into.by_any[at] = np.maximum(into.by_any[at], away)
                if place in targets:
                    into.by_next[targets[place], at] = np.maximum(into.by_next[targets[place], at], away)
    return Reach(states, bars, forward, primal, later, farther)


def in_windows(
    programs: Programs,
    reach: Reach,
    inner: Sequence[slice],
    room: IntArray,
    points: IntArray,
    lasting: tuple[bool, bool],
    deep: IntArray | None = None,
) -> tuple[dict[str, Program], dict[str, IntArray]]:
    """The programs, by name, whose nests compute no ghost cells of which there is no use.

    A value that depends on cells r away is right up to `room` - r cells beyond the owned ones at most, and there is no use of others. One
    that depends on given values alone is right farther out, for there are `reach.given` more ghost cells of these, and others use it. Of
    the next value of a state that the next step reads q away, at most `room` - R + q are needed, where R is the largest distance of all:
    then as many steps follow as for a state that is read R away. If no step follows without an exchange, which replaces ghost cells, none
    of these are needed. Other values are needed as far as these read them.

    With each step after an exchange, more rows at the ends of windows along the first axis are wrong, and as many of other arrays are of no
    use. A launch leaves them out (`Widths.unused`). If all windows are narrower by the same number of rows, each state still has what it
    reads, for a window reaches as far as others read it. The windows of the last step before an exchange are the narrowest
    (`Nest.narrowest`).

    Returns:
        The programs, and the width to which a step computes the next value of each state, and of each cotangent.
    """
    walk, shape = _Walk(programs, points, deep), programs.step.grid.shape
    widest, computed = _limits(walk, reach, room, points, lasting)
    narrowest, _ = _limits(walk, reach, reach.most, points, (False, False))
    out = {}
    for program, _ in walk.of_all():
        operations = list(program.operations)
        for number, most in widest[program.name].items():
            nest, ends = operations[number], _window(inner, most, shape)
            assert isinstance(nest, Nest)
            rows = _window(inner, narrowest[program.name][number], shape)[0]
            whole = ends == tuple((0, n) for n in shape)
            narrows = len(shape) > 1 and rows != ends[0]
            if narrows:  # where a box reaches to the other end of a neighbour at a side of the grid, rows go wrong beyond that side first
                ends = (_beyond(inner[0], int(most[0]), shape[0]), *ends[1:])
            operations[number] = replace(nest, window=ends if narrows or not whole else None, narrowest=rows if narrows else None)
        out[program.name] = replace(program, operations=tuple(operations))
    return out, computed


def _limits(
    walk: _Walk, reach: Reach, room: IntArray, points: IntArray, lasting: tuple[bool, bool]
) -> tuple[dict[str, dict[int, IntArray]], dict[str, IntArray]]:
    """How far beyond the owned cells the nests of each program compute, by their numbers; and the next values of states and cotangents."""
    programs, least = walk.programs, room - reach.most
    of_states, of_bars = (
        least + of if again else np.zeros_like(of) for of, again in zip((reach.of_states, reach.of_bars), lasting, strict=True)
    )
    needed = {Place(array, walk.states[array]): of_states[reach.states.index((array, 0))] for array in walk.states}
    needed |= {Place(array, walk.bars[array]): of_bars[reach.bars.index((array, 0))] for array in walk.bars}
    computed: dict[str, IntArray] = {}
    if programs.with_residuals is not None:  # the adjoint reads these where it reads a cotangent, so at most as far as these are right
        needed |= {Place(name, 0): room for name in programs.with_residuals.names}

    def right(far: Far) -> IntArray:
        if far.keys() == {GIVEN}:
            return room + reach.given - far[GIVEN]
        return room - walk.farthest(far)

    out: dict[str, dict[int, IntArray]] = {}
    for program, before in walk.of_all():
        wanted, of_nests = dict(needed), out.setdefault(program.name, {})
        for number, (operation, now) in reversed([*enumerate(walk.operations(program, dict(before)))]):
            if isinstance(operation, Nest):
                limits = {place: np.minimum(wanted.get(place, least), right(far)) for place, far in now.items()}
                for place, far in limits.items():
                    if place in needed:
                        computed[place.array] = np.minimum(computed.get(place.array, far), far)
                for target, node in [*((a.target, a.node) for a in operation.assigns), *((s.target, s.factor) for s in operation.scatters)]:
                    walk.want(wanted, program, node, limits[target])
                if operation.assigns:
                    of_nests[number] = np.max([limits[assign.target] for assign in operation.assigns], axis=0)
            elif isinstance(operation, PointGather):
                walk.want(wanted, program, operation.node, points)
    return out, computed


def _levels(depths: Mapping[str, int]) -> tuple[Level, ...]:
    return tuple((array, age) for array, depth in depths.items() for age in range(depth))


def _window(inner: Sequence[slice], far: IntArray, shape: Sequence[int]) -> Box:
    """The owned cells and those up to some distances from them."""
    return tuple((max(own.start - w, 0), min(own.stop + w, n)) for own, w, n in zip(inner, far.tolist(), shape, strict=True))


def _beyond(own: slice, far: int, n: int) -> tuple[int, int]:
    """The owned rows and those up to a distance from them towards neighbours, of which the outermost may lie outside of the box."""
    return own.start - far if own.start else 0, own.stop + far if own.stop < n else n


class _Walk:
    """Follows the operations of programs from what a step starts with to what it computes.

    Attributes:
        programs: these.
        states, bars: the arrays of states, and of their cotangents, with the number of levels with which a step, or its adjoint, starts.
    """

    def __init__(self, programs: Programs, points: IntArray, deep: IntArray | None) -> None:
        step = programs.step
        self.programs, self._points, self._none = programs, points, np.zeros(step.grid.ndim, int)
        self.states = ring_depths(step)
        self.bars = {} if programs.adjoint is None else programs.adjoint.depths
        self._deep = deep_of(step) if deep is None else deep
        self._slim = programs.slim()

    def of_all(self) -> Iterator[tuple[Program, Mapping[Place, Far]]]:
        """All programs, each with the values that it has from earlier ones, and how far these depend on what their step starts with."""
        programs = self.programs
        yield programs.forward, {}
        if programs.adjoint is not None:
            yield programs.adjoint.program, {}
        if programs.with_residuals is not None:
            residuals = programs.with_residuals
            yield residuals.forward, {}
            everything = self.through(residuals.forward, {})
            yield residuals.adjoint, {place: far for place, far in everything.items() if place.array in residuals.names}

    def farthest(self, far: Far) -> IntArray:
        """How far the most distant values are, but those that are given."""
        return np.max([self._none, *(away for level, away in far.items() if level != GIVEN)], axis=0)

    def through(self, program: Program, before: Mapping[Place, Far]) -> dict[Place, Far]:
        """Storage -> how far its value depends on what the step starts with."""
        known: dict[Place, Far] = dict(before)
        for _ in self.operations(program, known):
            pass
        return known

    def operations(self, program: Program, known: dict[Place, Far]) -> Iterator[tuple[Operation, Mapping[Place, Far]]]:
        """The operations, each with the values that it computes and how far these depend. They are added to what is known."""
        for number, operation in enumerate(program.operations):
            now: dict[Place, Far] = {}
            if isinstance(operation, Nest):
                for assign in operation.assigns:
                    _merge(now, assign.target, self._of(program, assign.node, known))
                for scatter in operation.scatters:
                    _merge(now, scatter.target, self._of(program, scatter.factor, known))
            elif isinstance(operation, PointGather):
                read = self._of(program, operation.node, known)
                _merge(now, Place(f"sum at points {number}"), {level: far + self._points for level, far in read.items()})
            for place, far in now.items():
                _merge(known, place, far)
            yield operation, now

    def want(self, wanted: dict[Place, IntArray], program: Program, node: Node, far: IntArray) -> None:
        """Note what an expression reads that is needed `far` beyond the owned cells."""
        for place, away in self._read(program, node):
            wanted[place] = np.maximum(wanted.get(place, self._none), far + away)

    def _read(self, program: Program, node: Node) -> Iterator[tuple[Place, IntArray]]:
        """The stored values that an expression reads, and how far away along each axis."""
        for name, offsets in program.reads([node]).items():
            if name in program.places:
                away = np.max(np.abs(np.array(sorted(offsets))), axis=0)
                yield program.places[name], np.where(away > 0, np.maximum(away, self._deep), 0)

    def _of(self, program: Program, node: Node, known: Mapping[Place, Far]) -> Far:
        """The dependences of an expression. A constant is given too: where it is stored, it is right in the box alone."""
        out: dict[Level, IntArray] = {}
        for place, away in self._read(program, node):
            for level, far in (known[place] if place in known else self._start(program, place)).items():
                out[level] = np.maximum(out.get(level, self._none), far + away)
        for name, offsets in program.reads([node]).items():
            if name in self._slim and name not in program.places:  # along its axes; a number is the same everywhere
                away = np.max(np.abs(np.array(sorted(offsets))), axis=0)
                along = [axis in self._slim[name].axes for axis in range(len(away))]
                out[GIVEN] = np.maximum(out.get(GIVEN, self._none), np.where(along, away, 0))
        return out or {GIVEN: self._none}

    def _start(self, program: Program, place: Place) -> Far:
        """The dependence of a value that no operation before has computed: on itself, if the step starts with it, or what is given."""
        depth = self.states.get(place.array, 0) or self.bars.get(place.array, 0)
        if not depth or place.level is None:
            return {GIVEN: self._none}
        newest_first = program.direction < 0 and place.array in self.states
        return {(place.array, place.level if newest_first else depth - 1 - place.level): self._none}


def _merge(into: dict[Place, Far], place: Place, far: Far) -> None:
    """Add what a value depends on. One that is added to depends on what it was before too."""
    total = dict(into.get(place, {}))
    for kind, away in far.items():
        total[kind] = np.maximum(total[kind], away) if kind in total else away
    into[place] = total


def deep_of(step: TracedStep) -> IntArray:
    """How far from a side of the grid the cells are of which a value beyond it is made, along each axis; 0 where it is made of one.

    A box has the rules of those sides alone at which it lies. So boxes have this number from the whole grid: with numbers of their own, two
    neighbours would expect messages of different sizes.
    """
    fields = [*step.states.values(), *step.coefficients.values(), *(field for stage in step.stages for field in stage.outputs)]
    return _deep(fields, step.grid.shape)


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
