"""Systems of ordinary differential equations, and chaotic systems."""

from diffsim.solvers.dynamics.kuramoto_sivashinsky import KuramotoSivashinsky
from diffsim.solvers.dynamics.lorenz63 import Lorenz63
from diffsim.solvers.dynamics.lorenz96 import Lorenz96
from diffsim.solvers.dynamics.ode import ODE

__all__ = ["ODE", "KuramotoSivashinsky", "Lorenz63", "Lorenz96"]
