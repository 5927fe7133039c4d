"""Vectors and tensors among the fields of an equation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from diffsim.base.arguments import one_of
from diffsim.base.messages import shown
from diffsim.boundary import Boundary
from diffsim.errors import ShapeError
from diffsim.expr.components import tensor_layout, vector_layout
from diffsim.mesh.field import Location
from diffsim.stepping.declare.equation import Group

Region = NDArray[np.bool_]


class Vector(Group):
    """A vector of an equation: one `Variable` for each component, all declared at once.

    Its components are fields as others are, by the names of the group and the axis: `v` over the axes z and x is the fields `vz` and `vx`
    (a name of several letters takes an underscore: `flow_x`). Inputs, sources, receivers and solutions have them. A step has the group: `v`
    is an argument, and the step returns its next value for "v". Each of its components may be an argument or a result instead.

    Args:
        axes: a letter for each axis of the grid, in their order, such as "zx".
        boundary: values outside the grid, see `Variable`; the same for all components, or a dict with one for each.
        location: where component i lies: "faces", the upper faces of axis i; "edges", the edges along i, which are upper faces of all other
            axes; or "centres".
        unit: unit, for labels.
        components: letters of the components; one that is not an axis points across the grid. None: one for each axis.
        region: see `Variable`; the same for all components, or a dict with one for each.

    Raises:
        ParameterError: an unknown boundary or location.
        ShapeError: axes or components that are not letters, or a dict without one of the components.

    Example:
        See `diffsim.expr.Components`.
    """

    def __init__(
        self,
        axes: str | Sequence[str],
        boundary: Boundary | Mapping[str, Boundary] = "zero",
        location: Literal["faces", "edges", "centres"] = "faces",
        unit: str = "",
        components: str | Sequence[str] | None = None,
        region: Region | Mapping[str, Region | None] | None = None,
    ) -> None:
        letters = _letters("axes", axes)
        layout = vector_layout(letters, None if components is None else _letters("components", components))
        one_of("location", location, ("faces", "edges", "centres"))
        places = {key: _place(letters, key, location) for key in layout.keys}
        self._declare(layout, places, boundary, unit, region)


class SymmetricTensor(Group):
    """A symmetric tensor of an equation: one `Variable` for each component, all declared at once; see `Vector`.

    `tau` over the axes z and x is the fields `tau_zz`, `tau_xz` and `tau_xx`, with the letters in the order of the alphabet. A step reads
    `tau["z", "x"]`, in either order, or by the numbers of axes, `tau[0, 1]`.

    Args:
        axes: a letter for each axis of the grid, in their order, such as "zx".
        boundary: values outside the grid, see `Variable`; the same for all components, or a dict with one for each: {"xz": ...}.
        location: where component (i, j) lies: "edges", the diagonal at centres and the others on the edges that are upper faces of i and j,
            as `diffsim.expr.strain` has them; or "centres".
        unit: unit, for labels.
        region: see `Variable`; the same for all components, or a dict with one for each.

    Raises:
        ParameterError: an unknown boundary or location.
        ShapeError: axes that are not letters, or a dict without one of the components.

    Example:
        See `diffsim.expr.interpolate_to`.
    """

    def __init__(
        self,
        axes: str | Sequence[str],
        boundary: Boundary | Mapping[str, Boundary] = "zero",
        location: Literal["edges", "centres"] = "edges",
        unit: str = "",
        region: Region | Mapping[str, Region | None] | None = None,
    ) -> None:
        letters = _letters("axes", axes)
        layout = tensor_layout(letters)
        one_of("location", location, ("edges", "centres"))
        staggered = {key: tuple(key.count(axis) % 2 for axis in letters) for key in layout.keys}
        places = staggered if location == "edges" else dict.fromkeys(layout.keys, (0,) * len(letters))
        self._declare(layout, places, boundary, unit, region)


def _letters(what: str, value: object) -> str:
    """Letters, each once."""
    letters = list(value) if isinstance(value, (str, tuple, list)) else []
    valid = all(isinstance(one, str) and len(one) == 1 and one.isalpha() and one.isascii() for one in letters)
    if not letters or not valid or len(set(letters)) < len(letters):
        raise ShapeError(f"{what} = {shown(value)}, expected a letter for each, no two the same; write it like 'zx'")
    return "".join(letters)


def _place(axes: str, key: str, location: str) -> Location:
    """Where a component of a vector lies."""
    if location == "centres":
        return (0,) * len(axes)
    return tuple(int((axis == key) == (location == "faces")) for axis in axes)
