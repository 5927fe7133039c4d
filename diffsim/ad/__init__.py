"""Reverse and forward mode over arrays: values, transformations, control flow, pytrees and operators."""

from diffsim.ad.loops.loops import cond, fori_loop, integrate, while_loop
from diffsim.ad.loops.remat import remat
from diffsim.ad.recorded.jit import jit
from diffsim.ad.scans.operators import map, reduce, reduce_by_index, scan, scatter
from diffsim.ad.transforms.check import check_grads
from diffsim.ad.transforms.custom import custom_jvp, custom_vjp
from diffsim.ad.transforms.gradients import grad, stop_gradient, value_and_grad
from diffsim.ad.transforms.jacobians import hessian, hvp, jacfwd, jacobian, jacrev
from diffsim.ad.transforms.jvp import jvp
from diffsim.ad.transforms.linear_operator import linear_operator
from diffsim.ad.transforms.linearize import linearize
from diffsim.ad.transforms.tape import label, show_tape
from diffsim.ad.transforms.vjp import vjp
from diffsim.ad.tree import register_pytree
from diffsim.ad.userkernel import check_kernel, kernel

__all__ = [
    "check_grads", "check_kernel", "cond", "custom_jvp", "custom_vjp", "fori_loop", "grad", "hessian", "hvp", "integrate", "jacfwd",
    "jacobian", "jacrev", "jit", "jvp", "kernel", "label", "linear_operator", "linearize", "map", "reduce", "reduce_by_index",
    "register_pytree", "remat", "scan", "scatter", "show_tape", "stop_gradient", "value_and_grad", "vjp", "while_loop",
]  # fmt: skip
