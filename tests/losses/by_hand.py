"""Values and gradients of the misfits and penalties, worked out by hand in NumPy, for comparison."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.signal import hilbert

Result = tuple[float, np.ndarray]
Mask = np.ndarray | None


def least_squares(x: np.ndarray, data: np.ndarray, weight: np.ndarray | float = 1.0, mask: Mask = None, normalise: bool = False) -> Result:
    used = np.ones(x.shape, bool) if mask is None else np.broadcast_to(mask, x.shape)
    weights = np.broadcast_to(weight, x.shape)
    gradient, value, energy = np.zeros(x.shape), 0.0, 0.0
    for i in zip(*np.nonzero(used), strict=True):
        value += 0.5 * weights[i] * (x[i] - data[i]) ** 2
        energy += 0.5 * weights[i] * data[i] ** 2
        gradient[i] = weights[i] * (x[i] - data[i])
    return (value / energy, gradient / energy) if normalise else (value, gradient)


def huber(x: np.ndarray, data: np.ndarray, delta: float, weight: np.ndarray | float = 1.0, mask: Mask = None) -> Result:
    weights = np.broadcast_to(weight, x.shape) * (True if mask is None else mask)
    residual = x - data
    large = np.abs(residual) > delta
    values = np.where(large, delta * (np.abs(residual) - 0.5 * delta), 0.5 * residual**2)
    return float(np.sum(weights * values)), weights * np.where(large, delta * np.sign(residual), residual)


def envelope(x: np.ndarray, data: np.ndarray, level: float, logarithm: bool, weight: np.ndarray | float = 1.0, mask: Mask = None) -> Result:
    """By SciPy's analytic signal; the transpose of the Hilbert transform is minus itself."""
    used = np.ones(x.shape, bool) if mask is None else mask
    weights, x, data = np.broadcast_to(weight, x.shape) * used, np.where(used, x, 0.0), np.where(used, data, 0.0)
    epsilon = level * np.abs(hilbert(data, axis=0)).max()
    turned = np.imag(hilbert(x, axis=0))
    size, observed = (np.sqrt(np.abs(hilbert(values, axis=0)) ** 2 + epsilon**2) for values in (x, data))
    residual = np.log(size / observed) if logarithm else size - observed
    slope = weights * residual / (size**2 if logarithm else size)
    return float(0.5 * np.sum(weights * residual**2)), used * (slope * x - np.imag(hilbert(slope * turned, axis=0)))


def correlation(x: np.ndarray, data: np.ndarray, weight: np.ndarray | float = 1.0, mask: Mask = None) -> Result:
    used = np.ones(x.shape, bool) if mask is None else mask
    value, gradient, weights = 0.0, np.zeros(x.shape), np.broadcast_to(weight, x.shape)
    for r in range(x.shape[1]):
        there = used[:, r]
        d, o, w = x[there, r], data[there, r], weights[there, r]
        product, sizes = np.sum(w * d * o), np.sqrt(np.sum(w * d**2) * np.sum(w * o**2))
        value += w.mean() * (1 - product / sizes)
        gradient[there, r] = -w.mean() * w * (o - product / np.sum(w * d**2) * d) / sizes
    return value, gradient


def wasserstein(
    x: np.ndarray, data: np.ndarray, sharpness: float, dt: float, weight: np.ndarray | float = 1.0, mask: Mask = None
) -> Result:
    """The value by Gauss's rule between the levels of both distributions, the gradient by Kantorovich's potential."""
    used = np.ones(x.shape, bool) if mask is None else mask
    value, gradient, weights = 0.0, np.zeros(x.shape), np.broadcast_to(weight, x.shape)
    for r in range(x.shape[1]):
        there, b = used[:, r], sharpness / np.abs(np.where(used, data, 0.0)[:, r]).max()
        mass, others = (np.log(1 + np.exp(b * values[there, r])) for values in (x, data))
        f, g = mass / mass.sum(), others / others.sum()
        times = dt * np.arange(len(f) + 1)
        rising, other = (np.concatenate([[0.0], np.cumsum(each)]) for each in (f, g))
        levels = np.unique(np.concatenate([rising, other]))
        middle, half = 0.5 * (levels[1:] + levels[:-1]), 0.5 * np.diff(levels)
        squares = [
            (np.interp(s, rising, times) - np.interp(s, other, times)) ** 2 for s in (middle - half / 3**0.5, middle + half / 3**0.5)
        ]
        potential = _means_of_potential(times, rising, other)
        w = weights[there, r].mean()
        value += w * float(np.sum(half * (squares[0] + squares[1])))
        gradient[there, r] = w * (potential - potential @ f) / mass.sum() * b / (1 + np.exp(-b * x[there, r]))
    return value, gradient


def _means_of_potential(times: np.ndarray, rising: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Mean over each cell of φ, where φ' = 2 (t - T(t)) and T(t) is where the other distribution reaches the level at t."""
    places = np.unique(np.concatenate([times, np.interp(other, rising, times)]))
    slopes = 2 * (places - np.interp(np.interp(places, times, rising), other, times))
    lengths = np.diff(places)
    phi = np.concatenate([[0.0], np.cumsum(0.5 * lengths * (slopes[1:] + slopes[:-1]))])
    inside = lengths * (phi[:-1] + lengths * (slopes[:-1] / 3 + slopes[1:] / 6))  # φ is a parabola between neighbouring places
    cells = np.searchsorted(times, 0.5 * (places[1:] + places[:-1])) - 1
    return np.bincount(cells, inside, minlength=len(times) - 1) / np.diff(times)


def tikhonov(x: np.ndarray, weight: float, spacing: tuple[float, ...], order: int, reference: np.ndarray | float, mask: Mask) -> Result:
    used = np.ones(x.shape, bool) if mask is None else mask
    departure = np.where(used, x - reference, 0.0)
    factor = weight * np.prod(spacing)
    if order == 0:
        return 0.5 * factor * np.sum(departure**2), factor * departure
    value, gradient = 0.0, np.zeros(x.shape)
    for axis, i, j in _pairs(used):
        slope = (departure[j] - departure[i]) / spacing[axis]
        value += 0.5 * factor * slope**2
        gradient[j] += factor * slope / spacing[axis]
        gradient[i] -= factor * slope / spacing[axis]
    return value, gradient


def bent(x: np.ndarray, weight: float, spacing: tuple[float, ...], reference: np.ndarray | float, mask: Mask) -> Result:
    """Order 2 of Tikhonov: cell by cell, each pair of axes in both orders."""
    used = np.ones(x.shape, bool) if mask is None else mask
    departure = np.where(used, x - reference, 0.0)
    factor = weight * np.prod(spacing)
    value, gradient, units = 0.0, np.zeros(x.shape), np.eye(x.ndim, dtype=int)
    for place in np.ndindex(*x.shape):
        for a in range(x.ndim):
            for b in range(x.ndim):
                cells = [
                    (1, tuple(place)),
                    (-1, tuple(place + units[a])),
                    (-1, tuple(place + units[b])),
                    (1, tuple(place + units[a] + units[b])),
                ]
                if all(all(i < n for i, n in zip(cell, x.shape, strict=True)) and used[cell] for _, cell in cells):
                    bend = sum(sign * departure[cell] for sign, cell in cells) / (spacing[a] * spacing[b])
                    value += 0.5 * factor * bend**2
                    for sign, cell in cells:
                        gradient[cell] += sign * factor * bend / (spacing[a] * spacing[b])
    return value, gradient


def total_variation(x: np.ndarray, weight: float, spacing: tuple[float, ...], epsilon: float, mask: Mask) -> Result:
    used = np.ones(x.shape, bool) if mask is None else mask
    factor = weight * np.prod(spacing)
    steepness, gradient = np.zeros(x.shape), np.zeros(x.shape)
    for axis, i, j in _pairs(used):
        steepness[i] += ((x[j] - x[i]) / spacing[axis]) ** 2
    rounded = np.sqrt(steepness + epsilon**2)
    for axis, i, j in _pairs(used):
        share = factor * (x[j] - x[i]) / spacing[axis] ** 2 / rounded[i]
        gradient[j] += share
        gradient[i] -= share
    return factor * np.sum(rounded - epsilon), gradient


def _pairs(used: np.ndarray) -> list[tuple[int, tuple[int, ...], tuple[int, ...]]]:
    """Axis, lower and upper cell of all neighbours that both count."""
    pairs = []
    for i in np.ndindex(used.shape):
        for axis in range(used.ndim):
            j = (*i[:axis], i[axis] + 1, *i[axis + 1 :])
            if j[axis] < used.shape[axis] and used[i] and used[j]:
                pairs.append((axis, i, j))
    return pairs


ByHand = Callable[[np.ndarray], Result]
