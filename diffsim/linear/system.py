"""Systems that are solved repeatedly: choose the method, and keep factors between solutions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Literal, TypeAlias, get_args

import numpy as np
import numpy.typing as npt

from diffsim.base.messages import shown
from diffsim.boundary import Rules
from diffsim.errors import ParameterError, SingularError
from diffsim.linear.dominant import DominantFactors, dominates
from diffsim.linear.held import HeldLayer, held_layer
from diffsim.linear.neighbours import neighbours
from diffsim.linear.preconditioner import Given, Preconditioner, described, products
from diffsim.linear.sparse import BiConjugateGradients, ConjugateGradients, Factored, is_symmetric, leaves_constants
from diffsim.linear.stencil import Offset, Stencil
from diffsim.linear.transforms import Diagonal, Inside, diagonal
from diffsim.linear.tridiagonal import Tridiagonal, axis_of

if TYPE_CHECKING:
    from scipy.sparse import csr_array

Method: TypeAlias = Literal["auto", "tridiagonal", "direct", "cg", "bicgstab", "lu"]
METHODS: tuple[Method, ...] = get_args(Method)
SMALL = 20_000
"""Unknowns up to which a general matrix is factored. At 128 x 128 cells that takes 0.1 s, and a solution 5 ms."""
TOLERANCE = {np.dtype(np.float64): 1e-13, np.dtype(np.float32): 1e-7}
"""Default tolerance of iterations."""

Weights = Sequence[float | npt.NDArray]
Prepared = Tridiagonal | Diagonal | HeldLayer | Factored | DominantFactors | ConjugateGradients | BiConjugateGradients


class System:
    """The systems with one stencil and varying weights.

    The factors or matrix of the last weights are kept. Arithmetic is in f64, except for transforms, which use the type of the
    right side.

    Args:
        offsets: offsets of the stencil.
        rules: boundary rules of the solution.
        method: see `diffsim.stepping.stages.solve.solve`.
        tolerance: tolerance of iterations; None: by the type of the right side.
        preconditioner: of iterations; None: the method chooses.
        row_sum: the sum of the weights at each cell, if it is a known number, see `with_row_sum`.
    """

    def __init__(
        self,
        offsets: Sequence[Offset],
        rules: Rules,
        method: Method,
        tolerance: float | None,
        preconditioner: Given | None = None,
        row_sum: float | None = None,
    ) -> None:
        self.count = 1  # fields, as of a `CoupledSystem`
        self.row_sum = row_sum
        self.offsets, self.rules, self.method, self.tolerance = tuple(offsets), rules, method, tolerance
        self.preconditioner = preconditioner
        self._stencil: Stencil | None = None
        self._weights: Weights | None = None
        self._prepared: Prepared | None = None

    @property
    def entries(self) -> tuple[tuple[int, int, Offset], ...]:
        """Where its weights stand: the equation, the field, and the offset, as of a `CoupledSystem`."""
        return tuple((0, 0, offset) for offset in self.offsets)

    def solve(
        self, weights: Weights, right_side: npt.NDArray, transposed: bool = False, given: bool = True, size: npt.NDArray | None = None
    ) -> npt.NDArray:
        """The solution for the matrix with these weights, a number or an array over the cells for each offset, or for its transpose.

        Args:
            weights: weights of the stencil.
            right_side: values over the cells.
            transposed: solve with the transpose.
            given: use the given values of boundary rules, not 0. A transpose has none.
            size: the magnitudes of the terms that the right side is a sum of, which rounding is relative to; None: its own.

        Raises:
            SingularError: the matrix has no inverse.
            ConvergenceError: an iteration did not reach its tolerance.
            ParameterError: the method does not work for this matrix.
            ShapeError: the grid is smaller than the stencil.
        """
        prepared = self._for(weights, right_side)
        assert self._stencil is not None
        if given and not transposed and self._stencil.has_given:
            owed = self._stencil.boundary_terms(weights)
            right_side, size = right_side - owed, None if size is None else size + abs(owed)
        if isinstance(prepared, Diagonal | ConjugateGradients | DominantFactors):
            return prepared.solve(right_side, transposed, size)
        return prepared.solve(right_side, transposed)

    def inside(
        self,
        weights: tuple[float, ...],
        right_side: npt.NDArray,
        solution: npt.NDArray,
        transposed: bool,
        given: bool,
        size: npt.NDArray | None,
    ) -> Inside | None:
        """`solve` with constant weights by a kernel from one array into another; None where no kernel does, or rules have values."""
        prepared = self._for(weights, right_side)
        assert self._stencil is not None
        if not isinstance(prepared, Diagonal) or (given and not transposed and self._stencil.has_given):
            return None
        return prepared.inside(right_side, solution, transposed, size)

    def identity(self) -> str:
        """A text that identifies it, as far as possible."""
        return repr((self.offsets, self.rules, self.method, self.tolerance, described(self.preconditioner)))

    def room(self, cells: int) -> int:
        """Approximate bytes that are kept for the last weights. The size of complete factors is unknown beforehand: 20 of
        their entries are assumed for each entry of the matrix."""
        entries = len(self.offsets) * cells
        if self.preconditioner is not None:
            return 80 * entries + (self.preconditioner.room(cells) if isinstance(self.preconditioner, Preconditioner) else 0)
        each = {"tridiagonal": 9 * 8 * cells, "direct": 4 * 8 * cells, "cg": 80 * entries, "bicgstab": 160 * entries}
        return each.get(self.method, 280 * entries if cells <= SMALL or self.method == "lu" else 160 * entries)

    def _for(self, weights: Weights, right_side: npt.NDArray) -> Prepared:
        known = self._weights
        if self._stencil is None or self._stencil.shape != right_side.shape:
            self._stencil, known = Stencil(right_side.shape, self.offsets, self.rules), None
        same = known is not None and (known is weights or are_equal(known, weights))
        if not same or self._prepared is None:
            self._prepared = self._weights = None
            self._prepared = self._ready(self._stencil, weights, self.tolerance or TOLERANCE[right_side.dtype])
            fixed = isinstance(weights, tuple) and _constant(weights)
            self._weights = weights if fixed else [w if isinstance(w, float) else w.copy() for w in weights]
        return self._prepared

    def _ready(self, stencil: Stencil, weights: Weights, tolerance: float) -> Prepared:
        require_finite(weights)
        require_some(weights, "an operator")
        weights = with_row_sum(weights, self.offsets, self.row_sum)
        if self.preconditioner is not None:
            return self._preconditioned(self.preconditioner, stencil.matrix(weights), tolerance, stencil.shape)
        ways: dict[str, Callable[[], Prepared | None]] = {
            "tridiagonal": lambda: None if (axis := axis_of(stencil)) is None else Tridiagonal(stencil, axis, weights),
            "direct": lambda: (
                diagonal(stencil, [w for w in weights if isinstance(w, float)], isinstance(weights, tuple))
                if _constant(weights)
                else held_layer(stencil, weights)
            ),
            "cg": lambda: ConjugateGradients(neighbours(stencil, weights) or stencil.matrix(weights), tolerance, stencil.shape),
            "bicgstab": lambda: BiConjugateGradients(stencil.matrix(weights), tolerance),
            "lu": lambda: _factored(stencil.matrix(weights)),
        }
        if self.method != "auto":
            prepared = ways[self.method]()
            if prepared is None:
                raise ParameterError(f"method = {shown(self.method)} {WANTS[self.method]}; choose 'auto'")
            return prepared
        numbers = ways["direct"]()
        if isinstance(numbers, Diagonal | HeldLayer) and (axis_of(stencil) is None or not numbers.regular):
            return numbers
        matrix = None
        if axis_of(stencil) is not None:
            matrix = (neighbours(stencil, weights) or stencil.matrix(weights)) if max(stencil.shape) == stencil.size else None
            if matrix is None or not (is_symmetric(matrix) and leaves_constants(matrix)):
                lines = ways["tridiagonal"]()
                assert lines is not None
                return lines
        if matrix is None:
            matrix = neighbours(stencil, weights) or stencil.matrix(weights)
        symmetric = is_symmetric(matrix)
        if stencil.size <= SMALL and not (symmetric and leaves_constants(matrix)):
            return Factored(stencil.matrix(weights))
        return ConjugateGradients(matrix, tolerance, stencil.shape) if symmetric else BiConjugateGradients(matrix, tolerance)

    def _preconditioned(self, given: Given, matrix: csr_array, tolerance: float, shape: tuple[int, ...]) -> Prepared:
        near = products(given, matrix, shape)
        if self.method == "cg" or (self.method == "auto" and is_symmetric(matrix)):
            return ConjugateGradients(matrix, tolerance, shape, (near[0], near[0]))
        return BiConjugateGradients(matrix, tolerance, near)


def with_row_sum(weights: Weights, offsets: Sequence[Offset], row_sum: float | None) -> Weights:
    """Weights whose sum at each cell is exactly `row_sum`, if that is known and the weights are rounded to f32.

    Weights in f32 that should cancel leave a sum of 1e-7 of their size. That sum has the place of the whole inverse for constants: a matrix
    without inverse seems to have one, and one with a small sum gets another solution. So the weight of the cell itself follows from the
    others, in f64.
    """
    here = next((number for number, offset in enumerate(offsets) if not any(offset)), None)
    if row_sum is None or here is None or not any(not isinstance(w, float) and w.dtype == np.float32 for w in weights):
        return weights
    others = sum(np.asarray(weight, np.float64) for number, weight in enumerate(weights) if number != here)
    return [np.asarray(row_sum - others) if number == here else weight for number, weight in enumerate(weights)]


WANTS = {
    "tridiagonal": "expected an operator that reads a cell and its two neighbours along one axis of 3 cells or more, got another one",
    "direct": "expected an operator with constant weights that sine, cosine or Fourier transforms diagonalise, got another one",
}


def require_some(weights: Weights, what: str) -> None:
    """Raise `SingularError` if all weights of an operator are 0."""
    if not any(np.any(weight) for weight in weights):
        raise SingularError(
            f"expected {what} with weights that are not all 0, got 0 everywhere, as where a coefficient that multiplies it is 0; give that "
            "another value"
        )


def _factored(matrix: csr_array) -> Factored | DominantFactors:
    return DominantFactors(matrix) if dominates(matrix) else Factored(matrix)


def require_finite(weights: Weights) -> None:
    """Raise `ParameterError` if a weight is not finite."""
    for weight in weights:
        if not np.isfinite(weight).all():
            raise ParameterError("expected finite weights of the operator, got some that are not; correct the fields that it reads")


def are_equal(known: Weights, weights: Weights) -> bool:
    """True if the weights of two matrices are the same."""
    return all(
        a == b if isinstance(a, float) or isinstance(b, float) else a.dtype == b.dtype and np.array_equal(a, b)
        for a, b in zip(known, weights, strict=True)
    )


def _constant(weights: Weights) -> bool:
    return all(isinstance(weight, float) for weight in weights)
