"""Time zones that only the name of dates has, as in "Time (JST)": read in UTC, they would be hours off."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from diffsim.base.messages import name_shown
from diffsim.errors import DataError

UNIVERSAL = frozenset({"utc", "gmt", "ut", "z", "utc0", "gmt0"})
LOCAL = frozenset({"local", "localtime", "lt", "lst", "ldt", "lst/ldt", "lst_ldt", "lst-ldt"})
"""Words for the time of a place."""
_ZONES = """
jst kst hkt sgt ist msk wib pht pkt nst ndt ast adt est edt cst cdt mst mdt pst pdt akst akdt hst chst brt clt clst cet
cest eet eest bst wet mez mesz sast aest aedt acst acdt awst nzst nzdt
"""
ZONES = frozenset(_ZONES.split())
"""Abbreviations of zones, in small letters. Some have two meanings: CST is a zone of America, of China and of Cuba."""
OFFSET = r"[+-]\d{1,2}(?::?\d{2})?"
"""A distance from UTC, as +09:00, -0330 or +9."""
_BRACKETS = re.compile(r"[(\[]([^()\[\]]+)[)\]]")
_FROM_UTC = re.compile(rf"(?<![A-Za-z/])(?:utc|gmt)\s*({OFFSET}(?:\.\d+)?)(?![\d:])", re.IGNORECASE)
_ALONE = re.compile(OFFSET)
_REGION = re.compile(r"[A-Z][A-Za-z]+/[A-Z][A-Za-z_/]+(?:[+-]\d+)?")
"""A zone as Asia/Tokyo, or as Etc/GMT+5, which is 5 h behind UTC."""
_ABBREVIATION = re.compile(r"[A-Z]{2,4}T|[A-Z]{3,4}\d[A-Z]{3,4}|[A-Z]{3,4}[+-]\d+")
"""A zone as ART, EST5EDT or MSK+3."""
_WORDS = re.compile(r"[\s_,:;.\-]+|(?<=[a-z])(?=[A-Z])")
_IN_BRACKETS = re.compile(r"[\s_,;]+")


def ahead_by_name(name: str, what: str) -> np.timedelta64 | None:
    """By how much dates are ahead of UTC by their name, as in "Time (UTC+9)"; None: it has no zone.

    Args:
        name: of the dates.
        what: the dates, for the message.

    Raises:
        DataError: the name has a zone without its distance from UTC, as "Time (JST)", "local_time" and "Date (LST/LDT)" have.

    Example:
        from diffsim.records.conventions.zones import ahead_by_name

        assert ahead_by_name("Time (UTC-03:30)", "gauge.csv") == -210
        assert ahead_by_name("time", "gauge.csv") is None
    """
    last = name.rpartition("/")[2] if "(" not in name and "[" not in name else name
    last = last.replace("\N{MINUS SIGN}", "-").replace("_", " ")
    stated = _FROM_UTC.search(last)
    if stated is not None:
        return minutes_ahead(stated[1])
    universal = False
    for text in _BRACKETS.findall(last):
        if _ALONE.fullmatch(text.strip()):
            return minutes_ahead(text.strip())
        words = [word for word in _IN_BRACKETS.split(text) if word]
        zone = next((word for word in words if _is_zone(word)), None)
        if zone is not None or (len(words) > 1 and words[-1].lower() == "time"):
            _ask(name, zone or text.strip(), what)
        universal = universal or any(word.lower() in UNIVERSAL for word in words)
    words = [word for word in _WORDS.split(_BRACKETS.sub("", last).strip()) if word]
    for word in {*words[:1], *words[-1:]}:
        if word.lower() in LOCAL | ZONES:
            _ask(name, word, what)
    return np.timedelta64(0, "m") if universal or (words and words[-1].lower() in UNIVERSAL) else None


def _is_zone(word: str) -> bool:
    """True for a zone without its distance from UTC, in brackets behind a name."""
    if word.lower() in UNIVERSAL:
        return False
    known = word.lower() in LOCAL | ZONES or word.lower().startswith("local")
    return known or bool(_REGION.fullmatch(word) or _ABBREVIATION.fullmatch(word))


def ahead_by_names(names: Sequence[str], what: str) -> np.timedelta64:
    """The same of dates that several columns have together; without a zone they are in UTC."""
    ahead = [own for own in (ahead_by_name(name, what) for name in names) if own is not None]
    return next((own for own in ahead if own), np.timedelta64(0, "m"))


def minutes_ahead(offset: str) -> np.timedelta64:
    """An offset from UTC, such as "+09:00", "-0330", "+9" or "+5.5"."""
    digits = offset[1:].replace(":", "")
    if "." in digits:
        minutes = round(60 * float(digits))
    else:
        digits = digits.rjust(2, "0").ljust(4, "0")
        minutes = 60 * int(digits[:2]) + int(digits[2:])
    return np.timedelta64(-minutes if offset[0] == "-" else minutes, "m")


def _ask(name: str, zone: str, what: str) -> None:
    raise DataError(
        f"{what}: expected dates in UTC or with their distance from it, found the zone {name_shown(zone)} in the name {name_shown(name)}; "
        "write the distance in the name, such as (UTC+9), or behind each date, such as +09:00, or rename it if the dates are in UTC"
    )
