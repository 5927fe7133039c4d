"""Points outside a grid: the message names the likely mistake, which was made here on purpose."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import diffsim as ds
from diffsim.errors import ShapeError
from diffsim.stepping.declare.misplaced import remedy
from diffsim.stepping.declare.points import point_table

Mistake = Callable[[np.ndarray], np.ndarray]
LENGTHS: dict[str, tuple[str, Mistake, str]] = {
    "km": ("m", lambda p: p / 1e3, "in km, and coordinates of this grid are in m; multiply them by 1000"),
    "m": ("km", lambda p: 1e3 * p, "in m, and coordinates of this grid are in km; multiply them by 0.001"),
    "cm": ("m", lambda p: 1e2 * p, "in cm, and coordinates of this grid are in m; multiply them by 0.01"),
    "exchanged": ("m", lambda p: p[:, ::-1], "with axes in the order of the grid, (y, x); exchange their columns"),
}
DEGREES: dict[str, tuple[float, Mistake, str]] = {
    "west of Greenwich": (
        200.0,
        lambda p: p - np.array([0.0, 360.0]),
        "if x is a longitude: this grid counts them from 200.5 to 219.5; add 360",
    ),
    "east of Greenwich": (
        -120.0,
        lambda p: p + np.array([0.0, 360.0]),
        "if x is a longitude: this grid counts them from -119.5 to -100.5; add -360",
    ),
    "radians": (140.0, np.radians, "in radians, and coordinates of this grid are in degrees; take np.degrees of them"),
    "exchanged": (140.0, lambda p: p[:, ::-1], "with axes in the order of the grid, (y, x); exchange their columns"),
}


def refused(grid: ds.Grid, places: np.ndarray) -> str:
    with pytest.raises(ShapeError) as caught:
        point_table(grid, (0, 0), places, what="gauge")
    return str(caught.value)


def within(grid: ds.Grid, rng: np.random.Generator, count: int) -> np.ndarray:
    return np.stack([rng.uniform(*grid.coordinates(axis)[[0, -1]], count) for axis in range(2)], axis=1)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("name", LENGTHS)
def test_lengths_in_another_unit(name: str, seed: int) -> None:
    unit, mistake, expected = LENGTHS[name]
    rng = np.random.default_rng(seed)
    spacing = 10.0 ** rng.integers(-1, 4)
    grid = ds.Grid((40, 60), spacing, (100 * spacing, 300 * spacing), unit=unit)
    places = within(grid, rng, count := int(rng.integers(1, 9)))
    point_table(grid, (0, 0), places)
    each = "the point" if count == 1 else f"all {count} points"
    assert refused(grid, mistake(places)).endswith(f"; {each} would lie inside {expected}")


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("name", DEGREES)
def test_degrees_of_another_kind(name: str, seed: int) -> None:
    west, mistake, expected = DEGREES[name]
    rng = np.random.default_rng(seed)
    grid = ds.Grid((10, 20), 1.0, (38.5, west + 0.5), unit="degrees")
    assert refused(grid, mistake(within(grid, rng, 4))).endswith(f"all 4 points would lie inside {expected}")


def test_degrees_in_place_of_lengths_and_lengths_in_place_of_degrees() -> None:
    lengths, degrees = ds.Grid((400, 500), 1e3, (4.1e6, 5e5)), ds.Grid((10, 20), 0.5, (36.0, 140.0), unit="degrees")
    assert "if these are degrees: coordinates of this grid are lengths" in refused(lengths, np.array([[38.2, 141.5], [39.0, 142.0]]))
    assert "if these are lengths: coordinates of this grid are degrees" in refused(degrees, np.array([[4.2e6, 5.1e5], [4.3e6, 6e5]]))


@pytest.mark.parametrize("seed", range(20))
def test_one_point_that_is_wrong_alone_is_no_unit(seed: int) -> None:
    rng = np.random.default_rng(seed)
    grid = ds.Grid((40, 60), 10.0, (5.0, 5.0))
    places = within(grid, rng, 5)
    places[rng.integers(5), rng.integers(2)] += 1e4
    assert refused(grid, places).endswith("; move it or enlarge the grid")


def test_a_number_far_too_large_beside_the_origin_is_no_other_unit() -> None:
    grid = ds.Grid((16, 15), 10.0, (5.0, 5.0))
    assert remedy(grid, np.array([[40.0, 400.0]])) == "move it or enlarge the grid"


@pytest.mark.parametrize("seed", range(20))
def test_points_west_of_a_global_grid_miss_a_turn_and_not_their_order(seed: int) -> None:
    rng = np.random.default_rng(seed)
    grid = ds.Grid((180, 360), 1.0, (-89.5, 0.5), unit="degrees")
    place = np.array([[rng.uniform(-89, 89), rng.uniform(-89, -1)]])
    assert "if x is a longitude: this grid counts them from 0.5 to 359.5; add 360" in refused(grid, place)


@pytest.mark.parametrize("seed", range(40))
def test_metres_are_no_degrees_however_short_a_grid(seed: int) -> None:
    rng = np.random.default_rng(seed)
    grid = ds.Grid((20, 30)[: 1 + seed % 2], rng.uniform(0.1, 12.0), (rng.uniform(0.0, 100.0),) * (1 + seed % 2))
    for size in (3.0, 100.0, 360.0, 1e5):
        places = rng.uniform(-size, size, (2, grid.ndim))
        assert not any(word in remedy(grid, places) for word in ("degrees", "longitude", "radians"))
