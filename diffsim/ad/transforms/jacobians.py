"""Matrices of derivatives: Jacobians by rows or columns, Hessians and their products."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from diffsim.ad.arrays.array import core, wrap
from diffsim.ad.arrays.leaves import differentiable, hosted, own_arrays
from diffsim.ad.core import laid_out
from diffsim.ad.ops.structure import reshape, transpose
from diffsim.ad.transforms.gradients import grad, number_of, place_of
from diffsim.ad.transforms.jvp import jvp
from diffsim.ad.transforms.vjp import vjp
from diffsim.ad.tree import Tree, flatten, unflatten
from diffsim.base import arguments
from diffsim.base.copies import remade
from diffsim.base.messages import shown
from diffsim.errors import DerivativeError

Function = Callable[..., Any]


def _basis(shape: tuple[int, ...], dtype: Any) -> Iterator[Any]:
    """The unit arrays of a shape, one after another."""
    size = int(np.prod(shape, dtype=int))
    for k in range(size):
        unit = np.zeros(size, dtype)
        unit[k] = 1
        yield unit.reshape(shape)[()]


def _stacked(rows: list[Any], shape: tuple[int, ...]) -> Any:
    """Arrays stacked along new leading axes of lengths `shape`."""
    value = core(rows)
    return wrap(reshape(value, shape=(*shape, *value.shape[1:])) if shape != value.shape[:1] else value)


def _floating_leaves(x: Any, what: str) -> tuple[list[Any], Tree]:
    leaves, tree = flatten(x)
    cores = [differentiable(leaf) for leaf in leaves]
    if any(c is None for c in cores):
        raise DerivativeError(f"{what} of a jacobian holds entries that are not floating point; leave them out or bind them beforehand")
    return cores, tree


def _of_one(f: Function, args: tuple[Any, ...], place: int) -> Function:
    """The function of the argument at a place. It may edit the others, which are copies."""

    def of_one(v: Any) -> Any:
        others = own_arrays((*args[:place], *args[place + 1 :]))
        return f(*others[:place], v, *others[place:])

    return of_one


@remade
def jacrev(f: Function, argnums: int = 0) -> Function:
    """The Jacobian by rows: one reverse sweep an entry of the value.

    Returns:
        A function with the value's axes first and the argument's after them; for pytrees, a pytree of the value's shape whose
        entries are pytrees of the argument's shape.

    Args:
        f: of arrays and pytrees of them.
        argnums: the argument to differentiate for.

    Raises:
        DerivativeError: the argument is not of a floating-point type.
    """

    arguments.function("f", f, "ds.jacrev(lambda x: x**2)", optional=False)
    number = number_of(argnums)

    def jacobian(*args: Any) -> Any:
        place = place_of(number, len(args))
        x = hosted(args[place])
        _floating_leaves(x, "the argument")
        value, pullback = vjp(_of_one(f, args, place), x)
        outs, out_tree = _floating_leaves(value, "the value")
        _, in_tree = flatten(x)
        blocks = []
        for k, out in enumerate(outs):
            rows = []
            for unit in _basis(out.shape, out.dtype):
                seeds: list[Any] = [None] * len(outs)
                seeds[k] = unit
                rows.append(flatten(pullback(unflatten(out_tree, seeds))[0])[0])
            columns = [[row[j] for row in rows] for j in range(len(flatten(x)[0]))]
            shapes = [np.shape(laid_out(core(leaf))) for leaf in flatten(x)[0]]
            blocks.append(
                unflatten(
                    in_tree,
                    [_stacked(c, out.shape) if c else wrap(np.zeros((*out.shape, *s))) for c, s in zip(columns, shapes, strict=True)],
                )
            )
        return unflatten(out_tree, blocks)

    return jacobian


@remade
def jacfwd(f: Function, argnums: int = 0) -> Function:
    """The Jacobian by columns: one tangent an entry of the argument. See `jacrev`.

    Args:
        f: of arrays and pytrees of them.
        argnums: the argument to differentiate for.

    Returns:
        A function of the same arguments; see `jacrev`.

    Raises:
        DerivativeError: the argument is not of a floating-point type.
    """

    arguments.function("f", f, "ds.jacfwd(lambda x: x**2)", optional=False)
    number = number_of(argnums)

    def jacobian(*args: Any) -> Any:
        place = place_of(number, len(args))
        x = hosted(args[place])
        ins, in_tree = _floating_leaves(x, "the argument")
        columns: list[list[Any]] = []
        out_tree = None
        for k, leaf in enumerate(ins):
            for unit in _basis(leaf.shape, leaf.dtype):
                dots: list[Any] = [None] * len(ins)
                dots[k] = unit
                _, dot = jvp(_of_one(f, args, place), (x,), (unflatten(in_tree, dots),))
                out_cores, out_tree = _floating_leaves(dot, "the value")
                columns.append(out_cores)
        if out_tree is None:
            outs, out_tree = _floating_leaves(f(*own_arrays((*args[:place], x, *args[place + 1 :]))), "the value")
            return unflatten(out_tree, [unflatten(in_tree, [wrap(np.zeros((*o.shape, *i.shape))) for i in ins]) for o in outs])
        blocks = []
        for m in range(len(columns[0])):
            start, entries = 0, []
            for leaf in ins:
                size = int(np.prod(leaf.shape, dtype=int))
                entries.append(_columns([c[m] for c in columns[start : start + size]], leaf.shape, columns[0][m].shape))
                start += size
            blocks.append(unflatten(in_tree, entries))
        return unflatten(out_tree, blocks)

    return jacobian


def _columns(columns: list[Any], shape: tuple[int, ...], out_shape: tuple[int, ...]) -> Any:
    """Arrays of shape `out_shape` stacked along new trailing axes."""
    if not columns:
        return wrap(np.zeros((*out_shape, *shape)))
    value = core(columns)
    rank = len(out_shape)
    value = transpose(value, axes=(*range(1, rank + 1), 0))
    return wrap(reshape(value, shape=(*out_shape, *shape)))


@remade
def jacobian(f: Function, argnums: int = 0, mode: str = "auto") -> Function:
    """The Jacobian of `f`.

    Args:
        f: of arrays and pytrees of them.
        argnums: the argument to differentiate for.
        mode: "rows" (reverse), "columns" (forward), or "auto": the one with fewer runs.

    Returns:
        A function of the same arguments. The result has the value's axes first and the argument's after them.

    Raises:
        DerivativeError: an unknown mode, or the argument is not of a floating-point type.

    Example:
        import numpy as np

        import diffsim as ds

        # Sensitivity of two thermometers to the conductance of three layers of a wall, 300 K inside and 280 K outside.
        def temperatures(conductance):
            resistance = 1 / conductance
            flux = 20.0 / (resistance[0] + resistance[1] + resistance[2])
            return 300.0 - flux * np.array([1.0, 1.0]) * resistance[0] - flux * np.array([0.0, 1.0]) * resistance[1]

        at = np.array([1.0, 0.2, 0.5])
        found = ds.jacobian(temperatures)(at)
        assert found.shape == (2, 3)
        assert np.allclose(found, ds.jacfwd(temperatures)(at)) and np.allclose(found, ds.jacrev(temperatures)(at))
    """
    arguments.function("f", f, "ds.jacobian(lambda x: x**2)", optional=False)
    number = number_of(argnums)
    if not isinstance(mode, str) or mode not in ("auto", "rows", "columns"):
        raise DerivativeError(f"mode = {shown(mode)}, expected 'rows', 'columns' or 'auto'; choose one of them")
    if mode != "auto":
        return (jacrev if mode == "rows" else jacfwd)(f, argnums)

    def chosen(*args: Any) -> Any:
        place = place_of(number, len(args))
        x = hosted(args[place])
        value = f(*own_arrays((*args[:place], x, *args[place + 1 :])))
        sizes = [sum(laid_out(c).size for c in _floating_leaves(v, "the jacobian")[0]) for v in (x, value)]
        return (jacrev if sizes[1] <= sizes[0] else jacfwd)(f, argnums)(*args)

    return chosen


@remade
def hessian(f: Function, argnums: int = 0) -> Function:
    """The matrix of second derivatives of `f`, which returns a real number: columns of the gradient, forward over reverse.

    Args:
        f: of an array, and maybe others; gives a real number.
        argnums: the argument to differentiate for.

    Returns:
        A function of the same arguments; the result has the argument's axes twice.

    Raises:
        DerivativeError: the value is not a real number, or the argument is not of a floating-point type.

    Example:
        import numpy

        import diffsim as ds
        import diffsim.numpy as np

        # How certain are a decay rate and an amplitude that were fitted to data? The inverse of the Hessian is their covariance.
        t = numpy.linspace(0.0, 3.0, 30)
        data = 2.0 * numpy.exp(-0.7 * t)

        def misfit(p):
            return 0.5 * np.sum((p[0] * np.exp(-p[1] * t) - data) ** 2) / 0.1**2

        covariance = numpy.linalg.inv(ds.hessian(misfit)(numpy.array([2.0, 0.7])))
        assert (numpy.sqrt(numpy.diag(covariance)) < 0.1).all() and covariance[0, 1] > 0
    """
    number = number_of(argnums)
    return jacfwd(grad(f, number), number)


def hvp(f: Function, x: Any, v: Any) -> Any:
    """The Hessian of `f` at `x` times `v`, forward over reverse; `f` returns a real number, `v` has the shape of `x`.

    Args:
        f: of one array, gives a real number.
        x: where.
        v: the direction, of the shape of `x`.

    Returns:
        An array of the shape of `x`.

    Raises:
        DerivativeError: the value is not a real number, or `x` is not of a floating-point type.

    Example:
        import numpy as np

        import diffsim as ds

        # Curvature of a misfit through a simulation, without its matrix.
        rod = ds.Simulation(ds.solvers.Heat(ds.Grid((20,), spacing=0.05), dt=0.1), precision="f64")
        hot = np.cos(np.pi * np.arange(20) / 20)

        def misfit(kappa):
            return 0.5 * (rod.run({"kappa": kappa, "T": hot}, 20).final["T"] ** 2).sum()

        kappa, v = np.full(20, 5e-3), np.random.default_rng(1).standard_normal(20)
        curved = ds.hvp(misfit, kappa, v)
        moved = (ds.grad(misfit)(kappa + 1e-7 * v) - ds.grad(misfit)(kappa - 1e-7 * v)) / 2e-7
        assert np.allclose(curved, moved, rtol=1e-4, atol=1e-4 * abs(curved).max())
    """
    return jvp(grad(f), (x,), (v,))[1]
