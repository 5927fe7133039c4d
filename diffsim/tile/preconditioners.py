"""Preconditioners of the linear systems within a time step: see `diffsim.solve`."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array
from scipy.sparse.linalg import LinearOperator

import diffsim.numpy as dnp
from diffsim.base import arguments
from diffsim.base.messages import shown
from diffsim.errors import ParameterError, SingularError
from diffsim.linear import Preconditioner
from diffsim.tile.maps import map_fixed

_TYPE = np.float32
"""The type of the inverses: an approximate inverse needs no more, and every arch has it."""
LARGEST = 256
"""The most cells of a block, whose inverse has the square of that number of entries."""

_inverses, _products, _transposed_products = (
    map_fixed(f) for f in (dnp.linalg.inv, lambda inverse, r: inverse @ r, lambda inverse, r: inverse.T @ r)
)


@dataclass(frozen=True)
class BlockJacobi(Preconditioner):
    """The inverse of the part of a matrix that couples the cells of a block with each other.

    The blocks divide the grid from its first cell on; those at its end may be smaller. A block may be a line, along the direction in which
    cells are coupled most, or hold coupled values, such as the values of an element. All blocks are inverted by one tile program,
    and multiplied by another one. A solution with larger blocks takes fewer iterations, each of which takes longer.

    Args:
        block: cells of a block along each axis of the grid, up to 256 in all.

    Raises:
        ParameterError: when it is made, for other numbers; in a run, for a block with another number of axes than the grid.
        SingularError: in a run, a block has no inverse, although the matrix may have one. Where only rounding gives it one, such as the
            whole grid of a Poisson equation that leaves the mean open, the iteration raises ConvergenceError.

    Reference: Saad, Iterative methods for sparse linear systems, 2nd ed. (2003), section 12.2, doi:10.1137/1.9780898718003.

    Example:
        import numpy as np

        import diffsim as ds
        from diffsim.expr import div, grad, interpolate

        class Layers(ds.Equation):
            # A Poisson problem in layers: along axis 1 the medium conducts 1000 times better than across.

            states = {"p": ds.Variable("zero")}

            def __init__(self, grid):
                self.grid, self.dt = grid, 1.0

            def step(self, p):
                def operator(x):
                    across, along = grad(x)
                    return -div([across, 1000.0 * along])

                return {"p": ds.solve(operator, p, boundary="zero", method="cg", preconditioner=ds.BlockJacobi((1, 32)))}

        given = np.random.default_rng(0).normal(size=(32, 32))
        found = ds.Simulation(Layers(ds.Grid((32, 32), spacing=1.0)), precision="f64").run({"p": given}, steps=1).final["p"]
        x = np.pad(found, 1)
        left = 2002.0 * found - x[:-2, 1:-1] - x[2:, 1:-1] - 1000.0 * (x[1:-1, :-2] + x[1:-1, 2:])
        assert np.allclose(left, given)
    """

    block: tuple[int, ...]

    def __post_init__(self) -> None:
        cells = self.block if isinstance(self.block, (tuple, list)) else (self.block,)
        block = tuple(arguments.whole("block", n, 1, remedy="give the cells of a block along each axis, such as (4, 4)") for n in cells)
        if not block or math.prod(block) > LARGEST:
            raise ParameterError(f"block = {shown(self.block)} has {math.prod(block)} cells, expected 1 to {LARGEST}; give smaller blocks")
        object.__setattr__(self, "block", block)

    def room(self, cells: int) -> int:
        return 2 * 8 * math.prod(self.block) * cells

    def __call__(self, matrix: csr_array, shape: tuple[int, ...]) -> LinearOperator:
        if len(shape) != len(self.block):
            raise ParameterError(
                f"block = {self.block} has {len(self.block)} axes, expected {len(shape)} for a grid of {shape} cells; "
                "give one number an axis"
            )
        number, place, blocks = self._divided(shape)
        scale = 1 / float(abs(matrix.diagonal()).max() or 1)
        inverses = self._inverted(matrix * scale, number, place, blocks)
        size = math.prod(self.block)
        places = number * size + place

        def product(values: npt.NDArray, transposed: bool) -> npt.NDArray:
            largest = float(np.abs(values).max(initial=0.0))
            padded = np.zeros(blocks * size, _TYPE)
            padded[places] = values.ravel() * (1 / largest if 0 < largest < np.inf else 1.0)
            product = (_transposed_products if transposed else _products)(inverses, padded.reshape(blocks, size))
            return np.asarray(product).reshape(-1).take(places) * (largest * scale)

        return LinearOperator(matrix.shape, lambda x: product(x, False), lambda x: product(x, True), dtype=np.float64)

    def _inverted(self, matrix: csr_array, number: npt.NDArray, place: npt.NDArray, blocks: int) -> npt.NDArray:
        """The inverses of the blocks."""
        size = math.prod(self.block)
        entries = matrix.tocoo()
        rows, columns = entries.coords
        near = number[rows] == number[columns]
        parts = np.zeros((blocks, size, size))
        parts[:, range(size), range(size)] = 1.0  # of the cells that a block at the end does not have
        parts[number, place, place] = 0.0
        np.add.at(parts, (number[rows[near]], place[rows[near]], place[columns[near]]), entries.data[near])
        try:
            return np.asarray(_inverses(parts.astype(_TYPE)))
        except SingularError as error:
            raise SingularError(
                f"BlockJacobi({self.block}) expected blocks of the matrix with an inverse, got one without; choose other blocks, "
                "or another preconditioner"
            ) from error

    def _divided(self, shape: tuple[int, ...]) -> tuple[npt.NDArray, npt.NDArray, int]:
        """For each cell, in C order, the number of its block and its place there; and how many blocks there are."""
        counts = [-(-n // b) for n, b in zip(shape, self.block, strict=True)]
        index = np.indices(shape).reshape(len(shape), -1)
        along = np.array(self.block)[:, None]
        number = np.ravel_multi_index(tuple(index // along), tuple(counts))
        return number, np.ravel_multi_index(tuple(index % along), self.block), math.prod(counts)
