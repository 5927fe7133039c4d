"""Times of samples: in seconds, with the date of time 0 where a file has dates."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from diffsim.base.messages import shown
from diffsim.base.quantities.named import GIVE, require_stated
from diffsim.base.quantities.units import factor
from diffsim.errors import DataError
from diffsim.records.conventions.zones import LOCAL, OFFSET, ZONES, ahead_by_names, minutes_ahead
from diffsim.typing import Array

WORDS = ("times", "time", "t")
"""Names of times, in small letters, the likeliest first."""
SECOND = np.timedelta64(1, "s")
SINCE = " since "
"""Between the unit and the date of times in CF."""
CALENDARS = frozenset({"", "standard", "gregorian", "proleptic_gregorian"})
REFORM = np.datetime64("1582-10-15")
"""First day of the Gregorian calendar."""
_DATE = re.compile(
    r"(\d{4})[-/](\d{1,2})[-/](\d{1,2})(?:(?:T|\s+)(\d{1,2}):(\d{1,2})(?::(\d{1,2})(?:[.,](\d+))?)?(?:\s*([AP])\.?M\.?)?)?"
    rf"\s*(Z|UTC|GMT|{OFFSET})?",
    re.IGNORECASE,
)
_ORDINAL = re.compile(r"((?:1[5-9]|2[0-2])\d{2})-([0-2]\d{2}|3[0-6]\d)(?=T|\s|$)", re.IGNORECASE)
"""The beginning of an ordinal date of ISO 8601, as 2011-070T05:46: a year and the number of a day in it, from 1."""
_BASIC = re.compile(rf"(\d{{4}})(\d{{2}})(\d{{2}})T(\d{{2}})(\d{{2}})(?:(\d{{2}})(?:[.,](\d+))?)?()\s*(Z|UTC|GMT|{OFFSET})?", re.IGNORECASE)
"""The basic format of ISO 8601, as 20110311T054623Z."""
_DAY = re.compile(r"\d{4}[-/]\d{1,2}[-/]\d{1,2}(?!\d)")
"""The beginning of a date with its year first."""
_DIGITS = re.compile(r"(?:19|20)\d{2}(?:0[1-9]|1[0-2])(?:0[1-9]|[12]\d|3[01])(?:(?:[01]\d|2[0-3])[0-5]\d(?:[0-5]\d)?)?")
"""A date in digits alone, as 20110311 or 20110311054623."""
_LOCAL = re.compile(r"(\d{1,2})[./-](\d{1,2})[./-](\d{4}|\d{2})(?!\d)")
"""The beginning of a date with its day or month first."""


@dataclass(frozen=True, eq=False)
class Clock:
    """Times of samples.

    Attributes:
        times: s.
        epoch: the date of time 0, in UTC; None: the file has no dates.
    """

    times: Array
    epoch: np.datetime64 | None = None


def of_numbers(values: Array, unit: str, stated: str | None, what: str, calendar: str = "", name: str = "") -> Clock:
    """Times from numbers.

    Args:
        values: the numbers.
        unit: as the file says, perhaps with "since" and a date; "": it does not say, so they are in s.
        stated: the unit that the user states, which replaces that of the file; None: none.
        what: the times, for messages.
        calendar: of CF. In one without leap years, dates are not those of a clock.
        name: of the times in the file.

    Raises:
        DataError: the unit is no unit of time, or the date cannot be read; or there is no unit but in the name; or the numbers are dates
            in digits alone, such as 20110311.
    """
    if stated is None and not unit.strip():
        _require_no_dates(values, what)
        require_stated(name, "s", what, GIVE.replace("unit", "time_unit"))
    own, since, date = unit.partition(SINCE)
    seconds = factor((own if stated is None else stated).strip() or "s", "s", what, "time_unit")
    epoch = date_of(date, what) if since and calendar.lower() in CALENDARS else None
    if epoch is not None and name and not has_zone(date):
        epoch = epoch - ahead_by_names((name,), what)
    if epoch is not None and epoch < REFORM and calendar.lower() != "proleptic_gregorian":
        epoch = None  # in Julian days, which the dates of NumPy do not count
    return Clock(values * seconds, epoch)


def _require_no_dates(values: Array, what: str) -> None:
    """Refuse numbers whose digits are those of dates."""
    if len(np.atleast_1d(values)) < 2 or not np.isfinite(values).all() or (np.abs(values) > 1e15).any():
        return  # 20110311 alone may be a number of seconds
    texts = [f"{value:.15g}" for value in np.ravel(values).tolist()]
    if all(_DIGITS.fullmatch(text) for text in texts):
        text = texts[0].ljust(14, "0")
        date = f"{text[:4]}-{text[4:6]}-{text[6:8]}T{text[8:10]}:{text[10:12]}:{text[12:]}Z"
        raise DataError(
            f"{what}: expected times, or dates such as 2011-03-11T05:46:23Z, found {texts[0]}, which looks like the date {date}; write it "
            'so, or give time_unit = "s" if it is a number of seconds'
        )


def of_dates(dates: npt.NDArray[np.generic] | Sequence[str], what: str, names: Sequence[str] = ()) -> Clock:
    """Times from dates; time 0 is the first of them.

    Args:
        dates: texts such as "2011-03-11T05:46:23Z", or of NumPy's type datetime64. Those without a zone have that of their name, or are in
            UTC.
        what: the times, for messages.
        names: of the times, which may have a zone, as "Time (UTC+9)".

    Raises:
        DataError: a text is no date, or a name has a zone without its distance from UTC.
    """
    stamps = np.asarray(dates)
    if not stamps.size:
        raise DataError(f"{what}: expected dates, found none; add them")
    if stamps.dtype.kind != "M":
        texts = [_text(date) for date in stamps.ravel()]
        bare = np.array([not has_zone(text) for text in texts])
        ahead = ahead_by_names(names, what) if bare.any() else np.timedelta64(0, "m")
        every = np.array([date_of(text, what) for text in texts])
        stamps = np.where(bare, every - ahead, every).reshape(stamps.shape)
    else:
        stamps = stamps - ahead_by_names(names, what) if names else stamps
    if np.isnat(stamps).any():
        raise DataError(f"{what}: expected dates, found a gap (NaT) at entry {int(np.flatnonzero(np.isnat(stamps))[0])}; correct it")
    first = stamps.ravel()[0]
    return Clock((stamps - first) / SECOND, first.astype("datetime64[us]"))


def date_of(text: str, what: str) -> np.datetime64:
    """A date in UTC, to a microsecond.

    Raises:
        DataError: the text is no date, or has two meanings, as 03/04/2011. The message has both.
    """
    parts = _parts(text)
    if parts is not None:
        year, month, day, hour, minute, second, fraction, half, zone = parts.groups()
        hours = _hour(int(hour or 0), half)
        clock = f"{hours % 24:02}:{int(minute or 0):02}:{int(second or 0):02}.{(fraction or '0')[:6].ljust(6, '0')}"
        try:
            stamp = np.datetime64(f"{year}-{int(month):02}-{int(day):02}T{clock}", "us")
            midnight = stamp == stamp.astype("datetime64[D]")
            if hours < 24 or (hours == 24 and midnight):  # 24:00 is the end of a day, ISO 8601
                return stamp + np.timedelta64(hours // 24, "D") - _offset(zone)
        except ValueError:
            pass
    raise DataError(f"{what}: expected a date such as 2011-03-11T05:46:23Z, found {shown(text)}; {date_remedy(text) or _zone_remedy(text)}")


def _zone_remedy(text: str) -> str:
    """The remedy for a text that is no date."""
    zone = text.strip().rpartition(" ")[2]
    known = zone.lower() in ZONES or zone.lower() in LOCAL
    return f"write the distance of {zone} from UTC in its place, such as +09:00" if known else "write it so"


def seconds_of(differences: Any, what: str) -> Array:
    """Differences of times, of NumPy's type timedelta64, in seconds.

    Raises:
        DataError: they have no unit.
    """
    if np.datetime_data(differences.dtype)[0] == "generic":
        raise DataError(f"{what}: expected timedelta64 with a unit, found one without; save them as timedelta64[ms]")
    return np.asarray(differences / SECOND, np.float64)


def is_date(text: str) -> bool:
    """True if a text is a date."""
    return _parts(text) is not None


def begins_with_date(text: str) -> bool:
    """True if a text begins with a day, whatever follows: the clock and a zone, or what cannot be read."""
    return is_date(text) or bool(_DAY.match(text.strip()) or date_remedy(text))


def has_zone(text: str) -> bool:
    """True if a text is a date with its zone."""
    parts = _parts(text)
    return parts is not None and parts.groups()[-1] is not None


def _parts(text: str) -> re.Match[str] | None:
    text = _ORDINAL.sub(_calendar_day, text.strip(), count=1) if _ORDINAL.match(text.strip()) else text.strip()
    return _DATE.fullmatch(text) or _BASIC.fullmatch(text)


def _calendar_day(match: re.Match[str]) -> str:
    """The year, month and day of an ordinal date; the text as it is, which is no date, where the year has no such day."""
    first, number = np.datetime64(f"{match[1]}-01-01"), int(match[2])
    day = first + np.timedelta64(number - 1, "D")
    return str(day) if number > 0 and day.astype("datetime64[Y]") == first.astype("datetime64[Y]") else match[0]


def _hour(hour: int, half: str | None) -> int:
    """The hour of a clock of 24 hours; 25, which is none, where a clock of 12 hours has no such hour.

    Args:
        hour: as written.
        half: "A" or "P", of AM and PM; else the clock has 24 hours. 12 AM is midnight, 12 PM noon.
    """
    if not half:
        return hour
    return hour % 12 + 12 * (half.upper() == "P") if 1 <= hour <= 12 else 25


def date_remedy(text: str) -> str:
    """The ISO forms of a date that begins with its day or month, for a message; "": the text is no such date.

    11/03/2011 is the eleventh of March, or the third of November.
    """
    match = _LOCAL.match(text.strip())
    if match is None:
        return ""
    first, second, year = int(match[1]), int(match[2]), match[3]
    if len(year) == 2:
        return "write it with the year first and in full, as 2011-03-11"
    readings = [f"{year}-{month:02}-{day:02}" for day, month in ((first, second), (second, first)) if _is_day(year, month, day)]
    if not readings:
        return ""
    both = " or ".join(dict.fromkeys(readings))
    return f"it may mean {both}: write the one that is meant" if first != second and len(readings) > 1 else f"write it as {both}"


def _is_day(year: str, month: int, day: int) -> bool:
    try:
        np.datetime64(f"{year}-{month:02}-{day:02}")
    except ValueError:
        return False
    return True


def _offset(zone: str | None) -> np.timedelta64:
    """By how much a zone is ahead of UTC."""
    if zone is None or zone.upper() in ("Z", "UTC", "GMT"):
        return np.timedelta64(0, "m")
    return minutes_ahead(zone)


def _text(value: object) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
