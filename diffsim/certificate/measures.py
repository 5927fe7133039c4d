"""The figures of a certificate: how far two numbers differ that should be equal, and how many bits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from diffsim.certificate.line import Line, cannot_judge
from diffsim.certificate.path import SMALLEST
from diffsim.simulation import Batch, Simulation, Solution
from diffsim.typing import Array

MISMATCH = {"f64": 1e-12, "f32": 1e-3}
"""Largest relative difference of two inner products that are equal but for round-off."""
ROUNDINGS = 8.0
"""A difference of more roundings than this, as measured, is a fault."""
LOST = 1e-8
"""A rounding beyond this share of the sums does not excuse a difference: an adjoint in single precision would have it, too."""
ARRIVED = 1e-12
"""Changes at the receivers that are at most this share of those in the cells are the far tail of a stencil, not a signal."""
LONGER = "take more steps, or "
"""A remedy that a steady problem does not have."""
NOTHING = f"the input has no effect here, nothing has arrived yet, or the loss is at a minimum; {LONGER}move the point"
NO_EFFECT = f"nothing has reached the values that the loss reads; {LONGER}put receivers nearer, or begin with a state that is not 0"


def random_weights(moved: Solution, rng: np.random.Generator, simulation: Simulation | Batch) -> Solution:
    """Random cotangents of a size that lets every output count alike.

    An output whose changes may be rounding beside those of another one of the same unit counts as that one does: the lift of a body in a
    symmetric flow is the sum of forces that cancel.
    """
    equation = (simulation._one if isinstance(simulation, Batch) else simulation).equation
    units = {name: state.unit for name, state in equation.states.items()}
    return _weights(moved, rng, units)


def _weights(moved: Solution, rng: np.random.Generator, units: Mapping[str, Any]) -> Solution:
    parts = moved.final, moved.traces
    sizes = [{name: float(np.sqrt(np.mean(np.square(values)))) for name, values in part.items()} for part in parts]
    largest: dict[Any, float] = {}  # by unit: receivers that nothing has reached count as the states do
    for name, size in (each for part in sizes for each in part.items()):
        largest[units.get(name)] = max(size, largest.get(units.get(name), 0.0))

    def of(name: str, values: Array, size: float) -> Array:
        other = largest[units.get(name)]
        scale = size if size > np.finfo(values.dtype).eps ** 0.5 * other else other or 1.0
        return (rng.standard_normal(values.shape) / scale).astype(values.dtype)

    return Solution(
        *({name: of(name, values, size[name]) for name, values in part.items()} for part, size in zip(parts, sizes, strict=True))
    )


def scaled(weights: Solution, factor: float) -> Solution:
    """Cotangents times a number."""
    return Solution(*({name: factor * values for name, values in part.items()} for part in (weights.final, weights.traces)))


def products(moved: Solution, weights: Solution) -> Array:
    """Every product of a tangent and its cotangent, flat, f64; their sum is the inner product."""
    pairs = [(moved.final[n], bar) for n, bar in weights.final.items()] + [(moved.traces[n], bar) for n, bar in weights.traces.items()]
    return np.concatenate([(value.astype(float) * np.asarray(bar, float)).ravel() for value, bar in pairs])


def equal_sums(name: str, forward: Array, backward: Array, limit: float, rounding: float = 0.0) -> Line:
    """Two lists of products with equal sums. The scale is that of the sums, or the sum of the products with random signs.

    Args:
        name: of the line.
        forward: products of the tangent.
        backward: products of the adjoint.
        limit: relative difference of the sums.
        rounding: of the sums, as measured. It excuses a difference where the terms that a derivative is a sum of cancel.
    """
    scale = max(max(abs(float(products.sum())), float(np.sqrt(np.sum(products**2)))) for products in (forward, backward))
    if scale < SMALLEST:
        return cannot_judge(name, f"both sides are zero or all but: {NOTHING}", limit=f"at most {limit:g}")
    mismatch = abs(float(forward.sum()) - float(backward.sum())) / scale
    measured = ROUNDINGS * rounding / scale
    if limit < mismatch <= measured:
        if measured > LOST:
            return cannot_judge(
                name, f"the terms of the derivative cancel to {measured:.2g} of them; move the point", mismatch, f"at most {limit:g}"
            )
        note = f"{ROUNDINGS:g} times the rounding of both sides, whose terms cancel; without that {limit:g}"
        return Line(name, mismatch, f"at most {measured:.3g}", True, note)
    return Line(name, mismatch, f"at most {limit:g}", bool(mismatch <= limit))


def spread(sums: Sequence[Array]) -> float:
    """How far sums that should be equal differ."""
    values = [float(products.sum()) for products in sums]
    return max(values) - min(values)


def reached(moved: Solution, bars: Solution) -> bool:
    """True if the effect of an input has reached the receivers that a loss reads.

    Args:
        moved: tangent of the solution.
        bars: cotangents of the loss.
    """
    if any(np.any(bar) for bar in bars.final.values()):
        return True
    looked = [name for name, bar in bars.traces.items() if np.any(bar)]
    return any(_largest(moved.traces[name]) > ARRIVED * _largest(moved.final[name]) for name in looked)


def _largest(values: Array) -> float:
    return float(np.max(np.abs(values), initial=0.0))


def same_bits(name: str, found: Mapping[str, Array], expected: Mapping[str, Array], note: str = "") -> Line:
    """The number of entries that differ between two sets of arrays that should be equal bit for bit."""
    different = sum(int(np.count_nonzero(np.asarray(found[key]) != np.asarray(expected[key]))) for key in expected)
    if not different and not any(np.any(values) for values in expected.values()):
        return cannot_judge(name, f"loss and gradient are zero: {NOTHING}", 0.0, "no bit different")
    return Line(name, different, "no bit different", different == 0, note)
