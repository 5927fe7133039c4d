"""A velocity that carries itself, with viscosity."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from diffsim.base.arguments import one_of, positive
from diffsim.boundary import Boundary
from diffsim.errors import ParameterError
from diffsim.expr.functions import sqrt
from diffsim.expr.limiters import muscl, van_albada, weno5
from diffsim.expr.operators import add, diff, laplacian
from diffsim.expr.symbol import Symbol
from diffsim.integrators import ssp_rk3
from diffsim.mesh.grid import Grid
from diffsim.solvers.advection import NEGLIGIBLE, PARABOLIC
from diffsim.solvers.parts.stability import check_common, check_sign, check_step, laplacian_bound
from diffsim.stepping.declare.equation import Equation, Variable
from diffsim.stepping.trace.stages import stage
from diffsim.typing import Array

ORDERS = {"weno5": 6, "muscl": 2}
"""The order of the viscous term beside each reconstruction."""


class Burgers(Equation, kind="burgers"):
    """Burgers' equation in one to three dimensions: steep fronts form, and viscosity keeps them some ν / Δv wide.

        v_t + (v·∇) v = ν ∇²v

    The terms ∂(u²/2)/∂x of each component along its own axis are differences of fluxes, so that on a line momentum is kept and fronts have
    their speed without viscosity too. The others, such as v ∂u/∂y, are upwind derivatives. Both reconstruct at faces, by scheme "weno5"
    (WENO-Z, fifth order, viscosity of sixth) or "muscl" with the smooth limiter of van Albada (second order). Fluxes are split into a part
    for each direction, smoothly: u²/2 = u (u + s)/4 + u (u - s)/4 with s = √(u² + scale²), so that gradients have no kink where the
    velocity is 0. Three Runge-Kutta stages, third order in time (`ssp_rk3`).

    Inputs: viscosity `nu` (m²/s, a number) and the initial velocities `u`, `v` and `w` along x, y and z (m/s, all at cell centres). Axes
    are (x), (y, x) or (z, y, x).

    Args:
        grid: one to three axes with cells of one size, spacing in metres.
        dt: time step, s. Stable while dt ν Σ 4/dx² <= 2.51 ("muscl"), 2/3 of that for "weno5", and while
            dt Σ √(v² + scale²)/dx <= 1.
        scheme: the reconstruction, "weno5" or "muscl".
        boundary: values of all velocities outside the grid, see `diffsim.Variable`, such as `Dirichlet(0.0)`.
        scale (m/s): the size of the velocities. Changes far below a thousandth of it are not limited. Too small a value costs accuracy
            where the velocity changes its sign, too large a one sharpness.

    Raises:
        ParameterError: an argument out of range, or a grid of cells of several sizes; by a run, a viscosity below 0.
        StabilityError: by a run, a time step beyond the stable one for the viscosity.
        DivergenceError: by a run, velocities far above dx / dt.

    Good values: dt Σ |v|/dx of 0.5; three cells in ν / Δv, where Δv is the jump across a front, to resolve it.

    Reference: Cole (1951), On a quasi-linear parabolic equation occurring in aerodynamics, Quart. Appl. Math. 9, 225-236,
        doi:10.1090/qam/42889, for exact solutions; Jiang and Shu (1996), J. Comput. Phys. 126, 202-228, doi:10.1006/jcph.1996.0130, for
        split fluxes; Borges, Carmona, Costa and Don (2008), doi:10.1016/j.jcp.2007.11.038, for the weights.

    Example:
        import numpy as np

        import diffsim as ds

        # Which viscosity leaves this much energy of a wave that steepens? Newton's method on its derivative.
        ring = ds.Grid((64,), spacing=1 / 64)
        wave = ds.Simulation(ds.solvers.Burgers(ring, dt=0.003), wrt=["nu"], precision="f64")
        u, nu = np.sin(2 * np.pi * ring.coordinates(0)), 0.01
        for _ in range(5):
            value, gradient = wave.value_and_grad(lambda found: 0.5 * (found.final["u"] ** 2).mean(), {"u": u, "nu": nu}, steps=100)
            nu -= (value - 0.1) / gradient["nu"]
        assert abs(value - 0.1) < 1e-6
    """

    stable_dt_power = 2.0

    def __init__(
        self,
        grid: Grid,
        dt: float,
        scheme: Literal["weno5", "muscl"] = "weno5",
        boundary: Boundary = "periodic",
        scale: float = 1.0,
    ) -> None:
        self.grid, self.dt = grid, check_common(grid, dt)
        if None in grid.uniform_spacing:
            raise ParameterError("grid of cells of several sizes, expected cells of one size; take a uniform grid")
        self.scheme = one_of("scheme", scheme, tuple(ORDERS))
        self.scale = positive("scale", scale, "give the size of the velocities", "m/s")
        self.velocities = ("w", "v", "u")[-grid.ndim :]
        self.states = {name: Variable(boundary, unit="m/s") for name in self.velocities}
        self.parameters = {"nu": Variable(axes=(), unit="m²/s")}

    def step(self, nu: Symbol, **v: Symbol) -> dict[str, Symbol]:
        def at_faces(f: Symbol, axis: int, size: float) -> tuple[Symbol, Symbol]:  # as the cell below and the cell above see them
            eps = NEGLIGIBLE * size
            return weno5(f, axis, eps**2, "z") if self.scheme == "weno5" else muscl(f, axis, van_albada(eps))

        def split(u: Symbol) -> tuple[Symbol, Symbol]:  # into the parts that go up and down
            s = sqrt(u * u + self.scale**2)
            return 0.5 * (u + s), 0.5 * (u - s)

        def carried(f: Symbol, by: Symbol, axis: int) -> Symbol:
            up, down = split(by)
            if f is by:
                below, above = (at_faces(0.5 * f * part, axis, self.scale**2)[n] for n, part in enumerate((up, down)))
                return diff(below + above, axis)
            below, above = at_faces(f, axis, self.scale)
            return up * diff(below, axis) + down * diff(above, axis)

        def rate(now: dict[str, Symbol]) -> dict[str, Symbol]:
            along, order = [now[name] for name in self.velocities], ORDERS[self.scheme]
            terms = {name: [stage(carried(f, by, axis), "zero") for axis, by in enumerate(along)] for name, f in now.items()}
            return {name: nu * laplacian(f, order) - add(terms[name]) for name, f in now.items()}

        return ssp_rk3(rate, v, self.dt)

    def check(self, parameters: Mapping[str, Array]) -> None:
        check_sign("viscosity nu", parameters["nu"], "m²/s", positive=False)
        nu, order = float(parameters["nu"].max()), ORDERS[self.scheme]
        if nu > 0:
            limit = PARABOLIC / (nu * laplacian_bound(self.grid, order))
            check_step(self.dt, limit, f"nu = {nu:.4g} m²/s, dx = {min(self.grid.smallest):.4g} m, order {order}")
