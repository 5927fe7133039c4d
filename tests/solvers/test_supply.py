"""Rain, rivers and water that seeps away in shallow water."""

from __future__ import annotations

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


def test_the_gradient_for_a_river_is_that_of_differences(pond: ds.Simulation) -> None:
    rng = np.random.default_rng(1)
    inputs = {"z": 0.02 * (np.arange(30.0) - 15) ** 2 + 0.05 * rng.normal(size=30), "eta": np.full(30, 1.0)}
    inputs["supply"] = 0.01 * rng.uniform(size=(10, 30))

    def loss(found: ds.Solution) -> Any:
        return (found.traces["eta"] ** 2).sum() + (found.final["qx"] ** 2).sum()

    _, gradient = pond.value_and_grad(loss, inputs, 10)
    for name, size in (("supply", 1e-7), ("z", 1e-7)):
        way = rng.normal(size=inputs[name].shape)
        high, low = (float(loss(pond.run(inputs | {name: inputs[name] + sign * size * way}, 10))) for sign in (1, -1))
        assert (gradient[name] * way).sum() == pytest.approx((high - low) / (2 * size), rel=1e-5), name


def test_rain_that_rounding_swallows_is_refused() -> None:
    hill = ds.Simulation(ShallowWater(ds.Grid((9,), 1.0), 0.1, supply="steady"), wrt=[], precision="f32")
    with pytest.raises(ParameterError, match=r"supply adds at most 1e-06 m a step, expected more than .* 2.4e-05 m at a height of 200 m"):
        hill.run({"z": np.full(9, 200.0), "eta": np.zeros(9), "supply": np.full(9, 1e-5)}, 1)
