"""Simulations in JAX: a function that works under `jit`, `grad`, `jvp` and `vmap`; its derivatives are those of the solver.

JAX calls the solver on the host, and copies the arrays that it passes. Nothing else is copied.
"""

from diffsim.jax.run import run

__all__ = ["run"]
