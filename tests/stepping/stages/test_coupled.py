"""Systems of several fields: steady ones and inside a step, against closed forms and differences, with generated members."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import diffsim as ds
from diffsim.errors import ConvergenceError, ParameterError, SingularError, TraceError
from diffsim.expr import diff, div, exp, grad, interpolate, laplacian, sqrt, where
from diffsim.linear import coupled
from tests.curvature import require_second_derivatives

Fields = dict[str, Any]
EXACT = 1e-8
"""Largest relative difference of a derivative and differences of fourth order, of solutions that are exact to 1e-12."""
SIDES: list[Callable[[Any], Any]] = [
    lambda rng: "mirror",
    lambda rng: "periodic",
    lambda rng: (ds.Dirichlet(rng.uniform(0.5, 1)), "mirror"),
    lambda rng: (ds.Neumann(rng.uniform(-0.2, 0.2)), ds.Dirichlet("held")),
    lambda rng: (ds.Robin(1.0, 0.5, rng.uniform(0.5, 1)), ds.Dirichlet(0.8)),
    lambda rng: (ds.Dirichlet("held"), ds.Extrapolate(1)),
]
"""Rules of an axis, some with values that are inputs."""


class Reacting(ds.Steady):
    """A system of up to three fields that diffuse, drift and react, with random coefficients, sides, dimension and form of its residual."""

    def __init__(self, seed: int) -> None:
        self.rng = rng = np.random.default_rng(seed)
        ndim = 1 + seed % 3
        self.grid = ds.Grid(tuple(rng.integers(4, 7, ndim).tolist()) if ndim > 1 else (11,), 0.5)
        self.names = ["a", "b", "c"][: 2 + seed % 2]
        self.linear, self.form = seed % 4 == 3, ("dict", "tuple")[seed % 2]
        rules = [[SIDES[rng.integers(len(SIDES))](rng) for _ in range(ndim)] for _ in self.names]
        rules[0][0] = SIDES[3 + 2 * int(rng.integers(2))](rng)  # one has a value that is an input
        self.states = {name: ds.Variable(tuple(rule)) for name, rule in zip(self.names, rules, strict=True)}
        self.parameters = {"k": ds.Variable("mirror"), "s": ds.Variable("mirror"), "held": ds.Variable(axes=()), "r": ds.Variable(axes=())}
        self.mix = rng.uniform(-0.4, 0.4, (3, 3))

    def residual(self, k: Any, s: Any, held: Any, r: Any, **fields: Any) -> Any:
        values = [fields[name] for name in self.names]
        out = {}
        for row, (name, u) in enumerate(zip(self.names, values, strict=True)):
            others = sum(float(self.mix[row, column]) * each for column, each in enumerate(values))
            out[name] = div([interpolate(k, axis) * slope for axis, slope in enumerate(grad(u))]) - (2.0 + row) * u + others + s
            out[name] += 0.1 * r * values[row - 1].shifted(0, 1)
            if not self.linear:
                out[name] += r * values[row - 1] * exp(-u) - 0.3 * u**3
        return out if self.form == "dict" else tuple(out.values())

    def inputs(self) -> Fields:
        rng = np.random.default_rng(7)
        shapes: Fields = {"k": self.grid.shape, "s": self.grid.shape, "held": (), "r": ()}
        return {name: rng.uniform(0.5, 1.0, shape) for name, shape in shapes.items()}


def differences(value: Callable[[Fields], float], inputs: Fields, way: Fields, h: float = 2e-3) -> float:
    """The derivative along a direction, by central differences of sixth order."""

    def central(h: float) -> float:
        high, low = (value({name: each + sign * h * way[name] for name, each in inputs.items()}) for sign in (1, -1))
        return (high - low) / (2 * h)

    one, two, four = central(h), central(2 * h), central(4 * h)
    return (64 * one - 20 * two + four) / 45


@pytest.mark.parametrize("seed", range(6))
def test_generated_systems_and_their_gradients(seed: int) -> None:
    equation = Reacting(seed)
    simulation = ds.steady(equation, precision="f64")
    inputs, rng = equation.inputs(), np.random.default_rng(seed)
    weights = {name: rng.normal(size=equation.grid.shape) for name in equation.names}

    def loss(solution: Any) -> Any:
        return sum((weights[name] * solution.final[name] ** 2).sum() for name in equation.names)

    way = {name: rng.normal(size=np.shape(value)) for name, value in inputs.items()}
    _, gradient = simulation.value_and_grad(loss, inputs)
    along = sum(float(np.sum(gradient[name] * way[name])) for name in inputs)
    wanted = differences(lambda fields: float(loss(simulation.run(fields))), inputs, way)
    assert along == pytest.approx(wanted, rel=EXACT)
    solution, moved = simulation.jvp(inputs, way)
    tangent = sum(float((2 * weights[name] * solution.final[name] * moved.final[name]).sum()) for name in equation.names)
    assert tangent == pytest.approx(along, rel=1e-11)
    if seed in (0, 3):  # not linear, and linear
        require_second_derivatives(lambda fields: loss(simulation.run(fields)), inputs, rng, 1e-6)


def manufactured(n: int, ndim: int, linear: bool) -> float:
    """The largest error of -∇²u + a v + b u² = f, -2 ∇²v - u + v = g, for sines between sides at 0 and cosines between closed ones."""

    class Pair(ds.Steady):
        def __init__(self) -> None:
            self.grid = ds.Grid((n,) * ndim, 1 / n, 0.5 / n)
            self.states = {"u": ds.Variable(ds.Dirichlet(0.0)), "v": ds.Variable("mirror")}
            self.parameters = {"f": ds.Variable("mirror"), "g": ds.Variable("mirror")}

        def residual(self, u: Any, v: Any, f: Any, g: Any) -> Any:
            return {"v": -2 * laplacian(v) - u + v - g, "u": -laplacian(u) + 3 * v + (0 if linear else u**2) - f}

    grid = Pair().grid
    axes = np.meshgrid(*(grid.coordinates(axis) for axis in range(ndim)), indexing="ij")
    u, v = np.prod([np.sin(np.pi * x) for x in axes], axis=0), np.prod([np.cos(np.pi * x) for x in axes], axis=0)
    square = ndim * np.pi**2
    inputs = {"f": square * u + 3 * v + (0 if linear else u**2), "g": 2 * square * v - u + v}
    solution = ds.steady(Pair(), wrt=[], precision="f64").run(inputs).final
    return max(np.abs(solution["u"] - u).max(), np.abs(solution["v"] - v).max())


@pytest.mark.parametrize(("ndim", "linear"), [(1, True), (2, False)])
def test_manufactured_solutions_are_of_second_order(ndim: int, linear: bool) -> None:
    errors = [manufactured(n, ndim, linear) for n in (16, 32)]
    assert np.log2(errors[0] / errors[1]) == pytest.approx(2, abs=0.1) and errors[1] < 5e-3


class Brusselator(ds.Steady):
    def __init__(self, n: int) -> None:
        self.grid = ds.Grid((n,), 0.25)
        self.states = {"u": ds.Variable("periodic"), "v": ds.Variable("periodic")}
        self.parameters = {"f": ds.Variable("periodic"), "B": ds.Variable(axes=())}

    def residual(self, u: Any, v: Any, f: Any, B: Any) -> Any:
        A, rate = 2.0, u**2 * v
        return {"u": A - (B + 1) * u + rate + 0.5 * laplacian(u) + f, "v": B * u - rate + 4.0 * laplacian(v)}


def test_the_response_of_a_brusselator_and_its_turing_threshold() -> None:
    """A force cos(q x) moves the uniform state (A, B/A) by M⁻¹ (1, 0), M = [[B - 1 - Du λ, A²], [-B, -A² - Dv λ]]; det M = 0 at the
    threshold, where the solution branches: there is no derivative, and the message names both fields."""
    n, wave, A, Du, Dv = 48, 2, 2.0, 0.5, 4.0
    simulation = ds.steady(Brusselator(n), precision="f64")
    x = np.cos(2 * np.pi * wave * np.arange(n) / n)
    rate = (2 / 0.25 * np.sin(np.pi * wave / n)) ** 2
    threshold = 1 + Du * rate + A**2 * Du / Dv + A**2 / (Dv * rate)
    for B in (0.5 * threshold, 0.99 * threshold):
        inputs = {"f": np.zeros(n), "B": B, "u": np.full(n, A), "v": np.full(n, B / A)}
        matrix = np.array([[B - 1 - Du * rate, A**2], [-B, -(A**2) - Dv * rate]])
        moved = simulation.jvp(inputs, {"f": -x})[1].final
        for name, size in zip("uv", np.linalg.solve(matrix, [1.0, 0.0]), strict=True):
            np.testing.assert_allclose(moved[name], size * x, rtol=0, atol=1e-8 * abs(size))
    at = {"f": np.zeros(n), "B": threshold, "u": np.full(n, A), "v": np.full(n, threshold / A)}
    with pytest.raises(SingularError, match="leaves a change of u and v open"):
        simulation.jvp(at, {"f": x})


class Elastic(ds.Steady):
    """A plate at rest in its plane: ∇·σ + f = 0, σ = λ ∇·w + μ (∇w + ∇wᵀ), by staggered displacements that walls hold."""

    def __init__(self, n: int) -> None:
        self.grid = ds.Grid((n, n), 1 / n, 0.5 / n)
        self.states = {"w": ds.Vector("yx", ds.Dirichlet(0.0))}
        self.parameters = {"f": ds.Vector("yx", ds.Dirichlet(0.0)), "lam": ds.Variable(axes=()), "mu": ds.Variable(axes=())}

    def residual(self, w: Any, f: Any, lam: Any, mu: Any) -> Any:
        shear = mu * (diff(w["y"], 1) + diff(w["x"], 0))
        normal = lam * div(w)
        yy, xx = normal + 2 * mu * diff(w["y"], 0), normal + 2 * mu * diff(w["x"], 1)
        return {"w": (diff(yy, 0) + diff(shear, 1) + f["y"], diff(shear, 0) + diff(xx, 1) + f["x"])}


def test_a_vector_on_faces_at_rest() -> None:
    """Symmetric: the work of one load along the displacement of another is that of the other along the first (Betti)."""
    rng = np.random.default_rng(1)
    plate = ds.steady(Elastic(9), wrt=["fy", "fx", "mu"], precision="f64")
    loads = [{name: rng.normal(size=(9, 9)) for name in ("fy", "fx")} for _ in range(2)]
    for load in loads:
        load["fy"][-1], load["fx"][:, -1] = 0, 0  # on the walls
    stiff = {"lam": 1.3, "mu": 0.7}
    solutions = [plate.run(load | stiff).final for load in loads]
    assert not solutions[0]["wy"][-1].any() and not solutions[0]["wx"][:, -1].any()
    work = [sum(float((loads[one]["f" + a] * solutions[1 - one]["w" + a]).sum()) for a in "yx") for one in (0, 1)]
    assert work[0] == pytest.approx(work[1], rel=1e-10) and abs(work[0]) > 1e-3
    _, gradient = plate.value_and_grad(lambda end: sum((loads[0]["f" + a] * end.final["w" + a]).sum() for a in "yx"), loads[0] | stiff)
    scaled = plate.run(loads[0] | {"lam": 1.3, "mu": 0.7 + 1e-4}).final, plate.run(loads[0] | {"lam": 1.3, "mu": 0.7 - 1e-4}).final
    change = [sum(float((loads[0]["f" + a] * each["w" + a]).sum()) for a in "yx") for each in scaled]
    assert gradient["mu"] == pytest.approx((change[0] - change[1]) / 2e-4, rel=1e-6)
    np.testing.assert_allclose(gradient["fy"], solutions[0]["wy"], atol=1e-10)  # half of it is the load, half the displacement it makes


class Step(ds.Equation):
    """Two fields on one line, a step of which a function writes."""

    def __init__(self, step: Callable[..., Any], sides: Any = ("periodic", "periodic"), location: Any = (0,), n: int = 12) -> None:
        self.grid, self.dt, self.written = ds.Grid((n,), 0.5), 0.3, step
        self.states = {"u": ds.Variable(sides[0]), "v": ds.Variable(sides[1], location=location)}
        self.parameters = {"k": ds.Variable("mirror")}

    def step(self, u: Any, v: Any, k: Any) -> Any:
        return self.written(u, v, k)


def start(n: int = 12) -> Fields:
    rng = np.random.default_rng(2)
    return {name: rng.uniform(0.5, 1.0, n) for name in ("u", "v", "k")}


def as_dict(u: Any, v: Any, k: Any) -> Fields:
    def residual(now: Fields) -> Fields:
        reaction = now["u"] ** 2 * now["v"]
        new = {"u": reaction - now["u"] + k * laplacian(now["u"]), "v": 1 - reaction + 3 * laplacian(now["v"])}
        return {name: now[name] - {"u": u, "v": v}[name] - 0.3 * new[name] for name in new}

    return dict(ds.newton(residual, {"u": u, "v": v}))


def as_tuple(u: Any, v: Any, k: Any) -> Fields:
    def residual(a: Any, b: Any) -> Any:
        return a - u - 0.3 * (a**2 * b - a + k * laplacian(a)), b - v - 0.3 * (1 - a**2 * b + 3 * laplacian(b))

    a, b = ds.newton(residual, (u, v), boundary=[u, v])
    return {"u": a, "v": b}


def test_an_implicit_step_in_both_forms_and_its_gradient() -> None:
    """u and v of backward Euler satisfy the equations; the certificate compares tangent, adjoint, differences and checkpoints."""
    ends = []
    for written in (as_dict, as_tuple):
        run = ds.Simulation(Step(written), precision="f64")
        ends.append(run.run(start(), 1).final)
    assert all(np.array_equal(ends[0][name], ends[1][name]) for name in ("u", "v"))
    u, v, before = ends[0]["u"], ends[0]["v"], start()

    def bent(x: np.ndarray) -> np.ndarray:
        return (np.roll(x, 1) - 2 * x + np.roll(x, -1)) / 0.25

    assert np.abs(u - before["u"] - 0.3 * (u**2 * v - u + before["k"] * bent(u))).max() < 1e-11
    assert np.abs(v - before["v"] - 0.3 * (1 - u**2 * v + 3 * bent(v))).max() < 1e-11
    report = ds.certify(run, lambda end: (end.final["u"] ** 2 * end.final["v"]).sum(), start(), steps=5, seed=1)
    assert report.passed, str(report)


@pytest.mark.parametrize("seed", range(3))
def test_sides_with_values_are_those_of_the_residual(seed: int) -> None:
    """A system that `ds.solve` solves at once takes the values of sides to its right side; in a residual they are where it reads beyond."""
    rng = np.random.default_rng(seed)
    sides = [(rule,) for rule in (SIDES[2](rng), SIDES[4](rng), (ds.Neumann(rng.uniform(0.1, 0.2)), ds.Dirichlet(0.4)))]
    chosen = tuple(sides[number] for number in rng.choice(3, 2, replace=False))

    def operator(k: Any) -> Callable[..., Any]:
        return lambda a, b: (a - 0.3 * k * laplacian(a) + 0.2 * b.shifted(0, 1), b - laplacian(b) - 0.1 * a)

    def solved(u: Any, v: Any, k: Any) -> Fields:
        return dict(zip("uv", ds.solve(operator(k), (u, v), [u, v]), strict=True))

    def searched(u: Any, v: Any, k: Any) -> Fields:
        def residual(a: Any, b: Any) -> Any:
            one, other = operator(k)(a, b)
            return one - u, other - v

        return dict(zip("uv", ds.newton(residual, (u, v), boundary=[u, v]), strict=True))

    ends = [ds.Simulation(Step(step, chosen), wrt=[], precision="f64").run(start(), 2).final for step in (solved, searched)]
    for name in "uv":
        np.testing.assert_allclose(ends[0][name], ends[1][name], rtol=1e-10)


@pytest.mark.parametrize("method", ["auto", "bicgstab", "lu"])
def test_implicit_light_keeps_its_energy(method: Any) -> None:
    """E and H of Maxwell's equations by the scheme of Crank and Nicolson, at a time step far beyond the stable one."""

    def step(u: Any, v: Any, k: Any) -> Fields:
        half = 20.0
        e, h = ds.solve(
            lambda e, h: (e - half * diff(h, 0), h - half * diff(e, 0)), (u + half * diff(v, 0), v + half * diff(u, 0)), "periodic", method
        )
        return {"u": e, "v": h}

    light = ds.Simulation(Step(step, location=(1,)), wrt=["u", "v"], precision="f64")
    first = start()
    end = light.run({name: first[name] for name in ("u", "v", "k")}, 10).final
    assert sum((end[n] ** 2).sum() for n in "uv") == pytest.approx(sum((first[n] ** 2).sum() for n in "uv"), rel=1e-10)
    assert np.abs(end["u"] - first["u"]).max() > 0.01
    _, pull = ds.vjp(lambda u: light.run({**first, "u": u}, 3).final["v"], first["u"])
    w = np.cos(np.arange(12.0))
    moved = light.jvp(first, {"u": w}, 3)[1].final["v"]
    assert float((moved * w).sum()) == pytest.approx(float((np.asarray(pull(w)) * w).sum()), rel=1e-9)


class Open(ds.Steady):
    """Two fields whose sides are closed; `held` says which of them have a term that fixes their level."""

    def __init__(self, held: tuple[bool, bool], method: str = "auto", cubic: float = 0.0, joint: bool = False) -> None:
        self.grid, self.method, self.cubic, self.held, self.joint = ds.Grid((6, 7), 1.0), method, cubic, held, joint  # type: ignore[assignment]
        self.states = {"first": ds.Variable("mirror"), "second": ds.Variable("mirror")}
        self.parameters = {"s": ds.Variable("mirror")}

    def residual(self, first: Any, second: Any, s: Any) -> Any:
        react = (first - second) if self.joint else 0.0 * first
        return {
            "first": laplacian(first) - (first if self.held[0] else 0) + s - self.cubic * first**3 - react,
            "second": 3 * laplacian(second) - (second if self.held[1] else 0) + s + 0.1 * (first if self.held[0] else 0) + react,
        }


@pytest.mark.parametrize("method", ["auto", "cg"])
@pytest.mark.parametrize(
    ("held", "joint", "named"),
    [
        ((True, False), False, "the level of second"),
        ((False, True), False, "the level of first"),
        ((False, False), True, "first and second"),
    ],
)
def test_what_is_not_determined_is_named(held: Any, joint: bool, named: str, method: str) -> None:
    if method == "cg" and any(held):
        pytest.skip("not symmetric")
    with pytest.raises(SingularError, match=rf"leaves .*{named} open.*Dirichlet or Robin"):
        ds.steady(Open(held, method, joint=joint), precision="f64").run({"s": np.ones((6, 7))})


def test_what_does_not_converge_is_named() -> None:
    class Stuck(Open):
        def residual(self, first: Any, second: Any, s: Any) -> Any:
            return {"first": laplacian(first) - first + s, "second": laplacian(second) + second**2 + 1.0}  # has no solution

    with pytest.raises(ConvergenceError, match=r"in the equation of second after \d+ iterations; start from a closer initial state"):
        ds.steady(Stuck((True, True)), precision="f64").run({"s": np.ones((6, 7)), "second": np.full((6, 7), 0.3)})


def test_units_do_not_matter() -> None:
    """A field in units 1e12 times as large, and its equation in others: the same solution, to the same digits."""

    class Scaled(Open):
        scale = 1.0

        def residual(self, first: Any, second: Any, s: Any) -> Any:
            v = second / self.scale
            return {"first": laplacian(first) - first**3 + v + s, "second": 1e6 * self.scale * (laplacian(v) - v + 0.2 * first)}

    ends = []
    for scale in (1.0, 1e12):
        equation = Scaled((True, True))
        equation.scale = scale
        inputs = {"s": start(42)["u"].reshape(6, 7), "first": np.ones((6, 7)), "second": np.full((6, 7), 0.2 * scale)}
        simulation = ds.steady(equation, precision="f64")
        solution = simulation.run(inputs).final
        _, gradient = simulation.value_and_grad(lambda end, scale=scale: (end.final["second"] ** 2).sum() / scale**2, inputs)
        ends.append((solution["first"], solution["second"] / scale, gradient["s"]))
    for one, other in zip(*ends, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9)


@pytest.mark.parametrize("symmetric", [True, False])
def test_iterations_and_factors_agree(symmetric: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    class Linear(Open):
        def residual(self, first: Any, second: Any, s: Any) -> Any:
            mixed = 0.3 if symmetric else -0.3
            return {"first": 2 * first - laplacian(first) + 0.3 * second - s, "second": 3 * second - laplacian(second) + mixed * first}

    inputs = {"s": start(42)["u"].reshape(6, 7)}
    by: Fields = {}
    for method in ("lu", "bicgstab", *(["cg"] if symmetric else [])):
        simulation = ds.steady(Linear((True, True), method), precision="f64")
        by[method] = simulation.value_and_grad(lambda end: (end.final["second"] ** 2).sum(), inputs)[1]["s"]
    preconditioned = Linear((True, True), "bicgstab")
    preconditioned.preconditioner = ds.BlockJacobi((2, 3, 1))  # both fields of three cells
    by["given"] = ds.steady(preconditioned, precision="f64").value_and_grad(lambda end: (end.final["second"] ** 2).sum(), inputs)[1]["s"]
    monkeypatch.setattr(coupled, "FLAT", 10)  # "auto" takes iterations for larger systems
    by["auto"] = ds.steady(Linear((True, True)), precision="f64").value_and_grad(lambda end: (end.final["second"] ** 2).sum(), inputs)[1][
        "s"
    ]
    for method, gradient in by.items():
        np.testing.assert_allclose(gradient, by["lu"], rtol=1e-9, err_msg=method)


def test_gradients_in_f32_are_close() -> None:
    equation = Reacting(0)
    gradients = []
    for precision in ("f32", "f64"):
        simulation = ds.steady(equation, precision=precision)
        gradients.append(simulation.value_and_grad(lambda end: (end.final["a"] * end.final["b"]).sum(), equation.inputs())[1]["s"])
    np.testing.assert_allclose(gradients[0], gradients[1], rtol=1e-4)


def test_refusals() -> None:
    def refused(step: Callable[..., Any], error: Any, match: str) -> None:
        with pytest.raises(error, match=match):
            ds.Simulation(Step(step))

    refused(lambda u, v, k: ds.newton(lambda a, b: a - u, (u, v)), TraceError, r"gave a Symbol, expected 2 expressions, of a, b")
    refused(lambda u, v, k: ds.newton(lambda a, b: (a - u, a - v), (u, v)), TraceError, "depends on b nowhere")
    refused(lambda u, v, k: ds.newton(lambda a, b: (a - b, u - v), (u, v)), TraceError, "for b depends on none of a, b")
    refused(
        lambda u, v, k: ds.newton(lambda now: {"u": now["u"]}, {"u": u, "v": v}), TraceError, "gave a dict of u, expected a dict of u, v"
    )
    refused(lambda u, v, k: ds.newton(lambda a, b: (a, b), (u, 1.0)), TraceError, "expected expressions of the step")
    refused(lambda u, v, k: ds.newton(lambda a, b: (a - u, b - v), (u, v), [u]), TraceError, "has 1 entries, expected 2, for a, b")
    refused(lambda u, v, k: ds.solve(lambda a, b: (a * b, b), (u, v), "periodic"), TraceError, "is not linear")
    for method in ("direct", "tridiagonal"):

        def by(u: Any, v: Any, k: Any, method: Any = method) -> Fields:
            return dict(zip("uv", ds.solve(lambda a, b: (a + b, b), (u, v), "periodic", method), strict=True))

        refused(by, ParameterError, f"method = '{method}' for 2 fields, expected 'auto'")

    class Unnamed(Open):
        def residual(self, first: Any, second: Any, s: Any) -> Any:
            return {"first": first - s}

    with pytest.raises(TraceError, match=r"Unnamed\.residual gave first, expected one expression for each state: first, second"):
        ds.steady(Unnamed((True, True)))


@pytest.mark.parametrize("factor", ["number", "c", "field"])
@pytest.mark.parametrize("two", [False, True])
def test_a_factor_of_the_whole_residual_does_not_matter(factor: str, two: bool) -> None:
    class Factored(ds.Steady):
        grid = ds.Grid((8,), 1.0)

        def __init__(self, scaled: bool) -> None:
            self.scaled = scaled
            self.states = {name: ds.Variable(((ds.Dirichlet("held"), "mirror"),)) for name in ("a", "b")[: 1 + two]}
            self.parameters = {"s": ds.Variable("mirror"), "field": ds.Variable("mirror")}
            self.parameters |= {"c": ds.Variable(axes=()), "held": ds.Variable(axes=())}

        def residual(self, **fields: Any) -> Any:
            scale = ({"number": 3e8} | fields)[factor] if self.scaled else 1.0 + 0.0 * fields["c"]
            a, s = fields["a"], fields["s"]
            if not two:
                return scale * (a - 4.0 * laplacian(a) - s)
            b = fields["b"]
            return {"a": scale * (a - 4.0 * laplacian(a) + 0.1 * b - s), "b": b - laplacian(b) - 0.3 * a - s}

    inputs = {"s": start(8)["u"], "field": start(8)["k"], "c": 3.0, "held": 0.7}
    ends = []
    for scaled in (False, True):
        simulation = ds.steady(Factored(scaled), wrt=["s", "held"], precision="f64")
        _, gradient = simulation.value_and_grad(lambda end: (end.final["a"] ** 2).sum(), inputs)
        ends.append((simulation.run(inputs).final["a"], gradient["s"], gradient["held"]))
    for one, other in zip(*ends, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-10)


def test_a_singular_slope_of_an_equation_that_does_not_matter_counts_0() -> None:
    """sqrt(p) at p = 0 stands in the equation of b alone, on which the value does not depend."""

    class Apart(ds.Steady):
        def __init__(self) -> None:
            self.grid = ds.Grid((6,), 1.0)
            self.states = {"a": ds.Variable("mirror"), "b": ds.Variable("mirror")}
            self.parameters = {"p": ds.Variable("mirror"), "q": ds.Variable("mirror")}

        def residual(self, a: Any, b: Any, p: Any, q: Any) -> Any:
            return {"a": laplacian(a) - a - 0.1 * a**3 + q, "b": laplacian(b) - b - 0.1 * b**3 + where(b > -5, sqrt(p), 0.0) + 1}

    inputs = {"p": np.zeros(6), "q": np.ones(6)}
    gradient = ds.steady(Apart(), precision="f64").value_and_grad(lambda end: (end.final["a"] ** 2).sum(), inputs)[1]
    assert not gradient["p"].any() and gradient["q"].all()


@pytest.mark.parametrize("method", ["cg", "bicgstab"])
@pytest.mark.parametrize(("joint", "ratio", "named"), [(False, 1.0, "the level of second"), (True, 2.0, "the level of first and second")])
def test_iterations_refuse_an_open_level_although_the_right_side_is_compatible(method: str, joint: bool, ratio: float, named: str) -> None:
    class Level(Open):
        def residual(self, first: Any, second: Any, s: Any) -> Any:
            both = first - second / ratio if joint else 0.0
            held = 0.0 * first if joint else first
            return {"first": laplacian(first) - held - both + s, "second": laplacian(second) / ratio**2 + both / ratio + s}

    s = start(42)["u"].reshape(6, 7)
    with pytest.raises(SingularError, match=f"leaves {named} open.*Dirichlet or Robin"):
        ds.steady(Level((True, False), method), precision="f64").run({"s": s - s.mean()})


def test_a_preconditioned_system_is_scaled() -> None:
    """An equation in units of 1e-12 is solved to the same digits as the other one, and the preconditioner sees its own matrix."""
    seen = []

    def block(matrix: Any, shape: Any) -> Any:
        seen.append(matrix)
        return ds.BlockJacobi((2, 1, 1))(matrix, shape)

    class Scaled(Open):
        def residual(self, first: Any, second: Any, s: Any) -> Any:
            return {"first": 1e12 * (first - 4 * laplacian(first) - s), "second": second - laplacian(second) - 0.1 * first - s}

    ends = []
    for method, preconditioner in (("lu", None), ("bicgstab", block)):
        equation = Scaled((True, True), method)
        equation.preconditioner = preconditioner
        ends.append(ds.steady(equation, precision="f64").run({"s": start(42)["u"].reshape(6, 7)}).final["second"])
    np.testing.assert_allclose(ends[1], ends[0], rtol=1e-12)
    assert seen and abs(seen[0]).max() > 1e12


def test_two_equations_with_one_right_side() -> None:
    """The cotangents of both add up."""

    def step(u: Any, v: Any, k: Any) -> Fields:
        return dict(zip("uv", ds.solve(lambda a, b: (3 * a - laplacian(a) + b, 2 * b - a), (u, u), "periodic"), strict=True))

    pair = ds.Simulation(Step(step), wrt=["u"], precision="f64")
    first = start()
    w, x = np.cos(np.arange(12.0)), np.sin(np.arange(12.0))
    _, pull = ds.vjp(lambda u: pair.run({**first, "u": u}, 1).final["u"], first["u"])
    moved = pair.jvp(first, {"u": x}, 1)[1].final["u"]
    assert float((np.asarray(pull(w)) * x).sum()) == pytest.approx(float((moved * w).sum()), rel=1e-10)


def test_names_that_are_refused() -> None:
    class Moving(ds.Equation):
        grid, dt = ds.Grid((5, 6), 0.5), 0.1

        def __init__(self, written: Callable[..., Any]) -> None:
            self.states = {"w": ds.Vector("yx", "zero"), "p": ds.Variable("mirror")}
            self.written = written

        def step(self, w: Any, p: Any) -> Any:
            return {"w": w, "p": p} | self.written(w, p)

    def refused(step: Callable[..., Any], match: str) -> None:
        with pytest.raises(TraceError, match=match):
            ds.Simulation(Moving(step))

    refused(lambda w, p: ds.newton(lambda now: now, {0: p, 1: p}), r"guess of newton\(\) has the keys 0, 1, expected names of the fields")
    refused(lambda w, p: ds.newton(lambda now: now, {"w": w, "wx": p}), "has wx twice, alone and in a vector, expected it once; rename")
    refused(lambda w, p: {"w": ds.newton(lambda now: {"y": now["y"], "x": now["x"]}, w)}, r"gave a dict for .*; give a tuple of them, ")

    def undetermined(u: Any, v: Any, k: Any) -> Fields:
        return dict(zip("uv", ds.solve(lambda a, b: (k * a + b, b), (u, v), "periodic"), strict=True))

    with pytest.raises(SingularError, match=r"in step 0, solve for a, b: .*leaves a change of a open"):
        ds.Simulation(Step(undetermined)).run({**start(), "k": np.zeros(12)}, 1)


def test_a_level_is_found_although_cells_differ_in_size() -> None:
    class Layers(Open):
        def residual(self, first: Any, second: Any, s: Any) -> Any:
            return {"first": laplacian(first) - first + s, "second": laplacian(second) + s * first}

    layers = np.repeat(10.0 ** np.arange(6.0), 7).reshape(6, 7)
    with pytest.raises(SingularError, match="leaves the level of second open"):
        ds.steady(Layers((True, False)), precision="f64").run({"s": layers})


def test_incomplete_factors_that_fail_name_the_field() -> None:
    def step(u: Any, v: Any, k: Any) -> Fields:
        return dict(zip("uv", ds.solve(lambda a, b: (k * a + b, b), (u, v), "periodic", "bicgstab"), strict=True))

    with pytest.raises(SingularError, match="leaves a change of a open"):
        ds.Simulation(Step(step), precision="f64").run({**start(), "k": np.arange(12.0)}, 1)
