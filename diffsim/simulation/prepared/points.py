"""Places of sources and receivers, as tables of cells and weights."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from diffsim.errors import ShapeError
from diffsim.stepping.declare.points import Places, PointTable, point_table
from diffsim.stepping.derive.forward import receiver_points, source_points
from diffsim.stepping.ir.names import dot
from diffsim.stepping.trace.trace import TracedStep
from diffsim.stepping.trace.tracing import entered_by, forcing_location, forcing_rules

Tables = dict[str, PointTable]
"""Name of a point set -> its cells and weights."""


def point_tables(step: TracedStep, sources: Mapping[str, Places], receivers: Mapping[str, Places]) -> Tables:
    """Tables of sources, which distribute an amplitude as a density, and of receivers, which interpolate.

    Raises:
        ShapeError: a point outside the grid, or a source all of whose cells lie outside of the region of its state.
    """
    tables = {
        source_points(f): point_table(step.grid, forcing_location(step, f), places, f"source of {f}", True, forcing_rules(step, f))
        for f, places in sources.items()
    }
    for state, places in receivers.items():
        field = step.states[state]
        tables[receiver_points(state)] = point_table(step.grid, field.location, places, f"receiver of {state}", rules=field.rules)
    for f in sources:
        _check_region(tables[source_points(f)], step, entered_by(step, f), f"source of {f}")
    return tables


def _check_region(table: PointTable, step: TracedStep, states: Sequence[str], what: str) -> None:
    """Raise `ShapeError` if a source has no cell in which any of the states that it enters exists: it would be lost."""
    inside = [region.inside for state in states if (region := step.states[state].region) is not None]
    if not inside or len(inside) < len(states):
        return
    there = np.logical_or.reduce(inside)[tuple(table.cells.T)]
    for number, (first, last) in enumerate(itertools.pairwise(table.starts)):
        if not there[first:last].any():
            cells = ", ".join(str(tuple(cell)) for cell in table.cells[first:last].tolist()[:2])
            raise ShapeError(
                f"{what} {number} in cells such as {cells}, outside of the region of {' and '.join(states)}, where it would be lost, "
                "expected a place inside; move it, or widen the region"
            )


def side_by_side(tables: Sequence[PointTable]) -> PointTable:
    """The points of all runs of a batch, in the order of the runs, on the grid of all runs."""
    cells = [np.pad(table.cells, ((0, 0), (1, 0)), constant_values=run) for run, table in enumerate(tables)]
    ends = np.cumsum([0, *(len(table.weights) for table in tables)])
    starts = [table.starts[:-1] + first for table, first in zip(tables, ends[:-1], strict=True)]
    return PointTable(
        np.concatenate(cells), np.concatenate([table.weights for table in tables]), np.append(np.concatenate(starts), ends[-1])
    )


def with_tangents(points: Mapping[str, PointTable], forcings: Iterable[str], receivers: Iterable[str], order: int) -> Tables:
    """The tables of a tangent. Its points have the places of the primal's."""
    sources = {source_points(dot(f, order)): points[source_points(f)] for f in forcings}
    return {**points, **sources, **{receiver_points(dot(s, order)): points[receiver_points(s)] for s in receivers}}
