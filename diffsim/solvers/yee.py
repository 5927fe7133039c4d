"""Yee's cell: which components of E and H there are, where they lie, and how the curls join them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Literal, TypeAlias

from diffsim.base.arguments import one_of, shown
from diffsim.boundary import OddImage, Periodic, Rule, Zero
from diffsim.errors import ParameterError
from diffsim.expr.operators import interpolate
from diffsim.expr.symbol import Symbol
from diffsim.mesh.field import Location

Polarisation: TypeAlias = Literal["TM", "TE"]
Wall: TypeAlias = Literal["pec", "periodic"]


@dataclass(frozen=True)
class Yee:
    """E on the edges of cells and H on their faces, so that conductors lie on the outermost faces of the grid.

    Attributes:
        polarisation: "TM" or "TE"; "" in three dimensions.
        walls: at both sides of each axis.
    """

    polarisation: str
    walls: tuple[Wall, ...]

    @property
    def axes(self) -> str:
        """A letter for each axis of the grid."""
        return "zyx"[-len(self.walls) :]

    @cached_property
    def electric(self) -> tuple[str, ...]:
        """The components of E, in the order of the axes."""
        inside = ("y", "x")[: len(self.walls)]  # Ex alone has no curl in one dimension
        return {"": ("z", "y", "x"), "TM": ("z",), "TE": inside}[self.polarisation]

    @cached_property
    def magnetic(self) -> tuple[str, ...]:
        """The components of H that E drives."""
        return tuple(c for c in "zyx" if any(read[1] in self.electric for _, _, read in _curl(f"H{c}", self.axes)))

    def curl(self, name: str) -> list[tuple[float, int, str]]:
        """The derivatives in the curl that drives a component: sign, axis of the grid, and which component it is of."""
        there = {"E": self.electric, "H": self.magnetic}
        return [term for term in _curl(name, self.axes) if term[2][1] in there[term[2][0]]]

    def location(self, name: str) -> Location:
        """Where a component such as "Ez" lies in the cell, 0 centre or 1 upper face along each axis."""
        return tuple(int((axis == name[1]) == (name[0] == "H")) for axis in self.axes)

    def at(self, component: str, values: Symbol) -> Symbol:
        """Values at centres, averaged to where a component of E lies."""
        for axis, name in enumerate(self.axes):
            values = values if name == component else interpolate(values, axis)
        return values

    def rules(self, name: str) -> tuple[Rule, ...]:
        """E along a conductor is 0 on it. No step reads H, or E across a conductor, beyond it."""
        held = [OddImage() if name[0] == "E" and axis != name[1] else Zero() for axis in self.axes]
        return tuple(Periodic() if wall == "periodic" else rule for wall, rule in zip(self.walls, held, strict=True))

    @property
    def medium(self) -> tuple[str, ...]:
        """The rules of what is given at centres."""
        return tuple("periodic" if wall == "periodic" else "mirror" for wall in self.walls)


def _curl(name: str, axes: str) -> list[tuple[float, int, str]]:
    """(∇×u)_x = ∂u_z/∂y - ∂u_y/∂z, and so on in turn, along the axes that there are; u is H for a component of E, and E for one of H."""
    other = "H" if name[0] == "E" else "E"
    b, c = ("xyzxy"["xyz".index(name[1]) + k] for k in (1, 2))
    return [(sign, axes.index(axis), other + of) for sign, axis, of in ((1.0, b, c), (-1.0, c, b)) if axis in axes]


def yee(polarisation: Polarisation | None, boundary: Wall | tuple[Wall, ...], ndim: int) -> Yee:
    """The cell of a grid of so many axes.

    Raises:
        ParameterError: a polarisation in three dimensions, or an unknown one; an unknown wall, or not one for each axis.
    """
    if ndim == 3 and polarisation is not None:
        raise ParameterError(
            f"polarisation = {shown(polarisation)} on a grid with 3 axes, expected None: all components are coupled; drop it"
        )
    found = "" if ndim == 3 else "TM" if polarisation is None else one_of("polarisation", polarisation, ("TM", "TE"))
    walls = tuple(boundary) if isinstance(boundary, (tuple, list)) else (boundary,) * ndim
    if len(walls) != ndim:
        raise ParameterError(f"boundary = {shown(boundary)}, expected 'pec' or 'periodic', or {ndim} of them; give one an axis")
    return Yee(found, tuple(one_of("boundary", wall, ("pec", "periodic")) for wall in walls))
