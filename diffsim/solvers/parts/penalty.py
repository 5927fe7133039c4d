"""Bodies in a flow as a resistance of the fluid inside them (Brinkman), in any number of dimensions and at any order in a periodic box.

    v_t = ... - ν K (v - w),    K = exp(-2 φ / δ) / ε²,    ε = f δ exp(γ) / 2

φ is the signed distance, w the velocity of the surface, and γ Euler's constant. Along a line across a plane wall the friction balances the
resistance, u'' = K u, whose solution that stays finite inside is K₀(δ/ε exp(-φ/δ)), a Bessel function. Far outside it is the line φ/δ -
ln(δ/(2 ε)) - γ, and so zero on the wall for ε = δ exp(γ) / 2: the wall lies where it should, without a parameter that is left. The
resistance grows without a limit inside, so no flow passes through. δ is half the largest size of a cell; for differences in place of
derivatives the factor f puts the line of the discrete solution on the wall, in the mean over places of the wall between cells. At one place
it is off by 0.023 of a cell at most (3e-4 for δ of a cell).

A profile whose slope changes by κ a metre is off by a part of κ δ², so the method is of second order as long as friction balances the rest
within a cell, and of first order before, where |v| dx / ν is large.

The resistance is implicit. The pressure gradient of the step before is in the rates, and projections add what is missing: so a steady flow
does not depend on dt. The Poisson equation has no coefficients, and transforms solve it.

Reference: Angot, Bruneau and Fabrie (1999), A penalization method to take into account obstacles in incompressible viscous flows, Numer.
Math. 81,
    497-520, doi:10.1007/s002110050401; Hester, Vasil and Burns (2021), Improving accuracy of volume penalised fluid-solid interactions, J.
    Comput. Phys. 430, 110043, doi:10.1016/j.jcp.2020.110043, for smooth masks that put the wall in its place. The exponential resistance is
    of this solver.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from diffsim.expr.functions import clip, exp
from diffsim.expr.operators import add, interpolate
from diffsim.expr.reductions import sum as total
from diffsim.expr.symbol import Symbol
from diffsim.expr.vectors import div, grad
from diffsim.stepping.stages.solve import solve

THICKNESS = 0.5
"""δ in cells."""
SCALE = {2: 0.89143, 4: 0.97106, 6: 0.98254}
"""f for differences of each order, by the discrete equation with 20 places of the wall (tests/solvers/test_penalised.py)."""
DEEPEST = 16.0
"""φ / δ beyond which the resistance neither grows nor falls."""
TINY = 1e-30


def resistance(distance: Symbol, spacing: Sequence[float], order: int) -> Symbol:
    """K, 1/m².

    Args:
        distance: φ where the resistance acts, m.
        spacing: of the grid, m.
        order: of the differences.
    """
    width = THICKNESS * max(spacing)
    length = SCALE[order] * width * math.exp(np.euler_gamma) / 2
    return exp(clip(distance / width, -DEEPEST, DEEPEST) * -2) / length**2


def solid(distance: Symbol) -> Symbol:
    """The part of the cell around a place that lies in the body; its sum over cells is an area, or a volume, to second order."""
    width = add([abs(distance.shifted(way, 1) - distance.shifted(way, -1)) for way in range(distance.ndim)]) / 2
    return clip(0.5 - distance / (width + TINY), 0.0, 1.0)


def resistance_fields(phi: Symbol, velocity: str, axis: int, spacing: Sequence[float], order: int, lifted: bool) -> dict[str, Symbol]:
    """The fields of a velocity: `grip`, K at its faces, and if scalars accelerate it `solid`."""
    distance = interpolate(phi, axis, 4)
    fields = {f"{velocity}_grip": resistance(distance, spacing, order)}
    return fields | ({f"{velocity}_solid": solid(distance)} if lifted else {})


def names_of_resistance(velocities: Sequence[str]) -> set[str]:
    """The names that the fields take."""
    return {"centre_grip", *(f"{name}_{what}" for name in velocities for what in ("grip", "solid", "wall"))}


@dataclass
class Resistance:
    """Bodies by a resistance in one step.

    Attributes:
        fields: all fields of the step by name.
        velocities: names of the velocities, in the order of the axes.
        nu: viscosity.
        pressure: the state p.
        cell: volume of a cell.
        order: of the differences.
        diffusivities: of scalars, by their names.
        lifts: for each velocity that scalars accelerate the acceleration in the last rates.
    """

    fields: Mapping[str, Symbol]
    velocities: Sequence[str]
    nu: Symbol
    pressure: Symbol
    cell: float
    order: int
    diffusivities: Mapping[str, Symbol] = field(default_factory=dict)
    lifts: Mapping[str, Symbol] = field(default_factory=dict)

    def pushed(self, rates: Mapping[str, Symbol], lifts: Mapping[str, Symbol]) -> dict[str, Symbol]:
        """The rates with the pressure gradient of the step before. Remembers lifts for the projection that follows."""
        self.lifts = lifts
        slopes = dict(zip(self.velocities, grad(self.pressure, self.order), strict=True))
        return {name: rate - slopes[name] if name in slopes else rate for name, rate in rates.items()}

    def project(self, v: Mapping[str, Symbol], dt: Any) -> dict[str, Symbol]:
        """Velocities that bodies slow down, without divergence; scalars with their values; pressure, forces, and what bodies give."""
        slowed, forces = {}, {}
        for name in (*self.velocities, *self.diffusivities):
            moves = name in self.velocities
            pull = self.fields[f"{name if moves else 'centre'}_grip"] * (self.nu if moves else self.diffusivities[name])
            wall: Any = self.fields.get(f"{name}_wall", 0.0)
            excess = (v[name] - wall) / (1 + dt * pull)  # apart from the wall's value: pull is so large that a difference would cancel
            slowed[name] = wall + excess
            taken = pull * excess
            if name in self.lifts:
                taken = taken - self.fields[f"{name}_solid"] * self.lifts[name]
            forces[f"force of {name}" if moves else f"heat of {name}"] = taken if moves else -taken
        source = div([slowed[name] for name in self.velocities], self.order) / dt
        missing = solve(lambda q: div(grad(q, self.order), self.order), source, boundary=self.pressure)
        for name, slope in zip(self.velocities, grad(missing, self.order), strict=True):
            slowed[name] = slowed[name] - dt * slope
        return {**slowed, "p": self.pressure + missing, **forces}

    def forces(self, projected: dict[str, Symbol], axes: str) -> dict[str, Symbol]:
        """The last state of a step, with sums of the forces on all bodies and of what they give in place of those cell by cell."""
        sums = {
            f"force_{axis}": self.cell * total(projected.pop(f"force of {name}")) for axis, name in zip(axes, self.velocities, strict=True)
        }
        sums |= {f"heat_{name}": self.cell * total(projected.pop(f"heat of {name}")) for name in self.diffusivities}
        return projected | sums
