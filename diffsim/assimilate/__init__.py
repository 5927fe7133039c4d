"""Variational data assimilation: the initial state, parameters and jumps of a simulation that explain observations of its run."""

from diffsim.assimilate.analysis import Analysis
from diffsim.assimilate.four_d_var import FourDVar
from diffsim.assimilate.observations import Observations

__all__ = ["Analysis", "FourDVar", "Observations"]
