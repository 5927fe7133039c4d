"""Expressions of kernels that Python builds while an engine translates a source."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from diffsim.engine.engines import ENGINES, present


def expression(function: Callable[..., Any]) -> Callable[..., Any]:
    """Let kernels call a Python function from expressions to expressions.

    An engine reads and translates a `ti.func` anew at each call, which took more than half of the time to the first launch.
    """
    for kind in ENGINES.values():
        setattr(function, kind.function_mark, False)  # without this attribute it warns of a function that is not its own
    return function


def lanes_of(*tiles: Any) -> list[Any]:
    """Expressions of all lanes of some tiles, for a function that is an `expression`."""
    return present().lanes_of(tiles)


def tile_from(array: Any, index: Any, first: int, count: int) -> Any:
    """The expression of a tile of `count` cells that follow one another in memory, for a function that is an `expression`.

    LLVM reads them by one load, which need not be aligned. `first` is counted from the first lane of the tile `index`, as far as need be.
    It is a constant displacement: as a part of the index it would be added in 32 bits, from which LLVM does not learn that cells are
    neighbours. All cells are one expression, so the address of the tile is computed once: a cell apart takes 17 instructions, which LLVM
    removes again.
    """
    return present().tile_from(array, index, first, count)


def tile_of(values: Sequence[Any], dtype: Any, last: Sequence[Any] = ()) -> Any:
    """The expression of a tile with these values, for a function that is an `expression`.

    Args:
        values: values of the first lanes.
        dtype: the engine's type of a lane.
        last: values of the other lanes, which are assigned one by one. Where lanes come from two tiles, LLVM reads the second one
            from memory as it is needed if it is written so, and keeps it in a register otherwise.
    """
    return present().tile_of(values, dtype, last)
