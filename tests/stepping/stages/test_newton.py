"""Nonlinear equations inside a step: implicit schemes against closed forms and other solvers, their derivatives, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy import optimize

import diffsim as ds
import diffsim.numpy as dnp
from diffsim.errors import ConvergenceError, ParameterError, PlanError, SingularError, TraceError
from diffsim.expr import Symbol, diff, div, exp, grad, interpolate, laplacian, log, maximum, where
from diffsim.linear import System
from diffsim.stepping.stages.iteration import Iteration
from tests.curvature import require_third_derivatives
from tests.sampled import sampled
from tests.stepping.stages.test_host_stage import STEPS, Given, inputs, loss, require_curvature
from tests.stepping.stages.test_solve import drifting

ROUND_OFF = 1e-11  # the tolerance of residuals is 1e-12
SOLVED = 1e-10  # what SciPy's solvers leave

Fields = dict[str, Any]


def porous(x: Symbol, u: Symbol, k: Symbol, dt: float = 0.3) -> Symbol:
    """The porous medium equation, u_t = div(k u^2 grad u), by backward Euler."""
    return x - dt * div([interpolate(k, a) * interpolate(x, a) ** 2 * slope for a, slope in enumerate(grad(x))]) - u


def burgers(x: Symbol, u: Symbol, k: Symbol) -> Symbol:
    """Viscous Burgers flow by the scheme of Crank and Nicolson, with central differences."""

    def rate(u: Symbol) -> Symbol:
        return 0.05 * k * laplacian(u) - 0.25 * (u.shifted(0, 1) ** 2 - u.shifted(0, -1) ** 2)

    return x - u - 0.5 * (rate(x) + rate(u))


def reacting(x: Symbol, u: Symbol, k: Symbol) -> Symbol:
    """Diffusion with a reaction, whose derivative is symmetric."""
    return x + 0.3 * exp(k * x) - 0.4 * laplacian(x) - u


def radiating(x: Symbol, u: Symbol, k: Symbol) -> Symbol:
    """Conduction and drift, radiation to surroundings of temperature k, and losses where it is warmer than 0.6."""
    lost = where(x > 0.6, k * (x - 0.6) ** 4, 0.0)
    return x - u - 0.2 * drifting(k)(x) + 0.3 * (x**4 - k**4) + lost + 0.05 * x.shifted(0, 1) * k.shifted(0, -1)


CASES = [
    (porous, (9,), "mirror", "auto"),
    (porous, (7, 9), ("mirror", "periodic"), "bicgstab"),
    (reacting, (7, 9), ("mirror", "zero"), "cg"),
    (porous, (4, 5, 3), "mirror", "auto"),
    (burgers, (16,), "periodic", "tridiagonal"),
    (burgers, (9,), ((ds.Dirichlet(0.4), ds.Extrapolate(1)),), "auto"),
    (radiating, (7, 9), ((ds.Dirichlet(0.5), ds.Neumann(0.2)), "zero"), "lu"),
    (radiating, (6, 7), (ds.Robin(1.0, 0.5, 0.3), "periodic"), "auto"),
]


def case(number: int) -> ds.Simulation:
    residual, shape, boundary, method = CASES[number]

    def step(u: Any, k: Any, q: Any) -> Fields:
        return {"u": ds.newton(lambda x: residual(x, u, k), u, method=method) + 0.1 * q}

    equation = Given(step, shape, boundary)
    return ds.Simulation(equation, sources={"q": [[2.0] * len(shape)]}, receivers={"u": [[1.5] * len(shape)]})


def _named(number: int) -> str:
    return f"{CASES[number][0].__name__}-{len(CASES[number][1])}d-{CASES[number][3]}"


every = pytest.mark.parametrize("number", range(len(CASES)), ids=_named)
some = pytest.mark.parametrize("number", sampled(range(len(CASES)), ids=_named))


@some
def test_derivatives_by_dot_products_taylor_slopes_and_other_schedules(number: int) -> None:
    """By the certificate: tangent against adjoint, differences, and the same bits from checkpoints and from all steps recorded."""
    run = case(number)
    certificate = ds.certify(run, loss, inputs(run), STEPS)
    assert certificate.passed, str(certificate)


@some
def test_second_derivatives_by_differences(number: int) -> None:
    require_curvature(case(number), np.random.default_rng(5))


@pytest.mark.slow
def test_solutions_feed_one_another_up_to_third_derivatives() -> None:
    """In the residual, the guess and the weights of further equations, linear and not."""

    def step(u: Any, k: Any, q: Any) -> Fields:
        a = ds.newton(lambda x: x + 0.3 * k * x**3 - u - 0.1 * laplacian(x), 0.5 * u + 0.1, boundary=u)
        b = ds.newton(lambda x: x + 0.2 * a * x**2 - 0.1 * laplacian(a * x) - u, a)
        c = ds.solve(lambda x: (1 + b * b) * x - 0.1 * laplacian(x), a, u)
        return {"u": 0.5 * (a + b) + 0.1 * c}

    run = ds.Simulation(Given(step, (7,), "mirror"))
    point = inputs(run)
    certificate = ds.certify(run, loss, point, STEPS)
    assert certificate.passed, str(certificate)
    require_third_derivatives(lambda fields: dnp.sum(run.run(fields, 3).final["u"] ** 3), point, np.random.default_rng(5), 1e-5, 1e-12)


def test_cells_that_differ_in_size() -> None:
    class Stretched(Given):
        def __init__(self) -> None:
            super().__init__(lambda u, k, q: {"u": ds.newton(lambda x: porous(x, u, k), u)}, boundary="mirror")
            self.grid = ds.Grid.from_faces((5 * np.linspace(0, 1, 8) ** 2, np.cumsum([0, 0.5, 0.7, 1.0, 1.3])))

    run = ds.Simulation(Stretched())
    point = inputs(run)
    cells = run.grid.widths(0)[:, None] * run.grid.widths(1)
    assert np.isclose((cells * run.run(point, STEPS).final["u"]).sum(), (cells * point["u"]).sum(), rtol=1e-12)
    certificate = ds.certify(run, loss, point, STEPS)
    assert certificate.passed, str(certificate)


def test_a_porous_medium_equals_what_scipy_finds() -> None:
    shape, dt = (5, 6), 0.3
    run = ds.Simulation(Given(lambda u, k, q: {"u": ds.newton(lambda x: porous(x, u, k, dt), u)}, shape, "mirror"))
    point = inputs(run)

    def residual(x: np.ndarray, u: np.ndarray) -> np.ndarray:
        field = x.reshape(shape)
        out = field - u
        for axis in (0, 1):
            low, high = (np.take(field, range(first, shape[axis] + first - 1), axis) for first in (0, 1))
            k_low, k_high = (np.take(point["k"], range(first, shape[axis] + first - 1), axis) for first in (0, 1))
            flux = dt * 0.5 * (k_low + k_high) * (0.5 * (low + high)) ** 2 * (high - low)
            ends = [(1, 1) if a == axis else (0, 0) for a in (0, 1)]
            out = out - np.diff(np.pad(flux, ends), axis=axis)
        return out.ravel()

    wanted = point["u"]
    for _ in range(STEPS):
        wanted = optimize.root(residual, wanted.ravel(), args=(wanted,), tol=1e-14).x.reshape(shape)
    final = run.run(point, STEPS).final["u"]
    assert np.abs(wanted - point["u"]).max() > 0.05
    assert np.abs(final - wanted).max() < SOLVED
    assert np.isclose(final.sum(), point["u"].sum(), rtol=1e-12)  # nothing flows out


def test_burgers_equals_what_scipy_finds() -> None:
    n = 16
    run = ds.Simulation(Given(lambda u, k, q: {"u": ds.newton(lambda x: burgers(x, u, k), u)}, (n,), "periodic"))
    point = inputs(run)

    def rate(u: np.ndarray) -> np.ndarray:
        viscous = 0.05 * point["k"] * (np.roll(u, 1) - 2 * u + np.roll(u, -1))
        return viscous - 0.25 * (np.roll(u, -1) ** 2 - np.roll(u, 1) ** 2)

    wanted = point["u"]
    for _ in range(STEPS):
        wanted = optimize.root(lambda x, u=wanted: x - u - 0.5 * (rate(x) + rate(u)), wanted, tol=1e-14).x
    assert np.abs(run.run(point, STEPS).final["u"] - wanted).max() < SOLVED


@pytest.mark.parametrize("guess", ["state", "another"])
def test_a_reaction_by_backward_euler_is_the_root_of_a_quadratic(guess: str) -> None:
    """u_t = -k u^2: the next u is (-1 + sqrt(1 + 4 dt k u)) / (2 dt k), whatever the iteration begins with; and so its derivative."""
    dt = 0.7

    def step(u: Any, k: Any, q: Any) -> Fields:
        return {"u": ds.newton(lambda x: x + dt * k * x**2 - u, u if guess == "state" else 3 + 0.2 * k * u, boundary="zero")}

    run = ds.Simulation(Given(step))
    point = inputs(run)

    def closed(fields: Any) -> Any:
        u, z = fields["u"], 2 * dt * fields["k"]
        for _ in range(STEPS):
            u = (dnp.sqrt(1 + 2 * z * u) - 1) / z
        return u

    assert np.abs(run.run(point, STEPS).final["u"] - closed(point)).max() < ROUND_OFF
    weights = np.cos(np.arange(154.0)).reshape(11, 14)
    gradient = ds.grad(lambda fields: dnp.sum(weights * run.run(fields, STEPS).final["u"]))(point)
    wanted = ds.grad(lambda fields: dnp.sum(weights * closed(fields)))(point)
    for name in ("u", "k"):
        assert np.abs(gradient[name] - wanted[name]).max() <= ROUND_OFF * np.abs(wanted[name]).max(), name


@pytest.mark.parametrize("method", ["auto", "cg", "direct"])
def test_a_linear_residual_gives_what_solve_gives(method: Any) -> None:
    rule = (ds.Dirichlet(0.3), "mirror")
    by_newton = Given(lambda u, k, q: {"u": ds.newton(lambda x: x - 0.4 * laplacian(x) - u, u, method=method)}, boundary=rule)
    by_solve = Given(lambda u, k, q: {"u": ds.solve(lambda x: x - 0.4 * laplacian(x), u, u, method)}, boundary=rule)
    results = []
    for equation in (by_newton, by_solve):
        run = ds.Simulation(equation)
        point = inputs(run)
        results.append((run.run(point, STEPS).final["u"], run.value_and_grad(loss, point, STEPS)[1]["u"]))
    for one, other in zip(*results, strict=True):
        assert np.abs(one - other).max() < ROUND_OFF


@pytest.mark.parametrize(("wall", "value"), [(ds.Dirichlet(0.7), 0.7), (ds.OddImage(), 0.0)], ids=["given", "odd"])
def test_a_solution_on_faces_has_the_value_on_the_side_that_its_rule_gives(wall: Any, value: float) -> None:
    def step(v: Any, k: Any, q: Any) -> Fields:
        return {"v": ds.newton(lambda x: x - 0.3 * interpolate(k, 0) * diff(diff(x, 0), 0) + 0.2 * x**3 - v, v)}

    run = ds.Simulation(Given(step, (7, 4), ((ds.Dirichlet(-0.2), wall), "mirror"), v=(1, 0)))
    point = inputs(run)

    def residual(x: np.ndarray, before: np.ndarray, k: np.ndarray) -> np.ndarray:
        line = np.concatenate([[-0.2], x])
        out = x - value
        out[:-1] = x[:-1] - 0.15 * (k[:-1] + k[1:]) * np.diff(line, 2) + 0.2 * x[:-1] ** 3 - before[:-1]
        return out

    wanted = point["v"].copy()
    for _ in range(STEPS):
        for column in range(4):
            before = wanted[:, column].copy()
            wanted[:, column] = optimize.root(residual, before, args=(before, point["k"][:, column]), tol=1e-14).x
    assert np.abs(run.run(point, STEPS).final["v"] - wanted).max() < SOLVED
    certificate = ds.certify(run, loss, point, STEPS)
    assert certificate.passed, str(certificate)


class NamedSides(ds.Equation):
    """Nonlinear diffusion between a value and a flux that are inputs, one of them given anew for each step, and that reads the time."""

    def __init__(self) -> None:
        self.grid, self.dt = ds.Grid((6, 5), 1.0), 0.1
        self.states = {"u": ds.Variable(((ds.Dirichlet("hot"), ds.Neumann("flux")), "mirror"))}
        self.parameters = {"k": ds.Variable("mirror"), "hot": ds.Variable(axes=(1,)), "strength": ds.Variable(axes=())}
        self.series = {"flux": ds.Variable(axes=())}

    def step(self, u: Any, k: Any, strength: Any, t: Any) -> Fields:
        def residual(x: Any) -> Any:
            flux = [interpolate(k * x**2, axis) * slope for axis, slope in enumerate(grad(x))]
            return x - 0.3 * div(flux) - u + t * strength * x**3

        return {"u": ds.newton(residual, u)}


def test_values_of_sides_by_name_numbers_and_the_clock() -> None:
    run = ds.Simulation(NamedSides())
    rng = np.random.default_rng(3)
    shapes = {"u": (6, 5), "k": (6, 5), "hot": (5,), "strength": (), "flux": (STEPS,)}
    point = {name: rng.uniform(0.5, 1.0, shape) for name, shape in shapes.items()}
    wanted = point["u"]
    for n in range(STEPS):

        def residual(flat: np.ndarray, u: np.ndarray = wanted, n: int = n) -> np.ndarray:
            x, k = flat.reshape(6, 5), point["k"]
            line = np.concatenate([[2 * point["hot"] - x[0]], x, [x[-1] + point["flux"][n]]])
            through = np.concatenate([k[:1], k, k[-1:]]) * line**2
            rows = np.diff(0.5 * (through[1:] + through[:-1]) * np.diff(line, axis=0), axis=0)
            through = k * x**2
            columns = np.diff(np.pad(0.5 * (through[:, 1:] + through[:, :-1]) * np.diff(x, axis=1), [(0, 0), (1, 1)]), axis=1)
            return (x - 0.3 * (rows + columns) - u + 0.1 * n * point["strength"] * x**3).ravel()

        wanted = optimize.root(residual, wanted.ravel(), tol=1e-14).x.reshape(6, 5)
    assert np.abs(run.run(point, STEPS).final["u"] - wanted).max() < SOLVED
    certificate = ds.certify(run, loss, point, STEPS)
    assert certificate.passed, str(certificate)


def test_what_a_condition_cuts_off_harms_nothing() -> None:
    """log(k) is infinite where k = 0: there the residual does without, and so does its gradient."""

    def step(u: Any, k: Any, q: Any) -> Fields:
        return {"u": ds.newton(lambda x: x + 0.1 * where(k > 0, log(k) * x**2, x**3) - u, u)}

    run = ds.Simulation(Given(step))
    point = inputs(run)
    point["k"][::2] = 0
    final, gradient = run.run(point, STEPS).final["u"], run.value_and_grad(loss, point, STEPS)[1]
    assert np.isfinite(final).all() and np.abs(gradient["u"]).min() > 0
    assert not gradient["k"][::2].any() and np.abs(gradient["k"][1::2]).min() > 0


def test_cells_outside_of_the_grid_harm_nothing() -> None:
    """Where k = 1, it is 0 beyond sides with the value 1/2: the cotangent of k is computed there too, and k divides."""
    run = ds.Simulation(
        Given(lambda u, k, q: {"u": ds.newton(lambda x: x + x**2 / k - u, u) + 0.01 * laplacian(k)}, boundary=ds.Dirichlet(0.5))
    )
    point = inputs(run)
    point["k"][:] = 1
    gradient = run.value_and_grad(loss, point, STEPS)[1]
    move = np.random.default_rng(1).standard_normal(run.grid.shape)
    solution, moved = run.jvp(point, {"k": move}, STEPS)
    assert np.isclose(np.sum(gradient["k"] * move), np.sum(loss(solution)[1].final["u"] * moved.final["u"]), rtol=1e-12)


def counted(monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    """How often, from now on, an iteration is run and a transposed system is solved."""
    counts = {"iterations": 0, "transposed": 0}
    call, solve = Iteration.__call__, System.solve

    def iterated(self: Any, *cells: Any) -> Any:
        counts["iterations"] += 1
        return call(self, *cells)

    def solved(self: Any, weights: Any, right_side: Any, transposed: bool = False, *rest: Any, **options: Any) -> Any:
        counts["transposed"] += transposed
        return solve(self, weights, right_side, transposed, *rest, **options)

    monkeypatch.setattr(Iteration, "__call__", iterated)
    monkeypatch.setattr(System, "solve", solved)
    return counts


def test_a_gradient_is_one_transposed_system_a_step(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where all steps are recorded the solutions are, so nothing is iterated again, and no bit changes."""
    run = ds.Simulation(Given(lambda u, k, q: {"u": ds.newton(lambda x: porous(x, u, 1.0 + 0 * k), u)}, boundary="mirror"), wrt=["u"])
    point, counts = inputs(run), counted(monkeypatch)
    _, gradient = run.value_and_grad(loss, point, STEPS)
    assert counts == {"iterations": STEPS, "transposed": STEPS}
    _, again = run.value_and_grad(loss, point, STEPS, 1)
    assert counts["transposed"] == 2 * STEPS and counts["iterations"] > 2 * STEPS
    assert np.array_equal(gradient["u"], again["u"])


@pytest.mark.slow
def test_the_same_bits_with_any_number_of_threads() -> None:
    results = []
    for threads in (1, 2):
        ds.init(precision="f64", threads=threads)
        run = case(6)
        point = inputs(run)
        results.append({"final": run.run(point, STEPS).final["u"], **run.value_and_grad(loss, point, STEPS)[1]})
    ds.init(precision="f64")
    for name, values in results[0].items():
        assert np.array_equal(values, results[1][name]), name


def test_in_f32_as_exact_as_f32_can_be() -> None:
    gradients = {}
    for precision in ("f64", "f32"):
        run = ds.Simulation(Given(lambda u, k, q: {"u": ds.newton(lambda x: porous(x, u, k), u)}, boundary="mirror"), precision=precision)
        gradients[precision] = run.value_and_grad(loss, inputs(run), STEPS)[1]
    for name, wanted in gradients["f64"].items():
        assert gradients["f32"][name].dtype == np.float32
        assert np.abs(gradients["f32"][name] - wanted).max() <= 3e-6 * np.abs(wanted).max()


def test_a_step_that_goes_too_far_is_halved() -> None:
    """x^3 = u from 0.01: the first whole step ends near 10^4 u, and near log(0) the residual is not finite."""
    cube = ds.Simulation(Given(lambda u, k, q: {"u": ds.newton(lambda x: x**3 - u, 0.01 * u, "zero", iterations=60)}))
    point = inputs(cube)
    assert np.abs(cube.run(point, 1).final["u"] - np.cbrt(point["u"])).max() < ROUND_OFF
    entropy = ds.Simulation(Given(lambda u, k, q: {"u": ds.newton(lambda x: log(x) + u, 3 + u, "zero")}))
    assert np.abs(entropy.run(point, 1).final["u"] - np.exp(-point["u"])).max() < ROUND_OFF


def only(residual: Callable[[Any, Any, Any], Any], guess: Any = None, **options: Any) -> ds.Simulation:
    return ds.Simulation(Given(lambda u, k, q: {"u": ds.newton(lambda x: residual(x, u, k), u if guess is None else guess(u), **options)}))


def test_a_run_that_cannot_go_on_says_in_which_step() -> None:
    def falling(residual: Callable[[Any, Any], Any], **options: Any) -> str:
        """The field falls by 1 a step, from 2.5 to 0.5 and then to -0.5."""

        def step(u: Any, v: Any, k: Any, q: Any) -> Fields:
            return {"u": ds.newton(lambda x: residual(x, v), 1 + 0 * u, "zero", **options), "v": v - 1.0}

        run = ds.Simulation(Given(step, u=(0, 0), v=(0, 0)))
        shape = run.grid.shape
        with pytest.raises((ConvergenceError, SingularError)) as caught:
            run.run({"u": np.ones(shape), "v": np.full(shape, 2.5), "k": np.ones(shape)}, STEPS)
        return f"{type(caught.value).__name__}: {caught.value}"

    said = falling(lambda x, v: x**2 - v)
    assert said.startswith("ConvergenceError: in step 3, newton for x: expected a residual of at most 1.0e-12 of")
    assert "iterations; start from a closer guess" in said
    assert "a part without x = nan in cell (0, 0), in the residual of x; correct the fields" in falling(lambda x, v: x + 0.1 * log(v) - 1)
    assert "ConvergenceError: in step 0" in falling(lambda x, v: x**3 - v, iterations=1)
    assert falling(lambda x, v: maximum(x, 2.0) - v).startswith("SingularError: in step 0, newton for x: in iteration 0: ")


def test_a_coarser_tolerance_takes_fewer_iterations_and_is_met(monkeypatch: pytest.MonkeyPatch) -> None:
    solved = counted(monkeypatch)
    errors, systems = [], []
    for tolerance in (1e-2, 1e-12):
        calls: list[int] = []
        solve = System.solve
        monkeypatch.setattr(System, "solve", lambda *a, solve=solve, calls=calls, **k: calls.append(1) or solve(*a, **k))
        run = only(lambda x, u, k: x + x**5 - 40 * u, tolerance=tolerance)
        u = inputs(run)["u"]
        final = run.run({"u": u, "k": u}, 1).final["u"]
        errors.append(np.abs(final + final**5 - 40 * u).max())
        systems.append(len(calls))
    assert solved["iterations"] == 2
    assert 1e-10 < errors[0] < 4.0 and errors[1] < 1e-9 and systems[0] < systems[1]


@pytest.mark.parametrize("stiff", [1e3, 1e6, 1e9])
def test_round_off_of_large_terms_that_cancel_does_not_count(stiff: float) -> None:
    """A time step far beyond all time scales ends in the steady state between two values: u + u^3 falls linearly."""
    ends = ((ds.Dirichlet(2.0), ds.Dirichlet(1.0)),)

    def step(u: Any, k: Any, q: Any) -> Fields:
        return {"u": ds.newton(lambda x: x - stiff * k * laplacian(x + x**3) - u, u)}

    run = ds.Simulation(Given(step, (40,), ends))
    final = run.run({"u": np.ones(40), "k": np.ones(40)}, STEPS).final["u"]
    line = np.pad(final, 1)
    line[0], line[-1] = 4.0 - final[0], 2.0 - final[-1]
    left = np.diff(line + line**3, 2)
    assert np.abs(left).max() < 10.0 / stiff


def test_round_off_of_numbers_that_cancel_does_not_count() -> None:
    """exp(x) - 1 of x near 1e-9 is known to 1e-7 of itself only."""
    run = only(lambda x, u, k: (2 + k) * exp(x) - (2 + k) - 1e-9 * u, tolerance=1e-15)
    point = inputs(run)
    wanted = np.log1p(1e-9 * point["u"] / (2 + point["k"]))
    assert np.abs(run.run(point, 1).final["u"] - wanted).max() < 3e-15


def test_slow_changes_are_not_lost() -> None:
    """A guess that meets the tolerance is improved once: otherwise nothing would ever happen where a step changes less than that."""
    run = only(lambda x, u, k: x + 1e-4 * x**2 - u, tolerance=1e-2)
    u = inputs(run)["u"]
    exact = u
    for _ in range(50):
        exact = (np.sqrt(1 + 4e-4 * exact) - 1) / 2e-4
    assert np.abs(run.run({"u": u, "k": u}, 50).final["u"] - exact).max() < 1e-7 < np.abs(u - exact).max()


@pytest.mark.parametrize(
    ("residual", "message"),
    [
        (lambda x, u, k: k - u, "does not depend on its argument"),
        (lambda x, u, k: ds.newton(lambda y: y**2 - x, x, "zero"), "stores a stage"),
        (lambda x, u, k: x > u, "condition"),
    ],
)
def test_residuals_that_are_refused(residual: Any, message: str) -> None:
    with pytest.raises(TraceError, match=message):
        only(residual)


def test_other_refusals() -> None:
    with pytest.raises(ParameterError, match="iterations = 0"):
        only(lambda x, u, k: x, iterations=0)
    with pytest.raises(ParameterError, match=r"guess = 1\.0, expected an expression"):
        only(lambda x, u, k: x, lambda u: 1.0)
    with pytest.raises(TraceError, match="expected a rule"):
        only(lambda x, u, k: x, lambda u: 2 * u)
    with pytest.raises(PlanError, match="one of its stages is a function on the host"):
        only(lambda x, u, k: exp(x) - u - 1).schedule(STEPS, ds.checkpoint.Policy(schedule="reversible"))
