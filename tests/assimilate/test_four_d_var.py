"""4D-Var: its gradient, operators and unknowns of all kinds, windows one after another, chaos, and what is refused."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest

import diffsim as ds
import diffsim.numpy as dnp
from diffsim.assimilate import FourDVar, Observations
from diffsim.assimilate.control import Balanced
from diffsim.assimilate.four_d_var import Cost
from diffsim.base.arguments import plural
from diffsim.checkpoint.growth import ChaosWarning
from diffsim.errors import ParameterError, ShapeError
from diffsim.optimize import CorrelatedPrior, DiffusionPrior

CELLS = 40
CIRCLE = ds.Grid((CELLS,), spacing=1.0)
PLACES = [[float(k)] for k in range(CELLS)]


@cache
def lorenz() -> ds.Simulation:
    return ds.Simulation(ds.solvers.Lorenz96(CIRCLE, dt=0.05), receivers={"x": PLACES}, wrt=["x", "F"], precision="f64")


@cache
def truth(steps: int) -> np.ndarray:
    rng = np.random.default_rng(1)
    start = lorenz().run({"x": 8 + rng.standard_normal(CELLS), "F": 8.0}, 400).final["x"]
    return lorenz().run({"x": start, "F": 8.0}, steps).traces["x"]


def independent(deviation: float) -> DiffusionPrior:
    return DiffusionPrior((CELLS,), deviation)


def blurred(solution: Any) -> Any:
    return (solution.traces["x"][:, ::4] + solution.traces["x"][:, 1::4]) ** 2 / 10


def end(solution: Any) -> Any:
    return solution.final["x"][:5]


class Drifting(ds.Equation):
    """A state that is driven from step to step, and another that remembers it: the runs of its windows are not one batch."""

    def __init__(self) -> None:
        self.grid, self.dt = ds.Grid((6,), 1.0), 0.1
        self.states = {"a": ds.Variable("mirror"), "b": ds.Variable("mirror")}
        self.parameters, self.series = {"rate": ds.Variable(axes=())}, {"push": ds.Variable()}

    def step(self, a: Any, b: Any, rate: Any, push: Any) -> dict[str, Any]:
        return {"a": a + self.dt * (push - rate * a * a), "b": b + self.dt * (a - b)}


@pytest.mark.parametrize("windows", [1, 3])
def test_the_gradient_and_the_hessian_are_those_of_the_cost(windows: int) -> None:
    """A nonlinear operator, final states, a parameter, and a series that is cut into windows; the Hessian where the misfit is 0."""
    rng = np.random.default_rng(0)
    drift = ds.Simulation(Drifting(), receivers={"b": [[1.0], [3.5]]}, precision="f64")
    inputs = {"a": np.ones(6), "b": rng.standard_normal(6), "rate": 0.5, "push": rng.standard_normal(12)}
    run = drift.run(inputs, 12).traces["b"]
    ends = np.stack(
        [
            drift.run(inputs | {"push": inputs["push"][: 12 // windows * (k + 1)]}, 12 // windows * (k + 1)).final["a"]
            for k in range(windows)
        ]
    )
    seen = [Observations(run**2, 0.1, lambda s: s.traces["b"] ** 2), Observations(ends, 0.1, lambda s: s.final["a"], when="ends")]
    before = {"a": CorrelatedPrior((6,), 0.3, 1.0), "rate": DiffusionPrior((1,), 0.2), "push": DiffusionPrior((12,), 0.1, 2.0)}
    model = {"model_error": {"a": DiffusionPrior((6,), 0.2, 1.0)}} if windows > 1 else {}
    problem = FourDVar(drift, seen, inputs, before, steps=12, windows=windows, **model)
    lines = Cost(problem, problem.control())
    value, _ = lines.objective(np.zeros(problem.control().size))
    assert value < 1e-20  # the truth is the background
    z, way = (0.5 * rng.standard_normal(problem.control().size) for _ in range(2))
    value, gradient = lines.objective(z)
    slope = (lines.objective(z + 1e-5 * way)[0] - lines.objective(z - 1e-5 * way)[0]) / 2e-5
    assert abs(slope - gradient @ way) < 1e-7 * abs(slope) and value > 1
    public = problem.linearise(z)
    assert public.cost == value and np.array_equal(public.gradient(), gradient)
    with pytest.raises(ShapeError, match=r"z has shape \(3,\), expected"):
        problem.linearise([1.0, 2.0, 3.0])
    here = lines.at(np.zeros_like(z))
    turned = (lines.objective(1e-5 * way)[1] - lines.objective(-1e-5 * way)[1]) / 2e-5
    assert np.abs(here @ way - turned).max() < 1e-6 * np.abs(turned).max()


def coupled(errors: dict[str, Any]) -> dict[str, Any]:
    return {"b": 2 * errors["a"] - dnp.roll(errors["a"], 1), "a": 0.5 * dnp.sum(errors["rate"]) * np.arange(6.0)}


@pytest.mark.parametrize("windows", [1, 3])
def test_errors_that_depend_on_each_other(windows: int) -> None:
    """The linear problem with B = (1 + K) B0 (1 + K)', by dense matrices; in several windows the first alone has them."""
    drift = ds.Simulation(Drifting(), receivers={"b": [[1.0], [3.5]]}, precision="f64")
    before = {"a": CorrelatedPrior((6,), 0.3, 1.0), "b": DiffusionPrior((6,), 0.1), "rate": DiffusionPrior((1,), 0.2)}
    inputs = {"a": np.ones(6), "b": np.zeros(6), "rate": 0.5, "push": np.zeros(12)}
    jumps = {"model_error": {"a": DiffusionPrior((6,), 0.1)}} if windows > 1 else {}
    seen = Observations(np.zeros((13, 2)), 0.1, of="b")
    problem = FourDVar(drift, seen, inputs, before, 12, windows, balance=coupled, **jumps)
    control = problem.control()
    ends = np.cumsum([6, 6])
    steps = np.eye(13)
    moved = [coupled(dict(zip("ab", np.split(one, ends)[:2], strict=True)) | {"rate": one[12:]}) for one in steps]
    mixing = steps + np.stack([np.concatenate([each["a"], each["b"], [0.0]]) for each in moved], axis=1)
    roots = [np.stack([prior.root(one) for one in np.eye(prior.inner)], axis=1) for prior in before.values()]
    independent = np.zeros((13, 13))
    for begin, root in zip((0, 6, 12), roots, strict=True):
        independent[begin : begin + len(root), begin : begin + len(root)] = root @ root.T
    covariance = mixing @ independent @ mixing.T
    of_a, way = (lambda found: found["a"][0] if windows > 1 else found["a"]), np.random.default_rng(3).standard_normal(13)
    bars = {name: np.zeros(value.shape) for name, value in control.background.items()}
    of_a(bars)[...], bars["b"], bars["rate"] = way[:6], way[6:12], way[12:].reshape(bars["rate"].shape)
    back = control.root(control.root_transpose(bars))
    got = np.concatenate([of_a(back), np.ravel(back["b"]), np.ravel(back["rate"])])
    assert np.abs(got - covariance @ way).max() < 1e-12
    lines, z = Cost(problem, control), 0.3 * np.random.default_rng(1).standard_normal(control.size)
    _, gradient = lines.objective(z)
    along = np.random.default_rng(2).standard_normal(control.size)
    difference = (lines.objective(z + 1e-6 * along)[0] - lines.objective(z - 1e-6 * along)[0]) / 2e-6
    assert abs(difference / (gradient @ along) - 1) < 1e-6
    if windows == 1:
        assert np.abs(control.prior().variance() - np.diagonal(covariance)).max() < 1e-12
        posterior = problem.minimise(iterations=30).posterior(rank=13)
        assert np.all(posterior.deviation < np.sqrt(np.diagonal(covariance)))


def test_a_forcing_is_found_with_the_state() -> None:
    rng, steps = np.random.default_rng(2), 20
    records = truth(steps)[:, ::2]
    seen = Observations(
        np.where(np.arange(steps + 1)[:, None] % 2, np.nan, records + 0.1 * rng.standard_normal(records.shape)),
        0.1,
        lambda s: s.traces["x"][:, ::2],
    )
    background = {"x": truth(steps)[0] + 0.5 * rng.standard_normal(CELLS), "F": 7.0}
    analysis = FourDVar(lorenz(), seen, background, {"x": independent(0.5), "F": DiffusionPrior((1,), 1.0)}, steps).minimise(residual=1e-3)
    deviation = analysis.deviation(lambda unknowns: unknowns["F"])
    assert abs(analysis.unknowns["F"] - 8.0) < 3 * deviation and deviation < 0.1
    assert 0.7 < 2 * analysis.search.value / seen.count < 1.3
    text = str(analysis)
    assert "F ()" in text and "background" in text and "jumps" not in text


@pytest.mark.slow
def test_windows_follow_chaos_where_one_window_fails() -> None:
    """20 units of time, 30 times longer than errors take to grow by e, with noise of 1: errors of 0.1 all along the way."""
    steps, rng = 400, np.random.default_rng(3)
    records = truth(steps) + rng.standard_normal((steps + 1, CELLS))
    seen, background = Observations(records, 1.0, of="x"), {"x": truth(steps)[0] + rng.standard_normal(CELLS), "F": 8.0}
    start = records[:-1:10]
    for jump in (2.0, 0.5, 0.1):  # windows that are almost independent first
        several = FourDVar(lorenz(), seen, background, {"x": independent(1.0)}, steps, 40, {"x": independent(jump)})
        analysis = several.minimise(residual=0.05, products=300, tolerance=1e-4, start={"x": start})
        start = analysis.unknowns["x"]
    error = np.sqrt(((start - truth(steps)[:-1:10]) ** 2).mean())
    assert error < 0.13 and 0.9 < 2 * analysis.search.value / seen.count < 1.1, error
    one = FourDVar(lorenz(), seen, background, {"x": independent(1.0)}, steps)
    with pytest.warns(UserWarning, match="explains its observations poorly"), pytest.warns(ChaosWarning):
        alone = one.minimise()
    failed = np.sqrt(((lorenz().run(alone.inputs, steps).traces["x"] - truth(steps)) ** 2).mean())
    assert failed > 3.0, failed


def slopes(e: Any) -> tuple[Any, Any]:
    return e - dnp.roll(e, 1), dnp.roll(e, -1) - e


def smaller(low: Any, high: Any) -> Any:
    """The limiter minmod."""
    return dnp.where(low * high > 0, dnp.where(dnp.abs(low) < dnp.abs(high), low, high), 0.0)


NOT_LINEAR: dict[str, Callable[[Any], Any]] = {
    "square": lambda e: e**2,
    "affine": lambda e: e + 1.0,
    "abs": lambda e: e + 1e-3 * dnp.abs(e),
    "minmod": lambda e: smaller(*slopes(e)),
    "median": lambda e: dnp.median(e) * np.ones(e.shape),
    "cube root of a product": lambda e: dnp.sign(e) * dnp.abs(e * dnp.roll(e, 1) * dnp.roll(e, 2)) ** (1 / 3),
    "norm with a sign": lambda e: dnp.sign(e[0]) * dnp.sqrt((e**2).sum()) * np.ones(e.shape),
    "limit that errors of deviation 1 do not reach": lambda e: dnp.clip(e, -9.0, 9.0),
}


@pytest.mark.parametrize("name", NOT_LINEAR)
def test_a_balance_that_is_not_linear_is_refused(name: str) -> None:
    """Homogeneous functions among them, whose value at -2 v is -2 times that at v."""
    with pytest.raises(ParameterError, match=r"balance\(a - 30 b\) differs by .* expected a linear function"):
        Balanced(lambda errors: {"x": NOT_LINEAR[name](errors["x"])}, {"x": (12,)})


def test_a_linear_balance_is_accepted_and_transposed_without_a_call() -> None:
    calls = []

    def along(errors: dict[str, Any]) -> dict[str, Any]:
        calls.append(1)
        return {"y": 1e3 * dnp.gradient(errors["x"], 2.0) + errors["y"]}

    balance, rng = Balanced(along, {"x": (12,), "y": (12,)}), np.random.default_rng(3)
    v, w = ({name: rng.standard_normal(12) for name in "xy"} for _ in range(2))
    forward, before = balance(v), len(calls)
    back = balance.transpose(w)
    assert len(calls) == before
    assert sum(forward[k] @ w[k] for k in "xy") == pytest.approx(sum(v[k] @ back[k] for k in "xy"), rel=1e-12)


def test_what_does_not_fit_is_refused() -> None:
    inputs, before = {"x": np.zeros(CELLS), "F": 8.0}, {"x": independent(1.0)}
    seen = Observations(np.zeros((21, CELLS)), 1.0, of="x")
    cases: list[tuple[type[Exception], str, dict[str, Any]]] = [
        (ParameterError, "3 windows with model_error = None", {"windows": 3}),
        (ParameterError, "1 windows? with model_error", {"model_error": {"x": independent(0.1)}}),
        (ParameterError, "steps = 20 in 3 windows", {"windows": 3, "model_error": {"x": independent(0.1)}}),
        (ParameterError, "or a PrecisionPrior for a number", {"background_error": {"x": 0.1}}),
        (ParameterError, "without precision", {"windows": 4, "model_error": {"x": CorrelatedPrior((CELLS,), 0.1)}}),
        (ParameterError, "background without x", {"background": {"F": 8.0}}),
        (ParameterError, "background_error of y", {"background_error": {"y": independent(1.0)}}),
        (ShapeError, "is of 39 values, expected 40", {"background_error": {"x": DiffusionPrior((39,), 1.0)}}),
        (
            ShapeError,
            "expected 21 rows, row 0 for the initial state and one for each of 20 steps;",
            {"observations": Observations(np.zeros((20, CELLS)), 1.0, of="x")},
        ),
        (ParameterError, "observations is empty", {"observations": []}),
        (ParameterError, "background_error is empty", {"background_error": {}}),
        (ParameterError, "balance = 3, expected a function", {"balance": 3}),
        (ParameterError, "balance returns 'y', which has no background_error", {"balance": lambda errors: {"y": errors["x"]}}),
        (ParameterError, "KeyError: 'y', expected .* background_error, x;", {"balance": lambda errors: {"x": errors["y"]}}),
        (ParameterError, "balance gives x 40 NaN .* expected finite", {"balance": lambda errors: {"x": np.nan * errors["x"]}}),
        (ShapeError, r"gives x the shape \(39,\)", {"balance": lambda errors: {"x": errors["x"][1:]}}),
        (ParameterError, "a state with receivers", {"observations": Observations(np.zeros((21, CELLS)), 1.0, of="y")}),
    ]
    for error, match, changed in cases:
        arguments: dict[str, Any] = {"observations": seen, "background": inputs, "background_error": before, "steps": 20} | changed
        with pytest.raises(error, match=match):
            FourDVar(lorenz(), **arguments)
    problem = FourDVar(lorenz(), Observations(np.zeros((21, 3)), 1.0, end), inputs, before, 20)
    with pytest.raises(ShapeError, match=r"gives shape \(5,\) for a window, expected \(21, 3\), .*; return a row for"):
        problem.minimise()
    with pytest.raises(ParameterError, match="start names 'x', expected states with a model error: no state"):
        problem.minimise(start={"x": np.zeros((1, CELLS))})
    windows = FourDVar(lorenz(), seen, inputs, before, 20, 4, {"x": independent(0.1)})
    with pytest.raises(ShapeError, match=r"start of x has shape \(3, 40\), expected \(4, 40\)"):
        windows.minimise(start={"x": np.zeros((3, CELLS))})
    for wrong in ({"values": np.full(3, np.nan)}, {"values": [1.0, np.inf]}, {"deviation": 0.0}, {"deviation": -1.0}, {"of": 3}):
        with pytest.raises(ParameterError):
            Observations(**{"values": [1.0], "deviation": 1.0, "of": "x"} | wrong)
    with pytest.raises(ShapeError, match="broadcasts"):
        Observations(np.zeros((3, 2)), np.ones(3), of="x")


def test_windows_of_a_step_that_could_read_the_time_and_does_not() -> None:
    """Water in a channel, whose bed could move."""
    grid = ds.Grid((12,), 10.0)
    sea = ds.solvers.ShallowWater(grid, 0.4, method="euler", fastest=12.0)
    channel = ds.Simulation(sea, receivers={"eta": [[35.0], [85.0]]}, wrt=["eta", "qx"], precision="f64")
    background = {"z": np.full(12, -10.0), "eta": np.zeros(12), "qx": np.zeros(12)}
    truth = channel.run(background | {"eta": 0.1 * np.cos(np.pi * grid.coordinates(0) / 120)}, 8).traces["eta"]
    errors = {"eta": DiffusionPrior((12,), 0.1, 3.0)}
    jumps = {"eta": DiffusionPrior((12,), 1e-3), "qx": DiffusionPrior((12,), 1e-3)}
    analysis = FourDVar(channel, Observations(truth, 1e-3, of="eta"), background, errors, 8, 2, jumps).minimise(residual=1e-3, products=300)
    assert analysis.fit < 1.0 and analysis.unknowns["eta"][0, 3] > 0.02
    moving = ds.Simulation(ds.solvers.ShallowWater(grid, 0.4, uplift=True, fastest=12.0), receivers={"eta": [[35.0]]}, wrt=["eta", "qx"])
    bed = background | {"uplift": np.zeros(12), "start": np.zeros(12), "rise": np.ones(12)}
    with pytest.raises(ParameterError, match="whose step reads the time"):
        FourDVar(moving, Observations(truth[:, :1], 1e-3, of="eta"), bed, errors, 8, 2, jumps)


class Driven(ds.Equation):
    """A field on a plane, a field along one axis, a number and a series."""

    def __init__(self) -> None:
        self.grid, self.dt = ds.Grid((4, 6), 1.0), 0.1
        self.states = {"a": ds.Variable("mirror")}
        self.parameters = {"rate": ds.Variable(axes=()), "wind": ds.Variable("mirror", axes=(1,)), "rough": ds.Variable("mirror")}
        self.series = {"push": ds.Variable()}

    def step(self, a: Any, rate: Any, wind: Any, rough: Any, push: Any) -> dict[str, Any]:
        return {"a": a + self.dt * (push - rate * a - wind - rough * a)}


@cache
def driven() -> ds.Simulation:
    return ds.Simulation(Driven(), receivers={"a": [[1.0, 2.0], [2.0, 4.0]]}, precision="f64")


SHAPES = {"a": (4, 6), "rate": (), "wind": (6,), "rough": (4, 6), "push": (5,)}


@pytest.mark.parametrize("unknown", SHAPES)
@pytest.mark.parametrize("name", SHAPES)
def test_a_background_of_another_shape_is_refused_by_name(name: str, unknown: str) -> None:
    """One value or axis more or less, in unknowns and known inputs alike. One number stands for all values of an unknown alone."""
    shape, before = SHAPES[name], {unknown: DiffusionPrior(SHAPES[unknown] or (1,), 1.0)}
    inputs, seen = {key: np.zeros(one) for key, one in SHAPES.items()}, Observations(np.zeros((6, 2)), 1.0, of="a")
    wrong = [(*shape, 1), (1, *shape), (2, *shape), *((*shape[:k], n + by, *shape[k + 1 :]) for k, n in enumerate(shape) for by in (-1, 1))]
    wrong += [shape[::-1]] if len(shape) > 1 else []
    wrong += [()] if shape and name != unknown else []
    for other in wrong:
        with pytest.raises(ShapeError) as error:
            FourDVar(driven(), seen, inputs | {name: np.zeros(other)}, before, 5)
        assert f"background of {name} has shape {other}, expected {shape}; give" in str(error.value)
    bad = np.zeros(shape)
    bad[(0,) * len(shape)] = np.nan
    with pytest.raises(ParameterError, match=rf"background of {name} has 1 NaN .* expected finite"):
        FourDVar(driven(), seen, inputs | {name: bad}, before, 5)
    number = FourDVar(driven(), seen, inputs | {unknown: 0.5}, before, 5)
    assert np.array_equal(number.control().background[unknown], np.full(SHAPES[unknown], 0.5))


def test_names_priors_and_records_that_do_not_fit_are_refused_at_once() -> None:
    inputs, seen = {key: np.zeros(one) for key, one in SHAPES.items()}, Observations(np.zeros((6, 2)), 1.0, of="a")
    with pytest.raises(ParameterError, match="background names b, but the inputs are"):
        FourDVar(driven(), seen, inputs | {"b": 1.0}, {"a": DiffusionPrior((4, 6), 1.0)}, 5)
    for shape in ((6, 4), (2, 12), (8, 3)):
        with pytest.raises(ShapeError) as error:
            FourDVar(driven(), seen, inputs, {"a": DiffusionPrior(shape, 1.0)}, 5)
        assert f"background_error of a has the shape {shape}, expected (4, 6)" in str(error.value)
    FourDVar(driven(), seen, inputs, {"a": DiffusionPrior((24,), 1.0)}, 5)
    for columns in ((), (1,), (3,), (2, 1)):
        with pytest.raises(ShapeError, match=r"observations of a have shape .*, expected \(6, 2\), a column for each receiver"):
            FourDVar(driven(), Observations(np.zeros((6, *columns)), 1.0, of="a"), inputs, {"a": DiffusionPrior((4, 6), 1.0)}, 5)


@pytest.mark.parametrize("method", ["gauss-newton", "L-BFGS-B"])
@pytest.mark.parametrize("iterations", [1, 2, 200])
def test_a_poor_fit_says_first_that_the_iterations_were_done(method: Any, iterations: int) -> None:
    """Records that are far from all runs: the search that ends by itself is a minimum."""
    swing = ds.Simulation(ds.ODE(lambda a, v: (v, -a - a * a * a), dt=0.1), receivers={"a": [[0.0]]}, wrt=["a", "v"], precision="f64")
    prior, records = DiffusionPrior((1,), 2.0), np.random.default_rng(0).standard_normal((31, 1))
    problem = FourDVar(swing, Observations(records, 0.01, of="a"), {"a": [0.3], "v": [0.0]}, {"a": prior, "v": prior}, 30)
    with pytest.warns(UserWarning, match="explains its observations poorly") as seen:
        analysis = problem.minimise(method, iterations)
    text = str(seen[0].message)
    done = f"expected 1. The search has not converged: {plural(iterations, 'iteration')} done; raise `iterations` to go on."
    assert analysis.search.reason == "iterations" if iterations < 3 else analysis.search.reason != "iterations"
    assert (done in text) == (iterations < 3) and ("not converged" in text) == (iterations < 3), text


@pytest.mark.parametrize("windows", [1, 2, 3])
@pytest.mark.parametrize("each", [(), (4,), (4, 2)])
def test_an_operator_gives_the_rows_of_a_window(each: tuple[int, ...], windows: int) -> None:
    """One row for its end, without an axis of rows, or a row for each of its states."""
    steps, same = 6, lambda solution: solution
    ends, states = (Observations(np.ones((rows, *each)), 1.0, same, when) for rows, when in ((windows, "ends"), (steps + 1, "steps")))
    long = steps // windows + 1
    for seen, fits, wrong in (
        (ends, each, {(1, *each): "leave out the axis of rows", (5, *each): "return a row of", (*each, 3): "return a row"}),
        (
            states,
            (long, *each),
            {each: "say when='ends'", (long - 1, *each): "for each step", (long, *each, 3): "return a row"},
        ),
    ):
        seen.check(lorenz(), steps, windows)
        assert seen.predicted([np.ones(fits)] * windows).shape == seen.values.shape
        for shape, remedy in wrong.items():
            solutions: Any = [np.ones(fits)] * (windows - 1) + [np.ones(shape)]
            said = rf"gives shape {re.escape(str(shape))} for a window, expected {re.escape(str(fits))}, .*{remedy}"
            with pytest.raises(ShapeError, match=said):
                seen.predicted(solutions)


@pytest.mark.parametrize("row", [lambda x: [x[0], 2 * x[1]], lambda x: (x[0], 2.0), lambda x: [3.0, 4.0]])
def test_a_row_may_be_numbers_that_are_differentiated(row: Any) -> None:
    seen = Observations(np.ones((1, 2)), 1.0, row, when="ends")
    start, along = np.array([0.5, 0.25, 1.0]), np.array([1.0, -2.0, 0.3])
    values, tangents = ds.jvp(lambda x: seen.predicted([x]), (start,), (along,))
    assert np.array_equal(values, [row(start)]) and np.array_equal(tangents[0], np.array(row(along)) - np.array(row(0 * along)))


def test_one_row_of_an_end_has_an_axis_of_rows() -> None:
    seen = Observations(np.ones(CELLS), 1.0, lambda solution: solution.final["x"], when="ends")
    with pytest.raises(ShapeError, match=r"^values have shape \(40,\), expected 1 row, one for each of the windows; give values\[None\]$"):
        seen.check(lorenz(), 20, 1)
    with pytest.raises(ShapeError, match=r"expected 2 rows, one for each of the windows; fill up with NaN$"):
        seen.check(lorenz(), 20, 2)
