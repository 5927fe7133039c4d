"""What all discontinuous Galerkin equations share: elements of cells, neighbours across faces, and the time step."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeAlias

import numpy as np

import diffsim.numpy as dnp
from diffsim import tile
from diffsim.arguments import one_of, shown, whole
from diffsim.errors import ParameterError, ShapeError
from diffsim.expr.symbol import Symbol
from diffsim.grid import Grid
from diffsim.simulation import host_stage
from diffsim.solvers.dg.element import COURANT, Element, reference_element
from diffsim.solvers.stability import check_common
from diffsim.stepping.equation import Equation
from diffsim.typing import Array

Side: TypeAlias = Literal["periodic", "wall", "outflow"]
Sides: TypeAlias = Side | Sequence[Side | tuple[Side, Side]]
"""A rule for all sides, or one for each axis, where a pair is for the low and the high side."""


class DGEquation(Equation):
    """A linear equation on elements of p + 1 cells along each axis.

    The values of a field at the centres of the cells of an element define a polynomial of degree p. A step takes its values at the
    Gauss-Legendre nodes, does all work of an element there in a tile program (`diffsim.tile`), and ends with values at the centres. In
    time it is the Runge-Kutta method with s = p + 1 stages that has order p + 1 for linear equations uₜ = L u:

        w₀ = uⁿ,   wₖ = uⁿ + dt / (s + 1 - k) L wₖ₋₁,   uⁿ⁺¹ = wₛ

    Attributes:
        SIDES: the rules that the equation knows, each with what the value outside a face is in terms of that inside: a factor for each
            quantity that `traces` gives an axis.
    """

    SIDES: Mapping[str, tuple[float, ...]]

    def __init__(self, grid: Grid, dt: float, order: int, boundary: Sides) -> None:
        check_common(grid, dt)
        if grid.ndim > 2:
            raise ParameterError(f"grid with {grid.ndim} axes, expected 1 or 2; elements are intervals or rectangles")
        self.order = whole("order", order, min(COURANT), max(COURANT), "give the degree of the polynomials")
        self.grid, self.dt = grid, dt
        self.nodes = order + 1
        for axis, cells in enumerate(grid.shape):
            if cells % self.nodes:
                below = cells - cells % self.nodes
                raise ShapeError(
                    f"grid has {cells} cells along {grid.axes[axis]}, expected a multiple of order + 1 = {self.nodes}, the cells of an "
                    f"element; take {below or self.nodes} or {below + self.nodes}"
                )
        self.widths = tuple(self.nodes * h for h in grid.spacing)
        self.sides = sides_of(boundary, grid, tuple(self.SIDES))

    @property
    def rules(self) -> tuple[str, ...]:
        """The rule of `Variable` for each axis, which receivers in the outermost half of a cell use."""
        return tuple("periodic" if low == "periodic" else "mirror" for low, _ in self.sides)

    def weights(self) -> Array:
        """Weights of the cells for integrals over the grid: (weights * u).sum(), m or m², shape of the grid. Polynomials are exact."""
        element = reference_element(self.order)
        along = [np.tile(h * element.centre_weights, cells // self.nodes) for h, cells in zip(self.widths, self.grid.shape, strict=True)]
        return along[0] if len(along) == 1 else np.outer(*along)

    def steps_of(self, states: Sequence[Symbol], coefficients: Sequence[Symbol]) -> tuple[Symbol, ...]:
        """The states one step later."""
        count = len(states)

        def advance(*cells: Any) -> Any:
            found = self.advance(cells[:count], cells[count:])
            return found if count > 1 else found[0]

        found = host_stage(advance, (*states, *coefficients), list(states), outputs=count)
        return found if count > 1 else (found,)

    def advance(self, states: Sequence[Any], coefficients: Sequence[Any]) -> tuple[Any, ...]:
        """The array program of one step: arrays over the cells, the states and then the coefficients."""
        element, ndim = reference_element(self.order, states[0].dtype), self.grid.ndim

        def begin(u: Any, given: Any) -> Any:
            u = tuple(element.change(element.to_nodes, q, ndim) for q in u)
            given = self.at_nodes(element, given)
            return u, given, self.traces(element, u), self.given_traces(element, given)

        def stage(u: Any, w: Any, outside: Any, given: Any, given_outside: Any, dt: Any) -> Any:
            rates = self.rates(element, w, outside, given, given_outside)
            w = tuple(q + dt * rate for q, rate in zip(u, rates, strict=True))
            return w, self.traces(element, w)

        def end(w: Any) -> Any:
            return tuple(element.change(element.to_centres, q, ndim) for q in w)

        u, given, traces, given_traces = tile.map(begin)(tuple(map(self.split, states)), tuple(map(self.split, coefficients)))
        given_outside = self.outside(given_traces, dict.fromkeys(self.SIDES, (1.0,) * len(coefficients)))
        w = u
        for k in range(self.nodes):
            share = np.asarray(self.dt / (self.nodes - k), element.slope.dtype)
            outside = self.outside(traces, self.SIDES)
            w, traces = tile.map(stage, axes=(0, 0, 0, 0, 0, None))(u, w, outside, given, given_outside, share)
        return tuple(map(self.join, tile.map(end)(w)))

    @abstractmethod
    def at_nodes(self, element: Element, given: tuple[Any, ...]) -> tuple[Any, ...]:
        """The coefficients of an element as the rates use them, from those at the centres of its cells."""

    @abstractmethod
    def traces(self, element: Element, w: tuple[Any, ...]) -> Any:
        """For each axis the quantities that the other side of its faces needs: pairs of values at the low and at the high face."""

    @abstractmethod
    def given_traces(self, element: Element, given: tuple[Any, ...]) -> Any:
        """The same for the coefficients."""

    @abstractmethod
    def rates(self, element: Element, w: tuple[Any, ...], outside: Any, given: tuple[Any, ...], given_outside: Any) -> tuple[Any, ...]:
        """The rates of the states of an element at its nodes. `outside` has the traces of its neighbours, as `traces` arranges them."""

    def split(self, cells: Any) -> Any:
        """An array over the cells as one over elements, shape (elements, n, n) or (elements, n, 1)."""
        n = self.nodes
        if self.grid.ndim == 1:
            return cells.reshape(-1, n, 1)
        rows, columns = (size // n for size in self.grid.shape)
        return cells.reshape(rows, n, columns, n).transpose(0, 2, 1, 3).reshape(rows * columns, n, n)

    def join(self, tiles: Any) -> Any:
        """The inverse of `split`."""
        n = self.nodes
        if self.grid.ndim == 1:
            return tiles.reshape(-1)
        rows, columns = (size // n for size in self.grid.shape)
        return tiles.reshape(rows, columns, n, n).transpose(0, 2, 1, 3).reshape(self.grid.shape)

    def outside(self, traces: Any, factors: Mapping[str, tuple[float, ...]]) -> Any:
        """The values on the other side of each face, arranged as `traces`, whose arrays have the shape (elements, nodes of a face)."""
        return tuple(
            tuple(self._across(low, high, axis, [factors[side][number] for side in self.sides[axis]]) for number, (low, high) in enumerate(along))
            for axis, along in enumerate(traces)
        )

    def _across(self, low: Any, high: Any, axis: int, factors: Sequence[float]) -> tuple[Any, Any]:
        elements = tuple(size // self.nodes for size in self.grid.shape)
        shape = low.shape
        low, high = (each.reshape(*elements, *shape[1:]) for each in (low, high))
        first, last = ((slice(None),) * axis + (cut,) for cut in (slice(None, 1), slice(-1, None)))
        but_first, but_last = ((slice(None),) * axis + (cut,) for cut in (slice(1, None), slice(None, -1)))
        if self.sides[axis][0] == "periodic":
            below, above = high[last], low[first]
        else:
            below, above = low[first] * factors[0], high[last] * factors[1]
        beyond_low = dnp.concatenate([below, high[but_last]], axis=axis)
        beyond_high = dnp.concatenate([low[but_first], above], axis=axis)
        return beyond_low.reshape(shape), beyond_high.reshape(shape)


def sides_of(boundary: Sides, grid: Grid, known: Sequence[str]) -> tuple[tuple[str, str], ...]:
    """The rules of the low and the high side of each axis.

    Raises:
        ShapeError: not one rule or pair for each axis.
        ParameterError: an unknown rule, or "periodic" on one side of an axis only.
    """
    along = [boundary] * grid.ndim if isinstance(boundary, str) else boundary
    if not isinstance(along, (tuple, list)) or len(along) != grid.ndim:
        raise ShapeError(f"boundary = {shown(boundary)}, expected a rule, or {grid.ndim} of them, one an axis; write it like 'periodic'")
    found = []
    for axis, rule in enumerate(along):
        pair = (rule, rule) if isinstance(rule, str) else rule
        if not isinstance(pair, (tuple, list)) or len(pair) != 2:
            raise ShapeError(f"boundary of axis {axis} = {shown(rule)}, expected a rule, or a pair for the low and the high side")
        low, high = (one_of(f"boundary of axis {axis}", side, known) for side in pair)
        if (low == "periodic") != (high == "periodic"):
            raise ParameterError(f"boundary of axis {axis} = {shown(rule)}, expected 'periodic' on both sides or on none; correct it")
        found.append((low, high))
    return tuple(found)
