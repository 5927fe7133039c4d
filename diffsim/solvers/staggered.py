"""The staggered grid of elastic waves: its axes, its edges, and the rules outside."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import Any, Literal, TypeAlias

from diffsim.base.arguments import one_of
from diffsim.boundary import per_axis
from diffsim.errors import ParameterError

Side: TypeAlias = Literal["zero", "periodic"]


def axes_of(ndim: int) -> str:
    """A letter for each axis of a grid.

    Raises:
        ParameterError: it has one axis.
    """
    if ndim == 1:
        raise ParameterError("grid with 1 axis, expected 2 or 3: shear waves move across their direction; take Acoustic")
    return "zyx"[-ndim:]


def edges_of(axes: str) -> dict[str, list[int]]:
    """The axes of each edge, where shear stresses lie, by the letters of their names."""
    return {"".join(sorted(a + b)): [axes.index(a), axes.index(b)] for a, b in combinations(axes, 2)}


def sides_of(boundary: Side | Sequence[Side], ndim: int, surface: bool) -> tuple[Any, ...]:
    """The rules outside the grid, an entry an axis.

    Raises:
        ParameterError: an unknown side, not one for each axis, or a surface where axis 0 is periodic.
    """
    sides = tuple(boundary) if isinstance(boundary, (tuple, list)) else (boundary,) * ndim
    for side in sides:
        one_of("boundary", side, ("zero", "periodic"))
    per_axis(sides, ndim)
    if surface and sides[0] == "periodic":
        raise ParameterError("axis 0 is periodic and has a surface, expected one of the two; leave one out")
    return sides
