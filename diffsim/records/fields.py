"""Fields out of files: models, start fields and bathymetry, with their coordinates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from diffsim.errors import DataError
from diffsim.messages import name_shown, path_shown
from diffsim.records.netcdf import NetcdfFile
from diffsim.records.raw import RawFile
from diffsim.records.read import ARRAYS, RAW, SEGY, require_file
from diffsim.records.records import require_rising
from diffsim.records.segy import read_section
from diffsim.records.terrain import read_ascii_grid, read_geotiff
from diffsim.records.variables import Variables, known, pick
from diffsim.typing import Array

GEOTIFF = (".tif", ".tiff")
ASCII_GRID = (".asc",)


@dataclass(frozen=True, eq=False)
class Gridded:
    """Numbers over a grid.

    Attributes:
        values: NaN where the file has none.
        coordinates: rising, for each axis; None: the file has none.
        unit: of the values; "": the file does not say.
        where: the file, for messages.

    Example:
        See `read_field`.
    """

    values: Array
    coordinates: tuple[Array, ...] | None
    unit: str
    where: str


def read_field(
    path: str | Path,
    key: str | None = None,
    coordinates: Sequence[str] = (),
    axes: Sequence[str] = (),
    shape: Sequence[int] | None = None,
) -> Gridded:
    """Read a field from a NumPy, HDF5, NetCDF, SEG-Y, GeoTIFF, ASCII grid or `.bin` file.

    Args:
        path: the file. Its extension says the format.
        key: name of the variable, or number of the band of a GeoTIFF file, from 1; None: the only one.
        coordinates: names of the variables of coordinates, one for each axis; none: those that belong to the axes, where the file says so.
        axes: names of the axes of the grid. A variable whose axes have the names of `coordinates`, or else these, in another order is
            transposed.
        shape: of the numbers of a `.bin` file, which are of 4 bytes each.

    Returns:
        The values in the order of the axes, with coordinates that rise. GeoTIFF and ASCII grid files have the axes (y, x), the rows from
        south to north; SEG-Y files (samples, traces), without coordinates.

    Raises:
        DataError: the file cannot be read, or has no such variable.

    Example:
        from pathlib import Path

        import diffsim as ds

        Path("bay.asc").write_text("ncols 3\\nnrows 2\\nxllcenter 10\\nyllcenter 50\\ncellsize 5\\n1 2 3\\n4 5 6\\n")
        bay = ds.records.read_field("bay.asc")
        assert isinstance(bay, ds.records.Gridded) and bay.values[0].tolist() == [4, 5, 6]
        assert bay.coordinates[1].tolist() == [10, 15, 20]
    """
    path = Path(path)
    kind = path.suffix.lower()
    require_file(path, (*ARRAYS, *SEGY, *GEOTIFF, *ASCII_GRID, *RAW))
    if kind in ARRAYS:
        return _upright(_of_variables(ARRAYS[kind](path), key, tuple(coordinates), tuple(axes)))
    if kind in RAW:
        return Gridded(RawFile(path, shape=None if shape is None else tuple(shape)).read("values").values, None, "", path_shown(path))
    if kind in SEGY:
        return Gridded(read_section(path), None, "", path_shown(path))
    values, places = read_geotiff(path, key) if kind in GEOTIFF else read_ascii_grid(path)
    return _upright(Gridded(values, places, "", path_shown(path)))


def _of_variables(variables: Variables, key: str | None, coordinates: tuple[str, ...], axes: tuple[str, ...]) -> Gridded:
    """The field of a file of named arrays."""
    name = key or _only(variables, axes)
    found = pick(variables, name)
    values, names = found.values, found.axes
    while axes and values.ndim > len(axes) and 1 in values.shape:  # such as a time of one entry
        single = [axis for axis, n in enumerate(values.shape) if n == 1]
        extra = next((axis for axis in single if names and names[axis] not in (*coordinates, *axes)), single[0])
        values, names = np.squeeze(values, extra), names[:extra] + names[extra + 1 :]
    for order in (coordinates, axes):
        if order and sorted(names) == sorted(order):
            values, names = np.transpose(values, [names.index(axis) for axis in order]), order
            break
    wanted = coordinates or (names if names and all(axis in variables.names for axis in names) else ())
    if not wanted and axes and all(axis in variables.names for axis in axes):
        wanted = axes
    if not wanted:
        return Gridded(values, None, found.unit, f"{variables.where}, {name_shown(name)}")
    places = tuple(pick(variables, axis).values for axis in wanted)
    shape = tuple(len(place) if place.ndim == 1 else -1 for place in places)
    if shape != values.shape:
        raise DataError(
            f"{variables.where}, {name_shown(name)}: expected coordinates {', '.join(map(name_shown, wanted))} of the lengths "
            f"{values.shape}, found {tuple(place.shape for place in places)}; name others by coordinates"
        )
    return Gridded(values, places, found.unit, f"{variables.where}, {name_shown(name)}")


def _only(variables: Variables, axes: tuple[str, ...]) -> str:
    """The name of the only variable that is none of coordinates."""
    names = [name for name in variables.names if name not in axes]
    if isinstance(variables, NetcdfFile):
        names = [name for name in names if name in variables.fields]
    if len(names) != 1:
        raise DataError(f"{variables.where}: expected the name of one of the variables {known(variables)}, found none; give key")
    return names[0]


def _upright(field: Gridded) -> Gridded:
    """The field with coordinates that rise."""
    if field.coordinates is None:
        return field
    values, places = field.values, []
    for axis, place in enumerate(field.coordinates):
        falls = len(place) > 1 and place[-1] < place[0]
        values = np.flip(values, axis) if falls else values
        place = place[::-1] if falls else place
        try:
            require_rising(place, f"{field.where}, axis {axis}")
        except DataError as error:
            raise DataError(str(error).replace("times", "coordinates").replace("sample", "entry")) from None
        places.append(place)
    return replace(field, values=values, coordinates=tuple(places))
