"""Several runs of one step side by side: the same expressions on a grid with one more axis, along which no cell reads another.

The parts of a batch are again a traced step and traced maps. So the same code runs and differentiates one run and many, and each run has
the same bits as alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from diffsim.boundary import after_one_more
from diffsim.expr.graph import Node
from diffsim.mesh.field import Region
from diffsim.mesh.grid import MAX_DIMENSIONS, Grid
from diffsim.stepping.declare.equation import Profile
from diffsim.stepping.trace.fields import Placed
from diffsim.stepping.trace.moved import Moved, P
from diffsim.stepping.trace.stages import StoredExpression
from diffsim.stepping.trace.trace import TracedStep


def why_not_batched(step: TracedStep) -> str | None:
    """The part of a step that cannot be computed for several runs at once; None: there is none."""
    if step.grid.ndim == MAX_DIMENSIONS:
        return f"a grid of {MAX_DIMENSIONS} dimensions"
    others = [stage for stage in step.stages if not isinstance(stage, StoredExpression)]
    if others:
        return f"a stage of the kind {type(others[0]).__name__}, which reads all cells"
    numbers = [name for name, placed in step.states.items() if placed.axes is not None]
    return f"a state that is a number, {numbers[0]}" if numbers else None


class Batched(Moved):
    """Adds an axis of runs, before the others, to the parts of a traced equation.

    Attributes:
        grid: grid of all runs.
    """

    def __init__(self, grid: Grid, runs: int) -> None:
        super().__init__(grid.repeated(runs, "run"))

    def _series(self, fields: Mapping[str, Placed]) -> dict[str, Placed]:
        return {name: replace(self._field(field), axes=_later(field.axes or ())) for name, field in fields.items()}

    def _field(self, field: P) -> P:
        """A field that varies from run to run."""
        region = None if field.region is None else Region(np.broadcast_to(field.region.inside, self.grid.shape))
        axes = None if field.axes is None else (0, *_later(field.axes))
        return replace(field, location=(0, *field.location), rules=after_one_more(field.rules), region=region, axes=axes)

    def _profile(self, profile: Profile) -> Profile:
        return profile.after_one_more()

    def _read(self, node: Node) -> tuple[str, tuple[int, ...]]:
        """The data of a read within the same run."""
        name, offset = node.data
        return name, (0, *offset)


def _later(axes: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(axis + 1 for axis in axes)
