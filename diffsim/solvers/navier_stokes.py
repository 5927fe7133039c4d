"""Incompressible flow on the staggered grid, between walls, from inlets to outlets, or in a periodic box."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal, TypeAlias

import numpy as np

from diffsim.base.arguments import flag, names, number, one_of
from diffsim.base.messages import shown
from diffsim.boundary import Boundary, Extrapolate
from diffsim.errors import ParameterError
from diffsim.expr.operators import add, interpolate, laplacian
from diffsim.expr.symbol import Symbol
from diffsim.expr.vectors import div, grad
from diffsim.integrators import IMPLICIT_SHARE, TABLEAUX, imex_ars222, rk4, ssp_rk2, ssp_rk3
from diffsim.mesh.grid import Grid
from diffsim.solvers.parts.flow_sides import FREE, WORDS, FlowSides, check_outline, check_slope
from diffsim.solvers.parts.fluxes import advection, carried
from diffsim.solvers.parts.given import series_of
from diffsim.solvers.parts.immersed import Walls, drawing_fields, flux_fields, names_of_walls, wall_fields
from diffsim.solvers.parts.outflow import outflow, outflow_profiles
from diffsim.solvers.parts.penalty import Resistance, names_of_resistance, resistance, resistance_fields
from diffsim.solvers.parts.stability import check_common, check_flow, check_sign, check_step, laplacian_bound
from diffsim.solvers.parts.staggered import axes_of, words_of
from diffsim.solvers.parts.viscosity import layered, smagorinsky
from diffsim.stepping.declare.equation import Equation, Variable
from diffsim.stepping.stages.solve import solve
from diffsim.typing import Array

Word: TypeAlias = Literal["periodic", "no_slip", "slip", "moving", "inflow", "open", "outflow", "velocity"]
Sides: TypeAlias = Word | tuple[Word | tuple[Word, Word], ...]
"""The sides of a flow: one word, or one an axis, where a pair is that of the low and the high side."""

METHODS: dict[str, Any] = {"rk2": ssp_rk2, "rk3": ssp_rk3, "rk4": rk4, "imex2": imex_ars222}
"""The methods in time."""

SLOWER = {2: 1.0, 4: 0.63, 6: 0.63}
"""By which orders in space lower the largest dt Σ |v|/dx: one over the largest factor of a wave, 1.586, of differences of sixth order."""


class NavierStokes(Equation, kind="navier_stokes"):
    """The incompressible Navier-Stokes equations in two or three dimensions, with density constant, and scalars that the flow carries.

        v_t + ∇·(v vᵀ) = -∇p + ν ∇²v + f - Σ β s g,    ∇·v = 0,    s_t + ∇·(v s) = κ ∇²s

    Staggered (MAC) grid: a component of the velocity lies on the upper faces across its axis, pressure and scalars at centres. Differences
    keep momentum and scalars, and without viscosity also the kinetic energy, up to the error of the method in time. Each state of an
    explicit Runge-Kutta method is projected onto velocities without divergence (`ds.solve`, by transforms on a uniform grid). So the order
    in time is that of the method, and after each step the divergence is round-off in every cell.

    Inputs: viscosity `nu` (m²/s, a number), initial velocities `u`, `v` and in three dimensions `w` along x, y and z (m/s). Axes are (y, x)
    or (z, y, x), and walls lie half a cell beyond the outermost centres. The initial velocity may have a divergence; the first step removes
    it ("imex2": see there). With `forced` also accelerations `fx`, `fy` and `fz` (m/s²) on the faces of the velocity. Sides have further
    inputs, constant in time but for those in `series`. The state `p` is the pressure over the density (m²/s²), up to a constant where no
    side is open. It is that of the last stage: of second order in time by rk2, of third by rk4, of first by rk3. Its initial value is not
    read, so certificates leave it out: `wrt=["nu", "u", "v"]`.

    The method "imex2" takes viscosity and diffusion implicitly, so that they do not limit the step (`diffsim.integrators.imex_ars222`). Its
    systems are solved by transforms, but for that of the velocity through an open side, whose factors cost several times as much
    (docs/limits.md). Its rates have the pressure gradient of the step before, and each projection adds what is missing (pressure
    correction, in rotational form). Velocity and scalars are of second order, next to walls too, and so is the pressure, which is that of
    the middle of the step. This needs an initial velocity that satisfies the sides and has no divergence. Otherwise the first 5 to 10 steps
    are wrong: in a channel of 16 x 16 cells at rest, whose inlet is on at t = 0, the velocity is off by 44, 22, 3, 0.6 and 0.1 % of the
    fastest inflow after 1, 2, 3, 5 and 8 steps as long as 4 of rk3. Here the initial `p` is read; 0 will do where the flow starts from rest
    and its sides do too, or has several steps to forget it. Long steps follow what changes slowly, and damp the rest. Steps
    longer than dt |v|/dx = 2 reach a steady state no sooner: from rest, a cavity of 32 x 32 cells at Re = 10 takes 575, 175, 100, 75 and 75
    of them at 0.125, 0.5, 1, 2 and 4.

    A scalar, such as `scalars=("T",)`, is a state of this name at centres, with a diffusivity `kappa_T` (m²/s, a number). Its values
    at inlets are inputs, such as `T_low_x` (a value for each cell of the side); through other sides nothing diffuses. At a "velocity" side
    the value holds where fluid leaves too: give that side `Neumann(0.0)` in the rules of the scalar, or take "outflow". With
    `gravity` it has an expansion `beta_T` (a number, over the unit of the scalar; 0 for one without weight), and the flow the acceleration
    -β T g on its faces (Boussinesq): T is the departure from the temperature at which the fluid rests.

    With `bodies` the input `phi` (m, at centres) is the signed distance to the outline of all bodies, negative inside. Only the line
    phi = 0 and the values in the cells next to it count: 100 phi gives the same forces with "sharp" walls. A mask is refused. The states
    `force_x` and `force_y` (m³/s²) are the forces of the fluid on them over the density: drag and lift where the flow is along x. They are
    those of the last stage. `receivers={"force_x": [place]}` records the force after each step; any place in the grid will do, and row 0 of
    the trace is the initial value, 0. Outlines lie
    anywhere between cells, and velocity and forces are of second order in the size of the cells: second differences end at the wall, whose
    friction acts implicitly, and what flows through faces that it cuts is that of a linear profile (`diffsim.solvers.parts.immersed`).
    `diffsim.solvers.bodies` has outlines and the balance of momentum. With bodies the method is of first order in time, cells next to
    walls have a divergence that the linear profile makes up for, and inside of bodies `p` has no meaning.

    With `bodies` and a scalar such as T, the input `T_wall` (a value for each cell, at centres, in the unit of T, or one number) is its
    value at the surface and inside. Only values in cells within about two of the outline change the flow. The derivative for one
    temperature of a whole body is the sum over its cells, `gradient["T_wall"].sum()` where there is one body. The state `heat_T` (m²/s
    times the unit of T) is the amount that all bodies give to the fluid in a second, above 0 where they are hotter, over density and heat
    capacity; it is that of the last stage, and `receivers={"heat_T": [place]}` records it as a force. The first step also has what brings T
    inside of bodies to `T_wall`. The Nusselt number of a cylinder is heat_T / (π κ ΔT). `heat_T` is accurate where |v| dx / κ <= 2, for T
    is carried by centred differences (docs/limits.md). At κ = 0, where no heat leaves a body, it is not 0 but an error of these.

    For a scalar in `fluxes` the input is the flux through the surface in place of its value there: `T_flux` (m/s times the unit of T, a
    value for each cell or one number, above 0 into the fluid). It enters cells that the outline cuts, whose closed faces nothing passes.
    Then `heat_T` is the flux times the length of the outline, and T has no meaning inside of bodies. Of second order in fluid at rest;
    next to walls the scalar is carried upwind.

    With bodies_method="penalised" bodies are a resistance of the fluid inside them, which is implicit (`diffsim.solvers.parts.penalty`): in
    two and three dimensions, and at orders 4 and 6 in a periodic box. `phi` then is any signed distance on the grid, true to scale (with
    100 phi a cylinder of six cells has 14 % less drag), and `force_z` the third force. The Poisson equation is solved by transforms as
    without bodies. A wall lies in its place to 0.023 of a cell. Creeping flow is of second order, and forces have 2 to 3 times the error of
    "sharp"; where |v| dx / ν is above 1 they are of first order. Here the initial `p` is read, and the first steps from rest have a flow
    through bodies. Inputs and states are those of the sharp method.

    Args:
        grid: two or three axes, spacing in metres.
        dt: time step, s. Stable while dt ν Σ 4/dx² <= 2.0 (rk2), 2.51 (rk3) or 2.78 (rk4), 3/4 of that at order 4 and 0.66 at order 6, and
            while dt Σ |v|/dx <= 1.73 (rk3) or 2.82 (rk4), 0.63 of that at orders 4 and 6; rk2 needs viscosity, and scalars
            diffusion. imex2 has no limit for viscosity and diffusion. There dt Σ |v|/dx <= 0.53, 1.22, 1.59, 2.28, 2.87 and 7.54 where ν /
            (|v| dx) is 0, 0.1, 0.2, 0.5, 1 and 5, with the |v| of the largest component, and with the least of ν and all κ for ν.
        sides: around the flow, for all axes, or an entry each, where a pair is that of the low and the high side:
            "periodic"; "no_slip"; "slip", a wall without friction; "moving", a wall that slides by the velocities along it, which are
            inputs, such as `u_high_y` (m/s, a number); "inflow", where the input `inflow` (m/s, a value for each cell of the side; of
            several such sides `inflow_low_x` and so on) is the velocity along the axis, and the others are 0; "velocity", where all
            components are inputs, such as `u_low_x` and `v_low_x` (m/s, a value for each face of the side, out of the grid or into it);
            "open", where p = 0 and the velocity has no normal derivative; "outflow", an open side that vortices may pass: fluid that comes
            back through it carries half of its velocity, so no energy comes with it. An open low side has a state, such as `u_low`, whose
            first layer is the velocity through it, and which is given with `u`. Without an open side as much must flow in as out, to
            round-off.
        order: of the differences in space, 2, or in a periodic box also 4 or 6.
        method: in time, "rk2", "rk3" or "rk4", or "imex2", with a constant viscosity, no bodies, and open sides that are high ones.
        forced: whether there are accelerations. They act inside of bodies too, so the force on these includes their weight (that by
            scalars and `gravity` does not).
        bodies: "none"; "fixed"; or "moving", whose outline rests and whose surface moves, such as a cylinder that turns: then the inputs
            `u_wall` and `v_wall` (m/s, on the faces of the velocities) are its velocity, without divergence inside of the body. Two axes of
            uniform cells and order 2 ("penalised": uniform cells). A body may reach a side; its force then includes what acts on it there.
        scalars: their names; or their names with rules of their sides, see `diffsim.Variable`, such as {"T": ("mirror", (Dirichlet("hot"),
            Dirichlet(0.0)))}. A name in a rule is an input, with a value for each cell of the side.
        gravity (m/s²): along each axis of the grid, y before x, such as (-9.81, 0.0) where y points upwards; (): scalars do not
            act on the flow.
        viscosity: "constant"; "field": `nu` is a field at centres, and friction is ∇·(ν (∇v + ∇vᵀ)), with harmonic means on edges, so that
            layers that meet on faces slide exactly; or "smagorinsky": that with ν + (C_s Δ)² |S|, where Δ is the root of the volume of a
            cell, |S|² = 2 Σ S_ab², and `C_s` an input (a number; good: 0.1 to 0.2). Uniform cells and order 2.
        series: those inputs of sides that have a value for each time step, such as ("inflow",). It holds for the whole step. By rk2 and
            imex2, velocities along a side at the middle of each step are of second order in time. A velocity through a side is at the end
            of the step the one that was given: that of the middle, so of first order there.
        bodies_method: "sharp": walls lie between cells, in two dimensions at order 2; or "penalised", a resistance, see above.
        fluxes: the scalars whose flux through the surface of bodies is given, not their value there; with sharp bodies.

    Raises:
        ParameterError: an argument out of range, a grid of one axis, one of cells of several sizes where no side is open, or bodies with
            three axes, order 4, such cells or a viscosity that varies, or "imex2" with what it does not solve; by a run, a
            viscosity or diffusivity below 0 (of a field, or 0).
        StabilityError: by a run, a time step beyond the stable one for viscosity, diffusivity, or the velocity of a side (not for an
            eddy viscosity). The speed of the flow inside is not checked.
        DivergenceError: by a run, values that are not finite, as where the flow inside becomes too fast; the message has the limit.
        SingularError: by a run, more flows in than out.

    Good values: 10 cells across the thinnest layer; rk3 with dt Σ |v|/dx = 0.5; 20 cells across a body for a drag to 0.3 %;
        |v| dx / kappa <= 2 where a scalar has fronts; imex2 with dt Σ |v|/dx = 0.5 where dt ν Σ 4/dx² would be above 10.

    Reference: Harlow and Welch (1965), Phys. Fluids 8, 2182-2189, doi:10.1063/1.1761178; Morinishi, Lund, Vasilyev and Moin (1998), Fully
        conservative higher order finite difference schemes for incompressible flow, J. Comput. Phys. 143, 90-124,
        doi:10.1006/jcph.1998.5962, for conservation at orders 4 and 6; Sanderse and Koren (2012), J. Comput. Phys. 231,
        3041-3063, doi:10.1016/j.jcp.2011.11.028, for the projection of each stage; Guermond, Minev and Shen (2006), Comput. Methods Appl.
        Mech. Eng. 195, 6011-6045, doi:10.1016/j.cma.2005.10.010, section 3, for the pressure of "imex2"; Fadlun, Verzicco, Orlandi and
        Mohd-Yusof (2000), J. Comput. Phys. 161, 35-60, doi:10.1006/jcph.2000.6484, for velocities that are given at places next to bodies;
        Shortley and Weller (1938), J. Appl. Phys. 9, 334-348, doi:10.1063/1.1710426, for second differences that end at a wall; Smagorinsky
        (1963), Mon. Weather Rev. 91, 99-164, doi:10.1175/1520-0493(1963)091<0099:GCEWTP>2.3.CO;2; Braack and Mucha (2014), J. Comput. Math.
        32, 507-521, doi:10.4208/jcm.1405-m4347, for "outflow". The flow of a linear profile through cut faces is of this solver.

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

        # Warm air rises between walls. All heat stays inside.
        heated = ds.solvers.NavierStokes(grid, dt=0.01, sides="no_slip", scalars=("T",), gravity=(-9.81, 0.0))
        warm = np.exp(-((grid.coordinates(0)[:, None] - 0.3) ** 2 + (grid.coordinates(1) - 0.5) ** 2) / 0.01)
        air = {"nu": 0.01, "kappa_T": 0.01, "beta_T": 0.1, "T": warm}
        final = ds.Simulation(heated, precision="f64").run(air, steps=100).final
        assert final["v"].max() > 0.05 and np.isclose(final["T"].sum(), warm.sum(), rtol=1e-12)
    """

    stable_dt_power = 2.0
    optional: Mapping[str, str] = {
        **dict.fromkeys(("phi", "force_{axis}"), 'bodies = "fixed" or "moving"'),
        "{velocity}_wall": 'bodies = "moving"',
        r"\w+_wall": "bodies and its name in scalars",
        r"\w+_flux": "bodies and its name in scalars and fluxes",
        r"heat_\w+": "bodies and its name in scalars",
        "f{axis}": "forced = True",
        "C_s": 'viscosity = "smagorinsky"',
        "inflow": 'one side of "inflow" in sides',
        "inflow_{side}": 'several sides of "inflow" in sides',
        "{velocity}_low": 'a side of "open" or "outflow" in sides',
        "{velocity}_{side}": 'a side of "velocity" or "moving" in sides',
        **dict.fromkeys(("T", "c", r"kappa_\w+"), "its name in scalars"),
        r"beta_\w+": "gravity and its name in scalars",
        "[Tc]_{side}": 'its name in scalars and a side of "inflow" or "velocity" in sides',
    }

    def __init__(
        self,
        grid: Grid,
        dt: float,
        sides: Sides = "periodic",
        order: Literal[2, 4, 6] = 2,
        method: Literal["rk2", "rk3", "rk4", "imex2"] = "rk3",
        forced: bool = False,
        bodies: Literal["none", "fixed", "moving"] = "none",
        scalars: tuple[str, ...] | Mapping[str, Boundary] = (),
        gravity: tuple[float, ...] = (),
        viscosity: Literal["constant", "field", "smagorinsky"] = "constant",
        series: tuple[str, ...] = (),
        bodies_method: Literal["sharp", "penalised"] = "sharp",
        fluxes: tuple[str, ...] = (),
    ) -> None:
        self.grid, self.dt = grid, check_common(grid, dt)
        self.axes = axes_of(grid.ndim)
        self._around = FlowSides(self.axes, words_of(sides, self.axes, WORDS))
        self.sides, self.velocities, self.inflows = self._around.words, self._around.velocities, self._around.inlets()
        self.order = int(one_of("order", order, (2, 4, 6)))
        if self.order > 2 and any(pair != ("periodic", "periodic") for pair in self.sides):
            raise ParameterError(f"order = {order} with sides = {shown(sides)}, expected order 2 next to walls, inlets and outlets; take 2")
        if None in grid.uniform_spacing and not self._around.of(*FREE):
            raise ParameterError(
                "grid of cells of several sizes with no open side, expected uniform cells there; take some, or open a side"
            )
        self.method = METHODS[one_of("method", method, tuple(METHODS))]
        self.implicit = self.method is imex_ars222
        self._tableau = TABLEAUX[self.method.__name__]
        self._reach = math.inf if self.implicit else self._tableau.real
        self.unstable = self._too_fast()
        self.states = {name: Variable(self._around.velocity(k), _face(k, grid.ndim), "m/s") for k, name in enumerate(self.velocities)}
        self.states["p"] = Variable(self._around.pressure(), unit="m²/s²")
        for axis, high in self._around.of(*FREE):
            if not high:
                self.states[f"{self.velocities[axis]}_low"] = Variable(location=_face(axis, grid.ndim), unit="m/s")
        self.parameters = {"nu": Variable(axes=(), unit="m²/s")} | self._around.inputs()
        on_sides = [name for name in self.parameters if name != "nu"]
        self.outlets = {side: self._around.name(*side) for side in self._around.of("outflow")}
        self.profiles = outflow_profiles(grid, self.outlets)
        self.forces = tuple(f"f{axis}" for axis in self.axes) if flag("forced", forced) else ()
        for name, velocity in zip(self.forces, self.velocities, strict=False):
            self.parameters[name] = Variable(self._around.with_rule("mirror"), self.states[velocity].location, "m/s²")
        self.viscosity = one_of("viscosity", viscosity, ("constant", "field", "smagorinsky"))
        if self.viscosity != "constant":
            self._add_viscosity()
        self._check_scalars(scalars)
        self.scalars = tuple(scalars)
        self.gravity = self._checked_gravity(gravity)
        self.bodies = one_of("bodies", bodies, ("none", "fixed", "moving"))
        self.sharp = one_of("bodies_method", bodies_method, ("sharp", "penalised")) == "sharp"
        if not self.sharp and self.bodies == "none":
            raise ParameterError("bodies_method = 'penalised' with bodies = 'none', expected bodies; give bodies = 'fixed' or 'moving'")
        self.fluxes = names("fluxes", fluxes, '("T",)')
        if set(self.fluxes) - {*self.scalars} or (self.fluxes and (self.bodies == "none" or not self.sharp)):
            raise ParameterError(
                f"fluxes = {shown(fluxes)} with scalars = {shown(self.scalars)}, bodies = {shown(self.bodies)} and bodies_method = "
                f"{shown(bodies_method)}, expected names of scalars, and bodies that are sharp; correct one"
            )
        for name in self.scalars:
            on_sides += self._add_scalar(name, scalars[name] if isinstance(scalars, Mapping) else self._around.scalar(name))
        if self.bodies != "none":
            self._add_bodies()
            self.uniform = tuple(f"{name}_{'flux' if name in self.fluxes else 'wall'}" for name in self.scalars)
        if self.implicit:
            self._check_implicit()
        self.series = series_of(series, '("inflow",)', {name: self.parameters[name] for name in on_sides})
        self.parameters = {name: variable for name, variable in self.parameters.items() if name not in self.series}

    def _too_fast(self) -> str:
        """Advice for a run that ends in values which are not finite: the speed inside is not known before."""
        back = ", ".join(f"{self._around.name(*side)!r}" for side in self._around.of("open"))
        remedy = f', or take "outflow", which vortices may pass, for the "open" side {back}' if back else ""
        if not (courant := self._tableau.imaginary):
            other = "" if self.implicit else ', or take "rk3", which needs no viscosity'
            return f"The flow may have become too fast for dt = {self.dt:.4g} s: lower dt{other}{remedy}"
        limit = courant * SLOWER[self.order] / self.dt
        return (
            f"The flow may have become too fast: dt = {self.dt:.4g} s is stable while Σ |v|/dx <= {limit:.4g} 1/s, along one axis |v| <= "
            f"{limit * min(self.grid.smallest):.4g} m/s; lower dt{remedy}"
        )

    def _check_implicit(self) -> None:
        """Raise unless the friction is a system for each velocity alone, whose values all lie in the grid."""
        what = [f"{self.sides[axis][0]!r} on the low side of {self.axes[axis]}" for axis, high in self._around.of(*FREE) if not high]
        what += [f"bodies = {self.bodies!r}"] * (self.bodies != "none")
        what += [f"viscosity = {self.viscosity!r}"] * (self.viscosity != "constant")
        if what:
            raise ParameterError(
                f"method = 'imex2' with {', '.join(what)}, expected open sides that are high ones, no bodies and a constant viscosity; "
                "take 'rk3', or leave those out"
            )

    def _add_viscosity(self) -> None:
        """Declare the inputs of a viscosity that varies."""
        if self.order > 2 or None in self.grid.uniform_spacing:
            raise ParameterError(
                f"viscosity = {shown(self.viscosity)} with order = {self.order}, expected order 2 and uniform cells; take those"
            )
        if self.viscosity == "field":
            self.parameters = {**self.parameters, "nu": Variable(self._around.with_rule("mirror"), unit="m²/s")}
        else:
            self.parameters = {**self.parameters, "C_s": Variable(axes=(), unit="1")}

    def _check_scalars(self, scalars: object) -> None:
        """Raise unless scalars have names that are words."""
        for name in scalars if isinstance(scalars, Mapping) else names("scalars", scalars, '("smoke",)'):
            if not isinstance(name, str) or not name.isidentifier():
                raise ParameterError(f"scalars name {shown(name)}, expected names of letters, digits and _; rename it")

    def _checked_gravity(self, gravity: object) -> tuple[float, ...]:
        """Gravity, a number for each axis, or none."""
        each = gravity if isinstance(gravity, (tuple, list)) else (gravity,)
        out = tuple(number("gravity", g, unit="m/s²") for g in each)
        if out and (len(out) != self.grid.ndim or not self.scalars):
            raise ParameterError(
                f"gravity = {shown(gravity)} and {len(self.scalars)} scalars, expected a number for each of {self.grid.ndim} axes, and a "
                "scalar that it acts on; give those"
            )
        return out

    def _add_scalar(self, name: str, rules: Boundary) -> list[str]:
        """Declare a scalar and its inputs. Returns those of its sides."""
        on_sides = self._around.inputs_of_scalar(name, rules)
        own = {name: Variable(rules)}, {f"kappa_{name}": Variable(axes=(), unit="m²/s"), **on_sides}
        if self.gravity:
            own[1][f"beta_{name}"] = Variable(axes=())
        if self.bodies != "none":
            own[0][f"heat_{name}"] = Variable(axes=(), unit="m²/s")
            own[1][f"{name}_{'flux' if name in self.fluxes else 'wall'}"] = Variable(self._around.with_rule(Extrapolate(1)))
        known = {*self.states, *self.parameters, *self.profiles, *self._names_of_bodies()}
        taken = known & {*own[0], *own[1]}
        if taken:
            raise ParameterError(
                f"scalars name {shown(name)}, expected names other than {', '.join(sorted(taken))}; rename it, or its inputs"
            )
        self.states, self.parameters = {**self.states, **own[0]}, {**self.parameters, **own[1]}
        return list(on_sides)

    def _names_of_bodies(self) -> set[str]:
        """The names that bodies take."""
        if self.bodies == "none":
            return set()
        own = names_of_walls(self.velocities) if self.sharp else names_of_resistance(self.velocities)
        return {"phi", *(f"force_{axis}" for axis in self.axes), *own}

    def _add_bodies(self) -> None:
        """Declare the distance to bodies, what follows from it, and the forces on them."""
        if None in self.grid.uniform_spacing or (self.sharp and (self.grid.ndim != 2 or self.order > 2)):
            raise ParameterError(
                f"bodies = {shown(self.bodies)} with {self.grid.ndim} axes and order = {self.order}, expected two axes of "
                "uniform cells and "
                "order 2; take such a grid, or bodies_method = 'penalised', which needs uniform cells alone"
            )
        if self.viscosity != "constant":
            raise ParameterError(
                f"bodies = {shown(self.bodies)} with viscosity = {shown(self.viscosity)}, expected a constant viscosity; leave "
                "out one of them"
            )
        around, beyond, closed = (self._around.with_rule(rule) for rule in (Extrapolate(1), Extrapolate(0), "zero"))
        moving = self.velocities if self.bodies == "moving" else ()
        surfaces = {f"{name}_wall": Variable(around, self.states[name].location, "m/s") for name in moving}
        self.parameters = {**self.parameters, "phi": Variable(around, unit="m"), **surfaces}
        self.states = {**self.states, **{f"force_{axis}": Variable(axes=(), unit="m³/s²") for axis in self.axes}}
        handed_on = {name: one.boundary for name, one in self.parameters.items() if one.axes is None and name != "phi"}
        films = {f"{name}_film": closed for name in self.velocities if self.sharp}
        walls = {f"{name}_{what}": beyond for name in self.velocities for what in (("fluid", "grip", "least") if self.sharp else ("grip",))}
        walls |= {f"{name}_solid": beyond for name, g in zip(self.velocities, self.gravity, strict=False) if g}
        walls |= {f"centre_open_{axis}": beyond for axis in range(2) if self.fluxes}
        self.coefficient_boundaries = handed_on | films | walls
        self.coefficients = self._coefficients  # type: ignore[method-assign]

    def _coefficients(self, phi: Symbol, **others: Symbol) -> dict[str, Symbol]:
        lifted = [g != 0 for g in self.gravity or (0.0,) * self.grid.ndim]
        spacing, walls = self.grid.spacing, []
        for k, name in enumerate(self.velocities):
            drawn = wall_fields(phi, name, k, spacing, lifted[k]) if self.sharp else None
            walls.append(drawn or resistance_fields(phi, name, k, spacing, self.order, lifted[k]))
        if self.fluxes:
            walls.append(flux_fields(phi, spacing))
        if {*self.scalars} - {*self.fluxes}:
            walls.append(drawing_fields(phi, "centre", spacing) if self.sharp else {"centre_grip": resistance(phi, spacing, self.order)})
        handed_on = {name: one for name, one in others.items() if name in self.parameters}
        return handed_on | {name: one for fields in walls for name, one in fields.items()}

    def step(self, p: Symbol, nu: Symbol, **now: Symbol) -> dict[str, Any]:
        kappas = {name: now[f"kappa_{name}"] for name in self.scalars}
        through = {name: now[f"{name}_flux"] for name in self.fluxes}
        held = {name: kappa for name, kappa in kappas.items() if name not in through}
        walls = Walls(now, self.velocities, nu, p, self.grid.spacing, held, through) if self.bodies != "none" and self.sharp else None
        soft = Resistance(now, self.velocities, nu, p, math.prod(self.grid.spacing), self.order, kappas) if not self.sharp else None
        forces = dict(zip(self.velocities, (now[name] for name in self.forces), strict=False))

        def rate(v: dict[str, Symbol]) -> dict[str, Symbol]:
            # ν ∇²v - ∇·(v vᵀ) + f - β s g, and κ ∇²s - ∇·(v s). Where ν and κ act implicitly: -∇p for ν ∇²v, and 0 for κ ∇²s.
            parts = [v[name] for name in self.velocities]
            inert = (advection(parts, k, self.order) for k in range(len(parts)))
            stress = [-slope for slope in grad(p, self.order)] if self.implicit else self._friction(parts, nu, now)
            rates = {name: push - flux for name, push, flux in zip(self.velocities, stress, inert, strict=True)}
            rates = {name: rates[name] + forces[name] if name in forces else rates[name] for name in self.velocities}
            for side, name in self.outlets.items():
                free = outflow(parts, *side, now[f"on_{name}"], now[f"beside_{name}"], self.grid)
                rates = {name: rates[name] + free[k] for k, name in enumerate(self.velocities)}
            lifts = {}
            for k, g in enumerate(self.gravity):
                if g:
                    lighter = add([now[f"beta_{name}"] * v[name] for name in self.scalars])
                    lifts[self.velocities[k]] = -g * interpolate(lighter, k, self.order)
            rates = {name: rates[name] + lifts[name] if name in lifts else rates[name] for name in self.velocities}
            for name in self.scalars:
                spread = 0.0 if self.implicit else kappas[name] * laplacian(v[name], self.order)
                rates[name] = spread - (walls.carried(v, name) if walls else carried(parts, v[name], self.order))
                if name in through and walls:
                    rates[name] = walls.with_flux(v, name, kappas[name])
            if soft:
                return soft.pushed(rates, lifts)
            return walls.felt(v, rates, lifts) if walls else rates

        def project(v: dict[str, Symbol], dt: Any) -> dict[str, Symbol]:
            source = div([v[name] for name in self.velocities], self.order) / dt
            pressure = solve(lambda q: div(grad(q, self.order), self.order), source, boundary=p)
            slopes = grad(pressure, self.order)
            if self.implicit:
                pressure = p + pressure - IMPLICIT_SHARE * self.dt * nu * source
            return v | {name: v[name] - dt * slope for name, slope in zip(self.velocities, slopes, strict=True)} | {"p": pressure}

        start = {name: now[name] for name in (*self.velocities, *self.scalars)}
        if self.implicit:
            return imex_ars222(rate, self._operators(nu, now), start, self.dt, project=project)
        if walls:
            return walls.forces(self.method(rate, start, self.dt, project=walls.project))
        if soft:
            return soft.forces(self.method(rate, start, self.dt, project=soft.project), self.axes)
        return self.method(rate, start, self.dt, project=project)

    def _operators(self, nu: Symbol, now: Mapping[str, Symbol]) -> dict[str, Callable[[Symbol], Symbol]]:
        """Operators that "imex2" takes implicitly: friction of the velocities, diffusion of the scalars."""

        def spreading(coefficient: Symbol) -> Callable[[Symbol], Symbol]:
            return lambda x: coefficient * laplacian(x, self.order)

        return {name: spreading(nu) for name in self.velocities} | {name: spreading(now[f"kappa_{name}"]) for name in self.scalars}

    def _friction(self, v: list[Symbol], nu: Symbol, now: Mapping[str, Symbol]) -> Iterable[Symbol]:
        """∇·(ν (∇v + ∇vᵀ)), which is ν ∇²v where ν is constant."""
        if self.viscosity == "constant":
            return (nu * laplacian(part, self.order) for part in v)
        if self.viscosity == "field":
            return layered(v, nu)
        return smagorinsky(v, nu, now["C_s"], math.prod(self.grid.spacing) ** (1 / self.grid.ndim), self._around.with_rule("mirror"))

    def check(self, parameters: Mapping[str, Array]) -> None:
        nu, layers = parameters["nu"], self.viscosity == "field"
        check_sign("viscosity nu", nu, "m²/s", positive=layers)
        if self.bodies != "none":
            check_outline(parameters["phi"], self._around)
            if not self.sharp:
                check_slope(parameters["phi"], self.grid.spacing)
        for name in ("nu", *(f"kappa_{name}" for name in self.scalars)):
            check_sign(name, parameters[name], "m²/s", positive=False)
            if (most := float(parameters[name].max())) > 0:
                limit = self._reach / (most * laplacian_bound(self.grid, self.order))
                check_step(self.dt, limit, f"{name} = {most:.4g} m²/s, dx = {min(self.grid.smallest):.4g} m, order {self.order}")
        self.check_series(parameters, parameters)

    def check_series(self, parameters: Mapping[str, Array], series: Mapping[str, Array]) -> None:
        """Raise if `dt` is not stable for a flow with the velocity of a side, or if more fluid enters than leaves."""
        inlets = {name: axis for (axis, _), name in self._around.inlets().items()}
        if inlets and self.bodies != "moving" and all(name in series or name not in self.series for name in inlets):
            on_sides: dict[str, Array] = {name: series[name] for name in inlets.keys() & {*self.series}}
            for name, axis in inlets.items():
                if name not in self.series:
                    values = np.asarray(parameters[name])
                    on_sides[name] = np.asarray(values.take(0, axis)) if values.ndim == self.grid.ndim else values
            self._around.check_balance(self.grid, on_sides, bodies=self.bodies != "none")
        least = sorted((float(parameters[name].min()), name) for name in ("nu", *(f"kappa_{name}" for name in self.scalars)))
        for axis, name in self._around.speeds():
            if name in series:
                speed, width = float(np.abs(series[name]).max()), self.grid.smallest[axis]
                for diffusion, by in least:
                    check_flow(self.dt, self._tableau.growth, speed, diffusion, width, name, by)


def _face(axis: int, ndim: int) -> tuple[int, ...]:
    return tuple(int(other == axis) for other in range(ndim))
