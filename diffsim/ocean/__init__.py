"""The sea around `diffsim.solvers.LongWave`: the sea floor that an earthquake moves."""

from diffsim.ocean.fault import Fault as Fault
from diffsim.ocean.fault import tangent_plane as tangent_plane
from diffsim.ocean.okada import Okada as Okada
