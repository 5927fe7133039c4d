"""Flow in a periodic plane that a force along x drives, which varies across it as a sine."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from diffsim.base.arguments import whole
from diffsim.errors import ParameterError
from diffsim.expr.operators import laplacian
from diffsim.expr.reductions import mean
from diffsim.expr.symbol import Symbol
from diffsim.integrators import rk4
from diffsim.mesh.grid import Grid
from diffsim.solvers.parts.stability import check_common, check_sign, check_step, laplacian_bound
from diffsim.solvers.quasi_geostrophic import REACH, jacobian
from diffsim.stepping.declare.equation import Equation, Profile, Variable
from diffsim.stepping.stages.solve import solve
from diffsim.stepping.trace.stages import stage
from diffsim.typing import Array


class Kolmogorov(Equation, kind="kolmogorov"):
    """Kolmogorov's flow: a viscous fluid in a periodic plane under the force sin(k y) along x.

        ω_t + J(ψ, ω) = ∇²ω / Re - k cos(k y),    ∇²ψ = ω,    J(a, b) = aₓ b_y - a_y bₓ

    The state is the vorticity ω = vₓ - u_y, and the velocity is u = -ψ_y, v = ψₓ. Lengths, times and the force are in units in which the
    force is 1. Second order in space; the Jacobian is that of Arakawa, so energy changes by force and viscosity alone: the means obey
    <-ψ f> = <ω²> / Re, where f = -k cos(k y). The classical method of Runge and Kutta; each stage solves for ψ by fast transforms. Inputs:
    initial vorticity `omega`, whose mean the first step removes, and the number `Re`. Axes are (y, x).

    The laminar flow is u = Re / k² sin(k y), ω = -Re / k cos(k y), D = Re / (2 k²). It is unstable to long waves along x from Re² = √2 k³.
    In a square it becomes unstable later, and not for one wave.

    Args:
        grid: two axes of uniform spacing.
        dt: time step. Stable while dt |v| / dx <= 1.7 in each direction, and dt Σ 4/dx² <= 2.78 Re.
        waves: of the force along y: k = 2 π waves / (length along y).

    Good values: a square of 2 π, waves 4, Re 40, where the flow bursts: 48 to 64 cells along each axis and dt 0.05.

    Raises:
        ParameterError: an argument out of range, or a grid of another number of axes; by a run, an `Re` that is not positive.
        StabilityError: by a run, a time step beyond the stable one for viscosity.

    Reference: Meshalkin and Sinai (1961), Investigation of the stability of a stationary solution of a system of equations for the plane
        movement of an incompressible viscous liquid, J. Appl. Math. Mech. 25, 1700-1705, doi:10.1016/0021-8928(62)90149-1; Platt, Sirovich
        and Fitzmaurice (1991), An investigation of chaotic Kolmogorov flows, Phys. Fluids A 3, 681-696, doi:10.1063/1.858074; Chandler and
        Kerswell (2013), J. Fluid Mech. 722, 554-595, doi:10.1017/jfm.2013.122, whose units these are.

    Example:
        import numpy as np

        import diffsim as ds

        # A small wave on the laminar flow dies out at Re 2, for two waves of the force in a square.
        n, Re = 32, 2.0
        grid = ds.Grid((n, n), spacing=2 * np.pi / n)
        flow = ds.Simulation(ds.solvers.Kolmogorov(grid, dt=0.02, waves=2), precision="f64")
        laminar = -Re / 2 * np.cos(2 * grid.coordinates(0))[:, None]
        final = flow.run({"omega": laminar + 0.1 * np.cos(grid.coordinates(1)), "Re": Re}, steps=800).final["omega"]
        assert np.allclose(final, laminar, atol=0.03)  # but for the error of the differences
    """

    stable_dt_power = 2.0

    def __init__(self, grid: Grid, dt: float, waves: int = 4) -> None:
        self.grid, self.dt = grid, check_common(grid, dt, metres=False)
        if grid.ndim != 2 or None in grid.uniform_spacing:
            raise ParameterError(f"grid of {grid.ndim} axes, expected two, y and x, of uniform spacing; take such a grid")
        rows, spacing = grid.shape[0], grid.spacing[0]
        self.waves = whole("waves", waves, 1, (rows - 1) // 2, "give the waves of the force along y, with more than 2 cells each")
        self.k = 2 * math.pi * self.waves / (rows * spacing)
        self.states = {"omega": Variable("periodic", unit="1")}
        self.parameters = {"Re": Variable(axes=(), unit="1")}
        self.profiles = {"curl_of_force": Profile(0, -self.k * np.cos(self.k * grid.coordinates(0)))}

    def step(self, omega: Symbol, Re: Symbol, curl_of_force: Symbol) -> dict[str, Symbol]:
        omega = stage(omega - mean(omega), boundary=omega)  # what is left of a mean would be no right side of a solution

        def rate(now: dict[str, Symbol]) -> dict[str, Symbol]:
            omega = now["omega"]
            psi = solve(laplacian, omega, boundary="periodic")
            return {"omega": laplacian(omega) / Re - jacobian(psi, omega) + curl_of_force}

        return rk4(rate, {"omega": omega}, self.dt)

    def check(self, parameters: Mapping[str, Array]) -> None:
        check_sign("Re", parameters["Re"], "1")
        Re = float(parameters["Re"].min())
        check_step(self.dt, REACH * Re / laplacian_bound(self.grid, 2), f"Re = {Re:.4g}, dx = {min(self.grid.smallest):.4g}")
