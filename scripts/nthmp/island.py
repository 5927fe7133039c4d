"""Gauges around a conical island in a wave tank (NTHMP benchmark 6): `python scripts/nthmp/island.py DATA --case C --out FOLDER`.

DATA is a folder with `ts2a.txt`, `ts2b.txt` and `ts2cnew1.txt`: times (s) and the levels (m) of gauges 1, 2, 3, 4, 6, 9, 16 and 22 in the
three cases. docs/nthmp.md says where they come from, and what the answers mean. A solitary wave of the measured height starts at x = 3 m.
Half of the tank is computed; its mirror image is the other half.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

import numpy as np

import diffsim as ds

DEPTH, ISLAND, LENGTH, HALF = 0.32, 12.96, 25.8, 13.8
"""Depth of the water, m; x of the middle of the island, m; length and half of the width of the tank, m."""
CASES = {"A": ("ts2a.txt", 0.045, 5.76), "B": ("ts2b.txt", 0.0875, 6.82), "C": ("ts2cnew1.txt", 0.181, 7.56)}
"""Case -> its file, the height of the wave over the depth as the gauges before the island had it, and x of these gauges, m."""
AROUND = {"6": (0.0, 9.36), "9": (0.0, 10.36), "16": (2.58, 12.96), "22": (0.0, 15.56)}
"""Gauge -> distance from the axis of the tank, and x, m."""
START = 3.0
"""x of the crest of the wave at first, m."""
AFTER = 6.0
"""Time after the first crest at a gauge, s, up to which records are compared: later ones have waves from the sides of the tank."""


def bed(grid: ds.Grid) -> np.ndarray:
    """The island: a slope of 1 : 4 from 3.6 m to 1.1 m around its middle."""
    r = np.hypot(grid.coordinates(0)[:, None], grid.coordinates(1)[None] - ISLAND)
    return np.clip((3.6 - r) / 4, 0, 0.625) - DEPTH


def run(case: str, cell: float) -> tuple[np.ndarray, np.ndarray]:
    """Times, s, and levels, m, at the gauge before the island and at the four around it."""
    ratio, before = CASES[case][1:]
    grid = ds.Grid((round(HALF / cell), round(LENGTH / cell)), cell, cell / 2)
    z, x = bed(grid), grid.coordinates(1)[None] + np.zeros(grid.shape)
    wave = ratio * DEPTH / np.cosh(np.sqrt(0.75 * ratio) / DEPTH * (x - START)) ** 2
    dt, duration = 0.068 * cell, 16.0
    equation = ds.solvers.ShallowWater(grid, dt, ("wall", "open"), drag="manning", fastest=3.6)
    places = [(2.25, before), *AROUND.values()]
    receivers = [(max(y, cell / 2), place) for y, place in places]
    basin = ds.Simulation(equation, receivers={"eta": receivers}, wrt=[], precision="f32")
    state = {"eta": wave, "qx": np.sqrt(9.81 * DEPTH * (1 + ratio)) * wave * (z < 0), "qy": 0 * wave}
    steps = round(duration / dt)
    traces = basin.run({"z": z, "manning": np.full(grid.shape, 0.012), **state}, steps).traces["eta"]
    return dt * np.arange(steps + 1), np.asarray(traces)


def records(path: Path) -> tuple[np.ndarray, np.ndarray]:
    """Times, s, and levels, m, of gauges 1, 2, 3, 4, 6, 9, 16 and 22, each less its mean before the wave comes."""
    rows = [line.split() for line in path.read_text().splitlines()]
    values = np.array([row for row in rows if len(row) == 9 and row[0].replace(".", "").isdigit()], dtype=float)
    rest = values[values[:, 0] < values[0, 0] + 3, 1:].mean(axis=0)
    return values[:, 0], values[:, 1:] - rest


def compare(case: str, folder: Path, times: np.ndarray, traces: np.ndarray) -> dict[str, dict[str, float]]:
    """Figures of the records beside the run. Their clock is that of the run where the crest passes the gauges before the island."""
    seconds, levels = records(folder / CASES[case][0])
    first = levels[:, :4].mean(axis=1)
    early = first[: int(np.searchsorted(seconds, seconds[0] + 20))]
    clock = seconds - seconds[early.argmax()] + times[traces[:, 0].argmax()]
    rows = {}
    for k, (name, record) in enumerate(zip(("1 to 4", *AROUND), (first, *levels[:, 4:].T), strict=True)):
        level = traces[:, k]
        crest = times[level.argmax()]
        kept = (clock > crest - 3.0) & (clock < min(crest + AFTER, times[-1]))
        measured, computed = record[kept], np.interp(clock[kept], times, level)
        rows[name] = {
            "reduction": 1 - float(np.sum((computed - measured) ** 2) / np.sum(measured**2)),
            "highest": float(computed.max()),
            "recorded": float(measured.max()),
            "late": float(clock[kept][measured.argmax()] - clock[kept][computed.argmax()]),
        }
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split(":")[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("--case", choices=tuple(CASES), default="A")
    parser.add_argument("--cell", type=float, default=0.05, help="m")
    parser.add_argument("--out", type=Path, default=Path())
    options = parser.parse_args()
    ds.init()
    begin = time.process_time()
    times, traces = run(options.case, options.cell)
    print(f"{len(times) - 1} steps, {time.process_time() - begin:.0f} CPU s")
    rows = compare(options.case, options.data, times, traces)
    print(f"{'gauge':6} {'reduction':>9} {'highest (cm)':>12} {'recorded':>8} {'record late by (s)':>18}")
    for name, row in rows.items():
        print(f"{name:6} {row['reduction']:9.2f} {100 * row['highest']:12.2f} {100 * row['recorded']:8.2f} {row['late']:18.2f}")
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / f"island_{options.case}.json").write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
