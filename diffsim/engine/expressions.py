"""Expressions of kernels that Python builds while Taichi translates a source."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from diffsim.engine.module import taichi


def expression(function: Callable[..., Any]) -> Callable[..., Any]:
    """Let kernels call a Python function from expressions to expressions.

    Taichi reads and translates a `ti.func` anew at each call, which took more than half of the time to the first launch.
    """
    function._is_taichi_function = False  # type: ignore[attr-defined]  # without this attribute Taichi warns of a function that is not its own
    return function


def lanes_of(*tiles: Any) -> list[Any]:
    """Expressions of all lanes of some tiles, for a function that is an `expression`."""
    from taichi.lang import impl
    from taichi.lang.expr import Expr

    return [Expr(lane) for lane in impl.get_runtime().compiling_callable.ast_builder().expand_exprs([tile.ptr for tile in tiles])]


def cells_of(array: Any, index: Any, first: int, count: int) -> list[Any]:
    """Expressions of `count` cells of an array of tiles that follow one another in memory, for a function that is an `expression`.

    LLVM reads them by one load, which need not be aligned. `first` is counted from the first lane of the tile `index`, as far as need be.
    It is a constant displacement: as a part of the index it would be added in 32 bits, from which LLVM does not learn that cells are
    neighbours.
    """
    from taichi.lang import impl

    builder = impl.get_runtime().compiling_callable.ast_builder()
    tile = impl.subscript(builder, array, index)
    return [impl.subscript(builder, tile, first + lane) for lane in range(count)]


def tile_of(values: Sequence[Any], dtype: Any, last: Sequence[Any] = ()) -> Any:
    """The expression of a tile with these values, for a function that is an `expression`.

    Args:
        values: values of the first lanes.
        dtype: Taichi's type of a lane.
        last: values of the other lanes, which are assigned one by one. Where lanes come from two tiles, LLVM reads the second one
            from memory as it is needed if it is written so, and keeps it in a register otherwise.
    """
    from taichi.lang import impl
    from taichi.lang.expr import Expr

    builder, nowhere = impl.get_runtime().compiling_callable.ast_builder(), taichi()._lib.core.DebugInfo()
    zero = Expr(0.0, dtype=dtype)
    parts = [value.ptr for value in (*values, *[zero] * len(last))]
    whole = Expr(builder.make_matrix_expr([len(parts)], dtype, parts, nowhere))
    if not last:
        return whole
    tile = Expr(builder.expr_var(whole.ptr, nowhere))
    for lane, value in zip(lanes_of(tile)[len(values) :], last, strict=True):
        builder.expr_assign(lane.ptr, value.ptr, nowhere)
    return tile
