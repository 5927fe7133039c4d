"""Values that a kernel takes from outside, which Taichi compiles in. A derivative after a change of them is refused."""

from __future__ import annotations

import types
from collections.abc import Iterable, Mapping
from typing import Any

from diffsim import engine
from diffsim.ad.surroundings.looks import look_of
from diffsim.ad.userkernel.outlook import outlook
from diffsim.ad.userkernel.source import Source
from diffsim.errors import KernelError, StaleValueError

Around = Mapping[tuple[types.FunctionType, str], Any]
"""Looks of values, which show a change, by the function that names them and the name as it is written there, with dots."""


def names_from_outside(source: Source, callers: tuple[types.FunctionType, ...] = ()) -> list[tuple[Source, str]]:
    """Names of numbers and objects that a kernel, or a `ti.func` that it calls, takes from outside, with the function that names them.

    Args:
        source: of the kernel.
        callers: functions around it. One that calls itself is left alone, since the check of the source refuses it.

    Raises:
        KernelError: one of them is a Taichi field.
    """
    callers = (*callers, source.function)
    entries: dict[tuple[types.FunctionType, str], tuple[Source, str]] = {}
    for dotted in sorted(source.dotted_names):
        parts = dotted.split(".")
        for end in range(1, len(parts) + 1):
            name = ".".join(parts[:end])
            value = source.resolve_dotted(name)
            if engine.present().is_own(type(value).__module__) and type(value).__name__.endswith(("Field", "Ndarray")):
                raise KernelError(
                    f"{name} in {source.function.__name__} is a Taichi field from outside, expected an argument: it is not passed, so "
                    "it gets no derivative, and dies with the next init; pass its values as an array"
                )
            if engine.present().is_function(value) and not engine.present().is_own(value.__module__ or ""):
                inner = Source.of(value)
                if inner.function not in callers:
                    entries |= {(s.function, n): (s, n) for s, n in names_from_outside(inner, callers)}
                break
            if look_of(value) is not None or (end == len(parts) and outlook(value) is not None):
                entries[source.function, name] = source, name
                break
    return list(entries.values())


def looks_of(names: Iterable[tuple[Source, str]]) -> Around:
    """The present looks of the values of names, each with the function that names it."""
    return {(s.function, n): outlook(s.resolve_dotted(n)) for s, n in names}


def require_unchanged(names: Iterable[tuple[Source, str]], around: Around) -> None:
    """Refuse values that have changed since `around` was taken."""
    for (function, name), look in looks_of(names).items():
        if look != around[function, name]:
            raise StaleValueError(
                f"{function.__name__} uses {name}, which was changed itself or in a part after the kernel was called and before its "
                "derivative was taken; the gradient would be wrong. Change it after the derivative, or pass it as an argument"
            )
