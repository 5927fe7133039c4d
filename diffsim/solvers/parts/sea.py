"""Constants of the sea, and a sea floor that rises."""

from __future__ import annotations

from collections.abc import Mapping

from diffsim.expr.functions import clip
from diffsim.expr.symbol import Symbol
from diffsim.solvers.parts.stability import check_sign
from diffsim.typing import Array

GRAVITY = 9.81
"""m/s²"""
EARTH_RADIUS = 6.371e6
"""Mean radius, m."""
UPLIFT = {"uplift": "m", "start": "s", "rise": "s"}
"""The inputs of a sea floor that rises, with their units."""


def risen(t: Symbol | float, times: Mapping[str, Symbol]) -> Symbol:
    """The share of an uplift that has risen at a time: from 0 at `start` to 1 at `start` + `rise`, with a continuous velocity."""
    share = clip((t - times["start"]) / times["rise"], 0.0, 1.0)
    return share * share * (3 - 2 * share)


def check_uplift(parameters: Mapping[str, Array]) -> None:
    """Raise unless a rise takes time."""
    check_sign("rise", parameters["rise"], "s")
