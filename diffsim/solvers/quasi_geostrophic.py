"""Ocean currents and large vortices of one layer or several: quasi-geostrophic flow."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np

from diffsim.base.arguments import flag, one_of
from diffsim.base.messages import shown
from diffsim.boundary import Rule
from diffsim.boundary.rules import Combination, Place
from diffsim.errors import ParameterError, SingularError
from diffsim.expr.operators import diff_centred, laplacian
from diffsim.expr.reductions import sum as sum_of
from diffsim.expr.symbol import Symbol
from diffsim.integrators import TABLEAUX, rk4
from diffsim.mesh.grid import Grid
from diffsim.simulation import host_stage
from diffsim.solvers.parts.drift import Drift
from diffsim.solvers.parts.stability import check_common, check_sign, check_step, laplacian_bound
from diffsim.solvers.parts.staggered import words_of
from diffsim.solvers.stratified import F64, Stratification
from diffsim.stepping.declare.equation import Equation, Profile, Variable
from diffsim.stepping.stages.solve import solve
from diffsim.stepping.trace.stages import stage
from diffsim.typing import Array

Word: TypeAlias = Literal["periodic", "slip", "no_slip"]
Sides: TypeAlias = Word | tuple[Word | tuple[Word, Word], ...]
"""The sides of the sea: one word, or one an axis, where a pair is that of the low and the high side."""

WORDS = ("periodic", "slip", "no_slip")
REACH = TABLEAUX["rk4"].real
"""How far along both axes of the complex plane rk4 is stable."""
CARRIED = 1.7
"""The largest dt |v| / dx in each direction."""
BALANCED = 1e-6
"""The largest mean of a wind, over its root mean square, that counts as rounding: as much as `solve` accepts."""


@dataclass(frozen=True)
class Coast(Rule):
    """A coast through the first points outside of the grid: the stream function is 0 there, and odd (slip) or even (no slip) across it.

    So the vorticity at the coast, the second difference there, is 0, or that of Thom, 2 ψ / dx² of the first point inside.
    """

    across: float

    def ghost(self, q: int, n: int, place: Place) -> Combination:
        return (((q - 1, self.across),) if q else ()), 0.0


class QuasiGeostrophic(Equation, kind="quasi_geostrophic"):
    """Quasi-geostrophic flow of one layer or several on the β-plane: wind-driven gyres, Rossby waves, eddies that grow on a shear.

        ζₜ + J(ψ, ζ) + β ψₓ = F - r ζ + ν ∇²ζ,    ζ = ∇²ψ,    J(a, b) = aₓ b_y - a_y bₓ

    The state is the stream function ψ: the velocity is u = -ψ_y, v = ψₓ. Second order in space; the Jacobian is that of Arakawa, which
    keeps the energy Σ |∇ψ|²/2 and, with "slip" or "periodic" sides, the enstrophy Σ ζ²/2; β ψₓ keeps the energy too. The classical method
    of Runge and Kutta, whose error is all that changes these sums, solves ∇²ψₜ = ζₜ by fast transforms in each stage.

    With `drifters` there are the states `drift_y` and `drift_x` (m): how far the particle that began at each point has been carried, at
    first 0. So `receivers={"drift_y": [place], "drift_x": [place]}` records the path of a drifter that is released at this place, best a
    point of the grid. The velocity between points is that of a cubic spline through ψ, at which drifters do not cross a coast.

    With `layers` there is a stream function for each, `psi1` of the top one to `psiN`, and J has the potential vorticity of each layer,

        q_i = ∇²ψ_i + f0² / H_i ((ψ_{i-1} - ψ_i) / g'_{i-1} + (ψ_{i+1} - ψ_i) / g'_i)

    without the term of a surface that it does not have. The wind acts on the top layer, the drag on the bottom one, and drifters are in
    the top one. Vertical modes, which `stratification` has with their Rossby radii, decouple the systems: each stage solves one for each
    mode. States are stream functions relative to the coast, on which each layer has a value of its own. These values keep the volume of
    each layer: m_i = -Σ (ψ_i - ψ_{i+1}) / N is the difference of the values of two layers, where the states are 0 on the coast and N counts
    points of the sea, those of a coast as halves and of a corner as quarters: (n + 1)² in a basin of n x n points. So the surface below
    layer i is f0 / g'_i (ψ_{i+1} - ψ_i - m_i) above its mean height. The energy Σ H_i |∇ψ_i|²/2 + Σ f0² (ψ_i - ψ_{i+1} + m_i)² / (2 g'_i)
    is kept, where the second sum counts points in the same way. With `mean_flow` the eddies of each layer move on a uniform flow along x,
    whose stream function is -U_i y and which stays as it is. Its numbers `U1` to `UN` (m/s) are inputs.

    Inputs: initial stream function `psi` (m²/s), `wind` F (1/s², the curl of the wind stress over density and depth of the layer), and the
    numbers `beta` (1/(m s)), `drag` r (1/s) and `nu` (m²/s; with "biharmonic" m⁴/s). Axes are (y, x). Coasts run through the first points
    outside of the grid: a basin of 1000 km with points each 10 km has 99 of them. `Grid(..., origin=spacing)` counts coordinates from the
    coast.

    Args:
        grid: two axes, spacing in metres.
        dt: time step, s. Stable while dt |v| / dx <= 1.7 in each direction, dt β kₓ / (kₓ² + k_y²) <= 2.78 for all waves, and dt (ν S + r)
            <= 2.78, where S is 8/dx² and with "biharmonic" its square. With mean flows β is that of each layer with its shear, and
            dt |U| / dx is added to the second number.
        sides: "periodic", "slip" or "no_slip", for all axes, or an entry each, where a pair is that of the low and the high side.
            ("slip", "periodic") is a channel; its transport is 0.
        viscosity: "laplacian", ν ∇²ζ, or "biharmonic", -ν ∇⁴ζ, which damps short waves alone.
        drifters: whether the flow carries particles.
        layers: mean thicknesses H_i, m, from the top down; none: one layer, whose thickness does not matter.
        gravities: reduced gravities g Δρ / ρ of the surfaces between layers, m/s², one less than layers. For two layers with the Rossby
            radius R it is (f0 R)² (1 / H_1 + 1 / H_2).
        f0: Coriolis parameter, 1/s, for layers alone.
        mean_flow: whether each layer has a mean flow along x, for layers and sides that are periodic along x.
        weather: "steady", a wind that is constant in time, shape of the grid, or "series", with a field for each step, (steps, *shape);
            best that in the middle of the step.

    Raises:
        ParameterError: an argument out of range, or a grid of another number of axes; by a run, a viscosity or drag below 0.
        StabilityError: by a run, a time step beyond the stable one.
        SingularError: by a run, a wind whose mean is not 0 where all sides are periodic: subtract it.
        DivergenceError: by a run, values that are not finite, as where the wind makes the flow too fast; the message has the limit.

    Good values: 2 points or more across the western boundary layer, (ν/β)^⅓ or r/β; dt |v|/dx = 0.3.

    Reference: Arakawa (1966), Computational design for long-term numerical integration of the equations of fluid motion, J. Comput.
        Phys. 1, 119-143, doi:10.1016/0021-9991(66)90015-5, equation 46; Vallis (2017), Atmospheric and Oceanic Fluid Dynamics, 2nd ed.,
        chapters 5, 9 and 19, doi:10.1017/9781107588417; McWilliams (1977), A note on a consistent quasigeostrophic model in a multiply
        connected domain, Dyn. Atmos. Oceans 1, 427-441, doi:10.1016/0377-0265(77)90002-1, for the values on coasts; Thom (1933), Proc. R.
        Soc. Lond. A 141, 651-669, doi:10.1098/rspa.1933.0146.

    Example:
        import numpy as np

        import diffsim as ds

        # Which wind drives a gyre, and where does it matter most for the transport of the boundary current after 40 days?
        grid = ds.Grid((31, 31), spacing=1e6 / 32, origin=1e6 / 32)
        sea = ds.solvers.QuasiGeostrophic(grid, dt=3600.0)
        y = grid.coordinates(0)[:, None] / 1e6
        inputs = {"wind": -1e-12 * np.sin(np.pi * y) * np.ones((1, 31)), "beta": 2e-11, "drag": 1e-6, "nu": 100.0}
        gyre = ds.Simulation(sea, wrt=["wind"], precision="f64")
        transport, gradient = gyre.value_and_grad(lambda found: found.final["psi"].max(), inputs, steps=960)
        assert 1e3 < transport < 1e5 and gradient["wind"].shape == (31, 31)

        # Two layers, 500 and 3500 m: the wind pushes the upper one.
        sea = ds.solvers.QuasiGeostrophic(grid, dt=3600.0, layers=(500.0, 3500.0), gravities=(0.02,), f0=1e-4)
        currents = ds.Simulation(sea, wrt=[], precision="f64").run(inputs | {"wind": 8 * inputs["wind"]}, steps=480).final
        assert 20e3 < sea.stratification.radii[0] < 40e3 and abs(currents["psi1"]).max() > 3 * abs(currents["psi2"]).max()
    """

    stable_dt_power = 2.0
    optional: Mapping[str, str] = {
        "drift_{axis}": "drifters = True",
        "psi": "one layer, no layers",
        r"psi[1-9]\d*": "layers, gravities and f0",
        r"U[1-9]\d*": "mean_flow = True, layers, gravities and f0, and periodic sides",
    }

    def __init__(
        self,
        grid: Grid,
        dt: float,
        sides: Sides = "slip",
        viscosity: Literal["laplacian", "biharmonic"] = "laplacian",
        drifters: bool = False,
        layers: tuple[float, ...] = (),
        gravities: tuple[float, ...] = (),
        f0: float | None = None,
        mean_flow: bool = False,
        weather: Literal["steady", "series"] = "steady",
    ) -> None:
        self.grid, self.dt = grid, check_common(grid, dt)
        if grid.ndim != 2 or None in grid.uniform_spacing:
            raise ParameterError(f"grid of {grid.ndim} axes, expected two, y and x, of uniform spacing; take such a grid")
        self.sides = words_of(sides, "yx", WORDS)
        self.viscosity = one_of("viscosity", viscosity, ("laplacian", "biharmonic"))
        fastest = CARRIED * min(grid.smallest) / self.dt
        self.unstable = (
            f"The flow may have become too fast: dt = {self.dt:.4g} s is stable while |v| <= {fastest:.4g} m/s along each axis; "
            "lower dt, or take a weaker wind"
        )
        coasts = {"slip": Coast(-1.0), "no_slip": Coast(1.0)}
        rules = tuple("periodic" if pair[0] == "periodic" else (coasts[pair[0]], coasts[pair[1]]) for pair in self.sides)
        layered = _any(layers)
        for name, stated in (("gravities", _any(gravities)), ("f0", f0 is not None)):
            if stated and not layered:
                value = gravities if name == "gravities" else f0
                raise ParameterError(f"{name} = {shown(value)} without layers, expected it with layers alone; give layers=(500.0, 3500.0)")
        self.stratification = Stratification(layers, gravities, f0) if layered else None
        self.psi_names = ("psi",) if self.stratification is None else tuple(f"psi{i}" for i in range(1, len(layers) + 1))
        self.flows = self._flows(flag("mean_flow", mean_flow))
        self.states = {name: Variable(rules, unit="m²/s") for name in self.psi_names}
        self.drift = Drift(grid, self.sides) if flag("drifters", drifters) else None
        if self.drift is not None:
            beyond = tuple("periodic" if pair[0] == "periodic" else "mirror" for pair in self.sides)
            self.states |= {"drift_y": Variable(beyond, unit="m"), "drift_x": Variable(beyond, unit="m")}
        around = tuple("periodic" if pair[0] == "periodic" else "zero" for pair in self.sides)
        changing = one_of("weather", weather, ("steady", "series")) == "series"
        self.series = {"wind": Variable(around, unit="1/s²", axes=(0, 1))} if changing else {}
        self.parameters = ({} if changing else {"wind": Variable(around, unit="1/s²")}) | {
            "beta": Variable(axes=(), unit="1/(m s)"),
            "drag": Variable(axes=(), unit="1/s"),
            "nu": Variable(axes=(), unit="m²/s" if viscosity == "laplacian" else "m⁴/s"),
        }

        self.parameters |= {name: Variable(axes=(), unit="m/s") for name in self.flows}
        walls = [pair[0] != "periodic" for pair in self.sides]
        self.points = math.prod(n + wall for n, wall in zip(grid.shape, walls, strict=True))
        self.profiles = {"ones": Profile(0, np.ones(grid.shape[0]))} if self.stratification is not None and any(walls) else {}

    def _flows(self, wanted: bool) -> tuple[str, ...]:
        """The names of the mean flows."""
        if not wanted:
            return ()
        if self.stratification is None or self.sides[1][0] != "periodic":
            raise ParameterError(
                "mean_flow=True, expected layers, and sides that are periodic along x, through which the flow passes; give "
                'layers=(500.0, 3500.0), gravities=(0.02,) and sides=("slip", "periodic"), or leave mean_flow out'
            )
        return tuple(f"U{i}" for i in range(1, len(self.psi_names) + 1))

    def step(self, wind: Symbol, beta: Symbol, drag: Symbol, nu: Symbol, **others: Symbol) -> dict[str, Symbol]:
        layers, inverse = [others[name] for name in self.psi_names], self._inverse(others)
        flows: list[Any] = [others[name] for name in self.flows] or [None] * len(layers)

        def rate(now: dict[str, Symbol]) -> dict[str, Symbol]:
            psi, changes = [now[name] for name in self.psi_names], []
            for i, (here, flow) in enumerate(zip(psi, flows, strict=True)):
                vorticity, slope = laplacian(here), diff_centred(here, 1)
                potential, gradient = vorticity + self._stretched(psi, i), beta - self._stretched(flows, i)
                spread = laplacian(vorticity) if self.viscosity == "laplacian" else -laplacian(laplacian(vorticity))
                change = -jacobian(here, potential) if i else wind - jacobian(here, potential)
                change = change - gradient * slope
                if flow is not None:
                    change = change - flow * diff_centred(potential, 1)
                if i == len(psi) - 1:
                    change = change - drag * vorticity
                changes.append(change + nu * spread)
            return dict(zip(self.psi_names, inverse(changes), strict=True)) | self._carried(now, flows[0])

        return rk4(rate, {name: others[name] for name in self.states}, self.dt)

    def _stretched(self, values: Sequence[Any], i: int) -> Any:
        """Row i of the stretching S of a value of each layer; 0 of one layer, or where there is no value."""
        if self.stratification is None or not values or values[i] is None:
            return 0.0
        row = self.stratification.stretching[i]
        return sum(float(row[j]) * (values[j] - values[i]) for j in (i - 1, i + 1) if 0 <= j < len(values))

    def _inverse(self, fields: Mapping[str, Symbol]) -> Callable[[Sequence[Symbol]], list[Symbol]]:
        """The function of rates of the potential vorticity that gives those of the stream functions, relative to the coast."""
        top, layers = fields[self.psi_names[0]], self.stratification
        if layers is None:
            return lambda changes: [solve(laplacian, changes[0], boundary=top)]
        squares = [float(k) ** 2 for k in layers.wave_numbers]

        def operator(square: float) -> Callable[[Symbol], Symbol]:
            return (lambda x: laplacian(x) - square * x) if square else laplacian

        shapes = [solve(operator(square), fields["ones"], boundary=top) if square and self.profiles else None for square in squares]

        def inverse(changes: Sequence[Symbol]) -> list[Symbol]:
            stored, modes = [stage(change, boundary="zero") for change in changes], []  # each mode reads all of them
            for square, shape, weights in zip(squares, shapes, layers.to_modes, strict=True):
                mode = solve(operator(square), combined(weights, stored), boundary=top)
                if shape is not None:
                    mode = mode - square * sum_of(mode) / (self.points + square * sum_of(shape)) * shape
                modes.append(mode)
            return [combined(weights, modes) for weights in layers.from_modes]

        return inverse

    def _carried(self, now: dict[str, Symbol], flow: Symbol | None) -> dict[str, Symbol]:
        """The velocities of the drifters, in the top layer and on its mean flow."""
        if self.drift is None:
            return {}
        places = [now["drift_y"], now["drift_x"]]
        v, u = host_stage(self.drift.velocity, (now[self.psi_names[0]], *places), "zero", outputs=2)
        return {"drift_y": v, "drift_x": u if flow is None else u + flow}

    def check(self, parameters: Mapping[str, Array]) -> None:
        for name, unit in (("drag", "1/s"), ("nu", self.parameters["nu"].unit)):
            check_sign(name, parameters[name], unit, positive=False)
        nu, drag, beta = (float(parameters[name].max()) for name in ("nu", "drag", "beta"))
        damping = nu * laplacian_bound(self.grid, 2) ** (1 if self.viscosity == "laplacian" else 2) + drag
        if damping > 0:
            check_step(self.dt, REACH / damping, f"nu = {nu:.4g} {self.parameters['nu'].unit}, drag = {drag:.4g} 1/s")
        flows = [float(parameters[name].max()) for name in self.flows]
        steepest = max(abs(beta - self._stretched(flows, i)) for i in range(max(len(flows), 1)))
        fastest, why = max(map(abs, flows), default=0.0), f"Rossby waves, beta = {beta:.4g} 1/(m s)"
        if flows:
            why = f"Rossby waves on a mean flow of {fastest:.4g} m/s, by beta and shear {steepest:.4g} 1/(m s)"
        if frequency := steepest * self._longest() + fastest / self.grid.smallest[1]:
            check_step(self.dt, REACH / frequency, why)
        self.check_series(parameters, parameters)

    def check_series(self, parameters: Mapping[str, Array], series: Mapping[str, Array]) -> None:
        """Raise where a wind pushes a sea without coasts as a whole: no stream function has the circulation that it would drive."""
        if "wind" not in series or any(pair[0] != "periodic" for pair in self.sides):
            return
        wind = np.reshape(series["wind"], (-1, math.prod(self.grid.shape)))
        mean, size = wind.mean(axis=1, dtype=np.float64), wind.std(axis=1, dtype=np.float64)
        wrong = np.flatnonzero(np.abs(mean) > BALANCED * np.hypot(mean, size))
        if wrong.size:
            place = f" in step {wrong[0]}" if "wind" in self.series else ""
            raise SingularError(
                f"wind has a mean of {mean[wrong[0]]:.3g} 1/s²{place}, expected 0 where all sides are periodic; subtract the mean of wind"
            )

    def _longest(self) -> float:
        """The largest kₓ / (kₓ² + k_y²) of waves, m; in a basin, where waves run both ways along x, 1 / (2 |k|)."""
        (rows, columns), (dy, dx) = self.grid.shape, self.grid.smallest
        (around_y, _), (around_x, _) = self.sides
        across = 0.0 if around_y == "periodic" else math.pi / ((rows + 1) * dy)
        if around_x != "periodic":
            return 0.5 / math.hypot(across, math.pi / ((columns + 1) * dx))
        waves = [2 * math.pi * k / (columns * dx) for k in range(1, columns // 2 + 1)]
        return max(k / (k * k + across * across) for k in waves)


def _any(values: object) -> bool:
    """True if an argument is anything but an empty tuple or list. What it should be is checked where it is used."""
    return not (isinstance(values, (tuple, list)) and not values)


def combined(weights: Sequence[float] | F64, fields: Sequence[Symbol]) -> Any:
    """Σ w f."""
    return sum(float(weight) * field for weight, field in zip(weights, fields, strict=True))


def jacobian(a: Symbol, b: Symbol) -> Any:
    """∂a/∂x ∂b/∂y - ∂a/∂y ∂b/∂x by Arakawa's mean of three differences, for which Σ J, Σ a J and Σ b J are 0."""
    y, x = 0, 1
    advective = diff_centred(a, x) * diff_centred(b, y) - diff_centred(a, y) * diff_centred(b, x)
    flux_of_b = diff_centred(a * diff_centred(b, y), x) - diff_centred(a * diff_centred(b, x), y)
    flux_of_a = diff_centred(b * diff_centred(a, x), y) - diff_centred(b * diff_centred(a, y), x)
    return (advective + flux_of_b + flux_of_a) / 3
