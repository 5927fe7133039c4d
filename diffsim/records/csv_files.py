"""Records in CSV files, in two forms.

Wide: a column of times, and one for each receiver, which has its name. Long: a row for each sample, with the columns time, receiver and
value, perhaps a shot, a standard deviation, a weight and the receiver's coordinates; receivers have times of their own.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from diffsim.arguments import plural
from diffsim.errors import DataError
from diffsim.messages import cut, name_shown, path_shown, printable, shown
from diffsim.records.records import Layout, Records, on_one_clock, require_rising
from diffsim.records.variables import NAMES
from diffsim.typing import Array, IntArray
from diffsim.units import factor

GAPS = frozenset({"", "nan", "na", "n/a", "null", "none", "-"})
"""Texts for a missing value, in small letters."""
TIMES = ("times", "time", "t")
SHOT = "shot"


@dataclass(frozen=True, eq=False)
class Table:
    """A CSV file.

    Attributes:
        columns: name of each column -> its texts.
        lines: number of the line of each row.
        where: the file, for messages.
    """

    columns: Mapping[str, list[str]]
    lines: list[int]
    where: str

    @classmethod
    def read(cls, path: Path) -> Table:
        """Read a file whose first line names the columns. Lines that are empty or begin with "#" are left out.

        Raises:
            DataError: it cannot be read, or a row is longer or shorter than the first.
        """
        where = path_shown(path)
        try:
            with path.open(encoding="utf-8-sig", newline="") as file:
                rows = [(k, line) for k, line in enumerate(file.read().splitlines(), 1) if line.strip() and not line.startswith("#")]
        except (OSError, UnicodeDecodeError) as error:
            what = cut(printable(str(error)), 200)
            raise DataError(f"expected a CSV file, found {where}, unreadable ({what}); save it as UTF-8 text") from None
        if len(rows) < 2:
            raise DataError(f"{where}: expected a line of names and at least one row, found {len(rows)} lines; add them")
        split = max(",;\t", key=rows[0][1].count)
        cells: list[list[str]] = []
        reader = csv.reader((line for _, line in rows), delimiter=split, strict=True)
        try:
            for row in reader:
                number = rows[len(cells)][0]
                cells.append(row)
                if reader.line_num != len(cells):
                    raise DataError(f"{where}, line {number}: expected a row in one line, found a cell that goes on in the next; join them")
        except csv.Error as error:
            raise DataError(f"{where}: expected rows of a CSV file, found a mistake ({error}); correct the quotes") from None
        names = [name.strip() for name in cells[0]]
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            raise DataError(f"{where}: expected a name of its own for each column, found {shown(twice)} twice; rename one")
        lines = [number for number, _ in rows[1:]]
        for number, row in zip(lines, cells[1:], strict=True):
            if len(row) != len(names):
                raise DataError(f"{where}, line {number}: expected {len(names)} cells, as the first line has, found {len(row)}; correct it")
        return cls({name: [row[k].strip() for row in cells[1:]] for k, name in enumerate(names)}, lines, where)

    def text(self, name: str) -> list[str]:
        """The texts of a column.

        Raises:
            DataError: there is none of that name. The message lists those that exist.
        """
        if name not in self.columns:
            known = [name_shown(other) for other in list(self.columns)[:NAMES]] + ["..."] * (len(self.columns) > NAMES)
            raise DataError(f"{self.where}: expected one of the columns {', '.join(known)}, found no {name_shown(name)}; name one of them")
        return self.columns[name]

    def numbers(self, name: str, gaps: bool = False) -> Array:
        """The numbers of a column.

        Raises:
            DataError: a cell is no number. The message has its line.
        """
        return np.array([self._number(text, line, name, gaps) for text, line in zip(self.text(name), self.lines, strict=True)])

    def _number(self, text: str, line: int, name: str, gaps: bool) -> float:
        if gaps and text.lower() in GAPS:
            return np.nan
        try:
            return float(text)
        except ValueError:
            remedy = "correct it (a gap is an empty cell)" if gaps else "correct it"
            raise DataError(
                f"{self.where}, line {line}, column {name_shown(name)}: expected a number, found {shown(text)}; {remedy}"
            ) from None


def read_csv(path: Path, layout: Layout) -> tuple[Records, ...]:
    """The records of each shot of a CSV file."""
    table = Table.read(path)
    receiver = layout.receiver or "receiver"
    clock = layout.times or next((name for name in TIMES if name in table.columns), TIMES[0])
    try:
        seconds = factor(layout.time_unit or "s", "s")
    except DataError as error:
        raise DataError(f"{table.where}, {name_shown(clock)}: {error}") from None
    times = table.numbers(clock) * seconds
    if layout.receiver is not None or receiver in table.columns:
        return _long(table, times, receiver, layout)
    return (_with_stations(_wide(table, times, clock, layout), layout),)


def _wide(table: Table, times: Array, clock: str, layout: Layout) -> Records:
    names = tuple(name for name in table.columns if name != clock)
    for what, name in (("deviations", layout.deviations), ("weights", layout.weights)):
        if name is not None:
            raise DataError(
                f"{table.where}: expected a column for each receiver, found that {what} = {name_shown(name)} is asked for; write a row for "
                "each sample, with the columns time, receiver and value"
            )
    if not names:
        raise DataError(f"{table.where}: expected a column for each receiver beside {name_shown(clock)}, found none; add them")
    values = np.stack([table.numbers(name, gaps=True) for name in names], axis=1)
    order = _in_order(times, table.lines, table.where)
    return Records(values[order], times[order], names, None, layout.unit or "", where=table.where)


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
            "delete one of each pair"
        )
    require_rising(times[order], where)
    return order


def _long(table: Table, times: Array, receiver: str, layout: Layout) -> tuple[Records, ...]:
    values = table.numbers(layout.values or "value", gaps=True)
    further = {
        what: None if name is None else table.numbers(name) for what, name in (("deviation", layout.deviations), ("weight", layout.weights))
    }
    owners, shots = table.text(receiver), table.columns.get(SHOT, [""] * len(times))
    places = np.stack([table.numbers(axis) for axis in layout.axes], axis=1) if _has(table, layout.axes) else None
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
        clock, found = on_one_clock(traces)
        parts = iter(range(1, stacked.shape[1]))
        spread = {what: None if v is None else np.nan_to_num(found[..., next(parts)]) for what, v in further.items()}
        coordinates = None if places is None else _fixed(places, owner, every, table.where)
        made = Records(found[..., 0], clock, tuple(every), coordinates, layout.unit or "", spread["deviation"], spread["weight"], here)
        out.append(_with_stations(made, layout))
    return tuple(out)


def _fixed(places: Array, owner: np.ndarray, names: Sequence[str], where: str) -> Array:
    """The place of each receiver, which must not change from row to row."""
    first = np.stack([places[owner == number][0] for number in range(len(names))])
    moved = np.flatnonzero(np.any(places != first[owner], axis=1))
    if len(moved):
        raise DataError(f"{where}, trace {name_shown(names[owner[moved[0]]])}: expected one place in all rows, found two; correct them")
    return first


def _with_stations(records: Records, layout: Layout) -> Records:
    """Records with the coordinates of a file of stations."""
    if layout.stations is None:
        return records
    table = Table.read(layout.stations)
    names = table.text(layout.receiver or "receiver")
    rows = {name: number for number, name in enumerate(names)}
    missing = [name for name in records.names if name not in rows]
    if missing:
        raise DataError(f"{table.where}: expected a row for each receiver, found none for {name_shown(missing[0])}; add it")
    places = np.stack([table.numbers(axis) for axis in layout.axes], axis=1)[[rows[name] for name in records.names]]
    return Records(records.values, records.times, records.names, places, records.unit, records.deviation, records.weight, records.where)


def _has(table: Table, axes: Sequence[str]) -> bool:
    return bool(axes) and all(axis in table.columns for axis in axes)
