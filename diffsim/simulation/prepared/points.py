"""Places of sources and receivers, as tables of cells and weights."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from diffsim.stepping.declare.points import Places, PointTable, point_table
from diffsim.stepping.derive.forward import receiver_points, source_points
from diffsim.stepping.ir.names import dot
from diffsim.stepping.trace.trace import TracedStep
from diffsim.stepping.trace.tracing import forcing_location, forcing_rules

Tables = dict[str, PointTable]
"""Name of a point set -> its cells and weights."""


def point_tables(step: TracedStep, sources: Mapping[str, Places], receivers: Mapping[str, Places]) -> Tables:
    """Tables of sources, which distribute an amplitude as a density, and of receivers, which interpolate."""
    tables = {
        source_points(f): point_table(step.grid, forcing_location(step, f), places, f"source of {f}", True, forcing_rules(step, f))
        for f, places in sources.items()
    }
    for state, places in receivers.items():
        field = step.states[state]
        tables[receiver_points(state)] = point_table(step.grid, field.location, places, f"receiver of {state}", rules=field.rules)
    return tables


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
