"""The value of a function and its derivative as a linear function, from one run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from diffsim import arguments
from diffsim.ad.arrays.leaves import differentiable
from diffsim.ad.core import bottom
from diffsim.ad.transforms.vjp import vjp
from diffsim.ad.tree import flatten, unflatten
from diffsim.copies import Bound

Function = Callable[..., Any]


def linearize(f: Function, *primals: Any) -> tuple[Any, Function]:
    """Value of `f` and its derivative at `primals` as a function of tangents, `f` being run once.

    The derivative is the transpose of the pullback, which is linear: it costs two reverse sweeps.
    """
    arguments.function("f", f, "ds.linearize(lambda x: x**2, x)", optional=False)
    value, pullback = vjp(f, *primals)
    leaves, tree = flatten(value)
    seeds = [None if (c := differentiable(leaf)) is None else np.ones_like(bottom(c))[()] for leaf in leaves]

    def derivative(*tangents: Any) -> Any:
        _, transposed = vjp(lambda cts: pullback(cts), unflatten(tree, seeds))
        return transposed(tuple(tangents))[0]

    return value, Bound(
        derivative, "a linearised function", "the record of a function that was run; pickle the function and its arguments instead"
    )
