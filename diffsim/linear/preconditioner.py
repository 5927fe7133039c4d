"""Approximate inverses of matrices, given by the caller of a solver."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt

from diffsim.base import arguments
from diffsim.base.messages import shown
from diffsim.errors import ParameterError
from diffsim.linear.iterations import Product

if TYPE_CHECKING:
    from scipy.sparse import csr_array
    from scipy.sparse.linalg import LinearOperator


class Preconditioner(ABC):
    """A function of a matrix that gives an approximate inverse, with its properties that are known beforehand."""

    @abstractmethod
    def __call__(self, matrix: csr_array, shape: tuple[int, ...]) -> LinearOperator:
        """The approximate inverse.

        Args:
            matrix: a row and a column for each cell, in the order of `numpy.ravel`.
            shape: of the grid.
        """

    def room(self, cells: int) -> int:
        """Approximate bytes that it keeps, for a grid of `cells` cells."""
        return 0


ITERATIVE = ("auto", "cg", "bicgstab")
"""Methods that take a preconditioner."""
Given: TypeAlias = "Preconditioner | Callable[[csr_array, tuple[int, ...]], LinearOperator]"


def products(given: Given, matrix: csr_array, shape: tuple[int, ...]) -> tuple[Product, Product]:
    """The products with an approximate inverse, and with its transpose.

    Raises:
        ParameterError: the function gave something else.
    """
    from scipy.sparse.linalg import LinearOperator

    inverse = given(matrix, shape)
    if not isinstance(inverse, LinearOperator) or inverse.shape != matrix.shape:
        shown = f"one of shape {inverse.shape}" if isinstance(inverse, LinearOperator) else type(inverse).__name__
        raise ParameterError(
            f"the preconditioner gave {shown}, expected a scipy.sparse.linalg.LinearOperator of shape {matrix.shape}; "
            "return an approximate inverse of the matrix"
        )

    def product(values: npt.NDArray) -> npt.NDArray:
        return np.asarray(inverse.matvec(values.ravel()), float).ravel()

    def transposed(values: npt.NDArray) -> npt.NDArray:
        try:
            return np.asarray(inverse.rmatvec(values.ravel()), float).ravel()
        except NotImplementedError as error:
            raise ParameterError(
                "a gradient solves with the transposed matrix, and the preconditioner gave a LinearOperator without rmatvec; give it one"
            ) from error

    return product, transposed


def require_preconditioner(given: Given | None, method: str) -> None:
    """Raise unless a user gave nothing, or a function of a matrix and a shape for an iterative method."""
    arguments.function("preconditioner", given, "ds.BlockJacobi((4, 4))")
    if isinstance(given, type) and issubclass(given, Preconditioner):
        raise ParameterError(f"preconditioner = the class {given.__name__}, expected an object of it; call it, {given.__name__}(...)")
    if given is not None and method not in ITERATIVE:
        raise ParameterError(
            f"method = {shown(method)} takes no preconditioner, expected {', '.join(map(repr, ITERATIVE))}; choose one of these"
        )


def described(given: Given | None) -> str:
    """A text that identifies a preconditioner, as far as possible: of a function its name."""
    if given is None or isinstance(given, Preconditioner):
        return repr(given)
    named: Any = given if hasattr(given, "__qualname__") else type(given)
    return f"{named.__module__}.{named.__qualname__}"
