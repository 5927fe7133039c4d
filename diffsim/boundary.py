"""Boundary rules: the values of a field outside the grid, one rule for each side.

A rule defines the values of cells beyond a side (ghost cells): a combination of cells inside on the same line, plus a given value times a
weight. Everything else is derived from that, here and in the kernels: filling a halo, its transpose, and its tangent. To add a rule,
write a subclass of `Rule`.
"""

from __future__ import annotations

import dataclasses
import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any, TypeAlias

import numpy as np

from diffsim.arguments import number, shown, whole
from diffsim.errors import ParameterError, ShapeError
from diffsim.typing import Array

Value: TypeAlias = float | str
"""The given value of a rule: a number, or the name of a coefficient, a profile or a series of the equation."""

Combination: TypeAlias = tuple[tuple[tuple[int, float], ...], float]
"""Cells inside, counted from the side, with their weights; and the weight of the rule's value."""

HIGHEST_EXTRAPOLATION = 3
"""Highest order. It reads one cell more, and kernels allow cells beyond a side to depend on four."""


@dataclass(frozen=True)
class Place:
    """The side on which a rule acts.

    Attributes:
        axis: the axis across the side.
        high: whether it is the side after the last cell.
        face: whether the field's values lie on the faces across this axis. The last one then lies on the high side itself, and none on
            the low side.
        sizes: the width of all cells along the axis, or of each, from the side inward; cells outside are mirror images of those inside.
    """

    axis: int
    high: bool
    face: bool = False
    sizes: float | tuple[float, ...] = 1.0

    def image(self, q: int) -> int:
        """The cell as far inside as the ghost cell `q` is outside; -1: the ghost cell lies on the side itself."""
        return q if not self.face else q + 1 if self.high else q - 1

    def inside(self, p: int) -> float:
        """Distance from the side to the value of cell `p` inside; 0 for p = -1."""
        if p < 0:
            return 0.0
        whole = p if not self.face or self.high else p + 1
        if isinstance(self.sizes, tuple):
            return sum(self.sizes[:whole]) + (0.0 if self.face else 0.5 * self.sizes[whole])
        return (whole if self.face else whole + 0.5) * self.sizes

    def outside(self, q: int) -> float:
        """Distance from the side to the ghost cell `q`."""
        return self.inside(self.image(q))


class Rule(ABC):
    """The values of a field beyond one side of the grid."""

    @property
    def given(self) -> Value:
        """Its given value; 0 if it has none."""
        return 0.0

    @property
    def named(self) -> bool:
        """Whether its value is the name of an input."""
        return isinstance(self.given, str)

    @property
    def joins(self) -> bool:
        """Whether it joins the two ends of an axis. Then either both sides have it, or none."""
        return False

    @abstractmethod
    def ghost(self, q: int, n: int, place: Place) -> Combination:
        """The value of ghost cell `q` on a line of `n` cells; 0 is the first cell beyond the side."""

    def edge(self, now: Any, place: Place, dt: float, given: Any) -> Any:
        """The next value of the outermost cell of the grid, which replaces that of the step; None: the step's value is used.

        Args:
            now: the field before the step, a symbol; None for a stage of a step.
            place: the side.
            dt: time step.
            given: the value of the rule, a number or a symbol.
        """
        return None


@dataclass(frozen=True)
class Zero(Rule):
    """0 beyond the side: "zero"."""

    def ghost(self, q: int, n: int, place: Place) -> Combination:
        return (), 0.0


@dataclass(frozen=True)
class Periodic(Rule):
    """The other end of the grid: "periodic". Both sides of an axis have it, or none."""

    @property
    def joins(self) -> bool:
        return True

    def ghost(self, q: int, n: int, place: Place) -> Combination:
        return ((n - 1 - q, 1.0),), 0.0


@dataclass(frozen=True)
class Antiperiodic(Rule):
    """Minus the other end of the grid, u(x + L) = -u(x). Both sides of an axis have it, or none."""

    @property
    def joins(self) -> bool:
        return True

    def ghost(self, q: int, n: int, place: Place) -> Combination:
        return ((n - 1 - q, -1.0),), 0.0


class Condition(Rule):
    """a u + b ∂u/∂n = value on the side, n pointing outward, to second order.

    A ghost cell and the cell as far inside have the mean and the slope of the side between them. Where the values lie on faces, the last
    one lies on the high side. With b = 0 the rule gives it, otherwise the step computes it. None lies on the low side, so the
    value there follows from the two cells next to it.
    """

    @property
    @abstractmethod
    def weights(self) -> tuple[float, float]:
        """a and b."""

    def ghost(self, q: int, n: int, place: Place) -> Combination:
        a, b = self.weights
        image, distance = place.image(q), place.outside(q)
        if image < 0:
            slope = _one_sided([place.inside(p) for p in range(min(n, 2))])
            on_side = a + b * slope[0]
            return tuple((cell, -b * weight / on_side) for cell, weight in enumerate(slope[1:]) if b), 1 / on_side
        half, across = a / 2, b / (2 * distance)
        total = half + across
        return ((image, (across - half) / total),), 1 / total

    def edge(self, now: Any, place: Place, dt: float, given: Any) -> Any:
        a, b = self.weights
        return given / a if place.face and place.high and not b else None


def _one_sided(distances: list[float]) -> tuple[float, ...]:
    """Weights of the outward slope on a side: of the value there, and of one or two cells at these distances from it."""
    near, *others = distances
    if not others:
        return 1 / near, -1 / near
    (far,) = others
    return 1 / near + 1 / far, -far / (near * (far - near)), near / (far * (far - near))


@dataclass(frozen=True)
class Dirichlet(Condition):
    """u = value on the side.

    Args:
        value: in the unit of the field: a number, or the name of a coefficient, a profile or a series of the equation that does not vary
            across the side.
    """

    value: Value

    def __post_init__(self) -> None:
        _check_value("value of Dirichlet", self.value)

    @property
    def weights(self) -> tuple[float, float]:
        return 1.0, 0.0

    @property
    def given(self) -> Value:
        return self.value


@dataclass(frozen=True)
class Neumann(Condition):
    """∂u/∂n = flux on the side, n pointing out of the grid.

    Args:
        flux: in the unit of the field over that of the grid's spacing; a number or a name, see `Dirichlet`.
    """

    flux: Value

    def __post_init__(self) -> None:
        _check_value("flux of Neumann", self.flux)

    @property
    def weights(self) -> tuple[float, float]:
        return 0.0, 1.0

    @property
    def given(self) -> Value:
        return self.flux


@dataclass(frozen=True)
class Robin(Condition):
    """a u + b ∂u/∂n = value on the side, n pointing out of the grid.

    Args:
        a, b: numbers of one sign, not both 0. Heat that leaves to air of temperature T: a = h, b = k, value = h T, with a heat transfer
            coefficient h and a conductivity k.
        value: of the sum; a number or a name, see `Dirichlet`.
    """

    a: float
    b: float
    value: Value

    def __post_init__(self) -> None:
        for name in ("a", "b"):
            number(f"{name} of Robin", getattr(self, name), "a finite number", math.isfinite, "correct it")
        if self.a * self.b < 0 or not (self.a or self.b):
            raise ParameterError(
                f"Robin has a = {self.a:g} and b = {self.b:g}, expected numbers of one sign, not both 0; "
                "correct the signs (n points outward)"
            )
        _check_value("value of Robin", self.value)

    @property
    def weights(self) -> tuple[float, float]:
        return float(self.a), float(self.b)

    @property
    def given(self) -> Value:
        return self.value


@dataclass(frozen=True)
class OddImage(Condition):
    """The field inside, reflected about the side with a change of sign: a free surface for pressure, a wall for the velocity across it."""

    @property
    def weights(self) -> tuple[float, float]:
        return 1.0, 0.0


@dataclass(frozen=True)
class EvenImage(Condition):
    """The field inside, reflected about the side: no flux through it, "mirror"."""

    @property
    def weights(self) -> tuple[float, float]:
        return 0.0, 1.0


@dataclass(frozen=True)
class Extrapolate(Rule):
    """The polynomial through the cells next to the side continues beyond it.

    Args:
        order: order of the polynomial, 0 (the last cell's value) to 3.
    """

    order: int = 0

    def __post_init__(self) -> None:
        whole("order of Extrapolate", self.order, 0, HIGHEST_EXTRAPOLATION)

    def ghost(self, q: int, n: int, place: Place) -> Combination:
        if n <= self.order:
            raise ShapeError(
                f"Extrapolate({self.order}) along axis {place.axis} of {n} cells, expected at least {self.order + 1}; lower the order"
            )
        at, nodes = -place.outside(q), [place.inside(p) for p in range(self.order + 1)]
        weights = [math.prod((at - other) / (node - other) for other in nodes if other != node) for node in nodes]
        return tuple(enumerate(weights)), 0.0


@dataclass(frozen=True)
class Outflow(Rule):
    """Waves leave through the side with a given speed: ∂u/∂t + speed ∂u/∂n = 0 for the outermost cell of the grid.

    The first-order upwind difference replaces the step's value in that cell. Beyond it, the field is extrapolated linearly.

    Args:
        speed: outward, in cells' unit of length over that of time; speed dt <= spacing.

    Reference: Orlanski (1976), A simple boundary condition for unbounded hyperbolic flows, J. Comput. Phys. 21, 251-269,
        doi:10.1016/0021-9991(76)90023-1. Here with a given speed.
    """

    speed: float

    def __post_init__(self) -> None:
        number("speed of Outflow", self.speed, "a number of at least 0", lambda x: 0 <= x < math.inf, "give the speed outward")

    def ghost(self, q: int, n: int, place: Place) -> Combination:
        return Extrapolate(min(1, n - 1)).ghost(q, n, place)

    def edge(self, now: Any, place: Place, dt: float, given: Any) -> Any:
        courant = self.speed * dt / (place.inside(1) - place.inside(0))
        if courant > 1:
            raise ParameterError(
                f"Outflow({self.speed:g}) along axis {place.axis} moves {courant:.3g} cells a step, expected at most 1; lower dt"
            )
        return None if now is None else now - courant * (now - now.shifted(place.axis, -1 if place.high else 1))


WORDS: Mapping[str, Rule] = {"zero": Zero(), "periodic": Periodic(), "mirror": EvenImage()}
"""Short names of rules."""

Named: TypeAlias = "Rule | str"
Boundary: TypeAlias = "Named | tuple[Named | tuple[Named, Named], ...]"
"""A boundary as a user writes it: one rule, or one for each axis, where a pair is for the low and the high side."""


def _check_value(name: str, value: Any) -> None:
    if not (isinstance(value, str) and value.isidentifier()):
        number(name, value, "a finite number, or the name of an input", math.isfinite, "give one")


def rules_of(boundary: Any) -> tuple[tuple[Rule, Rule], ...]:
    """The rules of a boundary, a pair for each axis. A single rule applies to all axes.

    Raises:
        ParameterError: an entry is no rule, or a rule that joins both sides is on one side only.
    """
    entries = boundary if isinstance(boundary, (tuple, list)) else (boundary,)
    single = len(entries) == 1 and entries[0] is boundary
    found = []
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
        found.append((low, high))
    return tuple(found)


def _rule(given: Any, what: str) -> Rule:
    if isinstance(given, Rule):
        return given
    if isinstance(given, str) and given in WORDS:
        return WORDS[given]
    written = f"{given.__name__}(...)" if isinstance(given, type) and issubclass(given, Rule) else "'zero', or Dirichlet(1.0) for a value"
    raise ParameterError(
        f"{what} = {shown(given)}, expected one of {', '.join(WORDS)}, or a rule such as Dirichlet(value), or one an axis; write {written}"
    )


@dataclass(frozen=True)
class Ghost:
    """A cell outside the grid: its position along the axis (0 is the first cell of the grid), the cells that it combines, and a
    constant."""

    position: int
    cells: tuple[tuple[int, float], ...]
    constant: float = 0.0


@dataclass(frozen=True)
class Side:
    """A rule at its side.

    Attributes:
        rule: the rule.
        place: the side.
        homogeneous: whether its value counts as 0, as for a tangent.
    """

    rule: Rule
    place: Place
    homogeneous: bool = False

    @property
    def fills(self) -> bool:
        """Whether cells beyond it are nonzero."""
        return not isinstance(self.rule, Zero)

    def ghosts(self, n: int, reach: int) -> list[Ghost]:
        """The cells beyond it, up to `reach`.

        Farther out than the width of the grid there is no cell to copy. Only products with zero cotangents read such cells.
        """
        out = []
        for q in range(min(reach, n) if self.fills else 0):
            cells, weight = self.rule.ghost(q, n, self.place)
            inside = tuple((n - 1 - p if self.place.high else p, w) for p, w in cells if w)
            given = self.rule.given
            constant = 0.0 if self.homogeneous or isinstance(given, str) else weight * given
            out.append(Ghost(n + q if self.place.high else -1 - q, inside, constant))
        return out

    @property
    def named(self) -> bool:
        """Whether its value is the name of an input: steps add it where they read the field (`diffsim.stepping.sides`)."""
        return self.rule.named

    def shares(self, n: int, reach: int) -> list[tuple[float, float]]:
        """For each cell beyond it, up to `reach`: its value for a field that is 1 inside, and for a given value of 1."""
        found = [self.rule.ghost(q, n, self.place) for q in range(min(reach, n) if self.fills else 0)]
        return [(sum(weight for _, weight in cells), given) for cells, given in found]

    def linear(self) -> Side:
        """The rule of a tangent: without its constant."""
        return dataclasses.replace(self, homogeneous=True)


Sides: TypeAlias = tuple[Side, Side]
"""The low and the high side of an axis."""

Rules: TypeAlias = tuple[Sides, ...]
"""Both sides of each axis."""


def per_axis(boundary: Any, ndim: int) -> tuple[tuple[Rule, Rule], ...]:
    """The rules of a boundary on a grid of `ndim` axes.

    Raises:
        ParameterError: see `rules_of`.
        ShapeError: a wrong number of rules.
    """
    found = rules_of(boundary)
    if not isinstance(boundary, (tuple, list)):
        found *= ndim
    if len(found) != ndim:
        raise ShapeError(f"boundary = {shown(boundary)} has {len(found)} entries, expected one rule, or {ndim} (one an axis); give those")
    return found


def bound(boundary: Any, location: tuple[int, ...], sizes: tuple[Any, ...]) -> Rules:
    """A boundary of a field at its location, on a grid of cells of these sizes (`diffsim.grid.Grid.cell_sizes`).

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
    """A rule at its side. Rules that act alike on all sides compare equal."""
    return Side(rule, Place(place.axis, place.high) if rule.joins or isinstance(rule, Zero) else place)


def zero_rules(ndim: int) -> Rules:
    """Zero outside the grid along every axis."""
    return tuple((Side(Zero(), Place(axis, False)), Side(Zero(), Place(axis, True))) for axis in range(ndim))


def linear(rules: Rules) -> Rules:
    """The rules of a tangent."""
    return tuple((low.linear(), high.linear()) for low, high in rules)


def fills(sides: Sides) -> bool:
    """Whether cells beyond one of two sides are nonzero."""
    return any(side.fills for side in sides)


def ghosts(sides: Sides, n: int, reach: int) -> list[Ghost]:
    """The cells beyond both sides of an axis of `n` cells, up to `reach`."""
    low, high = (side.ghosts(n, reach) for side in sides)
    return [ghost for pair in zip_longest(low, _inside(high, low)) for ghost in pair if ghost is not None]


def _inside(high: list[Ghost], low: list[Ghost]) -> list[Ghost]:
    """Ghost cells of the high side. One as far outside as the grid is wide may depend on the first ghost cell of the low side."""
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
    """The largest distance from a side of the cells that a ghost cell combines; 1 if each depends on one cell."""
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
    for axis in reversed(range(extended.ndim)):
        h, view = halo[axis], np.moveaxis(extended, axis, 0)
        n = view.shape[0] - 2 * h
        if not h:
            continue
        view[:h], view[h + n :] = 0, 0
        for ghost in ghosts(rules[axis], n, h):
            parts = [weight * view[h + cell] for cell, weight in ghost.cells]
            view[h + ghost.position] = sum(parts[1:], parts[0]) + ghost.constant if parts else ghost.constant


def extend_transpose(extended: Array, halo: tuple[int, ...], rules: Rules) -> None:
    """Exact transpose of `extend`: add the halo to the cells that filled it, and clear the halo."""
    for axis in range(extended.ndim):
        h, view = halo[axis], np.moveaxis(extended, axis, 0)
        n = view.shape[0] - 2 * h
        if not h:
            continue
        for ghost in ghosts(rules[axis], n, h):
            for cell, weight in ghost.cells:
                view[h + cell] += weight * view[h + ghost.position]
        view[:h], view[h + n :] = 0, 0
