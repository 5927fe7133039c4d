"""A field out of a file, over the cells of the scene's grid."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Literal

import numpy as np

from diffsim.base.arguments import path_of, plural
from diffsim.base.messages import cut, path_shown
from diffsim.base.quantities.named import require_stated
from diffsim.base.quantities.units import values_in
from diffsim.errors import DataError, SceneError
from diffsim.mesh.grid import Grid
from diffsim.records.checks import OUTSIDE, require_share
from diffsim.records.conventions.dimensions import settled
from diffsim.records.conventions.fills import ALIKE, fill_shown, fill_value
from diffsim.records.conventions.likely import likely_coordinates, named_alike, unnamed_coordinates
from diffsim.records.conventions.places import wrapped_field
from diffsim.records.conventions.variables import require_no_other_unit
from diffsim.records.fields import Gridded, read_field
from diffsim.records.formats.numpy_files import MemberError, NumpyFile, load_array
from diffsim.records.projection import Projection
from diffsim.records.read import RAW
from diffsim.scene.schema.parts import DataFile
from diffsim.scene.setup.place import Place, coordinate_units
from diffsim.scene.setup.raster import covered, resample, resample_at, scaled
from diffsim.scene.setup.start_time import times_after
from diffsim.scene.words.rules import TIME
from diffsim.typing import Array

NUMPY = (".npy", ".npz")


def file(part: DataFile, place: Place) -> Array:
    """The field of a file."""
    grid, suffix = place.given, Path(part.path).suffix.lower()
    if part.shape is not None and suffix not in RAW:
        raise SceneError(f"{place.key}.shape: expected none for {suffix}, which states it, found {part.shape}; drop it")
    if part.axes is not None and sorted(part.axes) != sorted(grid.axes):
        raise SceneError(f"{place.key}.axes: expected each of {', '.join(grid.axes)} once, found {', '.join(part.axes)}; correct them")
    if part.start is not None and grid.axes[0] != TIME:
        raise SceneError(f"{place.key}.start: expected none for a field that is constant in time, found {part.start}; drop it")
    if part.time_unit is not None and grid.axes[0] != TIME:
        raise SceneError(f"{place.key}.time_unit: expected none for a field that is constant in time, found {part.time_unit}; drop it")
    if part.crs is not None:
        return scaled(part, _projected(part, place), place)
    bare = not part.coordinates and part.spacing is None and part.time_unit is None
    if suffix in NUMPY and bare and not _is_placed(part, grid):
        values, coordinates = read_array(part, place), None
    else:
        values, coordinates = _gridded(part, place)
    if coordinates is None:
        if place.grid == grid:
            return scaled(part, values, place)
        coordinates = tuple(grid.coordinates(axis) for axis in range(grid.ndim))
    for axis in range(grid.ndim):
        centres, half = grid.coordinates(axis), 0.5 * grid.spacing[axis]
        low, high = float(centres[0]) - half, float(centres[-1]) + half
        moved, values = wrapped_field(coordinates[axis], values, axis, grid.axes[axis], low, high)
        coordinates = (*coordinates[:axis], moved, *coordinates[axis + 1 :])
    return scaled(part, resample(values, coordinates, part, place), place)


def _is_placed(part: DataFile, grid: Grid) -> bool:
    """True if an archive of NumPy has arrays that its names say are the coordinates of the field."""
    try:
        arrays = NumpyFile.open(path_of("path", part.path))
        if part.key not in arrays.names:
            return False
        if not named_alike(arrays, part.key, grid.axes) and not unnamed_coordinates(arrays, part.key, grid.axes):
            return False
        values = arrays.read(part.key).values
    except DataError:  # whoever reads the field says it
        return False
    try:
        return bool(likely_coordinates(arrays, part.key, values, grid.axes))
    except DataError:  # coordinates that do not fit
        return True


def _projected(part: DataFile, place: Place) -> Array:
    """The field of a file with coordinates of another map projection, at the cells of the grid."""
    assert part.crs is not None  # the caller looked
    base = place.given
    try:
        projection = Projection.between(part.crs, place.crs, part.coordinates or base.axes, base.axes, coordinate_units(base))
        field = read_field(part.path, part.key, part.coordinates, base.axes, None, part.axes, projection.units)
        if field.coordinates is None or field.values.ndim != base.ndim:
            raise DataError(f"expected coordinates along {base.ndim} axes in {field.where} for crs, found none; drop crs, or add them")
        _require_sense(field, part, place)
        values = _without_fills(field, part, place)
        ordered = field.axes if sorted(field.axes) == sorted(base.axes) else base.axes
        field = replace(field, values=values, axes=ordered).over(base.axes)
        assert field.coordinates is not None  # they were there
        edges = [base.coordinates(axis)[[0, -1]] for axis in range(base.ndim)]
        along = [np.clip(place.grid.coordinates(axis), *ends) for axis, ends in enumerate(edges)]
        cells = projection.back(np.stack([at.ravel() for at in np.meshgrid(*along, indexing="ij")], axis=1), field.where)
    except DataError as error:
        raise SceneError(f"{place.key}.path: {error}") from None
    return resample_at(field.values, field.coordinates, cells, part, place)


def _gridded(part: DataFile, place: Place) -> tuple[Array, tuple[Array, ...] | None]:
    """Numbers of a file in the unit of the field, and their coordinates; None: those of the scene's own grid."""
    base = place.given
    try:
        shape = part.shape or _in_file(part.axes, base.axes, base.shape) if Path(part.path).suffix.lower() in RAW else None
        curved: Literal["refuse", "leave out"] = "refuse" if part.spacing is None else "leave out"
        field = read_field(
            part.path, part.key, part.coordinates, base.axes, shape, part.axes, coordinate_units(base), curved, part.time_unit
        )
        if field.values.ndim != base.ndim:
            raise DataError(f"expected {base.ndim} axes in {field.where}, found the shape {field.values.shape}; {_other_axes(field, base)}")
        _require_sense(field, part, place)
        values = _without_fills(field, part, place)
        field = _in_order(_after_start(replace(field, values=values), part, base), part, place)
        _require_within(field, part, base)
    except DataError as error:
        raise SceneError(f"{place.key}.path: {error}") from None
    if part.spacing is not None:
        if field.coordinates is not None:
            raise SceneError(f"{place.key}.spacing: expected none beside the coordinates of {field.where}, found {part.spacing}; drop it")
        return field.values, _spaced(part, place, field.values.shape)
    if field.coordinates is None and field.values.shape != base.shape:
        if base.axes == (TIME,):
            raise SceneError(
                f"{place.key}.path: expected times, or a number for each of {plural(base.shape[0], 'time step')}, in {field.where}, found "
                f"{plural(len(field.values), 'number')} and no name that means times; name them, such as "
                'coordinates = ["NAME"], or add them'
            )
        raise SceneError(
            f"{place.key}.path: expected coordinates, or the grid's shape {base.shape}, in {field.where}, found {field.values.shape} "
            "without them; give spacing, or coordinates"
        )
    return field.values, field.coordinates


def _require_sense(field: Gridded, part: DataFile, place: Place) -> None:
    """Refuse heights for depths, and depths for heights.

    Raises:
        DataError: the file says that its numbers, with the sign of `scale`, count the other way than the field.
    """
    if not field.sense or not place.sense or part.values or "sense" in part.allow:
        return
    turned = part.scale < 0
    if (field.sense == place.sense) == turned:
        remedy = f"drop the sign of scale = {part.scale:g}" if turned else f"give scale = {-part.scale:g}"
        series = place.given.axes[0] == TIME  # as of a gauge of pressure
        raise DataError(
            f"expected numbers that count {place.sense}, found those of {field.where}, which count {field.sense}"
            f'{", turned by scale" if turned else ""}; {remedy}, or allow = ["sense"] if the file is wrong'
            f"{', or if they are depths of water over a sensor' if series else ''}"
        )


def _other_axes(field: Gridded, grid: Grid) -> str:
    """The remedy for numbers with more or fewer axes than the grid."""
    return "cut it" if field.values.ndim > grid.ndim else f"give numbers over {', '.join(grid.axes)}"


def _after_start(field: Gridded, part: DataFile, grid: Grid) -> Gridded:
    """A series with times after the start of the run; other fields as they are.

    Raises:
        DataError: the times are dates, and there is no start; or there is one, and no times.
    """
    if grid.axes[0] != TIME:
        return field
    if field.coordinates is None:
        if part.start is not None:
            raise DataError(
                f"expected times in {field.where} for start = {part.start}, found none under a name that means times; name them, such as "
                'coordinates = ["NAME"], or add them, or drop start'
            )
        return field
    axis = field.axes.index(TIME) if TIME in field.axes else 0
    if part.start is None and field.epoch is not None:
        first = field.epoch + np.round(1e6 * field.coordinates[axis][0]).astype("timedelta64[us]")
        raise DataError(
            f"expected start, the date at which the run starts, for the dates of {field.where}, found none; give it, such as "
            f'start = "{first.astype("datetime64[s]")}Z", that of the first number'
        )
    times = times_after(field.coordinates[axis], field.epoch, part.start or 0.0, field.where)
    return replace(field, coordinates=(*field.coordinates[:axis], times, *field.coordinates[axis + 1 :]))


def _require_within(field: Gridded, part: DataFile, grid: Grid) -> None:
    """Refuse a series of which the run takes a small part."""
    if grid.axes[0] != TIME or field.coordinates is None or OUTSIDE in part.allow:
        return
    at, step, end = field.coordinates[0], grid.spacing[0], float(grid.coordinates(0)[-1])
    within = int(((at >= -step) & (at <= end + step)).sum())
    require_share(within, len(at), f"times of {field.where}", "correct their unit, or run longer")


def _spaced(part: DataFile, place: Place, shape: tuple[int, ...]) -> tuple[Array, ...]:
    """Coordinates of numbers at a given spacing."""
    assert part.spacing is not None
    spacing, origin = place.widths(part.spacing, "spacing"), place.point(part.origin or (0.0,) * len(shape), "origin")
    return tuple(o + h * np.arange(n) for o, h, n in zip(origin, spacing, shape, strict=True))


def _without_fills(field: Gridded, part: DataFile, place: Place) -> Array:
    """Numbers in the unit of the field, NaN where they are missing.

    Raises:
        DataError: a number that stands for a missing one remains, or the unit does not convert.
    """
    values, unit, where = field.values, field.unit, field.where
    require_no_other_unit(field.typed, "unit", part.unit, where)
    gone = np.isnan(values)
    for mark in part.missing or ():
        gone |= np.abs(values - mark) <= ALIKE * abs(mark)
    numbers = np.where(gone, np.nan, values) if gone.any() else values
    fill = None if part.missing == () else fill_value(numbers[np.isfinite(numbers)], repeated=False)
    if fill is not None:
        count, text = plural(int((numbers == fill).sum()), "place"), fill_shown(fill)
        raise DataError(
            f"{where}: expected measured numbers, found {text} in {count}, which looks like a fill value; missing = {text} leaves them "
            "out, missing = [] takes them as they are"
        )
    if part.key is not None and not (part.unit or unit):
        require_stated(part.key, place.unit, where)
    out = values_in(place.unit, numbers, part.unit or unit, where)
    return np.where(np.isnan(out), part.fill, out) if part.fill is not None else out


def _in_order(field: Gridded, part: DataFile, place: Place) -> Gridded:
    """The field with its dimensions in the order of the grid.

    Raises:
        DataError: several orders fit.
    """
    grid = place.given

    def fits(order: tuple[str, ...]) -> bool:
        places = field.coordinates
        if part.spacing is not None:
            shape = tuple(field.values.shape[order.index(axis)] for axis in grid.axes)
            places = _spaced(part, place, shape)
            places = tuple(places[grid.axes.index(axis)] for axis in order)
        if places is None:
            return _in_file(order, grid.axes, grid.shape) == field.values.shape
        return all(covered(grid.coordinates(grid.axes.index(axis)), at, part, place) for axis, at in zip(order, places, strict=True))

    named = tuple(axis if axis in grid.axes else "" for axis in field.axes)
    order = settled(named, grid.axes, fits, field.values, field.where, "give the order of its axes, {}")
    return replace(field, axes=order).over(grid.axes)


def _in_file(axes: tuple[str, ...] | None, own: tuple[str, ...], shape: tuple[int, ...]) -> tuple[int, ...]:
    """A shape in the order of the axes of a file."""
    return tuple(shape[own.index(axis)] for axis in axes or own)


def read_array(part: DataFile, place: Place) -> Array:
    """Read the array of a NumPy file, and check that it has finite numbers over the scene's own grid or time steps."""
    key, path, own = place.key, path_of("path", part.path), place.given
    if part.start is not None:
        raise SceneError(f"{key}.start: expected times in {path_shown(path)}, found none; drop start, or add an array time")
    shape = _in_file(part.axes, own.axes, own.shape)
    turned = own.axes[::-1] if part.axes is None and own.ndim > 1 and own.axes[0] != TIME else ()
    try:
        longer = own.axes[0] == TIME
        loaded = load_array(path, part.key, partial(_require_shape, shape, OUTSIDE not in part.allow, longer, turned))
    except MemberError as error:
        raise SceneError(f"{key}.key: {error}") from None
    except DataError as error:
        raise SceneError(f"{key}.path: {error}") from None
    where = path_shown(path)
    with np.errstate(over="ignore"):  # from extended precision
        values = loaded.astype(float)
    try:
        values = _without_fills(Gridded(values, None, "", where), part, place)
        values = _in_order(Gridded(values, None, "", where, part.axes or ("",) * values.ndim), part, place).values
    except DataError as error:
        raise SceneError(f"{key}.path: {error}") from None
    bad = np.argwhere(~np.isfinite(values))
    if len(bad):
        index = tuple(int(i) for i in bad[0])
        raise SceneError(
            f"{key}.path: expected finite numbers in {where}, found {values[index]} at {index} and {len(bad) - 1} more; fill the gaps"
        )
    return values


def _require_shape(
    shape: tuple[int, ...], whole: bool, longer: bool, turned: tuple[str, ...], where: str, stored: tuple[int, ...], fortran: bool
) -> tuple[int, ...]:
    """Refuse an array of another shape; if `longer`, more entries along the first axis are accepted, and not read.

    Args:
        shape: the one expected.
        whole: whether most of the entries have to be within the run.
        longer: whether the array may have more entries along the first axis.
        turned: names of the axes in the opposite order, for a message; empty: it would be no remedy.
        where: the file.
        stored: its shape.
        fortran: whether it is in Fortran order.
    """
    more = longer and len(stored) == len(shape) and stored[0] > shape[0] and stored[1:] == shape[1:]
    if stored != shape and not more:
        claimed = cut(str(tuple(int(n) for n in stored)) if max(map(abs, stored), default=0) < 10**18 else f"{len(stored)} axes")
        if longer:
            raise DataError(f"expected the shape {shape}, or more time steps, in {where}, found {claimed}; give a value for each step")
        remedy = "resample it by spacing, or change grid.shape"
        if turned and stored == shape[::-1]:
            remedy = f"its axes are in another order, axes = [{', '.join(map(repr, turned))}]".replace("'", '"')
        raise DataError(f"expected the grid's shape {shape} in {where}, found {claimed}; {remedy}")
    if more and fortran and len(shape) > 1:
        raise DataError(f"expected C order in {where}, found Fortran order; save numpy.ascontiguousarray(...) of it")
    if more and whole:
        require_share(shape[0], stored[0], f"time steps of {where}", "run longer, or cut the file")
    return shape
