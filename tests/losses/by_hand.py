"""Values and gradients of the misfits and penalties, worked out by hand in NumPy, for comparison."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

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
    found = []
    for i in np.ndindex(used.shape):
        for axis in range(used.ndim):
            j = (*i[:axis], i[axis] + 1, *i[axis + 1 :])
            if j[axis] < used.shape[axis] and used[i] and used[j]:
                found.append((axis, i, j))
    return found


ByHand = Callable[[np.ndarray], Result]
