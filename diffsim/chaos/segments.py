"""Parts of a run with the tangents that shadowing is made of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from diffsim.ad import vjp
from diffsim.chaos.exponents import standard_error
from diffsim.chaos.sensitivity import Average, checked
from diffsim.chaos.tangents import Vectors
from diffsim.errors import ConvergenceError
from diffsim.typing import Array

GROWS = 100.0
"""The shadowing direction does not settle if its size in the last quarter of the run is more than this times that in the first."""
FEW, HELD = 0.05, 0.7
"""An estimate does not settle if this share of its segments has more than that share of its variance. With normal errors a twentieth has
0.28. Most systems in which directions meet had 0.73 and more, clearly hyperbolic ones 0.19 to 0.31; the rest is between."""
SURE = 0.02
"""An estimate whose standard error is at most this share of it is taken."""
ENOUGH = 100
"""Segments of which that can be said."""
LAST = 1600
"""Segments after which more do not help: of the right answers that 400 refuse, 1600 refuse none (docs/chaos.md)."""
RESTS = 1e-9
"""Relative change in a step below which a system is at rest."""


@dataclass
class Segment:
    """Integrals over a part of a run, of tangents without the component along the flow: of homogeneous ones W, and of one that follows a
    parameter, v, or of none.

    Attributes:
        products: ∫ Wᵀ W dt, shape (unstable, unstable).
        forced: ∫ Wᵀ v dt, shape (unstable, 1 or 0).
        square: ∫ v·v dt, shape (1, 1) or (0, 0).
        triangle: R of W = Q R at the end.
        carried: Qᵀ v at the end, shape (unstable, 1 or 0).
        delays: the components along the flow at the end, as times, of W and v, shape (unstable + 1 or 0,).
        value: ∫ J dt of the quantity J.
        last: J at the end.
        changes: ∫ J' dt along W and v, the components along the flow included.
    """

    products: Array
    forced: Array
    square: Array
    triangle: Array
    carried: Array
    delays: Array
    value: float = 0.0
    last: float = 0.0
    changes: Array = field(default_factory=lambda: np.empty(0))

    @classmethod
    def of(cls, states: Array, along: Array, dt: float, unstable: int) -> tuple[Segment, Array]:
        """A segment from the states, shape (times, size), and the tangents, (unstable + 1 or 0, times, size); and the tangents with which
        the next begins, (size, unstable + 1 or 0)."""
        flow = flow_of(states, dt)
        delays = components(along, flow)
        across = along - delays[..., None] * flow
        flat = (across * weights(len(states), dt)[:, None] ** 0.5).reshape(len(along), -1)
        gram = flat @ flat.T
        homogeneous, followed = np.split(across[:, -1].T, [unstable], axis=1)
        basis, triangle = np.linalg.qr(homogeneous)
        carried = basis.T @ followed
        one = cls(gram[:unstable, :unstable], gram[:unstable, unstable:], gram[unstable:, unstable:], triangle, carried, delays[:, -1])
        return one, np.column_stack([basis, followed - basis @ carried])

    def changed(self, mean: float) -> Array:
        """The changes of ∫ J dt along W and v, where the time of the changed run flows by the components along the flow."""
        return self.changes + self.delays * (mean - self.last)


def flow_of(states: Array, dt: float) -> Array:
    """The rates of the states along a run."""
    flow = np.gradient(states, dt, axis=0, edge_order=2)
    if float(np.abs(flow).max()) * dt <= RESTS * float(np.abs(states).max()):
        raise ConvergenceError(
            "the run has come to rest, expected one that goes on; take value_and_grad, whose gradient does not grow there"
        )
    return flow


def components(tangents: Array, flow: Array) -> Array:
    """The components of tangents along the flow, as times."""
    return np.asarray((tangents * flow).sum(axis=-1) / (flow**2).sum(axis=-1))


def weights(times: int, dt: float) -> Array:
    """Those of the trapezoidal rule."""
    each = np.full(times, dt)
    each[[0, -1]] *= 0.5
    return each


def quantity(average: Average, states: Array, weight: Array, vectors: Vectors) -> tuple[Array, Array]:
    """The quantity J at some times, and the gradient of Σ weight J for the states there, shape (times, size)."""
    value, pullback = vjp(average, vectors.apart(states))
    values = checked(np.asarray(value, dtype=float), len(states))
    (slopes,) = pullback(weight)
    return values, vectors.joined(slopes, 1)


def measure(parts: Sequence[Segment], runs: Sequence[tuple[Array, Array]], dt: float, average: Average, vectors: Vectors) -> None:
    """Add the integrals of the quantity and of its changes to some segments, from their states and tangents."""
    weight = weights(len(runs[0][0]), dt)
    values, slopes = quantity(average, np.concatenate([states for states, _ in runs]), np.tile(weight, len(runs)), vectors)
    for part, (_, along), each, slope in zip(parts, runs, np.split(values, len(runs)), np.split(slopes, len(runs)), strict=True):
        part.value, part.last, part.changes = float(weight @ each), float(each[-1]), np.tensordot(along, slope, 2)


def least(parts: Sequence[Segment], right: Array, joined: Array) -> tuple[Array, Array]:
    """The homogeneous tangents a to add in each segment, and the multipliers of the conditions.

    Minimises Σ aᵀ C a - 2 rightᵀ a where aₖ₊₁ = Rₖ aₖ + joinedₖ, with C and R of the segments. The system is symmetric.

    Args:
        parts: the segments.
        right: shape (segments, unstable).
        joined: shape (segments - 1, unstable).
    """
    from scipy.sparse import block_array, block_diag, csr_array, eye_array, hstack
    from scipy.sparse.linalg import spsolve

    count, size = right.shape
    squares = block_diag([part.products for part in parts], format="csr")
    turned = block_diag([part.triangle for part in parts[:-1]], format="csr")
    none = csr_array(((count - 1) * size, size))
    joins = hstack([none, eye_array((count - 1) * size)]) - hstack([turned, none])
    system = block_array([[squares, joins.T], [joins, None]], format="csc")
    solution = np.asarray(spsolve(system, np.concatenate([right.ravel(), joined.ravel()])))
    return solution[: count * size].reshape(count, size), solution[count * size :].reshape(count - 1, size)


def settled(sizes: Array, unstable: int) -> None:
    """Raise unless the squares of the sizes of a direction, one a segment, stay small along the run."""
    quarter = len(sizes) // 4
    first, last = (max(float(each.mean()), 0.0) for each in (sizes[:quarter], sizes[-quarter:]))
    if not np.isfinite(sizes).all() or not last <= GROWS**2 * first:
        raise ConvergenceError(
            f"the shadowing direction grows along the run, from {first**0.5:.2g} to {last**0.5:.2g}, expected one that stays small; raise "
            f"unstable = {unstable}, to one more than diffsim.chaos.lyapunov finds above 0, or take a system that has one"
        )


def spread(shares: Array, name: str) -> None:
    """Raise if an estimate rests on few segments: then its variance has no limit, and more of them do not help.

    Args:
        shares: of the segments, whose mean is the estimate.
        name: of the parameter.

    Raises:
        ConvergenceError: a twentieth of the segments has most of the variance.
    """
    ends = len(shares) // 20  # where the direction is free, so what it is there dies out inwards
    within = shares[ends : len(shares) - ends]
    apart = np.sort((within - within.mean()) ** 2)[::-1]
    few = max(1, round(FEW * len(within)))
    held = float(apart[:few].sum() / (apart.sum() or 1.0))
    sure = float(standard_error(shares)) <= SURE * abs(float(shares.mean()))
    if len(shares) >= ENOUGH and held > HELD and not sure:
        once = f"take {LAST} segments once, or " if len(shares) < LAST else "more segments do not help: take "
        raise ConvergenceError(
            f"{few} of {len(within)} segments away from the ends have {held:.0%} of the variance of the derivative for {name}, expected at "
            f"most {HELD:.0%}: directions that grow and that shrink may come too close (diffsim.chaos.covariant_vectors has their "
            f"angles); {once}diffsim.chaos.linear_response with two values of change"
        )
