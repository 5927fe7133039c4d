"""Numbers in a step: parameters and series of numbers and of values along a side, the time, sums and largest values of all cells."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import diffsim as ds
from diffsim.errors import DivergenceError, ParameterError, ShapeError, TraceError
from diffsim.expr import diff, interpolate, laplacian, log, mean
from diffsim.expr import max as max_of
from diffsim.expr import min as min_of
from diffsim.expr import sum as sum_of
from tests.curvature import require_second_derivatives
from tests.sampled import sampled

Symbol = ds.expr.Symbol


class Rod(ds.Equation):
    """Heat with a diffusivity that is a number, a control of its strength, a given profile of flow, and a total that is kept."""

    def __init__(self, shape: tuple[int, ...], dt: float = 0.02) -> None:
        self.grid, self.dt = ds.Grid(shape, 1.0), dt
        self.states = {"T": ds.Variable("periodic")}
        self.parameters = {"kappa": ds.Variable(axes=()), "shape": ds.Variable("periodic", axes=(0,))}
        self.series = {"u": ds.Variable(), "flow": ds.Variable("periodic", axes=(0,))}

    def step(self, T: Symbol, kappa: Symbol, shape: Symbol, u: Symbol, flow: Symbol, t: Symbol, n: Symbol) -> dict[str, Symbol]:
        flux = sum(diff(interpolate(shape, axis) * diff(T, axis), axis) for axis in range(T.ndim))
        rate = kappa * flux * (1 + 0.2 * mean(T * T)) - flow.shifted(0, 1) * T * 0.1 + u * shape / (1 + max_of(T * shape) ** 2)
        return {"T": T + self.dt * rate - 1e-3 * sum_of(T) + 1e-2 * t - 1e-3 * n}


def plain(inputs: dict[str, Any], steps: int, dt: float = 0.02) -> Any:
    """The same without any of the library."""
    T = inputs["T"].copy()
    along = (slice(None), *(None,) * (T.ndim - 1))
    shape = np.broadcast_to(inputs["shape"][along], T.shape)
    for n in range(steps):
        flux = np.zeros_like(T)
        for axis in range(T.ndim):
            face = 0.5 * (shape + np.roll(shape, -1, axis)) * (np.roll(T, -1, axis) - T)
            flux += face - np.roll(face, 1, axis)
        rate = inputs["kappa"] * flux * (1 + 0.2 * (T * T).mean()) - np.roll(inputs["flow"][n], -1)[along] * T * 0.1
        rate += inputs["u"][n] * shape / (1 + (T * shape).max() ** 2)
        T = T + dt * rate - 1e-3 * T.sum() + 1e-2 * n * dt - 1e-3 * n
    return T


def drawn(shape: tuple[int, ...], steps: int, seed: int = 0) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    return {
        "T": rng.normal(size=shape),
        "kappa": np.array(0.7),
        "shape": rng.uniform(0.5, 1.5, shape[0]),
        "u": rng.normal(size=steps),
        "flow": rng.normal(size=(steps, shape[0])),
    }


SHAPES = [(12,), (301,), (7, 13), (16, 16), (5, 6, 9)]


@pytest.mark.gradients
@pytest.mark.parametrize("shape", sampled([(shape,) for shape in SHAPES], 2, ids=str))
def test_a_step_with_numbers_is_that_of_numpy(shape: tuple[int, ...]) -> None:
    steps, rng = 6, np.random.default_rng(1)
    inputs, simulation = drawn(shape, steps), ds.Simulation(Rod(shape), precision="f64")
    expected = plain(inputs, steps)
    np.testing.assert_allclose(simulation.run(inputs, steps).final["T"], expected, rtol=0, atol=1e-13 * np.abs(expected).max())
    weights = rng.normal(size=shape)
    gradient = simulation.vjp(inputs, steps, checkpoint=2)[1](ds.Solution({"T": weights}))
    for name, value in inputs.items():
        direction, h = rng.normal(size=value.shape), 1e-6
        ends = [np.vdot(weights, plain(inputs | {name: value + s * h * direction}, steps)) for s in (1, -1)]
        slope = (ends[0] - ends[1]) / (2 * h)
        assert gradient[name].shape == value.shape
        assert np.vdot(gradient[name], direction) == pytest.approx(slope, rel=1e-6)
        moved = simulation.jvp(inputs, {name: direction}, steps)[1].final["T"]
        assert np.vdot(moved, weights) == pytest.approx(np.vdot(gradient[name], direction), rel=1e-11)


def test_second_derivatives() -> None:
    shape, steps, rng = (5, 7), 4, np.random.default_rng(2)
    inputs, simulation = drawn(shape, steps), ds.Simulation(Rod(shape), precision="f64")
    weights = rng.normal(size=shape)

    def loss(values: dict[str, Any]) -> Any:
        T = simulation.run(values, steps).final["T"]
        return ds.numpy.sum(weights * T * T)

    require_second_derivatives(loss, inputs, rng, 1e-6)


class Largest(ds.Equation):
    """The largest and the smallest value of a field."""

    states = {"x": ds.Variable()}  # noqa: RUF012
    dt = 1.0

    def __init__(self) -> None:
        self.grid = ds.Grid((3, 5), 1.0)

    def step(self, x: Symbol) -> dict[str, Symbol]:
        return {"x": max_of(x) + 10 * min_of(x) + 0 * x}


def test_equal_cells_share_the_derivative_of_the_largest_value() -> None:
    x = np.zeros((3, 5))
    x[1, 2] = x[2, 4] = 3
    x[0, 0] = -1
    simulation = ds.Simulation(Largest(), precision="f64")
    solution, pullback = simulation.vjp({"x": x}, 1)
    assert (solution.final["x"] == 3 - 10).all()
    expected = np.zeros((3, 5))
    expected[1, 2] = expected[2, 4] = 15 / 2
    expected[0, 0] = 150
    np.testing.assert_allclose(pullback(ds.Solution({"x": np.ones((3, 5))}))["x"], expected, rtol=1e-14)
    moved = simulation.jvp({"x": x}, {"x": np.arange(15.0).reshape(3, 5)}, 1)[1].final["x"]
    np.testing.assert_allclose(moved, (7 + 14) / 2)


@pytest.mark.gradients
@pytest.mark.parametrize("shape", [(3, 5), (4, 40), (5000,)], ids=str)
@pytest.mark.parametrize("precision", ["f32", "f64"])
def test_the_largest_value_is_that_of_numpy_also_where_it_is_not_finite(precision: Any, shape: tuple[int, ...]) -> None:
    """NaN in one cell makes it NaN, so that a run raises, and does not go on with a time step from the other cells."""

    class Logarithm(ds.Equation):
        states, dt = {"x": ds.Variable(), "largest": ds.Variable()}, 1.0
        grid = ds.Grid(shape, 1.0)

        def step(self, x: Symbol, largest: Symbol) -> dict[str, Symbol]:
            return {"x": x, "largest": max_of(log(x)) + 0 * x}

    simulation = ds.Simulation(Logarithm(), precision=precision)

    def largest(x: Any) -> Any:
        return simulation.run({"x": x}, 1).final["largest"].flat[0]

    x = np.random.default_rng(0).uniform(0.1, 1, shape)
    with pytest.raises(DivergenceError, match="largest is no longer finite"):
        largest(np.zeros(shape))
    for cell in (0, x.size // 2, x.size - 1):
        changed = x.copy()
        for value in (0.0, 3.0):
            changed.flat[cell] = value
            np.testing.assert_allclose(largest(changed), np.log(changed.max()), rtol=1e-6, atol=1e-6)
        changed.flat[cell] = -1.0
        with pytest.raises(DivergenceError, match="largest is no longer finite"):
            largest(changed)


def test_sums_of_long_rows_are_accurate() -> None:
    """In f32: rounding errors grow with the rows of parts, not with the cells."""

    class Sum(ds.Equation):
        states, dt = {"x": ds.Variable()}, 1.0
        grid = ds.Grid((1_000_003,), 1.0)

        def step(self, x: Symbol) -> dict[str, Symbol]:
            return {"x": mean(x) + 0 * x}

    x = np.random.default_rng(0).uniform(0, 1, 1_000_003).astype(np.float32)
    average = ds.Simulation(Sum(), precision="f32").run({"x": x}, 1).final["x"][0]
    assert average == pytest.approx(x.mean(dtype=np.float64), rel=2e-6)


def test_steps_after_the_end_of_a_run_have_no_gradient() -> None:
    inputs, simulation = drawn((8,), 9), ds.Simulation(Rod((8,)), precision="f64")
    _, pullback = simulation.vjp(inputs, 9, until=lambda done, states: done == 4)
    bars = pullback(ds.Solution({"T": np.ones(8)}))
    first = {name: value[:4] if name in ("u", "flow") else value for name, value in inputs.items()}
    expected = simulation.vjp(first, 4)[1](ds.Solution({"T": np.ones(8)}))
    assert bars["u"].shape == (9,) and not bars["u"][4:].any() and not bars["flow"][4:].any()
    np.testing.assert_array_equal(bars["u"][:4], expected["u"])
    np.testing.assert_array_equal(bars["flow"][:4], expected["flow"])


def test_a_number_reaches_faces_and_what_lies_outside() -> None:
    """A number read at a neighbour beyond a side is the same number, whatever the boundary of the fields that it meets."""

    class Everywhere(ds.Equation):
        dt = 1.0

        def __init__(self) -> None:
            self.grid = ds.Grid((4, 6), 1.0)
            self.states = {"x": ds.Variable(), "u": ds.Variable(location=(0, 1))}
            self.parameters = {"a": ds.Variable(axes=())}
            self.series = {"b": ds.Variable()}

        def coefficients(self, a: Symbol) -> dict[str, Symbol]:
            return {"c": 2 * a}

        def step(self, x: Symbol, u: Symbol, c: Symbol, b: Symbol) -> dict[str, Symbol]:
            return {"x": 0 * x + (c * b).shifted(0, -1) + (c + b).shifted(1, 1), "u": 0 * u + c}

    simulation = ds.Simulation(Everywhere(), precision="f64")
    inputs = {"a": 3.0, "b": [5.0], "x": np.ones((4, 6)), "u": np.ones((4, 6))}
    solution, pullback = simulation.vjp(inputs, 1)
    assert (solution.final["x"] == 6 * 5 + 6 + 5).all() and (solution.final["u"] == 6).all()
    gradient = pullback(ds.Solution({"x": np.ones((4, 6)), "u": np.ones((4, 6))}))
    assert gradient["a"] == pytest.approx(24 * (2 * 5 + 2 + 2)) and gradient["b"] == pytest.approx([24 * (6 + 1)])


def test_inputs_have_the_shapes_of_their_axes() -> None:
    simulation = ds.Simulation(Rod((4, 6)), precision="f64")
    inputs = drawn((4, 6), 3)
    for name, wrong, expected in (("kappa", np.ones(1), r"\(\)"), ("shape", np.ones((4, 6)), r"\(4,\)"), ("flow", np.ones(4), r"\(3, 4\)")):
        with pytest.raises(ShapeError, match=rf"input {name} has shape .*, expected {expected}"):
            simulation.run(inputs | {name: wrong}, 3)
    with pytest.raises(ParameterError, match=r"input u is missing, expected an array of shape \(3,\)"):
        simulation.run({name: value for name, value in inputs.items() if name != "u"}, 3)
    with pytest.raises(ParameterError, match="input kappa is missing, expected one number; give it"):
        simulation.run({name: value for name, value in inputs.items() if name != "kappa"}, 3)


@pytest.mark.parametrize("axes", [(1, 0), (0, 0), (3,), "x", (0.5,), 1])
def test_axes_that_no_field_has(axes: Any) -> None:
    with pytest.raises(ShapeError, match=r"axes = .*, expected axes of the grid in increasing order"):
        ds.Variable(axes=axes)


@pytest.mark.parametrize("group", ["states", "initials", "series", "parameters"])
def test_axes_that_a_group_has_not(group: str) -> None:
    equation = Rod((4, 6))
    setattr(equation, group, {**getattr(equation, group), "extra": ds.Variable(axes=(2,))})
    with pytest.raises(ShapeError, match="extra"):
        ds.Simulation(equation)


class Carried(ds.Equation):
    """A field, with a number and a row that the step carries on, two steps of the number; or all of them whole fields."""

    def __init__(self, shape: tuple[int, ...], whole: bool) -> None:
        self.grid, self.dt = ds.Grid(shape, 1.0), 0.1
        number, row = (None, None) if whole else ((), (len(shape) - 1,))
        self.states = {"x": ds.Variable("mirror"), "a": ds.Variable("mirror", axes=number), "a_prev": ds.Variable("mirror", axes=number)}
        self.states["r"] = ds.Variable("mirror", axes=row)

    def step(self, x: Symbol, a: Symbol, a_prev: Symbol, r: Symbol) -> dict[str, Symbol]:
        last = x.ndim - 1
        row = 0.9 * r + self.dt * a * r.shifted(last, 1) * a_prev
        return {"x": x + self.dt * (laplacian(x) + r.shifted(last, -1) * x * a), "a": a * a_prev + 0.1 * mean(x * r), "a_prev": a, "r": row}


@pytest.mark.parametrize("shape", [(9,), (5, 18), (3, 4, 7)])
def test_states_that_are_numbers_or_rows_are_fields_that_are_alike_in_all_cells(shape: tuple[int, ...]) -> None:
    rng = np.random.default_rng(len(shape))
    fields = {"x": rng.normal(size=shape), "a": np.array(0.8), "a_prev": np.array(1.1), "r": rng.normal(size=shape[-1])}
    full = {name: np.array(np.broadcast_to(value, shape)) for name, value in fields.items()}
    weights = {name: rng.normal(size=value.shape) for name, value in fields.items()}
    first = {name: np.zeros(shape) for name in fields}
    for name, value in weights.items():
        first[name][(slice(None),) * len(shape) if name == "x" else (0,) * (len(shape) - value.ndim)] = value
    results = []
    for whole, inputs, bars in ((True, full, first), (False, fields, weights)):
        simulation = ds.Simulation(Carried(shape, whole), precision="f64")
        solution, pullback = simulation.vjp(inputs, 6, 2)
        results.append(
            (solution.final, pullback(ds.Solution(bars)), simulation.jvp(inputs, bars if not whole else _over(weights, shape), 6)[1].final)
        )
    for name, value in fields.items():
        assert all(part[name].shape == value.shape for part in results[1])
        others = tuple(range(len(shape) - value.ndim))
        for whole, own in ((results[0][0], results[1][0]), (results[0][2], results[1][2])):
            np.testing.assert_allclose(own[name], whole[name][(0,) * len(others)], rtol=1e-13, atol=1e-14)
        np.testing.assert_allclose(results[1][1][name], results[0][1][name].sum(axis=others), rtol=1e-11, atol=1e-13)


def _over(values: dict[str, Any], shape: tuple[int, ...]) -> dict[str, Any]:
    return {name: np.array(np.broadcast_to(value, shape)) for name, value in values.items()}


def test_numbers_that_are_left_out_start_at_0() -> None:
    inputs = {"x": np.random.default_rng(0).normal(size=(5, 6)), "r": np.ones(6), "a_prev": 1.0}
    simulation = ds.Simulation(Carried((5, 6), False), precision="f64")
    certificate = ds.certify(simulation, lambda solution: (solution.final["x"] ** 2).sum() * solution.final["a"], inputs, 5, directions=1)
    assert certificate.verdict != "fail"  # nothing depends on a_prev


class Pushed(Carried):
    """A point source in a number."""

    forcings = ("f",)

    def step(self, x: Symbol, a: Symbol, a_prev: Symbol, r: Symbol, f: Symbol) -> dict[str, Symbol]:  # type: ignore[override]
        return {"x": x, "a": a + self.dt * f, "a_prev": a, "r": r}


def test_a_point_source_enters_fields_only() -> None:
    with pytest.raises(TraceError, match=r"forcing f enters a, which has axes = \(\); use a series for it"):
        ds.Simulation(Pushed((4, 5), False), sources={"f": [[1.0, 2.0]]})


def test_a_number_that_varies_is_refused() -> None:
    class Wrong(Carried):
        def step(self, x: Symbol, a: Symbol, a_prev: Symbol, r: Symbol) -> dict[str, Symbol]:
            return {"x": x, "a": a * r, "a_prev": a, "r": r}

    with pytest.raises(ShapeError, match=r"step gives a as an expression that varies along axes \(1,\), but .* take its sum"):
        ds.Simulation(Wrong((4, 5), False))
    both = Carried((4, 5), False)
    both.states = {**both.states, "a": ds.Variable(axes=(), region=np.ones((4, 5), bool))}
    with pytest.raises(ShapeError, match="a region, expected one of them"):
        ds.Simulation(both)


def test_numbers_are_taken_in_steps_of_fields() -> None:
    class Early(Rod):
        def coefficients(self, kappa: Symbol, shape: Symbol) -> dict[str, Symbol]:
            return {"kappa": sum_of(shape) * kappa, "shape": shape}

    with pytest.raises(TraceError, match=r"sum\(\) was called outside a step"):
        ds.Simulation(Early((4, 6)))
    with pytest.raises(TraceError, match=r"max\(\) of a float, expected a field of the step"):
        max_of(3.0)  # type: ignore[arg-type]

    class Condition(Largest):
        def step(self, x: Symbol) -> dict[str, Symbol]:
            return {"x": sum_of(x > 0) + laplacian(x)}

    with pytest.raises(TraceError, match=r"sum\(\)"):
        ds.Simulation(Condition())


class Mixed(ds.Equation):
    """Numbers of all cells of a solution of a system, and of a state, beside a series; a number that is the whole next value."""

    dt = 0.1

    def __init__(self, what: str) -> None:
        self.grid, self.what = ds.Grid((6, 7), 1.0), what
        self.states = {"x": ds.Variable("mirror")}
        self.series = {"s": ds.Variable()}

    def step(self, x: Symbol, s: Symbol) -> dict[str, Symbol]:
        if self.what == "alone":
            return {"x": max_of(0.1 * x) * s}
        if self.what == "plain":
            return {"x": max_of(0.1 * x)}
        solution = ds.solve(lambda y: y - 0.3 * laplacian(y), x, boundary="mirror")
        total = sum_of(solution * solution) if self.what == "of the solution" else 10 * sum_of(x) * s
        return {"x": solution * (1 + 0.01 * total)}


@pytest.mark.parametrize("checkpoint", ["auto", 1, 2])
@pytest.mark.parametrize("what", ["of the solution", "of the state", "alone", "plain"])
def test_numbers_beside_systems(what: str, checkpoint: Any) -> None:
    rng, simulation = np.random.default_rng(0), ds.Simulation(Mixed(what), precision="f64")
    inputs = {"x": rng.normal(size=(6, 7)), "s": rng.normal(size=5)}
    weights, direction = rng.normal(size=(6, 7)), {name: rng.normal(size=value.shape) for name, value in inputs.items()}
    gradient = simulation.vjp(inputs, 5, checkpoint=checkpoint)[1](ds.Solution({"x": weights}))
    ends = [simulation.run({n: v + k * 1e-6 * direction[n] for n, v in inputs.items()}, 5).final["x"] for k in (1, -1)]
    slope = np.vdot(weights, ends[0] - ends[1]) / 2e-6
    assert abs(slope) > 1e-9
    assert sum(np.vdot(gradient[n], direction[n]) for n in inputs) == pytest.approx(slope, rel=1e-5)


def test_the_largest_value_alone_is_the_next_state() -> None:
    x = np.random.default_rng(0).normal(size=(6, 7))
    final = ds.Simulation(Mixed("plain"), precision="f64").run({"x": x, "s": [0.0]}, 1).final["x"]
    np.testing.assert_array_equal(final, np.full((6, 7), (0.1 * x).max()))


def test_a_parameter_keeps_its_name_before_the_clock() -> None:
    class Taken(ds.Equation):
        grid, dt = ds.Grid((4,), 1.0), 1.0
        states, parameters = {"x": ds.Variable()}, {"n": ds.Variable(axes=())}

        def coefficients(self, n: Symbol) -> dict[str, Symbol]:
            return {"twice": 2 * n}

        def step(self, x: Symbol, twice: Symbol, n: Symbol) -> dict[str, Symbol]:
            return {"x": x + twice + n}

    with pytest.raises(TraceError, match=r"step\(\) asks for n, expected some of .*; declare it in states"):
        ds.Simulation(Taken())


def test_series_are_counted_in_plans() -> None:
    simulation = ds.Simulation(Rod((7, 13)), precision="f64")
    sizes = simulation.sizes(2000)
    simulation.vjp({name: np.zeros_like(value) for name, value in drawn((7, 13), 2000).items()}, 2000, checkpoint=2)
    launcher = simulation._stepper.launcher
    kept = sum(launcher.nbytes(name) for name, slim in launcher.slim.items() if slim.series and name in launcher.arrays)
    assert kept < sizes.streams < 4 * kept


@pytest.mark.parametrize(
    ("uniform", "message"), [(("zz",), "has 'zz', expected fields among u, k; correct"), ("k", "expected a list of names")]
)
def test_fields_that_may_be_one_number_are_inputs(uniform: Any, message: str) -> None:
    class Decay(ds.Equation):
        def __init__(self) -> None:
            self.grid, self.dt, self.uniform = ds.Grid((4,), 1.0), 0.1, uniform
            self.states, self.parameters = {"u": ds.Variable("mirror")}, {"k": ds.Variable("mirror"), "c": ds.Variable(axes=())}

        def step(self, u: Any, k: Any, c: Any) -> dict[str, Any]:
            return {"u": u - self.dt * c * k * u}

    with pytest.raises(ParameterError, match=message):
        ds.Simulation(Decay())
