"""Files of eight gauges in a bay, the example of docs/data.md: `python scripts/gauges/make.py FOLDER`.

The waves are those of a plain NumPy program with cells of 1 km, which is no part of diffsim; the search of `bay.toml` has cells of 2 km. It
writes `gauges.csv` (gauges with times of their own, lost samples, and noise), `bay.nc` (the elevation of the ground) and `bay.toml`. It
needs the extra `formats` of diffsim.
"""

from __future__ import annotations

import argparse
import csv
import shutil
from pathlib import Path

import numpy as np
import xarray

HERE = Path(__file__).resolve().parent
STEP, END, QUAKE, GRAVITY = 2.0, 900.0, 600.0, 9.80665
CELL = 1000.0
"""Half a cell of the scene, m."""
PLACES = [(9e3, 11e3), (11e3, 37e3), (23e3, 7e3), (41e3, 13e3), (43e3, 33e3), (31e3, 43e3), (15e3, 46e3), (39.5e3, 24.7e3)]
EVERY = [15.0, 30.0, 20.0, 45.0, 15.0, 60.0, 30.0, 20.0]
"""Seconds between the samples of each gauge."""
SIGMA = 0.5
"""Noise of the gauges, cm."""


def bay() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Coordinates and elevation: a slope that ends in a beach."""
    y, x = (CELL * (np.arange(n) + 0.5) for n in (48, 60))
    elevation = -1500 + 30 * (x[None, :] / 1e3 - 15).clip(0) + 6 * np.abs(y[:, None] / 1e3 - 24)
    return y, x, np.where(x[None, :] > 56e3, 20.0, elevation)


def uplift(y: np.ndarray, x: np.ndarray) -> np.ndarray:
    """The field that makes the records, m."""
    return np.exp(-0.5 * (((y[:, None] - 25e3) / 5e3) ** 2 + ((x[None, :] - 24e3) / 6e3) ** 2))


def waves(depth: np.ndarray, eta: np.ndarray, steps: int) -> list[np.ndarray]:
    """Linear long waves between walls, second order, leap-frog: plain NumPy."""

    def rate(eta: np.ndarray) -> np.ndarray:
        out = np.zeros_like(eta)
        for axis in (0, 1):
            between = GRAVITY * np.minimum(*(np.take(depth, cut(depth.shape[axis]), axis) for cut in (lower, upper)))
            flux = between * np.diff(eta, axis=axis) / CELL
            out += np.diff(np.pad(flux, [(1, 1) if a == axis else (0, 0) for a in (0, 1)]), axis=axis) / CELL
        return out

    etas = [eta, eta + 0.5 * STEP**2 * rate(eta)]
    while len(etas) <= steps:
        etas.append(2 * etas[-1] - etas[-2] + STEP**2 * rate(etas[-1]))
    return etas


def lower(count: int) -> np.ndarray:
    return np.arange(count - 1)


def upper(count: int) -> np.ndarray:
    return np.arange(1, count)


def write_files(folder: Path) -> None:
    """Write gauges.csv, bay.nc and bay.toml."""
    rng = np.random.default_rng(8)
    y, x, elevation = bay()
    dataset = xarray.Dataset({"elevation": (("y", "x"), elevation[::-1], {"units": "m"})}, {"y": y[::-1], "x": x})
    dataset.to_netcdf(folder / "bay.nc", engine="netcdf4")
    fields = np.array(waves(np.maximum(-elevation, 0), uplift(y, x), round(END / STEP)))
    clock, rows = STEP * np.arange(len(fields)), []
    for number, ((at_y, at_x), every) in enumerate(zip(PLACES, EVERY, strict=True)):
        trace = _at(fields, at_y, at_x)
        times = np.arange(-120.0 + 3 * number, END + 60, every)
        height = 100 * np.where(times < 0, 0, np.interp(times, clock, trace)) + SIGMA * rng.standard_normal(times.size)
        lost = rng.random(times.size) < 0.15
        cells = ["" if gone else f"{h:.4f}" for h, gone in zip(height, lost, strict=True)]
        rows += [[(t + QUAKE) / 60, f"G{number + 1}", cell, at_y, at_x] for t, cell in zip(times, cells, strict=True)]
    with (folder / "gauges.csv").open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([("minutes", "gauge", "height", "y", "x"), *rows])
    shutil.copy(HERE / "bay.toml", folder)


def _at(fields: np.ndarray, y: float, x: float) -> np.ndarray:
    """Linear interpolation between the four nearest cells."""
    (i, a), (j, b) = (divmod(place / CELL - 0.5, 1) for place in (y, x))
    i, j = int(i), int(j)
    rows = (1 - a) * fields[:, i] + a * fields[:, i + 1]
    return (1 - b) * rows[:, j] + b * rows[:, j + 1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("folder", type=Path)
    folder: Path = parser.parse_args().folder
    folder.mkdir(parents=True, exist_ok=True)
    write_files(folder)
    print(f"wrote gauges.csv, bay.nc and bay.toml to {folder}")


if __name__ == "__main__":
    main()
