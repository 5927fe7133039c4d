"""Columns of dates of a table: days and clocks in columns of their own, and which column has the times."""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping, Sequence

from diffsim.base.messages import name_shown
from diffsim.base.quantities.named import is_times
from diffsim.errors import DataError
from diffsim.records.conventions.clock import WORDS, begins_with_date
from diffsim.records.conventions.zones import OFFSET

_CLOCK = re.compile(rf"\d{{1,2}}:\d{{2}}(?::\d{{2}}(?:[.,]\d+)?)?(?:\s*[AP]\.?M\.?)?\s*(?:Z|UTC|GMT|{OFFSET})?", re.IGNORECASE)
_DAY = re.compile(r"\d{4}[-/]\d{1,2}[-/]\d{1,2}|\d{1,2}[./-]\d{1,2}[./-](?:\d{4}|\d{2})|\d{4}-\d{3}")
_BRACKETS = re.compile(r"\s*([(\[][^()\[\]]*[)\]])\s*$")
_SECOND = re.compile(r"\d{1,2}(?:\.\d+)?")
_DIGITS = re.compile(r"((?:19|20)\d{2})(0[1-9]|1[0-2])(0[1-9]|[12]\d|3[01])")
"""A day in digits alone, as 20110311."""
_LETTERS_ALONE = re.compile(r"[A-Za-z]+")
HOURS = frozenset({"hour", "hours", "hr", "hrs", "hh", "hhmm", "hhmmss"})
"""First words of names of hours and clocks, in small letters."""
ORDINAL = "doy"
PARTS = ("year", "month", "day", "hour", "minute", "second")
"""Names of the parts of a date, in small letters. Those from "hour" on may be left out."""
ORDINALS = frozenset({"doy", "yday", "day_of_year", "dayofyear", "yearday", "year_day"})
"""Names of the number of a day in its year, from 1, in small letters. It stands for a month and a day."""
LETTERS = (("YYYY", "YY"), ("MM",), ("DD",), ("hh", "HH"), ("mm",), ("ss", "SS"))
"""Names of the parts of a date at the beginning of a table, as NOAA's buoys have them: MM are months, mm minutes."""


def is_clock(text: str) -> bool:
    """True for the time of a day, such as 05:46:23."""
    return _CLOCK.fullmatch(text) is not None


def _part_columns(columns: Mapping[str, list[str]]) -> list[str]:
    """The columns of the parts of a date, from the year on; none: there are not all that a date needs, or hours of another form."""
    fitting = itertools.takewhile(lambda pair: pair[0] in pair[1], zip(columns, LETTERS, strict=False))
    own = [name for name, _ in fitting]
    if len(own) < 3:
        bare = {_BRACKETS.sub("", name).lower(): name for name in columns}
        parts = {name: bare[name] for name in PARTS if name in bare}
        ordinals = [name for name in bare if name in ORDINALS]
        wanted: tuple[str, ...] = PARTS
        if len(ordinals) == 1 and "month" not in parts and "day" not in parts:
            parts[ORDINAL], wanted = bare[ordinals[0]], (PARTS[0], ORDINAL, *PARTS[3:])
        there = [part for part in wanted if part in parts]
        own = [parts[part] for part in there] if len(there) >= len(wanted) - 3 and there == list(wanted[: len(there)]) else []
    others = (name for name in columns if name not in own)
    return [] if any(HOURS.intersection(_LETTERS_ALONE.findall(name.lower())[:1]) for name in others) else own


def _is_part(name: str, text: str) -> bool:
    """True if a text is a whole number, or the seconds of a date."""
    seconds = _BRACKETS.sub("", name).lower() in ("ss", PARTS[-1])
    return text.isdecimal() or (seconds and _SECOND.fullmatch(text) is not None)


def with_dates(columns: Mapping[str, list[str]]) -> dict[str, list[str]]:
    """Columns with one of dates, "date", in place of those of its parts: "year", "month", "day" and so on, of whole numbers.

    A day may be its number in the year, "doy", and the first columns may be called as letters: "YY", "MM", "DD", "hh" and "mm". What stands
    in brackets behind a name, such as a zone, stands behind "date" too.
    """
    own = _part_columns(columns)
    behind = next((text[1] for name in own if (text := _BRACKETS.search(name))), "")
    date = f"date {behind}".strip()
    if date in columns or not own or not all(_is_part(name, text) for name in own for text in columns[name]):
        return dict(columns)
    days = 2 if _BRACKETS.sub("", own[1]).lower() in ORDINALS else 3
    dates = []
    for row in zip(*(columns[name] for name in own), strict=True):
        day = "-".join(row[:3]) if days == 3 else f"{row[0]}-{row[1].zfill(3)}"
        dates.append(f"{day} {':'.join([*row[days:], '00', '00'][:3])}" if len(row) > days else day)
    return {date: dates, **{name: texts for name, texts in columns.items() if name not in own}}


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

    The letter t may be another quantity: beside one column of dates, these are the times. A capital T is the last to be taken, if its
    numbers rise.

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
        [name for name in columns if name.lower() in WORDS[:2]],
        [name for name in columns if is_times(name) and name.lower() != WORDS[2]],
        dates if len(dates) == 1 else [],
        [name for name, texts in columns.items() if name == WORDS[2] or (name == WORDS[2].upper() and _rise(texts))],
        dates,
    ):
        if len(names) > 1:
            raise DataError(f"{where}: expected one column of times, found {' and '.join(map(name_shown, names))}; name one by times")
        if names:
            return names[0]
    return WORDS[0]


def _rise(texts: Sequence[str]) -> bool:
    """True if texts are numbers that rise, as temperatures seldom do."""
    try:
        numbers = [float(text.replace(",", ".")) for text in texts]
    except ValueError:
        return False
    return all(before < after for before, after in itertools.pairwise(numbers))
