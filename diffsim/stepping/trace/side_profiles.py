"""Profiles of the sides of a grid: the cells in the grid, and the weights of given values in cells outside.

A kernel fills the cells outside the grid with weights and numbers. If the value of a boundary rule is an input, it is added where a step
reads the field: beyond a side, the field is the sum of the kernel's value and a weight times the input. So values of rules are ordinary
inputs, and their derivatives are derivatives of expressions.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from diffsim.boundary import Side, Sides
from diffsim.stepping.declare.equation import Profile
from diffsim.typing import Array


@dataclass(frozen=True)
class Inside(Profile):
    """1 in the grid along an axis, and 0 outside."""

    def extended(self, values: Array, halo: int) -> Array:
        return np.pad(values, halo)


@dataclass(frozen=True)
class Beyond(Profile):
    """The weight of a side's given value: 0 in the grid, and nonzero beyond the side.

    Attributes:
        side: the side.
    """

    side: Side | None = None

    def extended(self, values: Array, halo: int) -> Array:
        assert self.side is not None
        out = np.zeros(len(values) + 2 * halo)
        weights = [weight for _, weight in self.side.shares(len(values), halo)]
        _put(out, self.side.place.high, len(values), halo, weights)
        return out

    def after_one_more(self) -> Profile:
        assert self.side is not None
        return replace(self, axis=self.axis + 1, side=self.side.after_one_more())


@dataclass(frozen=True)
class Ones(Profile):
    """The extension of a field that is 1 in the grid by the rules of an axis, without their given values.

    Attributes:
        sides: sides of the axis.
    """

    sides: Sides | None = None

    def extended(self, values: Array, halo: int) -> Array:
        assert self.sides is not None
        out = np.zeros(len(values) + 2 * halo)
        out[halo : halo + len(values)] = 1
        for side in self.sides:
            _put(out, side.place.high, len(values), halo, _of_ones(side, len(values), halo))
        return out

    def after_one_more(self) -> Profile:
        assert self.sides is not None
        low, high = self.sides
        return replace(self, axis=self.axis + 1, sides=(low.after_one_more(), high.after_one_more()))


def goes_on(side: Side, n: int) -> bool:
    """True if the rule of a side extends a field that is 1 on a line of `n` cells by 1, as far as any kernel reads."""
    return side.fills and all(share == 1 for share in _of_ones(side, n, 16))


def _of_ones(side: Side, n: int, reach: int) -> list[float]:
    """The values beyond a side of a field that is 1, as far as `reach`. On a low side of its own values it is 1 too."""
    shares = [share for share, _ in side.shares(n, reach)]
    return [1.0, *shares[1:]] if side.low_faces and shares else shares


def _put(out: Array, high: bool, n: int, halo: int, outward: list[float]) -> None:
    """Write the values beyond a side, from the side outward."""
    for q, value in enumerate(outward):
        out[halo + n + q if high else halo - 1 - q] = value
