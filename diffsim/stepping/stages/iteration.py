"""Newton's method on the host, for residuals that are expressions of one unknown field or several, and of stored fields."""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from diffsim.base.arguments import plural
from diffsim.boundary import Rules, zero_rules
from diffsim.errors import ConvergenceError, SingularError
from diffsim.expr.evaluate import evaluate, inner, pad
from diffsim.expr.graph import Node, ordered, reads
from diffsim.linear import CoupledSystem, Entry, System, solutions
from diffsim.stepping.ir.names import Title
from diffsim.typing import Array

TOLERANCE = {np.dtype(np.float64): 1e-12, np.dtype(np.float32): 1e-7}
"""Default tolerance of the residual."""
LINEAR = 1e-4
"""Tolerance of iterative solvers for the linear systems of an iteration. The next iteration corrects the remaining error."""
HALVINGS = 30
"""Most halvings of a step that does not lower the residual."""
ENOUGH = 1e-4
"""A step must lower the residual by at least this part of the decrease of a linear residual."""

SLOW = (0.15, 0.6)
"""By this factor a full step lowers the residual where the derivative has no inverse at the solution: 1/4 at a double root, up to 1/e at
one of high order. Elsewhere the last steps lower it by far more."""
STEADY_FALLS = 3
"""So many such steps in a row are no accident."""
SHARP = 1e-6
"""A larger tolerance may end an iteration before its quick part."""

REMEDY = {
    False: "start from a closer guess, take a smaller time step, or raise tolerance or iterations",
    True: "start from a closer initial state, such as the solution for a weaker nonlinearity, which is raised in steps, or raise tolerance "
    "or iterations",
}
"""Remedies where an iteration does not end; True: of a steady problem."""
GUESS = {False: "give another guess=", True: "give another initial state, which is the guess"}
"""Remedies where it cannot begin."""

OPERATORS = {"div": "quotient", "mul": "product", "add": "sum", "sub": "difference", "pow": "power"}
"""Names of operations in messages, where they differ from those of the functions."""
MOST_READS = 3
"""Most values of unknowns in a message about one operation."""


@dataclass(frozen=True)
class Residual:
    """Expressions that a solution makes 0 at every cell, one for each unknown field.

    Attributes:
        unknowns: names of the unknown fields.
        values: the expressions. They read the unknowns in a stencil, and stored fields at the cell itself.
        sizes: the sum of the magnitudes of the terms of each.
        weights: the derivative of a value with respect to an unknown at an offset of the stencil.
        fields: names of the stored fields.
        names: of the unknowns, for messages.
    """

    unknowns: tuple[str, ...]
    values: tuple[Node, ...]
    sizes: tuple[Node, ...]
    weights: dict[Entry, Node]
    fields: tuple[str, ...]
    names: tuple[str, ...] = ()

    @functools.cached_property
    def reach(self) -> tuple[int, ...]:
        """The largest offset at which they read an unknown, along each axis."""
        read = reads(self.values)
        offsets = [offset for name in self.unknowns for offset in read.get(name, ())]
        return tuple(max(map(abs, along)) for along in zip(*offsets, strict=True))


@dataclass(frozen=True)
class State:
    """The state of an iteration.

    Attributes:
        x: the unknowns.
        residuals: the residuals of x.
        weights: a number, or an array over the cells, for each entry of the matrix.
        sizes: the largest sum of the magnitudes of the terms of each residual.
    """

    x: list[Array]
    residuals: list[Array]
    weights: list[float | Array]
    sizes: list[float]

    @functools.cached_property
    def largest(self) -> list[float]:
        """The largest residual of a cell, of each equation."""
        return [float(np.abs(residual).max()) for residual in self.residuals]

    def norm(self, sizes: Sequence[float]) -> float:
        """The Euclidean norm of the residuals of all cells, each equation in units of its size, rounded to a power of 2."""
        total = 0.0
        with np.errstate(over="ignore"):
            for residual, size in zip(self.residuals, sizes, strict=True):
                total += float(np.sum(np.ldexp(residual, -math.frexp(size)[1]) ** 2))
        return math.sqrt(total)

    @property
    def finite(self) -> bool:
        return all(np.isfinite(each).all() for each in (*self.residuals, *self.weights))

    def met(self, tolerance: float) -> bool:
        """True if no residual is larger than `tolerance` of its size."""
        return all(largest <= tolerance * size for largest, size in zip(self.largest, self.sizes, strict=True))

    def worst(self) -> tuple[int, float]:
        """The equation whose residual is largest, relative to its size, and that residual."""
        relative = [largest / size if size else largest and math.inf for largest, size in zip(self.largest, self.sizes, strict=True)]
        number = max(range(len(relative)), key=relative.__getitem__)
        return number, relative[number]


@dataclass(frozen=True)
class Iteration:
    """A host function: (guesses, stored fields) -> the unknowns for which the residuals are 0. It computes in f64.

    Attributes:
        residual: the residuals as functions of the unknowns and the fields.
        rules: boundary rules of each unknown.
        system: the linear system of a step.
        tolerance: largest residual of a cell, relative to the largest sum of the magnitudes of its terms; None: by the type of the guess.
        most: largest number of iterations.
        title: its name in messages.
    """

    residual: Residual
    rules: tuple[Rules, ...]
    system: System | CoupledSystem
    tolerance: float | None
    most: int
    title: Title = field(default=Title("newton"), compare=False)

    def __call__(self, *cells: Array) -> list[Array]:
        count = len(self.residual.unknowns)
        guesses, fields = cells[:count], cells[count:]
        tolerance = self.tolerance or TOLERANCE[guesses[0].dtype]
        reach = self.residual.reach
        around = {
            name: pad(values.astype(float), reach, zero_rules(values.ndim))
            for name, values in zip(self.residual.fields, fields, strict=True)
        }
        now = self._at([guess.astype(float) for guess in guesses], around)
        steady = bool(self.title.steady)
        if not now.finite:
            raise ConvergenceError(f"expected a finite residual and derivative at the guess, got {self._cause(now.x, around)}")
        falls: list[float] = []  # of the residual, by full steps in a row
        for number in range(self.most + 1):
            met = now.met(tolerance)
            if met and (number or not any(now.largest)):  # a good guess is still improved, or slow changes would be lost step by step
                if tolerance <= SHARP and _is_slow(falls):
                    raise SingularError(
                        f"expected a solution at which the residual has a derivative with an inverse, got {_slow(falls)}: "
                        "there it has no gradient and few digits; change the residual or its inputs so that the solution is a simple one"
                    )
                return now.x
            step = self._step(now, around, number) if number < self.most else None
            if step is None:
                if met:
                    return now.x
                break
            after, part = step
            before = now.norm(now.sizes)
            falls = [*falls, after.norm(now.sizes) / before] if part == 1 and before else []
            now = after
        equation, left = now.worst()
        slow = f", with {_slow(falls)}" if _is_slow(falls) else ""
        where = f" in the equation of {self.residual.names[equation]}" if count > 1 else ""
        raise ConvergenceError(
            f"expected a residual of at most {tolerance:.1e} of its terms, got {left:.1e}{where} after "
            f"{plural(number, 'iteration')}{slow}; {REMEDY[steady]}"
        )

    def _extended(self, x: list[Array]) -> dict[str, Array]:
        """The unknowns with their values outside the grid."""
        reach = self.residual.reach
        return {name: pad(own, reach, rules) for name, own, rules in zip(self.residual.unknowns, x, self.rules, strict=True)}

    def _cause(self, x: list[Array], around: dict[str, Array]) -> str:
        """The first operation that has no finite value at the guess, with its operands there, and the remedy."""
        residual, shape = self.residual, x[0].shape
        fields = {**around, **self._extended(x)}
        roots = {f"the residual of {name}": node for name, node in zip(residual.names, residual.values, strict=True)}
        for (row, column, _), node in residual.weights.items():
            roots.setdefault(f"the derivative of the residual of {residual.names[row]} for {residual.names[column]}", node)
        names = dict(zip(residual.unknowns, residual.names, strict=True))
        for where, root in roots.items():
            nodes = ordered([root])
            with np.errstate(all="ignore"):
                values = dict(zip((n.id for n in nodes), evaluate(nodes, fields, shape, residual.reach), strict=True))
            for node in nodes:
                if not (fine := np.isfinite(values[node.id])).all():
                    cell = np.unravel_index(int(np.argmin(fine)), shape)
                    alone = node.op == "read" and node.data[0] not in names
                    remedy = "correct the fields that it is computed of" if alone else GUESS[bool(self.title.steady)]
                    return f"{at_cell(node, values, cell, names)} in cell {tuple(map(int, cell))}, in {where}; {remedy}"
        raise AssertionError("a value is not finite")

    def _at(self, x: list[Array], around: dict[str, Array]) -> State:
        residual, reach, shape = self.residual, self.residual.reach, x[0].shape
        unknowns = self._extended(x)
        extended = [*unknowns.values()]
        roots = [*residual.values, *residual.sizes, *residual.weights.values()]
        count = len(x)
        with np.errstate(all="ignore"):  # values that are not finite are detected later
            results = evaluate(roots, {**around, **unknowns}, shape, reach)
            values, terms, derivatives = results[:count], results[count : 2 * count], results[2 * count :]
            weights = [
                float(node.data) if node.op == "const" else values
                for node, values in zip(residual.weights.values(), derivatives, strict=True)
            ]
            sizes = [
                term
                + sum(
                    np.abs(weight * extended[column][inner(shape, reach, offset)])
                    for (row, column, offset), weight in zip(residual.weights, weights, strict=True)
                    if row == number
                )
                for number, term in enumerate(terms)
            ]
        return State(x, values, weights, [float(size.max()) for size in sizes])

    def _step(self, now: State, around: dict[str, Array], number: int) -> tuple[State, float] | None:
        """The next state and the part of a step of Newton's method that leads to it.

        That is a full step, or the longest halved one that lowers the residual; None if there is none.
        """
        try:
            changes = solutions(self.system, now.weights, [-residual for residual in now.residuals], given=False)
        except SingularError as error:
            raise SingularError(f"in iteration {number}: {error}; or {GUESS[bool(self.title.steady)]}") from error
        before = now.norm(now.sizes)
        for halving in range(HALVINGS + 1):
            part = 0.5**halving
            after = self._at([x + part * change for x, change in zip(now.x, changes, strict=True)], around)
            if after.finite and after.norm(now.sizes) <= (1 - ENOUGH * part) * before:
                return after, part
        return None

    def identity(self) -> str:
        return repr((self.system.identity(), self.tolerance, self.most, self.residual.fields))

    def room(self, cells: int) -> int:
        """Bytes of its linear system, of the system at the solution for tangents and adjoints, and of its working fields."""
        fields = 2 * len(self.residual.fields) + len(self.residual.weights) + 10 * len(self.residual.unknowns)
        return 2 * self.system.room(cells) + 8 * cells * fields


def _is_slow(falls: Sequence[float]) -> bool:
    """True if the last steps lowered the residual as at a root that is not simple."""
    return len(falls) >= STEADY_FALLS and all(SLOW[0] <= fall <= SLOW[1] for fall in falls[-STEADY_FALLS:])


def _slow(falls: Sequence[float]) -> str:
    fall = f"residuals that fall by a factor of {1 / falls[-1]:.2g} in each step"
    return f"{fall}, as far from a solution, or where their derivative has no inverse (a double root)"


def at_cell(node: Node, values: Mapping[int, Array], cell: tuple[Any, ...], names: Mapping[str, str]) -> str:
    """An operation with its operands and its value in a cell, such as "the log of T = 0, which is -inf". `names`: of fields."""

    def number(each: Node) -> str:
        return f"{float(values[each.id][cell]):.6g}"

    def read(each: Node) -> str:
        name = each.data[0]
        own = names.get(name, name if name.isidentifier() else f"a part without {', '.join(names.values())}")
        return f"{own}{' of a neighbour' if any(each.data[1]) else ''} = {number(each)}"

    if node.op == "read":
        return read(node)
    exponent = [f"{node.data:g}"] if isinstance(node.data, (int, float)) else []
    operands = [*(read(each) if each.op == "read" else number(each) for each in node.args), *exponent]
    inside = [each for each in ordered([node]) if each.op == "read" and each.data[0] in names and each not in node.args]
    where = f", where {', '.join(map(read, inside[:MOST_READS]))}" if inside else ""
    return f"the {OPERATORS.get(node.op, node.op)} of {' and '.join(operands)}, which is {number(node)}{where},"
