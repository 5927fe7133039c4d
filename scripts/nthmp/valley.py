"""The valley of Monai in a wave tank (NTHMP benchmark 7): `python scripts/nthmp/valley.py DATA --every 1 --out FOLDER`.

DATA is a folder with `Benchmark_2_Bathymetry.txt` (x, y and depth, m, a point each 14 mm), `Benchmark_2_input.txt` (time, s, and level at
x = 0, m), and `output_ch5-7-9.csv`, the table of the laboratory's gauges (time, s, and levels of gauges 5, 7 and 9, cm). docs/nthmp.md says
where they come from, and what the answers mean.
"""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import diffsim as ds
import diffsim.numpy as dnp

SPACING = 0.014
"""Distance of the points of the bed, m."""
GAUGES = {"5": (1.196, 4.521), "7": (1.696, 4.521), "9": (2.196, 4.521)}
"""Name -> y and x, m."""
SHORE = ((1.88, 5.1575, 0.0896), (2.2062, 5.03, 0.0604), (2.32, 4.9975, 0.0563))
"""y and x, m, and the run-up there, m, the mean of six experiments (Matsuyama and Tanaka 2001; the first is in the valley)."""
NEAR = 0.07
"""Distance, m, within which the run-up is looked for: that of the experiments is at an approximate place."""
FILM = 1e-3
"""Depth, m, from which on land counts as flooded."""
EARLY = 10.0
"""Time, s, before which the wave is not at the gauges, whose levels differ from 0 by up to 2.5 mm."""


@dataclass(frozen=True)
class Tank:
    """The tank and its records.

    Attributes:
        z: the bed, m, shape (y, x).
        spacing: of the cells, m.
        wave: times, s, and levels, m, at x = 0.
        records: times, s, and levels of the gauges, m, shape (times, 4).
    """

    z: np.ndarray
    spacing: float
    wave: np.ndarray
    records: np.ndarray

    def simulation(self, fastest: float, duration: float, precision: str) -> tuple[ds.Simulation, int]:
        """Shallow water in the tank, and its number of steps."""
        steps = int(np.ceil(duration * fastest * 4 / self.spacing))
        grid = ds.Grid(self.z.shape, self.spacing)
        sides, dt = ("wall", ("tide", "wall")), duration / steps
        sea = ds.solvers.ShallowWater(grid, dt, sides, drag="manning", thin=5e-4, fastest=fastest, tide="side")
        return ds.Simulation(sea, receivers={"eta": list(GAUGES.values())}, wrt=["manning", "tide"], precision=precision), steps

    def tide(self, dt: float, steps: int, levels: Any) -> Any:
        """The levels of the wave, at its times, as an input of the side: shape (steps,)."""
        return dnp.interp((np.arange(steps) + 0.5) * dt, self.wave[:, 0], levels)


def read(folder: Path, every: int) -> Tank:
    """The tank from its files, with every so many of the points of the bed."""
    points = np.loadtxt(folder / "Benchmark_2_Bathymetry.txt", skiprows=1)
    shape = len(np.unique(points[:, 0])), len(np.unique(points[:, 1]))
    if len(points) != shape[0] * shape[1]:
        raise SystemExit(
            f"Benchmark_2_Bathymetry.txt: {len(points)} points, expected {shape[0]} x {shape[1]}, a full grid; take a whole file"
        )
    wave = np.loadtxt(folder / "Benchmark_2_input.txt", skiprows=1)
    records = np.loadtxt(folder / "output_ch5-7-9.csv", skiprows=1, delimiter=",", usecols=range(4))
    records[:, 1:] *= 0.01
    return Tank(-points[:, 2].reshape(shape).T[::every, ::every], every * SPACING, wave, records)


def table(tank: Tank, times: np.ndarray, traces: np.ndarray) -> dict[str, dict[str, float]]:
    """For each gauge what of the record from 10 s on is explained, and the highest levels, m, with their times, s."""
    rows = {}
    kept = tank.records[(tank.records[:, 0] >= EARLY) & (tank.records[:, 0] <= times[-1])]
    for k, name in enumerate(GAUGES):
        record, run = kept[:, k + 1], np.interp(kept[:, 0], times, traces[:, k])
        rows[name] = {
            "reduction": 1 - float(np.sum((run - record) ** 2) / np.sum(record**2)),
            "error": float(np.sqrt(np.mean((run - record) ** 2))),
            "highest": float(run.max()),
            "recorded": float(record.max()),
            "at": float(kept[run.argmax(), 0]),
            "recorded at": float(kept[record.argmax(), 0]),
        }
    return rows


def flood(tank: Tank, roughness: float, duration: float, fastest: float, precision: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Times, levels at the gauges, and the highest level of each cell that was wet, NaN in others."""
    basin, steps = tank.simulation(fastest, duration, precision)
    dt = basin.equation.dt
    tide = np.asarray(tank.tide(dt, steps, tank.wave[:, 1]))
    state: dict[str, np.ndarray] = {"eta": np.zeros(tank.z.shape)}
    highest = np.full(tank.z.shape, np.nan)
    known = {"z": tank.z, "manning": np.full(tank.z.shape, roughness)}
    traces, part = [], max(round(0.05 / dt), 1)
    for begin in range(0, steps, part):
        count = min(part, steps - begin)
        solution = basin.run({**known, **state, "tide": tide[begin : begin + count]}, count)
        state = {name: np.asarray(value) for name, value in solution.final.items()}
        traces.append(solution.traces["eta"][min(begin, 1) :])
        highest = np.where(state["eta"] - tank.z > FILM, np.fmax(highest, state["eta"]), highest)
    return dt * np.arange(steps + 1), np.concatenate(traces), highest


def run_up(tank: Tank, highest: np.ndarray) -> list[float]:
    """The highest level near each place of the shore where it was measured, m."""
    y, x = (tank.spacing * np.arange(n) for n in tank.z.shape)
    near = [np.hypot(y[:, None] - place[0], x[None] - place[1]) < NEAR for place in SHORE]
    return [float(np.nanmax(np.where(each, highest, 0.0))) for each in near]


def slopes(tank: Tank, roughness: float, duration: float, fastest: float) -> dict[str, float]:
    """The gradient of the misfit of the gauges for the roughness of each cell and for the incident wave, and a check by differences."""
    basin, steps = tank.simulation(fastest, duration, "f64")
    dt, times = basin.equation.dt, basin.equation.dt * np.arange(steps + 1)
    kept = tank.records[(tank.records[:, 0] >= EARLY) & (tank.records[:, 0] <= duration)]

    def misfit(solution: Any) -> Any:
        runs = [dnp.interp(kept[:, 0], times, solution.traces["eta"][:, k]) for k in range(3)]
        return 0.5 * dnp.sum((dnp.stack(runs, axis=1) - kept[:, 1:]) ** 2) / np.sum(kept[:, 1:] ** 2)

    def inputs(unknowns: Any) -> dict[str, Any]:
        levels, n = unknowns
        return {"z": tank.z, "eta": np.zeros(tank.z.shape), "manning": n * np.ones(tank.z.shape), "tide": tank.tide(dt, steps, levels)}

    def loss(unknowns: Any) -> Any:
        return misfit(basin.run(inputs(unknowns), steps))

    levels = tank.wave[:, 1]
    loss((levels, roughness))  # compiles
    begin = time.process_time()
    loss((levels, roughness))
    run = time.process_time() - begin
    ds.value_and_grad(loss)((levels, roughness))
    begin = time.process_time()
    value, (of_levels, of_roughness) = ds.value_and_grad(loss)((levels, roughness))
    cost = (time.process_time() - begin) / run
    ways = {"wave": (np.exp(-((tank.wave[:, 0] - 13.0) ** 2)), 0.0), "roughness": (0.0 * levels, 1.0)}
    answer = {"misfit": float(value), "of the roughness": float(of_roughness), "CPU s of a run": run, "runs of a gradient": cost}
    for name, (up, rough) in ways.items():
        step = 1e-6 if name == "wave" else 1e-5
        ends = [float(loss((levels + sign * step * up, roughness + sign * step * rough))) for sign in (-1, 1)]
        exact = float(np.sum(np.asarray(of_levels) * up) + float(of_roughness) * rough)
        answer[f"along the {name}"] = exact
        answer[f"error along the {name}"] = abs((ends[1] - ends[0]) / (2 * step) / exact - 1)
    return answer


def draw(tank: Tank, times: np.ndarray, traces: np.ndarray, highest: np.ndarray, path: Path) -> None:
    """The records beside the run, and where the land was flooded how high."""
    import matplotlib.pyplot as plt

    figure, panels = plt.subplots(1, 4, figsize=(13, 3.4), layout="constrained")
    kept = tank.records[tank.records[:, 0] <= times[-1]]
    for k, (name, panel) in enumerate(zip(GAUGES, panels, strict=False)):
        panel.plot(kept[:, 0], 100 * kept[:, k + 1], color="0.3", label="laboratory")
        panel.plot(times, 100 * traces[:, k], "C1", label="run")
        panel.set(title=f"gauge {name}", xlabel="s", ylabel="cm")
    panels[0].legend()
    y, x = (tank.spacing * np.arange(n) for n in tank.z.shape)
    shown = panels[3].pcolormesh(x, y, 100 * np.where(tank.z > 0, highest, np.nan), vmin=0)
    panels[3].contour(x, y, tank.z, [0.0], colors="k", linewidths=0.8)
    panels[3].set(title="highest level on land, cm", xlabel="m", xlim=(4.6, 5.4), ylim=(1.3, 2.7), aspect="equal")
    figure.colorbar(shown)
    figure.savefig(path, dpi=80)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split(":")[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("--every", type=int, default=1, help="take every so many of the points of the bed (14 mm)")
    parser.add_argument("--roughness", type=float, default=0.0125, help="Manning's, s/m^(1/3)")
    parser.add_argument("--until", type=float, default=25.0, help="s")
    parser.add_argument("--fastest", type=float, default=3.0, help="the largest |v| + sqrt(g h), m/s")
    parser.add_argument("--gradient", action="store_true", help="print gradients of the misfit, in f64, in place of the flood")
    parser.add_argument("--out", type=Path, default=Path())
    options = parser.parse_args()
    ds.init()
    tank = read(options.data, options.every)
    options.out.mkdir(parents=True, exist_ok=True)
    if options.gradient:
        answer = slopes(tank, options.roughness, options.until, options.fastest)
        print(*(f"{name}: {number:.4g}" for name, number in answer.items()), sep="\n")
        (options.out / "gradient.json").write_text(json.dumps(answer, indent=1))
        return
    begin, cpu = time.perf_counter(), time.process_time()
    times, traces, highest = flood(tank, options.roughness, options.until, options.fastest, "f32")
    shape = " x ".join(map(str, tank.z.shape))
    print(f"{shape} cells, {len(times) - 1} steps, {time.perf_counter() - begin:.0f} s ({time.process_time() - cpu:.0f} CPU s)")
    rows = table(tank, times, traces)
    print(f"{'gauge':>5} {'reduction':>9} {'error (mm)':>10} {'highest (cm)':>12} {'recorded':>8} {'at (s)':>6} {'recorded':>8}")
    for name, row in rows.items():
        print(
            f"{name:>5} {row['reduction']:9.2f} {1e3 * row['error']:10.1f} {100 * row['highest']:12.2f} {100 * row['recorded']:8.2f} "
            f"{row['at']:6.2f} {row['recorded at']:8.2f}"
        )
    reached = run_up(tank, highest)
    for (y, x, measured), height in zip(SHORE, reached, strict=True):
        print(f"run-up at x = {x:.2f} m, y = {y:.2f} m: {100 * height:.1f} cm, measured {100 * measured:.1f} cm")
    (options.out / "valley.json").write_text(json.dumps({"gauges": rows, "run-up": reached}, indent=1))
    draw(tank, times, traces, highest, options.out / "valley.png")


if __name__ == "__main__":
    main()
