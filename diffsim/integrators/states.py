"""The states of a method in time: checked, stored, and brought back to a constraint."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from numbers import Real
from typing import Any, TypeAlias

from diffsim.base import arguments
from diffsim.base.messages import shown
from diffsim.errors import TraceError
from diffsim.expr.components import Components
from diffsim.expr.graph import Graph, Node, reads
from diffsim.expr.symbol import Symbol
from diffsim.stepping.trace.fields import Stage
from diffsim.stepping.trace.stages import StoredExpression, stage
from diffsim.stepping.trace.trace import CLOCK, Trace

State: TypeAlias = Mapping[str, Any]
Rate: TypeAlias = Callable[[dict[str, Any]], Mapping[str, Any]]
Project: TypeAlias = Callable[[dict[str, Any], Any], Mapping[str, Any]]
"""(state, dt) -> the state that obeys the constraint, and any other fields, such as a pressure."""
Time: TypeAlias = "float | Symbol"
"""A time step: a number, or a number of the run, such as a parameter or a series with `axes=()`."""


def moved(state: State, rates: State, dt: Time) -> dict[str, Symbol]:
    """An Euler step."""
    return {name: u + dt * rates[name] for name, u in state.items()}


def stored(values: State, state: State) -> dict[str, Symbol]:
    """An intermediate state, stored with the rules of the state."""
    return {name: stage(_over(value, state[name]), boundary=state[name]) for name, value in values.items()}


def _over(value: Any, u: Any) -> Any:
    """A constant, such as a rate of 1, as a field; a field as it is."""
    return 0.0 * u + value if isinstance(value, Real) and isinstance(u, Symbol) else value


def held(values: State, state: State, dt: Time, project: Project | None, after: Time) -> dict[str, Symbol]:
    """An intermediate state, stored, that obeys the constraint if there is one, at a time `after` the beginning of the step."""
    free = stored(values, state)
    if project is None:
        return free
    obeying = constrained(free, state, dt, project, after)
    return {name: u if u is free[name] else stage(u, boundary=state[name]) for name, u in obeying.items()}  # others are stored already


def projected(values: State, state: State, dt: Time, project: Project | None, after: Time) -> dict[str, Symbol]:
    """The last state of a step, `after` its beginning, and other fields of its projection if there is one."""
    return dict(values) if project is None else constrained(stored(values, state), state, dt, project, after, others=True)


def constrained(free: State, state: State, dt: Time, project: Project, after: Time, others: bool = False) -> dict[str, Symbol]:
    """The projection of a stored state, at a time `after` the beginning of the step; `others`: with the other fields that it has."""
    arguments.function("project", project, "lambda now, dt: {'u': maximum(now['u'], 0.0)}", optional=False)
    arguments.require_takes("project", project, "state", "dt")
    obeying = timed("projection", state, after, lambda: project(arguments.FieldsByName("project", free), dt))
    named = isinstance(obeying, Mapping) and set(state) <= set(obeying)
    own = matching("the projected state", {name: obeying[name] for name in state} if named else obeying, state)
    return {**obeying, **own} if others else own


def rates(rate: Rate, state: State, after: Time = 0.0) -> dict[str, Symbol]:
    """The rate of each field of a state, at a time `after` the beginning of the step: `t` in the rate is the time of its stage."""
    if not isinstance(state, Mapping) or not state or not all(isinstance(u, (Symbol, Components)) for u in state.values()):
        alone = isinstance(state, (Symbol, Components))
        got = "one field" if alone else shown(state) if isinstance(state, Mapping) else f"a {type(state).__name__}"
        remedy = "write {'u': u}, let the rate return {'u': ...}, and take ['u'] of the result" if alone else "write it like {'u': u}"
        raise TraceError(f"state = {got}, expected a dict of fields of the step; {remedy}")
    arguments.function("rate", rate, "lambda now: {'u': -now['u']}", optional=False)
    arguments.require_takes("the rate", rate, "state")
    return timed("rate", state, after, lambda: matching("the rate", rate(arguments.FieldsByName("the rate", state)), state))


def timed(what: str, state: State, after: Time, call: Callable[[], Any]) -> Any:
    """The expressions, one or a dict of them, that a part of a method returns, at a time `after` the beginning of the step.

    `t` in them, and in what the part stores, is that time. What was stored before remains as it is.
    """
    graph = _first(next(iter(state.values()))).graph
    if not isinstance(after, Symbol) and not after:
        return call()
    if isinstance(graph, Trace):
        outer, before = graph.later_from, len(graph.stages)
        graph.later_from = before
        try:
            values = call()
        finally:
            graph.later_from = outer
        graph.stages[before:] = [_stored_at_time(what, graph, each, after) for each in graph.stages[before:]]
    else:
        values = call()
    return {name: _at_time(value, after) for name, value in values.items()} if isinstance(values, Mapping) else _at_time(values, after)


def _first(value: Symbol | Components) -> Symbol:
    """A field, or the first component of several."""
    return value if isinstance(value, Symbol) else _first(next(iter(value)))


def _at_time(value: Any, after: Time) -> Any:
    """An expression at a later time than that of the step's beginning; one that does not read the time is the same object."""
    if isinstance(value, Components):
        pairs: list[tuple[Symbol, Symbol]] = []

        def later(*index: Any) -> Symbol:
            pairs.append((value[index], _at_time(value[index], after)))
            return pairs[-1][1]

        out = value.each(later)
        return value if all(before.node is now.node for before, now in pairs) else out
    if not isinstance(value, Symbol):
        return value
    node = _later(value.graph, value.node, after)
    return value if node is value.node else value.like(node, value.location)


def _stored_at_time(what: str, trace: Trace, stage: Stage, after: Time) -> Stage:
    """A stage that a part of a method stores, likewise."""
    if CLOCK[0] not in trace.values or CLOCK[0] not in {*stage.reads(), *reads(stage.roots())}:
        return stage
    if not isinstance(stage, StoredExpression):
        raise TraceError(
            f"a stage of a {what} that is no expression reads {CLOCK[0]}, expected one that does not: the method cannot give it the time "
            f"of each of its stages; store what depends on {CLOCK[0]} with stage() first, and let the loop or the system read that"
        )
    return dataclasses.replace(stage, node=_later(trace, stage.node, after))


def reads_time(value: Symbol) -> bool:
    """True if an expression reads the time, also by way of what a stage stores."""
    timed = {CLOCK[0]}
    for each in value.graph.stages if isinstance(value.graph, Trace) else ():
        if not timed.isdisjoint({*each.reads(), *reads(each.roots())}):
            timed |= {field.name for field in each.outputs}
    return not timed.isdisjoint(reads([value.node]))


def _later(graph: Graph, node: Node, after: Time) -> Node:
    clock = graph.values.get(CLOCK[0]) if isinstance(graph, Trace) else None
    if clock is None or CLOCK[0] not in reads([node]):
        return node
    later = (clock + after).node
    (out,) = graph.replace([node], lambda read: later if read.data[0] == CLOCK[0] else read)
    return out


def matching(what: str, fields: Any, state: State) -> dict[str, Symbol]:
    """The entries for each field of the state, in the state's order."""
    if not isinstance(fields, Mapping) or set(fields) != set(state):
        got = f"entries {', '.join(map(str, fields))}" if isinstance(fields, Mapping) else f"a {type(fields).__name__}"
        first = next(iter(state))
        remedy = "correct the names" if isinstance(fields, Mapping) else f"return {{'{first}': ...{', ...' if len(state) > 1 else ''}}}"
        raise TraceError(f"{what} has {got}, expected a dict with an entry for each field of the state: {', '.join(state)}; {remedy}")
    values = {name: arguments.without_axes(fields[name]) for name in state}
    for name, value in values.items():
        if not isinstance(value, (Symbol, Components, Real)):
            raise TraceError(f"{what} of {name} is {shown(value)}, expected an expression of the step; return one")
    return values
