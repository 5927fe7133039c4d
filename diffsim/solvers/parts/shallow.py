"""Finite volumes of the shallow-water equations: the bed and levels as faces see them, and what crosses a face.

Pressure is kept apart from what the water carries. A face pushes the cells on both sides of it by differences of levels, so a level surface
pushes nothing, however rough the bed, and no large pressures cancel.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from diffsim.expr.functions import cbrt, maximum, minimum, sqrt, where
from diffsim.expr.limiters import Limiter
from diffsim.expr.symbol import Symbol
from diffsim.solvers.parts.sea import GRAVITY

SMALL = 1e-4
"""Differences of depths (m) and of velocities (m/s) between both sides of a face below which the speeds of waves are smooth."""
EQUAL = 1e-6
"""Difference of beds, m, up to which they count as equally high at a face. A flat bed is higher there by half of it."""
STILL = 1e-6
"""Speed, m/s, below which drag is linear: the derivative of the speed stays finite."""


@dataclass(frozen=True)
class Faces:
    """Values at the upper face of each cell along an axis, from the cell below it and from the cell above it."""

    below: Symbol
    above: Symbol

    @classmethod
    def of(cls, f: Symbol, half: Symbol | None, axis: int) -> Faces:
        """From means of cells and the changes over half a cell; None: uniform cells."""
        return cls(f, f.shifted(axis, 1)) if half is None else cls(f + half, (f - half).shifted(axis, 1))


@dataclass(frozen=True)
class Crossing:
    """The flux through the upper face of each cell along an axis.

    Attributes:
        water: m²/s.
        along: momentum along the axis that the water carries, with the dissipation of the solver, m³/s².
        across: momentum along the other axis, m³/s²; None in one dimension.
        push_below: of the pressure against the cell below, m³/s²: its momentum falls by it.
        push_above: of the pressure against the cell above.
    """

    water: Symbol
    along: Symbol
    across: Symbol | None
    push_below: Symbol
    push_above: Symbol


def crossing(level: Faces, floor: Faces, along: Faces, across: Faces | None) -> Crossing:
    """The flux of Harten, Lax and van Leer after hydrostatic reconstruction, with the contact wave for the momentum across (HLLC).

    Levels are cut at the higher of both beds, `floor`. The waves have the larger depth and the larger velocity of both sides, rounded where
    these are equal: each is at least as fast as those of both sides, and water that starts from rest is at no kink. The momentum across
    comes from the side that the water comes from, as the contact wave has it.
    """
    bed = _higher(floor.below, floor.above)
    top_l, top_r = maximum(level.below, bed), maximum(level.above, bed)
    h_l, h_r, rise = top_l - bed, top_r - bed, top_r - top_l
    deep, apart = h_l + h_r + _magnitude(rise), _magnitude(along.above - along.below)
    middle, c = 0.5 * (along.below + along.above), sqrt(0.5 * GRAVITY * deep)
    slow, fast = minimum(middle - 0.5 * apart - c, 0.0), maximum(middle + 0.5 * apart + c, 0.0)
    share = fast / maximum(apart + 2 * c, maximum(fast, -slow))  # of the side below
    spread = -slow * share
    q_l, q_r = h_l * along.below, h_r * along.above
    push = 0.5 * GRAVITY * (h_l + h_r) * rise
    water = q_r + share * (q_l - q_r) - spread * rise
    flow_l, flow_r = q_l * along.below, q_r * along.above
    carried = flow_r + share * (flow_l - flow_r) - spread * (q_r - q_l)
    sideways = None if across is None else water * where(water > 0, across.below, across.above)
    return Crossing(water, carried, sideways, (1 - share) * push, share * push)


def _higher(one: Symbol, other: Symbol) -> Symbol:
    """The larger of both, rounded where they are equal, as they are on a level or plane bed."""
    apart = one - other
    return 0.5 * (one + other + sqrt(apart * apart + EQUAL**2))


def _magnitude(f: Symbol) -> Symbol:
    return sqrt(f * f + SMALL**2)


def half_steps(f: Symbol, axis: int, limiter: Limiter) -> Symbol:
    """Change of f from the middle of a cell to its upper face."""
    jump = f - f.shifted(axis, -1)
    return 0.5 * limiter(jump, jump.shifted(axis, 1))


def rises(level: Symbol, z: Symbol, axis: int) -> tuple[Symbol, Symbol]:
    """The rises of the level of water from the cell below and to the cell above; 0 where the bed of one keeps the water of the other.

    Args:
        level: of the water, that of the bed where it is dry.
        z: the bed.
        axis: the axis.
    """

    def rise(low: int, high: int) -> Symbol:
        return maximum(level.shifted(axis, high), z.shifted(axis, low)) - maximum(level.shifted(axis, low), z.shifted(axis, high))

    return rise(-1, 0), rise(0, 1)


def velocity(h: Symbol, thin: float) -> Callable[[Symbol], Symbol]:
    """q -> q / h in water much deeper than `thin`, and 0 where it is dry: q h³ / (h⁴ + thin⁴)."""
    square = h * h
    factor = square * h / (square * square + thin**4)
    return lambda q: factor * q


def slowed(q: list[Symbol], h: Symbol, thin: float, dt: float | Symbol, manning: Any, drag: Symbol | None) -> list[Symbol]:
    """Momenta after a time of drag at the bed, exact for this depth: q' = -k |q| q has the solution q / (1 + k |q| t).

    With k = g n² / h^(7/3), Manning's roughness n, or k = C / h², the coefficient C of quadratic drag. In water thinner than `thin` drag is
    that at this depth.
    """
    square = h * h + thin**2
    speed = sqrt(sum((one * one for one in q), 0.0 * h) + STILL**2 * square)  # |q|
    # a maximum, so that the divisor is known to be at least 1 and needs no guard; a run refuses negative drag
    coefficient = maximum(drag, 0.0) if drag is not None else GRAVITY * manning * manning / cbrt(sqrt(square))
    keep = 1 / (1 + dt * coefficient * speed / square)
    return [keep * one for one in q]
