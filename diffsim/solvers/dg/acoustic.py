"""Acoustics in pressure and velocity, with discontinuous Galerkin elements."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import diffsim.numpy as dnp
from diffsim.expr.symbol import Symbol
from diffsim.mesh.grid import Grid
from diffsim.solvers.dg.element import COURANT, Element
from diffsim.solvers.dg.equation import DGEquation, EachSide, Order, Side
from diffsim.solvers.parts.stability import check_sign, check_step
from diffsim.stepping.declare.equation import Variable
from diffsim.typing import Array


class DGAcoustic(DGEquation, kind="dg_acoustic"):
    """Pressure waves in a medium of varying wave speed and density, in one or two dimensions, of order p + 1 in space and time.

        pₜ = -ρ c² ∇·v,   vₜ = -1/ρ ∇p

    Each element has polynomials of degree p along each axis, by their values at the Gauss-Legendre nodes. With the derivative matrix D, the
    element's width h, and values ⁻ and ⁺ of a polynomial at its faces:

        pₜ = -ρ c² Σ 1/h (D v + lift⁺ (v*⁺ - v⁺) - lift⁻ (v*⁻ - v⁻)),   vₜ likewise from p and p*
        v* = (Z_l v_l + Z_r v_r + p_l - p_r) / (Z_l + Z_r),   p* = (Z_r p_l + Z_l p_r + Z_l Z_r (v_l - v_r)) / (Z_l + Z_r)

    with the velocity v across a face, its sides l below and r above, and the impedance Z = ρ c: the exact solution of the Riemann problem.
    The energy ½ ∫ p²/(ρ c²) + ρ |v|² does not grow in the scheme that is discrete in space alone. In time a Runge-Kutta method of order
    p + 1 (see `DGEquation`). The elements are blocks of p + 1 cells along each axis, and a field's values at the centres of these cells
    define its polynomial.

    Inputs: wave speed `c` (m/s) and density `rho` (kg/m³) at the centres of cells, of which an element takes the mean over its cells;
    initial pressure `p` (Pa) and velocity `vx` in one dimension, `vy` and `vx` in two (m/s).

    Args:
        grid: uniform, spacing in metres, cells along each axis a multiple of p + 1.
        dt: time step, s. Stable while c dt Σ 1 / h <= 0.333, 0.209, 0.142, 0.120 for p = 1 to 4, with h = (p + 1) dx.
        order: degree p of the polynomials, 1 to 4. In a scene `grid.shape`, and that times `truth.refine`, are multiples of p + 1.
        boundary: "periodic"; "wall", which is rigid; or "outflow", which lets waves out that meet it at right angles. For all sides; in
            Python also one for each axis, where a pair is for the low and the high side.

    Raises:
        ParameterError: an order or a boundary that is not as described; by a run, a speed or a density that is not positive.
        ShapeError: cells that do not fill elements.
        StabilityError: by a run, a time step beyond the stable one; the message has both.

    Good values: order 3, three elements for the shortest wavelength, 0.9 of the stable dt. Let elements end where the medium changes.

    Reference: Hesthaven and Warburton (2008), Nodal Discontinuous Galerkin Methods, chapters 3 and 6, doi:10.1007/978-0-387-72067-8;
        Cockburn and Shu (2001), Runge-Kutta discontinuous Galerkin methods, J. Sci. Comput. 16, 173-261, doi:10.1023/A:1012873910884,
        for the time step. Here the unknowns of a run are values at the centres of cells.

    Example:
        import numpy as np

        import diffsim as ds

        # A pulse in air meets water: a wall to it, almost. The record behind the surface tells the water's density.
        grid = ds.Grid((80,), spacing=0.5, origin=0.25)
        x = grid.coordinates(0)
        tube = ds.solvers.DGAcoustic(grid, dt=1.5e-4, order=3, boundary="outflow")
        air = ds.Simulation(tube, receivers={"p": [[30.0]]}, precision="f64")
        start = {
            "c": np.where(x < 20.0, 340.0, 1480.0),
            "rho": np.where(x < 20.0, 1.2, 1000.0),
            "p": np.exp(-(((x - 10.0) / 2.0) ** 2)),
            "vx": np.exp(-(((x - 10.0) / 2.0) ** 2)) / (1.2 * 340.0),
        }
        value, gradient = air.value_and_grad(lambda found: (found.traces["p"] ** 2).max() ** 0.5, start, steps=300, checkpoint=20)
        assert np.isclose(value, 2 / (1 + 1.2 * 340.0 / 1.48e6), rtol=1e-2)  # the pressure is doubled at the surface
        assert gradient["rho"].shape == (80,)
    """

    SIDES: Mapping[str, tuple[float, ...]] = {"periodic": (1.0, 1.0), "wall": (1.0, -1.0), "outflow": (0.0, 0.0)}

    def __init__(self, grid: Grid, dt: float, order: Order = 3, boundary: Side | EachSide = "outflow") -> None:
        super().__init__(grid, dt, order, boundary)
        self.velocities = ("vy", "vx")[-grid.ndim :]
        self.states = {"p": Variable(self.rules, unit="Pa")} | {name: Variable(self.rules, unit="m/s") for name in self.velocities}
        self.parameters = {"c": Variable(self.rules, unit="m/s"), "rho": Variable(self.rules, unit="kg/m³")}

    def step(self, p: Symbol, c: Symbol, rho: Symbol, **v: Symbol) -> dict[str, Symbol]:
        new = self.steps_of([p, *(v[name] for name in self.velocities)], [c, rho])
        return dict(zip(self.states, new, strict=True))

    def at_nodes(self, element: Element, given: Any) -> Any:
        return given.mean(axis=(1, 2))

    def traces(self, element: Element, w: Any) -> Any:
        def both(axis: int) -> Any:  # pressure and velocity at the low and at the high face
            return dnp.stack([dnp.stack(pair) for pair in zip(element.faces(w[0], axis), element.faces(w[1 + axis], axis), strict=True)])

        return dnp.stack([both(axis) for axis in range(self.grid.ndim)])

    def given_traces(self, element: Element, given: Any) -> Any:
        return dnp.broadcast_to(given[0] * given[1], (self.grid.ndim, 2, 1, 1))  # the impedance

    def rates(self, element: Element, w: Any, outside: Any, given: Any, given_outside: Any) -> Any:
        p, (c, rho) = w[0], given
        z = rho * c
        p_rate, v_rates = 0.0, []
        for axis, h in enumerate(self.widths):
            v = w[1 + axis]
            ((p_below, v_below), (p_above, v_above)), (z_below, z_above) = outside[axis], given_outside[axis, :, 0]
            (p_low, p_high), (v_low, v_high) = element.faces(p, axis), element.faces(v, axis)
            p_at_low, v_at_low = upwind_flux(z_below, p_below, v_below, z, p_low, v_low)
            p_at_high, v_at_high = upwind_flux(z, p_high, v_high, z_above, p_above, v_above)
            p_rate = p_rate - rho * c**2 / h * element.derivative(v, v_at_low, v_at_high, axis)
            v_rates.append(-1 / (rho * h) * element.derivative(p, p_at_low, p_at_high, axis))
        return dnp.stack([p_rate, *v_rates])

    def check(self, parameters: Mapping[str, Array]) -> None:
        check_sign("wave speed c", parameters["c"], "m/s")
        check_sign("density rho", parameters["rho"], "kg/m³")
        fastest = float(parameters["c"].max())
        limit = COURANT[self.order] / (fastest * sum(1 / h for h in self.widths))
        check_step(self.dt, limit, f"c_max = {fastest:.4g} m/s, elements of {min(self.widths):.4g} m, order {self.order}")


def upwind_flux(z_l: Any, p_l: Any, v_l: Any, z_r: Any, p_r: Any, v_r: Any) -> tuple[Any, Any]:
    """Pressure and velocity at a face, from the values on the side below and on that above: the Riemann problem's solution."""
    total = z_l + z_r
    return (z_r * p_l + z_l * p_r + z_l * z_r * (v_l - v_r)) / total, (z_l * v_l + z_r * v_r + p_l - p_r) / total
