"""Find the statement of a TOML text that a place belongs to, also where the text is no TOML."""

from __future__ import annotations

import re
from dataclasses import dataclass

TOKEN = re.compile(
    r'"""(?:\\.|[^\\])*?(?:("{3,5})|\Z)'
    r"|'''.*?(?:('{3,5})|\Z)"
    r'|"(?:\\[^\n]|[^"\\\n])*(")?'
    r"|'[^'\n]*(')?"
    r"|#[^\n]*"
    r"|[][{}\n]",
    re.DOTALL,
)
"""A string, a comment, a bracket or the end of a line. A string ends with its line, or with the text, where it is not closed."""
KEY = re.compile(r"""[ \t]*((?:"[^"\n]*"|'[^'\n]*'|[\w.-])+)[ \t]*=""")
HEADER = re.compile(r"[ \t]*\[\[?[ \t]*([^\]\n]+?)[ \t]*\]")


@dataclass(frozen=True)
class Statement:
    """A key with its value, or the header of a table.

    Attributes:
        key: the key with that of its table, or the name of the table; "": the statement does not begin with either.
        line: where it begins.
    """

    key: str
    line: int


def statement_at(text: str, place: int) -> Statement:
    """The statement at a place of a text, or one before it with a string that is not closed.

    Args:
        text: the text, whose lines end with a newline alone.
        place: number of characters before the place.
    """
    table, start, depth = "", 0, 0
    for token in TOKEN.finditer(text, 0, place):
        what = token[0]
        if what in "[{":
            depth += 1
        elif what in "]}":
            depth = max(depth - 1, 0)
        elif what == "\n":
            if not depth:
                header = HEADER.match(text, start, token.start())
                table, start = header[1] if header else table, token.end()
        elif what[0] in "\"'" and token.lastindex is None:
            break  # the string is not closed, which the reader may notice only at the end of the text
    if header := HEADER.match(text, start):
        key = header[1]
    else:
        own = KEY.match(text, start)
        key = f"{table}.{own[1]}".lstrip(".") if own else ""
    return Statement(key, text.count("\n", 0, start) + 1)
