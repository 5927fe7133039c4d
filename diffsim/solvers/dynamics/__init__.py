"""Systems of ordinary differential equations, and chaotic systems."""

from diffsim.solvers.dynamics.kolmogorov import Kolmogorov
from diffsim.solvers.dynamics.kuramoto_sivashinsky import KuramotoSivashinsky
from diffsim.solvers.dynamics.lorenz63 import Lorenz63
from diffsim.solvers.dynamics.lorenz96 import Lorenz96
from diffsim.solvers.dynamics.lorenz96_two_scale import Lorenz96TwoScale
from diffsim.solvers.dynamics.ode import ODE

__all__ = ["ODE", "Kolmogorov", "KuramotoSivashinsky", "Lorenz63", "Lorenz96", "Lorenz96TwoScale"]
