"""diffsim as a solver of Mosaic's `ns-grid` and `ns-3d-grid`: incompressible flow in a periodic square or cube."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from mosaic_shared.problems.navier_stokes_grid import InputSchema as CanonicalInputs
from mosaic_shared.problems.navier_stokes_grid import OutputSchema as CanonicalOutputs
from mosaic_shared.schema_types import make_differentiable
from pydantic import Field, model_validator

import diffsim.tesseract

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from flow import Order, Precision, division, flow


class InputSchema(make_differentiable(CanonicalInputs, ["v0", "viscosity", "dt"])):  # type: ignore[misc]
    """Mosaic's inputs, and those of the solver."""

    order: Order = Field(default=4, description="Order of the differences in space.")
    precision: Precision = Field(default="f32", description="Type of the solver's arithmetic.")

    @model_validator(mode="after")
    def _periodic(self) -> InputSchema:
        if not self.boundary_conditions.is_fully_periodic or self.obstacle is not None:
            raise ValueError("boundary_conditions or obstacle are given, expected a periodic box without one; leave both out")
        return self


class OutputSchema(make_differentiable(CanonicalOutputs, ["result"])):  # type: ignore[misc]
    """The velocity after the last step."""


def _flow(inputs: dict[str, Any]) -> dict[str, Any]:
    names = ("v0", "viscosity", "dt", "steps", "domain_extent", "divided", "order", "precision")
    return {"result": flow(**{name: inputs[name] for name in names})}


_calls = diffsim.tesseract.Function(_flow)


def _values(inputs: InputSchema) -> dict[str, Any]:
    """The inputs by name, with the division of steps, which is not differentiated."""
    return {**inputs.model_dump(), "divided": division(inputs.v0, inputs.viscosity, inputs.dt, inputs.domain_extent)}


def apply(inputs: InputSchema) -> dict[str, Any]:
    """The velocity after `steps` steps."""
    return _calls.apply(_values(inputs))


def vector_jacobian_product(inputs: InputSchema, vjp_inputs: set[str], vjp_outputs: set[str], cotangent_vector: dict[str, Any]) -> Any:
    """Cotangents of the initial velocity, the viscosity and the time step."""
    return _calls.vector_jacobian_product(_values(inputs), vjp_inputs, vjp_outputs, cotangent_vector)


def jacobian_vector_product(inputs: InputSchema, jvp_inputs: set[str], jvp_outputs: set[str], tangent_vector: dict[str, Any]) -> Any:
    """Tangents of the final velocity."""
    return _calls.jacobian_vector_product(_values(inputs), jvp_inputs, jvp_outputs, tangent_vector)


def abstract_eval(abstract_inputs: Any) -> dict[str, Any]:
    """The shape of the final velocity, that of the initial one."""
    shape = abstract_inputs.v0
    return {"result": {"shape": tuple(shape.shape), "dtype": "float32"}}
