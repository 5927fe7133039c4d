"""Heat conduction in a medium of varying conductivity."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from diffsim.boundary import Boundary, per_axis
from diffsim.expr.operators import diff, interpolate
from diffsim.expr.symbol import Symbol
from diffsim.expr.vectors import div
from diffsim.mesh.grid import Grid
from diffsim.solvers.given import check_given
from diffsim.solvers.stability import check_common, check_sign, check_step
from diffsim.stepping.declare.equation import Equation, Variable
from diffsim.typing import Array


class Heat(Equation, kind="heat"):
    """Diffusion with variable diffusivity in one to three dimensions.

        Tₜ = ∇·(κ ∇T) + q

    Forward Euler in time (first order), conservative second-order differences in space, κ averaged to the faces:

        Tⁿ⁺¹ = Tⁿ + dt (∇ₕ·(κ_face ∇ₕTⁿ) + qⁿ)

    Inputs: diffusivity `kappa` (m²/s, cell centres), initial temperature `T` (K), amplitudes of the point sources `q`.
    With `boundary` "mirror" no heat crosses the edges and the total is conserved to round-off; "zero" holds the outside at
    0 K; "periodic" joins opposite edges.

    Args:
        grid: spacing in metres.
        dt: time step, s. Stable while dt kappa_max Σ 4/dx² <= 2, in two dimensions kappa dt / dx² <= 1/4.
        boundary: values outside the grid, see `diffsim.Variable`; "mirror" lets no heat through.
        parameters: inputs that rules of the boundary name and that hold for all steps, such as {"air": Variable(axes=())}.
        series: inputs that rules name and that have a value for each step, such as {"lamp": Variable(axes=())}.

    Good values: kappa dt / dx² of 0.1 to 0.2; a mode of wave number k decays by 1 - 4 r Σ sin²(k dx / 2) a step, r = kappa dt / dx².

    Reference: Morton and Mayers (2005), Numerical Solution of Partial Differential Equations, 2nd ed., sections 2.4 and
        3.1, doi:10.1017/CBO9780511812248.

    Raises:
        ParameterError: a time step that is not positive; by a run, a diffusivity below 0.
        StabilityError: by a run, a time step beyond the stable one; the message has both.

    Example:
        import numpy as np

        import diffsim as ds

        # How much heat must a lamp at x = 0.6 m give, step by step? The gradient has an entry for each step.
        grid = ds.Grid((40,), spacing=0.05)
        rod = ds.Simulation(ds.solvers.Heat(grid, dt=0.1), sources={"q": [[0.6]]}, receivers={"T": [[1.0]]})
        inputs = {"kappa": np.full(40, 5e-3), "T": np.zeros(40), "q": np.ones((50, 1))}
        value, gradient = rod.value_and_grad(lambda found: found.traces["T"][-1, 0], inputs, steps=50)
        assert gradient["q"].shape == (50, 1) and gradient["q"][0, 0] > gradient["q"][-1, 0]  # early heat has time to arrive
    """

    forcings = ("q",)
    stable_dt_power = 2.0

    def __init__(
        self,
        grid: Grid,
        dt: float,
        boundary: Boundary = "mirror",
        parameters: Mapping[str, Variable] = MappingProxyType({}),
        series: Mapping[str, Variable] = MappingProxyType({}),
    ) -> None:
        dt = check_common(grid, dt)
        self.grid, self.dt = grid, dt
        self.states = {"T": Variable(boundary, unit="K")}
        outside = per_axis(boundary, grid.ndim)
        kappa = Variable(tuple("periodic" if low.joins else "mirror" for low, _ in outside), unit="m²/s")
        own = ("T", "kappa", *self.forcings)
        self.parameters = {"kappa": kappa} | check_given("parameters", parameters, own)
        self.series = check_given("series", series, own)

    def step(self, T: Symbol, kappa: Symbol, q: Symbol) -> dict[str, Symbol]:
        flux = [interpolate(kappa, axis) * diff(T, axis) for axis in range(self.grid.ndim)]
        return {"T": T + self.dt * (div(flux) + q)}

    def check(self, parameters: Mapping[str, Array]) -> None:
        check_sign("diffusivity kappa", parameters["kappa"], "m²/s", positive=False)
        largest = float(parameters["kappa"].max())
        if largest:
            bound = sum(4 / h**2 for h in self.grid.smallest)
            check_step(self.dt, 2 / (largest * bound), f"kappa_max = {largest:.4g} m²/s, dx = {min(self.grid.smallest):.4g} m")
