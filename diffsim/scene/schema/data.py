"""Data sets that every installation of diffsim has: samples that Matplotlib ships."""

from __future__ import annotations

import gzip
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

from diffsim.errors import SceneError
from diffsim.scene.words.suggest import require_known
from diffsim.typing import Array


@dataclass(frozen=True, eq=False)
class Raster:
    """Numbers on a regular raster.

    Attributes:
        quantities: name -> numbers, all of one shape.
        coordinates: coordinates along each axis; None if it has none. Then it is stretched over the region of the grid.
    """

    quantities: Mapping[str, Array]
    coordinates: tuple[Array, ...] | None


@cache
def topobathy() -> Raster:
    """Elevation and sea depth off Vancouver Island and in the strait of Juan de Fuca; latitude and longitude in degrees."""
    with np.load(_sample("topobathy.npz")) as file:
        elevation = file["topo"].astype(float)
        coordinates = (file["latitude"].astype(float), file["longitude"].astype(float))
    return Raster({"depth": np.maximum(-elevation, 0.0), "elevation": elevation}, coordinates)


@cache
def mri() -> Raster:
    """A slice of a magnetic resonance image of a head, 256 x 256, intensity from 0 to 1; no coordinates."""
    raw = gzip.decompress(_sample("s1045.ima.gz").read_bytes())
    intensity = np.frombuffer(raw, ">u2").reshape(256, 256).astype(float)
    return Raster({"intensity": intensity / intensity.max()}, None)


DATASETS: dict[str, Callable[[], Raster]] = {"matplotlib:topobathy": topobathy, "matplotlib:s1045": mri}
"""Every data set by the name that a scene gives it."""


def load_dataset(name: str, key: str) -> Raster:
    """The data set of that name.

    Args:
        name: one of `DATASETS`.
        key: where in the scene it is named, for messages.
    """
    require_known(key, name, DATASETS)
    try:
        return DATASETS[name]()
    except (OSError, ValueError, KeyError) as error:
        raise SceneError(f"{key}: expected {name} with the installed Matplotlib, found {error}; reinstall matplotlib") from None


def _sample(name: str) -> Path:
    from matplotlib import cbook  # late: it takes a third of a second to import

    return Path(cbook._get_data_path("sample_data", name))
