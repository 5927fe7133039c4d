"""A field of a file over the cells of a grid, in Python."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import diffsim as ds
import diffsim.scene
from diffsim.errors import DataError, ParameterError, SceneError
from diffsim.records import Layout, Records, read_records

GRID = ds.Grid((3, 4), spacing=2.0, origin=(1.0, 1.0), axes=("y", "x"))


def saved(folder: Path) -> Path:
    """Numbers on half the spacing of the grid, in km: y + 10 x, both in m."""
    y, x = 0.5 + np.arange(6.0), 0.5 + np.arange(8.0)
    np.savez(folder / "a.npz", a=1e-3 * (y[:, None] + 10 * x), y=y, x=x)
    return folder / "a.npz"


@pytest.mark.parametrize("method", ["mean", "linear"])
def test_a_plane_is_exact_and_converted(method: str, tmp_path: Path) -> None:
    field = ds.scene.field_on_grid(
        saved(tmp_path), GRID, "m", floor=-60.0, key="a", coordinates=["y", "x"], unit="km", method=method, scale=-1.0, offset=2.0
    )
    y, x = GRID.coordinates(0)[:, None], GRID.coordinates(1)
    np.testing.assert_allclose(field, np.maximum(2.0 - (y + 10 * x), -60.0), rtol=1e-12)


def test_the_example_of_the_docstring(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    text = ds.scene.field_on_grid.__doc__.partition("Example:")[2]
    exec("\n".join(line[8:] for line in text.splitlines()))  # it has its own assertions


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"methd": "mean"}, r"^field\.file\.methd: expected one of .*did you mean method"),
        ({"method": "means"}, r"^field\.file\.method: expected .*found 'means'"),
        ({"key": "b"}, r"^field\.file\.path: .*a\.npz: expected .*found no b"),
        ({"unit": "s"}, r"^field\.file\.path: .*a\.npz, a: expected a unit that converts to m, found 's'"),
    ],
)
def test_a_misfit_of_a_file_is_one_line(given: dict[str, Any], text: str, tmp_path: Path) -> None:
    with pytest.raises(SceneError, match=text) as raised:
        ds.scene.field_on_grid(saved(tmp_path), GRID, "m", **{"key": "a", "coordinates": ["y", "x"], **given})
    assert "\n" not in str(raised.value)
    with pytest.raises(ParameterError, match=r"expected a diffsim\.Grid"):
        ds.scene.field_on_grid(saved(tmp_path), (3, 4))  # type: ignore[arg-type]


def test_records_in_another_unit(tmp_path: Path) -> None:
    np.savez(tmp_path / "r.npz", values=[[120.0], [np.nan]], times=[0.0, 1.0], sigma=[[2.0], [2.0]])
    (record,) = read_records(tmp_path / "r.npz", Layout(unit="cm", deviations="sigma"))
    metres = record.in_unit("m")
    np.testing.assert_allclose(metres.values, [[1.2], [np.nan]], rtol=1e-12)
    assert metres.unit == "m" and metres.deviation is not None and metres.deviation[0, 0] == pytest.approx(0.02, rel=1e-12)
    with pytest.raises(DataError, match=r"r\.npz: expected a unit that converts to s, found 'cm'"):
        record.in_unit("s")
    with pytest.raises(DataError, match=r"expected the unit of the values, found none; give Layout\(unit="):
        Records(np.ones((1, 1)), np.zeros(1), ("a",)).in_unit("m")
