"""Arrays and numbers of other packages that state a unit or labels: their plain numbers in the unit and order that an input has."""

from diffsim.base.quantities.meaning import ANYTHING, POINTS, RUNS, Dimension, Meaning, along_axis, counted, places_on, times
from diffsim.base.quantities.plain import bare, is_bare, plain, stated

__all__ = [
    "ANYTHING", "POINTS", "RUNS", "Dimension", "Meaning", "along_axis", "bare", "counted", "is_bare", "places_on", "plain", "stated",
    "times",
]  # fmt: skip
