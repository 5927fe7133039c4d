"""A table of stations: the file, the window, the weight and the noise of each receiver, and its place in another map projection."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from diffsim.base.messages import name_shown
from diffsim.base.quantities.units import conversion, differences_in
from diffsim.errors import DataError
from diffsim.mesh.angles import ANGLES
from diffsim.mesh.grid import Grid
from diffsim.records.conventions.clock import SECOND
from diffsim.records.conventions.records import Layout, Records
from diffsim.records.formats.csv_files import Table, with_stations
from diffsim.records.projection import Projection
from diffsim.records.read import read_records
from diffsim.scene.schema.parts import RECEIVER
from diffsim.scene.schema.schema import Data
from diffsim.scene.setup.place import coordinate_units


class Stations:
    """The receivers of the records of a state, as the keys of a scene and their table say.

    Args:
        model: the keys of the records.
        layout: of the files.
        grid: the scene's own grid.
        crs: map projection of the grid; None: not stated.
        unit: of the state, which values without a unit have.

    Raises:
        DataError: the table cannot be read, or does not fit the keys.
    """

    def __init__(self, model: Data, layout: Layout, grid: Grid, crs: str | None, unit: str) -> None:
        self._model, self._layout, self._unit = model, layout, unit
        self._table = None if model.stations is None else Table.read(Path(model.stations))
        columns = {} if self._table is None else self._table.columns
        self._names: list[str] = []
        if self._table is not None:
            column = self._table.receivers(layout.receiver)
            self._names = columns[column]
            twice = next((name for name in self._names if self._names.count(name) > 1), None)
            if twice is not None:
                raise DataError(
                    f"{self._table.where}, column {name_shown(column)}: expected each station once, found {name_shown(twice)} twice; "
                    "drop a row"
                )
        self._own = {name for name in (model.weights, model.deviations) if name is not None and name in columns}
        self._projection, names = None, self._layout.places
        if model.crs is not None:
            self._projection = Projection.between(model.crs, crs, names, grid.axes, coordinate_units(grid))
            self._layout = replace(self._layout, axes=names, coordinate_units=self._projection.units)
        else:
            _require_angles(names, grid)

    def read(self) -> list[tuple[Records, ...]]:
        """The records of each file, with all that the table says of their receivers."""
        files = [shots for path in self._model.path for shots in self._read(path)]
        column = self._model.deviations
        if self._table is not None and column in self._own and not self._table.unit(column):
            what = f"{self._table.where}, column {name_shown(column)}"
            every = [records for shots in files for records in shots]
            require_one_unit(every, self._unit, what, f"write its unit behind its name, such as {column} [{self._unit}]")
        return [tuple(map(self._with_table, shots)) for shots in files]

    def _read(self, path: str) -> list[tuple[Records, ...]]:
        """The records of a file, or of the file of each receiver.

        Raises:
            DataError: they cannot be read; or weights or deviations are neither in the files nor in the table.
        """
        wanted = [name for name in (self._model.weights, self._model.deviations) if name is not None and name not in self._own]
        try:
            return self._read_with(path, self._own)
        except DataError:
            if self._table is None or not wanted:
                raise
            self._read_with(path, self._own.union(wanted))  # it raises if the files have another fault
            raise DataError(
                f"{self._table.where}: expected columns for the weights and deviations that the records have not, found no "
                f"{' and no '.join(map(name_shown, wanted))}; add them, or correct the names"
            ) from None

    def _read_with(self, path: str, others: Collection[str]) -> list[tuple[Records, ...]]:
        """The records of a file, or of the file of each receiver, without weights and deviations of these names."""
        own: dict[str, Any] = {what: None for what in ("weights", "deviations") if getattr(self._model, what) in others}  # no part of files
        layout = replace(self._layout, **own)
        if RECEIVER not in path:
            return [read_records(path, layout)]
        names = [name for name in self._names if name not in self._model.drop]  # the schema asks for a table
        return [
            self._of_one(name, path.replace(RECEIVER, name), replace(layout, stations=None, receiver=None, coordinates=()))
            for name in names
        ]

    def _of_one(self, name: str, path: str, layout: Layout) -> tuple[Records, ...]:
        """The record of one receiver, in a file of its own."""
        shots = read_records(path, layout)
        many = next((records for records in shots if len(records.names) != 1), None)
        if many is not None or len(shots) > 1:
            where, count = shots[0].where, len(shots) if many is None else len(many.names)
            raise DataError(f"{where}: expected the record of {name_shown(name)} alone, found {count} traces; cut it, or name values")
        return (with_stations(replace(shots[0], names=(name,)), self._layout),)

    def _with_table(self, records: Records) -> Records:
        """Records with windows, weights and deviations of the table, and with places in the projection of the grid."""
        model = self._model
        if self._projection is not None and records.coordinates is not None:
            records = replace(records, coordinates=self._projection(records.coordinates, records.where))
        if self._table is None:
            return records
        rows = self._rows(self._table.where, records.names)
        if model.window is not None:
            records = self._windowed(self._table, records, rows, model.window)
        if model.weights in self._own:
            numbers = self._table.numbers(model.weights, "weights")[rows]
            self._require(self._table, model.weights, numbers, numbers >= 0, "a weight of 0 or more")
            records = replace(records, weight=np.broadcast_to(numbers, records.values.shape).copy())
        if model.deviations in self._own:
            column = model.deviations
            what = f"{self._table.where}, column {name_shown(column)}"
            numbers = differences_in(records.unit, self._table.numbers(column, "deviations"), self._table.unit(column), what)[rows]
            self._require(self._table, column, numbers, numbers > 0, "a deviation above 0")
            records = replace(records, deviation=np.broadcast_to(numbers, records.values.shape).copy())
        return records

    def _require(self, table: Table, column: str, numbers: np.ndarray, good: np.ndarray, expected: str) -> None:
        if not np.all(good):
            wrong = numbers[~good][0]
            raise DataError(f"{table.where}, column {name_shown(column)}: expected {expected}, found {wrong:g}; correct it")

    def _rows(self, where: str, names: Sequence[str]) -> list[int]:
        rows = {name: number for number, name in enumerate(self._names)}
        missing = next((name for name in names if name not in rows), None)
        if missing is not None:
            raise DataError(f"{where}: expected a row for each receiver, found none for {name_shown(missing)}; add it")
        return [rows[name] for name in names]

    def _windowed(self, table: Table, records: Records, rows: list[int], columns: tuple[str, str]) -> Records:
        """Records with gaps outside of the window of each receiver."""
        ends = []
        for column in columns:
            clock = table.clock(column, None)
            if (clock.epoch is None) != (records.epoch is None):
                has, lacks = (table.where, records.where) if records.epoch is None else (records.where, table.where)
                raise DataError(f"{lacks}: expected dates, as {has} has them, found none; write both in dates, or both in s")
            shift = 0.0 if clock.epoch is None or records.epoch is None else float((clock.epoch - records.epoch) / SECOND)
            ends.append(clock.times[rows] + shift)
        falls = np.flatnonzero(~(ends[0] < ends[1]))
        if len(falls):
            name = name_shown(records.names[falls[0]])
            raise DataError(f"{table.where}: expected a window that rises for {name}, found its end before its start; exchange them")
        inside = (records.times[:, None] >= ends[0]) & (records.times[:, None] <= ends[1])
        return replace(records, values=np.where(inside, records.values, np.nan))


def require_one_unit(every: Sequence[Records], unit: str, what: str, remedy: str) -> None:
    """Refuse deviations without a unit, which are in that of the values, of files that have several units.

    Args:
        every: the records of all files, in their units.
        unit: of values whose file has none.
        what: the deviations, for the message.
        remedy: another way to give them.

    Raises:
        DataError: the values have more than one unit.
    """
    units = [records.unit or unit for records in every]
    other = next((number for number, own in enumerate(units) if not _alike(own, units[0])), None)
    if other is not None:
        raise DataError(
            f"{what}: expected a unit, or files of one unit, found no unit, {every[0].where} in {units[0] or 'no unit'} and "
            f"{every[other].where} in {units[other] or 'no unit'}; {remedy}"
        )


def _alike(first: str, second: str) -> bool:
    """True if two units are one, as "m" and "metre" are."""
    if first == second:
        return True
    try:
        convert = conversion(first, second)
    except DataError:
        return False
    return bool(np.allclose(convert(np.array([0.0, 1.0])), [0.0, 1.0], rtol=1e-12, atol=1e-12))


def _require_angles(names: Sequence[str], grid: Grid) -> None:
    """Refuse latitudes and longitudes along axes that are no angles, where no projection takes the one to the other."""
    for name, axis, unit in zip(names, grid.axes, coordinate_units(grid), strict=True):
        if name.lower() in ANGLES and _is_length(unit):
            raise DataError(
                f"coordinates: expected lengths in {unit} along {axis}, found {name_shown(name)}, which is an angle; add crs, and grid.crs"
            )


def _is_length(unit: str) -> bool:
    try:
        conversion(unit, "m")
    except DataError:
        return False
    return True
