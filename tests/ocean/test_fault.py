"""Displacements by faults: Okada's table, symmetries, sums of parts, and derivatives."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import diffsim as ds
from diffsim.errors import ParameterError, ShapeError

TABLE = {  # Okada (1985), table 2: length 3, width 2, the depth of the lower edge; along the strike, to its left, up
    "case 2, strike": ((2.0, 3.0, 4.0, 70.0, 0.0), (-8.689e-3, -4.298e-3, -2.747e-3)),
    "case 2, dip": ((2.0, 3.0, 4.0, 70.0, 90.0), (-4.682e-3, -3.527e-2, -3.564e-2)),
    "case 3, strike": ((0.0, 0.0, 4.0, 90.0, 0.0), (0.0, 5.253e-3, 0.0)),
    "case 3, dip": ((0.0, 0.0, 4.0, 90.0, 90.0), (0.0, 0.0, 0.0)),
}
SHALLOW = ds.ocean.Fault(3e3, -2e3, 12e3, strike=35.0, dip=20.0, rake=70.0, slip=4.0, length=40e3, width=22e3)


def points(size: float = 60e3, count: int = 9) -> tuple[np.ndarray, np.ndarray]:
    along = np.linspace(-size, size, count)
    east, north = np.meshgrid(along, along)
    return east, north


@pytest.mark.parametrize("case", TABLE)
def test_displacements_are_those_of_okadas_table(case: str) -> None:
    """With a strike of 90 degrees x is east and y north."""
    (x, y, deepest, dip, rake), wanted = TABLE[case]
    half = np.deg2rad(dip)
    fault = ds.ocean.Fault(1.5, np.cos(half), deepest - np.sin(half), 90.0, dip, rake, slip=1.0, length=3.0, width=2.0)
    moved = fault.displacement(x, y)
    np.testing.assert_allclose(np.asarray(moved), wanted, atol=6e-7 + 5e-4 * np.abs(wanted).max())
    assert moved.shape == (3,)


def test_faults_that_make_up_a_fault_move_the_ground_as_it_does() -> None:
    east, north = points()
    whole = SHALLOW.displacement(east, north)
    strike, dip = np.deg2rad(SHALLOW.strike), np.deg2rad(SHALLOW.dip)
    a, b = (each.ravel() for each in np.meshgrid([-15e3, 0.0, 12.5e3], [-5.5e3, 5.5e3], indexing="ij"))
    length = np.repeat([10e3, 20e3, 5e3], 2)
    parts = replace(
        SHALLOW,
        east=SHALLOW.east + a * np.sin(strike) + b * np.cos(dip) * np.cos(strike),
        north=SHALLOW.north + a * np.cos(strike) - b * np.cos(dip) * np.sin(strike),
        depth=SHALLOW.depth + b * np.sin(dip),
        length=length,
        width=11e3,
    )
    rest = replace(  # the fault from 15 to 20 km along the strike
        SHALLOW,
        east=SHALLOW.east + 17.5e3 * np.sin(strike),
        north=SHALLOW.north + 17.5e3 * np.cos(strike),
        length=5e3,
    )
    np.testing.assert_allclose(parts.displacement(east, north) + rest.displacement(east, north), whole, atol=1e-12)


def test_a_fault_that_is_turned_turns_the_displacement() -> None:
    east, north = points()
    turned = replace(SHALLOW, east=SHALLOW.north, north=-SHALLOW.east, strike=SHALLOW.strike + 90.0)  # a quarter clockwise
    one, other = SHALLOW.displacement(east, north), turned.displacement(north, -east)
    np.testing.assert_allclose(other, [one[1], -one[0], one[2]], atol=1e-12)


def test_an_almost_vertical_fault_is_almost_a_vertical_one() -> None:
    east, north = points(count=8)
    upright, near = (replace(SHALLOW, dip=dip).displacement(east, north) for dip in (90.0, 90.0 - 1e-3))
    assert 0 < np.abs(upright - near).max() < 1e-4 * np.abs(upright).max()


@pytest.mark.parametrize("dip", [90.0, 89.9999, 89.99, 89.9, 89.72, 89.5])
def test_the_derivative_for_the_dip_is_that_of_a_smooth_function(dip: float) -> None:
    """The reference is a polynomial through the values at dips that are well conditioned."""
    east, north = points(count=6)
    seeds = np.random.default_rng(2).standard_normal((3, *east.shape))

    def value(angle: Any) -> Any:
        fault = ds.ocean.Fault(1e3, 2e3, 15e3, strike=20.0, dip=angle, rake=30.0, slip=1.0, length=40e3, width=20e3)
        return (seeds * fault.displacement(east, north)).sum()

    fit = np.polynomial.Chebyshev.interpolate(lambda angles: np.array([float(value(angle)) for angle in angles]), 10, domain=[86.0, 89.0])
    here, slope = ds.value_and_grad(value)(dip)
    assert np.isclose(slope, fit.deriv()(dip), rtol=1e-4) and np.isclose(here, fit(dip), rtol=1e-6)


def test_points_above_edges_and_in_line_with_them_are_finite_and_continuous() -> None:
    """A vertical fault that ends at 1 km: the lines that go on from its edges meet the surface above its ends."""
    fault = ds.ocean.Fault(0.0, 0.0, 6e3, strike=0.0, dip=90.0, rake=0.0, slip=1.0, length=20e3, width=10e3)
    east, north = np.zeros(3), np.array([-10e3, 0.0, 10e3])
    here, near = fault.displacement(east, north), fault.displacement(east + 1e-3, north + 1e-3)
    assert np.isfinite(here).all() and np.abs(here - near).max() < 1e-6


def test_derivatives_for_every_attribute_agree_with_differences() -> None:
    east, north = points(count=7)
    seeds = np.random.default_rng(0).standard_normal((3, *east.shape))
    names = ("east", "north", "depth", "strike", "dip", "rake", "slip", "length", "width", "poisson")
    sizes = np.array([1e3, 1e3, 1e3, 1.0, 1.0, 1.0, 1.0, 1e3, 1e3, 0.1])
    start = np.array([float(getattr(SHALLOW, name)) for name in names])

    def value(numbers: Any) -> Any:
        return (seeds * ds.ocean.Fault(*numbers).displacement(east, north)).sum()

    gradient = np.array(ds.grad(value)([*start]), dtype=float) * sizes
    differences = []
    for k, size in enumerate(sizes):
        step = np.zeros(len(sizes))
        step[k] = 1e-4 * size
        differences.append((value([*(start + step)]) - value([*(start - step)])) / 2e-4)
    np.testing.assert_allclose(gradient, differences, atol=1e-7 * np.abs(gradient).max())
    assert np.abs(gradient).min() > 1e-4 * np.abs(gradient).max()


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"dip": 0.0}, ParameterError, "dip = 0.0, expected angles above 0 and at most 90 degrees"),
        ({"depth": -3.0}, ParameterError, "depth = -3.0, expected depths above 0"),
        ({"slip": np.nan}, ParameterError, "slip = nan, expected finite numbers"),
        ({"slip": np.ones((2, 2))}, ShapeError, "slip has shape .2, 2., expected a number, or one for each fault"),
        ({"slip": np.ones(2), "depth": np.full(3, 1e4)}, ShapeError, "depth and slip are for 3 and 2 faults, expected one number"),
        ({"depth": 2e3}, ParameterError, "a fault reaches above the surface"),
    ],
    ids=["dip", "depth", "finite", "shape", "number", "above"],
)
def test_faults_that_are_none(change: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        replace(SHALLOW, **change).displacement(*points())


def test_points_of_different_shapes_are_refused() -> None:
    with pytest.raises(ShapeError, match="east and north have shapes"):
        SHALLOW.displacement(np.zeros(3), np.zeros(4))
    with pytest.raises(ShapeError, match="latitude and longitude have shapes"):
        ds.ocean.tangent_plane(np.zeros(3), np.zeros(4), (0.0, 0.0))


def test_distances_from_the_centre_are_those_on_the_sphere() -> None:
    rng = np.random.default_rng(1)
    latitude, longitude = 38.0 + rng.uniform(-5, 5, 40), 142.0 + rng.uniform(-5, 5, 40)
    east, north = ds.ocean.tangent_plane(latitude, longitude, (38.0, 142.0))
    a, b, c = np.deg2rad(latitude), np.deg2rad(38.0), np.deg2rad(longitude - 142.0)
    haversine = np.sin((a - b) / 2) ** 2 + np.cos(a) * np.cos(b) * np.sin(c / 2) ** 2
    np.testing.assert_allclose(np.hypot(east, north), 2 * 6.371e6 * np.arcsin(np.sqrt(haversine)), rtol=1e-12)
    assert np.all(np.sign(east) == np.sign(longitude - 142.0))
