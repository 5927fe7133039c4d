"""Derivatives of functions: vjp, jvp, and what is made of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from diffsim import arguments, buffers
from diffsim.ad import guard
from diffsim.ad.array import Array, core, wrap
from diffsim.ad.core import Primitive, Tracer, bottom, ended, local, running
from diffsim.ad.leaves import array_core, as_constant, as_input, copied, differentiable
from diffsim.ad.modes import ForwardTrace, ForwardTracer, ReverseTrace, ReverseTracer
from diffsim.ad.ops.structure import astype, zeros_like
from diffsim.ad.sweep import backward
from diffsim.ad.tree import flatten, leaves_like, tree_map, unflatten
from diffsim.copies import Bound, remade
from diffsim.errors import DerivativeError, ParameterError, ShapeError

Function = Callable[..., Any]


def vjp(f: Function, *primals: Any, has_aux: bool = False) -> Any:
    """Value of `f` and its pullback.

    Args:
        f: of arrays, numbers, and records of them (tuples, lists, dicts, dataclasses ...).
        primals: where to differentiate. Entries that are not floating point pass through untouched.
        has_aux: `f` returns (value, aux); aux is not differentiated.

    Returns:
        (value, pullback), or (value, pullback, aux). `pullback(cotangent)` takes a cotangent of the shape of the value and gives
        a tuple with one entry a primal, of its shape; None stands for entries that are not floating point. It can be called
        again; the record lives as long as the pullback does. In a complex space the pairing is sum(cotangent * tangent).

    Raises:
        DerivativeError: an operation without a rule, or an operation that would lose a derivative.
        ShapeError: by the pullback, for a cotangent of another shape.
        StaleValueError: by the pullback, if a large array that the record refers to was edited in place.

    Example:
        import numpy

        import diffsim as ds
        import diffsim.numpy as np

        # Travel times through cells: the pullback projects residuals back onto the cells (tomography).
        lengths = numpy.array([[1.0, 1.0, 0.0], [0.0, 1.0, 2.0]])  # of two rays in three cells, km
        times, pullback = ds.vjp(lambda speed: np.sum(lengths / speed, axis=1), numpy.array([2.0, 2.0, 4.0]))
        (projected,) = pullback(numpy.array([0.1, -0.2]))
        assert numpy.allclose(projected, -numpy.array([0.1, -0.2]) @ lengths / numpy.array([2.0, 2.0, 4.0]) ** 2)
    """
    arguments.function("f", f, "ds.vjp(lambda x: x**2, x)", optional=False)
    has_aux = arguments.flag("has_aux", has_aux)
    leaves, tree = flatten(primals)
    trace = ReverseTrace()
    inputs: list[ReverseTracer | None] = []
    given = []
    with running():
        try:
            for leaf in leaves:
                value = copied(leaf)
                if value is None:
                    inputs.append(None)
                    given.append(as_constant(leaf))
                else:
                    inputs.append(trace.leaf(value))
                    given.append(as_input(leaf, inputs[-1]))
            out, aux = _split(f(*unflatten(tree, given)), has_aux)
            outs, out_tree = flatten(out)
            cores = [array_core(leaf) for leaf in outs]
            extra = _Extra(aux)
        finally:
            trace.ended = True
            recorded = guard.kept()
    results, ends = [], []
    for leaf, value in zip(outs, cores, strict=True):
        mine = isinstance(value, ReverseTracer) and value.trace is trace
        ends.append(value.node if mine else None)
        results.append(leaf if value is None else _result(value.primal if mine else value))
    shapes = [None if v is None else (v.shape, v.dtype) for v in cores]
    kinds = [type(leaf).__name__ for leaf in outs]
    nodes = [None if i is None else i.node for i in inputs]
    value_out, aux = unflatten(out_tree, results), extra.released(trace)
    leaf = value = None
    del given, inputs, out, outs, cores, results, extra

    def pullback(cotangent: Any) -> Any:
        guard.check(recorded)
        cts = leaves_like(cotangent, out_tree, "the cotangent")
        seeds = []
        for ct, end, shape, kind in zip(cts, ends, shapes, kinds, strict=True):
            if ct is not None and shape is None and kind not in ("str", "int", "bool"):
                raise ShapeError(
                    f"a cotangent is given for a {kind}, which is no array, number or record, and whose parts are not seen; "
                    "register its type with ds.register_pytree"
                )
            if ct is not None and shape is not None and shape[1].kind in "fc":
                seed = _checked_cotangent(ct, *shape)
                if end is not None:
                    seeds.append((end, seed))
        bars = iter(backward(seeds, [n for n in nodes if n is not None]))
        found = []
        for node in nodes:
            bar = None if node is None else next(bars)
            found.append(None if node is None else wrap(zeros_like(node)[()] if bar is None else bar))
        return unflatten(tree, found)

    made = Bound(
        pullback, "a pullback", "the record of a function that was run; pickle the function and its arguments, and call ds.vjp there"
    )
    return (value_out, made, aux) if has_aux else (value_out, made)


def _split(result: Any, has_aux: bool) -> tuple[Any, Any]:
    if not has_aux:
        return result, None
    if not isinstance(result, tuple) or len(result) != 2:
        raise ShapeError(f"with has_aux the function returned {type(result).__name__}, expected a pair (value, aux)")
    return result


def _result(value: Any) -> Any:
    """A result that may be edited without touching what was recorded."""
    if isinstance(value, Tracer) and value.trace.ended:
        raise ended()
    if isinstance(value, np.ndarray):
        value = buffers.copy(value)
    return wrap(value)


class _Extra:
    """What a function returns besides its value: read while its trace runs, handed out afterwards."""

    def __init__(self, aux: Any) -> None:
        self.leaves, self.tree = flatten(aux)
        self.cores = [array_core(leaf) for leaf in self.leaves]

    def released(self, trace: Any) -> Any:
        """The same without the tracers of the trace."""
        out = []
        for leaf, value in zip(self.leaves, self.cores, strict=True):
            mine = isinstance(value, Tracer) and value.trace is trace
            out.append(leaf if value is None else _result(value.primal if mine else value))
        return unflatten(self.tree, out)


def _checked_cotangent(ct: Any, shape: tuple[int, ...], dtype: Any, what: str = "a cotangent") -> Any:
    if isinstance(ct, np.ndarray):
        guard.require_plain(ct)
    try:
        ct = core(ct)
    except ValueError as error:
        raise ShapeError(f"{what} cannot become an array ({error}), expected the shape {shape}; give an array") from None
    if isinstance(ct, complex) and dtype.kind != "c":
        raise ShapeError(f"{what} is complex, expected the type of its value, {dtype}; take its real part")
    ct = ct if hasattr(ct, "dtype") else dtype.type(ct)
    if ct.dtype.kind not in "fciub":
        raise ShapeError(f"{what} is of type {ct.dtype}, expected the type of its value, {dtype}; give numbers")
    if ct.shape != shape:
        raise ShapeError(f"{what} has the shape {ct.shape}, expected that of its value, {shape}")
    if ct.dtype.kind == "c" and dtype.kind != "c":
        raise ShapeError(f"{what} is complex, expected the type of its value, {dtype}; take its real part")
    return ct if ct.dtype == dtype else astype(ct, dtype=dtype)


def jvp(f: Function, primals: Sequence[Any], tangents: Sequence[Any], has_aux: bool = False) -> Any:
    """Value of `f` and its derivative along `tangents`. Nothing is recorded.

    Args:
        f: of arrays, numbers and records of them.
        primals: a tuple, one entry an argument.
        tangents: of the same shape; None for what is held fixed, and for entries that are not floating point.
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
        raise ShapeError("jvp takes primals and tangents as tuples, one entry an argument; write jvp(f, (x,), (x_dot,))")
    leaves, tree = flatten(tuple(primals))
    dots = leaves_like(tuple(tangents), tree, "tangents")
    trace = ForwardTrace()
    with running():
        try:
            given = []
            for leaf, dot in zip(leaves, dots, strict=True):
                value = differentiable(leaf)
                if value is None and dot is not None:
                    kind = getattr(leaf, "dtype", type(leaf).__name__)
                    raise DerivativeError(f"a tangent is given for {kind}, expected a floating-point value there; convert it, or give None")
                if value is None or dot is None:
                    given.append(as_constant(leaf))
                else:
                    given.append(
                        as_input(leaf, ForwardTracer(trace, value, _checked_cotangent(dot, value.shape, value.dtype, "a tangent")))
                    )
            out, aux = _split(f(*unflatten(tree, given)), has_aux)
            outs, out_tree = flatten(out)
            cores = [array_core(leaf) for leaf in outs]
            extra = _Extra(aux)
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
            values.append(_result(value.primal))
            out_dots.append(_result(value.tangent))
        else:
            values.append(_result(value))
            out_dots.append(wrap(zeros_like(value)[()]) if value.dtype.kind in "fc" else None)
    found = unflatten(out_tree, values), unflatten(out_tree, out_dots)
    return (*found, extra.released(trace)) if has_aux else found


@remade
def value_and_grad(f: Function, argnums: int | Sequence[int] = 0, has_aux: bool = False) -> Function:
    """A function that gives the value of `f`, a real number, and its gradient.

    Args:
        f: of arrays, numbers and records of them.
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

        found = vjp(part, *(args[p] for p in places), has_aux=has_aux)
        value, pullback = found[:2]
        bars = pullback(_one(value))
        gradient = bars if several else bars[0]
        return ((value, found[2]), gradient) if has_aux else (value, gradient)

    return derivative


def number_of(argnum: Any) -> int:
    """The number of an argument, as it was given."""
    if isinstance(argnum, (bool, np.bool_)) or not isinstance(argnum, (int, np.integer)):
        raise ParameterError(f"argnums = {arguments.shown(argnum)}, expected the number of an argument; write 0 for the first")
    return int(argnum)


def place_of(number: int, count: int) -> int:
    if not -count <= number < count:
        raise ShapeError(f"argnums names argument {number}, but {count} positional arguments were given")
    return number % count


def _require_floating(arg: Any, place: int) -> None:
    leaves, _ = flatten(arg)
    if not any(differentiable(leaf) is not None for leaf in leaves):
        kinds = ", ".join(sorted({str(getattr(leaf, "dtype", type(leaf).__name__)) for leaf in leaves})) or "nothing"
        raise DerivativeError(
            f"argument {place} holds {kinds}, expected floating-point values to differentiate for; use float(x) or astype(float)"
        )


def _one(value: Any) -> Any:
    shape = np.shape(bottom(core(value))) if isinstance(value, (Array, np.ndarray, np.generic, float, int)) else None
    if shape != ():
        got = f"an array of shape {shape}" if shape is not None else type(value).__name__
        raise DerivativeError(f"the function returned {got}, expected one real number; reduce it (sum), or use ds.vjp or ds.jacobian")
    dtype = bottom(core(value)).dtype if not isinstance(value, (float, int)) else np.dtype(float)
    if dtype.kind == "c":
        raise DerivativeError("the function returned a complex number, expected a real one; take its real part or absolute value")
    if dtype.kind != "f":
        raise DerivativeError(f"the function returned a number of type {dtype}, expected a floating-point one; integers have no derivative")
    return dtype.type(1)


@remade
def grad(f: Function, argnums: int | Sequence[int] = 0, has_aux: bool = False) -> Function:
    """A function that gives the gradient of `f`, which returns a real number. See `value_and_grad`.

    Args:
        f: of arrays, numbers and records of them; gives a real number.
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
        value, found = both(*args, **kwargs)
        return (found, value[1]) if has_aux else found

    return gradient


def stop_gradient(x: Any) -> Any:
    """The values of `x`, held constant: derivatives do not pass.

    Args:
        x: an array, a number, or a record of them.

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


def linearize(f: Function, *primals: Any) -> tuple[Any, Function]:
    """Value of `f` and its derivative at `primals` as a function of tangents, `f` being run once.

    The derivative is the transpose of the pullback, which is linear: it costs two reverse sweeps.

    Args:
        f: of arrays, numbers and records of them.
        primals: where.

    Returns:
        (value, derivative): the derivative takes a tangent an argument, and gives the tangent of the value.

    Raises:
        DerivativeError: an operation without a rule.

    Example:
        import numpy

        import diffsim as ds
        import diffsim.numpy as np

        # A step of Gauss and Newton needs many products with one Jacobian.
        t = numpy.linspace(0.0, 2.0, 20)
        value, derivative = ds.linearize(lambda p: p[0] * np.exp(-p[1] * t), numpy.array([1.0, 0.5]))
        columns = numpy.stack([derivative(e) for e in numpy.eye(2)], axis=1)
        data = 1.2 * numpy.exp(-0.6 * t)
        step = numpy.linalg.lstsq(columns, data - value, rcond=None)[0]
        assert numpy.allclose(numpy.array([1.0, 0.5]) + step, [1.2, 0.6], atol=0.05)
    """
    arguments.function("f", f, "ds.linearize(lambda x: x**2, x)", optional=False)
    value, pullback = vjp(f, *primals)
    leaves, tree = flatten(value)
    seeds = [None if (c := differentiable(leaf)) is None else np.ones_like(bottom(c))[()] for leaf in leaves]

    def derivative(*tangents: Any) -> Any:
        _, transposed = vjp(lambda cts: pullback(cts), unflatten(tree, seeds))
        return transposed(tuple(tangents))[0]

    return value, Bound(
        derivative, "a linearised function", "the record of a function that was run; pickle the function and its arguments instead"
    )
