"""Equations that are ready to use, one a file."""

from diffsim.solvers.acoustic import Acoustic
from diffsim.solvers.advection import Advection
from diffsim.solvers.burgers import Burgers
from diffsim.solvers.dg import DGAcoustic, DGAdvection
from diffsim.solvers.dynamics import Kolmogorov, KuramotoSivashinsky, Lorenz63, Lorenz96, Lorenz96TwoScale
from diffsim.solvers.elastic import Elastic
from diffsim.solvers.euler import Euler
from diffsim.solvers.heat import Heat
from diffsim.solvers.long_wave import LongWave
from diffsim.solvers.maxwell import Maxwell
from diffsim.solvers.navier_stokes import NavierStokes
from diffsim.solvers.quasi_geostrophic import QuasiGeostrophic
from diffsim.solvers.reaction_diffusion import ReactionDiffusion
from diffsim.solvers.schroedinger import Schroedinger
from diffsim.solvers.shallow_water import ShallowWater
from diffsim.solvers.visco_acoustic import ViscoAcoustic

__all__ = [
    "Acoustic",
    "Advection",
    "Burgers",
    "DGAcoustic",
    "DGAdvection",
    "Elastic",
    "Euler",
    "Heat",
    "Kolmogorov",
    "KuramotoSivashinsky",
    "LongWave",
    "Lorenz63",
    "Lorenz96",
    "Lorenz96TwoScale",
    "Maxwell",
    "NavierStokes",
    "QuasiGeostrophic",
    "ReactionDiffusion",
    "Schroedinger",
    "ShallowWater",
    "ViscoAcoustic",
]
