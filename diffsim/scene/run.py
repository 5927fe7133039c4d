"""Run a scene: make the data, find the unknowns, judge the answer, and save enough on disk to resume after any interruption."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import replace
from math import prod
from pathlib import Path
from statistics import median

import numpy as np

from diffsim.base.system import peak_memory, register_forced, usable_cores
from diffsim.certificate import Line
from diffsim.checkpoint import Plan
from diffsim.domains import Alone, Ranks
from diffsim.domains.mpi import in_groups
from diffsim.engine import lanes, settings, tuned
from diffsim.errors import SceneError
from diffsim.mesh.grid import AXES, Axis, Grid
from diffsim.optimize import Regions, Unknown
from diffsim.scene.disk.fit import fits
from diffsim.scene.disk.folder import (
    LAST,
    LEFT,
    Identity,
    check_folder,
    claim_folder,
    held,
    identify,
    precision_dtype,
    start_anew,
    what_starts_anew,
)
from diffsim.scene.disk.outcome import Compared, Divided, Memory, Outcome, Snapshots, Taken, UnknownField
from diffsim.scene.disk.progress import Watcher
from diffsim.scene.disk.versions import versions
from diffsim.scene.notes import notes_of
from diffsim.scene.room import require_room
from diffsim.scene.schema.schema import Description
from diffsim.scene.search.accept import judge
from diffsim.scene.search.assemble import Problem, assemble
from diffsim.scene.search.certificate import certify
from diffsim.scene.search.ending import ending
from diffsim.scene.search.objective import Evaluation
from diffsim.scene.search.plan import plan_of
from diffsim.scene.search.reached import require_reached
from diffsim.scene.search.search import Found, Search
from diffsim.scene.search.stages import region_values
from diffsim.scene.search.uncertainty import Uncertain, check_uncertainty, uncertain
from diffsim.scene.setup.design import means_of, measures_of
from diffsim.scene.setup.sizes import shots_of
from diffsim.scene.shots.cluster import Processes, opened
from diffsim.scene.shots.groups import Groups
from diffsim.scene.shots.mutes import shares
from diffsim.scene.shots.truth import Observed, observe, true_fields
from diffsim.scene.shots.windows import joined
from diffsim.scene.shots.workers import Workers
from diffsim.scene.snapshots import snapshots_of
from diffsim.scene.words.domains import NUMBER, everywhere
from diffsim.scene.words.rules import TIME
from diffsim.typing import Array
from diffsim.version import __version__

PLAN_SECONDS = 0.2
"""Approximate time to measure the parts of a gradient, without compiling."""


def run_scene(
    scene: Description,
    out: Path | None = None,
    resume: bool = False,
    certificate: bool = False,
    precision: str | None = None,
    watcher: Watcher | None = None,
    workers: Processes = None,
    domains: tuple[int, ...] | None = None,
) -> Outcome:
    """Find the unknowns of a scene.

    Args:
        scene: the scene.
        out: folder for the journal and the outcome; None: nothing is written, and the run cannot be resumed.
        resume: resume the run in `out`. It ends with the same bits as without the interruption. If False, such a run starts
            anew: the watcher gets a note, and the earlier progress is deleted when the search begins.
        certificate: measure the certificate too.
        precision: "f32" or "f64"; None: the default of `diffsim.init`.
        watcher: receives the progress of the run.
        workers: processes that run the shots: a number of processes on this machine, which share its cores and end with the run, the
            address of a scheduler of dask, such as "tcp://host:8786", or a `distributed.Client`; None: this process, one shot after
            another. The answer is the same bit for bit.
        domains: boxes along each axis of the grid, one for each process of MPI, see `Simulation`. Twice as many processes are two groups,
            which share the shots out, and so on. All processes call this with the same arguments. Rank 0 writes the outcome. Each process
            writes files of its own sweeps in `out`, so that killed processes resume.

    Raises:
        SceneError: the scene or the folder is invalid. Nothing is written.
        WorkerError: the processes cannot be started or reached, or they die.
        StorageError: another process runs in the folder, it is not writable, or the disk has too little space for the results.
        NonFiniteError: the loss is no longer finite. The last good state is in `last.npz`.
        KeyboardInterrupt: the best answer so far is in `last.npz` and the journal.
    """
    began = time.perf_counter()
    if domains is not None and workers is not None:
        raise SceneError("--domains with --workers, expected one of them; leave the other out")
    watcher = watcher or Watcher()
    precision = precision or settings().precision
    watcher.phase(f"{scene.name}: assembling")
    with ExitStack() as stack:
        ranks: Ranks = Alone() if domains is None else stack.enter_context(in_groups(prod(domains)))
        options = [scene.model_dump(mode="json"), precision, str(out), resume, certificate, domains, __version__]
        _require_same(ranks, json.dumps(options, sort_keys=True))
        grouped = domains is not None and ranks.size > prod(domains)
        crew: Workers = Groups(ranks, prod(domains or ())) if grouped else stack.enter_context(opened(workers, shots_of(scene)))
        problem = assemble(scene, precision, out, workers=crew, domains=domains, ranks=ranks)
        for line in notes_of(problem):
            watcher.note(f"note: {line}")
        identity = identify(problem.scene, precision)
        _require_same(ranks, identity)
        if out is not None and ranks.rank == 0:
            check_folder(out, identity, resume)
            stack.enter_context(held(out))
            check_folder(out, identity, resume)  # another process may have been there
            if not resume and (note := what_starts_anew(out)) is not None:
                watcher.note(note)
            require_room(problem, out)
        ranks.gathered(None)  # nobody writes before rank 0 has checked the folder
        return _run(problem, identity, began, out, resume, certificate, watcher)


def _require_same(ranks: Ranks, here: object) -> None:
    """Raise SceneError on all ranks if what one has differs from that of rank 0."""
    every = ranks.gathered(here)
    for rank, there in enumerate(every):
        if there != every[0]:
            raise SceneError(
                f"rank {rank} of {ranks.size} differs from rank 0, expected the same on all, got another scene, data file, option or "
                "version; start all with one command"
            )


def _run(
    problem: Problem, identity: Identity, began: float, out: Path | None, resume: bool, certificate: bool, watcher: Watcher
) -> Outcome:
    """Run the scene in a folder that this process, or rank 0, has locked."""
    scene, seconds = problem.scene, {}
    writing = out is not None and problem.ranks.rank == 0
    if not scene.design:
        watcher.phase(f"{scene.name}: {'reading' if scene.truth is None else 'making'} the data")
    alone = problem.workers if problem.ranks.size == 1 else Groups(problem.ranks, 1)  # the truth has a grid of its own, in no domains
    observed = observe(scene, problem.setup, alone)
    truth = {**true_fields(scene, problem.setup), **observed.starts}
    if scene.uncertainty is not None:
        check_uncertainty(problem, observed)
    seconds["data"] = time.perf_counter() - began
    lines: tuple[Line, ...] = ()
    if certificate:
        watcher.phase(f"{scene.name}: checking the gradient")
        lines = certify(scene).lines
        seconds["certificate"] = time.perf_counter() - began - seconds["data"]
    if out is not None and writing:
        claim_folder(out, scene, identity)
    require_reached(problem)
    watcher.phase(f"{scene.name}: compiling, planning the gradient")
    plan = plan_of(problem, PLAN_SECONDS, brief=True)
    problem = replace(problem, checkpoint=plan)
    mark = time.perf_counter()
    if out is not None and writing and not resume:
        start_anew(out)
    problem.ranks.gathered(None)  # what an earlier run left is gone
    watcher.phase(f"{scene.name}: first gradient")
    search = Search(problem, observed, out, identity, watcher).run()
    seconds["optimise"] = time.perf_counter() - mark
    uncertainty = None
    if scene.uncertainty is not None:
        mark = time.perf_counter()
        watcher.phase(f"{scene.name}: measuring the uncertainty")
        uncertainty = uncertain(problem, observed, search.fields, (search.misfit, search.last.predicted), out, identity, watcher)
        seconds["uncertainty"] = time.perf_counter() - mark
    mark = time.perf_counter()
    watcher.phase(f"{scene.name}: taking snapshots of the answer")
    snapshots = snapshots_of(problem, search.fields)
    seconds["snapshots"] = time.perf_counter() - mark
    seconds["all"] = time.perf_counter() - began
    outcome = _outcome(problem, observed, truth, search, lines, seconds, _taken(problem, search, plan), uncertainty, snapshots)
    problem.ranks.gathered(None)
    if out is not None and writing:
        outcome.save(out)
        for path in (out / LAST, *(path for pattern in LEFT for path in out.glob(pattern))):  # of other cuts too
            path.unlink(missing_ok=True)
    return outcome


def _outcome(
    problem: Problem,
    observed: Observed,
    truth: Mapping[str, Array],
    search: Found,
    certificate: tuple[Line, ...],
    seconds: dict[str, float],
    taken: Taken,
    uncertainty: Uncertain | None,
    snapshots: Mapping[str, Snapshots],
) -> Outcome:
    scene, setup = problem.scene, problem.setup
    first, last, answer = search.first, search.last, search.fields
    unknowns = {
        name: UnknownField(
            start=problem.start[name],
            answer=answer[name],
            gradient_first=first.by_cell[name],
            gradient_last=last.by_cell[name],
            truth=truth.get(name),
            mask=problem.free[name],
            unit=setup.unit(name),
            axes=() if setup.everywhere(name) else _axes(setup.place(name, "").grid, scene, setup.equation.time_unit),
            deviation=None if uncertainty is None else uncertainty.deviation[name],
            prior_deviation=None if uncertainty is None else uncertainty.prior[name],
            values=_values(problem.unknowns.parts[name], answer[name], setup.unit(name)),
        )
        for name in answer
    }
    compared = {} if scene.design else {where: _compared(where, problem, observed, (first, last)) for where in first.predicted}
    names = {name: recorded.names for name, recorded in setup.data.items() if recorded.names}
    times = setup.equation.dt * np.arange(setup.steps * setup.windows + 1)
    fit = {
        state: fits(
            pair.data,
            pair.end,
            times if pair.times is None else pair.times,
            pair.share,
            names.get(state, ()),
            pair.noise if pair.deviation is None else pair.deviation,
        )
        for (kind, state), pair in compared.items()
        if kind == "traces"
    }
    measured = measures_of(scene, setup.watched, first.predicted, last.predicted)
    measured |= means_of(scene, setup.times(), first.predicted, last.predicted)
    in_turn = {name for name, model in scene.sources.items() if model.fire == "in turn"}
    sources = {
        name: np.concatenate([shot.sources[name] for shot in setup.shots]) if name in in_turn else points
        for name, points in setup.shots[0].sources.items()
    }
    lines = {f"mode of {name}": sources.pop(name)[[0, -1]] for name in setup.guided}
    if setup.watched is not None:
        lines |= {f"monitor {name}": ends for name, ends in setup.watched.ends.items()}
    simulation = setup.simulation
    background = {name: values for name, values in problem.known.items() if everywhere(setup.equation, name)}
    return Outcome(
        name=scene.name,
        title=scene.title,
        summary=scene.summary,
        equation=scene.equation.title,
        axes=_axes(setup.grid, scene, setup.equation.time_unit),
        background=background,
        background_units={name: setup.unit(name) for name in background},
        sources=sources,
        receivers={} if setup.watched else dict(setup.receivers),
        lines=lines,
        measured=measured,
        times=times,
        fits=fit,
        time_unit=setup.equation.time_unit,
        traces={state: pair for (kind, state), pair in compared.items() if kind == "traces"},
        finals={state: pair for (kind, state), pair in compared.items() if kind == "final"},
        unknowns=unknowns,
        loss_parts={label: (first.parts[label], last.parts[label]) for label in first.parts},
        history=search.history,
        stopped=ending(scene, search.reason, search.history, compared.values(), simulation.precision, _penalised(problem, last)),
        accepted=tuple(judge(problem, (first.value, last.value), compared, unknowns, measured, fit)),
        certificate=certificate,
        schedule=repr(problem.schedule),
        memory=Memory(simulation.predicted_bytes(problem.schedule), simulation.allocated_bytes(), peak_memory()),
        versions=versions(),
        machine=machine(simulation.precision),
        seed=scene.seed,
        seconds=seconds,
        settings=scene.model_dump(mode="json", exclude_unset=True, exclude_none=True),
        gradient=taken,
        divided=_divided(problem),
        eigenvalues=None if uncertainty is None else uncertainty.eigenvalues,
        snapshots=snapshots,
        notes=tuple(notes_of(problem)),
        names=names,
    )


def _penalised(problem: Problem, answer: Evaluation) -> float:
    """Share of the penalties in the loss at the answer."""
    penalties = sum(answer.parts[label] for label in [*problem.penalties, *problem.of_variables])
    return penalties / answer.value if answer.value > 0 else 0.0


def _values(part: Unknown, answer: Array, unit: str) -> dict[str, Array]:
    """The numbers behind an answer, where a parametrisation has names for them. Those of regions are the field's own, with its unit."""
    if isinstance(part, Regions):  # an answer at the bound of a logit has no theta
        return {f"by region, {unit}" if unit else "by region": region_values(part, answer)}
    values = getattr(part, "values", None)
    return {name: np.asarray(each) for name, each in values(part.from_field(answer)).items()} if callable(values) else {}


def _compared(where: tuple[str, str], problem: Problem, observed: Observed, ends: tuple[Evaluation, Evaluation]) -> Compared:
    """The data of a misfit beside the predictions of the start and of the answer."""
    setup = problem.setup
    first, last = (evaluation.predicted[where] for evaluation in ends)
    records = observed.recorded(*where)
    own = {} if records is None else {"times": records.times, "deviation": records.deviation}
    share = shares(problem.scene, where, observed, setup)
    data = observed.of(*where)
    if where[0] == "traces" and setup.windows > 1:
        data, first, last = (joined(each) for each in (data, first, last))
    return Compared(data, first, last, observed.noise[where], setup.unit(where[1]), share=share, **own)


def _axes(grid: Grid, scene: Description, time_unit: str) -> tuple[Axis, ...]:
    """Axes of the grid, or of the domain of an input."""
    names = scene.grid.axes or AXES[-len(scene.grid.shape) :]
    stated = dict(zip(names, scene.grid.units or (), strict=False)) | {TIME: time_unit, NUMBER: ""}
    usual = dict(zip(grid.axes, grid.axis_units, strict=True))
    units = {name: stated.get(name, usual[name].replace("_", " ")) for name in grid.axes}
    return tuple(Axis(name, units[name], grid.coordinates(axis)) for axis, name in enumerate(grid.axes))


def _taken(problem: Problem, search: Found, plan: Plan) -> Taken:
    first, *later = search.seconds
    shots, chosen = len(problem.setup.shots), plan.chosen
    assert chosen.seconds is not None
    return Taken(median(later) if later else first, shots * chosen.seconds, first, search.peak, chosen.peak)


def _divided(problem: Problem) -> Divided | None:
    """The division of the grid, by the last gradient. All ranks call it."""
    boxes, ranks, sweep = problem.domains, problem.ranks, problem.setup.simulation.last_sweep
    shares = ranks.gathered(0.0 if sweep is None else sweep.ghost_share)
    if boxes is None or ranks.size == 1 or sweep is None:
        return None
    return Divided(boxes, ranks.size // prod(boxes), max(shares), sweep.exchanges, sweep.exchange_seconds, sweep.seconds)


def machine(precision: str) -> dict[str, str | int]:
    """The machine: arch, engine, precision, threads, lanes of a tile, bytes of a register as the engine's compiler knows it, cores."""
    now = settings()
    measured = None if register_forced() else tuned(now.engine)
    return {
        "arch": now.arch,
        "engine": now.engine,
        "precision": precision,
        "threads": now.threads,
        "lanes": lanes(precision_dtype(precision)),
        "registers": f"{now.register_bytes} bytes" + (f", by diffsim tune of {measured.date}" if measured else ""),
        "cores": usable_cores(),
    }
