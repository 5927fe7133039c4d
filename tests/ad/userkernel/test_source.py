"""Names that a user's function takes from outside."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from diffsim.ad.userkernel.source import Source

outside, other, Kind = 1.0, 2.0, float


def bound_in_places(x: Any, *rest: Any, key: Any = other, **options: Any) -> Any:
    square = lambda e: e**2 + outside  # noqa: E731

    def inner(a: Any, *b: Any, c: Any = 3) -> Any:
        d = a + c
        return d + x + sum(b)

    total = sum(f * f for f in rest) + (walrus := 2.0)
    try:
        import math as mathematics
    except ImportError as failure:
        raise RuntimeError(failure) from failure
    with options["file"] as handle:
        handle.read(mathematics.pi)
    return square(x) + inner(x) + total + walrus + key


def shadowed(x: Kind) -> Any:
    outer = [(lambda outside: outside + other)(v) for v in range(3)]
    return sum(outer) + outside + x


FREE: dict[Callable[..., Any], set[str]] = {
    bound_in_places: {"outside", "other", "Any", "sum", "ImportError", "RuntimeError"},
    shadowed: {"outside", "other", "Any", "Kind", "range", "sum"},
}


@pytest.mark.parametrize("function", FREE, ids=lambda function: function.__name__)
def test_free_names_are_those_from_outside_alone(function: Callable[..., Any]) -> None:
    assert Source.of(function).free_names == FREE[function]
