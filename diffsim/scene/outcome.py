"""What a run of a scene found, complete enough to draw every figure of a report from, and to be read back from disk.

`Outcome.save` writes `result.npz` (every array, under the path of its attribute, such as `unknowns.eta0.answer`),
`outcome.json` (everything else) and `history.csv`; `Outcome.load` gives the same outcome back.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np

from diffsim.certificate import Line
from diffsim.certificate.line import judged
from diffsim.errors import SceneError
from diffsim.scene.arrays import UNREADABLE
from diffsim.scene.files import write_aside
from diffsim.scene.model import Mask
from diffsim.scene.shown import cut, printable
from diffsim.typing import Array

RESULT, OUTCOME, HISTORY = "result.npz", "outcome.json", "history.csv"


@dataclass(frozen=True, eq=False)
class Axis:
    """An axis of the grid.

    Attributes:
        name: such as "latitude".
        unit: such as "degrees north".
        coordinates: of the cell centres, in that unit.
    """

    name: str
    unit: str
    coordinates: Array


@dataclass(frozen=True, eq=False)
class UnknownField:
    """An unknown field, found; or values over time, along a side, or a number.

    Attributes:
        start: where the search began, over the cells.
        answer: what was found, over the cells.
        gradient_first: gradient of the loss by the value of each cell at the start, 1/unit. Before the parametrisation:
            not smoothed, not masked.
        gradient_last: the same at the answer.
        truth: what made the data, over the cells.
        mask: True where a cell was free to change; None: everywhere.
        unit: of the field.
        axes: of its values where these are not the cells of the grid, such as time; none: it has a value in each cell.
    """

    start: Array
    answer: Array
    gradient_first: Array
    gradient_last: Array
    truth: Array
    mask: Mask | None = None
    unit: str = ""
    axes: tuple[Axis, ...] = ()


@dataclass(frozen=True, eq=False)
class Compared:
    """Data beside the predictions of the start and of the answer, all of one shape, shots first.

    Attributes:
        data: with noise. Traces: shape (shots, times, receivers); final fields: (shots, *grid shape).
        start: predicted at the start.
        end: predicted by the answer.
        noise: standard deviation of the noise in the data, in `unit`.
        unit: of all of them.
    """

    data: Array
    start: Array
    end: Array
    noise: float = 0.0
    unit: str = ""


@dataclass(frozen=True)
class Progress:
    """An iteration of the optimiser; number 0 is the start.

    Attributes:
        iteration: its number.
        evaluations: of loss and gradient so far.
        loss: misfits and penalties together.
        gradient_norm: largest entry of the gradient by the optimiser's variables, entries held by a bound left out.
        seconds: spent in evaluations so far.
    """

    iteration: int
    evaluations: int
    loss: float
    gradient_norm: float
    seconds: float


@dataclass(frozen=True)
class Memory:
    """Bytes.

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
    """What a gradient of the loss takes, over all shots: predicted before the run, and as it was.

    Attributes:
        seconds: of each after the first, half of them took longer.
        seconds_predicted: from measured parts, for all shots.
        first: seconds of the first.
        peak: bytes of memory that were needed beyond what the process had.
        peak_predicted: by the plan.
    """

    seconds: float
    seconds_predicted: float
    first: float
    peak: int
    peak_predicted: int


@dataclass(frozen=True, eq=False)
class Outcome:
    """What a run of a scene found.

    Attributes:
        name: of the scene, such as "tsunami".
        title: one line.
        summary: what the scene asks, in a few sentences.
        equation: which one, such as "long_wave".
        axes: of the grid, in the order of the arrays' axes.
        background: known fields over the cells, such as the depth, by input name; what varies along few axes is left out.
        background_units: their units.
        sources: forcing -> positions, shape (sources, axes).
        receivers: state -> positions, shape (receivers, axes).
        times: of the traces' samples, seconds.
        traces: recorded states by name.
        finals: states after the last step, by name, where the loss looks at them.
        unknowns: by input name.
        loss_parts: each misfit and penalty -> its value at the start and at the answer; the loss is their sum.
        history: the start and every iteration.
        stopped: why the optimiser stopped, in words.
        accepted: lines of the acceptance.
        certificate: lines of the certificate, if it was asked for.
        schedule: the checkpointing schedule, in words.
        memory: predicted and actual.
        versions: of diffsim, Python and what it stands on.
        machine: arch, precision, threads, lanes, cores.
        seed: of all random numbers.
        seconds: wall-clock time by phase ("data", "optimise", "all").
        settings: the scene as run, as in its TOML file.
        gradient: what it took, beside the prediction.
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

    @property
    def passed(self) -> bool:
        """Whether every line of the acceptance and of the certificate passes."""
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
        """Read back what `save` wrote.

        Raises:
            SceneError: a file is missing or is not of an outcome.
        """
        folder = Path(folder)
        try:
            tree = json.loads((folder / OUTCOME).read_text(encoding="utf-8"))
            with (folder / RESULT).open("rb") as file, np.load(file) as arrays:
                tree = _unpack(tree, {name: arrays[name] for name in arrays.files})
            tree |= {
                "axes": tuple(Axis(**a) for a in tree["axes"]),
                "traces": {n: Compared(**c) for n, c in tree["traces"].items()},
                "finals": {n: Compared(**c) for n, c in tree["finals"].items()},
                "unknowns": {n: _unknown(u) for n, u in tree["unknowns"].items()},
                "loss_parts": {n: tuple(p) for n, p in tree["loss_parts"].items()},
                "history": tuple(Progress(**p) for p in tree["history"]),
                "accepted": tuple(Line(**p) for p in tree["accepted"]),
                "certificate": tuple(Line(**p) for p in tree["certificate"]),
                "memory": Memory(**tree["memory"]),
                "gradient": None if tree.get("gradient") is None else Taken(**tree["gradient"]),
            }
            return cls(**tree)
        except (*UNREADABLE, LookupError, AttributeError) as error:
            what = cut(printable(str(error)), 200)
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


def _unknown(table: dict[str, Any]) -> UnknownField:
    return UnknownField(**table | {"axes": tuple(Axis(**axis) for axis in table.get("axes", ()))})


def _pack(value: Any, path: str, arrays: dict[str, Array]) -> Any:
    """`value` as JSON; arrays go into `arrays`, and leave their name."""
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


def _unpack(value: Any, arrays: Mapping[str, Array]) -> Any:
    if isinstance(value, dict):
        if value.keys() == {"array"} and isinstance(value["array"], str):
            return arrays[value["array"]]
        return {k: _unpack(v, arrays) for k, v in value.items()}
    return [_unpack(v, arrays) for v in value] if isinstance(value, list) else value
