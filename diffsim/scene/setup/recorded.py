"""The records of a scene: read from its files, in the unit of the state, on the clock of the run, at receivers that all shots share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from diffsim.base.arguments import plural
from diffsim.base.messages import shown
from diffsim.base.quantities.named import require_stated
from diffsim.base.quantities.units import conversion
from diffsim.errors import DataError
from diffsim.mesh.grid import Grid
from diffsim.records.checks import require_inside, require_measured, require_receivers, require_sound, require_sources
from diffsim.records.conventions.fills import ALIKE
from diffsim.records.conventions.places import wrapped_places
from diffsim.records.conventions.records import Layout, Records, on_one_clock
from diffsim.scene.schema.schema import Data
from diffsim.scene.setup.place import coordinate_units
from diffsim.scene.setup.start_time import after_start, with_time_of
from diffsim.scene.setup.station_table import Stations, require_one_unit
from diffsim.typing import Array

SNAP = 1e-4
"""A sample closer than this to the start or the end of the run, in time steps, is taken to be there: files have times in f32, in hours."""


@dataclass(frozen=True, eq=False)
class Shots:
    """The shots of a scene.

    Attributes:
        count: their number.
        sources: place of the source of each, shape (count, axes); None: a shot has several sources, or none.
    """

    count: int
    sources: Array | None = None


@dataclass(frozen=True, eq=False)
class Recorded:
    """Records of a state.

    Attributes:
        positions: of the receivers, shape (receivers, axes).
        times: of the samples, s after the start of the run, shape (samples,).
        values: shape (shots, samples, receivers), in the unit of the state; NaN where there is no sample.
        deviation: standard deviation of their noise, same shape and unit; None: not known.
        weight: of each sample, same shape; None: 1.
        names: of the receivers in the files; where these have no names, their numbers from 0.
        where: the files, for messages.
        notes: lines about values that replace those of the files.
    """

    positions: Array
    times: Array
    values: Array
    deviation: Array | None
    weight: Array | None
    names: tuple[str, ...] = ()
    where: str = ""
    notes: tuple[str, ...] = ()

    def until(self, end: float) -> Recorded:
        """The samples from the start of the run to `end`."""
        inside = np.flatnonzero((self.times >= 0) & (self.times <= end))
        deviation, weight = (None if numbers is None else numbers[:, inside] for numbers in (self.deviation, self.weight))
        return replace(self, times=self.times[inside], values=self.values[:, inside], deviation=deviation, weight=weight)


def read_data(
    model: Data,
    unit: str,
    grid: Grid,
    points: Array | None,
    shots: Shots,
    dt: float,
    steps: int,
    crs: str | None = None,
    steady: bool = False,
) -> Recorded:
    """Read and check the records of a state.

    Args:
        model: its table in the scene.
        unit: of the state.
        grid: the scene's own grid.
        points: positions of the receivers; None: as the files say.
        shots: the shots that the records are of.
        dt: time step, s.
        steps: number of steps.
        crs: map projection of the grid; None: not stated.
        steady: whether the run is one step from a guess to the solution of a steady problem. Then a single sample is one of the solution,
            and samples at the time of the guess count as gaps.

    Raises:
        DataError: a file cannot be read, or does not fit the run. There is a line for each problem.
    """
    end = dt * steps
    files = Stations(model, _layout(model, grid), grid, crs, unit).read()
    every = [records for one in files for records in one]
    if model.deviation is not None:
        remedy = "give deviations, the name of a column of the files, or with its unit of stations"
        require_one_unit(every, unit, f"deviation = {model.deviation:g}", remedy)
    measured = False
    if shots.count == 1 and len(files) > 1 and all(len(one) == 1 for one in files):
        measured = len({records.unit for records in every}) > 1
        every = [_one_shot(every, model)]
    if len(every) > 1:
        every = [replace(records, shot=shot) for shot, records in enumerate(every)]
    every = [_without(records, model.drop, every) for records in every]
    every = [records if measured else _measured(records, model, records.names) for records in every]
    every = [_prepared(records, model, unit, dt, end) for records in every]
    for records in every:
        if points is not None and len(records.names) == 1 < len(points) == len(records.times):
            raise DataError(
                f"{records.where}: expected {len(points)} traces, one for each point of receivers, found as many samples of one trace; "
                "if these are the receivers at one time, save them as one row, values[None, :]"
            )
        if points is not None and records.coordinates is not None:
            lower, upper = _ends(grid)
            require_receivers(replace(records, coordinates=_on_turn(records.coordinates, grid, lower, upper)), points, grid, model.allow)
    if steady:
        every = [_of_solution(records, end) for records in every]
    if len(every) != shots.count:
        raise DataError(
            f'expected records of {plural(shots.count, "shot")} (one for each source that fires "in turn"), found {len(every)} in '
            f"{plural(len(files), 'file')}; give one file for all shots, or one for each"
        )
    if shots.sources is not None:
        require_sources(every, shots.sources, grid, model.allow)
    for records in every:
        require_sound(records, end, model.allow, dt)
    out = _together(every if points is not None else [records.alive() for records in every], grid, points, model.coordinates or grid.axes)
    if points is None and "receivers" not in model.allow:
        _require_apart(out, grid)
    return out


def _require_apart(records: Recorded, grid: Grid) -> None:
    """Refuse places that files state without a unit, and that would all lie in one cell of a grid in lengths: they are degrees, or km."""
    places = records.positions
    if len(places) < 2 or "degree" in coordinate_units(grid) or np.any(np.ptp(places, axis=0) >= grid.smallest):
        return
    unit = coordinate_units(grid)[0]
    spans = [f"{axis} from {low:g} to {high:g}" for axis, low, high in zip(grid.axes, places.min(axis=0), places.max(axis=0), strict=True)]
    raise DataError(
        f"{records.where}: expected receivers in more than one cell, found {len(places)} with {' and '.join(spans)}, taken for {unit}; of "
        f'degrees give crs, and grid.crs, otherwise convert them, or allow = ["receivers"]'
    )


def _layout(model: Data, grid: Grid) -> Layout:
    return Layout(
        values=model.values,
        times=model.times,
        receiver=model.receiver,
        deviations=model.deviations,
        weights=model.weights,
        axes=grid.axes,
        stations=None if model.stations is None else Path(model.stations),
        unit=model.unit,
        time_unit=model.time_unit,
        dt=model.dt,
        order=model.axes,
        shape=model.shape,
        coordinates=model.coordinates,
        coordinate_units=coordinate_units(grid),
    )


def _one_shot(every: Sequence[Records], model: Data) -> Records:
    """The receivers of several files as those of one shot. A receiver without a name has that of its file.

    Numbers that mean no sample become gaps before a file is converted to the unit of the first one.
    """
    every = [with_time_of(records, every[0]) for records in every]
    called = [_with_file(records) for records in every]
    names = [name for own in called for name in own]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise DataError(
            f"{every[-1].where}: expected a name of its own for each receiver of a shot, found {shown(twice)} twice; rename one"
        )
    units = {records.unit for records in every}
    if len(units) > 1:
        every = [_measured(records, model, names).in_unit(every[0].unit) for records, names in zip(every, called, strict=True)]
    parts = {what: [getattr(records, what) for records in every] for what in ("deviation", "weight", "coordinates")}
    for what, several in parts.items():
        if any(part is None for part in several) and any(part is not None for part in several):
            lacking = next(records.where for records, part in zip(every, several, strict=True) if part is None)
            raise DataError(f"{lacking}: expected {what} as in the other files of the shot, found none; add it, or leave it out everywhere")
    columns = [_columns_of(records) for records in every]
    traces = [(records.times, column) for records, own in zip(every, columns, strict=True) for column in own]
    times, stacked = on_one_clock(traces)
    places = None if parts["coordinates"][0] is None else np.concatenate(parts["coordinates"])
    deviation, weight = (
        None if parts[what][0] is None else np.nan_to_num(stacked[..., k]) for k, what in ((1, "deviation"), (2, "weight"))
    )
    dead = tuple(name for records in every for name in records.dead)
    where = f"{every[0].where} and {plural(len(every) - 1, 'file')} more"
    notes = tuple(note for records in every for note in records.notes)
    joined = Records(stacked[..., 0], times, tuple(names), places, every[0].unit, deviation, weight, where, dead=dead)
    return replace(joined, epoch=every[0].epoch, notes=notes)


def _with_file(records: Records) -> tuple[str, ...]:
    """The names of receivers, of which those without one have that of their file."""
    stem, count = Path(records.where).stem, len(records.names)
    if records.names != tuple(map(str, range(count))):
        return records.names
    return (stem,) if count == 1 else tuple(f"{stem}:{name}" for name in records.names)


def _measured(records: Records, model: Data, names: Sequence[str]) -> Records:
    """Records of a file, in its unit, with gaps for numbers that mean no sample.

    Args:
        records: of a file.
        model: the keys of the records.
        names: of the receivers, as `drop` has them.

    Raises:
        DataError: a trace that is not dropped has a number that looks like a fill value.
    """
    kept = _with_gaps(records, model.missing)
    require_measured(replace(kept, names=tuple(names), values=np.where(np.isin(names, model.drop), np.nan, kept.values)), model.allow)
    return kept


def _columns_of(records: Records) -> Array:
    """Values, deviations and weights of each receiver, shape (receivers, samples, 3)."""
    ones = np.ones(records.values.shape)
    parts = [part if part is not None else ones for part in (records.values, records.deviation, records.weight)]
    return np.stack(parts, axis=-1).swapaxes(0, 1)


def _prepared(records: Records, model: Data, unit: str, dt: float, end: float) -> Records:
    """Records with their gaps in the unit of the state, on the clock of the run."""
    if not records.unit:
        require_stated(model.values or "", unit, records.where)
        for name in records.names:
            require_stated(name, unit, records.where, of_place=True)
    convert = conversion(records.unit or unit, unit, records.where)
    times = after_start(records, model.start)
    for place in (0.0, end):
        times = np.where(np.abs(times - place) <= SNAP * dt, place, times)
    deviation = records.deviation
    if model.deviation is not None:
        deviation = np.full(records.values.shape, model.deviation)
    return replace(
        records, values=convert(records.values), times=times, deviation=None if deviation is None else convert.difference(deviation)
    )


def _of_solution(records: Records, end: float) -> Records:
    """Records of the solution of a steady problem, which is there at the end of its one step."""
    times = np.full(1, end) if len(records.times) == 1 else records.times
    values = records.values.astype(float)
    values[times <= 0] = np.nan
    return replace(records, times=times, values=values)


def _without(records: Records, drop: Sequence[str], every: Sequence[Records]) -> Records:
    """Records without the traces to drop: "NAME" from all shots, "SHOT:NAME" from one, where its place stays, with a gap.

    Args:
        records: of one shot.
        drop: as the scene gives it.
        every: of all shots.
    """
    everywhere, here = [], []
    for entry in drop:
        shot, colon, name = entry.partition(":")
        one = colon and shot.isdecimal() and int(shot) < len(every) and name in every[int(shot)].names
        if not one or any(entry in other.names for other in every):
            everywhere.append(entry)
        elif every[int(shot)].shot == records.shot:
            here.append(name)
    kept = records.silenced(here) if here else records
    return kept.without(everywhere) if everywhere else kept


def _with_gaps(records: Records, missing: Sequence[float]) -> Records:
    """The records with gaps where a value is one that means no sample."""
    values = records.values
    gaps = np.zeros(values.shape, bool)
    for mark in missing:
        gaps |= np.abs(values - mark) <= ALIKE * abs(mark)
    return replace(records, values=np.where(gaps, np.nan, values))


def _together(every: Sequence[Records], grid: Grid, points: Array | None, names_of_axes: Sequence[str]) -> Recorded:
    """All shots on one clock, and at the receivers of any of them."""
    columns, positions = _columns(every, grid, points, names_of_axes)
    times = np.unique(np.concatenate([records.times for records in every]))
    shape = (len(every), len(times), len(positions))
    out = {"values": np.full(shape, np.nan), "deviation": np.ones(shape), "weight": np.ones(shape)}
    for name, filled in out.items():
        for shot, (records, column) in enumerate(zip(every, columns, strict=True)):
            numbers = getattr(records, name)
            if numbers is not None:
                filled[shot][np.ix_(np.searchsorted(times, records.times), np.array(column))] = numbers
    known = {name: all(getattr(records, name) is not None for records in every) for name in out}
    deviation, weight = (out[name] if known[name] else None for name in ("deviation", "weight"))
    names = [""] * len(positions)
    for records, column in zip(reversed(every), reversed(columns), strict=True):  # of two names for a place, that of the first shot
        for name, number in zip(records.names, column, strict=True):
            names[number] = name
    notes = tuple(dict.fromkeys(note for records in every for note in records.notes))
    return Recorded(positions, times, out["values"], deviation, weight, tuple(names), every[0].where, notes)


def _ends(grid: Grid) -> tuple[Array, Array]:
    """Coordinates of the first and of the last cell centre."""
    first, last = (np.array([grid.coordinates(axis)[end] for axis in range(grid.ndim)]) for end in (0, -1))
    return first, last


def _on_turn(places: Array, grid: Grid, lower: Array, upper: Array) -> Array:
    """Places with longitudes on the turn of the grid."""
    columns = zip(places.T, grid.axes, lower, upper, strict=True)
    return np.stack([wrapped_places(place, axis, low, high) for place, axis, low, high in columns], axis=1)


def _columns(every: Sequence[Records], grid: Grid, points: Array | None, names: Sequence[str]) -> tuple[list[list[int]], Array]:
    """For each shot the receivers of its traces, and the positions of all receivers. `names` are those of coordinates in the files."""
    if points is not None:
        for records in every:
            if len(records.names) != len(points):
                raise DataError(
                    f"{records.where}: expected {plural(len(points), 'trace')}, one for each point of receivers, found "
                    f"{len(records.names)}; correct the points, or drop traces"
                )
        return [list(range(len(points)))] * len(every), points
    lower, upper = _ends(grid)
    numbers: dict[tuple[float, ...], int] = {}
    columns = []
    for records in every:
        if records.coordinates is None:
            raise DataError(
                f"{records.where}: expected coordinates of its traces under the names {', '.join(names)}, found none; give the points "
                "of receivers in the scene, stations, or their names by coordinates"
            )
        placed = replace(records, coordinates=_on_turn(records.coordinates, grid, lower, upper))
        require_inside(placed, lower, upper, grid.axes)
        here = [numbers.setdefault(tuple(place), len(numbers)) for place in np.asarray(placed.coordinates).tolist()]
        twice = next((k for k, number in enumerate(here) if number in here[:k]), None)
        if twice is not None:
            raise DataError(f"{records.trace(twice)}: expected a place of its own, found that of another trace; {records.to_drop(twice)}")
        columns.append(here)
    return columns, np.array(list(numbers))
