"""All misfits of a scene: their values for a shot, and their derivatives with respect to its solution."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

from diffsim.ad import jvp, vjp
from diffsim.scene.setup.setup import Where
from diffsim.scene.words.explain import prefix_error
from diffsim.scene.words.number import one_number
from diffsim.simulation import Solution
from diffsim.typing import Array

T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class Misfits:
    """The misfits of every shot.

    Attributes:
        terms: label -> the predicted quantities that it takes, and for each shot a function of them: a misfit, or an objective.
    """

    terms: Mapping[str, tuple[tuple[Where, ...], Sequence[Callable[..., Any]]]]

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

    def seed(self, solution: Solution, shot: int) -> tuple[dict[str, float], Solution]:
        """The misfits of one shot, and the cotangents of their sum."""
        values, bars = gradient_of_sum(partial(self.of, shot=shot), self.compared(solution))
        return values, _as_solution(bars)

    def bend(self, solution: Solution, change: Solution, shot: int) -> Solution:
        """The Hessian of the sum for one shot, times a change of its solution."""
        return _as_solution(bend(lambda x: sum(self.of(x, shot).values()), self.compared(solution), self.compared(change)))


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
