"""A measured figure, and the verdict on it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True)
class Line:
    """A figure held against its limit: a line of an acceptance or of a certificate.

    Attributes:
        name: name of the measured quantity.
        value: the figure.
        limit: the bound of the value, in words, such as "at least 0.9" or "1.9 to 2.1".
        passed: whether it keeps the limit; None: the figure cannot judge, and the note says why and what to do.
        note: further facts for a reader; may be empty.
        needed: whether a certificate needs it to judge. It does not need single cells, which random directions change too.
    """

    name: str
    value: float
    limit: str
    passed: bool | None
    note: str = ""
    needed: bool = True

    @property
    def verdict(self) -> str:
        """ "pass", "fail" or "cannot judge"."""
        return _VERDICTS[self.passed]

    def __str__(self) -> str:
        if self.passed is None:
            return f"cannot judge  {self.name}: {self.note}"
        note = f"   ({self.note})" if self.note else ""
        return f"{'pass' if self.passed else 'FAIL'}  {self.name}: {self.value:.4g}, limit {self.limit}{note}"


@dataclass(frozen=True)
class Certificate:
    """The lines of a certificate, in the order of measurement; iterating over it gives them."""

    lines: tuple[Line, ...]

    @property
    def passed(self) -> bool:
        """True if no line fails and every needed line passes."""
        return judged(self.lines) is True

    @property
    def verdict(self) -> str:
        """ "fail" if a line fails, else "cannot judge" if one that is needed cannot, or there is none, else "pass"."""
        return _VERDICTS[judged(self.lines)]

    def __iter__(self) -> Iterator[Line]:
        return iter(self.lines)

    def __len__(self) -> int:
        return len(self.lines)

    def __str__(self) -> str:
        return "\n".join([*map(str, self.lines), f"verdict: {self.verdict}"])


_VERDICTS = {True: "pass", False: "fail", None: "cannot judge"}


def judged(lines: tuple[Line, ...]) -> bool | None:
    """False if a line fails, else None if one that is needed cannot judge, or there is none, else True."""
    if any(line.passed is False for line in lines):
        return False
    needed = [line for line in lines if line.needed]
    return True if needed and all(line.passed for line in needed) else None


def cannot_judge(name: str, note: str, value: float = float("nan"), limit: str = "") -> Line:
    """A line that does not judge, with the reason and a remedy."""
    return Line(name, value, limit, None, note)
