"""Programs of one tile with closed-form gradients: importing a module of them puts its cases into `CASES`."""

from __future__ import annotations

from . import assignment, choices, linear_algebra, positions, reductions, turns, views  # noqa: F401
from .cases import CASES

__all__ = ["CASES"]
