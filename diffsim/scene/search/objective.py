"""The loss of a problem and its gradient: misfits over all shots, and penalties."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from diffsim.ad import vjp
from diffsim.checkpoint import Checkpoint, OnProgress, Policy
from diffsim.errors import StabilityError
from diffsim.losses import Misfit
from diffsim.scene.disk.folder import identify
from diffsim.scene.disk.shot_progress import ShotProgress
from diffsim.scene.schema.schema import Description
from diffsim.scene.schema.search_keys import Stage
from diffsim.scene.search.assemble import Problem
from diffsim.scene.search.curvature import Curvature
from diffsim.scene.setup.design import Mean, Transmission, label_of, mean_of, transmissions
from diffsim.scene.setup.setup import Where
from diffsim.scene.shots.band import Band, filters_of
from diffsim.scene.shots.misfits import Misfits, bend, finite, gradient_of_sum, values_of
from diffsim.scene.shots.shot_misfits import misfits_of
from diffsim.scene.shots.shot_runs import gradients, losses
from diffsim.scene.shots.shots import ShotFile, ShotSums, digest_of
from diffsim.scene.shots.truth import Observed
from diffsim.scene.shots.windows import Jumps
from diffsim.scene.words.explain import prefix_error
from diffsim.typing import Array, IntArray


@dataclass(frozen=True, eq=False)
class Evaluation:
    """Loss and gradient at one value of theta.

    Attributes:
        parts: each misfit and penalty -> its value.
        gradient: gradient with respect to theta.
        by_cell: unknown -> gradient with respect to the value of each cell.
        predicted: ("traces" or "final", state) -> prediction, shots first.
    """

    parts: Mapping[str, float]
    gradient: npt.NDArray[np.float64]
    by_cell: Mapping[str, Array]
    predicted: Mapping[tuple[str, str], Array]

    @property
    def value(self) -> float:
        return sum(self.parts.values())


def jumps_of(scene: Description, stage: Stage | None) -> Jumps:
    """The jumps between windows, with the weights of a stage."""
    weights = {name: model.jumps for name, model in scene.unknowns.items() if model.jumps is not None}
    return Jumps(weights | dict(() if stage is None else stage.jumps))


class Objective:
    """theta -> loss and its gradient.

    Args:
        problem: the assembled scene.
        observed: its data.
        on_progress: called with the progress of a gradient and the seconds left.
        stage: the filter of its data and predictions; None: all frequencies.

    Attributes:
        misfits: of all shots.
        evaluations: number of evaluations.
        seconds: time of each gradient.
        peak: bytes of memory that the first gradient needed in addition to the resident memory before it.
    """

    def __init__(self, problem: Problem, observed: Observed, on_progress: OnProgress | None = None, stage: Stage | None = None) -> None:
        self.problem, self.observed, self.on_progress = problem, observed, on_progress
        self.evaluations = 0
        self.seconds: list[float] = []
        self.peak = 0
        band = Band({} if stage is None else filters_of(problem.scene, stage, problem.setup), observed)
        data = {f"{of} {state}": band.observed.of(of, state) for of, state in sorted({(m.of, m.state) for m in problem.scene.misfit})}
        jumps = jumps_of(problem.scene, stage)
        self._key = digest_of([identify(problem.scene, problem.setup.simulation.precision).search, repr(jumps)], data)
        terms: dict[str, tuple[tuple[Where, ...], list[Misfit] | list[Transmission] | list[Mean]]] = {}
        keys: dict[str, str] = {}

        def add(key: str, label: str, places: tuple[Where, ...], term: list[Misfit] | list[Transmission] | list[Mean]) -> None:
            label = f"{label} [{key.partition('[')[2]}" if label in terms else label
            terms[label], keys[label] = (places, term), key

        for number, model in enumerate(problem.scene.misfit):
            label, where = f"{model.of} of {model.state}", (model.of, model.state)
            with prefix_error(f"misfit[{number}]"):
                misfits = band.misfits(where, misfits_of(model, band.observed, problem.setup))
            add(f"misfit[{number}]", label, (where,), misfits)
        for number, design in enumerate(problem.scene.maximise):
            watched = problem.setup.watched
            assert watched is not None  # a scene that maximises has monitors
            label, part = label_of(design), transmissions(watched, design)
            places = tuple(("traces", state) for state in part.states)
            add(f"maximise[{number}]", label, places, [part] * len(problem.setup.shots))
        for number, small in enumerate(problem.scene.minimise):
            label, mean = f"mean of {small.state}", mean_of(small, problem.setup.times(), f"minimise[{number}]")
            add(f"minimise[{number}]", label, (("traces", small.state),), [mean] * len(problem.setup.shots))
        self.misfits = Misfits(terms, jumps, keys, problem.scene.classes())

    def __call__(self, theta: Array, shots: IntArray | None = None) -> tuple[float, npt.NDArray[np.float64]]:
        evaluation = self.evaluate(theta, None, shots)
        return evaluation.value, evaluation.gradient

    def evaluate(self, theta: Array, schedule: Checkpoint | None = None, shots: IntArray | None = None) -> Evaluation:
        """Loss, its parts, its gradients and the predictions at theta.

        Args:
            theta: the optimiser's variables.
            schedule: checkpointing schedule; None: that of the problem.
            shots: the shots that are run, whose misfits stand for all: they are multiplied by the number of all shots over theirs.
        """
        problem = self.problem
        self.evaluations += 1
        fields = problem.unknowns.split(theta)
        numbers = range(len(problem.setup.shots)) if shots is None else shots.tolist()
        with self._within_limits():
            sums = self._misfit(fields, schedule or problem.checkpoint, numbers)
        penalties, penalty_bars = self.penalty(fields)
        for name, penalty_bar in penalty_bars.items():
            sums.by_cell[name] += penalty_bar
        gradient = vjp(problem.unknowns.split, theta)[1](sums.by_cell)[0]  # only now, because its memory would add to that of the states
        of_variables: dict[str, float] = {}
        if problem.of_variables:
            of_variables, slope = gradient_of_sum(self._of_variables, np.asarray(theta, float), problem.keys)
            gradient = gradient + slope
        predicted = {where: self._at_records(where, rows) for where, rows in sums.predicted.items()}
        return Evaluation(sums.parts | penalties | of_variables, gradient, sums.by_cell, predicted)

    def value(self, theta: Array) -> float:
        """The loss alone, without a reverse sweep."""
        problem = self.problem
        fields = problem.unknowns.split(theta)
        penalties = self._penalties(fields) | self._of_variables(theta)
        total = sum(finite({label: float(value) for label, value in penalties.items()}, problem.keys).values())
        for shot in problem.workers.run(losses, (problem.forward, self.misfits), (fields,), range(len(problem.setup.shots))):
            total += sum(shot.values())
        return float(total)

    @contextmanager
    def _within_limits(self) -> Iterator[None]:
        """Name the unknowns where a search, not the scene, has left the range in which the time step is stable."""
        try:
            yield
        except StabilityError as error:
            if self.evaluations == 1:
                raise
            names = [*self.problem.unknowns.parts]
            raise StabilityError(
                f"the search took {' or '.join(names)} where the time step is not stable, expected bounds that keep it stable; give "
                f"unknowns.{names[0]}.lower or upper: {error}",
                error.limit,
            ) from error

    def misfit_of(self, evaluation: Evaluation) -> float:
        """The sum of the misfits of an evaluation, without the penalties."""
        return sum(value for label, value in evaluation.parts.items() if label in self.misfits.terms)

    def penalty(self, fields: Mapping[str, Array]) -> tuple[dict[str, float], dict[str, Array]]:
        """Each penalty, and the gradient of their sum with respect to each unknown field, f64."""
        place = {name: np.asarray(fields[name], float) for name, _ in self.problem.penalties.values()}
        return gradient_of_sum(self._penalties, place, self.problem.keys)

    def _penalties(self, fields: Mapping[str, Any]) -> dict[str, Any]:
        """Each penalty."""
        parts = {label: partial(penalty, fields[name]) for label, (name, penalty) in self.problem.penalties.items()}
        return values_of(parts, self.problem.keys)

    def _of_variables(self, theta: Any) -> dict[str, Any]:
        """Each penalty of a part of theta."""
        slices = self.problem.unknowns.slices
        parts = {label: partial(penalty, theta[slices[name]]) for label, (name, penalty) in self.problem.of_variables.items()}
        return values_of(parts, self.problem.keys)

    def _at_records(self, where: Where, predicted: Array) -> Array:
        """Predictions of the run at the times of the records, if there are some."""
        sampling = self.observed.sampling.get(where[1]) if where[0] == "traces" else None
        return predicted if sampling is None else np.stack([sampling(shot) for shot in predicted])

    def hessian(self, theta: Array) -> Curvature:
        """The Gauss-Newton Hessian at theta, by its products: `objective.hessian(theta) @ v`."""
        return Curvature(self.problem, self.misfits, self._bend_penalties, theta, self._bend_variables)

    def _bend_penalties(self, fields: Mapping[str, Array], change: Mapping[str, Array]) -> Mapping[str, Array]:
        """The Hessian of the penalties times a change of the fields."""
        names = {name for name, _ in self.problem.penalties.values()}
        if not names:
            return {}
        place, moved = ({name: np.asarray(values[name], float) for name in names} for values in (fields, change))
        return bend(lambda x: sum(self._penalties(x).values()), place, moved)

    def _bend_variables(self, theta: Array, change: Array) -> Array:
        """The Hessian of the penalties of theta times a change of it."""
        if not self.problem.of_variables:
            return np.zeros(theta.shape)
        return np.asarray(bend(lambda x: sum(self._of_variables(x).values()), np.asarray(theta, float), np.asarray(change, float)))

    def _misfit(self, fields: Mapping[str, Array], checkpoint: Checkpoint, shots: Sequence[int]) -> ShotSums:
        problem, count, began = self.problem, len(self.problem.setup.shots), time.perf_counter()
        shapes = {name: values.shape for name, values in fields.items()}
        sums = ShotSums(self.misfits.labels, self.misfits.places, shapes)
        policy = Policy.of(checkpoint)
        resumed = policy.resume and len(shots) > 1
        file = ShotFile(policy, f"{self._key} {list(shots)}", fields, problem.ranks) if resumed else None
        if file is not None:
            file.restore(sums)
        progress = None if self.on_progress is None else ShotProgress(self.on_progress, len(shots), sums.done)
        changing = fields, policy, not self.seconds
        for shot in problem.workers.run(gradients, (problem.forward, self.misfits), changing, shots[sums.done :], progress):
            sums.add(shot)
            self.peak = max(self.peak, shot.peak)
            if file is not None:
                file.keep(sums)
        if file is not None:
            file.remove()
        if len(shots) < count:
            sums.stand_for(count / len(shots))
        self.seconds.append((time.perf_counter() - began) * count / len(shots))
        return sums
