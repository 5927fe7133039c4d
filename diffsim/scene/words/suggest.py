"""Refuse an unknown name, and suggest a known one for it."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, Literal, get_args, get_origin

from diffsim.base.messages import shown
from diffsim.errors import SceneError

LONGEST = 100
"""Longest name that gets a suggestion, in characters."""
NO_SUGGESTION = "choose one of these"
"""The remedy where no known name is similar."""


def nearest(name: str, known: Iterable[str], further: Mapping[str, str] = MappingProxyType({})) -> str:
    """A remedy for an unknown name: a similar known name, if there is one.

    Args:
        name: the unknown name.
        known: the names that are allowed there.
        further: names that are allowed elsewhere -> their full form with dots.
    """
    if len(name) > LONGEST:
        return NO_SUGGESTION
    lower = {other.lower(): way for other, way in further.items()} | {other.lower(): other for other in known}
    close = difflib.get_close_matches(name.lower(), list(lower), n=1)
    return f"did you mean {lower[close[0]]}?" if close else NO_SUGGESTION


def taking(value: object, known: Mapping[str, Any]) -> str:
    """The only name whose annotation has a value as one of its words; "" if there is none, or more than one."""
    names = [name for name, kind in known.items() if isinstance(value, str) and value in _words(kind)]
    return names[0] if len(names) == 1 else ""


def _words(kind: Any) -> Iterator[Any]:
    """The words of all literals in an annotation."""
    if get_origin(kind) is Literal:
        yield from get_args(kind)
        return
    for part in get_args(kind):
        yield from _words(part)


def require_known(key: str, name: str, known: Collection[str]) -> None:
    """Refuse a name that is none of the known ones.

    Args:
        key: where in the scene it stands, for the message.
        name: the name.
        known: the names that are allowed there.

    Raises:
        SceneError: it is unknown.
    """
    if name not in known:
        raise SceneError(f"{key}: expected one of {', '.join(known) or 'none'}, found {shown(name)}; {nearest(name, known)}")
