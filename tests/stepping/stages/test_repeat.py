"""Loops within a step: the same as the text of all laps, and as NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import diffsim as ds
from diffsim.checkpoint import Binomial
from diffsim.errors import ParameterError, TraceError
from diffsim.expr import diff, exp, floor, laplacian, mean, sqrt, where
from diffsim.expr import max as max_of
from tests.cases import Loop
from tests.curvature import require_second_derivatives
from tests.sampled import sampled

Symbol = ds.expr.Symbol
LOOPS = [((12,), 1), ((12,), 5), ((7, 13), 3), ((5, 6, 9), 2)]


class Unrolled(Loop):
    """The same step with a loop in Python, which stores what each lap starts from."""

    def step(self, a: Any, b: Any, k: Any, c: Any, u: Any) -> dict[str, Symbol]:
        def unrolled(count: int, lap: Any, x: Symbol, y: Symbol) -> tuple[Symbol, Symbol]:
            for _ in range(count):
                a, b = lap(x, y)
                x, y = ds.stage(a, "mirror"), ds.stage(b, "zero")
            return x, y

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(ds, "repeat", unrolled)
            return super().step(a, b, k, c, u)


@pytest.mark.parametrize(("shape", "count"), sampled(LOOPS, ids=str))
def test_a_loop_is_all_its_laps(shape: tuple[int, ...], count: int) -> None:
    rng, steps = np.random.default_rng(count), 3
    looped, unrolled = (ds.Simulation(kind(ds.Grid(shape, 1.0), count), precision="f64") for kind in (Loop, Unrolled))
    inputs = {name: 0.5 * rng.normal(size=looped.input_shape(name, steps)) for name in looped.inputs}
    weights = {name: rng.normal(size=shape) for name in "ab"}
    (solution, pull), (expected, other) = (s.vjp(inputs, steps, Binomial(steps, 2)) for s in (looped, unrolled))
    for name in weights:
        np.testing.assert_array_equal(solution.final[name], expected.final[name])
    gradient, wanted = pull(ds.Solution(weights)), other(ds.Solution(weights))
    for name, value in wanted.items():
        np.testing.assert_allclose(gradient[name], value, rtol=0, atol=1e-13 * np.abs(value).max(), err_msg=name)
    direction = {name: rng.normal(size=value.shape) for name, value in inputs.items()}
    moved, along = (s.jvp(inputs, direction, steps)[1].final for s in (looped, unrolled))
    for name in weights:
        np.testing.assert_allclose(moved[name], along[name], rtol=0, atol=1e-13 * np.abs(along[name]).max())
    total = sum(np.vdot(gradient[name], direction[name]) for name in inputs)
    assert sum(np.vdot(moved[name], weights[name]) for name in weights) == pytest.approx(total, rel=1e-11)


def test_a_function_on_the_host_reads_the_result_of_a_loop() -> None:
    class Read(ds.Equation):
        def __init__(self) -> None:
            self.grid, self.dt, self.states = ds.Grid((7, 13), 1.0), 0.1, {"u": ds.Variable("mirror")}

        def step(self, u: Any) -> dict[str, Symbol]:
            repeated = ds.repeat(3, lambda x: x + 0.1 * laplacian(x) * x, u)
            return {"u": ds.host_stage(lambda x: 2.0 * x, repeated, boundary="mirror") - repeated}

    class Without(Read):
        def step(self, u: Any) -> dict[str, Symbol]:
            return {"u": ds.repeat(3, lambda x: x + 0.1 * laplacian(x) * x, u)}

    u = np.random.default_rng(3).uniform(0.5, 1.0, (7, 13))
    runs = [ds.Simulation(kind(), precision="f64") for kind in (Read, Without)]
    (value, gradient), (wanted, expected) = (
        run.value_and_grad(lambda found: (found.final["u"] ** 3).sum(), {"u": u}, 4, Binomial(4, 2)) for run in runs
    )
    assert value == pytest.approx(wanted, rel=1e-14)
    np.testing.assert_allclose(gradient["u"], expected["u"], rtol=1e-12)


def test_second_derivatives() -> None:
    rng, steps, shape = np.random.default_rng(0), 2, (5, 7)
    simulation = ds.Simulation(Loop(ds.Grid(shape, 1.0), 3), precision="f64")
    inputs = {name: 0.5 * rng.normal(size=simulation.input_shape(name, steps)) for name in simulation.inputs}
    weights = rng.normal(size=shape)

    def loss(values: dict[str, Any]) -> Any:
        a = simulation.run(values, steps).final["a"]
        return ds.numpy.sum(weights * a * a)

    require_second_derivatives(loss, inputs, rng, 1e-6)


class Sweeps(ds.Equation):
    """Sweeps of Jacobi for a pressure, as in the docstring."""

    def __init__(self, count: int) -> None:
        self.grid, self.dt, self.count = ds.Grid((12, 15), 0.5), 1.0, count
        self.states = {"p": ds.Variable(((ds.Dirichlet(1.0), "mirror"), "zero")), "source": ds.Variable()}

    def step(self, p: Symbol, source: Symbol) -> dict[str, Symbol]:
        return {"p": ds.repeat(self.count, lambda p: p + 0.2 * 0.5**2 * (laplacian(p) - source), p), "source": source}


def jacobi(p: Any, source: Any, count: int) -> Any:
    """The same without any of the library."""
    for _ in range(count):
        rows, columns = np.vstack([2 - p[:1], p, p[-1:]]), np.pad(p, ((0, 0), (1, 1)))
        around = rows[:-2] + rows[2:] + columns[:, :-2] + columns[:, 2:]
        p = p + 0.2 * (around - 4 * p - 0.5**2 * source)
    return p


def test_many_sweeps() -> None:
    rng = np.random.default_rng(0)
    p, source, weights = (rng.normal(size=(12, 15)) for _ in range(3))
    simulation = ds.Simulation(Sweeps(200), precision="f64")
    solution, pullback = simulation.vjp({"p": p, "source": source}, 2)
    np.testing.assert_allclose(solution.final["p"], jacobi(p, source, 400), rtol=0, atol=1e-13)
    gradient = pullback(ds.Solution({"p": weights}))
    for name, value in (("p", p), ("source", source)):
        direction = rng.normal(size=value.shape)
        moved = jacobi(p + direction, source, 400) if name == "p" else jacobi(p, source + direction, 400)
        slope = np.vdot(weights, moved - jacobi(p, source, 400))  # it is linear
        assert np.vdot(gradient[name], direction) == pytest.approx(slope, rel=1e-9, abs=1e-11)


def test_the_text_does_not_grow_with_the_laps() -> None:
    few, many = (ds.Simulation(Sweeps(count), precision="f64") for count in (3, 301))
    for kind in ("forward", "vjp"):
        assert len(few.source(kind).splitlines()) == len(many.source(kind).splitlines())  # type: ignore[arg-type]


def test_the_memory_of_a_loop_is_planned() -> None:
    few, many = (ds.Simulation(Sweeps(count), precision="f64") for count in (3, 9))
    extra = many._stepper.storage.working_bytes() - few._stepper.storage.working_bytes()
    assert extra == 6 * few._stepper.layout.nbytes
    many.run({"p": np.zeros((12, 15)), "source": np.zeros((12, 15))}, 1)
    assert many._stepper.launcher.nbytes("repeat 0 field 0") == 10 * many._stepper.layout.nbytes


class Counted(ds.Equation):
    """Diffusion in as many parts as the largest value asks for, at most `count`; or the text of all of them, each with a condition."""

    def __init__(self, shape: tuple[int, ...], count: int, unrolled: bool) -> None:
        self.grid, self.dt, self.count, self.unrolled = ds.Grid(shape, 1.0), 1.0, count, unrolled
        self.states = {"u": ds.Variable("mirror"), "laps": ds.Variable("mirror")}
        self.parameters = {"k": ds.Variable("mirror")}

    def step(self, u: Symbol, laps: Symbol, k: Symbol) -> dict[str, Symbol]:
        number = max_of(floor(3 * abs(u)))
        part = 0.1 / (1 + number)

        def lap(x: Symbol) -> Symbol:
            return x + part * k * laplacian(x * x)

        if not self.unrolled:
            return {"u": ds.repeat(self.count, lap, u, laps=number), "laps": laps + number}
        x = u
        for done in range(self.count):
            x = ds.stage(where(number > done, lap(x), x), "mirror")
        return {"u": x, "laps": laps + number}


@pytest.mark.parametrize(("shape", "scale"), [((12,), 1.0), ((12,), 0.1), pytest.param((9, 21), 0.5, marks=pytest.mark.slow)])
def test_as_many_laps_as_a_number_of_the_step(shape: tuple[int, ...], scale: float) -> None:
    rng, steps = np.random.default_rng(0), 5
    looped, unrolled = (ds.Simulation(Counted(shape, 6, each), precision="f64") for each in (False, True))
    inputs = {"u": scale * rng.uniform(-1, 2, shape), "laps": np.zeros(shape), "k": rng.uniform(0.5, 1, shape)}
    weights, direction = rng.normal(size=shape), {name: rng.normal(size=shape) for name in inputs}
    (solution, pull), (expected, other) = (s.vjp(inputs, steps, Binomial(steps, 2)) for s in (looped, unrolled))
    np.testing.assert_array_equal(solution.final["u"], expected.final["u"])
    ran = solution.final["laps"].flat[0]
    assert ran == 0 if scale < 0.2 else 0 < ran < 6 * steps
    gradient, wanted = pull(ds.Solution({"u": weights})), other(ds.Solution({"u": weights}))
    for name, value in wanted.items():
        np.testing.assert_allclose(gradient[name], value, rtol=0, atol=1e-13 * max(np.abs(value).max(), 1), err_msg=name)
    moved = looped.jvp(inputs, direction, steps)[1].final["u"]
    total = sum(np.vdot(gradient[name], direction[name]) for name in inputs)
    assert np.vdot(moved, weights) == pytest.approx(total, rel=1e-12)


def test_no_more_laps_than_the_count() -> None:
    u = np.linspace(0.0, 4.0, 12)  # asks for 12
    few, all_of_few = (ds.Simulation(Counted((12,), 6, each), wrt=[], precision="f64") for each in (False, True))
    inputs = {"u": u, "laps": np.zeros(12), "k": np.ones(12)}
    np.testing.assert_array_equal(few.run(inputs, 1).final["u"], all_of_few.run(inputs, 1).final["u"])
    few.run(inputs, 3)
    assert few._stepper.exceeded() == (1, 12.0, 6)
    few.run(inputs | {"u": 0.4 * u}, 3)
    assert few._stepper.exceeded() is None


def test_a_body_and_the_step_around_it_give_to_the_same_parameter() -> None:
    """Both store sums of what they owe to it, and neither may overwrite those of the other."""

    class Both(ds.Equation):
        def __init__(self) -> None:
            self.grid, self.dt = ds.Grid((11,), 1.0), 0.1
            self.states, self.parameters = {"u": ds.Variable("mirror")}, {"k": ds.Variable("mirror")}

        def step(self, u: Symbol, k: Symbol) -> dict[str, Symbol]:
            def rate(f: Symbol) -> Symbol:
                flux = sqrt(1 + k * k * f * f) * exp(-k * f) / (2 + f * f + k * k)
                flux = flux + sqrt(2 + (f - k.shifted(0, 1)) ** 2) / (1 + exp(f.shifted(0, 1) * k))
                return flux - flux.shifted(0, -1)

            def heun(x: Symbol) -> Symbol:
                first = ds.stage(x + 0.1 * rate(x), "mirror")
                return 0.5 * (x + first) + 0.1 * rate(first)

            return {"u": heun(ds.repeat(2, heun, ds.stage(heun(u), "mirror")))}

    run, rng = ds.Simulation(Both(), precision="f64"), np.random.default_rng(0)
    inputs, weights, way = {"u": rng.normal(size=11), "k": rng.uniform(0.5, 1, 11)}, rng.normal(size=11), rng.normal(size=11)
    gradient = run.vjp(inputs, 1)[1](ds.Solution({"u": weights}))
    for name in inputs:
        high, low = (weights @ run.run(inputs | {name: inputs[name] + h * way}, 1).final["u"] for h in (1e-6, -1e-6))
        assert gradient[name] @ way == pytest.approx((high - low) / 2e-6, rel=1e-8), name


@pytest.mark.parametrize(("clock", "stored"), sampled([(clock, stored) for stored in (True, False) for clock in "tnsk"], 5))
def test_what_the_body_alone_reads(clock: str, stored: bool) -> None:
    """The time, its number, a series and a parameter, in an expression or in a stage of a lap."""

    def lap(x: Any, now: Any) -> Any:
        drift = now * (1 + x)
        return x + 0.1 * (ds.stage(drift, "mirror") if stored else drift)

    class Alone(ds.Equation):
        def __init__(self) -> None:
            self.grid, self.dt = ds.Grid((5,), 1.0), 0.1
            self.states, self.parameters, self.series = {"u": ds.Variable("mirror")}, {"k": ds.Variable(axes=())}, {"s": ds.Variable()}

        def step(self, u: Symbol, k: Symbol, s: Symbol, t: Symbol, n: Symbol) -> dict[str, Symbol]:
            now = {"t": t, "n": n, "s": s, "k": k}[clock]
            return {"u": ds.repeat(3, lambda x: lap(x, now), u)}

    u, values = (
        np.linspace(0.0, 1.0, 5),
        {"t": 0.1 * np.arange(4), "n": np.arange(4.0), "s": np.array([0.3, -0.2, 0.5, 0.1]), "k": np.full(4, 0.7)},
    )
    inputs, expected = {"u": u, "k": 0.7, "s": values["s"]}, u
    for now in values[clock]:
        for _ in range(3):
            expected = expected + 0.1 * now * (1 + expected)
    run = ds.Simulation(Alone(), precision="f64")
    np.testing.assert_allclose(run.run(inputs, 4).final["u"], expected, rtol=1e-14)
    _, gradient = run.value_and_grad(lambda s: ds.numpy.sum(s.final["u"]), inputs, 4)
    slope = np.prod((1 + 0.1 * values[clock]) ** 3)
    np.testing.assert_allclose(gradient["u"], np.full(5, slope), rtol=1e-13)


def _with(lap: Any, *fields: str, count: Any = 2, **options: Any) -> ds.Equation:
    class Wrong(ds.Equation):
        grid, dt = ds.Grid((6, 7), 1.0), 0.1
        states = {"x": ds.Variable("mirror"), "u": ds.Variable(location=(1, 0))}  # noqa: RUF012

        def step(self, **all: Symbol) -> dict[str, Symbol]:
            result = ds.repeat(count, lap, *(all[name] for name in fields), **options)
            return {"x": result[0] if isinstance(result, tuple) else result, "u": all["u"]}

    return Wrong()


WRONG = {
    "count": (lambda: _with(lambda x: x, "x", count=0), ParameterError, r"count of repeat\(\) = 0, expected a whole number"),
    "no field": (lambda: _with(lambda: (), count=1), TraceError, r"repeat\(\) of no field"),
    "too few": (lambda: _with(lambda x, u: x, "x", "u"), TraceError, "expected an expression for each of its 2 fields"),
    "a number": (lambda: _with(lambda x: 3.0, "x"), TraceError, "expected an expression for each of its 1 fields"),
    "elsewhere": (lambda: _with(lambda x: diff(x, 0), "x"), TraceError, "gives a field at"),
    "laps": (lambda: _with(lambda x: x, "x", laps=2), TraceError, r"laps of repeat\(\) = 2, expected an expression of the step"),
    "nested": (lambda: _with(lambda x: ds.repeat(2, lambda y: 0.5 * y, x), "x"), TraceError, "has a loop, a system or a function"),
    "system": (lambda: _with(lambda x: ds.solve(lambda y: y - laplacian(y), x, "mirror"), "x"), TraceError, "has a loop, a system"),
}


@pytest.mark.parametrize("what", WRONG)
def test_bodies_that_are_none(what: str) -> None:
    make, kind, message = WRONG[what]
    with pytest.raises(kind, match=message):
        ds.Simulation(make())


def test_outside_a_step() -> None:
    class Early(Loop):
        def coefficients(self, k: Symbol, c: Symbol) -> dict[str, Symbol]:
            return {"k": ds.repeat(2, lambda x: 0.5 * x, k), "c": c}  # type: ignore[dict-item]

    with pytest.raises(TraceError, match=r"repeat\(\) was called outside a step"):
        ds.Simulation(Early(ds.Grid((5, 6), 1.0), 2))


class Drawn(ds.Equation):
    """A step of two laps or more, whose body is drawn: each field is an expression of the fields so far or a stage of one, given as it is
    or within another expression, and read by later ones or not.

    Args:
        grid: of one or two axes.
        seed: of the draw.
        laps: how the laps are written: "loop" in Python, "all" of `repeat`, or as many as a "number" says.
    """

    def __init__(self, grid: ds.Grid, seed: int, laps: str) -> None:
        self.grid, self.dt, self.seed, self.laps = grid, 0.1, seed, laps
        self.names = "abc"[: 2 + seed % 2]
        self.rule: Any = ("mirror", "periodic")[seed % 3 == 0]
        self.states = {name: ds.Variable(self.rule) for name in self.names}
        self.parameters = {"k": ds.Variable(self.rule)}

    def step(self, k: Any, **fields: Any) -> dict[str, Any]:
        count, body = 2 + self.seed % 3, self.body(k)
        values: Any = tuple(fields.values())
        if self.laps == "loop":
            for _ in range(count):
                values = body(*values)
        else:
            laps = max_of(0.0 * values[0] + count) if self.laps == "number" else None
            values = ds.repeat(count + 3 * (self.laps == "number"), body, *values, laps=laps)
        return dict(zip(self.names, values, strict=True))

    def body(self, k: Any) -> Any:
        def lap(*fields: Any) -> tuple[Any, ...]:
            random, now = np.random.default_rng(self.seed), list(fields)
            for i in random.permutation(len(fields)).repeat(2):
                other = now[random.integers(len(fields))]
                rate = random.choice([lambda f, g: laplacian(f * g), lambda f, g: k * f / (1 + g * g), lambda f, g: f * laplacian(g)])
                now[i] = now[i] + 0.03 * rate(now[i], other)
                if random.random() < 0.6:
                    now[i] = ds.stage(now[i], boundary=self.rule)
            return tuple(1.0 * field if random.random() < 0.2 else field for field in now)

        return lap


@pytest.mark.parametrize("laps", ["all", "number"])
@pytest.mark.parametrize("seed", sampled(range(24), 3))
def test_gradients_of_drawn_bodies_are_those_of_loops_in_python(seed: int, laps: str) -> None:
    """Where a stage is the result of a lap, it is stored there, and the adjoint of the lap reads it."""
    grid = ds.Grid((9,) if seed % 4 else (8, 9), 1.0)
    random = np.random.default_rng(seed)
    answers = []
    inputs = {name: random.uniform(0.5, 1.5, grid.shape) for name in "abck"}
    weights = {name: random.normal(size=grid.shape) for name in "abc"}
    for way in laps, "loop":
        run = ds.Simulation(Drawn(grid, seed, way), precision="f64")
        chosen = {name: inputs[name] for name in (*run.equation.states, "k")}
        value, gradient = run.value_and_grad(lambda s: sum(ds.numpy.sum(weights[n] * s.final[n] ** 2) for n in s.final), chosen, 2)
        answers.append((float(value), gradient))
    (value, gradient), (wanted, exact) = answers
    assert abs(value - wanted) <= 1e-12 * abs(wanted)
    for name in exact:
        np.testing.assert_allclose(gradient[name], exact[name], rtol=1e-10, atol=1e-10 * np.abs(exact[name]).max(), err_msg=name)


class Leaking(ds.Equation):
    """A step that reads a value of a body, or of an operator, outside of it."""

    def __init__(self, way: str) -> None:
        self.grid, self.dt, self.way = ds.Grid((6,), 1.0), 0.1, way
        self.states = {"u": ds.Variable("mirror")}
        self.parameters = {"k": ds.Variable("mirror")}

    def step(self, u: Any, k: Any) -> dict[str, Any]:
        seen: list[Any] = []
        keep = {"stage": lambda x: ds.stage(k * x, "mirror"), "number": lambda x: mean(k * x)}.get(self.way, lambda x: k * x)

        def body(x: Any) -> Any:
            seen.append(keep(x))
            return 0.9 * x + 0.1 * seen[0]

        after = ds.solve(body, u) if self.way == "operator" else ds.repeat(2, body, u)
        if self.way == "second loop":
            return {"u": ds.repeat(2, lambda x: 0.5 * x + seen[0], after)}
        return {"u": after + seen[0]}


@pytest.mark.parametrize(
    ("way", "message"),
    [
        *((way, "reads a value of the body of repeat.* let the body return") for way in ("stage", "number", "field", "second loop")),
        ("operator", r"reads the argument of an operator outside of it, .* read what solve\(\) gives"),
    ],
)
def test_values_of_a_body_or_an_operator_are_not_read_outside_of_it(way: str, message: str) -> None:
    """Stages and numbers had the values of the last lap, and a gradient without this path."""
    with pytest.raises(TraceError, match=message):
        ds.Simulation(Leaking(way))
