"""Calls that `ds.solve` and `ds.newton` refuse alike."""

from __future__ import annotations

from typing import Any

import pytest

import diffsim as ds
from diffsim.errors import DiffsimError, ParameterError, ShapeError, TraceError
from diffsim.expr import diff, laplacian
from tests.stepping.stages.test_host_stage import Given


@pytest.mark.parametrize("equation", [ds.solve, ds.newton], ids=lambda equation: equation.__name__)
@pytest.mark.parametrize(
    ("operator", "options", "error", "message"),
    [
        (lambda x, k: laplacian(ds.stage(k * x)), {}, TraceError, "stores a stage"),
        (lambda x, k: 3.0, {}, TraceError, "expected an expression"),
        (lambda x, k: diff(x, 0), {}, ShapeError, "different places"),
        (lambda x, k: x, {"method": "krylov"}, ParameterError, "method = 'krylov' is unknown"),
        (lambda x, k: x, {"tolerance": 2}, ParameterError, "tolerance = 2"),
        (lambda x, k: x, {"boundary": "wall"}, ParameterError, "boundary"),
    ],
)
def test_what_an_equation_must_not_be(
    equation: Any, operator: Any, options: dict[str, Any], error: type[DiffsimError], message: str
) -> None:
    with pytest.raises(error, match=message):
        ds.Simulation(Given(lambda u, k, q: {"u": equation(lambda x: operator(x, k), u, **options)}))


@pytest.mark.parametrize("equation", [lambda u, q: ds.solve(lambda x: 2 * x, u + q), lambda u, q: ds.newton(lambda x: x**3 - u - q, u)])
def test_a_forcing_in_a_stored_stage(equation: Any) -> None:
    with pytest.raises(TraceError, match="a forcing enters a stored stage"):
        ds.Simulation(Given(lambda u, k, q: {"u": equation(u, q)}), sources={"q": [[1.0, 1.0]]})
