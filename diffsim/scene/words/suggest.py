"""Suggest a known name for an unknown one."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from types import MappingProxyType

LONGEST = 100
"""Longest name that gets a suggestion, in characters."""


def nearest(name: str, known: Iterable[str], further: Mapping[str, str] = MappingProxyType({})) -> str:
    """A remedy for an unknown name: a similar known name, if there is one.

    Args:
        name: the unknown name.
        known: the names that are allowed there.
        further: names that are allowed elsewhere -> their full form with dots.
    """
    if len(name) > LONGEST:
        return "choose one of these"
    lower = {other.lower(): way for other, way in further.items()} | {other.lower(): other for other in known}
    close = difflib.get_close_matches(name.lower(), list(lower), n=1)
    return f"did you mean {lower[close[0]]}?" if close else "choose one of these"
