"""Elevation and depth out of GeoTIFF files and ASCII grids."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from diffsim.base.messages import path_shown, reason_shown, shown
from diffsim.errors import DataError
from diffsim.records.conventions.packing import numbers
from diffsim.records.conventions.variables import require_room
from diffsim.records.formats.packages import package
from diffsim.typing import Array

ANYWHERE = ("xllcorner", "xllcenter", "xlower", "xll", "yllcorner", "yllcenter", "ylower", "yll")
OTHER_NAMES = {"mx": "ncols", "my": "nrows", "dx": "cellsize", "nodata": "nodata_value", "nodatavalue": "nodata_value"}
HEADER = ("ncols", "nrows", "cellsize", "dy", "nodata_value", *ANYWHERE)


@dataclass(frozen=True, eq=False)
class Terrain:
    """Numbers over (y, x).

    Attributes:
        values: NaN where there are none.
        places: coordinates of the cells' centres along y and x; None: the file has none.
        unit: of the values; "": the file does not say.
        place_unit: of the coordinates; "": the file does not say.
    """

    values: Array
    places: tuple[Array, Array] | None
    unit: str = ""
    place_unit: str = ""


def read_geotiff(path: Path, band: str | None = None) -> Terrain:
    """A band of a GeoTIFF file, from 1, with its scale and offset. Coordinates are those of the file, not reprojected.

    Raises:
        DataError: the file cannot be read, has no such band, or is turned against its coordinates.
    """
    rasterio, where = package("rasterio", "GeoTIFF files"), path_shown(path)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", rasterio.errors.NotGeoreferencedWarning)
        try:
            with rasterio.open(path, driver="GTiff") as file:  # no other driver: some of GDAL's lead to other files
                number = _band(band, file.count, where)
                require_room(file.shape, where)
                raw = file.read(number, masked=True)
                numbers(np.empty(0, raw.dtype), f"{where}, band {number}")
                values = np.ma.filled(raw.astype(float), np.nan) * file.scales[number - 1] + file.offsets[number - 1]
                turn, unit, place_unit = file.transform, file.units[number - 1] or "", _place_unit(file.crs)
        except (OSError, ValueError, rasterio.errors.RasterioError) as error:
            if isinstance(error, DataError):
                raise
            what = reason_shown(error)
            raise DataError(f"expected a GeoTIFF file, found {where}, unreadable ({what}); write it again") from None
    if turn.is_identity:
        return Terrain(values, None, unit)
    if turn.b or turn.d:
        raise DataError(f"{where}: expected rows along x and columns along y, found a raster that is turned; warp it to its coordinates")
    rows, columns = values.shape
    places = turn.f + turn.e * (np.arange(rows) + 0.5), turn.c + turn.a * (np.arange(columns) + 0.5)
    return Terrain(values, places, unit, place_unit)


def _place_unit(system: Any) -> str:
    """The unit of a system of coordinates; "": it has none."""
    if not system:
        return ""
    if system.is_geographic:
        return "degree"
    name, size = system.linear_units_factor
    return f"{size!r} m" if size != 1.0 else "m" if name.lower() in ("metre", "meter") else ""


def _band(band: str | None, count: int, where: str) -> int:
    if band is None and count == 1:
        return 1
    if band is None or not band.isdecimal() or not 1 <= int(band) <= count:
        raise DataError(f"{where}: expected the number of a band from 1 to {count}, found {shown(band)}; give it as key")
    return int(band)


def read_ascii_grid(path: Path) -> Terrain:
    """An ASCII grid of Esri, or topography of type 3 of GeoClaw: a header of names and numbers, then rows from north to south.

    Lines of the header have the name first or the number first. `xllcorner` is the corner of the first cell, `xllcenter`, `xlower` and
    `xll` its centre.

    Raises:
        DataError: the file cannot be read. The message says which part is wrong.

    Reference: Clawpack Development Team, "GeoClaw: topography data", topotype 3, for the second form.
    """
    where = path_shown(path)
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"expected an ASCII grid, found {where}, unreadable ({reason_shown(error)}); write it again") from None
    head = _header(lines, where)
    missing = [name for name in ("ncols", "nrows", "cellsize") if name not in head]
    missing += [f"{axis}llcorner" for axis in "xy" if not {name for name in ANYWHERE if name[0] == axis} & head.keys()]
    if missing:
        raise DataError(f"{where}: expected the lines ncols, nrows, xllcorner, yllcorner and cellsize, found no {missing[0]}; add it")
    rows, columns = (int(head[name][0]) if np.isfinite(head[name][0]) else 0 for name in ("nrows", "ncols"))
    sizes = head.get("dy", head["cellsize"])[-1], head["cellsize"][0]  # along y and x
    if rows < 1 or columns < 1 or not all(0 < size < np.inf for size in sizes):
        extent = f"{rows} x {columns} of {' x '.join(f'{size:g}' for size in head['cellsize'])}"
        raise DataError(f"{where}: expected at least one row and column, and cells of a size above 0, found {extent}; correct it")
    cells = " ".join(lines).split()
    if len(cells) != rows * columns:
        raise DataError(f"{where}: expected {rows} x {columns} = {rows * columns} numbers, found {len(cells)}; write the file again")
    values = np.array([_number(cell, where) for cell in cells]).reshape(rows, columns)
    values[values == head.get("nodata_value", (-9999.0,))[0]] = np.nan
    first = [
        next((head[name][0] for name in head if name in ANYWHERE and name[0] == axis and "corner" not in name), np.nan)
        if f"{axis}llcorner" not in head
        else head[f"{axis}llcorner"][0] + 0.5 * size
        for axis, size in zip("yx", sizes, strict=True)
    ]
    return Terrain(values[::-1], (first[0] + sizes[0] * np.arange(rows), first[1] + sizes[1] * np.arange(columns)))


def _header(lines: list[str], where: str) -> dict[str, tuple[float, ...]]:
    """The numbers of the header by their names. Its lines are taken off."""
    head: dict[str, tuple[float, ...]] = {}
    while lines:
        words = lines[0].split()
        names = [word for word in words if OTHER_NAMES.get(word.lower(), word.lower()) in HEADER]
        if not names or (names[0] not in (words[0], words[-1])):
            break
        name = OTHER_NAMES.get(names[0].lower(), names[0].lower())
        rest = [word for word in words if word != names[0]]
        if len(rest) != 1 and not (name == "cellsize" and len(rest) == 2):
            rest = [" ".join(rest)]
        head[name] = tuple(_number(word, f"{where}, {names[0]}") for word in rest)
        lines.pop(0)
    return head


def _number(text: str, where: str) -> float:
    try:
        if "_" in text:  # Python reads 1_000
            raise ValueError
        return float(text)
    except ValueError:
        raise DataError(f"{where}: expected a number, found {shown(text)}; correct it") from None
