"""A function of named arrays, with the products that a Tesseract has."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

import numpy as np

from diffsim.ad import jvp, vjp
from diffsim.base import arguments
from diffsim.base.messages import shown
from diffsim.errors import ParameterError

Values = Mapping[str, Any]


class Function:
    """A function that diffsim differentiates, with the endpoints of a Tesseract: for a `tesseract_api.py` with schemas of its own.

    Args:
        function: takes a dictionary of inputs, and returns one of outputs: arrays and numbers, computed by simulations and array programs.

    Example:
        import numpy as np

        import diffsim as ds
        import diffsim.tesseract

        def cooled(inputs):  # in tesseract_api.py: apply, vector_jacobian_product = calls.apply, calls.vector_jacobian_product
            rod = ds.Simulation(ds.solvers.Heat(ds.Grid((20,), spacing=0.1), dt=0.1), precision="f64")
            return {"hottest": rod.run(inputs, steps=10).final["T"].max()}

        calls = ds.tesseract.Function(cooled)
        inputs = {"kappa": np.full(20, 1e-2), "T": np.linspace(0.0, 1.0, 20) ** 2}
        back = calls.vector_jacobian_product(inputs, {"T"}, {"hottest"}, {"hottest": np.float64(1.0)})
        assert list(back) == ["T"] and np.isclose(back["T"].sum(), 1.0)
    """

    def __init__(self, function: Callable[[dict[str, Any]], Values]) -> None:
        arguments.function("function", function, "lambda inputs: {'y': inputs['x'] ** 2}", optional=False)
        self.function = function

    def apply(self, inputs: Any) -> dict[str, Any]:
        """The outputs.

        Args:
            inputs: values by name, or a pydantic model of them.
        """
        return dict(self._outputs(values_of(inputs)))

    def vector_jacobian_product(
        self, inputs: Any, vjp_inputs: Collection[str], vjp_outputs: Collection[str], cotangent_vector: Values
    ) -> dict[str, Any]:
        """Cotangents of some inputs.

        Args:
            inputs: values by name, or a pydantic model of them.
            vjp_inputs: names of these inputs.
            vjp_outputs: names of the outputs that have cotangents.
            cotangent_vector: the cotangents, by output.

        Raises:
            ParameterError: an unknown name.
        """
        part, at = self._part(inputs, vjp_inputs, vjp_outputs)
        _, pullback = vjp(part, at)
        (bars,) = pullback({name: cotangent_vector[name] for name in vjp_outputs})
        return {name: np.zeros_like(at[name]) if bars[name] is None else bars[name] for name in vjp_inputs}

    def jacobian_vector_product(
        self, inputs: Any, jvp_inputs: Collection[str], jvp_outputs: Collection[str], tangent_vector: Values
    ) -> dict[str, Any]:
        """Tangents of some outputs.

        Args:
            inputs: values by name, or a pydantic model of them.
            jvp_inputs: names of the inputs that have tangents.
            jvp_outputs: names of these outputs.
            tangent_vector: the tangents, by input.

        Raises:
            ParameterError: an unknown name.
        """
        part, at = self._part(inputs, jvp_inputs, jvp_outputs)
        _, moved = jvp(part, (at,), ({name: tangent_vector[name] for name in jvp_inputs},))
        return dict(moved)

    def _outputs(self, values: dict[str, Any]) -> Values:
        outputs = self.function(values)
        if not isinstance(outputs, Mapping):
            raise ParameterError(f"function returned {shown(outputs)}, expected outputs by name, {{'misfit': ...}}; return that")
        return outputs

    def _part(self, inputs: Any, moving: Collection[str], wanted: Collection[str]) -> tuple[Callable[[Values], Values], dict[str, Any]]:
        """The function of some inputs, the others constant, to some outputs; and these inputs."""
        values = values_of(inputs)
        at = {name: _named(values, name, "input") for name in moving}

        def part(some: Values) -> Values:
            outputs = self._outputs({**values, **some})
            return {name: _named(outputs, name, "output") for name in wanted}

        return part, at


def values_of(inputs: Any) -> dict[str, Any]:
    """Values by name, of a dictionary or of a pydantic model."""
    return dict(inputs.model_dump() if hasattr(inputs, "model_dump") else inputs)


def _named(values: Values, name: str, what: str) -> Any:
    if name not in values:
        raise ParameterError(f"no {what} {shown(name)}, expected one of {', '.join(sorted(values))}; take one of these")
    return values[name]
