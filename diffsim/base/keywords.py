"""Arguments by name that a constructor does not have, each with the argument that was meant."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Iterator, Mapping
from typing import Any, Literal, get_args, get_origin, get_type_hints

from diffsim.base.arguments import plural
from diffsim.base.messages import name_shown, shown
from diffsim.errors import KeywordError

LONGEST = 60
"""Letters of the longest name that is compared."""


def require_arguments(cls: type, count: int, keywords: Mapping[str, Any]) -> None:
    """Refuse what the constructor of a class does not take by name, or at all where it has no constructor of its own.

    Args:
        cls: the class.
        count: of its arguments without a name.
        keywords: its arguments by name.

    Raises:
        KeywordError: one has a name that the constructor does not have.
    """
    if cls.__init__ is object.__init__:  # type: ignore[misc]
        if count or keywords:
            extra = name_shown(next(iter(keywords))) if keywords else plural(count, "argument")
            raise KeywordError(f"{cls.__name__} got {extra}, expected no arguments; leave them out, or write an __init__ that takes them")
        return
    try:
        own = [*inspect.signature(cls.__init__).parameters.values()][1:]  # type: ignore[misc]
    except (TypeError, ValueError):  # of another language
        return
    names = [each.name for each in own if each.kind in (each.POSITIONAL_OR_KEYWORD, each.KEYWORD_ONLY)]
    wrong = next((name for name in keywords if name not in names), None)
    if wrong is None or any(each.kind is each.VAR_KEYWORD for each in own):
        return
    likely = meant(wrong, keywords[wrong], dict.fromkeys(names) | _hints(cls, names))
    remedy = f"did you mean {likely}?" if likely else "choose one of these"
    raise KeywordError(
        f"{cls.__name__} got {name_shown(wrong)} = {shown(keywords[wrong])}, which is no argument of it, expected some of "
        f"{', '.join(names)}; {remedy}"
    )


def meant(name: str, value: object, known: Mapping[str, Any]) -> str:
    """The known name that is nearly this one, or the only one that takes the value as one of its words; "" if there is none.

    Args:
        name: an unknown name.
        value: what was given by that name.
        known: name -> its annotation, whose literals are its words.
    """
    lower = {other.lower(): other for other in known}
    close = difflib.get_close_matches(name.lower(), lower, 1) if len(name) <= LONGEST else []
    return lower[close[0]] if close else taking(value, known)


def taking(value: object, known: Mapping[str, Any]) -> str:
    """The only name whose annotation has a value as one of its words; "" if there is none, or more than one."""
    names = [other for other, kind in known.items() if isinstance(value, str) and value in _words(kind)]
    return names[0] if len(names) == 1 else ""


def _words(kind: Any) -> Iterator[Any]:
    """The words of all literals in an annotation."""
    if get_origin(kind) is Literal:
        yield from get_args(kind)
        return
    for part in get_args(kind):
        yield from _words(part)


def _hints(cls: type, names: list[str]) -> dict[str, Any]:
    """The annotations of a constructor's arguments; none where they name what cannot be found."""
    try:
        hints = get_type_hints(cls.__init__)  # type: ignore[misc]
    except (NameError, TypeError, AttributeError, SyntaxError):
        return {}
    return {name: hints[name] for name in names if name in hints}
