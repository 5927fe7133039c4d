"""Heat conduction in media whose conductivity varies, explicit and implicit, with flow and anisotropy."""

from __future__ import annotations

import math
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Literal

import numpy as np

from diffsim.base.arguments import flag, one_of
from diffsim.boundary import Boundary, Dirichlet, Neumann, per_axis
from diffsim.errors import ParameterError
from diffsim.expr.operators import add, diff, interpolate
from diffsim.expr.symbol import Symbol
from diffsim.expr.vectors import div
from diffsim.mesh.grid import Grid
from diffsim.solvers.parts.given import check_given
from diffsim.solvers.parts.means import harmonic
from diffsim.solvers.parts.stability import check_common, check_sign, check_step
from diffsim.stepping.declare.equation import Equation, Variable
from diffsim.stepping.stages.solve import solve
from diffsim.stepping.stages.steady import balanced
from diffsim.typing import Array

METHODS = ("explicit", "crank_nicolson", "sdirk2", "adi", "steady")
MEANS = ("arithmetic", "harmonic")
GAMMA = 1 - 1 / math.sqrt(2)
"""The share of a step that each system of "sdirk2" covers. With it the method is L-stable and of second order."""


COMMUTING = 2.0
"""The largest kappa dt / dx² of "adi" on three axes where the medium varies: for media of two values, 1000:1 at random, steps grow from
somewhere between 3 and 5."""


class Heat(Equation, kind="heat"):
    """Diffusion with variable diffusivity in one to three dimensions.

        Tₜ + ∇·(v T) = ∇·(κ ∇T) + s + q,    v and s where asked for

    Conservative second-order differences in space, κ averaged to the faces. With A T = ∇ₕ·(κ_face ∇ₕT - v T_face), in time:

        explicit        forward Euler, first order:  Tⁿ⁺¹ = Tⁿ + dt (A Tⁿ + s + qⁿ)
        crank_nicolson  second order, A-stable:  (1 - dt/2 A) Tᵐ = Tⁿ + dt/2 s,   Tⁿ⁺¹ = 2 Tᵐ - Tⁿ + dt qⁿ
        sdirk2          second order, L-stable:  (1 - γ dt A) T¹ = Tⁿ + γ dt s,   γ = 1 - 1/√2,
                        (1 - γ dt A) T² = Tⁿ + (1 - γ)/γ (T¹ - Tⁿ) + γ dt s,   Tⁿ⁺¹ = T² + dt qⁿ
        adi             second order, a tridiagonal system along each line, A = A₁ + A₂ + A₃:
                        (1 - dt/2 A₁) T¹ = Tⁿ + dt (A₁/2 + A₂ + A₃) Tⁿ + dt s,   (1 - dt/2 Aₐ) Tᵃ = Tᵃ⁻¹ - dt/2 Aₐ Tⁿ,
                        Tⁿ⁺¹ = T³ + dt qⁿ, that of Douglas; in two dimensions it gives the result of Peaceman and Rachford

    No time step is too long for the implicit ones, but for "adi" on three axes where the medium varies or flows: there kappa dt / dx² is
    at most 2, and a flow is refused. For long steps (kappa dt / dx² above about 5, behind a sudden change) take "sdirk2", which damps what
    decays fast, as TR-BDF2 does: on a mode both have the same factor. "crank_nicolson" and "adi" let it oscillate. "adi" costs least: on
    256 x 256 cells a fifth of "crank_nicolson".

    Inputs: diffusivity `kappa` (m²/s, cell centres), initial temperature `T` (K), amplitudes of the point sources `q`.
    With `boundary` "mirror" no heat is conducted across the edges and, without flow, the total is conserved to round-off; "zero" holds the
    outside at 0 K; "periodic" joins opposite edges. A point source acts at the end of an implicit step: its heat is exact, its time is
    of first order. Values of sides that are series hold for a whole step; those of its middle keep the second order, by "sdirk2" only
    where kappa dt / dx² next to the side is below about 1: what decays fast follows the side without delay.

    Args:
        grid: spacing in metres.
        dt: time step, s. "explicit" is stable while dt kappa_max Σ 4/dx² <= 2, in two dimensions kappa dt / dx² <= 1/4, and with flow
            also while dt Σ v²/kappa <= 2.
        boundary: values outside the grid, see `diffsim.Variable`; "mirror" lets no heat through.
        parameters: inputs that rules of the boundary name and that hold for all steps, such as {"air": Variable(axes=())}.
        series: inputs that rules name and that have a value for each step, such as {"lamp": Variable(axes=())}.
        method: "explicit", "crank_nicolson", "sdirk2" or "adi"; or "steady": one step goes to the steady state, A T + s = 0, which `dt` and
            the initial temperature do not change, see `diffsim.steady`. Then there are no point sources.
        mean: of κ at a face between two cells: "arithmetic", or "harmonic", with which the flux through layers is exact. At a
            jump of 10:1 on 20 cells the arithmetic mean makes the flux 3.5 % wrong.
        anisotropic: whether each axis has a diffusivity of its own: `kappa_x`, `kappa_y`, `kappa_z` in place of `kappa`.
        capacity: whether there is a heat capacity `rho_c` (J/(m³ K)): ρc Tₜ + ∇·(v T) = ∇·(k ∇T) + s + q, where the conductivity `k`
            (W/(m K)), or `k_x` and so on, is in place of `kappa`, heat `s` and `q` are in W/m³ and W, and a flow is given with the heat
            capacity of what flows, as ρc v in W/(m² K).
        flow: whether a flow carries heat, by centred differences: velocities `u`, `v`, `w` along x, y, z (m/s, on upper faces as those of
            `NavierStokes`), and for each axis that is not periodic those on its low side, `u_low` and so on (m/s, one for each cell of
            the side). It should have no divergence. Axes are (x), (y, x) or (z, y, x).
        heated: whether there is a distributed heat supply `s` (K/s, cell centres).

    Good values: explicit, kappa dt / dx² of 0.1 to 0.2, where a mode of wave number k decays by 1 - 4 r Σ sin²(k dx / 2) a step,
    r = kappa dt / dx²; implicit, a step that resolves what is looked at, such as a tenth of its time scale; with flow |v| dx / kappa <= 2.

    Reference: Morton and Mayers (2005), Numerical Solution of Partial Differential Equations, 2nd ed., sections 2.4 and
        3.1, doi:10.1017/CBO9780511812248; Alexander (1977), Diagonally implicit Runge-Kutta methods for stiff O.D.E.'s, SIAM J. Numer.
        Anal. 14, 1006-1021, doi:10.1137/0714068; Douglas (1962), Alternating direction methods for three space variables, Numer. Math.
        4, 41-63, doi:10.1007/BF01386295; Patankar (1980), Numerical Heat Transfer and Fluid Flow, section 4.2-3; Hindmarsh, Gresho and
        Griffiths (1984), Int. J. Numer. Methods Fluids 4, 853-897, doi:10.1002/fld.1650040905, for the explicit limit with flow.

    Raises:
        ParameterError: an argument out of range; by a run, a diffusivity below 0 (with the harmonic mean, or 0), a capacity that is not
            positive.
        StabilityError: by a run, a time step beyond the stable one, explicit or of "adi" on three axes; the message has both.

    Example:
        import numpy as np

        import diffsim as ds

        # How much heat must a lamp at x = 0.6 m give, step by step? The gradient has an entry for each step.
        grid = ds.Grid((40,), spacing=0.05)
        rod = ds.Simulation(ds.solvers.Heat(grid, dt=0.1), sources={"q": [[0.6]]}, receivers={"T": [[1.0]]})
        inputs = {"kappa": np.full(40, 5e-3), "T": np.zeros(40), "q": np.ones((50, 1))}
        value, gradient = rod.value_and_grad(lambda found: found.traces["T"][-1, 0], inputs, steps=50)
        assert gradient["q"].shape == (50, 1) and gradient["q"][0, 0] > gradient["q"][-1, 0]  # early heat has time to arrive

        # The same rod, cold at both ends, by steps that are 40 times the stable one: a mode decays as it should.
        cold = ds.solvers.Heat(grid, dt=10.0, boundary=ds.Dirichlet(0.0), method="sdirk2")
        mode = np.sin(np.pi * (grid.coordinates(0) + 0.025) / 2.0)
        found = ds.Simulation(cold, precision="f64").run({"kappa": np.full(40, 5e-3), "T": mode}, steps=5).final["T"]
        assert np.allclose(found, mode * np.exp(-5e-3 * (np.pi / 2.0) ** 2 * 50.0), atol=1e-3)
    """

    forcings: tuple[str, ...] = ("q",)
    stable_dt_power = 2.0
    optional: Mapping[str, str] = {
        "kappa": "capacity = False and anisotropic = False",
        "k": "capacity = True",
        "rho_c": "capacity = True",
        "kappa_{axis}": "anisotropic = True",
        "k_{axis}": "anisotropic = True and capacity = True",
        "s": "heated = True",
        **dict.fromkeys(("{velocity}", "{velocity}_low"), "flow = True"),
        "q": 'a method other than "steady"',
    }

    def __init__(
        self,
        grid: Grid,
        dt: float,
        boundary: Boundary = "mirror",
        parameters: Mapping[str, Variable] = MappingProxyType({}),
        series: Mapping[str, Variable] = MappingProxyType({}),
        method: Literal["explicit", "crank_nicolson", "sdirk2", "adi", "steady"] = "explicit",
        mean: Literal["arithmetic", "harmonic"] = "arithmetic",
        anisotropic: bool = False,
        capacity: bool = False,
        flow: bool = False,
        heated: bool = False,
    ) -> None:
        self.grid, self.dt = grid, check_common(grid, dt)
        self.method, self.mean = one_of("method", method, METHODS), one_of("mean", mean, MEANS)
        self.anisotropic, self.capacity = flag("anisotropic", anisotropic), flag("capacity", capacity)
        self.flow, self.heated = flag("flow", flow), flag("heated", heated)
        if self.method == "adi" and self.flow and grid.ndim == 3:
            raise ParameterError('method = "adi" with a flow on three axes, where it is unstable, expected another method; take "sdirk2"')
        self.steady = self.method == "steady"
        if self.steady:
            self.forcings = ()
        self.states = {"T": Variable(boundary, unit="K")}
        joined = [low.joins for low, _ in per_axis(boundary, grid.ndim)]
        own = self._media(joined) | (self._flow(joined) if self.flow else {})
        names = ("T", *own, *self.forcings)
        self.parameters = own | check_given("parameters", parameters, names)
        self.series = check_given("series", series, names)

    @property
    def conducting(self) -> tuple[str, ...]:
        """The diffusivity, or the conductivity, along each axis."""
        name = "k" if self.capacity else "kappa"
        return tuple(f"{name}_{axis}" if self.anisotropic else name for axis in "zyx"[-self.grid.ndim :])

    @property
    def velocities(self) -> tuple[str, ...]:
        """The velocity of the flow along each axis."""
        return tuple("wvu"[-self.grid.ndim :])

    def _media(self, joined: list[bool]) -> dict[str, Variable]:
        """Fields of the medium, with a value in each cell."""
        around = tuple("periodic" if joins else "mirror" for joins in joined)
        media = {name: Variable(around, unit="W/(m K)" if self.capacity else "m²/s") for name in self.conducting}
        if self.capacity:
            media["rho_c"] = Variable(around, unit="J/(m³ K)")
        if self.heated:
            media["s"] = Variable(around, unit="W/m³" if self.capacity else "K/s")
        return media

    def _flow(self, joined: list[bool]) -> dict[str, Variable]:
        """The flow: through upper faces, and through the low sides of axes that are not periodic."""
        flow, unit = {}, "W/(m² K)" if self.capacity else "m/s"
        for axis, name in enumerate(self.velocities):
            others = tuple(other for other in range(self.grid.ndim) if other != axis)
            around: list[Any] = ["periodic" if joins else "mirror" for joins in joined]
            if not joined[axis]:
                flow[f"{name}_low"] = Variable(tuple(around), unit=unit, axes=others)
                around[axis] = (Dirichlet(f"{name}_low"), Neumann(0.0))
            flow[name] = Variable(tuple(around), tuple(int(other == axis) for other in range(self.grid.ndim)), unit)
        return flow

    def step(self, T: Symbol, **media: Symbol) -> dict[str, Symbol]:
        c, s, q, dt = media.get("rho_c", 1.0), media.get("s", 0.0), media.get("q", 0.0), self.dt
        axes = range(self.grid.ndim)

        def gain(x: Symbol) -> Symbol:  # A x
            return div([self.flux(x, axis, media) for axis in axes])

        def implicit(share: float, right: Symbol) -> Symbol:  # (c - share dt A) x = right
            return solve(lambda x: c * x - share * dt * gain(x), right, boundary=T)

        def line(axis: int, right: Symbol) -> Symbol:  # (1 - dt/2 Aₐ) x = right
            return solve(lambda x: x - 0.5 * dt / c * diff(self.flux(x, axis, media), axis), right, boundary=T)

        if self.steady:
            return {"T": balanced(lambda x: gain(x) + s, T, "T")}
        if self.method == "explicit":
            return {"T": T + dt * (gain(T) + s + q) / c}
        if self.method == "crank_nicolson":
            middle = implicit(0.5, c * T + 0.5 * dt * s)
            return {"T": 2 * middle - T + dt * q / c}
        if self.method == "sdirk2":
            first = implicit(GAMMA, c * T + GAMMA * dt * s)
            return {"T": implicit(GAMMA, c * (T + (1 / GAMMA - 1) * (first - T)) + GAMMA * dt * s) + dt * q / c}
        gains = [dt / c * diff(self.flux(T, axis, media), axis) for axis in axes]
        later = T + add(gains) - 0.5 * gains[0] + dt / c * s
        for axis in axes:
            later = line(axis, later - 0.5 * gains[axis] if axis else later)
        return {"T": later + dt * q / c}

    def flux(self, T: Symbol, axis: int, media: Mapping[str, Symbol]) -> Symbol:
        """The heat that comes down an axis through its upper faces, by conduction and with the flow: κ ∂T - v T."""
        kappa = media[self.conducting[axis]]
        conducted = (interpolate(kappa, axis) if self.mean == "arithmetic" else harmonic(kappa, axis)) * diff(T, axis)
        return conducted - media[self.velocities[axis]] * interpolate(T, axis) if self.flow else conducted

    def check(self, parameters: Mapping[str, Array]) -> None:
        what = "conductivity" if self.capacity else "diffusivity"
        for name in dict.fromkeys(self.conducting):
            check_sign(f"{what} {name}", parameters[name], "W/(m K)" if self.capacity else "m²/s", positive=self.mean == "harmonic")
        if self.capacity:
            check_sign("heat capacity rho_c", parameters["rho_c"], "J/(m³ K)")
        if self.method == "explicit":
            self._check_explicit(parameters)
        if self.method == "adi" and self.grid.ndim == 3:
            self._check_alternating(parameters)

    def _check_alternating(self, parameters: Mapping[str, Array]) -> None:
        """The stable time step of Douglas' method on three axes, where the parts along the axes do not commute."""
        kappa = [parameters[name] / parameters.get("rho_c", 1.0) for name in self.conducting]
        if any(float(np.ptp(k)) > 0 for k in kappa):
            rate = max(float(k.max()) / h**2 for k, h in zip(kappa, self.grid.smallest, strict=True))
            check_step(self.dt, COMMUTING / rate, 'method "adi" on three axes of a medium that varies; "sdirk2" has no such limit')

    def _check_explicit(self, parameters: Mapping[str, Array]) -> None:
        """The stable time step of forward Euler, by the largest diffusivity, and by the flow."""
        kappa = [parameters[name] / parameters.get("rho_c", 1.0) for name in self.conducting]
        largest, least = max(float(k.max()) for k in kappa), min(float(k.min()) for k in kappa)
        if largest:
            bound = sum(4 * (float(k.max()) / largest) / h**2 for k, h in zip(kappa, self.grid.smallest, strict=True))
            check_step(self.dt, 2 / (largest * bound), f"kappa_max = {largest:.4g} m²/s, dx = {min(self.grid.smallest):.4g} m")
        if self.flow:
            least_capacity = float(np.min(parameters.get("rho_c", 1.0)))
            on_axis = [[each for each in (name, f"{name}_low") if each in parameters] for name in self.velocities]
            speeds = [max(float(np.abs(parameters[each]).max()) for each in names) / least_capacity for names in on_axis]
            if any(speeds):
                limit = 2 * least / sum(v**2 for v in speeds)
                check_step(self.dt, limit, f"a flow of {max(speeds):.4g} m/s in kappa_min = {least:.4g} m²/s")
