"""A measured figure held against a limit."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Line:
    """A figure held against its limit: a line of an acceptance or of a certificate.

    Attributes:
        name: what was measured.
        value: the figure.
        limit: what it is held against, in words, such as "at least 0.9" or "1.9 to 2.1".
        passed: whether it keeps the limit.
        note: what else a reader should know; may be empty.
    """

    name: str
    value: float
    limit: str
    passed: bool
    note: str = ""

    def __str__(self) -> str:
        note = f"   ({self.note})" if self.note else ""
        return f"{'pass' if self.passed else 'FAIL'}  {self.name}: {self.value:.4g}, limit {self.limit}{note}"


@dataclass(frozen=True)
class Certificate:
    """The lines of a certificate, in the order of measurement."""

    lines: tuple[Line, ...]

    @property
    def passed(self) -> bool:
        """Whether every line keeps its limit."""
        return all(line.passed for line in self.lines)

    def __str__(self) -> str:
        return "\n".join(map(str, self.lines))
