"""Axes whose ends are joined: adjoints read cotangents beyond an end at the other end, and fold nothing along them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import diffsim as ds
from diffsim.boundary import zero_rules
from diffsim.expr import Symbol, laplacian
from diffsim.expr.graph import Graph
from diffsim.stepping.derive import programs
from diffsim.stepping.derive.adjoint import adjoint_program
from diffsim.stepping.ir.names import bar
from diffsim.stepping.ir.program import HostCall, Place, Written
from diffsim.stepping.stages.linear_stage import LinearFunction, LinearStage
from diffsim.stepping.trace.fields import Stored
from diffsim.stepping.trace.stages import Transposed, placed, read_of, stored_name, trace_of
from tests.cases import Case
from tests.stepping.derive.transposes import require_one_product
from tests.stepping.passes.test_sharing import traced
from tests.stepping.run_cases import outputs

Rule = Any


class Turning(ds.Equation):
    """Products of neighbours, a stage whose cotangent is that of a state, and coefficients with rules of their own."""

    def __init__(self, shape: tuple[int, ...], rule: Rule, k: Rule = "periodic", profile: bool = False, region: bool = False) -> None:
        self.grid, self.dt = ds.Grid(shape, 1.0), 0.1
        where = np.arange(np.prod(shape)).reshape(shape) % 5 < 4 if region else None
        self.states = {"u": ds.Variable(rule), "v": ds.Variable(rule, region=where)}
        self.parameters = {"k": ds.Variable(k), "c": ds.Variable(axes=())}
        self.profiles = {"w": ds.Profile(0, np.linspace(0.5, 1, shape[0]))} if profile else {}

    def step(self, u: Any, v: Any, k: Any, c: Any, **profiles: Any) -> dict[str, Any]:
        w = profiles.get("w", 1.0)
        s = ds.stage(u + self.dt * c * (v.shifted(0, 1) * k - v.shifted(-1, -1)) * w, self.states["u"].boundary)
        turned = s.shifted(0, 2) * s.shifted(-1, -1) + s * s.shifted(-1, 1)
        return {"u": 0.9 * s + 0.02 * laplacian(s), "v": 0.9 * v + self.dt * k * turned}


def _joined(*args: Any, **kwargs: Any) -> tuple[int, ...]:
    return traced(Turning(*args, **kwargs)).joined


def test_an_axis_is_joined_where_all_that_a_step_reads_is_periodic() -> None:
    wide = (7, 8)
    assert _joined(wide, "periodic") == (0, 1)
    assert _joined(wide, ("mirror", "periodic")) == (1,)
    assert _joined(wide, ds.Antiperiodic()) == ()
    assert _joined(wide, "periodic", k="mirror") == ()
    assert _joined(wide, "periodic", k=("mirror", "periodic")) == (1,)
    assert _joined(wide, "periodic", profile=True) == (1,)
    assert _joined(wide, "periodic", region=True) == ()
    assert _joined((3, 8), "periodic") == (1,)  # narrower than an adjoint may read


@pytest.mark.parametrize(("rule", "folded"), [("periodic", (0, 0)), (("periodic", "mirror"), (0, 1)), (("zero", "periodic"), (0, 0))])
def test_nothing_is_folded_along_a_joined_axis(rule: Rule, folded: tuple[int, int]) -> None:
    step = traced(Turning((9, 10), rule))
    program = adjoint_program(step, ()).program
    outside = [assign.outside for nest in program.nests for assign in nest.folded]
    assert tuple(np.max(outside, axis=0, initial=0).tolist() if outside else (0, 0)) == folded
    assert step.joined


@pytest.mark.parametrize(
    ("shape", "rule", "k"),
    [
        ((9, 13), "periodic", "periodic"),
        ((4, 4), "periodic", "periodic"),
        ((9, 13), ("mirror", "periodic"), ("mirror", "periodic")),
        ((9, 13), ("periodic", ds.Extrapolate(1)), "mirror"),
        pytest.param((21,), "periodic", "periodic", marks=pytest.mark.slow),
        pytest.param((5, 4, 9), ("periodic", "zero", "periodic"), "periodic", marks=pytest.mark.slow),
    ],
)
def test_gradients_are_those_of_scattered_cotangents(shape: tuple[int, ...], rule: Rule, k: Rule, monkeypatch: pytest.MonkeyPatch) -> None:
    """Receivers lie in the outermost cells. One of `u` adds to the cotangent that is stored once, as that of the stage."""
    monkeypatch.setattr(programs, "_worth_barriers", lambda step: True)
    ends = [[0.0] * len(shape), [float(n - 1) for n in shape]]
    found, wanted = outputs(Case("", lambda: Turning(shape, rule, k), 4, {}, {"u": ends, "v": ends}, {}), "f64")
    for name, values in wanted.items():
        np.testing.assert_allclose(found[name], values, rtol=0, atol=1e-13 * np.abs(values).max(), err_msg=name)


@dataclass(frozen=True)
class Rolled(LinearFunction):
    """Cells -> those some places further, along an axis whose ends are joined."""

    axis: int
    places: int

    def of(self, cells: np.ndarray) -> np.ndarray:
        return np.roll(cells, -self.places, self.axis).astype(np.float64)

    @property
    def transposed(self) -> Rolled:
        return Rolled(self.axis, -self.places)


class FromNeighbours(LinearStage):
    """A rolled field whose transpose is a copy on the host, which the cells read that gave to their neighbours."""

    def transposed(self, graph: Graph, wanted: Callable[[str], bool]) -> Transposed:
        assert isinstance(self.function, Rolled)
        here, name = (0,) * len(self.outputs[0].location), f"copy of {self.name}"
        there = tuple(self.function.places if axis == self.function.axis else 0 for axis in range(len(here)))
        call = HostCall(Rolled(0, 0), (bar(self.name),), (Written(name, Place(name), zero_rules(len(here))),))
        return Transposed({f"transpose of {self.name}": call}, {self.source: {there: graph.read(name, here)}})


def _rolled(value: Symbol, function: Rolled) -> Symbol:
    graph = trace_of(value, "a test")
    output = Stored(placed(value), graph.bound("periodic", placed(value)), f"rolled {next(graph.count)}")
    graph.store(FromNeighbours(output.name, stored_name(value, graph), function, (output,)))
    return read_of(value, output)


@pytest.mark.parametrize(("shape", "axis"), [((9,), 0), ((6, 9), 0), ((6, 9), 1)])
@pytest.mark.parametrize("places", [1, -2])
def test_what_a_stage_on_the_host_gives_to_neighbours_goes_to_the_other_end(shape: tuple[int, ...], axis: int, places: int) -> None:
    class Moving(ds.Equation):
        def __init__(self) -> None:
            self.grid, self.dt, self.states = ds.Grid(shape, 1.0), 0.1, {"u": ds.Variable("periodic")}

        def step(self, u: Any) -> dict[str, Any]:
            return {"u": 0.5 * u + 0.1 * u.shifted(0, 1) * _rolled(u, Rolled(axis, places))}

    simulation, rng = ds.Simulation(Moving(), precision="f64", wrt=("u",)), np.random.default_rng(0)
    assert simulation._step.joined == tuple(range(len(shape)))
    point, direction, weights = ({"u": rng.standard_normal(shape)} for _ in range(3))
    require_one_product(simulation, point, direction, weights, 3)
