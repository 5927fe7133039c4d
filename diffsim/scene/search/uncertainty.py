"""The uncertainty of the answer: standard deviations a posteriori, from the records' noise and the prior."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import numpy as np
from scipy import sparse

from diffsim.errors import ParameterError, SceneError
from diffsim.losses import L2Misfit, Tikhonov
from diffsim.optimize import CorrelatedPrior, Journal, PrecisionPrior, Regions, StackedPriors, posterior
from diffsim.optimize.evaluation import journaled
from diffsim.optimize.journal import Evaluation
from diffsim.optimize.priors import Prior
from diffsim.scene.disk.folder import UNCERTAINTY, Identity
from diffsim.scene.disk.interrupt import Interrupt
from diffsim.scene.disk.progress import Watcher
from diffsim.scene.disk.shared import opened_journal
from diffsim.scene.search.assemble import Problem
from diffsim.scene.search.curvature import CellCurvature
from diffsim.scene.setup.setup import Where
from diffsim.scene.shots.misfits import Misfits, bend
from diffsim.scene.shots.mutes import kept
from diffsim.scene.shots.shot_misfits import ShotMisfit
from diffsim.scene.shots.shots import digest_of
from diffsim.scene.shots.truth import Observed
from diffsim.scene.words.explain import prefix_error
from diffsim.typing import Array, IntArray


@dataclass(frozen=True, eq=False)
class Uncertain:
    """The uncertainty of a scene's answer.

    Attributes:
        deviation: unknown -> standard deviation of each value a posteriori, NaN where it is not free.
        prior: the same before the records.
        eigenvalues: how much more the records tell along a direction than was known before.
    """

    deviation: Mapping[str, Array]
    prior: Mapping[str, Array]
    eigenvalues: Array


class Variables:
    """The free values of all unknowns as one vector: a value a cell, or one a region.

    Args:
        problem: the assembled scene.
    """

    def __init__(self, problem: Problem) -> None:
        self.labels: dict[str, IntArray] = {}
        for name, part in problem.unknowns.parts.items():
            labels = np.full(problem.free[name].shape, -1)
            if isinstance(part, Regions):
                labels = np.asarray(part.labels)
            else:
                labels[problem.free[name]] = np.arange(np.count_nonzero(problem.free[name]))
            self.labels[name] = labels
        self.sizes = {name: int(labels.max()) + 1 for name, labels in self.labels.items()}
        self._ends = np.cumsum([*self.sizes.values()])[:-1]

    def fields(self, v: Array, elsewhere: float = 0.0) -> dict[str, Array]:
        """A vector as fields over the cells."""
        parts = np.split(v, self._ends)
        return {
            name: np.where(labels >= 0, part[np.maximum(labels, 0)], elsewhere)
            for (name, labels), part in zip(self.labels.items(), parts, strict=True)
        }

    def gathered(self, fields: Mapping[str, Array]) -> Array:
        """The transpose: sums over the cells of each variable."""
        return np.concatenate(
            [
                np.bincount(labels[labels >= 0], weights=fields[name][labels >= 0], minlength=self.sizes[name])
                for name, labels in self.labels.items()
            ]
        )


def check_uncertainty(problem: Problem, observed: Observed) -> None:
    """Refuse an uncertainty that could not be measured at the answer, before there is a search.

    Raises:
        SceneError: the noise or the prior of an unknown is not known.
    """
    Likelihood(problem, observed)
    check_before_data(problem)


def check_before_data(problem: Problem) -> None:
    """Refuse an uncertainty without the prior of each unknown, or of data that a truth makes without noise.

    Raises:
        SceneError: the prior of an unknown is not known, or is no density; there is no noise.
    """
    truth, data = problem.scene.truth, problem.setup.data
    for misfit in problem.scene.misfit:
        measured = misfit.of == "traces" and misfit.state in data and data[misfit.state].deviation is not None
        if truth is not None and not truth.noise and not measured:
            raise _without_noise("truth.noise")
    variables = Variables(problem)
    for name in problem.unknowns.parts:
        _prior(problem, name, variables, problem.start, 1.0)


def uncertain(
    problem: Problem,
    observed: Observed,
    fields: Mapping[str, Array],
    loss: tuple[float, Mapping[Where, Array]],
    out: Path | None,
    identity: Identity,
    watcher: Watcher,
) -> Uncertain:
    """Measure the uncertainty of an answer.

    Args:
        problem: the assembled scene, with an `uncertainty`.
        observed: its data.
        fields: the answer.
        loss: the misfit there, as the search weighted it, and the predictions.
        out: folder of the products that are done; None: nothing is written.
        identity: of the run.
        watcher: receives the progress.

    Raises:
        SceneError: the noise or the prior of an unknown is not known.
        KeyboardInterrupt: the products so far are in the folder.
    """
    model, variables = problem.scene.uncertainty, Variables(problem)
    assert model is not None
    likelihood = Likelihood(problem, observed)
    prior = StackedPriors([_prior(problem, name, variables, fields, likelihood.over(*loss)) for name in problem.unknowns.parts])
    curvature = CellCurvature(problem, fields, likelihood.misfits, lambda fields, moved: {})
    began = time.perf_counter()
    with ExitStack() as stack:
        interrupt = stack.enter_context(Interrupt())
        journal = None
        if out is not None:
            key = digest_of([identity.whole, "uncertainty"], fields)
            journal = stack.enter_context(opened_journal(problem.ranks, out / UNCERTAINTY.replace("*", key[:12]), key))

        def multiply(v: Array) -> Evaluation:
            interrupt.heed()
            start = time.perf_counter()
            product = np.asarray(variables.gathered(curvature.by_cell(variables.fields(v))), np.float64)
            return Evaluation(0.0, product, time.perf_counter() - start)

        def report(done: int, total: int) -> None:
            watcher.gradient(done / total, (time.perf_counter() - began) / done * (total - done))

        hessian = _Products(journal, multiply)
        estimate = posterior(hessian, prior, model.rank, problem.scene.seed, report)
    return Uncertain(variables.fields(estimate.deviation, np.nan), variables.fields(estimate.prior_deviation, np.nan), estimate.eigenvalues)


class _Products:
    """Products that a journal has, or that are computed and recorded."""

    def __init__(self, journal: Journal | None, multiply: Callable[[Array], Evaluation]) -> None:
        self._journal, self._multiply = journal, multiply

    def __matmul__(self, v: Array) -> Array:
        return journaled(self._journal, np.ascontiguousarray(v, np.float64), b"", lambda: self._multiply(v)).gradient


class Likelihood:
    """½ Σ ((prediction - data) / deviation)² of all that is compared, over all frequencies.

    Args:
        problem: the assembled scene.
        observed: its data.

    Attributes:
        misfits: its terms.

    Raises:
        SceneError: the noise is not known.
    """

    def __init__(self, problem: Problem, observed: Observed) -> None:
        self._observed = observed
        self._weights: dict[Where, Array] = {}
        terms: dict[str, tuple[tuple[Where, ...], list[ShotMisfit]]] = {}
        for of, state in sorted({(misfit.of, misfit.state) for misfit in problem.scene.misfit}):
            data, weight = observed.of(of, state), _weight(problem, observed, (of, state))
            there = np.isfinite(data)
            self._weights[of, state] = np.where(there, weight, 0.0) * _kept(problem, observed, (of, state)) ** 2
            sampling = observed.sampling.get(state) if of == "traces" else None
            shots = [L2Misfit(*each) for each in zip(data, self._weights[of, state], there, strict=True)]
            silent = observed.recorded(of, state) is not None and sampling is None  # no sample is within the run
            terms[f"{of} of {state}"] = ((of, state),), [ShotMisfit(None if silent else shot, sampling) for shot in shots]
        self.misfits = Misfits(terms)

    def over(self, misfit: float, predicted: Mapping[Where, Array]) -> float:
        """Its value over that of the misfits as the search weighted them: penalties of the loss times this are those of a likelihood."""
        residuals = {where: np.nan_to_num(predicted[where] - self._observed.of(*where)) for where in self._weights}
        value = 0.5 * sum(float(np.sum(weight * residuals[where] ** 2)) for where, weight in self._weights.items())
        return value / misfit if misfit > 0 and value > 0 else 1.0


def _weight(problem: Problem, observed: Observed, where: Where) -> Array | float:
    """1 over the square of the deviation of each sample, times its weight in the file."""
    records = observed.recorded(*where)
    if records is not None and records.deviation is not None:
        return observed.weight(*where)
    noise = observed.noise[where]
    if not noise:
        raise _without_noise("truth.noise" if problem.scene.truth is not None else f"data.{where[1]}.deviation")
    return observed.weight(*where) / noise**2


def _without_noise(key: str) -> SceneError:
    return SceneError(f"{key}: expected the noise of the records, which uncertainty needs, found none; give it")


def _kept(problem: Problem, observed: Observed, where: Where) -> Array | float:
    """The largest factor that windows and mutes of the misfits leave each sample."""
    if where[0] == "final":
        return 1.0
    records = observed.recorded(*where)
    times = problem.setup.times() if records is None else records.times
    models = [model for model in problem.scene.misfit if (model.of, model.state) == where]
    windows = [kept(model, problem.setup, times) for model in models]
    real = [window for window in windows if window is not None]
    return np.max(real, axis=0) if len(real) == len(windows) else 1.0


def _prior(problem: Problem, name: str, variables: Variables, fields: Mapping[str, Array], factor: float) -> Prior:
    """The prior of an unknown: a field of a deviation and a length, or that of its penalties."""
    model, labels = problem.scene.uncertainty, variables.labels[name]
    assert model is not None
    steps = problem.setup.lengths(name)
    if name in model.prior:
        known = model.prior[name]
        key = f"uncertainty.prior.{name}"
        with prefix_error(key):
            if isinstance(problem.unknowns.parts[name], Regions):
                if known.length is not None:
                    raise ParameterError("length: expected none, for regions are independent, got one; leave it out")
                return CorrelatedPrior((variables.sizes[name],), known.deviation)
            per_axis = np.broadcast_to(0.0 if known.length is None else known.length, len(steps))
            return CorrelatedPrior(labels.shape, known.deviation, per_axis / np.array(steps), labels >= 0)
    penalties = [penalty for of, penalty in problem.penalties.values() if of == name and isinstance(penalty, Tikhonov)]
    if not penalties:
        raise SceneError(f"uncertainty.prior.{name}: expected prior knowledge, found none, and no tikhonov penalty either; add it")
    with prefix_error(f"uncertainty.prior.{name}"):
        return PrecisionPrior(factor * precision_of(penalties, np.asarray(fields[name], float), labels))


def precision_of(penalties: list[Tikhonov], field: Array, labels: IntArray) -> sparse.csc_array:
    """The Hessian of penalties by the variables, which couples a cell with those that are near.

    Cells farther apart than twice the reach along every axis couple with no cell in common, so one product gives the columns of them all.

    Args:
        penalties: of the field.
        field: where; they are quadratic, so anywhere.
        labels: the variable of each cell; -1: none.
    """
    shape = field.shape
    cells: list[IntArray] = [*np.indices(shape)]
    numbers = np.arange(field.size).reshape(shape)
    rows, columns, entries = [], [], []
    reach = max(penalty.reach for penalty in penalties)
    apart = 2 * reach + 1
    for colour in product(range(apart), repeat=field.ndim):
        chosen = np.all([c % apart == k for c, k in zip(cells, colour, strict=True)], axis=0)
        bent = bend(lambda x: sum(penalty(x) for penalty in penalties), field, chosen.astype(float))
        for offset in product(range(-reach, reach + 1), repeat=field.ndim):
            other = [c + o for c, o in zip(cells, offset, strict=True)]
            inside = np.all([(c >= 0) & (c < n) & (c % apart == k) for c, n, k in zip(other, shape, colour, strict=True)], axis=0)
            inner = inside & (bent != 0)
            rows.append(numbers[inner])
            columns.append(numbers[tuple(c[inner] for c in other)])
            entries.append(bent[inner])
    size = field.size
    whole = sparse.csc_array((np.concatenate(entries), (np.concatenate(rows), np.concatenate(columns))), shape=(size, size))
    free = np.flatnonzero(labels.ravel() >= 0)
    members = sparse.csc_array((np.ones(free.size), (free, labels.ravel()[free])), shape=(size, int(labels.max()) + 1))
    return sparse.csc_array(members.T @ whole @ members)
