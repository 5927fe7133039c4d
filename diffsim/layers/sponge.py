"""A sponge: a damping rate that grows smoothly towards the edge of the grid."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from diffsim.base.arguments import instance, number, plural, positive
from diffsim.base.messages import shown
from diffsim.errors import ParameterError
from diffsim.expr.operators import add
from diffsim.expr.symbol import Symbol
from diffsim.layers.cells import Cells, Pair, cells_of_sides
from diffsim.mesh.grid import Grid
from diffsim.stepping.declare.equation import Profile
from diffsim.typing import Array


class Sponge:
    """A layer in which u_tt = a becomes u_tt + σ u_t = a, for a leap-frog.

        (1 + d) uⁿ⁺¹ = 2 uⁿ - (1 - d) uⁿ⁻¹ + dt² aⁿ,   d = σ dt / 2

    σ = σ₀ ξ² along each axis, with ξ from 0 at the inner rim of the layer to 1 at the outermost cell, and σ₀ such that a wave that crosses
    the layer, is reflected at the edge and crosses again is damped to `reflection`. Rates of several axes add up.

    Args:
        grid: the grid.
        dt: time step, s.
        cells: of the layer, see `CPML`. 0: there is none, and `leapfrog` is that without damping.
        speed: a wave speed typical of the edges, m/s.
        spacing: distance of cells along each axis, m; None: that of the grid.
        reflection: amplitude that comes back at normal incidence, in the continuum.

    Attributes:
        cells: of the layer at the low and the high side of each axis.
        profiles: that the equation declares: "damp0" along axis 0 and so on, dimensionless, σ dt / 2. Without cells there are none.

    Raises:
        ParameterError: cells that leave none between them, or numbers out of range.
        ShapeError: the grid is stretched.

    Reference: Cerjan, Kosloff, Kosloff and Reshef (1985), A nonreflecting boundary condition for discrete acoustic and
        elastic wave equations, Geophysics 50, 705-708, doi:10.1190/1.1441945; the quadratic profile of the rate is that
        of perfectly matched layers.

    Example:
        import numpy as np

        import diffsim as ds
        from diffsim.expr import laplacian

        class Membrane(ds.Equation):
            # uₜₜ + σ uₜ = c² ∇²u, σ the sponge's.

            def __init__(self, grid, dt, c):
                self.grid, self.dt, self.c = grid, dt, c
                self.sponge = ds.layers.Sponge(grid, dt, cells=15, speed=c)
                self.states = {"u": ds.Variable(), "u_prev": ds.Variable()}
                self.profiles = self.sponge.profiles

            def coefficients(self, **damping):
                return self.sponge.coefficients(damping)

            def step(self, u, u_prev, **others):
                return {"u": self.sponge.leapfrog(u, u_prev, (self.dt * self.c) ** 2 * laplacian(u), others), "u_prev": u}

        grid = ds.Grid((60, 60), spacing=1.0)
        y, x = grid.coordinates(0)[:, None], grid.coordinates(1)[None, :]
        drop = np.exp(-((y - 30.0) ** 2 + (x - 30.0) ** 2) / 20.0)
        u = ds.Simulation(Membrane(grid, dt=5e-3, c=100.0)).run({"u": drop, "u_prev": drop}, steps=240).final["u"]
        assert abs(u).max() < 0.02  # the waves have gone into the sponge
    """

    def __init__(
        self, grid: Grid, dt: float, cells: Cells, speed: float, spacing: tuple[float, ...] | None = None, reflection: float = 1e-3
    ) -> None:
        instance("grid", grid, Grid, "a diffsim.Grid", "give the grid of the equation")
        dt = positive("dt", dt, "give the time step in seconds", "s")
        self.cells = sides = cells_of_sides("sponge", cells, grid)
        speed = positive("speed of a sponge", speed, "give a wave speed typical of the edges, m/s", "m/s")
        reflection = number("reflection of a sponge", reflection, "a number between 0 and 1", lambda x: 0 < x < 1, "give one such as 1e-3")
        self.profiles: dict[str, Profile] = {}
        if any(map(any, sides)):
            strength = -3 * speed * math.log(reflection)
            sizes = grid.spacing if spacing is None else _spacing(spacing, grid)
            for axis, (pair, h) in enumerate(zip(sides, sizes, strict=True)):
                self.profiles[f"damp{axis}"] = Profile(axis, _half_rates(grid.shape[axis], pair, h, strength, dt))

    def coefficients(self, profiles: Mapping[str, Symbol]) -> dict[str, Symbol]:
        """Coefficients that `leapfrog` reads: "keep", which is 1 / (1 + d), so that a step does not divide. Without cells there are none.

        Args:
            profiles: of the equation, as its `coefficients` is given them; others than those of the layer may be among them.
        """
        return {"keep": 1 / (1 + add([profiles[name] for name in self.profiles]))} if self.profiles else {}

    def leapfrog(self, now: Symbol, before: Symbol, push: Symbol, coefficients: Mapping[str, Symbol]) -> Symbol:
        """The next value of the field.

        Args:
            now: the field.
            before: the field one step earlier.
            push: dt² times its acceleration.
            coefficients: of the equation, as its `step` is given them; others than those of the layer may be among them.
        """
        if not self.profiles:
            return 2 * now - before + push
        return coefficients["keep"] * (2 * (now - before) + push) + before  # since (1 - d) / (1 + d) = 2 keep - 1


def _spacing(spacing: tuple[float, ...], grid: Grid) -> list[float]:
    if not isinstance(spacing, (tuple, list)) or len(spacing) != grid.ndim:
        raise ParameterError(f"spacing of a sponge = {shown(spacing)}, expected {plural(grid.ndim, 'number')}; give one an axis")
    return [positive("spacing of a sponge", h, "give the distance of cells in metres", "m") for h in spacing]


def _half_rates(n: int, sides: Pair, h: float, strength: float, dt: float) -> Array:
    """σ dt / 2 along an axis of n cells."""
    position, out = np.arange(n), np.zeros(n)
    for width, depth in zip(sides, (sides[0] - position, position - (n - 1 - sides[1])), strict=True):
        if width:
            # two crossings damp by exp(-int sigma / (2 c)) each: int_0^L sigma_0 xi^2 dx = sigma_0 L / 3
            strongest = strength / (width * h)
            out += 0.5 * dt * strongest * (depth.clip(0) / width) ** 2
    return out
