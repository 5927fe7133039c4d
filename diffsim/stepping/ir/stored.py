"""How the fields of a step are stored."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from diffsim.mesh.field import Layout, Slim
from diffsim.stepping.ir.sparse import Sparse


@dataclass(frozen=True)
class StoredFields:
    """What kernels know of their arrays.

    Attributes:
        layout: of every field that is stored everywhere.
        reach: array -> how far along each axis any kernel reads it beyond a cell; the halo is filled that far.
        slim: fields that vary along some axes only.
        sparse: how arrays are stored that exist in a region only.
        stacks: arrays of loops within a step, and how many levels each has.
    """

    layout: Layout
    reach: Mapping[str, tuple[int, ...]]
    slim: Mapping[str, Slim]
    sparse: Mapping[str, Sparse]
    stacks: Mapping[str, int]
