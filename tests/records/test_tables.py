"""Numbers and dates as spreadsheets write them, and fill values in wavelets."""

from __future__ import annotations

from pathlib import Path

import h5py
import netCDF4
import numpy as np
import pytest

from diffsim.errors import DataError, SceneError
from diffsim.records import Layout, read_records
from diffsim.scene.schema.parts import Sampled
from diffsim.scene.setup.wavelets import sampled
from tests.records.test_conventions import VALUES


@pytest.mark.parametrize("split", [";", "\t"])
def test_decimal_commas(split: str, tmp_path: Path) -> None:
    """As spreadsheets write them in much of Europe: columns are not parted by commas then, so a comma is the decimal one."""
    head = ["time [min]", "receiver", "value [cm]", "y [km]", "x", "sigma"]
    rows = [["0,5", "a", "1,5E-2", "-0,25", "1", "1,250"], ["1", "a", "", "-0,25", "1", ",5"], ["1,5", "a", "-2,125", "-0,25", "1", "2"]]
    (tmp_path / "a.csv").write_text("\n".join(split.join(row) for row in [head, *rows]))
    (records,) = read_records(tmp_path / "a.csv", Layout(deviations="sigma", axes=("y", "x")))
    np.testing.assert_allclose(records.times, [30.0, 60.0, 90.0])
    np.testing.assert_allclose(records.values[:, 0], [0.015, np.nan, -2.125])
    np.testing.assert_allclose(records.deviation[:, 0], [1.25, 0.5, 2.0])
    np.testing.assert_allclose(records.coordinates, [[-250.0, 1.0]])
    dated = [["time", "a"], ["2011-03-11T05:46", "1,5"], ["2011-03-11T05:46:01", "2"]]
    (tmp_path / "w.csv").write_text("\n".join(split.join(row) for row in dated))
    (records,) = read_records(tmp_path / "w.csv")
    assert records.times.tolist() == [0.0, 1.0] and records.values.tolist() == [[1.5], [2.0]]


def test_dates_of_two_readings_in_other_formats(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["values"], file["times"] = VALUES[:2], ["11/03/2011 05:46", "12/03/2011 05:46"]
    with pytest.raises(DataError, match=r"a\.h5, times: .* found '11/03/2011 05:46'; it may mean 2011-03-11 or 2011-11-03: write"):
        read_records(tmp_path / "a.h5")
    with netCDF4.Dataset(tmp_path / "a.nc", "w") as file:
        file.createDimension("time", 2)
        file.createVariable("time", "f8", ("time",))[:] = [0, 1]
        file["time"].units = "hours since 11/03/2011"
        file.createVariable("values", "f8", ("time",))[:] = [0, 1]
    with pytest.raises(DataError, match=r"a\.nc, time: .*2011-03-11 or 2011-11-03"):
        read_records(tmp_path / "a.nc")


def test_a_fill_value_in_a_wavelet(tmp_path: Path) -> None:
    values = np.sin(0.3 * np.arange(40.0))
    for fill, refused in ((0.5, False), (-999.25, True)):
        values[17] = fill
        np.save(tmp_path / "w.npy", values[:, None])
        part = Sampled(type="file", path=str(tmp_path / "w.npy"), dt=1.0)
        if refused:
            with pytest.raises(
                SceneError, match=r"s\.path: expected amplitudes in .*w\.npy, found -999\.25, which looks like a fill value"
            ):
                sampled(part, "s")
        else:
            assert sampled(part, "s")[1].tolist() == values.tolist()
