"""Systems with any weights: sparse factors, conjugate gradients and stabilised biconjugate gradients."""

from __future__ import annotations

import functools
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt

from diffsim.errors import ConvergenceError, ParameterError, SingularError
from diffsim.linear.galerkin import Galerkin
from diffsim.linear.iterations import End, Product, biconjugate_gradients, conjugate_gradients, norm
from diffsim.linear.multigrid import Multigrid
from diffsim.linear.neighbours import SYMMETRIC, Neighbours

if TYPE_CHECKING:
    from scipy.sparse import csr_array

Matrix: TypeAlias = "csr_array | Neighbours"
Near: TypeAlias = tuple[Product, Product]
"""Products with an approximate inverse, and with its transpose."""

CHEAP = 60
"""Iterations that are tried with the diagonal as preconditioner."""
CYCLES = 500
"""Cycles of multigrid after which the diagonal alone is tried."""
SINGULAR = 1e-13
"""A matrix whose rows and columns are of order 1 has no inverse in this precision if the solution for random numbers is larger than the
inverse of this. That for the right side at hand need not be large: in a pure Neumann problem whose right side has mean 0 it is not."""
COMPATIBLE = 1e-6
"""Largest part of a right side outside the range of a matrix without inverse: round-off, also of data that were f32 once."""
ROUNDED = 32
"""The same where the terms of the right side are known, in units of their rounding. Measured: 0.2 for a divergence, 4 for a field of
1.5 million cells without its mean."""
ROUND_OFF = 8 * np.finfo(float).eps
"""A residual this much smaller than matrix times solution is as small as it can be."""
REACHABLE = 1e-9
"""If round-off makes a tolerance unreachable, it is raised to at most this. A matrix that does not reach it is almost singular."""
ITERATIONS = 10
"""An iteration stops after this many times the square root of the number of unknowns, but not before 1000 iterations."""


class Solver(ABC):
    """A prepared matrix for solutions."""

    @abstractmethod
    def solve(self, right_side: npt.NDArray, transposed: bool) -> npt.NDArray:
        """The solution for the matrix, or for its transpose, in the shape of the right side."""


class Factored(Solver):
    """A solver by elimination with pivoting.

    Args:
        matrix: of the system.
        options: of `scipy.sparse.linalg.splu`.

    Raises:
        SingularError: the matrix has no inverse.
    """

    def __init__(self, matrix: csr_array, **options: Any) -> None:
        from scipy.sparse import linalg

        try:
            self._factors = linalg.splu(matrix.tocsc(), **options)
        except RuntimeError as error:
            raise _singular() from error
        rows, columns = scales(matrix)
        with np.errstate(all="ignore"):
            solution = columns * self._factors.solve(rows * np.random.default_rng(0).standard_normal(matrix.shape[0]))
        if not norm(solution) * SINGULAR < 1:
            raise _singular()

    def solve(self, right_side: npt.NDArray, transposed: bool) -> npt.NDArray:
        values = right_side.ravel().astype(float)
        solution = self._factors.solve(values, "T" if transposed else "N")
        return solution.reshape(right_side.shape)


def scales(matrix: csr_array) -> tuple[npt.NDArray, npt.NDArray]:
    """Sizes of rows and of columns: divided by them, all are of order 1."""
    size = abs(matrix)
    rows = size.max(axis=1).toarray().ravel()
    rows[rows == 0] = 1
    columns = size.multiply((1 / rows)[:, None]).tocsr().max(axis=0).toarray().ravel()
    columns[columns == 0] = 1
    return rows, columns


def _singular() -> SingularError:
    return SingularError(
        "expected a matrix with an inverse, got one that has none in this precision; add a term at the cell itself, or a boundary that "
        "fixes the solution. (A symmetric operator that leaves the mean open is solved by method='cg', 'lu', or 'direct'.)"
    )


class Iterated(Solver):
    """A solver by iterations that start at 0, so that the same system gives the same bits.

    Args:
        matrix: matrix of the system.
        tolerance: largest norm of the residual, relative to that of the right side.
        given: products with an approximate inverse, and with its transpose. None: this class chooses.
    """

    name: str
    remedy: str
    _iteration: Callable[..., Any]

    def __init__(self, matrix: Matrix, tolerance: float, given: Near | None = None) -> None:
        self._matrix, self._tolerance, self._given = matrix, tolerance, given
        self._most = max(1000, int(ITERATIONS * math.sqrt(matrix.shape[0])))
        self._size = float(_magnitudes(matrix).max())
        diagonal = matrix.diagonal()
        self._scale = 1 / np.where(diagonal == 0, 1, diagonal)

    @abstractmethod
    def _own(self, transposed: bool) -> Iterator[tuple[Product, int]]:
        """The preconditioners that this class chooses, cheapest first, and the number of iterations to try with each."""

    def _inverses(self, transposed: bool) -> Iterator[tuple[Product, int]]:
        if self._given is None:
            yield from self._own(transposed)
        else:
            yield self._given[transposed], self._most

    def solve(self, right_side: npt.NDArray, transposed: bool) -> npt.NDArray:
        values = right_side.ravel().astype(float)
        matrix = self._matrix.T.tocsr() if transposed and not isinstance(self._matrix, Neighbours) else self._matrix
        size = norm(values)
        if not size:
            return np.zeros(right_side.shape)
        best = math.inf
        for nearly, most in self._inverses(transposed):
            with np.errstate(all="ignore"):  # a breakdown shows in the residual
                solution = self._iteration(matrix, values, nearly, End(0.5 * self._tolerance * size, 0.25 * ROUND_OFF * self._size, most))
                left = norm(values - matrix @ solution) / size
                reachable = ROUND_OFF * self._size * norm(solution) / size
            if left <= max(self._tolerance, min(reachable, REACHABLE)):
                return solution.reshape(right_side.shape)
            best = min(best, left)
        remedy = self.remedy if self._given is None else f"give another preconditioner=, or none, {self.remedy}"
        raise ConvergenceError(
            f"{self.name} expected a residual of at most {self._tolerance:.1e} of the right side, got {best:.1e} after up to "
            f"{self._most} iterations; {remedy}"
        )

    def _by_diagonal(self, values: npt.NDArray) -> npt.NDArray:
        return self._scale * values.ravel()


class ConjugateGradients(Iterated):
    """Conjugate gradients, preconditioned by the diagonal or, if that takes many iterations, by a multigrid cycle.

    If the matrix maps constant fields to 0, the solution has mean zero, and the right side must have mean zero.

    Args:
        matrix: of the system.
        tolerance: see `Iterated`.
        shape: of the grid.
        given: see `Iterated`.

    Raises:
        ParameterError: the matrix is not symmetric.
    """

    name = "cg"
    remedy = "raise tolerance=, or choose method='lu'; the matrix must be positive definite (or negative definite)"
    _iteration = staticmethod(conjugate_gradients)

    def __init__(self, matrix: Matrix, tolerance: float, shape: tuple[int, ...], given: Near | None = None) -> None:
        super().__init__(matrix, tolerance, given)
        if not is_symmetric(matrix):
            raise ParameterError("expected a symmetric operator for method='cg', got another one; choose 'bicgstab' or 'lu'")
        self._shape, self._open = shape, leaves_constants(matrix)

    def solve(self, right_side: npt.NDArray, transposed: bool, size: npt.NDArray | None = None) -> npt.NDArray:
        if not self._open:
            return super().solve(right_side, transposed)
        solution = super().solve(without_mean(right_side.astype(float), right_side, transposed, size), transposed)
        return solution - solution.mean()

    @functools.cached_property
    def _multigrid(self) -> Multigrid | Galerkin:
        return Multigrid(*self._matrix.parts) if isinstance(self._matrix, Neighbours) else Galerkin(self._matrix, self._shape)

    def _own(self, transposed: bool) -> Iterator[tuple[Product, int]]:
        if self._cheap():
            yield self._by_diagonal, CHEAP
        yield lambda values: self._multigrid(values), CYCLES
        yield self._by_diagonal, self._most

    def _inverses(self, transposed: bool) -> Iterator[tuple[Product, int]]:
        def without_mean(product: Product) -> Product:
            return lambda values: (centred := product(values)) - centred.mean()

        for inverse, most in super()._inverses(transposed):
            yield without_mean(inverse) if self._open else inverse, most

    def _cheap(self) -> bool:
        """True if few iterations with the diagonal may be enough. Always True for a sparse matrix, whose multigrid takes long to prepare.

        By Gershgorin's theorem eigenvalues of the matrix over its diagonal are within 1 ± (1 - dominance).
        """
        if not isinstance(self._matrix, Neighbours):
            return True
        dominance = 2 - float((_magnitudes(self._matrix).ravel() * np.abs(self._scale)).max())
        if dominance <= 0:
            return False
        root = math.sqrt((2 - dominance) / dominance)
        return 0.5 * root * math.log(2 * root / self._tolerance) <= CHEAP


class BiConjugateGradients(Iterated):
    """Stabilised biconjugate gradients, preconditioned by the diagonal or, if that is not enough, by incomplete factors."""

    name = "bicgstab"
    remedy = "raise tolerance=, or choose method='lu'"
    _iteration = staticmethod(biconjugate_gradients)

    def __init__(self, matrix: csr_array, tolerance: float, given: Near | None = None) -> None:
        if leaves_constants(matrix) or leaves_constants(matrix.T):  # iterations do not notice, and their transpose has no solution
            raise _singular()
        super().__init__(matrix, tolerance, given)
        self._sparse = matrix

    @functools.cached_property
    def _factors(self) -> Any:
        from scipy.sparse import linalg

        try:
            return linalg.spilu(self._sparse.tocsc(), drop_tol=1e-4, fill_factor=10)
        except RuntimeError as error:
            raise _singular() from error

    def _own(self, transposed: bool) -> Iterator[tuple[Product, int]]:
        yield self._by_diagonal, self._most
        yield lambda values: self._factors.solve(values.ravel(), "T" if transposed else "N"), self._most


def leaves_constants(matrix: Matrix) -> bool:
    """True if a matrix maps constant fields to 0, except for round-off."""
    sums = matrix.row_sums() if isinstance(matrix, Neighbours) else np.asarray(matrix.sum(axis=1))
    largest = np.abs(matrix.diagonal()).max() if isinstance(matrix, Neighbours) else abs(matrix).max()
    return bool(np.abs(sums).max() <= ROUND_OFF * largest)


def _magnitudes(matrix: Matrix) -> npt.NDArray:
    """The sum of the magnitudes of the entries of each row."""
    return matrix.magnitudes() if isinstance(matrix, Neighbours) else np.asarray(abs(matrix).sum(axis=1))


def without_mean(values: npt.NDArray, right_side: npt.NDArray, transposed: bool, size: npt.NDArray | None) -> npt.NDArray:
    """The values of a right side less their mean. Raise if that is not rounding; of a system with the transpose it may be anything."""
    mean = values.mean()
    if not transposed:
        whole = norm(values.ravel())
        require_compatible(abs(mean) * math.sqrt(values.size) / whole if whole else 0.0, right_side, size)
    return values - mean


def require_compatible(part: float, right_side: npt.NDArray, size: npt.NDArray | None) -> None:
    """Raise unless the part of a right side outside the range of a matrix without inverse is small.

    Args:
        part: its norm, relative to that of the right side.
        right_side: the right side.
        size: the magnitudes of the terms that it is a sum of, if they are known. Their rounding may be all of it.
    """
    small = part <= COMPATIBLE
    if not small and size is not None:
        whole, terms = (float(norm(values.ravel().astype(float))) for values in (right_side, size))
        small = part * whole <= ROUNDED * np.finfo(right_side.dtype).eps * terms
    if not small:
        raise SingularError(
            "expected a right side without the part that the operator cannot give (for a Poisson equation its mean is 0), got one of "
            f"which {part:.1e} is such a part; subtract its mean (f - mean(f), which is enough where f is rounding that a function on the "
            "host or a loop gave), or fix the solution at a boundary"
        )


def is_symmetric(matrix: Matrix) -> bool:
    """True if a matrix is symmetric, except for round-off."""
    return isinstance(matrix, Neighbours) or bool(abs(matrix - matrix.T).max() <= SYMMETRIC * abs(matrix).max())
