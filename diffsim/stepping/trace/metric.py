"""Sizes of cells along stretched axes, as profiles that operators read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from diffsim.boundary import Rules
from diffsim.errors import ShapeError
from diffsim.expr.metric import KINDS, metric_name
from diffsim.mesh.grid import Grid
from diffsim.stepping.declare.equation import Profile
from diffsim.typing import Array


@dataclass(frozen=True)
class Metric(Profile):
    """A size of the cells along an axis.

    Attributes:
        kind: the kind of size, one of `diffsim.expr.metric.KINDS`.
    """

    kind: str = ""

    def extended(self, values: Array, halo: int) -> Array:
        """Extend the widths of the cells, `values`, by mirroring cells outside the grid."""
        return KINDS[self.kind].of(np.pad(values, halo + 1, mode="symmetric"))


def metrics(grid: Grid) -> dict[str, Metric]:
    """Every size along every stretched axis, by the name under which operators read it."""
    stretched = [axis for axis, h in enumerate(grid.uniform_spacing) if h is None]
    return {
        metric_name(kind, axis): Metric(axis, grid.widths(axis), figure.location, kind)
        for axis in stretched
        for kind, figure in KINDS.items()
    }


def check_not_periodic(grid: Grid, rules: Mapping[str, Rules]) -> None:
    """Raise `ShapeError` if a rule joins the ends of a stretched axis. Operators assume mirrored cells outside."""
    for name, of_field in rules.items():
        for axis, ((low, _), h) in enumerate(zip(of_field, grid.uniform_spacing, strict=True)):
            if h is None and low.rule.joins:
                word = type(low.rule).__name__.lower()
                raise ShapeError(
                    f"{name} is {word} along {grid.axes[axis]}, which is stretched, expected another rule; choose one, or a uniform axis"
                )
