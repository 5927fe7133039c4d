"""Reverse and forward mode over arrays: values, transformations, control flow, records and operators."""

from diffsim.ad import arithmetic as arithmetic  # gives arrays their operators
from diffsim.ad.check import check_grads
from diffsim.ad.custom import custom_jvp, custom_vjp
from diffsim.ad.jacobians import hessian, hvp, jacfwd, jacobian, jacrev
from diffsim.ad.loops import cond, fori_loop, integrate, while_loop
from diffsim.ad.operators import map, reduce, reduce_by_index, scan, scatter
from diffsim.ad.tape import label, show_tape
from diffsim.ad.transform import grad, jvp, linearize, stop_gradient, value_and_grad, vjp
from diffsim.ad.tree import register_pytree
from diffsim.ad.unrecorded import remat
from diffsim.ad.userkernel import check_kernel, kernel

__all__ = [
    "check_grads",
    "check_kernel",
    "cond",
    "custom_jvp",
    "custom_vjp",
    "fori_loop",
    "grad",
    "hessian",
    "hvp",
    "integrate",
    "jacfwd",
    "jacobian",
    "jacrev",
    "jvp",
    "kernel",
    "label",
    "linearize",
    "map",
    "reduce",
    "reduce_by_index",
    "register_pytree",
    "remat",
    "scan",
    "scatter",
    "show_tape",
    "stop_gradient",
    "value_and_grad",
    "vjp",
    "while_loop",
]
