"""Simulations in torch: a function and a module whose derivatives come from the adjoint and the tangent of the solver.

Tensors lie in the memory of the host. They come in and go out without a copy.
"""

from diffsim.torch.module import Module, run

__all__ = ["Module", "run"]
