"""An equation's step as expressions: traced once, with symbolic fields."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from diffsim.base.arguments import real_array
from diffsim.base.messages import shown
from diffsim.boundary import Boundary, EvenImage, Periodic, Place, Rules, Side, Sides, Zero, bound, depth, unplaced, zero_rules
from diffsim.errors import ParameterError, ShapeError, TraceError
from diffsim.expr.components import Layout
from diffsim.expr.graph import Graph, Node, reads
from diffsim.expr.symbol import Symbol
from diffsim.mesh.field import Location, Slim
from diffsim.mesh.grid import Grid
from diffsim.stepping.declare.equation import Profile
from diffsim.stepping.trace.fields import Placed, Stage
from diffsim.stepping.trace.side_profiles import Beyond, Ones, goes_on
from diffsim.typing import Array

UNKNOWN = "unknown "
"""Beginning of the names of placeholder fields, for which operators are traced."""
CLOCK = ("t", "n")
"""Arguments that a step may have: the time at its beginning, seconds, and its number."""

Reduce: TypeAlias = "Callable[[Trace, Symbol, Literal['sum', 'mean', 'max']], Symbol]"
"""(trace, expression, how) -> a number computed from all cells."""


class Trace(Graph):
    """The graph of a step, with the intermediate fields that it stores.

    Args:
        grid: grid of the equation.
        dt: time step of the equation.
        placed: fields that change with the steps.
        fixed: fields that are constant in time.
        reduce: computes a number from all cells of an expression.
        steady: name of the equation, of a steady problem; "" of others.
    """

    def __init__(
        self, grid: Grid, dt: float, placed: Mapping[str, Placed], fixed: Mapping[str, Placed], reduce: Reduce, steady: str = ""
    ) -> None:
        super().__init__()
        self.grid, self.dt, self.reduce_by, self.steady = grid, dt, reduce, steady
        self.placed, self.fixed = dict(placed), dict(fixed)
        self.stages: list[Stage] = []
        self.unknowns = itertools.count()  # numbers of placeholder fields while an operator is traced
        self.in_laps: set[str] = set()  # fields that the body of a loop alone may read
        self.count = itertools.count()  # numbers for names of stages
        self.series: dict[str, Placed] = {}
        self.profiles: dict[str, Profile] = {}  # profiles that no equation declares, such as a mark of the outermost cells
        self.values: dict[str, Symbol] = {}  # inputs that boundary rules may name
        self._profile_names: dict[Hashable, str] = {}
        self.later_from = 0  # stages from this number on have the time of the part of the step that is traced
        self._without_values: dict[int, Node] = {}  # a field with the values of its sides -> the stored field

    def store(self, stage: Stage) -> None:
        """Add a stage."""
        self.stages.append(stage)
        self.placed |= {field.name: field for field in stage.outputs}

    def require_in_scope(self, names: Collection[str]) -> None:
        """Raise `TraceError` if fields that a part of the step reads exist in the body of a loop, or in an operator, alone."""
        if not self.in_laps.isdisjoint(names):
            raise TraceError(
                "the step reads a value of the body of repeat() outside of it, expected what the loop gives: such a value differs from lap "
                "to lap, and has no derivative there; add a field to the loop, and let the body return the value for it"
            )
        if any(name.startswith(UNKNOWN) for name in names):
            raise TraceError("the step reads the argument of an operator outside of it, expected the solution; read what solve() gives")

    def with_edges(self, value: Symbol, placed: Placed, now: Symbol | None = None) -> Symbol:
        """A field whose outermost cells have the values of boundary rules, where rules give them. `now` is a state before the step."""
        has_value = self._valued_sides(value, placed)
        for sides in placed.rules:
            for side in sides:
                edge = None if has_value(side) else side.rule.edge(now, side.place, self.dt, self._value(side))
                if edge is not None:
                    mask = self._edge(value, side.place, placed.location)
                    value = value.like((mask > 0.5).combine("select", edge, value).node)
        return value

    def on_sides(self, value: Symbol, placed: Placed, there: Symbol | None = None) -> Symbol:
        """Replace an expression in the cells on sides whose value a rule alone gives.

        Args:
            value: the expression for all other cells.
            placed: the rules.
            there: the expression for those cells; None: the value of the rule.
        """
        for side in (side for sides in placed.rules for side in sides):
            edge = side.rule.edge(None, side.place, self.dt, self._value(side))
            if edge is not None:
                mask = self._edge(value, side.place, placed.location)
                value = value.like((mask > 0.5).combine("select", edge if there is None else there, value).node)
        return value

    def _valued_sides(self, value: Symbol, placed: Placed) -> Callable[[Side], bool]:
        """A test for sides that already have the values of their rules: all sides of a state's earlier value, and sides of a stage whose
        rules need no state."""
        node = self.stored(value)
        name = node.data[0] if node.op == "read" and not any(node.data[1]) else None
        if name not in self.placed or self.placed[name].rules != placed.rules or self.placed[name] is placed:
            return lambda side: False
        stored = any(field.name == name for stage in self.stages for field in stage.outputs)
        return lambda side: not stored or side.rule.edge(None, side.place, self.dt, 0.0) is not None

    def bound(self, boundary: Boundary | Symbol, location: Location) -> Rules:
        """The rules of a boundary, or of a field, at a location of the cell."""
        return bound(self.rules_of(boundary) if isinstance(boundary, Symbol) else boundary, location, self.grid.cell_sizes)

    def require_no_edges(self, field: Placed, what: str) -> None:
        """Raise `TraceError` if a boundary rule gives the outermost cells of a field that a kernel does not compute."""
        if any(side.rule.edge(None, side.place, self.dt, 0.0) is not None for sides in field.rules for side in sides):
            raise TraceError(f"the result of {what} lies on faces whose last value its boundary rule gives; store it as a stage of its own")

    def field(self, stored: Symbol, rules: Rules, low: Mapping[str, Symbol] | None = None) -> Symbol:
        """A stored field for the step to read, with the values that its boundary rules name.

        Args:
            stored: the field.
            rules: its rules.
            low: its values on low sides where the rules name a state that has them.

        Axes are extended from the last to the first. So beyond sides of two axes, the value of the later axis is extended by the rules of
        the earlier one.
        """
        extended = stored
        for axis, sides in enumerate(rules):
            if sides[0].low_faces and not sides[0].homogeneous:
                if low is None or sides[0].low_faces not in low:
                    raise TraceError(
                        f"a field that is neither a state nor a stage has {shown(sides[0].rule)} on the low side of axis "
                        f"{axis}, where it has "
                        "no values on the faces; give it another boundary, or store it by ds.stage; an unknown of ds.solve, as in an "
                        "implicit step, cannot have it"
                    )
                extended = extended + self._beyond(sides[0], stored) * low[sides[0].low_faces].shifted(axis, 1)
            for side in (side for side in sides if side.named and not side.homogeneous):
                value = self._value(side)
                assert isinstance(value, Symbol)  # the side names it
                for other, at in enumerate(value.location):
                    if at is not None and at != stored.location[other]:
                        words = ("centres", "faces")
                        raise ShapeError(
                            f"{shown(side.rule)} along axis {axis} names {side.rule.given}, whose values lie at the {words[at]} of axis "
                            f"{other}, expected the {words[1 - at]}, where those of the field lie; declare it at their location"
                        )
                term = self._beyond(side, stored) * value
                for other in range(axis):
                    if value.location[other] is None and not all(goes_on(s, self.grid.shape[other]) for s in rules[other]):
                        term = self._ones(rules[other], stored) * term
                extended = extended + term
        if extended is not stored:
            self._without_values[extended.node.id] = stored.node
        return extended

    def stored(self, value: Symbol) -> Node:
        """The read of the stored field behind a result of `field`. Other expressions are returned unchanged."""
        return self._without_values.get(value.node.id, value.node)

    def _value(self, side: Side) -> Symbol | float:
        """The value of a boundary rule: a number, or the input that it names."""
        name, axis = side.rule.given, side.place.axis
        if not isinstance(name, str):
            return name
        if name not in self.values:
            raise TraceError(
                f"{shown(side.rule)} along axis {axis} names {name}, expected one of {', '.join(self.values) or 'no input'}; "
                "declare it among "
                "parameters, profiles or series, and return it from coefficients() if there is one"
            )
        if self.values[name].location[axis] is not None:
            raise TraceError(
                f"{shown(side.rule)} along axis {axis} names {name}, which varies along that axis, expected a value on the side; "
                "declare it with axes= that leave this one out"
            )
        return self.values[name]

    def _beyond(self, side: Side, like: Symbol) -> Symbol:
        """The weight of a side's given value in each cell."""
        axis, n = side.place.axis, self.grid.shape[side.place.axis]
        return self.profile(side, Beyond(axis, np.zeros(n), int(side.place.face), side), like)

    def _ones(self, sides: Sides, like: Symbol) -> Symbol:
        """The extension of a field that is 1 in the grid by the rules of an axis."""
        axis = sides[0].place.axis
        at = like.location[axis] or 0  # sides that act alike at faces and centres do not know where they are
        return self.profile((sides, at), Ones(axis, np.ones(self.grid.shape[axis]), at, sides), like)

    def profile(self, key: Hashable, profile: Profile, like: Symbol) -> Symbol:
        """A profile that no equation declares, cached by key, in the step of another expression."""
        name = self._profile_names.setdefault(key, f"profile {len(self._profile_names)}")
        profile = self.profiles.setdefault(name, profile)
        where = tuple(profile.location if axis == profile.axis else None for axis in range(like.ndim))
        return like.like(self.read(name, (0,) * like.ndim), where)

    def _edge(self, like: Symbol, place: Place, location: Location) -> Symbol:
        """1 in the outermost cell at a side, 0 in others."""
        cells = np.zeros(self.grid.shape[place.axis])
        cells[-1 if place.high else 0] = 1
        at = location[place.axis]
        return self.profile((place.axis, place.high, at), Profile(place.axis, cells, at), like)

    def reduce(self, value: Symbol, how: Literal["sum", "mean", "max"]) -> Symbol:
        """A number computed from all cells of an expression."""
        return self.reduce_by(self, value, how)

    def rules_of(self, field: Symbol) -> Boundary:
        """The boundary rules of a stored field."""
        node, known = self.stored(field), self.placed | self.fixed
        if field.graph is not self or node.op != "read" or any(node.data[1]) or node.data[0] not in known:
            raise TraceError(
                "boundary = an expression, expected a rule, or a state, coefficient or stage whose rules it takes; give that. (A guess, or "
                "a state of a method in time, that is an expression has no rules: give boundary=, or store it with ds.stage first)"
            )
        return unplaced(known[node.data[0]].rules)

    def inherited(self, value: Symbol, location: Location) -> Rules:
        """The common rules of the states and stages that an expression reads, or of the coefficients if it reads only these.

        Only rules that also hold for any function of the fields are inherited. A rule with a given value does not: a function of the field
        has another value.
        """
        names = reads([value.node])
        read = [n for n in names if n in self.placed and self.placed[n].axes is None] or [n for n in names if n in self.fixed]
        fields = {name: (self.placed | self.fixed)[name] for name in read}
        distinct = {unplaced(field.rules) for field in fields.values()}
        if len(distinct) == 1:
            (rules,) = distinct
            each = [rule for pair in rules for rule in pair]
            here = all(field.location == location for field in fields.values())
            if all(isinstance(rule, (Zero, Periodic)) or (here and isinstance(rule, EvenImage)) for rule in each):
                return bound(rules, location, self.grid.cell_sizes)
        raise TraceError(
            f"stage() of an expression of {', '.join(fields) or 'no field'}, whose boundary rules or locations differ, or hold for a field "
            "alone, expected boundary=; give the rules of the stored field outside the grid, or the field that it stands for"
        )


@dataclass(frozen=True)
class TracedStep:
    """A step as expressions. Kernels, tangent and adjoint are generated from it."""

    graph: Trace
    grid: Grid
    states: dict[str, Placed]
    coefficients: dict[str, Placed]
    active: frozenset[str]  # coefficients and series that are differentiated for
    profiles: dict[str, Profile]
    forcings: tuple[str, ...]
    series: dict[str, Placed]
    clock: tuple[str, ...]  # the members of `CLOCK` that it reads
    stages: tuple[Stage, ...]
    outputs: dict[str, Node]

    @property
    def slim(self) -> dict[str, Slim]:
        """Every field that varies along some axes only, except those of adjoints: profiles, series, numbers that stages compute."""
        profiles = {name: Slim((profile.axis,)) for name, profile in self.profiles.items()}
        series = {name: Slim(placed.axes or (), True) for name, placed in self.series.items()}
        return profiles | series | {name: Slim((), True) for name in (*self.clock, *self.numbers)}

    @property
    def numbers(self) -> list[str]:
        """Numbers that stages compute."""
        return [field.name for stage in self.stages for field in stage.outputs if field.axes is not None]

    @property
    def fixed(self) -> set[str]:
        """Fields that no step computes."""
        return {*self.coefficients, *self.profiles, *self.series, *self.clock}

    def expressions(self) -> dict[str, Node]:
        """The expressions of its stages and of the next state, by their names; further ones of a stage have numbers."""
        stages = {f"{stage.name}, part {k}" if k else stage.name: root for stage in self.stages for k, root in enumerate(stage.roots())}
        return stages | self.outputs

    @functools.cached_property
    def joined(self) -> tuple[int, ...]:
        """Axes along which all fields that its expressions read are periodic, and the grid is twice as wide as the expressions reach.

        Each of these expressions is then periodic too, and so is its derivative: beyond an end, it has the values of the other end.
        """
        fields = {**self.coefficients, **self.series, **self.states}
        fields |= {field.name: field for stage in self.stages for field in stage.outputs}
        read = reads(self.expressions().values())
        placed = [fields[name] for name in read if name in fields]
        along = {profile.axis for name, profile in self.profiles.items() if name in read}
        reach = [max((abs(offset[axis]) for offsets in read.values() for offset in offsets), default=0) for axis in range(self.grid.ndim)]

        def periodic(axis: int) -> bool:
            sides = [field.rules[axis][0].rule for field in placed if axis not in field.constant]
            return bool(sides) and all(isinstance(rule, Periodic) for rule in sides) and axis not in along

        if any(field.region is not None for field in self.states.values()):
            return ()
        return tuple(axis for axis, n in enumerate(self.grid.shape) if periodic(axis) and n >= 2 * reach[axis])

    @property
    def cotangent_rules(self) -> Rules:
        """Values of cotangents outside the grid."""
        return zero_rules(self.grid.ndim, self.joined)

    def joined_rows(self, reach: int) -> int:
        """The most rows next to a side of the first axis on which a cell beyond it, up to `reach`, depends."""
        declared = [*self.states.values(), *self.coefficients.values(), *self.series.values()]
        fields = [*declared, *(field for stage in self.stages for field in stage.outputs)]
        return max((depth(field.rules[0], self.grid.shape[0], reach) for field in fields), default=1)

    def delays(self) -> dict[str, tuple[str, int]]:
        """States that are earlier values of another: state -> (that state, steps ago). Others -> (themselves, 0).

        A leap-frog's `p_prev`, whose next value is `p`, is `p` one step ago. It needs no storage and no copy of its own.
        """
        zero = (0,) * self.grid.ndim
        follows: dict[str, str] = {}
        for name, node in self.outputs.items():
            if node.op != "read" or node.data[1] != zero or node.data[0] not in self.states or node.data[0] == name:
                continue
            if self.states[node.data[0]] == self.states[name] and node.data[0] not in follows.values():
                follows[name] = node.data[0]
        out = {}
        for name in self.states:
            primary, steps, seen = name, 0, {name}
            while primary in follows:
                primary, steps = follows[primary], steps + 1
                if primary in seen:  # states that swap values in each step
                    primary, steps = name, 0
                    break
                seen.add(primary)
            out[name] = (primary, steps)
        return out


@dataclass(frozen=True)
class TracedMap:
    """Fields that are computed once from others, with neighbours: the coefficients, the initial state."""

    graph: Graph
    inputs: dict[str, Placed]
    profiles: dict[str, Profile]
    outputs: dict[str, Node]
    placed: dict[str, Placed]
    groups: Mapping[str, Layout] = field(default_factory=dict)
    """The vectors and tensors among its outputs."""


def profile_array(profile: Profile, grid: Grid, halo: tuple[int, ...], dtype: npt.DTypeLike) -> Array:
    """Values of a profile along its axis, with the halo, where the end values continue."""
    values = real_array("values of a profile", profile.values, dtype)
    expected = grid.shape[profile.axis]
    if values.shape != (expected,):
        raise ShapeError(
            f"profile along axis {profile.axis} has shape {values.shape}, expected ({expected},); give a value for each cell along it"
        )
    if not np.isfinite(values).all():
        raise ParameterError(f"profile along axis {profile.axis} has values that are not finite, expected finite ones; correct them")
    return profile.extended(values, halo[profile.axis])


def check_location(location: Iterable[int], ndim: int) -> Location:
    """A location on the cell, with an entry for each axis.

    Raises:
        ShapeError: it is not a location.
    """
    entries = tuple(int(p) if isinstance(p, np.integer) else p for p in location)
    if len(entries) != ndim or any(type(p) is not int or p not in (0, 1) for p in entries):
        raise ShapeError(f"location = {shown(entries)}, expected {ndim} entries of 0 (centre) or 1 (upper face); give one an axis")
    return entries
