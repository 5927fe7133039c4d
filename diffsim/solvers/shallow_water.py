"""Nonlinear shallow water: run-up, floods, tides, storm surges, and tsunamis up to the coast."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from diffsim.base.arguments import flag, number, one_of, positive, whole
from diffsim.base.messages import shown
from diffsim.boundary import Dirichlet, Extrapolate, OddImage
from diffsim.errors import ParameterError, StabilityError
from diffsim.expr.functions import floor, maximum, minimum, sqrt, where
from diffsim.expr.limiters import van_albada
from diffsim.expr.operators import add
from diffsim.expr.reductions import max as max_of
from diffsim.expr.symbol import Symbol
from diffsim.integrators import euler, ssp_rk2, ssp_rk3
from diffsim.layers import Sponge
from diffsim.layers.cells import Cells
from diffsim.mesh.grid import Grid
from diffsim.solvers.parts.sea import EARTH_RADIUS, GRAVITY, ROTATION, UPLIFT, Coordinates, Metric, check_uplift, risen
from diffsim.solvers.parts.shallow import (
    Crossing,
    Faces,
    crossing,
    half_steps,
    rises,
    slowed,
    velocity,
)
from diffsim.solvers.parts.stability import check_common, check_sign, check_step
from diffsim.solvers.parts.staggered import words_of
from diffsim.stepping.declare.equation import Equation, Profile, Variable
from diffsim.stepping.stages.repeat import MOST_LAPS, repeat
from diffsim.stepping.trace.stages import stage
from diffsim.typing import Array, Positive

Word: TypeAlias = Literal["periodic", "wall", "open", "tide"]
Sides: TypeAlias = Word | tuple[Word | tuple[Word, Word], ...]
"""The sides of a sea: one word, or one an axis, where a pair is that of the low and the high side."""

WORDS = ("periodic", "wall", "open", "tide")
METHODS = {"euler": euler, "rk2": ssp_rk2, "rk3": ssp_rk3}
COURANT = 0.5
"""The largest dt Σ (|v| + sqrt(g h)) / dx for which no depth becomes negative."""
AIM = 0.4
"""That number of the parts of a step, at its start."""
ROUNDED = 0.99
"""`fastest` may be that part of the speed of water at rest, as a user rounds it."""
UNSTABLE = 2.0
"""Times that limit, waves grow."""
ROUNDINGS = 50
"""Least roundings of the level in a supply that is right to 1 %: an addition errs by half of a rounding."""
BLOCK = 2**20
"""Values of a supply that are checked at a time."""


class ShallowWater(Equation, kind="shallow_water"):
    """The nonlinear shallow-water equations in one or two dimensions or on the sphere, over land that floods and falls dry.

        h_t + ∇·q = 0,    q_t + ∇·(q qᵀ / h) + g h ∇η + f k × q = -D |q| q / h²,    h = η - z

    Finite volumes: depth and momentum are means of a cell. At a face, depths are cut to what stands above the higher bed (hydrostatic
    reconstruction), and the flux is that of Harten, Lax and van Leer, with the contact wave for the momentum across (HLLC). Levels and
    velocities have slopes by the smooth limiter of van Albada; where one cell lies above the water of the other, the level has none between
    them. So a lake at rest stays at rest over any bed, second order included, and depths do not become negative. Heun's method, of second
    order in time, or three stages, of third. Drag acts for half a step before and after, exact for the depth, so thin water stops and
    nothing grows. Second order where the flow is smooth, first order at bores and shores.

    Inputs: the bed `z` (m, upwards, at centres), the initial elevation of the surface `eta` (m), and momenta `qx` and `qy` (m²/s), 0 if
    left out. Axes are (x), (y, x), or on the sphere latitude and longitude in degrees, x to the east. Where `eta` is below `z` it is dry
    there, so `eta = 0` is a sea with its land. In dry cells the state `eta` is `z`, from the start. With `drag` the roughness `manning`
    (s/m^(1/3)) or the coefficient `drag` (dimensionless). A side "tide" has a series `tide`, the elevation there (m, for each step, a value
    for each cell of the side, or by `tide="side"` one for all of it; of several such sides `tide_low_x` and so on). With `uplift` the bed
    rises by the input `uplift` (m) from the time `start` (s) on for the time `rise` (s), in each cell, with its water.

    With `weather` the inputs are also the stress of the wind on the water, `stress_x` and `stress_y` (Pa), and the air pressure less a
    constant one, `pressure` (Pa): q_t has the further terms τ / ρ - h ∇p / ρ. The pressure acts as a bed and a level that are higher by
    p / (ρ g), so a sea that balances it, η = -p / (ρ g), stays at rest. A tide is the elevation without it: the sea beyond the side stands
    p / (ρ g) lower. Wind does not act on water thinner than `thin`.

    With `supply` there is the input `supply` (m/s), by which the level of each cell rises: rain, springs, and less than 0 where water seeps
    away or is pumped out, as long as there is some. A river of Q m³/s that enters through n cells is Q / (n dx dy) in each. What is
    supplied has no momentum, and water that leaves takes its own along. What is dry has none, from the start. So a supply of 0 into water
    that moves is a kink: its gradient is that of water that is added. A search for water that leaves starts below 0.

    Args:
        grid: one or two axes of uniform cells, spacing in metres.
        dt: time step, s, of series and traces. Depths stay positive while dt (|v| + sqrt(g h)) Σ 1/dx <= 1/2; with `substeps` that is a
            bound on the parts of a step, and dt is as long as you like.
        sides: around the water, for all axes, or an entry each, where a pair is that of the low and the high side: "periodic"; "wall";
            "open", where waves and water leave and nothing comes back; "tide", where the elevation is the input.
        method: "rk2" or "rk3", with slopes, or "euler": first order in space and time.
        drag: at the bed: "none"; "manning", D = g n² / h^(1/3); "quadratic", D is the coefficient.
        coriolis (1/s): f, or a pair: f at y = 0, and its change per metre of y, which is the coordinate along axis 0; or on the sphere
            "earth", 2 · 7.292e-5 · sin(latitude).
        uplift: whether the bed moves.
        weather: "none"; "steady", wind and air pressure that are constant in time, shape of the grid; "series", with a field for each step,
            (steps, *shape).
        density (kg/m³): of the water that the wind drives, 1000 in rivers and lakes.
        sponge (cells): at the sides, one number, or an entry an axis, where a pair is for the low and the high side; 0 for none. There
            the level decays to 0, with `weather` to -p / (ρ g), and currents to rest, those of tides and rivers too. Good: 15 to 30, half a
            wavelength or more.
        sponge_depth (m): depth whose wave speed the sponge is tuned for: that at these sides.
        thin (m): water below this depth hardly moves: its velocity is q h³ / (h⁴ + thin⁴). 1e-3 for rivers and beaches, 1e-2 for tsunamis.
        negligible: differences between neighbours far below it are not limited, of elevation in m, of velocity in m/s. It keeps gradients
            smooth, and overshoots at bores are of its size. Waves without bores are better with more.
        fastest (m/s): the largest |v| + sqrt(g h) of the run, which the time step is checked for, at least sqrt(g h) of the water at its
            start. Left out, it is sqrt(g h) of water at rest at the level 0. The time step is constant, and what it is at the end of a run
            is checked, too.
        coordinates: "plane", in metres, or "sphere" for latitude and longitude in degrees, in this order, on a sphere of radius 6371 km.
        substeps: the most equal parts into which a step is cut. Each step has as many as the flow needs at its start, by dt (|v| + sqrt(g
            h) + sqrt(g |Δη|)) Σ 1/dx <= 0.4 with the rise Δη of the level to the next cell: water that a wall held back runs off at 2
            sqrt(g h). What is supplied within the step counts. So `fastest` is not needed, and traces, series, tides and the end of a run
            are at fixed times. Uplift, weather and sponges act once a step. A run that needs more parts, or whose flow becomes 2.5 times as
            fast within a step, ends in an error that has the step and the parts that it needed. Memory grows by `substeps` times the
            states, and the number of parts has no derivative: where it changes, a loss jumps by the difference, which is of the order of
            the scheme's error. Domains refuse it.
        supply: "none"; "steady", water that is constant in time, shape of the grid; "series", with a field for each step, (steps, *shape).
            In f32 what a part of a step adds must be 50 roundings of the level at the start or more: rain of 20 mm/h in parts of 0.1 s
            is lost 20 m above the level 0, and refused from 0.1 m on. Rounding of what flows on to the next cells, and of levels that rise
            in the run, is not checked. Take f64, or measure heights from nearby.
        tide: "cell", a series has a value for each cell of the side; "side", one number a step for all of it, as of a tide gauge.

    Raises:
        ParameterError: an argument out of range, or a grid of three axes or of cells of several sizes; by a run, a drag below 0.
        StabilityError: by a run, a time step beyond the stable one for `fastest`, or of twice the stable one for the flow at its end; one
            that needs more than `substeps` parts at the start.
        DivergenceError: by a run that is no longer finite; the message has the speed for which the time step is stable.

    Along directions in `z` that are rough from cell to cell, a level or plane bed is a kink: the gradient is the mean of the two slopes.

    Good values: dt (|v| + sqrt(g h)) Σ 1/dx of 0.4; 20 cells across a beach; `negligible` a thousandth of the height of bores, or a tenth
        of waves that do not break; where water runs down slopes, a bed that rises by less than two depths a cell ("euler": half a depth).

    On the sphere fluxes through a face count by its length, a level that is the same everywhere pushes nothing, and the circles of latitude
    turn currents by u tan(latitude) / R, discretely as momentum along a uniform flow needs it.

    Reference: Audusse, Bouchut, Bristeau, Klein and Perthame (2004), SIAM J. Sci. Comput. 25, 2050-2065,
        doi:10.1137/S1064827503431090; Harten, Lax and van Leer (1983), SIAM Rev. 25, 35-61, doi:10.1137/1025002; Toro (2001),
        Shock-Capturing Methods for Free-Surface Shallow Flows, Wiley, section 10.4 (HLLC); Kurganov and Petrova (2007), Commun. Math. Sci.
        5, 133-160, doi:10.4310/CMS.2007.v5.n1.a6, for velocities of thin water, here by another function. Levels without slopes at banks,
        and pressure as differences of levels, are of this solver.

    Example:
        import numpy as np

        import diffsim as ds

        # How rough is the bed below a dam that broke? Newton's method for the roughness by which a gauge is flooded this deep.
        grid = ds.Grid((100,), spacing=10.0)
        valley = ds.solvers.ShallowWater(grid, dt=0.2, sides=(("wall", "open"),), drag="manning", fastest=20.0)
        flood = ds.Simulation(valley, receivers={"eta": [[650.0]]}, wrt=["manning"], precision="f64")
        lake, n = np.where(grid.coordinates(0) < 500.0, 5.0, 0.0), 0.05
        for _ in range(5):
            inputs = {"z": np.zeros(100), "eta": lake, "manning": np.full(100, n)}
            depth, gradient = flood.value_and_grad(lambda found: found.traces["eta"][-1, 0], inputs, steps=200)
            n -= (depth - 1.2) / gradient["manning"].sum()
        assert abs(depth - 1.2) < 1e-6 and np.isclose(n, 0.0602, atol=1e-4)
    """

    in_cells = ("sponge",)
    positive: Mapping[str, str] = dict.fromkeys(("z", "eta", "uplift", "tide"), "up")
    optional: Mapping[str, str] = {
        "manning": 'drag = "manning"',
        "drag": 'drag = "quadratic"',
        **dict.fromkeys(UPLIFT, "uplift = True"),
        "tide": 'one side of "tide" in sides',
        "tide_{side}": 'several sides of "tide" in sides',
        **dict.fromkeys(("stress_{axis}", "pressure"), 'weather = "steady" or "series"'),
        "supply": 'supply = "steady" or "series"',
    }

    def __init__(
        self,
        grid: Grid,
        dt: float,
        sides: Sides = "wall",
        method: Literal["euler", "rk2", "rk3"] = "rk2",
        drag: Literal["none", "manning", "quadratic"] = "none",
        coriolis: float | tuple[float, float] | Literal["earth"] = 0.0,
        uplift: bool = False,
        weather: Literal["none", "steady", "series"] = "none",
        density: Positive = 1025.0,
        sponge: Cells = 0,
        sponge_depth: Positive = 1000.0,
        thin: Positive = 1e-3,
        negligible: Positive = 1e-3,
        fastest: Positive | None = None,
        coordinates: Coordinates = "plane",
        substeps: int = 1,
        supply: Literal["none", "steady", "series"] = "none",
        tide: Literal["cell", "side"] = "cell",
    ) -> None:
        self.grid, self.dt = grid, check_common(grid, dt)
        if grid.ndim > 2 or None in grid.uniform_spacing:
            raise ParameterError(f"grid with {grid.ndim} axes, expected 1 or 2 of uniform cells; take such a grid")
        self.axes = "yx"[-grid.ndim :]
        self.sides, self.metric = words_of(sides, self.axes, WORDS), Metric(grid, coordinates)
        if self.metric.sphere and self.sides[0][0] == "periodic":
            raise ParameterError("sides: 'periodic' from north to south on the sphere, expected it along the longitude alone; take 'wall'")
        self.method = METHODS[one_of("method", method, tuple(METHODS))]
        self.second = method != "euler"
        self.drag = one_of("drag", drag, ("none", "manning", "quadratic"))
        self.moving = flag("uplift", uplift)
        self.weather = one_of("weather", weather, ("none", "steady", "series"))
        self.supply = one_of("supply", supply, ("none", "steady", "series"))
        one = one_of("tide", tide, ("cell", "side")) == "side"
        self.density = positive("density", density, "give that of the water", "kg/m³")
        self.thin = positive("thin", thin, "give a depth below which water hardly moves", "m")
        self.limiter = van_albada(positive("negligible", negligible, "give a difference between neighbours that needs no limiter", "m"))
        self.substeps = whole("substeps", substeps, 1, MOST_LAPS, "give the most parts into which a step is cut, 1 for none")
        self.fastest = None if fastest is None else positive("fastest", fastest, "give the largest |v| + sqrt(g h)", "m/s")
        depth = positive("sponge_depth", sponge_depth, "give a depth typical of the sides", "m")
        layer = Sponge(grid, self.dt, sponge, math.sqrt(GRAVITY * depth), self.metric.smallest()).profiles
        self.calm = {name.replace("damp", "calm"): Profile(one.axis, np.exp(-one.values)) for name, one in layer.items()}
        self.profiles = self._turning(coriolis) | self._widths() | self.calm
        if "f" in self.profiles and not self.second:
            raise ParameterError("coriolis with method='euler', expected 'rk2' or 'rk3': inertial circles grow by it; take one of these")
        steepest = sum(1 / h for h in self.metric.smallest())
        speed = (COURANT if self.substeps == 1 else self.substeps * AIM) / (self.dt * steepest)
        self.unstable = (
            f"dt = {self.dt:.4g} s is stable where |v| + sqrt(g h) is at most {speed:.4g} m/s: find out how fast "
            "the flow becomes, give that as `fastest`, and lower dt until it passes the check; or let `substeps` cut the steps"
            if self.substeps == 1
            else f"dt = {self.dt:.4g} s is cut into at most {self.substeps} parts, a lap each, which is enough where |v| + sqrt(g h) is at "
            f"most {speed:.4g} m/s: if a step needed more, give more `substeps`; if not, the flow became more than "
            f"{UNSTABLE * COURANT / AIM:.3g} times as fast within a step: lower dt"
        )
        tides = [(axis, high) for axis, pair in enumerate(self.sides) for high in (0, 1) if pair[high] == "tide"]
        self.tides = {side: "tide" if len(tides) == 1 else f"tide_{self._side(*side)}" for side in tides}
        self.momenta, self.stresses = (tuple(f"{name}{axis}" for axis in self.axes) for name in ("q", "stress_"))
        self.changing = self.moving or weather != "none"  # the bed, or the pressure upon it
        level = self._rules()
        self.states = {"eta": Variable(self._rules(tides=True), unit="m")}
        self.states |= {name: Variable(self._rules(axis), unit="m²/s") for axis, name in enumerate(self.momenta)}
        self.initials = dict(self.states)
        self.parameters = {"z": Variable(level, unit="m")}
        if self.drag != "none":
            name, unit = ("manning", "s/m^(1/3)") if drag == "manning" else ("drag", "")
            self.parameters = {**self.parameters, name: Variable(level, unit=unit)}
        if self.moving:
            self.parameters = {**self.parameters, **{name: Variable(level, unit=unit) for name, unit in UPLIFT.items()}}
        across = [tuple(other for other in range(grid.ndim) if other != axis) for axis in range(grid.ndim)]
        self.series = {name: Variable("mirror", unit="m", axes=() if one else across[axis]) for (axis, _), name in self.tides.items()}
        self.positive = {**ShallowWater.positive, **dict.fromkeys(self.tides.values(), "up")}
        if weather != "none":
            air = {name: Variable(level, unit="Pa", axes=tuple(range(grid.ndim))) for name in (*self.stresses, "pressure")}
            if weather == "steady":
                self.parameters = {**self.parameters, **air}
            else:
                self.series |= air
        if supply != "none":
            water = {"supply": Variable(level, unit="m/s", axes=tuple(range(grid.ndim)))}
            if supply == "steady":
                self.parameters = {**self.parameters, **water}
            else:
                self.series |= water
        self.coefficient_boundaries = {name: one.boundary for name, one in self.parameters.items()}
        if not self.changing and self.second:
            self.coefficient_boundaries |= {f"slope{axis}": self._slopes(axis) for axis in range(grid.ndim)}

    def _turning(self, coriolis: float | tuple[float, float] | Literal["earth"]) -> dict[str, Profile]:
        """The profile of f along y; none without rotation."""
        y = self.grid.coordinates(0)
        if coriolis == "earth":
            if not self.metric.sphere:
                raise ParameterError("coriolis = 'earth' on a plane, expected f, or f and its change per metre; give those in 1/s")
            return {"f": Profile(0, 2 * ROTATION * np.sin(np.radians(y)))}
        if isinstance(coriolis, str):
            raise ParameterError(
                f"coriolis = {shown(coriolis)}, expected 'earth' (on the sphere), or f in 1/s, or a pair; give one of these"
            )
        pair = coriolis if isinstance(coriolis, (tuple, list)) else (coriolis, 0.0)
        if len(pair) != 2:
            raise ParameterError(f"coriolis = {shown(coriolis)}, expected a number, or f and its change per metre; give those")
        f, beta = (number("coriolis", one, "a finite number", math.isfinite, "give f in 1/s") for one in pair)
        if not f and not beta:
            return {}
        if self.grid.ndim == 1:
            raise ParameterError(f"coriolis = {shown(coriolis)} with one axis, expected 0: it turns currents across; take two axes")
        return {"f": Profile(0, f + beta * self.metric.unit * y)}

    def _widths(self) -> dict[str, Profile]:
        """On the sphere: lengths of the faces to the south and north over that of the cell, 1 / cos(latitude), and the curvature of circles
        of latitude, 1/m."""
        if not self.metric.sphere:
            return {}
        north = self.grid.coordinates(0, 1)
        edges = np.radians(np.append(north[0] - self.grid.spacing[0], north))
        length = np.diff(np.sin(edges)) / np.diff(edges)  # the mean of the cosine
        cosine = np.cos(edges).clip(0.0)
        values = {"south": cosine[:-1] / length, "north": cosine[1:] / length, "narrow": 1 / length}
        values["curved"] = (values["south"] - values["north"]) / (np.diff(edges) * EARTH_RADIUS)
        return {name: Profile(0, one) for name, one in values.items()}

    def _side(self, axis: int, high: int) -> str:
        return f"{'high' if high else 'low'}_{self.axes[axis]}"

    def _rules(self, of: int | None = None, tides: bool = False) -> tuple[Any, ...]:
        """The rules of a level, or of the velocity along axis `of`."""

        def rule(word: str, axis: int, high: int) -> Any:
            if word == "tide" and tides:
                return Dirichlet(self.tides[axis, high])
            if word == "wall" and of == axis:
                return OddImage()
            return Extrapolate(0) if word == "open" else "mirror"

        return tuple(
            "periodic" if pair[0] == "periodic" else tuple(rule(word, axis, high) for high, word in enumerate(pair))
            for axis, pair in enumerate(self.sides)
        )

    def _slopes(self, axis: int, of: int | None = None, level: bool = False) -> tuple[Any, ...]:
        """The rules of slopes along an axis, of the bed, of the level of the water, or of the velocity along axis `of`.

        Those of a field that is even at a side are odd there. A level that is given at a side is odd about it.
        """

        def rule(word: str) -> Any:
            if word == "open":
                return "zero"
            return "mirror" if (word == "wall" and of == axis) or (word == "tide" and level) else OddImage()

        rules, pair = list(self._rules(of)), self.sides[axis]
        rules[axis] = "periodic" if pair[0] == "periodic" else tuple(map(rule, pair))
        return tuple(rules)

    def coefficients(self, z: Symbol, **others: Symbol) -> dict[str, Symbol]:
        handed = {name: one for name, one in others.items() if name in self.parameters}
        return {"z": z, **handed, **({} if self.changing else self._slopes_of(z))}

    def _slopes_of(self, z: Symbol) -> dict[str, Symbol]:
        """Changes of the bed over half a cell, along each axis."""
        return {f"slope{axis}": half_steps(z, axis, self.limiter) for axis in range(self.grid.ndim) if self.second}

    def initial(self, eta: Symbol, z: Symbol, **others: Symbol) -> dict[str, Symbol]:
        bed = z + others["uplift"] * risen(0.0, others) if self.moving else z
        return {"eta": maximum(eta, bed), **{name: where(eta > bed, others[name], 0.0) for name in self.momenta}}

    def step(self, eta: Symbol, z: Symbol, t: Symbol, **others: Symbol) -> dict[str, Symbol]:
        momenta = {name: others[name] for name in self.momenta}
        level = maximum(eta, z)
        lift: Symbol | float = 0.0  # of the level after the step
        if self.moving:  # the bed rests within a step, where it is in the middle of it
            before, middle, after = (z + others["uplift"] * risen(t + share * self.dt, others) for share in (0.0, 0.5, 1.0))
            level, z, lift = maximum(eta, before) + (middle - before), middle, after - middle
        if self.weather != "none":  # of the air, as a height of water
            head = others["pressure"] / (self.density * GRAVITY)
            level, z, lift = level + head, z + head, lift - head
        if self.changing:
            z = stage(z, boundary=self._rules())
            others = {**others, **{name: stage(half, boundary=self._slopes(int(name[-1]))) for name, half in self._slopes_of(z).items()}}
        if self.calm:
            keep = math.prod(others[name] for name in self.calm)
            level, momenta = maximum(keep * level, z), {name: keep * q for name, q in momenta.items()}
        if self.substeps == 1:
            level, momenta = self._supplied(level, momenta, z, others, self.dt)
            state = self._advanced({"eta": stage(level, boundary=eta), **momenta}, z, others, self.dt)
        else:
            state = self._in_parts(eta, stage(level, boundary=eta), momenta, z, others)
        return {**state, "eta": state["eta"] + lift}

    def _in_parts(
        self, eta: Symbol, level: Symbol, momenta: dict[str, Symbol], z: Symbol, others: Mapping[str, Symbol]
    ) -> dict[str, Symbol]:
        """Level and momenta after a step that is cut into as many parts as the flow needs; NaN where these were too long. `eta` is the
        level before the step, whose rules hold."""
        if self.calm:
            momenta = {name: stage(q, boundary=others[name]) for name, q in momenta.items()}
        soon = level if self.supply == "none" else stage(self._supplied(level, {}, z, others, self.dt)[0], boundary=eta)
        laps = max_of(1 + floor(self.dt / AIM * self._speed(maximum(level, soon), momenta, z, others, ahead=True)))
        part, names = self.dt / maximum(laps, 1.0), tuple(self.states)  # a divisor that is never 0: cotangents need no guards

        def lap(*fields: Symbol) -> tuple[Symbol, ...]:
            state = dict(zip(names, fields, strict=True))
            if self.supply != "none":
                level, momenta = self._supplied(state["eta"], {name: state[name] for name in self.momenta}, z, others, part)
                state = {"eta": stage(level, boundary=eta), **momenta}
            state = self._advanced(state, z, others, part)
            return tuple(state[name] for name in names)

        state = dict(zip(names, repeat(self.substeps, lap, level, *momenta.values(), laps=laps), strict=True))
        speed = self._speed(state["eta"], {name: state[name] for name in self.momenta}, z, others)
        fast = max_of(where(part * speed > UNSTABLE * COURANT, 1.0, 0.0))
        wrong = where(laps > self.substeps, -1.0, where(fast > 0, -1.0, 0.0))
        invalid = sqrt(wrong)  # NaN, in momenta too: the next step takes the larger of the level and the bed
        return {name: field + invalid for name, field in state.items()}

    def _supplied(
        self, level: Symbol, momenta: dict[str, Symbol], z: Symbol, others: Mapping[str, Symbol], dt: float | Symbol
    ) -> tuple[Symbol, dict[str, Symbol]]:
        """Level and momenta after the supply of a time. It takes no more water than there is, and what stays keeps its velocity."""
        if self.supply == "none":
            return level, momenta
        after, h = maximum(level + dt * others["supply"], z), level - z
        kept = where(after < level, (after - z) / h, 1.0)
        return after, {name: kept * q for name, q in momenta.items()}

    def _advanced(self, state: dict[str, Symbol], z: Symbol, others: Mapping[str, Symbol], dt: float | Symbol) -> dict[str, Symbol]:
        """Level and momenta after a time: half of the drag, the flow, and the other half."""
        momenta = {name: state[name] for name in self.momenta}
        if self.drag != "none" or self.calm or self.supply != "none":
            state |= {name: stage(q, boundary=others[name]) for name, q in self._slowed(state["eta"], momenta, z, others, dt).items()}
        before, state = state, self.method(lambda now: self.rate(now, z, others), state, dt)
        if self.drag != "none":  # as a stage, so that cotangents of drag and of fluxes are computed in loops of their own
            state = {name: stage(value, boundary=before[name]) for name, value in state.items()}
        return {"eta": state["eta"], **self._slowed(state["eta"], {name: state[name] for name in self.momenta}, z, others, dt)}

    def _slowed(
        self, eta: Symbol, momenta: dict[str, Symbol], z: Symbol, others: Mapping[str, Symbol], dt: float | Symbol
    ) -> dict[str, Symbol]:
        """Momenta after half of the drag of a time."""
        if self.drag == "none":
            return momenta
        h = maximum(eta - z, 0.0)
        q = slowed(list(momenta.values()), h, self.thin, 0.5 * dt, others.get("manning"), others.get("drag"))
        return dict(zip(momenta, q, strict=True))

    def _speed(self, eta: Symbol, momenta: Mapping[str, Symbol], z: Symbol, others: Mapping[str, Symbol], ahead: bool = False) -> Symbol:
        """Σ (|v| + sqrt(g h)) / dx in each cell, 1/s. `ahead`: with the speed that the rise of the level to a neighbour adds at most.

        Water that a wall of height h held back runs off at 2 sqrt(g h), twice the speed of its waves.
        """
        h = maximum(eta - z, 0.0)
        flow, total = velocity(h, self.thin), []
        for axis, name in enumerate(self.momenta):
            speed = abs(flow(momenta[name])) + sqrt(GRAVITY * h)
            if ahead:
                low, high = rises(eta, z, axis)
                speed = speed + sqrt(GRAVITY * maximum(abs(low), abs(high)))
            total.append(self._across(speed, axis, others))
        return add(total)

    def rate(self, now: Mapping[str, Symbol], z: Symbol, others: Mapping[str, Symbol]) -> dict[str, Symbol]:
        """Changes per second of the level and of momenta, without drag."""
        h = maximum(now["eta"] - z, 0.0)
        flow = velocity(h, self.thin)
        v = [stage(flow(now[name]), boundary=now[name]) for name in self.momenta]
        change: dict[str, list[Symbol]] = {name: [] for name in self.states}
        for axis, name in enumerate(self.momenta):
            crossed, tilt = self._crossing(now["eta"], z, v, axis, others)
            change["eta"].append(self._gained(crossed.water, axis, others))
            push = crossed.push_below + crossed.push_above.shifted(axis, -1)
            push = push if tilt is None else push + 2 * GRAVITY * h * tilt
            change[name] += [self._gained(crossed.along, axis, others), -self._across(push, axis, others)]
            if crossed.across is not None:
                change[self.momenta[1 - axis]].append(self._gained(crossed.across, axis, others))
        if self.weather != "none":
            for name, stress in zip(self.momenta, self.stresses, strict=True):
                change[name].append(flow(h) * others[stress] / self.density)  # the flow of h is 1 but in thin water
        turning = [others["f"]] if "f" in self.profiles else []
        if self.metric.sphere:
            turning.append(others["curved"] * v[1])
        if turning:
            change["qx"].append(add(turning) * now["qy"])
            change["qy"].append(-add(turning) * now["qx"])
        return {name: add(parts) for name, parts in change.items()}

    def _across(self, value: Symbol, axis: int, others: Mapping[str, Symbol]) -> Symbol:
        """A value over the width of cells along an axis."""
        per_metre = value / (self.grid.spacing[axis] * self.metric.unit)
        return others["narrow"] * per_metre if self.metric.sphere and axis == 1 else per_metre

    def _gained(self, flux: Symbol, axis: int, others: Mapping[str, Symbol]) -> Symbol:
        """The flux into each cell through its faces along an axis, over its width."""
        below = flux.shifted(axis, -1)
        if self.metric.sphere and axis == 0:
            below, flux = others["south"] * below, others["north"] * flux
        return self._across(below - flux, axis, others)

    def _crossing(
        self, level: Symbol, z: Symbol, v: Sequence[Symbol], axis: int, others: Mapping[str, Symbol]
    ) -> tuple[Crossing, Symbol | None]:
        """The flux through the faces of an axis, and the change of the level over half a cell."""
        halves: list[Symbol | None] = [None] * (2 + len(v))
        if self.second:
            half = 0.5 * self.limiter(*(stage(rise, boundary="zero") for rise in rises(level, z, axis)))
            h = maximum(level - z, 0.0)
            deeper = maximum(minimum(half - others[f"slope{axis}"], h), -h)  # no depth at a face is negative
            tilt, climb = stage(half, boundary=self._slopes(axis, level=True)), stage(half - deeper, boundary=self._slopes(axis))
            halves = [tilt, climb, *(stage(half_steps(f, axis, self.limiter), boundary=self._slopes(axis, k)) for k, f in enumerate(v))]
        levels, beds, *speeds = (Faces.of(f, half, axis) for f, half in zip((level, z, *v), halves, strict=True))
        across = speeds[1 - axis] if len(speeds) == 2 else None
        return crossing(levels, beds, speeds[axis], across), halves[0]

    def check(self, parameters: Mapping[str, Array]) -> None:
        for name, unit in (("manning", "s/m^(1/3)"), ("drag", "")):
            if name in parameters:
                check_sign(name, parameters[name], unit, positive=False)
        if self.moving:
            check_uplift(parameters)
        at_rest = math.sqrt(GRAVITY * max(-float(parameters["z"].min()), 0.0)) if self.substeps == 1 else 0.0  # else see `check_start`
        speed = self.fastest or at_rest
        if speed > 0:
            cells = self.metric.smallest()
            limit = (COURANT if self.substeps == 1 else self.substeps * AIM) / (speed * sum(1 / h for h in cells))
            parts = "" if self.substeps == 1 else f", substeps = {self.substeps}"
            check_step(self.dt, limit, f"waves of {speed:.4g} m/s, dx = {min(cells):.4g} m, {self.grid.ndim} axes{parts}")

    def check_series(self, parameters: Mapping[str, Array], series: Mapping[str, Array]) -> None:
        if "supply" in series:
            self._check_supply(series["supply"], parameters)

    def waiting(self, inputs: Mapping[str, Array], wrt: Collection[str]) -> Mapping[str, NDArray[np.bool_]]:
        moves = {"z", "pressure", "supply", *UPLIFT}  # the level of what is dry
        return {} if moves & set(wrt) else {"dry land": inputs["eta"] <= inputs["z"]}

    def check_start(self, parameters: Mapping[str, Array], states: Mapping[str, Array]) -> None:
        self._check_speed(parameters, states, "start")
        if self.fastest and self.substeps == 1:
            still = math.sqrt(GRAVITY * float(self._depths(parameters, states)[0].max()))
            if self.fastest < ROUNDED * still:
                raise ParameterError(
                    f"fastest = {self.fastest:.4g} m/s is less than sqrt(g h) = {still:.4g} m/s of the water at the start of the run, "
                    "expected that at least; give the largest |v| + sqrt(g h) of the run"
                )
        if "supply" in parameters:
            self._check_supply(parameters["supply"][np.newaxis], {**parameters, **states})

    def still(self, parameters: Mapping[str, Array], states: Mapping[str, Array]) -> str:
        if self.moving or self.tides or self.supply != "none" or (states["eta"] > parameters["z"]).any():
            return ""
        return (
            f"all cells are dry at the start, over a bed z of {float(parameters['z'].min()):.4g} m or more, and no tide or supply brings "
            "water; z is the height of the bed, below 0 where a sea of eta = 0 is deep: give z = -depth, or an eta above the bed"
        )

    def _check_supply(self, supply: Array, fields: Mapping[str, Array]) -> None:
        """Raise where rounding of the level may change more than a hundredth of a supply, (steps, *shape), by more than a hundredth."""
        height = np.abs(np.maximum(fields["eta"], fields["z"]))
        least = ROUNDINGS * float(np.finfo(supply.dtype).eps) * self.substeps / self.dt * height  # m/s
        if not np.abs(supply).max(initial=0.0) or not least.any():
            return
        total, lost, worst = 0.0, 0.0, 0.0
        for rows in np.array_split(supply, -(-supply.size // BLOCK)):
            size = np.abs(rows)
            swallowed = (size < least) & (size > 0)
            total, lost = total + float(size.sum(dtype=float)), lost + float(size.sum(dtype=float, where=swallowed))
            worst = max(worst, float(np.where(swallowed, least, 0.0).max()))
        if lost > 0.01 * total:
            part = "a step" if self.substeps == 1 else f"one of {self.substeps} parts of a step"
            raise ParameterError(
                f"supply: {lost / total:.0%} of it adds less to the level in {part} than {ROUNDINGS} times the rounding of {supply.dtype}, "
                f"expected at least {worst:.2g} m/s at levels of up to {float(height.max()):.4g} m; run it with precision='f64', or "
                "measure z and eta from a height nearby"
            )

    def check_end(self, parameters: Mapping[str, Array], final: Mapping[str, Array]) -> None:
        if self.substeps == 1:  # otherwise each step checks its own end
            self._check_speed(parameters, final, "end")

    def _check_speed(self, parameters: Mapping[str, Array], states: Mapping[str, Array], when: str) -> None:
        """Raise where dt is unstable for a flow."""
        least, most = self._depths(parameters, states)
        momentum = np.maximum.reduce([np.abs(states[name]) for name in self.momenta])
        speed = np.sqrt(GRAVITY * least) + np.divide(momentum, most, out=np.zeros_like(most), where=most > 10 * self.thin)
        fastest, rate = float(speed.max()), float((speed * self._per_metre()).max())
        limit = COURANT / rate if rate else math.inf
        if self.substeps > 1:
            longest = self.substeps * AIM / COURANT * limit
            check_step(self.dt, longest, f"|v| + sqrt(g h) = {fastest:.4g} m/s at the {when} of the run, substeps = {self.substeps}")
        elif not self.dt <= UNSTABLE * limit:
            raise StabilityError(
                f"|v| + sqrt(g h) is {fastest:.4g} m/s at the {when} of the run, for which dt = {self.dt:.4g} s is not stable, expected at "
                f"most {limit:.4g} s; lower dt, and give `fastest`, the largest of the run, for which it is then checked",
                limit,
            )

    def _depths(self, parameters: Mapping[str, Array], states: Mapping[str, Array]) -> tuple[Array, Array]:
        """The least and the largest depth, m: while the bed rises it is somewhere between both of its heights."""
        level, uplift = states["eta"] - parameters["z"], parameters["uplift"] if self.moving else 0.0
        return np.maximum(level - np.maximum(uplift, 0.0), 0.0), np.maximum(level - np.minimum(uplift, 0.0), 0.0)

    def _per_metre(self) -> Any:
        """Σ 1/dx in 1/m: of the smallest cell, or where steps are cut, which one process does, of each row of cells on the sphere."""
        if self.substeps == 1 or not self.metric.sphere:
            return sum(1 / width for width in self.metric.smallest())
        north, east = (1 / (width * self.metric.unit) for width in self.grid.spacing)
        return north + east * self.profiles["narrow"].values[:, np.newaxis]

    def cell_lengths(self) -> tuple[float, ...]:
        return self.metric.middle()
