"""Differentiable physics on Taichi: PDE solvers with fast, bounded and certified gradients."""

from diffsim import checkpoint, errors, solvers
from diffsim.ad.userkernel import check_kernel, kernel
from diffsim.certificate import certify
from diffsim.errors import DiffsimError
from diffsim.grid import Grid
from diffsim.runtime import init
from diffsim.scene import Scene
from diffsim.simulation import Simulation, Solution
from diffsim.stepping.equation import Equation, Profile, Variable
from diffsim.stepping.trace import stage

__version__ = "0.1.0"

__all__ = [
    "DiffsimError",
    "Equation",
    "Grid",
    "Profile",
    "Scene",
    "Simulation",
    "Solution",
    "Variable",
    "__version__",
    "certify",
    "check_kernel",
    "checkpoint",
    "errors",
    "init",
    "kernel",
    "solvers",
    "stage",
]
