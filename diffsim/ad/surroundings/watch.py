"""Watches the values that a derivative given by hand reads from outside: it runs long after the operation that it belongs to."""

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
    """Values that one rule reads from outside, and the number of changes of each by others.

    A rule may change numbers and records that it reads, such as a count of its calls, but not arrays.

    Attributes:
        rule: any callable.
    """

    def __init__(self, rule: Any) -> None:
        self.rule = rule
        self._last: dict[Key, tuple[Any, int]] = {}  # the last look, and the number of changes by others before

    def note(self) -> Noted:
        """Note the present values, for the derivative of the operation that is running."""
        readers = readers_of(self.rule)
        seen = {key: (reader, look(reader())) for key, reader in readers.items()}
        return Noted(self, {key: (*both, self.changes(key, both[1])) for key, both in seen.items()}, caller() if seen else "")

    def changes(self, key: Key, now: Any) -> int:
        """The number of changes by others of a value that looks like `now`."""
        last, count = self._last.get(key, (now, 0))
        self._last[key] = now, count + (now != last)
        return self._last[key][1]

    def accept(self, key: Key, now: Any) -> None:
        """Note that the rule itself has just changed a value."""
        self._last[key] = now, self._last[key][1]


@dataclass(frozen=True)
class Noted:
    """Values that a rule reads from outside, when its operation ran: readers, looks, and changes by others before; and its place."""

    watch: Watch
    seen: dict[Key, tuple[Reader, Any, int]]
    place: str


@contextmanager
def running(noted: Noted | None) -> Iterator[None]:
    """Run the rule inside of the `with` block.

    Raises:
        StaleValueError: others have changed a value that it reads.
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
