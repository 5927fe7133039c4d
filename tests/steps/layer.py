"""The figures of a convolutional perfectly matched layer, cell by cell, from the formulas of Komatitsch and Martin (2007)."""

from __future__ import annotations

import math

import numpy as np


def figures(
    n: int,
    h: float,
    dt: float,
    cells: tuple[int, int],
    place: int,
    speed: float,
    frequency: float,
    reflection: float | None = None,
    grading: float | None = None,
    kappa: float = 1.0,
) -> dict[str, np.ndarray]:
    """a, b and kappa at n centres (place 0) or upper faces (place 1); outside a = 0 and b = kappa = 1."""
    out = {"a": np.zeros(n), "b": np.ones(n), "kappa": np.ones(n)}
    for i in range(n):
        from_low = i + 0.5 + 0.5 * place
        for width, from_edge in zip(cells, (from_low, n - from_low), strict=True):
            if from_edge < width:
                xi = 1 - from_edge / width
                m = min(3.0, 1.0 + 0.15 * width) if grading is None else grading
                sigma = (m + 1) * speed * math.log(10.0**width if reflection is None else 1 / reflection) / (2 * width * h) * xi**m
                k, alpha = 1 + (kappa - 1) * xi**m, math.pi * frequency * (1 - xi)
                b = math.exp(-(sigma / k + alpha) * dt)
                out["kappa"][i], out["b"][i], out["a"][i] = k, b, sigma / (sigma * k + k**2 * alpha) * (b - 1)
    return out


class Layer:
    """The layer of a grid of two axes, for the steps in NumPy."""

    def __init__(self, h: float, dt: float, cells: tuple[tuple[int, int], ...], speed: float, frequency: float, kappa: float) -> None:
        self.h, self.dt, self.cells, self.speed, self.frequency, self.kappa = h, dt, cells, speed, frequency, kappa

    def memory(self, rng: np.random.Generator, shape: tuple[int, ...], axis: int, place: int) -> np.ndarray:
        """Random numbers in the layer of an axis, where alone a memory variable exists."""
        b = figures(shape[axis], self.h, self.dt, self.cells[axis], place, self.speed, self.frequency)["b"]
        return rng.standard_normal(shape) * (b < 1)[(slice(None), None) if axis == 0 else (None, slice(None))]

    def stretch(self, derivative: np.ndarray, axis: int, place: int, memory: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The stretched derivative and the next memory variable."""
        n, cells = derivative.shape[axis], self.cells[axis]
        profiles = figures(n, self.h, self.dt, cells, place, self.speed, self.frequency, kappa=self.kappa)
        a, b, kappa = (values[:, None] if axis == 0 else values[None, :] for values in profiles.values())
        memory = b * memory + a * derivative
        return derivative / kappa + memory, memory
