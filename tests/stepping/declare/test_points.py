"""Points between cells, and launches that adapt."""

from __future__ import annotations

import numpy as np
import pytest

import diffsim as ds
from diffsim.boundary import bound, extend_transpose
from diffsim.stepping.declare.points import Points, point_table

GRID = ds.Grid((7, 9), (0.5, 2.0), (1.0, -3.0))


@pytest.mark.parametrize("location", [(0, 0), (1, 0), (1, 1)])
def test_interpolation_is_exact_on_bilinear_fields(location: tuple[int, int]) -> None:
    rng = np.random.default_rng(0)
    y, x = np.meshgrid(GRID.coordinates(0, location[0]), GRID.coordinates(1, location[1]), indexing="ij")
    points = np.stack([rng.uniform(y.min(), y.max(), 40), rng.uniform(x.min(), x.max(), 40)], axis=1)
    points[0] = y[0, 0], x[0, 0]
    points[1] = y[-1, -1], x[-1, -1]
    table = point_table(GRID, location, points)
    values = table.gather(2 + y - 3 * x + 0.5 * x * y)
    assert values == pytest.approx(2 + points[:, 0] - 3 * points[:, 1] + 0.5 * points.prod(axis=1), abs=1e-12)
    assert np.diff(table.starts)[:2].tolist() == [1, 1]  # on a cell: that cell alone


def test_scatter_is_the_transpose_in_both_orders() -> None:
    rng = np.random.default_rng(1)
    points = np.stack([rng.uniform(1, 4, 12), rng.uniform(-3, 13, 12)], axis=1)
    points[5] = points[4]  # two points in one place
    table = point_table(GRID, (0, 0), points)
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
        point_table(GRID, (0, 0), np.array([[1.0, 0.0], [2.0, 14.0]]), what="gauge")


def dense(points: Points, rules=None, density: bool = False, grid: ds.Grid = GRID) -> np.ndarray:
    """The weights of one point over the cells."""
    out = np.zeros(grid.shape)
    point_table(grid, (0, 0), points, rules=rules, density=density).scatter(np.ones(1), out)
    return out


WIDE = ds.Grid((24, 26), (0.5, 2.0), (1.0, -3.0))


def test_a_sinc_takes_a_plane_wave_between_cells() -> None:
    """Measured 1.2e-3 and 3.3e-3 of the slope; lines 0.12 and 0.19."""
    k = np.array([2 * np.pi / (8 * 0.5), 2 * np.pi / (9 * 2.0)])
    y, x = np.meshgrid(WIDE.coordinates(0), WIDE.coordinates(1), indexing="ij")
    places = np.random.default_rng(3).uniform([3.2, 6.0], [10.0, 38.0], (30, 2))
    errors = {}
    for interpolation in ("linear", "sinc"):
        points, slopes = Points(places, interpolation), Points(places, interpolation, dipole=(1.0, 0.5))
        waves = point_table(WIDE, (0, 0), points).gather(np.cos(k[0] * y + k[1] * x))
        slope = point_table(WIDE, (0, 0), slopes).gather(np.cos(k[0] * y + k[1] * x))
        phase, along = places @ k, k @ (1.0, 0.5)
        errors[interpolation] = np.abs(waves - np.cos(phase)).max(), np.abs(slope / along + np.sin(phase)).max()
    assert errors["sinc"][0] < 1.5e-3 and errors["sinc"][1] < 5e-3
    assert min(np.array(errors["linear"]) / errors["sinc"]) > 20


@pytest.mark.parametrize("interpolation", ["linear", "sinc"])
def test_a_dipole_is_the_limit_of_two_monopoles(interpolation: str) -> None:
    place, way = np.array([4.13, 14.7]), np.array([0.6, -0.8])
    weights = dense(Points([place], interpolation, dipole=way), density=True, grid=WIDE)
    near = [dense(Points([place + e * way], interpolation), density=True, grid=WIDE) for e in (1e-5, -1e-5)]
    assert weights == pytest.approx((near[0] - near[1]) / 2e-5, abs=1e-6 * np.abs(weights).max())
    both = Points([place, place + 0.3], interpolation, dipole=[way, -2 * way])  # one direction a point
    table = point_table(WIDE, (0, 0), both, density=True)
    spread = np.zeros(WIDE.shape)
    table.scatter(np.array([1.0, 0.0]), spread)
    assert (spread == weights).all()


def test_near_a_side_the_weights_are_those_of_a_larger_grid_folded() -> None:
    """`extend_transpose` is the transpose of what kernels put beyond the sides."""
    boundary = (("odd_image", "mirror"), "periodic")
    rules, halo = bound(boundary, (0, 0), WIDE.cell_sizes), (5, 5)
    larger = ds.Grid((34, 36), WIDE.spacing, tuple(o - 5 * h for o, h in zip(WIDE.origin, WIDE.spacing, strict=True)))
    for place in ([0.8, -2.1], [1.9, 3.0], [12.7, 46.1], [12.6, 20.0]):
        for dipole in (None, (1.0, 0.3)):
            points = Points([place], "sinc", dipole)
            expected = dense(points, grid=larger)
            extend_transpose(expected, halo, rules)
            assert dense(points, rules, grid=WIDE) == pytest.approx(expected[5:-5, 5:-5], abs=1e-12)


def test_a_point_on_a_free_surface_has_no_weight() -> None:
    rules = bound("odd_image", (0, 0), WIDE.cell_sizes)
    assert np.abs(dense(Points([[0.75, 20.0]], "sinc"), rules, grid=WIDE)).max() < 1e-15


@pytest.mark.parametrize(
    ("points", "message"),
    [
        (
            Points([[2.4, 20.0]], "sinc"),
            r"point 0 at \(2.4, 20.0\) is less than 4 cells away from a side of y, .*; move it",
        ),
        (Points([[5.0, 20.0]], "sinc"), None),
        (Points([[1.0, 20.0]], dipole=(1.0, 0.0)), "is less than a cell away from a side of y"),
        (Points([[1.0, 20.0]]), None),
        (Points([[0.6, 20.0]], "sinc"), r"lies outside the grid: y = 0.6, expected 0.75 to 12.75"),
        (Points([[0.9, 20.0]]), r"lies outside the grid: y = 0.9, expected 1 to 12.5"),
    ],
)
def test_where_points_may_lie(points: Points, message: str | None) -> None:
    rules = bound("zero", (0, 0), WIDE.cell_sizes)
    if message is None:
        assert point_table(WIDE, (0, 0), points, rules=rules).count == 1
    else:
        with pytest.raises(ds.errors.ShapeError, match=message):
            point_table(WIDE, (0, 0), points, rules=rules)


def test_wrong_points_are_refused() -> None:
    with pytest.raises(ds.errors.ParameterError, match="interpolation = 'cubic' is unknown; choose one of linear, sinc"):
        Points([[1.0, 2.0]], "cubic")  # type: ignore[arg-type]
    for dipole in ((1.0,), (0.0, 0.0), [[1.0, 0.0], [1.0, 0.0]], (np.nan, 1.0)):
        with pytest.raises(ds.errors.ShapeError, match="dipole of Points has shape"):
            Points([[1.0, 2.0]], dipole=dipole)
    stretched = ds.Grid.from_faces((np.geomspace(1, 9, 20), np.arange(20.0)))
    for points in (Points([[4.0, 9.0]], "sinc"), Points([[4.0, 9.0]], dipole=(1.0, 0.0))):
        with pytest.raises(ds.errors.ShapeError, match="on a stretched grid, expected a uniform one"):
            point_table(stretched, (0, 0), points)
