"""A solution as a dataset of xarray's."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from diffsim.base.packages import needed_by
from diffsim.simulation.export.described import Described
from diffsim.simulation.prepared.compiled import Compiled
from diffsim.stepping.derive.forward import receiver_points
from diffsim.version import __version__

if TYPE_CHECKING:
    import xarray


def dataset(compiled: Compiled, arrays: Iterable[Described], units: Sequence[str]) -> xarray.Dataset:
    """Arrays with coordinates, units and attributes; see `Simulation.to_xarray`."""
    with needed_by("Simulation.to_xarray"):
        import xarray
    variables: dict[str, Any] = {}
    coordinates: dict[str, Any] = {}
    for array in arrays:
        dims = [*_rows(compiled, array, coordinates), *_along(compiled, array, units, coordinates)]
        unit_of = {"units": array.unit} if array.unit else {}
        variables[array.name] = dims, array.values, {"long_name": array.label, **unit_of}
    equation = type(compiled.equation).__name__
    about = {"title": f"{equation}, by diffsim", "source": f"diffsim {__version__}", "equation": equation}
    return xarray.Dataset(variables, coordinates, {**about, "dt": float(compiled.equation.dt), "precision": compiled.precision})


def _rows(compiled: Compiled, array: Described, coordinates: dict[str, Any]) -> list[str]:
    """The dimension of time steps."""
    if array.rows == "times":
        times = compiled.equation.dt * np.arange(len(array.values))
        coordinates["time"] = "time", times, {"long_name": "time", "units": "s"}
        return ["time"]
    if array.rows == "steps":
        coordinates["step"] = "step", np.arange(len(array.values)), {"long_name": "number of the time step"}
        return ["step"]
    return []


def _along(compiled: Compiled, array: Described, units: Sequence[str], coordinates: dict[str, Any]) -> list[str]:
    """The dimensions of cells, or that of points."""
    grid = compiled.grid
    if array.axes is not None:
        dims = []
        for axis in array.axes:
            name, face = grid.axes[axis], array.location[axis]
            dims.append(f"{name}_face" if face else name)
            where = f"{name} of upper faces of cells" if face else f"{name} of centres of cells"
            coordinates[dims[-1]] = dims[-1], grid.coordinates(axis, face), {"long_name": where, "units": units[axis]}
        return dims
    if array.points.startswith("receiver"):
        table = compiled.points[receiver_points(array.points.removeprefix("receiver_"))]
        for axis, name in enumerate(grid.axes):  # interpolation that is exact for a linear function gives the place back
            along = table.weights * grid.coordinates(axis, array.location[axis])[table.cells[:, axis]]
            places = np.add.reduceat(along, table.starts[:-1])
            coordinates[f"{array.points}_{name}"] = array.points, places, {"long_name": f"{name} of the receiver", "units": units[axis]}
    return [array.points]
