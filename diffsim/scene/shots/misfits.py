"""All misfits of a scene: their values for a shot, and their derivatives with respect to its solution."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

from diffsim.ad import jvp, vjp
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
    """

    terms: Mapping[str, tuple[tuple[Where, ...], Sequence[Callable[..., Any]]]]
    jumps: Jumps = field(default_factory=Jumps)

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
        return values_of("misfit", {label: partial(misfits[shot], *taken[label]) for label, (_, misfits) in self.terms.items()})

    def losses(self, solution: Solution, fields: Mapping[str, Array], shot: int) -> dict[str, float]:
        """Each misfit of one shot, and its jumps."""
        values = {label: float(value) for label, value in self.of(self.compared(solution), shot).items()}
        return values | self.jumps.values(solution, fields, shot)

    def seed(self, solution: Solution, fields: Mapping[str, Array], shot: int) -> Seed:
        """The misfits of one shot, and the cotangents of their sum."""
        values, bars = gradient_of_sum(partial(self.of, shot=shot), self.compared(solution))
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


def values_of(key: str, parts: Mapping[str, Callable[[], Any]]) -> dict[str, Any]:
    """The values of all parts of one key, such as "misfit", which a user may have written.

    Raises:
        SceneError: one is no number.
    """
    values = {}
    for index, (label, part) in enumerate(parts.items()):
        with prefix_error(f"{key}[{index}]"):
            values[label] = one_number(part())
    return values


def part_of(solution: Solution, places: Collection[Where]) -> dict[Where, Array]:
    """Some of the predicted quantities of a solution."""
    return {(of, state): getattr(solution, of)[state] for of, state in places}


def gradient_of_sum(terms: Callable[[T], dict[str, Any]], place: T) -> tuple[dict[str, float], T]:
    """The value of each term at a place, and the gradient of their sum."""
    values, pullback = vjp(terms, place)
    return {label: float(value) for label, value in values.items()}, pullback(dict.fromkeys(values, 1.0))[0]


def bend(function: Callable[[Any], Any], place: Any, change: Any) -> Any:
    """The Hessian of a function of a pytree of arrays at a place, times a change of it."""
    return jvp(lambda x: vjp(function, x)[1](1.0)[0], (place,), (change,))[1]


def _as_solution(bars: Mapping[Where, Array]) -> Solution:
    """Cotangents of the compared quantities, as those of a solution."""
    return Solution(*({state: bar for (of, state), bar in bars.items() if of == part} for part in ("final", "traces")))
