"""All programs: importing a group's module puts its cases into `CASES`."""

from __future__ import annotations

from . import (  # noqa: F401
    branches,
    checkpointed,
    custom_rules,
    for_loops,
    fourier_and_complex,
    gathers,
    histograms,
    in_place,
    indexing,
    linear_algebra,
    maps,
    mixed_precision,
    nested_derivatives,
    nested_maps,
    pytrees,
    reductions,
    scans,
    scatters,
    sharing,
    sorting,
    tangents,
    views,
    while_loops,
)
from .cases import CASES

__all__ = ["CASES"]
