"""Linear systems inside a step: implicit schemes against closed forms, their derivatives, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import diffsim as ds
from diffsim.checkpoint import Binomial, StoreAll
from diffsim.errors import ConvergenceError, ParameterError, PlanError, SingularError, StaleValueError, TraceError
from diffsim.expr import Symbol, diff, div, exp, grad, interpolate, laplacian, mean, where
from diffsim.linear import system, transforms
from diffsim.stepping.passes.sharing import cost
from diffsim.stepping.stages.solve import Size, Solve
from tests.sampled import sampled
from tests.stepping.stages.test_host_stage import STEPS, Given, inputs, loss, require_curvature

ROUND_OFF = 1e-12


def crank_nicolson(operator: Callable[[Symbol], Symbol], dt: float, boundary: Any, method: Any = "auto") -> Callable[[Symbol], Symbol]:
    def step(u: Symbol) -> Symbol:
        return ds.solve(lambda x: x - 0.5 * dt * operator(x), u + 0.5 * dt * operator(u), boundary, method)

    return step


@pytest.mark.parametrize("boundary", ["mirror", "zero", "periodic"])
@pytest.mark.parametrize("method", ["tridiagonal", "direct", "lu", "cg", "bicgstab"])
def test_heat_in_a_bar_decays_as_the_closed_form_says(boundary: Any, method: Any) -> None:
    """A mode of the discrete Laplacian is multiplied by (1 - z) / (1 + z) a step, z = dt/2 times its eigenvalue."""
    n, dt, steps = 24, 0.7, 9
    place = np.arange(n) + (1 if boundary == "zero" else 0.5)
    angle = {"mirror": 3 * np.pi / n, "zero": 3 * np.pi / (n + 1), "periodic": 4 * np.pi / n}[boundary]
    mode = (np.sin if boundary == "zero" else np.cos)(angle * place)
    run = ds.Simulation(Given(lambda u, k, q: {"u": crank_nicolson(laplacian, dt, boundary, method)(u)}, (n,), boundary))
    z = 0.5 * dt * (2 - 2 * np.cos(angle))
    final = run.run({"u": mode, "k": np.ones(n)}, steps).final["u"]
    assert np.abs(final - ((1 - z) / (1 + z)) ** steps * mode).max() < ROUND_OFF


def test_second_order_in_time() -> None:
    errors = []
    n, end = 40, 6.0
    angle = 2 * np.pi / n
    mode = np.cos(angle * (np.arange(n) + 0.5))
    for steps in (4, 8, 16):
        make = crank_nicolson(laplacian, end / steps, "mirror")
        run = ds.Simulation(Given(lambda u, k, q, make=make: {"u": make(u)}, (n,), "mirror"))
        final = run.run({"u": mode, "k": np.ones(n)}, steps).final["u"]
        errors.append(np.abs(final - np.exp(-(2 - 2 * np.cos(angle)) * end) * mode).max())
    slopes = np.log2(np.array(errors[:-1]) / errors[1:])
    assert np.all(np.abs(slopes - 2) < 0.05), slopes


def drifting(k: Symbol) -> Callable[[Symbol], Symbol]:
    """Diffusion and drift with coefficients that vary: nothing about its matrix is symmetric."""
    return lambda x: div([interpolate(k, a) * d for a, d in enumerate(grad(x))]) + 0.3 * exp(-k) * x.shifted(x.ndim - 1, 1) - k * x


UNSYMMETRIC = [
    ((13,), "zero", "tridiagonal"),
    ((13,), "mirror", "tridiagonal"),
    ((13,), "periodic", "tridiagonal"),
    ((7, 9), ("zero", "periodic"), "lu"),
    ((7, 9), ("mirror", "zero"), "auto"),
    ((7, 9), ("periodic", "mirror"), "bicgstab"),
    ((4, 5, 6), ("mirror", "periodic", "zero"), "auto"),
    ((9,), ((ds.Robin(1.0, 0.5, 0.3), ds.Dirichlet(0.4)),), "tridiagonal"),
    ((7, 9), ((ds.Dirichlet(-0.3), ds.Neumann(0.2)), ("zero", ds.Extrapolate(1))), "lu"),
]


@pytest.mark.parametrize(("shape", "boundary", "method"), sampled(UNSYMMETRIC, ids=str))
def test_unsymmetric_operators_in_every_dimension(shape: tuple[int, ...], boundary: Any, method: Any) -> None:
    """Dense matrices forward; dot products, Taylor slopes and other schedules by the certificate; second derivatives by differences.

    The system's weights depend on a parameter, on the state and on another solution.
    """

    def step(u: Any, k: Any, q: Any) -> dict[str, Any]:
        first = crank_nicolson(drifting(k), 0.3, boundary, method)(u)
        second = ds.solve(lambda x: x * (1 + first * first) - 0.1 * u * x.shifted(0, 1), u, boundary, "auto")
        return {"u": first + 0.2 * second + 0.1 * q}

    equation = Given(step, shape, boundary)
    run = ds.Simulation(equation, sources={"q": [[2.0] * len(shape)]}, receivers={"u": [[1.5] * len(shape)]})
    point = inputs(run)
    certificate = ds.certify(run, loss, point, STEPS)
    assert certificate.passed, str(certificate)
    require_curvature(run, np.random.default_rng(5))


def test_an_unsymmetric_operator_equals_a_dense_matrix() -> None:
    n, rule = 11, "mirror"
    point = np.random.default_rng(0).uniform(0.5, 1, (2, n))
    run = ds.Simulation(Given(lambda u, k, q: {"u": ds.solve(lambda x: x - drifting(k)(x), u, rule)}, (n,), rule))
    u, k = point
    matrix = np.eye(n)
    for i in range(n):
        for j in (i - 1, i + 1):
            if 0 <= j < n:
                through = 0.5 * (k[i] + k[j])
                matrix[i, i] += through
                matrix[i, j] -= through
        matrix[i, min(i + 1, n - 1)] -= 0.3 * np.exp(-k[i])
        matrix[i, i] += k[i]
    final = run.run({"u": u, "k": k}, 1).final["u"]
    assert np.abs(final - np.linalg.solve(matrix, u)).max() < ROUND_OFF


@pytest.mark.parametrize("method", ["tridiagonal", "lu", "bicgstab"])
@pytest.mark.parametrize(("wall", "value"), [(ds.Dirichlet(0.7), 0.7), (ds.OddImage(), 0.0)], ids=["given", "odd"])
def test_a_solution_on_faces_has_the_value_on_the_side_that_its_rule_gives(wall: Any, value: float, method: Any) -> None:
    """Implicit diffusion and drift between walls: the last row lies on one of them, none on the other. A matrix a column in NumPy."""
    shape, below = (7, 4), -0.2

    def step(v: Any, k: Any, q: Any) -> dict[str, Any]:
        return {"v": ds.solve(lambda x: x - 0.3 * interpolate(k, 0) * diff(diff(x, 0), 0) + 0.2 * x.shifted(0, -1), v, v, method)}

    run = ds.Simulation(Given(step, shape, ((ds.Dirichlet(below), wall), "mirror"), v=(1, 0)))
    point = inputs(run)
    wanted = point["v"].copy()
    for _ in range(STEPS):
        for column in range(shape[1]):
            matrix, right = np.eye(7), wanted[:, column].copy()
            for row in range(6):
                through = 0.3 * 0.5 * (point["k"][row, column] + point["k"][row + 1, column])
                matrix[row, row] += 2 * through
                matrix[row, row + 1] -= through
                if row:
                    matrix[row, row - 1] -= through - 0.2
                else:
                    right[0] += (through - 0.2) * below
            right[6] = value
            wanted[:, column] = np.linalg.solve(matrix, right)
    assert np.abs(run.run(point, STEPS).final["v"] - wanted).max() < ROUND_OFF
    assert np.abs(point["v"][6] - value).min() > 0.01  # the side's value is not what the run begins with
    certificate = ds.certify(run, loss, point, STEPS)
    assert certificate.passed, str(certificate)


def test_a_projection_leaves_no_divergence() -> None:
    """Incompressible flow: a Poisson equation whose solution is open by a constant, on a staggered grid."""
    grid_location = {"u": (0, 1), "v": (1, 0)}

    def step(u: Any, v: Any, k: Any, q: Any) -> dict[str, Any]:
        u, v = ds.stage(u + 0.1 * laplacian(u) + 0.1 * u * u, "periodic"), ds.stage(v - 0.1 * v * v, "periodic")
        p = ds.solve(laplacian, div([v, u]), "periodic")
        return {"u": u - diff(p, 1), "v": v - diff(p, 0)}

    run = ds.Simulation(Given(step, (8, 10), "periodic", **grid_location))
    point = inputs(run)
    final = run.run(point, STEPS).final
    divergence = final["u"] - np.roll(final["u"], 1, 1) + final["v"] - np.roll(final["v"], 1, 0)
    assert np.abs(divergence).max() < 1e-14 and np.abs(final["u"]).max() > 0.1
    certificate = ds.certify(run, loss, point, STEPS)
    assert certificate.verdict != "fail", str(certificate)  # nothing depends on k


class Projected(ds.Equation):
    """The part of a velocity between walls, or on a torus, without divergence, plus what makes the right side incompatible."""

    def __init__(self, shape: tuple[int, ...], walls: bool, varies: bool) -> None:
        self.grid, self.dt, self.walls, self.varies = ds.Grid(shape, spacing=0.1), 1.0, walls, varies
        self.parameters = {"excess": ds.Variable("mirror")}
        wall, other = ((ds.OddImage(), ds.OddImage()), "mirror") if walls else ("periodic", "periodic")
        self.states = {"u": ds.Variable((other, wall), location=(0, 1)), "v": ds.Variable((wall, other), location=(1, 0))}

    def step(self, u: Any, v: Any, excess: Any) -> dict[str, Any]:
        def flux(p: Symbol, axis: int) -> Symbol:
            return (1.0 + 0.0 * interpolate(excess, axis)) * diff(p, axis) if self.varies else diff(p, axis)

        right = ds.stage(div([v, u]) + excess, "mirror" if self.walls else "periodic") / 0.01
        p = ds.solve(lambda p: div([flux(p, 0), flux(p, 1)]), right, "mirror" if self.walls else "periodic")
        return {"u": u - 0.01 * flux(p, 1), "v": v - 0.01 * flux(p, 0)}


@pytest.mark.parametrize(
    ("walls", "varies", "precision"),
    sampled(
        [(*kind, precision) for precision in ("f32", "f64") for kind in ((False, False), (True, False), (True, True))],
        gate=[(False, False, "f64"), (True, False, "f32"), (True, True, "f64")],
    ),
)
def test_a_right_side_is_compatible_up_to_the_rounding_of_its_terms(walls: bool, varies: bool, precision: Any) -> None:
    """From the second projection on, the right side is nothing but rounding of velocity / spacing. An excess above that is refused, and
    one above a millionth of the right side."""
    run = ds.Simulation(Projected((12, 17), walls, varies), precision=precision)
    for seed in range(3):
        for scale in (1e-6, 1.0, 1e6):
            point = scale * np.random.default_rng(seed).standard_normal((2, 12, 17))
            if walls:
                point[0][:, -1] = point[1][-1] = 0.0
            none = {"u": point[0], "v": point[1], "excess": np.zeros((12, 17))}
            final = run.run(none, 4).final
            assert np.isfinite(final["u"]).all() and np.abs(final["u"]).max() > 0.1 * scale
            free = {**none, "u": np.asarray(final["u"], float), "v": np.asarray(final["v"], float)}
            moved = run.jvp(none, {"u": free["u"], "v": free["v"]}, 2)[1]  # a tangent without divergence
            assert np.abs(moved.final["u"] - free["u"]).max() < (1e-4 if precision == "f32" else 1e-12) * scale
            run.value_and_grad(loss, free, 2)
            for fields, excess in zip((none, free), {"f32": (1e-3, 1e-3), "f64": (1e-5, 1e-11)}[precision], strict=True):
                with pytest.raises(SingularError, match=r"expected a right side without the part that the operator cannot give"):
                    run.run({**fields, "excess": np.full((12, 17), excess * scale / 0.1)}, 1)


class Functions(ds.Equation):
    """A projection whose divergence goes through a function on the host, or a loop: from the second step on it is rounding alone."""

    def __init__(self, through: str, centred: bool, excess: float, method: Any) -> None:
        self.grid, self.dt = ds.Grid((12, 17), spacing=0.1), 1.0
        self.through, self.centred, self.excess, self.method = through, centred, excess, method
        self.states = {"u": ds.Variable("periodic", location=(0, 1)), "v": ds.Variable("periodic", location=(1, 0))}

    def step(self, u: Any, v: Any) -> dict[str, Any]:
        right = ds.stage(div([v, u]), "periodic")
        if self.through == "host":
            right = ds.host_stage(lambda x: 1.0 * x, right, boundary="periodic")
        else:
            right = ds.repeat(2, lambda x: 1.0 * x, right)
        right = right - mean(right) if self.centred else right
        p = ds.solve(laplacian, right + self.excess, "periodic", self.method)
        return {"u": u - diff(p, 1), "v": v - diff(p, 0)}


@pytest.mark.parametrize("precision", ["f32", "f64"])
@pytest.mark.parametrize("method", ["direct", "cg"])
@pytest.mark.parametrize("through", ["host", "loop"])
def test_rounding_that_a_function_gives_is_compatible_without_its_mean(through: str, method: Any, precision: Any) -> None:
    u, v = np.random.default_rng(0).standard_normal((2, 12, 17))
    run = ds.Simulation(Functions(through, True, 0.0, method), precision=precision)
    final, gradient = run.value_and_grad(lambda found: (found.final["u"] ** 2).sum(), {"u": u, "v": v}, 4)
    assert final > 1.0 and all(np.isfinite(values).all() for values in gradient.values())
    with pytest.raises(SingularError, match=r"subtract its mean \(f - mean\(f\)"):
        ds.Simulation(Functions(through, False, 0.0, method), precision=precision).run({"u": u, "v": v}, 4)
    with pytest.raises(SingularError, match="in step 0, "):
        ds.Simulation(Functions(through, True, 1e-3, method), precision=precision).run({"u": u, "v": v}, 4)


def test_the_size_of_a_right_side_is_stored_where_the_operator_may_leave_constants_open_alone() -> None:
    for operator, sized in ((laplacian, True), (lambda x: x - laplacian(x), False), (lambda x: 2 * laplacian(x) / 3, True)):
        run = ds.Simulation(Given(lambda u, k, q, o=operator: {"u": ds.solve(o, u - mean(u), "mirror")}, (7, 8), "mirror"))
        (stage,) = (s for s in run._step.stages if isinstance(s, Solve))
        assert (stage.size is not None) == sized


@pytest.mark.parametrize("count", [2, 5])
def test_sizes_cost_the_same_in_each_of_several_projections_and_nothing_in_reverse(count: int) -> None:
    """The divergence of a velocity counts by the velocity, not by all that the velocity was computed from."""

    def step(u: Symbol, v: Symbol) -> dict[str, Symbol]:
        for _ in range(count):
            u, v = ds.stage(u - 0.1 * diff(u * u.shifted(1, 1), 1).across(1), "periodic"), ds.stage(v + laplacian(v * v), "periodic")
            p = ds.solve(laplacian, div([v, u]), "periodic")
            u, v = ds.stage(u - diff(p, 1), "periodic"), ds.stage(v - diff(p, 0), "periodic")
        return {"u": u, "v": v}

    class Projections(Projected):
        def __init__(self) -> None:
            super().__init__((8, 9), walls=False, varies=False)
            self.parameters = {}

        def step(self, u: Symbol, v: Symbol) -> dict[str, Symbol]:  # type: ignore[override]
            return step(u, v)

    run = ds.Simulation(Projections())
    sizes = [stage for stage in run._step.stages if isinstance(stage, Size)]
    assert len(sizes) == count and {cost([stage.node]) for stage in sizes} == {cost([sizes[0].node])}
    assert cost([sizes[0].node]) < 20
    assert run._stepper.adjoint is not None
    cotangents = {assign.target.array for nest in run._stepper.adjoint.program.nests for assign in nest.assigns}
    assert not any(stage.name in array and "bar" in array for stage in sizes for array in cotangents)


def test_a_pressure_in_a_medium_that_varies_leaves_its_mean_open() -> None:
    """Conjugate gradients; the weights depend on what is differentiated for, and so does the right side."""

    def step(u: Any, k: Any, q: Any) -> dict[str, Any]:
        def flux(p: Symbol, axis: int) -> Symbol:
            return interpolate(k, axis) * diff(p, axis)

        right = div([diff(u * u, axis) for axis in range(2)])
        p = ds.solve(lambda p: div([flux(p, axis) for axis in range(2)]), right, "mirror")
        return {"u": 0.5 * u + 0.3 * p}

    run = ds.Simulation(Given(step, (7, 8), "mirror"))
    certificate = ds.certify(run, loss, inputs(run), 3)
    assert certificate.passed, str(certificate)


def test_constant_weights_need_no_states() -> None:
    """A linear step without parameters stores nothing, and its adjoint is one solution a step."""
    run = ds.Simulation(Given(lambda u, k, q: {"u": crank_nicolson(laplacian, 0.5, "mirror")(u)}, boundary="mirror"), wrt=["u"])
    stepper = run._stepper
    assert stepper.adjoint is not None
    assert not stepper.needs_primal and len(list(stepper.adjoint.program.calls)) == 1
    point = inputs(run)
    value, gradient = run.value_and_grad(loss, point, STEPS)
    move = np.random.default_rng(1).standard_normal(point["u"].shape)
    _, moved = run.jvp(point, {"u": move}, STEPS)
    bars = loss(run.run(point, STEPS))[1]
    assert np.isfinite(value) and np.isclose(np.sum(gradient["u"] * move), np.sum(bars.final["u"] * moved.final["u"]), rtol=1e-12)


def test_factors_are_kept_while_the_weights_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []

    class Counted(system.Tridiagonal):
        def __init__(self, *args: Any) -> None:
            calls.append(args)
            super().__init__(*args)

    monkeypatch.setattr(system, "Tridiagonal", Counted)
    run = ds.Simulation(Given(lambda u, k, q: {"u": ds.solve(lambda x: (1 + k) * x - laplacian(x), u, "mirror")}, (23,)))
    run.value_and_grad(loss, inputs(run), STEPS)
    assert len(calls) == 1


class Scaled(ds.Equation):
    """Implicit diffusion and a Poisson equation, whose weights are numbers of a run: a parameter, a series, a mean of all cells."""

    def __init__(self, k: str, boundary: Any, method: Any = "auto", shape: tuple[int, ...] = (9, 14)) -> None:
        self.grid, self.dt, self.k, self.method = ds.Grid(shape, spacing=(0.3, 0.7)), 0.1, k, method
        self.states = {"u": ds.Variable(boundary)}
        self.parameters, self.series = {"nu": ds.Variable(axes=())}, {"w": ds.Variable(axes=())}

    def step(self, u: Any, nu: Any, w: Any) -> dict[str, Any]:
        k = {"parameter": 0.1 * nu, "series": nu * w, "mean": nu * w * (1 + mean(u * u))}[self.k]
        spread = ds.solve(lambda x: x - k * laplacian(x), u + 0.1 * w * u * u, u, self.method)
        p = ds.solve(lambda x: k * laplacian(x), 0.1 * (spread - mean(spread)), u, self.method)
        return {"u": spread + p}


@pytest.mark.parametrize("boundary", ["mirror", "periodic"])
@pytest.mark.parametrize("k", sampled(["series", "parameter", "mean"]))
def test_weights_that_are_numbers_of_a_run_are_solved_by_transforms(k: str, boundary: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """In f32 the sum of the weights of the Poisson equation would not vanish if each were rounded."""
    tried = []
    modes = transforms._modes
    monkeypatch.setattr(transforms, "_modes", lambda *of: tried.append(of) or modes(*of))
    gradients = {}
    for precision, method in (("f64", "auto"), ("f64", "cg"), ("f32", "auto")):
        run = ds.Simulation(Scaled(k, boundary, method), precision=precision)
        rng = np.random.default_rng(4)
        point = {"u": rng.uniform(0.5, 1.0, (9, 14)), "nu": 0.7, "w": rng.uniform(0.05, 0.2, STEPS)}
        gradients[precision, method] = run.value_and_grad(lambda final: (final.final["u"] ** 3).sum(), point, STEPS)
        systems = [stage.system for stage in run._step.stages if isinstance(stage, Solve)]
        if method == "auto":
            assert all(isinstance(system._prepared, transforms.Diagonal) for system in systems)
            assert len(tried) == 2  # once for each system, though the weights change
            tried.clear()
            report = ds.certify(run, lambda final: (final.final["u"] ** 3).sum(), point, STEPS) if precision == "f64" else None
            assert report is None or report.passed, str(report)
            tried.clear()
    value, gradient = gradients["f64", "cg"]
    for key, limit in ((("f64", "auto"), 1e-9), (("f32", "auto"), 2e-3)):
        assert gradients[key][0] == pytest.approx(value, rel=limit)
        for name, values in gradient.items():
            assert np.abs(np.asarray(gradients[key][1][name]) - values).max() <= limit * np.abs(values).max(), (key, name)


def solved(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """For each solution from now on: True if it is one with the transposed matrix."""
    solves: list[bool] = []
    solve = system.System.solve

    def counted(self: Any, weights: Any, right_side: Any, transposed: bool = False, *options: Any) -> Any:
        solves.append(transposed)
        return solve(self, weights, right_side, transposed, *options)

    monkeypatch.setattr(system.System, "solve", counted)
    return solves


@pytest.mark.parametrize("twice", [False, True])
def test_recorded_solutions_are_not_solved_for_again(monkeypatch: pytest.MonkeyPatch, twice: bool) -> None:
    """With weights that are differentiated for: each step is solved once forward and once transposed, and no bit changes."""

    def step(u: Any, v: Any, k: Any, q: Any) -> dict[str, Any]:
        first = ds.solve(lambda x: (1 + k) * x - div([interpolate(k, a) * d for a, d in enumerate(grad(x))]), u, "mirror")
        return {"u": first, "v": ds.solve(lambda x: (2 + k) * x - laplacian(x), v, "zero") if twice else v + first}

    run = ds.Simulation(Given(step, (7, 9), "mirror", u=(0, 0), v=(0, 0)), receivers={"u": [[1.5, 2.5]]})
    point, solves = inputs(run), solved(monkeypatch)
    _, gradient = run.value_and_grad(loss, point, STEPS)
    each = 2 if twice else 1
    assert sorted(solves) == [False] * each * STEPS + [True] * each * STEPS
    solves.clear()
    _, again = run.value_and_grad(loss, point, STEPS, Binomial(STEPS, 1))  # "1" is room to record all steps of so few cells
    assert solves.count(True) == each * STEPS < solves.count(False)
    for name, values in gradient.items():
        assert np.array_equal(values, again[name]), name
    assert ds.certify(run, loss, point, STEPS).passed


@pytest.mark.parametrize("low", ["mirror", ds.Dirichlet(0.3)])
def test_states_that_are_needed_too_are_recorded_with_the_solutions(monkeypatch: pytest.MonkeyPatch, low: Any) -> None:
    """The adjoint reads neighbours of the state, values outside the grid among them."""

    def step(u: Any, k: Any, q: Any) -> dict[str, Any]:
        return {"u": ds.solve(lambda x: (2 + u * u.shifted(0, -1)) * x, k * u * laplacian(u), "mirror") + 0.1 * u * u}

    run = ds.Simulation(Given(step, (9,), ((low, "mirror"),)))
    point, solves = inputs(run), solved(monkeypatch)
    _, gradient = run.value_and_grad(loss, point, STEPS)
    assert solves.count(True) == solves.count(False) == STEPS
    _, again = run.value_and_grad(loss, point, STEPS, Binomial(STEPS, 1))
    for name, values in gradient.items():
        assert np.array_equal(values, again[name]), name
    assert ds.certify(run, loss, point, STEPS).passed


def test_solutions_are_kept_beside_states_of_a_part_of_the_grid() -> None:
    def step(u: Any, j: Any, k: Any, q: Any) -> dict[str, Any]:
        return {"u": ds.solve(lambda x: (2 + j * j) * x, k * u, "mirror"), "j": 0.9 * j + u}

    equation = Given(step, (9,), "mirror")
    equation.states = {"u": ds.Variable("mirror"), "j": ds.Variable(region=np.arange(9) < 4)}
    run = ds.Simulation(equation)
    residuals = run._stepper.with_residuals
    assert residuals is not None and residuals.states and len(residuals.names) == 1
    point = {name: np.ones((STEPS, 1) if name == "q" else 9) for name in run.inputs}
    stored, computed = (run.value_and_grad(loss, point, STEPS, schedule)[1] for schedule in (StoreAll(STEPS), Binomial(STEPS, 2)))
    for name, values in stored.items():
        np.testing.assert_array_equal(values, computed[name], err_msg=name)


@pytest.mark.parametrize("of_state", [True, False])
def test_weights_with_a_number_of_all_cells(of_state: bool) -> None:
    """Recorded steps keep the solution alone: of the state, the adjoint reads no more than its number, which each step has anyway."""

    def step(u: Any, k: Any, q: Any) -> dict[str, Any]:
        weight = k * (1 + mean(u) ** 2) if of_state else k * (1 + mean(k))
        solution = ds.solve(lambda x: (1 + weight) * x - weight * laplacian(x), u, "mirror")
        return {"u": solution if of_state else solution * (1 + mean(solution))}

    run = ds.Simulation(Given(step, (7, 9), "mirror"))
    residuals = run._stepper.with_residuals
    assert residuals is not None and len(residuals.names) == 1 and not residuals.states
    point = inputs(run)
    assert ds.certify(run, loss, point, STEPS).passed


def test_equal_weights_are_stored_once() -> None:
    run = ds.Simulation(Given(lambda u, k, q: {"u": ds.solve(lambda x: x - k * laplacian(x), u)}))
    (stage,) = (s for s in run._step.stages if isinstance(s, Solve))
    assert len(stage.weights) == 5 and len(stage.fields) == 2  # four neighbours have the same


def test_in_f32_as_exact_as_f32_can_be() -> None:
    for method in ("lu", "bicgstab"):
        gradients = {}
        for precision in ("f64", "f32"):
            make = Given(lambda u, k, q, m=method: {"u": crank_nicolson(drifting(k), 0.3, "mirror", m)(u)}, boundary="mirror")
            run = ds.Simulation(make, precision=precision)
            gradients[precision] = run.value_and_grad(loss, inputs(run), STEPS)[1]
        for name, wanted in gradients["f64"].items():
            assert gradients["f32"][name].dtype == np.float32
            assert np.abs(gradients["f32"][name] - wanted).max() <= 3e-6 * np.abs(wanted).max()


def only(operator: Any, **options: Any) -> ds.Simulation:
    return ds.Simulation(Given(lambda u, k, q: {"u": ds.solve(lambda x: operator(x, u, k), u, **options)}))


@pytest.mark.parametrize(
    ("operator", "message"),
    [
        (lambda x, u, k: x * x, "not linear"),
        (lambda x, u, k: x + abs(x), "not linear"),
        (lambda x, u, k: where(x < u, x, 2 * x), "not linear"),
        (lambda x, u, k: x + where(x < 0, k, 0.0), "not linear"),
        (lambda x, u, k: k, "does not depend on it"),
        (lambda x, u, k: x - 0.1 * u, "a part without its argument"),
        (lambda x, u, k: 2 * x + 1, "a part without its argument"),
        (lambda x, u, k: ds.solve(lambda y: 2 * y, x), "stores a stage"),
        (lambda x, u, k: None, "expected an expression"),
    ],
)
def test_operators_that_are_refused(operator: Any, message: str) -> None:
    with pytest.raises(TraceError, match=message):
        only(operator)


def test_a_system_outside_a_step() -> None:
    class Early(Given):
        def coefficients(self, k: Any) -> dict[str, Any]:
            return {"k": ds.solve(lambda x: 2 * x, k)}

    with pytest.raises(TraceError, match=r"solve\(\) was called outside a step"):
        ds.Simulation(Early(lambda u, k, q: {"u": u}))


def test_a_run_that_cannot_go_on_says_in_which_step() -> None:
    """The weight falls by 1 a step, until in step 2 it is the negative of an eigenvalue."""

    def falling(operator: Any, least: float, **options: Any) -> None:
        def step(u: Any, v: Any, k: Any, q: Any) -> dict[str, Any]:
            return {"u": ds.solve(lambda x: v * x - operator(x), u, **options), "v": v - 1.0}

        run = ds.Simulation(Given(step, u=(0, 0), v=(0, 0)))
        shape = run.grid.shape
        u = np.random.default_rng(0).standard_normal(shape)
        run.run({"u": u, "v": np.full(shape, 2.0 - least), "k": np.ones(shape)}, STEPS)

    lowest = 4 * np.sin(np.pi / 24) ** 2 + 4 * np.sin(np.pi / 30) ** 2  # of -laplacian on 11 x 14 cells between zeros
    with pytest.raises(ConvergenceError, match=r"in step 2, solve for x: cg expected a residual of at most 1.0e-10"):
        falling(laplacian, lowest, method="cg", tolerance=1e-10)
    with pytest.raises(SingularError, match=r"in step 2, .* subtract its mean"):
        falling(laplacian, 0.0, method="cg", boundary="mirror")
    with pytest.raises(SingularError, match="in step 2, "):
        falling(lambda x: 0.5 * x, -0.5)


def test_it_cannot_be_undone() -> None:
    run = only(lambda x, u, k: 2 * x)
    with pytest.raises(PlanError, match="one of its stages is a function on the host"):
        run.schedule(STEPS, ds.checkpoint.Policy(schedule="reversible"))


def test_a_gradient_is_planned_with_the_room_of_its_factors() -> None:
    small, large = (
        ds.Simulation(Given(lambda u, k, q, m=m: {"u": ds.solve(lambda x: 2 * x - laplacian(x), u, method=m)})) for m in ("direct", "lu")
    )
    assert small.sizes(9).around < large.sizes(9).around
    plan = ds.plan(small, "1 GB", steps=9, seconds=0.1)
    point = inputs(small)
    assert np.array_equal(small.value_and_grad(loss, point, 9, plan)[1]["u"], small.value_and_grad(loss, point, 9, Binomial(9, 2))[1]["u"])


class Implicit(ds.Equation):
    """One implicit step of diffusion a step, by a method and a preconditioner."""

    def __init__(self, **how: Any) -> None:
        self.grid, self.dt, self.how = ds.Grid((8, 16), spacing=1.0), 1.0, how
        self.states = {"T": ds.Variable("periodic")}

    def step(self, T: Symbol) -> dict[str, Symbol]:
        return {"T": ds.solve(lambda x: x - laplacian(x), T, boundary="periodic", **self.how)}


def test_errors_of_a_first_call_name_the_step_and_the_function() -> None:
    with pytest.raises(ParameterError, match="in step 0, solve for x: method = 'tridiagonal' expected an operator"):
        ds.Simulation(Implicit(method="tridiagonal"), precision="f64").run({"T": np.ones((8, 16))}, 1)


def test_a_preconditioner_that_runs_its_own_simulation_is_refused() -> None:
    running: list[ds.Simulation] = []

    def build(matrix: Any, shape: tuple[int, ...]) -> Any:
        running[0].run({"T": np.ones(shape)}, 1)

    running.append(ds.Simulation(Implicit(method="cg", preconditioner=build), precision="f64"))
    with pytest.raises(StaleValueError, match=r"in step 0.*a simulation that is not running"):
        running[0].run({"T": np.ones((8, 16))}, 1)
