"""The weighted sum of squares as one operation.

Most losses end with it. Its parts (square, weight, sum) would go through memory twice as often.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from diffsim.ad.core import Primitive, local
from diffsim.ad.ops.elementwise import multiply, scale
from diffsim.ad.ops.structure import add_up, like, unbroadcast


def _evaluate(x: Any, weight: Any) -> Any:
    product = multiply.evaluate(x, x)
    if np.ndim(weight):
        return np.add.reduce(np.multiply(product, weight, out=product), axis=None)
    return weight * np.add.reduce(product, axis=None)


def _times(ct: Any, p: Any) -> Any:
    """A cotangent times a partial derivative."""
    return scale(ct, p) if local.zero_wins else ct * p


def _jvp(args: Any, tangents: Any, out: Any, params: Any) -> Any:
    (x, weight), (x_dot, weight_dot) = args, tangents
    along = [*([] if x_dot is None else [2.0 * weight * x * x_dot]), *([] if weight_dot is None else [x * x * weight_dot])]
    return like(add_up(along[0] if len(along) == 1 else along[0] + along[1], axis=None, keepdims=False), out)


def _vjp(ct: Any, args: Any, out: Any, params: Any, wanted: Any) -> Any:
    x, weight = args
    x_bar = weight_bar = None
    if wanted[0]:
        x_bar = like(_times(2.0 * ct, weight * x) if np.ndim(weight) else _times(2.0 * weight * ct, x), x)
    if wanted[1]:
        weight_bar = unbroadcast(_times(ct, x * x), weight)
    return x_bar, weight_bar


sum_of_squares: Primitive = Primitive("sum_of_squares", _evaluate, jvp=_jvp, vjp=_vjp, keeps=lambda wanted: ((True, wanted[0]), False))
"""Σ weight x² over all entries of an array; the weight is a number, or broadcasts to the shape of x."""
