"""Running sums inside a step: against NumPy, their derivatives of all orders, and what is refused."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import diffsim as ds
import diffsim.numpy as dnp
from diffsim.checkpoint import StoreAll
from diffsim.errors import ParameterError, PlanError, ShapeError, TraceError
from diffsim.expr import diff, diff_centred, sin
from tests.curvature import require_third_derivatives
from tests.sampled import sampled
from tests.stepping.stages.test_host_stage import STEPS, Given, inputs, loss, require_curvature

ROUND_OFF = 1e-13
DOT_PRODUCT = 1e-12  # relative to the sum of the magnitudes
THIRD = 1e-5  # relative, differences of second derivatives, of a step of 1e-4
SHAPES = [(19,), (11, 14), (5, 6, 7)]
RULES = [*itertools.product(["zero", "mirror"], repeat=2), "periodic", (ds.Robin(1.0, 0.5, 0.3), ds.Dirichlet(0.4))]
CASES = [(shape, axis, reverse) for shape in SHAPES for axis in range(len(shape)) for reverse in (False, True)]


def accumulated(x: np.ndarray, axis: int, reverse: bool) -> np.ndarray:
    return np.flip(np.flip(x, axis).cumsum(axis), axis) if reverse else x.cumsum(axis)


def pressure(axis: int, reverse: bool, boundary: Any = "mirror") -> Callable[..., dict[str, Any]]:
    """A step whose sum is read at neighbours and enters a second one, of products with a parameter and a state."""

    def step(u: Any, k: Any, q: Any) -> dict[str, Any]:
        first = ds.running_sum(k * sin(u), axis, reverse, boundary)
        second = ds.running_sum(u, -1, not reverse)
        return {"u": 0.5 * u - 0.1 * diff_centred(first, axis) * k + 0.01 * first * second + 0.1 * q}

    return step


def recorded(step: Callable[..., dict[str, Any]], shape: tuple[int, ...], boundary: str = "zero") -> ds.Simulation:
    middle = [[2.5] * len(shape)]
    return ds.Simulation(Given(step, shape, boundary), sources={"q": middle}, receivers={"u": middle})


@pytest.mark.parametrize(("shape", "axis", "reverse"), CASES)
def test_equals_numpy(shape: tuple[int, ...], axis: int, reverse: bool) -> None:
    run = ds.Simulation(Given(lambda u, k, q: {"u": ds.running_sum(k * u, axis, reverse)}, shape))
    point = inputs(run)
    wanted = accumulated(point["k"] * point["u"], axis, reverse)
    assert np.abs(run.run(point, 1).final["u"] - wanted).max() <= ROUND_OFF * np.abs(wanted).max()


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize(("boundary", "mode"), [("zero", "constant"), ("mirror", "symmetric"), ("periodic", "wrap")])
def test_outside_the_grid_it_is_what_its_rule_says(boundary: str, mode: Any, reverse: bool) -> None:
    def step(u: Any, k: Any, q: Any) -> dict[str, Any]:
        total = ds.running_sum(u, 0, reverse, boundary)
        return {"u": total.shifted(0, 1) + 2 * total.shifted(1, -1)}

    run = ds.Simulation(Given(step))
    point = inputs(run)
    padded = np.pad(accumulated(point["u"], 0, reverse), 1, mode=mode)
    wanted = padded[2:, 1:-1] + 2 * padded[1:-1, :-2]
    assert np.abs(run.run(point, 1).final["u"] - wanted).max() <= ROUND_OFF * np.abs(wanted).max()


@pytest.mark.parametrize(("shape", "axis", "reverse"), sampled(CASES, 10))
def test_derivatives_in_every_dimension(shape: tuple[int, ...], axis: int, reverse: bool) -> None:
    """Dot products along random directions; Taylor slopes and other schedules by the certificate; second derivatives by differences."""
    run = recorded(pressure(axis, reverse), shape)
    point, rng = inputs(run), np.random.default_rng(1)
    _, pullback = run.vjp(point, STEPS)
    for _ in range(3):
        move = {name: rng.standard_normal(values.shape) for name, values in point.items()}
        solution, tangent = run.jvp(point, move, STEPS)
        bars = ds.Solution(*({n: rng.standard_normal(v.shape) for n, v in part.items()} for part in (solution.final, solution.traces)))
        back = pullback(bars)
        left = [bars.final["u"] * tangent.final["u"], bars.traces["u"] * tangent.traces["u"]]
        right = [back[name] * move[name] for name in move]
        size = sum(float(np.abs(product).sum()) for product in left)
        assert abs(sum(float(p.sum()) for p in left) - sum(float(p.sum()) for p in right)) <= DOT_PRODUCT * size
    assert ds.certify(run, loss, point, STEPS).passed
    require_curvature(run, rng)


@pytest.mark.parametrize("sides", sampled([(rule,) for rule in RULES], ids=str, every=2))
def test_derivatives_through_every_rule(sides: Any) -> None:
    run = recorded(pressure(0, False, (sides, "zero")), (9, 7))
    assert ds.certify(run, loss, inputs(run), STEPS).passed


@pytest.mark.slow
def test_third_derivatives() -> None:
    run = ds.Simulation(Given(pressure(0, False), (7,), "mirror"))
    point, rng = inputs(run), np.random.default_rng(5)
    require_third_derivatives(lambda fields: dnp.sum(run.run(fields, 3).final["u"] ** 3), point, rng, THIRD, DOT_PRODUCT)


@pytest.mark.slow
def test_the_same_bits_with_any_number_of_threads() -> None:
    results = []
    for threads in (1, 2):
        ds.init(precision="f64", threads=threads)
        run = recorded(pressure(0, True), (64, 70))
        point = inputs(run)
        results.append({"final": run.run(point, STEPS).final["u"], **run.value_and_grad(loss, point, STEPS)[1]})
    ds.init(precision="f64")
    assert all(results[0][name].tobytes() == results[1][name].tobytes() for name in results[0])


@pytest.mark.parametrize("slots", sampled([2, 1, 3]))
def test_checkpointed_equals_stored(slots: int) -> None:
    run = recorded(pressure(0, True), (11, 14))
    point = inputs(run)
    stored = run.value_and_grad(loss, point, STEPS, StoreAll(STEPS))[1]
    gradient = run.value_and_grad(loss, point, STEPS, checkpoint=slots)[1]
    assert all(stored[name].tobytes() == gradient[name].tobytes() for name in point)


def test_a_linear_step_reads_no_state_backwards() -> None:
    run = ds.Simulation(Given(lambda u, k, q: {"u": 0.1 * ds.running_sum(u, 0)}))
    run.value_and_grad(loss, inputs(run), STEPS)
    assert not run._stepper.needs_primal


def test_the_stream_function_of_a_velocity() -> None:
    """Its difference gives the velocity back, at the faces where that lies."""

    def step(u: Any, k: Any, q: Any) -> dict[str, Any]:
        psi = ds.running_sum(u, 0).across(0)
        assert psi.location == (1, 1)
        return {"u": diff(psi, 0)}

    run = ds.Simulation(Given(step, u=(0, 1)))
    point = inputs(run)
    assert np.abs(run.run(point, 1).final["u"] - point["u"]).max() <= ROUND_OFF * np.abs(point["u"]).sum()


class Slim(Given):
    """With a parameter that varies along one axis, and one that is a number."""

    def __init__(self, step: Callable[..., dict[str, Any]]) -> None:
        super().__init__(step)
        self.parameters = {"k": ds.Variable("mirror", axes=(0,)), "c": ds.Variable("mirror", axes=())}


@pytest.mark.parametrize("axis", [0, 1])
def test_a_field_that_varies_along_some_axes_only(axis: int) -> None:
    run = ds.Simulation(
        Slim(lambda u, k, c, q: {"u": 0.1 * u * ds.running_sum(k, axis) * ds.running_sum(c, axis) + ds.running_sum(c * k, 0)})
    )
    rng = np.random.default_rng(3)
    point = {"u": rng.uniform(0.5, 1, (11, 14)), "k": rng.uniform(0.5, 1, 11), "c": np.array(0.3)}
    whole, number = np.repeat(point["k"][:, None], 14, 1), np.full((11, 14), 0.3)
    wanted = 0.1 * point["u"] * whole.cumsum(axis) * number.cumsum(axis) + (0.3 * whole).cumsum(0)
    assert np.abs(run.run(point, 1).final["u"] - wanted).max() <= ROUND_OFF * np.abs(wanted).max()
    assert ds.certify(run, loss, point, STEPS).passed


def test_of_a_state_of_a_region() -> None:
    """Where the state does not exist it counts as 0."""
    inside = np.zeros((11, 14), bool)
    inside[2:7, 3:9] = True

    class Part(Given):
        def __init__(self) -> None:
            super().__init__(lambda u, w, k, q: {"u": 0.5 * u + 0.1 * ds.running_sum(w, 0, reverse=True), "w": 0.9 * w + 0.1 * k * u})
            self.states = {"u": ds.Variable("zero"), "w": ds.Variable("zero", region=inside)}

    run = ds.Simulation(Part())
    point = inputs(run)
    point["w"] = point["w"] * inside
    wanted = 0.5 * point["u"] + 0.1 * accumulated(point["w"], 0, True)
    assert np.abs(run.run(point, 1).final["u"] - wanted).max() <= ROUND_OFF * np.abs(wanted).max()
    assert ds.certify(run, loss, point, STEPS).passed


def test_in_f32_sums_are_rounded_once() -> None:
    """Each cell is added in f64, so that the last cell of a long line is as exact as the first."""
    run = ds.Simulation(Given(lambda u, k, q: {"u": ds.running_sum(u, 0)}, (20_000,)), precision="f32")
    u = np.random.default_rng(0).uniform(0.5, 1, 20_000).astype(np.float32)
    final = run.run({"u": u, "k": np.ones(20_000)}, 1).final["u"]
    assert final.dtype == np.float32
    assert np.array_equal(final, u.astype(np.float64).cumsum().astype(np.float32))


def test_refusals() -> None:
    def traced(make: Callable[[Any], Any], **options: Any) -> None:
        ds.Simulation(Given(lambda u, k, q: {"u": make(u)}, **options))

    with pytest.raises(ShapeError, match=r"axis = 2 of a 2-D grid, expected -2 to 1"):
        traced(lambda u: ds.running_sum(u, 2))
    with pytest.raises(ParameterError, match="expected an expression of the step"):
        traced(lambda u: ds.running_sum(3.0, 0))  # type: ignore[arg-type]
    with pytest.raises(ParameterError, match="reverse = 1, expected True or False"):
        traced(lambda u: ds.running_sum(u, 0, 1))  # type: ignore[arg-type]
    with pytest.raises(TraceError, match=r"running_sum\(\)"):
        traced(lambda u: ds.running_sum(u > 0, 0))
    with pytest.raises(TraceError, match=r"the result of running_sum\(\) lies on faces whose last value its boundary rule gives"):
        traced(lambda u: ds.running_sum(u, 0, boundary=ds.Dirichlet(0.0)), u=(1, 0))
    with pytest.raises(TraceError, match="the body of repeat"):
        traced(lambda u: ds.repeat(3, lambda x: ds.running_sum(x, 0), u))

    class Early(Given):
        def coefficients(self, k: Any) -> dict[str, Any]:
            return {"k": ds.running_sum(k, 0)}

    with pytest.raises(TraceError, match=r"running_sum\(\) was called outside a step"):
        ds.Simulation(Early(lambda u, k, q: {"u": u}))


def test_a_step_with_one_cannot_be_undone() -> None:
    run = ds.Simulation(Given(lambda u, v, k, q: {"u": 2 * u - v + ds.running_sum(u, 0), "v": u}, u=(0, 0), v=(0, 0)))
    with pytest.raises(PlanError, match="one of its stages is a function on the host"):
        run.schedule(STEPS, ds.checkpoint.Policy(schedule="reversible"))
