"""Flow past an obstacle between walls as Mosaic's grid problems state it: `forward/cylinder` and `optimization/drag_opt`.

Mosaic's velocities are taken as those at the centres of cells, so that the walls lie on the sides of the square and the obstacle in its
middle. Where Mosaic writes an inflow into the first column of a periodic box, here it flows in at x = 0 and leaves freely at x = L.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping
from typing import Any

import numpy as np

import diffsim as ds
import diffsim.numpy as dnp
from diffsim.solvers import NavierStokes, bodies

COURANT, DIFFUSION = 0.5, 2.2
"""The largest Σ |v| dt/dx of the flow that enters or starts, and Σ 4 ν dt/dx², of a step of rk3 beside a body."""


def require_plane(shape: tuple[int, ...]) -> None:
    """Raise unless an initial velocity of this shape is one of two dimensions."""
    if shape[2:] != (1, 2):
        raise ValueError(f"v0 has shape {shape}, expected (nx, ny, 1, 2) past an obstacle; give one plane, or leave out the obstacle")


def past(inputs: Mapping[str, Any], divided: int = 1) -> dict[str, Any]:
    """Velocity and drag after some steps, differentiable for `v0`, `viscosity`, `dt` and `inflow_profile`.

    As in `flow.py` the solver counts lengths in cells and times in its own steps.

    Args:
        inputs: by Mosaic's names: v0 (nx, ny, 1, 2) m/s, viscosity (1,) m²/s, dt (1,) s, steps, domain_extent m, inflow_profile (ny,) m/s
            or None, obstacle with lengths over the extent.
        divided: steps of the solver in each of these, from `division`.

    Returns:
        result: velocity after the last step, as `v0`.
        drag: the mean force of the obstacle on the fluid along x over the second half of the steps, over the density, (1,), m³/s².

    Raises:
        ValueError: `v0` has three dimensions.
    """
    v0, profile = inputs["v0"], inputs.get("inflow_profile")
    require_plane(v0.shape)
    spacing, columns = inputs["domain_extent"] / v0.shape[0], v0.shape[1::-1]
    cells = inputs["dt"][0] / divided / spacing  # by which a velocity of 1 moves in a step
    simulation, steps = channel(columns, profile is not None), inputs["steps"] * divided
    u, v = cells * v0[:, :, 0, 0].T, cells * v0[:, :, 0, 1].T
    start = {
        "u": 0.5 * (u + dnp.concatenate([u[:, 1:], u[:, -1:]], axis=1)),
        "v": 0.5 * dnp.concatenate([v[:-1] + v[1:], 0 * v[-1:]]),
        "nu": inputs["viscosity"][0] * cells / spacing,
        "phi": distance(simulation.grid, inputs["obstacle"], v0.shape[0]),
    }
    start |= {"u_low": dnp.concatenate([u[:, :1], 0 * u[:, 1:]], axis=1)} if profile is None else {"inflow": cells * profile}
    solution = simulation.run(start, steps=steps)
    final = solution.final
    low = final["u_low"][:, :1] if profile is None else start["inflow"][:, None]
    back = (
        0.5 * (final["u"] + dnp.concatenate([low, final["u"][:, :-1]], axis=1)),
        0.5 * (final["v"] + dnp.concatenate([0 * final["v"][:1], final["v"][:-1]])),
    )
    force = dnp.mean(solution.traces["force_x"][steps // 2 + 1 :, 0])
    return {
        "result": dnp.stack([one.T / cells for one in back], axis=-1)[:, :, None].astype(v0.dtype),
        "drag": dnp.reshape(-force * spacing / cells**2, (1,)).astype(v0.dtype),
    }


@functools.lru_cache(maxsize=4)
def channel(shape: tuple[int, int], inlet: bool) -> ds.Simulation:
    """The simulation of cells of size 1 with steps of length 1, between walls, from an inlet or an open side to an open side."""
    sides: Any = ("no_slip", ("inflow" if inlet else "open", "open"))
    equation = NavierStokes(ds.Grid(shape, spacing=1.0, origin=0.5), dt=1.0, sides=sides, bodies="fixed")
    wrt = ["nu", "u", "v", "inflow" if inlet else "u_low"]
    return ds.Simulation(equation, receivers={"force_x": [[0.5 * n for n in shape]]}, wrt=wrt, precision="f64")


def distance(grid: ds.Grid, obstacle: Mapping[str, Any], cells: int) -> Any:
    """The distance to an obstacle, whose lengths are fractions of an extent of some cells."""
    centre = [cells * place for place in obstacle["center"][1::-1]]
    if str(getattr(obstacle["shape"], "value", obstacle["shape"])) == "box":
        return bodies.box(grid, centre, [2 * cells * half for half in obstacle["half_widths"][1::-1]])
    return bodies.cylinder(grid, centre, cells * obstacle["radius"])


def division(inputs: Mapping[str, Any]) -> int:
    """Into how many steps of the solver each step is divided, so that it is stable."""
    v0, profile = np.asarray(inputs["v0"]), inputs.get("inflow_profile")
    cells = float(inputs["dt"][0]) * v0.shape[0] / inputs["domain_extent"]
    fastest = max(float(np.abs(v0).sum(axis=-1).max()), 0.0 if profile is None else float(np.abs(np.asarray(profile)).max()))
    diffusion = 8 * float(inputs["viscosity"][0]) * cells * v0.shape[0] / inputs["domain_extent"] / DIFFUSION
    return max(1, math.ceil(cells * fastest / COURANT), math.ceil(diffusion))
