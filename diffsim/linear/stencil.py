"""A stencil with boundary rules as a sparse matrix."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from diffsim.boundary import Rules, Sides, extend, ghosts
from diffsim.errors import ShapeError

if TYPE_CHECKING:
    from scipy.sparse import csr_array

Offset = tuple[int, ...]
CANCELLED = 4 * np.finfo(float).eps
"""Contributions that cancel add up to less, relative to their sizes."""


def extension(n: int, reach: int, sides: Sides) -> csr_array:
    """The matrix that extends n cells of an axis by `reach` cells at each end.

    Given values of boundary rules count as 0.

    Raises:
        ShapeError: the axis has fewer cells than the stencil's reach.
    """
    if n < reach:
        raise ShapeError(
            f"the grid has {n} cells along an axis, fewer than the reach of the operator's stencil, {reach}; enlarge it or lower the order"
        )
    from scipy.sparse import coo_array

    outside = [(reach + ghost.position, cell, weight) for ghost in ghosts(sides, n, reach) for cell, weight in ghost.cells]
    rows, columns, values = (np.array(part) for part in zip(*outside, strict=True)) if outside else (np.zeros(0, int),) * 3
    cells = np.arange(n)
    entries = np.concatenate([np.ones(n), values])
    return coo_array((entries, (np.concatenate([cells + reach, rows]), np.concatenate([cells, columns]))), shape=(n + 2 * reach, n)).tocsr()


class Stencil:
    """The pattern of a matrix: row i is the sum over offsets o of w_o(i) x(i + o), where x outside the grid follows from its cells.

    Args:
        shape: cells along each axis.
        offsets: offsets of the stencil.
        rules: boundary rules of x.
    """

    def __init__(self, shape: tuple[int, ...], offsets: Sequence[Offset], rules: Rules) -> None:
        self.shape, self.offsets, self.rules = shape, tuple(offsets), rules
        self.size = int(np.prod(shape))
        self.modes: dict[tuple[tuple[int, ...], ...], Any] = {}  # see `diffsim.linear.transforms.diagonal`
        self.inside: dict[int, Stencil] = {}  # without the last layer of an axis, see `diffsim.linear.held`

    @functools.cached_property
    def along(self) -> list[dict[int, csr_array]]:
        """For each axis: shift in cells -> the matrix of that shift."""
        out = []
        for axis, (n, sides) in enumerate(zip(self.shape, self.rules, strict=True)):
            steps = sorted({o[axis] for o in self.offsets})
            reach = max(map(abs, steps))
            extended = extension(n, reach, sides)
            out.append({step: extended[reach + step : reach + step + n] for step in steps})
        return out

    @functools.cached_property
    def _outside(self) -> npt.NDArray | None:
        """A field of zeros with the given values of boundary rules around it; None if there are no such values."""
        reach = self._reach
        out = np.zeros([n + 2 * h for n, h in zip(self.shape, reach, strict=True)])
        extend(out, reach, self.rules)
        return out if out.any() else None

    @property
    def _reach(self) -> tuple[int, ...]:
        return tuple(max(abs(o[axis]) for o in self.offsets) for axis in range(len(self.shape)))

    @property
    def has_given(self) -> bool:
        """True if boundary rules have given values other than 0."""
        return self._outside is not None

    def boundary_terms(self, weights: Sequence[float | npt.NDArray]) -> npt.NDArray:
        """The contribution of the boundary rules' given values, if there are any, to the product of the matrix and a field."""
        assert self._outside is not None
        total = np.zeros(self.shape)
        for offset, weight in zip(self.offsets, weights, strict=True):
            first = [h + o for h, o in zip(self._reach, offset, strict=True)]
            total += weight * self._outside[tuple(slice(f, f + n) for f, n in zip(first, self.shape, strict=True))]
        return total

    @functools.cached_property
    def _pattern(self) -> tuple[npt.NDArray, ...]:
        """Offset, row and factor of all contributions, in order of row and column. Then the first contribution and the column of each entry
        of the matrix, and the first entry of each row."""
        from scipy.sparse import kron

        which, rows, columns, factors = [], [], [], []
        for number, offset in enumerate(self.offsets):
            matrix = self.along[0][offset[0]]
            for axis in range(1, len(self.shape)):
                matrix = kron(matrix, self.along[axis][offset[axis]], format="csr")
            entries = matrix.tocoo()
            which.append(np.full(entries.nnz, number, np.int8 if len(self.offsets) < 128 else np.int32))
            rows.append(entries.coords[0].astype(np.int64))
            columns.append(entries.coords[1].astype(np.int64))
            factors.append(entries.data)
        row, column = np.concatenate(rows), np.concatenate(columns)
        key = row * self.size + column
        order = np.argsort(key, kind="stable")
        key, row, column = key[order], row[order], column[order]
        begins = np.flatnonzero(np.concatenate([[True], key[1:] != key[:-1]]))
        counts = np.bincount(row[begins], minlength=self.size)
        pointers = np.concatenate([[0], np.cumsum(counts)])
        of = np.concatenate(which)[order]
        return of, row, np.concatenate(factors)[order], begins, column[begins].astype(np.int32), pointers.astype(np.int32)

    @functools.cached_property
    def _joined(self) -> tuple[npt.NDArray, npt.NDArray, npt.NDArray]:
        """Entries with several contributions, as beside a side; their contributions, and the first one of each."""
        begins, contributions = self._pattern[3], len(self._pattern[0])
        counts = np.diff(begins, append=contributions)
        joined = np.flatnonzero(counts > 1)
        several = np.repeat(counts > 1, counts)
        return joined, np.flatnonzero(several), np.cumsum(counts[joined]) - counts[joined]

    def matrix(self, weights: Sequence[float | npt.NDArray]) -> csr_array:
        """The matrix with a weight for each offset: a number, or an array over the cells.

        Contributions to an entry that cancel but for rounding give 0: a row of such entries counts as 0, not as one of small numbers.
        """
        from scipy.sparse import csr_array

        of, row, factors, begins, columns, pointers = self._pattern
        values = np.empty(len(of))
        for number, weight in enumerate(weights):
            mine = of == number
            values[mine] = factors[mine] * (weight if isinstance(weight, float) else weight.ravel()[row[mine]])
        entries = np.add.reduceat(values, begins)
        joined, parts, firsts = self._joined
        if len(joined):
            size = np.add.reduceat(np.abs(values[parts]), firsts)
            entries[joined] = np.where(np.abs(entries[joined]) <= CANCELLED * size, 0.0, entries[joined])
        return csr_array((entries, columns, pointers), shape=(self.size, self.size))

    def apply(self, weights: Sequence[float], x: npt.NDArray) -> npt.NDArray:
        """The product of the matrix and x, for weights that are numbers."""
        total = np.zeros(self.shape)
        for offset, weight in zip(self.offsets, weights, strict=True):
            if not weight:
                continue
            moved = x
            for axis, step in enumerate(offset):
                first = np.moveaxis(moved, axis, 0)
                there = self.along[axis][step] @ first.reshape(first.shape[0], -1)
                moved = np.moveaxis(there.reshape(first.shape), 0, axis)
            total += weight * moved
        return total
