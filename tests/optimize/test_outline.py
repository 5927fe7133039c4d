"""The outline of a body: its area, centroid and slope, ellipses by their closed form, and the derivative."""

from __future__ import annotations

import functools

import numpy as np
import pytest

import diffsim as ds
import diffsim.numpy as dnp
from diffsim.errors import ParameterError
from diffsim.optimize import Outline
from diffsim.solvers import bodies

GRID = ds.Grid((60, 80), 0.05, origin=(0.3, -0.2))
CENTRE = (1.83, 1.71)
ROUND = bodies.cylinder(GRID, CENTRE, 0.6)


def outline(waves: int = 5, reference: np.ndarray = ROUND) -> Outline:
    return Outline(GRID.shape, np.float64, reference, GRID, waves=waves, scale=0.2)


def amounts(field: np.ndarray) -> tuple[float, float, float]:
    """Area and centroid, by the part of each cell inside of a straight outline: of second order."""
    share = np.clip(0.5 - field / 0.05, 0, 1)
    y, x = np.meshgrid(GRID.coordinates(0), GRID.coordinates(1), indexing="ij")
    return float(share.sum() * 0.05**2), float((share * y).sum() / share.sum()), float((share * x).sum() / share.sum())


def test_a_circle_is_found_again() -> None:
    round = outline()
    assert np.allclose(round.centre, CENTRE, atol=1e-4) and np.isclose(round.area, np.pi * 0.36, rtol=1e-4)
    theta = round.from_field(ROUND)
    assert theta.size == 8 and np.abs(theta).max() < 0.01
    assert np.abs(round.to_field(theta) - ROUND).max() < 1e-3


def test_every_outline_has_the_area_and_the_centroid_of_the_reference_and_a_slope_of_one() -> None:
    round, rng = outline(), np.random.default_rng(0)
    for _ in range(3):
        theta = rng.uniform(-1.5, 1.5, 8)
        field = round.to_field(theta)
        area, *centre = amounts(field)
        assert np.isclose(area, np.pi * 0.36, rtol=2e-3) and np.allclose(centre, CENTRE, atol=5e-3)
        slope = np.hypot(*np.gradient(field, 0.05))[np.abs(field) < 0.05]
        assert abs(slope.mean() - 1) < 0.02 and np.abs(slope - 1).max() < 0.25
        assert np.allclose(round.from_field(field), theta, atol=0.02)
    assert round.bounds().ub[0] == pytest.approx(10.0) and round.bounds().lb[7] == pytest.approx(-62.5)


def test_the_centroid_would_move_without_its_origin() -> None:
    """Waves 3 and 4 together lean to one side."""
    field = outline().to_field([0, 0, 3.0, 0, 4.0, 0, 0, 0])
    assert np.allclose(amounts(field)[1:], CENTRE, atol=5e-3)
    inside = np.flatnonzero(field[30] < 0)
    assert abs(GRID.coordinates(1)[inside].mean() - CENTRE[1]) > 0.02


@pytest.mark.parametrize("waves", [2, 6])
def test_ellipses_are_their_closed_form(waves: int) -> None:
    round = outline(waves)
    theta = np.zeros(round.size)
    theta[:2] = 3.0 * np.cos(0.6), 3.0 * np.sin(0.6)  # 2p and 2q over 0.2
    long, short = 0.6 * np.exp(0.3), 0.6 * np.exp(-0.3)
    ellipse = bodies.ellipse(GRID, CENTRE, (short, long), 0.3)  # p and q turn twice as fast
    near = np.abs(ellipse) < 0.06
    assert np.abs(round.to_field(theta) - ellipse)[near].max() < 3e-3
    assert np.allclose(round.from_field(ellipse), theta, atol=5e-3)


def test_its_derivative_is_that_of_differences() -> None:
    shape, rng = outline(), np.random.default_rng(1)
    weights = rng.normal(size=GRID.shape) * (np.abs(ROUND) < 0.3)
    for theta in (rng.normal(size=8), np.zeros(8)):
        way = rng.normal(size=8)
        slope = ds.grad(lambda x: dnp.sum(weights * shape.to_field(x)))(theta) @ way
        ends = [float((weights * shape.to_field(theta + sign * 1e-5 * way)).sum()) for sign in (-1, 1)]
        assert np.isclose((ends[1] - ends[0]) / 2e-5, slope, rtol=1e-6)


def test_what_is_no_body_is_refused() -> None:
    with pytest.raises(ParameterError, match="two axes of uniform cells"):
        Outline((8,), np.float64, np.ones(8), ds.Grid((8,), 1.0))
    for wrong, message in (
        (np.ones(GRID.shape), "no cell below 0"),
        (bodies.cylinder(GRID, CENTRE, 9.0), "none above"),
        (np.minimum(bodies.cylinder(GRID, (1.0, 1.0), 0.3), bodies.cylinder(GRID, (2.5, 2.5), 0.3)), "does not go around its centre"),
        (
            np.minimum(*(bodies.cylinder(GRID, (CENTRE[0], CENTRE[1] + x), 0.2) for x in (0.0, 0.8))),
            "does not go around|several",
        ),
        (functools.reduce(np.minimum, [bodies.cylinder(GRID, (CENTRE[0], CENTRE[1] + x), 0.2) for x in (-0.8, 0.0, 0.8)]), "several"),
        (bodies.cylinder(GRID, (0.1, CENTRE[1]), 0.5), "not within the grid"),
        (bodies.cylinder(GRID, (CENTRE[0], -0.1), 0.5), "not within the grid"),
        (bodies.ellipse(GRID, CENTRE, (0.08, 1.0), 0.3), "at most six times as long as wide"),
    ):
        with pytest.raises(ParameterError, match=message):
            outline(reference=wrong)
    with pytest.raises(ParameterError, match=r"^field has no cell below 0"):
        outline().from_field(np.ones(GRID.shape))
    with pytest.raises(ParameterError, match="waves"):
        outline(1)
    with pytest.raises(ParameterError, match="most"):
        Outline(GRID.shape, np.float64, ROUND, GRID, most=0.0)
