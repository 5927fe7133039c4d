"""Full-waveform inversion of records that another program made, beside Deepwave: `python scripts/bench/fwi.py --peer PYTHON [--threads 2]`.

PYTHON is an interpreter with Deepwave: `python -m venv peer && peer/bin/pip install deepwave scipy`. scripts/survey makes the records, in
open water: the free surfaces of both packages lie at different places of a cell. Both searches have the same grid, time step, variables,
stages, filters and optimiser; each runs in a process of its own, one after the other.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from diffsim.records.formats.segy import read_section
from diffsim.records.zero_phase import ZeroPhaseFilter
from diffsim.scene import Scene
from diffsim.scene.disk.outcome import Outcome

HERE = Path(__file__).resolve().parent
SURVEY = HERE.parent / "survey"
sys.path.insert(0, str(SURVEY))
from make import OPEN  # noqa: E402  # it lies in that folder

CHANGES = (*OPEN, "time.dt=1.0e-3", "misfit.0.offset=[0.0, 1.0e5]")
"""Changes of the scene: a time step of which a sample has a whole number, and a misfit of all receivers, as Deepwave's search has it."""


def settings_of(scene: Scene) -> dict[str, Any]:
    """The inputs of Deepwave's search."""
    tables = scene.model_dump(mode="json")
    grid, unknown, wavelet = tables["grid"], tables["unknowns"]["c"], tables["sources"]["f"]["wavelet"]
    problem = scene.problem()
    scene = problem.scene
    times = problem.setup.times()
    spacing, origin = grid["spacing"][0], np.array(problem.setup.grid.origin)
    t = times - 1.2 / wavelet["frequency"]
    phase = (np.pi * wavelet["frequency"] * t) ** 2
    line = tables["sources"]["f"]["lines"][0]
    sources = np.linspace(line["start"], line["stop"], line["count"])
    return {
        "arrays": {
            "start": problem.start["c"],
            "free": problem.free["c"],
            "wavelet": (1 - 2 * phase) * np.exp(-phase),
            "sources": np.rint((sources - origin) / spacing).astype(int),
        },
        "spacing": spacing,
        "dt": scene.time.step,
        "edge": tables["equation"]["layer"],
        "frequency": wavelet["frequency"],
        "lower": unknown["lower"],
        "upper": unknown["upper"],
        "scale": unknown["scale"],
        "stages": [
            {
                "corner": stage["lowpass"],
                "iterations": stage["iterations"],
                "smooth": (stage["smooth"] or {}).get("c", unknown["smooth"])[0],
            }
            for stage in tables["stage"]
        ],
    }


def ours(survey: Path, threads: int) -> tuple[dict[str, Any], Outcome]:
    folder = survey / "run"
    command = [sys.executable, "-m", "diffsim", "run", str(survey / "fwi.toml"), "--out", str(folder), "--threads", str(threads)]
    command += [part for change in CHANGES for part in ("--set", change)]
    subprocess.run(command, check=True, stdout=sys.stderr)
    outcome = Outcome.load(folder)
    pair = outcome.traces["p"]
    unexplained = float(np.sqrt(np.mean(pair.residual**2) / np.nanmean(pair.data**2)))
    seconds = {"seconds": outcome.seconds["optimise"], "gradients": outcome.history[-1].evaluations, "unexplained": unexplained}
    return seconds, outcome


def deepwave(survey: Path, outcome: Outcome, python: str, threads: int) -> tuple[dict[str, Any], np.ndarray]:
    scene = Scene.load(survey / "fwi.toml", CHANGES)
    settings = settings_of(scene)
    arrays = settings.pop("arrays")
    pair = outcome.traces["p"]
    times = outcome.times if pair.times is None else pair.times
    every = round(float(times[1] - times[0]) / settings["dt"])
    settings |= {"every": every}
    corners = [stage["corner"] for stage in settings["stages"] if stage["corner"]]
    settings["length"] = max(ZeroPhaseFilter(settings["dt"] * every, len(times), corner)._length for corner in corners)
    origin, spacing = np.array([axis.coordinates[0] for axis in outcome.axes]), settings["spacing"]
    receivers = np.rint((outcome.receivers["p"] - origin) / spacing).astype(int)
    path = survey / "given.npz"
    np.savez(path, **arrays, receivers=receivers, data=pair.data, settings=json.dumps(settings))
    environment = {**os.environ, "OMP_NUM_THREADS": str(threads)}
    done = subprocess.run(
        [python, str(HERE / "deepwave_fwi.py"), str(path), str(threads)], check=True, stdout=subprocess.PIPE, text=True, env=environment
    )
    return json.loads(done.stdout.splitlines()[-1]), np.load(f"{path}.answer.npy")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--peer", help="an interpreter with Deepwave; without it only diffsim runs")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--survey", type=Path, help="a folder that scripts/survey/make.py has written; without it one is made")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        survey = options.survey or Path(scratch)
        if options.survey is None:
            subprocess.run([sys.executable, str(SURVEY / "make.py"), str(survey), "--open"], check=True, stdout=sys.stderr)
        record, outcome = ours(survey, options.threads)
        edge, unknown = settings_of(Scene.load(survey / "fwi.toml", CHANGES))["edge"], outcome.unknowns["c"]
        true = np.pad(read_section(survey / "true.sgy"), edge, mode="edge")
        free = np.ones(true.shape, bool) if unknown.mask is None else unknown.mask
        rows = [("diffsim", record, unknown.answer)]
        if options.peer:
            rows.append(("Deepwave", *deepwave(survey, outcome, options.peer, options.threads)))
        before = float(np.sqrt(np.mean((unknown.start - true)[free] ** 2)))
        heads = ("seconds", "gradients", "each, s", "unexplained", "model error")
        print("".join([" " * 10, *(f"{head:>13}" for head in heads)]), f"  at the start {before:.1f} m/s")
        for name, figures, answer in rows:
            error = float(np.sqrt(np.mean((answer - true)[free] ** 2)))
            seconds, gradients = figures["seconds"], figures["gradients"]
            columns = (
                f"{seconds:.1f}",
                gradients,
                f"{seconds / gradients:.2f}",
                f"{100 * figures['unexplained']:.2f} %",
                f"{error:.1f} m/s",
            )
            print("".join([f"{name:10}", *(f"{column:>13}" for column in columns)]))


if __name__ == "__main__":
    main()
