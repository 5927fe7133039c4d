"""Acoustics of variable density, with attenuation."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np

from diffsim.base.arguments import one_of, positive
from diffsim.base.messages import shown
from diffsim.boundary import Boundary, EvenImage, Periodic, per_axis
from diffsim.errors import ParameterError
from diffsim.expr.functions import sqrt
from diffsim.expr.operators import interpolate
from diffsim.expr.symbol import Symbol
from diffsim.expr.weights import check_order, staggered
from diffsim.mesh.grid import Grid
from diffsim.solvers.parts.edges import Layer, layer_of, taken_by
from diffsim.solvers.parts.stability import check_common, check_sign, check_step
from diffsim.stepping.declare.equation import Equation, Variable
from diffsim.typing import Array, Positive


class ViscoAcoustic(Equation, kind="visco_acoustic"):
    """Pressure waves in a medium of variable density that absorbs, in one to three dimensions.

        pₜₜ = K (D - s),   D = ∇·(∇p / ρ) + q,   τ sₜ + s = (1 - x²) D

    One standard linear solid: waves of the frequency f₀ have the phase speed c and the quality factor Q, and lose most a wavelength,

        x = sqrt(1 + 1/Q²) - 1/Q,   τ = x / (2π f₀),   K = ρ c² (1 + 1 / sqrt(1 + 1/Q²)) / (2 x)

    Leap-frog in time (second order), staggered differences of even order δ in space, s half a step later, density at faces the mean of both
    cells. Without attenuation s = 0 and K = ρ c², and the discrete operator is symmetric:

        Dⁿ = Σₐ δₐ(δₐ pⁿ / ρ) + qⁿ,   (2τ + dt) sⁿ⁺¹ᐟ² = (2τ - dt) sⁿ⁻¹ᐟ² + 2 dt (1 - x²) Dⁿ
        pⁿ⁺¹ = 2 pⁿ - pⁿ⁻¹ + dt² K (Dⁿ - (sⁿ⁺¹ᐟ² + sⁿ⁻¹ᐟ²) / 2)

    Inputs: phase speed `c` (m/s), density `rho` (kg/m³), and `Q` if it is "given", at cell centres; initial pressures `p` and `p_prev`
    (Pa); amplitudes of the point sources `q` (volume acceleration, m³/s², in two dimensions m²/s²). An amplitude f of `Acoustic` is ρ q.

    Args:
        grid: spacing in metres.
        dt: time step, s. Stable up to the limit of `Acoustic` at the speed of the fastest waves, sqrt(K / ρ), or a little less where the
            density has contrasts; order 8 in two dimensions: 0.550 dx / c.
        order: of the differences, 2 to 12. Good: 8.
        boundary: values outside the grid, see `Acoustic`; "odd_image" is a free surface half a cell beyond the outermost centres.
        Q: a quality factor for all cells, "given" for a field of them, or "none" for no attenuation.
        frequency (Hz): f₀, at which waves have the phase speed `c` and the quality factor; needed with attenuation.
        layer (cells): perfectly matched layer: one number for all sides, or one an axis, where a pair is that of the low and high side; see
            `Acoustic`. Good: 10 to 20.
        layer_speed (m/s): the largest wave speed in the layer. None: a scene takes that of the start; in Python it is needed with a layer.
        layer_frequency (Hz): the dominant frequency of the waves. None: a scene takes that of the wavelet; in Python it is needed with a
            layer.

    Good values: order 8, six cells per shortest wavelength, a layer of 10 to 20 cells, f₀ the dominant frequency. From f₀/2 to 2 f₀ the
    quality factor stays within 1.25 Q.

    Reference: Robertsson, Blanch and Symes (1994), Viscoelastic finite-difference modeling, Geophysics 59, 1444-1456,
        doi:10.1190/1.1443701, for the attenuation; here in pressure alone, and with Q and c exact at one frequency.

    Raises:
        ParameterError: arguments out of range; by a run, a parameter that is not positive.
        StabilityError: by a run, a time step beyond the stable one; the message has both.

    Example:
        import numpy as np

        import diffsim as ds

        # How much of a wave is left after 600 m of a rock with Q = 30?
        grid = ds.Grid((400,), spacing=5.0)
        t = 5e-4 * np.arange(1200) - 0.06
        a = (np.pi * 25.0 * t) ** 2
        medium = {"c": np.full(400, 2000.0), "rho": np.full(400, 2200.0), "q": ((1 - 2 * a) * np.exp(-a))[:, None]}
        records = []
        for Q in ("none", 30.0):
            rock = ds.solvers.ViscoAcoustic(grid, dt=5e-4, Q=Q, frequency=25.0, layer=20, layer_speed=2000.0, layer_frequency=25.0)
            shot = ds.Simulation(rock, sources={"q": [[500.0]]}, receivers={"p": [[700.0], [1300.0]]})
            traces = shot.run(medium, steps=1200).traces["p"]
            records.append(np.abs(np.fft.rfft(traces, axis=0)[15]))  # at 15 / (1201 dt) = 25 Hz
        left = (records[1] / records[0])[1] / (records[1] / records[0])[0]
        assert np.isclose(left, np.exp(-np.pi * 25.0 * 600.0 / (30.0 * 2000.0)), rtol=0.01)
    """

    forcings = ("q",)
    in_cells = ("layer",)
    speed = "c"
    optional: Mapping[str, str] = {"Q": 'Q = "given" and a frequency', "s": "Q and a frequency"}

    def __init__(
        self,
        grid: Grid,
        dt: float,
        order: Literal[2, 4, 6, 8, 10, 12] = 8,
        boundary: Boundary = "zero",
        Q: Positive | Literal["none", "given"] = "none",
        frequency: Positive | None = None,
        layer: Layer = 0,
        layer_speed: Positive | None = None,
        layer_frequency: Positive | None = None,
    ) -> None:
        dt = check_common(grid, dt)
        self._joined = [low.joins for low, _ in per_axis(boundary, grid.ndim)]
        self.grid, self.dt, self.order = grid, dt, check_order(order)
        self.Q = one_of("Q", Q, ("none", "given")) if isinstance(Q, str) else positive("Q", Q, 'give a number, "given" or "none"')
        if Q != "none" and frequency is None:
            raise ParameterError(f"Q = {shown(Q)} without a frequency, expected the one at which waves have it; give it in Hz")
        self.frequency = 1.0 if frequency is None else positive("frequency", frequency, "give the one at which waves have Q, in Hz", "Hz")
        self.layer = layer_of(grid, dt, layer, layer_speed, layer_frequency, taken_by(boundary, grid.ndim))
        medium = tuple(Periodic() if ends else EvenImage() for ends in self._joined)
        pressure = Variable(boundary, unit="Pa")
        self.states = {"p": pressure, "p_prev": pressure}
        self.parameters = {"c": Variable(medium, unit="m/s"), "rho": Variable(medium, unit="kg/m³")}
        self.coefficient_boundaries = {"rho": medium}
        if Q != "none":
            self.states["s"] = Variable(boundary, unit="1/s²")
        if Q == "given":
            self.parameters["Q"] = Variable(medium)
        self.states |= self.layer.memories("p")

    def coefficients(self, c: Symbol, rho: Symbol, **others: Symbol) -> dict[str, Symbol]:
        stiffness, keep, gain = self._solid(others.get("Q", self.Q))
        factors = {"rho": rho, "m": self.dt**2 * stiffness * rho * c * c}
        return factors | {"keep": keep, "gain": gain} if self.Q == "given" else factors

    def step(self, p: Symbol, p_prev: Symbol, rho: Symbol, m: Symbol, q: Symbol, **others: Symbol) -> dict[str, Symbol]:
        divergence, memories = self.layer.divergence(p, "p", others, self.order, lambda slope, axis: slope / interpolate(rho, axis))
        rate = divergence + q
        if self.Q == "none":
            return {"p": 2 * p - p_prev + m * rate, "p_prev": p} | memories
        s, (_, keep, gain) = others["s"], self._solid(self.Q)
        s_next = others.get("keep", keep) * s + others.get("gain", gain) * rate
        return {"p": 2 * p - p_prev + m * (rate - 0.5 * (s_next + s)), "p_prev": p, "s": s_next} | memories

    def _solid(self, Q: Any) -> tuple[Any, Any, Any]:
        """K / (ρ c²), and the weights of the last s and of D in the next s, from a number, an array or an expression."""
        if isinstance(Q, str):
            return 1.0, 0.0, 0.0
        root = sqrt if isinstance(Q, Symbol) else np.sqrt
        w = root(1 + 1 / (Q * Q))
        x = w - 1 / Q
        tau = x / (2 * math.pi * self.frequency)
        return (1 + 1 / w) / (2 * x), (2 * tau - self.dt) / (2 * tau + self.dt), 2 * self.dt * (1 - x * x) / (2 * tau + self.dt)

    def check(self, parameters: Mapping[str, Array]) -> None:
        check_sign("wave speed c", parameters["c"], "m/s")
        check_sign("density rho", parameters["rho"], "kg/m³")
        if self.Q == "given":
            check_sign("quality factor Q", parameters["Q"], "")
        stiffness, _, _ = self._solid(parameters.get("Q", self.Q))
        modulus = stiffness * parameters["rho"] * parameters["c"] ** 2
        limit = 2 / math.sqrt(float((modulus * _divergence_bound(parameters["rho"], self.grid, self.order, self._joined)).max()))
        fastest = float(np.sqrt(modulus / parameters["rho"]).max())
        check_step(self.dt, limit, f"waves of up to {fastest:.4g} m/s, dx = {min(self.grid.smallest):.4g} m, order {self.order}")


def _divergence_bound(rho: Array, grid: Grid, order: int, joined: Sequence[bool]) -> Array:
    """Cell by cell, what bounds the eigenvalues of -K ∇·(1/ρ)∇ when multiplied by K (Gershgorin).

    With weights w of δ, Σ_f (Σ_k w_k p_k)² / ρ_f <= Σ_k p_k² Σ_f |w_f| / ρ_f Σ|w|, sharp where ρ is constant.
    """
    weights, reach = np.abs(staggered(1, order)), order // 2
    total = np.zeros(rho.shape)
    for axis, h in enumerate(grid.smallest):
        along = np.moveaxis(np.asarray(rho, float), axis, 0)
        padded = np.pad(along, [(reach, reach)] + [(0, 0)] * (rho.ndim - 1), mode="wrap" if joined[axis] else "symmetric")
        faces = 2 / (padded[1:] + padded[:-1])
        rows = np.sum([w * faces[k : k + len(along)] for k, w in enumerate(weights)], axis=0)
        total += np.moveaxis(rows, 0, axis) * weights.sum() / h**2
    return total
