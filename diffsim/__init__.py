"""Differentiable physics on Taichi: PDE solvers with fast, bounded and certified gradients."""

from diffsim import checkpoint, errors, solvers
from diffsim.errors import DiffsimError
from diffsim.grid import Grid
from diffsim.runtime import init
from diffsim.simulation import Simulation, Solution
from diffsim.stepping.equation import Equation, Profile, Variable, stage

__version__ = "0.1.0"

__all__ = [
    "DiffsimError",
    "Equation",
    "Grid",
    "Profile",
    "Simulation",
    "Solution",
    "Variable",
    "__version__",
    "checkpoint",
    "errors",
    "init",
    "solvers",
    "stage",
]
