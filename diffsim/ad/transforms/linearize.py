"""The value of a function and its derivative as a linear function, from one run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from diffsim.ad.arrays.leaves import differentiable
from diffsim.ad.core import laid_out
from diffsim.ad.transforms.vjp import vjp
from diffsim.ad.tree import flatten, unflatten
from diffsim.base import arguments
from diffsim.base.copies import Bound

Function = Callable[..., Any]


def linearize(f: Function, *primals: Any) -> tuple[Any, Function]:
    """Value of `f` and its derivative at `primals` as a function of tangents, `f` being run once.

    The derivative is the transpose of the pullback, which is linear: it costs two reverse sweeps.

    Args:
        f: of arrays, numbers and pytrees of them.
        primals: where.

    Returns:
        (value, derivative): the derivative takes a tangent an argument, and gives the tangent of the value.

    Raises:
        DerivativeError: an operation without a rule.

    Example:
        import numpy

        import diffsim as ds
        import diffsim.numpy as np

        # A step of Gauss and Newton needs many products with one Jacobian.
        t = numpy.linspace(0.0, 2.0, 20)
        value, derivative = ds.linearize(lambda p: p[0] * np.exp(-p[1] * t), numpy.array([1.0, 0.5]))
        columns = numpy.stack([derivative(e) for e in numpy.eye(2)], axis=1)
        data = 1.2 * numpy.exp(-0.6 * t)
        step = numpy.linalg.lstsq(columns, data - value, rcond=None)[0]
        assert numpy.allclose(numpy.array([1.0, 0.5]) + step, [1.2, 0.6], atol=0.05)
    """
    arguments.function("f", f, "ds.linearize(lambda x: x**2, x)", optional=False)
    value, pullback = vjp(f, *primals)
    leaves, tree = flatten(value)
    seeds = [None if (c := differentiable(leaf)) is None else np.ones_like(laid_out(c))[()] for leaf in leaves]

    def derivative(*tangents: Any) -> Any:
        _, transposed = vjp(lambda cts: pullback(cts), unflatten(tree, seeds))
        return transposed(tuple(tangents))[0]

    return value, Bound(
        derivative, "a linearised function", "the tape of a function that was run; pickle the function and its arguments instead"
    )
