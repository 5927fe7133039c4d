"""Systems of several fields: a matrix of blocks, each of which is a stencil."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt

from diffsim.base.messages import shown
from diffsim.boundary import Rules
from diffsim.errors import ParameterError, SingularError
from diffsim.linear.iterations import Product
from diffsim.linear.preconditioner import Given, Preconditioner, described, products
from diffsim.linear.sparse import ROUND_OFF, BiConjugateGradients, ConjugateGradients, Factored, is_symmetric, scales
from diffsim.linear.stencil import Offset, Stencil
from diffsim.linear.system import SMALL, TOLERANCE, Method, System, Weights, are_equal, require_finite, require_some, with_row_sum

if TYPE_CHECKING:
    from scipy.sparse import csr_array

Entry: TypeAlias = tuple[int, int, Offset]
"""The equation, the field that it reads, and the offset at which it does."""

FLAT = 200_000
"""Unknowns up to which a matrix on a grid of two dimensions is factored. 2 x 256 x 256 take 1.6 s on an AMD EPYC
(family 25, model 1), and a solution 33 ms."""
PIVOT = 0.1
"""A pivot on the diagonal is taken if it is at least this part of the largest in its column."""
SHIFT = 1e-10
"""A matrix without inverse, whose rows and columns are of order 1, is shifted by this to find what it maps to 0."""
SHARE = 1e-2
"""A field takes part in what a matrix maps to 0 if it has this part of the largest value."""
LEVEL = 1e-4
"""Differences of a field that is nearly constant, relative to its values."""


class CoupledSystem:
    """The systems with one pattern of stencils, and varying weights. The factors or matrix of the last weights are kept.

    Rows and columns of the matrix are scaled to be of order 1, since fields differ in their units.

    Args:
        entries: where the weights stand.
        rules: boundary rules of each field of the solution.
        names: of the fields, for messages.
        method: "auto", "lu", "bicgstab" or "cg", see `diffsim.stepping.stages.solve.solve`.
        tolerance: tolerance of iterations; None: by the type of the right side.
        preconditioner: of iterations; None: the method chooses. Its grid has a first axis more, that of the fields. Its matrix is not
            scaled, but its products are.
        row_sums: by equation and field, the sum of the weights at each cell, where it is a known number, see `with_row_sum`.

    Raises:
        ParameterError: the method works for one field only.
    """

    def __init__(
        self,
        entries: Sequence[Entry],
        rules: Sequence[Rules],
        names: Sequence[str],
        method: Method,
        tolerance: float | None,
        preconditioner: Given | None = None,
        row_sums: Mapping[tuple[int, int], float] | None = None,
    ) -> None:
        if method in ("tridiagonal", "direct"):
            raise ParameterError(
                f"method = {shown(method)} for {len(names)} fields, expected 'auto', 'lu', 'bicgstab' or 'cg'; choose one of these"
            )
        self.entries, self.rules, self.names = tuple(entries), tuple(rules), tuple(names)
        self.method, self.tolerance, self.preconditioner = method, tolerance, preconditioner
        self._row_sums = dict(row_sums or {})
        self._blocks: dict[tuple[int, int], list[int]] = {}
        for number, (row, column, _) in enumerate(self.entries):
            self._blocks.setdefault((row, column), []).append(number)
        self._stencils: dict[tuple[int, int], Stencil] = {}
        self._shape: tuple[int, ...] | None = None
        self._weights: Weights | None = None
        self._prepared: _Scaled | None = None

    @property
    def count(self) -> int:
        """The number of fields, and of equations."""
        return len(self.names)

    def solve(
        self, weights: Weights, right_sides: Sequence[npt.NDArray], transposed: bool = False, given: bool = True
    ) -> list[npt.NDArray]:
        """The solution for the matrix with these weights, a number or an array over the cells for each entry, or for its transpose.

        Args:
            weights: weights of the stencils.
            right_sides: values over the cells, of each equation (of each field, for the transpose).
            transposed: solve with the transpose.
            given: use the given values of boundary rules, not 0. A transpose has none.

        Raises:
            SingularError: the matrix has no inverse. It names the fields that are not determined.
            ConvergenceError: an iteration did not reach its tolerance.
            ParameterError: the method does not work for this matrix.
            ShapeError: the grid is smaller than a stencil.
        """
        sides = np.stack([np.asarray(side, float) for side in right_sides])
        prepared = self._for(weights, right_sides[0])
        if given and not transposed:
            for (row, column), stencil in self._stencils.items():
                if stencil.has_given:
                    sides[row] -= stencil.boundary_terms([weights[number] for number in self._blocks[row, column]])
        return list(prepared.solve(sides, transposed))

    def identity(self) -> str:
        """A text that identifies it, as far as possible."""
        return repr((self.entries, self.rules, self.method, self.tolerance, described(self.preconditioner)))

    def room(self, cells: int) -> int:
        """Approximate bytes that are kept for the last weights, see `System.room`."""
        entries = len(self.entries) * cells
        if self.preconditioner is not None:
            return 80 * entries + (self.preconditioner.room(self.count * cells) if isinstance(self.preconditioner, Preconditioner) else 0)
        most = SMALL if len(self.rules[0]) > 2 else FLAT
        factored = self.method == "lu" or (self.method == "auto" and self.count * cells <= most)
        return (280 if factored else 160) * entries

    def _for(self, weights: Weights, like: npt.NDArray) -> _Scaled:
        known = self._weights
        if self._shape != like.shape:
            self._shape, known = like.shape, None
            self._stencils = {
                (row, column): Stencil(like.shape, [self.entries[number][2] for number in numbers], self.rules[column])
                for (row, column), numbers in self._blocks.items()
            }
        if known is None or self._prepared is None or not are_equal(known, weights):
            self._prepared = self._weights = None
            require_finite(weights)
            for row, name in enumerate(self.names):
                own = [weight for weight, entry in zip(weights, self.entries, strict=True) if entry[0] == row]
                require_some(own, f"an equation of {name}")
            self._prepared = self._ready(self._matrix(weights), like.shape, self.tolerance or TOLERANCE[like.dtype])
            self._weights = [w if isinstance(w, float) else w.copy() for w in weights]
        return self._prepared

    def _matrix(self, weights: Weights) -> csr_array:
        from scipy.sparse import block_array, csr_array

        cells = next(iter(self._stencils.values())).size
        blocks: list[list[Any]] = [[None] * self.count for _ in self.names]
        for (row, column), stencil in self._stencils.items():
            own = [weights[number] for number in self._blocks[row, column]]
            blocks[row][column] = stencil.matrix(with_row_sum(own, stencil.offsets, self._row_sums.get((row, column))))
        for number in range(self.count):  # so that each row and column has a size
            if blocks[number][number] is None:
                blocks[number][number] = csr_array((cells, cells))
        return csr_array(block_array(blocks, format="csr"))

    def _ready(self, matrix: csr_array, shape: tuple[int, ...], tolerance: float) -> _Scaled:
        cg = self.method == "cg" or (self.method == "auto" and self.preconditioner is not None and is_symmetric(matrix))
        if cg:
            diagonal = np.abs(matrix.diagonal())
            rows = columns = np.sqrt(np.where(diagonal == 0, 1, diagonal))
        else:
            rows, columns = scales(matrix)
        scaled = (matrix * (1 / columns)[None, :]).tocsr()
        scaled = (scaled * (1 / rows)[:, None]).tocsr()
        most = SMALL if sum(n > 1 for n in shape) > 2 else FLAT
        if not cg and self.preconditioner is None and (self.method == "lu" or (self.method == "auto" and matrix.shape[0] <= most)):
            return _Scaled(self._factored(scaled, columns), rows, columns)
        self._require_levels(scaled, columns)
        near = None
        if self.preconditioner is not None:
            near = _scaled_products(products(self.preconditioner, matrix, (self.count, *shape)), rows, columns)
        if cg:
            near = (np.copy, np.copy) if near is None else (near[0], near[0])
            return _Scaled(ConjugateGradients(scaled, tolerance, shape, near), rows, columns)

        def what() -> str:
            return self._not_determined(scaled, columns)

        return _Scaled(BiConjugateGradients(scaled, tolerance, near), rows, columns, what)

    def _require_levels(self, scaled: csr_array, columns: npt.NDArray) -> None:
        """Raise `SingularError` if a matrix maps constants to 0, of one field or of several, which iterations do not notice."""
        own = columns.reshape(self.count, -1)
        constants = np.zeros((self.count, scaled.shape[0]))
        for number, (values, row) in enumerate(zip(own, constants, strict=True)):
            row.reshape(self.count, -1)[number] = values / values.max()
        results = np.stack([scaled @ row for row in constants])
        sizes = np.stack([abs(scaled) @ row for row in constants])
        together = np.linalg.svd(results, full_matrices=False)[0][:, -1]
        for mix in (*np.eye(self.count), together):
            if np.abs(mix @ results).max() <= ROUND_OFF * (np.abs(mix) @ sizes).max():
                largest = np.abs(mix).max()
                names = [name for name, part in zip(self.names, np.abs(mix), strict=True) if part > SHARE * largest]
                raise SingularError(self._message(names, level=True))

    def _factored(self, matrix: csr_array, columns: npt.NDArray) -> Factored:
        """The factors of a matrix whose rows and columns are of order 1, ordered by its pattern where its diagonal has pivots."""
        try:
            if (np.abs(matrix.diagonal()) > PIVOT**2).all():
                return Factored(matrix, permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=PIVOT, options={"SymmetricMode": True})
            return Factored(matrix)
        except SingularError as error:
            raise SingularError(self._not_determined(matrix, columns)) from error

    def _not_determined(self, matrix: csr_array, columns: npt.NDArray) -> str:
        """The fields that a matrix without inverse leaves open, by inverse iteration. `columns`: by which its columns are divided."""
        from scipy.sparse import eye_array, linalg

        vector = np.random.default_rng(0).standard_normal(matrix.shape[0])
        try:
            factors = linalg.splu((matrix + SHIFT * eye_array(matrix.shape[0])).tocsc())
            with np.errstate(all="ignore"):
                for _ in range(3):
                    vector = factors.solve(vector)
                    vector /= np.abs(vector).max()
        except RuntimeError:
            vector[:] = np.nan
        each = vector.reshape(self.count, -1) if np.isfinite(vector).all() else np.zeros((self.count, 1))
        size = np.abs(each).max(axis=1)
        parts = [number for number in range(self.count) if size[number] > SHARE * size.max()]
        names = [self.names[number] for number in parts] or list(self.names)
        unscaled = each / columns.reshape(self.count, -1)
        level = bool(parts) and all(np.ptp(unscaled[number]) <= LEVEL * np.abs(unscaled[number]).max() for number in parts)
        return self._message(names, level)

    @staticmethod
    def _message(names: Sequence[str], level: bool) -> str:
        what = f"the level of {' and '.join(names)}" if level else f"a change of {' and '.join(names)}"
        return (
            f"expected a system with one solution, got one that leaves {what} open: the equations stay 0 with it; give "
            f"{names[0] if len(names) == 1 else 'one of them'} a side with a value (Dirichlet or Robin), or add a small term, such as "
            f"- 1e-9 * {names[0]}, to its equation"
        )


def _scaled_products(near: tuple[Product, Product], rows: npt.NDArray, columns: npt.NDArray) -> tuple[Product, Product]:
    """Products with an approximate inverse of a matrix, and with its transpose, as those of the matrix divided by these sizes."""
    return lambda values: columns * near[0](rows * values), lambda values: rows * near[1](columns * values)


class _Scaled:
    """A prepared solver of R A C, where R and C divide rows and columns by their sizes. `what` tells what a singular matrix leaves open."""

    def __init__(
        self,
        solver: Factored | BiConjugateGradients | ConjugateGradients,
        rows: npt.NDArray,
        columns: npt.NDArray,
        what: Callable[[], str] | None = None,
    ) -> None:
        self._solver, self._rows, self._columns, self._what = solver, rows, columns, what

    def solve(self, sides: npt.NDArray, transposed: bool) -> npt.NDArray:
        before, after = (self._columns, self._rows) if transposed else (self._rows, self._columns)
        try:
            return (self._solver.solve(sides.ravel() / before, transposed) / after).reshape(sides.shape)
        except SingularError as error:
            if self._what is None:
                raise
            raise SingularError(self._what()) from error


def solutions(
    system: System | CoupledSystem,
    weights: Weights,
    right_sides: Sequence[npt.NDArray],
    transposed: bool = False,
    given: bool = True,
    size: npt.NDArray | None = None,
) -> list[npt.NDArray]:
    """The solution of a system of one field or of several, see `System.solve`."""
    if isinstance(system, CoupledSystem):
        return system.solve(weights, right_sides, transposed, given)
    (side,) = right_sides
    return [system.solve(weights, side, transposed, given, size)]


def system_of(
    entries: Sequence[Entry],
    rules: Sequence[Rules],
    names: Sequence[str],
    method: Method,
    tolerance: float | None,
    preconditioner: Given | None,
    row_sums: Mapping[tuple[int, int], float],
) -> System | CoupledSystem:
    """The system of these fields: for one of them, with all its methods."""
    if len(names) > 1:
        return CoupledSystem(entries, rules, names, method, tolerance, preconditioner, row_sums)
    return System([offset for _, _, offset in entries], rules[0], method, tolerance, preconditioner, row_sums.get((0, 0)))
