"""A simulation as a function of JAX's arrays."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from diffsim.base.arguments import mapping
from diffsim.base.packages import needed_by
from diffsim.checkpoint import Checkpoint
from diffsim.errors import ParameterError, ShapeError
from diffsim.jax.operation import Operation
from diffsim.simulation import Simulation, Solution
from diffsim.simulation.exported import ExportedRun, export
from diffsim.simulation.prepared.reading import whole_array

with needed_by("diffsim.jax"):
    import jax


def run(simulation: Simulation, inputs: Mapping[str, Any], steps: int, checkpoint: Checkpoint = "auto") -> Solution:
    """Solve forward, as one operation that JAX differentiates; `Simulation.run` for JAX's arrays.

    It works under `jax.jit`, `jax.grad`, `jax.jvp`, `jax.hessian` and `jax.vmap`. Derivatives of any order come from the adjoint and the
    tangent of the solver. `vmap` computes all runs in one call as a `diffsim.Batch` does, or one after another if the equation's runs
    cannot be computed together. Under `jit`, sources and receivers stay where they are when JAX traces the function.

    Args:
        simulation: the simulation to run. The inputs that are differentiated for must be among its `wrt`.
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
    model, fields = export(simulation, inputs, steps, checkpoint)
    if jax.dtypes.canonicalize_dtype(simulation.dtype) != simulation.dtype:
        raise ParameterError(
            "simulation computes in f64, expected f32, since JAX has only that now; call jax.config.update('jax_enable_x64', True) first, "
            "or build the simulation with precision='f32'"
        )
    values = [_value(model, name, value) for name, value in fields.items()]
    results = [jax.ShapeDtypeStruct(shape, model.compiled.dtype) for shape in model.result_shapes()]
    return model.result(Operation(model, results, model)(*values), jax.numpy.stack)


def _value(model: ExportedRun, name: str, value: Any) -> Any:
    """An input as an array of JAX's, of the simulation's type."""
    if isinstance(value, jax.Array):
        model.check_type(name, value.dtype.name, f".astype({model.compiled.dtype.name!r})")
    else:
        value = jax.numpy.array(whole_array(model.compiled, name, value, model.compiled.dtype))
    shape = model.compiled.input_shape(name, model.steps)
    if value.shape != shape:
        raise ShapeError(f"input {name} has shape {value.shape}, expected {shape}; give an array of this shape")
    return value
