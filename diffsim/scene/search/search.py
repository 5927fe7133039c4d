"""The search of a scene: its stages one after another, each journaled, so that a killed run resumes with the same bits."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from diffsim.optimize import Adam, Batches, GaussNewton, Iteration, Journal, NonFiniteError, Result, Stacked, minimise
from diffsim.optimize.method import Method, Reason
from diffsim.optimize.minimise import METHODS
from diffsim.photonics import Density
from diffsim.scene.disk.files import write_aside
from diffsim.scene.disk.folder import LAST, Identity, journal_of
from diffsim.scene.disk.interrupt import Interrupt
from diffsim.scene.disk.outcome import HISTORY, Progress, history_csv
from diffsim.scene.disk.progress import Watcher
from diffsim.scene.disk.shared import opened_journal
from diffsim.scene.schema.search_keys import Stage
from diffsim.scene.search.assemble import Problem
from diffsim.scene.search.curvature import Curvature
from diffsim.scene.search.objective import Evaluation, Objective
from diffsim.scene.search.precondition import weights_of
from diffsim.scene.search.stages import built, continued, restarted, start_of
from diffsim.scene.shots.shots import digest_of
from diffsim.scene.shots.together import SECONDS, most_together
from diffsim.scene.shots.truth import Observed
from diffsim.scene.shots.workers import HERE
from diffsim.typing import Array, IntArray


@dataclass(frozen=True, eq=False)
class Found:
    """The result of a search.

    Attributes:
        fields: the answer for each unknown.
        first: loss and gradient of the last stage at the start of the search.
        last: the same at the answer.
        misfit: the misfits' part of the loss at the answer.
        history: the start and every iteration.
        reason: why the last stage stopped.
        seconds: time of each gradient.
        peak: bytes of memory that the first gradient needed.
    """

    fields: Mapping[str, Array]
    first: Evaluation
    last: Evaluation
    misfit: float
    history: tuple[Progress, ...]
    reason: Reason
    seconds: list[float]
    peak: int


class Search:
    """One search.

    Args:
        problem: the assembled scene.
        observed: its data.
        out: the folder of the run; None: nothing is written.
        identity: of the run.
        watcher: receives the progress.
    """

    def __init__(self, problem: Problem, observed: Observed, out: Path | None, identity: Identity, watcher: Watcher) -> None:
        self._problem, self._observed, self._out, self._identity, self._watcher = problem, observed, out, identity, watcher
        self._history: list[Progress] = []
        self._seconds: list[float] = []
        self._peak = 0

    def run(self) -> Found:
        """Run all stages.

        Raises:
            NonFiniteError: the loss is no longer finite. The last good state is in `last.npz`.
            KeyboardInterrupt: the best answer so far is in `last.npz` and the journal.
        """
        stages = self._problem.scene.stages()
        fields: Mapping[str, Array] = self._problem.start
        unknowns = self._problem.unknowns
        with Interrupt() as interrupt:
            for number, stage in enumerate(stages, 1):
                weights = weights_of(self._problem, fields)
                same = number == 1 and not stage.smooth and not stage.steepness and not weights
                problem = self._problem if same else self._restarted(unknowns, fields, stage, weights)
                objective = Objective(problem, self._observed, self._watcher.gradient, stage)
                if len(stages) > 1:
                    self._watcher.phase(f"{problem.scene.name}: stage {number} of {len(stages)}{_band(stage)}, first gradient")
                result = self._minimised(number, stage, problem, objective, interrupt)
                fields = problem.unknowns.split(result.x)
                unknowns = continued(self._problem.unknowns, problem.unknowns, result.x)
                if number < len(stages):
                    self._count(objective)
        self._watcher.phase(f"{problem.scene.name}: judging the answer")
        at_start = objective if same else Objective(self._problem, self._observed, None, stage)
        if any(isinstance(part, Density) and part.binary for part in problem.unknowns.parts.values()):
            finished = built(problem.unknowns, result.x)
            fields = finished.split(result.x)
            self._count(objective)
            objective = Objective(replace(problem, unknowns=finished), self._observed, None, stage)
        first, last = at_start.evaluate(self._problem.theta), objective.evaluate(result.x)
        self._count(objective)
        return Found(fields, first, last, objective.misfit_of(last), tuple(self._history), result.reason, self._seconds, self._peak)

    def _group(self, objective: Objective, stage: Stage) -> None:
        """Let shots run together from now on, if the rest of a stage takes long enough. No bit changes."""
        problem, evaluations, count = objective.problem, len(objective.seconds), len(objective.problem.setup.shots)
        if evaluations != 2 or problem.forward.together > 1 or problem.workers is not HERE:  # the first evaluation compiles
            return
        shots = problem.scene.optimise.batch or count if stage.method == "adam" else count  # of one evaluation
        if objective.seconds[-1] * shots / count * ((stage.iterations or 0) - evaluations) < SECONDS:
            return
        size = most_together(problem.setup, problem.checkpoint, shots)
        if size > 1:
            forward = replace(problem.forward, together=size)
            objective.problem = replace(problem, forward=forward)
            self._problem = replace(self._problem, forward=forward)

    def _restarted(self, unknowns: Stacked, fields: Mapping[str, Array], stage: Stage, weights: Mapping[str, Array]) -> Problem:
        """The problem of a stage that starts from these fields."""
        unknowns = restarted(unknowns, fields, stage, weights)
        return replace(self._problem, unknowns=unknowns, start=start_of(unknowns, fields))

    def _minimised(self, number: int, stage: Stage, problem: Problem, objective: Objective, interrupt: Interrupt) -> Result:
        """Run one stage."""
        best, before = _Best(problem.theta), self._history[-1] if self._history else None
        assert stage.method is not None and stage.iterations is not None and stage.tolerance is not None
        rows: list[Progress] = []

        def note(state: Iteration) -> None:
            rows.append(_progress(state, number, before))
            self._watcher.iteration(state, stage.iterations or 0)

        def watched(theta: Array, shots: IntArray | None = None) -> tuple[float, Array]:
            interrupt.heed()
            self._group(objective, stage)
            evaluated = objective(theta) if shots is None else objective(theta, shots)
            best.consider(theta, evaluated[0], comparable=shots is None)
            return evaluated

        def watched_hessian(theta: Array) -> _Watched:
            return _Watched(objective.hessian(theta), interrupt)

        with ExitStack() as stack:
            journal = self._journal(number, problem.start)
            if journal is not None:
                stack.enter_context(journal)
            try:
                result = minimise(
                    watched,
                    problem.theta,
                    method=self._method(stage.method, watched_hessian),
                    bounds=problem.unknowns.bounds(),
                    iterations=stage.iterations,
                    tolerance=stage.tolerance,
                    journal=journal,
                    callback=note,
                )
            except NonFiniteError as error:
                self._save_last(problem, best.theta if error.last_good is None else error.last_good, rows)
                raise
            except KeyboardInterrupt:
                self._save_last(problem, best.theta, rows)
                raise
        self._history += [_progress(state, number, before) for state in result.history]
        return result

    def _method(self, name: str, hessian: Callable[[Array], Any]) -> Method:
        optimise, shots = self._problem.scene.optimise, len(self._problem.setup.shots)
        if name == "gauss-newton":
            return GaussNewton(hessian)
        if name == "adam":
            seed = self._problem.scene.seed
            return Adam(optimise.rate, None if optimise.batch is None else Batches(shots, optimise.batch, seed))
        return METHODS[name]

    def _journal(self, number: int, start: Mapping[str, Array]) -> Journal | None:
        """The journal of a stage. That of a later stage belongs to the answer that the stage starts from."""
        if self._out is None:
            return None
        key = self._identity.search if number == 1 else digest_of([self._identity.search, f"stage {number}"], start)
        return opened_journal(self._problem.ranks, journal_of(self._out, number), key)

    def _save_last(self, problem: Problem, theta: Array, rows: list[Progress]) -> None:
        if self._out is None or self._problem.ranks.rank:
            return
        buffer = io.BytesIO()
        np.savez_compressed(buffer, theta=theta, **problem.unknowns.split(theta))
        write_aside(self._out / LAST, buffer.getvalue())
        write_aside(self._out / HISTORY, history_csv((*self._history, *rows)).encode())

    def _count(self, objective: Objective) -> None:
        self._seconds += objective.seconds
        self._peak = self._peak or objective.peak


class _Best:
    """The best answer so far, in case the search ends early."""

    def __init__(self, theta: Array) -> None:
        self.theta, self.value = theta, np.inf

    def consider(self, theta: Array, value: float, comparable: bool) -> None:
        """Take it if it is lower; values of batches are not comparable, and the last one is taken."""
        if value < self.value or not comparable:
            self.theta, self.value = theta.copy(), value


class _Watched:
    """A Hessian whose products heed a signal that came meanwhile."""

    def __init__(self, hessian: Curvature, interrupt: Interrupt) -> None:
        self._hessian, self._interrupt = hessian, interrupt

    def __matmul__(self, v: Array) -> Array:
        self._interrupt.heed()
        return self._hessian @ v


def _progress(state: Iteration, stage: int, before: Progress | None) -> Progress:
    """An iteration of a stage, counted on from the last one of the stage before."""
    last = before or Progress(0, 0, 0.0, 0.0, 0.0)
    return Progress(
        last.iteration + state.iteration,
        last.evaluations + state.evaluations,
        state.value,
        state.gradient_norm,
        last.seconds + state.seconds,
        stage,
        last.products + state.products,
    )


def _band(stage: Stage) -> str:
    """The band of a stage in words."""
    low, high = stage.highpass, stage.lowpass
    if low is not None and high is not None:
        return f", {low:g} to {high:g} Hz"
    return "" if low is None and high is None else f", below {high:g} Hz" if low is None else f", above {low:g} Hz"
