"""The minimiser: minima, stopping, history, and objectives that misbehave."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pytest
from rosenbrock_run import BOUNDS, X0, rosenbrock
from scipy.optimize import Bounds

from diffsim.errors import DiffsimError, DivergenceError, ParameterError, ShapeError
from diffsim.optimize import Iteration, Journal, NonFiniteError, minimise
from diffsim.optimize.evaluation import Evaluator
from diffsim.optimize.minimise import METHODS
from diffsim.typing import Array


class Pair(NamedTuple):
    k: Any
    T: Any


@dataclass
class Both:
    k: Any
    T: Any


@pytest.mark.parametrize("inside", [lambda x: x, lambda x: {"inner": x}, lambda x: [x, np.ones(2)]])
@pytest.mark.parametrize("kind", [dict, Pair, Both, lambda k, T: [k, T], lambda k, T: (k, {"T": T})])
@pytest.mark.parametrize("size", [2, 3])
def test_several_arrays_are_one_vector_by_stacked(kind: Any, inside: Any, size: int) -> None:
    """Those of one length, too, of which NumPy makes one array."""
    start = inside(kind(k=np.zeros(2), T=np.ones(size)))
    said = r"^x0 is a \w+ of [23] arrays, expected one vector .* diffsim\.optimize\.Stacked\(\{.*parts\.split"
    with pytest.raises(ParameterError, match=said):
        minimise(quadratic, start)


def test_numbers_by_name_are_refused_and_rows_of_them_are_a_vector() -> None:
    with pytest.raises(ParameterError, match=r"^x0 is a dict of 2 arrays, .*Stacked\(\{'a': \.\.\., 'b': \.\.\.\}\)"):
        minimise(quadratic, {"a": 1.0, "b": 2.0})  # type: ignore[arg-type]
    for rows in ([1.0, 2.0], (1.0, 2.0), Pair(1.0, 2.0), [np.array(1.0), np.float32(2.0)]):
        assert np.abs(minimise(quadratic, rows).x).max() < 1e-6  # type: ignore[arg-type]
    with pytest.raises(ShapeError, match=r"expected a vector of at least one entry, got shape \(2, 2\)"):
        minimise(quadratic, [[1.0, 2.0], [3.0, 4.0]])  # type: ignore[arg-type]


@pytest.fixture(params=[name for name in METHODS if name != "adam"])
def method(request: pytest.FixtureRequest) -> str:
    return request.param


def quadratic(x: Array) -> tuple[float, Array]:
    """½ Σ k xₖ², k = 1 ... n."""
    k = np.arange(1.0, x.size + 1)
    return 0.5 * float(np.sum(k * x**2)), k * x


def test_rosenbrock_reaches_its_minimum(method: str) -> None:
    result = minimise(rosenbrock, X0[:2], method, bounds=[(-2, 2), (-2, 2)], tolerance=0.0)
    np.testing.assert_allclose(result.x, 1.0, atol=1e-8)
    assert result.converged
    assert result.value < 1e-16


def test_rosenbrock_with_active_bounds_reaches_the_constrained_minimum(method: str) -> None:
    """At the minimum the gradient vanishes along free entries and pushes against the bounds of the others."""
    result = minimise(rosenbrock, X0, method, BOUNDS, iterations=300, tolerance=0.0)
    assert result.x[5] == 0.5
    assert result.gradient[5] < -0.1
    assert np.max(np.abs(result.gradient[:5])) < 1e-5
    assert result.history[-1].gradient_norm == np.max(np.abs(result.gradient[:5]))
    lower, upper = np.array(BOUNDS).T
    assert np.all((result.x >= lower) & (result.x <= upper))


@pytest.mark.parametrize("unit", [1e-30, 1e-12, 1.0, 1e15])
def test_the_unit_of_the_objective_does_not_matter(method: str, unit: float) -> None:
    """SciPy's own test on small decreases would stop the first two at once."""
    result = minimise(lambda x: (unit * quadratic(x)[0], unit * quadratic(x)[1]), np.ones(5), method, tolerance=1e-12)
    assert result.reason == "value"
    assert result.converged
    assert np.max(np.abs(result.x)) < 1e-4


def test_the_result_belongs_together(method: str) -> None:
    result = minimise(rosenbrock, X0, method, iterations=7)
    value, gradient = rosenbrock(result.x)
    assert (result.value, result.gradient.tolist()) == (value, gradient.tolist())
    assert result.history[-1].value == value
    assert (result.reason, result.converged) == ("iterations", False)


@pytest.mark.parametrize(("iterations", "words"), [(1, "1 iteration done; raise"), (2, "2 iterations done; raise")])
def test_the_end_is_told_in_words(method: str, iterations: int, words: str) -> None:
    assert minimise(rosenbrock, X0, method, iterations=iterations).message.startswith(words)


def test_history_starts_at_the_start_and_counts_all_evaluations(method: str) -> None:
    values: list[float] = []
    places: list[bytes] = []

    def objective(x: Array) -> tuple[float, Array]:
        value, gradient = rosenbrock(x)
        values.append(value)
        places.append(x.tobytes())
        return value, gradient

    seen: list[Iteration] = []
    result = minimise(objective, X0, method, iterations=12, callback=seen.append)
    history = result.history
    assert [record.iteration for record in history] == list(range(13))
    assert seen == history[1:]
    assert history[0].value == rosenbrock(X0)[0]
    assert history[0].gradient_norm == np.max(np.abs(rosenbrock(X0)[1]))
    assert history[0].evaluations == 1
    assert history[-1].evaluations == len(values) == len(set(places))  # none was done twice
    for record in history:
        assert record.value == values[record.evaluations - 1]
    assert np.all(np.diff([record.value for record in history]) < 0)
    assert np.all(np.diff([record.seconds for record in history]) > 0)


def test_a_callback_stops_the_run_by_stopiteration(method: str) -> None:
    def callback(record: Iteration) -> None:
        if record.iteration == 3:
            raise StopIteration

    result = minimise(rosenbrock, X0, method, callback=callback)
    assert result.reason == "callback"
    assert result.history[-1].iteration == 3
    assert not result.converged


def test_other_exceptions_of_a_callback_pass_through(method: str) -> None:
    def callback(record: Iteration) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        minimise(rosenbrock, X0, method, callback=callback)


def test_the_objective_may_keep_and_spoil_its_arguments_and_reuse_its_gradient(method: str) -> None:
    expected = minimise(rosenbrock, X0, method, iterations=10)
    buffer = np.zeros_like(X0)
    kept: list[tuple[Array, Array]] = []

    def objective(x: Array) -> tuple[float, Array]:
        value, buffer[:] = rosenbrock(x)
        kept.append((x, x.copy()))
        return value, buffer

    def spoiling(x: Array) -> tuple[float, Array]:
        value, gradient = rosenbrock(x)
        x[:] = np.nan
        return value, gradient

    np.testing.assert_array_equal(minimise(objective, X0, method, iterations=10).x, expected.x)
    for x, copy in kept:
        np.testing.assert_array_equal(x, copy)
    start = X0.copy()
    np.testing.assert_array_equal(minimise(spoiling, start, method, iterations=10).x, expected.x)
    np.testing.assert_array_equal(start, X0)


def test_an_evaluation_keeps_its_x_and_gradient_when_the_method_moves_on() -> None:
    buffer = np.zeros(2)

    def objective(x: Array) -> tuple[float, Array]:
        buffer[:] = quadratic(x)[1]
        return quadratic(x)[0], buffer

    evaluate, x = Evaluator(objective, None), np.ones(2)
    point = evaluate.accept(x)
    x[:] = 5.0
    evaluate(x)
    np.testing.assert_array_equal(point.x, 1.0)
    np.testing.assert_array_equal(point.gradient, [1.0, 2.0])


def test_a_f32_gradient_is_welcome(method: str) -> None:
    result = minimise(lambda x: (quadratic(x)[0], quadratic(x)[1].astype(np.float32)), np.ones(5), method)
    assert result.gradient.dtype == np.float64
    assert result.value < 1e-6


@pytest.mark.parametrize("bad", ["value", "gradient", "infinite value"])
@pytest.mark.parametrize("at", [1, 2, 9])
def test_a_value_that_is_not_finite_raises_with_the_last_good_x(method: str, bad: str, at: int, tmp_path: object) -> None:
    seen: list[Iteration] = []
    count = 0

    def objective(x: Array) -> tuple[float, Array]:
        nonlocal count
        count += 1
        value, gradient = rosenbrock(x)
        if count == at:
            value = {"value": np.nan, "infinite value": np.inf}.get(bad, value)
            gradient[2] = np.nan if bad == "gradient" else gradient[2]
        return value, gradient

    journal = Journal(f"{tmp_path}/journal", "nan")
    with journal, pytest.raises(NonFiniteError, match=f"evaluation {at}: expected a finite") as caught:
        minimise(objective, X0, method, journal=journal, callback=seen.append)
    assert isinstance(caught.value, DivergenceError)
    assert caught.value.iteration == (0 if at == 1 else len(seen) + 1)
    if at == 1:
        assert caught.value.last_good is None
    else:
        last = seen[-1].value if seen else rosenbrock(X0)[0]
        assert rosenbrock(caught.value.last_good)[0] == last
    assert journal.path.stat().st_size == 40 + (at - 1) * (64 + 48)  # the bad evaluation is not recorded


def test_a_start_that_is_a_minimum_is_left_as_it_is(method: str) -> None:
    free = minimise(quadratic, np.zeros(3), method)
    held = minimise(quadratic, np.full(3, 2.0), method, bounds=Bounds(2.0, 5.0))
    for result, x in ((free, 0.0), (held, 2.0)):
        np.testing.assert_array_equal(result.x, x)
        assert (result.reason, result.converged, len(result.history)) == ("gradient", True, 1)


def test_with_all_entries_fixed_there_is_nothing_to_do(method: str) -> None:
    result = minimise(quadratic, np.ones(3), method, bounds=Bounds(1.0, 1.0))
    assert (result.reason, result.converged, result.history[-1].evaluations) == ("gradient", True, 1)
    np.testing.assert_array_equal(result.x, 1.0)


def test_entries_fixed_by_equal_bounds_stay(method: str) -> None:
    result = minimise(quadratic, np.ones(3), method, bounds=[(1, 1), (None, None), (0.25, None)])
    np.testing.assert_allclose(result.x, [1, 0, 0.25], atol=1e-6)
    assert result.x[0] == 1


def test_infinite_bounds_are_none(method: str) -> None:
    expected = minimise(rosenbrock, X0, method, iterations=5)
    for bounds in (Bounds(), Bounds(np.full(6, -np.inf), np.inf), [(None, None)] * 6):
        np.testing.assert_array_equal(minimise(rosenbrock, X0, method, bounds, iterations=5).x, expected.x)


def test_a_wrong_gradient_ends_in_the_line_search(method: str) -> None:
    result = minimise(lambda x: (quadratic(x)[0], -quadratic(x)[1]), np.ones(3), method)
    assert (result.reason, result.converged) == ("line search", False)
    assert "Taylor" in result.message
    np.testing.assert_array_equal(result.x, 1.0)


def call(**changes: object) -> Callable[[], object]:
    return lambda: minimise(**{"objective": quadratic, "x0": np.ones(3), **changes})  # type: ignore[arg-type]


REFUSED: dict[str, tuple[type[DiffsimError], str, Callable[[], object]]] = {
    "method": (ParameterError, "L-BFGS-B", call(method="newton")),
    "matrix": (ShapeError, "x0", call(x0=np.ones((3, 1)))),
    "no unknowns": (ShapeError, "x0", call(x0=np.ones(0))),
    "NaN start": (ParameterError, "x0", call(x0=np.array([1.0, np.nan]))),
    "no iterations": (ParameterError, "iterations", call(iterations=0)),
    "negative tolerance": (ParameterError, "tolerance", call(tolerance=-1.0)),
    "NaN tolerance": (ParameterError, "tolerance", call(tolerance=np.nan)),
    "number of bounds": (ShapeError, "bounds", call(bounds=[(0, 1)] * 2)),
    "number of Bounds": (ShapeError, "bounds", call(bounds=Bounds(np.zeros(2), np.ones(2)))),
    "crossed bounds": (ParameterError, "crossed bounds", call(bounds=[(2, 1)] * 3)),
    "NaN bounds": (ParameterError, "crossed bounds or NaN", call(bounds=[(0, np.nan)] * 3)),
    "start out of bounds": (ParameterError, r"x0\[0\] <= 0.5", call(bounds=[(0, 0.5)] * 3)),
    "gradient's shape": (ShapeError, "gradient", call(objective=lambda x: (1.0, np.ones(2)))),
}


@pytest.mark.parametrize(("error", "match", "call"), REFUSED.values(), ids=REFUSED.keys())
def test_refused(error: type[DiffsimError], match: str, call: Callable[[], object]) -> None:
    with pytest.raises(error, match=match):
        call()
