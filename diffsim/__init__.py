"""Differentiable physics on Taichi: PDE solvers with fast, bounded and certified gradients."""

from diffsim import start  # noqa: F401, I001  first, because the other imports take a second or two
import importlib
from typing import TYPE_CHECKING, Any

from diffsim import checkpoint, errors, expr, integrators, layers, losses, numpy, optimize, records, solvers, tile
from diffsim.ad import (
    check_grads,
    check_kernel,
    cond,
    custom_jvp,
    custom_vjp,
    fori_loop,
    grad,
    hessian,
    hvp,
    integrate,
    jacfwd,
    jacobian,
    jacrev,
    jvp,
    kernel,
    label,
    linear_operator,
    linearize,
    map,
    reduce,
    reduce_by_index,
    register_pytree,
    remat,
    scan,
    scatter,
    show_tape,
    stop_gradient,
    value_and_grad,
    vjp,
    while_loop,
)
from diffsim.boundary import Antiperiodic, Dirichlet, EvenImage, Extrapolate, Neumann, OddImage, Outflow, Robin
from diffsim.certificate import certify
from diffsim.errors import DiffsimError
from diffsim.grid import Grid
from diffsim.engine import init
from diffsim.preconditioners import BlockJacobi
from diffsim.simulation import Batch, Simulation, Solution, host_stage, plan
from diffsim.stepping.equation import Equation, Profile, Variable
from diffsim.stepping.newton import newton
from diffsim.stepping.repeat import repeat
from diffsim.stepping.running_sum import running_sum
from diffsim.stepping.solve import solve
from diffsim.stepping.stages import stage
from diffsim.version import __version__

if TYPE_CHECKING:
    from diffsim.scene import Scene

__all__ = [
    "Antiperiodic",
    "Batch",
    "BlockJacobi",
    "DiffsimError",
    "Dirichlet",
    "Equation",
    "EvenImage",
    "Extrapolate",
    "Grid",
    "Neumann",
    "OddImage",
    "Outflow",
    "Profile",
    "Robin",
    "Scene",
    "Simulation",
    "Solution",
    "Variable",
    "__version__",
    "certify",
    "check_grads",
    "check_kernel",
    "checkpoint",
    "cond",
    "custom_jvp",
    "custom_vjp",
    "errors",
    "expr",
    "fori_loop",
    "grad",
    "hessian",
    "host_stage",
    "hvp",
    "init",
    "integrate",
    "integrators",
    "jacfwd",
    "jacobian",
    "jacrev",
    "jvp",
    "kernel",
    "label",
    "layers",
    "linear_operator",
    "linearize",
    "losses",
    "map",
    "newton",
    "numpy",
    "optimize",
    "plan",
    "records",
    "reduce",
    "reduce_by_index",
    "register_pytree",
    "remat",
    "repeat",
    "running_sum",
    "scan",
    "scatter",
    "show_tape",
    "solve",
    "solvers",
    "stage",
    "stop_gradient",
    "tile",
    "value_and_grad",
    "vjp",
    "while_loop",
]


def __getattr__(name: str) -> Any:
    """`Scene` and `scene`, on demand: what reads scene files takes as long to import as a third of all else."""
    if name not in ("Scene", "scene"):
        raise AttributeError(f"module 'diffsim' has no attribute {name!r}")
    scene = importlib.import_module("diffsim.scene")
    return globals().setdefault(name, scene if name == "scene" else scene.Scene)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
