"""Systems with constant weights but for a layer of cells whose values are given, such as those of a velocity on a wall.

A field on faces has its last values on the high side itself, where a boundary rule gives them: there the row of the matrix is that of the
identity. The other cells have a matrix with constant weights, which transforms turn into numbers. What the layer adds to their equations
goes to the right side.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from diffsim.linear.stencil import Stencil
from diffsim.linear.transforms import Diagonal, diagonal

if TYPE_CHECKING:
    from scipy.sparse import csr_array

Weights = Sequence[float | npt.NDArray]


class Inside(Stencil):
    """The stencil on all cells but the last layer of an axis, with 0 there."""

    def __init__(self, whole: Stencil, axis: int) -> None:
        super().__init__(tuple(n - (k == axis) for k, n in enumerate(whole.shape)), whole.offsets, whole.rules)
        self.along = [{s: m[:-1, :-1] if k == axis else m for s, m in shifts.items()} for k, shifts in enumerate(whole.along)]


class HeldLayer:
    """A matrix whose last layer along an axis is that of the identity, and whose other cells have constant weights.

    With i for the cells inside and h for the held layer, x_h = b_h and A_ii x_i = b_i - A_ih x_h.

    Args:
        axis: the axis across the layer.
        numbers: A_ii.
        couplings: A_ih, a matrix for each layer inside that reads the held one.
    """

    regular = True

    def __init__(self, axis: int, numbers: Diagonal, couplings: dict[int, csr_array]) -> None:
        self._axis, self._numbers, self._couplings = axis, numbers, couplings

    def solve(self, right_side: npt.NDArray, transposed: bool) -> npt.NDArray:
        """The solution for the matrix, or for its transpose."""
        solution = right_side.copy()
        layers = np.moveaxis(solution, self._axis, 0)  # a view, and so are the parts of it
        inside, held = layers[:-1], layers[-1]
        if not transposed:
            for layer, matrix in self._couplings.items():
                inside[layer] -= (matrix @ held.ravel()).reshape(held.shape)
        inside[:] = np.moveaxis(self._numbers.solve(np.moveaxis(inside, 0, self._axis).copy(), transposed), self._axis, 0)
        if transposed:
            for layer, matrix in self._couplings.items():
                held -= (matrix.T @ inside[layer].ravel()).reshape(held.shape)
        return solution


def held_layer(stencil: Stencil, weights: Weights) -> HeldLayer | None:
    """The system in this form. None: it has another one, no transform turns the matrix inside into numbers, or the grid has one axis."""
    here = (0,) * len(stencil.shape)
    if len(here) == 1 or here not in stencil.offsets:
        return None
    own = stencil.offsets.index(here)
    for axis, n in enumerate(stencil.shape):
        if n > 2 and (inside := _constants(weights, axis, own)) is not None:
            if axis not in stencil.inside:
                stencil.inside[axis] = Inside(stencil, axis)
            numbers = diagonal(stencil.inside[axis], inside)
            return HeldLayer(axis, numbers, _couplings(stencil, axis, inside)) if numbers is not None and numbers.regular else None
    return None


def _constants(weights: Weights, axis: int, own: int) -> list[float] | None:
    """The weights inside if they are constant, and those of the last layer along an axis are 1 for the cell itself and 0 for others."""
    constants = []
    for number, weight in enumerate(weights):
        if isinstance(weight, float):
            return None
        layers = np.moveaxis(weight, axis, 0)
        if (layers[-1] != (number == own)).any() or (layers[:-1] != weight.flat[0]).any():
            return None
        constants.append(float(weight.flat[0]))
    return constants


def _couplings(stencil: Stencil, axis: int, weights: Sequence[float]) -> dict[int, csr_array]:
    """For each layer inside that reads the last one, the matrix between their cells."""
    columns = {step: matrix[:-1, [-1]].toarray()[:, 0] for step, matrix in stencil.along[axis].items()}
    layers = sorted({int(layer) for column in columns.values() for layer in np.flatnonzero(column)})
    across = Stencil(
        tuple(n for k, n in enumerate(stencil.shape) if k != axis),
        [tuple(s for k, s in enumerate(offset) if k != axis) for offset in stencil.offsets],
        tuple(rules for k, rules in enumerate(stencil.rules) if k != axis),
    )
    pairs = list(zip(stencil.offsets, weights, strict=True))
    return {layer: across.matrix([weight * float(columns[offset[axis]][layer]) for offset, weight in pairs]) for layer in layers}
