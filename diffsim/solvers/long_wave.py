"""Linear long waves over varying depth: tsunamis in the open sea and in straits."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from diffsim.base.arguments import flag, positive
from diffsim.errors import ParameterError
from diffsim.expr.functions import minimum, where
from diffsim.expr.operators import add, diff, interpolate
from diffsim.expr.symbol import Symbol
from diffsim.layers import Sponge
from diffsim.mesh.grid import Grid
from diffsim.solvers.parts.sea import GRAVITY, UPLIFT, Coordinates, Metric, check_uplift, risen
from diffsim.solvers.parts.stability import check_common, check_sign, check_step
from diffsim.stepping.declare.equation import Equation, Profile, Variable
from diffsim.typing import Array, Natural, Positive


class LongWave(Equation, kind="long_wave"):
    """Linear long (shallow-water) waves in one or two dimensions, on a plane or on the sphere.

        ηₜₜ + σ ηₜ = ∇·(g H ∇η)

    Leap-frog in time, conservative second-order differences in space:

        (1 + d) ηⁿ⁺¹ = 2 ηⁿ - (1 - d) ηⁿ⁻¹ + dt² ∇ₕ·(g H_face ∇ₕηⁿ),   d = σ dt / 2

    The depth on a face is the mean of its two cells, and 0 if one of them is land (H = 0): no flow through the coast. The
    edges are walls behind an absorbing sponge. Waves start from rest: η⁻¹ = η⁰ + dt²/2 ∇·(g H ∇η⁰), second order.

    Inputs: depth `H` (m, cell centres, 0 on land) and initial surface elevation `eta0` (m). With `uplift` the sea floor rises by `uplift`
    (m) from the time `start` (s) on for the time `rise` (s), in each cell, with its water. The depth stays H, as the equation is linear.
    `eta0` is the surface at the time 0: of a rise that began before, what is left follows.

    Args:
        grid: one axis or two. Plane: spacing in metres. Sphere: axis 0 is latitude and axis 1 longitude, in degrees.
        dt: time step, s. Stable while dt² g H_max Σ 4/dx² <= 4, on a plane sqrt(g H_max) dt / dx <= 0.707.
        coordinates: "plane", in metres, or "sphere" for latitude and longitude in degrees, in this order.
        sponge (cells): absorbing cells at every edge; 0 for walls. Good: 15 to 30.
        sponge_depth (m): depth whose wave speed the sponge is tuned for: that at the edges.
        uplift: whether the sea floor moves, see the inputs.

    Good values: a sponge of 15 to 30 cells, half a wavelength or more.

    Reference: Mader (2004), Numerical Modeling of Water Waves, 2nd ed., chapter 1 (long-wave equations);
        Kowalik and Murty (1993), Numerical Modeling of Ocean Dynamics, doi:10.1142/1970, for the spherical form. Bottom
        friction, advection and the Earth's rotation are left out.

    Raises:
        ParameterError: a time step that is not positive, or unknown coordinates; by a run, a depth below 0.
        StabilityError: by a run, a time step beyond the stable one; the message has both.

    Example:
        import numpy as np

        import diffsim as ds

        # Which part of the initial surface does a gauge at the coast see? The gradient of its record says so.
        grid = ds.Grid((30, 40), spacing=1000.0)
        sea = ds.Simulation(ds.solvers.LongWave(grid, dt=4.0, sponge=5), receivers={"eta": [[15e3, 30e3]]}, wrt=["eta0"])
        depth = np.full(grid.shape, 2000.0)
        hump = np.zeros(grid.shape)
        hump[15, 12] = 1.0
        inputs = {"H": depth, "eta0": hump}
        value, gradient = sea.value_and_grad(lambda found: 0.5 * (found.traces["eta"] ** 2).sum(), inputs, steps=60)
        assert value > 0 and abs(gradient["eta0"][15]).max() > 0
    """

    in_cells = ("sponge",)
    positive: Mapping[str, str] = {"H": "down", "eta0": "up", "uplift": "up"}
    optional: Mapping[str, str] = dict.fromkeys(UPLIFT, "uplift = True")

    def __init__(
        self,
        grid: Grid,
        dt: float,
        coordinates: Coordinates = "plane",
        sponge: Natural = 0,
        sponge_depth: Positive = 1000.0,
        uplift: bool = False,
    ) -> None:
        dt = check_common(grid, dt, sponge)
        sponge_depth = positive("sponge_depth", sponge_depth, "give a depth typical of the edges, m", "m")
        if grid.ndim > 2:
            raise ParameterError(f"grid with {grid.ndim} axes, expected 1 or 2: long waves know no vertical axis")
        self.grid, self.dt, self.metric = grid, dt, Metric(grid, coordinates)
        self.states = {name: Variable("mirror", unit="m") for name in ("eta", "eta_prev")}
        self.parameters = {"H": Variable("mirror", unit="m")}
        self.moving = flag("uplift", uplift)
        if self.moving:
            self.parameters = {**self.parameters, **{name: Variable("mirror", unit=unit) for name, unit in UPLIFT.items()}}
        self.initials = {"eta0": Variable("mirror", unit="m")}
        self.sponge = Sponge(grid, dt, sponge, math.sqrt(GRAVITY * sponge_depth), self.metric.smallest())
        self.profiles = dict(self.sponge.profiles)
        if coordinates == "sphere":
            self.profiles["sec_lat"] = Profile(0, 1 / np.cos(np.radians(grid.coordinates(0))))
            self.profiles["cos_lat_face"] = Profile(0, np.cos(np.radians(grid.coordinates(0, 1))), 1)

    def cell_lengths(self) -> tuple[float, ...]:
        return self.metric.middle()

    def still(self, parameters: Mapping[str, Array], states: Mapping[str, Array]) -> str:
        if (parameters["H"] > 0).any():
            return ""
        return "the depth H is 0 everywhere, which is land; give H as the depth of the water in m, above 0"

    def silent(self, parameters: Mapping[str, Array]) -> Mapping[str, NDArray[np.bool_]]:
        return {"land": parameters["H"] <= 0}

    def coefficients(self, H: Symbol, **others: Symbol) -> dict[str, Symbol]:
        out = {}
        for axis in range(self.grid.ndim):
            face = interpolate(H, axis)
            wet = minimum(H, H.shifted(axis, 1)) > 0
            wet = wet.like(wet.node, face.location)  # both cells of the face are under water
            out[f"B{axis}"] = (GRAVITY * self.dt**2 / self.metric.unit**2) * where(wet, face, 0.0)
        if self.metric.sphere:
            out["B0"] = out["B0"] * others["cos_lat_face"]
            out["B1"] = out["B1"] * others["sec_lat"]
        if self.moving:
            out |= {"raised": where(H > 0, others["uplift"], 0.0), "start": others["start"], "rise": others["rise"]}
        return out | self.sponge.coefficients(others)

    def step(self, eta: Symbol, eta_prev: Symbol, t: Symbol, **others: Symbol) -> dict[str, Symbol]:
        push = self._divergence(eta, others)
        if self.moving:
            before, now, after = (risen(t + shift, others) for shift in (-self.dt, 0.0, self.dt))
            push = push + others["raised"] * (after - 2 * now + before)
        return {"eta": self.sponge.leapfrog(eta, eta_prev, push, others), "eta_prev": eta}

    def initial(self, eta0: Symbol, **others: Symbol) -> dict[str, Symbol]:
        before = eta0 + 0.5 * self._divergence(eta0, others)
        if self.moving:
            before = before - others["raised"] * (risen(0.0, others) - risen(-self.dt, others))
        return {"eta": eta0, "eta_prev": before}

    def _divergence(self, eta: Symbol, others: Mapping[str, Symbol]) -> Symbol:
        """dt² ∇·(g H ∇η)."""
        total = add([diff(others[f"B{axis}"] * diff(eta, axis), axis) for axis in range(self.grid.ndim)])
        return total * others["sec_lat"] if self.metric.sphere else total

    def check(self, parameters: Mapping[str, Array]) -> None:
        check_sign("depth H", parameters["H"], "m", positive=False)
        if self.moving:
            check_uplift(parameters)
        deepest = float(parameters["H"].max())
        if deepest:
            bound = sum(4 / h**2 for h in self.metric.smallest())
            limit = 2 / math.sqrt(GRAVITY * deepest * bound)
            check_step(self.dt, limit, f"H_max = {deepest:.4g} m, dx = {min(self.metric.smallest()):.4g} m")
