"""Newton's method on the host, for a residual that is an expression of one unknown field and of stored fields."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass

import numpy as np

from diffsim.boundary import zero_rules
from diffsim.errors import ConvergenceError, SingularError
from diffsim.expr.evaluate import evaluate, inner, pad
from diffsim.expr.graph import Node, Offset, reads
from diffsim.linear import System
from diffsim.typing import Array

TOLERANCE = {np.dtype(np.float64): 1e-12, np.dtype(np.float32): 1e-7}
"""Default tolerance of the residual."""
LINEAR = 1e-4
"""Tolerance of iterative solvers for the linear systems of an iteration. The next iteration corrects the remaining error."""
HALVINGS = 30
"""Most halvings of a step that does not lower the residual."""
ENOUGH = 1e-4
"""A step must lower the residual by at least this part of the decrease of a linear residual."""

REMEDY = "start from a closer guess=, take a smaller time step, or raise tolerance= or iterations="


@dataclass(frozen=True)
class Residual:
    """An expression that a solution makes 0 at every cell.

    Attributes:
        unknown: name of the unknown field.
        value: the expression. It reads the unknown in a stencil, and stored fields at the cell itself.
        size: the sum of the magnitudes of its terms.
        weights: its derivative with respect to the unknown at each offset of the stencil.
        fields: names of the stored fields.
    """

    unknown: str
    value: Node
    size: Node
    weights: dict[Offset, Node]
    fields: tuple[str, ...]

    @functools.cached_property
    def reach(self) -> tuple[int, ...]:
        """The largest offset at which it reads the unknown, along each axis."""
        return tuple(max(map(abs, along)) for along in zip(*reads([self.value])[self.unknown], strict=True))


@dataclass(frozen=True)
class State:
    """The state of an iteration.

    Attributes:
        x: the unknown.
        residual: the residual of x.
        weights: a number, or an array over the cells, for each offset.
        size: the largest sum of the magnitudes of a residual's terms.
    """

    x: Array
    residual: Array
    weights: list[float | Array]
    size: float

    @property
    def largest(self) -> float:
        """The largest residual of a cell."""
        return float(np.abs(self.residual).max())

    @property
    def norm(self) -> float:
        """The Euclidean norm of the residuals of all cells."""
        with np.errstate(over="ignore"):
            return math.sqrt(float(np.sum(self.residual**2)))

    @property
    def finite(self) -> bool:
        return bool(np.isfinite(self.residual).all() and all(np.isfinite(weight).all() for weight in self.weights))


@dataclass(frozen=True)
class Iteration:
    """A host function: (guess, stored fields) -> the unknown for which the residual is 0. It computes in f64.

    Attributes:
        residual: the residual as a function of the unknown and the fields.
        system: the linear system of a step.
        tolerance: largest residual of a cell, relative to the largest sum of the magnitudes of its terms; None: by the type of the guess.
        most: largest number of iterations.
    """

    residual: Residual
    system: System
    tolerance: float | None
    most: int

    def __call__(self, *cells: Array) -> list[Array]:
        guess, *fields = cells
        tolerance = self.tolerance or TOLERANCE[guess.dtype]
        reach = self.residual.reach
        around = {
            name: pad(values.astype(float), reach, zero_rules(guess.ndim))
            for name, values in zip(self.residual.fields, fields, strict=True)
        }
        now = self._at(guess.astype(float), around)
        if not now.finite:
            raise ConvergenceError("newton expected a finite residual and derivative at the guess, got others; give another guess=")
        for number in range(self.most + 1):
            met = now.largest <= tolerance * now.size
            if met and (number or not now.largest):  # a good guess is still improved, or slow changes would be lost step by step
                return [now.x]
            after = self._step(now, around, number) if number < self.most else None
            if after is None:
                if met:
                    return [now.x]
                break
            now = after
        raise ConvergenceError(
            f"newton expected a residual of at most {tolerance:.1e} of its terms, got {now.largest / now.size:.1e} after "
            f"{number} iterations; {REMEDY}"
        )

    def _at(self, x: Array, around: dict[str, Array]) -> State:
        residual, reach = self.residual, self.residual.reach
        extended = pad(x, reach, self.system.rules)
        roots = [residual.value, residual.size, *residual.weights.values()]
        with np.errstate(all="ignore"):  # values that are not finite are detected later
            value, terms, *derivatives = evaluate(roots, {**around, residual.unknown: extended}, x.shape, reach)
            weights = [
                float(node.data) if node.op == "const" else values
                for node, values in zip(residual.weights.values(), derivatives, strict=True)
            ]
            size = terms + sum(
                np.abs(weight * extended[inner(x.shape, reach, offset)]) for offset, weight in zip(residual.weights, weights, strict=True)
            )
        return State(x, value, weights, float(size.max()))

    def _step(self, now: State, around: dict[str, Array], number: int) -> State | None:
        """The next state: a full step of Newton's method, or the longest halved one that lowers the residual; None if there is none."""
        try:
            change = self.system.solve(now.weights, -now.residual, given=False)
        except SingularError as error:
            raise SingularError(
                f"in iteration {number} of newton: {error}. Another guess= may have a derivative with an inverse"
            ) from error
        for halving in range(HALVINGS + 1):
            part = 0.5**halving
            after = self._at(now.x + part * change, around)
            if after.finite and after.norm <= (1 - ENOUGH * part) * now.norm:
                return after
        return None

    def identity(self) -> str:
        return repr((self.system.identity(), self.tolerance, self.most, self.residual.fields))

    def room(self, cells: int) -> int:
        """Bytes of its linear system, of the system at the solution for tangents and adjoints, and of its working fields."""
        fields = 2 * len(self.residual.fields) + len(self.residual.weights) + 10
        return 2 * self.system.room(cells) + 8 * cells * fields
