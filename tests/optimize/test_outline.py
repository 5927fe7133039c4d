"""The outline of a body: its area, its slope, ellipses by their closed form, and the derivative."""

from __future__ import annotations

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


def area(field: np.ndarray) -> float:
    """By the part of each cell inside of a straight outline: of second order."""
    return float(np.clip(0.5 - field / 0.05, 0, 1).sum() * 0.05**2)


def test_a_circle_is_found_again() -> None:
    round = outline()
    assert np.allclose(round.centre, CENTRE, atol=1e-3) and np.isclose(round.area, np.pi * 0.36, rtol=1e-4)
    theta = round.from_field(ROUND)
    assert theta.size == 8 and np.abs(round.to_field(theta) - ROUND).max() < 1e-3
    assert np.abs(theta).max() < 0.05


def test_every_outline_has_the_area_of_the_reference_and_a_slope_of_one() -> None:
    round, rng = outline(), np.random.default_rng(0)
    for _ in range(3):
        theta = rng.uniform(-1.5, 1.5, 8)
        field = round.to_field(theta)
        assert np.isclose(area(field), np.pi * 0.36, rtol=3e-3)
        slope = np.hypot(*np.gradient(field, 0.05))[np.abs(field) < 0.05]
        assert abs(slope.mean() - 1) < 0.02 and np.abs(slope - 1).max() < 0.2
        assert np.allclose(outline().from_field(field), theta, atol=5e-3)  # also where the field is that of other variables
    assert round.bounds().ub[0] == pytest.approx(10.0) and round.bounds().lb[7] == pytest.approx(-62.5)


def test_an_ellipse_is_its_closed_form() -> None:
    """With many waves, r is that of an ellipse in each direction."""
    ellipse = bodies.ellipse(GRID, CENTRE, (0.4, 0.7), 0.4)
    shape = outline(12, ellipse)
    assert np.isclose(shape.area, np.pi * 0.4 * 0.7, rtol=1e-3)
    near = np.abs(ellipse) < 0.1
    assert np.abs(shape.to_field(shape.from_field(ellipse)) - ellipse)[near].max() < 2e-2
    rough = outline(2, ellipse)
    assert np.abs(rough.to_field(rough.from_field(ellipse)) - ellipse)[near].max() > 2e-2  # one wave is no ellipse


def test_its_derivative_is_that_of_differences() -> None:
    shape, rng = outline(), np.random.default_rng(1)
    theta, way, weights = rng.normal(size=8), rng.normal(size=8), rng.normal(size=GRID.shape)
    slope = ds.grad(lambda x: dnp.sum(weights * shape.to_field(x)))(theta) @ way
    ends = [float((weights * shape.to_field(theta + sign * 1e-5 * way)).sum()) for sign in (-1, 1)]
    assert np.isclose((ends[1] - ends[0]) / 2e-5, slope, rtol=1e-7)


def test_what_is_no_body_is_refused() -> None:
    with pytest.raises(ParameterError, match="two axes of uniform cells"):
        Outline((8,), np.float64, np.ones(8), ds.Grid((8,), 1.0))
    for wrong, message in (
        (np.ones(GRID.shape), "no cell below 0"),
        (bodies.cylinder(GRID, CENTRE, 9.0), "none above"),
        (np.minimum(bodies.cylinder(GRID, (1.0, 1.0), 0.3), bodies.cylinder(GRID, (2.5, 2.5), 0.3)), "around its own centre"),
    ):
        with pytest.raises(ParameterError, match=message):
            outline(reference=wrong)
    with pytest.raises(ParameterError, match="waves"):
        outline(1)
    with pytest.raises(ParameterError, match="most"):
        Outline(GRID.shape, np.float64, ROUND, GRID, most=0.0)
