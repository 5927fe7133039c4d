"""Long waves against closed forms and conservation laws."""

from __future__ import annotations

import numpy as np
import pytest

import diffsim as ds
from diffsim.errors import StabilityError
from diffsim.solvers import LongWave
from diffsim.solvers.parts.sea import EARTH_RADIUS, GRAVITY


def test_a_seiche_keeps_its_discrete_frequency() -> None:
    n, h, depth, dt, steps = 24, 1000.0, 200.0, 8.0, 300
    grid = ds.Grid((n, n), h)
    angle = np.pi * np.array([2, 1]) / n
    i, j = np.meshgrid(np.arange(n) + 0.5, np.arange(n) + 0.5, indexing="ij")
    mode = np.cos(angle[0] * i) * np.cos(angle[1] * j)
    eigenvalue = (4 / h**2 * np.sin(angle / 2) ** 2).sum()
    omega = 2 / dt * np.arcsin(0.5 * dt * np.sqrt(GRAVITY * depth * eigenvalue))
    solution = ds.Simulation(LongWave(grid, dt)).run({"H": np.full(grid.shape, depth), "eta0": mode}, steps)
    assert np.abs(solution.final["eta"] - mode * np.cos(omega * dt * steps)).max() < 1e-10


@pytest.mark.parametrize("coordinates", ["plane", "sphere"])
def test_walls_and_coasts_keep_the_water(coordinates: str) -> None:
    rng = np.random.default_rng(0)
    sphere = coordinates == "sphere"
    grid = ds.Grid((20, 26), 0.01, (48.0, 234.0)) if sphere else ds.Grid((20, 26), 1000.0)
    depth = np.where(rng.uniform(size=grid.shape) < 0.25, 0.0, rng.uniform(50, 900, grid.shape))
    start = rng.normal(size=grid.shape) * (depth > 0)
    area = np.cos(np.radians(grid.coordinates(0)))[:, None] if sphere else np.ones((20, 1))
    solution = ds.Simulation(LongWave(grid, 3.0, coordinates)).run({"H": depth, "eta0": start}, 400)
    assert (solution.final["eta"] * area).sum() == pytest.approx((start * area).sum(), abs=1e-10)
    assert np.all(solution.final["eta"][depth == 0] == 0)  # the land stays dry


def test_a_wave_arrives_when_it_should() -> None:
    """Along a channel of constant depth at the equator, the crest moves at sqrt(g H)."""
    grid = ds.Grid((4, 400), 0.01, (-0.015, 0.0), ("lat", "lon"))
    depth, dt = 1000.0, 5.0
    lon = grid.coordinates(1)
    start = np.exp(-(((lon - 1.0) / 0.1) ** 2)) * np.ones((4, 1))
    steps = 400
    solution = ds.Simulation(LongWave(grid, dt, "sphere")).run({"H": np.full(grid.shape, depth), "eta0": start}, steps)
    right = solution.final["eta"][1, 150:]
    travelled = np.radians(lon[150 + int(right.argmax())] - 1.0) * EARTH_RADIUS
    assert travelled == pytest.approx(np.sqrt(GRAVITY * depth) * dt * steps, rel=0.01)
    assert right.max() == pytest.approx(0.5, rel=0.01)


def test_a_start_from_rest_is_second_order_in_time() -> None:
    """Halving dt quarters the error of a seiche's phase, first step included."""
    n, h, depth, duration = 32, 1000.0, 200.0, 1200.0
    grid = ds.Grid((n, n), h)
    angle = np.pi / n
    i = (np.arange(n) + 0.5)[:, None] * np.ones((1, n))
    mode = np.cos(angle * i)
    omega = np.sqrt(GRAVITY * depth * 4 / h**2 * np.sin(angle / 2) ** 2)
    errors = []
    for steps in (80, 160):
        solution = ds.Simulation(LongWave(grid, duration / steps)).run({"H": np.full(grid.shape, depth), "eta0": mode}, steps)
        errors.append(np.abs(solution.final["eta"] - mode * np.cos(omega * duration)).max())
    assert np.log2(errors[0] / errors[1]) == pytest.approx(2, abs=0.1)


@pytest.mark.parametrize(
    ("grid", "coordinates", "limit"),
    [
        (ds.Grid((8,), 1000.0), "plane", 1000.0 / 140.071),  # sqrt(9.81 x 2000) = 140.071 m/s
        (ds.Grid((8, 8), 1000.0), "plane", 1000.0 / 140.071 / 2**0.5),
        (ds.Grid((8, 8), (1000.0, 500.0)), "plane", 1000.0 / 140.071 / 5**0.5),
        # a degree is 111 194.9 m; the northernmost row is at 60 degrees, where one of longitude is half as long
        (ds.Grid((8, 8), 0.01, (59.93, 0.0)), "sphere", 1111.949 / 140.071 / 5**0.5),
    ],
)
def test_the_stable_step_is_sharp(grid: ds.Grid, coordinates: str, limit: float) -> None:
    """dt = 2 / sqrt(g H (4 / dx2 + 4 / dy2)); beyond it the fastest mode grows."""
    depth = {"H": np.full(grid.shape, 2000.0), "eta0": np.zeros(grid.shape)}
    ds.Simulation(LongWave(grid, 0.9999 * limit, coordinates)).run(depth, 1)
    with pytest.raises(StabilityError, match="exceeds the stable"):
        ds.Simulation(LongWave(grid, 1.0001 * limit, coordinates)).run(depth, 1)


def test_bad_depth() -> None:
    grid = ds.Grid((8, 8), 1000.0)
    simulation = ds.Simulation(LongWave(grid, 3.0))
    depth = np.full(grid.shape, 100.0)
    depth[2, 3] = -5
    with pytest.raises(ds.errors.ParameterError, match="depth H has a value of -5 m"):
        simulation.run({"H": depth}, 3)


def test_a_sea_floor_that_rises_lifts_the_water_and_its_gradient_is_that_of_differences() -> None:
    """At once it is an initial surface; slowly it is what nonlinear water of a small wave does."""
    grid = ds.Grid((120,), 500.0, 250.0)
    x = grid.coordinates(0)
    H, hump = np.where(x > 5e4, 0.0, 500.0), 0.01 * np.exp(-(((x - 2.5e4) / 5e3) ** 2))
    sea = ds.Simulation(LongWave(grid, 2.5, uplift=True), receivers={"eta": [[3.5e4]]}, precision="f64")
    floor = {"H": H, "uplift": hump, "start": np.zeros(120)}
    quick = sea.run(floor | {"rise": np.full(120, 1e-3)}, 80).final["eta"]
    at_first = ds.Simulation(LongWave(grid, 2.5), precision="f64").run({"H": H, "eta0": hump}, 80).final["eta"]
    assert np.abs(quick - at_first).max() < 0.02 * hump.max() and quick[110] == 0  # half a step later
    slow = floor | {"rise": np.full(120, 60.0)}
    nonlinear = ds.Simulation(ds.solvers.ShallowWater(grid, 2.5, uplift=True, negligible=0.1), precision="f64")
    other = nonlinear.run({**{n: v for n, v in slow.items() if n != "H"}, "z": np.where(H > 0, -H, 10.0), "eta": 0 * x}, 80).final["eta"]
    assert np.abs(sea.run(slow, 80).final["eta"] - other)[:96].max() < 0.01 * hump.max()
    assert ds.certify(sea, lambda found: (found.traces["eta"] ** 2).sum() * 1e4, slow, 80, seed=1).passed


@pytest.mark.parametrize("start", [-70.0, -30.0, -1.0, 7.0])
def test_a_sea_floor_that_began_to_rise_before_the_run_adds_what_is_left(start: float) -> None:
    """A flat basin between walls rises as one."""
    grid, rise = ds.Grid((6,), 1000.0), 60.0
    inputs = {"H": np.full(6, 100.0), "uplift": np.ones(6), "start": np.full(6, start), "rise": np.full(6, rise)}
    final = ds.Simulation(LongWave(grid, 2.0, uplift=True), precision="f64").run(inputs, 100).final["eta"]
    share = np.clip(-start / rise, 0, 1)
    np.testing.assert_allclose(final, 1 - share**2 * (3 - 2 * share), atol=1e-11)
