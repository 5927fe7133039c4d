"""Absorbing edges: a damping rate that grows smoothly towards the edge of the grid."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from diffsim.errors import ParameterError
from diffsim.expr.operators import add
from diffsim.expr.symbol import Symbol
from diffsim.grid import Grid
from diffsim.stepping.equation import Profile


def sponge_profiles(
    grid: Grid, dt: float, width: int, speed: float, spacing: tuple[float, ...], reflection: float = 1e-3
) -> dict[str, Profile]:
    """Damping profiles, one an axis, for p_tt + sigma p_t = ...: half the rate times dt.

    sigma = sigma_0 xi^2 with xi from 0 at the inner rim of the sponge to 1 at the edge, and sigma_0 such that a wave
    that crosses the sponge, is reflected at the edge and crosses again is damped to `reflection`.

    Args:
        grid: the grid.
        dt: time step, s.
        width: cells of the sponge at each edge.
        speed: a wave speed typical of the edges, m/s.
        spacing: distance of cells along each axis, m.
        reflection: amplitude that comes back at normal incidence, in the continuum.

    Returns:
        Profiles by name: "damp0" along axis 0 and so on, dimensionless, sigma dt / 2.

    Reference: Cerjan, Kosloff, Kosloff and Reshef (1985), A nonreflecting boundary condition for discrete acoustic and
        elastic wave equations, Geophysics 50, 705-708, doi:10.1190/1.1441945; the quadratic profile of the rate is that
        of perfectly matched layers.
    """
    if width < 0 or 2 * width >= min(grid.shape):
        raise ParameterError(
            f"sponge width = {width} cells, expected 0 to {(min(grid.shape) - 1) // 2} on a grid of {grid.shape}; narrow it"
        )
    out = {}
    for axis, (n, h) in enumerate(zip(grid.shape, spacing, strict=True)):
        position = np.arange(n)
        depth = np.maximum(width - position, position - (n - 1 - width)).clip(0) / max(width, 1)
        # two crossings damp by exp(-int sigma / (2 c)) each: int_0^L sigma_0 xi^2 dx = sigma_0 L / 3
        strongest = -3 * speed * math.log(reflection) / (max(width, 1) * h)
        out[f"damp{axis}"] = Profile(axis, 0.5 * dt * strongest * depth**2)
    return out


def damping(profiles: Mapping[str, Symbol]) -> Symbol:
    """1 / (1 + d), with d = sigma dt / 2 the sum of the profiles: a coefficient, so that a step does not divide."""
    return 1 / (1 + add([profile for name, profile in profiles.items() if name.startswith("damp")]))


def damped_leapfrog(now: Symbol, before: Symbol, push: Symbol, keep: Symbol | None) -> Symbol:
    """Next value of u_tt + sigma u_t = a, with push = dt^2 a: (2 u - (1 - d) u_before + push) / (1 + d), keep = 1 / (1 + d)."""
    if keep is None:
        return 2 * now - before + push
    return keep * (2 * (now - before) + push) + before  # since (1 - d) / (1 + d) = 2 keep - 1
