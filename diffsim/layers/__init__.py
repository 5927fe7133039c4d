"""Absorbing layers: cells along the edges of the grid in which waves leave. A step uses them as functions around its expressions."""

from diffsim.layers.cpml import CPML
from diffsim.layers.sponge import Sponge

__all__ = ["CPML", "Sponge"]
