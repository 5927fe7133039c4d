"""A substance that a flow carries."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, TypeAlias

import numpy as np

from diffsim.base.arguments import flag, one_of, positive
from diffsim.boundary import Dirichlet, Extrapolate
from diffsim.errors import ParameterError
from diffsim.expr.functions import maximum, minimum, where
from diffsim.expr.limiters import muscl, van_albada, weno5
from diffsim.expr.operators import diff, interpolate
from diffsim.expr.symbol import Symbol
from diffsim.expr.vectors import div
from diffsim.integrators import TABLEAUX, ssp_rk3
from diffsim.mesh.grid import Grid
from diffsim.solvers.parts.stability import check_common, check_sign, check_step
from diffsim.solvers.parts.staggered import LowSide, words_of
from diffsim.stepping.declare.equation import Equation, Profile, Variable
from diffsim.typing import Array

Word: TypeAlias = Literal["periodic", "wall", "inflow", "outflow"]
Sides: TypeAlias = Word | tuple[Word | tuple[Word, Word], ...]
"""The sides of a flow: one word, or one an axis, where a pair is that of the low and the high side."""

SCHEMES = {"weno5": 1.43, "muscl": 1.17}
"""The reconstructions, and the largest dt Σ |v|/dx for which they are stable with `ssp_rk3`, by von Neumann's analysis."""
PARABOLIC = TABLEAUX["ssp_rk3"].real
"""How far along the negative real axis `ssp_rk3` is stable."""
NEGLIGIBLE = 1e-3
"""A change between neighbours that reconstructions neglect, over the scale of the substance."""


class Advection(Equation, kind="advection"):
    """A substance that a flow carries, in one to three dimensions, with sharp fronts and, if wanted, with diffusion.

        c_t + ∇·(v c) = ∇·(κ ∇c) + q

    Finite volumes: `c` is the mean of a cell, and the amount of the substance changes by what crosses the sides alone. The value at a face
    is reconstructed from the cells upwind, by scheme "weno5" from five (WENO-Z, fifth order), by "muscl" from three with the smooth limiter
    of van Albada (second order). In several dimensions a flux is the one in the middle of a face, so "weno5" is of fifth order where the
    velocity is uniform, and of second order, with smaller errors than "muscl", where it varies. Three Runge-Kutta stages, third order in
    time (`ssp_rk3`).

    Inputs: velocities `u`, `v` and `w` along x, y and z (m/s, on the upper faces across their axes, constant in time) and the initial `c`,
    here in kg/m³. Axes are (x), (y, x) or (z, y, x). A uniform `c` stays so where the velocity has no divergence. Where the low side of an
    axis is an inflow or an outflow, the velocity through it is an input too, such as `u_low` (a value for each cell of the side). With
    `diffusive` the diffusivity `kappa` (m²/s, cell centres). Point sources `q`, which act at the end of each step.

    Args:
        grid: one to three axes, spacing in metres; "weno5" needs cells of one size.
        dt: time step, s. Stable while dt Σ |v|/dx / a + dt κ Σ 4/dx² / 2.51 <= 1, with a = 1.43 ("weno5") or 1.17 ("muscl").
        sides: around the flow, for all axes, or an entry each, where a pair is that of the low and the high side:
            "periodic"; "wall", which nothing crosses: the velocity of its faces is 0; "inflow", where `c` has the value of the input
            `inflow` (a value for each cell of the side; of several such sides `inflow_low_x` and so on); "outflow", where the substance
            leaves.
        scheme: the reconstruction, "weno5" or "muscl".
        diffusive: whether there is a diffusivity.
        inflow_series: whether inflows have a value for each step; otherwise they are constant in time.
        scale (kg/m³): the size of the differences of `c` that matter, about that of `c` itself: 1e-6 for a trace. Changes far below a
            thousandth of it are not limited, which keeps gradients smooth at flat states; if all of `c` is, fronts overshoot by a tenth.

    Raises:
        ParameterError: an argument out of range; by a run, a flow through a wall or a diffusivity below 0.
        StabilityError: by a run, a time step beyond the stable one.

    Good values: dt Σ |v|/dx of 0.5; four cells across the steepest front. New extrema at a front are below 1e-2
        ("weno5") or 1e-3 ("muscl") of `scale`.

    Reference: Borges, Carmona, Costa and Don (2008), J. Comput. Phys. 227, 3191-3211, doi:10.1016/j.jcp.2007.11.038; van Leer (1979), J.
        Comput. Phys. 32, 101-136, doi:10.1016/0021-9991(79)90145-1; Shu and Osher (1988), J. Comput. Phys. 77, 439-471,
        doi:10.1016/0021-9991(88)90177-5, for the stages.

    Example:
        import numpy as np

        import diffsim as ds

        # How much of a pulse released upstream passes a gauge, and when was what passed released?
        river = ds.solvers.Advection(ds.Grid((60,), spacing=10.0), dt=5.0, sides=(("inflow", "outflow"),), inflow_series=True)
        gauge = ds.Simulation(river, receivers={"c": [[400.0]]}, wrt=["inflow"], precision="f64")
        released = np.exp(-(((np.arange(120) - 30.0) / 8.0) ** 2))  # kg/m³, a value each 5 s
        flow = {"u": np.ones(60), "u_low": 1.0, "c": np.zeros(60), "inflow": released}
        passed, gradient = gauge.value_and_grad(lambda found: found.traces["c"][110:115].sum(), flow, steps=120)
        assert abs(gradient["inflow"].argmax() - (112 - 81)) <= 1  # 405 m at 1 m/s are 81 steps
    """

    forcings = ("q",)
    optional: Mapping[str, str] = {
        "kappa": "diffusive = True",
        "inflow": 'one side of "inflow" in sides',
        "inflow_{side}": 'several sides of "inflow" in sides',
        "{velocity}_low": 'a side of "inflow" or "outflow" in sides',
    }

    def __init__(
        self,
        grid: Grid,
        dt: float,
        sides: Sides = "periodic",
        scheme: Literal["weno5", "muscl"] = "weno5",
        diffusive: bool = False,
        inflow_series: bool = False,
        scale: float = 1.0,
    ) -> None:
        self.grid, self.dt = grid, check_common(grid, dt)
        self.axes = "zyx"[-grid.ndim :]
        self.sides = words_of(sides, self.axes, ("periodic", "wall", "inflow", "outflow"))
        self.scheme = one_of("scheme", scheme, tuple(SCHEMES))
        if self.scheme == "weno5" and None in grid.uniform_spacing:
            raise ParameterError('grid of cells of several sizes with scheme = "weno5", expected cells of one size; take "muscl"')
        self.eps = NEGLIGIBLE * positive("scale", scale, "give the size of the differences of c that matter")
        self.velocities = tuple({"x": "u", "y": "v", "z": "w"}[axis] for axis in self.axes)
        inlets = [(axis, high) for axis, pair in enumerate(self.sides) for high in (0, 1) if pair[high] == "inflow"]
        self.inflows = {side: "inflow" if len(inlets) == 1 else f"inflow_{self._side(*side)}" for side in inlets}
        self.states = {"c": Variable(tuple(self._around(axis) for axis in range(grid.ndim)), unit="kg/m³")}
        values = {name: Variable(self._across(axis), unit="kg/m³", axes=self._others(axis)) for (axis, _), name in self.inflows.items()}
        self.parameters = {} if flag("inflow_series", inflow_series) else values
        self.series = values if inflow_series else {}
        for axis, (name, pair) in enumerate(zip(self.velocities, self.sides, strict=True)):
            rules = tuple(self._through(k, axis, name) for k in range(grid.ndim))
            self.parameters |= {name: Variable(rules, tuple(int(k == axis) for k in range(grid.ndim)), "m/s")}
            if pair[0] in ("inflow", "outflow"):
                self.parameters |= {f"{name}_low": Variable(self._across(axis), unit="m/s", axes=self._others(axis))}
        self.profiles = {}
        for axis, high in self.inflows:
            last = np.arange(grid.shape[axis]) == grid.shape[axis] - 1
            profile = Profile(axis, last.astype(float), 1) if high else LowSide(axis, np.zeros(grid.shape[axis]), 1)
            self.profiles[f"at_{self._side(axis, high)}"] = profile
        self.diffusive = flag("diffusive", diffusive)
        if diffusive:
            self.parameters |= {"kappa": Variable(self._across(-1), unit="m²/s")}

    def _side(self, axis: int, high: int) -> str:
        return f"{'high' if high else 'low'}_{self.axes[axis]}"

    def _others(self, axis: int) -> tuple[int, ...]:
        return tuple(other for other in range(self.grid.ndim) if other != axis)

    def _around(self, axis: int) -> Any:
        """The rules of the substance along an axis. Nothing flows in where it leaves: its end value continues."""
        rules = {"wall": "mirror", "outflow": Extrapolate(0)}
        pair = [Dirichlet(self.inflows[axis, high]) if word == "inflow" else rules.get(word) for high, word in enumerate(self.sides[axis])]
        return "periodic" if self.sides[axis][0] == "periodic" else tuple(pair)

    def _through(self, k: int, axis: int, name: str) -> Any:
        """The rules along axis k of the velocity along `axis`: values on the low side, the others are not used."""
        if k != axis or self.sides[k][0] == "periodic":
            return self._across(axis)[k] if k != axis else "periodic"
        return Dirichlet(0.0 if self.sides[k][0] == "wall" else f"{name}_low"), "mirror"

    def _across(self, axis: int) -> tuple[str, ...]:
        """The rules of values that do not vary along an axis."""
        return tuple("periodic" if pair[0] == "periodic" and k != axis else "mirror" for k, pair in enumerate(self.sides))

    def step(self, c: Symbol, q: Symbol, **inputs: Symbol) -> dict[str, Symbol]:
        def at_faces(c: Symbol, axis: int) -> tuple[Symbol, Symbol]:  # as the cell below and the cell above see them
            if self.scheme == "weno5":
                return weno5(c, axis, self.eps**2, "z")
            uniform = self.grid.uniform_spacing[axis] is not None
            return muscl(c, axis, van_albada(self.eps if uniform else self.eps / self.grid.smallest[axis]))

        def flux(c: Symbol, axis: int) -> Symbol:
            (below, above), velocity = at_faces(c, axis), inputs[self.velocities[axis]]
            for side, name in self.inflows.items():
                if side == (axis, 0):  # all that flows in has the value of the inlet
                    below = where(inputs[f"at_{self._side(*side)}"] > 0.5, inputs[name], below)
                elif side == (axis, 1):
                    above = where(inputs[f"at_{self._side(*side)}"] > 0.5, inputs[name], above)
            carried = maximum(velocity, 0.0) * below + minimum(velocity, 0.0) * above
            return carried - interpolate(inputs["kappa"], axis) * diff(c, axis) if self.diffusive else carried

        def rate(now: dict[str, Symbol]) -> dict[str, Symbol]:
            return {"c": -div([flux(now["c"], axis) for axis in range(self.grid.ndim)])}

        return {"c": ssp_rk3(rate, {"c": c}, self.dt)["c"] + self.dt * q}

    def check(self, parameters: Mapping[str, Array]) -> None:
        sizes, speeds = self.grid.smallest, [np.abs(parameters[name]) for name in self.velocities]
        for axis, (name, pair) in enumerate(zip(self.velocities, self.sides, strict=True)):
            through = float(speeds[axis].take(-1, axis).max())
            if pair[1] == "wall" and through > 0:
                raise ParameterError(f"{name} is {through:.4g} m/s on the wall {self._side(axis, 1)}, expected 0; let the flow end there")
        for axis, name in enumerate(self.velocities):  # cells next to a low side are crossed by what flows through it too
            if f"{name}_low" in parameters:
                first = (slice(None),) * axis + (0,)
                speeds[axis][first] = np.maximum(speeds[axis], np.abs(parameters[f"{name}_low"]))[first]
        crossings = float(np.sum([speed / size for speed, size in zip(speeds, sizes, strict=True)], axis=0).max())
        rate, why = crossings / SCHEMES[self.scheme], f"{self.scheme} and a largest Σ |v|/dx of {crossings:.4g} /s"
        if self.diffusive:
            check_sign("diffusivity kappa", parameters["kappa"], "m²/s", positive=False)
            largest = float(parameters["kappa"].max())
            rate, why = rate + largest * sum(4 / size**2 for size in sizes) / PARABOLIC, f"{why}, kappa_max = {largest:.4g} m²/s"
        if rate > 0:
            check_step(self.dt, 1 / rate, why)
