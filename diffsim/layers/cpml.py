"""The convolutional perfectly matched layer, as a function that wraps a derivative."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from diffsim.base.arguments import instance, number, positive, whole
from diffsim.errors import ParameterError, ShapeError, TraceError
from diffsim.expr.operators import add, diff, diff_second, laplacian, place_along
from diffsim.expr.symbol import Symbol, describe
from diffsim.layers.cells import Cells, Pair, cells_of_sides
from diffsim.mesh.field import Location
from diffsim.mesh.grid import Grid
from diffsim.stepping.declare.equation import Profile, Variable
from diffsim.stepping.trace.stages import trace_of
from diffsim.stepping.trace.trace import check_location
from diffsim.typing import Array


@dataclass(frozen=True)
class Stretch:
    """Along one axis, at centres or at faces: ψⁿ⁺¹ = b ψⁿ + a ∂u, and the stretched derivative ∂u / κ + ψⁿ⁺¹.

    Attributes:
        a: 0 outside the layer.
        b: 1 outside the layer, so that ψ stays the same, and steps can be undone there.
        per_kappa: 1 / κ.
        gain: of ∂u/∂x in the rate of ψ, a / dt, 1/s.
        decay: of ψ in its rate, (1 - b) / dt, 1/s; 0 outside the layer.
    """

    a: Profile
    b: Profile
    per_kappa: Profile
    gain: Profile
    decay: Profile


class CPML:
    """A layer in which waves of any equation are damped without a reflection at its rim, in the continuum, at any angle.

    Each derivative across the layer is taken along a stretched complex coordinate, which for exp(iωt) is

        ∂u / ∂x̃ = ∂u/∂x / s,   s = κ + σ / (α + iω)

    and in time a convolution. It is computed by recursion, with one memory variable ψ for each derivative (second order in time, where the
    derivative is half-way between the values that it advances):

        ∂u/∂x̃ = ∂u/∂x / κ + ψⁿ⁺¹,   ψⁿ⁺¹ = b ψⁿ + a ∂u/∂x,   b = exp(-(σ/κ + α) dt),   a = σ (b - 1) / (κ (σ + κ α))

    With ξ from 0 at the inner rim of the layer to 1 at the edge of the grid: σ = σ₀ ξᵐ, κ = 1 + (κ₀ - 1) ξᵐ, α = π f (1 - ξ). A wave that
    crosses the layer at a right angle, is reflected at the edge and crosses again is damped to `reflection`, R, which gives σ₀. At an angle
    θ it is damped to R^cos θ: grazing waves need an R so small that at a right angle it would be out of all reach of the grid.

        self.layer = CPML(grid, dt, cells=20, speed=3000.0, frequency=25.0)
        self.states = {"p": Variable(), "v": Variable("zero", (1,)), "psi_p": self.layer.memory(0, (1,)), "psi_v": self.layer.memory(0)}
        ...
        def step(self, p, v, psi_p, psi_v, K, b):
            p_x, psi_p = self.layer.stretch(diff(p, 0), 0, psi_p)
            v = stage(v - self.dt * interpolate(b, 0) * p_x)
            v_x, psi_v = self.layer.stretch(diff(v, 0), 0, psi_v)
            return {"p": p - self.dt * K * v_x, "v": v, "psi_p": psi_p, "psi_v": psi_v}

    Args:
        grid: the grid, uniform or not.
        dt: time step, s.
        cells: of the layer: one number for all sides, or one entry an axis, where a pair is that of the low and of the high side. 0: there
            is no layer.
        speed: the largest wave speed in the layer, m/s.
        frequency: the dominant frequency of the waves, Hz. Slower ones are damped less, which keeps long runs stable.
        reflection: R, amplitude that comes back at normal incidence, in the continuum; None: 10⁻ⁿ for a side of n cells. On a grid a
            smaller one needs more cells.
        grading: m, the power with which σ and κ grow; None: 1 + 0.15 n, at most 3.
        kappa: κ₀, the largest κ, at least 1. Above 1, waves that graze the layer or fade into it are damped more, and all waves are shorter
            in it by up to this factor, so they need more cells a wavelength.

    Raises:
        ParameterError: cells that leave none between them, or numbers out of range.

    Good values: 10 to 20 cells, and the defaults for the others. At 10 cells a wavelength, 20 cells give back 6e-6
    at a right angle and less up to 80°, 10 cells 2e-4 and 5e-4 at 80°.

    Reference: Roden and Gedney (2000), Convolution PML (CPML): an efficient FDTD implementation of the CFS-PML for arbitrary media, Microw.
        Opt. Technol. Lett. 27, 334-339, doi:10.1002/1098-2760(20001205)27:5<334::AID-MOP14>3.0.CO;2-A; Komatitsch and Martin (2007), An
        unsplit convolutional perfectly matched layer improved at grazing incidence for the seismic wave equation, Geophysics 72,
        SM155-SM167, doi:10.1190/1.2757586. Here R depends on the cells.

    Example:
        import numpy as np

        import diffsim as ds
        from diffsim.expr import diff

        class Line(ds.Equation):
            # Sound along a line, p and v on a staggered grid, that leaves at both ends.

            def __init__(self, grid, dt):
                self.grid, self.dt = grid, dt
                self.layer = ds.layers.CPML(grid, dt, cells=15, speed=340.0, frequency=25.0)
                self.states = {"p": ds.Variable(), "v": ds.Variable("zero", (1,))}
                self.states |= {"psi_p": self.layer.memory(0, (1,)), "psi_v": self.layer.memory(0)}

            def step(self, p, v, psi_p, psi_v):
                p_x, psi_p = self.layer.stretch(diff(p, 0), 0, psi_p)
                v = ds.stage(v - self.dt / 1.2 * p_x, boundary="zero")
                v_x, psi_v = self.layer.stretch(diff(v, 0), 0, psi_v)
                return {"p": p - self.dt * 1.2 * 340.0**2 * v_x, "v": v, "psi_p": psi_p, "psi_v": psi_v}

        grid = ds.Grid((120,), spacing=0.5)
        a = ((grid.coordinates(0) - 30.0) / 3.0) ** 2
        pulse = (1 - 2 * a) * np.exp(-a)
        p = ds.Simulation(Line(grid, dt=1e-3), precision="f64").run({"p": pulse}, steps=200).final["p"]
        assert abs(p).max() < 1e-3  # after 68 m nothing is left
    """

    def __init__(
        self,
        grid: Grid,
        dt: float,
        cells: Cells,
        speed: float,
        frequency: float,
        reflection: float | None = None,
        grading: float | None = None,
        kappa: float = 1.0,
    ) -> None:
        self.grid: Grid = instance("grid", grid, Grid, "a diffsim.Grid", "give the grid of the equation")
        self.dt = positive("dt", dt, "give the time step in seconds", "s")
        self.cells = cells_of_sides("cells", cells, grid)
        self.speed = positive("speed", speed, "give the largest wave speed in the layer, m/s", "m/s")
        self.frequency = positive("frequency", frequency, "give the dominant frequency of the waves, Hz", "Hz")
        self.reflection, self.grading = reflection, grading
        if reflection is not None:
            self.reflection = number("reflection", reflection, "a number between 0 and 1", lambda x: 0 < x < 1, "leave it out")
        if grading is not None:
            self.grading = number("grading", grading, "a number of at least 1", lambda x: 1 <= x < math.inf, "give one such as 2")
        self.kappa = number("kappa", kappa, "a number of at least 1", lambda x: 1 <= x < math.inf, "give 1, or up to 7")
        self._stretches = {
            (axis, place): self._stretch(axis, place) for axis, sides in enumerate(self.cells) if any(sides) for place in (0, 1)
        }

    def memory(self, axis: int, location: Location | None = None) -> Variable:
        """The memory variable of one derivative, for the states of the equation. It exists in the layer of that axis only, and starts at 0.

        Args:
            axis: along which the derivative is taken.
            location: where the derivative lies, 0 centre or 1 upper face, an entry an axis; None: the centre.

        Raises:
            ShapeError: an axis or a location that there is not on the grid.
        """
        ndim = self.grid.ndim
        axis = whole("axis", axis, -ndim, ndim - 1, "give the axis of the derivative", ShapeError) % ndim
        place = check_location(Variable("zero", location).location or (0,) * ndim, ndim)[axis]
        depth = sum((into for _, into, _ in _sides(self.grid, axis, place, self.cells[axis])), np.zeros(self.grid.shape[axis]))
        layer = (depth > 0).reshape([-1 if each == axis else 1 for each in range(ndim)])
        return Variable("zero", location, region=np.broadcast_to(layer, self.grid.shape))

    def stretch(self, derivative: Symbol, axis: int, memory: Symbol) -> tuple[Symbol, Symbol]:
        """The derivative along the stretched coordinate, and the next value of its memory variable.

        It is for schemes that advance each field once a step, such as leap-frogs; `rate` is for the others.

        Args:
            derivative: an expression for ∂u/∂x along the axis, of any order, at centres or faces.
            axis: along which it is taken.
            memory: the state that keeps its past, declared by `memory` at the same location.

        Returns:
            The value in place of the derivative in the step, and the new value of the memory variable.

        Raises:
            TraceError: it is called outside the step of an equation with this grid and dt.
            ShapeError: an axis along which the derivative does not vary, or a memory variable that lies elsewhere.
        """
        profile = self._found(derivative, axis, memory, "stretch()")
        if profile is None:
            return derivative, memory
        following = _read(derivative, profile.b) * memory + _read(derivative, profile.a) * derivative
        return self._shrunk(derivative, profile) + following, following

    def memories(self, name: str) -> dict[str, Variable]:
        """The memory variables of `laplacian` or `divergence` of a field, for the states of the equation: two an axis with a layer.

        Args:
            name: of the field, of which theirs are made.
        """
        memories: dict[str, Variable] = {}
        for axis in self._axes():
            psi, zeta = _names(name, axis)
            face = tuple(int(each == axis) for each in range(self.grid.ndim))
            memories |= {psi: self.memory(axis, face), zeta: self.memory(axis)}
        return memories

    def laplacian(self, f: Symbol, name: str, memories: Mapping[str, Symbol], order: int = 2) -> tuple[Symbol, dict[str, Symbol]]:
        """∇²f along the stretched coordinates, and the next values of its memory variables: for equations of second order in time.

            ∂²f/∂x̃² = ∂²f/∂x² + ∂ψ/∂x + ζ,   ψ that of ∂f/∂x,   ζ that of ∂²f/∂x² + ∂ψ/∂x

        Away from the layer it is `diffsim.expr.laplacian`, bit for bit and at its cost. ψ lies on faces. Its differences have two orders
        less, down to 2. Then, taken twice, they are at no wave number larger than the second difference, and no wave grows: slow short
        waves have (1 - 1/s) times the one taken from the other as their spring.

            self.states = {"p": Variable(), "p_prev": Variable()} | self.layer.memories("p")
            ...
            def step(self, p, p_prev, m, **memories):
                curvature, memories = self.layer.laplacian(p, "p", memories, order=8)
                return {"p": 2 * p - p_prev + m * curvature, "p_prev": p} | memories

        Args:
            f: the field, or an expression.
            name: as in `memories`.
            memories: states that `memories` declares; others may be among them.
            order: of the Laplacian.

        Raises:
            ParameterError: `kappa` is not 1.
            TraceError, ShapeError: see `stretch`.

        Reference: Pasalic and McGarry (2010), Convolutional perfectly matched layer for isotropic and anisotropic acoustic wave equations,
            SEG Technical Program Expanded Abstracts 29, 2925-2929, doi:10.1190/1.3513453.
        """
        if self.kappa != 1:
            raise ParameterError(f"kappa = {self.kappa:g} in laplacian(), expected 1; leave it out, or use divergence()")
        total, following, lower = laplacian(f, order), {}, max(order - 2, 2)
        for axis in self._axes():
            psi, zeta = _names(name, axis)
            _, following[psi] = self.stretch(diff(f, axis, lower), axis, memories[psi])
            slope = diff(following[psi], axis, lower)
            _, following[zeta] = self.stretch(diff_second(f, axis, order) + slope, axis, memories[zeta])
            total = total + slope + following[zeta]
        return total, following

    def divergence(
        self, f: Symbol, name: str, memories: Mapping[str, Symbol], order: int, flux: Callable[[Symbol, int], Symbol]
    ) -> tuple[Symbol, dict[str, Symbol]]:
        """Σ ∂/∂x̃ flux(∂f/∂x̃) along the stretched coordinates, and the next values of its memory variables.

        Arguments and errors are those of `laplacian`; `kappa` may be any.

        Args:
            flux: (slope on the faces of an axis, the axis) -> the flow through them, such as `slope / interpolate(rho, axis)`.
        """
        parts, following = [], {}
        for axis in range(self.grid.ndim):
            psi, zeta = _names(name, axis)
            slope = diff(f, axis, order)
            if psi in memories:
                slope, following[psi] = self.stretch(slope, axis, memories[psi])
            part = diff(flux(slope, axis), axis, order)
            if zeta in memories:
                part, following[zeta] = self.stretch(part, axis, memories[zeta])
            parts.append(part)
        return add(parts), following

    def _axes(self) -> list[int]:
        """The axes that have a layer."""
        return [axis for axis, sides in enumerate(self.cells) if any(sides)]

    def rate(self, derivative: Symbol, axis: int, memory: Symbol) -> tuple[Symbol, Symbol]:
        """The derivative along the stretched coordinate, and the rate of its memory variable: for `diffsim.integrators`.

            ∂u/∂x̃ = ∂u/∂x / κ + ψ,   ψₜ = -d ψ + a / dt ∂u/∂x,   d = (1 - b) / dt

        For small steps d = σ/κ + α. For any step d dt stays below 1, which keeps explicit methods stable, and a layer of other, smaller
        rates is a layer still. Arguments and errors are those of `stretch`.

        Reference: Gedney and Zhao (2010), An auxiliary differential equation formulation for the complex-frequency shifted PML, IEEE Trans.
            Antennas Propag. 58, 838-847, doi:10.1109/TAP.2009.2037765.
        """
        profile = self._found(derivative, axis, memory, "rate()")
        if profile is None:
            return derivative, 0 * memory
        rate = _read(derivative, profile.gain) * derivative - _read(derivative, profile.decay) * memory
        return self._shrunk(derivative, profile) + memory, rate

    def profile(self, axis: int, location: int = 0) -> dict[str, Array]:
        """The figures of the layer along an axis, at centres (location 0) or upper faces (1), by the names of `Stretch`; shape (cells,).

        Raises:
            ShapeError: an axis or a location that there is not, or an axis without a layer.
        """
        axis = whole("axis", axis, -self.grid.ndim, self.grid.ndim - 1, "give an axis of the grid", ShapeError) % self.grid.ndim
        place = whole("location", location, 0, 1, "give 0 for centres or 1 for upper faces", ShapeError)
        if (axis, place) not in self._stretches:
            raise ShapeError(f"a profile along axis {axis}, which has no layer, expected one of an axis with cells; see `cells`")
        stretch = self._stretches[axis, place]
        return {name: profile.values.copy() for name, profile in vars(stretch).items()}

    def _found(self, derivative: Symbol, axis: int, memory: Symbol, what: str) -> Stretch | None:
        """The figures where the derivative lies, or None where there is no layer."""
        graph = trace_of(instance("derivative", derivative, Symbol, "an expression of the step", "write it like diff(p, 0)"), what)
        instance("memory", memory, Symbol, "a state of the step", "declare it by memory(axis, location)")
        axis, place = place_along(derivative, axis, what)
        if graph.grid != self.grid or graph.dt != self.dt:
            built, used = (f"{part.grid} and dt = {part.dt:g} s" for part in (self, graph))
            raise TraceError(f"a layer of {built} in a step of {used}, expected the same; build it from those of the equation")
        if memory.location != derivative.location:
            there, here = describe(memory.location), describe(derivative.location)
            raise ShapeError(
                f"a memory variable at {there}, expected it where the derivative lies, at {here}; "
                f"declare it by memory({axis}, {derivative.location})"
            )
        return self._stretches.get((axis, place))

    def _shrunk(self, derivative: Symbol, stretch: Stretch) -> Symbol:
        """The derivative divided by κ."""
        return derivative if self.kappa == 1 else _read(derivative, stretch.per_kappa) * derivative

    def _stretch(self, axis: int, place: int) -> Stretch:
        n = self.grid.shape[axis]
        depth, sigma, kappa = np.zeros(n), np.zeros(n), np.ones(n)
        for cells, into, thickness in _sides(self.grid, axis, place, self.cells[axis]):
            grading = min(3.0, 1 + 0.15 * cells) if self.grading is None else self.grading
            exponent = cells * math.log(10) if self.reflection is None else -math.log(self.reflection)
            depth += into
            sigma += (grading + 1) * self.speed * exponent / (2 * thickness) * into**grading
            kappa += (self.kappa - 1) * into**grading
        alpha = math.pi * self.frequency * (1 - depth)
        inside = depth > 0
        b = np.where(inside, np.exp(-(sigma / kappa + alpha) * self.dt), 1.0)
        a = np.where(inside, sigma * (b - 1) / np.where(inside, kappa * (sigma + kappa * alpha), 1.0), 0.0)
        return Stretch(*(Profile(axis, values, place) for values in (a, b, 1 / kappa, a / self.dt, (1 - b) / self.dt)))


def _names(field: str, axis: int) -> tuple[str, str]:
    """The names of ψ and ζ."""
    return f"psi_{field}{axis}", f"zeta_{field}{axis}"


def _sides(grid: Grid, axis: int, place: int, sides: Pair) -> list[tuple[int, Array, float]]:
    """For each side of an axis with a layer its cells, the depth of each centre or upper face in it, 0 at the rim to 1 at the edge of the
    grid and 0 outside, and its thickness."""
    ends = np.concatenate([[0.0], np.cumsum(grid.widths(axis))])  # a face on the rim is one of them, so its depth is 0 without rounding
    at = ends[1:] if place else 0.5 * (ends[:-1] + ends[1:])
    depths = []
    for cells, into, faces in ((sides[0], ends[sides[0]] - at, ends), (sides[1], at - ends[-1 - sides[1]], ends[::-1])):
        if cells:
            thickness = float(abs(faces[cells] - faces[0]))
            depths.append((cells, (into / thickness).clip(0, 1), thickness))
    return depths


def _read(like: Symbol, profile: Profile) -> Symbol:
    """A profile in the step of an expression. It joins the profiles of that step here, so that no equation has to declare it."""
    return trace_of(like, "stretch()").profile(id(profile), profile, like)
