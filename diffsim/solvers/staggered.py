"""The staggered grid of elastic waves: which velocities and stresses there are, where they lie, and which derivatives join them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations_with_replacement
from typing import Any, Literal, TypeAlias

from diffsim.base.arguments import one_of
from diffsim.boundary import per_axis
from diffsim.errors import ParameterError
from diffsim.mesh.field import Location

Side: TypeAlias = Literal["zero", "periodic"]


@dataclass(frozen=True)
class Staggered:
    """Velocities on the faces of cells, normal stresses at their centres and shear stresses on their edges.

    Attributes:
        axes: a letter for each axis of the grid.
    """

    axes: str

    @cached_property
    def pairs(self) -> dict[str, tuple[str, str]]:
        """The axes of each stress, by the letters of its name."""
        return {"".join(sorted(a + b)): (a, b) for a, b in combinations_with_replacement(self.axes, 2)}

    @cached_property
    def edges(self) -> dict[str, list[int]]:
        """The axes of the grid of each shear stress."""
        return {pair: [self.axes.index(a), self.axes.index(b)] for pair, (a, b) in self.pairs.items() if a != b}

    @cached_property
    def components(self) -> dict[str, tuple[Location, str]]:
        """Where each velocity and stress lies, and its unit."""
        velocities = {f"v{a}": (self._location(a), "m/s") for a in self.axes}
        return velocities | {f"s{pair}": (self._location(a, b), "Pa") for pair, (a, b) in self.pairs.items()}

    @cached_property
    def derivatives(self) -> list[tuple[str, str, Location]]:
        """The derivatives of a step: of which component, across which axis, and where they lie."""
        both = [(a, b) for a in self.axes for b in self.axes]
        return [(stress(a, b), b, self._location(a)) for a, b in both] + [(f"v{a}", b, self._location(a, b)) for a, b in both]

    def _location(self, *axes: str) -> Location:
        """The faces of one axis, the edges of two, the centres for an axis twice."""
        return tuple(axes.count(a) % 2 for a in self.axes)


def stress(a: str, b: str) -> str:
    """The name of the stress of two axes, in either order."""
    return "s" + "".join(sorted(a + b))


def staggered(ndim: int) -> Staggered:
    """The components on a grid of so many axes.

    Raises:
        ParameterError: it has one axis.
    """
    if ndim == 1:
        raise ParameterError("grid with 1 axis, expected 2 or 3: shear waves move across their direction; take Acoustic")
    return Staggered("zyx"[-ndim:])


def sides_of(boundary: Side | Sequence[Side], ndim: int, surface: bool) -> tuple[Any, ...]:
    """What lies outside the grid, an entry an axis.

    Raises:
        ParameterError: an unknown side, not one for each axis, or a surface where axis 0 is periodic.
    """
    sides = tuple(boundary) if isinstance(boundary, (tuple, list)) else (boundary,) * ndim
    for side in sides:
        one_of("boundary", side, ("zero", "periodic"))
    per_axis(sides, ndim)
    if surface and sides[0] == "periodic":
        raise ParameterError("axis 0 is periodic and has a surface, expected one of both; leave one out")
    return sides
