"""What somebody who wrote an unknown name may have meant."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def nearest(name: str, known: Iterable[str]) -> str:
    """A remedy for an unknown name: "write depth" if that is close, else "choose one of these"."""
    found = difflib.get_close_matches(name, list(known), n=1)
    return f"did you mean {found[0]}?" if found else "choose one of these"
