"""Watches what a derivative given by hand reads from around it: it is run long after the operation that it belongs to."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from diffsim.ad.arrays.guard import caller
from diffsim.ad.surroundings.reading import Reader, look, readers_of
from diffsim.errors import StaleValueError

Key = tuple[int, str]


class Watch:
    """What one rule reads from around it, and how often others have changed it.

    A rule may change numbers and records that it reads, such as a count of its calls, but not arrays.

    Attributes:
        rule: any callable.
    """

    def __init__(self, rule: Any) -> None:
        self.rule = rule
        self._last: dict[Key, tuple[Any, int]] = {}  # the last look, and how many changes by others there were before

    def note(self) -> Noted:
        """What it reads as it is now, for the derivative of the operation that is being done."""
        readers = readers_of(self.rule)
        seen = {key: (reader, look(reader())) for key, reader in readers.items()}
        return Noted(self, {key: (*both, self.changes(key, both[1])) for key, both in seen.items()}, caller() if seen else "")

    def changes(self, key: Key, now: Any) -> int:
        """How often others have changed a value that looks like `now`."""
        last, count = self._last.get(key, (now, 0))
        self._last[key] = now, count + (now != last)
        return self._last[key][1]

    def accept(self, key: Key, now: Any) -> None:
        """The rule itself has just changed a value."""
        self._last[key] = now, self._last[key][1]


@dataclass(frozen=True)
class Noted:
    """What a rule read from around it when its operation was done: readers, looks, and changes by others before; and where that was."""

    watch: Watch
    seen: dict[Key, tuple[Reader, Any, int]]
    place: str


@contextmanager
def running(noted: Noted | None) -> Iterator[None]:
    """Around a run of the rule.

    Raises:
        StaleValueError: someone else has changed what it reads.
    """
    if noted is None:
        yield
        return
    for key, (reader, before, count) in noted.seen.items():
        now = look(reader())
        if noted.watch.changes(key, now) != count and now != before:
            raise StaleValueError(
                f"a derivative given by hand reads {key[1]}, which was changed after the operation at {noted.place} and before its "
                f"derivative was taken at {caller()}; the gradient would be wrong. Pass it as an argument, or (custom_vjp) among the "
                "residuals; make work buffers inside of the rule"
            )
    try:
        yield
    finally:
        for key, (reader, _, _) in noted.seen.items():
            if not isinstance(value := reader(), np.ndarray):
                noted.watch.accept(key, look(value))
