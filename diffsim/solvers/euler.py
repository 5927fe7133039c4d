"""Compressible flow of a gas without viscosity: shocks, blasts, sound of any loudness."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Literal, TypeAlias

import numpy as np

from diffsim.base.arguments import number, one_of, positive
from diffsim.base.messages import shown
from diffsim.errors import DivergenceError, ParameterError, StabilityError
from diffsim.expr.functions import maximum, minimum, sqrt, where
from diffsim.expr.limiters import Limiter, van_albada, weno5
from diffsim.expr.operators import add
from diffsim.expr.symbol import Symbol
from diffsim.integrators import euler, ssp_rk2, ssp_rk3
from diffsim.mesh.grid import Grid
from diffsim.solvers.parts.gas_sides import WORDS, GasSides
from diffsim.solvers.parts.given import series_of
from diffsim.solvers.parts.shallow import Faces, half_steps
from diffsim.solvers.parts.stability import check_common, check_sign, check_step
from diffsim.solvers.parts.staggered import words_of
from diffsim.stepping.declare.equation import Equation, Variable
from diffsim.stepping.trace.stages import stage
from diffsim.typing import Array, Positive

Word: TypeAlias = Literal["periodic", "wall", "open", "inflow", "reservoir", "outflow", "freestream"]
Sides: TypeAlias = Word | tuple[Word | tuple[Word, Word], ...]
"""The sides of a gas: one word, or one an axis, where a pair is that of the low and the high side."""

METHODS = {"euler": euler, "rk2": ssp_rk2, "rk3": ssp_rk3}
COURANT = 0.5
"""The largest dt Σ (|v| + c) / dx for which density and pressure stay positive."""
UNSTABLE = 2.0
"""A time step this many times the limit is unstable, and not only without a proof that all stays positive."""
SHARE = 0.8
"""The largest change over half a cell of a density or a pressure, over its mean."""


class Euler(Equation, kind="euler"):
    """The Euler equations of an ideal gas in one to three dimensions.

        ρ_t + ∇·(ρ v) = 0,    (ρ v)_t + ∇·(ρ v vᵀ) + ∇p = ρ g,    E_t + ∇·((E + p) v) = ρ v·g,    E = p / (γ - 1) + ρ v² / 2

    Finite volumes: what states hold are means of cells, mass, momentum and energy are kept to round-off, and shocks have their speed. Flux
    by the approximate Riemann solver with a contact wave (HLLC), with the wave speeds of Einfeldt, so contacts at rest stay sharp. Density,
    velocity and pressure at faces are reconstructed from cells, by scheme "muscl" from three with the smooth limiter of van Albada, by
    "weno5" from five (WENO-Z), which keeps short waves better, and density and pressure are kept positive there. Heun's method, of second
    order in time, or three stages, of third. Second order where the flow is smooth, first order at shocks and contacts.

    Inputs: the initial density `rho` (kg/m³), pressure `p` (Pa) and velocities `u`, `v` and `w` along x, y and z (m/s, 0 if left out), all
    at cell centres; density and pressure must be above 0. Axes are (x), (y, x) or (z, y, x). At sides that gas flows through further
    inputs give the gas there, such as `rho_low_x`, `u_low_x` and `p_high_x`, a value for each cell of the side, constant in time but for
    those in `series`.

    With `gravity` the pressure at a face is that of the cell with the weight of half the cell. So gas stays at rest to round-off, whatever
    its layers, where the pressure rises from cell to cell by the mean of their weights, (p₂ - p₁) / dx = g (ρ₁ + ρ₂) / 2. Any other state
    that should be at rest is so to second order. The energy with that of the height is kept to round-off between walls.

    Args:
        grid: one to three axes of uniform cells, spacing in metres.
        dt: time step, s. Density and pressure stay positive while Σ dt (|v| + c) / dx <= 1/2, c² = γ p / ρ.
        gamma: ratio of specific heats γ: 1.4 for air, 5/3 for monatomic gases.
        sides: around the gas, for all axes, or an entry each, where a pair is that of the low and the high side: "periodic"; "wall", which
            gas slides along; "open", where waves and gas leave, of first order in the cells next to it; "freestream", beyond which the gas
            is given by density, velocities and pressure: a supersonic inflow, or surroundings that waves leave into without coming back;
            "inflow", where density and velocities are given, slower than sound, and the pressure comes from inside; "reservoir", where gas
            enters across the side from rest at the given density and pressure without losses, at most at the speed of sound, and leaves
            into that pressure as through an "outflow"; "outflow", where the pressure is given, and where gas that is faster than sound
            leaves as it is. Fixed values send waves back: an "outflow" as a free end does, an "inflow" as a wall. Gas that comes back
            through an "outflow" has the entropy and the velocity along the side of the gas inside, and may be faster than sound where the
            given pressure is far above that inside: a "reservoir" has a bound. `relaxation` lets waves leave through it.
        method: "rk2" or "rk3", or "euler": first order in space and time.
        scheme: "muscl", or "weno5", which takes "rk3".
        negligible: differences between neighbours far below this share of `scale` are not limited. It keeps gradients smooth where the gas
            is at rest, and overshoots at shocks are of its size. Waves without shocks are better with more.
        scale: typical density (kg/m³), velocity (m/s) and pressure (Pa).
        fastest (m/s): the largest |v| + c of the run, which the time step is checked for, as it is for the initial gas and that given at
            sides, in each step of a series. The time step is constant, and is checked again for the gas at the end of a run.
        gravity (m/s²): along each axis of the grid, y before x, such as (-9.81, 0.0) where y points upwards; (): none. Scheme "muscl".
        relaxation (m): a length L, of a cell or more, over which an "outflow" holds its pressure. A wave of length λ that meets it head-on
            comes back with 1 / √(1 + (2π L / λ)²) of its height, and the mean pressure comes to the given one at the rate c / L, both
            for gas at rest where nothing comes back from elsewhere. Before a reflecting end, L should be longer than the way to it: at .3
            of it the gas rings, at 5 times it the rate is above 2 c / L. Of first order in the cells next to the side; None: at once, and
            waves come back as from a free end. A "reservoir" into which gas flows is not relaxed.
        series: those inputs of sides that have a value for each time step, such as ("p_high_x",), which holds for the whole step.
            An "inflow" is compared with the speed of sound in the first step alone.

    Raises:
        ParameterError: an argument out of range, "weno5" with another method or with gravity, or a grid of cells of several sizes; by a
            run, a density or pressure that is not above 0, an inflow that flows out or is faster than sound.
        StabilityError: by a run, a time step beyond the stable one for `fastest`, or twice that of the gas at its end.
        DivergenceError: by a run, a density or a pressure that is no longer above 0, as with larger time steps.

    Good values: dt Σ (|v| + c) / dx of 0.4; `negligible` a thousandth, or a tenth for sound.

    Reference: Toro (2009), Riemann Solvers and Numerical Methods for Fluid Dynamics, 3rd edition, Springer, chapter 10,
        doi:10.1007/b79761; Batten, Clarke, Lambert and Causon (1997), SIAM J. Sci. Comput. 18, 1553-1570,
        doi:10.1137/S1064827593260140, for positivity; Einfeldt, Munz, Roe and Sjögreen (1991), J. Comput. Phys. 92, 273-295,
        doi:10.1016/0021-9991(91)90211-3, for the speeds; Borges, Carmona, Costa and Don (2008), J. Comput. Phys. 227, 3191-3211,
        doi:10.1016/j.jcp.2007.11.038, for "weno5"; Käppeli and Mishra (2016), Astron. Astrophys. 587, A94,
        doi:10.1051/0004-6361/201527815, for gas at rest. `diffsim.solvers.parts.gas_sides` has the sides.

    Example:
        import numpy as np

        import diffsim as ds

        # How strong was a blast? Newton's method for the pressure whose shock gives this record.
        tube = ds.Grid((100,), spacing=0.01)
        gas = ds.Simulation(ds.solvers.Euler(tube, dt=2e-3, sides="wall"), receivers={"p": [[0.8]]}, wrt=["p"], precision="f64")
        chamber, strength = tube.coordinates(0) < 0.5, 0.7
        for _ in range(6):
            inputs = {"rho": np.where(chamber, 1.0, 0.125), "p": np.where(chamber, strength, 0.1)}
            mean, gradient = gas.value_and_grad(lambda found: found.traces["p"].mean(), inputs, steps=120)
            strength -= (mean - 0.135) / gradient["p"][chamber].sum()
        assert abs(mean - 0.135) < 1e-6 and 0.5 < strength < 1.5

        # Gas flows from a tank at 1.3 Pa to one at 1.1 Pa. At last it has the velocity of Bernoulli's law for gases.
        pipe = ds.solvers.Euler(ds.Grid((20,), spacing=0.05), dt=0.015, sides=(("reservoir", "outflow"),), method="euler")
        tanks = {"rho_low_x": 1.2, "p_low_x": 1.3, "p_high_x": 1.1}
        flow = ds.Simulation(pipe, precision="f64").run({"rho": np.ones(20), "p": np.ones(20)} | tanks, steps=2000).final
        c0, c = (np.sqrt(1.4 * p / rho) for p, rho in ((1.3, 1.2), (1.1, 1.2 * (1.1 / 1.3) ** (1 / 1.4))))
        assert np.allclose(flow["u"], np.sqrt(5 * (c0**2 - c**2)), atol=1e-6)
    """

    optional: Mapping[str, str] = {
        "p_{side}": 'a side of "reservoir", "outflow" or "freestream" in sides',
        "rho_{side}": 'a side of "inflow", "reservoir" or "freestream" in sides',
        "{velocity}_{side}": 'a side of "inflow" or "freestream" in sides',
    }

    def __init__(
        self,
        grid: Grid,
        dt: float,
        gamma: float = 1.4,
        sides: Sides = "wall",
        method: Literal["euler", "rk2", "rk3"] = "rk2",
        scheme: Literal["muscl", "weno5"] = "muscl",
        negligible: Positive = 1e-3,
        scale: tuple[float, float, float] = (1.0, 1.0, 1.0),
        fastest: Positive | None = None,
        gravity: tuple[float, ...] = (),
        relaxation: Positive | None = None,
        series: tuple[str, ...] = (),
    ) -> None:
        self.grid, self.dt = grid, check_common(grid, dt)
        if None in grid.uniform_spacing:
            raise ParameterError("grid of cells of several sizes, expected cells of one size; take a uniform grid")
        self.gamma = number("gamma", gamma, "a finite number above 1", lambda x: 1 < x < math.inf, "give 1.4 for air")
        self.sides = words_of(sides, "zyx"[-grid.ndim :], WORDS)
        self.method = METHODS[one_of("method", method, tuple(METHODS))]
        self.scheme = one_of("scheme", scheme, ("muscl", "weno5"))
        if scheme == "weno5" and method != "rk3":
            raise ParameterError(f'method = {shown(method)} with scheme = "weno5", expected "rk3", for which it is stable; take that')
        eps = positive("negligible", negligible, "give a share of scale that needs no limiter")
        if not isinstance(scale, (tuple, list, np.ndarray)) or len(scale) != 3:
            raise ParameterError(f"scale = {shown(scale)}, expected three numbers: a typical density, velocity and pressure; give those")
        sizes = [positive("scale", one, "give a typical density, velocity and pressure") for one in scale]
        self.eps = dict(zip(("rho", "v", "p"), (eps * size for size in sizes), strict=True))
        self.unstable = "Density or pressure became negative: lower dt, and give `fastest`, the largest |v| + c of the run"
        self.gravity = self._checked_gravity(gravity)
        weighted = tuple(axis for axis, g in enumerate(self.gravity) if g)
        self._around = GasSides(grid, self.sides, self.gamma, weighted, self._checked_relaxation(relaxation))
        self.velocities, rules = self._around.velocities, self._around.rules
        self.states = {"rho": Variable(rules(), unit="kg/m³")}
        self.states |= {name: Variable(rules(axis), unit="m/s") for axis, name in enumerate(self.velocities)}
        self.states |= {"p": Variable(rules(pressure=True), unit="Pa")}
        on_sides, self.profiles = self._around.inputs(), self._around.profiles()
        self.series = series_of(series, '("p_high_x",)', on_sides)
        self.parameters = {name: one for name, one in on_sides.items() if name not in self.series}
        self.fastest = None if fastest is None else positive("fastest", fastest, "give the largest |v| + c of the run", "m/s")

    def _checked_relaxation(self, relaxation: object) -> float:
        """The length of relaxation, or 0."""
        if relaxation is None:
            return 0.0
        length = positive("relaxation", relaxation, "give a length, such as a wavelength", "m")
        cells = [h for h, pair in zip(self.grid.spacing, self.sides, strict=True) if "outflow" in pair]  # across an outflow
        if not cells:
            raise ParameterError(
                f"relaxation = {length:.4g} m with sides = {shown(self.sides)}, expected a side that is an 'outflow', whose pressure it "
                "relaxes; leave it out, or take such a side"
            )
        if length < max(cells):
            raise ParameterError(
                f"relaxation = {length:.4g} m, expected a cell or more, {max(cells):.4g} m; give a longer one, or leave it out"
            )
        return length

    def _checked_gravity(self, gravity: object) -> tuple[float, ...]:
        """Gravity, a number for each axis, or none."""
        each = gravity if isinstance(gravity, (tuple, list)) else (gravity,)
        out = tuple(number("gravity", g, unit="m/s²") for g in each)
        if out and len(out) != self.grid.ndim:
            raise ParameterError(f"gravity = {shown(gravity)}, expected a number for each of {self.grid.ndim} axes; give those")
        if any(out) and self.scheme == "weno5":
            raise ParameterError(
                f'gravity = {shown(gravity)} with scheme = "weno5", expected "muscl", whose pressure carries the gas at rest; take that'
            )
        return out

    def step(self, rho: Symbol, p: Symbol, **others: Symbol) -> dict[str, Symbol]:
        v = {name: others[name] for name in self.velocities}
        state = {"rho": rho} | {name: stage(rho * one, boundary=one) for name, one in v.items()}
        energy = p / (self.gamma - 1) + 0.5 * rho * add([one * one for one in v.values()])
        state = self.method(lambda now: self.rate(now, others), {**state, "p": stage(energy, boundary=p)}, self.dt)
        velocities, p = self._primitive(state)
        return {"rho": state["rho"], **dict(zip(self.velocities, velocities, strict=True)), "p": p}

    def _primitive(self, now: Mapping[str, Symbol]) -> tuple[list[Symbol], Symbol]:
        """Velocities and pressure, from momenta and the energy, which have their names."""
        momenta = [now[name] for name in self.velocities]
        kinetic = 0.5 * add([m * m for m in momenta]) / now["rho"]
        return [m / now["rho"] for m in momenta], (self.gamma - 1) * (now["p"] - kinetic)

    def rate(self, now: Mapping[str, Symbol], others: Mapping[str, Symbol]) -> dict[str, Symbol]:
        """Changes per second of density, momenta and energy, which have the names of density, velocities and pressure.

        With gravity, the work on a cell is that on the mass through its faces, so that the energy with that of the height is kept.
        """
        velocities, p = self._primitive(now)
        v = [stage(one, boundary=now[name]) for one, name in zip(velocities, self.velocities, strict=True)]
        p = stage(p, boundary=now["p"])
        change: dict[str, list[Symbol]] = {name: [] for name in self.states}
        for axis, dx in enumerate(self.grid.spacing):
            seen = self._around.seen(*self._faces(now["rho"], v, p, axis, others), axis, others)
            through = crossing(*seen, axis, self.gamma)
            for name, flux in zip(("rho", *self.velocities, "p"), through, strict=True):
                change[name].append(-(flux - flux.shifted(axis, -1)) / dx)
            if axis in self._around.weighted:
                change[self.velocities[axis]].append(self.gravity[axis] * now["rho"])
                change["p"].append(0.5 * self.gravity[axis] * (through[0] + through[0].shifted(axis, -1)))
        return {name: add(parts) for name, parts in change.items()}

    def _faces(
        self, rho: Symbol, v: Sequence[Symbol], p: Symbol, axis: int, others: Mapping[str, Symbol]
    ) -> tuple[Faces, list[Faces], Faces]:
        """Density, velocities and pressure on both sides of the faces across an axis."""
        weight = None
        if axis in self._around.weighted:
            weight = stage(self.grid.spacing[axis] * self.gravity[axis] * rho, self._around.weight(axis))
        if self.method is euler:
            half = None if weight is None else stage(0.5 * weight, boundary=self._around.slopes(axis, pressure=True))
            return Faces.of(rho, None, axis), [Faces.of(one, None, axis) for one in v], Faces.of(p, half, axis)

        def tilted(f: Symbol, name: str, of: int | None = None) -> Faces:
            limiter, heavy = van_albada(self.eps[name]), weight if name == "p" else None
            half = half_steps(f, axis, limiter) if heavy is None else half_steps_about(f, heavy, axis, limiter)
            half = self._around.kept(half, 0.0 if heavy is None else 0.5 * heavy, axis, others)
            half = half if name == "v" else maximum(minimum(half, SHARE * f), -SHARE * f)
            return Faces.of(f, stage(half, boundary=self._around.slopes(axis, of, name == "p")), axis)

        def curved(f: Symbol, name: str, of: int | None = None) -> Faces:
            below, above = (one.across(axis) for one in weno5(f, axis, self.eps[name] ** 2, "z"))  # kept at the centre below
            ends = [self._around.kept(end, f, axis, others) for end in (above.shifted(axis, -1), below)]  # of each cell
            low, high = ends if name == "v" else (maximum(end, (1 - SHARE) * f) for end in ends)
            half = stage(0.5 * (high - low), boundary=self._around.slopes(axis, of))
            return Faces.of(stage(0.5 * (low + high), boundary=f), half, axis)

        at = curved if self.scheme == "weno5" else tilted
        return at(rho, "rho"), [at(one, "v", k) for k, one in enumerate(v)], at(p, "p")

    def check(self, parameters: Mapping[str, Array]) -> None:
        self._around.check(parameters)

    def check_series(self, parameters: Mapping[str, Array], series: Mapping[str, Array]) -> None:
        self._around.check(series)
        if not series:
            return
        speeds = self._around.speeds(parameters, self._start_of_series(parameters, series), series)
        if any(speeds):
            check_step(self.dt, self._limit(speeds), f"waves of {max(speeds):.4g} m/s at sides, {self._cells()}")

    def _start_of_series(self, parameters: Mapping[str, Array], series: Mapping[str, Array]) -> float:
        """The largest speed of sound in the initial gas, m/s, which inflows of the first step are compared with; 0 if it is no gas."""
        start = {name: parameters[name] for name in ("rho", "p") if name in parameters}
        if len(start) < 2 or not all((value > 0).all() for value in start.values()):
            return 0.0  # as `check_start` says
        self._around.check_states(parameters, start, "start", series)
        return float(np.sqrt(self.gamma * start["p"] / start["rho"]).max())

    def check_start(self, parameters: Mapping[str, Array], states: Mapping[str, Array]) -> None:
        for name, unit in (("rho", "kg/m³"), ("p", "Pa")):
            if not states[name].any():
                raise ParameterError(f"input {name} is missing or 0 everywhere, expected a value above 0 in each cell; give it, in {unit}")
            check_sign(f"initial {name}", states[name], unit, positive=True)
        self._around.check_states(parameters, states, "start")
        speeds = [max(speed, self.fastest or 0.0) for speed in self._speeds(states, parameters)]
        check_step(self.dt, self._limit(speeds), f"waves of {max(speeds):.4g} m/s, {self._cells()}")

    def check_end(self, parameters: Mapping[str, Array], final: Mapping[str, Array]) -> None:
        for name, unit in (("rho", "kg/m³"), ("p", "Pa")):
            least = float(final[name].min())
            if not least > 0:
                raise DivergenceError(
                    f"{name} is {least:.4g} {unit} somewhere at the end of the run, expected above 0: dt = {self.dt:.4g} s was too long; "
                    "lower it, and give `fastest`, the largest |v| + c of the run, for which it is then checked"
                )
        self._around.check_states(parameters, final, "end")
        limit = self._limit(speeds := self._speeds(final, parameters))
        if not self.dt <= UNSTABLE * limit:
            raise StabilityError(
                f"|v| + c is {max(speeds):.4g} m/s at the end of the run, for which dt = {self.dt:.4g} s is not stable, expected at most "
                f"{limit:.4g} s; lower dt, and give `fastest`, the largest of the run, for which it is then checked",
                limit,
            )

    def _speeds(self, states: Mapping[str, Array], parameters: Mapping[str, Array]) -> list[float]:
        """The largest |v| + c along each axis, inside and on sides."""
        sound = np.sqrt(self.gamma * states["p"] / states["rho"])
        inside = [float((np.abs(states[name]) + sound).max()) for name in self.velocities]
        return [max(pair) for pair in zip(inside, self._around.speeds(parameters, float(sound.max())), strict=True)]

    def _limit(self, speeds: Sequence[float]) -> float:
        return COURANT / sum(speed / h for speed, h in zip(speeds, self.grid.spacing, strict=True))

    def _cells(self) -> str:
        return f"dx = {min(self.grid.spacing):.4g} m, {self.grid.ndim} axes"


def half_steps_about(p: Symbol, weight: Symbol, axis: int, limiter: Limiter) -> Symbol:
    """Change of the pressure from the middle of a cell to its upper face, of which the part that carries the gas is not limited.

    Gas is at rest where the pressure rises from cell to cell by the mean of their weights: both cells have the same pressure at the face.

    Args:
        p: the pressure.
        weight: its rise over a cell of gas at rest, ρ g dx.
        axis: along which there is gravity.
        limiter: of the other part.
    """
    jump = p - p.shifted(axis, -1) - 0.5 * (weight + weight.shifted(axis, -1))
    return 0.5 * (limiter(jump, jump.shifted(axis, 1)) + weight)


def crossing(rho: Faces, v: Sequence[Faces], p: Faces, axis: int, gamma: float) -> list[Symbol]:
    """The flux of mass, of each momentum and of energy through the faces across an axis, by the Riemann solver HLLC.

    The contact wave moves at the speed s. The state beside the face is that of the side which s comes from, between the contact and the
    outer wave of this side.
    """
    u, a, b = v[axis], sqrt(rho.below), sqrt(rho.above)
    c_l, c_r = sqrt(gamma * p.below / rho.below), sqrt(gamma * p.above / rho.above)
    share = a / (a + b)  # Roe's mean
    mean, jump = share * u.below + (1 - share) * u.above, u.above - u.below
    fast = sqrt(share * c_l * c_l + (1 - share) * c_r * c_r + 0.5 * share * (1 - share) * jump * jump)
    low, high = minimum(u.below - c_l, mean - fast), maximum(u.above + c_r, mean + fast)
    swept_l, swept_r = rho.below * (low - u.below), rho.above * (high - u.above)
    s = (p.above - p.below + swept_l * u.below - swept_r * u.above) / (swept_l - swept_r)

    def upwind(one: Symbol, other: Symbol) -> Symbol:
        return where(s > 0, one, other)

    density, speed, pressure = upwind(rho.below, rho.above), upwind(u.below, u.above), upwind(p.below, p.above)
    swept = upwind(swept_l, swept_r)
    outer = upwind(minimum(low, 0.0), maximum(high, 0.0))  # 0 where all waves go to the other side
    gap = upwind(low, high) - s
    mass = density * speed + outer * density * (s - speed) / gap
    push = pressure + swept * (s - speed)  # between the waves
    momenta = [mass * upwind(one.below, one.above) for one in v]
    momenta[axis] = density * speed * speed + pressure + outer * (swept * s / gap - density * speed)
    kinetic = add([upwind(one.below, one.above) * upwind(one.below, one.above) for one in v])
    energy = pressure / (gamma - 1) + 0.5 * density * kinetic
    between = (energy * (upwind(low, high) - speed) - pressure * speed + push * s) / gap
    return [mass, *momenta, speed * (energy + pressure) + outer * (between - energy)]
