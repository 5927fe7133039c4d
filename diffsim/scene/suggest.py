"""What somebody who wrote an unknown name may have meant."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from types import MappingProxyType

LONGEST = 100
"""Characters of a name that may have been meant for another."""


def nearest(name: str, known: Iterable[str], further: Mapping[str, str] = MappingProxyType({})) -> str:
    """A remedy for an unknown name: the known one that is close to it, if there is one.

    Args:
        name: what was written.
        known: what may be written there.
        further: names that may be written elsewhere, and how: with dots.
    """
    if len(name) > LONGEST:
        return "choose one of these"
    lower = {other.lower(): way for other, way in further.items()} | {other.lower(): other for other in known}
    found = difflib.get_close_matches(name.lower(), list(lower), n=1)
    return f"did you mean {lower[found[0]]}?" if found else "choose one of these"
