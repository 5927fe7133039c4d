"""Sides through which a fluid leaves, and through which it may come back, without a growth of energy.

With the outward velocity uₙ and the pressure 0 on the side, fluid that leaves takes its velocity along, and fluid that comes back brings
half of it:

    momentum through the side = (max(uₙ, 0) + ½ min(uₙ, 0)) v

which is the natural condition -p n + ν ∂v/∂n = ½ min(uₙ, 0) v. The energy that comes in with it, ½ |v|² |uₙ|, is what the condition takes.

The cell around a face on the side is half as wide as others. The even image beyond the side, by which the other terms of the step see the
velocity, makes the flux of momentum through both ends of that half cell the same. What is missing is added here.

Reference: Bruneau and Fabrie (1994), Effective downstream boundary conditions for incompressible Navier-Stokes equations, Int. J. Numer.
    Methods Fluids 19, 693-705, doi:10.1002/fld.1650190805; Braack and Mucha (2014), Directional do-nothing condition for the Navier-Stokes
    equations, J. Comput. Math. 32, 507-521, doi:10.4208/jcm.1405-m4347.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from diffsim.expr.functions import minimum
from diffsim.expr.operators import interpolate
from diffsim.expr.symbol import Symbol
from diffsim.mesh.grid import Grid
from diffsim.solvers.parts.staggered import LowSide
from diffsim.stepping.declare.equation import Profile

Side = tuple[int, int]
"""The axis across a side, and whether it is the high one."""


def outflow_profiles(grid: Grid, names: Mapping[Side, str]) -> dict[str, Profile]:
    """Profiles that are 1 on free sides, and in the cells next to them."""
    profiles: dict[str, Profile] = {}
    for (axis, high), name in names.items():
        cells = np.arange(grid.shape[axis])
        last = (cells == (cells[-1] if high else 0)).astype(float)
        profiles[f"on_{name}"] = Profile(axis, last, 1) if high else LowSide(axis, np.zeros(len(cells)), 1)
        profiles[f"beside_{name}"] = Profile(axis, last)
    return profiles


def outflow(v: Sequence[Symbol], axis: int, high: int, on: Symbol, beside: Symbol, grid: Grid) -> list[Symbol]:
    """Accelerations by what flows through a free side, a component for each axis, m/s².

    Args:
        v: the velocities.
        axis: the axis across the side.
        high: whether it is the high side.
        on, beside: its profiles.
        grid: of the flow.
    """
    outward, width = (1.0, grid.widths(axis)[-1]) if high else (-1.0, grid.widths(axis)[0])
    across = v[axis]
    inside = 0.5 * (across + across.shifted(axis, -1 if high else 1))
    back = minimum(outward * across, 0.0)
    rates = []
    for k, along in enumerate(v):
        if k == axis:
            rates.append(on * (outward / width * (back**2 - 2 * (across**2 - inside**2))))
        else:
            coming = interpolate(back if high else back.shifted(axis, -1), k).across(axis)
            rates.append(beside * (0.5 / width * coming * along))
    return rates
