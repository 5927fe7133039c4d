"""Columns of dates of a table: days and clocks in columns of their own, and which column has the times."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from diffsim.base.messages import name_shown
from diffsim.base.quantities.named import is_times
from diffsim.errors import DataError
from diffsim.records.conventions.clock import WORDS, begins_with_date

_CLOCK = re.compile(r"\d{1,2}:\d{2}(?::\d{2}(?:[.,]\d+)?)?\s*(?:Z|UTC|GMT|[+-]\d{1,2}(?::?\d{2})?)?", re.IGNORECASE)
_DAY = re.compile(r"\d{4}[-/]\d{1,2}[-/]\d{1,2}|\d{1,2}[./-]\d{1,2}[./-](?:\d{4}|\d{2})")
_DIGITS = re.compile(r"((?:19|20)\d{2})(0[1-9]|1[0-2])(0[1-9]|[12]\d|3[01])")
"""A day in digits alone, as 20110311."""


def is_clock(text: str) -> bool:
    """True for the time of a day, such as 05:46:23."""
    return _CLOCK.fullmatch(text) is not None


PARTS = ("year", "month", "day", "hour", "minute", "second")
"""Names of the parts of a date, in small letters. Those from "hour" on may be left out."""


def with_dates(columns: Mapping[str, list[str]]) -> dict[str, list[str]]:
    """Columns with one of dates, "date", in place of those of its parts: "year", "month", "day" and so on, of whole numbers."""
    parts = {name.lower(): name for name in columns if name.lower() in PARTS}
    own = [parts[part] for part in PARTS if part in parts]
    fine = "date" not in columns and all(part in parts for part in PARTS[:3]) and [name.lower() for name in own] == list(PARTS[: len(own)])
    if not fine or not all(text.isdecimal() for name in own for text in columns[name]):
        return dict(columns)
    rows = zip(*(columns[name] for name in own), strict=True)
    dates = [f"{'-'.join(row[:3])} {':'.join([*row[3:], '00', '00', '00'][:3])}" for row in rows]
    return {"date": dates, **{name: texts for name, texts in columns.items() if name not in own}}


def joined(columns: Mapping[str, list[str]]) -> tuple[dict[str, list[str]], dict[str, str]]:
    """Columns with the days of one before the clocks of another, where there is one of each.

    Columns of the parts of a date become one before; see `with_dates`.

    Args:
        columns: name of each -> its texts.

    Returns:
        The columns, in which that of the clocks has whole dates and that of the days is left out; and the name of the days -> that of the
        clocks, or nothing.
    """
    columns = with_dates(columns)
    clocks = [name for name, texts in columns.items() if all(map(is_clock, texts))]
    days = [name for name, texts in columns.items() if all(map(_DAY.fullmatch, texts))]
    if not days and clocks:
        days = [
            name for name, texts in columns.items() if all(map(_DIGITS.fullmatch, texts)) and ("date" in name.lower() or is_times(name))
        ]
    if len(clocks) != 1 or len(days) != 1:
        return dict(columns), {}
    clock, day = clocks[0], days[0]
    dates = [f"{_day(own)} {time}" for own, time in zip(columns[day], columns[clock], strict=True)]
    return {name: dates if name == clock else texts for name, texts in columns.items() if name != day}, {day: clock}


def _day(text: str) -> str:
    return _DIGITS.sub(r"\1-\2-\3", text)


def times_of(columns: Mapping[str, list[str]], where: str) -> str:
    """The column of times: that of the name "times", "time" or "t", else the only one whose name means times, else the only one of dates.

    Args:
        columns: name of each -> its texts.
        where: the file, for the message.

    Raises:
        DataError: there is none, or several may be meant.
    """
    usual = next((name for name in WORDS if name in columns), None)
    if usual is not None:
        return usual
    for names in (
        [name for name in columns if name.lower() in WORDS],
        [name for name in columns if is_times(name)],
        [name for name, texts in columns.items() if begins_with_date(texts[0])],
    ):
        if len(names) > 1:
            raise DataError(f"{where}: expected one column of times, found {' and '.join(map(name_shown, names))}; name one by times")
        if names:
            return names[0]
    return WORDS[0]


def by_blanks(lines: Sequence[str]) -> bool:
    """True if the columns of a table are parted by blanks: the first line has several words, and no other sign between them, and the
    second has as many."""
    words = lines[0].split()
    return len(words) > 1 and not any(sign in lines[0] for sign in ",;\t") and len(lines[1].split()) == len(words)
