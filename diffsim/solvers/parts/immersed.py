"""Walls of bodies inside a flow on the staggered grid, between the places of the velocities.

A body is where phi < 0, the signed distance to its outline. Three things change at velocities next to the outline, along straight lines
between their places on which phi is linear:

- the second differences of the viscous term end at the wall, where the fluid has the wall's velocity (Shortley and Weller);
- a place inside of a body has the wall's velocity, by a friction that is infinite there and grows without limit as a place nears the wall.
  It is taken implicitly, and so is its share in the pressure gradient: the weights of the Poisson equation are S = 1 / (1 + dt ν K), and
  a steady flow does not depend on dt;
- the velocity rises linearly from the wall, so what flows through a face that the wall cuts is not the velocity in its middle times its
  width. The difference, the film, enters the balance of mass. Without it, each wall would slip by a few hundredths of a cell, and the
  method would be of first order.

A scalar has the value of the wall in the same way: its second differences end there, and a friction draws it. It is carried by what flows
through faces, films included, in the form v·∇s, so that a scalar which is the same everywhere stays so.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from diffsim.expr.functions import clip, maximum, minimum, sqrt, where
from diffsim.expr.operators import add, diff, interpolate
from diffsim.expr.reductions import sum as total
from diffsim.expr.symbol import Symbol
from diffsim.expr.vectors import div, grad
from diffsim.solvers.parts.fluxes import carried
from diffsim.solvers.parts.penalty import solid
from diffsim.stepping.stages.solve import solve

TINY = 1e-30
"""Keeps quotients of distances, in metres, from 0 / 0."""
LEAST = (1e-6, 1e-3)
"""Smallest weights of the Poisson equation, inside of a body and, times its open part, on a face that the wall cuts. They make its matrix
regular where a cell has no open middle of a face."""


def wall_fields(phi: Symbol, velocity: str, axis: int, spacing: Sequence[float], lifted: bool = False) -> dict[str, Symbol]:
    """Fields for the walls next to faces across an axis, in two dimensions.

    With a = max(-phi, 0) at a neighbour at distance h, where the wall lies at a distance θ h = h phi / (phi + a):

        beside = (1 - θ) / (1 + θ)                   more weight of the opposite neighbour, a field for each neighbour
        grip = phi Σ (2 / (θ (1 + θ)) - 1) / h²      phi K, which is finite
        film                                         mean over the face of max(phi, 0), less the value in its middle, over Σ max(phi, 0)²
        least                                        smallest weight in the Poisson equation
        solid                                        part of the cell around the velocity that lies in the body, if lifted

    Args:
        phi: signed distance at centres, m.
        velocity: name of the velocity across the axis.
        axis: number of the axis.
        spacing: of the grid, m.
        lifted: whether scalars accelerate the velocity.
    """
    along = 1 - axis
    distance = interpolate(phi, axis, 4)
    fields = drawing_fields(distance, velocity, spacing)
    fluid = fields[f"{velocity}_fluid"]
    high = interpolate(distance, along)
    low = high.shifted(along, -1)
    wet, dry = (maximum(maximum(sign * low, sign * high), 0.0).across(along) for sign in (1, -1))
    least = minimum(wet, dry)
    squares = add([fluid.shifted(along, cells) ** 2 for cells in (-1, 0, 1)])
    fields[f"{velocity}_film"] = least * least / (2 * (wet + dry) + TINY) / (squares + TINY)
    fields[f"{velocity}_least"] = LEAST[0] + LEAST[1] * wet / (wet + dry + TINY)
    if lifted:  # exact where the wall is straight along an axis; so a sum over cells is an area to second order
        fields[f"{velocity}_solid"] = solid(distance)
    return fields


def drawing_fields(distance: Symbol, name: str, spacing: Sequence[float]) -> dict[str, Symbol]:
    """Fields with which walls draw a velocity or a scalar: `fluid`, max(phi, 0), and `beside` and `grip` of `wall_fields`.

    Args:
        distance: phi at the places of the velocity or scalar, m.
        name: with which the names of the fields begin.
        spacing: of the grid, m.
    """
    fluid = maximum(distance, 0.0)
    fields, grip = {f"{name}_fluid": fluid}, maximum(-distance, 0.0) / min(spacing) ** 2
    for way, h in enumerate(spacing):
        for cells in (-1, 1):
            a = maximum(-distance.shifted(way, cells), 0.0)
            fields[_beside(name, way, cells)] = a / (2 * fluid + a + TINY)
            grip = grip + a * (3 * fluid + 2 * a) / (2 * fluid + a + TINY) / h**2
    fields[f"{name}_grip"] = grip
    return fields


def open_part(distance: Symbol, ways: Sequence[int]) -> Symbol:
    """The part of a line along one axis, or of a rectangle along two, that lies in the fluid.

    Args:
        distance: phi in its middle, m.
        ways: the axes along which it lies. Of one axis it is exact where phi is linear, of several where phi varies along one.
    """
    width = add([abs(distance.shifted(way, 1) - distance.shifted(way, -1)) for way in ways]) / 2
    return clip(0.5 + distance / (width + TINY), 0.0, 1.0)


def flux_fields(phi: Symbol, spacing: Sequence[float]) -> dict[str, Symbol]:
    """Fields for a flux of scalars through walls, in two dimensions.

        centre_open_0, centre_open_1     open part of the upper face across each axis
        centre_wall                      length of the wall in a cell over the volume of the cell, 1/m
        centre_room                      open part of a cell, or what its open faces need for a stable time step, if that is more

    The wall in a cell is the line that closes its open faces: its length along each axis is the difference of the open parts of two
    opposite ones.

    Args:
        phi: signed distance at centres, m.
        spacing: of the grid, m.
    """
    faces = [open_part(interpolate(phi, axis, 4), [1 - axis]) for axis in range(2)]
    fields = {f"centre_open_{axis}": part for axis, part in enumerate(faces)}
    squares, need = [], []
    for axis, (part, h) in enumerate(zip(faces, spacing, strict=True)):
        squares.append(diff(part, axis) ** 2)
        need.append(2 * interpolate(part, axis) / h**2)
    fields["centre_wall"] = sqrt(add(squares) + TINY)
    bound = add(need) / sum(2 / h**2 for h in spacing)
    fields["centre_room"] = maximum(maximum(open_part(phi, [0, 1]), bound), LEAST[1])
    return fields


def names_of_walls(velocities: Sequence[str]) -> set[str]:
    """The names that the fields of walls take, in two dimensions: those of `wall_fields`, of scalars, and of velocities of walls."""
    places = (*velocities, "centre")
    names = {f"{place}_{what}" for place in places for what in ("fluid", "grip")}
    names |= {_beside(place, way, cells) for place in places for way in (0, 1) for cells in (-1, 1)}
    names |= {f"centre_{what}" for what in ("open_0", "open_1", "wall", "room")}
    return names | {f"{name}_{what}" for name in velocities for what in ("film", "least", "solid", "wall")}


def _beside(velocity: str, axis: int, cells: int) -> str:
    return f"{velocity}_beside_{'low' if cells < 0 else 'high'}_{axis}"


@dataclass
class Walls:
    """The walls of bodies in one step.

    Attributes:
        fields: all fields of the step by name, see `wall_fields`.
        velocities: names of the velocities, in the order of the axes.
        nu: viscosity.
        pressure: the state whose rules the pressure has.
        spacing: of the grid.
        diffusivities: of scalars whose values at the walls are known, by their names.
        fluxes: of the others the flux through the walls, unit of the scalar times m/s.
        drawn: for each velocity and scalar the friction or diffusion by walls next to which the last rates were taken.
        films: for each velocity the film at its faces, of the last rates.
        lifts: for each velocity that scalars accelerate the acceleration in the last rates.
    """

    fields: Mapping[str, Symbol]
    velocities: Sequence[str]
    nu: Symbol
    pressure: Symbol
    spacing: Sequence[float]
    diffusivities: Mapping[str, Symbol] = field(default_factory=dict)
    fluxes: Mapping[str, Symbol] = field(default_factory=dict)
    drawn: dict[str, Symbol] = field(default_factory=dict)
    films: dict[str, Symbol] = field(default_factory=dict)
    lifts: Mapping[str, Symbol] = field(default_factory=dict)

    def felt(self, v: Mapping[str, Symbol], rates: Mapping[str, Symbol], lifts: Mapping[str, Symbol]) -> dict[str, Symbol]:
        """The rates with the explicit part of what walls change. Remembers it, films and lifts for the projection that follows."""
        self.lifts = lifts
        for axis, name in enumerate(self.velocities):
            self.drawn[name] = self.nu * self._opposite(name, name, v[name])
            self.films[name] = self._film(axis, v)
        for name, kappa in self.diffusivities.items():
            self.drawn[name] = kappa * self._opposite("centre", name, v[name])
        return {name: rate + self.drawn[name] if name in self.drawn else rate for name, rate in rates.items()}

    def carried(self, v: Mapping[str, Symbol], name: str) -> Symbol:
        """v·∇s of a scalar, by what flows through faces."""
        flowing = [v[one] + self._film(axis, v) for axis, one in enumerate(self.velocities)]
        return carried(flowing, v[name], 2) - v[name] * div(flowing)

    def with_flux(self, v: Mapping[str, Symbol], name: str, kappa: Symbol) -> Symbol:
        """The rate of a scalar in the open part of each cell, from its open faces and the flux through the wall.

        At faces of cells that a wall cuts the scalar is that upwind: these cells have a divergence, with which a mean of two values may
        grow.
        """
        T, room = v[name], self.fields["centre_room"]
        rates = [self.fields["centre_wall"] * self.fluxes[name]]
        for axis, one in enumerate(self.velocities):
            flowing = v[one] + self._film(axis, v)
            cut = minimum(room, room.shifted(axis, 1)).across(axis) < 1
            upwind = where(flowing > 0, T.across(axis), T.shifted(axis, 1).across(axis))
            brought = flowing * where(cut, upwind, interpolate(T, axis))
            spread = self.fields[f"centre_open_{axis}"] * kappa * diff(T, axis)
            rates.append(diff(spread - brought, axis) + T * diff(flowing, axis))
        return add(rates) / room

    def _opposite(self, place: str, name: str, f: Symbol) -> Symbol:
        """Extra weight of neighbours opposite to walls in second differences."""
        slip = self._slip(name, f)
        ways = [(way, h, cells) for way, h in enumerate(self.spacing) for cells in (-1, 1)]
        return add([self.fields[_beside(place, way, cells)] * (slip.shifted(way, -cells) - slip) / h**2 for way, h, cells in ways])

    def _film(self, axis: int, v: Mapping[str, Symbol]) -> Symbol:
        name = self.velocities[axis]
        flowing = self.fields[f"{name}_fluid"] * self._slip(name, v[name])
        return self.fields[f"{name}_film"] * add([flowing.shifted(1 - axis, cells) for cells in (-1, 0, 1)])

    def _free(self, place: str, diffusion: Any) -> Symbol:
        """S = 1 / (1 + K times a viscosity or diffusivity and the time)."""
        fluid, grip = self.fields[f"{place}_fluid"], self.fields[f"{place}_grip"]
        return fluid / (fluid + diffusion * grip + TINY)

    def project(self, v: Mapping[str, Symbol], dt: Any) -> dict[str, Symbol]:
        """Velocities that stick to the walls, and without divergence of what flows; scalars that have the walls' values; the pressure; and
        the forces on bodies and what they give of scalars, cell by cell.

        With S = 1 / (1 + dt ν K) and the wall's velocity w: u = S (v - dt ∇p) + (1 - S) w. The force is all that the walls take from the
        momentum of the grid, K ν (u - w) and the explicit part in the fluid, and all of v / dt - ∇p inside of bodies, less the lift of what
        lies inside: no fluid is there.
        """
        free, starred, weights = {}, {}, {}
        for name in self.velocities:
            free[name] = self._free(name, dt * self.nu)
            starred[name] = self._wall(name, free[name]) + free[name] * v[name]
            weights[name] = maximum(free[name], self.fields[f"{name}_least"])
        source = div([starred[name] + self.films[name] for name in self.velocities]) / dt

        def poisson(q: Symbol) -> Symbol:
            return div([weights[name] * slope for name, slope in zip(self.velocities, grad(q), strict=True)])

        pressure = solve(poisson, source, boundary=self.pressure, method="lu")
        slopes = dict(zip(self.velocities, grad(pressure), strict=True))
        moved = {name: starred[name] - dt * free[name] * slopes[name] for name in self.velocities}
        forces = {}
        for name in self.velocities:
            taken = self._slip(name, v[name]) / dt - slopes[name]
            forces[f"force of {name}"] = (1 - free[name]) * taken - self.drawn[name]
            if name in self.lifts:
                forces[f"force of {name}"] -= self.fields[f"{name}_solid"] * self.lifts[name]
        for name, kappa in self.diffusivities.items():
            stays, excess = self._free("centre", dt * kappa), self._slip(name, v[name])
            moved[name] = v[name] - (1 - stays) * excess
            forces[f"heat of {name}"] = self.drawn[name] - (1 - stays) * excess / dt
        for name, flux in self.fluxes.items():
            moved[name] = v[name]
            forces[f"heat of {name}"] = self.fields["centre_wall"] * flux
        return {**moved, "p": pressure, **forces}

    def forces(self, projected: dict[str, Symbol]) -> dict[str, Symbol]:
        """The last state of a step, with the forces on all bodies, and what they give of scalars, in place of those cell by cell."""
        volume = self.spacing[0] * self.spacing[1]
        sums = {
            f"force_{axis}": volume * total(projected.pop(f"force of {name}")) for axis, name in zip("yx", self.velocities, strict=True)
        }
        sums |= {f"heat_{name}": volume * total(projected.pop(f"heat of {name}")) for name in (*self.diffusivities, *self.fluxes)}
        return projected | sums

    def _slip(self, name: str, v: Symbol) -> Symbol:
        """A velocity or scalar less that of the wall."""
        wall = self.fields.get(f"{name}_wall")
        return v if wall is None else v - wall

    def _wall(self, name: str, free: Symbol) -> Any:
        wall = self.fields.get(f"{name}_wall")
        return 0.0 if wall is None else (1 - free) * wall
