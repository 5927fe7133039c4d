"""Simulations in JAX: a function that works under `jit`, `grad` and `vmap`, whose gradients come from the adjoint of the solver.

JAX calls the solver on the host, and copies what it hands over. Nothing else is copied.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from diffsim.arguments import mapping, real_array
from diffsim.checkpoint import Checkpoint
from diffsim.errors import DiffsimError, ParameterError, ShapeError
from diffsim.packages import needed_by
from diffsim.simulation import Simulation, Solution
from diffsim.simulation.exported import Exported, ExportedRun, Pull, export
from diffsim.simulation.inputs import input_meaning
from diffsim.typing import Array

with needed_by("diffsim.jax"):
    import jax

__all__ = ["run"]


def run(simulation: Simulation, inputs: Mapping[str, Any], steps: int, checkpoint: Checkpoint = "auto") -> Solution:
    """Solve forward, as one operation that JAX differentiates in reverse; `Simulation.run` for JAX's arrays.

    It works under `jax.jit`, `jax.grad` and `jax.vmap`, where one run follows the other. Gradients of any order come from the adjoint of
    the solver. Forward mode (`jax.jvp`, `jax.jacfwd`, `jax.hessian`) does not know it: take `jax.jacrev(jax.grad(f))`. Under `jit`,
    sources and receivers stay where they are when JAX traces the function.

    Args:
        simulation: what to run. The inputs that are differentiated for must be among its `wrt`.
        inputs: JAX's arrays by name, of the type in which the simulation computes; or arrays and numbers, which are constant.
        steps: time steps.
        checkpoint: the states that the reverse sweep keeps; see `Simulation.vjp`.

    Returns:
        The solution, with JAX's arrays in `final` and `traces`.

    Raises:
        ParameterError: an array has another type or shape, the simulation computes in f64 and JAX does not, or the simulation was not built
            for a derivative.

    Example:
        import jax
        import jax.numpy as jnp
        import numpy as np

        import diffsim as ds
        import diffsim.jax

        rod = ds.Simulation(ds.solvers.Heat(ds.Grid((40,), spacing=0.05), dt=0.1), receivers={"T": [[0.5]]}, precision="f32")
        hot = np.linspace(0.0, 1.0, 40) ** 2  # a constant

        @jax.jit
        def loss(kappa):
            return jnp.mean(ds.jax.run(rod, {"kappa": kappa, "T": hot}, steps=60).traces["T"] ** 2)

        gradient = jax.grad(loss)(jnp.full(40, 5e-3, jnp.float32))
        assert gradient.shape == (40,) and jnp.abs(gradient).max() > 0
    """
    mapping("inputs", inputs, "{'c': c}")
    model = export(simulation, inputs, steps, checkpoint)
    if jax.dtypes.canonicalize_dtype(simulation.dtype) != simulation.dtype:
        raise ParameterError(
            "simulation computes in f64, expected f32, since JAX has only that now; call jax.config.update('jax_enable_x64', True) first, "
            "or build the simulation with precision='f32'"
        )
    values = [_value(model, name, value) for name, value in inputs.items()]
    results = [jax.ShapeDtypeStruct(shape, model.compiled.dtype) for shape in model.result_shapes()]
    return model.solution(_operation(model, results, model)(*values))


def _value(model: ExportedRun, name: str, value: Any) -> Any:
    """An input as an array of JAX's, of the simulation's type."""
    if isinstance(value, jax.Array):
        model.check_type(name, value.dtype.name, f".astype({model.compiled.dtype.name!r})")
    else:
        value = jax.numpy.array(real_array(f"input {name}", value, model.compiled.dtype, input_meaning(model.compiled, name)))
    shape = model.compiled.input_shape(name, model.steps)
    if value.shape != shape:
        raise ShapeError(f"input {name} has shape {value.shape}, expected {shape}; give an array of this shape")
    return value


def _operation(model: Exported, results: Sequence[Any], run: ExportedRun, kept: _Latest | None = None) -> Callable[..., Any]:
    """A function of arrays as an operation of JAX's. Its pullback is such an operation too.

    Args:
        model: the function.
        results: shapes and types of its values.
        run: the run whose inputs are its first arguments.
        kept: takes the pullback of the values; None: they are computed without one.
    """
    latest = _Latest(model) if kept is None else kept

    @jax.custom_vjp
    def operation(*args: Any) -> Any:
        return _called(model.evaluate if kept is None else kept.values, results, args)

    def forward(*args: Any) -> Any:
        for name, arg in zip(run.names, args, strict=False):
            if arg.perturbed:
                run.check_wanted(name, "jax.lax.stop_gradient")
        values = tuple(arg.value for arg in args)
        return _operation(model, results, run, latest)(*values), values

    def backward(args: Any, cotangents: Any) -> Any:
        zero = jax.custom_derivatives.SymbolicZero
        seeds = [jax.numpy.zeros(r.shape, r.dtype) if isinstance(ct, zero) else ct for ct, r in zip(cotangents, results, strict=True)]
        like = [jax.ShapeDtypeStruct(arg.shape, arg.dtype) for arg in args]
        return _operation(_Pulled(model.adjoint(), latest, len(args)), like, run)(*args, *seeds)

    operation.defvjp(forward, backward, symbolic_zeros=True)
    return operation


def _called(function: Callable[..., Any], results: Sequence[Any], args: Sequence[Any]) -> Any:
    """The results of a function on the host."""

    def called(*given: Any) -> Any:
        try:
            return tuple(function(*map(np.asarray, given)))
        except DiffsimError as error:
            raise error.with_traceback(None) from None  # JAX prints every line of the call before the message

    return jax.pure_callback(called, tuple(results), *args, vmap_method="sequential")


class _Latest:
    """The pullback of the latest values, for the reverse sweep that follows most runs: it saves another forward run.

    JAX calls functions that depend on their arguments alone, so the pullback is only given out for the same arguments.
    """

    def __init__(self, model: Exported) -> None:
        self._model, self._lock = model, threading.Lock()
        self._kept: tuple[list[Array], Pull] | None = None

    def values(self, *args: Array) -> tuple[Array, ...]:
        """The values; their pullback is kept."""
        values, pull = self._model.record(*args)
        with self._lock:
            self._kept = [arg.copy() for arg in args], pull
        return values

    def take(self, args: Sequence[Array]) -> Pull | None:
        """The pullback, once, if the latest values were those of these arguments."""
        with self._lock:
            if self._kept is None or not all(map(np.array_equal, self._kept[0], args)):
                return None
            pull, self._kept = self._kept[1], None
            return pull


class _Pulled:
    """The pullback of a function, as a function of arguments and cotangents."""

    def __init__(self, adjoint: Exported, latest: _Latest, count: int) -> None:
        self._adjoint, self._latest, self._count = adjoint, latest, count
        self.record, self.adjoint = adjoint.record, adjoint.adjoint

    def evaluate(self, *both: Array) -> tuple[Array, ...]:
        """Cotangents of the arguments."""
        pull = self._latest.take(both[: self._count])
        return self._adjoint.evaluate(*both) if pull is None else tuple(pull(both[self._count :]))
