"""What a derivative given by hand reads from around it when it is run, long after the operation that it belongs to."""

from __future__ import annotations

import dis
from collections.abc import Callable
from functools import lru_cache, partial
from types import CellType, CodeType, FunctionType
from typing import Any

import numpy as np

from diffsim.ad.guard import caller, fingerprint
from diffsim.errors import StaleValueError

Surroundings = dict[str, tuple[Callable[[], Any], Any, str]]
"""By name: what finds the value, how it looked, and where the operation was done."""
_ABSENT = object()


def watched(rule: Any) -> Surroundings:
    """The arrays and numbers that a Python function takes by name from its module and its closure, and does not assign itself."""
    if not isinstance(rule, FunctionType):
        return {}
    readers: dict[str, Callable[[], Any]] = {
        name: partial(_content, cell) for name, cell in zip(rule.__code__.co_freevars, rule.__closure__ or (), strict=True)
    }
    read, assigned = _names(rule.__code__)
    readers |= {name: partial(rule.__globals__.get, name) for name in read if name in rule.__globals__}
    found = {name: (reader, _look(reader())) for name, reader in readers.items() if name not in assigned}
    place = caller() if any(look is not None for _, look in found.values()) else ""
    return {name: (reader, look, place) for name, (reader, look) in found.items() if look is not None}


def check(around: Surroundings) -> None:
    """Raise if one of them is another one by now.

    Raises:
        StaleValueError: naming it.
    """
    for name, (reader, look, place) in around.items():
        if _look(reader()) != look:
            raise StaleValueError(
                f"a derivative given by hand reads {name}, which was changed after the operation at {place} and before its derivative was "
                f"taken at {caller()}; the gradient would be wrong. Pass it as an argument, or (custom_vjp) among the residuals; "
                "make work buffers inside of the rule"
            )


@lru_cache(256)
def _names(code: CodeType) -> tuple[set[str], set[str]]:
    """Names that a function reads from its module, and those around it that it assigns; of functions inside of it too."""
    read, assigned = set(code.co_names), set()
    for step in dis.get_instructions(code):
        if step.opname in ("STORE_GLOBAL", "STORE_DEREF"):
            assigned.add(step.argval)
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            more, stored = _names(inner)
            read |= more
            assigned |= stored
    return read, assigned


def _content(cell: CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # named, but not assigned yet
        return _ABSENT


def _look(value: Any) -> Any:
    """What tells an array or a number from another; None for anything else."""
    if isinstance(value, np.ndarray) and not value.dtype.hasobject:
        return value.shape, value.dtype.str, fingerprint(value)
    return (type(value), repr(value)) if isinstance(value, (int, float, complex, np.generic)) else None
