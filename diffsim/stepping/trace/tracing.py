"""Tracing: call an equation's functions once with symbolic fields."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from typing import Any

from diffsim.base.arguments import without_axes
from diffsim.base.messages import shown
from diffsim.boundary import Boundary, EvenImage, Rules, bound, on_low_side, rules_of
from diffsim.errors import DiffsimError, ShapeError, TraceError
from diffsim.expr.components import Layout
from diffsim.expr.graph import Graph, Node, reads
from diffsim.expr.symbol import Symbol, describe
from diffsim.mesh.field import Location, Region
from diffsim.mesh.grid import Grid
from diffsim.stepping.declare.equation import Equation, Variable, hands_on
from diffsim.stepping.trace.declared import check_names
from diffsim.stepping.trace.fields import Placed
from diffsim.stepping.trace.grouped import apart, layouts, with_groups
from diffsim.stepping.trace.metric import check_not_periodic, metrics
from diffsim.stepping.trace.reductions import reduce
from diffsim.stepping.trace.trace import CLOCK, Trace, TracedMap, TracedStep, check_location

DECLARED_IN = {
    "step": "states, parameters, forcings, series or profiles",
    "coefficients": "parameters or profiles",
    "initial": "initials or profiles",
}
"""Function of an equation -> where the fields that it asks for may be declared."""


def trace_coefficients(equation: Equation) -> TracedMap:
    """Trace `equation.coefficients`. Without it, the parameters are the coefficients."""
    parameters = _placed(equation.parameters, equation.grid)
    if hands_on(equation):
        graph = Graph()
        nodes = {name: graph.read(name, (0,) * equation.grid.ndim) for name in parameters}
        return TracedMap(graph, parameters, {}, nodes, parameters, layouts(equation))
    rules = equation.coefficient_boundaries
    traced = _trace_map(equation, equation.coefficients, "coefficients", parameters, lambda name: rules.get(name, "zero"), {})
    if unknown := set(rules) - set(traced.outputs):
        raise TraceError(
            f"{type(equation).__name__}.coefficient_boundaries names {', '.join(sorted(unknown))}, expected coefficients: "
            f"{', '.join(sorted(traced.outputs))}; correct the names"
        )
    return traced


def trace_initial(equation: Equation, coefficients: Mapping[str, Placed]) -> TracedMap:
    """Trace `equation.initial`. Without it, the initial fields are the states."""
    states = _placed(equation.states, equation.grid)
    if type(equation).initial is Equation.initial:
        graph = Graph()
        nodes = {name: graph.read(name, (0,) * equation.grid.ndim) for name in states}
        return TracedMap(graph, states, {}, nodes, states)
    inputs = _placed(equation.initials, equation.grid)
    places = {name: placed.location for name, placed in states.items()}
    traced = _trace_map(equation, equation.initial, "initial", {**inputs, **coefficients}, lambda name: "zero", places)
    if set(traced.outputs) != set(states):
        raise TraceError(
            f"{type(equation).__name__}.initial gave {sorted(traced.outputs)}, expected one entry for each state: {sorted(states)}; "
            "return those"
        )
    for name, place in states.items():
        _check_location(traced.placed[name].location, place, f"initial gives {name}")
    return TracedMap(traced.graph, inputs, traced.profiles, traced.outputs, states)


def _trace_map(
    equation: Equation,
    function: Callable[..., dict[str, Symbol]],
    what: str,
    inputs: dict[str, Placed],
    rules: Callable[[str], Boundary],
    places: Mapping[str, Location],
) -> TracedMap:
    graph, grid = Graph(), equation.grid
    symbols = {name: _symbol(graph, grid, name, placed.where) for name, placed in inputs.items()} | _profile_symbols(graph, equation)
    values, groups = _call(function, symbols, what, layouts(equation))
    results = {name: _as_symbol(graph, grid, value, name) for name, value in values.items()}
    placed = {}
    for name, symbol in results.items():
        if name in inputs and inputs[name].axes is not None and symbol.node == symbols[name].node:
            placed[name] = inputs[name]  # a number, or values along a side, handed on with its rules
            continue
        home = places.get(name, (0,) * grid.ndim)  # for a field without a location
        location = tuple(h if p is None else p for p, h in zip(symbol.location, home, strict=True))
        everywhere = name in places or name in equation.coefficient_boundaries or None not in symbol.location
        varies = None if everywhere else tuple(axis for axis, p in enumerate(symbol.location) if p is not None)
        placed[name] = Placed(location, _along(bound(rules(name), location, grid.cell_sizes), varies, grid), axes=varies)
    check_not_periodic(grid, {name: place.rules for name, place in {**inputs, **placed}.items()})
    _check_not_named(inputs, [symbol.node for symbol in results.values()], f"{what}()")
    nodes = {name: symbol.node for name, symbol in results.items()}
    return TracedMap(graph, inputs, {**equation.profiles, **metrics(grid)}, nodes, placed, groups)


def _check_not_named(fields: Mapping[str, Placed], roots: Iterable[Node], where: str) -> None:
    """Raise `TraceError` if expressions read a field beyond a side whose value is an input: only steps add that."""
    for name, offsets in reads(roots).items():
        sides = fields[name].rules if name in fields else ()
        for side in (side for pair in sides for side in pair):
            if side.named and any(offset[side.place.axis] for offset in offsets):
                raise TraceError(
                    f"{where} reads {name} beyond a side with {shown(side.rule)}, whose value is an input, expected a number "
                    "there; the values "
                    "of inputs hold where a step reads a state, a coefficient or a stage"
                )


def trace_step(
    equation: Equation,
    coefficients: Mapping[str, Placed],
    forcings: Collection[str] | None = None,
    active: Collection[str] | None = None,
    groups: Mapping[str, Layout] | None = None,
) -> TracedStep:
    """Trace `equation.step` once with symbolic fields.

    Args:
        equation: the equation.
        coefficients: fields of its `coefficients`.
        forcings: the forcings that have sources; None: all.
        active: the coefficients and series that are differentiated for; None: all.
        groups: the vectors and tensors among the coefficients.

    Raises:
        TraceError: the step cannot be traced, or no state depends on a forcing that has sources.
    """
    series = trace_series(equation)
    wanted = frozenset((*coefficients, *series) if active is None else active)
    present = tuple(f for f in equation.forcings if forcings is None or f in forcings)
    grid, states = equation.grid, _placed(equation.states, equation.grid)
    low = _low_faces(states)
    states |= {name: replace(states[name], rules=on_low_side(states[of].rules, axis)) for name, (of, axis) in low.items()}
    graph = Trace(grid, equation.dt, states, coefficients, reduce, type(equation).__name__ if equation.steady else "")
    symbols = {name: _symbol(graph, grid, name, placed.where) for name, placed in {**states, **coefficients, **series}.items()}
    symbols |= _profile_symbols(graph, equation)
    declared = (*symbols, *equation.forcings, *equation.parameters, *equation.initials)
    clock = tuple(name for name in CLOCK if name in inspect.signature(equation.step).parameters and name not in declared)
    symbols |= {name: _symbol(graph, grid, name, (None,) * grid.ndim) for name in clock}
    graph.series, graph.forcings = series, frozenset(equation.forcings)
    graph.values = {name: symbol for name, symbol in symbols.items() if name not in states}
    on_side = {name: symbols[name] for name in low}
    symbols |= {name: graph.field(symbols[name], placed.rules, on_side) for name, placed in states.items()}
    symbols |= {name: graph.field(symbols[name], placed.rules) for name, placed in coefficients.items()}
    for name in equation.forcings:
        forcing = _symbol(graph, grid, name, (None,) * grid.ndim)
        symbols[name] = forcing if name in present else forcing.like(graph.const(0))
    check_names(equation, coefficients)
    results, _ = _call(equation.step, symbols, "step", layouts(equation) | dict(groups or {}))
    for name, (of, axis) in low.items():
        if of in results:
            results.setdefault(name, _as_symbol(graph, grid, results[of], of).shifted(axis, -1))
    if set(results) != set(states):
        raise TraceError(
            f"{type(equation).__name__}.step gave {sorted(results)}, expected one entry for each state: {sorted(states)}; return those"
        )
    outputs = {}
    for name, placed in states.items():
        symbol = _as_symbol(graph, grid, results[name], name)
        _check_location(symbol.location, placed, f"step gives {name}")
        outputs[name] = graph.with_edges(symbol.like(graph.stored(symbol)), placed, symbols[name]).node
    check_not_periodic(grid, {name: field.rules for name, field in (graph.placed | graph.fixed).items()})
    profiles = {**equation.profiles, **metrics(grid), **graph.profiles}
    stages = tuple(graph.stages)
    read = {*reads(outputs.values())}.union(*(each.reads() for each in stages))
    graph.require_in_scope(read)
    inside = reads(root for each in stages for root in each.roots())  # the body of a loop alone may read the time
    clock = tuple(name for name in clock if name in read or name in inside)
    silent = [] if forcings is None else [name for name in present if name not in read]
    if silent:
        raise TraceError(
            f"{type(equation).__name__}.step does not use {', '.join(silent)}, expected a state that depends on each forcing with sources; "
            "add it to the next value of a state, or leave it out of forcings"
        )
    return TracedStep(graph, grid, states, dict(coefficients), wanted, profiles, present, series, clock, stages, outputs)


def trace_series(equation: Equation) -> dict[str, Placed]:
    """The series of an equation."""
    series = {}
    for name, variable in equation.series.items():
        axes = variable.axes or ()
        if any(rule.named for pair in rules_of(variable.boundary) for rule in pair):
            raise TraceError(
                f"series {name} has a boundary rule whose value is an input, expected numbers there; give its values as numbers"
            )
        series[name] = replace(_place(replace(variable, axes=axes), equation.grid), axes=axes)
    return series


def entered_by(step: TracedStep, forcing: str) -> list[str]:
    """The states that a forcing enters."""
    return [state for state, node in step.outputs.items() if forcing in reads([node])]


def forcing_location(step: TracedStep, forcing: str) -> Location:
    """The location of a forcing on the cell, which is that of the states that it enters.

    Raises:
        ShapeError: it enters states at different locations.
    """
    locations = {step.states[s].location for s in entered_by(step, forcing)}
    if len(locations) > 1:
        raise ShapeError(f"forcing {forcing} enters states at {' and '.join(map(describe, sorted(locations)))}; use a forcing for each")
    return locations.pop() if locations else (0,) * step.grid.ndim


def forcing_rules(step: TracedStep, forcing: str) -> Rules | None:
    """The boundary rules of the states that a forcing enters; None: they differ."""
    rules = [step.states[s].rules for s in entered_by(step, forcing)]
    return rules[0] if rules and all(each == rules[0] for each in rules) else None


def _low_faces(states: Mapping[str, Placed]) -> dict[str, tuple[str, int]]:
    """States with the values of another on a low side, where that one has none: name -> (the other, the axis).

    Raises:
        TraceError: a rule names no state, one at another location, or one that another side has.
    """
    owners: dict[str, tuple[str, int]] = {}
    for name, placed in states.items():
        for axis, (side, _) in enumerate(placed.rules):
            low = side.low_faces
            if not low:
                continue
            what = f"{side.rule!r} on the low side of axis {axis} of {name} names {low}"
            if low not in states or states[low].location != placed.location or states[low].axes is not None:
                raise TraceError(f"{what}, expected a state at {placed.location}; declare it: Variable(location={placed.location})")
            if low in owners or low == name:
                raise TraceError(f"{what}, which has the values of another side, expected a state of its own; give each side another")
            owners[low] = (name, axis)
    return owners


def _placed(variables: Mapping[str, Variable], grid: Grid) -> dict[str, Placed]:
    return {name: _place(variable, grid) for name, variable in variables.items()}


def _place(variable: Variable, grid: Grid) -> Placed:
    location = check_location(variable.location or (0,) * grid.ndim, grid.ndim)
    axes = None if variable.axes is None or len(variable.axes) == grid.ndim else variable.axes
    region = None if variable.region is None else Region(variable.region)
    return Placed(location, _along(bound(variable.boundary, location, grid.cell_sizes), axes, grid), axes=axes, region=region)


def _along(rules: Rules, axes: tuple[int, ...] | None, grid: Grid) -> Rules:
    """The rules of a field that varies along some axes. Along the others it is constant beyond the sides."""
    if axes is None:
        return rules
    on = bound(EvenImage(), (0,) * grid.ndim, grid.cell_sizes)
    return tuple(own if axis in axes else other for axis, (own, other) in enumerate(zip(rules, on, strict=True)))


def _symbol(graph: Graph, grid: Grid, name: str, location: tuple[int | None, ...]) -> Symbol:
    return Symbol(graph, graph.read(name, (0,) * grid.ndim), location, grid.uniform_spacing)


def _profile_symbols(graph: Graph, equation: Equation) -> dict[str, Symbol]:
    ndim = equation.grid.ndim
    return {
        name: _symbol(graph, equation.grid, name, tuple(p.location if axis == p.axis else None for axis in range(ndim)))
        for name, p in equation.profiles.items()
    }


def _check_location(location: tuple[int | None, ...], placed: Placed, what: str) -> None:
    varies = tuple(axis for axis, (p, q) in enumerate(zip(location, placed.where, strict=True)) if p is not None and q is None)
    if varies:
        raise ShapeError(
            f"{what} as an expression that varies along axes {varies}, but it is declared with axes = {placed.axes}; take its sum, mean, "
            "max or min of diffsim.expr, or declare it without axes"
        )
    if any(p is not None and p != q for p, q in zip(location, placed.location, strict=True)):
        raise ShapeError(f"{what} at {describe(location)}, but it is declared at {describe(placed.location)}; interpolate it")


def _as_symbol(graph: Graph, grid: Grid, value: object, name: str) -> Symbol:
    if isinstance(value, Symbol):
        value.expect(False, name)
        return value
    value = without_axes(value)
    if isinstance(value, (int, float)):
        return Symbol(graph, graph.const(value), (None,) * grid.ndim, grid.uniform_spacing)
    raise TraceError(
        f"{name} is a {type(value).__name__}, expected an expression of the step's fields; return one, and declare arrays as parameters or "
        "profiles"
    )


def call_with_fields(function: Callable[..., Any], known: Mapping[str, Any], free: Mapping[str, Any], what: str, declared_in: str) -> Any:
    """Call a function of an equation with the fields that its arguments name.

    Args:
        function: the function.
        known: all fields that it may name.
        free: those of an argument `**others`.
        what: its name, for messages.
        declared_in: where a field may be declared, for messages.

    Raises:
        TraceError: it asks for another field, or has arguments without names.
    """
    declared = inspect.signature(function).parameters
    if nameless := [str(p) for p in declared.values() if p.kind in (p.POSITIONAL_ONLY, p.VAR_POSITIONAL)]:
        raise TraceError(f"{what}() has {', '.join(nameless)} without a name for calls, expected names of fields; write these out")
    names = [name for name, p in declared.items() if p.kind is not p.VAR_KEYWORD]
    others = [name for name, p in declared.items() if p.kind is p.VAR_KEYWORD]
    unknown = [name for name in names if name not in known and declared[name].default is inspect.Parameter.empty]
    expected = f"expected some of {', '.join(free)}, which the equation has there; declare it in {declared_in}, or correct the name"
    if unknown:
        raise TraceError(f"{what}() asks for {', '.join(unknown)}, {expected}")
    try:
        return function(**{name: known[name] for name in dict.fromkeys([*names, *(free if others else ())]) if name in known})
    except KeyError as error:
        (key,) = error.args or ("",)
        if others and isinstance(key, str) and key not in known and not isinstance(error, DiffsimError):
            raise TraceError(f"{what}() raised KeyError: {shown(key)}; if it asks **{others[0]} for this field, {expected}") from error
        raise


def _call(
    function: Callable[..., Mapping[str, object]], symbols: Mapping[str, Symbol], what: str, groups: Mapping[str, Layout]
) -> tuple[dict[str, object], dict[str, Layout]]:
    """The results of a function of an equation, by the names of fields, and the vectors and tensors among them."""
    results = call_with_fields(function, *with_groups(symbols, groups), what, DECLARED_IN[what])
    if not isinstance(results, dict):
        raise TraceError(
            f"{what}() gave a {type(results).__name__}, expected a dict of names and expressions; return one, as in {{'u': u}}"
        )
    return apart(results, groups, what)
