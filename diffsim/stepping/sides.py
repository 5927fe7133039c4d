"""What a step reads of the sides of a grid, as profiles: which cells are in the grid, and what cells outside owe to given values.

A kernel fills the cells outside the grid by weights and numbers. A value of a boundary rule that is an input is added where a step reads
the field: beyond a side, the field holds what the kernel puts there, plus a weight times the value. So values of rules are inputs like any
other, and their derivatives are those of expressions.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from diffsim.boundary import Side, Sides
from diffsim.stepping.equation import Profile
from diffsim.typing import Array


@dataclass(frozen=True)
class Inside(Profile):
    """1 in the grid along an axis, and 0 outside."""

    def extended(self, values: Array, halo: int) -> Array:
        return np.pad(values, halo)


@dataclass(frozen=True)
class Beyond(Profile):
    """0 in the grid, and beyond a side the weight of its given value.

    Attributes:
        side: the side.
    """

    side: Side | None = None

    def extended(self, values: Array, halo: int) -> Array:
        assert self.side is not None
        out = np.zeros(len(values) + 2 * halo)
        weights = [given for _, given in self.side.shares(len(values), halo)]
        _put(out, self.side.place.high, len(values), halo, weights)
        return out


@dataclass(frozen=True)
class Ones(Profile):
    """What the rules of an axis make of a field that is 1 in the grid, without their values.

    Attributes:
        sides: of the axis.
    """

    sides: Sides | None = None

    def extended(self, values: Array, halo: int) -> Array:
        assert self.sides is not None
        out = np.zeros(len(values) + 2 * halo)
        out[halo : halo + len(values)] = 1
        for side in self.sides:
            _put(out, side.place.high, len(values), halo, [share for share, _ in side.shares(len(values), halo)])
        return out


def goes_on(side: Side, n: int) -> bool:
    """Whether a field that is 1 on a line of `n` cells is 1 beyond a side too, as far as any kernel reads."""
    return side.fills and all(share == 1 for share, _ in side.shares(n, 16))


def _put(out: Array, high: bool, n: int, halo: int, outward: list[float]) -> None:
    """Write what is beyond a side, from the side outward."""
    for q, value in enumerate(outward):
        out[halo + n + q if high else halo - 1 - q] = value
