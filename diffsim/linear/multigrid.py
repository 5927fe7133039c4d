"""One multigrid cycle for a matrix of next neighbours, as an approximate inverse.

The matrix is treated as conductances between cells, and losses of each cell. A coarser grid has half as many cells along an axis. A coarse
cell has the sum of the losses of its cells. It is connected to the next one by the fine lines between both centres: conductances in series
along a line, and lines in parallel. If one axis conducts more than twice as well as another, only that axis is halved: then pointwise
damping is enough for anisotropic matrices too. Values are interpolated linearly between cell centres to the finer grid, and residuals are
restricted by the transpose. Three steps of Jacobi's method before and three after, with weights of Chebyshev's polynomial, damp errors
that vary from cell to cell. The arithmetic is in f32, which is enough for a preconditioner.

Reference: Briggs, Henson, McCormick, A multigrid tutorial, 2nd ed. (2000), chapters 3, 7 and 8; Adams et al., Parallel multigrid
smoothing: polynomial versus Gauss-Seidel, J. Comput. Phys. 188 (2003) 593 - 610, doi:10.1016/S0021-9991(03)00194-3, for the weights.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from diffsim.linear.neighbours import Neighbours

COARSEST = 40
"""Most unknowns of the coarsest grid, which uses a dense inverse."""
STEPS = 3
"""Steps of Jacobi's method before the coarser grid, and as many after it."""
DAMPED = (0.3, 2.0)
"""Eigenvalues of the matrix over its diagonal whose errors are damped. None is larger where the diagonal dominates."""
ALIKE = 0.5
"""An axis is halved if its conductance is at least this part of the best one's."""
TYPE = np.dtype(np.float32)

WEIGHTS = [2 / (sum(DAMPED) + (DAMPED[1] - DAMPED[0]) * math.cos(math.pi * (2 * step + 1) / (2 * STEPS))) for step in range(STEPS)]


@dataclass
class Level:
    """A grid with its working memory.

    Attributes:
        matrix: matrix on this grid.
        halved: axes that have half as many cells on the next grid.
        rings: for each axis, whether its ends are connected.
        x: two fields.
        right_side: cells, flat.
        left: likewise.
    """

    matrix: Neighbours
    halved: tuple[int, ...]
    rings: tuple[bool, ...]
    x: tuple[npt.NDArray, npt.NDArray]
    right_side: npt.NDArray
    left: npt.NDArray


class Multigrid:
    """The grids below a matrix, which is definite, or has constants as its null space.

    If neighbours have a weight with the sign of the diagonal, or the diagonal of a row does not dominate, the matrix is replaced by one
    without these defects.

    Args:
        diagonal: of the matrix, see `Neighbours`.
        beside: likewise.
    """

    def __init__(self, diagonal: npt.NDArray, beside: list[npt.NDArray]) -> None:
        largest = float(np.abs(diagonal).max())
        self._size = math.copysign(largest or 1.0, diagonal.sum())
        conductances = [np.maximum(values / self._size, 0).astype(TYPE) for values in beside]
        loss = diagonal / self._size - sum((values + np.roll(values, 1, axis)) / self._size for axis, values in enumerate(beside))
        loss = np.where(loss > 8 * np.finfo(float).eps, loss, 0).astype(TYPE)
        self._levels: list[Level] = []
        rings = tuple(bool(np.moveaxis(values, axis, 0)[-1].any()) for axis, values in enumerate(beside))
        while loss.size > COARSEST:
            halved = _axes(conductances)
            self._levels.append(_level(loss, conductances, halved, rings))
            loss, conductances = _coarser(loss, conductances, halved)
        last = _level(loss, conductances, (), rings).matrix
        dense = np.stack([(last @ unit).copy() for unit in np.eye(loss.size, dtype=TYPE)]).astype(float)
        self._last = np.linalg.pinv(0.5 * (dense + dense.T), rcond=1e-6 / dense.shape[0], hermitian=True).astype(TYPE)
        self._found = np.empty(diagonal.size)

    def __call__(self, values: npt.NDArray) -> npt.NDArray:
        """One cycle, for flat cells. The next call overwrites the result."""
        size = max(float(values.max()), -float(values.min()))
        if not size or not self._levels:
            self._found[:] = np.einsum("ij,j->i", self._last.astype(float), values) / self._size if size else 0
            return self._found
        np.multiply(values, 1 / size, out=self._levels[0].right_side, casting="same_kind")
        np.multiply(self._cycle(0), size / self._size, out=self._found)
        return self._found

    def _cycle(self, number: int) -> npt.NDArray:
        level = self._levels[number]
        matrix, right_side, (x, other) = level.matrix, level.right_side, level.x
        matrix.begin(right_side, WEIGHTS[0], x)
        for weight in WEIGHTS[1:]:
            matrix.relax(x, right_side, weight, other)
            x, other = other, x
        matrix.residual(x, right_side, level.left)
        coarse = level.left.reshape(matrix.grid)
        for axis in level.halved:
            coarse = _up(coarse, axis, level.rings[axis])
        if number + 1 == len(self._levels):
            correction = np.einsum("ij,j->i", self._last, coarse.ravel()).reshape(coarse.shape)
        else:
            self._levels[number + 1].right_side[:] = coarse.ravel()
            correction = self._cycle(number + 1).reshape(coarse.shape)
        for axis in reversed(level.halved):
            correction = _down(correction, matrix.grid[axis], axis, level.rings[axis])
        matrix.cells(x).reshape(matrix.grid)[...] += correction
        for weight in WEIGHTS[::-1]:
            matrix.relax(x, right_side, weight, other)
            x, other = other, x
        return matrix.cells(x)


def _level(loss: npt.NDArray, conductances: list[npt.NDArray], halved: tuple[int, ...], rings: tuple[bool, ...]) -> Level:
    diagonal = loss + sum(values + np.roll(values, 1, axis) for axis, values in enumerate(conductances))
    matrix = Neighbours(diagonal, conductances, TYPE)
    return Level(matrix, halved, rings, (matrix.field(), matrix.field()), np.zeros(loss.size, TYPE), np.zeros(loss.size, TYPE))


def _axes(conductances: list[npt.NDArray]) -> tuple[int, ...]:
    """The axes to be halved."""
    long = [axis for axis, n in enumerate(conductances[0].shape) if n > 1]
    means = {axis: float(conductances[axis].mean(dtype=float)) for axis in long}
    return tuple(axis for axis in long if means[axis] >= ALIKE * max(means.values()))


def _coarser(loss: npt.NDArray, conductances: list[npt.NDArray], halved: tuple[int, ...]) -> tuple[npt.NDArray, list[npt.NDArray]]:
    """Losses and conductances of the next grid."""
    joined = []
    for axis, values in enumerate(conductances):
        if axis in halved:
            values = _in_series(values, axis)
        for other in halved:
            values = values if other == axis else _pairs(values, other)
        joined.append(values)
    for axis in halved:
        loss = _pairs(loss, axis)
    return loss, joined


def _pairs(values: npt.NDArray, axis: int) -> npt.NDArray:
    """Sums of pairs of cells. A single last cell does not change."""
    moved = np.moveaxis(values, axis, 0)
    out = moved[::2].copy()
    out[: len(moved) // 2] += moved[1::2]
    return np.moveaxis(out, 0, axis)


def _in_series(values: npt.NDArray, axis: int) -> npt.NDArray:
    """Conductances between the centres of neighbouring pairs of cells: in series, the link between them and half of the links inside of
    both."""
    moved = np.moveaxis(values, axis, 0)
    if len(moved) % 2:  # a single cell has no inner resistance
        moved = np.concatenate([moved[:-1], np.full_like(moved[:1], np.inf), moved[-1:]])
    with np.errstate(divide="ignore", over="ignore"):
        inside = 0.5 / moved[::2]
        out = 1 / (1 / moved[1::2] + inside + np.roll(inside, -1, 0))
    return np.moveaxis(out, 0, axis)


def _down(coarse: npt.NDArray, n: int, axis: int, ring: bool) -> npt.NDArray:
    """Linear interpolation from cells twice as wide to n cells. Beyond the last centre the value is constant."""
    values = np.moveaxis(coarse, axis, 0)
    shape = list(coarse.shape)
    shape[axis] = n
    out = np.empty(shape, coarse.dtype)
    cells, quarter, most = np.moveaxis(out, axis, 0), 0.25 * values, 0.75 * values
    even, odd = cells[::2], cells[1::2]
    np.add(most[1:], quarter[:-1], out=even[1:])
    np.add(most[:1], quarter[-1:] if ring else quarter[:1], out=even[:1])
    np.add(most[: len(odd)][: len(values) - 1], quarter[1:], out=odd[: len(values) - 1])
    if len(odd) == len(values):
        np.add(most[-1:], quarter[:1] if ring else quarter[-1:], out=odd[-1:])
    return out


def _up(fine: npt.NDArray, axis: int, ring: bool) -> npt.NDArray:
    """The transpose of `_down`."""
    cells = np.moveaxis(fine, axis, 0)
    even, odd = cells[::2], cells[1::2]
    shape = list(fine.shape)
    shape[axis] = len(even)
    out = np.empty(shape, fine.dtype)
    coarse = np.moveaxis(out, axis, 0)
    coarse[...] = even
    coarse[: len(odd)] += odd
    coarse *= 3
    coarse[:-1] += even[1:]
    coarse[-1 if ring else 0] += even[0]
    coarse[1:] += odd[: len(even) - 1]
    if len(odd) == len(even):
        coarse[0 if ring else -1] += odd[-1]
    coarse *= 0.25
    return out
