"""The value of a function and its derivative along tangents."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from diffsim.ad.arrays import guard
from diffsim.ad.arrays.array import wrap
from diffsim.ad.arrays.leaves import array_core, as_constant, as_input, differentiable, inputs_of
from diffsim.ad.core import local, running
from diffsim.ad.ops.structure import zeros_like
from diffsim.ad.transforms.modes import ForwardTrace, ForwardTracer
from diffsim.ad.transforms.results import Extra, checked_cotangent, result_of, split_aux
from diffsim.ad.tree import flatten, leaves_like, unflatten
from diffsim.base import arguments
from diffsim.errors import DerivativeError, ShapeError


def jvp(f: Callable[..., Any], primals: Sequence[Any], tangents: Sequence[Any], has_aux: bool = False) -> Any:
    """Value of `f` and its derivative along `tangents`. There is no tape.

    Args:
        f: of arrays, numbers and pytrees of them.
        primals: a tuple, one entry an argument.
        tangents: of the same shape; None for values that are held fixed, and for entries that are not floating point.
        has_aux: `f` returns (value, aux).

    Returns:
        (value, tangent), or (value, tangent, aux). The tangent of an entry that is not floating point is None.

    Raises:
        ShapeError: tangents of another shape.
        DerivativeError: an operation without a rule.

    Example:
        import numpy as np

        import diffsim as ds

        # How a temperature changes with the time of day at which the heating starts, by one tangent run.
        rod = ds.Simulation(ds.solvers.Heat(ds.Grid((20,), spacing=0.05), dt=0.1), sources={"q": [[0.1]]}, precision="f64")
        inputs = {"kappa": np.full(20, 5e-3), "T": np.zeros(20)}

        def end(q):
            return rod.run({**inputs, "q": q}, 40).final["T"]

        q = np.exp(-((np.arange(40.0) - 20) ** 2) / 20)[:, None]
        later = (np.arange(40.0)[:, None] - 20) / 10 * q  # its derivative by the starting step
        value, tangent = ds.jvp(end, (q,), (later,))
        assert value.shape == tangent.shape == (20,) and tangent[0] > 0 > tangent[-1]  # warmer here, colder there
    """
    arguments.function("f", f, "ds.jvp(lambda x: x**2, (x,), (x_dot,))", optional=False)
    has_aux = arguments.flag("has_aux", has_aux)
    if not isinstance(primals, (tuple, list)) or not isinstance(tangents, (tuple, list)):
        raise ShapeError("jvp expected primals and tangents as tuples, one entry an argument; write jvp(f, (x,), (x_dot,))")
    leaves, tree = inputs_of(tuple(primals))
    dots = leaves_like(tuple(tangents), tree, "tangents")
    outermost, local.met = not local.depth, "" if not local.depth else local.met
    pushed = _pushed(f, leaves, dots, tree, has_aux)
    if outermost and local.met and not local.moving and _is_finite(pushed[:2]):
        _require_unmoved(f, leaves, dots, tree, has_aux)
    return pushed


def _is_finite(tree: Any) -> bool:
    return all(np.isfinite(dot).all() for dot in flatten(tree)[0] if getattr(dot, "dtype", None) is not None)


def _require_unmoved(f: Callable[..., Any], leaves: Any, dots: Any, tree: Any, has_aux: bool) -> None:
    """Raise if a tangent that met an infinite derivative was 0 by its value, and not because no moved input reaches it.

    The function is run again. Its tangents are not 0 where a value depends on a moved input, whatever the partial derivatives are, and NaN
    behind an infinite derivative of such a value. A choice cuts them off as it does tangents.
    """
    name, local.moving = local.met, True
    try:
        marks = [None if dot is None else (np.asarray(dot) != 0).astype(np.asarray(dot).dtype) for dot in dots]
        pushed = _pushed(f, leaves, marks, tree, has_aux)[:2]
    finally:
        local.moving, local.met = False, ""
    if not _is_finite(pushed):
        raise DerivativeError(
            f"the product of 0 and an infinite derivative of {name} is not defined, expected arguments at which it is; take a power in one "
            "expression (sqrt(x)**2), choose entries with numpy.where, or move off that argument"
        )


def _pushed(f: Callable[..., Any], leaves: Any, dots: Any, tree: Any, has_aux: bool) -> Any:
    """Value and tangent, and the further results of the function."""
    trace = ForwardTrace()
    with running():
        try:
            inputs = []
            for leaf, dot in zip(leaves, dots, strict=True):
                value = differentiable(leaf)
                if value is None and dot is not None:
                    kind = getattr(leaf, "dtype", type(leaf).__name__)
                    raise DerivativeError(f"a tangent is given for {kind}, expected a floating-point value there; convert it, or give None")
                if value is None or dot is None:
                    inputs.append(as_constant(leaf))
                else:
                    inputs.append(
                        as_input(leaf, ForwardTracer(trace, value, checked_cotangent(dot, value.shape, value.dtype, "a tangent")))
                    )
            out, aux = split_aux(f(*unflatten(tree, inputs)), has_aux)
            outs, out_tree = flatten(out)
            cores = [array_core(leaf) for leaf in outs]
            extra = Extra(aux)
            guard.check(local.seen, referred_only=True)
        finally:
            trace.ended = True
    values: list[Any] = []
    out_dots: list[Any] = []
    for leaf, value in zip(outs, cores, strict=True):
        if value is None:
            values.append(leaf)
            out_dots.append(None)
        elif isinstance(value, ForwardTracer) and value.trace is trace:
            values.append(result_of(value.primal))
            out_dots.append(result_of(value.tangent))
        else:
            values.append(result_of(value))
            out_dots.append(wrap(zeros_like(value)[()]) if value.dtype.kind in "fc" else None)
    pushed = unflatten(out_tree, values), unflatten(out_tree, out_dots)
    return (*pushed, extra.released(trace)) if has_aux else pushed
