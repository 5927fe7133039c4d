"""Elastic waves: velocities and stresses on a staggered grid."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np

from diffsim.base.arguments import flag, one_of
from diffsim.expr.components import Components
from diffsim.expr.operators import add
from diffsim.expr.symbol import Symbol
from diffsim.mesh.grid import Grid
from diffsim.solvers.parts.air import far_from_air, stress_slope, velocity_slope
from diffsim.solvers.parts.edges import Layer, Stretched, layer_of, memories, taken_at
from diffsim.solvers.parts.moduli import check_contrast, check_solid, largest_eigenvalue, moduli_of, normal_modulus
from diffsim.solvers.parts.stability import check_common, check_step, staggered_number
from diffsim.solvers.parts.staggered import Side, axes_of, edges_of, sides_of
from diffsim.stepping.declare.equation import Equation, Profile, Variable
from diffsim.stepping.declare.groups import SymmetricTensor, Vector
from diffsim.stepping.trace.stages import stage
from diffsim.typing import Array, Positive


class Elastic(Equation, kind="elastic"):
    """Elastic waves in two dimensions (P and SV) or three, with absorbing layers and a free surface of any shape.

        ρ vₐ,ₜ = Σ_b ∂_b σ_ab + f_a,   σ_ab,ₜ = Σ_cd C_abcd ½ (∂_c v_d + ∂_d v_c) - m_ab

    Leap-frog in time (second order), staggered differences D of even order in space: vₐ on the faces of axis a and half a step before
    the stresses, σₐₐ at centres, σ_ab on the edges of a and b:

        v ← v + dt b D σ,   σₐₐ ← σₐₐ + dt (λ Σ_b D v_b + 2 μ D vₐ - m_aa),   σ_ab ← σ_ab + dt (μ (D v_b + D vₐ) - m_ab),   v ← v + dt b f

    On a face b is the inverse of the mean density of its two cells. On an edge μ is the harmonic mean of four cells, 0 if one is a fluid.

    With a free surface, cells where ρ = 0 are air, and those of the first row along axis 0 always are. The surface lies on the faces
    between air and matter, which for the first row is half a cell below its centres. Differences that would reach beyond it are of
    second order. Energy is conserved there.

    Inputs at centres: `vp` and `vs` (m/s; vs = 0: a fluid), `rho` (kg/m³). With anisotropy `epsilon` and `delta` of Thomsen, in three
    dimensions also `gamma`, where vp and vs hold along axis 0, the symmetry axis. Initial velocities `vy`, `vx` and stresses `syy`, `sxx`,
    `sxy` (Pa, tension is positive); in three dimensions the axes are z, y, x. Sources, divided by the volume of a cell: forces `fy`, `fx`
    (N; in two dimensions N/m), where row n acts at (n + 1) dt, and moment rates `myy`, `mxx`, `mxy` (N m/s; in two dimensions N/s), where
    row n acts at (n + ½) dt. Equal positive `myy` and `mxx` are an explosion.

    Args:
        grid: spacing in metres, two or three axes; axis 0 points down.
        dt: time step, s. Stable while vp_max dt sqrt(Σ 1 / dx²) w <= 1, w = 1 (order 2), 7/6 (4), 1.241 (6), 1.286 (8). This is that
            of the fastest uniform medium; above order 2, contrasts of density lower it by up to 2 %, and larger ones are refused.
        order: of the differences, 2 to 8. Good: 4.
        layer (cells): absorbing CPML: at all sides, or an entry an axis, where a pair is for the low and the high side; 0 for none. Good:
            10 to 20.
        layer_speed (m/s): the largest wave speed in the layer. None: a scene takes that of the start; in Python it is needed with a layer.
        layer_frequency (Hz): the dominant frequency of the waves. None: a scene takes that of the wavelet; in Python it is needed with a
            layer.
        surface: whether there is air: a free surface at the low side of axis 0, whose first row is air and has no layer, and wherever
            ρ = 0.
        anisotropy: whether the medium is transversely isotropic. Then there are also the parameters `epsilon` and `delta` of Thomsen, in
            three dimensions `gamma` too.
        pressure: whether there is a state `p` (Pa) for receivers, minus the mean of the normal stresses. Its initial value is not read.
        boundary: outside the grid, for all axes, in Python also an entry each: "periodic", or "zero", where all is 0 and waves are
            reflected.

    Raises:
        ParameterError: an argument out of range; by a run, a speed or a density out of range.
        StabilityError: by a run, a time step beyond the stable one; the message has both.

    Good values: order 4, eight cells per shortest wavelength, 20 at a free surface; a layer of 10 to 20 cells; 0.9 of the stable dt.

    Reference: Virieux (1986), P-SV wave propagation in heterogeneous media, Geophysics 51, 889-901, doi:10.1190/1.1442147; Levander (1988),
        Geophysics 53, 1425-1436, doi:10.1190/1.1442422; for the averages at the surface Zeng et al. (2012), An improved vacuum formulation,
        Geophysics 77, T1-T9, doi:10.1190/geo2011-0067.1; Thomsen (1986), Geophysics 51, 1954-1966, doi:10.1190/1.1442051. Here differences
        next to air are of second order.

    Example:
        import numpy as np

        import diffsim as ds

        # A hammer blow on the ground: which shear speeds does the record of the surface wave depend on? Those near the surface.
        grid, dt = ds.Grid((30, 60), spacing=1.0), 1e-3
        ground = ds.solvers.Elastic(grid, dt, layer=8, layer_speed=400.0, layer_frequency=20.0, surface=True)
        blow = ds.Simulation(ground, sources={"fy": [[0.5, 15.0]]}, receivers={"vy": [[0.5, 45.0]]}, wrt=["vs"])
        a = (np.pi * 20.0 * (dt * np.arange(300) - 0.06)) ** 2
        inputs = {"vp": np.full(grid.shape, 400.0), "vs": np.full(grid.shape, 200.0), "rho": np.full(grid.shape, 1800.0)}
        inputs["fy"] = ((1 - 2 * a) * np.exp(-a))[:, None]
        _, gradient = blow.value_and_grad(lambda found: 0.5 * (found.traces["vy"] ** 2).sum() * 1e12, inputs, steps=300)
        assert abs(gradient["vs"][1:8]).sum() > 3 * abs(gradient["vs"][15:22]).sum()
    """

    in_cells = ("layer",)
    speed = "vp"
    optional: Mapping[str, str] = {"p": "pressure = True", **dict.fromkeys(("epsilon", "delta"), "anisotropy = True")}

    def __init__(
        self,
        grid: Grid,
        dt: float,
        order: Literal[2, 4, 6, 8] = 4,
        layer: Layer = 0,
        layer_speed: Positive | None = None,
        layer_frequency: Positive | None = None,
        surface: bool = False,
        anisotropy: bool = False,
        pressure: bool = False,
        boundary: Side | Sequence[Side] = "zero",
    ) -> None:
        dt = check_common(grid, dt)
        self.axes = axes = axes_of(grid.ndim)
        self.grid, self.dt, self.order = grid, dt, int(one_of("order", order, (2, 4, 6, 8)))
        self.surface, self.anisotropy, self.pressure = flag("surface", surface), flag("anisotropy", anisotropy), flag("pressure", pressure)
        outside = sides_of(boundary, grid.ndim, self.surface)
        self.layer = layer_of(grid, dt, layer, layer_speed, layer_frequency, taken_at(outside, self.surface))
        v, s = Vector(axes, outside, unit="m/s"), SymmetricTensor(axes, outside, unit="Pa")
        self.states = {"v": v, "s": s}
        self.states |= memories(self.layer, axes, [(s.layout.name("s", i, j), j, v[i]) for i in axes for j in axes])
        self.states |= memories(self.layer, axes, [(f"v{i}", j, s[i, j]) for i in axes for j in axes])
        if self.pressure:
            self.states["p"] = Variable(outside, unit="Pa")
        self.forcings = {"f": v, "m": s}
        self._far = {"centre": [], **edges_of(axes)} if self.surface and self.order > 2 else {}  # where it matters how far air is
        units = {"vp": "m/s", "vs": "m/s", "rho": "kg/m³"}
        if self.anisotropy:
            units |= dict.fromkeys(("epsilon", "delta", "gamma")[: grid.ndim], "")
        outside_media = tuple("mirror" if side == "zero" else side for side in outside)
        self.parameters = {name: Variable(outside_media, unit=unit) for name, unit in units.items()}
        if self.surface:
            self.profiles = {"ground": Profile(0, np.minimum(np.arange(grid.shape[0]), 1.0))}
            self.coefficient_boundaries = {f"far_{place}": outside for place in self._far}

    def coefficients(self, vp: Symbol, vs: Symbol, rho: Symbol, **others: Symbol) -> dict[str, Any]:
        if self.surface:
            rho = rho * others.pop("ground")
        far = {f"far_{place}": far_from_air(rho, self.order // 2, edge) for place, edge in self._far.items()}
        return moduli_of(self.axes, vp, vs, rho, others) | far

    def step(self, v: Components, s: Components, b: Components, mu: Components, f: Components, m: Components, **now: Any) -> dict[str, Any]:
        dt, axes = self.dt, self.axes
        stretched = Stretched(self.layer, axes, now)

        def far(i: str, j: str) -> Symbol | None:
            return now.get(s.layout.name("far", i, j), now.get("far_centre"))

        def pull(i: str, j: str) -> Symbol:  # ∂_j σ_ij
            return stretched(stress_slope(s[i, j], axes.index(j), self.order, far(i, j)), s.layout.name("s", i, j), j)

        def rate(i: str, j: str) -> Symbol:  # ∂_j v_i
            return stretched(velocity_slope(v[i], axes.index(j), self.order, far(i, j)), f"v{i}", j)

        v = stage(v + dt * b * v.each(lambda i: add([pull(i, j) for j in axes])), boundary=v)
        growth = {i: rate(i, i) for i in axes}

        def change(i: str, j: str) -> Symbol:  # Σ_kl C_ijkl ½ (∂_k v_l + ∂_l v_k)
            if i != j:
                return mu[i, j] * (rate(i, j) + rate(j, i))
            return add([now[normal_modulus(i, k, axes[0] if self.anisotropy else "")] * growth[k] for k in axes])

        s = s + dt * (s.each(change) - m)
        pressure = {"p": (-1 / self.grid.ndim) * add([s[i, i] for i in axes])} if self.pressure else {}
        return {"v": v + dt * b * f, "s": s} | stretched.following | pressure

    def check(self, parameters: Mapping[str, Array]) -> None:
        check_solid(parameters, self.surface)
        numbers = [2 * staggered_number(self.order) / h for h in self.grid.smallest]
        limit = 2 / math.sqrt(largest_eigenvalue(parameters, numbers))
        fastest = float(parameters["vp"][parameters["rho"] > 0].max())
        check_contrast(parameters["rho"], self.order)
        check_step(self.dt, limit, f"vp_max = {fastest:.4g} m/s, dx = {min(self.grid.smallest):.4g} m, order {self.order}")
