"""All that a `tesseract_api.py` needs, from a function and one example of its inputs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from diffsim.base.arguments import mapping
from diffsim.base.messages import shown
from diffsim.base.packages import needed_by
from diffsim.errors import ParameterError
from diffsim.tesseract.function import Function, Values

with needed_by("diffsim.tesseract"):
    from pydantic import BaseModel, Field, create_model
    from tesseract_core.runtime import Array, Differentiable, schema_types

ELEMENTS = {
    "bool": schema_types.Bool,
    "int32": schema_types.Int32,
    "int64": schema_types.Int64,
    "float32": schema_types.Float32,
    "float64": schema_types.Float64,
}
"""Tesseract's types of the entries of arrays, by NumPy's names."""


class Endpoints(NamedTuple):
    """The names of a `tesseract_api.py`."""

    InputSchema: type[BaseModel]
    OutputSchema: type[BaseModel]
    apply: Callable[..., dict[str, Any]]
    vector_jacobian_product: Callable[..., dict[str, Any]]
    jacobian_vector_product: Callable[..., dict[str, Any]]
    abstract_eval: Callable[..., dict[str, Any]]


def endpoints(function: Callable[[dict[str, Any]], Values], example: Mapping[str, Any]) -> Endpoints:
    """The schemas and endpoints of a function of named arrays, such as a simulation with a loss.

    Tesseract builds them into a container, or calls them in this process; `tesseract_jax.apply_tesseract` differentiates them in JAX.

    Args:
        function: takes a dictionary of inputs, and returns one of outputs: arrays and numbers, computed by simulations and array programs.
            It is called once here, with the example.
        example: inputs by name: arrays, whose shapes and types the schema requires, and numbers. They are the schema's defaults.
            Floating-point entries are differentiable.

    Returns:
        The names of a `tesseract_api.py`, in the order of the example below.

    Raises:
        ParameterError: an example or an output of another kind, or outputs without names.

    Example:
        # tesseract_api.py
        import numpy as np

        import diffsim as ds
        import diffsim.tesseract

        rod = ds.Simulation(ds.solvers.Heat(ds.Grid((40,), spacing=0.05), dt=0.1), receivers={"T": [[0.5]]}, precision="f64")

        def misfit(inputs):
            traces = rod.run({"kappa": inputs["kappa"], "T": inputs["T"]}, steps=60).traces["T"]
            return {"misfit": ((traces - inputs["observed"]) ** 2).sum()}

        example = {"kappa": np.full(40, 5e-3), "T": np.linspace(0.0, 1.0, 40) ** 2, "observed": np.zeros((61, 1))}
        api = ds.tesseract.endpoints(misfit, example)
        InputSchema, OutputSchema, apply, vector_jacobian_product, jacobian_vector_product, abstract_eval = api
        assert apply(InputSchema())["misfit"] > 0
    """
    mapping("example", example, "{'kappa': kappa}")
    calls = Function(function)
    fields: dict[str, Any] = {
        name: (_annotation(f"example[{name!r}]", value), Field(default_factory=partial(_itself, value))) for name, value in example.items()
    }
    inputs = create_model("InputSchema", **fields)
    outputs = {name: np.asarray(value) for name, value in calls.apply(inputs()).items()}
    results: dict[str, Any] = {name: (_annotation(f"output {name!r}", value), ...) for name, value in outputs.items()}
    shapes = {name: {"shape": value.shape, "dtype": value.dtype.name} for name, value in outputs.items()}

    def abstract_eval(abstract_inputs: Any) -> dict[str, Any]:
        """Shapes and types of the outputs, which are those of the example."""
        return shapes

    return Endpoints(
        inputs,
        create_model("OutputSchema", **results),
        calls.apply,
        calls.vector_jacobian_product,
        calls.jacobian_vector_product,
        abstract_eval,
    )


def _itself(value: Any) -> Any:
    return value


def _annotation(name: str, value: Any) -> Any:
    """The type of an entry of a schema."""
    if isinstance(value, (bool, int, str)):
        return type(value)
    array = np.asarray(value)
    if array.dtype.name not in ELEMENTS:
        raise ParameterError(
            f"{name} = {shown(value)}, expected an array of one of {', '.join(ELEMENTS)}, a number or a text; convert it to one of these"
        )
    entry = Array[array.shape, ELEMENTS[array.dtype.name]]
    return Differentiable[entry] if array.dtype.kind == "f" else entry
