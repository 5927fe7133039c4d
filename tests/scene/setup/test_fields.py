"""Fields of a scene against closed forms, and each way a data file can be wrong."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from diffsim.errors import DataError, SceneError
from diffsim.mesh.grid import Grid
from diffsim.records.formats.numpy_files import load_array
from diffsim.scene.schema.data import topobathy
from diffsim.scene.schema.parts import FieldModel, PointSet, Where
from diffsim.scene.setup.fields import BUILDERS, build_field, build_mask, build_points
from diffsim.scene.setup.place import Place
from diffsim.scene.setup.setup import refined

GRID = Grid((7, 9), (2.0, 3.0), (10.0, -6.0), ("z", "x"))
HERE = Place(GRID, GRID, "fields.c")
Z, X = np.meshgrid(GRID.coordinates(0), GRID.coordinates(1), indexing="ij")


def field(**parts):
    return build_field(FieldModel(**parts), HERE)


def ellipse_distance(z, x, along_z, along_x):
    """f (f - 1) / |∇f²/2| with f² = (z / along_z)² + (x / along_x)², at most the least half axis inside."""
    f = np.sqrt((z / along_z) ** 2 + (x / along_x) ** 2)
    with np.errstate(invalid="ignore"):
        value = f * (f - 1) / np.sqrt((z / along_z**2) ** 2 + (x / along_x**2) ** 2)
    return np.maximum(np.where(f == 0, -np.inf, value), -min(along_z, along_x))


SHAPES = {
    "bodies": (
        [{"centre": [13.0, 3.0], "half_axes": 2.5}, {"centre": [20.0, 15.0], "half_axes": [1.0, 3.0], "angle": 90.0}],
        np.minimum(np.hypot(Z - 13, X - 3) - 2.5, ellipse_distance(Z - 20, X - 15, 3.0, 1.0)),
    ),
    "layers": ({"axis": "x", "tops": [0.0], "values": [1.0, 2.0]}, np.where(X < 0, 1.0, 2.0)),
    "gaussians": (
        [{"centre": [16.0, 6.0], "width": [4.0, 1.0], "amplitude": 2.0}],
        2 * np.exp(-0.5 * (((Z - 16) / 4) ** 2 + (X - 6) ** 2)),
    ),
    "boxes": ([{"lower": [12.0, 0.0], "upper": [16.0, 6.0], "amplitude": 4.0}], 4.0 * ((Z >= 12) & (Z <= 16) & (X >= 0) & (X <= 6))),
}
"""Part of a field -> its table, and its values by its formula."""


@pytest.mark.parametrize("kind", SHAPES)
def test_a_part_has_the_values_of_its_formula(kind: str) -> None:
    table, expected = SHAPES[kind]
    assert len(np.unique(expected)) > 1
    np.testing.assert_allclose(field(**{kind: table}), expected, rtol=1e-12)


def test_every_part_has_a_builder():
    assert set(BUILDERS) == set(FieldModel.model_fields) - {"floor", "ceil"}


def test_parts_are_added_and_then_cut():
    values = field(constant=5.0, boxes=[{"lower": [10.0, -6.0], "upper": [14.0, 0.0], "amplitude": 4.0}], ceil=8.0, floor=6.0)
    inside = (Z <= 14) & (X <= 0)
    np.testing.assert_array_equal(values, np.where(inside, 8.0, 6.0))


def test_layers():
    values = field(layers={"axis": "z", "tops": [14.0, 20.0], "values": [1.0, 2.0, 3.0]})
    np.testing.assert_array_equal(values, np.select([Z < 14, Z < 20], [1.0, 2.0], 3.0))


def test_gaussian_is_turned_from_the_first_axis_to_the_second():
    values = field(gaussians=[{"centre": [16.0, 6.0], "width": [1.0, 4.0], "amplitude": 2.0, "angle": 90.0}])
    expected = 2 * np.exp(-0.5 * (((Z - 16) / 4) ** 2 + ((X - 6) / 1) ** 2))
    np.testing.assert_allclose(values, expected, rtol=1e-12)
    tilted = field(gaussians=[{"centre": [16.0, 6.0], "width": [9.0, 1.0], "amplitude": 1.0, "angle": 45.0}])
    along, across = tilted[(Z == 18) & (X == 9)], tilted[(Z == 18) & (X == 3)]  # the long axis points to more z and more x
    assert along > across


def test_one_width_stands_for_all_axes():
    both = field(gaussians=[{"centre": [16.0, 6.0], "width": [3.0, 3.0], "amplitude": 2.0}])
    np.testing.assert_array_equal(field(gaussians=[{"centre": [16.0, 6.0], "width": 3.0, "amplitude": 2.0}]), both)


def test_depth_is_the_data_at_its_own_points_and_linear_between():
    latitude, longitude = topobathy().coordinates
    depth = topobathy().quantities["depth"]
    for i, j in ((0, 0), (30, 12), (89, 118)):  # cells at two neighbouring points of the data and in the middle
        steps = (0.5 * (latitude[i + 1] - latitude[i]), 0.5 * (longitude[j + 1] - longitude[j]))
        grid = Grid((3, 3), steps, (latitude[i], longitude[j]))
        built = build_field(FieldModel(dataset={"name": "matplotlib:topobathy"}), Place(grid, grid, "H"))
        corners = depth[i : i + 2, j : j + 2]
        np.testing.assert_allclose(built[::2, ::2], corners, rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(built[1, 1], corners.mean(), rtol=1e-9, atol=1e-9)
    assert depth.min() == 0


def test_raster_without_coordinates_is_stretched_over_the_cells():
    grid = Grid((256, 256), 0.5, 100.0)
    values = build_field(FieldModel(dataset={"name": "matplotlib:s1045"}), Place(grid, grid, "kappa"))
    assert (values.min(), values.max()) == (0, 1)
    coarse = Grid((128, 128), 1.0, 100.25)  # each cell covers four pixels, whose mean lies at its centre
    mean = build_field(FieldModel(dataset={"name": "matplotlib:s1045"}), Place(coarse, coarse, "kappa"))
    np.testing.assert_allclose(mean, values.reshape(128, 2, 128, 2).mean(axis=(1, 3)), rtol=1e-12)


def test_conversion_is_blur_then_scale_then_classes(tmp_path):
    np.save(tmp_path / "v.npy", np.where(X > 4, 1.0, 0.0))
    path = str(tmp_path / "v.npy")
    scaled = field(file={"path": path, "scale": 3.0, "offset": -1.0})
    np.testing.assert_array_equal(scaled, np.where(X > 4, 2.0, -1.0))
    classes = field(file={"path": path, "scale": 10.0, "thresholds": [5.0, 20.0], "values": [7.0, 8.0, 9.0]})
    np.testing.assert_array_equal(classes, np.where(X > 4, 8.0, 7.0))
    blurred = field(file={"path": path, "blur": 3.0})
    assert np.all(np.diff(blurred, axis=1) >= 0)
    assert 0 < blurred[0, 3] < blurred[0, 4] < 1


@pytest.mark.parametrize(
    ("part", "key"), [({"file": {"path": "v.npz", "values": "depth"}}, "key"), ({"dataset": {"name": "a", "values": "depth"}}, "quantity")]
)
def test_a_name_in_place_of_the_values_of_classes_is_told_its_key(part, key):
    with pytest.raises(ValueError, match=f"expected numbers, .* found the text 'depth'; the key `{key}` names what is read"):
        FieldModel(**part)


def test_file_on_a_finer_grid_is_interpolated(tmp_path):
    np.savez(tmp_path / "v.npz", speed=2 * Z + X)
    fine = refined(GRID, 2.0)
    values = build_field(FieldModel(file={"path": str(tmp_path / "v.npz"), "key": "speed"}), Place(fine, GRID, "c"))
    z, x = np.meshgrid(fine.coordinates(0), fine.coordinates(1), indexing="ij")
    np.testing.assert_allclose(values[1:-1, 1:-1], (2 * z + x)[1:-1, 1:-1], rtol=1e-12)
    np.testing.assert_allclose(values[0, 1:-1], (2 * GRID.coordinates(0)[0] + x)[0, 1:-1], rtol=1e-12)  # its end values go on


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (None, "fields.c.file.path: expected a NumPy file, found no "),
        (b"not an array", "fields.c.file.path: expected a NumPy file of numbers, found "),
        (np.zeros((3, 4)), "expected the grid's shape (7, 9) in "),
        (np.where(X > 4, np.nan, 1.0), "expected finite numbers in "),
        (np.full((7, 9), "a"), "expected numbers in "),
        ({"other": np.zeros((7, 9))}, "fields.c.file.key: expected one of the arrays other in "),
    ],
    ids=["missing", "unreadable", "shape", "nan", "text", "key"],
)
def test_bad_data_files(tmp_path, content, expected):
    path = tmp_path / ("v.npz" if isinstance(content, dict) else "v.npy")
    if isinstance(content, bytes):
        path.write_bytes(content)
    elif isinstance(content, dict):
        np.savez(path, **content)
    elif content is not None:
        np.save(path, content)
    with pytest.raises(SceneError) as caught:
        field(file={"path": str(path)})
    assert expected in str(caught.value)
    assert str(path) in str(caught.value)
    assert ";" in str(caught.value)


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        ({"layers": {"axis": "y", "tops": [], "values": [1.0]}}, "fields.c.layers.axis: expected one of z, x, found 'y'"),
        ({"gaussians": [{"centre": [1.0], "width": 1.0, "amplitude": 1.0}]}, "fields.c.gaussians[0].centre: expected 2 numbers"),
        ({"dataset": {"name": "matplotlib:topo"}}, "fields.c.dataset.name: expected one of matplotlib:topobathy"),
        ({"dataset": {"name": "matplotlib:topobathy", "quantity": "dept"}}, "did you mean depth?"),
        (
            {"dataset": {"name": "matplotlib:topobathy"}},
            "expected a grid with z from 48.0164 to 49.9842, where there are data, found 10 to 22",
        ),
    ],
)
def test_parts_that_do_not_fit(parts, expected):
    with pytest.raises(SceneError) as caught:
        field(**parts)
    assert expected in str(caught.value)


def test_masks():
    known = {"H": X}
    mask = build_mask(Where(field="H", above=0.0, below=12.0, margin=2, lower=[14.0, -100.0], upper=[100.0, 9.0]), known, HERE)
    expected = (X >= 0) & (X <= 9) & (Z >= 14)
    expected[[0, 1, -2, -1]] = False
    expected[:, [0, 1, -2, -1]] = False
    np.testing.assert_array_equal(mask, expected)
    with pytest.raises(SceneError, match="found none that meets"):
        build_mask(Where(field="H", above=1e9), known, HERE)
    with pytest.raises(SceneError, match=r"expected a known field \(H\), found 'h'"):
        build_mask(Where(field="h", above=0.0), known, HERE)
    where = Where(of=FieldModel(boxes=({"lower": [10.0, 2.0], "upper": [20.0, 8.0], "amplitude": 1.0},)), above=0.5)
    np.testing.assert_array_equal(build_mask(where, {}, HERE), (X >= 2) & (X <= 8) & (Z >= 10) & (Z <= 20))
    with pytest.raises(ValueError, match="either field or of, found both"):
        Where(field="H", of=FieldModel(constant=1.0), above=0.0)


def test_points():
    model = PointSet(points=[[11.0, 1.0]], lines=[{"start": [10.0, 0.0], "stop": [12.0, 6.0], "count": 3}])
    np.testing.assert_array_equal(build_points(model, HERE), [[11, 1], [10, 0], [11, 3], [12, 6]])


def test_a_name_that_is_too_long_is_told(tmp_path):
    with pytest.raises(DataError, match="File name too long"):
        load_array(tmp_path / f"{'n' * 300}.npy", None)


def test_numbers_at_the_edge_continue(tmp_path: Path) -> None:
    """A model of the inner part of a grid, by each method; the values inside are as without `extend`."""
    grid = Grid((8, 9), 10.0, (-20.0, -30.0), ("z", "x"))
    inner = Grid((4, 5), 10.0, (0.0, -10.0), ("z", "x"))
    values = np.random.default_rng(5).standard_normal((4, 5))
    np.save(tmp_path / "c.npy", values)
    file: dict[str, Any] = {"path": str(tmp_path / "c.npy"), "spacing": 10.0, "origin": [0.0, -10.0], "axes": ["z", "x"]}
    for method in ("nearest", "linear", "cubic", "mean"):
        built = build_field(FieldModel(file={**file, "method": method, "extend": "edge"}), Place(grid, grid, "fields.c"))
        close = 1e-4 if method == "cubic" else 1e-12  # its coefficients come from an iterative solver
        np.testing.assert_allclose(built, np.pad(values, 2, mode="edge"), rtol=close, atol=close)
        alone = build_field(FieldModel(file={**file, "method": method}), Place(inner, inner, "fields.c"))
        np.testing.assert_allclose(alone, values, rtol=close, atol=close)
    with pytest.raises(SceneError, match=r'z from 0 to 30, .* found -20 to 50; .* extend = "edge"'):
        build_field(FieldModel(file=file), Place(grid, grid, "fields.c"))
    beside = Grid((8, 9), 10.0, (500.0, -30.0), ("z", "x"))
    with pytest.raises(SceneError, match=r"found 500 to 570; move or shrink the grid$"):
        build_field(FieldModel(file={**file, "extend": "edge"}), Place(beside, beside, "fields.c"))


def test_longitudes_a_turn_away(tmp_path: Path) -> None:
    values = np.random.default_rng(1).standard_normal((4, 5))
    np.save(tmp_path / "c.npy", values)
    file: dict[str, Any] = {"path": str(tmp_path / "c.npy"), "spacing": 1.0, "origin": [40.0, 228.0]}
    grid = Grid((4, 5), 1.0, (40.0, -132.0), ("latitude", "longitude"))
    np.testing.assert_array_equal(build_field(FieldModel(file=file), Place(grid, grid, "fields.c")), values)
