"""Rain, rivers and water that seeps away in shallow water."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest

import diffsim as ds
from diffsim.errors import ParameterError
from diffsim.solvers import ShallowWater


@pytest.mark.parametrize(("substeps", "dt", "error"), [(1, 0.1, 2e-3), pytest.param(40, 4.0, 0.02, marks=pytest.mark.slow)])
def test_rain_runs_down_a_plane_as_fast_as_it_falls(substeps: int, dt: float, error: float) -> None:
    """Half an hour of 180 mm/h on a slope of 1 : 200. At x metres from the top it carries q = R x, n q = h^(5/3) sqrt(S) deep."""
    grid, rain, n, slope = ds.Grid((100,), 1.0, 0.5), 5e-5, 0.03, 0.005
    x = grid.coordinates(0)
    options: Any = {"drag": "manning", "supply": "steady", "thin": 1e-4, "negligible": 1e-4, "substeps": substeps, "fastest": 2.3}
    plane = ds.Simulation(ShallowWater(grid, dt, (("wall", "open"),), **options), wrt=[], precision="f64")
    inputs = {"z": -slope * x, "eta": -slope * x, "manning": np.full(100, n), "supply": np.full(100, rain)}
    final, middle = plane.run(inputs, round(1800 / dt)).final, (x > 15) & (x < 60)  # the lower end holds the water back
    np.testing.assert_allclose(final["qx"][middle], (rain * x)[middle], rtol=error)
    np.testing.assert_allclose((final["eta"] + slope * x)[middle], ((n * rain * x / np.sqrt(slope)) ** 0.6)[middle], rtol=0.03)


@pytest.fixture(scope="module")
def pond() -> ds.Simulation:
    equation = ShallowWater(ds.Grid((30,), 2.0, 1.0), 0.5, method="euler", supply="series", substeps=20)
    return ds.Simulation(equation, receivers={"eta": [[40.0]]}, wrt=["supply", "z"], precision="f64")


def test_what_a_river_brings_is_there(pond: ds.Simulation) -> None:
    z = 0.02 * (np.arange(30.0) - 15) ** 2 + 0.1 * np.random.default_rng(0).normal(size=30)
    supply = np.zeros((80, 30))
    supply[:, 3] = 0.25 / 2.0 * np.sin(np.arange(80) / 10) ** 2  # 0.25 m²/s into one cell
    h = pond.run({"z": z, "eta": z - 1.0, "supply": supply}, 80).final["eta"] - z
    assert h.sum() == pytest.approx(0.5 * supply.sum(), rel=1e-12) and h.min() >= 0 and (h > 1e-3).sum() > 6


def test_no_more_water_seeps_away_than_there_is(pond: ds.Simulation) -> None:
    z = 0.02 * (np.arange(30.0) - 15) ** 2
    final = pond.run({"z": z, "eta": np.full(30, 1.0), "supply": np.full((80, 30), -0.05)}, 80).final
    np.testing.assert_array_equal(final["eta"], z)
    assert np.abs(final["qx"]).max() < 1e-6


def test_the_gradient_for_rain_and_seepage_is_that_of_differences(pond: ds.Simulation) -> None:
    rng = np.random.default_rng(1)
    inputs = {"z": 0.02 * (np.arange(30.0) - 15) ** 2 + 0.05 * rng.normal(size=30), "eta": np.full(30, 1.0)}
    inputs["supply"] = 0.01 * rng.uniform(-1, 1, size=(10, 30))  # rain, and water that seeps away

    def loss(found: ds.Solution) -> Any:
        return (found.traces["eta"] ** 2).sum() + (found.final["qx"] ** 2).sum()

    _, gradient = pond.value_and_grad(loss, inputs, 10)
    for name, size in (("supply", 1e-7), ("z", 1e-7)):
        way = rng.normal(size=inputs[name].shape)
        high, low = (float(loss(pond.run(inputs | {name: inputs[name] + sign * size * way}, 10))) for sign in (1, -1))
        assert (gradient[name] * way).sum() == pytest.approx((high - low) / (2 * size), rel=1e-5), name


@pytest.mark.parametrize("level", [0.0, 1e-3, -1e-3])
def test_at_no_supply_the_gradient_is_that_of_water_that_is_added(pond: ds.Simulation, level: float) -> None:
    """Water that leaves takes its momentum along, so the slope to the other side differs there, and there alone."""
    inputs = {"z": np.linspace(1.0, 0.0, 30), "eta": np.linspace(1.5, 0.5, 30)}
    supply, way = np.full((10, 30), level), np.random.default_rng(2).uniform(0, 1, size=(10, 30))

    def loss(found: ds.Solution) -> Any:
        return found.final["qx"][15]

    value, gradient = pond.value_and_grad(loss, inputs | {"supply": supply}, 10)
    exact = float((gradient["supply"] * way).sum())
    more, less = ((loss(pond.run(inputs | {"supply": supply + size * way}, 10)) - value) / size for size in (1e-7, -1e-7))
    assert more == pytest.approx(exact, rel=1e-4)
    assert (abs(less / exact - 1) < 1e-4) == (level != 0.0) and (abs(less / exact - 1) > 0.1) == (level == 0.0)


def test_rain_that_rounding_swallows_is_refused() -> None:
    hill = ds.Simulation(ShallowWater(ds.Grid((9,), 1.0), 0.1, supply="steady"), wrt=[], precision="f32")
    why = r"supply: 100% of it adds less to the level in a step than 50 times .* expected at least 0.012 m/s at levels of up to 200 m"
    with pytest.raises(ParameterError, match=why):
        hill.run({"z": np.full(9, 200.0), "eta": np.zeros(9), "supply": np.full(9, 1e-5)}, 1)


LAKE = {"z": 0.0, "eta": 30.0}
SPRING = np.where(np.arange(9) == 4, 1.0, 0.0)


@pytest.mark.parametrize(
    ("fields", "supply", "substeps", "kept"),
    [
        (LAKE, 2e-3, 1, True),  # 50 roundings of 3.6e-6 m are 1.8e-4 m, a step adds 2e-4 m
        (LAKE, 1.7e-3, 1, False),
        (LAKE, -1.7e-3, 1, False),
        (LAKE, 2e-3, 2, False),  # which a part of a step adds to
        (LAKE, 1e-3 + SPRING, 1, True),  # 1 m/s, and less than a hundredth of that is lost
        (LAKE, 2e-4 + 1e-2 * SPRING, 1, False),
        (LAKE, 0.0, 1, True),
        ({"z": -400.0, "eta": 0.0}, 1e-6, 1, True),  # the level is 0, whatever the bed
        ({"z": 30.0, "eta": 0.0}, 1.7e-3, 1, False),
    ],
)
@pytest.mark.parametrize("kind", ["steady", "series"])
def test_what_a_part_of_a_step_adds_is_more_than_the_rounding_of_the_level(
    kind: Any, fields: dict[str, float], supply: Any, substeps: int, kept: bool
) -> None:
    equation = ShallowWater(ds.Grid((9,), 10.0), 0.1, supply=kind, substeps=substeps)
    for dtype in (np.float32, np.float64):
        bed, eta, water = (np.full(9, value, dtype) for value in (fields["z"], max(fields.values()), supply))
        with (
            nullcontext()
            if kept or dtype == np.float64
            else pytest.raises(ParameterError, match=r"^supply: .* precision='f64', or measure")
        ):
            if kind == "steady":
                equation.check_start({"z": bed, "supply": water}, {"eta": eta, "qx": 0 * eta})
            else:
                equation.check_series({"z": bed, "eta": eta}, {"supply": np.stack([water] * 3)})


def test_a_series_is_compared_with_the_level_at_the_start() -> None:
    lake = ds.Simulation(ShallowWater(ds.Grid((9,), 1.0), 0.02, supply="series", fastest=18.0), wrt=[], precision="f32")
    with pytest.raises(ParameterError, match=r"expected at least 0.0089 m/s at levels of up to 30 m"):
        lake.run({"z": np.zeros(9), "eta": np.full(9, 30.0), "supply": np.full((3, 9), 1e-4)}, 3)


@pytest.fixture(scope="module")
def channel() -> ds.Simulation:
    equation = ShallowWater(ds.Grid((8,), 2.0), 0.5, "periodic", supply="steady", substeps=60)
    return ds.Simulation(equation, wrt=["supply"], precision="f64")


def test_water_that_seeps_away_takes_its_momentum_along(channel: ds.Simulation) -> None:
    """Half of the depth in 50 s, and all of it in 100 s."""
    inputs = {"z": np.zeros(8), "eta": np.ones(8), "qx": np.ones(8), "supply": np.full(8, -0.01)}
    half, all_of_it = (channel.run(inputs, steps).final for steps in (100, 210))
    np.testing.assert_allclose(half["eta"], 0.5, rtol=1e-12)
    np.testing.assert_allclose(half["qx"], 0.5, rtol=1e-12)
    np.testing.assert_array_equal([*all_of_it.values()], 0.0)


def test_rain_on_dry_land_is_at_rest(channel: ds.Simulation) -> None:
    """Momentum that is given where there is no water is not that of the rain."""
    inputs = {"z": np.zeros(8), "eta": np.full(8, -1.0), "qx": np.ones(8), "supply": np.full(8, 1e-3)}
    final = channel.run(inputs, 20).final
    np.testing.assert_allclose(final["eta"], 0.01, rtol=1e-12)
    np.testing.assert_array_equal(final["qx"], 0.0)


def test_a_river_into_a_dry_valley_has_the_parts_that_it_needs(channel: ds.Simulation) -> None:
    """5 m in a step of 0.5 s into a dry cell, where before the step nothing moved and one part was enough."""
    supply = np.where(np.arange(8) == 3, 10.0, 0.0)
    final = channel.run({"z": np.zeros(8), "eta": np.zeros(8), "supply": supply}, 1).final
    assert final["eta"].sum() == pytest.approx(5.0, rel=1e-12) and final["eta"].min() >= 0
