"""What a kernel takes from around it: numbers that Taichi compiles in. A derivative uses those that were there at the call."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np

from diffsim import runtime
from diffsim.ad.userkernel.source import Source


class Taken(NamedTuple):
    """A value that a kernel takes from its module, its closure or an attribute of something there.

    Attributes:
        source: of the function that names it.
        name: as it is written there, with dots.
        value: a copy of what it was.
        look: what tells it from another value.
    """

    source: Source
    name: str
    value: Any
    look: Any


Around = tuple[Taken, ...]


def is_compiled_in(value: Any) -> bool:
    """Whether Taichi makes constants of a value from outside: a number, or several of them."""
    return look_of(value) is not None


def look_of(value: Any) -> Any:
    """What tells a number, or a record of numbers, from another: type and digits; None for anything else."""
    if isinstance(value, (int, float, np.number, np.bool_)):
        return type(value), repr(value)
    if isinstance(value, np.ndarray) and value.dtype.kind in "biuf":
        return value.shape, value.dtype.str, value.tobytes()
    if isinstance(value, dict):
        return _looks(dict, [part for item in value.items() for part in item])
    if isinstance(value, (tuple, list)):
        return _looks(type(value), value)
    if isinstance(value, str):
        return str, value
    if isinstance(value, runtime.taichi().Matrix):
        return _looks(type(value), value.to_list())
    return None


def _looks(kind: type, parts: Iterable[Any]) -> Any:
    looks = [look_of(part) for part in parts]
    return None if None in looks else (kind, *looks)


def taken(names: Iterable[tuple[Source, str]]) -> Around:
    """The present values of names."""
    distinct = {(id(source.function), name): (source, name) for source, name in names}
    return tuple(Taken(s, n, copy.deepcopy(v), look_of(v)) for s, n in distinct.values() for v in [s.resolve_dotted(n)])


@contextmanager
def as_it_was(around: Around) -> Iterator[None]:
    """Names that have other values by now have those of the call again while it lasts; no other kernel is compiled meanwhile."""
    with runtime.lock:
        changed = [(t, now) for t in around if look_of(now := t.source.resolve_dotted(t.name)) != t.look]
        try:
            for t, _ in changed:
                t.source.assign_dotted(t.name, t.value)
            yield
        finally:
            for t, now in changed:
                t.source.assign_dotted(t.name, now)
