"""Gradients of functions that return one real number, and values held constant."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from diffsim.ad.arrays.array import Array, core, wrap
from diffsim.ad.arrays.leaves import as_constant, differentiable, inputs_of
from diffsim.ad.core import Primitive, laid_out
from diffsim.ad.transforms.vjp import vjp
from diffsim.ad.tree import flatten, tree_map, unflatten
from diffsim.base import arguments
from diffsim.base.copies import remade
from diffsim.base.messages import shown
from diffsim.errors import DerivativeError, ParameterError, ShapeError

Function = Callable[..., Any]


@remade
def value_and_grad(f: Function, argnums: int | Sequence[int] = 0, has_aux: bool = False) -> Function:
    """A function that gives the value of `f`, a real number, and its gradient.

    Args:
        f: of arrays, numbers and pytrees of them.
        argnums: the arguments to differentiate for.
        has_aux: `f` returns (value, aux).

    Returns:
        A function of the same arguments: (value, gradient), or ((value, aux), gradient). The gradient has the shape of its
        argument; for several argnums it is a tuple. For a complex argument z it is df/dx - i df/dy, as in JAX.

    Raises:
        DerivativeError: the value is not a real number, or an argument is not of a floating-point type.

    Example:
        import numpy as np

        import diffsim as ds

        # Two experiments with one unknown: a loss over as many simulations as one likes.
        rod = ds.Simulation(ds.solvers.Heat(ds.Grid((20,), spacing=0.05), dt=0.1), precision="f64")
        starts = [np.cos(np.pi * np.arange(20) / 20), np.linspace(0.0, 1.0, 20)]

        def loss(kappa):
            return sum((rod.run({"kappa": kappa, "T": T}, 20).final["T"] ** 2).sum() for T in starts)

        value, gradient = ds.value_and_grad(loss)(np.full(20, 5e-3))
        assert value > 0 and (gradient <= 0).all()  # diffusion makes the squares smaller
    """
    arguments.function("f", f, "ds.grad(lambda x: (x**2).sum())", optional=False)
    has_aux = arguments.flag("has_aux", has_aux)
    several = isinstance(argnums, (tuple, list, range))
    numbers = tuple(number_of(n) for n in argnums) if isinstance(argnums, (tuple, list, range)) else (number_of(argnums),)

    def derivative(*args: Any, **kwargs: Any) -> Any:
        places = [place_of(n, len(args)) for n in numbers]
        if len(set(places)) < len(places):
            raise ShapeError(f"argnums = {argnums} names an argument twice, expected each once")
        for place in places:
            _require_floating(args[place], place)

        def part(*chosen: Any) -> Any:
            full = [None if k in places else tree_map(as_constant, arg) for k, arg in enumerate(args)]
            for place, value in zip(places, chosen, strict=True):
                full[place] = value
            return f(*full, **tree_map(as_constant, kwargs))

        result = vjp(part, *(args[p] for p in places), has_aux=has_aux)
        value, pullback = result[:2]
        bars = pullback(_one(value))
        gradient = bars if several else bars[0]
        return ((value, result[2]), gradient) if has_aux else (value, gradient)

    return derivative


def number_of(argnum: Any) -> int:
    """The number of an argument, as it was given."""
    if isinstance(argnum, (bool, np.bool_)) or not isinstance(argnum, (int, np.integer)):
        raise ParameterError(f"argnums = {shown(argnum)}, expected the number of an argument; write 0 for the first")
    return int(argnum)


def place_of(number: int, count: int) -> int:
    if not -count <= number < count:
        raise ShapeError(f"argnums names argument {number}, but {count} positional arguments were given")
    return number % count


def _require_floating(arg: Any, place: int) -> None:
    leaves, _ = inputs_of(arg)
    if not any(differentiable(leaf) is not None for leaf in leaves):
        kinds = ", ".join(sorted({str(getattr(leaf, "dtype", type(leaf).__name__)) for leaf in leaves})) or "nothing"
        raise DerivativeError(
            f"argument {place} holds {kinds}, expected floating-point values to differentiate for; use float(x) or astype(float)"
        )


def _one(value: Any) -> Any:
    shape = np.shape(laid_out(core(value))) if isinstance(value, (Array, np.ndarray, np.generic, float, int)) else None
    if shape != ():
        got = f"an array of shape {shape}" if shape is not None else type(value).__name__
        raise DerivativeError(f"the function returned {got}, expected one real number; reduce it (sum), or use ds.vjp or ds.jacobian")
    dtype = laid_out(core(value)).dtype if not isinstance(value, (float, int)) else np.dtype(float)
    if dtype.kind == "c":
        raise DerivativeError("the function returned a complex number, expected a real one; take its real part or absolute value")
    if dtype.kind != "f":
        raise DerivativeError(f"the function returned a number of type {dtype}, expected a floating-point one; integers have no derivative")
    return dtype.type(1)


@remade
def grad(f: Function, argnums: int | Sequence[int] = 0, has_aux: bool = False) -> Function:
    """A function that gives the gradient of `f`, which returns a real number. See `value_and_grad`.

    Args:
        f: of arrays, numbers and pytrees of them; gives a real number.
        argnums: the arguments to differentiate for.
        has_aux: `f` returns (value, aux).

    Returns:
        A function of the same arguments that gives the gradient, of the shape of its argument; with `has_aux` (gradient, aux).

    Raises:
        DerivativeError: the value is not a real number, or an argument is not of a floating-point type.

    Example:
        import numpy

        import diffsim as ds
        import diffsim.numpy as np

        # How the flow through layers one behind the other depends on the permeability of each (their harmonic mean).
        def flow(permeability):
            return len(permeability) / np.sum(1 / permeability)

        gradient = ds.grad(flow)(numpy.array([1.0, 1.0, 0.1]))
        assert gradient[2] > 10 * gradient[0]  # the tightest layer decides
    """
    both = value_and_grad(f, argnums, has_aux)

    def gradient(*args: Any, **kwargs: Any) -> Any:
        value, slopes = both(*args, **kwargs)
        return (slopes, value[1]) if has_aux else slopes

    return gradient


def stop_gradient(x: Any) -> Any:
    """The values of `x`, held constant: derivatives do not pass.

    Args:
        x: an array, a number, or a pytree of them.

    Returns:
        The same values.

    Example:
        import numpy

        import diffsim as ds
        import diffsim.numpy as np

        # A misfit relative to the size of the prediction, where that size is not to be made larger for a smaller misfit.
        observed = numpy.array([1.0, 2.0])

        def relative(predicted):
            return np.sum((predicted - observed) ** 2) / ds.stop_gradient(np.sum(predicted**2))

        gradient = ds.grad(relative)(numpy.array([2.0, 2.0]))
        assert numpy.allclose(gradient, [2 * 1.0 / 8.0, 0.0])
    """
    leaves, tree = flatten(x)
    return unflatten(tree, [leaf if (c := differentiable(leaf)) is None else wrap(_stop(c)) for leaf in leaves])


_stop = Primitive("stop_gradient", lambda x: x, constant=True)
