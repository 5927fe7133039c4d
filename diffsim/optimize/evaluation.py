"""The objective as an optimiser sees it: checked, counted, timed and journaled."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from time import perf_counter
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from diffsim.arguments import real_array, shown
from diffsim.errors import DivergenceError, ParameterError, ShapeError
from diffsim.optimize.journal import Evaluation, Journal
from diffsim.typing import Array

Objective: TypeAlias = Callable[[Array], tuple[float, Array]]


class NonFiniteError(DivergenceError):
    """The objective gave a value or a gradient that is not finite.

    Attributes:
        iteration: The iteration that was under way, from 1; 0 at the start.
        last_good: x of the last accepted iteration; None if the start itself failed.

    Example:
        import numpy as np

        import diffsim as ds
        from diffsim.optimize import NonFiniteError, minimise

        def objective(x):
            return float("nan"), np.zeros(2)  # for example after a run with an unstable time step

        try:
            minimise(objective, np.ones(2))
        except NonFiniteError as error:
            failed = error
        assert failed.iteration == 0 and failed.last_good is None
    """

    def __init__(self, message: str, iteration: int, last_good: Array | None) -> None:
        super().__init__(message)
        self.iteration = iteration
        self.last_good = last_good


@dataclass(frozen=True, eq=False)
class Point:
    """A finite evaluation and its place."""

    x: npt.NDArray[np.float64]
    value: float
    gradient: npt.NDArray[np.float64]


class Evaluator:
    """Calls the objective, or the journal in its stead while that has records.

    Args:
        objective: x -> (value, gradient). It gets a copy of x, which it may keep or overwrite.
        journal: Rewound here; None keeps no record.
    """

    def __init__(self, objective: Objective, journal: Journal | None) -> None:
        self._objective = objective
        self._journal = journal
        self._latest: Point | None = None
        self.accepted: Point | None = None
        self.iteration = 0
        self.evaluations = 0
        self.seconds = 0.0
        if journal is not None:
            journal.rewind()

    def __call__(self, x: Array) -> Point:
        """The evaluation at x; asked for twice running, it is done once.

        Raises:
            NonFiniteError: Value or gradient is not finite. Such an evaluation is not journaled, so a resumed run tries it again.
            ShapeError: The gradient has not x's shape.
        """
        if self._latest is not None and np.array_equal(x, self._latest.x):
            return self._latest
        place = np.array(x, dtype=np.float64)  # a copy: SciPy overwrites x
        evaluation = self._journal.recall(place) if self._journal is not None else None
        if evaluation is None:
            evaluation = self._evaluate(place)
            if self._journal is not None:
                self._journal.record(place, evaluation)
        self.evaluations += 1
        self.seconds += evaluation.seconds
        self._latest = Point(place, evaluation.value, evaluation.gradient)
        return self._latest

    def accept(self, x: Array) -> Point:
        """Take x as the outcome of an iteration; the first call takes the start, as iteration 0."""
        point = self(x)
        if self.accepted is not None:
            self.iteration += 1
        self.accepted = point
        return point

    def _evaluate(self, x: npt.NDArray[np.float64]) -> Evaluation:
        start = perf_counter()
        answer = self._objective(x.copy())
        seconds = perf_counter() - start
        if not isinstance(answer, (tuple, list)) or len(answer) != 2 or np.ndim(answer[0]) != 0:
            raise ParameterError(f"objective gave {shown(answer)}, expected (value, gradient); return a number and a vector")
        value = float(real_array("value of the objective", answer[0], np.float64))
        gradient = np.array(real_array("gradient", answer[1], np.float64))
        if gradient.shape != x.shape:
            raise ShapeError(f"gradient: expected the shape of x, {x.shape}, got {gradient.shape}; return one entry for each unknown")
        bad = int(np.count_nonzero(~np.isfinite(gradient)))
        if not np.isfinite(value) or bad:
            under_way = 0 if self.accepted is None else self.iteration + 1
            raise NonFiniteError(
                f"iteration {under_way}, evaluation {self.evaluations + 1}: expected a finite value and gradient, got value {value:g} and "
                f"{bad} of {gradient.size} gradient entries not finite; set bounds, choose a smaller scale of the unknowns for shorter "
                "steps, or go on from the error's last_good",
                under_way,
                None if self.accepted is None else self.accepted.x.copy(),
            )
        return Evaluation(value, gradient, seconds)
