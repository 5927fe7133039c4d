"""Discontinuous Galerkin methods: polynomials in each element, joined by upwind fluxes."""

from diffsim.solvers.dg.acoustic import DGAcoustic
from diffsim.solvers.dg.advection import DGAdvection

__all__ = ["DGAcoustic", "DGAdvection"]
