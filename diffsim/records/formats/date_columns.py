"""Columns of dates of a table: days and clocks in columns of their own, and which column has the times."""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping, Sequence

from diffsim.base.messages import name_shown
from diffsim.base.quantities.named import is_times
from diffsim.errors import DataError
from diffsim.records.conventions.clock import WORDS, begins_with_date

_CLOCK = re.compile(r"\d{1,2}:\d{2}(?::\d{2}(?:[.,]\d+)?)?(?:\s*[AP]\.?M\.?)?\s*(?:Z|UTC|GMT|[+-]\d{1,2}(?::?\d{2})?)?", re.IGNORECASE)
_DAY = re.compile(r"\d{4}[-/]\d{1,2}[-/]\d{1,2}|\d{1,2}[./-]\d{1,2}[./-](?:\d{4}|\d{2})")
_DIGITS = re.compile(r"((?:19|20)\d{2})(0[1-9]|1[0-2])(0[1-9]|[12]\d|3[01])")
"""A day in digits alone, as 20110311."""


def is_clock(text: str) -> bool:
    """True for the time of a day, such as 05:46:23."""
    return _CLOCK.fullmatch(text) is not None


ORDINAL = "doy"
PARTS = ("year", "month", "day", "hour", "minute", "second")
"""Names of the parts of a date, in small letters. Those from "hour" on may be left out."""
ORDINALS = frozenset({"doy", "yday", "day_of_year", "dayofyear", "yearday", "year_day"})
"""Names of the number of a day in its year, from 1, in small letters. It stands for a month and a day."""
LETTERS = (("YYYY", "YY"), ("MM",), ("DD",), ("hh", "HH"), ("mm",), ("ss", "SS"))
"""Names of the parts of a date at the beginning of a table, as NOAA's buoys have them: MM are months, mm minutes."""


def _part_columns(columns: Mapping[str, list[str]]) -> list[str]:
    """The columns of the parts of a date, from the year on; none: there are not all that a date needs."""
    fitting = itertools.takewhile(lambda pair: pair[0] in pair[1], zip(columns, LETTERS, strict=False))
    own = [name for name, _ in fitting]
    if len(own) >= 3:
        return own
    parts = {name.lower(): name for name in columns if name.lower() in PARTS}
    ordinals = [name for name in columns if name.lower() in ORDINALS]
    wanted: tuple[str, ...] = PARTS
    if len(ordinals) == 1 and "month" not in parts and "day" not in parts:
        parts[ORDINAL], wanted = ordinals[0], (PARTS[0], ORDINAL, *PARTS[3:])
    own = [part for part in wanted if part in parts]
    least = len(wanted) - 3
    return [parts[part] for part in own] if len(own) >= least and own == list(wanted[: len(own)]) else []


def with_dates(columns: Mapping[str, list[str]]) -> dict[str, list[str]]:
    """Columns with one of dates, "date", in place of those of its parts: "year", "month", "day" and so on, of whole numbers.

    A day may be its number in the year, "doy", and the first columns may be called as letters: "YY", "MM", "DD", "hh" and "mm".
    """
    own = _part_columns(columns)
    if "date" in columns or not own or not all(text.isdecimal() for name in own for text in columns[name]):
        return dict(columns)
    days = 2 if own[1].lower() in ORDINALS else 3
    rows = zip(*(columns[name] for name in own), strict=True)
    dates = [
        f"{row[0]}-{'-'.join(row[1:days]) if days == 3 else row[1].zfill(3)} {':'.join([*row[days:], '00', '00', '00'][:3])}"
        for row in rows
    ]
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

    The letter t may be another quantity: beside one column of dates, these are the times.

    Args:
        columns: name of each -> its texts.
        where: the file, for the message.

    Raises:
        DataError: there is none, or several may be meant.
    """
    usual = next((name for name in WORDS if name in columns), None)
    dates = [name for name, texts in columns.items() if begins_with_date(texts[0])]
    if usual is not None and (usual != WORDS[2] or len(dates) != 1):
        return usual
    for names in (
        [name for name in columns if name.lower() in (WORDS[:2] if len(dates) == 1 else WORDS)],
        [name for name in columns if is_times(name)],
        dates,
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
