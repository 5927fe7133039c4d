"""Boundary rules in the kernels: any rule at any side of fields anywhere on the cell, forward and backward."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import diffsim as ds
from diffsim.errors import ParameterError, TraceError
from diffsim.expr import diff, laplacian
from diffsim.stepping.workers import slab_bounds, useful_workers
from tests.cases import Case, Sided
from tests.stepping.run_cases import outputs

Symbol = ds.expr.Symbol


def drawn(rng: np.random.Generator) -> Any:
    """A rule at random."""
    x, y = rng.uniform(-1, 1), rng.uniform(0.2, 2)
    made = [
        lambda: "zero",
        lambda: "mirror",
        lambda: ds.Dirichlet(x),
        lambda: ds.Neumann(x),
        lambda: ds.Robin(y, 0.7, x),
        lambda: ds.OddImage(),
        lambda: ds.EvenImage(),
        lambda: ds.Extrapolate(int(rng.integers(0, 4))),
        lambda: ds.Outflow(y),
    ]
    return made[rng.integers(len(made))]()


def axis_rules(rng: np.random.Generator) -> Any:
    return "periodic" if rng.uniform() < 0.15 else (drawn(rng), drawn(rng))


@pytest.mark.parametrize("seed", range(24))
def test_rules_at_random(seed: int) -> None:
    rng = np.random.default_rng(seed)
    ndim = 1 + seed % 3
    shape = tuple(int(n) for n in rng.integers(4, (40, 22, 11)[ndim - 1], ndim))
    boundary = [tuple(axis_rules(rng) for _ in range(ndim)) for _ in range(3)]
    spacing = rng.uniform(0.4, 1.5, ndim)
    case = Case("", lambda: Sided(ds.Grid(shape, spacing), boundary), 5, {}, {}, {"k": (0.5, 0.3)})
    found, wanted = outputs(case, "f64")
    for name, values in wanted.items():
        np.testing.assert_allclose(found[name], values, rtol=0, atol=1e-12 * np.abs(values).max(), err_msg=f"{name} {shape} {boundary}")


class Conducting(ds.Equation):
    """Heat between two sides, one explicit step at a time."""

    def __init__(self, cells: int, boundary: Any, location: tuple[int, ...] = (0,)) -> None:
        self.grid = ds.Grid((cells,), 1.0 / cells)
        self.dt = 0.4 / cells**2
        self.states = {"T": ds.Variable((boundary,), location)}

    def step(self, T: Symbol) -> dict[str, Symbol]:
        return {"T": T + self.dt * laplacian(T)}


ENDS = {
    "held": ((ds.Dirichlet(1.0), ds.Dirichlet(3.0)), lambda x: 1 + 2 * x),
    "flux": ((ds.Dirichlet(1.0), ds.Neumann(2.0)), lambda x: 1 + 2 * x),
    "flux from below": ((ds.Neumann(-2.0), ds.Dirichlet(3.0)), lambda x: 1 + 2 * x),
    "to air": ((ds.Robin(3.0, 0.5, 2.0), ds.Dirichlet(3.0)), lambda x: 1 + 2 * x),  # 3 * 1 + 0.5 * -2
    "to air above": ((ds.Dirichlet(1.0), ds.Robin(3.0, 0.5, 10.0)), lambda x: 1 + 2 * x),  # 3 * 3 + 0.5 * 2
}


@pytest.mark.parametrize("location", [(0,), (1,)], ids=["centre", "face"])
@pytest.mark.parametrize("case", ENDS)
def test_steady_profiles_are_exact(case: str, location: tuple[int, ...]) -> None:
    """A linear profile meets a condition of second order exactly, so it stays."""
    boundary, profile = ENDS[case]
    equation = Conducting(8, boundary, location)
    x = (np.arange(8) + 0.5 + 0.5 * location[0]) / 8
    T = ds.Simulation(equation, precision="f64").run({"T": profile(x)}, 50).final["T"]
    np.testing.assert_allclose(T, profile(x), rtol=0, atol=1e-13)


@pytest.mark.parametrize("rule", [ds.Robin(1.0, 2.0, 0.0), ds.Dirichlet(0.0), ds.Neumann(0.0)], ids=repr)
def test_conditions_are_of_second_order(rule: Any) -> None:
    """The slowest decaying mode of heat between such sides and an even one, against its closed form."""
    a, b = rule.weights
    lo, hi = 0.0, np.pi / 2  # the mode is cos(w x) with a cos(w) = b w sin(w), x from the even side
    for _ in range(100):
        middle = (lo + hi) / 2
        lo, hi = (middle, hi) if a * np.cos(middle) > b * middle * np.sin(middle) else (lo, middle)
    w = lo if a else np.pi
    errors = []
    for cells in (16, 32, 64):
        equation = Conducting(cells, (ds.EvenImage(), rule))
        x, steps = (np.arange(cells) + 0.5) / cells, cells**2 // 4
        T = ds.Simulation(equation, precision="f64").run({"T": np.cos(w * x)}, steps).final["T"]
        errors.append(np.abs(T - np.cos(w * x) * np.exp(-(w**2) * equation.dt * steps)).max())
    assert all(3.5 < before / after < 4.6 for before, after in itertools.pairwise(errors)), errors


class Moving(ds.Equation):
    def __init__(self, high: Any) -> None:
        self.grid, self.dt = ds.Grid((60,), 0.1), 0.05
        self.states = {"u": ds.Variable((("zero", high),))}

    def step(self, u: Symbol) -> dict[str, Symbol]:
        return {"u": u - self.dt * (u - u.shifted(0, -1)) / 0.1}


def test_what_leaves_does_not_come_back() -> None:
    x = 0.1 * np.arange(60)
    u = ds.Simulation(Moving(ds.Outflow(1.0)), precision="f64").run({"u": np.exp(-4 * (x - 3) ** 2)}, 200).final["u"]
    assert np.abs(u).max() < 1e-6


class Faces(ds.Equation):
    """The last face lies on the high side."""

    def __init__(self, high: Any) -> None:
        self.grid, self.dt = ds.Grid((5, 6), 1.0), 0.5
        self.states = {"u": ds.Variable(("mirror", ("zero", high)), (0, 1))}

    def step(self, u: Symbol) -> dict[str, Symbol]:
        return {"u": u + 1.0}


def test_the_last_face_is_held_where_its_value_is_given() -> None:
    steps, start = 3, np.zeros((5, 6))
    for high, last in ((ds.Dirichlet(0.25), 0.25), (ds.OddImage(), 0.0), (ds.Neumann(0.0), 3.0)):
        u = ds.Simulation(Faces(high)).run({"u": start}, steps).final["u"]
        assert (u[:, -1] == last).all()
        assert (u[:, :-1] == 3).all()


class Staged(ds.Equation):
    def __init__(self, other: Any, location: tuple[int, int] | None = None, **how: Any) -> None:
        self.grid, self.dt, self.how = ds.Grid((6, 7), 1.0), 0.1, how
        self.states = {"a": ds.Variable((ds.Dirichlet(2.0), "periodic")), "b": ds.Variable(other, location)}

    def step(self, a: Symbol, b: Symbol) -> dict[str, Symbol]:
        both = a * b if self.states["b"].location is None else diff(a, 0) + b
        return {"a": a + 0.1 * laplacian(ds.stage(2 * a)), "b": b + 0.0 * laplacian(ds.stage(both, **self.how))}


def test_a_stage_has_the_rules_of_what_it_reads() -> None:
    simulation = ds.Simulation(Staged((ds.Dirichlet(2.0), "periodic")))
    stages = simulation._step.stages
    assert [stage.rules for stage in stages] == [simulation._step.states["a"].rules] * 2
    with pytest.raises(TraceError, match=r"stage\(\) of an expression of a, b, .* expected boundary="):
        ds.Simulation(Staged("zero"))
    with pytest.raises(TraceError, match=r"expected boundary="):
        ds.Simulation(Staged((ds.Dirichlet(2.0), "periodic"), (1, 0)))
    ds.Simulation(Staged("zero", boundary="mirror"))


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (lambda: ds.Variable(ds.Dirichlet), r"write Dirichlet\(\.\.\.\)"),
        (lambda: ds.Variable((("periodic", "zero"),)), "periodic on one side, expected on both"),
        (lambda: ds.Variable((("zero", "zero", "zero"),)), r"expected one rule, or two: \(low side, high side\)"),
        (lambda: ds.Dirichlet(np.nan), "value of Dirichlet = nan, expected a finite number"),
        (lambda: ds.Robin(1.0, -1.0, 0.0), "a = 1 and b = -1, expected numbers of one sign"),
        (lambda: ds.Robin(0.0, 0.0, 0.0), "not both 0"),
        (lambda: ds.Extrapolate(4), "order of Extrapolate = 4, expected a whole number from 0 to 3"),
        (lambda: ds.Outflow(-1.0), "speed of Outflow = -1.0, expected a number of at least 0"),
        (lambda: ds.Simulation(Moving(ds.Outflow(3.0))), "moves 1.5 cells a step, expected at most 1"),
    ],
)
def test_wrong_rules(wrong: Any, says: str) -> None:
    with pytest.raises(ParameterError, match=says):
        wrong()


@pytest.mark.parametrize("ndim", [1, 2])
def test_gradients_are_certified(ndim: int) -> None:
    """With given values: tangents have the rule without them, second derivatives too."""
    boundary = [tuple((ds.Dirichlet(0.6), ds.Robin(1.0, 0.5, 0.4)) for _ in range(ndim)) for _ in range(3)]
    simulation = ds.Simulation(Sided(ds.Grid((9, 12)[:ndim], 0.7), boundary), precision="f64")
    rng = np.random.default_rng(0)
    inputs = {name: rng.uniform(0.2, 0.8, simulation.grid.shape) for name in simulation.inputs}

    def loss(solution: ds.Solution) -> tuple[float, ds.Solution]:
        return 0.5 * sum(float((v**2).sum()) for v in solution.final.values()), ds.Solution(final=solution.final)

    report = ds.certify(simulation, loss, inputs, 6, seed=2)
    assert report.passed, str(report)


def test_planes_beside_a_side_have_one_worker() -> None:
    """In three dimensions slabs are single planes, unless a cell outside depends on several."""
    shape = (8, 4, 5)
    for rule, joined in (("zero", 1), (ds.Dirichlet(1.0), 1), ("mirror", 2), (ds.Extrapolate(2), 3)):
        simulation = ds.Simulation(Sided(ds.Grid(shape, 1.0), [(rule,) * 3] * 3))
        layout = simulation._stepper.layout
        assert layout.joined == joined
        bounds = slab_bounds(layout, useful_workers(layout, 8))
        assert min(after - before for before, after in itertools.pairwise(bounds)) >= joined
