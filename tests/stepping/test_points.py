"""Points between cells, and launches that adapt."""

from __future__ import annotations

import numpy as np
import pytest

import diffsim as ds
from diffsim.stepping.pace import ALONE, TRIAL, Pace
from diffsim.stepping.points import linear_table

GRID = ds.Grid((7, 9), (0.5, 2.0), (1.0, -3.0))


@pytest.mark.parametrize("location", [(0, 0), (1, 0), (1, 1)])
def test_interpolation_is_exact_on_bilinear_fields(location: tuple[int, int]) -> None:
    rng = np.random.default_rng(0)
    y, x = np.meshgrid(GRID.coordinates(0, location[0]), GRID.coordinates(1, location[1]), indexing="ij")
    points = np.stack([rng.uniform(y.min(), y.max(), 40), rng.uniform(x.min(), x.max(), 40)], axis=1)
    points[0] = y[0, 0], x[0, 0]
    points[1] = y[-1, -1], x[-1, -1]
    table = linear_table(GRID, location, points)
    found = table.gather(2 + y - 3 * x + 0.5 * x * y)
    assert found == pytest.approx(2 + points[:, 0] - 3 * points[:, 1] + 0.5 * points.prod(axis=1), abs=1e-12)
    assert np.diff(table.starts)[:2].tolist() == [1, 1]  # on a cell: that cell alone


def test_scatter_is_the_transpose_in_both_orders() -> None:
    rng = np.random.default_rng(1)
    points = np.stack([rng.uniform(1, 4, 12), rng.uniform(-3, 13, 12)], axis=1)
    points[5] = points[4]  # two points in one place
    table = linear_table(GRID, (0, 0), points)
    field, amplitudes = rng.normal(size=GRID.shape), rng.normal(size=12)
    spread = np.zeros(GRID.shape)
    table.scatter(amplitudes, spread)
    assert (spread * field).sum() == pytest.approx(table.gather(field) @ amplitudes, rel=1e-13)
    cells, starts, members, weights = table.by_cell
    again = np.zeros(GRID.shape)
    for e, cell in enumerate(cells):
        again[tuple(cell)] = sum(weights[q] * amplitudes[members[q]] for q in range(starts[e], starts[e + 1]))
    assert again == pytest.approx(spread, abs=1e-14)
    assert len({tuple(c) for c in cells}) == len(cells)


def test_outside_the_grid() -> None:
    with pytest.raises(ds.errors.ShapeError, match=r"gauge 1 at \(2.0, 14.0\) lies outside the grid: x = 14, expected -3 to 13"):
        linear_table(GRID, (0, 0), np.array([[1.0, 0.0], [2.0, 14.0]]), what="gauge")


def test_slow_workers_go_alone_for_a_while_and_then_try_again() -> None:
    pace = Pace(2)
    pace.note(100, 0.01)
    assert (pace.workers(), pace.steps()) == (2, 500)
    for _ in range(2):
        pace.note(100, 0.5)
        assert pace.workers() == 2  # a first touch of memory may be slow
    pace.note(100, 0.5)
    assert pace.workers() == 1
    pace.note(100, 0.9 * ALONE)
    assert pace.workers() == 1
    pace.note(100, 0.2 * ALONE)
    assert (pace.workers(), pace.steps()) == (2, TRIAL)
    for _ in range(3):
        assert (pace.workers(), pace.steps()) == (2, TRIAL)
        pace.note(8, 0.05)
    assert pace.workers() == 1  # still slow: alone again, for longer
    pace.note(100, 1.5 * ALONE)
    assert pace.workers() == 1
    pace.note(100, 0.6 * ALONE)
    pace.note(8, 8e-4)
    assert (pace.workers(), pace.steps()) == (2, 500)


def test_one_worker_has_nothing_to_wait_for() -> None:
    pace = Pace(1)
    for seconds in (0.01, 1.0, 1.0, 1.0, 1.0):
        pace.note(100, seconds)
        assert pace.workers() == 1
    assert not pace.alone
