"""Boundary rules in the kernels: any rule at any side of fields anywhere on the cell, forward and backward."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import diffsim as ds
from diffsim.boundary import bound, extend, extend_transpose, linear
from diffsim.errors import ParameterError, TraceError
from diffsim.expr import diff, laplacian
from diffsim.stepping.source.slabs import slab_bounds, useful_workers
from tests.cases import Case, Sided
from tests.sampled import sampled
from tests.stepping.run_cases import outputs

Symbol = ds.expr.Symbol


def rules(rng: np.random.Generator) -> list[Any]:
    """Each rule once, with figures at random."""
    x, y = rng.uniform(-1, 1), rng.uniform(0.2, 2)
    valued = [ds.Dirichlet(x), ds.Neumann(x), ds.Robin(y, 0.7, x), ds.Outflow(y)]
    return ["zero", "mirror", ds.OddImage(), ds.EvenImage(), *valued, *map(ds.Extrapolate, range(4))]


def sides(rng: np.random.Generator, ndim: int, number: int) -> list[Any]:
    """Rules of three fields at both sides of each axis.

    As many numbers in a row as there are rules put each rule at each side of each field once. Every third of them does so for one of the
    fields. Every third one has periodic axes in place of some.
    """
    boundary: list[Any] = []
    for field in range(3):
        low, high = rules(rng), rules(rng)
        boundary.append([(low[(number + field + 4 * axis) % KINDS], high[(field + axis - number) % KINDS]) for axis in range(ndim)])
        if ndim > 1 and number % 3 == 2:
            boundary[field][(field + number // 3) % ndim] = "periodic"
    return [tuple(axes) for axes in boundary]


KINDS = len(rules(np.random.default_rng(0)))
DRAWN = [*((1, n) for n in range(KINDS)), *((2, n) for n in (*range(0, KINDS, 3), 2)), *((3, n) for n in (0, 5))]


def test_each_rule_is_at_each_side() -> None:
    """In one dimension for each field, in two for some field."""
    places = set()
    for ndim, number in DRAWN:
        for field, axes in enumerate(sides(np.random.default_rng(0), ndim, number)):
            for axis, pair in enumerate(axes):
                for side, rule in enumerate(pair if isinstance(pair, tuple) else ()):
                    kind = rule if isinstance(rule, str | ds.Extrapolate) else type(rule)
                    places.add((ndim, axis, side, field if ndim == 1 else None, kind))
    assert [sum(place[0] == ndim for place in places) for ndim in (1, 2)] == [3 * 2 * KINDS, 2 * 2 * KINDS]


@pytest.mark.parametrize(("ndim", "number"), sampled(DRAWN, 10))
def test_rules_at_random(ndim: int, number: int) -> None:
    rng = np.random.default_rng(number)
    shape = tuple(int(n) for n in rng.integers(4, (40, 22, 11)[ndim - 1], ndim))
    boundary, spacing = sides(rng, ndim, number), rng.uniform(0.4, 1.5, ndim)
    case = Case("", lambda: Sided(ds.Grid(shape, spacing), boundary), 5, {}, {}, {"k": (0.5, 0.3)})
    computed, wanted = outputs(case, "f64")
    for name, values in wanted.items():
        np.testing.assert_allclose(computed[name], values, rtol=0, atol=1e-12 * np.abs(values).max(), err_msg=f"{name} {shape} {boundary}")


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
    """A state with rules, and a stage of an expression of it."""

    def __init__(self, rules: Any, what: Any = None, location: tuple[int, int] | None = None, **how: Any) -> None:
        self.grid, self.dt, self.how = ds.Grid((6, 7), 1.0), 0.1, how
        self.what = what or (lambda a, b: 2 * a * a)
        self.states = {"a": ds.Variable(rules), "b": ds.Variable("periodic", location)}

    def step(self, a: Symbol, b: Symbol) -> dict[str, Symbol]:
        return {"a": a + 0.1 * laplacian(a), "b": b + 0.0 * ds.stage(self.what(a, b), **self.how)}


@pytest.mark.parametrize("rules", ["mirror", "periodic", "zero", (("mirror", "zero"), "periodic")], ids=str)
def test_a_stage_has_the_rules_of_what_it_reads(rules: Any) -> None:
    step = ds.Simulation(Staged(rules))._step
    assert [field.rules for stage in step.stages for field in stage.outputs] == [step.states["a"].rules]


@pytest.mark.parametrize("rules", [ds.Dirichlet(2.0), ds.OddImage(), ds.Neumann(1.0), ds.Extrapolate(1), ds.Outflow(0.1)], ids=repr)
def test_a_stage_asks_where_the_rules_hold_for_the_field_alone(rules: Any) -> None:
    """On a side where u is 3, u * u is 9."""
    with pytest.raises(TraceError, match=r"stage\(\) of an expression of a, .* expected boundary="):
        ds.Simulation(Staged(rules))
    step = ds.Simulation(Staged(rules, boundary="mirror"))._step
    assert step.stages[0].outputs[0].rules == ds.Simulation(Staged("mirror"))._step.states["a"].rules


def test_a_stage_asks_where_rules_or_locations_differ() -> None:
    for equation in (Staged("mirror", lambda a, b: a * b), Staged("mirror", lambda a, b: diff(a, 0), (1, 0))):
        with pytest.raises(TraceError, match="expected boundary="):
            ds.Simulation(equation)


class Leapfrog(ds.Equation):
    def __init__(self, rule: Any) -> None:
        self.grid, self.dt = ds.Grid((12, 14), 1.0), 0.3
        self.states = {"p": ds.Variable(rule), "p_prev": ds.Variable(rule)}

    def step(self, p: Symbol, p_prev: Symbol) -> dict[str, Symbol]:
        return {"p": 2 * p - p_prev + 0.09 * laplacian(p), "p_prev": p}


@pytest.mark.parametrize("rule", [ds.Outflow(1.0), ds.Dirichlet(0.3)], ids=repr)
def test_an_earlier_value_of_a_state_is_one(rule: Any) -> None:
    """It needs no storage of its own, and its outermost cell is that of the state a step ago."""
    simulation = ds.Simulation(Leapfrog(rule), precision="f64")
    assert simulation._step.delays()["p_prev"] == ("p", 1)
    start = np.random.default_rng(0).standard_normal((2, 12, 14))
    one, two = (simulation.run({"p": start[0], "p_prev": start[1]}, steps).final for steps in (1, 2))
    np.testing.assert_array_equal(two["p_prev"], one["p"])


class Held(ds.Equation):
    """Faces whose last value is given, in a stage that becomes the state."""

    def __init__(self) -> None:
        self.grid, self.dt = ds.Grid((9, 10), 1.0), 0.3
        self.states = {"p": ds.Variable("mirror"), "u": ds.Variable(("mirror", ds.Dirichlet(0.5)), (0, 1))}

    def step(self, p: Symbol, u: Symbol) -> dict[str, Symbol]:
        u = ds.stage(u - self.dt * diff(p, 1), boundary=u)
        return {"p": p - self.dt * diff(u, 1), "u": u}


def test_a_stage_that_becomes_a_state_is_stored_once() -> None:
    simulation = ds.Simulation(Held())
    assert simulation._stepper.forward.arrays() == ds.Simulation(Held())._stepper.forward.arrays()
    assert not [array for array in simulation._stepper.forward.arrays() if array.startswith("stage")]
    u = simulation.run({"p": np.ones((9, 10))}, 3).final["u"]
    assert (u[:, -1] == 0.5).all()


@pytest.mark.parametrize("shape", sampled([((1, 8),), ((8, 1),), ((2, 8),), ((8, 2),), ((2, 2, 3),)], 3, ids=lambda case: str(case[0])))
@pytest.mark.parametrize("rule", ["mirror", ds.Neumann(0.3), ds.Dirichlet(0.2), ("zero", ds.Neumann(0.3))], ids=str)
def test_faces_of_an_axis_no_wider_than_the_halo(shape: tuple[int, ...], rule: Any) -> None:
    """The last ghost cell of the high side is made of the first one of the low side."""
    case = Case("", lambda: Slim(shape, rule), 4, {}, {}, {"k": (0.5, 0.3)})
    computed, wanted = outputs(case, "f64")
    for name, values in wanted.items():
        np.testing.assert_allclose(computed[name], values, rtol=0, atol=1e-13 * np.abs(values).max(), err_msg=name)
    for axis in range(len(shape)):
        sides = simulation_sides(shape, rule, axis)
        reach = min(2, shape[axis])
        x, y = (np.random.default_rng(seed).standard_normal(n) for seed, n in ((0, shape[axis]), (1, shape[axis] + 2 * reach)))
        extended, back = np.concatenate([np.zeros(reach), x, np.zeros(reach)]), y.copy()
        extend(extended, (reach,), (sides,))
        extend_transpose(back, (reach,), (sides,))
        assert np.dot(extended, y) == pytest.approx(np.dot(x, back[reach:-reach]), rel=1e-12)


def simulation_sides(shape: tuple[int, ...], rule: Any, axis: int) -> Any:
    """The rules of faces across an axis, without given values."""
    (sides,) = linear(bound((rule,), (1,), (0.5,)))
    return sides


class Slim(ds.Equation):
    """Products of neighbours on faces across the first axis, as far away as the grid is wide."""

    def __init__(self, shape: tuple[int, ...], rule: Any) -> None:
        self.grid, self.dt = ds.Grid(shape, 0.5), 0.1
        ndim = len(shape)
        self.states = {f"u{axis}": ds.Variable((rule,) * ndim, tuple(int(a == axis) for a in range(ndim))) for axis in range(ndim)}
        self.parameters = {"k": ds.Variable("mirror")}

    def step(self, k: Symbol, **u: Symbol) -> dict[str, Symbol]:
        def moved(f: Symbol) -> Symbol:
            far = [min(2, n) for n in self.grid.shape]
            return sum(f.shifted(a, far[a]) * f + f.shifted(a, -far[a]) for a in range(f.ndim)) / (2 * f.ndim)

        return {name: 0.7 * f + 0.2 * moved(f) for name, f in u.items()}


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (lambda: ds.Variable(ds.Dirichlet), r"write Dirichlet\(value\)$"),
        (lambda: ds.Variable("dirichlet"), r"boundary = 'dirichlet', expected one of zero, .*; write Dirichlet\(value\)$"),
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
