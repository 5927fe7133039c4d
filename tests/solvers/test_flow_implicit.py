"""Incompressible flow by "imex2": order in time beyond the explicit limit, steady flows, one step by NumPy, and limits."""

from __future__ import annotations

import functools
import re
from typing import Any

import numpy as np
import pytest

import diffsim as ds
from diffsim.errors import ParameterError, StabilityError
from diffsim.expr.weights import centred
from diffsim.integrators import IMPLICIT_SHARE, TABLEAUX
from diffsim.solvers import NavierStokes
from diffsim.solvers.parts.stability import check_flow
from tests.solvers.test_navier_stokes import TAU, vortices

Fields = dict[str, Any]
ROUND_OFF = 1e-12
"""The error of one step of velocities and pressures near 1."""
IN_TIME = 1e-3
"""The errors of 20 steps of "imex2" are below this. Second differences of order 2 in place of 4 change values by 4e-3."""
CAVITY = (("no_slip", "moving"), "no_slip")


def simulation(grid: ds.Grid, sides: Any, **options: Any) -> ds.Simulation:
    """Steps of 1 s. Those of dt seconds are these with velocities and viscosity times dt, and so need no other kernel."""
    return ds.Simulation(NavierStokes(grid, 1.0, sides, method="imex2", **options), wrt=[], precision="f64")


@functools.cache
def cavity() -> ds.Simulation:
    return simulation(ds.Grid((24, 24), 1 / 24), CAVITY)


def after(flow: ds.Simulation, inputs: Fields, end: float, steps: int) -> Fields:
    """The flow after some seconds, pressure and velocities."""
    dt = end / steps
    scales = {name: dt**2 if name == "p" else dt for name in inputs}
    final = flow.run({name: scales[name] * np.asarray(value) for name, value in inputs.items()}, steps).final
    return {name: final[name] / (dt**2 if name == "p" else dt) for name in ("u", "v", "p")}


def explicit_limit(grid: ds.Grid, nu: float) -> float:
    """The largest stable step of "rk3"."""
    return 2.51 / (nu * sum(4 / h**2 for h in grid.spacing))


def eddy(n: int) -> Fields:
    """A flow in a square of 1 m that rests on its walls, without divergence."""
    corners = np.sin(np.pi * np.arange(n + 1) / n) ** 2
    stream = np.outer(corners, corners)
    return {"u": np.diff(stream, axis=0)[:, 1:] * n, "v": -np.diff(stream, axis=1)[1:] * n}


def swirl(grid: ds.Grid) -> Fields:
    """Vortices of Taylor and Green with waves beside them, so that the flow is no exact one."""
    y, x = (grid.coordinates(k) for k in (0, 1))
    start = vortices(grid)
    return {"u": start["u"] + 0.3 * np.sin(2 * y)[:, None], "v": start["v"] + 0.2 * np.cos(x)}


CASES: dict[str, tuple[Any, float, Fields]] = {
    "lid": (CAVITY, 0.05, {"u_high_y": 0.2}),
    "outlet": (("no_slip", ("inflow", "outflow")), 1.0, {"inflow": 1.2 * (np.arange(24) + 0.5) / 24 * (1 - (np.arange(24) + 0.5) / 24)}),
    "periodic": ("periodic", 0.5, {}),
}


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_velocity_is_of_second_order_with_steps_of_twenty_explicit_ones(case: str) -> None:
    sides, nu, more = CASES[case]
    grid = ds.Grid((48, 48), TAU / 48) if case == "periodic" else ds.Grid((24, 24), 1 / 24)
    flow, end = cavity() if case == "lid" else simulation(grid, sides), 16 * 20 * explicit_limit(grid, nu)
    start = (swirl(grid) if case == "periodic" else eddy(24)) | more | {"nu": nu}
    if case != "periodic":
        start |= after(flow, start, 0.1 * end, 32)  # what jumps at corners has had time
    reference = after(flow, start, end, 256)
    finals = [after(flow, start, end, steps) for steps in (16, 32)]
    coarse, fine = (max(np.sqrt(np.mean((final[name] - reference[name]) ** 2)) for name in "uv") for final in finals)
    assert np.log2(coarse / fine) > 1.9, (coarse, fine)
    assert fine < 0.02 * np.abs(reference["u"]).max(), (coarse, fine)


@pytest.mark.slow
def test_pressure_is_that_of_the_middle_of_the_step() -> None:
    """There it is of second order, at the end of the step of first."""
    grid, nu = ds.Grid((32, 32), 1 / 32), 0.05
    flow, end, start = simulation(grid, CAVITY), 320 * explicit_limit(grid, nu), eddy(32) | {"nu": nu, "u_high_y": 0.2}
    start |= after(flow, start, 0.1 * end, 64)
    errors = []
    for steps in (16, 32):
        middle = 1024 - 512 // steps  # the mean of the pressures of these two steps is that at the end of the first
        around = [after(flow, start, middle_end * end / 1024, middle_end)["p"] for middle_end in (middle, middle + 1)]
        errors.append(np.sqrt(np.mean((after(flow, start, end, steps)["p"] - 0.5 * (around[0] + around[1])) ** 2)))
    assert np.log2(errors[0] / errors[1]) > 1.8, errors


def test_a_wall_that_oscillates() -> None:
    """Stokes' second problem, of second order with the values of the middle of each step, of first with those of its end."""
    n, nu, rate = 20, 0.3, TAU
    grid = ds.Grid((n, 3), (1 / n, 1.0))
    matrix = np.diag(np.full(n - 1, 1.0), 1) + np.diag(np.full(n - 1, 1.0), -1) - np.diag([3.0, *(2.0,) * (n - 2), 3.0])
    mode = np.linalg.solve(1j * rate * np.eye(n) - nu * n**2 * matrix, np.r_[np.zeros(n - 1), 2 * nu * n**2])
    flow = simulation(grid, (("no_slip", "moving"), "periodic"), series=("u_high_y",))
    errors: dict[float, list[float]] = {}
    for when in (0.5, 1.0):
        for steps in (8, 16, 32):  # of one period
            lid = np.cos(rate * (np.arange(steps) + when) / steps) / steps
            inputs = {"nu": nu / steps, "u": np.repeat(mode.real[:, None], 3, 1) / steps, "u_high_y": lid}
            final = flow.run(inputs, steps).final["u"][:, 0] * steps
            errors.setdefault(when, []).append(float(np.sqrt(np.mean((final - mode.real) ** 2))))
    assert 20 * explicit_limit(grid, nu) < 1 / 8
    order = {when: np.log2(errors[when][1] / errors[when][2]) for when in errors}
    assert order[0.5] > 1.9 and order[1.0] < 1.1 and errors[0.5][0] < 7e-3, (order, errors)


def in_cavity(u: np.ndarray, v: np.ndarray, lid: float, h: float) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """∇²v and ∇·(v vᵀ) on the faces inside of a cavity, of velocities on all faces."""
    around_u = np.vstack([-u[:1], u, 2 * lid - u[-1:]])
    around_v = np.hstack([-v[:, :1], v, -v[:, -1:]])
    corner = 0.25 * (around_u[1:] + around_u[:-1]) * (around_v[:, 1:] + around_v[:, :-1])
    centre_u, centre_v = 0.25 * (u[:, 1:] + u[:, :-1]) ** 2, 0.25 * (v[1:] + v[:-1]) ** 2
    spread_u = (np.diff(around_u[1:-1], 2, 1) + np.diff(around_u, 2, 0)[:, 1:-1]) / h**2
    spread_v = (np.diff(around_v[:, 1:-1], 2, 0) + np.diff(around_v, 2, 1)[1:-1]) / h**2
    flux_u = (np.diff(centre_u, 1, 1) + np.diff(corner, 1, 0)[:, 1:-1]) / h
    flux_v = (np.diff(centre_v, 1, 0) + np.diff(corner, 1, 1)[1:-1]) / h
    return [spread_u, spread_v], [flux_u, flux_v]


def dense(linear: Any, shape: tuple[int, ...]) -> np.ndarray:
    """The matrix of a linear function of a field."""
    return np.stack([linear(unit.reshape(shape)).ravel() for unit in np.eye(int(np.prod(shape)))], 1)


def test_one_step_is_that_of_dense_matrices() -> None:
    """The two stages of ARS(2,2,2) with the pressure correction in rotational form, from random velocities and a random pressure."""
    (rows, columns), h, dt, nu, lid, g = (4, 5), 0.25, 0.1, 0.7, 0.6, IMPLICIT_SHARE
    grid, d = ds.Grid((rows, columns), h), 1 - 1 / (2 * IMPLICIT_SHARE)
    rng = np.random.default_rng(5)
    shapes = (rows, columns - 1), (rows - 1, columns)
    start, p = [rng.normal(size=shape) for shape in shapes], rng.normal(size=grid.shape)

    def on_faces(inner: list[np.ndarray]) -> list[np.ndarray]:
        return [np.pad(inner[0], ((0, 0), (1, 1))), np.pad(inner[1], ((1, 1), (0, 0)))]

    def slopes(q: np.ndarray) -> list[np.ndarray]:
        return [np.diff(q, 1, 1) / h, np.diff(q, 1, 0) / h]

    def divergence(inner: list[np.ndarray]) -> np.ndarray:
        u, v = on_faces(inner)
        return (np.diff(u, 1, 1) + np.diff(v, 1, 0)) / h

    def rates(inner: list[np.ndarray]) -> list[np.ndarray]:
        return [-flux - slope for flux, slope in zip(in_cavity(*on_faces(inner), lid, h)[1], slopes(p), strict=True)]

    def spread(inner: list[np.ndarray], speed: float) -> list[np.ndarray]:
        return [nu * part for part in in_cavity(*on_faces(inner), speed, h)[0]]

    def implicit(right: list[np.ndarray]) -> list[np.ndarray]:
        out, of_lid = [], spread([np.zeros(shape) for shape in shapes], lid)
        for k, shape in enumerate(shapes):
            friction = dense(lambda x, k=k: spread([x if j == k else np.zeros(shapes[j]) for j in (0, 1)], 0.0)[k], shape)
            side = right[k] + g * dt * of_lid[k]
            out.append(np.linalg.solve(np.eye(side.size) - g * dt * friction, side.ravel()).reshape(shape))
        return out

    def project(inner: list[np.ndarray], time: float) -> tuple[list[np.ndarray], np.ndarray]:
        source = divergence(inner) / time
        poisson = np.linalg.pinv(dense(lambda q: divergence(slopes(q)), grid.shape))
        q = (poisson @ source.ravel()).reshape(grid.shape)
        return [x - time * slope for x, slope in zip(inner, slopes(q), strict=True)], p + q - g * dt * nu * source

    before = rates(start)
    first = implicit([x + g * dt * f for x, f in zip(start, before, strict=True)])
    middle = rates(project(first, g * dt)[0])
    last = [
        x + dt * (d * f + (1 - d) * between) + (1 - g) * dt * friction
        for x, f, between, friction in zip(start, before, middle, spread(first, lid), strict=True)
    ]
    (u, v), pressure = project(implicit(last), dt)
    inputs = {"nu": nu, "u_high_y": lid, "u": on_faces(start)[0][:, 1:], "v": on_faces(start)[1][1:], "p": p}
    final = ds.Simulation(NavierStokes(grid, dt, CAVITY, method="imex2"), wrt=[], precision="f64").run(inputs, 1).final
    np.testing.assert_allclose(final["u"][:, :-1], u, atol=ROUND_OFF)
    np.testing.assert_allclose(final["v"][:-1], v, atol=ROUND_OFF)
    np.testing.assert_allclose(final["p"] - final["p"].mean(), pressure - pressure.mean(), atol=20 * ROUND_OFF)


def test_a_steady_cavity_balances_in_every_cell() -> None:
    """Re = 1 and 20 times the explicit step: what is left of ν ∇²v - ∇·(v vᵀ) - ∇p, by NumPy."""
    n, lid, h = 24, 1.0, 1 / 24
    final = after(cavity(), {"nu": 1.0, "u_high_y": lid}, 120 * 20 * explicit_limit(ds.Grid((n, n), h), 1.0), 120)
    left = np.zeros((n, 1))
    u, v, p = np.hstack([left, final["u"]]), np.vstack([left.T, final["v"]]), final["p"]  # all faces
    (spread_u, spread_v), (flux_u, flux_v) = in_cavity(u, v, lid, h)
    rest_u, rest_v = spread_u - flux_u - np.diff(p, 1, 1) / h, spread_v - flux_v - np.diff(p, 1, 0) / h
    assert max(np.abs(rest_u).max(), np.abs(rest_v).max()) < 1e-8 * np.abs(np.diff(p)).max() / h
    assert np.abs(np.diff(u, 1, 1) + np.diff(v, 1, 0)).max() < 1e-12 and u.min() < -0.15


@pytest.mark.slow
@pytest.mark.parametrize("order", [2, 4, 6])
def test_waves_decay_by_the_factor_of_the_method(order: Any) -> None:
    """A shear flow and a scalar beside it, which the flow does not change, with the eigenvalue of the second difference of this order."""
    n, dt, nu, kappa, steps = 12, 1.0, 0.3, 0.2, 3
    grid = ds.Grid((n, n), TAU / n)
    shear, waves = (np.cos(k * grid.coordinates(0))[:, None] * np.ones(n) for k in (2, 3))
    flow = ds.Simulation(NavierStokes(grid, dt, order=order, method="imex2", scalars=("T",)), wrt=[], precision="f64")
    final = flow.run({"nu": nu, "kappa_T": kappa, "u": shear, "T": waves}, steps).final
    for name, start, k, coefficient in (("u", shear, 2, nu), ("T", waves, 3, kappa)):
        shifts = np.arange(-(order // 2), order // 2 + 1)
        eigenvalue = float(np.cos(k * shifts * TAU / n) @ centred(2, order)) / (TAU / n) ** 2
        factor = TABLEAUX["imex_ars222"].growth(0.0, dt * coefficient * eigenvalue)
        np.testing.assert_allclose(final[name], start * factor**steps, atol=ROUND_OFF)


CARRIED: dict[str, tuple[Any, int, Fields]] = {
    "order 2, walls": ("no_slip", 2, {"T": (ds.Neumann(0.0), (ds.Dirichlet("hot"), ds.Dirichlet(0.0)))}),
    "order 4": ("periodic", 4, {"T": "periodic"}),
    "order 6": ("periodic", 6, {"T": "periodic"}),
}


@pytest.mark.slow
@pytest.mark.parametrize("case", CARRIED)
def test_flow_and_scalars_are_those_of_an_explicit_method(case: str) -> None:
    """Short steps from a flow without divergence, with a scalar of two waves that moves it."""
    sides, order, scalars = CARRIED[case]
    n, dt, steps = 12, 0.02, 20
    grid = ds.Grid((n, n), TAU / n)
    waves = np.cos(2 * grid.coordinates(0))[:, None] + np.sin(2 * grid.coordinates(1))
    inputs = (swirl(grid) if sides == "periodic" else {name: 0.3 * part for name, part in eddy(n).items()}) | {
        "nu": 0.1,
        "kappa_T": 0.2,
        "beta_T": 0.3,
        "T": waves,
    }
    if "hot" in str(scalars):
        inputs["hot"] = np.linspace(0.5, 1.5, n)
    finals = []
    for method in ("imex2", "rk3"):
        equation = NavierStokes(grid, dt, sides, order, method, scalars=scalars, gravity=(-1.0, 0.0))  # type: ignore[arg-type]
        finals.append(ds.Simulation(equation, wrt=[], precision="f64").run(inputs, steps).final)
    for name in ("u", "v", "T"):
        np.testing.assert_allclose(finals[0][name], finals[1][name], atol=IN_TIME, err_msg=name)
        assert np.abs(finals[0][name] - inputs[name]).max() > 50 * IN_TIME


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"sides": ("slip", ("open", "inflow"))}, "method = 'imex2' with 'open' on the low side of x, expected .* take 'rk3'"),
        ({"sides": "slip", "bodies": "fixed"}, "method = 'imex2' with bodies = 'fixed', expected"),
        ({"viscosity": "smagorinsky"}, "method = 'imex2' with viscosity = 'smagorinsky', expected .* a constant viscosity"),
    ],
)
def test_what_it_does_not_solve_is_refused(options: Any, message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        NavierStokes(ds.Grid((6, 7), 1.0), 0.1, method="imex2", **options)


def test_limits_of_the_flow_are_those_of_the_docstring() -> None:
    """Rounded down to two digits."""
    text = " ".join((NavierStokes.__doc__ or "").split())
    table = re.search(r"There dt Σ \|v\|/dx <= ([^w]*) where ν / \(\|v\| dx\) is ([^w]*), with", text)
    assert table is not None
    limits, ratios = (list(map(float, re.findall(r"\d+(?:\.\d+)?", part))) for part in table.groups())
    assert len(limits) == len(ratios) == 6
    for ratio, limit in zip(ratios, limits, strict=True):
        with pytest.raises(StabilityError) as raised:
            check_flow(100.0, TABLEAUX["imex_ars222"].growth, 1.0, ratio, 1.0, "inflow")
        assert raised.value.limit is not None
        assert limit <= raised.value.limit < limit + 0.01, ratio


def test_a_scalar_with_less_diffusion_than_the_fluid_limits_the_step() -> None:
    """The fluid alone would allow the step."""
    h, nu, sides = 0.1, 0.05, ("slip", ("inflow", "open"))
    flow = NavierStokes(ds.Grid((6, 8), h), 2.0 * h, sides, method="imex2", scalars=("T", "c"))
    inputs = {name: np.asarray(value) for name, value in {"nu": nu, "kappa_T": nu, "kappa_c": nu, "inflow": np.ones(6)}.items()}
    flow.check(inputs)
    with pytest.raises(StabilityError, match=r"for inflow of 1 m/s, kappa_c = 0.005 m²/s, dx = 0.1 m; lower dt"):
        flow.check(inputs | {"kappa_c": np.asarray(0.1 * nu), "kappa_T": np.asarray(0.2 * nu)})


@pytest.mark.slow
@pytest.mark.parametrize("nu", [0.002, 0.02, 0.2])
def test_waves_grow_beyond_the_limit_of_an_inlet(nu: float) -> None:
    """In a uniform flow of 1 m/s. At 0.9 of the limit they grow by less than a percent a step, at 1.15 of it by more."""
    grid = ds.Grid((4, 64), 0.1)
    with pytest.raises(StabilityError, match=r"the stable .* for inflow of 1 m/s") as raised:
        check_flow(10.0, TABLEAUX["imex_ars222"].growth, 1.0, nu, 0.1, "inflow")
    limit = raised.value.limit
    assert limit is not None
    noise = np.tile(np.random.default_rng(0).normal(size=64), (4, 1))
    for share, grows in ((0.9, False), (1.15, True)):
        flow = ds.Simulation(NavierStokes(grid, share * limit, method="imex2"), wrt=[], precision="f64")
        sizes = [np.abs(flow.run({"nu": nu, "u": np.ones(grid.shape), "v": noise}, steps).final["v"]).max() for steps in (60, 80)]
        assert (sizes[1] > 1.01**20 * sizes[0]) == grows, (share, sizes)
