"""Derivatives of long averages by shadowing: the non-intrusive least-squares method."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from diffsim.ad import jvp
from diffsim.base.arguments import function, whole
from diffsim.chaos.exponents import lyapunov, standard_error
from diffsim.chaos.sensitivity import Average, Sensitivity, checked
from diffsim.chaos.tangents import Tangents, Vectors
from diffsim.errors import ConvergenceError, ParameterError
from diffsim.simulation import Simulation
from diffsim.typing import Array

GROWS = 100.0
"""The shadowing direction does not settle if its size in the last quarter of the run is more than this times that in the first."""
RESTS = 1e-9
"""Relative change in a step below which a system is at rest."""
TOGETHER = 2**24
"""Bytes of tangents whose quantities are computed in one call."""


@dataclass
class Segment:
    """Integrals over a part of a run, of tangents without the component along the flow.

    Attributes:
        products: ∫ Wᵀ W dt of the homogeneous tangents W, shape (unstable, unstable).
        forced: ∫ Wᵀ v dt with the inhomogeneous tangent v.
        square: ∫ v·v dt.
        triangle: R of W = Q R at the end.
        carried: Qᵀ v at the end.
        delays: the components along the flow at the end, as times, of v and of each of W, shape (1 + unstable,).
        values: ∫ J dt of the quantity J.
        changes: ∫ J' dt along v and along each of W, the components along the flow included.
        last: J at the end.
    """

    products: Array
    forced: Array
    square: float
    triangle: Array
    carried: Array
    delays: Array
    values: float = 0.0
    changes: Array = field(default_factory=lambda: np.empty(0))
    last: float = 0.0


def shadowing(
    simulation: Simulation,
    inputs: Mapping[str, Any],
    average: Average,
    wrt: str,
    steps: int,
    segments: int,
    unstable: int | None = None,
    settle: int | None = None,
) -> Sensitivity:
    """The derivative of a long average of a chaotic system for a parameter, where the gradient of the run explodes.

    A tangent that follows the parameter grows as all tangents do. The method adds unstable tangents to it so that it stays small throughout
    (NILSS): the state of the changed system that shadows the run. It needs as many tangents as there are exponents above 0, not as many as
    there are states. The system must be autonomous, with times that are long beside the steps.

    Args:
        simulation: the system, in f64.
        inputs: initial states, and parameters.
        average: the quantity whose mean over time is meant: a function of the states by name, arrays of shape (times, cells), that returns
            a value for each time; written with `diffsim.numpy` and operators.
        wrt: the parameter, a number.
        steps: steps of a segment, some one unit of the largest exponent's time.
        segments: number of segments.
        unstable: number of tangents: that of the exponents above 0 and one more for each that is 0, but for the flow's own. None: one more
            than `lyapunov` finds above 0 on a part of the run.
        settle: steps before the first segment, to reach the attractor; None: a tenth of the run.

    Returns:
        The derivative with its standard error, and the average.

    Raises:
        ParameterError: a number out of range, or states on faces.
        ConvergenceError: the shadowing direction does not stay small: too few tangents, or a system without such a direction.

    Reference: Ni and Wang (2017), Sensitivity analysis on chaotic dynamical systems by non-intrusive least squares shadowing (NILSS),
        J. Comput. Phys. 347, 56-77, doi:10.1016/j.jcp.2017.06.033.

    Example:
        import diffsim as ds

        # By how much does the mean height of convection grow with rho? Long averages say 1.0.
        system = ds.Simulation(ds.solvers.Lorenz63(dt=0.01), precision="f64")
        start = {"x": 1.0, "y": 2.0, "z": 20.0, "sigma": 10.0, "rho": 28.0, "beta": 8 / 3}
        result = ds.chaos.shadowing(system, start, lambda now: now["z"][:, 0], wrt="rho", steps=100, segments=200, unstable=1)
        assert abs(result.value - 1.0) < 0.05
    """
    function("average", average, "lambda now: now['z'][:, 0]", optional=False)
    steps = whole("steps", steps, 4, remedy="give the steps of a segment")
    segments = whole("segments", segments, 4, remedy="give the number of segments")
    settle = steps * segments // 10 if settle is None else whole("settle", settle, 0, remedy="give the steps before the first segment")
    recorded = with_all_receivers(simulation)
    vectors = Vectors(recorded, inputs)
    start = {**vectors.fixed, **vectors.apart(vectors.state)}
    state = vectors.joined(recorded.run(start, settle).final) if settle else vectors.state
    if unstable is None:
        exponents = lyapunov(simulation, {**inputs, **vectors.apart(state)}, steps, max(20, segments // 10))
        unstable = min(vectors.size - 1, 1 + exponents.unstable)
    unstable = whole("unstable", unstable, 1, vectors.size - 1, "give the number of exponents above 0")
    tangents = Tangents(recorded, inputs, 1 + unstable, wrt)
    basis = np.linalg.qr(np.random.default_rng(0).standard_normal((vectors.size, unstable)))[0]
    moved, parts, waiting = np.column_stack([np.zeros(vectors.size), basis]), list[Segment](), list[tuple[Array, Array]]()
    for number in range(segments):
        state, _, states, along = tangents.advance(state, moved, steps)
        part, moved = _segment(states, along, simulation.equation.dt)
        parts.append(part)
        waiting.append((states, along))
        if number == segments - 1 or len(waiting) * along.nbytes > TOGETHER:
            _average(parts[-len(waiting) :], waiting, simulation.equation.dt, average, vectors)
            waiting.clear()
    return _shadowed(parts, steps * simulation.equation.dt)


def with_all_receivers(simulation: Simulation) -> Simulation:
    """The simulation with a receiver for each state at each cell."""
    equation = simulation.equation
    if any(any(variable.location or ()) for variable in equation.states.values()):
        raise ParameterError(f"{type(equation).__name__} has states on faces, expected states at the centres of cells; write it with those")
    axes = [equation.grid.coordinates(axis) for axis in range(equation.grid.ndim)]
    cells = np.stack([each.ravel() for each in np.meshgrid(*axes, indexing="ij")], axis=-1)
    return Simulation(equation, receivers=dict.fromkeys(equation.states, cells), wrt=simulation.wrt, precision=simulation.precision)


def _segment(states: Array, along: Array, dt: float) -> tuple[Segment, Array]:
    """A segment from the states, shape (times, size), and the tangents, (1 + unstable, times, size); and the tangents with which the next
    begins, (size, 1 + unstable)."""
    flow = np.gradient(states, dt, axis=0, edge_order=2)
    if float(np.abs(flow).max()) * dt <= RESTS * float(np.abs(states).max()):
        raise ConvergenceError(
            "the run has come to rest, expected one that goes on; take value_and_grad, whose gradient does not grow there"
        )
    delays = (along * flow).sum(axis=-1) / (flow**2).sum(axis=-1)
    across = along - delays[..., None] * flow
    flat = (across * _weights(len(states), dt)[:, None] ** 0.5).reshape(len(along), -1)
    gram = flat @ flat.T
    end = across[:, -1].T
    basis, triangle = np.linalg.qr(end[:, 1:])
    carried = basis.T @ end[:, 0]
    return Segment(gram[1:, 1:], gram[1:, 0], float(gram[0, 0]), triangle, carried, delays[:, -1]), np.column_stack(
        [end[:, 0] - basis @ carried, basis]
    )


def _weights(times: int, dt: float) -> Array:
    """Those of the trapezoidal rule."""
    weights = np.full(times, dt)
    weights[[0, -1]] *= 0.5
    return weights


def _average(parts: Sequence[Segment], runs: Sequence[tuple[Array, Array]], dt: float, average: Average, vectors: Vectors) -> None:
    """Add the integrals of the quantity and of its changes to some segments, from their states and tangents."""
    states, along = np.concatenate([each for each, _ in runs]), np.concatenate([each for _, each in runs], axis=1)
    weights = _weights(len(runs[0][0]), dt)
    named, shape = vectors.apart(states), (len(runs), len(weights))
    changes = np.empty((len(along), *shape))
    quantity: Array = np.empty(shape)
    for k, each in enumerate(along):
        values, moved = jvp(average, (named,), (vectors.apart(each),))
        quantity = checked(np.asarray(values, dtype=float), len(states)).reshape(shape)
        changes[k] = np.asarray(moved).reshape(shape)
    for part, each, moved in zip(parts, quantity, changes.swapaxes(0, 1), strict=True):
        part.values, part.changes, part.last = float(weights @ each), moved @ weights, float(each[-1])


def _shadowed(parts: list[Segment], time: float) -> Sensitivity:
    """The derivative, by the tangents that minimise the size of the shadowing direction."""
    added = _least(parts)
    sizes = np.array([a @ part.products @ a + 2 * a @ part.forced + part.square for a, part in zip(added, parts, strict=True)])
    quarter = len(parts) // 4
    first, last = (max(float(each.mean()), 0.0) for each in (sizes[:quarter], sizes[-quarter:]))
    if not np.isfinite(added).all() or not last <= GROWS**2 * first:
        raise ConvergenceError(
            f"the shadowing direction grows along the run, from {first**0.5:.2g} to {last**0.5:.2g}, expected one that stays small; raise "
            f"unstable = {len(parts[0].forced)}, to one more than diffsim.chaos.lyapunov finds above 0, or take a system that has one"
        )
    mean = sum(part.values for part in parts) / (len(parts) * time)
    shares = np.array(
        [(part.changes + part.delays * (mean - part.last)) @ np.concatenate([[1.0], a]) for a, part in zip(added, parts, strict=True)]
    )
    return Sensitivity(float(shares.mean() / time), float(standard_error(shares)) / time, float(mean))


def _least(parts: list[Segment]) -> Array:
    """The unstable tangents a to add in each segment: least Σ aᵀ C a + 2 dᵀ a where aₖ₊₁ = Rₖ aₖ + bₖ. Shape (segments, unstable)."""
    from scipy.sparse import block_array, block_diag, csr_array, eye_array, hstack
    from scipy.sparse.linalg import spsolve

    count, size = len(parts), len(parts[0].forced)
    squares = block_diag([part.products for part in parts], format="csr")
    turned = block_diag([part.triangle for part in parts[:-1]], format="csr")
    none = csr_array(((count - 1) * size, size))
    joins = hstack([none, eye_array((count - 1) * size)]) - hstack([turned, none])
    system = block_array([[squares, joins.T], [joins, None]], format="csc")
    right = np.concatenate([*(-part.forced for part in parts), *(part.carried for part in parts[:-1])])
    return np.asarray(spsolve(system, right)[: count * size].reshape(count, size))
