"""Chaotic systems: Lyapunov exponents and vectors, and sensitivities of long averages where plain gradients explode."""

from diffsim.chaos.covariant import covariant_vectors
from diffsim.chaos.exponents import lyapunov
from diffsim.chaos.predictability import ensemble_gradient, predictability
from diffsim.chaos.response import linear_response
from diffsim.chaos.shadowing import shadowing

__all__ = ["covariant_vectors", "ensemble_gradient", "linear_response", "lyapunov", "predictability", "shadowing"]
