"""The results of a scene's run, with all data for the figures of a report. They can be saved and loaded.

`Outcome.save` writes `result.npz` (every array, under the path of its attribute, such as `unknowns.eta0.answer`),
`outcome.json` (everything else) and `history.csv`; `Outcome.load` restores the same outcome.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, is_dataclass, replace
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, TypeAlias, Union, get_args, get_origin, get_type_hints

import numpy as np

from diffsim.base.arguments import path_of
from diffsim.base.messages import reason_shown, shown
from diffsim.certificate import Line
from diffsim.certificate.line import judged
from diffsim.errors import SceneError
from diffsim.mesh.grid import Axis
from diffsim.records.formats.numpy_files import UNREADABLE
from diffsim.scene.disk.files import write_aside
from diffsim.scene.disk.fit import Fit
from diffsim.scene.words.model import Mask
from diffsim.typing import Array

RESULT, OUTCOME, HISTORY = "result.npz", "outcome.json", "history.csv"

Plane: TypeAlias = tuple[int, int]
"""An axis of the grid, and the index along it."""


@dataclass(frozen=True, eq=False)
class UnknownField:
    """The answer for an unknown: a field, values over time or along a side, or a number.

    Attributes:
        start: start of the search, over the cells.
        answer: the answer, over the cells.
        gradient_first: gradient of the loss with respect to the value of each cell at the start, 1/unit. The parametrisation is not
            applied: it is not smoothed and not masked.
        gradient_last: the same at the answer.
        truth: the truth that made the data, over the cells; None: the data are records, and nobody knows it.
        mask: True where a cell was free to change; None: everywhere.
        unit: of the field.
        axes: axes of its values if these are not the cells of the grid, such as time; empty: it has a value in each cell.
        deviation: standard deviation a posteriori, NaN where it is not free; None: not asked for.
        prior_deviation: that before the records, likewise.
        values: numbers behind the answer, such as slip and rake of faults, by name, where the parametrisation has `values`.
    """

    start: Array
    answer: Array
    gradient_first: Array
    gradient_last: Array
    truth: Array | None = None
    mask: Mask | None = None
    unit: str = ""
    axes: tuple[Axis, ...] = ()
    deviation: Array | None = None
    prior_deviation: Array | None = None
    values: Mapping[str, Array] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Compared:
    """Data and the predictions of the start and of the answer, all of one shape, shots first.

    Attributes:
        data: with noise. Traces: shape (shots, times, receivers), NaN in gaps; final fields: (shots, *grid shape).
        start: predicted at the start.
        end: predicted by the answer.
        noise: standard deviation of the noise in the data, in `unit`, the root mean square of those of all samples; 0: not known.
        unit: of all of them.
        times: of the samples of traces, s; None: those of the run.
        deviation: standard deviation of each sample, in the shape of the data; None: `noise` for all.
        share: how much each sample counts, in the shape of the data: 0 where windows, mutes and weights leave it out; None: all alike.
    """

    data: Array
    start: Array
    end: Array
    noise: float = 0.0
    unit: str = ""
    times: Array | None = None
    deviation: Array | None = None
    share: Array | None = None

    def at(self, receiver: int) -> Compared:
        """The traces of one receiver."""
        own: dict[str, Any] = {
            name: None if (values := getattr(self, name)) is None else values[..., receiver : receiver + 1]
            for name in ("data", "start", "end", "deviation", "share")
        }
        return replace(self, **own)

    @property
    def residual(self) -> Array:
        """Data - prediction of the answer, where there are data, as a list."""
        return (self.data - self.end)[np.isfinite(self.data)]

    @property
    def over_noise(self) -> float:
        """Root mean square of the residual, each sample over its standard deviation, of those that count; infinite without noise."""
        there = np.isfinite(self.data)
        noise = self.noise if self.deviation is None else self.deviation[there]
        if not np.all(noise):
            return float("inf")
        share = np.ones(self.residual.shape) if self.share is None else self.share[there]
        return float(np.sqrt(np.sum(share * (self.residual / noise) ** 2) / np.sum(share))) if share.any() else float("nan")


@dataclass(frozen=True, eq=False)
class Snapshots:
    """A state of the first shot at a few instants, over cells or blocks of cells; in 3-D, on a plane.

    Attributes:
        times: of the instants, s.
        start: predicted by the start of the search, shape (instants, *blocks), the mean over the cells of each block.
        answer: predicted by the answer, likewise.
        block: cells along each side of a block; the last block along an axis may have fewer.
        unit: of the state.
        plane: the plane, in 3-D; None: all cells.
    """

    times: Array
    start: Array
    answer: Array
    block: int
    unit: str = ""
    plane: Plane | None = None


@dataclass(frozen=True)
class Progress:
    """An iteration of the optimiser; number 0 is the start.

    Attributes:
        iteration: its number, over all stages. The start of a later stage has the number of the iteration before, and another loss.
        evaluations: number of evaluations of loss and gradient so far.
        loss: sum of misfits and penalties.
        gradient_norm: largest entry of the gradient with respect to the optimiser's variables, without entries held by a bound.
        seconds: time of all evaluations so far.
        stage: number of its stage, from 1.
        products: number of products with the Hessian so far.
    """

    iteration: int
    evaluations: int
    loss: float
    gradient_norm: float
    seconds: float
    stage: int = 1
    products: int = 0


@dataclass(frozen=True)
class Memory:
    """Memory in bytes.

    Attributes:
        predicted: all fields of a gradient, by the schedule.
        allocated: all fields in the end.
        peak_process: largest resident size of the process, with Python and all libraries.
    """

    predicted: int
    allocated: int
    peak_process: int


@dataclass(frozen=True)
class Taken:
    """The cost of a gradient of the loss, over all shots: predicted before the run, and measured.

    Attributes:
        seconds: median time of a gradient after the first.
        seconds_predicted: predicted time from measured parts, for all shots.
        first: time of the first gradient.
        peak: bytes of memory in addition to those in use before.
        peak_predicted: the plan's prediction of it.
    """

    seconds: float
    seconds_predicted: float
    first: float
    peak: int
    peak_predicted: int


@dataclass(frozen=True)
class Divided:
    """How the grid was divided among processes, and the cost of that in a gradient of one shot.

    Attributes:
        boxes: number along each axis.
        groups: groups of processes, which run different shots.
        ghost_share: ghost cells over all cells that a process computes, the largest of all processes.
        exchanges: exchanges of ghost cells in the gradient.
        exchange_seconds: their time on rank 0, with the wait for other ranks.
        seconds: time of the gradient.
    """

    boxes: tuple[int, ...]
    groups: int
    ghost_share: float
    exchanges: int
    exchange_seconds: float
    seconds: float


@dataclass(frozen=True, eq=False)
class Outcome:
    """The results of a scene's run.

    Attributes:
        name: of the scene, such as "tsunami".
        title: one line.
        summary: the question of the scene, in a few sentences.
        equation: name of the equation, such as "long_wave".
        axes: of the grid, in the order of the arrays' axes.
        background: known fields over the cells, such as the depth, by input name. Fields that vary along some axes only are left out.
        background_units: their units.
        sources: forcing -> positions, shape (sources, axes).
        receivers: state -> positions, shape (receivers, axes).
        lines: monitors, and modes that are sent -> both ends of their line, shape (2, axes).
        time_unit: of `times`.
        fits: state -> the fit of the answer to the record of each receiver, over all shots.
        measured: measurements of the monitors of a design's objectives, by name, at the start and at the answer.
        times: of the run; traces whose data are records have times of their own.
        traces: recorded states by name.
        finals: states after the last step, by name, if the loss uses them.
        unknowns: by input name.
        loss_parts: each misfit and penalty -> its value at the start and at the answer; the loss of the last stage is their sum.
        history: the start and every iteration.
        stopped: reason for the end of the search, when the loss stopped falling, and a way to go on; a sentence without its full stop.
        accepted: lines of the acceptance.
        certificate: lines of the certificate, if it was requested.
        schedule: the checkpointing schedule, as text.
        memory: predicted and actual.
        versions: versions of diffsim, Python and the libraries.
        machine: arch, precision, threads, lanes, cores.
        seed: of all random numbers.
        seconds: wall-clock time by phase ("data", "optimise", "all").
        settings: the scene as run, as in its TOML file.
        gradient: its predicted and measured cost.
        divided: the grid in domains; None: one process had it.
        eigenvalues: of the Hessian of the misfit relative to the prior; None: no uncertainty was asked for.
        snapshots: compared states at a few instants, by name.
        notes: possible mistakes of the scene, such as sources inside of an absorbing layer, in sentences without full stops.
        names: state -> names of its receivers in the files of its records, where these have names or numbers of their own.
    """

    name: str
    title: str
    summary: str
    equation: str
    axes: tuple[Axis, ...]
    background: Mapping[str, Array]
    background_units: Mapping[str, str]
    sources: Mapping[str, Array]
    receivers: Mapping[str, Array]
    times: Array
    traces: Mapping[str, Compared]
    finals: Mapping[str, Compared]
    unknowns: Mapping[str, UnknownField]
    loss_parts: Mapping[str, tuple[float, float]]
    history: tuple[Progress, ...]
    stopped: str
    accepted: tuple[Line, ...]
    certificate: tuple[Line, ...]
    schedule: str
    memory: Memory
    versions: Mapping[str, str]
    machine: Mapping[str, str | int]
    seed: int
    seconds: Mapping[str, float]
    settings: Mapping[str, Any] = field(default_factory=dict)
    gradient: Taken | None = None
    divided: Divided | None = None
    eigenvalues: Array | None = None
    snapshots: Mapping[str, Snapshots] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    names: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    lines: Mapping[str, Array] = field(default_factory=dict)
    measured: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    time_unit: str = "s"
    fits: Mapping[str, tuple[Fit, ...]] = field(default_factory=dict)

    @property
    def losses(self) -> tuple[float, float]:
        """The loss at the start and at the answer; that of the last stage."""
        first, last = zip(*self.loss_parts.values(), strict=True)
        return sum(first), sum(last)

    @property
    def passed(self) -> bool:
        """True if every line of the acceptance and of the certificate passes."""
        return self.judged is True

    @property
    def judged(self) -> bool | None:
        """False if a line of the acceptance or of the certificate fails, else None if one cannot judge, else True."""
        lines = (*self.accepted, *self.certificate)
        return judged(lines) if lines else True

    def save(self, folder: Path) -> None:
        """Write `result.npz`, `history.csv` and `outcome.json`, each aside first and then renamed."""
        arrays: dict[str, Array] = {}
        text = json.dumps(_pack(self, "", arrays), indent=1, ensure_ascii=False)
        buffer = io.BytesIO()
        np.savez_compressed(buffer, **arrays)  # type: ignore[arg-type]
        write_aside(folder / RESULT, buffer.getvalue())
        write_aside(folder / HISTORY, history_csv(self.history).encode())
        write_aside(folder / OUTCOME, text.encode())

    @classmethod
    def load(cls, folder: str | Path) -> Outcome:
        """Load the files that `save` wrote.

        Raises:
            SceneError: a file is missing or does not belong to an outcome.
        """
        folder = path_of("folder", folder)
        try:
            tree = json.loads((folder / OUTCOME).read_text(encoding="utf-8"))
            with (folder / RESULT).open("rb") as file, np.load(file) as arrays:
                outcome: Outcome = _unpack(cls, tree, {name: arrays[name] for name in arrays.files})
            return outcome
        except (*UNREADABLE, LookupError, AttributeError) as error:
            what = reason_shown(error)
            raise SceneError(
                f"{folder}: expected a finished run with {OUTCOME} and {RESULT}, found none that can be read ({what}); run the scene again"
            ) from None


def history_csv(history: tuple[Progress, ...]) -> str:
    """The history as comma-separated values with a head line."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    names = [f.name for f in fields(Progress)]
    writer.writerow(names)
    writer.writerows([repr(getattr(row, name)) for name in names] for row in history)
    return text.getvalue()


def _pack(value: Any, path: str, arrays: dict[str, Array]) -> Any:
    """`value` as JSON. Arrays are moved to `arrays` and replaced by their name."""
    if isinstance(value, np.ndarray):
        arrays[path] = value
        return {"array": path}
    if is_dataclass(value):
        return {f.name: _pack(getattr(value, f.name), f"{path}.{f.name}".lstrip("."), arrays) for f in fields(value)}
    if isinstance(value, Mapping):
        return {str(k): _pack(v, f"{path}.{k}", arrays) for k, v in value.items()}
    if isinstance(value, (tuple, list)):
        return [_pack(v, f"{path}.{getattr(v, 'name', k)}", arrays) for k, v in enumerate(value)]
    return value.item() if isinstance(value, np.generic) else value


def _unpack(kind: Any, value: Any, arrays: Mapping[str, Array]) -> Any:
    """A value of this type, from what `_pack` made of it."""
    inside, outer = get_args(kind), get_origin(kind)
    if outer in (Union, UnionType):
        kind = next(each for each in inside if each is not NoneType)
        return None if value is None else _unpack(kind, value, arrays)
    if isinstance(value, dict) and value.keys() == {"array"} and isinstance(value["array"], str):
        return arrays[value["array"]]
    if isinstance(value, dict) and is_dataclass(kind):
        kinds = get_type_hints(kind)
        return kind(**{name: _unpack(kinds[name], part, arrays) for name, part in value.items()})  # type: ignore[operator]
    if isinstance(value, dict) and outer is not tuple:
        return {name: _unpack(inside[1] if inside else Any, part, arrays) for name, part in value.items()}
    if isinstance(value, list) and outer in (tuple, None) and not is_dataclass(kind):
        of_each = (inside[0],) * len(value) if Ellipsis in inside else inside or (Any,) * len(value)
        parts = [_unpack(each, part, arrays) for each, part in zip(of_each, value, strict=True)]
        return tuple(parts) if outer is tuple else parts
    if inside or is_dataclass(kind):
        raise TypeError(f"{shown(value)} is no {kind}")
    return value
