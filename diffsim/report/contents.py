"""The parts of an outcome that the figures of a report show: its chart, the cells that may change, and the shot that is drawn."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from diffsim.plot.chart import Cells, Chart
from diffsim.typing import Array

if TYPE_CHECKING:
    from diffsim.scene.disk.outcome import Compared, Outcome, UnknownField


def chart_of(outcome: Outcome) -> Chart:
    """The grid of an outcome, with its land, sources and receivers."""
    depth = outcome.background.get("H")
    land = None if depth is None or not np.any(depth <= 0) else np.asarray(depth <= 0)
    return Chart.over(outcome.axes, land, outcome.sources, outcome.receivers)


def bed_of(outcome: Outcome, state: str) -> Array | None:
    """The bed under a level of water that floods land and leaves it; None: the state is another, or the bed is unknown."""
    return outcome.background.get("z") if state == "eta" else None


def free_cells(chart: Chart, field: UnknownField) -> Cells:
    """Cells of an unknown that may change."""
    free = np.ones(field.start.shape, bool) if field.mask is None else np.asarray(field.mask, bool)
    return free if chart.land is None else free & ~chart.land


def outline(chart: Chart, field: UnknownField) -> Cells | None:
    """The same, if their edge is more than the coast; else None."""
    free = free_cells(chart, field)
    return None if free.sum() == free.size - (0 if chart.land is None else chart.land.sum()) else free


def middle(pair: Compared) -> int:
    """Number of the shot that is drawn."""
    return len(pair.data) // 2


def which_shot(pair: Compared) -> str:
    """A sentence for a caption, if there are several shots."""
    return f" Shot {middle(pair) + 1} of {len(pair.data)} is shown." if len(pair.data) > 1 else ""
