"""Records in CSV files, in two forms.

Wide: a column of times, and one for each receiver, which has its name. Long: a row for each sample, with the columns time, receiver and
value, perhaps a shot, a standard deviation, a weight and the receiver's coordinates; receivers have times of their own.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from diffsim.base.arguments import plural
from diffsim.base.messages import name_shown, path_shown, reason_shown, shown
from diffsim.base.quantities.named import require_stated
from diffsim.base.quantities.units import conversion, differences_in, factor, is_unit
from diffsim.errors import DataError
from diffsim.records.conventions.arrays import is_name_of_receivers
from diffsim.records.conventions.clock import Clock, begins_with_date, of_dates, of_numbers
from diffsim.records.conventions.places import units_of
from diffsim.records.conventions.records import Layout, Records, on_one_clock, refuse, require_step
from diffsim.records.conventions.rising import require_rising
from diffsim.records.conventions.variables import Variable, Variables, dated, listed, require_no_other_unit
from diffsim.records.formats.date_columns import is_clock, joined, times_of
from diffsim.records.formats.heads import by_blanks, commented_head, is_gap, is_number, is_row, units_below
from diffsim.typing import Array, IntArray

SHOT = "shot"
QUALITY = frozenset(
    {"sigma", "std", "stddev", "deviation", "deviations", "uncertainty", "flag", "flags", "qc", "quality", "weight", "weights"}
)
"""Last words of names of columns that say how good others are, in small letters."""
_LAST_WORD = re.compile(r"[\s_]+")
_UNIT = re.compile(r"(.*[^\s])\s*(?:\[([^\[\]]+)\]|\(([^()]+)\))")
_DIGITS = tuple(".0123456789")
_DECIMAL_COMMA = re.compile(r"[+-]?\d*,\d+(?:[eE][+-]?\d+)?")
_THOUSANDS = re.compile(r"[+-]?[1-9]\d{0,2}(?:,\d{3})+")
"""A number whose commas may be decimal ones or stand between thousands."""


@dataclass(frozen=True, eq=False)
class Table:
    """A CSV file.

    Attributes:
        columns: name of each column -> its texts. A unit in brackets behind a name, as in "height [cm]", is no part of it.
        lines: number of the line of each row.
        where: the file, for messages.
        units: name of a column -> the unit in brackets behind it.
        comma: whether numbers have decimal commas.
        days: name of a column of days -> that of the clocks beside it, which has the dates of both; none: there are no such two.
    """

    columns: Mapping[str, list[str]]
    lines: list[int]
    where: str
    units: Mapping[str, str]
    comma: bool = False
    days: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def read(cls, path: Path, bare: Sequence[str] = ()) -> Table:
        """Read a file whose first line names the columns. Lines that are empty or begin with "#" are left out.

        The line of names may begin with "#" if numbers follow, as NumPy and NOAA's buoys write it, and a line of units may be below it.

        Args:
            path: the file.
            bare: names of the columns of a file that has no line of names; none: it needs one.

        Raises:
            DataError: it cannot be read, a row is longer or shorter than the first, or a column has two units.
        """
        where = path_shown(path)
        try:
            with path.open(encoding="utf-8-sig", newline="") as file:
                lines = file.read().splitlines()
        except (OSError, UnicodeDecodeError) as error:
            what = reason_shown(error)
            raise DataError(f"expected a CSV file, found {where}, unreadable ({what}); save it as UTF-8 text") from None
        rows = [(k, line) for k, line in enumerate(lines, 1) if line.strip() and not line.lstrip().startswith("#")]
        first = rows[0][0] if rows else 1
        if rows and is_row(rows[0][1]):
            head = commented_head(lines[: first - 1], rows[0][1])
            rows = [*((first - len(head) + k, line) for k, line in enumerate(head)), *rows]
            split = max(",;\t", key=rows[0][1].count)
            if bare and not head:
                rows.insert(0, (first, (split if split in rows[0][1] else " ").join(bare)))
        if len(rows) < 2:
            raise DataError(f"{where}: expected a line of names and at least one row, found {len(rows)} lines; add them")
        split = max(",;\t", key=rows[0][1].count)
        cells: list[list[str]] = []
        texts = [" ".join(line.split()) for _, line in rows] if by_blanks([line for _, line in rows[:2]]) else None
        split = " " if texts else split
        reader = csv.reader(texts or (line for _, line in rows), delimiter=split, strict=True)
        try:
            for row in reader:
                number = rows[len(cells)][0]
                cells.append(row)
                if reader.line_num != len(cells):
                    raise DataError(f"{where}, line {number}: expected a row in one line, found a cell that goes on in the next; join them")
        except csv.Error as error:
            raise DataError(f"{where}: expected rows of a CSV file, found a mistake ({error}); correct the quotes") from None
        stated = _names_and_units([name.strip() for name in cells[0]])
        names = [name for name, _ in stated]
        if "" in names:
            raise DataError(
                f"{where}: expected a name for each column, found none for column {names.index('') + 1} (pandas writes its index so); "
                "name it, or leave it out (index=False)"
            )
        if is_row(rows[0][1]):
            before = [line for line in lines[: rows[0][0] - 1] if line.count(split) == len(names) - 1 and line.lstrip().startswith("#")]
            remedy = 'take the "#" away from the line of names' if before else "add it"
            what = "numbers" if all(map(is_number, cells[0])) else "dates"
            raise DataError(f"{where}, line {rows[0][0]}: expected a line of names, found {what}; {remedy}")
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            raise DataError(f"{where}: expected a name of its own for each column, found {shown(twice)} twice; rename one")
        numbers = [number for number, _ in rows[1:]]
        for number, row in zip(numbers, cells[1:], strict=True):
            if len(row) != len(names):
                raise DataError(f"{where}, line {number}: expected {len(names)} cells, as the first line has, found {len(row)}; correct it")
        units = {name: unit for name, unit in stated if unit}
        if (below := units_below(cells[1:])) is not None:
            for name, unit in zip(names, below, strict=True):
                if units.setdefault(name, unit) != unit and unit:
                    raise DataError(
                        f"{where}, line {numbers[0]}, column {name_shown(name)}: expected the unit {units[name]}, which stands behind the "
                        f"name, found {shown(unit)}; delete one of them"
                    )
            cells, numbers = [cells[0], *cells[2:]], numbers[1:]
        columns, days = joined({name: [row[k].strip() for row in cells[1:]] for k, name in enumerate(names)})
        return cls(columns, numbers, where, units, split != "," and any(map(_has_decimal_comma, columns.values())), days)

    def text(self, name: str, key: str) -> list[str]:
        """The texts of a column, which the user may name by a key.

        Raises:
            DataError: there is none of that name. The message lists those that exist.
        """
        name = self.named(name)
        if name not in self.columns:
            raise DataError(
                f"{self.where}: expected one of the columns {listed(list(self.columns))}, found no {name_shown(name)}; name one of them by "
                f"{key}"
            )
        return self.columns[name]

    def receivers(self, receiver: str | None) -> str:
        """The column of the receivers of a table of stations.

        Args:
            receiver: that of a layout, which may be the name of an array of receivers in the file of records. The table then has a column
                of the last part of this name, or "receiver"; None: "receiver".

        Raises:
            DataError: there is none of these.
        """
        names = ["receiver"] if receiver is None else [self.named(receiver), receiver.rpartition("/")[2], "receiver"]
        column = next((name for name in names if name in self.columns), None)
        if column is None:
            wanted = " and no ".join(map(name_shown, dict.fromkeys([receiver or "receiver", names[-1]])))
            raise DataError(
                f"{self.where}: expected a column of receivers among {listed(list(self.columns))}, found no {wanted}; name one of them by "
                "receiver, or receiver in the table"
            )
        return column

    def named(self, name: str) -> str:
        """The name of a column that the user may give with its unit, or by that of its days."""
        own = name if name in self.columns else _name_and_unit(name)[0]
        return self.days.get(own, own)

    def dated(self, name: str) -> bool:
        """True if a column has dates."""
        return begins_with_date(self.columns[self.named(name)][0])

    def names_of(self, name: str) -> tuple[str, ...]:
        """The names that a column has in the file, with their units, which may be zones: of days and clocks, both."""
        own = self.named(name)
        names = (own, *(day for day, clock in self.days.items() if clock == own))
        return tuple(f"{each} ({self.units[each]})" if each in self.units else each for each in names)

    def unit(self, name: str) -> str:
        """The unit of a column; "": it states none.

        Raises:
            DataError: a number and a unit stand in round brackets, which may be the place or the depth of a sensor.
        """
        unit = self.units.get(self.named(name), "")
        if unit.startswith("("):
            raise DataError(
                f"{self.where}, column {name_shown(self.named(name))}: expected a unit in brackets, found {unit}, which may be a unit or "
                f"the place of a sensor; write [{unit[1:-1]}] for the unit of the values, or a place without brackets: "
                f"{name_shown(f'{self.named(name)} {unit[1:-1]}')}"
            )
        return unit

    def numbers_in(self, name: str, wanted: str) -> Array:
        """The numbers of a column in a unit; those without a unit are in it."""
        unit = self.unit(name)
        what = f"{self.where}, column {name_shown(name)}"
        if not unit:
            require_stated(name, wanted, what, "write [{own}] or [{wanted}] behind it")
        numbers = self.numbers(name, "coordinates")
        return np.asarray(conversion(unit, wanted, what)(numbers)) if unit and wanted else numbers

    def clock(self, name: str, stated: str | None) -> Clock:
        """The times of a column of numbers or dates.

        Args:
            name: of the column.
            stated: the unit that the user states; None: that of the column, else s.
        """
        texts, what = self.text(name, "times"), f"{self.where}, column {name_shown(name)}"
        if self.dated(name):
            require_no_other_unit(False, "time_unit", stated, what, dates=True)
            return of_dates(texts, what, self.names_of(name))
        own = self.unit(name) if stated is None else ""
        return of_numbers(self.numbers(name, "times"), own, stated, what, name=self.named(name))

    def numbers(self, name: str, key: str, gaps: bool = False) -> Array:
        """The numbers of a column, which the user may name by a key.

        Raises:
            DataError: a cell is no number. The message has its line.
        """
        return np.array([self._number(text, line, name, gaps) for text, line in zip(self.text(name, key), self.lines, strict=True)])

    def _number(self, text: str, line: int, name: str, gaps: bool) -> float:
        if gaps and is_gap(text):
            return np.nan
        try:
            if "_" in text or (self.comma and "." in text):  # Python reads 1_000
                raise ValueError
            return float(text.replace(",", ".") if self.comma else text)
        except ValueError:
            remedy = "correct it (a gap is an empty cell)" if gaps else "correct it"
            if self.comma and "." in text:
                remedy = "others have decimal commas: write all numbers alike, and without signs between thousands"
            elif _THOUSANDS.fullmatch(text):
                remedy = f"write {text.replace(',', '')}, or {text.replace(',', '.', 1)} if the comma is a decimal one"
            elif _DECIMAL_COMMA.fullmatch(text):
                remedy = "write a decimal point, or semicolons between the columns"
            elif is_clock(text):
                remedy = "add a column of days to these clocks, or write dates such as 2011-03-11T05:46:23Z, or seconds"
            elif begins_with_date(text):
                remedy = f'leave this column out, or give times = "{name}" if it has the times'
            raise DataError(
                f"{self.where}, line {line}, column {name_shown(name)}: expected a number, found {shown(text)}; {remedy}"
            ) from None


class Columns(Variables):
    """The columns of a CSV file as arrays of one dimension without a name, as those of an `.npz` file are."""

    def __init__(self, path: Path, bare: Sequence[str] = ()) -> None:
        """Read a file; see `Table.read`."""
        self._table = Table.read(path, bare)
        super().__init__(path, tuple(self._table.columns))

    def named(self, name: str) -> str:
        """The name of a column that the user may give with its unit."""
        return self._table.named(name)

    def read(self, name: str) -> Variable:
        """The numbers of a column, NaN in a gap, or its dates in seconds."""
        texts, what = self._table.columns[name], f"{self.where}, column {name_shown(name)}"
        if self._table.dated(name):
            return dated(np.array(texts, object), ("",), what, self._table.names_of(name))
        return Variable(self._table.numbers(name, "key", gaps=True), self._table.unit(name), ("",))


def _has_decimal_comma(texts: Sequence[str]) -> bool:
    """True if a column has numbers with a decimal comma, of which at least one cannot be thousands."""
    return any(_DECIMAL_COMMA.fullmatch(text) is not None and _THOUSANDS.fullmatch(text) is None for text in texts if "," in text)


def read_csv(path: Path, layout: Layout) -> tuple[Records, ...]:
    """The records of each shot of a CSV file."""
    refuse(layout, path_shown(path), "a CSV file", ("order", "shape"))
    table = Table.read(path)
    receiver = layout.receiver or "receiver"
    name = layout.times or times_of(table.columns, table.where)
    clock = table.clock(name, layout.time_unit)
    require_step(clock.times, layout.dt, table.where)
    if layout.receiver is not None or receiver in table.columns:
        return _long(table, clock, receiver, layout)
    return (with_stations(_wide(table, clock, table.named(name), layout), layout),)


def _names_and_units(texts: Sequence[str]) -> list[tuple[str, str]]:
    """The name and the unit of each column. Columns that differ by numbers in round brackets alone, as "u (2 m)" and "u (10 m)", have
    these in their names: they are places."""
    stated = [_name_and_unit(text) for text in texts]
    names = [name for name, _ in stated]
    return [
        (text, "") if unit.startswith("(") and names.count(name) > 1 else (name, unit)
        for text, (name, unit) in zip(texts, stated, strict=True)
    ]


def _name_and_unit(text: str) -> tuple[str, str]:
    """The name of a column, and the unit in brackets behind it; "": there is none.

    A length that begins with a number in round brackets, as in "speed (10 m)", keeps its brackets: it may be a place.
    """
    match = _UNIT.fullmatch(text)
    if match is None or not is_unit(match[2] or match[3]):
        return text, ""
    return match[1].strip(), match[2] or (f"({match[3]})" if _may_be_place(match[3]) else match[3])


def _may_be_place(unit: str) -> bool:
    """True for a number of lengths, such as "10 m", of which that of a sensor is one."""
    if unit.lstrip()[:1] not in _DIGITS:
        return False
    try:
        factor(unit, "m")
    except DataError:
        return False
    return True


def _wide(table: Table, clock: Clock, column: str, layout: Layout) -> Records:
    names = tuple(name for name in table.columns if name != column) if layout.values is None else (table.named(layout.values),)
    for what, name in (("deviations", layout.deviations), ("weights", layout.weights)):
        if name is not None:
            raise DataError(
                f"{table.where}: expected a column for each receiver, found that {what} = {name_shown(name)} is asked for; write a row for "
                "each sample, with the columns time, receiver and value"
            )
    if layout.values is None:
        _require_receivers(table, column, names, layout)
    if not names:
        raise DataError(f"{table.where}: expected a column for each receiver beside {name_shown(column)}, found none; add them")
    values = np.stack([table.numbers(name, "values", gaps=True) for name in names], axis=1)
    unit, values = _one_unit(table, names, values, layout)
    order = _in_order(clock.times, table.lines, table.where)
    if layout.values is not None:  # the name of a quantity, so the receiver has that of its file
        names = (Path(table.where).stem,)
    return Records(values[order], clock.times[order], names, None, unit, where=table.where, epoch=clock.epoch)


def _require_receivers(table: Table, times: str, names: Sequence[str], layout: Layout) -> None:
    """Refuse columns that would be taken for receivers, and whose names mean something else: names of receivers, their places, or the
    quality of values."""
    beside = f"{table.where}: expected a column for each receiver beside {name_shown(times)}, found"
    owners = [name for name in names if is_name_of_receivers(name) and len(names) > 1 and not _measured(table.columns[name])]
    if owners:
        raise DataError(
            f'{beside} {name_shown(owners[0])}, which has receivers; give receiver = "{owners[0]}" if there is a row for each sample, or '
            "leave it out"
        )
    places = [name for name in layout.places if name in names] if _has(table, layout.places) and len(names) > len(layout.places) else []
    others = places or [name for name in names if _LAST_WORD.split(name)[-1].lower() in QUALITY]
    if others:
        raise DataError(
            f"{beside} {' and '.join(map(name_shown, others))}, which the name says to be something else; leave "
            f"{'it' if len(others) == 1 else 'them'} out, or give values, the column of one receiver"
        )


def _measured(texts: Sequence[str]) -> bool:
    """True if a column has numbers alone, of which some have a fraction or a sign."""
    there = [text for text in texts if not is_gap(text)]
    return all(map(is_number, there)) and not all(text.isdecimal() for text in there)


def _one_unit(table: Table, names: Sequence[str], values: Array, layout: Layout) -> tuple[str, Array]:
    """The unit of all columns of values, which is that of the first, and the values in it."""
    if layout.unit is not None:
        return layout.unit, values
    units = [table.unit(name) for name in names]
    if not any(units):
        return "", values
    if not all(units):
        name = names[units.index("")]
        raise DataError(f"{table.where}: expected a unit behind the name of each column, found none for {name_shown(name)}; add it")
    columns = [
        conversion(unit, units[0], f"{table.where}, column {name_shown(name)}")(column)
        for name, unit, column in zip(names, units, values.T, strict=True)
    ]
    return units[0], np.stack(columns, axis=1)


def _in_order(times: Array, lines: Sequence[int], where: str) -> IntArray:
    """The order in which times rise.

    Raises:
        DataError: times are not finite, or there are two rows of one time. The message has their lines.
    """
    order = np.argsort(times, kind="stable")
    twice = np.flatnonzero(np.diff(times[order]) == 0)
    if len(twice):
        first, second = order[twice[0]], order[twice[0] + 1]
        more = f" ({plural(len(twice), 'such pair')} in all)" if len(twice) > 1 else ""
        raise DataError(
            f"{where}: expected one row for each time, found {times[first]:g} s in the lines {lines[first]} and {lines[second]}{more}; "
            "delete one of each pair, or, if rows are of several receivers, give receiver, the column of their names"
        )
    require_rising(times[order], where)
    return order


def _long(table: Table, clock: Clock, receiver: str, layout: Layout) -> tuple[Records, ...]:
    times = clock.times
    values = table.numbers(layout.values or "value", "values", gaps=True)
    unit = layout.unit or table.unit(layout.values or "value")
    further = {
        "deviation": None if layout.deviations is None else _deviations(table, layout.deviations, unit),
        "weight": None if layout.weights is None else table.numbers(layout.weights, "weights"),
    }
    owners, shots = table.text(receiver, "receiver"), table.columns.get(SHOT, [""] * len(times))
    named = layout.stations is None and bool(layout.coordinates)  # then each of their columns has to be there
    places = _places(table, layout) if named or _has(table, layout.places) else None
    every = list(dict.fromkeys(owners))
    columns = {name: number for number, name in enumerate(every)}
    owner = np.array([columns[name] for name in owners])
    stacked = np.stack([values, *(v for v in further.values() if v is not None)], axis=1)
    out = []
    for shot in dict.fromkeys(shots):
        here = table.where if not shot else f"{table.where}, shot {name_shown(shot)}"
        fired = np.array([other == shot for other in shots])
        traces = []
        for number, name in enumerate(every):
            rows = np.flatnonzero(fired & (owner == number))
            if len(rows):
                rows = rows[_in_order(times[rows], [table.lines[row] for row in rows], f"{here}, trace {name_shown(name)}")]
            traces.append((times[rows], stacked[rows]))
        own, joined = on_one_clock(traces)
        parts = iter(range(1, stacked.shape[1]))
        spread = {what: None if v is None else np.nan_to_num(joined[..., next(parts)]) for what, v in further.items()}
        coordinates = None if places is None else _fixed(places, owner, every, table.where)
        records = Records(
            joined[..., 0], own, tuple(every), coordinates, unit, spread["deviation"], spread["weight"], here, epoch=clock.epoch
        )
        out.append(with_stations(records, layout))
    return tuple(out)


def _fixed(places: Array, owner: np.ndarray, names: Sequence[str], where: str) -> Array:
    """The place of each receiver, which must not change from row to row."""
    first = np.stack([places[owner == number][0] for number in range(len(names))])
    moved = np.flatnonzero(np.any(places != first[owner], axis=1))
    if len(moved):
        raise DataError(f"{where}, trace {name_shown(names[owner[moved[0]]])}: expected one place in all rows, found two; correct them")
    return first


def with_stations(records: Records, layout: Layout) -> Records:
    """Records with the coordinates of a file of stations."""
    if layout.stations is None:
        return records
    table = Table.read(Path(layout.stations))
    names = table.columns[table.receivers(layout.receiver)]
    rows = {name: number for number, name in enumerate(names)}
    missing = [name for name in records.names if name not in rows]
    if missing:
        raise DataError(f"{table.where}: expected a row for each receiver, found none for {name_shown(missing[0])}; add it")
    return replace(records, coordinates=_places(table, layout)[[rows[name] for name in records.names]])


def _places(table: Table, layout: Layout) -> Array:
    """The coordinates of each row in the units of the layout."""
    units = units_of(layout.axes, layout.coordinate_units)
    return np.stack([table.numbers_in(name, unit) for name, unit in zip(layout.places, units, strict=True)], axis=1)


def _deviations(table: Table, name: str, unit: str) -> Array:
    """Standard deviations in the unit of the values."""
    own, numbers, what = table.unit(name), table.numbers(name, "deviations"), f"{table.where}, column {name_shown(name)}"
    if not own:
        require_stated(name, unit, what, "write [{own}] or [{wanted}] behind it")
    return differences_in(unit, numbers, own, what)


def _has(table: Table, axes: Sequence[str]) -> bool:
    return bool(axes) and all(axis in table.columns for axis in axes)
