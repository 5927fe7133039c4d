"""All misfits of a scene: their values for a shot, and their derivatives with respect to its solution."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

import numpy as np

from diffsim.ad import jvp, vjp
from diffsim.errors import DivergenceError
from diffsim.scene.setup.setup import Where
from diffsim.scene.shots.windows import Jumps
from diffsim.scene.words.explain import prefix_error
from diffsim.scene.words.number import one_number
from diffsim.simulation import Solution
from diffsim.typing import Array

T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class Seed:
    """The terms of a shot, and their gradient.

    Attributes:
        values: label -> value.
        bars: cotangents of its solution.
        fields: cotangents of unknown fields, apart from what the solution hands on to them.
    """

    values: Mapping[str, float]
    bars: Solution
    fields: Mapping[str, Array]

    def added(self, gathered: Mapping[str, Array]) -> dict[str, Array]:
        """The gradient by cell: that which came through the solution, and this."""
        return {name: bar + self.fields[name] if name in self.fields else bar for name, bar in gathered.items()}


@dataclass(frozen=True, eq=False)
class Misfits:
    """The misfits of every shot.

    Attributes:
        terms: label -> the predicted quantities that it takes, and for each shot a function of them: a misfit, or an objective.
        jumps: between windows, which are the shots.
        keys: label -> the key of the scene, for messages.
        classes: the key and the class of each part of the scene, for messages.
    """

    terms: Mapping[str, tuple[tuple[Where, ...], Sequence[Callable[..., Any]]]]
    jumps: Jumps = field(default_factory=Jumps)
    keys: Mapping[str, str] = field(default_factory=dict)
    classes: tuple[tuple[str, type], ...] = ()

    @property
    def labels(self) -> list[str]:
        """Labels of all terms."""
        return [*self.terms, *self.jumps.labels]

    @property
    def places(self) -> set[Where]:
        """The predicted quantities that the terms take."""
        return {where for taken, _ in self.terms.values() for where in taken}

    def compared(self, solution: Solution) -> dict[Where, Array]:
        """The part of a solution that the terms take."""
        return part_of(solution, self.places)

    def of(self, predicted: Mapping[Where, Any], shot: int) -> dict[str, Any]:
        """Each misfit of one shot."""
        taken = {label: [predicted[where] for where in places] for label, (places, _) in self.terms.items()}
        return values_of({label: partial(misfits[shot], *taken[label]) for label, (_, misfits) in self.terms.items()}, self.keys)

    def losses(self, solution: Solution, fields: Mapping[str, Array], shot: int) -> dict[str, float]:
        """Each misfit of one shot, and its jumps."""
        values = finite({label: float(value) for label, value in self.of(self.compared(solution), shot).items()}, self.keys)
        return values | self.jumps.values(solution, fields, shot)

    def seed(self, solution: Solution, fields: Mapping[str, Array], shot: int) -> Seed:
        """The misfits of one shot, and the cotangents of their sum."""
        values, bars = gradient_of_sum(partial(self.of, shot=shot), self.compared(solution), self.keys)
        return self._with_jumps(values | self.jumps.values(solution, fields, shot), bars, solution, fields, shot)

    def bend(self, solution: Solution, change: Solution, moved: Mapping[str, Array], shot: int) -> Seed:
        """The Hessian of the sum for one shot, times a change of its solution and of the fields."""
        bars = bend(lambda x: sum(self.of(x, shot).values()), self.compared(solution), self.compared(change))
        return self._with_jumps({}, bars, change, moved, shot)

    def _with_jumps(
        self, values: dict[str, float], bars: Mapping[Where, Array], solution: Solution, fields: Mapping[str, Array], shot: int
    ) -> Seed:
        """Cotangents of the misfits, and those of the jumps, which are linear in the solution and the fields."""
        ends, starts = self.jumps.seed(solution, fields, shot)
        joint = _as_solution(bars)
        final = {name: joint.final.get(name, 0.0) + bar for name, bar in ends.items()}
        return Seed(values, Solution({**joint.final, **final}, joint.traces), starts)


def values_of(parts: Mapping[str, Callable[[], Any]], keys: Mapping[str, str]) -> dict[str, Any]:
    """The values of all terms, each by its label, which a user may have written.

    Raises:
        SceneError: one is no number.
    """
    values = {}
    for label, part in parts.items():
        with prefix_error(keys.get(label, label)):
            values[label] = one_number(part())
    return values


def finite(values: dict[str, float], keys: Mapping[str, str]) -> dict[str, float]:
    """The values of terms, each by its label.

    Raises:
        DivergenceError: one is not finite.
    """
    for label, value in values.items():
        if not math.isfinite(value):
            key = keys.get(label, label)
            raise DivergenceError(f"{key}: expected a finite value of {label}, got {value:g}; correct its code, or the values that it gets")
    return values


def part_of(solution: Solution, places: Collection[Where]) -> dict[Where, Array]:
    """Some of the predicted quantities of a solution."""
    return {(of, state): getattr(solution, of)[state] for of, state in places}


def gradient_of_sum(terms: Callable[[T], dict[str, Any]], place: T, keys: Mapping[str, str]) -> tuple[dict[str, float], T]:
    """The value of each term at a place, and the gradient of their sum.

    Raises:
        DivergenceError: a value, or the gradient of one, is not finite.
    """
    values, pullback = vjp(terms, place)
    numbers = finite({label: float(value) for label, value in values.items()}, keys)
    gradient = pullback(dict.fromkeys(values, 1.0))[0]
    if not _all_finite(gradient):
        for label in values:
            if not _all_finite(pullback({each: float(each == label) for each in values})[0]):
                raise DivergenceError(
                    f"{keys.get(label, label)}: expected a finite gradient of {label}, got one that is not, where its value is "
                    f"{numbers[label] + 0.0:.6g}; correct its code, such as a root or a logarithm of 0"
                )
    return numbers, gradient


def _all_finite(gradient: Any) -> bool:
    each = gradient.values() if isinstance(gradient, Mapping) else (gradient,)
    return all(bool(np.isfinite(np.asarray(values)).all()) for values in each)


def bend(function: Callable[[Any], Any], place: Any, change: Any) -> Any:
    """The Hessian of a function of a pytree of arrays at a place, times a change of it."""
    return jvp(lambda x: vjp(function, x)[1](1.0)[0], (place,), (change,))[1]


def _as_solution(bars: Mapping[Where, Array]) -> Solution:
    """Cotangents of the compared quantities, as those of a solution."""
    return Solution(*({state: bar for (of, state), bar in bars.items() if of == part} for part in ("final", "traces")))
