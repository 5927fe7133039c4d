"""The derivative of a function as a linear operator of SciPy's, without its matrix."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from diffsim.ad.tree import flatten, unflatten
from diffsim.base import arguments

if TYPE_CHECKING:
    from diffsim.ad.transforms.jacobian_operator import JacobianOperator

Function = Callable[..., Any]


def linear_operator(f: Function, x: Any) -> JacobianOperator:
    """The derivative of `f` at `x` as a `scipy.sparse.linalg.LinearOperator`: products with the Jacobian and its adjoint, without a matrix.

    Its shape is (entries of the value, entries of `x`). Pytrees count as one vector: their arrays one after another, each in C order.
    `jacobian @ v` is one run of the tangent, `jacobian.H @ w` one reverse sweep. `jacobian.H @ jacobian` is the Gauss-Newton Hessian of
    half the squared norm of `f`. The operator of `ds.grad(loss)` is the Hessian of a loss.

    Args:
        f: of an array, a number or a pytree of them, gives such a value; all real and floating point. Simulations may run in it.
        x: where. It is copied.

    Returns:
        The operator. Its `value` is f(x). `argument(v)` gives a vector the form of `x`, and `result(w)` that of the value.

    Raises:
        DerivativeError: an operation without a rule, or an entry of `x` or of the value that is not a real floating-point number.

    Example:
        import numpy as np
        from scipy.sparse.linalg import eigsh, lsqr

        import diffsim as ds

        # Which diffusivity explains what two thermometers recorded? One step of Gauss and Newton, and the information of the records.
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
    from diffsim.ad.transforms.jacobian_operator import JacobianOperator

    arguments.function("f", f, "ds.linear_operator(lambda x: x**2, x)", optional=False)
    leaves, tree = flatten(x)
    mine = unflatten(tree, [leaf.copy() if isinstance(leaf, np.ndarray) else leaf for leaf in leaves])
    return JacobianOperator(f, mine)
