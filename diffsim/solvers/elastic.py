"""Elastic waves: velocities and stresses on a staggered grid."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import combinations_with_replacement
from typing import Any, Literal, TypeAlias

import numpy as np

from diffsim.arguments import flag, one_of
from diffsim.boundary import per_axis
from diffsim.errors import ParameterError
from diffsim.expr.operators import add, diff
from diffsim.expr.symbol import Symbol
from diffsim.field import Location
from diffsim.grid import Grid
from diffsim.solvers.edges import PERIODIC, SURFACE, Layer, layer_of
from diffsim.solvers.moduli import buoyancy, check_contrast, check_solid, far_from_air, harmonic, largest_eigenvalue, stiffness
from diffsim.solvers.stability import check_common, check_step, staggered_number
from diffsim.stepping.equation import Equation, Profile, Variable
from diffsim.stepping.stages import stage
from diffsim.typing import Array, Positive

Side: TypeAlias = Literal["zero", "periodic"]


class Elastic(Equation):
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
        order: order of the differences, 2 to 8.
        layer: cells of absorbing CPML: at all sides, or an entry an axis, where a pair is for the low and the high side; 0 for none.
        layer_speed: the largest wave speed at the sides, m/s; needed with a layer.
        layer_frequency: the dominant frequency of the waves, Hz; needed with a layer.
        surface: whether there is air: a free surface at the low side of axis 0, where there is then no layer, and wherever ρ = 0.
        anisotropy: whether the medium is transversely isotropic.
        pressure: whether there is a state `p` for receivers, minus the mean of the normal stresses. Its initial value is not read.
        boundary: outside the grid, for all axes or an entry each: "periodic", or "zero", where all is 0 and waves are reflected.

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
        check_common(grid, dt)
        if grid.ndim == 1:
            raise ParameterError("grid with 1 axis, expected 2 or 3: shear waves move across their direction; take Acoustic")
        self.grid, self.dt, self.order = grid, dt, int(one_of("order", order, (2, 4, 6, 8)))
        self.surface, self.anisotropy, self.pressure = flag("surface", surface), flag("anisotropy", anisotropy), flag("pressure", pressure)
        outside: tuple[Any, ...] = tuple(boundary) if isinstance(boundary, (tuple, list)) else (boundary,) * grid.ndim
        for side in outside:
            one_of("boundary", side, ("zero", "periodic"))
        per_axis(outside, grid.ndim)
        joined = [side == "periodic" for side in outside]
        if self.surface and joined[0]:
            raise ParameterError("axis 0 is periodic and has a surface, expected one of both; leave one out")
        taken = [(PERIODIC,) * 2 if ends else (SURFACE if self.surface and axis == 0 else "", "") for axis, ends in enumerate(joined)]
        self.layer = layer_of(grid, dt, layer, layer_speed, layer_frequency, taken)
        self.axes = "zyx"[-grid.ndim :]
        self.pairs = {"".join(sorted(a + b)): (a, b) for a, b in combinations_with_replacement(self.axes, 2)}
        self.states = {f"v{a}": Variable(outside, self._place(a), "m/s") for a in self.axes}
        self.states |= {f"s{pair}": Variable(outside, self._place(*axes), "Pa") for pair, axes in self.pairs.items()}
        self.states |= {
            f"psi_{name}_{across}": self.layer.memory(self.axes.index(across), to)
            for name, across, to in self._slopes()
            if any(self.layer.cells[self.axes.index(across)])
        }
        if self.pressure:
            self.states["p"] = Variable(outside, unit="Pa")
        self.forcings = (*(f"f{a}" for a in self.axes), *(f"m{pair}" for pair in self.pairs))
        given = tuple("mirror" if side == "zero" else side for side in outside)
        units = {"vp": "m/s", "vs": "m/s", "rho": "kg/m³"}
        if self.anisotropy:
            units |= dict.fromkeys(("epsilon", "delta", "gamma")[: grid.ndim], "")
        self.parameters = {name: Variable(given, unit=unit) for name, unit in units.items()}
        if self.surface:
            self.profiles = {"ground": Profile(0, np.minimum(np.arange(grid.shape[0]), 1.0))}
            self.coefficient_boundaries = {f"far_{pair}": outside for pair in self._far()}

    def _place(self, *axes: str) -> Location:
        """The faces of one axis, the edges of two, the centres for an axis twice."""
        return tuple(axes.count(a) % 2 for a in self.axes)

    def _slopes(self) -> list[tuple[str, str, Location]]:
        """The derivatives of a step: of which state, across which axis, and where they lie."""
        both = [(a, b) for a in self.axes for b in self.axes]
        stresses = [(_stress(a, b), b, self._place(a)) for a, b in both]
        return stresses + [(f"v{a}", b, self._place(a, b)) for a, b in both]

    def _modulus(self, a: str, b: str) -> str:
        """The modulus that makes stress along a of strain along b, by Voigt's numbers."""
        if a == b:
            return "c33" if self.anisotropy and a == self.axes[0] else "c11"
        return "c13" if self.anisotropy and self.axes[0] in (a, b) else "c12"

    def _far(self) -> dict[str, list[int]]:
        """The places of stresses that know how far air is, and their edges; only differences above order 2 reach beyond it."""
        edges = {pair: [self.axes.index(a) for a in axes] for pair, axes in self.pairs.items() if len(set(axes)) == 2}
        return {"centre": [], **edges} if self.surface and self.order > 2 else {}

    def coefficients(self, vp: Symbol, vs: Symbol, rho: Symbol, **others: Symbol) -> dict[str, Symbol]:
        if self.surface:
            rho = rho * others.pop("ground")
        c = stiffness(vp, vs, rho, others)
        out = {self._modulus(a, b): c[self._modulus(a, b)] for a in self.axes for b in self.axes}
        for pair, (a, b) in self.pairs.items():
            if a != b:
                shear = c["c55"] if self.axes[0] in (a, b) else c.get("c66", c["c55"])
                out[f"mu_{pair}"] = harmonic(shear, [self.axes.index(a), self.axes.index(b)])
        out |= {f"b_{a}": buoyancy(rho, axis) for axis, a in enumerate(self.axes)}
        return out | {f"far_{place}": far_from_air(rho, self.order // 2, edge) for place, edge in self._far().items()}

    def step(self, **now: Symbol) -> dict[str, Symbol]:
        dt, new = self.dt, {}

        def stretched(name: str, across: str, slope: Symbol) -> Symbol:
            memory = f"psi_{name}_{across}"
            if memory in self.states:
                slope, new[memory] = self.layer.stretch(slope, self.axes.index(across), now[memory])
            return slope

        def pull(name: str, across: str) -> Symbol:  # the derivative of a stress
            stress, axis = now[name], self.axes.index(across)
            if not self._far():
                return stretched(name, across, diff(stress, axis, self.order))
            far = self._distance(name, now) * stress
            return stretched(name, across, diff(stress, axis) + diff(far, axis, self.order) - diff(far, axis))

        def rate(a: str, across: str) -> Symbol:  # the derivative of a velocity: minus the transpose of the one above
            axis = self.axes.index(across)
            slope = diff(v[a], axis, self.order)
            if self._far():
                near = diff(v[a], axis)
                slope = near + self._distance(_stress(a, across), now) * (slope - near)
            return stretched(f"v{a}", across, slope)

        v: dict[str, Symbol] = {}
        pulls = {a: add([pull(_stress(a, b), b) for b in self.axes]) for a in self.axes}
        for a in self.axes:
            v[a] = stage(now[f"v{a}"] + dt * now[f"b_{a}"] * pulls[a], boundary=now[f"v{a}"])
            new[f"v{a}"] = v[a] + dt * now[f"b_{a}"] * now[f"f{a}"]
        growth = {a: rate(a, a) for a in self.axes}
        for pair, (a, b) in self.pairs.items():
            if a == b:
                stress = add([now[self._modulus(a, c)] * growth[c] for c in self.axes])
            else:
                stress = now[f"mu_{pair}"] * (rate(a, b) + rate(b, a))
            new[f"s{pair}"] = now[f"s{pair}"] + dt * (stress - now[f"m{pair}"])
        if self.pressure:
            new["p"] = (-1 / self.grid.ndim) * add([new[f"s{a}{a}"] for a in self.axes])
        return new

    def _distance(self, stress: str, now: Mapping[str, Symbol]) -> Symbol:
        return now.get(f"far_{stress[1:]}", now["far_centre"])

    def check(self, parameters: Mapping[str, Array]) -> None:
        check_solid(parameters, self.surface)
        numbers = [2 * staggered_number(self.order) / h for h in self.grid.smallest]
        limit = 2 / math.sqrt(largest_eigenvalue(parameters, numbers))
        fastest = float(parameters["vp"][parameters["rho"] > 0].max())
        check_contrast(parameters["rho"], self.order)
        check_step(self.dt, limit, f"vp_max = {fastest:.4g} m/s, dx = {min(self.grid.smallest):.4g} m, order {self.order}")


def _stress(a: str, b: str) -> str:
    return "s" + "".join(sorted(a + b))
