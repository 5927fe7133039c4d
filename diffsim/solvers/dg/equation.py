"""Base of all discontinuous Galerkin equations: elements of cells, neighbours across faces, and the time step."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

import diffsim.numpy as dnp
from diffsim.base.arguments import whole
from diffsim.base.messages import shown
from diffsim.boundary.wording import one_word, require_no_names
from diffsim.errors import ParameterError, ShapeError
from diffsim.expr.symbol import Symbol
from diffsim.mesh.grid import Grid
from diffsim.simulation.host_stage import host_stage
from diffsim.solvers.dg.element import COURANT, STAGES, Element, reference_element
from diffsim.solvers.parts.stability import check_common
from diffsim.stepping.declare.equation import Equation
from diffsim.tile.maps import map_fixed
from diffsim.typing import Array

Side: TypeAlias = Literal["periodic", "wall", "outflow"]
Indices: TypeAlias = NDArray[np.intp]
EachSide: TypeAlias = Sequence[Side | tuple[Side, Side]]
"""A rule for each axis, where a pair is for the low and the high side."""
Order: TypeAlias = Literal[1, 2, 3, 4]
"""Degree of the polynomials of an element."""


class DGEquation(Equation):
    """A linear equation on elements of p + 1 cells along each axis.

    The values of a field at the centres of the cells of an element define a polynomial of degree p. A step takes its values at the
    Gauss-Legendre nodes, does all work of an element there in a tile program (`diffsim.tile`), and ends with values at the centres. In
    time it is a Runge-Kutta method that has order p + 1 for linear equations uₜ = L u, with s = p + 1 stages (6 for p = 4):

        w₀ = uⁿ,   wₖ = uⁿ + bₖ dt L wₖ₋₁,   uⁿ⁺¹ = wₛ,   bₖ = 1 / (s + 1 - k)   (but b₁ = 7/40 for p = 4)

    Attributes:
        SIDES: the rules that the equation knows, each with the value outside a face in terms of that inside: a factor for each
            quantity that `traces` gives an axis.
    """

    SIDES: Mapping[str, tuple[float, ...]]

    def __init__(self, grid: Grid, dt: float, order: Order, boundary: Side | EachSide) -> None:
        dt = check_common(grid, dt)
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
        self.elements = tuple(cells // self.nodes for cells in grid.shape)
        self._neighbours, groups = neighbours_of(self.elements, self.sides)
        self._factors = None
        if groups:
            self._factors = np.ones((len(self._neighbours), len(self.SIDES["periodic"]), 1))
            for rule, traces in groups.items():
                self._factors[traces] = np.array(self.SIDES[rule])[:, None]
        self._made: dict[Any, tuple[Any, Any, Any]] = {}

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
            new = self.advance(cells[:count], cells[count:])
            return tuple(new) if count > 1 else new[0]

        new = host_stage(advance, (*states, *coefficients), list(states), outputs=count)
        return new if count > 1 else (new,)

    def advance(self, states: Sequence[Any], coefficients: Sequence[Any]) -> Any:
        """The array program of one step.

        Args:
            states: values at the centres of cells, arrays of the shape of the grid.
            coefficients: likewise.

        Returns:
            The states one step later, shape (states, *grid).
        """
        begin, stage, end = self._programs(states[0].dtype)
        u, known, traces, given_traces = begin(self.split(dnp.stack(states)), self.split(dnp.stack(coefficients)))
        given_outside = self.outside(given_traces)
        w = u
        for part in STAGES[self.order]:
            w, traces = stage(u, w, self.outside(traces, self._factors), known, given_outside, np.asarray(part * self.dt, u.dtype))
        return self.join(end(w))

    def _programs(self, dtype: Any) -> tuple[Any, Any, Any]:
        """The tile programs of a step, for values of a type."""
        if dtype not in self._made:
            element, ndim = reference_element(self.order, dtype), self.grid.ndim

            def begin(u: Any, given: Any) -> Any:
                u, medium = element.change(element.to_nodes, u, ndim), self.at_nodes(element, given)
                return u, medium, self.traces(element, u), self.given_traces(element, medium)

            def stage(u: Any, w: Any, outside: Any, given: Any, given_outside: Any, dt: Any) -> Any:
                w = u + dt * self.rates(element, w, outside, given, given_outside)
                return w, self.traces(element, w)

            def end(w: Any) -> Any:
                return element.change(element.to_centres, w, ndim)

            self._made[dtype] = map_fixed(begin), map_fixed(stage, axes=(0, 0, 0, 0, 0, None)), map_fixed(end)
        return self._made[dtype]

    @abstractmethod
    def at_nodes(self, element: Element, given: Any) -> Any:
        """The coefficients of an element as the rates use them, from those at the centres of its cells, shape (coefficients, n, n)."""

    @abstractmethod
    def traces(self, element: Element, w: Any) -> Any:
        """Traces of an element for its neighbours: shape (axes, 2, quantities, n), at the low and at the high face of each axis."""

    @abstractmethod
    def given_traces(self, element: Element, given: Any) -> Any:
        """The same of the coefficients, with one quantity."""

    @abstractmethod
    def rates(self, element: Element, w: Any, outside: Any, given: Any, given_outside: Any) -> Any:
        """The rates of the states of an element at its nodes, shape (states, n, n). `outside` has the traces of its neighbours."""

    def split(self, cells: Any) -> Any:
        """Fields over the cells, shape (fields, *grid), as fields of elements, shape (elements, fields, n, n), or (.., n, 1) on a line."""
        n, fields = self.nodes, cells.shape[0]
        if self.grid.ndim == 1:
            return cells.reshape(fields, -1, n).transpose(1, 0, 2)[..., None]
        rows, columns = self.elements
        return cells.reshape(fields, rows, n, columns, n).transpose(1, 3, 0, 2, 4).reshape(-1, fields, n, n)

    def join(self, tiles: Any) -> Any:
        """The inverse of `split`."""
        n, fields = self.nodes, tiles.shape[1]
        if self.grid.ndim == 1:
            return tiles[..., 0].transpose(1, 0, 2).reshape(fields, -1)
        rows, columns = self.elements
        return tiles.reshape(rows, columns, fields, n, n).transpose(2, 0, 3, 1, 4).reshape(fields, *self.grid.shape)

    def outside(self, traces: Any, factors: Array | None = None) -> Any:
        """The traces on the other side of each face, shape (elements, axes, 2, quantities, n) as those given.

        Args:
            traces: of all elements.
            factors: of the quantities at each face, shape (elements * axes * 2, quantities, 1).
        """
        outer = traces.reshape(-1, *traces.shape[-2:])[self._neighbours]
        return (outer if factors is None else outer * factors.astype(traces.dtype)).reshape(traces.shape)


def neighbours_of(elements: tuple[int, ...], sides: Sequence[tuple[str, str]]) -> tuple[Indices, dict[str, Indices]]:
    """For each element, axis and face the number of the trace on the other side, and for each rule the traces that it makes.

    Traces are counted by element, axis and face. Beyond a side that is not periodic the trace is made of that inside.
    """
    own = np.arange(math.prod(elements) * len(elements) * 2).reshape(*elements, len(elements), 2)
    neighbours, ruled = np.empty_like(own), dict[str, Indices]()
    for axis, pair in enumerate(sides):
        for face, (rule, step) in enumerate(zip(pair, (1, -1), strict=True)):
            neighbours[..., axis, face] = np.roll(own[..., axis, 1 - face], step, axis)
            if rule != "periodic":
                edge = np.take(own, -face, axis)[..., axis, face].ravel()  # of the first or the last elements
                neighbours.reshape(-1)[edge] = edge
                ruled[rule] = np.append(ruled.get(rule, edge[:0]), edge)
    return neighbours.reshape(-1), ruled


def sides_of(boundary: Side | EachSide, grid: Grid, known: Sequence[str]) -> tuple[tuple[str, str], ...]:
    """The rules of the low and the high side of each axis.

    Raises:
        ShapeError: not one rule or pair for each axis.
        ParameterError: an unknown rule, or "periodic" on one side of an axis only.
    """
    require_no_names("boundary", boundary, grid.axes)
    along = [boundary] * grid.ndim if isinstance(boundary, str) else boundary
    if not isinstance(along, (tuple, list)) or len(along) != grid.ndim:
        raise ShapeError(f"boundary = {shown(boundary)}, expected a rule, or {grid.ndim} of them, one an axis; write it like 'periodic'")
    sides = []
    for axis, rule in enumerate(along):
        pair = (rule, rule) if isinstance(rule, str) else rule
        if not isinstance(pair, (tuple, list)) or len(pair) != 2:
            raise ShapeError(f"boundary of axis {axis} = {shown(rule)}, expected a rule, or a pair for the low and the high side")
        low, high = (one_word(f"boundary of axis {axis}", side, known) for side in pair)
        if (low == "periodic") != (high == "periodic"):
            raise ParameterError(f"boundary of axis {axis} = {shown(rule)}, expected 'periodic' on both sides or on none; correct it")
        sides.append((low, high))
    return tuple(sides)
