#!/usr/bin/env python3
"""Draw docs/tsunami.png for the README: the truth of the packaged scene, the answer, and the gradient that the search began with.

python scripts/readme_figure.py            run the scene, which takes a minute, and draw
python scripts/readme_figure.py FOLDER     draw from the folder of a run of it
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import matplotlib

matplotlib.use("agg")
import matplotlib.pyplot as plt
import numpy as np

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))  # this tree, whatever is installed

from diffsim.scene import Scene  # noqa: E402
from diffsim.scene.disk.outcome import Outcome  # noqa: E402

TARGET = ROOT / "docs" / "tsunami.png"
NAME = "eta0"
LAND = "#b8b2a7"
WEST_EAST, SOUTH_NORTH = (234.1, 235.9), (48.1, 49.0)
"""The part of the map that is shown."""


def draw(outcome: Outcome) -> None:
    field, depth, gauges = outcome.unknowns[NAME], outcome.background["H"], outcome.receivers["eta"]
    assert field.truth is not None
    lat, lon = (axis.coordinates for axis in outcome.axes)
    panels = {
        "truth, hidden from the search": (field.truth, "m"),
        f"answer after {outcome.history[-1].iteration} iterations": (field.answer, "m"),
        "gradient at the start": (field.gradient_first, "1/m"),
    }
    figure, axes = plt.subplots(1, 3, figsize=(11, 3.3), layout="constrained", sharex=True, sharey=True)
    for ax, (title, (values, unit)) in zip(axes, panels.items(), strict=True):
        largest = np.abs(field.truth).max() if unit == "m" else np.quantile(np.abs(values[field.mask]), 0.999)
        ax.set_facecolor(LAND)
        image = ax.pcolormesh(lon, lat, np.ma.masked_array(values, depth <= 0), cmap="RdBu_r", vmin=-largest, vmax=largest)
        ax.plot(gauges[:, 1], gauges[:, 0], "^", color="black", markersize=4)
        ax.set(title=title, xlabel="degrees east", xlim=WEST_EAST, ylim=SOUTH_NORTH, aspect=1 / np.cos(np.radians(np.mean(SOUTH_NORTH))))
        figure.colorbar(image, ax=ax, shrink=0.8, label=f"uplift, {unit}" if unit == "m" else f"loss by uplift, {unit}")
    axes[0].set_ylabel("degrees north")
    figure.savefig(TARGET, dpi=80, pil_kwargs={"optimize": True})


if __name__ == "__main__":
    if len(sys.argv) > 1:
        draw(Outcome.load(sys.argv[1]))
    else:
        with tempfile.TemporaryDirectory() as folder:
            draw(Scene.load("tsunami").run(Path(folder) / "tsunami"))
