"""diffsim as a solver of Mosaic's `ns-grid` and `ns-3d-grid`: incompressible flow in a periodic square or cube, or past an obstacle."""

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
import obstacle
from flow import Order, Precision, division, flow

BETWEEN_WALLS = {("periodic", "periodic"): True, ("neumann", "neumann"): False}
"""Sides along x past an obstacle, and whether they need an inflow profile."""


class InputSchema(make_differentiable(CanonicalInputs, ["v0", "viscosity", "dt", "inflow_profile"])):  # type: ignore[misc]
    """Mosaic's inputs, and those of the solver."""

    order: Order = Field(default=4, description="Order of the differences in space in a periodic box; past an obstacle it is 2.")
    memory: str = Field(default="auto", description='Memory of a gradient in a periodic box, such as "150 MB"; small boxes take 120 MB.')
    precision: Precision = Field(default="f32", description="Type of the arithmetic in a periodic box; past an obstacle it is f64.")

    @model_validator(mode="after")
    def _solved(self) -> InputSchema:
        sides = self.boundary_conditions
        x, y = (tuple(getattr(sides, f"{axis}_{end}").type.value for end in ("lo", "hi")) for axis in "xy")
        if self.obstacle is None and not sides.is_fully_periodic:
            raise ValueError("boundary_conditions are given without an obstacle, expected a periodic box; leave them out")
        if self.obstacle is None and self.inflow_profile is not None:
            raise ValueError("inflow_profile is given without an obstacle, expected a periodic box without an inflow; leave it out")
        if self.obstacle is not None:
            obstacle.require_plane(self.v0.shape)
        if self.obstacle is not None and (y != ("no_slip",) * 2 or BETWEEN_WALLS.get(x) != (self.inflow_profile is not None)):
            raise ValueError(
                f"sides along x are {x} and along y {y}, expected walls without slip along y, and along x periodic ones with an "
                "inflow_profile or neumann ones without; correct boundary_conditions"
            )
        return self


class OutputSchema(make_differentiable(CanonicalOutputs, ["result", "drag"])):  # type: ignore[misc]
    """The velocity after the last step, and the drag of an obstacle."""


def _flow(inputs: dict[str, Any]) -> dict[str, Any]:
    if inputs["obstacle"] is not None:
        return obstacle.past(inputs, inputs["divided"])
    names = ("v0", "viscosity", "dt", "steps", "domain_extent", "divided", "order", "precision")
    return {"result": flow(**{name: inputs[name] for name in names}, checkpoint=inputs["memory"])}


_calls = diffsim.tesseract.Function(_flow)


def _values(inputs: InputSchema) -> dict[str, Any]:
    """The inputs by name, with the division of steps, which is not differentiated."""
    values = inputs.model_dump()
    if inputs.obstacle is not None:
        return {**values, "divided": obstacle.division(values)}
    return {**values, "divided": division(inputs.v0, inputs.viscosity, inputs.dt, inputs.domain_extent)}


def apply(inputs: InputSchema) -> dict[str, Any]:
    """The velocity after `steps` steps, and the drag of an obstacle."""
    return _calls.apply(_values(inputs))


def vector_jacobian_product(inputs: InputSchema, vjp_inputs: set[str], vjp_outputs: set[str], cotangent_vector: dict[str, Any]) -> Any:
    """Cotangents of the initial velocity, the viscosity, the time step and the inflow."""
    return _calls.vector_jacobian_product(_values(inputs), vjp_inputs, vjp_outputs, cotangent_vector)


def jacobian_vector_product(inputs: InputSchema, jvp_inputs: set[str], jvp_outputs: set[str], tangent_vector: dict[str, Any]) -> Any:
    """Tangents of the final velocity and of the drag."""
    return _calls.jacobian_vector_product(_values(inputs), jvp_inputs, jvp_outputs, tangent_vector)


def abstract_eval(abstract_inputs: Any) -> dict[str, Any]:
    """The shape of the final velocity, that of the initial one."""
    shape = abstract_inputs.v0
    velocity = {"result": {"shape": tuple(shape.shape), "dtype": "float32"}}
    return velocity if abstract_inputs.obstacle is None else velocity | {"drag": {"shape": (1,), "dtype": "float32"}}
