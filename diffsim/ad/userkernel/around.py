"""Numbers that a kernel takes from outside, which Taichi compiles in. A call and its derivative use the numbers at the time of the call.

The user's objects and modules do not change: the compiler gets a copy of each function whose names mean the kept values.
"""

from __future__ import annotations

import copy
import types
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

from diffsim import engine
from diffsim.ad.surroundings.looks import look_of
from diffsim.ad.userkernel.outlook import outlook
from diffsim.ad.userkernel.source import MISSING, Source
from diffsim.errors import KernelError, StaleValueError


class Taken(NamedTuple):
    """A copy of a value that a kernel takes from outside, and its look, which shows a change."""

    value: Any
    look: Any


Around = Mapping[tuple[types.FunctionType, str], Taken]
"""By the function that names it, and the name as it is written there, with dots."""


@dataclass(frozen=True)
class Captures:
    """The names that a kernel or a `ti.func` takes from outside.

    Attributes:
        source: of the function.
        names: names of numbers or records of numbers, with dots.
        called: names of `ti.func`s, with the names that these take in their turn.
        watched: names of objects and plain functions, which Taichi reads when it compiles; they cannot be copied.
    """

    source: Source
    names: tuple[str, ...]
    called: tuple[tuple[str, Captures], ...]
    watched: tuple[str, ...]

    @classmethod
    def of(cls, source: Source, callers: tuple[types.FunctionType, ...] = ()) -> Captures:
        """Find them. A function that calls itself is left alone there, since the check of the source refuses it.

        Raises:
            KernelError: one of them is a Taichi field.
        """
        callers = (*callers, source.function)
        names, called, watched = set(), {}, set()
        for dotted in source.dotted_names:
            parts = dotted.split(".")
            for end in range(1, len(parts) + 1):
                name = ".".join(parts[:end])
                value = source.resolve_dotted(name)
                if look_of(value) is not None:
                    names.add(name)
                    break
                if engine.present().is_own(type(value).__module__) and type(value).__name__.endswith(("Field", "Ndarray")):
                    raise KernelError(
                        f"{name} in {source.function.__name__} is a Taichi field from outside, expected an argument: it is not passed, so "
                        "it gets no derivative, and dies with the next init; pass its values as an array"
                    )
                if engine.present().is_function(value) and not engine.present().is_own(value.__module__ or ""):
                    inner = Source.of(value)
                    if inner.function not in callers:
                        called[name] = cls.of(inner, callers)
                    break
            else:
                if outlook(value) is not None:
                    watched.add(dotted)
        return cls(source, tuple(sorted(names)), tuple(sorted(called.items(), key=lambda item: item[0])), tuple(sorted(watched)))

    def flat(self) -> list[tuple[Source, str]]:
        """All names of numbers and of watched objects, those of the called functions included, without repetition."""
        entries = {(self.source.function, name): (self.source, name) for name in (*self.names, *self.watched)}
        for _, inner in self.called:
            entries |= {(source.function, name): (source, name) for source, name in inner.flat()}
        return list(entries.values())

    def has_numbers(self) -> bool:
        """True if it, or a function that it calls, takes numbers from outside."""
        return bool(self.names) or any(inner.has_numbers() for _, inner in self.called)

    def require_unchanged(self, around: Around) -> None:
        """Refuse watched objects that have changed since `around` was taken."""
        for name in self.watched:
            if outlook(self.source.resolve_dotted(name)) != around[self.source.function, name].look:
                raise StaleValueError(
                    f"{self.source.function.__name__} uses {name}, a part of which was changed after the kernel was called and before "
                    "its derivative was taken; the gradient would be wrong. Change it after the derivative, or have the kernel read "
                    "numbers by their names (k, module.k, object.k), which each call keeps, or as arguments"
                )
        for _, inner in self.called:
            inner.require_unchanged(around)

    def meanings(self, around: Around) -> dict[str, Any]:
        """The values of the names without dots, if the numbers are those of `around`."""
        ti = engine.language()
        values = {name: around[self.source.function, name].value for name in self.names}
        for name, inner in self.called:
            if inner.has_numbers():
                real = getattr(self.source.resolve_dotted(name), "_is_real_function", False)
                values[name] = (ti.real_func if real else ti.func)(inner.source.with_names(inner.meanings(around)))
        return _nested(values, self.source.resolve)


def taken(names: Iterable[tuple[Source, str]]) -> Around:
    """The present values of names, each with the function that names it."""
    return {(s.function, n): _taken(s.resolve_dotted(n)) for s, n in names}


def _taken(value: Any) -> Taken:
    look = look_of(value)
    return Taken(None, outlook(value)) if look is None else Taken(copy.deepcopy(value), look)


class _Seen:
    """Stands for an object some of whose attributes have other values; the rest are the object's."""

    def __init__(self, thing: Any, values: dict[str, Any]) -> None:
        self._diffsim_thing = thing
        self.__dict__.update(values)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._diffsim_thing, name)


def _nested(values: Mapping[str, Any], resolve: Callable[[str], Any]) -> dict[str, Any]:
    """The values of the first parts of dotted names, from values by dotted names."""
    outer: dict[str, Any] = {}
    inside: dict[str, dict[str, Any]] = {}
    for dotted, value in values.items():
        root, _, rest = dotted.partition(".")
        if rest:
            inside.setdefault(root, {})[rest] = value
        else:
            outer[root] = value
    for root, parts in inside.items():
        thing = resolve(root)
        outer[root] = _Seen(thing, _nested(parts, partial(_attribute, thing)))
    return outer


def _attribute(thing: Any, name: str) -> Any:
    return getattr(thing, name, MISSING)
