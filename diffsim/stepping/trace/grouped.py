"""Vectors and tensors of a step: their components are fields, and they are made of fields where the step is called."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

from diffsim.errors import TraceError
from diffsim.expr.components import Components, Layout
from diffsim.expr.symbol import Symbol
from diffsim.stepping.declare.equation import Equation

Value: TypeAlias = Symbol | Components


def layouts(equation: Equation) -> dict[str, Layout]:
    """The groups that an equation declares."""
    return {name: group.layout for name, group in equation.groups.items()}


def with_groups(symbols: Mapping[str, Symbol], groups: Mapping[str, Layout]) -> tuple[dict[str, Value], dict[str, Value]]:
    """Fields and groups of them: all that a function may name as arguments, and those of `**others`, where groups replace their fields."""
    complete = {
        name: Components(layout, {key: symbols[field] for key, field in layout.names(name).items()})
        for name, layout in groups.items()
        if all(field in symbols for field in layout.names(name).values())
    }
    inside = {field for name in complete for field in groups[name].names(name).values()}
    free = {name: symbol for name, symbol in symbols.items() if name not in inside}
    return {**symbols, **complete}, {**free, **complete}


def apart(results: Mapping[str, object], groups: Mapping[str, Layout], what: str) -> tuple[dict[str, object], dict[str, Layout]]:
    """The results of a function of an equation, with the components in place of each group, and the layouts of these groups.

    Raises:
        TraceError: a group has other components than declared, or a field is given twice.
    """
    fields: dict[str, object] = {}
    kinds: dict[str, Layout] = {}
    for name, value in results.items():
        declared = groups.get(name)
        own = _own(name, value, declared, what)
        if isinstance(own, Components):
            kinds[name] = own.layout
            parts: dict[str, object] = {own.layout.name(name, *key): part for key, part in own.parts.items()}
        else:
            parts = {name: own}
        if twice := fields.keys() & parts.keys():
            raise TraceError(f"{what}() gave {', '.join(sorted(twice))} twice, alone and in {name}, expected it once; leave one out")
        fields |= parts
    return fields, kinds


def _own(name: str, value: object, declared: Layout | None, what: str) -> object:
    """The value with the components that its group has; a tuple of them is one too."""
    if declared is None:
        return value
    if isinstance(value, Sequence) and not isinstance(value, str) and declared.rank == 1 and len(value) == len(declared.keys):
        value = Components(declared, dict(zip(declared.keys, value, strict=True)))
    components = value.over(declared.axes) if isinstance(value, Components) else None
    if components is None or components.parts.keys() != set(declared.keys):
        got = f"components {', '.join(components.parts)}" if components is not None else f"a {type(value).__name__}"
        in_order = isinstance(value, Mapping) and declared.rank == 1
        remedy = f"give a tuple of them, ({', '.join(declared.keys)})" if in_order else "give all of them"
        raise TraceError(f"{what}() gave {got} for {name}, expected components {', '.join(declared.keys)}; {remedy}")
    return Components(declared, {key: components.parts[key] for key in declared.keys})
