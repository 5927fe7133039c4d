"""Lines above the rows of a table: names behind a "#", and the units of the columns in a line of their own."""

from __future__ import annotations

import re
from collections.abc import Sequence

from diffsim.base.quantities.units import is_unit
from diffsim.records.conventions.clock import SINCE, begins_with_date
from diffsim.records.conventions.zones import UNIVERSAL
from diffsim.records.formats.date_columns import is_clock

GAPS = frozenset({"", "nan", "na", "n/a", "null", "none", "-"})
"""Texts for a missing value, in small letters."""
BUOYS = "MM"
"""A missing value of NOAA's buoys. In small letters it is millimetres."""
_MARK = re.compile(r"\s*#+\s*")
_CELLS = re.compile(r"[,;\s]+")
_OF_CLOCKS = re.compile(r"[AP]\.?M\.?|Z|UTC|GMT", re.IGNORECASE)


def is_gap(text: str) -> bool:
    """True if a text stands for a missing value."""
    return text.lower() in GAPS or text == BUOYS


def is_number(text: str) -> bool:
    """True if a text is a number, perhaps with a decimal comma."""
    try:
        float(text.replace(",", "."))
    except ValueError:
        return False
    return True


def is_row(line: str) -> bool:
    """True if a line has numbers, dates and clocks alone, and so no names of columns."""
    cells = [cell for cell in _CELLS.split(line.strip()) if cell]
    known = [is_number(cell) or begins_with_date(cell) or is_clock(cell) for cell in cells]
    return any(known) and all(one or cell == BUOYS or _OF_CLOCKS.fullmatch(cell) for one, cell in zip(known, cells, strict=True))


def commented_head(before: Sequence[str], first: str) -> list[str]:
    """The lines of names, and perhaps of units, that stand behind a "#" right above the first row of numbers, without this sign.

    Args:
        before: the lines of the file above that row.
        first: that row.

    Returns:
        The first and, if there is one, the second of the lines with as many cells as the row; none, where there are no such lines or more.
    """
    split = max(",;\t", key=first.count)
    split = split if split in first else None  # type: ignore[assignment]
    count = len(first.split(split))
    head: list[str] = []
    for line in reversed(before):
        if not line.lstrip().startswith("#"):
            break
        words = _MARK.sub("", line, count=1)
        if len(words.split(split)) != count or any(map(is_number, words.split(split))):
            break
        head.insert(0, words)
    return head if len(head) <= 2 else []


def units_below(rows: Sequence[Sequence[str]]) -> list[str] | None:
    """The units of the columns, which are the first row below the names, as in tables of ERDDAP; None: that row has none.

    It has texts alone, of which one is a unit above numbers, or the zone or unit of times above dates or numbers.

    Args:
        rows: those below the names, each with its cells.

    Returns:
        For each column its unit; "": it has none.
    """
    first = [cell.strip() for cell in rows[0]]
    if len(rows) < 2 or any(len(row) != len(first) for row in rows[1:]) or any(is_number(cell) and cell != "1" for cell in first):
        return None
    if any(begins_with_date(cell) for cell in first):
        return None
    below = [[cell for row in rows[1:] if not is_gap(cell := row[k].strip())] for k in range(len(first))]
    dates = [bool(cells) and all(map(begins_with_date, cells)) for cells in below]
    numbers = [bool(cells) and all(map(is_number, cells)) for cells in below]
    stated = [
        (is_date and cell.lower() in UNIVERSAL) or (is_numbers and (is_unit(cell.partition(SINCE)[0]) and cell != "1"))
        for cell, is_date, is_numbers in zip(first, dates, numbers, strict=True)
    ]
    if not any(stated):
        return None
    return [
        "" if cell.lower() in GAPS or not (is_numbers or is_date) or (is_date and cell.lower() in UNIVERSAL) else cell
        for cell, is_date, is_numbers in zip(first, dates, numbers, strict=True)
    ]


def by_blanks(lines: Sequence[str]) -> bool:
    """True if the columns of a table are parted by blanks: the first line has several words, and no other sign between them, and the
    second has as many."""
    words = lines[0].split()
    return len(words) > 1 and not any(sign in lines[0] for sign in ",;\t") and len(lines[1].split()) == len(words)
