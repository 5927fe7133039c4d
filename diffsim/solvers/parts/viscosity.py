"""Friction of a fluid whose viscosity varies: the divergence of its viscous stress on the staggered grid, of second order.

    (∇·(ν (∇v + ∇vᵀ)))_a = ∂_a (2 ν ∂_a v_a) + Σ_b ∂_b (ν (∂_b v_a + ∂_a v_b)),    b ≠ a

Normal stresses lie at centres, where the viscosity is, and shear stresses on edges.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from diffsim.expr.functions import sqrt
from diffsim.expr.operators import add, diff, interpolate
from diffsim.expr.symbol import Symbol
from diffsim.solvers.parts.means import harmonic
from diffsim.stepping.trace.stages import stage

SMALL = 1e-30
"""Added to the square of a rate of strain, 1/s², whose root has no derivative at 0."""


def friction(v: Sequence[Symbol], nu: Symbol, to_face: Callable[[Symbol, int], Symbol]) -> list[Symbol]:
    """∇·(ν (∇v + ∇vᵀ)), a component for each axis.

    Args:
        v: the velocities, in the order of the axes.
        nu: viscosity at centres, m²/s.
        to_face: the mean of a field on the upper faces of an axis, `harmonic` or `interpolate`; the viscosity of an edge is that of both
            of its axes in turn.
    """
    axes = range(len(v))
    shear = {}
    for a in axes:
        for b in range(a):
            shear[a, b] = shear[b, a] = to_face(to_face(nu, b), a) * (diff(v[a], b) + diff(v[b], a))
    return [add([diff(2 * nu * diff(v[a], a) if a == b else shear[a, b], b) for b in axes]) for a in axes]


def layered(v: Sequence[Symbol], nu: Symbol) -> list[Symbol]:
    """Friction by a given viscosity, with harmonic means on edges: the stress between two layers that meet on faces is exact."""
    return friction(v, nu, harmonic)


def smagorinsky(v: Sequence[Symbol], nu: Symbol, constant: Symbol, width: float, boundary: Any) -> list[Symbol]:
    """Friction by the viscosity of the fluid and that of the eddies below the grid, ν + (C Δ)² |S|, |S|² = 2 Σ S_ab².

    Args:
        v: the velocities.
        nu: viscosity of the fluid, m²/s.
        constant: C.
        width: Δ, m.
        boundary: rules of the viscosity.
    """
    axes = range(len(v))
    squares = [2 * diff(v[a], a) ** 2 for a in axes]
    for a in axes:
        for b in range(a):
            squares.append(interpolate(interpolate((diff(v[a], b) + diff(v[b], a)) ** 2, a), b))
    return friction(v, stage(nu + (width * constant) ** 2 * sqrt(add(squares) + SMALL), boundary), interpolate)
