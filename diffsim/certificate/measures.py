"""The figures of a certificate: how far two numbers differ that should be equal, and how remainders fall."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from diffsim.certificate.line import Line
from diffsim.certificate.taylor import SLOPE_MARGIN, Taylor
from diffsim.simulation import Solution
from diffsim.typing import Array

MISMATCH = {"f64": 1e-12, "f32": 1e-3}
"""Largest relative difference of two inner products that are equal but for round-off."""


def random_weights(moved: Solution, rng: np.random.Generator) -> Solution:
    """Random cotangents of a size that lets every output count alike."""
    return Solution(_weights(moved.final, rng), _weights(moved.traces, rng))


def _weights(moved: Mapping[str, Array], rng: np.random.Generator) -> dict[str, Array]:
    sizes = {name: float(np.sqrt(np.mean(np.square(values)))) or 1.0 for name, values in moved.items()}
    return {name: (rng.standard_normal(values.shape) / sizes[name]).astype(values.dtype) for name, values in moved.items()}


def products(moved: Solution, weights: Solution) -> Array:
    """Every product of a tangent and its cotangent, flat, f64; their sum is the inner product."""
    pairs = [(moved.final[n], bar) for n, bar in weights.final.items()] + [(moved.traces[n], bar) for n, bar in weights.traces.items()]
    return np.concatenate([(value.astype(float) * np.asarray(bar, float)).ravel() for value, bar in pairs])


def equal_sums(name: str, forward: Array, backward: Array, limit: float) -> Line:
    """Two lists of products with equal sums. The scale is that of the sums, or what random signs would leave of the products."""
    scale = max(max(abs(float(products.sum())), float(np.sqrt(np.sum(products**2)))) for products in (forward, backward))
    difference = abs(float(forward.sum()) - float(backward.sum()))
    mismatch = difference / scale if scale else float(difference > 0)
    return Line(name, mismatch, f"at most {limit:g}", bool(mismatch <= limit), "" if scale else "no effect: all products are zero")


def slope_lines(label: str, found: Taylor) -> Iterator[Line]:
    """Two lines of a Taylor test."""
    for order, slope, kind in ((1, found.without, "without"), (2, found.with_gradient, "with")):
        limit = f"{order - SLOPE_MARGIN:g} to {order + SLOPE_MARGIN:g}"
        passed = found.exact or abs(slope - order) <= SLOPE_MARGIN
        yield Line(f"Taylor {kind} gradient, {label}", slope, limit, bool(passed), found.note)


def same_bits(name: str, found: Mapping[str, Array], expected: Mapping[str, Array], note: str = "") -> Line:
    """How many numbers differ between two sets of arrays that should be the same bit for bit."""
    different = sum(int(np.count_nonzero(np.asarray(found[key]) != np.asarray(expected[key]))) for key in expected)
    return Line(name, different, "no bit different", different == 0, note)
