"""Incompressible flow: exact flows, orders, conservation, an independent NumPy version, the cavity of Ghia et al., and the gradient."""

from __future__ import annotations

import itertools
import runpy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import diffsim as ds
from diffsim.errors import DivergenceError, ParameterError, StabilityError
from diffsim.solvers import NavierStokes
from tests.sampled import sampled

Fields = dict[str, Any]
TAU = 2 * np.pi


def box(n: int, ndim: int = 2) -> ds.Grid:
    """A periodic box of side 2π."""
    return ds.Grid((n,) * ndim, TAU / n)


def run(equation: NavierStokes, inputs: Fields, steps: int) -> Fields:
    return ds.Simulation(equation, wrt=[], precision="f64").run(inputs, steps).final


def faces(grid: ds.Grid, axis: int) -> list[np.ndarray]:
    """Coordinates of the upper faces across an axis, for broadcasting."""
    return list(np.meshgrid(*(grid.coordinates(k, int(k == axis)) for k in range(grid.ndim)), indexing="ij", sparse=True))


def vortices(grid: ds.Grid) -> Fields:
    """The flow of Taylor and Green in two dimensions, which decays as exp(-2 nu t)."""
    (y, x), (yv, xv) = faces(grid, 1), faces(grid, 0)
    return {"u": np.sin(x) * np.cos(y), "v": -np.cos(xv) * np.sin(yv)}


def whirl(grid: ds.Grid, seed: int) -> Fields:
    """Random velocities of a few wave lengths."""
    rng = np.random.default_rng(seed)
    fields = {}
    for axis, name in zip(range(grid.ndim)[::-1], "uvw", strict=False):
        where = faces(grid, axis)
        waves = [(rng.integers(-2, 3, grid.ndim), rng.normal(), rng.uniform(0, TAU)) for _ in range(6)]
        fields[name] = sum(a * np.sin(sum(k * x for k, x in zip(wave, where, strict=True)) + phase) for wave, a, phase in waves)
        fields[name] = np.broadcast_to(fields[name], grid.shape).copy()
    return fields


def projected(grid: ds.Grid, start: Fields, order: Any = 2) -> Fields:
    """The velocities without their divergence: those after a very short step."""
    final = run(NavierStokes(grid, 1e-12, order=order, method="rk2"), start | {"nu": 0.0}, 1)
    return {name: final[name] for name in start}


@pytest.mark.slow
@pytest.mark.parametrize(("order", "sizes", "error"), [(2, (16, 32), 2e-4), (4, (12, 24), 4e-6), (6, (12, 24), 4e-8)])
def test_taylor_green_vortices_decay_by_the_order_of_the_differences(order: Any, sizes: tuple[int, int], error: float) -> None:
    errors = []
    for n in sizes:
        start = vortices(box(n))
        method: Any = "rk3" if order == 6 else "rk2"  # so that the error in time is small beside that in space
        final = run(NavierStokes(box(n), 0.01, order=order, method=method), start | {"nu": 0.05}, 50)
        errors.append(max(np.abs(final[name] - start[name] * np.exp(-2 * 0.05 * 0.5)).max() for name in "uv"))
        assert abs(final["p"] - final["p"].mean()).max() == pytest.approx(0.5 * np.exp(-4 * 0.05 * 0.5), rel=0.06)
    assert np.log2(errors[0] / errors[1]) == pytest.approx(order, abs=0.1) and errors[1] < error


@pytest.mark.slow
@pytest.mark.parametrize(("method", "order"), [("rk3", 3), ("rk2", 2), ("rk4", 4)])
def test_the_order_in_time_is_that_of_the_method(method: Any, order: int) -> None:
    grid = box(12)
    start = projected(grid, whirl(grid, 3)) | {"nu": 0.02}
    counts = (8, 16, 32)
    finals = [run(NavierStokes(grid, 0.4 / n, method=method), start, n)["u"] for n in counts]
    change = [np.abs(a - b).max() for a, b in itertools.pairwise(finals)]
    assert np.log2(change[0] / change[1]) == pytest.approx(order, abs=0.3)


@pytest.mark.slow
@pytest.mark.parametrize(("ndim", "order"), [(2, 2), (2, 4), (3, 2), (2, 6)])
def test_momentum_and_energy_are_kept_without_viscosity(ndim: int, order: Any) -> None:
    """The energy changes by the error of the method in time alone, which falls by 2³ with half the step."""
    grid = box(8, ndim)
    start = projected(grid, whirl(grid, 5), order)
    names = "uvw"[:ndim]
    changes = []
    for steps in (20, 40):
        final = run(NavierStokes(grid, 0.2 / steps, order=order, method="rk2"), {n: start[n] for n in names} | {"nu": 0.0}, steps)
        for name in names:
            assert final[name].mean() == pytest.approx(start[name].mean(), abs=1e-13)
        energy = [sum(float((field[name] ** 2).sum()) for name in names) for field in (start, final)]
        changes.append(abs(energy[1] / energy[0] - 1))
    assert changes[1] < 1e-5 and changes[0] / changes[1] > 6, changes


EXCHANGES: dict[int, dict[int, dict[int, float]]] = {
    2: {1: {1: 1 / 2}},
    4: {1: {1: 27 / 40, -1: 3 / 80, 3: 3 / 80}, 2: {1: -3 / 40, 3: -3 / 40}, 3: {3: 1 / 60}},
    6: {
        1: {1: 87 / 128, -1: 9 / 256, 3: 9 / 256},
        2: {1: -9 / 128, 3: -9 / 128, -1: -3 / 640, 5: -3 / 640},
        3: {3: 1 / 384, 1: 9 / 1280, 5: 9 / 1280},
    },
}
"""By order and distance in cells of an exchange: the weights of the velocities n half cells from its first place."""


@pytest.mark.parametrize("order", [2, 4, 6])
def test_weights_of_exchanges_have_their_order_and_keep_energy_where_the_divergence_is_none(order: int) -> None:
    """The sum over j of c_ij s_j for waves of velocity and of the carried amount is that of (∂(U s) + U ∂s) / 2 up to the error of the
    order, and the sum of c_ij is half the difference that gives the divergence. The solver's weights are compared by `roll_step`."""

    def term(p: np.ndarray, q: np.ndarray) -> np.ndarray:
        pairs = [(cells, n / 2, w) for cells, between in EXCHANGES[order].items() for n, w in between.items()]
        return sum(2 * w * np.sin(where * p + cells * q) for cells, where, w in pairs)

    p, q = np.random.default_rng(0).uniform(-1, 1, (2, 50))
    small, large = (np.abs(term(size * p, size * q) - size * (p / 2 + q)).max() for size in (0.05, 0.1))
    assert np.log2(large / small) == pytest.approx(order + 1, abs=0.05)
    weights = {2: [1.0], 4: [9 / 8, -1 / 24], 6: [75 / 64, -25 / 384, 3 / 640]}[order]
    np.testing.assert_allclose(term(p, 0 * q), sum(w * np.sin((2 * n + 1) * p / 2) for n, w in enumerate(weights)), atol=1e-15)
    if order == 4:  # of sixth order in a uniform flow
        small, large = (np.abs(term(0 * p, size * q) - size * q).max() for size in (0.2, 0.4))
        assert np.log2(large / small) == pytest.approx(7, abs=0.05)


def roll_step(u: np.ndarray, v: np.ndarray, nu: float, dt: float, h: float, order: int) -> tuple[np.ndarray, np.ndarray]:
    """Heun's step in a periodic box by NumPy: shifts of whole arrays, and the pressure by Fourier series."""
    weights = {2: [1.0], 4: [9 / 8, -1 / 8], 6: [75 / 64, -25 / 128, 3 / 128]}[order]

    def ahead(f: np.ndarray, axis: int, n: int) -> np.ndarray:  # the value n cells ahead
        return np.roll(f, -n, axis)

    def slope(f: np.ndarray, axis: int, up: int) -> np.ndarray:
        return sum(w * (ahead(f, axis, n + up) - ahead(f, axis, up - 1 - n)) / ((2 * n + 1) * h) for n, w in enumerate(weights))

    def mean(f: np.ndarray, axis: int, up: int) -> np.ndarray:
        return sum(w * 0.5 * (ahead(f, axis, n + up) + ahead(f, axis, up - 1 - n)) for n, w in enumerate(weights))

    def flux(carrying: np.ndarray, carried: np.ndarray, axis: int, up: int) -> np.ndarray:
        """The amount that each place of `carried` gives to others. Value i of `carrying` lies half a cell above
        place i if `up`, else below it."""
        total = 0.0
        for cells, between in EXCHANGES[order].items():
            share = sum(w * ahead(carrying, axis, (n + 1) // 2 - up) for n, w in between.items())
            part = share * (carried + ahead(carried, axis, cells))
            total = total + (part - ahead(part, axis, -cells)) / h
        return total

    def second(f: np.ndarray) -> np.ndarray:
        w = {2: [-2.0, 1.0], 4: [-5 / 2, 4 / 3, -1 / 12], 6: [-49 / 18, 3 / 2, -3 / 20, 1 / 90]}[order]
        return sum(w[0] * f + sum(c * (ahead(f, a, k) + ahead(f, a, -k)) for k, c in enumerate(w[1:], 1)) for a in (0, 1)) / h**2

    def rate(u: np.ndarray, v: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        at_edge_u, at_edge_v = mean(u, 0, 1), mean(v, 1, 1)
        du = nu * second(u) - flux(mean(u, 1, 0), u, 1, 0) - flux(at_edge_v, u, 0, 1)
        dv = nu * second(v) - flux(mean(v, 0, 0), v, 0, 0) - flux(at_edge_u, v, 1, 1)
        return du, dv

    def project(u: np.ndarray, v: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        unit = np.zeros(u.shape)
        unit[0, 0] = 1.0
        symbol = np.fft.fft2(sum(slope(slope(unit, axis, 1), axis, 0) for axis in (0, 1)))
        symbol[0, 0] = 1.0
        p = np.fft.ifft2(np.fft.fft2(slope(u, 1, 0) + slope(v, 0, 0)) / symbol).real
        return u - slope(p, 1, 1), v - slope(p, 0, 1)

    first = project(*(f + dt * r for f, r in zip((u, v), rate(u, v), strict=True)))
    return project(*(0.5 * (f + g + dt * r) for f, g, r in zip((u, v), first, rate(*first), strict=True)))


@pytest.mark.parametrize("order", [2, 4, pytest.param(6, marks=pytest.mark.slow)])
def test_steps_are_those_of_a_program_in_numpy(order: Any) -> None:
    grid = box(14)
    rng = np.random.default_rng(0)
    u, v = rng.normal(size=(2, 14, 14))
    final = run(NavierStokes(grid, 0.01, order=order, method="rk2"), {"u": u, "v": v, "nu": 0.03}, 3)
    for _ in range(3):
        u, v = roll_step(u, v, 0.03, 0.01, grid.spacing[0], order)
    np.testing.assert_allclose(final["u"], u, atol=1e-12)
    np.testing.assert_allclose(final["v"], v, atol=1e-12)


AROUND = [
    (("open", "slip"), ("open", "inflow")),
    ("no_slip", "slip"),
    ("slip", ("inflow", "open")),
    (("no_slip", "moving"), "no_slip"),
    ("periodic", ("slip", "no_slip")),
    (("inflow", "open"), ("moving", "open")),
    ("no_slip", ("inflow", "inflow")),
    (("slip", "inflow"), ("no_slip", "open")),
    (("outflow", "slip"), ("velocity", "outflow")),
    (("velocity", "no_slip"), ("outflow", "moving")),
]


def divergence(simulation: ds.Simulation, inputs: Fields, final: Fields) -> np.ndarray:
    """Flow out of each cell over its size, from the faces and from the rules of the sides."""
    equation, out = simulation.equation, 0.0
    assert isinstance(equation, NavierStokes)
    for axis, name in enumerate(equation.velocities):
        f, sides = np.moveaxis(final[name], axis, 0), equation.sides[axis]
        inflow = equation.inflows.get((axis, 0), "")
        low = f[-1] if sides[0] == "periodic" else inputs[inflow] if inflow else np.zeros(f.shape[1:])
        if sides[0] in ("open", "outflow"):
            low = np.moveaxis(final[f"{name}_low"], axis, 0)[0]
        out = out + np.moveaxis(np.diff(f, axis=0, prepend=low[None]), 0, axis) / equation.grid.spacing[axis]
    return np.asarray(out)


@pytest.mark.parametrize("sides", sampled([(sides,) for sides in AROUND], 2, lambda case: str(case[0])))
def test_no_cell_has_a_divergence_whatever_is_around(sides: Any) -> None:
    grid = ds.Grid((9, 14), (0.1, 0.2))
    simulation = ds.Simulation(NavierStokes(grid, 0.01, sides, method="rk2"), wrt=[], precision="f64")
    rng = np.random.default_rng(1)
    inputs = {
        name: rng.uniform(0.5, 1.0, simulation.input_shape(name, 1)) for name in simulation.inputs if name not in ("u", "v", "p", "nu")
    }
    inputs |= {name: np.zeros(grid.shape) for name in inputs if name.endswith("_low")}
    if sides == ("no_slip", ("inflow", "inflow")):
        inputs["inflow_high_x"] = inputs["inflow_low_x"]  # as much out as in
    inputs |= {"nu": 0.01, "u": rng.normal(size=(9, 14)), "v": rng.normal(size=(9, 14))}
    final = simulation.run(inputs, 6).final
    assert np.abs(divergence(simulation, inputs, final)).max() < 1e-12
    assert np.abs(final["u"]).max() > 0.1
    for k, name in enumerate(("v", "u")):  # no flow through walls, what flows in is what is asked for
        last = np.moveaxis(final[name], k, 0)[-1]
        word = simulation.equation.sides[k][1]
        if word in ("no_slip", "slip", "moving"):
            assert not last.any()
        if word in ("inflow", "velocity"):
            wanted = inputs[simulation.equation.inflows[k, 1]]
            np.testing.assert_allclose(last, wanted, atol=1e-14)


def test_poiseuille_and_couette_flow_are_exact_up_to_a_constant() -> None:
    """Differences of second order are exact for parabolas; at the walls ghost cells are, but for h²/8 of the second derivative."""
    n, nu, force, speed = 12, 0.5, 2.0, 0.3
    grid = ds.Grid((n, 3), (1 / n, 0.5))
    equation = NavierStokes(grid, 0.003, (("no_slip", "moving"), "periodic"), forced=True)
    inputs = {"nu": nu, "u_high_y": speed, "v": np.zeros(grid.shape), "u": np.zeros(grid.shape), "fx": np.full(grid.shape, force)}
    final = run(equation, inputs | {"fy": np.zeros(grid.shape)}, 2500)
    y = (np.arange(n) + 0.5) / n
    exact = force / (2 * nu) * (y * (1 - y) + 0.25 / n**2) + speed * y
    np.testing.assert_allclose(final["u"], np.repeat(exact[:, None], 3, 1), atol=1e-10)
    assert not final["v"].any()


def test_a_force_drives_a_channel_that_is_open_at_both_ends() -> None:
    """Plug flow between walls without friction: u grows by f dt a step, in the first face too."""
    grid = ds.Grid((6, 9), 0.5)
    simulation = ds.Simulation(NavierStokes(grid, 0.1, ("slip", ("open", "open")), method="rk2", forced=True), wrt=[], precision="f64")
    zero = np.zeros(grid.shape)
    final = simulation.run({"nu": 0.01, "fx": np.full(grid.shape, 0.2), "fy": zero}, 10).final
    np.testing.assert_allclose(final["u"], 0.2, atol=1e-12)
    np.testing.assert_allclose(final["u_low"][:, 0], 0.2, atol=1e-12)


def test_the_cavity_flow_of_a_sliding_lid() -> None:
    """Re = 100, on a grid of 48 cells: Ghia, Ghia and Shin (1982), J. Comput. Phys. 48, 387-411, tables I and II, and the extremes by
    Marchi, Suero and Araki (2009), J. Braz. Soc. Mech. Sci. Eng. 31, 186-198."""
    n = 48
    grid = ds.Grid((n, n), 1 / n)
    equation = NavierStokes(grid, 0.01, (("no_slip", "moving"), "no_slip"))
    final = run(equation, {"nu": 0.01, "u_high_y": 1.0}, 2000)
    middle = (np.arange(n) + 0.5) / n
    u, v = final["u"][:, n // 2 - 1], final["v"][n // 2 - 1]  # on the lines x = 1/2 and y = 1/2
    for y, speed in ((0.1719, -0.10150), (0.4531, -0.21090), (0.6172, -0.13641), (0.9531, 0.68717)):
        assert np.interp(y, middle, u) == pytest.approx(speed, abs=4e-3), y
    for x, speed in ((0.0938, 0.12317), (0.2344, 0.17527)):
        assert np.interp(x, middle, v) == pytest.approx(speed, abs=4e-3), x
    assert (u.min(), v.max(), v.min()) == pytest.approx((-0.2140, 0.1796, -0.2538), abs=2.5e-3)


@pytest.mark.parametrize(
    ("sides", "order", "forced"), [("periodic", 4, True), ((("no_slip", "moving"), ("inflow", "open")), 2, False)], ids=["box", "channel"]
)
def test_the_gradient_is_that_of_differences(sides: Any, order: Any, forced: bool) -> None:
    grid = ds.Grid((8, 11), 0.5)
    simulation = ds.Simulation(NavierStokes(grid, 0.05, sides, order, "rk2", forced), receivers={"p": [[2.0, 3.0]]}, precision="f64")
    rng = np.random.default_rng(2)
    inputs = {name: rng.uniform(0.3, 0.6, simulation.input_shape(name, 7)) for name in simulation.inputs}
    weights = {name: rng.normal(size=grid.shape) for name in ("u", "v", "p")}

    def loss(found: ds.Solution) -> Any:
        return sum((weights[name] * found.final[name] ** 2).sum() for name in weights) + (found.traces["p"][1:] ** 2).sum()

    _, gradient = simulation.value_and_grad(loss, inputs, 7)
    for name, start in inputs.items():
        way, step = rng.normal(size=np.shape(start)), 1e-5
        low, high = (float(loss(simulation.run(inputs | {name: start + sign * step * way}, 7))) for sign in (-1, 1))
        along = float((gradient[name] * way).sum())
        assert along == pytest.approx((high - low) / (2 * step), rel=1e-6, abs=1e-9), name
        assert (along == 0) == (name == "p"), name


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"sides": ("no_slip",)}, r"sides = \('no_slip',\), expected one word, or 2 entries \(one an axis\)"),
        ({"sides": 3}, "sides = 3 is unknown; choose one of periodic, no_slip"),
        ({"sides": ("no_slip", 3)}, "sides along x = 3 is unknown; choose one of periodic, no_slip"),
        ({"sides": ("slip", ("periodic", "slip"))}, "sides along x = .* expected periodic for both sides or none"),
        ({"sides": "wall"}, "sides = 'wall' is unknown; choose one of periodic, no_slip"),
        ({"sides": ("slip", ("slip", "slip", "slip"))}, "expected one word, or two: "),
        ({"sides": "slip", "order": 4}, "expected order 2 next to walls, inlets and outlets; take 2"),
        ({"grid": ds.Grid.from_faces(([0.0, 1.0, 3.0, 6.0], [0.0, 1.0, 2.0, 3.0]))}, "cells of several sizes with no open side"),
        ({"order": 8}, "order = 8 is unknown; choose one of 2, 4, 6"),
        ({"method": "euler"}, "method = 'euler' is unknown; choose one of rk2, rk3, rk4"),
        ({"grid": ds.Grid((5,), 1.0)}, "grid with 1 axis, expected 2 or 3"),
    ],
)
def test_wrong_arguments_are_refused(options: Any, message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        NavierStokes(**({"grid": box(6), "dt": 0.1} | options))


def refused(error: type[Exception], match: str, run: Callable[[], object]) -> None:
    with pytest.raises(error, match=match):
        run()


def test_runs_that_cannot_be_are_refused() -> None:
    flow = ds.Simulation(NavierStokes(box(8), 0.5), wrt=[], precision="f64")
    refused(ParameterError, "viscosity nu has a value of -1", lambda: flow.run({"nu": -1.0}, 1))
    refused(StabilityError, "exceeds the stable 0.1935 s for nu = 1 m²/s", lambda: flow.run({"nu": 1.0}, 1))
    start = {name: 50 * field for name, field in whirl(box(8), 1).items()}
    refused(DivergenceError, "is no longer finite after 40 steps", lambda: flow.run(start | {"nu": 0.01}, 40))
    pipe = ds.Simulation(NavierStokes(ds.Grid((4, 6), 0.1), 0.01, ("slip", ("inflow", "inflow"))), wrt=[], precision="f64")
    unequal = {"nu": 0.01, "inflow_low_x": np.ones(4), "inflow_high_x": np.full(4, 1.1)}
    refused(ParameterError, "fluid enters with 0.4 through low_x, -0.44 through high_x", lambda: pipe.run(unequal, 1))


@pytest.mark.slow
def test_the_vortex_of_taylor_and_green_in_space_at_1600() -> None:
    """Order 4 on 32³ cells to t = 3: a spectral program has dissipations of 7.08e-4 at t = 2 and 1.126e-3 at t = 3
    (scripts/bench/taylor_green.py); no energy is lost but by friction."""
    script = runpy.run_path(str(Path(__file__).parents[2] / "scripts" / "bench" / "taylor_green.py"))
    rows = script["by_diffsim"](32, 4, 3.0, 0.8, "f64")
    times, energy, dissipation = np.array(rows).T
    assert dissipation[20] == pytest.approx(7.08e-4, rel=0.01) and dissipation[30] == pytest.approx(1.126e-3, rel=0.05)
    lost = float(np.sum(0.5 * (dissipation[1:] + dissipation[:-1]) * np.diff(times)))
    assert energy[0] - energy[-1] == pytest.approx(lost, rel=1e-3)
