"""A stencil with boundary rules as a sparse matrix."""

from __future__ import annotations

import functools
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from scipy.sparse import coo_array, csr_array, kron

from diffsim.errors import ParameterError, ShapeError
from diffsim.field import Rule, Rules, extend, zero_rules

Offset = tuple[int, ...]
NEAR = 8
"""Cells at either end of an axis, beside its reach, that the cells outside are first supposed to follow from."""


def extension(n: int, reach: int, rule: Rule) -> csr_array:
    """What lies outside an axis follows from its cells: the matrix from n cells to these with `reach` more at each end.

    It is found by trying out `extend`, so it holds for every rule that is linear.

    Raises:
        ParameterError: the rule is not linear.
        ShapeError: the axis has fewer cells than the stencil's reach.
    """
    if n < reach:
        raise ShapeError(
            f"the grid has {n} cells along an axis, fewer than the reach of the operator's stencil, {reach}; enlarge it or lower the order"
        )
    if _extended(np.zeros((n, 1)), reach, rule).any():
        raise ParameterError(
            f"expected a boundary rule that gives 0 outside a field of zeros, got {rule!r}; solve for the departure from a field that "
            "meets it"
        )
    near = np.unique(np.concatenate([np.arange(min(n, reach + NEAR)), np.arange(max(0, n - reach - NEAR), n)]))
    found = _tried(n, reach, rule, near)
    random = np.random.default_rng(0).standard_normal((n, 1))
    if not np.allclose(found @ random, _extended(random, reach, rule), rtol=0, atol=1e-12 * np.abs(random).max() * n):
        found = _tried(n, reach, rule, np.arange(n))
    return found


def _extended(columns: npt.NDArray, reach: int, rule: Rule) -> npt.NDArray:
    out = np.zeros((columns.shape[0] + 2 * reach, columns.shape[1]))
    out[reach : reach + columns.shape[0]] = columns
    extend(out, (reach, 0), (rule, *zero_rules(1)))
    return out


def _tried(n: int, reach: int, rule: Rule, cells: npt.NDArray) -> csr_array:
    """The matrix, supposing that what is outside follows from some of the cells."""
    rows, columns, values = [np.arange(n) + reach], [np.arange(n)], [np.ones(n)]
    outside = np.concatenate([np.arange(reach), np.arange(reach) + n + reach])
    for group in np.array_split(cells, max(1, len(cells) // 256)):
        unit = np.zeros((n, len(group)))
        unit[group, np.arange(len(group))] = 1
        there = _extended(unit, reach, rule)[outside]
        which, of = np.nonzero(there)
        rows.append(outside[which])
        columns.append(group[of])
        values.append(there[which, of])
    parts = [np.concatenate(part) for part in (values, rows, columns)]
    return coo_array((parts[0], (parts[1], parts[2])), shape=(n + 2 * reach, n)).tocsr()


class Stencil:
    """The pattern of a matrix: row i is the sum over offsets o of w_o(i) x(i + o), where x outside the grid follows from its cells.

    Args:
        shape: cells along each axis.
        offsets: of the stencil.
        rules: of x, one an axis.
    """

    def __init__(self, shape: tuple[int, ...], offsets: Sequence[Offset], rules: Rules) -> None:
        self.shape, self.offsets, self.rules = shape, tuple(offsets), rules
        self.size = int(np.prod(shape))

    @functools.cached_property
    def along(self) -> list[dict[int, csr_array]]:
        """For each axis: by how many cells a stencil reaches along it -> the matrix of that shift."""
        out = []
        for axis, (n, rule) in enumerate(zip(self.shape, self.rules, strict=True)):
            steps = sorted({o[axis] for o in self.offsets})
            reach = max(map(abs, steps))
            extended = extension(n, reach, rule)
            out.append({step: extended[reach + step : reach + step + n] for step in steps})
        return out

    @functools.cached_property
    def _pattern(self) -> tuple[npt.NDArray, ...]:
        """Of all entries, in order of row and column: offset, row, factor; then where each entry of the matrix begins, its column, and
        where each row begins."""
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

    def matrix(self, weights: Sequence[float | npt.NDArray]) -> csr_array:
        """The matrix with a weight for each offset: a number, or an array over the cells."""
        of, row, factors, begins, columns, pointers = self._pattern
        values = np.empty(len(of))
        for number, weight in enumerate(weights):
            mine = of == number
            values[mine] = factors[mine] * (weight if isinstance(weight, float) else weight.ravel()[row[mine]])
        return csr_array((np.add.reduceat(values, begins), columns, pointers), shape=(self.size, self.size))

    def apply(self, weights: Sequence[float], x: npt.NDArray) -> npt.NDArray:
        """The product of the matrix and x, for weights that are numbers."""
        total = np.zeros(self.shape)
        for offset, weight in zip(self.offsets, weights, strict=True):
            moved = x
            for axis, step in enumerate(offset):
                first = np.moveaxis(moved, axis, 0)
                there = self.along[axis][step] @ first.reshape(first.shape[0], -1)
                moved = np.moveaxis(there.reshape(first.shape), 0, axis)
            total += weight * moved
        return total
