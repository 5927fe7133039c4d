"""Means on the faces between cells."""

from __future__ import annotations

from diffsim.expr.operators import interpolate
from diffsim.expr.symbol import Symbol


def harmonic(f: Symbol, axis: int) -> Symbol:
    """The harmonic mean on the upper faces of an axis, each cell by its width: the conductivity of two layers in a row."""
    resistance = 1 / f
    both = resistance.across(axis) + resistance.shifted(axis, 1).across(axis)
    return 1 / (both - interpolate(resistance, axis))  # `interpolate` weights each cell by the width of the other
