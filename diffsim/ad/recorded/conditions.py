"""The conditions under which a recorded function may be replayed, compiled to one function that is called before each replay."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from operator import is_
from typing import Any

import numpy as np

from diffsim.ad.arrays import guard
from diffsim.ad.model import Model
from diffsim.ad.recorded.program import Source
from diffsim.ad.surroundings.looks import look_of


class Conditions:
    """Conditions that hold now, as lines of Python.

    Attributes:
        arrays: whose bits have to be the same.
        name: gives a value a name in these lines.
    """

    def __init__(self) -> None:
        self._source = Source()
        self.name = self._source.name
        self._lines: dict[str, None] = {}
        self.arrays: list[np.ndarray] = []

    def require(self, condition: str) -> None:
        self._lines[condition] = None

    def same(self, read: str, value: Any) -> None:
        """Require that an expression gives this object, or an equal number or text."""
        name = self.name
        line = f"{read} is {name(value, literal=False)}"
        if type(value) in (int, float, complex, str, bytes) or isinstance(value, np.generic):
            line = f"({line} or {name(look_of)}({read}) == {name(look_of(value))})"
        self.require(line)

    def same_parts(self, thing: Any, parts: Mapping[str, Any]) -> None:
        """Require that attributes of an object are bound to these values."""
        named = getattr(thing, "__dict__", {})
        self.same_items(named, {name: part for name, part in parts.items() if name in named})
        for name, part in parts.items():
            if name not in named:
                self.same(f"{self.name(thing)}.{name}", part)

    def same_items(self, table: Mapping[Any, Any], items: Mapping[Any, Any]) -> None:
        """Require that a dict has these values, in one line without a call of Python's, since simulations are looked at in each replay."""
        name = self.name
        if items:
            names, values = name(tuple(items), literal=False), name(tuple(items.values()), literal=False)
            self.require(f"all({name(map)}({name(is_)}, {name(map)}({name(table, literal=False)}.get, {names}), {values}))")

    def same_class(self, kind: type) -> None:
        """Require that a class has the attributes that it has now."""
        self.require(f"{self.name(_same_parts)}({self.name(kind)}, {self.name(tuple(kind.__dict__.values()))})")

    def compiled(self, models: Sequence[Model]) -> Callable[[], bool]:
        """A function that says whether all of them hold.

        Args:
            models: solvers that are run, which have to be where they are.
        """
        name, lines = self.name, list(self._lines)
        for array in {id(a): a for a in self.arrays if not guard.is_constant(a)}.values():
            lines.append(f"{name(_bits_of(array))}() == {name(guard.fingerprint(array))}")
        lines += [f"{name(model.is_current)}()" for model in models]
        self._source.lines += ["try:", f"    return {' and '.join(lines) or True}"]
        self._source.lines += [
            "except (AttributeError, LookupError, TypeError, ValueError):",
            "    return False",
        ]  # names may be gone
        return self._source.function("def unchanged():")


def _bits_of(array: np.ndarray) -> Callable[[], Any]:
    """A function that gives the fingerprint of an array."""
    if array.nbytes <= guard.SMALL and 0 not in array.strides:
        return array.tobytes
    return lambda: guard.fingerprint(array)


def _same_parts(kind: type, parts: tuple[Any, ...]) -> bool:
    return len(kind.__dict__) == len(parts) and all(map(is_, kind.__dict__.values(), parts))
