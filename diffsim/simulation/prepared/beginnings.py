"""Where values of a run stopped being finite: the step, the field, the cell and the operation, found by running again."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from diffsim.expr.evaluate import evaluate, pad
from diffsim.expr.graph import CONDITIONS, Node, ordered, reads
from diffsim.mesh.grid import Grid
from diffsim.simulation.prepared.checks import all_finite
from diffsim.stepping.run.stepper import Stepper
from diffsim.stepping.stages.iteration import at_cell
from diffsim.stepping.trace.fields import Placed
from diffsim.stepping.trace.stages import StoredExpression
from diffsim.stepping.trace.trace import TracedStep
from diffsim.typing import Array

LONGEST = 30.0
"""Seconds of a run that is not run again to find where it went wrong. Both searches together take twice as long as the run."""


class Began(NamedTuple):
    """A run that has begun.

    Attributes:
        fields: its inputs.
        restart: puts the stepper back to the first state, and returns the coefficients.
        seconds: clock at the start.
    """

    fields: Mapping[str, Array]
    restart: Callable[[], Mapping[str, Array]]
    seconds: float


class First(NamedTuple):
    """The first step after which a state is not finite: its number from 0, the coefficients, and the states before and after it."""

    step: int
    coefficients: Mapping[str, Array]
    before: dict[str, Array]
    after: dict[str, Array]


def beginning(began: Began, stepper: Stepper, dtype: np.dtype) -> str:
    """A sentence about the first step after which a state is not finite; "" where the run took long, or none is."""
    if time.monotonic() - began.seconds > LONGEST:
        return ""
    first = _first(began, stepper)
    if first is None:
        return ""
    name, value = next((name, value) for name, value in first.after.items() if not all_finite(value))
    cell = tuple(map(int, np.unravel_index(int(np.argmin(np.isfinite(value))), value.shape)))
    operation = _operation(stepper.step, first, began, dtype, (name, cell))
    at = f"[{', '.join(map(str, cell))}]" if cell else ""
    return f"It began in step {first.step + 1}, where {name}{at} became {value[cell]:g}{operation}. "


def _first(began: Began, stepper: Stepper) -> First | None:
    """Advance in parts as long as the root of all steps, then in single steps through the first that ends badly."""
    steps = stepper.steps
    part = math.isqrt(steps - 1) + 1
    began.restart()
    low = next((low for low in range(0, steps, part) if not _is_finite(_advanced(stepper, low, min(low + part, steps)))), None)
    if low is None:
        return None
    coefficients = began.restart()
    before = _advanced(stepper, 0, low) if low else stepper.state()
    for step in range(low, min(low + part, steps)):
        after = _advanced(stepper, step, step + 1)
        if not _is_finite(after):
            return First(step, coefficients, before, after)
        before = after
    return None


def _advanced(stepper: Stepper, start: int, stop: int) -> dict[str, Array]:
    stepper.advance(start, stop)
    return stepper.state()


def _is_finite(states: Mapping[str, Array]) -> bool:
    return all(map(all_finite, states.values()))


def _operation(step: TracedStep, first: First, began: Began, dtype: np.dtype, said: tuple[str, tuple[int, ...]]) -> str:
    """The operation of the step that has no finite value of finite operands, evaluated by NumPy; "" where that cannot tell.

    Stages that are computed on the host, loops and numbers of all cells are not evaluated, and sources count as 0. A place that is `said`
    already, a state and a cell, is not repeated.
    """
    expressions: dict[str, Node] = {}
    for stage in step.stages:
        if not isinstance(stage, StoredExpression):
            return ""
        expressions[stage.name] = stage.node
    grid, reach = step.grid, _reach([*expressions.values(), *step.outputs.values()], step.grid.ndim)
    fields = _fields(step, first, began, dtype, reach)
    stored = {stage.name: stage for stage in step.stages if isinstance(stage, StoredExpression)}
    for name, root in (*expressions.items(), *step.outputs.items()):
        if not reads([root]).keys() <= fields.keys():
            return ""
        nodes = ordered([root])
        with np.errstate(all="ignore"):
            values = dict(zip((node.id for node in nodes), evaluate(nodes, fields, grid.shape, reach), strict=True))
        if not (fine := np.isfinite(values[root.id])).all():
            cell = tuple(map(int, np.unravel_index(int(np.argmin(fine)), grid.shape)))
            node = _origin(root, values, cell)
            names = {
                field: "a stage" if field in stored else "a weight near a side" if field in step.profiles else field for field in fields
            }
            at = "" if cell == said[1] else f" at {cell}"
            where = "" if (name, cell) == said else f", in {'a stage' if name in stored else f'the next {name}'}{at}"
            return f" by {at_cell(node, values, cell, names).rstrip(',')}{where}"
        if name in stored:
            fields[name] = pad(np.ascontiguousarray(values[root.id], dtype), reach, stored[name].rules)
    return ""


def _origin(node: Node, values: Mapping[int, Array], cell: tuple[Any, ...]) -> Node:
    """The operation whose operands are finite in a cell, on the way from an expression that is not. What no condition takes is left out."""
    while True:
        taken = node.args
        if node.op == "select":
            taken = (node.args[1] if values[node.args[0].id][cell] else node.args[2],)
        wrong = [each for each in taken if each.op not in CONDITIONS and not np.isfinite(values[each.id][cell])]
        if not wrong:
            return node
        node = wrong[0]


def _reach(roots: list[Node], ndim: int) -> tuple[int, ...]:
    offsets = [offset for each in reads(roots).values() for offset in each]
    return tuple(max((abs(offset[axis]) for offset in offsets), default=0) for axis in range(ndim))


def _fields(step: TracedStep, first: First, began: Began, dtype: np.dtype, reach: tuple[int, ...]) -> dict[str, Array]:
    """All that the step reads, with values outside the grid, and one value along an axis where a field is constant."""
    grid: Grid = step.grid
    flat = (1,) * grid.ndim
    fields = {name: np.zeros(flat, dtype) for name in step.forcings}
    clock = {"t": first.step * step.graph.dt, "n": first.step}
    fields |= {name: np.full(flat, clock[name], dtype) for name in step.clock}
    for name, profile in step.profiles.items():
        shape = [-1 if axis == profile.axis else 1 for axis in range(grid.ndim)]
        fields[name] = np.pad(np.asarray(profile.values, dtype), reach[profile.axis], mode="edge").reshape(shape)
    placed: list[tuple[Mapping[str, Placed], Callable[[str], Array]]] = [
        (step.states, first.before.__getitem__),
        (step.coefficients, lambda name: step.coefficients[name].of_cells(first.coefficients[name])),
        (step.series, lambda name: began.fields[name][first.step]),
    ]
    for known, value_of in placed:
        for name, field in known.items():
            cells = np.expand_dims(np.asarray(value_of(name), dtype), field.constant)
            halo = tuple(0 if axis in field.constant else width for axis, width in enumerate(reach))
            fields[name] = pad(cells, halo, field.rules)
    return fields
