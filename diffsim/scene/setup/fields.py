"""Build fields over the cells of a grid from their parts in a scene: one builder for each kind of part."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from diffsim.base.messages import shown
from diffsim.errors import SceneError
from diffsim.scene.schema.data import load_dataset
from diffsim.scene.schema.parts import (
    Box,
    DataSet,
    FieldModel,
    Gaussian,
    Layers,
    LineOfPoints,
    Outline,
    PointSet,
    Where,
)
from diffsim.scene.setup.file_part import file
from diffsim.scene.setup.place import Place
from diffsim.scene.setup.raster import resample, scaled
from diffsim.scene.setup.wavelets import wavelet
from diffsim.scene.words.model import Mask
from diffsim.scene.words.suggest import nearest, require_known
from diffsim.typing import Array


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
        square = _square_radius(here, part.centre, part.angle, "width", part.width)
        out += part.amplitude * np.exp(-0.5 * square)
    return out


def _square_radius(place: Place, centre: tuple[float, ...], angle: float, key: str, widths: tuple[float, ...]) -> Array:
    """Σ (x_a - centre_a)²/width_a², the axes turned by an angle from the first axis of the grid to the second."""
    offsets = _turned(place, centre, angle)
    return np.asarray(sum((x / w) ** 2 for x, w in zip(offsets, place.widths(widths, key), strict=True)))


def _turned(place: Place, centre: tuple[float, ...], angle: float) -> list[Array]:
    """x_a - centre_a along axes that are turned by an angle."""
    offsets = [x - c for x, c in zip(place.mesh(), place.point(centre, "centre"), strict=True)]
    if angle:
        if len(offsets) < 2:
            raise SceneError(f"{place.key}.angle: expected no angle on a grid of one axis, found {angle:g}; drop it")
        cos, sin = np.cos(np.radians(angle)), np.sin(np.radians(angle))
        offsets[:2] = [cos * offsets[0] + sin * offsets[1], cos * offsets[1] - sin * offsets[0]]
    return offsets


def boxes(parts: tuple[Box, ...], place: Place) -> Array:
    out = np.zeros(place.grid.shape)
    for number, part in enumerate(parts):
        here = place.at(f"[{number}]")
        out += part.amplitude * _inside(place, here.point(part.lower, "lower"), here.point(part.upper, "upper"))
    return out


def dataset(part: DataSet, place: Place) -> Array:
    raster = load_dataset(part.name, f"{place.key}.name")
    quantity = part.quantity or next(iter(raster.quantities))
    require_known(f"{place.key}.quantity", quantity, raster.quantities)
    values = raster.quantities[quantity]
    coordinates = raster.coordinates or _stretched(values.shape, place)
    return scaled(part, resample(values, coordinates, part, place), place)


def bodies(parts: tuple[Outline, ...], place: Place) -> Array:
    distances = [_distance(part, place.at(f"[{number}]")) for number, part in enumerate(parts)]
    return np.min(distances, axis=0)


def _distance(part: Outline, place: Place) -> Array:
    """√s (√s - 1) / |∇s / 2| with s = Σ (x_a / r_a)², which is 0 on the outline with a slope of 1; at the middle the least half axis."""
    offsets, radii = _turned(place, part.centre, part.angle), place.widths(part.half_axes, "half_axes")
    level = np.sqrt(sum((x / r) ** 2 for x, r in zip(offsets, radii, strict=True)))
    steepness = np.sqrt(sum((x / r**2) ** 2 for x, r in zip(offsets, radii, strict=True)))
    middle = level < 1e-12
    return np.where(middle, -min(radii), np.maximum(level * (level - 1) / np.where(middle, 1.0, steepness), -min(radii)))


BUILDERS: dict[str, Callable[[Any, Place], Array]] = {
    "constant": constant,
    "layers": layers,
    "gaussians": gaussians,
    "boxes": boxes,
    "dataset": dataset,
    "file": file,
    "wavelet": wavelet,
    "bodies": bodies,
}
"""Kind of part -> the function that builds its array."""


def build_field(model: FieldModel, place: Place) -> Array:
    """The field over the cells of `place.grid`, f64."""
    out = np.zeros(place.grid.shape)
    with np.errstate(over="ignore", invalid="ignore", under="ignore"):  # values that are not finite are refused below
        for kind, builder in BUILDERS.items():
            part = getattr(model, kind)
            if part is not None and part != ():
                out += builder(part, place.at(kind))
    out = np.clip(out, model.floor, model.ceil) if model.floor is not None or model.ceil is not None else out
    if not np.isfinite(out).all():
        bad = out[~np.isfinite(out)][0]
        raise SceneError(f"{place.key}: expected parts whose sum is finite in every cell, found {bad}; lower the numbers")
    return out


def build_mask(where: Where, known: Mapping[str, Array], place: Place) -> Mask:
    """A boolean mask of the cells that meet the conditions."""
    grid = place.grid
    out = np.ones(grid.shape, bool)
    if where.field is not None and where.field not in known:
        fields = ", ".join(known) or "none"
        raise SceneError(f"{place.key}.field: expected a known field ({fields}), found {shown(where.field)}; {nearest(where.field, known)}")
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
