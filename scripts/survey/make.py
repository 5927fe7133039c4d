"""Files of a seismic survey, made by a program that is no part of diffsim: `python scripts/survey/make.py FOLDER`.

`survey.c` computes the records on a staggered grid with cells of 20/3 m; the search of `fwi.toml` has cells of 10 m, another scheme and
other absorbing edges. It writes, in SEG-Y: `records.sgy` (12 shots, 2 % noise), `start.sgy` (water, and smooth rock, where the search
begins) and `true.sgy` (what made the records, for a comparison afterwards). It needs a C compiler, and the extra `formats` of diffsim.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import segyio
from scipy.ndimage import gaussian_filter

HERE = Path(__file__).resolve().parent
FREQUENCY, DELAY = 8.0, 0.15
"""Of the Ricker wavelet: Hz, s."""
SECONDS, SAMPLE = 1.8, 3e-3
"""Of a record, and between its samples, s."""
COARSE, FINE = 10.0, 20.0 / 3.0
"""Cells of the model files and of the program, m."""
MARGIN, EDGE = 225, 200
"""Cells around the survey in the program, and those at each side that absorb: so many that they return next to nothing, also along the
upper side, on which the waves graze. Against open space (a perfectly matched layer) the records have an error below 2 %."""
LOW, HIGH = (-1000.0, -1000.0), (2190.0, 3990.0)
"""First and last depth and distance of the model files, m."""
SHOTS = np.arange(180.0, 2821.0, 240.0)
RECEIVERS = np.arange(40.0, 2961.0, 40.0)
SURFACE = 20.0
"""Depth of shots and receivers, m."""
WATER, BOTTOM = 1500.0, 165.0
"""Wave speed of the water, m/s, and depth of its bottom, m: between cells of both grids."""
NOISE = 0.02
"""Of the root mean square of the records."""

Array = npt.NDArray[np.float64]


def speed(z: Array, x: Array) -> Array:
    """The true wave speed, m/s: water, and below it rock."""
    return np.where(z < BOTTOM, WATER, rock(z, x))


def rock(z: Array, x: Array) -> Array:
    """Wave speed of the rock, m/s: layers that dip and are cut by a fault, and a lens of gas."""
    z, x = np.clip(z, BOTTOM, 1200.0), np.clip(x, 0.0, 3000.0)
    moved = z + 0.06 * x - 90.0 * (x > 1600.0 + 0.35 * z)
    found = 1600.0 + 0.9 * z
    for top, jump in ((260.0, 150.0), (420.0, -120.0), (560.0, 260.0), (800.0, -160.0), (1000.0, 300.0)):
        found = found + jump / (1.0 + np.exp(-(moved - top) / 8.0))
    return found - 350.0 * np.exp(-(((z - 430.0) / 60.0) ** 2) - ((x - 1150.0) / 220.0) ** 2)


def nodes(first: float, last: float, spacing: float) -> Array:
    return first + spacing * np.arange(round((last - first) / spacing) + 1)


def records() -> Array:
    """Shots x samples x receivers, by survey.c."""
    margin = MARGIN * FINE
    z, x = nodes(-margin, 1200.0 + margin, FINE), nodes(-margin, 3000.0 + margin, FINE)
    c = speed(z[:, None], x[None, :])
    every = 6
    dt = SAMPLE / every
    steps = round(SECONDS / dt) + 1
    t = (np.arange(steps) + 0.5) * dt - DELAY
    integral = t * np.exp(-((np.pi * FREQUENCY * t) ** 2))  # of the Ricker wavelet
    places = [(round((SURFACE + margin) / FINE), round((at + margin) / FINE)) for at in (*SHOTS, *RECEIVERS)]
    given = b"".join(np.ascontiguousarray(part, float).tobytes() for part in (c, integral, np.array(places)))
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        raise SystemExit("expected a C compiler, found none; install gcc")
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder) / "survey"
        subprocess.run(
            [compiler, "-O3", "-march=native", "-ffast-math", "-fopenmp", str(HERE / "survey.c"), "-o", str(program), "-lm"], check=True
        )
        sizes = (len(z), len(x), FINE, dt, steps, every, len(SHOTS), len(RECEIVERS), EDGE)
        done = subprocess.run([str(program), *map(str, sizes)], input=given, capture_output=True, check=True)
    found = np.frombuffer(done.stdout, np.float32).reshape(len(SHOTS), -1, len(RECEIVERS)).astype(float)
    rms = np.sqrt(np.mean(found**2))
    return found + NOISE * rms * np.random.default_rng(0).normal(size=found.shape)


def write_segy(path: Path, traces: Array, step: int, headers: Sequence[dict[int, int]]) -> None:
    """Traces (samples x traces) with headers; `step` is between samples, in microseconds or millimetres."""
    spec = segyio.spec()
    spec.format, spec.samples, spec.tracecount = 5, np.arange(len(traces)) * step * 1e-3, traces.shape[1]
    with segyio.create(str(path), spec) as file:
        for k, header in enumerate(headers):
            file.header[k] = {segyio.TraceField.TRACE_SAMPLE_INTERVAL: step, segyio.TraceField.TRACE_SAMPLE_COUNT: len(traces), **header}
            file.trace[k] = np.ascontiguousarray(traces[:, k], np.float32)
        file.bin[segyio.BinField.Interval] = step


def write_records(path: Path, values: Array) -> None:
    field = segyio.TraceField
    headers = [
        {
            field.FieldRecord: shot + 1,
            field.TraceNumber: k + 1,
            field.SourceX: round(100 * at),
            field.GroupX: round(100 * x),
            field.ReceiverGroupElevation: round(-100 * SURFACE),
            field.SourceGroupScalar: -100,
            field.ElevationScalar: -100,
        }
        for shot, at in enumerate(SHOTS)
        for k, x in enumerate(RECEIVERS)
    ]
    write_segy(path, np.concatenate(list(values), axis=1), round(1e6 * SAMPLE), headers)


def write_model(path: Path, values: Array) -> None:
    """A section: down a trace by depth, from trace to trace by distance."""
    write_segy(path, values, round(1e3 * COARSE), [{segyio.TraceField.CDP: k + 1} for k in range(values.shape[1])])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("folder", type=Path)
    folder: Path = parser.parse_args().folder
    folder.mkdir(parents=True, exist_ok=True)
    z, x = (nodes(low, high, COARSE) for low, high in zip(LOW, HIGH, strict=True))
    z, x = z[:, None], x[None, :]
    write_model(folder / "true.sgy", speed(z, x))
    write_model(folder / "start.sgy", np.where(z < BOTTOM, WATER, gaussian_filter(rock(z, x), 22.0, mode="nearest")))
    write_records(folder / "records.sgy", records())
    shutil.copy(HERE / "fwi.toml", folder)
    print(f"wrote records.sgy, start.sgy, true.sgy and fwi.toml to {folder}; the grid has {z.size} x {x.size} cells")


if __name__ == "__main__":
    main()
