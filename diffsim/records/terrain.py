"""Elevation and depth out of GeoTIFF files and ASCII grids."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np

from diffsim.errors import DataError
from diffsim.messages import cut, path_shown, printable, shown
from diffsim.records.packages import package
from diffsim.records.variables import require_room
from diffsim.typing import Array

Terrain = tuple[Array, tuple[Array, Array] | None]
"""Values over (y, x), NaN where there are none, and the coordinates of their cells' centres."""
ANYWHERE = ("xllcorner", "xllcenter", "yllcorner", "yllcenter")
HEADER = ("ncols", "nrows", "cellsize", "nodata_value", *ANYWHERE)


def read_geotiff(path: Path, band: str | None = None) -> Terrain:
    """A band of a GeoTIFF file, from 1. Coordinates are those of the file, not reprojected; None where it has none.

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
                values = np.ma.filled(file.read(number, masked=True).astype(float), np.nan)
                turn = file.transform
        except (OSError, ValueError, rasterio.errors.RasterioError) as error:
            if isinstance(error, DataError):
                raise
            what = cut(printable(str(error)), 200)
            raise DataError(f"expected a GeoTIFF file, found {where}, unreadable ({what}); write it again") from None
    if turn.is_identity:
        return values, None
    if turn.b or turn.d:
        raise DataError(f"{where}: expected rows along x and columns along y, found a raster that is turned; warp it to its coordinates")
    rows, columns = values.shape
    return values, (turn.f + turn.e * (np.arange(rows) + 0.5), turn.c + turn.a * (np.arange(columns) + 0.5))


def _band(band: str | None, count: int, where: str) -> int:
    if band is None and count == 1:
        return 1
    if band is None or not band.isdecimal() or not 1 <= int(band) <= count:
        raise DataError(f"{where}: expected the number of a band from 1 to {count}, found {shown(band)}; give it as key")
    return int(band)


def read_ascii_grid(path: Path) -> Terrain:
    """An ASCII grid of Esri: lines of names and numbers, then rows from north to south.

    Raises:
        DataError: the file cannot be read. The message says which part is wrong.
    """
    where = path_shown(path)
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"expected an ASCII grid, found {where}, unreadable ({cut(printable(str(error)), 200)}); write it again") from None
    head: dict[str, float] = {}
    while lines and lines[0].split()[:1] and lines[0].split()[0].lower() in HEADER:
        name, *rest = lines.pop(0).split()
        head[name.lower()] = _number(rest[0] if len(rest) == 1 else " ".join(rest), f"{where}, {name}")
    missing = [name for name in ("ncols", "nrows", "cellsize") if name not in head]
    missing += [f"{axis}llcorner" for axis in "xy" if not {f"{axis}llcorner", f"{axis}llcenter"} & head.keys()]
    if missing:
        raise DataError(f"{where}: expected the lines ncols, nrows, xllcorner, yllcorner and cellsize, found no {missing[0]}; add it")
    size = head["cellsize"]
    rows, columns = (int(head[name]) if np.isfinite(head[name]) else 0 for name in ("nrows", "ncols"))
    if rows < 1 or columns < 1 or not 0 < size < np.inf:
        found = f"{rows} x {columns} of {size:g}"
        raise DataError(f"{where}: expected at least one row and column, and cells of a size above 0, found {found}; correct it")
    cells = " ".join(lines).split()
    if len(cells) != rows * columns:
        raise DataError(f"{where}: expected {rows} x {columns} = {rows * columns} numbers, found {len(cells)}; write the file again")
    values = np.array([_number(cell, where) for cell in cells]).reshape(rows, columns)
    values[values == head.get("nodata_value", -9999.0)] = np.nan
    first = [head.get(f"{axis}llcenter", head.get(f"{axis}llcorner", 0.0) + 0.5 * size) for axis in "yx"]
    return values[::-1], (first[0] + size * np.arange(rows), first[1] + size * np.arange(columns))


def _number(text: str, where: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise DataError(f"{where}: expected a number, found {shown(text)}; correct it") from None
