"""Each entry of the table: its value, and its derivatives of first and second order in every way they can be had."""

from __future__ import annotations

from collections.abc import Container
from typing import Any

import numpy as np

import diffsim as ds
import diffsim.numpy as dn
from diffsim.ad.arrays.array import Array
from tests.sampled import together

from .entry import Entry
from .measures import differences, directions, is_floating, leaves, like, pairing, size
from .table import ENTRIES, OF_EACH

ROUNDING = 1e-12
"""A result computed in another order than NumPy's, or by two modes, differs by a few roundings."""
SECOND = 3e-8
"""Differences of first derivatives, which have larger derivatives themselves."""
SINGLE = 2e-4


def by_part(entries: list[Entry], gate: Container[Entry] | None = None) -> Any:
    """One test for each part of NumPy."""
    return together(entries, lambda entry: entry.name, lambda entry: entry.covers.rpartition(".")[0] or "numpy", gate)


def of_each_name(entries: list[Entry]) -> Any:
    """In the gate one entry of each name: the others differ from it in the values and first derivatives, which it tests of all."""
    return by_part(entries, OF_EACH)


every_entry = by_part(ENTRIES)
smooth = by_part([e for e in ENTRIES if not e.constant])


twice = of_each_name([e for e in ENTRIES if not e.constant and e.second])
single = of_each_name([e for e in ENTRIES if e.single and not e.constant])
dispatched = of_each_name([e for e in ENTRIES if e.dispatch and e.reference is None])


def of_ours(entry: Entry) -> Any:
    return lambda *values: entry.function(dn, *values)


def forms(x: Any) -> list[tuple[Any, Any]]:
    return [(np.shape(leaf), np.asarray(leaf).dtype) for leaf in leaves(x)]


def assert_same(found: Any, expected: Any) -> None:
    """The same shapes, types and, but for rounding, values."""
    assert forms(found) == forms(expected)
    for a, b in zip(leaves(found), leaves(expected), strict=True):
        np.testing.assert_allclose(a, b, rtol=ROUNDING, atol=ROUNDING)


def assert_paired(found: float, expected: float, scale: float, tolerance: float) -> None:
    assert np.isfinite(expected)
    assert abs(found - expected) <= tolerance * scale, f"{found!r}, expected {expected!r}"


@every_entry
def test_outside_of_a_derivative_it_is_numpy(entry: Entry) -> None:
    result, expected = entry.function(dn, *entry.values()), entry.of_numpy(*entry.values())
    assert [type(v) for v in leaves(result)] == [type(v) for v in leaves(expected)]
    assert_same(result, expected)


@every_entry
def test_value_inside_a_derivative(entry: Entry) -> None:
    """Arrays where NumPy gives arrays, numbers where it gives numbers."""
    kinds: list[bool] = []

    def watched(*values: Any) -> Any:
        out = entry.function(dn, *values)
        kinds.extend(v._scalar if isinstance(v, Array) else not isinstance(v, np.ndarray) for v in leaves(out))
        return out

    value, _ = ds.vjp(watched, *entry.values())
    expected = entry.of_numpy(*entry.values())
    assert_same(value, expected)
    assert kinds == [np.isscalar(v) for v in leaves(expected)]


@smooth
def test_vjp_against_differences(entry: Entry) -> None:
    rng = np.random.default_rng(1)
    values = entry.values()
    value, pullback = ds.vjp(of_ours(entry), *values)
    for _ in range(2):
        bars, dots = directions(rng, value), directions(rng, values)
        gradients = pullback(bars)
        assert forms(gradients) == forms(values)
        change = differences(entry.of_numpy, values, dots)
        scale = max(size(gradients, dots), size(bars, change))
        assert_paired(pairing(gradients, dots), pairing(bars, change), scale, entry.tolerance)


@smooth
def test_jvp_against_vjp(entry: Entry) -> None:
    rng = np.random.default_rng(2)
    values = entry.values()
    value, pullback = ds.vjp(of_ours(entry), *values)
    bars, dots = directions(rng, value), directions(rng, values)
    same, change = ds.jvp(of_ours(entry), values, dots)
    assert_same(same, value)
    gradients = pullback(bars)
    for v, d in zip(leaves(value), leaves(change), strict=True):
        assert d is None or (np.shape(d) == np.shape(v) and d.dtype == v.dtype)
    scale = max(size(gradients, dots), size(bars, change))
    assert_paired(pairing(gradients, dots), pairing(bars, change), scale, 1e-5 if "f32" in entry.name else ROUNDING)


@twice
def test_second_order(entry: Entry) -> None:
    """Forward over reverse against differences; reverse over reverse gives the same, symmetric form."""
    rng = np.random.default_rng(3)
    values = entry.values()
    bars = directions(rng, ds.vjp(of_ours(entry), *values)[0])
    u, v = directions(rng, values), directions(rng, values)

    def gradient(*at: Any) -> Any:
        return ds.vjp(of_ours(entry), *at)[1](bars)

    along_v = ds.jvp(gradient, values, v)[1]
    along_u = ds.jvp(gradient, values, u)[1]
    scale = size(u, along_v)
    assert_paired(pairing(u, along_v), pairing(u, differences(gradient, values, v)), scale, SECOND)
    assert_paired(pairing(v, along_u), pairing(u, along_v), scale, 10 * ROUNDING)
    transposed = ds.vjp(gradient, *values)[1](u)
    assert_paired(pairing(transposed, v), pairing(u, along_v), scale, 10 * ROUNDING)


@single
def test_single_precision(entry: Entry) -> None:
    """f32 arguments have f32 gradients, and the value has the type that NumPy gives it."""
    rng = np.random.default_rng(4)
    values = tuple(np.float32(v) for v in entry.values())
    value, pullback = ds.vjp(of_ours(entry), *values)
    assert [np.asarray(v).dtype for v in leaves(value)] == [np.asarray(v).dtype for v in leaves(entry.of_numpy(*values))]
    bars = directions(rng, value)
    gradients = pullback(bars)
    assert all(bar.dtype == np.float32 for bar in gradients)
    doubles = tuple(np.asarray(v, float)[()] for v in values)
    exact_value, exact = ds.vjp(of_ours(entry), *doubles)
    bars = [None if b is None else b.astype(np.asarray(v).dtype) for b, v in zip(leaves(bars), leaves(exact_value), strict=True)]
    for bar, model in zip(gradients, exact(like(exact_value, bars)), strict=True):
        np.testing.assert_allclose(bar, model, rtol=SINGLE, atol=SINGLE * (1.0 + np.max(np.abs(model), initial=0.0)))


@dispatched
def test_numpy_own_function_leads_to_ours(entry: Entry) -> None:
    rng = np.random.default_rng(5)
    values = entry.values()
    value, pullback = ds.vjp(of_ours(entry), *values)
    same, other = ds.vjp(lambda *v: entry.function(np, *v), *values)
    assert_same(same, value)
    bars = directions(rng, value)
    assert_same(other(bars), pullback(bars))


@of_each_name(ENTRIES)
def test_arguments_without_effect_have_exactly_no_derivative(entry: Entry) -> None:
    """A number that can be moved without a change of any result has the cotangent 0, not a rounding."""
    rng = np.random.default_rng(6)
    values = entry.values()
    value, pullback = ds.vjp(of_ours(entry), *values)
    bars = pullback(directions(rng, value))
    base = leaves(entry.of_numpy(*values))
    for k, (x, bar) in enumerate(zip(values, bars, strict=True)):
        for place in np.ndindex(np.shape(x)):
            moved = np.array(x)
            moved[place] += 1e-3
            after = leaves(entry.of_numpy(*values[:k], moved[()], *values[k + 1 :]))
            still = all(np.array_equal(a, b, equal_nan=is_floating(a)) for a, b in zip(after, base, strict=True))
            if still:
                assert np.real(bar[place]) == 0.0
