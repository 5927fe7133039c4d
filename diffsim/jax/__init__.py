"""Simulations in JAX: a function that works under `jit`, `grad`, `jvp` and `vmap`; its derivatives are those of the solver.

JAX calls the solver on the host, and copies the arrays that it passes. Nothing else is copied. The states and traces of a solution are
trees of JAX, so `jax.tree_util.tree_map` reaches each of their arrays.
"""

from diffsim.jax.run import run
from diffsim.jax.trees import register

register()

__all__ = ["run"]
