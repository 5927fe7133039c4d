"""Advection by a given wind, with discontinuous Galerkin elements."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import numpy as np

import diffsim.numpy as dnp
from diffsim.expr.symbol import Symbol
from diffsim.mesh.grid import Grid
from diffsim.solvers.dg.element import COURANT, Element
from diffsim.solvers.dg.equation import DGEquation, EachSide, Order
from diffsim.solvers.parts.stability import check_step
from diffsim.stepping.declare.equation import Variable
from diffsim.typing import Array


class DGAdvection(DGEquation, kind="dg_advection"):
    """A tracer that a wind carries, in one or two dimensions, of order p + 1 in space and time.

        uₜ + ∇·(a u) = 0

    Each element has a polynomial of degree p along each axis, by its values at the Gauss-Legendre nodes. With the flux f = a u there, the
    derivative matrix D, the element's width h, and values f⁻ and f⁺ of the flux's polynomial at its faces:

        uₜ = -Σ 1/h (D f + lift⁺ (f*⁺ - f⁺) - lift⁻ (f*⁻ - f⁻)),   f* = max(a_l, 0) u_l + min(a_r, 0) u_r

    where l and r are the sides of a face below and above it, and lift = l(face) / weights inverts the mass matrix. In time a Runge-Kutta
    method of order p + 1 (see `DGEquation`). The elements are blocks of p + 1 cells along each axis, and a field's values at the centres of
    these cells define its polynomial. Mass is conserved; a discontinuity of u makes ripples of some per cent.

    Inputs: initial tracer `u` (kg/m³); wind `wind_x` in one dimension, `wind_y` and `wind_x` in two (m/s, at the centres of cells). In an
    element the wind is a polynomial, too. It may jump between elements.

    Args:
        grid: uniform, spacing in metres, cells along each axis a multiple of p + 1.
        dt: time step, s. Stable while dt Σ |a| / h <= 0.333, 0.209, 0.142, 0.120 for p = 1 to 4, with h = (p + 1) dx.
        order: degree p of the polynomials, 1 to 4. In a scene `grid.shape`, and that times `truth.refine`, are multiples of p + 1.
        boundary: "periodic", or "outflow": u = 0 outside, and flow that reaches the side leaves. For all sides; in Python also one
            for each axis, where a pair is for the low and the high side.

    Raises:
        ParameterError: an order or a boundary that is not as described.
        ShapeError: cells that do not fill elements.
        StabilityError: by a run, a time step beyond the stable one; the message has both.

    Good values: order 3, three elements for the shortest wavelength, 0.9 of the stable dt.

    Reference: Hesthaven and Warburton (2008), Nodal Discontinuous Galerkin Methods, chapters 3 and 6, doi:10.1007/978-0-387-72067-8;
        Cockburn and Shu (2001), Runge-Kutta discontinuous Galerkin methods, J. Sci. Comput. 16, 173-261, doi:10.1023/A:1012873910884,
        for the time step. Here the unknowns of a run are values at the centres of cells.

    Example:
        import numpy as np

        import diffsim as ds

        # Ten times around a ring of 1 m, with 10 elements of degree 4: the loss, and the sensitivity to the wind.
        grid = ds.Grid((50,), spacing=0.02, origin=0.01)
        ring = ds.Simulation(ds.solvers.DGAdvection(grid, dt=0.01, order=4), precision="f64")
        u = np.exp(np.sin(2 * np.pi * grid.coordinates(0)))
        start = {"u": u, "wind_x": np.ones(50)}
        assert np.allclose(ring.run(start, steps=1000).final["u"], u, atol=1e-4)
        value, gradient = ring.value_and_grad(lambda found: (found.final["u"] * u).sum(), start, steps=20, checkpoint=5)
        assert gradient["wind_x"].shape == (50,)
    """

    SIDES: Mapping[str, tuple[float, ...]] = {"periodic": (1.0,), "outflow": (0.0,)}

    def __init__(self, grid: Grid, dt: float, order: Order = 3, boundary: Literal["periodic", "outflow"] | EachSide = "periodic") -> None:
        super().__init__(grid, dt, order, boundary)
        self.states = {"u": Variable(self.rules, unit="kg/m³")}
        self.winds = ("wind_y", "wind_x")[-grid.ndim :]
        self.parameters = {name: Variable(self.rules, unit="m/s") for name in self.winds}

    def step(self, u: Symbol, **winds: Symbol) -> dict[str, Symbol]:
        (u,) = self.steps_of([u], [winds[name] for name in self.winds])
        return {"u": u}

    def at_nodes(self, element: Element, given: Any) -> Any:
        return element.change(element.to_nodes, given, self.grid.ndim)

    def traces(self, element: Element, w: Any) -> Any:
        return dnp.stack([dnp.stack(element.faces(w[0], axis)) for axis in range(self.grid.ndim)])[:, :, None]

    def given_traces(self, element: Element, given: Any) -> Any:
        return dnp.stack([dnp.stack(element.faces(given[axis], axis)) for axis in range(self.grid.ndim)])[:, :, None]

    def rates(self, element: Element, w: Any, outside: Any, given: Any, given_outside: Any) -> Any:
        u, rate = w[0], dnp.zeros_like(w[0])
        for axis, h in enumerate(self.widths):
            a, (u_below, u_above), (a_below, a_above) = given[axis], outside[axis, :, 0], given_outside[axis, :, 0]
            (u_low, u_high), (a_low, a_high) = element.faces(u, axis), element.faces(a, axis)
            at_low, at_high = upwind_flux(a_below, u_below, a_low, u_low), upwind_flux(a_high, u_high, a_above, u_above)
            rate = rate - element.derivative(a * u, at_low, at_high, axis) / h
        return rate[None]

    def check(self, parameters: Mapping[str, Array]) -> None:
        crossed = [np.abs(parameters[name]) / h for name, h in zip(self.winds, self.widths, strict=True)]  # elements in a second
        rate = float(np.sum(crossed, axis=0).max())
        if rate:
            fastest = max(float(np.abs(parameters[name]).max()) for name in self.winds)
            why = f"a wind of up to {fastest:.4g} m/s, elements of {min(self.widths):.4g} m, order {self.order}"
            check_step(self.dt, COURANT[self.order] / rate, why)


def upwind_flux(a_l: Any, u_l: Any, a_r: Any, u_r: Any) -> Any:
    """The flux through a face, from the values on the side below and on that above."""
    return dnp.maximum(a_l, 0.0) * u_l + dnp.minimum(a_r, 0.0) * u_r
