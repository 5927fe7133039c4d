"""Staggered grids: their axes, their edges, and their sides."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import combinations
from typing import Any, Literal, TypeAlias

import numpy as np

from diffsim.base.messages import shown
from diffsim.boundary import per_axis
from diffsim.boundary.wording import one_word, require_no_names
from diffsim.errors import ParameterError
from diffsim.stepping.declare.equation import Profile
from diffsim.typing import Array

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
    require_no_names("boundary", boundary, axes_of(ndim))
    sides = tuple(boundary) if isinstance(boundary, (tuple, list)) else (boundary,) * ndim
    for side in sides:
        one_word("boundary", side, ("zero", "periodic"))
    per_axis(sides, ndim)
    if surface and sides[0] == "periodic":
        raise ParameterError("axis 0 is periodic and has a surface, expected one of the two; leave one out")
    return sides


def words_of(sides: Any, axes: str, known: Collection[str]) -> tuple[tuple[str, str], ...]:
    """The words of both sides of each axis.

    Raises:
        ParameterError: an unknown word, not one entry for each axis, or one periodic side.
    """
    require_no_names("sides", sides, axes)
    entries = sides if isinstance(sides, (tuple, list)) else (one_word("sides", sides, known),) * len(axes)
    if len(entries) != len(axes):
        count, more = ("1 entry", "") if len(axes) == 1 else (f"{len(axes)} entries", " ...")
        raise ParameterError(
            f"sides = {shown(sides)}, expected one word, or {count} (one an axis); give those, and two sides of an axis as one entry: "
            f"((low, high),{more})"
        )
    pairs = []
    for axis, entry in zip(axes, entries, strict=True):
        pair = entry if isinstance(entry, (tuple, list)) else (entry, entry)
        if len(pair) != 2:
            raise ParameterError(f"sides along {axis} = {shown(entry)}, expected one word, or two: (low side, high side); give those")
        low, high = (one_word(f"sides along {axis}", word, known) for word in pair)
        if (low == "periodic") != (high == "periodic"):
            raise ParameterError(f"sides along {axis} = {shown(entry)}, expected periodic for both sides or none; correct one of them")
        pairs.append((low, high))
    return tuple(pairs)


class LowSide(Profile):
    """A profile on faces that is 0 inside the grid and 1 on the low side, which has no face of its own."""

    def extended(self, values: Array, halo: int) -> Array:
        return np.pad(values, halo, constant_values=((1.0, 0.0),))
