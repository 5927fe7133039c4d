"""Kinds of values in the check of a kernel."""

from __future__ import annotations

from dataclasses import dataclass

from diffsim.ad.userkernel.loops import Loop


@dataclass(frozen=True)
class Value:
    """A value in a kernel: `kind` is constant, integer, real, vector, index (a vector of integers) or array."""

    kind: str
    array: str = ""
    loop: Loop | None = None
    changing: bool = False


CONSTANT, INTEGER, REAL, VECTOR, INDEX = (Value(kind) for kind in ("constant", "integer", "real", "vector", "index"))
RANK = {"constant": 0, "integer": 1, "index": 2, "array": 3, "real": 3, "vector": 4}


def join(first: Value, *others: Value) -> Value:
    """The kind of a result of values: the least exact one. An array passed on stays that array."""
    best = first
    for other in others:
        if RANK[other.kind] > RANK[best.kind]:
            best = other
    return Value(best.kind, best.array)
