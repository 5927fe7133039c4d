"""Seabeds for surveys that `make.py` makes: wave speeds as functions of depth and distance, each with its geometry and its files."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.ndimage import gaussian_filter, map_coordinates

Array = npt.NDArray[np.float64]
WATER = 1500.0
"""Wave speed of the water, m/s."""


@dataclass(frozen=True)
class Model:
    """A seabed and the survey over it.

    Attributes:
        rock: (z, x) in m -> wave speed below the water, m/s.
        bottom: x in m -> depth of the water, m.
        depth, width: of the model, m.
        spacing: of the cells of the search and of the numbers in the model files, m.
        frequency: of the Ricker wavelet, Hz.
        seconds: length of a record, s.
        shots: their number; they are spread over the width.
        blur: standard deviation of the Gaussian that makes the start of the rock, m.
        files: extension of the files of the model and of the records.
    """

    rock: Callable[[Array, Array], Array]
    bottom: Callable[[Array], Array]
    depth: float
    width: float
    spacing: float
    frequency: float
    seconds: float
    shots: int
    blur: float
    files: tuple[str, str] = ("sgy", "sgy")

    def speed(self, z: Array, x: Array) -> Array:
        """The true wave speed, m/s: water, and below it rock."""
        return np.where(z < self.bottom(x), WATER, self.rock(z, x))

    def start(self, z: Array, x: Array) -> Array:
        """Where a search begins: water, and rock that is blurred."""
        h = float(z[1, 0] - z[0, 0])
        rock = gaussian_filter(self.rock(np.maximum(z, self.bottom(x)), x), self.blur / h, mode="nearest")
        water = np.clip((self.bottom(x) - z) / h + 0.5, 0.0, 1.0)  # part of a cell
        return WATER + (1.0 - water) * (rock - WATER)


def steps(z: Array, tops: tuple[tuple[float, float], ...], width: float = 8.0) -> Array:
    """A sum of smooth steps: (depth, height) of each."""
    return sum((jump / (1.0 + np.exp(-np.clip((z - top) / width, -40.0, 40.0))) for top, jump in tops), np.zeros_like(z))


def body(z: Array, x: Array, corners: tuple[tuple[float, float], ...]) -> Array:
    """True within a polygon of corners (z, x)."""
    inside = np.zeros(np.broadcast_shapes(z.shape, x.shape), bool)
    for (z0, x0), (z1, x1) in zip(corners, corners[1:] + corners[:1], strict=True):
        if x0 != x1:
            inside ^= ((x0 <= x) != (x1 <= x)) & (z > z0 + (x - x0) * (z1 - z0) / (x1 - x0))
    return inside


def flat(depth: float) -> Callable[[Array], Array]:
    """Water of one depth."""
    return lambda x: np.full_like(x, depth)


def faulted(z: Array, x: Array) -> Array:
    """Layers that dip and are cut by a fault, a lens of gas, and a body of salt with steep flanks."""
    moved = z + 0.06 * x - 90.0 * (x > 1600.0 + 0.35 * z)
    speed = 1600.0 + 0.9 * z + steps(moved, ((260.0, 150.0), (420.0, -120.0), (560.0, 260.0), (800.0, -160.0), (1000.0, 300.0)))
    speed = speed - 350.0 * np.exp(-(((z - 430.0) / 60.0) ** 2) - ((x - 1150.0) / 220.0) ** 2)
    return np.where(body(z, x, ((520.0, 2050.0), (600.0, 1800.0), (1300.0, 1700.0), (1300.0, 2500.0), (620.0, 2350.0))), 3600.0, speed)


def fan(z: Array, x: Array) -> Array:
    """Many thin layers in blocks that faults have tilted, over an arch: after the manner of the Marmousi model."""
    fault = np.array([900.0, 1500.0, 2200.0])
    block = sum((x > at - 0.35 * (z - 300.0)).astype(float) for at in fault)
    moved = z - 0.10 * (block + 1) * (x - 1600.0) * (block < 3) + 70.0 * block + 120.0 * np.exp(-(((x - 2500.0) / 500.0) ** 2))
    thin = 160.0 * np.sin(2 * np.pi * moved / 130.0) + 110.0 * np.sin(2 * np.pi * moved / 210.0 + 1.0)
    return np.clip(1650.0 + 1.1 * z + thin * np.minimum(1.0, z / 500.0), 1550.0, 4200.0)


def dome(z: Array, x: Array) -> Array:
    """Sediments that grow faster with depth, and a dome of salt with an overhang."""
    speed = 1650.0 + 0.55 * (z - 200.0) + steps(z - 0.03 * x, ((700.0, 150.0), (1100.0, 200.0)), 12.0)
    salt = (
        (650.0, 2300.0),
        (600.0, 2700.0),
        (700.0, 3100.0),
        (900.0, 3200.0),
        (1100.0, 2950.0),
        (2200.0, 3050.0),
        (2200.0, 2250.0),
        (950.0, 2150.0),
    )
    return np.where(body(z, x, salt), 4400.0, speed)


def clouds(z: Array, x: Array) -> Array:
    """A gradient with random clouds of 10 %."""
    noise = gaussian_filter(np.random.default_rng(5).normal(size=(120, 300)), (4.0, 8.0))
    places = np.broadcast_arrays(z / 10.0, x / 10.0)
    field = map_coordinates(noise / noise.std(), places, order=1, mode="nearest")
    return (1700.0 + 1.3 * z) * (1.0 + 0.05 * field)


def trapped(z: Array, x: Array) -> Array:
    """A slow zone under a bed of carbonate, with a channel in it."""
    speed = 1750.0 + 0.5 * z + steps(z + 0.04 * x, ((850.0, 700.0), (1010.0, -950.0), (1300.0, 700.0)), 10.0)
    return speed - 300.0 * np.exp(-(((z - 1080.0) / 60.0) ** 2) - ((x - 2000.0) / 350.0) ** 2)


def deltas(z: Array, x: Array) -> Array:
    """Beds that advance seawards between two unconformities, and hard pinnacles on the lower one."""
    tilted = z - 0.18 * (x - 1500.0)
    beds = 120.0 * np.sign(np.sin(2 * np.pi * tilted / 170.0))
    speed = 1700.0 + 0.8 * z + np.where((z > 380.0) & (z < 760.0), beds, 0.0) + steps(z, ((760.0, 350.0),), 4.0)
    reefs = sum(np.exp(-(((x - at) / 110.0) ** 2) - ((z - 700.0) / 90.0) ** 2) for at in (900.0, 1700.0, 2300.0))
    return speed + 700.0 * reefs


def slope(x: Array) -> Array:
    """Water from 120 m to 330 m deep."""
    return 225.0 + 105.0 * np.tanh((x - 1600.0) / 700.0)


MODELS = {
    "faulted": Model(faulted, flat(170.0), 1200.0, 3000.0, 12.5, 8.0, 1.8, 12, 60.0),
    "fan": Model(fan, flat(90.0), 1200.0, 3200.0, 12.5, 7.0, 2.0, 10, 75.0, ("bin", "npy")),
    "dome": Model(dome, flat(405.0), 2000.0, 5000.0, 20.0, 4.0, 3.4, 10, 160.0, ("npy", "bin")),
    "clouds": Model(clouds, flat(45.0), 1000.0, 2400.0, 8.0, 10.0, 1.5, 10, 60.0, ("npy", "npy")),
    "trapped": Model(trapped, slope, 1600.0, 4000.0, 16.0, 5.0, 2.4, 10, 110.0),
    "deltas": Model(deltas, flat(250.0), 1100.0, 3000.0, 12.0, 6.0, 2.0, 10, 80.0, ("bin", "sgy")),
}
"""By name. The first is that of `fwi.toml`; it has a body of salt too."""
