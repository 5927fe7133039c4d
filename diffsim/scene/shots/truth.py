"""The data of an inversion: records from files, or observations of the hidden truth, from a finer grid with another time step."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy.interpolate import CubicSpline

from diffsim.mesh.grid import Grid
from diffsim.records import Resampling
from diffsim.scene.schema.schema import Description, Truth
from diffsim.scene.setup.fields import build_field
from diffsim.scene.setup.raster import overlaps
from diffsim.scene.setup.recorded import Recorded
from diffsim.scene.setup.setup import Setup, Where, build_inputs, build_setup, check_inputs, require_input
from diffsim.scene.shots.forward import Forward
from diffsim.scene.shots.misfits import part_of
from diffsim.scene.shots.shot_runs import predictions
from diffsim.scene.shots.workers import HERE, Workers
from diffsim.scene.words.domains import location
from diffsim.typing import Array

Sampling = Callable[[Any], Any]
"""The traces of a run -> the traces at the times of the data."""


@dataclass(frozen=True, eq=False)
class Observed:
    """Data with noise, for the inversion.

    Attributes:
        traces: state -> shape (shots, samples, receivers), at the times of its records, else at those of the run (steps + 1). NaN in gaps.
        finals: state -> shape (shots, *grid), over the inversion's cells.
        noise: ("traces" or "final", state) -> root mean square of the standard deviations; 0: not known.
        records: state -> its records, from the start to the end of the run.
        sampling: state -> the resampling of a run's traces to the times of its records.
        starts: state -> its truth at the beginning of each window, where there are several.
    """

    traces: Mapping[str, Array]
    finals: Mapping[str, Array]
    noise: Mapping[Where, float]
    records: Mapping[str, Recorded] = field(default_factory=dict)
    sampling: Mapping[str, Sampling] = field(default_factory=dict)
    starts: Mapping[str, Array] = field(default_factory=dict)

    def of(self, kind: str, state: str) -> Array:
        """The data of a misfit."""
        return self.traces[state] if kind == "traces" else self.finals[state]

    def recorded(self, kind: str, state: str) -> Recorded | None:
        """The records of a misfit; None: its data have the times of the run."""
        return self.records.get(state) if kind == "traces" else None

    def weight(self, kind: str, state: str) -> Array | float:
        """Weight of each sample: its weight in the file over the square of its standard deviation; 1 in gaps."""
        record = self.recorded(kind, state)
        if record is None or (record.deviation is None and record.weight is None):
            return 1.0
        there = np.isfinite(self.of(kind, state))
        weight = np.ones(there.shape) if record.weight is None else np.where(there, record.weight, 1.0)
        return weight if record.deviation is None else weight / np.where(there, record.deviation, 1.0) ** 2


def true_fields(scene: Description, setup: Setup) -> dict[str, Array]:
    """The truth of each unknown that has no windows, over its domain on the scene's own grid; empty without a truth."""
    if scene.truth is None:
        return {}
    names = [name for name in scene.unknowns if not setup.by_window(name)]
    return {name: build_field(scene.truth.fields[name], setup.place(name, f"truth.fields.{name}")) for name in names}


def observe(scene: Description, setup: Setup, workers: Workers = HERE) -> Observed:
    """Take the data from the records; with a truth, make them from that, at the places and times of the records if there are some.

    Args:
        scene: the scene.
        setup: the scene on its own grid. The data are interpolated to it.
        workers: where the shots of the truth run.
    """
    end = setup.equation.dt * setup.steps
    records = {name: recorded.until(end) for name, recorded in setup.data.items()}
    sampling = {name: Resampling(setup.equation.dt, setup.steps, record.times) for name, record in records.items() if len(record.times)}
    if scene.truth is None:
        noise = {("traces", name): _noise(record.deviation, record.values) for name, record in records.items()}
        return Observed({name: record.values for name, record in records.items()}, {}, noise, records, sampling)
    return _made(scene, scene.truth, setup, workers, records, sampling)


def _made(
    scene: Description,
    truth: Truth,
    setup: Setup,
    workers: Workers,
    records: Mapping[str, Recorded],
    sampling: Mapping[str, Sampling],
) -> Observed:
    """Data of the truth."""
    fine, inputs = prepared(scene, setup)
    wanted = sorted({(m.of, m.state) for m in scene.misfit})
    starts: dict[str, Array] = {}
    if setup.windows == 1:
        shots = list(workers.run(predictions, (Forward(fine, inputs),), (wanted, {}), range(len(fine.shots))))
    else:
        shots, starts = _followed(fine, inputs, wanted, setup)

    rng = np.random.default_rng(scene.seed)
    traces: dict[str, Array] = {}
    finals: dict[str, Array] = {}
    noise: dict[Where, float] = {}
    for kind, state in wanted:
        predicted = [shot[kind, state].astype(float) for shot in shots]
        if kind == "final":
            at = location(setup.equation, state)
            clean = np.stack([averaged(field, fine.grid, setup.grid, at) for field in predicted])
        else:
            times = records[state].times if state in records else setup.times()
            clean = np.stack([CubicSpline(fine.times(), traces)(times) for traces in predicted])
        if kind == "traces" and setup.equation.steady:
            clean[:, times <= 0] = np.nan  # the guess is no prediction
        deviation: float | Array = truth.noise * float(np.sqrt(np.nanmean(clean**2))) if clean.size else 0.0
        data = clean
        if kind == "traces" and state in records:
            record = records[state]
            data = np.where(np.isfinite(record.values), clean, np.nan)
            deviation = deviation if record.deviation is None else record.deviation
        noise[kind, state] = deviation if isinstance(deviation, float) else _noise(deviation, data)
        (traces if kind == "traces" else finals)[state] = data + deviation * rng.standard_normal(clean.shape)
        if kind == "traces" and setup.windows > 1:
            traces[state][:-1, -1] = np.nan  # the next window begins with this sample
    return Observed(traces, finals, noise, records, sampling, starts)


def _followed(
    fine: Setup, inputs: Mapping[str, Array], wanted: Collection[Where], setup: Setup
) -> tuple[list[dict[Where, Array]], dict[str, Array]]:
    """One run of the truth through all windows: these quantities of each, and the states that it begins with, on the scene's grid."""
    now, shots, starts = dict(inputs), [], []
    for _ in range(setup.windows):
        solution = next(fine.predict(now))
        shots.append(part_of(solution, wanted))
        before = {name: np.asarray(now[name], float).reshape(fine.grid.shape) for name in solution.final}
        starts.append({name: averaged(values, fine.grid, setup.grid, location(setup.equation, name)) for name, values in before.items()})
        now |= solution.final
    return shots, {name: np.stack([each[name] for each in starts]) for name in starts[0]}


def _noise(deviation: Array | None, data: Array) -> float:
    """Root mean square of the standard deviations where there are data; 0 if they are not known."""
    there = np.isfinite(data)
    return 0.0 if deviation is None or not there.any() else float(np.sqrt(np.mean(deviation[there] ** 2)))


def prepared(scene: Description, setup: Setup) -> tuple[Setup, dict[str, Array]]:
    """The scene on the grid of its data, and the checked inputs: everything except the run."""
    truth = scene.truth
    assert truth is not None  # data are made of it
    keyed = {name: (f"fields.{name}", model) for name, model in scene.fields.items()}
    keyed |= {name: (f"truth.fields.{name}", model) for name, model in truth.fields.items()}
    for name, (key, _) in keyed.items():
        require_input(key, name, scene, setup.equation)
    fine = build_setup(setup.resolved, setup.simulation.precision, wrt=(), truth=truth, data=setup.data)
    inputs = build_inputs(keyed, fine)
    check_inputs(fine, inputs, {name: key for name, (key, _) in keyed.items()}, "time.dt over truth.refine")
    return fine, inputs


def averaged(values: Array, fine: Grid, coarse: Grid, at: tuple[int, ...] = ()) -> Array:
    """Means over the coarse cells of a field over the fine cells of the same region: keeps the integral.

    With a location `at` along each axis, values on faces (1) are means over a cell's width around them, of which half lies in the grid at
    its end.
    """
    for axis, face in enumerate(at or (0,) * fine.ndim):
        edges = [g.coordinates(axis, face)[0] + g.spacing[axis] * (np.arange(g.shape[axis] + 1) - 0.5) for g in (coarse, fine)]
        share = overlaps(*edges)
        share /= share.sum(axis=1, keepdims=True) if face else coarse.spacing[axis]
        values = np.moveaxis(np.tensordot(share, values, (1, axis)), 0, axis)
    return values
