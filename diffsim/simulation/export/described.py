"""Fields and traces of a simulation with their places and units, for files of other programs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from diffsim.base.arguments import instance, mapping, real_array
from diffsim.errors import ShapeError
from diffsim.mesh.field import Location
from diffsim.simulation.prepared.checks import check_names
from diffsim.simulation.prepared.compiled import Compiled
from diffsim.simulation.prepared.inputs import input_meaning, unit_of
from diffsim.simulation.prepared.reading import is_function, whole_array
from diffsim.simulation.prepared.solution import Solution
from diffsim.typing import Array

GRADIENT = "derivative of the loss for {}"


@dataclass(frozen=True)
class Described:
    """An array with the meaning of its entries.

    Attributes:
        name: name in the file.
        values: the array. Its first axis counts time if `rows` says so, and the others are those of `axes`, or points.
        label: its meaning, in words.
        unit: unit of the values; "" if it is not known.
        axes: axes of the grid along which it varies; None: it is given at points.
        location: location on the cell, an entry for each axis of the grid.
        rows: "times" (steps + 1), "steps", or "" for none.
        points: the name of its points; "" if it has none.
    """

    name: str
    values: Array
    label: str
    unit: str
    axes: tuple[int, ...] | None
    location: Location
    rows: str = ""
    points: str = ""


def described(
    compiled: Compiled, solution: Solution | None, inputs: Mapping[str, Any] | None, gradient: Mapping[str, Any] | None
) -> list[Described]:
    """All arrays that are given, in this order.

    Raises:
        ParameterError: something else is given, or a name is not known.
        ShapeError: an array does not fit to the grid.
    """
    arrays: list[Described] = []
    if solution is not None:
        solution = instance("solution", solution, Solution, "a diffsim.Solution", "give what run returns")
        arrays += [*_final(compiled, solution), *_traces(compiled, solution)]
    for kind, label, named in (("input", "input {}", inputs), ("gradient", GRADIENT, gradient)):
        if named is not None:
            arrays += _inputs(compiled, kind, label, mapping(kind, named, "{'c': c}"))
    return arrays


def _final(compiled: Compiled, solution: Solution) -> Iterator[Described]:
    states = compiled.step.states
    check_names("solution.final", solution.final, states, "states", compiled.equation)
    for name, value in solution.final.items():
        placed = states[name]
        axes = tuple(range(compiled.grid.ndim)) if placed.axes is None else placed.axes
        values = _fitting(f"final {name}", value, tuple(compiled.grid.shape[a] for a in axes))
        unit = unit_of(compiled.equation, name)
        yield Described(f"final_{name}", values, f"{name} after the last step", unit, axes, placed.location)


def _traces(compiled: Compiled, solution: Solution) -> Iterator[Described]:
    check_names("solution.traces", solution.traces, compiled.receivers, "states with receivers", compiled.equation)
    for name, value in solution.traces.items():
        values, location = real_array(f"traces {name}", value), compiled.step.states[name].location
        unit = unit_of(compiled.equation, name)
        yield Described(f"trace_{name}", values, f"{name} at its receivers", unit, None, location, "times", f"receiver_{name}")


def _inputs(compiled: Compiled, kind: str, label: str, named: Mapping[str, Any]) -> Iterator[Described]:
    check_names(kind, named, compiled.inputs, "inputs", compiled.equation)
    for name, value in named.items():
        text, meaning = label.format(name), input_meaning(compiled, name)
        unit = unit_of(compiled.equation, name)
        if kind == "gradient":  # its unit depends on the loss
            unit, meaning = "", replace(meaning, unit="")
        if name in compiled.step.forcings:
            yield Described(f"{kind}_{name}", real_array(name, value, meaning=meaning), text, unit, None, (), "steps", f"source_{name}")
            continue
        series = name in compiled.step.series
        placed = compiled.step.series[name] if series else compiled.traced.fields[name]
        axes = tuple(range(compiled.grid.ndim)) if placed.axes is None else placed.axes
        if kind == "input" and is_function(value):
            value = whole_array(compiled, name, value)
        values = real_array(name, value, meaning=meaning)
        cells = tuple(compiled.grid.shape[a] for a in axes)
        values = _fitting(f"{kind} {name}", values, (*values.shape[:1], *cells) if series else cells)
        yield Described(f"{kind}_{name}", values, text, unit, axes, placed.location, "steps" if series else "")


def _fitting(what: str, value: Any, shape: tuple[int, ...]) -> Array:
    values = real_array(what, value)
    if values.shape != shape:
        raise ShapeError(f"{what} has shape {values.shape}, expected {shape}; give an array of this simulation's")
    return values
