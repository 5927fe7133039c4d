"""The tsunami of 11 March 2011 from sixteen gauges: `python scripts/tohoku/invert.py DATA --source free|faults --out FOLDER`.

DATA is a folder with `stations_elev.csv` (name, latitude, longitude, start and end of the window in s), `japan_sea_grid.npz` (`H`, `lat`,
`lon`) and `observations/diagnostic_timeseries_NAME_elev.hdf5` (`time`, s after the earthquake, and `elev`, m). docs/tohoku.md says where
they come from, and what the answers mean. Long waves on the sphere, linear or (`--waves nonlinear`) shallow water that advects momentum
and rubs over the bed; land is a wall, and the edges of the sea absorb.
"""

from __future__ import annotations

import argparse
import csv
import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from scipy.sparse import eye_array
from scipy.sparse.linalg import LinearOperator

import diffsim as ds
import diffsim.numpy as dnp

DURATION, DT = 7200.0, 6.0
"""s; the step is that of linear waves."""
CLIFF = 50.0
"""Height of the land for nonlinear waves, m: the file of depths has none, and no wave floods this."""
SPONGE = 12
"""Cells."""
CENTRE = (38.0, 143.0)
"""Latitude and longitude of the middle fault."""
SHELF = 150.0
"""Depth of the sea, m, from which on the surface may be lifted in the free field."""
EAST = (141.0, 145.5)
"""Degrees."""
NOISE = 0.05
"""Elevation, m, below which a record says little: swell and what is left of the tide."""


@dataclass(frozen=True)
class Gauge:
    """The record of a gauge: its place, and times (s) and elevations (m) within its window."""

    name: str
    latitude: float
    longitude: float
    times: np.ndarray
    elevation: np.ndarray


@dataclass(frozen=True)
class Event:
    """The sea and its gauges: `run` takes the uplift, shape of the grid, to the elevations at the gauges, one array each."""

    grid: ds.Grid
    depth: np.ndarray
    gauges: list[Gauge]
    simulation: ds.Simulation
    known: Mapping[str, np.ndarray]
    lifted: str
    """The name of the input that is the uplift; the others are `known`."""
    until: float = DURATION
    """Records are used up to this time, s."""

    @property
    def steps(self) -> int:
        return round(DURATION / self.simulation.equation.dt)

    def run(self, uplift: np.ndarray) -> ds.Solution:
        return self.simulation.run({**self.known, self.lifted: uplift}, self.steps)

    def predicted(self, solution: Any) -> list[Any]:
        """The elevations of a run at the times of the records."""
        traces = solution.traces["eta"]
        times = self.simulation.equation.dt * np.arange(len(traces))
        return [dnp.interp(gauge.times, times, traces[:, k]) for k, gauge in enumerate(self.gauges)]

    def misfit(self, solution: Any) -> Any:
        """The part of each record, and of noise, that the run does not explain: half the sum of these over the gauges that are used."""
        total = 0.0
        for each, gauge in zip(self.predicted(solution), self.gauges, strict=True):
            used = gauge.times <= self.until
            if used.any():
                total = total + 0.5 * dnp.sum((each - gauge.elevation)[used] ** 2) / np.sum(gauge.elevation[used] ** 2 + NOISE**2)
        return total

    def value_and_grad(self, uplift: np.ndarray) -> tuple[float, np.ndarray]:
        value, gradient = self.simulation.value_and_grad(self.misfit, {**self.known, self.lifted: uplift}, self.steps)
        return value, np.asarray(gradient[self.lifted], dtype=float)


def read(folder: Path, every: int, until: float, nonlinear: bool) -> Event:
    """The event from its files, on a grid with every so many of the points of the depths."""
    file = np.load(folder / "japan_sea_grid.npz")
    depth, latitude, longitude = (np.asarray(file[name]) for name in ("H", "lat", "lon"))
    depth, latitude, longitude = depth[::every, ::every], latitude[::every], longitude[::every]
    grid = ds.Grid(
        depth.shape,
        spacing=(float(latitude[1] - latitude[0]), float(longitude[1] - longitude[0])),
        origin=(float(latitude[0]), float(longitude[0])),
    )
    gauges = []
    with open(folder / "stations_elev.csv", newline="") as table:
        for row in csv.DictReader(table):
            with h5py.File(folder / "observations" / f"diagnostic_timeseries_{row['name']}_elev.hdf5") as record:
                times, elevation = (np.asarray(record[name], dtype=float).ravel() for name in ("time", "elev"))
            kept = np.isfinite(elevation) & (times >= float(row["start"])) & (times <= min(float(row["end"]), DURATION))
            gauges.append(Gauge(row["name"], float(row["latitude"]), float(row["longitude"]), times[kept], elevation[kept]))
    places = [wet(grid, depth, gauge) for gauge in gauges]
    if nonlinear:
        equation, known, lifted = shallow_water(grid, depth)
    else:
        equation = ds.solvers.LongWave(grid, dt=DT, coordinates="sphere", sponge=SPONGE, sponge_depth=4000.0)
        known, lifted = {"H": depth}, "eta0"
    return Event(grid, depth, gauges, ds.Simulation(equation, receivers={"eta": places}, wrt=[lifted]), known, lifted, until)


def shallow_water(grid: ds.Grid, depth: np.ndarray) -> tuple[ds.Equation, dict[str, np.ndarray], str]:
    """Nonlinear waves: the equation, its known inputs, and the name of the uplift."""
    fastest = float(np.sqrt(9.81 * (depth.max() + 10.0))) + 5.0
    metre = np.deg2rad(6.371e6)
    narrowest = metre * grid.spacing[1] * np.cos(np.deg2rad(np.abs(grid.coordinates(0)).max()))
    steps = int(np.ceil(DURATION * fastest * (1 / narrowest + 1 / (metre * grid.spacing[0])) / 0.45))
    equation = ds.solvers.ShallowWater(
        grid,
        dt=DURATION / steps,
        sides="open",
        coordinates="sphere",
        drag="manning",
        coriolis="earth",
        thin=0.1,
        negligible=0.5,
        fastest=fastest,
        sponge=SPONGE,
        sponge_depth=4000.0,
    )
    return equation, {"z": np.where(depth > 0, -depth, CLIFF), "manning": np.full(depth.shape, 0.025)}, "eta"


def wet(grid: ds.Grid, depth: np.ndarray, gauge: Gauge) -> list[float]:
    """The place of a gauge, or the nearest cell with sea all around where the coast of the grid is too coarse for it."""
    lat, lon = np.meshgrid(grid.coordinates(0), grid.coordinates(1), indexing="ij")
    sea = depth > 0
    around = np.logical_and.reduce([np.roll(sea, shift, axis=(0, 1)) for shift in ((0, 0), (1, 0), (-1, 0), (0, 1), (0, -1))])
    away = np.hypot(lat - gauge.latitude, (lon - gauge.longitude) * np.cos(np.deg2rad(lat)))
    step = grid.spacing[0]
    if np.all(around[away < step]):
        return [gauge.latitude, gauge.longitude]
    cell = np.unravel_index(np.argmin(np.where(around, away, np.inf)), sea.shape)
    return [float(lat[cell]), float(lon[cell])]


def free_field(event: Event, smooth: float, weight: float) -> tuple[np.ndarray, Callable[[Any], Any], Callable[[Any], Any]]:
    """The start, the uplift and the penalty of a free field off Honshu, smooth over so many cells."""
    lon = event.grid.coordinates(1)[None, :]
    margin = np.zeros(event.grid.shape)
    margin[2 * SPONGE : -2 * SPONGE, 2 * SPONGE : -2 * SPONGE] = 1.0
    mask = (event.depth > SHELF) & (lon >= EAST[0]) & (lon <= EAST[1]) & (margin > 0)
    unknown = ds.optimize.Parametrisation(event.grid.shape, mask=mask, scale=3.0 * smooth, smooth=smooth, reference=0.0)
    return np.zeros(unknown.size), unknown.to_field, lambda theta: 0.5 * weight * dnp.sum(theta**2)


def faults(event: Event, weight: float) -> tuple[np.ndarray, Callable[[Any], Any], Callable[[Any], Any]]:
    """The start, the uplift and the penalty of 13 x 10 faults along the trench: slip, depth, dip and rake of each."""
    along, down = np.meshgrid((np.arange(13) - 6) * 40e3, (np.arange(10) - 4.5) * 20e3, indexing="ij")
    strike = np.deg2rad(198.0)
    east0 = along.ravel() * np.sin(strike) + down.ravel() * np.cos(strike)
    north0 = along.ravel() * np.cos(strike) - down.ravel() * np.sin(strike)
    lat, lon = np.meshgrid(event.grid.coordinates(0), event.grid.coordinates(1), indexing="ij")
    near = (np.abs(lat - CENTRE[0]) < 6) & (np.abs(lon - CENTRE[1]) < 6) & (event.depth > 0)
    east, north = ds.ocean.tangent_plane(lat[near], lon[near], CENTRE)
    places = np.flatnonzero(near)
    # The plate dips to the west by some 10 to 20 degrees; the trench lies at the eastern edge.
    depth0, dip0 = 24e3 + down.ravel() * np.tan(np.deg2rad(12.0)), np.full(130, 12.0)
    smooth = roughness(13, 10)

    def uplift(theta: Any) -> Any:
        slip, depth, dip, rake = dnp.reshape(theta, (4, 130))
        fault = ds.ocean.Fault(
            east0, north0, depth0 * dnp.exp(0.2 * depth), 198.0, dip0 * dnp.exp(0.2 * dip), 90.0 + 10.0 * rake, 5.0 * slip, 40e3, 20e3
        )
        field = dnp.zeros(event.grid.size)
        field[places] = fault.displacement(east, north)[2]
        return dnp.reshape(field, event.grid.shape)

    def penalty(theta: Any) -> Any:
        slip = theta[:130]
        return 0.5 * weight * (dnp.sum((smooth @ slip) ** 2) + dnp.sum(theta[130:] ** 2) + 0.1 * dnp.sum(slip**2))

    return np.zeros(4 * 130), uplift, penalty


def roughness(rows: int, columns: int) -> np.ndarray:
    """Differences between neighbours, as a matrix."""
    number = np.arange(rows * columns).reshape(rows, columns)
    pairs = [*zip(number[1:].ravel(), number[:-1].ravel(), strict=True), *zip(number[:, 1:].ravel(), number[:, :-1].ravel(), strict=True)]
    matrix = np.zeros((len(pairs), rows * columns))
    for k, (one, other) in enumerate(pairs):
        matrix[k, one], matrix[k, other] = 1.0, -1.0
    return matrix


def table(event: Event, uplift: np.ndarray) -> dict[str, dict[str, float]]:
    """For each gauge the reduction of variance, the highest elevations and their times (min), of the run and of the record."""
    solution = event.run(uplift)
    rows = {}
    for gauge, each in zip(event.gauges, event.predicted(solution), strict=True):
        each, record = np.asarray(each), gauge.elevation
        rows[gauge.name] = {
            "used": float(np.mean(gauge.times <= event.until)),
            "reduction": 1 - float(np.sum((each - record) ** 2) / np.sum(record**2)),
            "highest": float(each.max()),
            "recorded": float(record.max()),
            "at": float(gauge.times[np.argmax(each)]) / 60,
            "recorded at": float(gauge.times[np.argmax(record)]) / 60,
        }
    return rows


def spread(event: Event, uplift: Callable[[Any], Any], answer: np.ndarray, weight: float, members: int = 40) -> list[np.ndarray]:
    """The standard deviation of each gauge's elevations over samples of the posterior.

    The unknowns have the standard deviation 1 before the records come, and `weight` is the variance of the unexplained part of a record. So
    1e-3 stands for errors of a tenth of a record in ten independent parts of it.
    """
    zero = event.value_and_grad(np.zeros(event.grid.shape))[1]

    def product(theta: np.ndarray) -> np.ndarray:  # waves are linear: differences of gradients are products with the Hessian
        field, pullback = ds.vjp(uplift, np.asarray(theta).reshape(answer.shape))
        return np.asarray(pullback(event.value_and_grad(np.asarray(field, dtype=float))[1] - zero)[0]) / weight

    size = answer.size
    posterior = ds.optimize.posterior(
        LinearOperator((size, size), matvec=product, dtype=float), ds.optimize.PrecisionPrior(eye_array(size, format="csc")), rank=40
    )
    rng, runs = np.random.default_rng(0), []
    for _ in range(members):
        solution = event.run(np.asarray(uplift(posterior.sample(rng))))
        runs.append([np.asarray(each) for each in event.predicted(solution)])
    return [np.std(each, axis=0) for each in zip(*runs, strict=True)]


def draw(event: Event, uplift: np.ndarray, path: Path, deviation: list[np.ndarray] | None) -> None:
    """The uplift, and the record of each gauge beside the run."""
    import matplotlib.pyplot as plt

    solution = event.run(uplift)
    figure = plt.figure(figsize=(12, 6.5), layout="constrained")
    left, right = figure.subfigures(1, 2, width_ratios=(1, 2))
    axes = left.subplots()
    lat, lon = event.grid.coordinates(0), event.grid.coordinates(1)
    largest = np.abs(uplift).max()
    image = axes.pcolormesh(lon, lat, np.where(event.depth > 0, uplift, np.nan), cmap="RdBu_r", vmin=-largest, vmax=largest)
    axes.set(xlim=(140.5, 146), ylim=(35, 41.5), title="uplift (m)", xlabel="degrees east", ylabel="degrees north", facecolor="0.8")
    axes.plot([g.longitude for g in event.gauges], [g.latitude for g in event.gauges], "k^", markersize=4)
    left.colorbar(image, shrink=0.7)
    panels = right.subplots(-(-len(event.gauges) // 4), 4, squeeze=False).ravel()
    for k, (gauge, each) in enumerate(zip(event.gauges, event.predicted(solution), strict=True)):
        panel = panels[k]
        if deviation is not None:
            low, high = (np.asarray(each) + sign * 2 * deviation[k] for sign in (-1, 1))
            panel.fill_between(gauge.times / 60, low, high, color="C1", alpha=0.25, linewidth=0, label="two deviations")
            if gauge.times[0] < event.until < gauge.times[-1]:
                panel.axvline(event.until / 60, color="0.5", linewidth=0.8)
        panel.plot(gauge.times / 60, gauge.elevation, color="0.3", linewidth=1.2, label="recorded")
        panel.plot(gauge.times / 60, np.asarray(each), color="C1", linewidth=1.2, label="run")
        panel.set_title(gauge.name, fontsize=9)
        panel.tick_params(labelsize=7)
    right.axes[0].legend(fontsize=7)
    right.supxlabel("minutes after the earthquake", fontsize=9)
    right.supylabel("elevation (m)", fontsize=9)
    figure.savefig(path, dpi=80)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split(":")[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("--source", choices=("free", "faults"), default="free")
    parser.add_argument("--waves", choices=("linear", "nonlinear"), default="linear")
    parser.add_argument("--every", type=int, default=1, help="take every so many of the points of the depths (0.05 degrees)")
    parser.add_argument("--until", type=float, default=DURATION / 60, help="use the records up to this time, min, and forecast the rest")
    parser.add_argument("--iterations", type=int, default=60)
    parser.add_argument("--smooth", type=float, default=3.0, help="of the free field, cells")
    parser.add_argument("--weight", type=float, default=1e-3, help="of the penalty")
    parser.add_argument("--out", type=Path, default=Path())
    options = parser.parse_args()
    ds.init()
    nonlinear = options.waves == "nonlinear"
    event = read(options.data, options.every, 60 * options.until, nonlinear)
    free = options.source == "free"
    start, uplift, penalty = free_field(event, options.smooth, options.weight) if free else faults(event, options.weight)

    def objective(theta: np.ndarray) -> tuple[float, np.ndarray]:
        field, pullback = ds.vjp(uplift, theta)
        value, gradient = event.value_and_grad(np.asarray(field, dtype=float))
        extra, slope = ds.value_and_grad(penalty)(theta)
        return value + float(extra), np.asarray(pullback(gradient)[0]) + np.asarray(slope)

    begin, cpu = time.perf_counter(), time.process_time()
    result = ds.optimize.minimise(objective, start, iterations=options.iterations, tolerance=1e-4)
    seconds, busy = time.perf_counter() - begin, time.process_time() - cpu
    field = np.asarray(uplift(result.x), dtype=float)
    rows: Mapping[str, dict[str, float]] = table(event, field)
    deviation = spread(event, uplift, result.x, options.weight) if free and event.until < DURATION and not nonlinear else None
    highest = np.unravel_index(np.argmax(field), field.shape)
    place = event.grid.coordinates(0)[highest[0]], event.grid.coordinates(1)[highest[1]]
    print(f"{len(result.history)} iterations, {seconds:.0f} s ({busy:.0f} CPU s), loss {objective(start)[0]:.3f} -> {result.value:.3f}")
    print(f"highest uplift {field.max():.2f} m at {place[0]:.2f} N {place[1]:.2f} E")
    print(f"{'gauge':6} {'used':>5} {'reduction':>9} {'highest (m)':>15} {'recorded':>8} {'at (min)':>8} {'recorded':>8}")
    for k, (name, row) in enumerate(rows.items()):
        error = "" if deviation is None else f" ± {deviation[k].max():.2f}"
        highest_here = f"{row['highest']:.2f}{error}"
        print(
            f"{name:6} {row['used']:5.0%} {row['reduction']:9.2f} {highest_here:>15} {row['recorded']:8.2f} {row['at']:8.1f} "
            f"{row['recorded at']:8.1f}"
        )
    name = options.source + "_nonlinear" * nonlinear + (f"_{options.until:.0f}" if event.until < DURATION else "")
    options.out.mkdir(parents=True, exist_ok=True)
    np.save(options.out / f"uplift_{name}.npy", field)
    (options.out / f"gauges_{name}.json").write_text(json.dumps(rows, indent=1))
    draw(event, field, options.out / f"tohoku_{name}.png", deviation)


if __name__ == "__main__":
    main()
