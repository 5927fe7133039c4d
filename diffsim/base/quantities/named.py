"""Units that only the name of an array has, as in "time_ms": read in another unit, its numbers would be wrong."""

from __future__ import annotations

import re

from diffsim.base.messages import name_shown
from diffsim.base.quantities.units import SAME, conversion
from diffsim.errors import DataError

WORDS = {
    **dict.fromkeys(("ms", "msec", "millis", "millisecond", "milliseconds"), "ms"),
    **dict.fromkeys(("us", "usec", "microsecond", "microseconds"), "us"),
    **dict.fromkeys(("ns", "nsec", "nanosecond", "nanoseconds"), "ns"),
    **dict.fromkeys(("min", "mins", "minute", "minutes"), "min"),
    **dict.fromkeys(("h", "hr", "hrs", "hour", "hours"), "h"),
    **dict.fromkeys(("d", "day", "days", "jd", "mjd"), "d"),
    **dict.fromkeys(("week", "weeks"), "week"),
    **dict.fromkeys(("month", "months"), "month"),
    **dict.fromkeys(("yr", "yrs", "year", "years"), "year"),
    **dict.fromkeys(("nm", "nanometres", "nanometers"), "nm"),
    **dict.fromkeys(("um", "microns", "micrometres", "micrometers"), "um"),
    **dict.fromkeys(("m", "metres", "meters"), "m"),
    **dict.fromkeys(("rad", "radians"), "rad"),
    **dict.fromkeys(("deg", "degrees"), "degree"),
    **dict.fromkeys(("mm", "millimetres", "millimeters"), "mm"),
    **dict.fromkeys(("cm", "centimetres", "centimeters"), "cm"),
    **dict.fromkeys(("km", "kilometres", "kilometers"), "km"),
    **dict.fromkeys(("ft", "feet"), "ft"),
    **dict.fromkeys(("hpa", "mbar"), "hPa"),
    **{
        "kpa": "kPa",
        "bar": "bar",
        "degc": "degC",
        "celsius": "degC",
        "degf": "degF",
        "°c": "degC",
        "°f": "degF",
        "℃": "degC",
        "℉": "degF",
        "percent": "%",
        "kmh": "km/h",
        "knots": "knot",
    },
}
"""Last words of names, in small letters -> the unit that they mean."""
GIVE = 'give unit = "{own}", or "{wanted}" if the numbers are in that'
_DEGREES = re.compile(r"(?<![A-Za-z])deg(?:rees?)?[\s_.]+([CF])$", re.IGNORECASE)
"""A unit of temperature in two words, as in "water deg C"."""
_BETWEEN = re.compile(r"[\s_/,:;.\-]+")
_LABELLED = re.compile(r".*[_/][A-Za-z]+|.*[°℃℉][CF]?")
"""The name of a place with a unit at its end, as G1_cm or plate °C. The end of Station KM is a word."""
_HUMP = re.compile(r"(?<=[a-z])(?=[A-Z])")
"""Where a word begins without a sign before it, as in timeMin."""
SYMBOLS = frozenset({"bar", "d", "h", "m", "min"})
"""Units that are more often indices of a symbol, as in p_bar, tau_d and dt_min. They count behind a whole word, as in time_min, behind a
symbol of time or place, as in t_min, and behind a stroke, as in t/min."""
WORD = 4
"""Letters from which on a name is a whole word."""
_TIMES = frozenset({"t", "time", "times"})
_SECONDS = frozenset({"s", "sec", "secs", "second", "seconds", "utc", "gmt"})
_DATES = frozenset({"date", "dates", "datetime", "datetimes", "timestamp", "timestamps"})
_ZONED = re.compile(r"(.+?)\s*[(\[](?:UTC|GMT)[)\]]", re.IGNORECASE)
"""A name with the zone of its dates behind it, as Time (UTC)."""
_PLACES = frozenset("txyzXYZ")
"""Symbols of times and places. An index behind one is no unit of time or length but for these: t_bar and x_min convert to neither."""


def require_stated(name: str, wanted: str, what: str, remedy: str = GIVE, of_place: bool = False) -> None:
    """Refuse numbers without a unit whose name ends in one, other than that for which they would be taken.

    Args:
        name: of the numbers, such as "time_ms" or "minutes".
        wanted: the unit for which they would be taken; "": none.
        what: the numbers, for the message.
        remedy: how the user states a unit, with {own} for that of the name, and {wanted}.
        of_place: whether it is the name of a place, which has a unit behind "_" or "/" alone.

    Raises:
        DataError: the unit at the end converts to the wanted one, and is not the same.

    Example:
        from diffsim.base.quantities.named import require_stated

        require_stated("time_s", "s", "gauges.npz, time_s")
        require_stated("height", "m", "gauges.npz, height")
    """
    spelt = _DEGREES.sub(r"deg\1", name.strip())
    before, between, word = _parted(spelt)
    is_place = before[-1:].isdigit() and "_" not in name and WORDS.get(word) not in ("degC", "degF")  # "12 km" is the name of a place
    if not wanted or is_place or (of_place and spelt == name.strip() and not _LABELLED.fullmatch(spelt)):
        return
    if word in SYMBOLS and between != "/" and len(before) < WORD and before not in _PLACES:
        return
    own = WORDS.get(word, "")
    try:
        same = not own or conversion(own, wanted) == SAME
    except DataError:  # a word that means something else here
        return
    if not same:
        raise DataError(
            f"{what}: expected the unit of {name_shown(name)}, whose name ends like {own}, found none; "
            f"{remedy.format(own=own, wanted=wanted)}"
        )


def is_times(name: str) -> bool:
    """True if a name means times by its last word: "minutes", "time_ms", "t_min", "seconds", "date" and the like.

    So do a date and a time together, "Date Time", and either with its zone in brackets, "Time (UTC)". An index behind another symbol, as in
    dt_min and tau_d, means no times.
    """
    zoned = _ZONED.fullmatch(name.strip())
    if zoned is not None:
        return zoned[1].lower() in _TIMES or is_times(zoned[1])
    before, _, word = _parted(name.strip())
    if before:
        whole = name.strip().lower().startswith(before.lower())  # "release date time" may be another quantity
        is_date = whole and before.lower() in _TIMES | _DATES and word in _TIMES | _DATES | _SECONDS
        return is_date or (before.lower() in _TIMES and (word in _SECONDS or _is_of_time(word)))
    return word in _SECONDS | _DATES or (len(word) > 1 and _is_of_time(word))


def unit_of_times(name: str) -> str:
    """The unit that the name of times ends in, such as ms for "time_ms", else s."""
    word = _parted(name.strip())[2]
    return WORDS[word] if _is_of_time(word) else "s"


def _is_of_time(word: str) -> bool:
    try:
        return word in WORDS and conversion(WORDS[word], "s") is not None
    except DataError:
        return False


def _parted(name: str) -> tuple[str, str, str]:
    """The word before the last one, the signs between them, and the last one in small letters."""
    signs = list(_BETWEEN.finditer(name))
    begin, end = signs[-1].span() if signs else (0, 0)
    last = name[end:]
    if last.lower() in WORDS:
        return _BETWEEN.split(name[:begin])[-1], name[begin:end], last.lower()
    for hump in _HUMP.finditer(last):
        if (word := last[hump.start() :].lower()) in WORDS:
            return last[: hump.start()], "", word
    return _BETWEEN.split(name[:begin])[-1], name[begin:end], last.lower()
