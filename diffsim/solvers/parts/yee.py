"""Yee's cell: E on the edges of cells and H on their faces, so that conductors lie on the outermost faces of the grid."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypeAlias

from diffsim.base.arguments import one_of
from diffsim.base.messages import shown
from diffsim.boundary import OddImage, Periodic, Rule, Zero
from diffsim.boundary.wording import require_no_names
from diffsim.errors import ParameterError
from diffsim.expr.components import Components, vector_layout
from diffsim.expr.operators import interpolate
from diffsim.expr.symbol import Symbol

Polarisation: TypeAlias = Literal["TM", "TE"]
Wall: TypeAlias = Literal["pec", "periodic"]


def held(axes: str, walls: Sequence[Wall], component: str = "") -> tuple[Rule, ...]:
    """The rules of a component of E, which is 0 on a conductor along it. No step reads E across a conductor, or H, beyond it.

    Args:
        axes: letters of the axes of the grid.
        walls: at both sides of each axis.
        component: letter of the component; "": H.
    """
    rules = [OddImage() if component and axis != component else Zero() for axis in axes]
    return tuple(Periodic() if wall == "periodic" else rule for wall, rule in zip(walls, rules, strict=True))


def to_edges(f: Symbol, axes: str, components: Sequence[str]) -> Components:
    """Values at centres, averaged to where each component of E lies."""

    def averaged(component: str) -> Symbol:
        mean = f
        for axis, name in enumerate(axes):
            mean = mean if name == component else interpolate(mean, axis)
        return mean

    return vector_layout(axes, components).each(averaged)


def yee(polarisation: Polarisation | None, boundary: Wall | tuple[Wall, ...], ndim: int) -> tuple[str, tuple[Wall, ...]]:
    """The components of E in the order of the axes, and the walls at both sides of each axis, on a grid of so many axes.

    Raises:
        ParameterError: a polarisation in three dimensions, or an unknown one; an unknown wall, or not one for each axis.
    """
    if ndim == 3 and polarisation is not None:
        raise ParameterError(
            f"polarisation = {shown(polarisation)} on a grid with 3 axes, expected None: all components are coupled; drop it"
        )
    letters = "" if ndim == 3 else "TM" if polarisation is None else one_of("polarisation", polarisation, ("TM", "TE"))
    require_no_names("boundary", boundary, ("y", "yx", "zyx")[ndim - 1])
    walls = tuple(boundary) if isinstance(boundary, (tuple, list)) else (boundary,) * ndim
    if len(walls) != ndim:
        raise ParameterError(f"boundary = {shown(boundary)}, expected 'pec' or 'periodic', or {ndim} of them; give one an axis")
    inside = ("y", "yx")[ndim > 1]  # Ex alone has no curl in one dimension
    return {"": "zyx", "TM": "z", "TE": inside}[letters], tuple(one_of("boundary", wall, ("pec", "periodic")) for wall in walls)
