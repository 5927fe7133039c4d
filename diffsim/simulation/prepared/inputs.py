"""Units and dimensions of the inputs and values of a simulation, for arrays that state theirs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from diffsim.base.quantities import POINTS, RUNS, Dimension, Meaning, along_axis, counted, times
from diffsim.mesh.grid import Grid
from diffsim.simulation.prepared.traced import Traced
from diffsim.stepping.declare.equation import Equation
from diffsim.stepping.ir.names import primal
from diffsim.stepping.trace.fields import Placed
from diffsim.stepping.trace.trace import TracedStep


class OfOneRun(Protocol):
    """A simulation of one run, as far as its inputs are concerned."""

    equation: Equation
    grid: Grid
    traced: Traced
    step: TracedStep


def input_meaning(compiled: OfOneRun, name: str, runs: bool = False) -> Meaning:
    """The unit and dimensions of an input. With `runs`, an axis of runs may come before the others."""
    step, dt, base = compiled.step, compiled.equation.dt, primal(name)
    if name in step.forcings:
        rows: tuple[Dimension, ...] = times(dt), counted("source", POINTS)
        taken = frozenset(axis.lower() for axis in compiled.grid.axes)
    else:
        placed = step.series[name] if name in step.series else compiled.traced.fields[name]
        cells = _cells(compiled, placed)
        rows = (times(dt), *cells) if name in step.series else cells
        taken = _taken(compiled, placed)
    return Meaning(unit_of(compiled.equation, base), _with_runs(rows, runs and name not in step.series), taken, difference=base != name)


def unit_of(equation: Equation, name: str) -> str:
    """The unit that an equation declares for a field; "" if it declares none."""
    known = {**equation.states, **equation.initials, **equation.parameters, **equation.series}
    return known[name].unit if name in known else ""


def value_meaning(compiled: OfOneRun, part: str, name: str, runs: bool = False) -> Meaning:
    """The dimensions of a state (`part` is "final") or of its "traces", for cotangents, whose unit depends on the loss."""
    if part == "traces":
        rows: tuple[Dimension, ...] = times(compiled.equation.dt), counted("receiver", POINTS)
        taken = frozenset(axis.lower() for axis in compiled.grid.axes)
    else:
        placed = compiled.step.states[name]
        rows, taken = _cells(compiled, placed), _taken(compiled, placed)
    return Meaning("", _with_runs(rows, runs), taken)


def _with_runs(rows: tuple[Dimension, ...], runs: bool) -> tuple[tuple[Dimension, ...], ...]:
    return (rows, (counted("run", RUNS), *rows)) if runs else (rows,)


def _axes(compiled: OfOneRun, placed: Placed) -> Iterable[int]:
    return range(compiled.grid.ndim) if placed.axes is None else placed.axes


def _cells(compiled: OfOneRun, placed: Placed) -> tuple[Dimension, ...]:
    grid = compiled.grid
    places = [(axis, placed.location[axis]) for axis in _axes(compiled, placed)]
    return tuple(along_axis(grid.axes[axis], grid.coordinates(axis, place), grid.unit, place == 1) for axis, place in places)


def _taken(compiled: OfOneRun, placed: Placed) -> frozenset[str]:
    along = set(_axes(compiled, placed))
    return frozenset(name.lower() for axis, name in enumerate(compiled.grid.axes) if axis not in along)
