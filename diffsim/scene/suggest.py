"""What somebody who wrote an unknown name may have meant."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

LONGEST = 100
"""Characters of a name that may have been meant for another."""


def nearest(name: str, known: Iterable[str]) -> str:
    """A remedy for an unknown name: the known one that is close to it, if there is one."""
    if len(name) > LONGEST:
        return "choose one of these"
    lower = {other.lower(): other for other in known}
    found = difflib.get_close_matches(name.lower(), list(lower), n=1)
    return f"did you mean {lower[found[0]]}?" if found else "choose one of these"
