"""Arrays and numbers of other packages that state a unit or labels: their plain numbers in the unit and order that an input has."""

from diffsim.quantities.meaning import ANYTHING, Dimension, Meaning, along_axis, points, times
from diffsim.quantities.plain import bare, plain, stated

__all__ = ["ANYTHING", "Dimension", "Meaning", "along_axis", "bare", "plain", "points", "stated", "times"]
