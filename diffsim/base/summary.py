"""The summary of an object: as text, and as HTML in a notebook."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from html import escape
from typing import Any

Rows = Sequence[tuple[str, str]]
"""Names and their values."""


class Summary(ABC):
    """An object that is printed as a table: `print` shows text, a notebook HTML."""

    @abstractmethod
    def _summary(self) -> tuple[str, Rows]:
        """A title, and rows."""

    def __str__(self) -> str:
        title, rows = self._summary()
        width = max((len(name) for name, _ in rows), default=0)
        return "\n".join([title, *(f"  {name:{width}}  {value}" for name, value in rows)])

    def _repr_html_(self) -> str:
        title, rows = self._summary()
        left = 'style="text-align: left"'
        cells = "".join(f"<tr><th {left}>{escape(name)}</th><td {left}>{escape(value)}</td></tr>" for name, value in rows)
        return f"<table><caption>{escape(title)}</caption><tbody>{cells}</tbody></table>"


def array_shown(value: Any) -> str:
    """Shape, type and range of an array."""
    shape, kind = getattr(value, "shape", ()), getattr(value, "dtype", type(value).__name__)
    cells = " x ".join(map(str, shape)) or "a number"
    try:
        reach = f", {float(value.min()):.4g} to {float(value.max()):.4g}"
    except (AttributeError, TypeError, ValueError, RuntimeError):  # empty, or no numbers that may be looked at now
        reach = ""
    return f"{cells}, {str(kind).removeprefix('torch.')}{reach}"
