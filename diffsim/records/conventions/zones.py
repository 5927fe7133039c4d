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
_BRACKETS = re.compile(r"[(\[]([^()\[\]]+)[)\]]")
_OFFSET = re.compile(r"(?:utc|gmt)?\s*([+-]\d{1,2}(?::?\d{2})?)", re.IGNORECASE)
_REGION = re.compile(r"[A-Z][A-Za-z]+/[A-Z][A-Za-z_/]+")
"""A zone as Asia/Tokyo."""
_WORDS = re.compile(r"[\s_,:;.\-]+|(?<=[a-z])(?=[A-Z])")


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
    for text in _BRACKETS.findall(last):
        word = text.strip()
        offset = _OFFSET.fullmatch(word)
        if offset is not None:
            return minutes_ahead(offset[1])
        if word.lower() in UNIVERSAL:
            return np.timedelta64(0, "m")
        if word.lower() in LOCAL | ZONES or _REGION.fullmatch(word) or word.lower().startswith("local"):
            _ask(name, word, what)
    words = [word for word in _WORDS.split(_BRACKETS.sub("", last).strip()) if word]
    for word in {*words[:1], *words[-1:]}:
        if word.lower() in LOCAL | ZONES:
            _ask(name, word, what)
    return np.timedelta64(0, "m") if words and words[-1].lower() in UNIVERSAL else None


def ahead_by_names(names: Sequence[str], what: str) -> np.timedelta64:
    """The same of dates that several columns have together; without a zone they are in UTC."""
    ahead = [own for own in (ahead_by_name(name, what) for name in names) if own is not None]
    return next((own for own in ahead if own), np.timedelta64(0, "m"))


def minutes_ahead(offset: str) -> np.timedelta64:
    """An offset from UTC, such as "+09:00", "-0330" or "+9"."""
    digits = offset[1:].replace(":", "").rjust(2, "0").ljust(4, "0")
    minutes = 60 * int(digits[:2]) + int(digits[2:])
    return np.timedelta64(-minutes if offset[0] == "-" else minutes, "m")


def _ask(name: str, zone: str, what: str) -> None:
    raise DataError(
        f"{what}: expected dates in UTC or with their distance from it, found the zone {name_shown(zone)} in the name {name_shown(name)}; "
        "write the distance in the name, such as (UTC+9), or behind each date, such as +09:00, or rename it if the dates are in UTC"
    )
