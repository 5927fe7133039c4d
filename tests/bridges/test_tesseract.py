"""Functions as Tesseracts: through Tesseract's own runtime, against derivatives of diffsim and differences."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np
import pytest

import diffsim as ds
import diffsim.numpy as dnp
from diffsim.errors import ParameterError

core = pytest.importorskip("tesseract_core")
bridge = pytest.importorskip("diffsim.tesseract")

EXAMPLE = {
    "kappa": np.full(12, 1e-2),
    "T": np.linspace(0.0, 1.0, 12) ** 2,
    "cells": np.array([2, 7]),
    "steps": 5,
    "factor": 2.0,
}
SAME = bridge.Function(lambda inputs: inputs)


@pytest.fixture
def measured() -> Any:
    rod = ds.Simulation(ds.solvers.Heat(ds.Grid((12,), spacing=0.1), dt=0.1), precision="f64")

    def function(inputs: dict[str, Any]) -> dict[str, Any]:
        final = rod.run({"kappa": inputs["kappa"], "T": inputs["T"]}, steps=inputs["steps"]).final["T"]
        return {"sum": inputs["factor"] * dnp.sum(final**2), "some": final[inputs["cells"]], "count": np.int64(len(inputs["cells"]))}

    return function


@pytest.fixture
def served(measured: Any) -> Any:
    module = ModuleType("tesseract_api")
    module.__dict__.update(bridge.endpoints(measured, EXAMPLE)._asdict())
    return core.Tesseract.from_tesseract_api(module)


def test_it_computes_what_the_function_computes(served: Any, measured: Any) -> None:
    point = {**EXAMPLE, "kappa": np.random.default_rng(0).uniform(5e-3, 2e-2, 12), "steps": 7}
    outputs, wanted = served.apply(point), measured(point)
    assert all(np.array_equal(outputs[name], wanted[name]) for name in wanted)
    assert np.array_equal(served.apply({})["some"], measured(EXAMPLE)["some"])  # the example is the default
    arrays = {name: np.asarray(value) for name, value in EXAMPLE.items() if name != "steps"}
    shapes = served.abstract_eval({name: {"shape": value.shape, "dtype": value.dtype.name} for name, value in arrays.items()})
    assert {name: tuple(each["shape"]) for name, each in shapes.items()} == {"sum": (), "some": (2,), "count": ()}


def test_products_with_the_jacobian_agree_with_each_other_and_with_differences(served: Any) -> None:
    rng = np.random.default_rng(1)
    moving, wanted = ["kappa", "T", "factor"], ["sum", "some"]
    along = {"kappa": 1e-2 * rng.standard_normal(12), "T": rng.standard_normal(12), "factor": rng.standard_normal()}
    weights = {"sum": rng.standard_normal(), "some": rng.standard_normal(2)}
    moved = served.jacobian_vector_product(EXAMPLE, moving, wanted, along)
    bars = served.vector_jacobian_product(EXAMPLE, moving, wanted, weights)
    forward = sum(np.sum(weights[name] * moved[name]) for name in wanted)
    assert np.isclose(forward, sum(np.sum(along[name] * bars[name]) for name in moving), rtol=1e-12)

    def at(step: float) -> Any:
        point = {**EXAMPLE, **{name: EXAMPLE[name] + step * along[name] for name in moving}}
        return sum(np.sum(weights[name] * value) for name, value in served.apply(point).items() if name in weights)

    assert np.isclose(forward, (at(1e-5) - at(-1e-5)) / 2e-5, rtol=1e-8)
    assert bars["kappa"].shape == (12,) and np.abs(bars["kappa"]).max() > 0


def test_an_input_without_effect_has_no_cotangent() -> None:
    back = bridge.Function(lambda inputs: {"y": inputs["x"] ** 2}).vector_jacobian_product(
        {"x": np.ones(3), "z": np.ones(2)}, {"x", "z"}, {"y"}, {"y": np.ones(3)}
    )
    assert np.array_equal(back["x"], np.full(3, 2.0)) and np.array_equal(back["z"], np.zeros(2))


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda: bridge.endpoints(lambda inputs: 1.0, {"x": 1.0}), "expected outputs by name"),
        (lambda: bridge.endpoints(lambda inputs: inputs, {"x": np.array([1j])}), "expected an array of one of bool, int32"),
        (lambda: bridge.endpoints(lambda inputs: inputs, [1.0]), "example = "),
        (lambda: bridge.endpoints(3, {"x": 1.0}), "expected a function"),
        (lambda: SAME.vector_jacobian_product({"x": 1.0}, {"a"}, {"x"}, {"x": 1.0}), "no input 'a', expected one of x"),
        (lambda: SAME.jacobian_vector_product({"x": 1.0}, {"x"}, {"b"}, {"x": 1.0}), "no output 'b', expected one of x"),
    ],
    ids=["outputs", "complex", "list", "function", "input", "output"],
)  # fmt: skip
def test_errors_say_what_is_expected(wrong: Any, message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        wrong()
