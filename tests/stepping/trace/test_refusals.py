"""Steps that are refused when they are traced."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

import diffsim as ds
from diffsim.errors import DiffsimError, ParameterError, ShapeError, TraceError
from diffsim.expr import diff, laplacian
from diffsim.simulation.prepared.traced import trace
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


class Driven(ds.Equation):
    """Two states, of which the step drives those in `used` by the forcings of their names, in one of several ways."""

    WAYS = (
        lambda u, f: u,
        lambda u, f: u + 0 * f,
        lambda u, f: u + (f - f),
        lambda u, f: u + f,
        lambda u, f: 0.5 * u + 3 * f,
    )
    SILENT = 3
    """The first ways drop the forcing."""

    def __init__(self, ways: tuple[int, ...], forcings: Any = ("f", "g")) -> None:
        self.grid, self.dt, self.ways = ds.Grid((6, 5), 1.0), 0.1, ways
        self.states = {"u": ds.Variable("mirror"), "v": ds.Variable("mirror")}
        self.forcings = forcings

    def step(self, u: Any, v: Any, f: Any, g: Any) -> dict[str, Any]:
        return {"u": self.WAYS[self.ways[0]](u, f), "v": self.WAYS[self.ways[1]](v, g)}


class Deaf(Driven):
    """A step that does not ask for its forcings."""

    def step(self, u: Any, v: Any) -> dict[str, Any]:  # type: ignore[override]
        return {"u": 0.5 * u, "v": 0.5 * v}


@pytest.mark.parametrize("ways", list(itertools.product(range(len(Driven.WAYS)), repeat=2)))
@pytest.mark.parametrize("sources", [("f",), ("g",), ("f", "g")], ids=",".join)
@pytest.mark.parametrize("kind", [Driven, Deaf])
def test_sources_of_a_forcing_that_no_state_depends_on(kind: type[Driven], ways: tuple[int, int], sources: tuple[str, ...]) -> None:
    """A run would go on in silence. A forcing without sources may be left unused: a variant of an equation may have no use for it."""
    places = {name: [[1.0, 1.0]] for name in sources}
    silent = [name for name, way in zip("fg", ways, strict=True) if name in sources and (kind is Deaf or way < Driven.SILENT)]
    if not silent:
        trace(kind(ways), places, None)
        return
    with pytest.raises(TraceError, match=rf"^{kind.__name__}\.step does not use {', '.join(silent)}, .* or leave it out of forcings$"):
        ds.Simulation(kind(ways), sources=places)


@pytest.mark.parametrize("forcings", [each for n in (2, 3) for each in itertools.product("fg", repeat=n) if len({*each}) < n], ids="".join)
def test_a_forcing_that_is_declared_twice(forcings: tuple[str, ...]) -> None:
    twice = ", ".join(sorted({name for name in forcings if forcings.count(name) > 1}))
    with pytest.raises(ParameterError, match=rf"^forcings of Driven = .* has {twice} twice, expected each name once; drop one$"):
        ds.Simulation(Driven((3, 3), forcings))
