"""Storage of fields: lane tiles, halos, and the rules that say what lies outside the grid.

A field's memory is plain row-major. Its last axis is cut into tiles of `lanes` values, with halo tiles on both sides;
the other axes have halo rows. So the cells of a field are a NumPy view of its storage, without a copy, and a kernel
sees the same bytes as an array of short vectors, which is what makes Taichi's CPU loops use vector registers.
One-dimensional grids are stored as a single row.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
import numpy.typing as npt

from diffsim.arguments import one_of, shown
from diffsim.errors import ParameterError, ShapeError
from diffsim.typing import Array

Rule: TypeAlias = Literal["zero", "periodic", "mirror"]
"""What a field is outside the grid, along one axis.

zero: 0. periodic: the other end. mirror: reflected about the grid's outermost face, so the normal derivative is 0 there.
"""

Rules: TypeAlias = tuple[Rule, ...]
"""A rule an axis."""

Location: TypeAlias = tuple[int, ...]
"""Where in its cell a field's values sit, an entry an axis: 0 the centre, 1 the upper face."""


@dataclass(frozen=True)
class Layout:
    """Where the cells of a field lie in its storage.

    Attributes:
        shape: cells along each axis of the grid.
        halo: cells kept outside the grid along each axis, on both sides.
        lanes: values in a tile of the last axis.
        dtype: element type.
        margin: tiles beside those of the halo, for kernels that compute whole tiles there.
    """

    shape: tuple[int, ...]
    halo: tuple[int, ...]
    lanes: int
    dtype: np.dtype = field(compare=True)
    margin: int = 0

    @property
    def rows(self) -> tuple[int, ...]:
        """Cells along the leading stored axes; (1,) for a one-dimensional grid."""
        return self.shape[:-1] or (1,)

    @property
    def row_halo(self) -> tuple[int, ...]:
        return self.halo[:-1] or (0,)

    @property
    def tiles(self) -> int:
        """Tiles that hold the cells of one row."""
        return math.ceil(self.shape[-1] / self.lanes)

    @property
    def halo_tiles(self) -> int:
        return math.ceil(self.halo[-1] / self.lanes) + self.margin

    @property
    def stride(self) -> int:
        """Tiles from one row to the next: odd, so that neighbouring rows do not share cache sets (not multiples of 4 KiB)."""
        count = self.tiles + 2 * self.halo_tiles
        return count | 1 if self.lanes > 1 else count

    @property
    def strides(self) -> tuple[int, ...]:
        """Tiles from one row to the next along each leading stored axis."""
        rows = [n + 2 * h for n, h in zip(self.rows, self.row_halo, strict=True)]
        return tuple(math.prod(rows[axis + 1 :]) * self.stride for axis in range(len(rows)))

    @property
    def tile_count(self) -> int:
        """Tiles of a field, halo included."""
        return math.prod(n + 2 * h for n, h in zip(self.rows, self.row_halo, strict=True)) * self.stride

    @property
    def storage(self) -> tuple[int, ...]:
        """Shape of the storage: rows with halo, tiles, and lanes where there is more than one."""
        rows = tuple(n + 2 * h for n, h in zip(self.rows, self.row_halo, strict=True))
        return (*rows, self.stride, self.lanes) if self.lanes > 1 else (*rows, self.stride)

    @property
    def nbytes(self) -> int:
        return math.prod(self.storage) * self.dtype.itemsize

    def extended(self, stored: npt.NDArray) -> npt.NDArray:
        """View of the cells with their halo, shape + 2 halo; `stored` may have leading axes of its own."""
        lead = stored.ndim - len(self.storage)
        flat = stored.reshape(*stored.shape[:lead], *self.storage[: len(self.rows)], self.stride * self.lanes)
        first = self.halo_tiles * self.lanes - self.halo[-1]
        flat = flat[..., first : first + self.shape[-1] + 2 * self.halo[-1]]
        return flat[..., 0, :] if len(self.shape) == 1 else flat

    def cells(self, stored: npt.NDArray) -> npt.NDArray:
        """View of the cells, shape `shape`, without the halo."""
        inner = tuple(slice(h, h + n) for n, h in zip(self.shape, self.halo, strict=True))
        cut: tuple[Any, ...] = (Ellipsis, *inner)
        return self.extended(stored)[cut]


def zero_rules(ndim: int) -> Rules:
    """Zero outside the grid along every axis."""
    rules: Rules = ("zero",)
    return rules * ndim


def check_words(rules: Any) -> tuple[Rule, ...]:
    """The rules, one or one an axis, that a boundary names.

    Raises:
        ParameterError: an unknown rule.
    """
    if not isinstance(rules, (str, tuple, list)):
        raise ParameterError(f"boundary = {shown(rules)}, expected one of {', '.join(get_args(Rule))}, or one an axis; choose")
    found = (rules,) if isinstance(rules, str) else tuple(rules)
    for axis, rule in enumerate(found):
        one_of("boundary" if isinstance(rules, str) else f"boundary along axis {axis}", rule, get_args(Rule))
    return found


def check_rules(rules: Rule | Rules, ndim: int, location: Location) -> Rules:
    """One rule an axis; a single one stands for all.

    Raises:
        ParameterError: an unknown rule.
        ShapeError: a wrong number of rules, or a mirror along an axis on whose faces the field lies.
    """
    words = check_words(rules)
    found: Rules = words * ndim if isinstance(rules, str) else words
    if len(found) != ndim:
        raise ShapeError(f"boundary = {found} has {len(found)} entries, expected one rule, or {ndim} (one an axis); give those")
    for axis, rule in enumerate(found):
        if rule == "mirror" and location[axis]:
            raise ShapeError(
                f"boundary = 'mirror' along axis {axis} needs values at cell centres, this field's lie on the faces; use zero (a wall)"
            )
    return found


def check_halo(shape: tuple[int, ...], halo: tuple[int, ...]) -> None:
    """Raise `ShapeError` if a halo is wider than the grid that it is filled from."""
    for axis, (n, h) in enumerate(zip(shape, halo, strict=True)):
        if n < h:
            raise ShapeError(
                f"the grid has {n} cells along axis {axis}, fewer than the stencil's reach of {h}; enlarge it or lower the order"
            )


def extend(extended: Array, halo: tuple[int, ...], rules: Rules) -> None:
    """Fill the halo of `extended` (shape + 2 halo) from its cells, axis by axis from the last, in place."""
    for axis in reversed(range(extended.ndim)):
        h, view = halo[axis], np.moveaxis(extended, axis, 0)
        n = view.shape[0] - 2 * h
        if not h:
            continue
        if rules[axis] == "zero":
            view[:h], view[h + n :] = 0, 0
        elif rules[axis] == "periodic":
            view[:h], view[h + n :] = view[n : h + n], view[h : 2 * h]
        else:
            view[:h], view[h + n :] = view[h : 2 * h][::-1], view[n : h + n][::-1]


def extend_transpose(extended: Array, halo: tuple[int, ...], rules: Rules) -> None:
    """Exact transpose of `extend`: add what lies in the halo to the cells it was copied from, and clear the halo."""
    for axis in range(extended.ndim):
        h, view = halo[axis], np.moveaxis(extended, axis, 0)
        n = view.shape[0] - 2 * h
        if not h:
            continue
        if rules[axis] == "periodic":
            view[n : h + n] += view[:h]
            view[h : 2 * h] += view[h + n :]
        elif rules[axis] == "mirror":
            view[h : 2 * h] += view[:h][::-1]
            view[n : h + n] += view[h + n :][::-1]
        view[:h], view[h + n :] = 0, 0
