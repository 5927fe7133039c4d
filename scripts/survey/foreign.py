"""One recipe for surveys over seabeds that it has not seen: `python scripts/survey/foreign.py [NAME ...] [--out FOLDER]`.

Each of `models.py` is made by `make.py`, and searched by `fwi.toml`. Only the keys that this file calls "yours" change: files, grid,
geometry and frequency. The table shows the loss of the last stage and the root mean square error of the wave speed, at the start and at
the answer.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from pathlib import Path

import numpy as np
import numpy.typing as npt

sys.path.insert(0, str(Path(__file__).resolve().parent))
from make import Geometry, averaged, make, mesh  # it lies beside this file
from models import MODELS, Model

import diffsim as ds
from diffsim.scene import Scene
from diffsim.scene.disk.outcome import Outcome


def yours(model: Model) -> list[str]:
    """The lines of `fwi.toml` that a survey changes, as `--set` takes them."""
    at, h = Geometry(model), model.spacing
    z, x = mesh(model, h)
    of_model, of_records = model.files
    raw = f', axes = ["x", "z"], shape = [{x.size}, {z.size}]' if of_model == "bin" else ""
    line = "{{start = [{0}, {1}], stop = [{0}, {2}], count = {3}}}"
    shots, receivers = (line.format(at.depth, each[0], each[-1], len(each)) for each in (at.shots, at.receivers))
    count = int(model.seconds / at.sample + 1e-6) + 1
    shape = f"[{len(at.shots)}, {len(at.receivers)}, {count}]"
    order = f', axes = ["shot", "receiver", "time"], shape = {shape}' if of_records == "bin" else ""
    changes = [
        f"grid.shape=[{z.size - 1}, {x.size}]",
        f"grid.spacing={h}",
        f"grid.origin=[{h / 2}, 0.0]",
        f"time.duration={model.seconds}",
        f"sources.f.lines=[{shots}]",
        f"sources.f.wavelet.frequency={model.frequency}",
        f'unknowns.c.start={{file = {{path = "start.{of_model}", spacing = {h}{raw}}}}}',
        f"misfit.0.offset=[{5 * h}, 1.0e5]",
        f"stage.0.lowpass={model.frequency / 2}",
        f"stage.1.lowpass={model.frequency}",
    ]
    if of_records == "sgy":
        return changes
    return [
        *changes,
        f'data.p={{path = "records.{of_records}", dt = {at.sample}{order}}}',
        f'receivers.p={{lines = [{receivers}], interpolation = "sinc"}}',
    ]


def errors(outcome: Outcome, model: Model) -> dict[str, float]:
    """Root mean square errors of the wave speed, m/s, and the correlation of the found change with the true one.

    Illuminated are the free cells between the first and the last shot, down to two thirds of the model.
    """
    field = outcome.unknowns["c"]
    z, x = (axis.coordinates for axis in outcome.axes)
    true = averaged(model.speed, z[:, None], x[None, :])  # cells around the model do not count
    shots = Geometry(model).shots
    assert field.mask is not None
    lit = field.mask & (z[:, None] < 2 / 3 * model.depth) & (x >= shots[0]) & (x <= shots[-1])
    change, wanted = ((values - field.start)[lit] for values in (field.answer, true))
    return {
        "before": rms((field.start - true)[lit]),
        "after": rms((field.answer - true)[lit]),
        "all_before": rms((field.start - true)[field.mask]),
        "all_after": rms((field.answer - true)[field.mask]),
        "correlation": float(np.corrcoef(change, wanted)[0, 1]),
    }


def rms(values: npt.NDArray[np.floating]) -> float:
    return float(np.sqrt(np.mean(values.astype(float) ** 2)))


def search(model: Model, folder: Path) -> dict[str, float]:
    """Make a survey, run its search, and measure."""
    make(folder, model)
    scene = Scene.load(folder / "fwi.toml", yours(model))
    outcome = scene.run(folder / "run")
    pair = outcome.traces["p"]
    first, final = (sum(parts[k] for parts in outcome.loss_parts.values()) for k in (0, 1))
    figures = errors(outcome, model)
    figures |= {"first": first, "final": final, "gradients": outcome.history[-1].evaluations, "seconds": outcome.seconds["optimise"]}
    counts = np.ones(pair.data.shape, bool) if pair.share is None else pair.share > 0
    figures["unexplained"] = rms((pair.data - pair.end)[counts]) / rms(pair.data[counts])
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("names", nargs="*", default=list(MODELS), help=f"some of {', '.join(MODELS)}; all of them if left out")
    parser.add_argument("--out", type=Path, help="a folder for the surveys and their runs; without it they are not kept")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    options = parser.parse_args()
    ds.init(threads=options.threads)
    print("| survey | cells | Hz | loss | unexplained | error, m/s, before | after | correlation | gradients |", flush=True)
    print("|" + "---|" * 9, flush=True)
    with tempfile.TemporaryDirectory() as scratch:
        for name in options.names:
            model, folder = MODELS[name], (options.out or Path(scratch)) / name
            row = search(model, folder)
            (folder / "row.json").write_text(json.dumps(row))
            z, x = mesh(model, model.spacing)
            print(
                f"| `{name}` | {z.size - 1} × {x.size} | {model.frequency:g} | {row['first']:.3g} to {row['final']:.3g} | "
                f"{row['unexplained']:.1%} | {row['before']:.0f} | {row['after']:.0f} | {row['correlation']:.2f} | {row['gradients']} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
