"""Rules where they act: which cells a rule fills beyond both sides of an axis, and the transpose of that."""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from inspect import signature
from itertools import zip_longest
from typing import Any, TypeAlias

import numpy as np

from diffsim.base.messages import shown
from diffsim.boundary.rules import KINDS, Periodic, Place, Rule, Zero
from diffsim.boundary.wording import alike_here, require_no_names
from diffsim.errors import ParameterError, ShapeError
from diffsim.typing import Array, IntArray

Named: TypeAlias = Rule | str
Boundary: TypeAlias = Named | tuple[Named | tuple[Named, Named], ...]
"""The rules outside the grid, as a user writes them: one rule, or one an axis, where a pair is for the low and the high side."""


def rules_of(boundary: Any) -> tuple[tuple[Rule, Rule], ...]:
    """The rules of a boundary, a pair an axis; a single one stands for any number of axes.

    Raises:
        ParameterError: something that is no rule, or on one side only a rule that joins both.
    """
    require_no_names("boundary", boundary)
    entries = boundary if isinstance(boundary, (tuple, list)) else (boundary,)
    single = len(entries) == 1 and entries[0] is boundary
    rules = []
    for axis, entry in enumerate(entries):
        what = "boundary" if single else f"boundary along axis {axis}"
        if isinstance(entry, (tuple, list)):
            if len(entry) != 2:
                raise ParameterError(f"{what} = {shown(entry)}, expected one rule, or two: (low side, high side); give those")
            low, high = (_rule(each, what) for each in entry)
        else:
            low = high = _rule(entry, what)
        if low != high and (low.joins or high.joins):
            word = type(low if low.joins else high).__name__.lower()
            raise ParameterError(f"{what} is {word} on one side, expected on both; write one rule for the axis")
        rules.append((low, high))
    return tuple(rules)


def words() -> tuple[str, ...]:
    """The kinds that need no numbers: a boundary may have their names in place of rules."""
    return tuple(kind for kind, rule in KINDS.items() if not _needed(rule))


def _needed(rule: type[Rule]) -> list[str]:
    """The arguments that a rule does not have without being given them."""
    return [name for name, argument in signature(rule).parameters.items() if argument.default is argument.empty]


def _rule(given: Any, what: str) -> Rule:
    if isinstance(given, Rule):
        return given
    kind = KINDS.get(given) if isinstance(given, str) else given if isinstance(given, type) and issubclass(given, Rule) else None
    if kind is not None and isinstance(given, str) and not _needed(kind):
        return kind()
    hint = alike_here(given, words()) or "choose" if kind is None else f"write {kind.__name__}({', '.join(_needed(kind))})"
    raise ParameterError(
        f"{what} = {shown(given)}, expected one of {', '.join(words())}, or a rule such as Dirichlet(value), or one an axis; {hint}"
    )


@dataclass(frozen=True)
class Ghost:
    """A cell outside the grid: its position along the axis (0 the first cell of the grid), the cells that it is made of, and a constant."""

    position: int
    cells: tuple[tuple[int, float], ...]
    constant: float = 0.0


@dataclass(frozen=True)
class Side:
    """A rule where it acts.

    Attributes:
        rule: the rule.
        place: where.
        homogeneous: its value counts as 0, as for a tangent.
        known_groups: ghost cells of an axis of which this is the low side, see `_ghost_groups`.
    """

    rule: Rule
    place: Place
    homogeneous: bool = False
    known_groups: dict[object, tuple[Side, tuple[_GhostGroup, ...]]] = field(default_factory=dict, init=False, compare=False, repr=False)

    @property
    def fills(self) -> bool:
        """True if there is anything beyond it."""
        return not isinstance(self.rule, Zero)

    def ghosts(self, n: int, reach: int) -> list[Ghost]:
        """The cells beyond it, as far as `reach`.

        Farther out than the grid is wide, there is nothing to copy: only products with cotangents that are 0 read it.
        """
        out = []
        for q in range(min(reach, n) if self.fills else 0):
            cells, weight = self.rule.ghost(q, n, self.place)
            inside = tuple((n - 1 - p if self.place.high else p, w) for p, w in cells if w)
            value = self.rule.given
            constant = 0.0 if self.homogeneous or isinstance(value, str) else weight * value
            out.append(Ghost(n + q if self.place.high else -1 - q, inside, constant))
        return out

    @property
    def named(self) -> bool:
        """True if its value is the name of an input: steps add it where they read the field (`diffsim.stepping.trace.side_profiles`)."""
        return self.rule.named

    @property
    def low_faces(self) -> str:
        """The state with the values on the side itself, where the field lies on faces and has none; "" if there is none."""
        return self.rule.low_faces if self.place.face and not self.place.high else ""

    def shares(self, n: int, reach: int) -> list[tuple[float, float]]:
        """Return for each cell beyond the side, as far as `reach`, its sum of weights of cells inside and its weight of the given value."""
        rows = [self.rule.ghost(q, n, self.place) for q in range(min(reach, n) if self.fills else 0)]
        return [(sum(weight for _, weight in cells), value) for cells, value in rows]

    def after_one_more(self) -> Side:
        """The side of the same axis where one more comes before it."""
        return dataclasses.replace(self, place=dataclasses.replace(self.place, axis=self.place.axis + 1))

    def linear(self) -> Side:
        """The rule of a tangent: without its constant."""
        return dataclasses.replace(self, homogeneous=True)


Sides: TypeAlias = tuple[Side, Side]
"""The low and the high side of an axis."""

Rules: TypeAlias = tuple[Sides, ...]
"""Both sides of each axis."""


def per_axis(boundary: Any, ndim: int) -> tuple[tuple[Rule, Rule], ...]:
    """The rules of a boundary of a grid of so many axes.

    Raises:
        ParameterError: see `rules_of`.
        ShapeError: a wrong number of rules.
    """
    rules = rules_of(boundary)
    if not isinstance(boundary, (tuple, list)):
        rules *= ndim
    if len(rules) != ndim:
        two = f", or ({shown(boundary)},) for the low and the high side" if ndim == 1 and len(rules) == 2 else ""
        raise ShapeError(
            f"boundary = {shown(boundary)} has {len(rules)} entries, expected one rule, or {ndim} (one an axis); give those{two}"
        )
    return rules


def bound(boundary: Any, location: tuple[int, ...], sizes: tuple[Any, ...]) -> Rules:
    """A boundary of a field at its location, on a grid of cells of these sizes (`diffsim.mesh.grid.Grid.cell_sizes`).

    Raises:
        ParameterError, ShapeError: see `per_axis`.
    """
    out = []
    for axis, ((low, high), at, size) in enumerate(zip(per_axis(boundary, len(sizes)), location, sizes, strict=True)):
        from_above = size[::-1] if isinstance(size, tuple) else size
        out.append((_side(low, Place(axis, False, bool(at), size)), _side(high, Place(axis, True, bool(at), from_above))))
    return tuple(out)


def unplaced(rules: Rules) -> tuple[tuple[Rule, Rule], ...]:
    """The rules without their places, as a boundary."""
    return tuple((low.rule, high.rule) for low, high in rules)


def _side(rule: Rule, place: Place) -> Side:
    """A rule at its place; those that act alike everywhere are equal."""
    return Side(rule, Place(place.axis, place.high) if rule.joins or isinstance(rule, Zero) else place)


@functools.cache
def zero_rules(ndim: int, joined: tuple[int, ...] = ()) -> Rules:
    """Zero outside the grid along every axis, but for those whose ends are joined: there the other end of the grid."""
    kinds = [Periodic() if axis in joined else Zero() for axis in range(ndim)]
    return tuple((Side(rule, Place(axis, False)), Side(rule, Place(axis, True))) for axis, rule in enumerate(kinds))


def after_one_more(rules: Rules) -> Rules:
    """The rules of the same axes after a first one, beyond which everything is zero."""
    (first,) = zero_rules(1)
    return (first, *((low.after_one_more(), high.after_one_more()) for low, high in rules))


def linear(rules: Rules) -> Rules:
    """The rules of a tangent."""
    return tuple((low.linear(), high.linear()) for low, high in rules)


def on_low_side(rules: Rules, axis: int) -> Rules:
    """The rules of the values on the low side of an axis: along other axes those of the field.

    Axes are extended from the last to the first. So given values of earlier axes already act on what the field has beyond this side.
    """
    earlier = linear(rules[:axis])
    return (*earlier, zero_rules(len(rules))[axis], *rules[axis + 1 :])


def fills(sides: Sides) -> bool:
    """True if there is anything beyond one of two sides."""
    return any(side.fills for side in sides)


def ghosts(sides: Sides, n: int, reach: int) -> list[Ghost]:
    """The cells beyond both sides of an axis of `n` cells, as far as `reach`."""
    low, high = (side.ghosts(n, reach) for side in sides)
    return [ghost for pair in zip_longest(low, _inside(high, low)) for ghost in pair if ghost is not None]


def _inside(high: list[Ghost], low: list[Ghost]) -> list[Ghost]:
    """Ghost cells of the high side; one as far outside as the grid is wide may be made of the first ghost cell of the low side."""
    out = []
    for ghost in high:
        within = tuple((cell, weight) for cell, weight in ghost.cells if cell >= 0)
        constant = ghost.constant
        for cell, weight in ghost.cells:
            if cell < 0 and low:
                within += tuple((other, weight * part) for other, part in low[0].cells)
                constant += weight * low[0].constant
        out.append(Ghost(ghost.position, within, constant))
    return out


def depth(sides: Sides, n: int, reach: int) -> int:
    """How far from a side the cells are on which a ghost cell depends together, at most; 1 where each depends on one."""
    several = [ghost for ghost in ghosts(sides, n, reach) if len(ghost.cells) > 1]
    return max((1 + cell if ghost.position < 0 else n - cell for ghost in several for cell, _ in ghost.cells), default=1)


def check_halo(shape: tuple[int, ...], halo: tuple[int, ...]) -> None:
    """Raise `ShapeError` if a halo is wider than the grid that it is filled from."""
    for axis, (n, h) in enumerate(zip(shape, halo, strict=True)):
        if n < h:
            raise ShapeError(
                f"the grid has {n} cells along axis {axis}, fewer than the stencil's reach of {h}; enlarge it or lower the order"
            )


def extend(extended: Array, halo: tuple[int, ...], rules: Rules) -> None:
    """Fill the halo of `extended` (shape + 2 halo) from its cells, axis by axis from the last, in place."""
    for view, h, groups in _axes(extended, halo, rules):
        if not groups or groups[0].count < 2 * h:
            view[:h] = view[view.shape[0] - h :] = 0
        for group in groups:
            if group.copied is not None:
                view[group.positions] = view[group.copied] + group.constants
                continue
            parts = [weights * view[cells] for cells, weights in group.parts]
            view[group.positions] = sum(parts[1:], parts[0]) + group.constants if parts else group.constants


Fill: TypeAlias = tuple[Array, Array, Array]
"""Cells, constants, and ghost cells that are the sums of both, as views."""


def fills_of(extended: Array, halo: tuple[int, ...], rules: Rules) -> list[Fill] | None:
    """The operations of `extend` as additions in views of the array, in order; None where ghost cells are no plain copies of cells.

    For an array that is extended again and again: `for part in fills_of(...): np.add(*part)`.
    """
    parts: list[Fill] = []
    for view, h, groups in _axes(extended, halo, rules):
        if not groups or groups[0].count < 2 * h:
            zero = np.zeros((), extended.dtype)
            parts += [(zero, zero, view[:h]), (zero, zero, view[view.shape[0] - h :])]
        for group in groups:
            if group.copied is None:
                return None
            order = np.argsort(group.positions)
            ghosts, cells, constants = group.positions[order], group.copied[order], group.constants[order]
            ends = [0, *(k for k in range(1, len(order)) if ghosts[k] - ghosts[k - 1] != 1), len(order)]
            for begin, end in itertools.pairwise(ends):
                step = int(cells[begin + 1] - cells[begin]) if end - begin > 1 else 1
                if not step or (np.diff(cells[begin:end]) != step).any():
                    return None
                last = int(cells[begin]) + step * (end - begin)
                source = view[int(cells[begin]) : last if last >= 0 else None : step]
                parts.append((source, constants[begin:end], view[int(ghosts[begin]) : int(ghosts[begin]) + end - begin]))
    return parts


def _axes(extended: Array, halo: tuple[int, ...], rules: Rules) -> Iterator[tuple[Array, int, Sequence[_GhostGroup]]]:
    """The axes with a halo, the last one first: a view with the axis in front, the width of its halo, and its ghost cells."""
    for axis in reversed(range(extended.ndim)):
        if h := halo[axis]:
            view = extended.swapaxes(0, axis) if axis else extended
            yield view, h, _ghost_groups(rules[axis], view.shape[0] - 2 * h, h, extended.dtype, view.ndim)


@dataclass(frozen=True)
class _GhostGroup:
    """Ghost cells of one number of parts, as indices of an array with halo along its first axis.

    Attributes:
        positions: the ghost cells.
        parts: for each part the cells and their weights.
        constants: the constants.
        copied: the cells, if there is one part whose weights are 1.
        count: ghost cells of all groups.
    """

    positions: IntArray
    parts: tuple[tuple[IntArray, Array], ...]
    constants: Array
    copied: IntArray | None
    count: int


def _ghost_groups(sides: Sides, n: int, h: int, dtype: np.dtype, ndim: int) -> tuple[_GhostGroup, ...]:
    """The ghost cells beyond both sides of an axis, by their number of parts. The low side keeps them for later calls."""
    (low, high), key = sides, (n, h, dtype, ndim)
    known = low.known_groups.get(key)
    if known is not None and known[0] is high:
        return known[1]
    grouped: dict[int, list[Ghost]] = {}
    for ghost in ghosts(sides, n, h):
        grouped.setdefault(len(ghost.cells), []).append(ghost)

    def column(values: Iterable[float]) -> Array:
        return np.array(list(values), dtype).reshape(-1, *(1,) * (ndim - 1))

    fills = []
    for count, members in grouped.items():
        positions = np.array([h + ghost.position for ghost in members])
        parts = [(np.array([h + g.cells[k][0] for g in members]), column(g.cells[k][1] for g in members)) for k in range(count)]
        copied = parts[0][0] if count == 1 and (parts[0][1] == 1).all() else None
        constants = column(ghost.constant for ghost in members)
        fills.append(_GhostGroup(positions, tuple(parts), constants, copied, sum(map(len, grouped.values()))))
    low.known_groups[key] = high, tuple(fills)
    return tuple(fills)


def extend_transpose(extended: Array, halo: tuple[int, ...], rules: Rules) -> None:
    """Exact transpose of `extend`: add the values in the halo to the cells that they were made of, and clear the halo."""
    for axis in range(extended.ndim):
        h, view = halo[axis], extended.swapaxes(0, axis)
        n = view.shape[0] - 2 * h
        if not h:
            continue
        for ghost in ghosts(rules[axis], n, h):
            for cell, weight in ghost.cells:
                view[h + cell] += weight * view[h + ghost.position]
        view[:h], view[h + n :] = 0, 0
