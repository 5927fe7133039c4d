"""Where cells lie and how large they are."""

from __future__ import annotations

import numpy as np
import pytest

from diffsim.grid import Grid


def test_cells_lie_where_they_are_said_to_lie() -> None:
    grid = Grid((3, 4), (0.5, 2.0), (10.0, -4.0))
    np.testing.assert_array_equal(grid.coordinates(0), [10.0, 10.5, 11.0])
    np.testing.assert_array_equal(grid.coordinates(1), [-4.0, -2.0, 0.0, 2.0])
    np.testing.assert_array_equal(grid.coordinates(0, 1), [10.25, 10.75, 11.25])
    np.testing.assert_array_equal(grid.coordinates(-1, 1), [-3.0, -1.0, 1.0, 3.0])


@pytest.mark.parametrize(
    ("shape", "spacing", "volume", "axes"),
    [((5,), 3.0, 3.0, ("x",)), ((5, 6), 3.0, 9.0, ("y", "x")), ((5, 6, 7), (2.0, 3.0, 4.0), 24.0, ("z", "y", "x"))],
)
def test_sizes(shape: tuple[int, ...], spacing: float | tuple[float, ...], volume: float, axes: tuple[str, ...]) -> None:
    grid = Grid(shape, spacing)
    assert grid.cell_volume == volume
    assert grid.size == np.zeros(shape).size
    assert grid.axes == axes
    assert grid.origin == (0.0,) * len(shape)
