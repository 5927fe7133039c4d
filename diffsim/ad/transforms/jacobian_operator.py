"""The operator that `linear_operator` gives. SciPy, whose class it is made from, comes with this module, when the function is called."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from scipy.sparse.linalg import LinearOperator

from diffsim.ad.arrays.array import core
from diffsim.ad.arrays.leaves import differentiable, hosted
from diffsim.ad.core import laid_out
from diffsim.ad.transforms.jvp import jvp
from diffsim.ad.transforms.vjp import vjp
from diffsim.ad.tree import flatten, unflatten
from diffsim.base import arguments
from diffsim.errors import DerivativeError, ShapeError
from diffsim.typing import Array

Function = Callable[..., Any]


class Flattened:
    """A pytree of arrays as one vector: its arrays one after another, each in C order.

    Args:
        tree: an array, a number, or a pytree of them.
        what: name of the pytree, for messages.

    Raises:
        DerivativeError: an entry is not a real floating-point number or array.
    """

    def __init__(self, tree: Any, what: str) -> None:
        leaves, self._tree = flatten(tree)
        cores = [differentiable(leaf) for leaf in leaves]
        if not cores or any(c is None or c.dtype.kind != "f" for c in cores):
            kinds = ", ".join(str(getattr(leaf, "dtype", type(leaf).__name__)) for leaf in leaves) or "nothing"
            raise DerivativeError(
                f"{what} holds {kinds}, expected arrays of real floating-point numbers only; use a function of these arrays alone"
            )
        self._types = [laid_out(c).dtype for c in cores]
        self._shapes = [np.shape(laid_out(c)) for c in cores]
        self._ends = np.cumsum([int(np.prod(shape, dtype=int)) for shape in self._shapes])
        self.size, self.dtype, self._what = int(self._ends[-1]), np.result_type(*self._types), what

    def vector(self, tree: Any) -> Array:
        """A pytree of this form as a vector in memory of its own."""
        parts = [np.ravel(np.asarray(laid_out(core(leaf)))) for leaf in flatten(tree)[0]]
        return np.concatenate(parts).astype(self.dtype, copy=False)

    def pytree(self, vector: Any) -> Any:
        """A vector as a pytree of this form.

        Raises:
            ShapeError: the vector has another length.
        """
        entries = arguments.real_array("the vector", vector)
        if entries.size != self.size:
            raise ShapeError(
                f"the vector has shape {entries.shape}, expected ({self.size},), the entries of {self._what}; give one like it"
            )
        parts = np.split(entries.ravel(), self._ends[:-1])
        return unflatten(self._tree, self._leaves(parts))

    def _leaves(self, parts: Sequence[Array]) -> list[Any]:
        return [part.reshape(shape).astype(kind)[()] for part, shape, kind in zip(parts, self._shapes, self._types, strict=True)]


class JacobianOperator(LinearOperator):
    """The derivative of a function at a point; see `linear_operator`.

    Args:
        f: the function.
        x: the point.
    """

    def __init__(self, f: Function, x: Any) -> None:
        x = hosted(x)
        self._f, self._x, self._argument = f, x, Flattened(x, "the argument")
        self.value, self._pullback = vjp(f, x)
        self._result = Flattened(self.value, "the value")
        dtype = np.result_type(self._argument.dtype, self._result.dtype)
        super().__init__(dtype, (self._result.size, self._argument.size))

    def argument(self, vector: Any) -> Any:
        """A vector with an entry for each column, as an array or a pytree like the argument of the function."""
        return self._argument.pytree(vector)

    def result(self, vector: Any) -> Any:
        """A vector with an entry for each row, as an array or a pytree like the value of the function."""
        return self._result.pytree(vector)

    def _matvec(self, vector: Array) -> Array:
        moved = jvp(self._f, (self._x,), (self.argument(vector),))[1]
        return self._result.vector(moved)

    def _rmatvec(self, vector: Array) -> Array:
        return self._argument.vector(self._pullback(self.result(vector))[0])
