"""Nonlinear shallow water: rest, amounts, closed forms, orders, an independent NumPy version, sides, and the gradient."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest
from scipy.special import j0, j1

import diffsim as ds
from diffsim.errors import DivergenceError, ParameterError, ShapeError, StabilityError
from diffsim.solvers import ShallowWater

G = 9.81
ROUND_OFF = 1e-12


def end(equation: ds.Equation, inputs: dict[str, Any], steps: int) -> dict[str, np.ndarray]:
    return ds.Simulation(equation, wrt=[], precision="f64").run(inputs, steps).final


@pytest.fixture(scope="module")
def basin() -> ds.Simulation:
    return ds.Simulation(ShallowWater(ds.Grid((11, 15), 1.0, 0.5), 0.02, fastest=10.0), wrt=[], precision="f64")


def rough(basin: ds.Simulation) -> np.ndarray:
    z = np.random.default_rng(0).uniform(-1.0, 0.5, basin.equation.grid.shape)
    z[3:6, 5:9] = 2.0  # an island, one cell of which is a hole below the level of the lake
    z[4, 6] = -0.3
    return z


def test_a_lake_stays_at_rest_over_a_rough_bed_with_dry_land(basin: ds.Simulation) -> None:
    z = rough(basin)
    final = basin.run({"z": z, "eta": np.zeros_like(z)}, 40).final
    assert np.abs(final["eta"] - np.maximum(z, 0.0)).max() < ROUND_OFF
    assert max(np.abs(final[name]).max() for name in ("qx", "qy")) < ROUND_OFF


def test_water_is_kept_and_no_depth_is_negative_while_a_dam_breaks(basin: ds.Simulation) -> None:
    z = rough(basin)
    eta = np.where(np.arange(15) < 5, 1.5, -3.0) + 0.0 * z
    final, start = basin.run({"z": z, "eta": eta}, 200).final, np.maximum(eta - z, 0.0)
    h = final["eta"] - z
    assert h.sum() == pytest.approx(start.sum(), rel=ROUND_OFF) and h.min() > -ROUND_OFF
    assert (h > 1e-3).sum() > 1.5 * (start > 0).sum() and np.abs(final["qx"]).max() > 0.5  # it has run far


def ritter(x: np.ndarray, t: float, h: float) -> np.ndarray:
    c = np.sqrt(G * h)
    return np.where(x < -c * t, h, np.where(x < 2 * c * t, (2 * c - x / t) ** 2 / (9 * G), 0.0))


@pytest.mark.parametrize(("method", "error"), [("euler", 0.039), ("rk2", 0.0105)])
def test_a_dam_that_breaks_over_a_dry_bed(method: Any, error: float) -> None:
    """Ritter's solution, 3 s after a wall of 5 m: the mean error over 100 m."""
    grid = ds.Grid((200,), 0.5, -49.75)
    x = grid.coordinates(0)
    h = end(ShallowWater(grid, 0.0125, method=method, fastest=15.0), {"z": 0 * x, "eta": np.where(x < 0, 5.0, 0.0)}, 240)["eta"]
    assert np.abs(h - ritter(x, 3.0, 5.0)).mean() < error and h.min() >= 0


def test_a_bore_over_water_has_the_height_and_speed_of_stoker() -> None:
    """From 5 mm to 1 mm: h = 2.53936 mm behind a bore of 0.209963 m/s."""
    grid, steps = ds.Grid((200,), 0.5, -49.75), 500
    x = grid.coordinates(0)
    equation = ShallowWater(grid, 0.3, thin=1e-5, negligible=1e-6, fastest=0.45)
    h = end(equation, {"z": 0 * x, "eta": np.where(x < 0, 5e-3, 1e-3)}, steps)["eta"]
    behind = h[(x > 24) & (x < 28)]
    np.testing.assert_allclose(behind, 2.53936e-3, rtol=2e-3)
    half = 0.5 * (2.53936e-3 + 1e-3)
    last = int(np.nonzero(h > half)[0][-1])
    place = x[last] + 0.5 * (h[last] - half) / (h[last] - h[last + 1])
    assert place / (0.3 * steps) == pytest.approx(0.209963, rel=0.01)


def greenspan(x: np.ndarray, t: float, size: float) -> np.ndarray:
    """The level of a wave that stands on a beach of slope 1, for g = 1. x points to the sea (Carrier and Greenspan 1958)."""
    eta, u = np.zeros_like(x), np.zeros_like(x)
    for _ in range(300):
        s, phase = 4 * np.sqrt(np.maximum(x + eta, 1e-12)), 2 * (u - t)
        u_next = -size * j1(s) / s * np.sin(phase)
        eta, u = 0.5 * (eta + 0.25 * size * j0(s) * np.cos(phase) - 0.5 * u_next**2), 0.5 * (u + u_next)
    return eta


def test_a_wave_runs_up_a_beach_as_carrier_and_greenspan_say() -> None:
    """A beach of 1 : 10 with 2 m of water at a tidal side; the shore moves by 3 m. Half a period and one."""
    n, time = 100, np.sqrt(10.0 / (G * 0.1))
    grid = ds.Grid((n,), 25.0 / n, -5.0 + 12.5 / n)
    x, steps = grid.coordinates(0), 600
    dt, z = np.pi * time / steps, -0.1 * x
    sea = ds.Simulation(ShallowWater(grid, dt, (("wall", "tide"),)), wrt=[], precision="f64")
    tide = np.array([greenspan(np.array([2.0]), (k + 0.5) * dt / time, 0.6)[0] for k in range(steps)])
    start = greenspan(x / 10, 0.0, 0.6)
    for count in (steps // 2, steps):
        h = sea.run({"z": z, "eta": start, "tide": tide[:count]}, count).final["eta"] - z
        exact = np.maximum(greenspan(x / 10, count * dt / time, 0.6) - z, 0.0)
        assert np.abs(h - exact).mean() < 1e-3 and abs(int((h > 0.01).sum()) - int((exact > 0.01).sum())) <= 1
    assert np.abs(start - greenspan(x / 10, 0.5 * np.pi, 0.6)).max() > 0.25  # the shore has moved


def simple_wave(faces: np.ndarray, t: float) -> tuple[np.ndarray, np.ndarray]:
    """Means of h and h u over cells for a wave that moves along one family of characteristics, u = 0.3 sin(2 π s / 100) at first."""
    points, weights = np.polynomial.legendre.leggauss(5)
    h, q = np.zeros(len(faces) - 1), np.zeros(len(faces) - 1)
    for point, weight in zip(points, weights, strict=True):
        x = 0.5 * (faces[1:] + faces[:-1]) + 0.5 * point * np.diff(faces)
        s = x
        for _ in range(200):
            u = 0.3 * np.sin(2 * np.pi * s / 100)
            s = x - (1.5 * u + np.sqrt(G)) * t
        u = 0.3 * np.sin(2 * np.pi * s / 100)
        depth = (np.sqrt(G) + 0.5 * u) ** 2 / G
        h, q = h + 0.5 * weight * depth, q + 0.5 * weight * depth * u
    return h, q


@pytest.mark.parametrize(("method", "order", "error"), [("euler", 1, 1.2e-3), ("rk2", 2, 2e-5)])
def test_the_order_where_the_flow_is_smooth(method: Any, order: int, error: float) -> None:
    errors = []
    for n in (100, 200):
        grid = ds.Grid((n,), 100 / n, 50 / n)
        equation = ShallowWater(grid, 8 / n, "periodic", method, negligible=0.1, fastest=4.0)
        faces = np.linspace(0, 100, n + 1)
        h, q = simple_wave(faces, 0.0)
        last = end(equation, {"z": np.full(n, -1.0), "eta": h - 1, "qx": q}, n // 2)["eta"]
        errors.append(np.abs(last + 1 - simple_wave(faces, 4.0)[0]).mean())
    assert np.log2(errors[0] / errors[1]) == pytest.approx(order, abs=0.1) and errors[0] < error


def numpy_rate(eta: np.ndarray, q: list[np.ndarray], z: np.ndarray, f: float, eps: float, thin: float) -> list[np.ndarray]:
    """Changes per second in a periodic box of cells of size 1, with pressures and beds as Audusse et al. write them."""
    h = np.maximum(eta - z, 0.0)
    v = [one * h**3 / (h**4 + thin**4) for one in q]
    change = [np.zeros_like(h), f * q[1], -f * q[0]]  # eta, then along x and y

    def half(low: np.ndarray, high: np.ndarray) -> np.ndarray:
        return 0.25 * (low + high) * np.maximum(2 * low * high + eps**2, 0) / (low**2 + high**2 + eps**2)

    for k, axis in enumerate((1, 0)):
        ahead, back = (partial(np.roll, shift=by, axis=axis) for by in (-1, 1))
        level = np.maximum(eta, z)
        bank = np.maximum(z, ahead(z))
        rise = np.maximum(ahead(level), bank) - np.maximum(level, bank)
        tilt = half(back(rise), rise)
        deeper = np.clip(tilt - half(z - back(z), ahead(z) - z), -h, h)
        shears = [half(one - back(one), ahead(one) - one) for one in v]
        sides = [
            [move(level + sign * tilt), move(h + sign * deeper), *(move(a + sign * b) for a, b in zip(v, shears, strict=True))]
            for sign, move in ((1, lambda a: a), (-1, ahead))
        ]
        beds = [side[0] - side[1] for side in sides]
        cut = [np.maximum(side[0] - np.maximum(*beds), 0) for side in sides]
        along = [side[2 + k] for side in sides]
        deep, apart = (np.hypot(high - low, 1e-4) for low, high in (cut, along))  # the larger of both is their mean and half of this
        c = np.sqrt(G * (sum(cut) + deep) / 2)
        low, high = np.minimum((sum(along) - apart) / 2 - c, 0), np.maximum((sum(along) + apart) / 2 + c, 0)
        flux = [[d * u for d, u in zip(cut, along, strict=True)], [d * u * u + G * d * d / 2 for d, u in zip(cut, along, strict=True)]]
        conserved = [cut, flux[0]]
        water, momentum = (
            (high * f_l - low * f_r + low * high * (r - l)) / (high - low)
            for (f_l, f_r), (l, r) in zip(flux, conserved, strict=True)  # noqa: E741
        )
        sideways = water * np.where(water > 0, sides[0][3 - k], sides[1][3 - k])
        lost = momentum + G / 2 * (sides[0][1] ** 2 - cut[0] ** 2)
        gained = momentum + G / 2 * (sides[1][1] ** 2 - cut[1] ** 2)
        within = -G * h * (beds[0] - back(beds[1]))  # the bed within a cell
        change[0] -= water - back(water)
        change[1 + k] += back(gained) - lost + within
        change[2 - k] -= sideways - back(sideways)
    return change


def test_steps_are_those_of_a_program_in_numpy() -> None:
    """With water, banks and dry cells at random, rotation and Manning's drag."""
    rng, shape, dt = np.random.default_rng(1), (9, 13), 0.02
    z = rng.uniform(-1.5, 0.6, shape)
    eta, qx, qy = np.where(rng.uniform(size=shape) < 0.2, -2.0, rng.uniform(-0.1, 0.3, shape)), *rng.normal(size=(2, *shape)) * 0.3
    n = rng.uniform(0.02, 0.1, shape)
    equation = ShallowWater(ds.Grid(shape, 1.0), dt, "periodic", drag="manning", coriolis=0.7, thin=0.01, negligible=0.01)
    final = end(equation, {"z": z, "eta": eta, "qx": qx, "qy": qy, "manning": n}, 3)

    def drag(eta: np.ndarray, q: list[np.ndarray]) -> list[np.ndarray]:
        depth = np.sqrt(np.maximum(eta - z, 0) ** 2 + 0.01**2)
        speed = np.hypot(*q) / depth
        return [one / (1 + 0.5 * dt * G * n**2 * speed / depth ** (4 / 3)) for one in q]

    q = [np.where(eta > z, one, 0.0) for one in (qx, qy)]  # what is dry does not move
    eta = np.maximum(eta, z)
    for _ in range(3):
        q = drag(eta, q)
        start = [eta, *q]
        first = [a + dt * b for a, b in zip(start, numpy_rate(eta, q, z, 0.7, 0.01, 0.01), strict=True)]
        second = [a + dt * b for a, b in zip(first, numpy_rate(first[0], first[1:], z, 0.7, 0.01, 0.01), strict=True)]
        eta, *q = (0.5 * (a + b) for a, b in zip(start, second, strict=True))
        q = drag(eta, q)
    for name, values in {"eta": eta, "qx": q[0], "qy": q[1]}.items():
        np.testing.assert_allclose(final[name], values, atol=1e-10, err_msg=name)


def test_waves_leave_through_an_open_side_and_a_tide_fills_a_harbour() -> None:
    grid = ds.Grid((100,), 10.0, 5.0)
    x = grid.coordinates(0)
    left = end(ShallowWater(grid, 0.4, "open"), {"z": np.full(100, -10.0), "eta": 0.1 * np.exp(-(((x - 500) / 60) ** 2))}, 250)
    assert np.abs(left["eta"]).max() < 2e-4  # 0.2 % of the wave
    harbour = ShallowWater(grid, 0.4, (("tide", "wall"),), drag="quadratic")
    inputs = {"z": np.full(100, -10.0), "eta": np.zeros(100), "drag": np.full(100, 0.5)}
    full = end(harbour, inputs | {"tide": 0.5 * (1 - np.exp(-np.arange(6000) / 500))}, 6000)["eta"]
    np.testing.assert_allclose(full, 0.5, atol=1e-2)


def test_a_sponge_takes_the_waves_before_a_wall() -> None:
    """Less than 0.2 % of 0.1 m comes back. The rate is such that a wave falls to 1e-3 on its way to the wall and back."""
    grid = ds.Grid((100,), 10.0, 5.0)
    x, c = grid.coordinates(0), np.sqrt(G * 10.0)
    sea = ds.Simulation(ShallowWater(grid, 0.4, sponge=((0, 30),), sponge_depth=10.0, negligible=0.1), wrt=[], precision="f64")
    wave = 0.1 * np.exp(-(((x - 350) / 50) ** 2))
    final = sea.run({"z": np.full(100, -10.0), "eta": wave, "qx": c * wave}, 250).final["eta"]
    assert np.abs(final[:60]).max() < 2e-4
    fast = sea.run({"z": np.full(100, -10.0), "eta": 0 * x, "qx": np.full(100, 1e-3)}, 1).final["qx"]
    rate = 1.5 * c * np.log(1e3) / 300.0 * ((np.arange(100) - 69).clip(0) / 30) ** 2
    np.testing.assert_allclose(fast[5:95], 1e-3 * np.exp(-rate[5:95] * 0.4), rtol=2e-3)


def test_a_tide_of_a_side_has_one_number_a_step() -> None:
    """The only such side, and each of several; a value for each cell is refused."""
    one, two = (ShallowWater(ds.Grid((8, 20), 5.0), 0.2, sides, tide="side") for sides in (("wall", ("tide", "wall")), "tide"))
    assert {name: series.axes for name, series in one.series.items()} == {"tide": ()}
    assert {series.axes for series in two.series.values()} == {()} and len(two.series) == 4
    still = {"z": np.full((8, 20), -2.0), "eta": np.zeros((8, 20)), "tide": np.zeros((5, 8))}
    with pytest.raises(ShapeError, match=r"tide has shape \(5, 8\), expected \(5,\)"):
        ds.Simulation(one, wrt=[]).run(still, 5)


@pytest.mark.slow
def test_a_tide_of_a_side_is_that_of_its_cells() -> None:
    """The same bits as with its number in each cell, and the sum of their gradients."""
    grid, steps = ds.Grid((8, 20), 5.0, 2.5), 30
    rng = np.random.default_rng(3)
    inputs = {"z": -2.0 + 0.1 * rng.standard_normal(grid.shape), "eta": np.zeros(grid.shape)}
    levels, w = 0.1 * np.sin(np.arange(steps) / 4), rng.standard_normal(grid.shape)
    runs, slopes = {}, {}
    for tide in ("cell", "side"):
        equation = ShallowWater(grid, 0.2, ("wall", ("tide", "wall")), method="euler", tide=tide)  # type: ignore[arg-type]
        sea = ds.Simulation(equation, wrt=["tide"], precision="f64")
        series = levels if tide == "side" else levels[:, None] * np.ones((1, 8))
        solution, pullback = sea.vjp(inputs | {"tide": series}, steps)
        bars = ds.Solution({"eta": w, "qx": w, "qy": 0 * w}, {})
        runs[tide], slopes[tide] = solution.final["eta"], pullback(bars)["tide"]
    np.testing.assert_array_equal(runs["side"], runs["cell"])
    assert slopes["side"].shape == (steps,) and np.abs(slopes["side"]).max() > 0.1
    np.testing.assert_allclose(slopes["side"], slopes["cell"].sum(axis=1), rtol=0, atol=1e-12 * np.abs(slopes["side"]).max())


def test_a_tide_drives_a_standing_wave_at_second_order() -> None:
    """A small wave in a channel with a wall at its end; the momentum at 0.8 of the period."""
    length, depth, height, period = 1000.0, 10.0, 1e-3, 900.0
    omega = 2 * np.pi / period
    k = omega / np.sqrt(G * depth)
    errors = []
    for n in (20, 40):
        dx, dt = length / n, 0.2 * length / n / np.sqrt(G * depth)
        grid, steps = ds.Grid((n,), dx, dx / 2), round(0.8 * period / dt)
        away = k * (length - grid.coordinates(0))
        series = height * np.cos(omega * dt * (np.arange(steps) + 0.5))
        sea = ds.Simulation(ShallowWater(grid, dt, (("tide", "wall"),), negligible=1.0), precision="f64")
        start = {"z": np.full(n, -depth), "eta": height * np.cos(away) / np.cos(k * length)}
        final = sea.run(start | {"tide": series}, steps).final["qx"]
        wanted = -G * depth * height * k * np.sin(away) / np.cos(k * length) * np.sin(omega * dt * steps) / omega
        errors.append(np.sqrt(np.mean((final - wanted) ** 2)) / np.abs(wanted).max())
    assert errors[0] < 1e-3 and errors[0] / errors[1] > 2.3, errors


@pytest.mark.parametrize("slope", [0.0, 1 / 30], ids=["level", "plane"])
def test_the_gradient_over_a_plane_bed_is_the_mean_of_both_slopes_of_the_loss(slope: float) -> None:
    grid = ds.Grid((40,), 2.0, 1.0)
    x = grid.coordinates(0)
    sea = ds.Simulation(ShallowWater(grid, 0.1, fastest=9.0), receivers={"eta": [[60.0]]}, wrt=["z"], precision="f64")
    point = {"z": -4 + slope * x, "eta": 0.3 * np.exp(-(((x - 30) / 10) ** 2))}

    def loss(solution: ds.Solution) -> Any:
        return (solution.traces["eta"] ** 2).sum()

    _, gradient = sea.value_and_grad(loss, point, 60)
    for seed in range(3):
        along = np.random.default_rng(seed).standard_normal(40)
        high, low = (float(loss(sea.run(point | {"z": point["z"] + h * along}, 60))) for h in (1e-7, -1e-7))
        assert np.isclose(gradient["z"] @ along, (high - low) / 2e-7, atol=1e-3 * np.linalg.norm(gradient["z"]))


def test_drag_of_a_uniform_current_is_a_closed_form() -> None:
    q, n = 3.0, 0.05
    inputs = {"z": np.full(5, -2.0), "eta": np.zeros(5), "qx": np.full(5, q), "manning": np.full(5, n)}
    slow = end(ShallowWater(ds.Grid((5,), 100.0), 1.0, "periodic", drag="manning"), inputs, 60)["qx"]
    np.testing.assert_allclose(slow, q / (1 + G * n**2 * q / 2 ** (7 / 3) * 60), rtol=1e-6)


@pytest.mark.slow
def test_a_uniform_current_turns_with_the_earth() -> None:
    inputs = {"z": np.full((4, 5), -2.0), "eta": np.zeros((4, 5)), "qx": np.full((4, 5), 3.0)}
    turned = end(ShallowWater(ds.Grid((4, 5), 100.0), 1.0, "periodic", "rk3", coriolis=0.01), inputs, 100)
    np.testing.assert_allclose(turned["qx"], 3.0 * np.cos(1.0), rtol=1e-6)
    np.testing.assert_allclose(turned["qy"], -3.0 * np.sin(1.0), rtol=1e-6)


def test_water_rises_with_its_bed_and_gravity_waves_leave_from_there() -> None:
    """A bed that rises at once is an initial surface; while it rises all over, the water stays at rest. On land nothing flows."""
    grid = ds.Grid((60,), 100.0)
    x = grid.coordinates(0)
    z = np.where(x > 4500, 5.0, -50.0)
    sea = ds.Simulation(ShallowWater(grid, 1.0, uplift=True), wrt=[], precision="f64")
    times = {"start": np.full(60, 3.0), "rise": np.full(60, 10.0)}
    floor = {"z": z, "eta": np.zeros(60), "uplift": np.full(60, 2.0), **times}
    early = sea.run(floor, 5).final["eta"]  # after a fifth of the rise, 0.2² (3 - 0.4) of it
    np.testing.assert_allclose(early, np.maximum(z, 0.0) + 2.0 * 0.104, atol=1e-11)
    everywhere = sea.run(floor, 20).final
    np.testing.assert_allclose(everywhere["eta"], np.maximum(z, 0.0) + 2.0, atol=1e-11)
    assert np.abs(everywhere["qx"]).max() < 1e-10
    hump = np.exp(-(((x - 2500) / 500) ** 2))
    quick = sea.run({"z": z, "eta": np.zeros(60), "uplift": hump, "start": np.zeros(60), "rise": np.full(60, 1e-3)}, 60).final["eta"]
    at_first = end(ShallowWater(grid, 1.0), {"z": z + hump, "eta": hump}, 60)["eta"]
    np.testing.assert_allclose(quick[x < 4400], at_first[x < 4400], atol=1e-10)
    assert (quick - z - hump)[:44].sum() == pytest.approx(44 * 50.0, rel=1e-3)


@pytest.fixture(scope="module")
def channel() -> ds.Simulation:
    """A closed channel of 1 km under a wind and an air pressure that stay."""
    return ds.Simulation(ShallowWater(ds.Grid((40,), 25.0, 12.5), 1.0, weather="steady", fastest=9.0), wrt=[], precision="f64")


def test_a_sea_stays_at_rest_under_the_pressure_that_it_balances(channel: ds.Simulation) -> None:
    """The inverse barometer: the level falls by p / (ρ g), here by up to 0.5 m and with islands and dry land."""
    rng = np.random.default_rng(7)
    z, pressure = rng.uniform(-2.0, 0.5, 40), rng.uniform(-3000.0, 5000.0, 40)
    z[30:] = 4.0
    level = np.maximum(z, -pressure / (1025.0 * G))
    final = channel.run({"z": z, "eta": level, "pressure": pressure, "stress_x": np.zeros(40)}, 100).final
    assert np.abs(final["eta"] - level).max() < ROUND_OFF and np.abs(final["qx"]).max() < ROUND_OFF
    assert np.ptp(level[z < level]) > 0.5


def test_wind_drives_water_to_the_lee_side_of_a_channel(channel: ds.Simulation) -> None:
    """At first q = τ t / ρ; at rest g h dη/dx = τ / ρ, thus h² = h₀² + 2 τ x / (ρ g), here 1.05 to 3.14 m deep."""
    x, z, tau, still = channel.equation.grid.coordinates(0), np.full(40, -2.0), 45.0, np.zeros(40)
    inputs = {"z": z, "eta": still, "pressure": still, "stress_x": np.full(40, tau)}
    np.testing.assert_allclose(channel.run(inputs, 10).final["qx"][15:25], tau * 10.0 / 1025.0, rtol=1e-8)
    depth = np.sqrt(1.0 + 2 * tau * x / (1025.0 * G))
    final = channel.run(inputs | {"eta": depth + z}, 300).final
    assert np.abs(final["eta"] - z - depth).mean() < 4e-4 and np.abs(final["qx"][3:-3]).max() < 6e-3  # cells at walls are of first order
    assert np.ptp(depth) > 2.0


def test_on_the_sphere_a_lake_rests_and_water_is_kept() -> None:
    """From pole to pole, where the last faces have no length."""
    grid = ds.Grid((12, 16), (15.0, 22.5), (-82.5, 11.25))
    equation = ShallowWater(grid, 15.0, ("wall", "periodic"), coordinates="sphere", coriolis="earth", fastest=250.0)
    world = ds.Simulation(equation, wrt=[], precision="f64")
    z = np.random.default_rng(0).uniform(-4000.0, 500.0, grid.shape)
    rest = world.run({"z": z, "eta": 0 * z}, 40).final
    assert np.abs(rest["eta"] - np.maximum(z, 0)).max() < ROUND_OFF
    assert max(np.abs(rest[name]).max() for name in ("qx", "qy")) < ROUND_OFF
    high = np.where(np.arange(16) < 8, 300.0, 0.0) + 0 * z
    area = np.diff(np.sin(np.radians(np.linspace(-90, 90, 13))))[:, None]
    h = world.run({"z": z, "eta": high}, 200).final["eta"] - z
    assert (h * area).sum() == pytest.approx((np.maximum(high - z, 0) * area).sum(), rel=ROUND_OFF) and h.min() > -ROUND_OFF
    assert np.abs(h - np.maximum(high - z, 0)).max() > 10.0


def steady_zonal_flow(n: int, south: float = 20.0, north: float = 60.0) -> tuple[float, float]:
    """Mean errors of the level, m, and of the momentum, m²/s, a day after the steady flow of Williamson et al. (1992), test 2."""
    u, deep, day, size = 2 * np.pi * 6.371e6 / (12 * 86400), 3000.0, 86400.0, (north - south) / n
    grid = ds.Grid((n, 3), (size, 120.0), (south + size / 2, 60.0))
    steps = int(np.ceil(day / (0.4 * np.radians(size) * 6.371e6 / (np.sqrt(G * deep) + u))))
    points, weights = np.polynomial.legendre.leggauss(6)
    latitude = np.radians(grid.coordinates(0)[:, None] + 0.5 * size * points)
    weights = weights * np.cos(latitude) / (weights * np.cos(latitude)).sum(axis=1, keepdims=True)  # means over cells
    h = deep - (6.371e6 * 7.292e-5 * u + 0.5 * u**2) * np.sin(latitude) ** 2 / G
    level, momentum = ((weights * f).sum(axis=1)[:, None] + np.zeros(grid.shape) for f in (h - deep, h * u * np.cos(latitude)))
    options: Any = {"coordinates": "sphere", "coriolis": "earth", "negligible": 1.0}
    equation = ShallowWater(grid, day / steps, ("wall", "periodic"), **options)
    final = end(equation, {"z": np.full(grid.shape, -deep), "eta": level, "qx": momentum}, steps)
    area = np.cos(np.radians(grid.coordinates(0)))[:, None] / 3 / np.cos(np.radians(grid.coordinates(0))).sum()
    return float((area * np.abs(final["eta"] - level)).sum()), float((area * np.abs(final["qx"] - momentum)).sum())


def test_a_steady_flow_along_circles_of_latitude_is_of_second_order() -> None:
    """Geostrophic with the curvature of the circles, on a band between walls; the level falls by 800 m."""
    (level, momentum), (finer, finer_momentum) = steady_zonal_flow(24), steady_zonal_flow(48)
    assert level < 1.5 and np.log2(level / finer) > 1.8 and np.log2(momentum / finer_momentum) > 1.8


@pytest.mark.slow
def test_the_equatorial_soliton_of_boyd() -> None:
    """A Rossby wave on the beta plane, in units where the wave speed and beta are 1: it moves to the west at 0.395 to first order."""
    n, seconds, size, deep = 64, 40.0, 0.395, 1 / G
    grid = ds.Grid((n, 3 * n), 16 / n, (8 / n - 8, 8 / n - 24))
    y, x = grid.coordinates(0)[:, None], grid.coordinates(1)[None]
    phi = 0.771 * size**2 / np.cosh(size * x) ** 2
    bell = np.exp(-(y**2) / 2)
    h, u = 1 + phi * (3 + 6 * y**2) / 4 * bell, phi * (6 * y**2 - 9) / 4 * bell
    v = -4 * size * y * np.tanh(size * x) * phi * bell
    steps = int(np.ceil(seconds / (0.175 * 16 / n / 1.25)))
    equation = ShallowWater(grid, seconds / steps, ("wall", "periodic"), coriolis=(0.0, 1.0), thin=1e-6, fastest=1.2)
    eta = end(equation, {"z": np.full(grid.shape, -deep), "eta": deep * (h - 1), "qx": deep * h * u, "qy": deep * h * v}, steps)["eta"]
    np.testing.assert_allclose(eta, eta[::-1], atol=1e-14)
    j, i = np.unravel_index(eta.argmax(), eta.shape)
    a, b, c = eta[j, i - 1 : i + 2]
    speed = -(grid.coordinates(1)[i] + 0.5 * grid.spacing[1] * (a - c) / (a - 2 * b + c)) / seconds
    assert speed == pytest.approx(0.395, rel=0.02) and b > 0.7 * deep * (h - 1).max()


def beach(weather: Any = "none", method: Any = "rk2", uplift: bool = True) -> tuple[ds.Simulation, dict[str, np.ndarray]]:
    """A wave that floods a beach which rises, with a tidal side, Manning's drag, and a gauge on land that is dry at first."""
    grid = ds.Grid((40,), 1.0, 0.5)
    x = grid.coordinates(0)
    options: Any = {"drag": "manning", "uplift": uplift, "weather": weather, "thin": 0.05, "negligible": 0.05, "fastest": 5.0}
    equation = ShallowWater(grid, 0.1, (("tide", "open"),), method, **options)
    run = ds.Simulation(equation, receivers={"eta": [[10.0], [25.0], [34.5]]}, precision="f64")
    rng = np.random.default_rng(2)
    inputs = {
        "z": 0.05 * (x - 22.0) + 0.02 * rng.normal(size=40),
        "eta": 0.5 * np.exp(-((x - 12) ** 2) / 8),
        "qx": 0.1 * rng.normal(size=40) * (x < 20),
        "manning": rng.uniform(0.02, 0.05, 40),
        "uplift": 0.2 * np.exp(-((x - 15) ** 2) / 30),
        "start": rng.uniform(0.5, 1.5, 40),
        "rise": rng.uniform(2.0, 3.0, 40),
        "tide": 0.1 * np.sin(np.arange(60) / 9),
        "stress_x": 20.0 * rng.normal(size=(60, 40)),
        "pressure": 200.0 * rng.normal(size=(60, 40)),
    }
    return run, {name: inputs[name] for name in run.inputs}


def of_the_beach(found: ds.Solution) -> Any:
    """A loss of the gauges, and of the level and the momentum in the end."""
    weights = np.random.default_rng(3).normal(size=40)
    return ((found.traces["eta"] - 0.3) ** 2).sum() + (weights * found.final["eta"]).sum() + (found.final["qx"] ** 2).sum()


def test_the_gradient_at_a_shore_a_gauge_dry_land_and_sides() -> None:
    run, inputs = beach()
    report = ds.certify(run, of_the_beach, inputs, 60, seed=1)
    assert report.passed, report
    _, gradient = run.value_and_grad(of_the_beach, inputs, 60)
    for name, cell in (("z", 30), ("z", 0), ("manning", 39), ("eta", 20), ("uplift", 15), ("start", 15), ("tide", 10)):
        step = np.zeros(np.shape(inputs[name]))
        step[cell] = 1e-6
        low, high = (float(of_the_beach(run.run(inputs | {name: inputs[name] + sign * step}, 60))) for sign in (-1, 1))
        assert gradient[name][cell] == pytest.approx((high - low) / 2e-6, rel=1e-4, abs=1e-6), name


def test_the_gradient_at_a_lake_at_rest_is_that_of_differences() -> None:
    """Where all differences are 0 and land is dry: no kink of a limiter or a flux is in the way."""
    run, inputs = beach()
    inputs |= {name: 0 * inputs[name] for name in ("eta", "qx", "uplift", "tide")}
    weights = np.random.default_rng(4).normal(size=(61, 3))

    def loss(found: ds.Solution) -> Any:
        return (weights * found.traces["eta"]).sum()

    _, gradient = run.value_and_grad(loss, inputs, 60)
    for name in ("eta", "uplift", "tide", "qx"):
        way = np.random.default_rng(5).normal(size=np.shape(inputs[name])) * 1e-7
        way[20:40] *= name == "tide"  # dry land stays so
        low, high = (float(loss(run.run(inputs | {name: sign * way}, 60))) for sign in (-1, 1))
        assert (gradient[name] * way).sum() == pytest.approx((high - low) / 2, rel=1e-4), name


@pytest.mark.slow
@pytest.mark.parametrize(("method", "uplift"), [("euler", False), ("rk2", True)])
def test_a_storm_over_a_beach(method: Any, uplift: bool) -> None:
    """Its gradient for wind and pressure of each step; and a tide is the elevation without the pressure."""
    run, inputs = beach("series", method, uplift)
    _, gradient = run.value_and_grad(of_the_beach, inputs, 60)
    for name, share in (("stress_x", 1e-4), ("pressure", 1e-4), ("z", 1e-7), ("tide", 1e-7)):
        way = np.random.default_rng(8).normal(size=np.shape(inputs[name])) * share
        low, high = (float(of_the_beach(run.run(inputs | {name: inputs[name] + sign * way}, 60))) for sign in (-1, 1))
        assert (gradient[name] * way).sum() == pytest.approx((high - low) / 2, rel=1e-5), name
    level = np.maximum(inputs["z"], -1000.0 / (1025.0 * G))
    calm: dict[str, np.ndarray] = {name: 0 * inputs[name] for name in ("qx", "uplift", "tide", "stress_x") if name in inputs}
    calm |= {"eta": level, "pressure": np.full((60, 40), 1000.0)}
    np.testing.assert_allclose(run.run(inputs | calm, 60).final["eta"], level, atol=ROUND_OFF)


@pytest.mark.slow
def test_wind_is_balanced_by_drag_along_its_own_direction() -> None:
    """h u_t = τ / ρ - C u² in 2 m of water along (0.8, 0.6) has the solution u = sqrt(τ / (ρ C)) tanh(sqrt(τ C / ρ) t / h)."""
    equation = ShallowWater(ds.Grid((4, 5), 100.0), 1.0, "periodic", drag="quadratic", weather="series", density=1000.0)
    still = np.zeros((200, 4, 5))
    inputs = {"z": np.full((4, 5), -2.0), "eta": np.zeros((4, 5)), "drag": np.full((4, 5), 0.01), "pressure": still}
    final = end(equation, inputs | {"stress_x": still + 8.0, "stress_y": still + 6.0}, 200)
    for name, share in (("qx", 0.8), ("qy", 0.6)):
        np.testing.assert_allclose(final[name], share * 2.0 * np.tanh(0.005 * 200), rtol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["euler", "rk2"])
def test_the_gradient_in_two_dimensions(method: Any) -> None:
    rng, shape = np.random.default_rng(6), (11, 14)
    grid = ds.Grid(shape, 1.0, 0.5)
    y, x = grid.coordinates(0)[:, None], grid.coordinates(1)[None]
    options: Any = {"sponge": (0, (0, 3)), "sponge_depth": 1.0, "thin": 0.05, "negligible": 0.05, "fastest": 6.0}
    equation = ShallowWater(grid, 0.04, ("wall", ("tide", "open")), method, "manning", 0.1 * (method != "euler"), **options)
    run = ds.Simulation(equation, receivers={"eta": [[5.5, 4.5], [5.5, 9.5]]}, precision="f64")
    inputs = {
        "z": 0.1 * (x - 8) + 0.05 * rng.normal(size=shape),
        "eta": 0.5 * np.exp(-((x - 4) ** 2 + (y - 5) ** 2) / 6),
        "manning": rng.uniform(0.02, 0.05, shape),
        "tide": 0.1 * rng.uniform(size=(25, 11)),
        "qx": np.zeros(shape),
        "qy": np.zeros(shape),
    }
    report = ds.certify(run, lambda found: (found.traces["eta"] ** 2).sum() + (found.final["qy"] ** 2).sum(), inputs, 25, seed=2)
    assert report.passed, report


@pytest.mark.slow
@pytest.mark.parametrize(("n", "negligible", "error"), [(24, 1.0, 0.26), (61, 1.0, 0.15), (61, 1e-3, 0.15)])
def test_the_bowl_of_thacker(n: int, negligible: float, error: float) -> None:
    """Thetis' measure: the relative error of the level at the centre after 43200 s, with as many depths as a mesh of 600 or 3750 has."""
    width, deep, radius, high = 951646.46, 50.0, 430620.0, 2.0
    grid = ds.Grid((n, n), width / n, (0.5 / n - 0.5) * width)
    r2 = grid.coordinates(0)[:, None] ** 2 + grid.coordinates(1)[None] ** 2
    a = ((deep + high) ** 2 - deep**2) / ((deep + high) ** 2 + deep**2)
    start = deep * (np.sqrt(1 - a * a) / (1 - a) - 1 - r2 / radius**2 * ((1 + a) / (1 - a) - 1))
    steps = int(np.ceil(43200 / (0.3 * width / n / (2 * np.sqrt(G * 52)))))
    eta = end(ShallowWater(grid, 43200 / steps, negligible=negligible), {"z": -deep * (1 - r2 / radius**2), "eta": start}, steps)["eta"]
    middle = slice((n - 1) // 2, n // 2 + 1)
    assert abs(eta[middle, middle].mean() - high) / high < error


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"sides": ("wall", ("periodic", "wall"))}, "expected periodic for both sides or none"),
        ({"thin": 0.0}, "thin = 0.0, expected a positive finite number"),
        ({"coriolis": (1.0, 2.0, 3.0)}, "expected a number, or f and its change per metre"),
        ({"coriolis": 1e-4, "grid": ds.Grid((6,), 1.0)}, "with one axis, expected 0"),
        ({"coriolis": 1e-4, "method": "euler"}, "expected 'rk2' or 'rk3': inertial circles grow"),
        ({"coriolis": "earth"}, "'earth' on a plane, expected f"),
        ({"coordinates": "sphere", "grid": ds.Grid((6,), 1.0)}, "needs a grid of latitude and longitude, got 1 axes"),
        ({"coordinates": "sphere", "sides": "periodic"}, "'periodic' from north to south on the sphere"),
        ({"grid": ds.Grid((6, 6, 6), 1.0)}, "grid with 3 axes, expected 1 or 2"),
    ],
)
def test_wrong_arguments_are_refused(options: Any, message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        ShallowWater(**({"grid": ds.Grid((6, 6), 1.0), "dt": 0.1} | options))


def test_the_time_step_is_checked() -> None:
    sea = ds.Simulation(ShallowWater(ds.Grid((12,), 10.0), 0.6, drag="manning"), wrt=[], precision="f64")
    inputs = {"z": np.full(12, -10.0), "eta": np.zeros(12), "manning": np.zeros(12)}
    with pytest.raises(StabilityError, match=r"dt = 0.6 s exceeds the stable 0.5048 s for waves of 9.905 m/s"):
        sea.run(inputs, 1)
    with pytest.raises(ParameterError, match="manning has a value of -1"):
        sea.run(inputs | {"z": np.full(12, -1.0), "manning": np.full(12, -1.0)}, 1)
    with pytest.raises(ShapeError, match=r"manning is one number, expected a value for each cell, .*; give np.full\(\(12,\), 0.03\)"):
        sea.run(inputs | {"manning": 0.03}, 1)


def test_a_flow_that_outruns_the_time_step_says_so() -> None:
    """Water of 1 m runs down a slope, and the step was checked for water at rest: at first the end of a run shows it, then nothing is
    finite."""
    valley = ds.Simulation(ShallowWater(ds.Grid((200,), 1.0), 0.11, fastest=3.2), wrt=[], precision="f64")
    z = 80 - 0.4 * np.arange(200)
    inputs = {"z": z, "eta": z + (np.arange(200) < 100)}
    with pytest.raises(StabilityError, match=r"is 1\d\.\d+ m/s at the end of the run, for which dt = 0.11 s is not stable"):
        valley.run(inputs, 20)
    with pytest.raises(DivergenceError, match=r"dt = 0.11 s is stable where .* is at most 4.545 m/s: .* give that as `fastest`"):
        valley.run(inputs, 200)
    with pytest.raises(StabilityError, match=r"is 12.53 m/s at the start of the run, for which dt = 0.11 s is not stable"):
        valley.run({"z": z - 15, "eta": inputs["eta"]}, 5)


def test_a_bed_that_sinks_under_water_is_no_flow() -> None:
    """While the bed moves, water stands somewhere between both of its heights: 2.5 m deep in the end, and not 6.5 m."""
    sea = ds.Simulation(ShallowWater(ds.Grid((20,), 1.0), 0.05, uplift=True, fastest=8.0), wrt=[], precision="f64")
    inputs = {"z": np.full(20, -2.5), "eta": np.zeros(20), "uplift": np.full(20, -4.0), "start": np.zeros(20), "rise": np.ones(20)}
    np.testing.assert_allclose(sea.run(inputs, 40).final["eta"], -4.0, atol=1e-9)


def test_a_gauge_on_dry_land_shows_the_bed_from_the_start() -> None:
    sea = ds.Simulation(ShallowWater(ds.Grid((8,), 1.0), 0.05), receivers={"eta": [[2.0], [6.0]]}, wrt=["z"], precision="f64")
    z = np.linspace(-1.0, 1.0, 8)
    value, gradient = sea.value_and_grad(lambda found: found.traces["eta"][0].sum(), {"z": z, "eta": np.zeros(8)}, 3)
    assert value == z[6] and gradient["z"].tolist() == [0, 0, 0, 0, 0, 0, 1, 0]


def test_land_that_sank_before_the_start_is_dry_at_first() -> None:
    sea = ds.Simulation(ShallowWater(ds.Grid((8,), 1.0), 0.05, uplift=True), wrt=[], precision="f64")
    z = np.linspace(-1.0, 1.0, 8)
    inputs = {"z": z, "eta": np.full(8, -2.0), "uplift": np.full(8, -0.5), "start": np.full(8, -10.0), "rise": np.ones(8)}
    np.testing.assert_allclose(sea.run(inputs, 2).final["eta"], z - 0.5, atol=1e-12)
