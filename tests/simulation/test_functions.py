"""Inputs that are functions of coordinates have the bits of arrays, in every call that takes inputs; bad ones have one clear message."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import diffsim as ds
from diffsim.errors import DerivativeError, DiffsimError, ParameterError, ShapeError

STEPS = 6
ROD = ds.Grid((24,), spacing=0.05, origin=1.0)
X = ROD.coordinates(0)
FUNCTIONS: dict[str, Any] = {"kappa": lambda x: 5e-3 + 1e-3 * x, "T": lambda x: np.sin(x)}
ARRAYS: dict[str, Any] = {"kappa": 5e-3 + 1e-3 * X, "T": np.sin(X)}
AMPLITUDES = np.linspace(0.0, 1.0, STEPS)[:, None]


@pytest.fixture(scope="module")
def rod() -> ds.Simulation:
    return ds.Simulation(
        ds.solvers.Heat(ROD, dt=0.1), sources={"q": [[1.3]]}, receivers={"T": [[1.5]]}, wrt=["kappa", "T"], precision="f64"
    )


def loss(solution: Any) -> Any:
    return (solution.traces["T"] ** 2).sum()


CALLS: dict[str, Callable[[ds.Simulation, dict[str, Any]], Any]] = {
    "run": lambda run, inputs: run.run(inputs, STEPS).final["T"],
    "gradient": lambda run, inputs: [*run.value_and_grad(loss, inputs, STEPS)[1].values()],
    "tangent": lambda run, inputs: run.jvp(inputs, {"T": inputs["T"]}, STEPS)[1].final["T"],
    "program": lambda run, inputs: ds.grad(lambda kappa: loss(run.run({**inputs, "kappa": kappa}, STEPS)))(ARRAYS["kappa"]),
    "hessian": lambda run, inputs: ds.hvp(lambda kappa: loss(run.run({**inputs, "kappa": kappa}, STEPS)), ARRAYS["kappa"], X),
    "batch": lambda run, inputs: [*ds.Batch(run, 2).value_and_grad(loss, inputs, STEPS)[1].values()],
    "certificate": lambda run, inputs: str(ds.certify(run, loss, inputs, steps=STEPS, directions=1)),
    "dataset": lambda run, inputs: run.to_xarray(inputs=inputs)["input_kappa"].values,
    "bytes": lambda run, inputs: run.sizes(STEPS, inputs).state,
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_functions_have_the_bits_of_arrays(call: Callable[[ds.Simulation, dict[str, Any]], Any], rod: ds.Simulation) -> None:
    driven = {"q": AMPLITUDES}
    functions, arrays = (call(rod, {**inputs, **driven}) for inputs in (FUNCTIONS, ARRAYS))
    assert functions == arrays if isinstance(arrays, (str, int)) else np.array_equal(functions, arrays)


def test_a_polynomial_of_numpy_is_a_function(rod: ds.Simulation) -> None:
    """It is an array of its coefficients too, here as many as there are cells."""
    line = np.poly1d(np.arange(1.0, 25.0) * 1e-6)
    polynomial, array = (rod.run({**ARRAYS, "T": value, "q": AMPLITUDES}, STEPS).final["T"] for value in (line, line(X)))
    assert np.array_equal(polynomial, array)


@pytest.mark.parametrize("kappa", [lambda a, x: a * x, lambda a, x: np.full(24, float(a))])
def test_a_function_of_a_differentiated_value_is_refused(kappa: Callable[[Any, Any], Any], rod: ds.Simulation) -> None:
    with pytest.raises(DerivativeError, match=r"input kappa, a function of x, uses a value that is diff.*; give the array of its values"):
        ds.grad(lambda a: loss(rod.run({**ARRAYS, "q": AMPLITUDES, "kappa": lambda x: kappa(a, x)}, STEPS)))(1e-3)


def test_a_batch_takes_one_function_for_all_runs(rod: ds.Simulation) -> None:
    with pytest.raises(ParameterError, match=r"input T is a list of functions, expected one .*for all runs; .* array of shape \(2, 24\)"):
        ds.Batch(rod, 2).run({**ARRAYS, "q": AMPLITUDES, "T": [np.sin, np.cos]}, STEPS)


def test_a_pullback_does_not_see_later_changes_of_what_a_function_returned(rod: ds.Simulation) -> None:
    kappa = ARRAYS["kappa"].copy()
    solution, pullback = rod.vjp({**FUNCTIONS, "kappa": lambda x: kappa, "q": AMPLITUDES}, STEPS)
    expected = pullback(solution)["kappa"]
    kappa += 1e-3
    rod.run({**ARRAYS, "q": AMPLITUDES}, STEPS)  # the pullback repeats its run
    assert np.array_equal(pullback(solution)["kappa"], expected)


class Drift(ds.Equation):
    """A field on faces, a profile along one axis, and a number."""

    def __init__(self, grid: ds.Grid) -> None:
        self.grid, self.dt = grid, 0.1
        self.states = {"u": ds.Variable(location=(0, 1))}
        self.parameters = {"depth": ds.Variable(axes=(0,)), "rate": ds.Variable(axes=())}

    def step(self, u: Any, depth: Any, rate: Any) -> dict[str, Any]:
        return {"u": u + rate * depth}


def test_coordinates_are_those_of_the_place_of_a_field_along_its_axes() -> None:
    grid = ds.Grid((3, 4), spacing=(1.0, 2.0), origin=(5.0, 7.0), axes=("z", "x"))
    run = ds.Simulation(Drift(grid), precision="f64")
    values = run.to_xarray(inputs={"u": lambda z, x: 100.0 * z + x, "depth": lambda z: 2.0 * z})
    assert np.array_equal(values["input_u"], [[100.0 * z + x for x in (8.0, 10.0, 12.0, 14.0)] for z in (5.0, 6.0, 7.0)])
    assert np.array_equal(values["input_depth"], [10.0, 12.0, 14.0])
    with pytest.raises(ParameterError, match="input rate is a function, expected one number"):
        run.run({"rate": lambda: 1.0, "depth": lambda z: z}, 1)


def fails(x: Any) -> Any:
    raise KeyError("layer 7")


def refuses(x: Any) -> Any:
    raise ParameterError("layer 8 is unknown")


@pytest.mark.parametrize(
    ("inputs", "error", "message"),
    [
        ({"T": lambda y, x: x}, ParameterError, r"input T, a function of x, raised TypeError: .*arrays of the shapes \(24,\); mend"),
        ({"T": fails}, ParameterError, "raised KeyError: .*layer 7.*mend the function 'fails'"),
        ({"T": refuses}, ParameterError, "^layer 8 is unknown$"),
        ({"T": lambda x: np.zeros(3)}, ShapeError, r"a function of x, returned shape \(3,\), expected \(24,\) or one that NumPy broad"),
        ({"T": lambda x: np.zeros((2, 24))}, ShapeError, r"returned shape \(2, 24\), expected \(24,\)"),
        ({"T": lambda x: np.where(x > 2.0, np.nan, x)}, ParameterError, "input T has 3 values that are not finite"),
        ({"T": lambda x: x > 2.0}, ParameterError, "a function of x: expected an array of real numbers, got .* of type bool"),
        ({"T": lambda x: None}, ParameterError, "a function of x: expected an array of real numbers, got None"),
        ({"kappa": lambda x: -x}, ParameterError, "diffusivity kappa has a value of"),
        ({"q": lambda t: t}, ParameterError, "input q is a function, expected an array with a row for each step"),
    ],
)
def test_a_bad_function_has_one_clear_message(inputs: dict[str, Any], error: type[DiffsimError], message: str, rod: ds.Simulation) -> None:
    with pytest.raises(error, match=message):
        rod.run({**ARRAYS, "q": AMPLITUDES, **inputs}, STEPS)
