"""Values from outside of a recorded function: a replay would not see that they changed, so they are looked at before it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from diffsim.ad.arrays import guard
from diffsim.ad.model import Model
from diffsim.ad.recorded.program import Source
from diffsim.ad.surroundings.looks import look_of
from diffsim.ad.surroundings.reading import Reader, look, readers_of

IMMUTABLE = (int, float, complex, str, bytes, np.generic, type(None))


def unchanged_of(function: Callable[..., Any], arrays: Sequence[np.ndarray], models: Sequence[Model]) -> Callable[[], bool]:
    """A function that says whether all that a function takes from outside is as it is now.

    Args:
        function: the recorded function. The names that it reads are found in its byte code, and that of the functions that it calls.
        arrays: that took part in its operations.
        models: solvers that it ran.
    """
    others: dict[Any, Reader] = {}
    readers = readers_of(function, others)
    source, conditions = Source(), []
    name = source.name
    for key, reader in readers.items():
        value = reader()
        read = f"{name(reader)}()"
        if isinstance(value, IMMUTABLE):
            conditions.append(f"({read} is {name(value, literal=False)} or {name(look_of)}({read}) == {name(look_of(value))})")
        elif isinstance(value, np.ndarray):
            conditions.append(f"{read} is {name(value)}")
            arrays = [*arrays, value]
        else:
            conditions.append(f"{name(look)}({read}) == {name(look(value))}")
        others.pop(key, None)
    for reader in others.values():
        value = reader()
        conditions.append(f"{name(reader)}() is {name(value, literal=False)}")
    for array in {id(a): a for a in arrays if not guard.is_constant(a)}.values():
        conditions.append(f"{name(_bits_of(array))}() == {name(guard.fingerprint(array))}")
    conditions += [f"{name(model.is_current)}()" for model in models]
    source.lines.append("return " + (" and ".join(conditions) or "True"))
    return source.function("def unchanged():")


def _bits_of(array: np.ndarray) -> Callable[[], Any]:
    """A function that gives the fingerprint of an array."""
    if array.nbytes <= guard.SMALL and 0 not in array.strides:
        return array.tobytes
    return lambda: guard.fingerprint(array)
