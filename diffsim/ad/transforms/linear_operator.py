"""The derivative of a function as a linear operator of SciPy's, without its matrix."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from scipy.sparse.linalg import LinearOperator

from diffsim import arguments
from diffsim.ad.arrays.array import core
from diffsim.ad.arrays.leaves import differentiable
from diffsim.ad.core import laid_out
from diffsim.ad.transforms.jvp import jvp
from diffsim.ad.transforms.vjp import vjp
from diffsim.ad.tree import flatten, unflatten
from diffsim.errors import DerivativeError, ShapeError
from diffsim.typing import Array

Function = Callable[..., Any]


class Flattened:
    """A record of arrays as one vector: its arrays one after another, each in C order.

    Args:
        record: an array, a number, or a record of them.
        what: name of the record, for messages.

    Raises:
        DerivativeError: an entry is not a real floating-point number or array.
    """

    def __init__(self, record: Any, what: str) -> None:
        leaves, self._tree = flatten(record)
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

    def vector(self, record: Any) -> Array:
        """A record of this form as a vector in memory of its own."""
        found = [np.ravel(np.asarray(laid_out(core(leaf)))) for leaf in flatten(record)[0]]
        return np.concatenate(found).astype(self.dtype, copy=False)

    def record(self, vector: Any) -> Any:
        """A vector as a record of this form.

        Raises:
            ShapeError: the vector has another length.
        """
        given = arguments.real_array("the vector", vector)
        if given.size != self.size:
            raise ShapeError(f"the vector has shape {given.shape}, expected ({self.size},), the entries of {self._what}; give one like it")
        parts = np.split(given.ravel(), self._ends[:-1])
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
        self._f, self._x, self._argument = f, x, Flattened(x, "the argument")
        self.value, self._pullback = vjp(f, x)
        self._result = Flattened(self.value, "the value")
        dtype = np.result_type(self._argument.dtype, self._result.dtype)
        super().__init__(dtype, (self._result.size, self._argument.size))

    def argument(self, vector: Any) -> Any:
        """A vector with an entry for each column, as an array or a record like the argument of the function."""
        return self._argument.record(vector)

    def result(self, vector: Any) -> Any:
        """A vector with an entry for each row, as an array or a record like the value of the function."""
        return self._result.record(vector)

    def _matvec(self, vector: Array) -> Array:
        moved = jvp(self._f, (self._x,), (self.argument(vector),))[1]
        return self._result.vector(moved)

    def _rmatvec(self, vector: Array) -> Array:
        return self._argument.vector(self._pullback(self.result(vector))[0])


def linear_operator(f: Function, x: Any) -> JacobianOperator:
    """The derivative of `f` at `x` as a `scipy.sparse.linalg.LinearOperator`: products with the Jacobian and its adjoint, without a matrix.

    Its shape is (entries of the value, entries of `x`). Records count as one vector: their arrays one after another, each in C order.
    `jacobian @ v` is one run of the tangent, `jacobian.H @ w` one reverse sweep. `jacobian.H @ jacobian` is the Gauss-Newton Hessian of
    half the squared norm of `f`. The operator of `ds.grad(loss)` is the Hessian of a loss.

    Args:
        f: of an array, a number or a record of them, gives such a value; all real and floating point. Simulations may run in it.
        x: where. It is copied.

    Returns:
        The operator. Its `value` is f(x). `argument(v)` gives a vector the form of `x`, and `result(w)` that of the value.

    Raises:
        DerivativeError: an operation without a rule, or an entry of `x` or of the value that is not a real floating-point number.

    Example:
        import numpy as np
        from scipy.sparse.linalg import eigsh, lsqr

        import diffsim as ds

        # Which diffusivity explains what two thermometers recorded? One step of Gauss and Newton, and what the records tell.
        rod = ds.Simulation(ds.solvers.Heat(ds.Grid((40,), spacing=0.05), dt=0.1), receivers={"T": [[0.5], [1.5]]}, precision="f64")
        hot = np.linspace(0.0, 1.0, 40) ** 2
        observed = rod.run({"kappa": np.full(40, 6e-3), "T": hot}, steps=60).traces["T"]
        start = np.full(40, 5e-3)
        jacobian = ds.linear_operator(lambda kappa: rod.run({"kappa": kappa, "T": hot}, steps=60).traces["T"], start)
        residual = observed - jacobian.value
        step = lsqr(jacobian, residual.ravel(), damp=1e-3)[0]
        assert np.linalg.norm(residual.ravel() - jacobian @ step) < 0.1 * np.linalg.norm(residual)
        hessian = jacobian.H @ jacobian
        curvatures, directions = eigsh(hessian, k=2)
        assert jacobian.argument(directions[:, 0]).shape == start.shape and (curvatures > 0).all()
    """
    arguments.function("f", f, "ds.linear_operator(lambda x: x**2, x)", optional=False)
    leaves, tree = flatten(x)
    mine = unflatten(tree, [leaf.copy() if isinstance(leaf, np.ndarray) else leaf for leaf in leaves])
    return JacobianOperator(f, mine)
