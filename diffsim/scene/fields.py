"""Build fields over the cells of a grid from their parts in a scene: one builder for each kind of part."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from scipy.interpolate import CubicSpline, RegularGridInterpolator
from scipy.ndimage import gaussian_filter

from diffsim.errors import DataError, SceneError
from diffsim.grid import Grid
from diffsim.messages import cut, path_shown
from diffsim.records.checks import TURN
from diffsim.records.fields import read_field
from diffsim.records.numpy_files import MemberError, load_array
from diffsim.records.read import read_records
from diffsim.records.records import Layout
from diffsim.scene.data import load_dataset
from diffsim.scene.domains import NUMBER
from diffsim.scene.model import Mask
from diffsim.scene.parts import (
    Box,
    DataFile,
    DataSet,
    FieldModel,
    Gaussian,
    Layers,
    LineOfPoints,
    Packet,
    PointSet,
    Resampled,
    Ricker,
    Sampled,
    Wavelet,
    Where,
)
from diffsim.scene.rules import TIME
from diffsim.scene.suggest import nearest
from diffsim.typing import Array
from diffsim.units import factor

BEYOND = 0.5
"""A grid may reach past a data set by this many of the data set's cells."""
LEAST = {"nearest": 2, "linear": 2, "cubic": 4, "mean": 2}
"""Least numbers along an axis for each method of interpolation."""
NUMPY = (".npy", ".npz")


@dataclass(frozen=True)
class Place:
    """The grid and the key of a field to build.

    Attributes:
        grid: the grid of the field.
        base: the scene's own grid, which covers the same region. Files hold values over its cells.
        key: key of the field in the scene, for messages.
        beyond: the grid may reach past given numbers by this many of their cells. There the end values continue.
        unit: of the field; "": none is known, and numbers out of files are taken as they are.
        inner: the cells of `base` without those around it for a layer, where numbers out of files continue; None: there are none around.
    """

    grid: Grid
    base: Grid
    key: str
    beyond: float = BEYOND
    unit: str = ""
    inner: Grid | None = None

    @property
    def given(self) -> Grid:
        """The grid over whose cells files hold numbers."""
        return self.inner or self.base

    def mesh(self) -> list[Array]:
        """Coordinates of the cells, one array an axis, ready to broadcast."""
        grid = self.grid
        return list(np.meshgrid(*(grid.coordinates(axis) for axis in range(grid.ndim)), indexing="ij", sparse=True))

    def axis(self, name: str) -> int:
        """Number of the axis of that name."""
        if name not in self.grid.axes:
            raise SceneError(
                f"{self.key}.axis: expected one of {', '.join(self.grid.axes)}, found {name!r}; {nearest(name, self.grid.axes)}"
            )
        return self.grid.axes.index(name)

    def point(self, values: tuple[float, ...], key: str) -> tuple[float, ...]:
        """Return `values` if they have an entry for each axis."""
        ndim = self.grid.ndim
        if len(values) != ndim:
            raise SceneError(f"{self.key}.{key}: expected {ndim} numbers, one an axis of the grid, found {len(values)}; add or drop some")
        return values

    def widths(self, values: tuple[float, ...], key: str) -> tuple[float, ...]:
        """Return `values` with an entry for each axis. A single value is repeated."""
        return self.point(values * self.grid.ndim if len(values) == 1 else values, key)

    def at(self, key: str) -> Place:
        """The same place with a longer key."""
        return replace(self, key=f"{self.key}{'' if key.startswith('[') else '.'}{key}")

    def under(self, key: str) -> Place:
        """The same place with another key."""
        return replace(self, key=key)

    def plain(self) -> Place:
        """The same place for numbers that are not of the field's unit, such as labels."""
        return replace(self, unit="")


def constant(value: float, place: Place) -> Array:
    return np.full(place.grid.shape, float(value))


def layers(part: Layers, place: Place) -> Array:
    axis = place.axis(part.axis)
    values = np.array(part.values)[np.searchsorted(part.tops, place.grid.coordinates(axis), side="right")]
    shape = [-1 if a == axis else 1 for a in range(place.grid.ndim)]
    return np.broadcast_to(values.reshape(shape), place.grid.shape).copy()


def gaussians(parts: tuple[Gaussian, ...], place: Place) -> Array:
    out = np.zeros(place.grid.shape)
    for number, part in enumerate(parts):
        here = place.at(f"[{number}]")
        offsets = [x - c for x, c in zip(place.mesh(), here.point(part.centre, "centre"), strict=True)]
        if part.angle:
            if len(offsets) < 2:
                raise SceneError(f"{here.key}.angle: expected no angle on a grid of one axis, found {part.angle:g}; drop it")
            cos, sin = np.cos(np.radians(part.angle)), np.sin(np.radians(part.angle))
            offsets[:2] = [cos * offsets[0] + sin * offsets[1], cos * offsets[1] - sin * offsets[0]]
        square = sum((x / w) ** 2 for x, w in zip(offsets, here.widths(part.width, "width"), strict=True))
        out += part.amplitude * np.exp(-0.5 * square)
    return out


def boxes(parts: tuple[Box, ...], place: Place) -> Array:
    out = np.zeros(place.grid.shape)
    for number, part in enumerate(parts):
        here = place.at(f"[{number}]")
        out += part.amplitude * _inside(place, here.point(part.lower, "lower"), here.point(part.upper, "upper"))
    return out


def dataset(part: DataSet, place: Place) -> Array:
    raster = load_dataset(part.name, f"{place.key}.name")
    quantity = part.quantity or next(iter(raster.quantities))
    if quantity not in raster.quantities:
        known = ", ".join(raster.quantities)
        raise SceneError(f"{place.key}.quantity: expected one of {known}, found {quantity!r}; {nearest(quantity, raster.quantities)}")
    values = raster.quantities[quantity]
    coordinates = raster.coordinates or _stretched(values.shape, place)
    return _converted(part, _resample(values, coordinates, part, place), place)


def file(part: DataFile, place: Place) -> Array:
    given, suffix = place.given, Path(part.path).suffix.lower()
    if part.axes is not None and sorted(part.axes) != sorted(given.axes):
        raise SceneError(f"{place.key}.axes: expected each of {', '.join(given.axes)} once, found {', '.join(part.axes)}; correct them")
    if suffix in NUMPY and not part.coordinates and part.spacing is None:
        values, coordinates = read_array(part, place), None
    else:
        values, coordinates = _gridded(part, place)
    if coordinates is None:
        if place.grid == given:
            return _converted(part, values, place)
        coordinates = tuple(given.coordinates(axis) for axis in range(given.ndim))
    return _converted(part, _resample(values, coordinates, part, place), place)


def _in_file(axes: tuple[str, ...] | None, own: tuple[str, ...], shape: tuple[int, ...]) -> tuple[int, ...]:
    """A shape in the order of the axes of a file."""
    return tuple(shape[own.index(axis)] for axis in axes or own)


def _turned(values: Array, axes: tuple[str, ...] | None, own: tuple[str, ...]) -> Array:
    """Values in the order of the grid's axes."""
    return values if axes is None or values.ndim != len(axes) else np.transpose(values, [axes.index(axis) for axis in own])


def _gridded(part: DataFile, place: Place) -> tuple[Array, tuple[Array, ...] | None]:
    """Numbers of a file in the unit of the field, and their coordinates; None: those of the scene's own grid."""
    base = place.given
    try:
        shape = part.shape or _in_file(part.axes, base.axes, base.shape)
        found = read_field(part.path, part.key, part.coordinates, base.axes, shape)
        unit = part.unit or found.unit
        values = found.values * (factor(unit, place.unit) if unit and place.unit else 1.0)
        if found.coordinates is None:
            values = _turned(values, part.axes, base.axes)
    except DataError as error:
        raise SceneError(f"{place.key}.path: {error}") from None
    if part.fill is not None:
        values = np.where(np.isnan(values), part.fill, values)
    if part.spacing is not None:
        spacing, origin = place.widths(part.spacing, "spacing"), place.point(part.origin or (0.0,) * base.ndim, "origin")
        if values.ndim != base.ndim:
            raise SceneError(f"{place.key}.path: expected {base.ndim} axes in {found.where}, found the shape {values.shape}; cut it")
        return values, tuple(o + h * np.arange(n) for o, h, n in zip(origin, spacing, values.shape, strict=True))
    if found.coordinates is None and values.shape != base.shape:
        raise SceneError(
            f"{place.key}.path: expected coordinates, or the grid's shape {base.shape}, in {found.where}, found {values.shape} without "
            "them; give spacing, or coordinates"
        )
    return values, found.coordinates


def wavelet(part: Wavelet, place: Place) -> Array:
    if TIME not in place.grid.axes:
        has = "a number" if place.grid.axes == (NUMBER,) else f"one over {' and '.join(place.grid.axes)}"
        raise SceneError(f"{place.key}: expected a value that varies with time, found {has}; give it another way")
    axis = place.axis(TIME)
    shape = [-1 if a == axis else 1 for a in range(place.grid.ndim)]
    values = wavelet_values(part, place.grid.coordinates(axis), place.key)
    return np.broadcast_to(values.reshape(shape), place.grid.shape).copy()


def wavelet_values(part: Wavelet, times: Array, key: str) -> Array:
    """A wavelet at times in seconds.

    Raises:
        SceneError: a value that is not finite; names the key.
    """
    with np.errstate(over="ignore", invalid="ignore", under="ignore"):  # what is not finite is refused below
        if isinstance(part, Ricker):
            delay = 1.2 / part.frequency if part.delay is None else part.delay
            a = (np.pi * part.frequency * (times - delay)) ** 2
            values = part.amplitude * (1 - 2 * a) * np.exp(-a)
        elif isinstance(part, Sampled):
            values = part.amplitude * _of_file(part, times, key)
        elif isinstance(part, Packet):
            late = times - (5 * part.width if part.delay is None else part.delay)
            values = part.amplitude * np.cos(2 * np.pi * part.frequency * late) * np.exp(-0.5 * (late / part.width) ** 2)
        else:
            values = part.amplitude * np.exp(-0.5 * ((times - part.delay) / part.width) ** 2)
    if not np.isfinite(values).all():
        raise SceneError(f"{key}: expected finite amplitudes at all times, found {values[~np.isfinite(values)][0]}; correct its numbers")
    return values


def sampled(part: Sampled, key: str) -> tuple[Array, Array]:
    """Times and amplitudes of a wavelet from a file, on the clock of the run.

    Raises:
        SceneError: the file has none, or several; names the key.
    """
    try:
        found = read_records(part.path, Layout(dt=part.dt))
    except DataError as error:
        raise SceneError(f"{key}.path: {error}") from None
    traces = sum(records.values.shape[1] for records in found)
    where, values = found[0].where, found[0].values[:, 0]
    if traces != 1 or len(values) < 2:
        raise SceneError(f"{key}.path: expected one trace of two samples or more in {where}, found {traces} of {len(values)}; cut it")
    if not np.isfinite(values).all():
        raise SceneError(f"{key}.path: expected finite numbers in {where}, found gaps; fill them")
    return found[0].times - part.start, values


def _of_file(part: Sampled, times: Array, key: str) -> Array:
    own, values = sampled(part, key)
    inside = (times >= own[0]) & (times <= own[-1])
    return np.where(inside, CubicSpline(own, values)(np.clip(times, own[0], own[-1])), 0.0)


BUILDERS: dict[str, Callable[[Any, Place], Array]] = {
    "constant": constant,
    "layers": layers,
    "gaussians": gaussians,
    "boxes": boxes,
    "dataset": dataset,
    "file": file,
    "wavelet": wavelet,
}
"""Kind of part -> the function that builds its array."""


def build_field(model: FieldModel, place: Place) -> Array:
    """The field over the cells of `place.grid`, f64."""
    out = np.zeros(place.grid.shape)
    with np.errstate(over="ignore", invalid="ignore", under="ignore"):  # what is not finite is refused below
        for kind, builder in BUILDERS.items():
            part = getattr(model, kind)
            if part is not None and part != ():
                out += builder(part, place.at(kind))
    out = np.clip(out, model.floor, model.ceil) if model.floor is not None or model.ceil is not None else out
    if not np.isfinite(out).all():
        bad = out[~np.isfinite(out)][0]
        raise SceneError(f"{place.key}: expected parts whose sum is finite in every cell, found {bad}; lower the numbers")
    return out


def read_array(part: DataFile, place: Place) -> Array:
    """Read the array of a NumPy file, and check that it has finite numbers over the scene's own grid or time steps."""
    key, path, own = place.key, Path(part.path), place.given
    shape = _in_file(part.axes, own.axes, own.shape)
    turned = own.axes[::-1] if part.axes is None and own.ndim > 1 and own.axes[0] != TIME else ()
    try:
        loaded = load_array(path, part.key, partial(_require_shape, shape, own.axes[0] == TIME, turned))
    except MemberError as error:
        raise SceneError(f"{key}.key: {error}") from None
    except DataError as error:
        raise SceneError(f"{key}.path: {error}") from None
    bad = np.argwhere(~np.isfinite(loaded))
    if len(bad):
        index = tuple(int(i) for i in bad[0])
        raise SceneError(
            f"{key}.path: expected finite numbers in {path_shown(path)}, found {loaded[index]} at {index} and {len(bad) - 1} more; "
            "fill the gaps"
        )
    with np.errstate(over="ignore"):  # from extended precision
        return _turned(loaded.astype(float), part.axes, own.axes)


def _require_shape(
    shape: tuple[int, ...], longer: bool, turned: tuple[str, ...], where: str, found: tuple[int, ...], fortran: bool
) -> tuple[int, ...]:
    """Refuse an array of another shape; if `longer`, more entries along the first axis are accepted, and not read.

    Args:
        shape: the one expected.
        longer: whether the array may have more entries along the first axis.
        turned: names of the axes in the opposite order, for a message; empty: it would be no remedy.
        where: the file.
        found: its shape.
        fortran: whether it is in Fortran order.
    """
    more = longer and len(found) == len(shape) and found[0] > shape[0] and found[1:] == shape[1:]
    if found != shape and not more:
        claimed = cut(str(tuple(int(n) for n in found)) if max(map(abs, found), default=0) < 10**18 else f"{len(found)} axes")
        if longer:
            raise DataError(f"expected the shape {shape}, or more time steps, in {where}, found {claimed}; give a value for each step")
        remedy = "resample it by spacing, or change grid.shape"
        if turned and found == shape[::-1]:
            remedy = f"its axes are in another order: axes = [{', '.join(map(repr, turned))}]".replace("'", '"')
        raise DataError(f"expected the grid's shape {shape} in {where}, found {claimed}; {remedy}")
    if more and fortran and len(shape) > 1:
        raise DataError(f"expected C order in {where}, found Fortran order; save numpy.ascontiguousarray(...) of it")
    return shape


def build_mask(where: Where, known: Mapping[str, Array], place: Place) -> Mask:
    """A boolean mask of the cells that meet the conditions."""
    grid = place.grid
    out = np.ones(grid.shape, bool)
    if where.field is not None and where.field not in known:
        fields = ", ".join(known) or "none"
        raise SceneError(f"{place.key}.field: expected a known field ({fields}), found {where.field!r}; {nearest(where.field, known)}")
    values = known[where.field] if where.field is not None else None if where.of is None else build_field(where.of, place.at("of").plain())
    if values is not None:
        out &= values >= (-np.inf if where.above is None else where.above)
        out &= values <= (np.inf if where.below is None else where.below)
    if where.lower is not None or where.upper is not None:
        low = place.point(where.lower or (-np.inf,) * grid.ndim, "lower")
        out &= _inside(place, low, place.point(where.upper or (np.inf,) * grid.ndim, "upper"))
    if where.margin:
        inner = np.zeros(grid.shape, bool)
        inner[tuple(slice(where.margin, n - where.margin) for n in grid.shape)] = True
        out &= inner
    if not out.any():
        raise SceneError(f"{place.key}: expected at least one cell, found none that meets the conditions; widen them")
    return out


def build_points(model: PointSet, place: Place) -> Array:
    """Positions, shape (points, axes)."""
    rows = [place.point(point, f"points[{number}]") for number, point in enumerate(model.points)]
    lines = [_along(line, place.at(f"lines[{number}]")) for number, line in enumerate(model.lines)]
    return np.concatenate([np.array(rows, float).reshape(-1, place.grid.ndim), *lines])


def _along(line: LineOfPoints, place: Place) -> Array:
    start, stop = place.point(line.start, "start"), place.point(line.stop, "stop")
    with np.errstate(over="ignore", invalid="ignore"):  # a place that is not finite is outside the grid
        return np.linspace(start, stop, line.count)


def _inside(place: Place, lower: tuple[float, ...], upper: tuple[float, ...]) -> Mask:
    out = np.ones(place.grid.shape, bool)
    for x, low, high in zip(place.mesh(), lower, upper, strict=True):
        out &= (x >= low) & (x <= high)
    return out


def _stretched(shape: tuple[int, ...], place: Place) -> tuple[Array, ...]:
    """Centres of a raster's cells when it is stretched over the region that the grid's cells cover."""
    base = place.base
    if len(shape) != base.ndim:
        raise SceneError(f"{place.key}.name: expected a grid of {len(shape)} axes for this data set, found {base.ndim}; change grid.shape")
    edges = [base.origin[axis] - 0.5 * base.spacing[axis] for axis in range(base.ndim)]
    lengths = [base.shape[axis] * base.spacing[axis] for axis in range(base.ndim)]
    return tuple(edge + (np.arange(n) + 0.5) * length / n for edge, length, n in zip(edges, lengths, shape, strict=True))


def _resample(values: Array, coordinates: tuple[Array, ...], part: Resampled, place: Place) -> Array:
    grid = place.grid
    if values.ndim != grid.ndim:
        raise SceneError(f"{place.key}: expected a grid of {values.ndim} axes for these data, found {grid.ndim}; change grid.shape")
    if part.method == "cubic" and not np.isfinite(values).all():
        raise SceneError(f'{place.key}.method: expected numbers without gaps for "cubic", found gaps; give fill, or choose another')
    wanted = []
    for axis, given in enumerate(coordinates):
        asked = grid.coordinates(axis)
        _require_covered((place.inner or grid).coordinates(axis), given, part, place, grid.axes[axis])
        if len(given) < LEAST[part.method]:
            raise SceneError(
                f'{place.key}.method: expected at least {LEAST[part.method]} numbers along {grid.axes[axis]} for "{part.method}", found '
                f"{len(given)}; choose another"
            )
        wanted.append(np.clip(asked, given[0], given[-1]))
    if part.method == "mean":
        found = _means(values, coordinates, grid, part.extend is not None or place.inner is not None)
    else:
        found = RegularGridInterpolator(coordinates, values, method=part.method)(tuple(np.meshgrid(*wanted, indexing="ij", sparse=True)))
    bad = np.argwhere(~np.isfinite(found))
    if len(bad):
        at = ", ".join(f"{grid.axes[axis]} = {grid.coordinates(axis)[k]:.6g}" for axis, k in enumerate(bad[0]))
        raise SceneError(
            f"{place.key}: expected numbers in every cell, found none at {at} and in {len(bad) - 1} more cells; give fill, or move the grid"
        )
    return found


def _require_covered(asked: Array, given: Array, part: Resampled, place: Place, axis: str) -> None:
    """Refuse a grid that reaches past given numbers along an axis, or with `extend` one that lies beside them.

    Args:
        asked: coordinates of the grid, rising.
        given: those of the numbers, rising.
        part: the part of the field.
        place: its place.
        axis: name of the axis.
    """
    room = place.beyond * float(np.max(np.diff(given), initial=0.0))
    low, high = given[0] - room, given[-1] + room
    beside = asked[-1] < low or asked[0] > high
    if not beside and (part.extend is not None or (asked[0] >= low and asked[-1] <= high)):
        return
    remedy = "move or shrink the grid"
    turn = next((turn for turn in (TURN, -TURN) if low <= asked[0] + turn and asked[-1] + turn <= high), None)
    if turn is not None and axis.lower().startswith("lon"):
        remedy = f"the file counts longitudes otherwise: {'add' if turn > 0 else 'subtract'} {TURN:g} degrees in the grid"
    elif not beside:
        remedy += ', or continue the numbers at the edge by extend = "edge"'
    raise SceneError(
        f"{place.key}: expected a grid with {axis} from {given[0]:.6g} to {given[-1]:.6g}, where there are data, found "
        f"{asked[0]:.6g} to {asked[-1]:.6g}; {remedy}"
    )


def _means(values: Array, coordinates: tuple[Array, ...], grid: Grid, extend: bool) -> Array:
    """Means over each cell of the grid of numbers that hold around their coordinates, halfway to the next.

    If `extend`, the outermost numbers hold up to the edge of the grid.
    """
    for axis, given in enumerate(coordinates):
        middles = 0.5 * (given[1:] + given[:-1])
        bounds = np.concatenate([[2 * given[0] - middles[0]], middles, [2 * given[-1] - middles[-1]]])
        centres, half = grid.coordinates(axis), 0.5 * grid.spacing[axis]
        if extend:
            bounds[0], bounds[-1] = min(bounds[0], centres[0] - half), max(bounds[-1], centres[-1] + half)
        share = overlaps(np.append(centres - half, centres[-1] + half), bounds)
        share /= share.sum(axis=1, keepdims=True)  # a cell at the edge may reach past the numbers
        values = np.moveaxis(np.tensordot(share, values, (1, axis)), 0, axis)
    return values


def overlaps(cells: Array, others: Array) -> Array:
    """Lengths that intervals share with others.

    Args:
        cells: edges of the intervals, rising, shape (n + 1,).
        others: edges of the others, shape (m + 1,).

    Returns:
        Shape (n, m).
    """
    low = np.maximum(cells[:-1, None], others[None, :-1])
    high = np.minimum(cells[1:, None], others[None, 1:])
    return np.maximum(high - low, 0.0)


def _converted(part: Resampled, values: Array, place: Place) -> Array:
    if part.blur:
        widest = max(n * h for n, h in zip(place.grid.shape, place.grid.spacing, strict=True))
        if part.blur > widest:
            raise SceneError(f"{place.key}.blur: expected at most {widest:g}, the extent of the grid, found {part.blur:g}; lower it")
        values = gaussian_filter(values, [part.blur / h for h in place.grid.spacing], mode="nearest")
    values = part.scale * values + part.offset
    return np.array(part.values)[np.digitize(values, part.thresholds)] if part.values else values
