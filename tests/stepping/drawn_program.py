"""The statements of a drawn step: stages, loops, systems and numbers of all cells, and the expressions that they are made of.

The same lines are drawn at each call, by the operations of diffsim or by those of another evaluation (`drawn_reference`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from tests.stepping.drawn_reference import TN, Decl

Place: TypeAlias = tuple[int, ...]
"""Where a value lies on the cell: 1 along each axis on whose upper face it is."""
KINDS = ("stage", "stage", "stage", "repeat", "repeat", "laps", "number", "number", "solve", "newton", "running", "host")
"""Kinds of statements. "laps" is a loop whose number of laps is a value of the step."""
ON_HOST = ("solve", "newton", "running", "host")
"""Those that are computed on the host, which take no field whose last face a rule gives."""
HERE = ("leaf", "total", "product", "quotient", "extremum", "choice", "function", "function")
NEARBY = ("shifted", "shifted", "laplacian", "centred", "staggered", "staggered", "limited")
OF_INPUTS = ("scaled", "along_a_line")
FUNCTIONS = ("sin", "cos", "tanh", "expit", "softplus", "erf", "arctan", "arcsinh")
LIMITERS = ("minmod", "van_leer", "mc", "superbee")
ON_THE_HOST: tuple[Callable[..., Any], ...] = (
    lambda np, a: np.tanh(a) * np.sum(a * a) / (a.numel() if np is TN else a.size),
    lambda np, a: np.cumsum(a, axis=-1) * 0.2,
    lambda np, a: np.flip(a, 0) * a,
    lambda np, a: np.sin(np.roll(a, 1, -1)) + np.mean(a, axis=0, keepdims=True),
)
"""Functions of a field, by diffsim.numpy and by torch."""


class Field(NamedTuple):
    """A value over the cells, and where it lies on them."""

    value: Any
    place: Place


class Line(NamedTuple):
    """An input that varies along one axis."""

    value: Any
    axis: int


class Scope:
    """Values that the statements of a step, or of the body of a loop, may read, and the generator by which they are drawn.

    Args:
        operations: those of diffsim, or of another evaluation.
        generator: draws all.
        fields: over the cells; statements add theirs.
        numbers: of all cells; likewise.
        lines: inputs along one axis.
    """

    def __init__(
        self, operations: Any, generator: np.random.Generator, fields: list[Field], numbers: list[Any], lines: Sequence[Line]
    ) -> None:
        self.operations, self.generator = operations, generator
        self.fields, self.numbers, self.lines = fields, numbers, lines
        self.ndim = len(fields[0].place)

    def below(self, stop: int) -> int:
        return int(self.generator.integers(stop))

    def chance(self, part: float) -> bool:
        return bool(self.generator.random() < part)

    def one(self, choices: Sequence[Any]) -> Any:
        return choices[self.below(len(choices))]

    # expressions

    def leaf(self, place: Place, fields: Sequence[Field] | None = None) -> Any:
        """A field, interpolated to a place."""
        value, at = self.one(self.fields if fields is None else fields)
        for axis in range(self.ndim):
            if at[axis] != place[axis]:
                value = self.operations.interpolate(value, axis, at)
                at = (*at[:axis], place[axis], *at[axis + 1 :])
        return value

    def bounded(self, value: Any) -> Any:
        which = self.below(4)
        return value / (1 + value * value) if which == 3 else self.operations.fn(("tanh", "sin", "arctan")[which], value)

    def expression(self, depth: int, place: Place, reach: int = 2) -> Any:
        """An expression of so many levels, which reads so many neighbours of neighbours."""
        kind = self.one((*HERE, *NEARBY, *OF_INPUTS, "plain")) if depth else "leaf"
        lacking = {"scaled": not self.numbers, "along_a_line": not self.lines}.get(kind, kind in NEARBY and not reach)
        if kind == "leaf":
            return self.leaf(place)
        if kind == "plain" or lacking:
            return 0.7 * self.expression(depth - 1, place, reach)
        return getattr(self, f"_{kind}")(lambda at=place, nearer=0: self.expression(depth - 1, at, reach - nearer), place)

    def _total(self, inner: Callable[..., Any], place: Place) -> Any:
        return inner() + inner()

    def _product(self, inner: Callable[..., Any], place: Place) -> Any:
        return inner() * inner()

    def _quotient(self, inner: Callable[..., Any], place: Place) -> Any:
        divisor = inner()
        return inner() / (1 + divisor * divisor)

    def _extremum(self, inner: Callable[..., Any], place: Place) -> Any:
        a, b = inner(), inner()
        return self.operations.min2(a, b) if self.chance(0.5) else self.operations.max2(a, b)

    def _choice(self, inner: Callable[..., Any], place: Place) -> Any:
        a, b = inner(), inner()
        condition = a > b
        if self.chance(0.4):
            condition = condition & ~(self.leaf(place) > 0.2)
        return self.operations.where(condition, inner(), 0.5 * a)

    def _function(self, inner: Callable[..., Any], place: Place) -> Any:
        function, value = self.operations.fn, inner()
        square = 1 + value * value
        choices: list[Callable[[], Any]] = [lambda: function(self.one(FUNCTIONS), value)] * 8
        choices += [
            lambda: abs(value),
            lambda: function(self.one(("sqrt", "cbrt", "log")), square),
            lambda: function("floor", 3 * value) + value,
            lambda: square ** function("tanh", self.leaf(place)),
            lambda: self.operations.arctan2(value, 1 + abs(self.leaf(place))),
        ]
        return self.one(choices)()

    def _shifted(self, inner: Callable[..., Any], place: Place) -> Any:
        return inner(nearer=1).shifted(self.below(self.ndim), self.one((-2, -1, 1, 2)))

    def _laplacian(self, inner: Callable[..., Any], place: Place) -> Any:
        return 0.2 * self.operations.laplacian(inner(nearer=1), order=self.one((2, 2, 4)))

    def _centred(self, inner: Callable[..., Any], place: Place) -> Any:
        return self.operations.diff_centred(inner(nearer=1), self.below(self.ndim), order=self.one((2, 4)))

    def _staggered(self, inner: Callable[..., Any], place: Place) -> Any:
        """From the other place along an axis."""
        axis = self.below(self.ndim)
        other = tuple(1 - at if k == axis else at for k, at in enumerate(place))
        value, which = inner(other, 1), self.generator.random()
        if which < 0.5:
            return self.operations.diff(value, axis, other, order=self.one((2, 2, 4)))
        return self.operations.interpolate(value, axis, other, order=self.one((2, 4))) if which < 0.8 else value.across(axis)

    def _limited(self, inner: Callable[..., Any], place: Place) -> Any:
        axis, value = self.below(self.ndim), inner(nearer=1)
        return self.operations.limiter(self.one(LIMITERS), value - value.shifted(axis, -1), value.shifted(axis, 1) - value)

    def _scaled(self, inner: Callable[..., Any], place: Place) -> Any:
        return inner() * self.one(self.numbers)

    def _along_a_line(self, inner: Callable[..., Any], place: Place) -> Any:
        value, axis = self.one(self.lines)
        return inner() + (self.operations.interpolate(value, axis, (0,) * self.ndim) if place[axis] else value)

    # statements

    def stage(self, value: Any, like: Decl) -> Any:
        return self.operations.stage(value, like.rules, like.loc)

    def moved(self, value: Any, part: float, depth: int, place: Place) -> Any:
        return value + part * self.bounded(self.expression(depth, place))

    def number(self, depth: int, place: Place, of: Sequence[str] = ("sum", "mean", "max", "min")) -> Any:
        return self.operations.fn("tanh", self.operations.red(self.one(of), self.bounded(self.expression(depth, place))))

    def loop(self, states: Sequence[Any], like: Decl, count: int, laps: Any = None) -> list[Any]:
        """A loop over one field or more of one place and one rule, whose body has statements of its own."""
        seed = self.below(1 << 30)
        around, numbers = list(self.fields), list(self.numbers)
        starts = [self.one((now, self.stage(self.moved(now, 0.2, 1, like.loc), like), now * 1.1)) for now in states]

        def body(*now: Any) -> list[Any]:
            known = around + [Field(value, like.loc) for value in now] * 2
            inner = Scope(self.operations, np.random.default_rng(seed), known, list(numbers), self.lines)
            return inner.lap(list(now), like)

        return self.operations.repeat(count, body, starts, [like] * len(starts), laps)

    def lap(self, now: list[Any], like: Decl) -> list[Any]:
        """The states after a lap."""
        for _ in range(self.below(3)):
            if self.chance(0.25):
                self.numbers.append(self.number(1, like.loc, ("sum", "max", "mean")))
                continue
            value = self.stage(self.bounded(self.expression(2, like.loc)), like)
            self.fields.append(Field(value, like.loc))
            if self.chance(0.4):
                now[self.below(len(now))] = value
        out = []
        for value in now:
            kept, staged = self.chance(0.15), self.chance(0.4)
            after = value if kept else self.moved(value, 0.2, 2, like.loc)
            out.append(self.stage(after, like) if staged and not kept else after)
        return out

    def solve(self, weight: Any, like: Decl) -> Any:
        """A linear system with the weight of a field."""
        part, laplacian = 0.2 * (1 + self.operations.fn("tanh", weight)), self.operations.laplacian
        operators: tuple[Callable[[Any], Any], ...] = (
            lambda x: x - 0.3 * laplacian(x),
            lambda x: x - part * laplacian(x),
            lambda x: (1 + part) * x - 0.2 * self.operations.diff_centred(x, 0),
            lambda x: x - 0.2 * laplacian(part * x),
        )
        right = self.bounded(self.expression(2, like.loc))
        return self.operations.solve(self.one(operators), right, like.rules, like.loc)

    def newton(self, weight: Any, guess: Any, like: Decl) -> Any:
        """A nonlinear equation with the weight of a field."""
        right = self.bounded(self.expression(2, like.loc))
        part, function = 0.1 * (1 + self.operations.fn("tanh", weight)), self.operations.fn
        residuals: tuple[Callable[[Any], Any], ...] = (
            lambda x: x + 0.3 * x**3 - part * self.operations.laplacian(x) - right,
            lambda x: x - 0.1 * self.operations.laplacian(function("sin", x)) - right,
            lambda x: x + 0.3 * function("tanh", x) * part - 0.1 * self.operations.diff_centred(x * x, 0) - right,
        )
        return self.operations.newton(self.one(residuals), guess, like.rules, like.loc)

    def running_sum(self, like: Decl) -> Any:
        value = 0.2 * self.bounded(self.expression(2, like.loc))
        return self.operations.running_sum(value, self.below(self.ndim), self.chance(0.5), like.rules, like.loc)

    def on_host(self, like: Decl) -> Any:
        return self.operations.host(self.one(ON_THE_HOST), [self.bounded(self.expression(2, like.loc))], like.rules, like.loc)


def kinds_of(generator: np.random.Generator, only: Sequence[str] | None) -> list[str]:
    """Kinds of the statements of a step; few are computed on the host, which takes long. `only`: the kinds that there may be."""
    kinds: list[str] = []
    for _ in range(int(generator.integers(1, 5))):
        kind = str(generator.choice(KINDS))
        again = kind in ON_HOST and any(each in ON_HOST for each in kinds) and generator.random() < 0.5
        kinds.append("stage" if again or (only and kind not in only) else kind)
    return kinds


def next_states(
    scope: Scope, states: Mapping[str, Any], declared: Mapping[str, Decl], weight: Field, only: Sequence[str] | None
) -> dict[str, Any]:
    """Draw the statements of a step, and the next values of its states over the cells.

    Args:
        scope: all that the step may read.
        states: over the cells.
        declared: of all fields.
        weight: a field in the weights of systems, and of the number of laps.
        only: kinds of statements that there may be.
    """
    for kind in kinds_of(scope.generator, only):
        name = scope.one(tuple(states))
        like, now = declared[name], states[name]
        if kind == "number":
            scope.numbers.append(scope.number(2, like.loc))
            continue
        if kind in ("repeat", "laps"):
            others = [each for each in states if each != name and declared[each] is not like and alike(declared[each], like)]
            some = [now, *(states[each] for each in others[: scope.below(2)])]
            count, laps = 2 + scope.below(2), None
            if kind == "laps":  # of `count` laps, or one less
                laps = scope.operations.red("max", 0.0 * weight.value + count - 0.5 + 0.4 * scope.operations.fn("tanh", weight.value))
                count += 2
            scope.fields += [Field(value, like.loc) for value in scope.loop(some, like, count, laps)]
            continue
        prescribed = any(at and high[0] in ("dirichlet", "odd_image") for at, (_, high) in zip(like.loc, like.rules, strict=True))
        if kind == "stage" or prescribed:
            value = scope.stage(scope.moved(now, 0.3, 3, like.loc), like)
        elif kind == "solve":
            value = scope.solve(scope.leaf(like.loc, [weight]), like)
        elif kind == "newton":
            value = scope.newton(scope.leaf(like.loc, [weight]), now, like)
        else:
            value = scope.running_sum(like) if kind == "running" else scope.on_host(like)
        scope.fields.append(Field(value, like.loc))
    out = {}
    for name, now in states.items():
        place = declared[name].loc
        moved = scope.moved(now, 0.3, 3, place)
        out[name] = scope.leaf(place, scope.fields[-1:]) if scope.chance(0.15) else moved  # or the last stage as it is
    return out


def alike(one: Decl, other: Decl) -> bool:
    return one.rules == other.rules and one.loc == other.loc
