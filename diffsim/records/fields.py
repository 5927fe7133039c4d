"""Fields out of files: models, start fields and bathymetry, with their coordinates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import numpy as np

from diffsim.base.arguments import one_of, path_of
from diffsim.base.messages import name_shown, path_shown, shown
from diffsim.base.quantities.named import is_times
from diffsim.base.quantities.units import factor
from diffsim.errors import DataError
from diffsim.records.conventions.clock import SINCE, of_numbers
from diffsim.records.conventions.curvilinear import over_several, straightened
from diffsim.records.conventions.dimensions import TRUE, FileDimension, along_axis, by_name, dimensions_of, matched, sense_of, settled
from diffsim.records.conventions.likely import as_list, likely_coordinates, over_dimension
from diffsim.records.conventions.places import units_of, usual_unit
from diffsim.records.conventions.rising import require_rising
from diffsim.records.conventions.variables import Variable, Variables, listed, pick, require_no_other_unit
from diffsim.records.formats.cells import BARE, XYZ, cells_of
from diffsim.records.formats.csv_files import Columns
from diffsim.records.formats.raw import RawFile
from diffsim.records.formats.segy import read_section
from diffsim.records.formats.terrain import read_ascii_grid, read_geotiff
from diffsim.records.read import ARRAYS, CSV, RAW, SEGY, require_file
from diffsim.typing import Array

TIME = "time"
"""The axis of a series."""
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
        axes: the axis of the grid along each dimension; "" where the file does not say.
        coordinate_units: of the coordinates along each dimension; "" where nothing says.
        epoch: the date of time 0 of times that the file has as dates, in UTC; None: there are none.
        typed: whether the type of the values has the unit, as timedelta64 has. The values are then in seconds.
        sense: of heights and depths, "up" or "down", by their attributes of CF or their name; "": nothing says.

    Example:
        See `read_field`.
    """

    values: Array
    coordinates: tuple[Array, ...] | None
    unit: str
    where: str
    axes: tuple[str, ...] = ()
    coordinate_units: tuple[str, ...] = ()
    epoch: np.datetime64 | None = None
    typed: bool = False
    sense: str = ""

    def over(self, axes: Sequence[str]) -> Gridded:
        """The same with the dimensions in the order of these axes, all of which the field has."""
        order = [self.axes.index(axis) for axis in axes]
        places = None if self.coordinates is None else tuple(self.coordinates[k] for k in order)
        units = tuple(self.coordinate_units[k] for k in order) if self.coordinate_units else ()
        return replace(self, values=np.transpose(self.values, order), coordinates=places, axes=tuple(axes), coordinate_units=units)


def read_field(
    path: str | Path,
    key: str | int | None = None,
    coordinates: Sequence[str] = (),
    axes: Sequence[str] = (),
    shape: Sequence[int] | None = None,
    order: Sequence[str] | None = None,
    units: Sequence[str] = (),
    curvilinear: Literal["refuse", "leave out"] = "refuse",
    time_unit: str | None = None,
) -> Gridded:
    """Read a field from a NumPy, HDF5, NetCDF, SEG-Y, GeoTIFF, ASCII grid or `.bin` file or a table, or a series from one of these.

    A table, CSV or `.xyz`, has a row for each cell of a regular grid, in any order, with a column of coordinates for each axis. Cells
    without a row are NaN. A `.xyz` file without a line of names has the columns x, y and z, of which z has the numbers.

    Args:
        path: the file. Its extension says the format.
        key: name of the variable, or number of the band of a GeoTIFF file, from 1; None: the only one.
        coordinates: names of the variables of coordinates, one for each axis; none: those that belong to the axes, where the file says so.
        axes: names of the axes of the grid. The dimensions of the file are matched to them by `coordinates`, by the attributes of CF
            (`axis`, `standard_name`, units such as degrees_north), and by names without case, where "X", "easting" and "lon" are x.
        shape: of the numbers of a `.bin` file, which are of 4 bytes each.
        order: names of the axes in the order of the file, where the file does not say. Without `axes` it is that of the values too.
        units: the units of the coordinates, one for each axis; none: degrees along axes such as "lon", s along "time", and m along others.
            Without `axes` lengths become metres, angles degrees and times seconds. `Gridded.coordinate_units` says them. Dates become
            seconds after `Gridded.epoch`.
        curvilinear: what to do with coordinates of which one changes along several dimensions, such as latitudes of a projected grid:
            "leave out" gives the numbers without coordinates.
        time_unit: of the coordinates along an axis "time"; None: as the file says, else s.

    Returns:
        The values in the order of the axes, with coordinates that rise. Where the file does not name all dimensions, and `order` neither,
        the values are in the order of the file, and `Gridded.axes` says which dimensions are known. GeoTIFF and ASCII grid files have the
        axes (y, x), the rows from south to north; SEG-Y files (samples, traces), without coordinates, where samples are z.

    Raises:
        DataError: the file cannot be read, has no such variable, or contradicts the request.

    Example:
        from pathlib import Path

        import diffsim as ds

        Path("bay.asc").write_text("ncols 3\\nnrows 2\\nxllcenter 10\\nyllcenter 50\\ncellsize 5\\n1 2 3\\n4 5 6\\n")
        bay = ds.records.read_field("bay.asc")
        assert isinstance(bay, ds.records.Gridded) and bay.values[0].tolist() == [4, 5, 6]
        assert bay.coordinates[1].tolist() == [10, 15, 20]
    """
    path = path_of("path", path)
    require_file(path, (*ARRAYS, *CSV, *XYZ, *SEGY, *GEOTIFF, *ASCII_GRID, *RAW))
    one_of("curvilinear", curvilinear, ("refuse", "leave out"))
    stated, axes = None if order is None else tuple(order), tuple(axes or order or ())
    asked = Asked(axes, tuple(coordinates), stated, units_of(axes, tuple(units)), curvilinear == "leave out", time_unit)
    _refuse(path, key, asked, shape)
    field = _read(path, None if key is None else str(key), asked, shape)
    placed = _upright(field)
    return placed.over(axes) if axes and sorted(placed.axes) == sorted(axes) else placed


def _refuse(path: Path, key: str | int | None, asked: Asked, shape: Sequence[int] | None) -> None:
    """Refuse keys that mean nothing in a file of this format."""
    kind = path.suffix.lower()
    refused = {
        "key": key is not None and kind in (*SEGY, *ASCII_GRID, *RAW),
        "coordinates": bool(asked.coordinates) and kind not in (*ARRAYS, *CSV, *XYZ),
        "shape": shape is not None and kind not in RAW,
    }
    names = [name for name, wrong in refused.items() if wrong]
    if names:
        raise DataError(
            f"{path_shown(path)}: expected no {names[0]} for {kind}, where it means nothing, found one; drop {' and '.join(names)}"
        )


@dataclass(frozen=True)
class Asked:
    """The grid that a field is for.

    Attributes:
        axes: names of its axes.
        coordinates: names of the file's coordinates, one for each axis; none: not given.
        order: names of the axes in the order of the file; None: not stated.
        units: of the coordinates, one for each axis.
        leave_out: whether coordinates of a curvilinear grid are left out.
        time_unit: of times, which replaces that of the file; None: not stated.
    """

    axes: tuple[str, ...]
    coordinates: tuple[str, ...]
    order: tuple[str, ...] | None
    units: tuple[str, ...]
    leave_out: bool
    time_unit: str | None = None


def _read(path: Path, key: str | None, asked: Asked, shape: Sequence[int] | None) -> Gridded:
    kind, where = path.suffix.lower(), path_shown(path)
    if kind in ARRAYS:
        return _of_variables(ARRAYS[kind](path), key, asked)
    if kind in (*CSV, *XYZ):
        columns = Columns(path, BARE if kind in XYZ else ())
        asked = replace(asked, coordinates=tuple(map(columns.named, asked.coordinates)))
        name = None if key is None else columns.named(key)
        return _of_variables(columns, name, asked) if len(asked.axes) < 2 else _of_cells(columns, name, asked)
    if kind in RAW:
        values = RawFile(path, shape=None if shape is None else tuple(shape)).read("values").values
        return _named(values, ("",) * values.ndim, None, "", where, asked)
    if kind in SEGY:
        return _named(read_section(path), ("z", ""), None, "", where, asked)
    terrain = read_geotiff(path, key) if kind in GEOTIFF else read_ascii_grid(path)
    places = None
    if terrain.places is not None:
        places = tuple(Variable(x, terrain.place_unit, (axis,)) for x, axis in zip(terrain.places, "yx", strict=True))
    return _named(terrain.values, ("y", "x"), places, terrain.unit, where, asked)


def _named(values: Array, names: tuple[str, ...], places: Sequence[Variable | None] | None, unit: str, where: str, asked: Asked) -> Gridded:
    """A field whose dimensions have these names, "" where they have none, and these coordinates."""
    each = [
        _in_seconds(place, name, f"{where}, {name_shown(name)}", asked.time_unit)
        for name, place in zip(names, places or [None] * len(names), strict=True)
    ]
    dimensions = [FileDimension(name, place) for name, place in zip(names, each, strict=True)]
    if not asked.axes or values.ndim != len(asked.axes):
        axes: Sequence[str] = names
    else:
        axes = matched(dimensions, asked.axes, asked.coordinates, asked.order, where)
    each = [
        _timed(place, asked, f"{where}, {name_shown(name)}" if name else where) if axis == TIME else place
        for name, axis, place in zip(names, axes, each, strict=True)
    ]
    dimensions = [FileDimension(name, place) for name, place in zip(names, each, strict=True)]
    if any(place is None for place in each):
        if any(place is not None for place in each):
            lacking = name_shown(names[list(each).index(None)] or "one without a name")
            raise DataError(f"{where}: expected coordinates along each dimension or along none, found none along {lacking}; add them")
        return Gridded(values, None, unit, where, tuple(axes))
    wanted = dict(zip(asked.axes, asked.units, strict=True))
    known = [place for place in each if place is not None]
    units = [wanted[axis] if axis in wanted else usual_unit(place.unit) for axis, place in zip(axes, known, strict=True)]
    coordinates = tuple(
        along_axis(dimension, axis if axis in wanted else "", unit, f"{where}, {name_shown(dimension.name)}")
        for dimension, axis, unit in zip(dimensions, axes, units, strict=True)
    )
    epoch = next((place.epoch for place in known if place.epoch is not None), None)
    return Gridded(values, coordinates, unit, where, tuple(axes), tuple(units), epoch)


def _in_seconds(place: Variable | None, name: str, what: str, stated: str | None) -> Variable | None:
    """Coordinates whose unit counts from a date, such as "hours since 2011-03-11", as seconds with that date; others as they are."""
    if place is None or SINCE not in place.unit:
        return place
    clock = of_numbers(place.values, place.unit, stated, what, place.calendar, name)
    return replace(place, values=clock.times, unit="s", epoch=clock.epoch, counted=True)


def _timed(place: Variable | None, asked: Asked, what: str) -> Variable | None:
    """Times in the unit that the user states, which replaces that of the file.

    Raises:
        DataError: there are no times, or they are dates or of a type with a unit.
    """
    stated = asked.time_unit
    if stated is None or (place is not None and place.counted):
        return place
    if place is None:
        raise DataError(f"{what}: expected times for time_unit = {shown(stated)}, found none; drop it, or name them by coordinates")
    require_no_other_unit(place.typed, "time_unit", stated, what, place.epoch is not None)
    return replace(place, values=place.values * factor(stated, "s", what, "time_unit"), unit="s")


def _of_variables(variables: Variables, key: str | None, asked: Asked) -> Gridded:
    """The field of a file of named arrays."""
    name = key or _only(variables, asked)
    variable, where = pick(variables, name, "key"), f"{variables.where}, {name_shown(name)}"
    variable = _without_single(variable, asked)
    places: list[Variable | None] = [dimension.places for dimension in dimensions_of(variables, name, variable)]
    names = list(variable.axes)
    nameless = not any(names) and len(asked.axes) == len(names)
    if nameless and not asked.coordinates and not asked.leave_out:
        asked = replace(asked, coordinates=likely_coordinates(variables, name, variable.values, asked.axes))
    if nameless and (asked.coordinates or all(axis in variables.names for axis in asked.axes)):
        names, places = _by_length(variables, asked, variable.values, where)
    elif asked.coordinates:
        _take_coordinates(variables, asked, names, places)
    several = over_several(variables, name, variable.axes, asked.coordinates) if all(variable.axes) else {}
    if not asked.coordinates:
        over = {axis for each in several.values() for axis in each.axes}
        own = [FileDimension(axis, place) for axis, place in zip(variable.axes, places, strict=True)]
        places = [None if each.name in over and not _is_wanted(each, asked.axes) else each.places for each in own]
    if several and not (asked.leave_out and not asked.coordinates):
        names, places = straightened(several, variable.axes, names, places, asked.coordinates, where)
    if asked.axes and not asked.coordinates and not asked.leave_out:
        places = [
            over_dimension(variables, name, axis, asked.axes) if axis and place is None else place
            for axis, place in zip(variable.axes, places, strict=True)
        ]
    wrong = [place for place, n in zip(places, variable.values.shape, strict=True) if place is not None and place.values.shape != (n,)]
    if wrong or (asked.coordinates and any(place is None for place in places)):
        words, sought = ", ".join(map(name_shown, asked.coordinates or asked.axes)), asked.coordinates or names
        shapes = tuple(variables.read(each).values.shape for each in sought if each in variables.names)
        raise DataError(
            f"{where}: expected coordinates {words} of the lengths {variable.values.shape}, found {shapes}; name others by coordinates"
        )
    field = _named(variable.values, tuple(names), places, variable.unit, where, asked)
    return replace(field, typed=variable.typed, sense=sense_of(variable, name))


def _of_cells(columns: Columns, key: str | None, asked: Asked) -> Gridded:
    """The field of a table with a row for each cell."""
    cells = cells_of(columns, key, asked.axes, asked.coordinates)
    asked = replace(asked, coordinates=cells.coordinates, order=None)
    where = f"{columns.where}, {name_shown(cells.name)}"
    field = _named(cells.variable.values, cells.coordinates, cells.places, cells.variable.unit, where, asked)
    return replace(field, sense=sense_of(cells.variable, cells.name))


def _is_wanted(dimension: FileDimension, axes: Sequence[str]) -> bool:
    """True if coordinates of one dimension count before those over several: neither numbers of cells, nor lengths along latitudes."""
    return bool(dimension.direction) and (dimension.on_earth or not any(axis.lower() in TRUE for axis in axes))


def _without_single(variable: Variable, asked: Asked) -> Variable:
    """The variable without dimensions of one entry that the grid does not have, such as a time."""
    values, names = variable.values, variable.axes
    while asked.axes and values.ndim > len(asked.axes) and 1 in values.shape:
        single = [axis for axis, n in enumerate(values.shape) if n == 1]
        kept = {*asked.coordinates, *asked.axes}
        extra = next((axis for axis in single if names[axis] and names[axis] not in kept and by_name(names[axis]) in ("", "t")), None)
        extra = next((axis for axis in single if names[axis] not in kept), single[0]) if extra is None else extra
        values, names = np.squeeze(values, extra), names[:extra] + names[extra + 1 :]
    return replace(variable, values=values, axes=names)


def _take_coordinates(variables: Variables, asked: Asked, names: list[str], places: list[Variable | None]) -> None:
    """Put the coordinates that the user names at their dimensions: by the names of these, else in the order of the user."""
    axes = asked.axes or asked.coordinates
    named = {axis: (name, pick(variables, name, "coordinates")) for axis, name in zip(axes, asked.coordinates, strict=False)}
    for number, dimension in enumerate(tuple(names)):
        places[number] = None
        for axis, (name, place) in named.items():
            stated = (asked.order or axes)[number : number + 1] == (axis,)
            if (dimension in (name, *place.axes)) if dimension else stated:
                names[number], places[number] = name, place


def _by_length(variables: Variables, asked: Asked, values: Array, where: str) -> tuple[list[str], list[Variable | None]]:
    """Names and coordinates of dimensions without names, in the stated order, or in the one that fits the coordinates' lengths."""
    called = dict(zip(asked.axes, asked.coordinates or asked.axes, strict=True))
    named = {axis: as_list(pick(variables, name, "coordinates")) for axis, name in called.items()}
    if values.ndim > 1 and all(place.values.shape == values.shape for place in named.values()):
        numbers = tuple(map(str, range(values.ndim)))
        several = {called[axis]: replace(place, axes=numbers) for axis, place in named.items()}
        return straightened(several, numbers, numbers, [None] * len(numbers), tuple(several), where)
    lengths = {axis: place.values.size if place.values.ndim == 1 else -1 for axis, place in named.items()}

    def fits(order: tuple[str, ...]) -> bool:
        return all(lengths[axis] == n for axis, n in zip(order, values.shape, strict=True))

    known = ("",) * values.ndim if asked.order is None else asked.order
    order = settled(known, asked.axes, fits, values, where, "give the order of its axes, {}")
    return [called[axis] for axis in order], [named[axis] for axis in order]


def _only(variables: Variables, asked: Asked) -> str:
    """The name of the only variable that is none of coordinates."""
    places = {*asked.axes, *asked.coordinates}
    places |= {name for name in variables.names if TIME in asked.axes and is_times(name)}
    names = [name for name in (variables.names if variables.fields is None else variables.fields) if name not in places]
    if len(names) != 1:
        raise DataError(f"{variables.where}: expected the name of one of the variables {listed(variables.names)}, found none; give key")
    return names[0]


def _upright(field: Gridded) -> Gridded:
    """The field with coordinates that rise."""
    if field.coordinates is None:
        return field
    values, places = field.values, []
    for axis, place in enumerate(field.coordinates):
        falls = 2 * np.count_nonzero(np.diff(place) < 0) > len(place) - 1  # by most of them: one may be wrong
        values = np.flip(values, axis) if falls else values
        place = place[::-1] if falls else place
        require_rising(place, f"{field.where}, axis {axis}", "coordinates", "place", bool(falls))
        places.append(place)
    return replace(field, values=values, coordinates=tuple(places))
