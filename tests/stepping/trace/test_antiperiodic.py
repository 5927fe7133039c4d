"""The rule `Antiperiodic`: u(x + L) = -u(x)."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import diffsim as ds
from diffsim.boundary import bound, extend, extend_transpose
from diffsim.errors import ParameterError, SceneError, ShapeError, TraceError
from diffsim.expr import diff, laplacian
from diffsim.scene.words.equations import EQUATIONS, model_of
from diffsim.solvers import Heat
from diffsim.typing import Array
from tests.cases import Case, Sided
from tests.sampled import sampled
from tests.stepping.run_cases import outputs

Symbol = ds.expr.Symbol
ANTI = ds.Antiperiodic()


def twice(values: Array, axis: int = 0) -> Array:
    """A period of a field: what it is on the grid, and minus that."""
    return np.concatenate([values, -values], axis)


@pytest.mark.parametrize("location", [(0, 0), (1, 0), (1, 1)], ids=str)
def test_a_halo_and_its_transpose(location: tuple[int, ...]) -> None:
    """Against a period by NumPy, up to a halo as wide as the grid, corners included; and <E x, y> = <x, E' y>."""
    rng, (n, m), halo = np.random.default_rng(0), (4, 5), (4, 3)
    x, y = rng.standard_normal((n, m)), rng.standard_normal((n + 8, m + 6))
    rules = bound((ANTI, ANTI), location, (1.0, (0.5, 1.0, 2.0, 1.0, 1.0)))
    out, back = np.pad(x, [(4, 4), (3, 3)], constant_values=np.nan), y.copy()
    extend(out, halo, rules)
    np.testing.assert_array_equal(out, np.pad(twice(twice(x, 0), 1), [(4, 4), (3, 3)], mode="wrap")[: n + 8, : m + 6])
    extend_transpose(back, halo, rules)
    assert np.sum(out * y) == pytest.approx(np.sum(x * back[4:-4, 3:-3]), rel=1e-13)


BESIDE = ["mirror", "periodic", (ds.Dirichlet(0.4), ds.OddImage()), (ds.Extrapolate(2), ds.Outflow(0.5)), ANTI]
DRAWN = [((9,), [ANTI] * 3), ((17, 6), [ANTI] * 3), *(((8, 19), [(ANTI, r), (r, ANTI), (ANTI, r)]) for r in BESIDE)]


@pytest.mark.parametrize(("shape", "boundary"), sampled([*DRAWN, ((5, 4, 9), [(ANTI, "mirror", ANTI)] * 3)], ids=str))
def test_steps_and_gradients_are_numpys(shape: tuple[int, ...], boundary: list[Any]) -> None:
    """At centres and on faces, in states and stages, beside any other rule."""
    axes = [tuple(of) if isinstance(of, tuple) else (of,) * len(shape) for of in boundary]
    case = Case("", lambda: Sided(ds.Grid(shape, 0.7), axes), 5, {}, {}, {"k": (0.5, 0.3)})
    computed, wanted = outputs(case, "f64")
    for name, values in wanted.items():
        np.testing.assert_allclose(computed[name], values, rtol=0, atol=1e-12 * np.abs(values).max(), err_msg=name)


class Everything(ds.Equation):
    """An odd step with the rule in states at centres and on faces, a coefficient, a stage and two implicit solutions."""

    def __init__(self, grid: ds.Grid, rule: Any, method: Any = "auto") -> None:
        self.grid, self.dt, self.method = grid, 0.1, method
        sides = (rule, "periodic")[: grid.ndim]
        self.states = {"a": ds.Variable(sides), "u": ds.Variable(sides, (1, 0)[: grid.ndim])}
        self.parameters = {"k": ds.Variable(sides)}

    def step(self, a: Symbol, u: Symbol, k: Symbol) -> dict[str, Symbol]:
        cube = ds.stage(a * k * a + 0.1 * laplacian(a), boundary=a)
        late = ds.solve(lambda w: (1 + k * k) * w - 0.2 * laplacian(w), a + 0.1 * diff(u, 0), boundary=a, method=self.method)
        far = ds.newton(lambda w: w + 0.1 * w * w * w - 0.1 * laplacian(w) - u, u, boundary=u)
        return {"a": late - 0.1 * laplacian(cube) + 0.05 * k.shifted(0, 2), "u": far - 0.1 * diff(cube, 0)}


def drawn(equation: Everything, seed: int) -> dict[str, Array]:
    rng = np.random.default_rng(seed)
    return {name: rng.uniform(-1, 1, equation.grid.shape) for name in ("a", "u", "k")}


@pytest.mark.parametrize("shape", [(9,), (8, 7)], ids=str)
def test_half_of_a_periodic_grid(shape: tuple[int, ...]) -> None:
    small, large = Everything(ds.Grid(shape, 1.0), ANTI), Everything(ds.Grid((2 * shape[0], *shape[1:]), 1.0), "periodic")
    inputs = drawn(small, 0)
    computed, wanted = (
        ds.Simulation(equation, precision="f64").run(values, 4).final
        for equation, values in ((small, inputs), (large, {name: twice(v) for name, v in inputs.items()}))
    )
    for name, values in computed.items():
        np.testing.assert_allclose(twice(values), wanted[name], rtol=0, atol=1e-8, err_msg=name)


@pytest.mark.parametrize("method", ["lu", "cg", "bicgstab"])
def test_vjp_and_jvp_agree(method: str) -> None:
    """<J d, w> = <d, J' w> along random directions, and J d against differences."""
    equation = Everything(ds.Grid((8, 7), 1.0), ANTI, method)
    simulation = ds.Simulation(equation, precision="f64")
    inputs, rng = drawn(equation, 1), np.random.default_rng(2)
    solution, pullback = simulation.vjp(inputs, 4)
    for seed in range(3, 6):
        direction = drawn(equation, seed)
        weights = {name: rng.standard_normal(values.shape) for name, values in solution.final.items()}
        _, tangent = simulation.jvp(inputs, direction, 4)
        gradient = pullback(ds.Solution(final=weights))
        left = sum(np.sum(tangent.final[name] * w) for name, w in weights.items())
        assert left == pytest.approx(sum(np.sum(direction[name] * gradient[name]) for name in direction), rel=1e-9)
        ahead, behind = (simulation.run({n: v + h * direction[n] for n, v in inputs.items()}, 4).final for h in (1e-4, -1e-4))
        change = {name: (ahead[name] - behind[name]) / 2e-4 for name in ahead}
        assert left == pytest.approx(sum(np.sum(change[name] * w) for name, w in weights.items()), rel=1e-5, abs=1e-5)


class Implicit(ds.Equation):
    """u - c ∇²u = b; or -c ∇²u = b, which has an inverse: a constant does not change its sign."""

    def __init__(self, shape: tuple[int, ...], sides: Any, method: Any = "auto", mass: float = 1.0) -> None:
        self.grid, self.dt, self.how = ds.Grid(shape, 1.0), 0.3, (method, mass)
        self.states = {"u": ds.Variable(sides)}

    def step(self, u: Symbol) -> dict[str, Symbol]:
        method, mass = self.how
        return {"u": ds.solve(lambda w: mass * w - self.dt * laplacian(w), u, boundary=u, method=method)}


def matrix(shape: tuple[int, ...], anti: tuple[bool, ...], mass: float) -> Array:
    """The matrix of `Implicit`."""
    out = mass * np.eye(int(np.prod(shape)))
    for axis, n in enumerate(shape):
        line = -2 * np.eye(n) + np.eye(n, k=1) + np.eye(n, k=-1)
        line[0, -1] = line[-1, 0] = -1 if anti[axis] else 1
        before, after = (np.eye(int(np.prod(part))) for part in (shape[:axis], shape[axis + 1 :]))
        out -= 0.3 * np.kron(np.kron(before, line), after)
    return out


@pytest.mark.parametrize(("shape", "anti"), [((9,), (True,)), ((8, 10), (True, True)), ((5, 6, 7), (True, False, True))], ids=str)
@pytest.mark.parametrize(("method", "mass"), [*itertools.product(["auto", "lu", "cg", "bicgstab"], [1.0, 0.0])])
def test_implicit_steps(shape: tuple[int, ...], anti: tuple[bool, ...], method: str, mass: float) -> None:
    b = np.random.default_rng(0).standard_normal(shape)
    sides = tuple(ANTI if each else "periodic" for each in anti)
    u = ds.Simulation(Implicit(shape, sides, method, mass), precision="f64").run({"u": b}, 1).final["u"]
    wanted = np.linalg.solve(matrix(shape, anti, mass), b.ravel()).reshape(shape)
    np.testing.assert_allclose(u, wanted, rtol=0, atol=1e-10 * np.abs(wanted).max())


def test_a_large_implicit_step() -> None:
    """More cells than are eliminated, against transforms of twice as many."""
    b = np.random.default_rng(0).standard_normal((150, 160))
    u = ds.Simulation(Implicit(b.shape, (ANTI, "periodic"), mass=0.01), precision="f64").run({"u": b}, 1).final["u"]
    wanted = ds.Simulation(Implicit((300, 160), "periodic", "direct", 0.01), precision="f64").run({"u": twice(b)}, 1).final["u"]
    np.testing.assert_allclose(twice(u), wanted, rtol=0, atol=1e-8 * np.abs(wanted).max())


class Squared(ds.Equation):
    def __init__(self) -> None:
        self.grid, self.dt, self.states = ds.Grid((6,), 1.0), 0.1, {"u": ds.Variable(ANTI)}

    def step(self, u: Symbol) -> dict[str, Symbol]:
        return {"u": u + diff(ds.stage(u * u), 0)}


def test_a_stage_asks() -> None:
    """A square is periodic."""
    with pytest.raises(TraceError, match=r"expected boundary="):
        ds.Simulation(Squared())


@pytest.mark.parametrize("pair", [(ANTI, "zero"), (ds.Dirichlet(1.0), ANTI), (ANTI, "periodic"), ("periodic", ANTI)], ids=str)
def test_both_sides_have_it(pair: Any) -> None:
    with pytest.raises(ParameterError, match="periodic on one side, expected on both"):
        ds.Variable((pair,))


def test_not_along_a_stretched_axis() -> None:
    with pytest.raises(ShapeError, match="T is antiperiodic along x, which is stretched"):
        ds.Simulation(Heat(ds.Grid.from_faces([np.array([0.0, 1.0, 2.5, 4.0])]), 0.01, ANTI))


@pytest.mark.parametrize("table", [{"type": "antiperiodic"}, {"x": "antiperiodic"}, {"x": ["antiperiodic"] * 2}], ids=str)
def test_in_a_scene(table: Any) -> None:
    """The rule's, and its diffusivity is that of the other end."""
    grid = ds.Grid((8,), 1.0)
    equation = model_of("heat", EQUATIONS.packaged["heat"]).model_validate({"type": "heat", "boundary": table}).build(grid, 0.1)
    inputs = {name: np.random.default_rng(0).uniform(0.2, 1.0, 8) for name in ("T", "kappa")}
    final = ds.Simulation(equation, precision="f64").run(inputs, 5).final["T"]
    np.testing.assert_array_equal(final, ds.Simulation(Heat(grid, 0.1, ANTI), precision="f64").run(inputs, 5).final["T"])
    both = {"T": twice(inputs["T"]), "kappa": np.tile(inputs["kappa"], 2)}
    wanted = ds.Simulation(Heat(ds.Grid((16,), 1.0), 0.1, "periodic"), precision="f64").run(both, 5).final["T"]
    np.testing.assert_allclose(twice(final), wanted, rtol=0, atol=1e-14)


def test_one_side_in_a_scene() -> None:
    for pair in (["antiperiodic", "zero"], ["periodic", "antiperiodic"]):
        with pytest.raises((SceneError, ValueError), match='periodic" on both sides'):
            model_of("heat", EQUATIONS.packaged["heat"]).model_validate({"type": "heat", "boundary": {"x": pair}})


class Corners(ds.Equation):
    """A step that reads cells beyond two sides, one of which has a value along it."""

    def __init__(self, grid: ds.Grid, rule: Any) -> None:
        self.grid, self.dt = grid, 1.0
        self.states = {"T": ds.Variable(((ds.Dirichlet("held"), "mirror"), rule))}
        self.parameters = {"held": ds.Variable(("mirror", rule), axes=(1,))}

    def step(self, T: Symbol, held: Symbol) -> dict[str, Symbol]:
        return {"T": 0.2 * T + 0.2 * T.shifted(0, -1).shifted(1, -2) - 0.3 * T.shifted(0, -2).shifted(1, 1) + 0.3 * T.shifted(1, 1)}


def scene_heat(grid: ds.Grid, rule: str) -> ds.Equation:
    """Heat of a scene, with such a side."""
    held = {"type": "dirichlet", "value": "held", "varies": [grid.axes[1]]}
    table = {"type": "heat", "boundary": {grid.axes[0]: [held, "mirror"], grid.axes[1]: rule}}
    return model_of("heat", EQUATIONS.packaged["heat"]).model_validate(table).build(grid, 0.1)


@pytest.mark.parametrize("scene", [True, False], ids=["scene", "corners"])
def test_beside_a_side_whose_value_is_an_input(scene: bool) -> None:
    """The value has the rule too: the input of a scene by itself, that of an equation by its declaration."""
    rng = np.random.default_rng(0)
    inputs: dict[str, Array] = {"T": rng.uniform(0.2, 1.0, (5, 6)), "held": rng.uniform(-1, 1, 6)}
    if scene:
        inputs["kappa"] = rng.uniform(0.2, 1.0, (5, 6))
    period = {name: np.tile(v, 2) if name == "kappa" else twice(v, v.ndim - 1) for name, v in inputs.items()}
    small, large = (ds.Grid((5, n), 1.0) for n in (6, 12))
    kind: Any = scene_heat if scene else Corners
    equations = kind(small, "antiperiodic" if scene else ANTI), kind(large, "periodic")
    assert equations[0].parameters["held"].boundary[1] == ANTI
    computed, wanted = (
        ds.Simulation(equation, precision="f64").run(values, 5).final["T"]
        for equation, values in zip(equations, (inputs, period), strict=True)
    )
    np.testing.assert_allclose(twice(computed, 1), wanted, rtol=0, atol=1e-13)
