"""Constant-density acoustics."""

from __future__ import annotations

import math
from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from diffsim.base.arguments import positive
from diffsim.boundary import Boundary
from diffsim.errors import ParameterError
from diffsim.expr.symbol import Symbol
from diffsim.expr.weights import check_order
from diffsim.layers import Sponge
from diffsim.mesh.grid import Grid
from diffsim.solvers.parts.edges import Layer, layer_of, taken_by
from diffsim.solvers.parts.given import check_given
from diffsim.solvers.parts.stability import check_common, check_sign, check_step, laplacian_bound
from diffsim.stepping.declare.equation import Equation, Variable
from diffsim.typing import Array, Natural, Positive


class Acoustic(Equation, kind="acoustic"):
    """Pressure waves of constant density in one to three dimensions.

        pₜₜ + σ pₜ = c² (∇²p + f)

    Leap-frog in time (second order), central differences of even order in space:

        (1 + d) pⁿ⁺¹ = 2 pⁿ - (1 - d) pⁿ⁻¹ + (c dt)² (∇²ₕ pⁿ + fⁿ),   d = σ dt / 2

    Inputs: wave speed `c` (m/s, at cell centres); initial pressures `p` and `p_prev` (one dt earlier; Pa, zero if left out);
    amplitudes of the point sources `f` (Pa/m in one dimension, Pa in two, Pa m in three). `boundary` sets the edges: "zero" reflects with
    a change of sign, "mirror" without, "periodic" joins opposite edges. A free surface is the rule "odd_image" of a side without a layer:
    p = 0 on the side itself, half a cell beyond the outermost centres. Through sides with a `layer` (C-PML, the better one) or a `sponge`
    waves leave.

    Args:
        grid: spacing in metres.
        dt: time step, s. Stable while c_max dt sqrt(λ) <= 2, with λ the largest eigenvalue of -∇²ₕ: in two dimensions
            c_max dt / dx <= 0.707 (order 2), 0.612 (4), 0.575 (6), 0.555 (8).
        order: of the Laplacian, 2 to 12. Good: 8.
        boundary: values outside the grid, see `diffsim.Variable`.
        sponge (cells): absorbing cells at every edge, in place of a layer; 0 for none. Good: 20 to 40; keep sources, receivers and unknown
            cells clear of it.
        sponge_speed (m/s): wave speed that the sponge is tuned for: that at the edges.
        layer (cells): perfectly matched layer: one number for all sides, or one an axis, where a pair is that of the low and high side:
            ((0, 20), 20) for axes (z, x). One number leaves out free surfaces and periodic axes. Good: 10 to 20; it absorbs far more than
            a sponge.
        layer_speed (m/s): the largest wave speed in the layer. None: a scene takes that of the start; in Python it is needed with a layer.
        layer_frequency (Hz): the dominant frequency of the waves. None: a scene takes that of the wavelet; in Python it is needed with a
            layer.
        ground: True in the cells of the medium; in the others, the air, p = 0. None: all. So a free surface follows any topography, in
            steps of a cell: to first order it lies half a cell outside of the outermost cells of the ground.
        parameters: inputs that rules of the boundary name and that hold for all steps, such as {"held": Variable(axes=())}.
        series: inputs that rules name and that have a value for each step, such as {"piston": Variable(axes=())}.

    Good values: order 8, five cells per shortest wavelength, a layer of 10 to 20 cells or a sponge of 20 to 40; order 2 below topography.

    Reference: Dablain (1986), The application of high-order differencing to the scalar wave equation, Geophysics 51,
        54-66, doi:10.1190/1.1442040. Here second order in time. For the layer see `diffsim.layers.CPML.laplacian`.

    Raises:
        ParameterError: a time step that is not positive, an order that is not even or not 2 to 12, a layer without its speed
            and frequency; by a run, a speed that is not positive.
        StabilityError: by a run, a time step beyond the stable one; the message has both.

    Example:
        import numpy as np

        import diffsim as ds

        # Seismic inversion in small: where must the wave speed change for the record to fit?
        grid = ds.Grid((40, 40), spacing=10.0)
        wave = ds.solvers.Acoustic(grid, dt=2e-3, order=4, sponge=8)
        shot = ds.Simulation(wave, sources={"f": [[100.0, 100.0]]}, receivers={"p": [[100.0, 300.0], [300.0, 300.0]]}, wrt=["c"])
        t = 2e-3 * np.arange(120) - 0.06
        a = (np.pi * 20.0 * t) ** 2
        ricker = ((1 - 2 * a) * np.exp(-a))[:, None]
        anomaly = np.full(grid.shape, 2000.0)
        anomaly[15:25, 15:25] = 2200.0
        record = shot.run({"c": anomaly, "f": ricker}, steps=120).traces["p"]
        misfit = ds.losses.L2Misfit(record, normalise=True)
        guess = {"c": np.full(grid.shape, 2000.0), "f": ricker}
        value, gradient = shot.value_and_grad(lambda found: misfit(found.traces["p"]), guess, steps=120, checkpoint=12)
        assert value > 0 and gradient["c"].shape == (40, 40)
    """

    forcings = ("f",)
    in_cells = ("sponge", "layer")
    speed = "c"

    def __init__(
        self,
        grid: Grid,
        dt: float,
        order: Literal[2, 4, 6, 8, 10, 12] = 8,
        boundary: Boundary = "zero",
        sponge: Natural = 0,
        sponge_speed: Positive = 2000.0,
        layer: Layer = 0,
        layer_speed: Positive | None = None,
        layer_frequency: Positive | None = None,
        ground: NDArray[np.bool_] | None = None,
        parameters: Mapping[str, Variable] = MappingProxyType({}),
        series: Mapping[str, Variable] = MappingProxyType({}),
    ) -> None:
        dt = check_common(grid, dt, sponge)
        sponge_speed = positive("sponge_speed", sponge_speed, "give a wave speed typical of the edges, m/s", "m/s")
        self.grid, self.dt, self.order = grid, dt, check_order(order)
        self.layer = layer_of(grid, dt, layer, layer_speed, layer_frequency, taken_by(boundary, grid.ndim))
        if sponge and any(map(any, self.layer.cells)):
            raise ParameterError(f"a sponge of {sponge} cells and a layer, expected one of the two; leave the sponge out")
        pressure = Variable(boundary, unit="Pa", region=ground)
        self.states = {"p": pressure, "p_prev": pressure} | self.layer.memories("p")
        own = (*self.states, "c", "m", "keep", *self.forcings)
        self._named = check_given("parameters", parameters, own)
        self.parameters = {"c": Variable("mirror", unit="m/s")} | self._named
        self.series = check_given("series", series, own)
        self.sponge = Sponge(grid, dt, sponge, sponge_speed)
        self.profiles = self.sponge.profiles

    def coefficients(self, c: Symbol, **others: Symbol) -> dict[str, Symbol]:
        return {"m": (c * self.dt) ** 2} | self.sponge.coefficients(others) | {name: others[name] for name in self._named}

    def step(self, p: Symbol, p_prev: Symbol, m: Symbol, f: Symbol, **others: Symbol) -> dict[str, Symbol]:
        curvature, memories = self.layer.laplacian(p, "p", others, self.order)
        return {"p": self.sponge.leapfrog(p, p_prev, m * (curvature + f), others), "p_prev": p} | memories

    def check(self, parameters: Mapping[str, Array]) -> None:
        check_sign("wave speed c", parameters["c"], "m/s")
        fastest = float(parameters["c"].max())
        limit = 2 / (fastest * math.sqrt(laplacian_bound(self.grid, self.order)))
        check_step(self.dt, limit, f"c_max = {fastest:.4g} m/s, dx = {min(self.grid.smallest):.4g} m, order {self.order}")
