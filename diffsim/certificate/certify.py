"""A proof that the gradient of a simulation's loss is right."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import numpy.typing as npt

from diffsim.certificate.line import Certificate, Line
from diffsim.certificate.measures import MISMATCH, equal_sums, products, random_weights, same_bits, slope_lines
from diffsim.certificate.taylor import taylor
from diffsim.checkpoint import Binomial, Policy, StoreAll
from diffsim.errors import ParameterError
from diffsim.simulation import Simulation
from diffsim.simulation.loss import Loss, value_and_cotangents
from diffsim.typing import Array

SLOTS = (1, 2, 3, 5, 8, 13, 21)
"""Numbers of slots that are tried."""
MOST_REPEATED = 12.0
"""Schedules that run each step forward more often than this are left out."""
NOTHING = 1e-12
"""An entry this much smaller than the largest of its field is 0 but for round-off: a change by its size would show nothing."""


def certify(
    simulation: Simulation, loss: Loss, inputs: Mapping[str, npt.ArrayLike], steps: int, seed: int = 0, directions: int = 3
) -> Certificate:
    """Measure whether the gradient of a loss through a simulation is right.

        dot product     <J v, w> = <v, Jᵀ w> for random v and w, input by input
        jvp and vjp     the derivative of the loss along v by the tangent, and by the gradient
        Taylor          |L(x + h d) - L(x)| falls as h, and |L(x + h d) - L(x) - h ∇L·d| as h²
        checkpoints     the gradient by every schedule has the bits of the one for which all was stored

    Random directions are as large as each input, entry by entry, so entries that are zero stay zero; one direction more
    is a single cell of each field, at the edge of the grid.

    Args:
        simulation: in f64.
        loss: solution -> a number, or (value, cotangents); see `Simulation.value_and_grad`.
        inputs: where; positive margins are needed so that small changes stay valid.
        steps: time steps.
        seed: of all random numbers.
        directions: random directions of the Taylor test.

    Raises:
        ParameterError: the simulation is in f32, where slopes drown in round-off.

    Returns:
        The certificate: its lines with what was measured and the limit of each, and `passed`.

    Example:
        import numpy as np

        import diffsim as ds

        grid = ds.Grid((20,), spacing=0.05)
        rod = ds.Simulation(ds.solvers.Heat(grid, dt=0.1), precision="f64")
        inputs = {"kappa": np.full(20, 5e-3), "T": np.cos(np.pi * grid.coordinates(0)) + 2.0}
        report = ds.certify(rod, lambda found: 0.5 * (found.final["T"] ** 2).sum(), inputs, steps=10)
        assert report.passed, report
    """
    if simulation.precision != "f64":
        raise ParameterError("precision = 'f32', expected a simulation in f64: in f32 the slopes drown in round-off")
    point = {name: np.asarray(value, float) for name, value in inputs.items()}
    for name in simulation.wrt:  # initial fields that are left out are zero
        point.setdefault(name, np.zeros(simulation.input_shape(name, steps)))
    if directions < 1:
        raise ParameterError(f"directions = {directions}, expected at least 1; without one, nothing is tested")
    return Certificate(tuple(_lines(simulation, loss, point, steps, np.random.default_rng(seed), directions)))


def _lines(
    simulation: Simulation, loss: Loss, point: dict[str, Array], steps: int, rng: np.random.Generator, directions: int
) -> Iterator[Line]:
    names = list(simulation.wrt)
    limit = MISMATCH["f64"]

    def direction(name: str) -> Array:
        sizes = np.abs(point[name]) if np.any(point[name]) else np.ones_like(point[name])
        return rng.standard_normal(point[name].shape) * sizes

    def gradient(checkpoint: object) -> tuple[float, dict[str, Array]]:
        return simulation.value_and_grad(loss, point, steps, checkpoint)  # type: ignore[arg-type]

    value, stored = gradient(StoreAll(steps))
    for name in names:
        v = direction(name)
        solution, moved = simulation.jvp(point, {name: v}, steps)
        weights = random_weights(moved, rng)
        _, pullback = simulation.vjp(point, steps)
        yield equal_sums(f"dot product, {name}", products(moved, weights), pullback(weights)[name] * v, limit)
        forward = products(moved, value_and_cotangents(loss, solution)[1])
        yield equal_sums(f"jvp against vjp of the loss, {name}", forward, stored[name] * v, limit)
    chosen = {f"random {k + 1}": {name: direction(name) for name in names} for k in range(directions)}
    chosen |= {f"{name} at the edge": {name: _edge(point[name], stored[name])} for name in names}
    for label, moves in chosen.items():
        slope = sum(float((stored[name] * move).sum()) for name, move in moves.items())

        def along(t: Array, moves: dict[str, Array] = moves) -> float:
            there = point | {name: point[name] + float(t[0]) * move for name, move in moves.items()}
            return value_and_cotangents(loss, simulation.run(there, steps))[0]

        # of the inputs, a tenth of their size at most
        scaled = {name: 0.1 * move for name, move in moves.items()}
        yield from slope_lines(label, taylor(lambda t, s=scaled: along(t, s), np.zeros(1), value, 0.1 * slope, np.ones(1)))  # type: ignore[misc]
    for slots in SLOTS:
        if slots >= steps or Binomial(steps, slots).advances > MOST_REPEATED * steps:
            continue
        again, checkpointed = gradient(Policy(schedule=Binomial(steps, slots), verify=False))  # the bits themselves are the proof here
        note = f"{Binomial(steps, slots).advances / steps:.2f} forward steps a step; numbers that differ are counted"
        both = ({**checkpointed, "value": np.array(again)}, {**stored, "value": np.array(value)})
        yield same_bits(f"{slots} slot{'s' if slots > 1 else ''} against all stored", *both, note)


def _edge(values: Array, gradient: Array) -> Array:
    """A change of the outermost entry that the loss feels most, by its own size, or by 1 if it is 0 beside the others."""
    border = np.ones(values.shape, bool)
    border[tuple(slice(1, -1) for _ in values.shape)] = False
    where = np.unravel_index(int(np.argmax(np.where(border, np.abs(gradient), -1.0))), values.shape)
    out = np.zeros(values.shape)
    size = abs(float(values[where]))
    out[where] = size if size > NOTHING * np.abs(values).max() else 1.0
    return out
