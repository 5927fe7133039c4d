"""Files of a seismic survey, made by a program that is no part of diffsim: `python scripts/survey/make.py FOLDER`.

`survey.c` computes the records on a staggered grid with cells of two thirds of those of the search, below a free surface; the search of
`fwi.toml` has another scheme and other absorbing edges. It writes `records.sgy` (with 2 % noise), `start.sgy` (water, and smooth rock,
where the search begins), `true.sgy` (what made the records, for a comparison afterwards) and `fwi.toml`. It needs a C compiler, and the
extra `formats` of diffsim.
"""

from __future__ import annotations

import argparse
import math
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import segyio

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
from models import MODELS, Model  # noqa: E402  # it lies beside this file

FINER = 1.5
"""Cells of the program along an axis for one of the search."""
EDGE, BEYOND = 100, 10
"""Cells of the program that absorb at each side but the upper one, and those between them and the model."""
OPEN = ("equation.boundary=zero", "grid.origin=[0.0, 0.0]", "grid.shape=[97, 241]")
"""Changes of `fwi.toml` by `--set` where there is open water in place of the free surface: a layer above too."""
PARTS = 4
"""Points of a cell along each axis whose mean is its wave speed."""
NOISE = 0.02
"""Noise, as a share of the root mean square of the records."""

Array = npt.NDArray[np.float64]


class Geometry:
    """Where a survey has its shots and receivers, and when it records; all on cells of the program.

    Args:
        model: the seabed.
    """

    def __init__(self, model: Model) -> None:
        self.model, self.fine = model, model.spacing / FINER
        self.depth = 2 * model.spacing
        step = 2 * model.spacing  # three cells of the program
        first, between = 3 * round(0.06 * model.width / step / 3), round(0.88 * model.width / step / (model.shots - 1))
        self.shots = step * (first + between * np.arange(model.shots))
        self.receivers = np.arange(3 * step, model.width - 2 * step + 1e-6, 2 * step)
        self.sample = round(24e3 / model.frequency) * 1e-6
        self.delay = 1.2 / model.frequency


def nodes(first: float, last: float, spacing: float) -> Array:
    return first + spacing * np.arange(round((last - first) / spacing) + 1)


def mesh(model: Model, spacing: float, margin: float = 0.0, above: float = 0.0) -> tuple[Array, Array]:
    """Depths as a column and distances as a row, with a margin at each side, and another one above."""
    return nodes(-above, model.depth + margin, spacing)[:, None], nodes(-margin, model.width + margin, spacing)[None, :]


def averaged(speed: Callable[[Array, Array], Array], z: Array, x: Array) -> Array:
    """Means over cells, so that an interface lies where it does on every grid."""
    shifts = (np.arange(PARTS) + 0.5) / PARTS - 0.5
    dz, dx = float(z[1, 0] - z[0, 0]), float(x[0, 1] - x[0, 0])
    return sum(speed(z + a * dz, x + b * dx) for a in shifts for b in shifts) / PARTS**2


def records(model: Model, surface: bool = True) -> Array:
    """Shots x samples x receivers, by survey.c; below a free surface, or in open water."""
    at = Geometry(model)
    margin = (EDGE + BEYOND) * at.fine
    above = 0.0 if surface else margin
    z, x = mesh(model, at.fine, margin, above)
    c = averaged(lambda z, x: model.speed(np.minimum(z, model.depth), np.clip(x, 0.0, model.width)), z, x)
    every = math.ceil(at.sample * c.max() / (0.5 * at.fine))
    dt = at.sample / every
    steps = round(model.seconds / dt) + 1
    t = (np.arange(steps) + 0.5) * dt - at.delay
    integral = t * np.exp(-((np.pi * model.frequency * t) ** 2))  # of the Ricker wavelet
    places = [(round((at.depth + above) / at.fine), round((x + margin) / at.fine)) for x in (*at.shots, *at.receivers)]
    content = b"".join(np.ascontiguousarray(part, float).tobytes() for part in (c, integral, np.array(places)))
    sizes = (*c.shape, at.fine, dt, steps, every, len(at.shots), len(at.receivers), EDGE, int(surface))
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run([str(compiled(Path(folder))), *map(str, sizes)], input=content, capture_output=True, check=True)
    traces = np.frombuffer(done.stdout, np.float32).reshape(len(at.shots), -1, len(at.receivers)).astype(float)
    rms = np.sqrt(np.mean(traces**2))
    return traces + NOISE * rms * np.random.default_rng(0).normal(size=traces.shape)


def compiled(folder: Path) -> Path:
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        raise SystemExit("expected a C compiler, found none; install gcc")
    program = folder / "survey"
    options = ["-O3", "-march=native", "-ffast-math", "-fopenmp"]
    subprocess.run([compiler, *options, str(HERE / "survey.c"), "-o", str(program), "-lm"], check=True)
    return program


def write_segy(path: Path, traces: Array, step: int, headers: Sequence[dict[int, int]]) -> None:
    """Traces (samples x traces) with headers; `step` is between samples, in microseconds or millimetres."""
    spec = segyio.spec()
    spec.format, spec.samples, spec.tracecount = 5, np.arange(len(traces)) * step * 1e-3, traces.shape[1]
    with segyio.create(str(path), spec) as file:
        for k, header in enumerate(headers):
            file.header[k] = {segyio.TraceField.TRACE_SAMPLE_INTERVAL: step, segyio.TraceField.TRACE_SAMPLE_COUNT: len(traces), **header}
            file.trace[k] = np.ascontiguousarray(traces[:, k], np.float32)
        file.bin[segyio.BinField.Interval] = step


def write_records(path: Path, values: Array, at: Geometry) -> None:
    """Records of the kind that the extension says: `.npy` as they are, `.bin` with the samples of a trace side by side."""
    if path.suffix == ".npy":
        return np.save(path, values.astype(np.float32))
    if path.suffix == ".bin":
        return np.ascontiguousarray(values.transpose(0, 2, 1), "<f4").tofile(path)
    field = segyio.TraceField
    headers = [
        {
            field.FieldRecord: shot + 1,
            field.TraceNumber: k + 1,
            field.SourceX: round(100 * place),
            field.GroupX: round(100 * x),
            field.ReceiverGroupElevation: round(-100 * at.depth),
            field.SourceGroupScalar: -100,
            field.ElevationScalar: -100,
        }
        for shot, place in enumerate(at.shots)
        for k, x in enumerate(at.receivers)
    ]
    write_segy(path, np.concatenate(list(values), axis=1), round(1e6 * at.sample), headers)


def write_model(path: Path, values: Array, spacing: float) -> None:
    """A section over (z, x): `.bin` trace after trace; in SEG-Y down a trace by depth, from trace to trace by distance."""
    if path.suffix == ".npy":
        return np.save(path, values.astype(np.float32))
    if path.suffix == ".bin":
        return np.ascontiguousarray(values.T, "<f4").tofile(path)
    write_segy(path, values, round(1e3 * spacing), [{segyio.TraceField.CDP: k + 1} for k in range(values.shape[1])])


def make(folder: Path, model: Model, surface: bool = True) -> None:
    """Write the files of a survey; below a free surface, or in open water, for which `OPEN` changes the scene."""
    folder.mkdir(parents=True, exist_ok=True)
    z, x = mesh(model, model.spacing)
    of_model, of_records = model.files
    write_model(folder / f"true.{of_model}", averaged(model.speed, z, x), model.spacing)
    write_model(folder / f"start.{of_model}", model.start(z, x), model.spacing)
    write_records(folder / f"records.{of_records}", records(model, surface), Geometry(model))
    shutil.copy(HERE / "fwi.toml", folder)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--open", action="store_true", help="open water above, in place of a free surface")
    options = parser.parse_args()
    folder: Path = options.folder
    make(folder, next(iter(MODELS.values())), not options.open)
    print(f"wrote records.sgy, start.sgy, true.sgy and fwi.toml to {folder}")


if __name__ == "__main__":
    main()
