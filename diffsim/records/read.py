"""Read records from a file of any format that is known, by its extension."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from diffsim.base.arguments import path_of
from diffsim.base.messages import path_shown
from diffsim.errors import DataError
from diffsim.records.conventions.arrays import records_of
from diffsim.records.conventions.records import Layout, Records, refuse
from diffsim.records.conventions.variables import Variables
from diffsim.records.formats.csv_files import read_csv, with_stations
from diffsim.records.formats.hdf5 import Hdf5File
from diffsim.records.formats.netcdf import NetcdfFile
from diffsim.records.formats.numpy_files import NumpyFile
from diffsim.records.formats.raw import RawFile
from diffsim.records.formats.segy import read_segy

ARRAYS: dict[str, Callable[[Path], Variables]] = {
    **dict.fromkeys((".npy", ".npz"), NumpyFile.open),
    **dict.fromkeys((".h5", ".hdf5"), Hdf5File.open),
    **dict.fromkeys((".nc", ".nc4", ".cdf", ".grd"), NetcdfFile.open),
}
"""Extension -> class that opens files of named arrays."""
SEGY = (".sgy", ".segy")
CSV = (".csv", ".tsv", ".txt")
RAW = (".bin",)


def read_records(path: str | Path, layout: Layout | None = None) -> tuple[Records, ...]:
    """Read records from a NumPy, HDF5, NetCDF, CSV, SEG-Y or `.bin` file.

    Args:
        path: the file. Its extension says the format.
        layout: where the parts of the records are in the file; None: under the usual names.

    Returns:
        The records of each shot.

    Raises:
        DataError: the file cannot be read, has no such part, or its parts do not fit. The message names the file and a remedy.

    Example:
        import numpy as np

        import diffsim as ds

        np.savez("gauges.npz", values=[[0.0, 0.1], [0.2, np.nan], [0.1, 0.0]], times=[0.0, 60.0, 120.0])
        (records,) = ds.records.read_records("gauges.npz")
        assert records.values.shape == (3, 2) and records.times[1] == 60
    """
    path, layout = path_of("path", path), layout or Layout()
    kind = path.suffix.lower()
    require_file(path, (*ARRAYS, *CSV, *SEGY, *RAW))
    if kind in CSV:
        return read_csv(path, layout)
    if kind in SEGY:
        return read_segy(path, layout)
    if kind in RAW:
        shots = records_of(RawFile(path, shape=layout.shape), layout)
    else:
        refuse(layout, path_shown(path), "a file that states its shapes", ("shape",))
        shots = records_of(ARRAYS[kind](path), layout)
    return tuple(with_stations(records, layout) for records in shots)


def require_file(path: Path, kinds: tuple[str, ...]) -> None:
    """Refuse a path that is no file of one of these extensions."""
    where = path_shown(path)
    try:
        there, folder = path.is_file(), path.is_dir()
    except OSError as error:
        raise DataError(f"expected a file, found {where} ({error.strerror}); correct the path") from None
    if folder:
        raise DataError(f"expected a file that ends in {', '.join(kinds)}, found the folder {where}; name a file in it")
    if path.suffix.lower() not in kinds:
        raise DataError(f"expected a file that ends in {', '.join(kinds)}, found {where}; convert it, or rename it")
    if not there:
        raise DataError(f"expected a file, found no {where}; correct the path (in a scene it starts at the scene's folder)")
