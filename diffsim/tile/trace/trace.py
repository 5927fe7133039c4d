"""Tracing the function of a tile: it is run once on abstract arrays, and its operations are written down as a `Program`.

An abstract array has a shape, a type and a layout in memory, so the functions of `diffsim.numpy` work on it as on any other array. It
stands for the arrays of all tiles at once, so nothing can be decided by its entries: that is refused, with the line that does it.
"""

from __future__ import annotations

import functools
import operator
import threading
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import numpy as np

from diffsim.ad.arrays.array import core, wrap
from diffsim.ad.arrays.guard import caller
from diffsim.ad.arrays.leaves import Cores
from diffsim.ad.arrays.masked import Masked
from diffsim.ad.arrays.namespace import named
from diffsim.ad.core import Primitive, Trace, Tracer, bind, bottom, is_inexact, local, running
from diffsim.ad.ops import structure as st
from diffsim.ad.ops.elementwise import TABLE
from diffsim.ad.ops.structure import astype
from diffsim.ad.scans import scans
from diffsim.ad.transforms.modes import ForwardTrace, ForwardTracer, ReverseTrace, ReverseTracer
from diffsim.ad.transforms.sweep import swept
from diffsim.errors import TileError
from diffsim.tile.trace import decisions, remedies
from diffsim.tile.trace.program import Operation, Program, Variable, frozen, pruned
from diffsim.tile.trace.zeros import ByValue

UNNEEDED = ("donate", "copy")
"""Parameters of primitives that only say where results lie in memory."""


class _Computing(threading.local):
    """The trace of a thread on abstract arrays.

    Attributes:
        functions: names of functions of NumPy.
        place: line of the operation of another program that is carried out, or whose derivative is taken.
    """

    def __init__(self) -> None:
        self.functions: list[str] = []
        self.place = ""


_computing = _Computing()


def _refusing(name: str, remedy: str) -> Callable[..., Any]:
    """A conversion to a number of Python, which a value of all tiles has not."""

    def convert(self: Any, *_: Any) -> Any:
        raise remedies.no_number(name, remedy)

    return convert


class TileTracer(Tracer):
    """An abstract array of a tile program. `primal` is an example: its entries are never read.

    Attributes:
        variable: of the program.
        weak: whether it stands for a number of Python, such as the number of a turn, which takes the type of what it meets.
    """

    __slots__ = ("variable", "weak")
    abstract = True

    def __init__(self, trace: TileTrace, primal: Any, variable: Variable, weak: bool = False) -> None:
        self.trace, self.primal, self.variable, self.weak = trace, primal, variable, weak

    def __bool__(self) -> bool:
        raise remedies.no_truth_value()

    def __index__(self) -> int:
        raise remedies.no_index()

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        raise remedies.no_number("a NumPy array", "use functions of diffsim.numpy")

    __int__ = _refusing("int()", "write x.astype(int)")
    __float__ = _refusing("float()", "compute with the value itself, by functions of diffsim.numpy (np.sin(x), not math.sin(x))")
    __complex__ = _refusing("complex()", "compute with the value itself, or write x.astype(complex)")
    __floor__ = _refusing("math.floor()", "write np.floor(x)")
    __ceil__ = _refusing("math.ceil()", "write np.ceil(x)")
    __trunc__ = _refusing("math.trunc()", "write np.trunc(x)")
    item = _refusing("item() or round()", "compute with the value itself; np.round(x) rounds it")

    def __array_ufunc__(self, ufunc: Any, how: str, *args: Any, **kwargs: Any) -> Any:  # type: ignore[override]
        if how != "__call__" or kwargs or ufunc.__name__ not in TABLE:
            raise remedies.undecided(f"numpy.{ufunc.__name__} of", "use the function of diffsim.numpy")
        return bind(TABLE[ufunc.__name__], args, {})

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        own = decisions.FUNCTIONS.get(function.__name__)
        if own is not None:
            return own(*args, **kwargs)
        name, running = function.__name__, _computing.functions
        if name in decisions.OF_VALUES or name in running or named(function) is None:  # one that leads back to NumPy's looks at values
            raise remedies.undecided(f"numpy.{name} of", decisions.REMEDIES.get(name, "write it with other functions"))
        running.append(name)
        try:
            return core(named(function)(*(wrap(a) if isinstance(a, Tracer) else a for a in args), **kwargs))
        finally:
            running.pop()

    def __getitem__(self, index: Any) -> Any:
        return core(wrap(self)[index])

    def __invert__(self) -> Any:
        return bind(TABLE["invert"], (self,), {})

    def any(self, axis: Any = None) -> Any:
        return decisions.FUNCTIONS["any"](self, axis)

    def all(self, axis: Any = None) -> Any:
        return decisions.FUNCTIONS["all"](self, axis)

    def reshape(self, *shape: Any) -> Any:
        return decisions.FUNCTIONS["reshape"](self, shape[0] if len(shape) == 1 and isinstance(shape[0], tuple) else shape)

    def astype(self, dtype: Any, copy: bool = True) -> Any:
        return astype(self, dtype=np.dtype(dtype))

    def __repr__(self) -> str:
        return f"<one for each tile: {self.variable!r}>"

    __str__ = __repr__

    def __format__(self, spec: str) -> str:
        return repr(self)


def _is_strong(x: Any) -> bool:
    return hasattr(x, "dtype") and not (isinstance(x, TileTracer) and x.weak)


def _of_one_type(args: Sequence[Any]) -> list[Any]:
    """Arguments of an elementwise operation, with numbers of Python in the type that NumPy's promotion gives them."""
    types = [a.dtype for a in args if _is_strong(a)]
    out = []
    for a in args:
        if isinstance(a, TileTracer) and a.weak:
            dtype = np.result_type(*types, 0.0 if a.dtype.kind == "f" else 0)
            a = a if a.dtype == dtype else bind(astype, (a,), {"dtype": dtype})
        out.append(a)
    return out


class TileTrace(Trace):
    """Writes operations down.

    Attributes:
        arguments: variables of the program.
        operations: so far.
        captured: values of transformations around it that the function uses, with their variables.
        places: where the operation that is being done stands in the user's program.
        closed: whether the function may use nothing from around it.
    """

    __slots__ = ("arguments", "captured", "closed", "operations", "places")

    def __init__(self, places: Callable[[], str] = caller, closed: bool = False) -> None:
        super().__init__()
        self.closed = closed
        self.arguments: list[Variable] = []
        self.operations: list[Operation] = []
        self.captured: dict[int, tuple[Any, TileTracer]] = {}
        self.places = places

    def argument(self, shape: tuple[int, ...], dtype: Any) -> TileTracer:
        tracer = self._new(np.ones(shape, dtype) if np.dtype(dtype).kind in "fc" else np.zeros(shape, dtype))
        self.arguments.append(tracer.variable)
        return tracer

    def _new(self, example: Any) -> TileTracer:
        return TileTracer(self, example, Variable(example.shape, example.dtype))

    def capture(self, value: Any) -> TileTracer:
        """The argument that stands for a value of a transformation around the program."""
        if self.closed:
            raise TileError(
                f"{caller()}: a function with ds.custom_vjp or ds.custom_jvp, or its rule, uses a value of the program from around it, of "
                "which the rule gives no derivative; pass it as an argument"
            )
        entry = self.captured.get(id(value))
        if entry is None:
            if isinstance(value, TileTracer) and value.trace.ended:
                raise value.trace.misused()
            entry = self.captured[id(value)] = value, self.argument(value.shape, value.dtype)
        return entry[1]

    def misused(self) -> TileError:
        return TileError(
            f"{caller()}: a value of a tile program is used outside of it: it left its function by another way than the result, or a "
            "derivative rule reads it; return it, or pass it as an argument"
        )

    def own(self, value: Any) -> Any:
        """A core value as this trace knows it: its tracer, or a constant."""
        if not isinstance(value, Tracer) or (isinstance(value, TileTracer) and value.trace is self):
            return value
        return self.capture(value)

    def apply(self, primitive: Primitive, args: Sequence[Any], params: dict[str, Any]) -> Any:
        for arg in args:
            if isinstance(arg, Masked):
                return arg.through(primitive, args, primitive.name, params)
        args = [self.own(a) for a in args]
        if primitive is scans.scan or primitive is scans.reduce:
            by_tree = scans.scan_by_tree(**params) if primitive is scans.scan else scans.reduce_by_tree(**params)
            return tuple(core(y) for y in by_tree(*map(wrap, args)))
        if primitive.name in decisions.EXPANDED:
            return decisions.EXPANDED[primitive.name](*args, **params)
        if primitive.with_pullback is not None:
            return self._with_own_rule(primitive, args, params)
        params = {name: value for name, value in params.items() if name not in UNNEEDED}
        weak = any(isinstance(a, TileTracer) and a.weak for a in args) and primitive.name in TABLE
        if weak and any(_is_strong(a) for a in args):
            args, weak = _of_one_type(args), False
        examples = [a.primal if isinstance(a, TileTracer) else a for a in args]
        with np.errstate(all="ignore"):
            example = decisions.example(primitive, examples, params)
        results = tuple(map(self._new, example)) if primitive.multiple else (self._new(example),)
        results[0].weak = weak
        operands = tuple(a.variable if isinstance(a, TileTracer) else a for a in args)
        self.operations.append(Operation(primitive, operands, params, tuple(r.variable for r in results), self.places()))
        return results if primitive.multiple else results[0]

    def _with_own_rule(self, primitive: Primitive, args: Sequence[Any], params: dict[str, Any]) -> Any:
        """A function with a derivative rule of its own is one operation, so that its derivative is that of the rule."""
        mine = [k for k, a in enumerate(args) if isinstance(a, TileTracer)]

        def run(cores: Cores) -> Cores:
            inputs = list(args)
            for k, value in zip(mine, cores, strict=True):
                inputs[k] = value
            return tuple(primitive.evaluate(*inputs, **params))

        inner, _ = traced(run, [args[k].variable for k in mine], self.places, closed=True)
        results = tuple(self._new(_example(r)) for r in inner.results)
        operands = tuple(a.variable if isinstance(a, TileTracer) else a for a in args)
        self.operations.append(Operation(primitive, operands, params, tuple(r.variable for r in results), self.places(), inner))
        return results

    def same(self, a: Any, b: Any) -> bool:
        """True if two abstract arrays are results of the same operations on the same arrays."""
        makers = {r: o for o in self.operations for r in o.results}
        known: dict[tuple[Variable, Variable], bool] = {}  # operands have common operands of their own, which would be compared again

        def equal(x: Any, y: Any) -> bool:
            if x is y or not (isinstance(x, Variable) and isinstance(y, Variable)):
                return x is y or (not isinstance(x, Variable) and not isinstance(y, Variable) and frozen(x) == frozen(y))
            if (x, y) not in known:
                known[x, y] = of_same_operations(x, y)
            return known[x, y]

        def of_same_operations(x: Variable, y: Variable) -> bool:
            one, other = makers.get(x), makers.get(y)
            if one is None or other is None or one.primitive is not other.primitive or one.results.index(x) != other.results.index(y):
                return False
            return frozen(one.params) == frozen(other.params) and all(map(equal, one.operands, other.operands))

        return isinstance(b, TileTracer) and b.trace is self and equal(a.variable, b.variable)

    def program(self, results: Sequence[Any]) -> Program:
        """The recorded operations that the results need."""
        owned = [self.own(r) for r in results]
        ends = [r.variable if isinstance(r, TileTracer) else r for r in owned]
        return pruned(self.arguments, self.operations, ends)


def _example(result: Any) -> Any:
    kind = np.dtype(result.dtype) if hasattr(result, "dtype") else np.result_type(result)
    shape = getattr(result, "shape", ())
    return np.ones(shape, kind) if kind.kind in "fc" else np.zeros(shape, kind)


def interpret(program: Program, values: Sequence[Any]) -> list[Any]:
    """The results of a program on core values of any kind."""
    known: dict[Variable, Any] = dict(zip(program.arguments, values, strict=True))
    for operation in program.operations:
        operands = [known[o] if isinstance(o, Variable) else o for o in operation.operands]
        outer, _computing.place = _computing.place, operation.place
        try:
            results = bind(operation.primitive, operands, operation.params)
        finally:
            _computing.place = outer
        known.update(zip(operation.results, results if operation.primitive.multiple else (results,), strict=True))
    return [known[r] if isinstance(r, Variable) else r for r in program.results]


def traced(
    function: Callable[[Cores], Cores], arguments: Sequence[Any], places: Callable[[], str] = caller, closed: bool = False
) -> tuple[Program, list[Any]]:
    """The program of a function of core values, and the values that it captures, which are its last arguments.

    Args:
        function: core values -> core values.
        arguments: with the shape and type of each.
        places: where the operation that is being done stands in the user's program.
        closed: whether it may capture nothing, as a function with a derivative rule of its own.

    Raises:
        TileError: it captures something, and is closed.
    """
    trace, outer = TileTrace(places, closed), local.tiling
    inputs = tuple(trace.argument(a.shape, a.dtype) for a in arguments)
    local.tiling = Loops()
    try:
        with running(), remedies.located():
            results = function(inputs)
        program = trace.program(results)
    finally:
        local.tiling = outer
        trace.ended = True
    return program, [value for value, _ in trace.captured.values()]


def derived(function: Callable[[Cores], Cores], arguments: Sequence[Any]) -> Program:
    """The program of a function that carries out other programs and the derivative rules of their operations."""
    return traced(function, arguments, lambda: _computing.place or "the derivative of a tile program", closed=True)[0]


class Loops:
    """Loops in the function of a tile.

    Attributes:
        loop: traces a loop; `diffsim.tile.trace.loops`, which is built on tracing, sets it.
    """

    loop: ClassVar[Callable[..., Any]]


def tangents(program: Program, moved: Sequence[bool], noting: bool = False) -> tuple[Program, list[bool], str]:
    """The program of the tangents of the results, which results have one, and functions with infinite derivatives.

    Its arguments are those of `program`, and a tangent for each that is `moved`. If `noting` and there are such functions, a last result
    counts the entries where a tangent of 0 meets an infinite derivative.
    """
    has: list[bool] = []
    names: list[str] = []

    def run(cores: Cores) -> Cores:
        count = len(program.arguments)
        trace, dots = ForwardTrace(), iter(cores[count:])
        values = [ForwardTracer(trace, v, next(dots)) if m else v for v, m in zip(cores[:count], moved, strict=True)]
        outer, local.noted = local.noted, [] if noting else None
        try:
            results = interpret(program, values)
            noted = [(name, x) for name, x in local.noted or [] if cores and bottom(x).trace is bottom(cores[0]).trace]
        finally:
            local.noted = outer
        mine = [f.tangent if isinstance(f, ForwardTracer) and f.trace is trace else None for f in results]
        has[:] = [m is not None for m in mine]
        names[:] = dict.fromkeys(name for name, _ in noted)
        met = [st.add_up(x, axis=None, keepdims=False) if x.ndim else x for _, x in noted]
        return (*(m for m in mine if m is not None), *([functools.reduce(operator.add, met)] if met else []))

    inputs = [*program.arguments, *(a for a, m in zip(program.arguments, moved, strict=True) if m)]
    return derived(run, inputs), has, " or ".join(names)


def cotangents(program: Program, wanted: Sequence[bool], zero_wins: bool) -> tuple[Program, list[bool]]:
    """The program of the cotangents of the wanted arguments, and which of these have one.

    Its arguments are those of `program`, and a cotangent for each floating-point result.
    """
    has: list[bool] = []

    def run(cores: Cores) -> Cores:
        count = len(program.arguments)
        trace, cts = ReverseTrace(), iter(cores[count:])
        leaves = [trace.leaf(v) if w else v for v, w in zip(cores[:count], wanted, strict=True)]
        results = interpret(program, leaves)
        seeds = []
        for result in results:
            if not is_inexact(result):
                continue
            ct = next(cts)
            if isinstance(result, ReverseTracer) and result.trace is trace:
                seeds.append((result.node, ct))
        outer, local.zero_wins = local.zero_wins, zero_wins
        try:
            by_value = ByValue(seeds) if zero_wins else None
            bars = swept(seeds, [leaf.node for leaf, w in zip(leaves, wanted, strict=True) if w], by_value)
        finally:
            local.zero_wins = outer
        assert bars is not None
        has[:] = [b is not None for b in bars]
        return tuple(b for b in bars if b is not None)

    inputs = [*program.arguments, *(r for r in program.results if is_inexact(r))]
    return derived(run, inputs), has
