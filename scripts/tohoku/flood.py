"""The plain of Sendai under the tsunami of 2011: `python scripts/tohoku/flood.py DATA RESULT/uplift_free.npy --out RESULT`.

Linear waves over the whole sea, from the uplift that `invert.py` finds, drive a nested run of shallow water that floods the coast.
The files of docs/tohoku.md have no heights of the land, so the land is a plane that rises from the shore by a slope that you state.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy.interpolate import RegularGridInterpolator
from scipy.ndimage import distance_transform_edt

sys.path.insert(0, str(Path(__file__).parent))

from invert import DT, SPONGE

import diffsim as ds

SENDAI = (37.8, 38.22, 140.8, 141.6)
"""South, north, west and east of the nested grid, degrees."""
METRE = float(np.deg2rad(6.371e6))
"""Metres in a degree of latitude."""
FILM = 0.1
"""Depth from which land counts as flooded, m."""
PART = 20.0
"""Time between two looks at the flooded land, s."""
AWAY = 5e3
"""The northern and southern ends of the coast that are left out of figures, m: water turns around them as the coarse run has it."""


@dataclass(frozen=True)
class Sea:
    """The depths of the event, with a coarse run.

    Attributes:
        latitude: of the depths, degrees.
        longitude: of the depths, degrees.
        depth: m, 0 on land.
        uplift: of the sea floor, m.
    """

    latitude: np.ndarray
    longitude: np.ndarray
    depth: np.ndarray
    uplift: np.ndarray

    @classmethod
    def read(cls, folder: Path, uplift: Path) -> Sea:
        """The depths of a folder, every so many of whose points the uplift has a value for."""
        file, lifted = np.load(folder / "japan_sea_grid.npz"), np.load(uplift)
        depth, latitude, longitude = (np.asarray(file[name]) for name in ("H", "lat", "lon"))
        every = -(-depth.shape[0] // lifted.shape[0])
        depth, latitude, longitude = depth[::every, ::every], latitude[::every], longitude[::every]
        if lifted.shape != depth.shape:
            raise SystemExit(f"{uplift}: shape {lifted.shape}, expected {depth.shape}, as invert.py writes it for these depths; run that")
        return cls(latitude, longitude, depth, lifted)

    def levels(self, places: np.ndarray, seconds: float) -> tuple[np.ndarray, np.ndarray]:
        """Times and levels of linear waves at places of latitude and longitude: shapes (steps + 1,) and (steps + 1, places)."""
        spacing = float(self.latitude[1] - self.latitude[0]), float(self.longitude[1] - self.longitude[0])
        grid = ds.Grid(self.depth.shape, spacing, (float(self.latitude[0]), float(self.longitude[0])))
        waves = ds.solvers.LongWave(grid, dt=DT, coordinates="sphere", sponge=SPONGE, sponge_depth=4000.0)
        steps = int(np.ceil(seconds / DT))
        solution = ds.Simulation(waves, receivers={"eta": places.tolist()}, wrt=[]).run({"H": self.depth, "eta0": self.uplift}, steps)
        return DT * np.arange(steps + 1), np.asarray(solution.traces["eta"], dtype=float)


@dataclass(frozen=True)
class Coast:
    """The nested grid.

    Attributes:
        grid: latitude by longitude.
        z: the bed, m.
        inland: distance from the sea, m; 0 at sea.
        area: of the cells of a row, m², shape (rows, 1).
    """

    grid: ds.Grid
    z: np.ndarray
    inland: np.ndarray
    area: np.ndarray

    @classmethod
    def of(cls, sea: Sea, box: tuple[float, float, float, float], cells: float, slope: float) -> Coast:
        """A part of the sea on finer cells, with land that rises from the shore.

        Args:
            sea: the depths.
            box: south, north, west and east, degrees.
            cells: degrees.
            slope: of the land.
        """
        south, north, west, east = box
        grid = ds.Grid((round((north - south) / cells), round((east - west) / cells)), cells, (south + 0.5 * cells, west + 0.5 * cells))
        at = np.meshgrid(grid.coordinates(0), grid.coordinates(1), indexing="ij")
        depth = RegularGridInterpolator((sea.latitude, sea.longitude), sea.depth)(np.stack(at, axis=-1))
        wet = RegularGridInterpolator((sea.latitude, sea.longitude), (sea.depth > 0).astype(float))(np.stack(at, axis=-1)) > 0.5
        wide = METRE * cells * np.cos(np.deg2rad(grid.coordinates(0)))
        inland = distance_transform_edt(~wet, sampling=(METRE * cells, float(wide.mean())))
        return cls(grid, np.where(wet, -depth, slope * inland), inland, (METRE * cells * wide)[:, None])

    def sides(self) -> dict[str, np.ndarray]:
        """Latitude and longitude of the cells along each side with the sea beyond it, by the name of its tide."""
        lat, lon = self.grid.coordinates(0), self.grid.coordinates(1)
        half = [0.5 * h for h in self.grid.spacing]
        rows = {
            "tide_low_y": (np.full(lon.shape, lat[0] - half[0]), lon),
            "tide_high_y": (np.full(lon.shape, lat[-1] + half[0]), lon),
            "tide_high_x": (lat, np.full(lat.shape, lon[-1] + half[1])),
        }
        return {name: np.stack(places, axis=1) for name, places in rows.items()}


def flood(sea: Sea, coast: Coast, seconds: float, roughness: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The nested run.

    Args:
        sea: with the uplift.
        coast: the nested grid.
        seconds: how long.
        roughness: of Manning, s/m^(1/3).

    Returns:
        The highest level (m) where water was, when land was first under water (s, NaN where never), and the greatest depth, m.
    """
    places = coast.sides()
    clock, levels = sea.levels(np.concatenate(list(places.values())), seconds)
    fastest = float(np.sqrt(9.81 * (10.0 - coast.z.min()))) + 5.0
    narrowest = METRE * coast.grid.spacing[1] * np.cos(np.deg2rad(coast.grid.coordinates(0).max()))
    steps = int(np.ceil(seconds * fastest * (1 / narrowest + 1 / (METRE * coast.grid.spacing[0])) / 0.4))
    dt = seconds / steps
    water = ds.solvers.ShallowWater(
        coast.grid,
        dt,
        sides=("tide", ("wall", "tide")),
        coordinates="sphere",
        drag="manning",
        coriolis="earth",
        thin=0.02,
        negligible=0.1,
        fastest=fastest,
    )
    basin, at = ds.Simulation(water, wrt=[]), (np.arange(steps) + 0.5) * dt
    every = np.stack([np.interp(at, clock, level) for level in levels.T], axis=1)
    ends = np.cumsum([0, *(len(each) for each in places.values())])
    tides = {name: every[:, low:high] for name, low, high in zip(places, ends[:-1], ends[1:], strict=True)}
    known = {"z": coast.z, "manning": np.full(coast.z.shape, roughness)}
    state: dict[str, np.ndarray] = {"eta": np.zeros(coast.z.shape)}
    highest, first, deepest = np.full(coast.z.shape, -np.inf), np.full(coast.z.shape, np.nan), np.zeros(coast.z.shape)
    part = max(round(PART / dt), 1)
    for begin in range(0, steps, part):
        count = min(part, steps - begin)
        solution = basin.run({**known, **state, **{name: tide[begin : begin + count] for name, tide in tides.items()}}, count)
        state = {name: np.asarray(value, dtype=float) for name, value in solution.final.items()}
        depth = state["eta"] - coast.z
        under = depth > FILM
        first = np.where(np.isnan(first) & under, (begin + count) * dt, first)
        highest, deepest = np.where(under, np.maximum(highest, state["eta"]), highest), np.maximum(deepest, depth)
    return np.where(np.isfinite(highest), highest, np.nan), first, deepest


def figures(coast: Coast, highest: np.ndarray, first: np.ndarray, deepest: np.ndarray) -> dict[str, float]:
    """The figures of the flooded land: area, distances and heights, away from the ends of the coast."""
    lat = coast.grid.coordinates(0)
    rows = (lat - lat[0] >= AWAY / METRE) & (lat[-1] - lat >= AWAY / METRE)
    land = (coast.inland > 0) & rows[:, None]
    under = land & np.isfinite(highest)
    reach = np.where(under, coast.inland, 0.0).max(axis=1)[rows]
    shore = land & (coast.inland < 1.5 * METRE * coast.grid.spacing[0])
    return {
        "area": float((under * coast.area).sum() / 1e6),
        "length of coast": float(rows.sum() * METRE * coast.grid.spacing[0] / 1e3),
        "distance inland, greatest": float(reach.max() / 1e3),
        "distance inland, median": float(np.median(reach) / 1e3),
        "level at the shore, median": float(np.nanmedian(np.where(shore & under, highest, np.nan))) if (shore & under).any() else 0.0,
        "depth on land, greatest": float(np.where(under, deepest, 0.0).max()),
        "level where it ended, greatest": float(np.where(under, highest, 0.0)[coast.inland >= 0.9 * reach.max()].max(initial=0.0)),
        "land first under water": float(np.nanmin(np.where(under, first, np.nan)) / 60) if under.any() else float("nan"),
    }


def draw(coast: Coast, deepest: np.ndarray, path: Path) -> None:
    """The greatest depth of water on land."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(5.2, 4.6), layout="constrained")
    lat, lon = coast.grid.coordinates(0), coast.grid.coordinates(1)
    land = coast.inland > 0
    axes.pcolormesh(lon, lat, np.where(land, 0.0, np.nan), cmap="Greys", vmin=-1.0, vmax=4.0)
    image = axes.pcolormesh(lon, lat, np.where(land & (deepest > FILM), deepest, np.nan), cmap="viridis_r")
    axes.contour(lon, lat, np.where(land, 1.0, 0.0), levels=[0.5], colors="k", linewidths=0.8)
    figure.colorbar(image, label="greatest depth of water on land, m")
    near = lon[land.any(axis=0)].max() + 0.08
    axes.ticklabel_format(useOffset=False)
    axes.locator_params(axis="x", nbins=4)
    axes.set(xlim=(lon[0], near), xlabel="degrees east", ylabel="degrees north", aspect=1 / np.cos(np.deg2rad(lat.mean())))
    figure.savefig(path, dpi=80)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split(":")[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("uplift", type=Path, help="the file that invert.py wrote")
    parser.add_argument("--slope", type=float, nargs="+", default=[5e-4, 1e-3, 2e-3], help="of the land, one run for each")
    parser.add_argument("--cells", type=float, default=0.0025, help="of the nested grid, degrees")
    parser.add_argument("--box", type=float, nargs=4, default=SENDAI, help="south, north, west and east of the nested grid, degrees")
    parser.add_argument("--roughness", type=float, default=0.025, help="of Manning, s/m^(1/3)")
    parser.add_argument("--minutes", type=float, default=110.0)
    parser.add_argument("--out", type=Path, default=Path())
    options = parser.parse_args()
    ds.init()
    options.out.mkdir(parents=True, exist_ok=True)
    sea, rows = Sea.read(options.data, options.uplift), {}
    for slope in options.slope:
        begin, cpu = time.perf_counter(), time.process_time()
        coast = Coast.of(sea, tuple(options.box), options.cells, slope)
        result = flood(sea, coast, 60 * options.minutes, options.roughness)
        rows[f"{slope:g}"] = figures(coast, *result)
        print(f"slope {slope:g}: {coast.z.size} cells, {time.perf_counter() - begin:.0f} s ({time.process_time() - cpu:.0f} CPU s)")
        for name, value in rows[f"{slope:g}"].items():
            unit = "km²" if name == "area" else "min" if name.startswith("land") else "m" if name.startswith(("level", "depth")) else "km"
            print(f"  {name}: {value:.2f} {unit}")
        draw(coast, result[2], options.out / f"flood_{slope:g}.png")
    (options.out / "flood.json").write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
