"""Incompressible flow on the staggered grid, between walls, from inlets to outlets, or in a periodic box."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, TypeAlias

from diffsim.base.arguments import flag, one_of
from diffsim.boundary import Dirichlet, Extrapolate, Neumann, Open
from diffsim.errors import ParameterError
from diffsim.expr.operators import add, diff, interpolate, laplacian
from diffsim.expr.symbol import Symbol
from diffsim.expr.vectors import div, grad
from diffsim.expr.weights import staggered
from diffsim.integrators import rk4, ssp_rk2, ssp_rk3
from diffsim.mesh.grid import Grid
from diffsim.solvers.parts.immersed import Walls, wall_fields
from diffsim.solvers.parts.stability import check_common, check_sign, check_step, laplacian_bound
from diffsim.solvers.parts.staggered import axes_of, words_of
from diffsim.stepping.declare.equation import Equation, Variable
from diffsim.stepping.stages.solve import solve
from diffsim.typing import Array

Word: TypeAlias = Literal["periodic", "no_slip", "slip", "moving", "inflow", "open"]
Sides: TypeAlias = Word | tuple[Word | tuple[Word, Word], ...]
"""The sides of a flow: one word, or one an axis, where a pair is that of the low and the high side."""

WORDS = ("periodic", "no_slip", "slip", "moving", "inflow", "open")
METHODS: dict[str, tuple[Callable[..., Any], float]] = {"rk2": (ssp_rk2, 2.0), "rk3": (ssp_rk3, 2.51), "rk4": (rk4, 2.78)}
"""The methods in time, and how far along the negative real axis they are stable."""


class NavierStokes(Equation, kind="navier_stokes"):
    """The incompressible Navier-Stokes equations in two or three dimensions, with viscosity and density constant.

        v_t + ∇·(v vᵀ) = -∇p + ν ∇²v + f,    ∇·v = 0

    Staggered (MAC) grid: a component of the velocity lies on the upper faces across its axis, the pressure at centres. Differences keep
    momentum, and without viscosity also the kinetic energy, up to the error of the method in time. Each state of an explicit Runge-Kutta
    method is projected onto velocities without divergence (`ds.solve`, by transforms on a uniform grid). So the order in time is that of
    the method, and after each step the divergence is round-off in every cell.

    Inputs: viscosity `nu` (m²/s, a number), initial velocities `u`, `v` and in three dimensions `w` along x, y and z (m/s). Axes are (y, x)
    or (z, y, x), and walls lie half a cell beyond the outermost centres. The initial velocity may have a divergence; the first step removes
    it. With `forced` also accelerations `fx`, `fy` and `fz` (m/s²) on the faces of the velocity. Sides have further inputs, constant in
    time. The state `p` is the pressure over the density (m²/s²), up to a
    constant where no side is open. It is that of the last stage: of second order in time by rk2, of third by rk4, of first by rk3. Its
    initial value is not read, so certificates leave it out: `wrt=["nu", "u", "v"]`.

    With `bodies` the input `phi` (m, at centres) is the signed distance to the outline of all bodies, negative inside, and the states
    `force_x` and `force_y` (m³/s²) are the forces of the fluid on them over the density: drag and lift where the flow is along x. They are
    those of the last stage. `receivers={"force_x": [place]}` records the force after each step; any place in the grid will do. Outlines lie
    anywhere between cells, and velocity and forces are of second order in the size of the cells: second differences end at the wall, whose
    friction acts implicitly, and what flows through faces that it cuts is that of a linear profile (`diffsim.solvers.parts.immersed`).
    `diffsim.solvers.bodies` has outlines and the balance of momentum. With bodies the method is of first order in time, cells next to
    walls have a divergence that the linear profile makes up for, and inside of bodies `p` has no meaning.

    Args:
        grid: two or three axes, spacing in metres.
        dt: time step, s. Stable while dt ν Σ 4/dx² <= 2.0 (rk2), 2.51 (rk3) or 2.78 (rk4), 3/4 of that at order 4 and 0.66
            at order 6, and while dt Σ |v|/dx <= 1.73 (rk3) or 2.83 (rk4), 6/7 of that at order 4 and 0.8 at order 6; rk2 needs viscosity.
        sides: around the flow, for all axes, or an entry each, where a pair is that of the low and the high side:
            "periodic"; "no_slip"; "slip", a wall without friction; "moving", a wall that slides by the velocities along it, which are
            inputs, such as `u_high_y` (m/s, a number); "inflow", where the input `inflow` (m/s, a value for each cell of the side; of
            several such sides `inflow_low_x` and so on) is the velocity along the axis, and the others are 0; "open", where p = 0 and the
            velocity has no normal derivative. An open low side has a state, such as `u_low`, whose first layer is the velocity through it,
            and which is given with `u`. Without an open side as much must flow in as out, to round-off.
        order: of the differences in space, 2, or in a periodic box also 4 or 6.
        method: in time, "rk2", "rk3" or "rk4".
        forced: whether there are accelerations. They act inside of bodies too, so the force on these includes their weight.
        bodies: "none"; "fixed"; or "moving", whose outline rests and whose surface moves, such as a cylinder that turns: then the inputs
            `u_wall` and `v_wall` (m/s, on the faces of the velocities) are its velocity, without divergence inside of the body. Two axes of
            uniform cells and order 2. A body may reach a side; its force then includes what acts on it there.

    Raises:
        ParameterError: an argument out of range, a grid of one axis, one of cells of several sizes where no side is open, or bodies with
            three axes, order 4 or such cells; by a run, a viscosity below 0.
        StabilityError: by a run, a time step beyond the stable one for the viscosity.
        SingularError: by a run, more flows in than out.

    Good values: 10 cells across the thinnest layer; rk3 with dt |v|/dx = 0.5; 20 cells across a body for a drag to 0.3 %.

    Reference: Harlow and Welch (1965), Phys. Fluids 8, 2182-2189, doi:10.1063/1.1761178; Morinishi, Lund, Vasilyev and Moin (1998), Fully
        conservative higher order finite difference schemes for incompressible flow, J. Comput. Phys. 143, 90-124,
        doi:10.1006/jcph.1998.5962, of which orders 4 and 6 are the divergence form; Sanderse and Koren (2012), J. Comput. Phys. 231,
        3041-3063, doi:10.1016/j.jcp.2011.11.028, for the projection of each stage; Fadlun, Verzicco, Orlandi and Mohd-Yusof (2000),
        J. Comput. Phys. 161, 35-60, doi:10.1006/jcph.2000.6484, for velocities that are given at places next to bodies; Shortley and
        Weller (1938), J. Appl. Phys. 9, 334-348, doi:10.1063/1.1710426, for second differences that end at a wall. The flow of a linear
        profile through cut faces is of this solver.

    Example:
        import numpy as np

        import diffsim as ds

        # How fast must the lid of a cavity slide, so that the flow below it has this energy? Newton's method on its derivative.
        grid, sides = ds.Grid((24, 24), spacing=1 / 24), (("no_slip", "moving"), "no_slip")
        cavity = ds.solvers.NavierStokes(grid, dt=0.01, sides=sides, method="rk2")
        flow, speed = ds.Simulation(cavity, wrt=["u_high_y"], precision="f64"), 0.5

        def energy(found):
            return 0.5 * ((found.final["u"] ** 2).sum() + (found.final["v"] ** 2).sum()) / 24**2

        for _ in range(4):
            value, gradient = flow.value_and_grad(energy, {"nu": 0.01, "u_high_y": speed}, steps=100)
            speed -= (value - 0.01) / gradient["u_high_y"]
        assert abs(value - 0.01) < 1e-6 and np.isclose(speed, 0.68197, atol=1e-4)
    """

    stable_dt_power = 2.0

    def __init__(
        self,
        grid: Grid,
        dt: float,
        sides: Sides = "periodic",
        order: Literal[2, 4, 6] = 2,
        method: Literal["rk2", "rk3", "rk4"] = "rk3",
        forced: bool = False,
        bodies: Literal["none", "fixed", "moving"] = "none",
    ) -> None:
        self.grid, self.dt = grid, check_common(grid, dt)
        self.axes = axes_of(grid.ndim)
        self.velocities = tuple({"x": "u", "y": "v", "z": "w"}[axis] for axis in self.axes)
        self.sides = words_of(sides, self.axes, WORDS)
        self.order = int(one_of("order", order, (2, 4, 6)))
        if self.order > 2 and any(pair != ("periodic", "periodic") for pair in self.sides):
            raise ParameterError(f"order = {order} with sides = {sides!r}, expected order 2 next to walls, inlets and outlets; take 2")
        if None in grid.uniform_spacing and not any("open" in pair for pair in self.sides):
            raise ParameterError(
                "grid of cells of several sizes with no open side, expected uniform cells there; take some, or open a side"
            )
        self.method, self._reach = METHODS[one_of("method", method, tuple(METHODS))]
        inlets = [(axis, high) for axis, pair in enumerate(self.sides) for high in (0, 1) if pair[high] == "inflow"]
        self.inflows = {side: "inflow" if len(inlets) == 1 else f"inflow_{_side(self.axes, *side)}" for side in inlets}
        self.states = {name: Variable(self._around(k), _face(k, grid.ndim), "m/s") for k, name in enumerate(self.velocities)}
        self.states["p"] = Variable(tuple(map(_pressure_rules, self.sides)), unit="m²/s²")
        self.parameters = {"nu": Variable(axes=(), unit="m²/s")}
        for k, (name, pair) in enumerate(zip(self.velocities, self.sides, strict=True)):
            if pair[0] == "open":
                self.states[f"{name}_low"] = Variable(location=_face(k, grid.ndim), unit="m/s")
        for (axis, _), name in self.inflows.items():
            across = tuple(other for other in range(grid.ndim) if other != axis)
            self.parameters[name] = Variable(self._ends(axis), unit="m/s", axes=across)
        for axis, pair in enumerate(self.sides):
            for high in (0, 1):
                if pair[high] == "moving":
                    along = [name for k, name in enumerate(self.velocities) if k != axis]
                    self.parameters |= {f"{name}_{_side(self.axes, axis, high)}": Variable(axes=(), unit="m/s") for name in along}
        self.forces = tuple(f"f{axis}" for axis in self.axes) if flag("forced", forced) else ()
        for name, velocity in zip(self.forces, self.velocities, strict=False):
            around = tuple("periodic" if pair[0] == "periodic" else "mirror" for pair in self.sides)
            self.parameters[name] = Variable(around, self.states[velocity].location, "m/s²")
        self.bodies = one_of("bodies", bodies, ("none", "fixed", "moving"))
        if self.bodies != "none":
            self._add_bodies()

    def _add_bodies(self) -> None:
        """Declare the distance to bodies, what follows from it, and the forces on them."""
        if self.grid.ndim != 2 or None in self.grid.uniform_spacing or self.order > 2:
            raise ParameterError(
                f"bodies = {self.bodies!r} with {self.grid.ndim} axes and order = {self.order}, expected two axes of uniform cells and "
                "order 2; take such a grid"
            )
        around, beyond, closed = (
            tuple("periodic" if pair[0] == "periodic" else rule for pair in self.sides) for rule in (Extrapolate(1), Extrapolate(0), "zero")
        )
        moving = self.velocities if self.bodies == "moving" else ()
        surfaces = {f"{name}_wall": Variable(around, self.states[name].location, "m/s") for name in moving}
        self.parameters = {**self.parameters, "phi": Variable(around, unit="m"), **surfaces}
        self.states = {**self.states, **{f"force_{axis}": Variable(axes=(), unit="m³/s²") for axis in self.axes}}
        handed_on = {name: one.boundary for name, one in self.parameters.items() if one.axes is None and name != "phi"}
        films = {f"{name}_film": closed for name in self.velocities}
        walls = {f"{name}_{what}": beyond for name in self.velocities for what in ("fluid", "grip", "least")}
        self.coefficient_boundaries = handed_on | films | walls
        self.coefficients = self._coefficients  # type: ignore[method-assign]

    def _coefficients(self, phi: Symbol, **others: Symbol) -> dict[str, Symbol]:
        walls = [wall_fields(phi, name, axis, self.grid.spacing) for axis, name in enumerate(self.velocities)]
        return others | walls[0] | walls[1]

    def _around(self, k: int) -> tuple[Any, ...]:
        """The rules of a component of the velocity, for each axis."""
        return tuple(
            "periodic" if pair[0] == "periodic" else tuple(self._rule(pair[high], k, axis, high) for high in (0, 1))
            for axis, pair in enumerate(self.sides)
        )

    def _rule(self, word: str, k: int, axis: int, high: int) -> Any:
        if word == "open":
            return Open(f"{self.velocities[k]}_low" if k == axis else "")
        if k == axis:
            return Dirichlet(self.inflows[axis, high] if word == "inflow" else 0.0)
        if word == "slip":
            return Neumann(0.0)
        return Dirichlet(f"{self.velocities[k]}_{_side(self.axes, axis, high)}" if word == "moving" else 0.0)

    def _ends(self, axis: int) -> tuple[Any, ...]:
        """The rules of what flows in across an axis: beyond the ends of its side it is what the velocity is there."""
        rules = {"no_slip": Dirichlet(0.0), "inflow": Dirichlet(0.0)}
        return tuple(
            "mirror" if other == axis else "periodic" if pair[0] == "periodic" else tuple(rules.get(word, Neumann(0.0)) for word in pair)
            for other, pair in enumerate(self.sides)
        )

    def step(self, p: Symbol, nu: Symbol, **now: Symbol) -> dict[str, Any]:
        walls = Walls(now, self.velocities, nu, p, self.grid.spacing) if self.bodies != "none" else None
        forces = dict(zip(self.velocities, (now[name] for name in self.forces), strict=False))

        def rate(v: dict[str, Symbol]) -> dict[str, Symbol]:  # ν ∇²v - ∇·(v vᵀ) + f
            parts = [v[name] for name in self.velocities]
            rates = {name: nu * laplacian(v[name], self.order) - advection(parts, k, self.order) for k, name in enumerate(self.velocities)}
            rates = {name: rates[name] + forces[name] if name in forces else rates[name] for name in self.velocities}
            return walls.felt(v, rates) if walls else rates

        def project(v: dict[str, Symbol], dt: Any) -> dict[str, Symbol]:
            source = div([v[name] for name in self.velocities], self.order) / dt
            pressure = solve(lambda q: div(grad(q, self.order), self.order), source, boundary=p)
            slopes = grad(pressure, self.order)
            return {name: v[name] - dt * slope for name, slope in zip(self.velocities, slopes, strict=True)} | {"p": pressure}

        start = {name: now[name] for name in self.velocities}
        if walls:
            return walls.forces(self.method(rate, start, self.dt, project=walls.project))
        return self.method(rate, start, self.dt, project=project)

    def check(self, parameters: Mapping[str, Array]) -> None:
        nu = parameters["nu"]
        check_sign("viscosity nu", nu, "m²/s", positive=False)
        if self.bodies != "none" and not (parameters["phi"] < 0).any():
            raise ParameterError(
                "phi has no cell below 0, expected a body that contains the centre of a cell; take smaller cells, or leave out bodies"
            )
        if nu.max() > 0:
            limit = self._reach / (float(nu.max()) * laplacian_bound(self.grid, self.order))
            check_step(self.dt, limit, f"nu = {float(nu.max()):.4g} m²/s, dx = {min(self.grid.smallest):.4g} m, order {self.order}")


def advection(v: Sequence[Symbol], k: int, order: int) -> Symbol:
    """∇·(v v_k) at the place of component k.

    For each axis these are differences over 1, 3, ... cells, with the weights of a difference of this order, of fluxes whose carried
    velocity is a mean over as many cells.
    """
    return add([add(_fluxes(interpolate(v[axis], k, order), v[k], axis, order)) for axis in range(len(v))])


def _fluxes(carrying: Symbol, carried: Symbol, axis: int, order: int) -> list[Symbol]:
    """The parts of ∂(carrying · carried) along an axis, one for each distance."""
    if order == 2:  # on stretched grids too
        return [diff(carrying * interpolate(carried, axis), axis)]
    weights, spacing = staggered(1, order)[order // 2 :], carried.spacing[axis]
    assert spacing is not None  # a higher order is refused elsewhere
    parts = []
    for n, weight in enumerate(weights):
        left, right = _pair(carried, axis, n)
        below, above = _pair(carrying * (0.5 * (left + right)).across(axis), axis, n)
        parts.append((weight / spacing * (above - below)).across(axis))
    return parts


def _pair(f: Symbol, axis: int, n: int) -> tuple[Symbol, Symbol]:
    """The values of f at both sides of the places half a cell away, 2 n + 1 cells apart."""
    place = f.location[axis]
    assert place is not None
    return f.shifted(axis, -n - place), f.shifted(axis, n + 1 - place)


def _pressure_rules(pair: tuple[str, str]) -> Any:
    low, high = (Dirichlet(0.0) if word == "open" else Neumann(0.0) for word in pair)
    return "periodic" if pair[0] == "periodic" else (low, high)


def _face(axis: int, ndim: int) -> tuple[int, ...]:
    return tuple(int(other == axis) for other in range(ndim))


def _side(axes: str, axis: int, high: int) -> str:
    return f"{'high' if high else 'low'}_{axes[axis]}"
