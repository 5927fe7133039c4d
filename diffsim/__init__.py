"""Differentiable physics on Taichi: PDE solvers with fast, bounded and certified gradients."""

from diffsim.base import start  # noqa: F401, I001  first, because the other imports take a second or two
import importlib
from typing import TYPE_CHECKING, Any

from diffsim import checkpoint, errors, expr, integrators, layers, numpy
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
    jit,
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
from diffsim.boundary import Antiperiodic, Dirichlet, EvenImage, Extrapolate, Neumann, OddImage, Open, Outflow, Robin
from diffsim.errors import DiffsimError
from diffsim.mesh.grid import Grid
from diffsim.engine import init
from diffsim.simulation import Batch, Simulation, Solution, host_stage, plan, steady
from diffsim.stepping.declare.equation import Equation, Profile, Variable
from diffsim.stepping.declare.groups import SymmetricTensor, Vector
from diffsim.stepping.stages.newton import newton
from diffsim.stepping.declare.points import Points
from diffsim.stepping.stages.repeat import repeat
from diffsim.stepping.stages.running_sum import running_sum
from diffsim.stepping.stages.solve import solve
from diffsim.stepping.stages.steady import Steady
from diffsim.stepping.trace.stages import stage
from diffsim.version import __version__

if TYPE_CHECKING:
    from diffsim import assimilate, chaos, losses, ocean, optimize, photonics, records, solvers, tile
    from diffsim.certificate.certify import certify
    from diffsim.scene import Scene
    from diffsim.solvers.dynamics import ODE
    from diffsim.tile.preconditioners import BlockJacobi

PARTS = ("assimilate", "chaos", "losses", "ocean", "optimize", "photonics", "records", "scene", "solvers", "tile")
"""Parts that are imported on first use. Together they take longer than all others."""
NAMES = {
    "BlockJacobi": "diffsim.tile.preconditioners",
    "ODE": "diffsim.solvers.dynamics",
    "Scene": "diffsim.scene",
    "certify": "diffsim.certificate",
}
"""Names that come from other such parts."""

__all__ = [
    "ODE",
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
    "Open",
    "Outflow",
    "Points",
    "Profile",
    "Robin",
    "Scene",
    "Simulation",
    "Solution",
    "Steady",
    "SymmetricTensor",
    "Variable",
    "Vector",
    "__version__",
    "assimilate",
    "certify",
    "chaos",
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
    "jit",
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
    "ocean",
    "optimize",
    "photonics",
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
    "steady",
    "stop_gradient",
    "tile",
    "value_and_grad",
    "vjp",
    "while_loop",
]


def __getattr__(name: str) -> Any:
    """Parts and names on demand."""
    if name in PARTS:
        return importlib.import_module(f"diffsim.{name}")
    if name not in NAMES:
        raise AttributeError(f"module 'diffsim' has no attribute {name!r}")
    return globals().setdefault(name, getattr(importlib.import_module(NAMES[name]), name))


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *PARTS})
