"""Equations that are ready to use, one a file."""

from diffsim.solvers.acoustic import Acoustic
from diffsim.solvers.heat import Heat
from diffsim.solvers.long_wave import LongWave

__all__ = ["Acoustic", "Heat", "LongWave"]
