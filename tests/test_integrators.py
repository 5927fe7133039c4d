"""Time steps from a rate: their orders against closed forms, their stored fields, their gradients, and refused arguments."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest

import diffsim as ds
from diffsim import expr, integrators
from diffsim.errors import ParameterError, TraceError
from diffsim.expr import Components, Symbol, diff, div, grad, interpolate, laplacian, sin
from diffsim.expr.graph import ordered
from diffsim.integrators import TABLEAUX, adams_bashforth2, euler, imex_ars222, imex_euler, leapfrog, rk4, ssp_rk2, ssp_rk3
from diffsim.stepping.trace.trace import TracedStep
from diffsim.stepping.trace.tracing import trace_coefficients, trace_step
from tests.sampled import sampled
from tests.steps.test_gradient import loss

ORDERS: dict[Callable[..., Any], int] = {euler: 1, ssp_rk2: 2, ssp_rk3: 3, rk4: 4}
STAGES = {euler: 0, ssp_rk2: 1, ssp_rk3: 2, rk4: 3}
ONE_STEP = pytest.mark.parametrize("method", ORDERS, ids=lambda f: f.__name__)
CELLS, TIME = (6, 8), 2.0
MODE = (2, 3)
"""Half waves along each axis."""
FREQUENCY = 2 * np.sqrt(sum(np.sin(0.5 * np.pi * m / n) ** 2 for m, n in zip(MODE, CELLS, strict=True)))
"""Frequency of a standing wave in a box of cells of size 1, by differences of second order."""


class Box(ds.Equation):
    """Sound in a box with rigid walls, with a friction that makes it nonlinear: p_t = -∇·u, u_t = -∇p - b p u.

    Outside the grid the pressure is mirrored and the velocities are zero: intermediate states with other rules would lose the order.
    """

    def __init__(self, method: Callable[..., Any], dt: float) -> None:
        self.grid, self.dt, self.method = ds.Grid(CELLS, 1.0), dt, method
        self.states = {
            "p": ds.Variable("mirror"),
            "v": ds.Variable(("zero", "mirror"), (1, 0)),
            "u": ds.Variable(("mirror", "zero"), (0, 1)),
        }
        self.parameters = {"b": ds.Variable("mirror")}

    def rate(self, state: Mapping[str, Symbol], b: Symbol) -> dict[str, Symbol]:
        p, v, u = state["p"], state["v"], state["u"]
        return {"u": -diff(p, 1) - interpolate(b * p, 1) * u, "v": -diff(p, 0) - interpolate(b * p, 0) * v, "p": -div((v, u))}

    def step(self, p: Symbol, v: Symbol, u: Symbol, b: Symbol) -> dict[str, Symbol]:
        return self.method(lambda now: self.rate(now, b), {"p": p, "v": v, "u": u}, self.dt)


class BoxOfRates(Box):
    """The same by the rates of two steps; the first step is Euler's."""

    def __init__(self, dt: float) -> None:
        super().__init__(adams_bashforth2, dt)
        self.initials = {f"{name}0": variable for name, variable in self.states.items()}
        self.states = self.states | {f"{name}_rate": ds.Variable("zero", variable.location) for name, variable in self.states.items()}

    def initial(self, p0: Symbol, v0: Symbol, u0: Symbol, b: Symbol) -> dict[str, Symbol]:
        state = {"p": p0, "v": v0, "u": u0}
        return state | {f"{name}_rate": value for name, value in self.rate(state, b).items()}

    def step(self, b: Symbol, **now: Symbol) -> dict[str, Symbol]:  # type: ignore[override]
        state = {name: now[name] for name in "pvu"}
        before = {name: now[f"{name}_rate"] for name in state}
        new, rates = adams_bashforth2(lambda fields: self.rate(fields, b), state, before, self.dt)
        return new | {f"{name}_rate": rates[name] for name in state}


class Membrane(ds.Equation):
    """p_tt = ∇²p - b p³ by leap-frog."""

    def __init__(self, dt: float) -> None:
        self.grid, self.dt = ds.Grid(CELLS, 1.0), dt
        self.states = {"p": ds.Variable("mirror"), "p_prev": ds.Variable("mirror")}
        self.parameters = {"b": ds.Variable("mirror")}

    def step(self, p: Symbol, p_prev: Symbol, b: Symbol) -> dict[str, Symbol]:
        new = leapfrog(lambda now: {"p": laplacian(now["p"]) - b * now["p"] ** 3}, {"p": p}, {"p": p_prev}, self.dt)
        return {"p": new["p"], "p_prev": p}


IMEX_ORDERS: dict[Callable[..., Any], int] = {imex_euler: 1, imex_ars222: 2}
IMEX = pytest.mark.parametrize("method", IMEX_ORDERS, ids=lambda f: f.__name__)


class Reacting(ds.Equation):
    """u_t = ∇·((0.5 + b) ∇u) - u³ + 0.3 v, v_t = u v - v: the diffusion of u is implicit, the rest is not, and v is not at all.

    A side of u has a given value. No two parts commute.
    """

    def __init__(self, method: Callable[..., Any], dt: float, shape: tuple[int, ...] = CELLS) -> None:
        self.grid, self.dt, self.method = ds.Grid(shape, 1.0), dt, method
        self.states = {"u": ds.Variable(((ds.Dirichlet(0.4), "mirror"), "mirror")), "v": ds.Variable("mirror")}
        self.parameters = {"b": ds.Variable("mirror")}

    def step(self, u: Symbol, v: Symbol, b: Symbol) -> dict[str, Symbol]:
        def spread(x: Symbol) -> Symbol:
            return div([(0.5 + interpolate(b, axis)) * diff(x, axis) for axis in range(2)])

        def rate(now: Mapping[str, Symbol]) -> dict[str, Symbol]:
            return {"u": 0.3 * now["v"] - now["u"] ** 3, "v": now["u"] * now["v"] - now["v"]}

        if self.method not in IMEX_ORDERS:
            return self.method(lambda now: (rates := rate(now)) | {"u": rates["u"] + spread(now["u"])}, {"u": u, "v": v}, self.dt)
        return self.method(rate, {"u": spread}, {"u": u, "v": v}, self.dt)


def standing_wave(t: float) -> dict[str, np.ndarray]:
    """Exact values of the box without friction, cell by cell."""
    centre, face = ([np.pi * m * (np.arange(n) + at) / n for m, n in zip(MODE, CELLS, strict=True)] for at in (0.5, 1.0))
    steep = [2 * np.sin(0.5 * np.pi * m / n) / FREQUENCY for m, n in zip(MODE, CELLS, strict=True)]
    return {
        "p": np.cos(FREQUENCY * t) * np.outer(np.cos(centre[0]), np.cos(centre[1])),
        "v": np.sin(FREQUENCY * t) * steep[0] * np.outer(np.sin(face[0]), np.cos(centre[1])),
        "u": np.sin(FREQUENCY * t) * steep[1] * np.outer(np.cos(centre[0]), np.sin(face[1])),
    }


def order(run: Callable[[int], float]) -> float:
    """From errors after the same time in 40 and 80 steps."""
    return float(np.log2(run(40) / run(80)))


def worst(found: ds.Solution) -> float:
    wanted = standing_wave(TIME)
    return max(float(np.abs(found.final[name] - wanted[name]).max()) for name in wanted if name in found.final)


@ONE_STEP
def test_order_in_a_box_with_walls(method: Callable[..., Any]) -> None:
    still = {"b": np.zeros(CELLS)}
    observed = order(lambda n: worst(ds.Simulation(Box(method, TIME / n)).run(standing_wave(0.0) | still, n)))
    assert observed == pytest.approx(ORDERS[method], abs=0.15)


def test_order_of_two_rates_with_an_euler_step_first() -> None:
    start = {f"{name}0": values for name, values in standing_wave(0.0).items()} | {"b": np.zeros(CELLS)}
    observed = order(lambda n: worst(ds.Simulation(BoxOfRates(TIME / n)).run(start, n)))
    assert observed == pytest.approx(2, abs=0.15)


def test_order_of_the_leapfrog() -> None:
    def run(n: int) -> float:
        start = {"p": standing_wave(0.0)["p"], "p_prev": standing_wave(-TIME / n)["p"], "b": np.zeros(CELLS)}
        return float(np.abs(ds.Simulation(Membrane(TIME / n)).run(start, n).final["p"] - standing_wave(TIME)["p"]).max())

    assert order(run) == pytest.approx(2, abs=0.15)


@IMEX
def test_order_with_an_implicit_part_against_many_explicit_steps(method: Callable[..., Any]) -> None:
    rng = np.random.default_rng(1)
    start = {name: rng.uniform(0.2, 1.0, CELLS) for name in ("u", "v", "b")}
    exact = ds.Simulation(Reacting(rk4, TIME / 400)).run(start, 400).final

    def run(n: int) -> float:
        final = ds.Simulation(Reacting(method, TIME / n)).run(start, n).final
        return max(float(np.abs(final[name] - exact[name]).max()) for name in exact)

    assert order(run) == pytest.approx(IMEX_ORDERS[method], abs=0.15)


@IMEX
def test_an_implicit_part_does_not_limit_the_time_step(method: Callable[..., Any]) -> None:
    """Steps 50 times as long as an explicit method could take come to rest where the rate is zero."""
    start = {"u": np.random.default_rng(1).uniform(0.2, 1.0, CELLS), "v": np.zeros(CELLS), "b": np.full(CELLS, 49.5)}
    final = ds.Simulation(Reacting(method, 0.25)).run(start, 400).final["u"]
    later = ds.Simulation(Reacting(method, 0.25)).run(start | {"u": final}, 1).final["u"]
    assert np.abs(later - final).max() < 1e-12 and np.abs(final - 0.4).max() < 0.1


@pytest.mark.parametrize(
    "equation",
    [
        *(lambda dt, method=method: Box(method, dt) for method in ORDERS),
        *(lambda dt, method=method: Reacting(method, dt) for method in IMEX_ORDERS),
        BoxOfRates,
        Membrane,
    ],
    ids=[*(method.__name__ for method in (*ORDERS, *IMEX_ORDERS)), "adams_bashforth2", "leapfrog"],
)
def test_gradients_are_certified(equation: Callable[[float], ds.Equation]) -> None:
    simulation = ds.Simulation(equation(0.1))
    rng = np.random.default_rng(0)
    certificate = ds.certify(simulation, loss, {name: rng.uniform(0.2, 1.0, CELLS) for name in simulation.inputs}, 9)
    assert certificate.passed, str(certificate)


class Flow(ds.Equation):
    """Incompressible flow on the staggered grid, v_t = -∇·(v vᵀ) + ν ∇²v - ∇p, ∇·v = 0, on a torus or between walls without slip.

    Viscosity is implicit where the method is one of `IMEX_ORDERS`. Between walls the rate then has the pressure of the step before.
    `dt` and `nu` are parameters, by which runs are differentiated.
    """

    def __init__(self, method: Callable[..., Any], walls: bool, incremental: bool = True) -> None:
        self.grid, self.dt, self.method, self.walls, self.incremental = ds.Grid((8, 10), 0.6), 1.0, method, walls, walls and incremental
        self.open = "mirror" if walls else "periodic"
        self.states = {"v": ds.Vector("yx", ds.Dirichlet(0.0) if walls else "periodic"), "p": ds.Variable(self.open)}
        self.parameters = {"nu": ds.Variable(axes=()), "h": ds.Variable(axes=())}

    def step(self, v: Components, p: Symbol, nu: Symbol, h: Symbol) -> dict[str, Any]:
        implicit = self.method in IMEX_ORDERS

        def rate(now: Mapping[str, Any]) -> dict[str, Any]:
            u = now["v"]
            edge = interpolate(u["y"], 1) * interpolate(u["x"], 0)
            flux = {"y": (interpolate(u["y"], 0) ** 2, edge), "x": (edge, interpolate(u["x"], 1) ** 2)}
            out = u.each(lambda a: -div(flux[a]) if implicit else nu * laplacian(u[a]) - div(flux[a]))
            return {"v": out - grad(p) if self.incremental and implicit else out}

        def project(now: Mapping[str, Any], dt: Any) -> dict[str, Any]:
            q = ds.solve(laplacian, div(now["v"]) / dt, self.open)
            return {"v": now["v"] - dt * grad(q), "p": p + q if self.incremental and implicit else q}

        if implicit:
            return self.method(rate, {"v": lambda x: nu * laplacian(x)}, {"v": v}, h, project=project)
        return self.method(rate, {"v": v}, h, project=project)


class FlowOfRates(Flow):
    """The same by the rates of two steps, the first of them given."""

    def __init__(self, method: Callable[..., Any], walls: bool) -> None:
        super().__init__(method, walls)
        self.states |= {"v_rate": ds.Vector("yx", "zero")}

    def step(self, v: Components, p: Symbol, v_rate: Components, nu: Symbol, h: Symbol) -> dict[str, Any]:  # type: ignore[override]
        rates: dict[str, Any] = {}

        def method(rate: Any, state: Any, dt: Any, project: Any) -> dict[str, Any]:
            moved, now = adams_bashforth2(rate, state, {"v": v_rate}, dt, project)
            rates.update(now)
            return moved

        self.method = method
        return super().step(v, p, nu, h) | {"v_rate": rates["v"]}


def swirls(walls: bool) -> dict[str, np.ndarray]:
    """A velocity without divergence, from a stream function on the corners of cells."""
    y, x = np.meshgrid(np.linspace(0, 1, 9), np.linspace(0, 1, 11), indexing="ij")
    if walls:
        psi = (np.sin(np.pi * y) * np.sin(np.pi * x)) ** 2 * (1 + np.sin(3 * y + 5 * x))
    else:
        psi = 0.5 * (np.cos(2 * np.pi * (y + x)) + np.sin(2 * np.pi * (2 * y - x) + 0.7) + np.cos(2 * np.pi * y))
    return {"vx": np.diff(psi, axis=0)[:, 1:] / 0.6, "vy": -np.diff(psi, axis=1)[1:] / 0.6}


def outflow(found: ds.Solution, walls: bool) -> np.ndarray:
    """Flow out of each cell."""
    vx, vy = found.final["vx"], found.final["vy"]
    left, below = (0.0, 0.0) if walls else (vx[:, -1:], vy[-1:])
    return np.diff(vx, axis=1, prepend=left) + np.diff(vy, axis=0, prepend=below)


CONSTRAINED = {**ORDERS, **IMEX_ORDERS}


@pytest.mark.parametrize(("method", "walls"), [*((m, False) for m in CONSTRAINED), (ssp_rk3, True), (imex_ars222, True)])
def test_the_order_remains_where_each_state_is_projected(method: Callable[..., Any], walls: bool) -> None:
    start, end = swirls(walls) | {"nu": 0.05}, 1.0
    exact = ds.Simulation(Flow(rk4, walls), precision="f64").run(start | {"h": end / 400}, 400).final
    run = ds.Simulation(Flow(method, walls), precision="f64")

    def error(n: int) -> float:
        solution = run.run(start | {"h": end / n}, n)
        assert np.abs(outflow(solution, walls)).max() < 1e-14
        return max(float(np.abs(solution.final[name] - exact[name]).max()) for name in ("vx", "vy"))

    assert order(error) == pytest.approx(CONSTRAINED[method], abs=0.15)


def test_without_the_pressure_of_the_step_before_implicit_viscosity_between_walls_is_of_first_order() -> None:
    start, end = swirls(True) | {"nu": 0.05}, 1.0
    exact = ds.Simulation(Flow(rk4, True), precision="f64").run(start | {"h": end / 400}, 400).final["vx"]
    run = ds.Simulation(Flow(imex_ars222, True, incremental=False), precision="f64")
    assert order(lambda n: float(np.abs(run.run(start | {"h": end / n}, n).final["vx"] - exact).max())) == pytest.approx(1, abs=0.15)


def test_the_order_of_two_rates_where_each_state_is_projected() -> None:
    """The first step is Euler's: the rate before it, which does not include the pressure, is close to the first one."""
    start, end = swirls(False) | {"nu": 0.05}, 1.0
    exact = ds.Simulation(Flow(rk4, False), precision="f64").run(start | {"h": end / 400}, 400).final["vx"]
    run = ds.Simulation(FlowOfRates(adams_bashforth2, False), precision="f64")

    def error(n: int) -> float:
        rates = run.run(start | {"h": 1e-12}, 1).final
        first = {name: np.asarray(rates[name]) for name in ("v_rate_x", "v_rate_y")}
        solution = run.run(start | first | {"h": end / n}, n)
        assert np.abs(outflow(solution, False)).max() < 1e-14
        return float(np.abs(solution.final["vx"] - exact).max())

    assert order(error) == pytest.approx(2, abs=0.15)


PROJECTED = {name: one for name, one in TABLEAUX.items() if one.stages < 6}  # the others are long to compile, and explicit as rk4


class Pushed(ds.Equation):
    """v_t = φ_x on a ring, which a projection takes back to v_x = 0: its pressure is φ, by each method that has projections."""

    def __init__(self) -> None:
        self.grid, self.dt = ds.Grid((6,), 1.0), 0.01
        self.states = {"v": ds.Variable("periodic", (1,))} | {name: ds.Variable("periodic") for name in PROJECTED}
        self.parameters = {"phi": ds.Variable("periodic")}

    def step(self, v: Symbol, phi: Symbol, **pressures: Symbol) -> dict[str, Symbol]:
        def project(now: Mapping[str, Any], dt: Any) -> dict[str, Any]:
            q = ds.solve(lambda q: laplacian(q) - 1e-9 * q, diff(now["v"], 0) / dt, boundary=phi)
            return {"v": now["v"] - dt * diff(q, 0), "p": q}

        def rate(now: Mapping[str, Any]) -> dict[str, Any]:
            return {"v": diff(phi, 0)}

        out = {}
        for name, tableau in PROJECTED.items():
            method = getattr(integrators, name)
            parts = [{"v": laplacian}] if tableau.implicit else [{"v": -1.0}] if tableau.exponential else []
            out[name] = method(rate, *parts, {"v": v}, self.dt, project=project)["p"]
        return {"v": v} | out


def test_the_pressure_of_the_last_projection_is_that_of_the_rates() -> None:
    """The rates act for dt, also where the last system of an implicit method is one of a part of it."""
    phi = np.array([0.3, -1.0, 0.2, 0.9, 0.4, -0.8])
    final = ds.Simulation(Pushed(), wrt=[], precision="f64").run({"phi": phi}, steps=1).final
    for name in PROJECTED:
        np.testing.assert_allclose(final[name], phi, atol=0.04, err_msg=name)  # of the part that damps, 4 dt at most


@pytest.mark.gradients
@pytest.mark.parametrize(("method", "walls"), sampled([(imex_ars222, True), (ssp_rk3, False), (rk4, True)]))
def test_gradients_of_projected_states_are_certified(method: Callable[..., Any], walls: bool) -> None:
    """For the velocity, the viscosity and the time step."""
    simulation = ds.Simulation(Flow(method, walls), precision="f64")
    point = swirls(walls) | {"p": np.zeros((8, 10)), "nu": 0.05, "h": 0.1}
    certificate = ds.certify(simulation, loss, point, 3)
    assert certificate.verdict != "fail", str(certificate)
    _, gradient = simulation.value_and_grad(lambda found: (found.final["vx"] ** 3).sum(), point, 3)
    assert gradient["h"] and gradient["nu"]


class Reaction(ds.Equation):
    """u_t = sin(u): each evaluation of the rate leaves one sine."""

    def __init__(self, method: Callable[..., Any]) -> None:
        self.grid, self.dt, self.method = ds.Grid((4, 5), 1.0), 0.1, method
        self.states = {"u": ds.Variable(("periodic", "mirror"))}

    def step(self, u: Symbol) -> dict[str, Symbol]:
        return self.method(lambda now: {"u": sin(now["u"])}, {"u": u}, self.dt)


def traced(equation: ds.Equation) -> TracedStep:
    return trace_step(equation, trace_coefficients(equation).placed)


@ONE_STEP
def test_a_rate_is_evaluated_once_a_stage_and_stages_have_the_rules_of_the_state(method: Callable[..., Any]) -> None:
    step = traced(Reaction(method))
    bodies = [step.outputs["u"], *(stage.node for stage in step.stages)]
    assert [sum(node.op == "sin" for node in ordered([body])) for body in bodies] == [1] * (STAGES[method] + 1)
    assert [stage.rules for stage in step.stages] == [step.states["u"].rules] * STAGES[method]


@pytest.mark.parametrize("clock", [False, True])
def test_fields_that_a_projection_leaves_are_stored_once(clock: bool) -> None:
    """A copy of p and of both components of v would cost memory and time at each stage."""

    class Partly(ds.Equation):
        def __init__(self) -> None:
            self.grid, self.dt = ds.Grid((4, 4), 1.0), 0.1
            self.states = {"p": ds.Variable("periodic"), "q": ds.Variable("periodic"), "v": ds.Vector("yx", "periodic")}

        def step(self, p: Symbol, q: Symbol, v: Components, t: Symbol) -> dict[str, Any]:
            def rate(now: Mapping[str, Any]) -> dict[str, Any]:
                return {"p": sin(now["p"]), "q": sin(now["q"]), "v": now["v"].each(lambda a: laplacian(now["v"][a]))}

            def project(now: Mapping[str, Any], dt: Any) -> dict[str, Any]:
                return {**now, "q": expr.maximum(now["q"], t if clock else 0.0)}

            return rk4(rate, {"p": p, "q": q, "v": v}, self.dt, project)

    free, again = 4, 1  # components of the state, and of those that the projection changes
    assert len(traced(Partly()).stages) == STAGES[rk4] * (free + again) + free


def test_the_previous_state_of_a_leapfrog_takes_no_memory() -> None:
    assert traced(Membrane(0.1)).delays() == {"p": ("p", 0), "p_prev": ("p", 1)}


WRONG: dict[str, tuple[Callable[[Symbol], Any], str]] = {
    "another name": (
        lambda u: rk4(lambda now: {"v": now["u"]}, {"u": u}, 0.1),
        "the rate has entries v, expected .* each field of the state: u",
    ),
    "too few": (lambda u: euler(lambda now: {}, {"u": u}, 0.1), "the rate has entries , expected a dict"),
    "no dict": (lambda u: ssp_rk3(lambda now: now["u"], {"u": u}, 0.1), "the rate has a Symbol, expected a dict"),
    "no state": (lambda u: euler(lambda now: now, u, 0.1), "state = one field, expected a dict of fields.*take \\['u'\\] of the result"),  # type: ignore[arg-type]
    "other previous": (lambda u: leapfrog(lambda now: now, {"u": u}, {"u_prev": u}, 0.1), "previous has entries u_prev"),
    "other rates": (lambda u: adams_bashforth2(lambda now: now, {"u": u}, {}, 0.1)[0], "previous_rate has entries , expected"),
    "operators": (
        lambda u: imex_euler(lambda now: now, laplacian, {"u": u}, 0.1),
        "operators = <function laplacian>, expected a dict of linear",
    ),
    "no operators": (lambda u: imex_ars222(lambda now: now, {}, {"u": u}, 0.1), "operators = {}, expected a dict of linear"),
    "an operator": (lambda u: imex_euler(lambda now: now, {"u": laplacian(u)}, {"u": u}, 0.1), "operators of u = no function"),  # type: ignore[dict-item]
    "other operators": (lambda u: imex_ars222(lambda now: now, {"v": laplacian}, {"u": u}, 0.1), "operators has entries v, expected .* u;"),
    "not linear": (lambda u: imex_euler(lambda now: now, {"u": sin}, {"u": u}, 0.1), "not linear"),
    "projected": (
        lambda u: ssp_rk3(lambda now: now, {"u": u}, 0.1, project=lambda now, dt: {"p": now["u"]}),
        "the projected state has entries p, expected .* each field of the state: u",
    ),
    "no projected": (lambda u: euler(lambda now: now, {"u": u}, 0.1, lambda now, dt: None), "the projected state has a NoneType"),
    "an expression": (lambda u: ssp_rk2(lambda now: now, {"u": 2 * u}, 0.1), "boundary = an expression, expected a rule, or a state"),
    "a neighbour": (lambda u: ssp_rk2(lambda now: now, {"u": u.shifted(0, 1)}, 0.1), "boundary = an expression"),
}


@pytest.mark.parametrize("call", WRONG)
def test_wrong_arguments(call: str) -> None:
    function, message = WRONG[call]
    with pytest.raises(TraceError, match=message):
        traced(Reaction(lambda rate, state, dt: function(state["u"])))


def test_a_projection_that_is_no_function() -> None:
    with pytest.raises(ParameterError, match="project = 'divergence', expected a function"):
        traced(Reaction(lambda rate, state, dt: euler(rate, state, dt, project="divergence")))  # type: ignore[arg-type]


def test_a_stage_takes_the_rules_of_a_stage() -> None:
    def twice(rate: object, state: dict[str, Symbol], dt: float) -> dict[str, Symbol]:
        first = ds.stage(2 * state["u"], boundary=state["u"])
        return {"u": ds.stage(first + 1, boundary=first)}

    step = traced(Reaction(twice))
    assert [stage.rules for stage in step.stages] == [step.states["u"].rules] * 2


class Rod(ds.Equation):
    """A weight on a rod of length 1, by a rate that has its tension; each state is projected, or the result of the method alone."""

    def __init__(self, method: Callable[..., Any], dt: float, each: bool) -> None:
        self.states = {name: ds.Variable() for name in "xyuv"}
        self.grid, self.dt, self.method, self.each = ds.Grid((1,), 1.0), dt, method, each

    def step(self, x: Any, y: Any, u: Any, v: Any) -> dict[str, Any]:
        def rate(now: Mapping[str, Any]) -> dict[str, Any]:
            x, y, u, v = (now[name] for name in "xyuv")
            tension = (u**2 + v**2 - 9.81 * y) / (x**2 + y**2)
            return {"x": u, "y": v, "u": -tension * x, "v": -9.81 - tension * y}

        def project(now: Mapping[str, Any], dt: Any) -> dict[str, Any]:
            x, y, u, v = (now[name] for name in "xyuv")
            square = x**2 + y**2
            along = (x * u + y * v) / square
            return {"x": x / square**0.5, "y": y / square**0.5, "u": u - along * x, "v": v - along * y}

        state = {"x": x, "y": y, "u": u, "v": v}
        if self.each:
            return dict(self.method(rate, state, self.dt, project=project))
        return project({name: ds.stage(each) for name, each in self.method(rate, state, self.dt).items()}, self.dt)


@pytest.mark.parametrize("method", [ssp_rk3, rk4], ids=lambda f: f.__name__)
def test_a_curved_constraint_keeps_the_order_where_the_result_alone_is_projected(method: Callable[..., Any]) -> None:
    """docs/integrators.md says both: projected stages leave order 2."""

    def after(rods: int, method: Callable[..., Any], each: bool) -> Any:
        return ds.Simulation(Rod(method, 1 / rods, each), precision="f64").run({"x": [1.0]}, rods).final

    exact = after(2000, rk4, False)["x"][0]
    for each, order in ((True, 2), (False, ORDERS[method])):
        errors = [abs(after(steps, method, each)["x"][0] - exact) for steps in (100, 200)]
        assert math.log2(errors[0] / errors[1]) == pytest.approx(order, abs=0.2)
    final = after(50, method, False)
    np.testing.assert_allclose(final["x"] ** 2 + final["y"] ** 2, 1.0, rtol=1e-15)
    np.testing.assert_allclose(final["x"] * final["u"] + final["y"] * final["v"], 0.0, atol=1e-14)
