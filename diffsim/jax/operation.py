"""A function of arrays as a primitive of JAX's, with the rules of forward mode, transposition and batches.

There are two primitives: the values of a function, and its derivative as a linear function of tangents. The transpose of the derivative is
the pullback. The derivative of each is the linear primitive of another function (`Exported.pushforward` and `adjoint`), so derivatives of
any order follow, in any mix of modes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

from diffsim.base.packages import needed_by
from diffsim.errors import DiffsimError
from diffsim.simulation.exported import Exported, ExportedRun, Latest, Pulled

with needed_by("diffsim.jax"):
    import jax
    from jax.extend.core import Primitive
    from jax.interpreters import ad, batching, mlir

Shapes: TypeAlias = Sequence[Any]
"""Shapes and types of arrays."""


class Operation:
    """A function of arrays.

    Args:
        model: the function.
        results: shapes and types of its values.
        run: the run whose inputs are its first arguments.
    """

    def __init__(self, model: Exported, results: Shapes, run: ExportedRun) -> None:
        self.model, self.results, self.run = model, tuple(results), run
        self.latest = Latest(model)
        self._batches: dict[int, Operation | None] = {}

    def __call__(self, *args: Any) -> list[Any]:
        """The values, as part of JAX's trace."""
        return _values.bind(*args, operation=self, kept=False)

    def derivative(self) -> Operation:
        """Tangents of the values, as a function of arguments and tangents."""
        return Operation(self.model.pushforward(), self.results, self.run)

    def pullback(self, args: Sequence[Any]) -> Operation:
        """Cotangents of the arguments, as a function of arguments and cotangents."""
        return Operation(
            Pulled(self.latest, len(args)), [jax.ShapeDtypeStruct(np.shape(a), jax.numpy.result_type(a)) for a in args], self.run
        )

    def batched(self, runs: int) -> Operation | None:
        """The function for several runs in one call, the same each time; None: there is no such call."""
        if runs not in self._batches:
            model = self.model.batched(runs)
            several = [jax.ShapeDtypeStruct((runs, *each.shape), each.dtype) for each in self.results]
            self._batches[runs] = None if model is None else Operation(model, several, self.run)
        return self._batches[runs]

    def check_wanted(self, tangents: Sequence[Any]) -> None:
        """Raise if the simulation has no derivative for an input that has a tangent."""
        for name, tangent in zip(self.run.names, tangents, strict=False):
            if not isinstance(tangent, ad.Zero):
                self.run.check_wanted(name, "jax.lax.stop_gradient")


_values, _linear = Primitive("diffsim_run"), Primitive("diffsim_derivative")


def _evaluated(*args: Any, operation: Operation, kept: bool) -> Any:
    return _called(operation.latest.values if kept else operation.model.evaluate, operation.results, args)


def _differentiated(*both: Any, operation: Operation, transposed: bool) -> Any:
    """Tangents of the values for arguments and tangents; transposed, cotangents of the arguments for arguments and cotangents."""
    if not transposed:
        return _called(operation.model.pushforward().evaluate, operation.results, both)
    pulled = operation.pullback(both[: -len(operation.results)])
    return _called(pulled.model.evaluate, pulled.results, both)


def _called(function: Callable[..., Any], results: Shapes, args: Sequence[Any]) -> Any:
    """The results of a function on the host."""

    def called(*given: Any) -> Any:
        try:
            return tuple(function(*map(np.asarray, given)))
        except DiffsimError as error:
            raise error.with_traceback(None) from None  # JAX prints every line of the call before the message

    return jax.pure_callback(called, tuple(results), *args)  # never batched: that is done above it


# forward mode


def _filled(tangents: Sequence[Any]) -> list[Any]:
    return [ad.instantiate_zeros(tangent) for tangent in tangents]


def _values_jvp(primals: Sequence[Any], tangents: Sequence[Any], *, operation: Operation, kept: bool) -> tuple[Any, Any]:
    operation.check_wanted(tangents)
    values = _values.bind(*primals, operation=operation, kept=True)  # a reverse sweep may follow, as JAX transposes the tangents
    return values, _linear.bind(*primals, *_filled(tangents), operation=operation, transposed=False)


def _linear_jvp(primals: Sequence[Any], tangents: Sequence[Any], *, operation: Operation, transposed: bool) -> tuple[Any, Any]:
    values = _linear.bind(*primals, operation=operation, transposed=transposed)
    count = len(primals) - len(operation.results) if transposed else len(primals) // 2
    if all(isinstance(tangent, ad.Zero) for tangent in tangents[:count]):  # it is linear in the others
        moved = _linear.bind(*primals[:count], *_filled(tangents[count:]), operation=operation, transposed=transposed)
    else:
        inner = operation.pullback(primals[:count]) if transposed else operation.derivative()
        moved = _linear.bind(*primals, *_filled(tangents), operation=inner, transposed=False)
    return values, moved


# transposition


def _transpose(cotangents: Sequence[Any], *both: Any, operation: Operation, transposed: bool) -> list[Any]:
    count = len(both) - len(operation.results) if transposed else len(both) // 2
    bars = _linear.bind(*both[:count], *_filled(cotangents), operation=operation, transposed=not transposed)
    return [None] * count + [bar if ad.is_undefined_primal(x) else None for x, bar in zip(both[count:], bars, strict=True)]


# batches


def _spread(args: Sequence[Any], dims: Sequence[int | None], runs: int) -> list[Any]:
    """Arguments with an axis of runs first."""
    return [
        jax.numpy.broadcast_to(arg, (runs, *np.shape(arg))) if dim is None else jax.numpy.moveaxis(arg, dim, 0)
        for arg, dim in zip(args, dims, strict=True)
    ]


def _batch(primitive: Any, args: Sequence[Any], dims: Sequence[int | None], *, operation: Operation, **options: bool) -> Any:
    runs = next(arg.shape[dim] for arg, dim in zip(args, dims, strict=True) if dim is not None)
    rows = _spread(args, dims, runs)
    together = operation.batched(runs) if runs > 1 else None
    if together is not None:
        values = primitive.bind(*rows, operation=together, **options)
    else:
        values = jax.lax.map(lambda row: primitive.bind(*row, operation=operation, **options), rows)
    return values, [0] * len(values)


for primitive, function in ((_values, _evaluated), (_linear, _differentiated)):
    primitive.multiple_results = True
    primitive.def_impl(function)
    mlir.register_lowering(primitive, mlir.lower_fun(function, multiple_results=True))
    batching.primitive_batchers[primitive] = lambda args, dims, primitive=primitive, **options: _batch(primitive, args, dims, **options)


@_values.def_abstract_eval
def _shapes(*args: Any, operation: Operation, kept: bool) -> list[Any]:
    return [jax.core.ShapedArray(each.shape, each.dtype) for each in operation.results]


@_linear.def_abstract_eval
def _shapes_of_derivative(*both: Any, operation: Operation, transposed: bool) -> list[Any]:
    results = both[: -len(operation.results)] if transposed else operation.results
    return [jax.core.ShapedArray(each.shape, each.dtype) for each in results]


ad.primitive_jvps[_values], ad.primitive_jvps[_linear] = _values_jvp, _linear_jvp
ad.primitive_transposes[_linear] = _transpose
