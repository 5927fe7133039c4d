"""Gaussian smoothing over the cells of a grid."""

from __future__ import annotations

from typing import Any

from scipy.ndimage import gaussian_filter

from diffsim.ad.arrays.array import core, wrap
from diffsim.ad.core import Primitive
from diffsim.ad.ops.structure import linear

_smooth: Primitive = linear(
    "gaussian_filter",
    lambda x, deviation: gaussian_filter(x, deviation, mode="reflect"),
    lambda ct, x, params: _smooth(ct, **params),  # its own transpose: the kernel is symmetric, and half-sample mirrors keep it so
)


def smooth(field: Any, deviation: tuple[float, ...]) -> Any:
    """A normalised Gaussian of this standard deviation, in cells along each axis, mirrored at the grid's edge."""
    return wrap(_smooth(core(field), deviation=deviation))
