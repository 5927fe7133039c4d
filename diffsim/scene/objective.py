"""The loss of a problem and its gradient: misfits over all shots, and penalties."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from diffsim.checkpoint import Checkpoint, Resident
from diffsim.errors import SceneError
from diffsim.losses import L2Misfit
from diffsim.scene.assemble import Problem
from diffsim.scene.truth import Observed
from diffsim.simulation import Solution
from diffsim.typing import Array


@dataclass(frozen=True, eq=False)
class Evaluation:
    """Loss and gradient at one place.

    Attributes:
        parts: each misfit and penalty -> its value.
        gradient: by theta.
        by_cell: unknown -> gradient by the value of each cell.
        predicted: ("traces" or "final", state) -> prediction, shots first.
    """

    parts: Mapping[str, float]
    gradient: npt.NDArray[np.float64]
    by_cell: Mapping[str, Array]
    predicted: Mapping[tuple[str, str], Array]

    @property
    def value(self) -> float:
        return sum(self.parts.values())


class Objective:
    """theta -> loss and its gradient.

    Args:
        problem: the scene, assembled.
        observed: its data.

    Attributes:
        evaluations: how often it was evaluated.
        seconds: that the gradient took each time.
        peak: bytes by which the first one exceeded what was resident before.
    """

    def __init__(self, problem: Problem, observed: Observed) -> None:
        self.problem, self.observed = problem, observed
        self.evaluations = 0
        self.seconds: list[float] = []
        self.peak = 0
        self._misfits: dict[str, tuple[tuple[str, str], list[L2Misfit]]] = {}
        for number, model in enumerate(problem.scene.misfit):
            data = observed.of(model.of, model.state)
            weight = model.weight
            if model.normalise:
                energy = 0.5 * float(np.sum(data**2))
                if energy == 0:
                    raise SceneError(
                        f"misfit[{number}]: expected data that are not all zero, found none; run longer, or set normalise = false"
                    )
                weight /= energy
            label = f"{model.of} of {model.state}"
            self._misfits[f"{label} [{number}]" if label in self._misfits else label] = (
                (model.of, model.state),
                [L2Misfit(shot, weight) for shot in data],
            )

    def __call__(self, theta: Array) -> tuple[float, npt.NDArray[np.float64]]:
        found = self.evaluate(theta)
        return found.value, found.gradient

    def evaluate(self, theta: Array, schedule: Checkpoint | None = None) -> Evaluation:
        """Loss, its parts, its gradients and the predictions at theta.

        Args:
            theta: where.
            schedule: of checkpoints; None: what the problem has.
        """
        problem = self.problem
        self.evaluations += 1
        fields = problem.unknowns.split(theta)
        parts, predicted, by_cell = self._misfit(fields, schedule or problem.checkpoint)
        penalties, penalty_bars = self.penalty(fields)
        for name, penalty_bar in penalty_bars.items():
            by_cell[name] += penalty_bar
        return Evaluation(parts | penalties, problem.unknowns.pullback(theta, by_cell), by_cell, predicted)

    def value(self, theta: Array) -> float:
        """The loss alone, without a reverse sweep."""
        problem = self.problem
        fields = problem.unknowns.split(theta)
        total = sum(self.penalty(fields)[0].values())
        for number, solution in enumerate(problem.setup.predict(problem.inputs(fields))):
            total += sum(self.seed(solution, number)[0].values())
        return total

    def seed(self, solution: Solution, shot: int) -> tuple[dict[str, float], Solution]:
        """The misfits of one shot, and the cotangents of their sum."""
        values: dict[str, float] = {}
        bars: dict[tuple[str, str], Array] = {}
        for label, (where, misfits) in self._misfits.items():
            kind, state = where
            predicted = solution.traces[state] if kind == "traces" else solution.final[state]
            values[label], bar = misfits[shot].value_and_grad(predicted)
            bars[where] = bars[where] + bar if where in bars else bar
        return values, Solution(
            {s: b for (kind, s), b in bars.items() if kind == "final"}, {s: b for (kind, s), b in bars.items() if kind == "traces"}
        )

    def penalty(self, fields: Mapping[str, Array]) -> tuple[dict[str, float], dict[str, Array]]:
        """Each penalty, and the gradient of their sum by each unknown field, f64."""
        values: dict[str, float] = {}
        bars: dict[str, Array] = {}
        for label, (name, regulariser) in self.problem.penalties.items():
            values[label], bar = regulariser.value_and_grad(np.asarray(fields[name], np.float64))
            bars[name] = bars.get(name, np.zeros(bar.shape)) + bar
        return values, bars

    def _misfit(
        self, fields: Mapping[str, Array], schedule: Checkpoint
    ) -> tuple[dict[str, float], dict[tuple[str, str], Array], dict[str, Array]]:
        problem, setup = self.problem, self.problem.setup
        resident, began = None if self.seconds else Resident(), time.perf_counter()
        parts = dict.fromkeys(self._misfits, 0.0)
        predicted: dict[tuple[str, str], list[Array]] = {where: [] for where, _ in self._misfits.values()}
        by_cell: dict[str, Array] = {name: np.zeros(setup.grid.shape) for name in fields}
        for number, inputs in enumerate(setup.prepared(problem.inputs(fields))):
            solution, pullback = setup.simulation.vjp(inputs, setup.steps, schedule)
            values, bars = self.seed(solution, number)
            for label, value in values.items():
                parts[label] += value
            for (kind, state), rows in predicted.items():
                rows.append(solution.traces[state] if kind == "traces" else solution.final[state])
            for name, gradient in pullback(bars).items():
                by_cell[name] += gradient
        self.seconds.append(time.perf_counter() - began)
        if resident is not None:
            self.peak = resident.peak
        return parts, {where: np.stack(rows) for where, rows in predicted.items()}, by_cell
