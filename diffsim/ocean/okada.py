"""An uplift by rectangular faults as an unknown: a few numbers of each fault in place of a value in each cell."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt
from scipy.optimize import Bounds

import diffsim.numpy as dnp
from diffsim.ad import stop_gradient
from diffsim.base.arguments import instance, real_array
from diffsim.base.messages import shown
from diffsim.errors import ParameterError
from diffsim.mesh.angles import ANGLES
from diffsim.mesh.grid import Grid
from diffsim.ocean.fault import Fault, tangent_plane
from diffsim.optimize import NamedUnknown
from diffsim.records.projection import across
from diffsim.typing import Array

Part: TypeAlias = Literal["slip", "rake", "strike", "top", "dip", "length", "width"]
SCALES: dict[str, float] = {"slip": 1.0, "rake": 10.0, "strike": 10.0, "top": 0.2, "dip": 0.2, "length": 0.2, "width": 0.2}
"""The change of each number that a variable of 1 stands for: m, degrees, degrees, and parts of the number itself."""
POSITIVE = ("top", "dip", "length", "width")
STEEPEST = 90.0


class Okada(NamedUnknown, kind="okada"):
    """A field that rectangular faults lift: the start plus the uplift of the sea floor by the slip of each (`Fault`).

    The variables are those numbers of each fault that are free. Slip, rake and strike are their start plus scale · theta; positive numbers
    are their start times exp(scale · theta), so they stay positive, and no fault reaches above the surface.

    Args:
        grid: of the field. Axes named like latitudes and longitudes are in degrees, on a plane that touches the earth at the mean of the
            centres; others in m. The last axis points to the east and the one before it to the north, unless their names say otherwise.
        centres: of the faults, in the coordinates of the grid, one entry an axis.
        top: depth of the upper edge, m; one number for all faults, or one for each, as of the following.
        strike: direction of the upper edge, degrees clockwise from north; the fault dips to its right.
        dip: angle with the horizontal, degrees.
        length: extent along the strike, m.
        width: extent along the dip, m.
        rake: direction in which the upper side moves, degrees from the strike; 90 is a thrust.
        slip: size of the motion at the start, m.
        free: the numbers that are sought for each fault.
        scale: the change that a variable of 1 stands for, one for each of `free`: m for slip, degrees for rake and strike, a part of the
            number for the others; none: 1 m, 10 degrees and 0.2.
        reference: the field without faults; 0.
        mask: cells that the faults lift; None: all.
        dtype: of the field.

    Raises:
        ParameterError: numbers for another number of faults, or out of range; a grid without two axes across the earth, or with one in
            degrees; a reference that is not finite.

    Reference: Okada (1985), doi:10.1785/BSSA0750041135.

    Example:
        import numpy as np

        import diffsim as ds

        # Which slip and rake of two faults lifted the sea floor so?
        grid = ds.Grid((20, 24), spacing=10e3)
        faults = {"centres": [(60e3, 90e3), (120e3, 120e3)], "top": 5e3, "strike": 200.0, "dip": 15.0, "length": 60e3, "width": 40e3}
        truth = ds.ocean.Okada(grid, **faults, rake=80.0, slip=(3.0, 6.0)).to_field(np.zeros(2))
        unknown = ds.ocean.Okada(grid, **faults, slip=1.0, free=("slip", "rake"))
        loss = ds.value_and_grad(lambda theta: ((unknown.to_field(theta) - truth) ** 2).sum())
        answer = ds.optimize.minimise(loss, np.zeros(unknown.size), iterations=100)
        assert np.allclose(unknown.values(answer.x)["slip"], [3.0, 6.0], atol=0.02)
    """

    def __init__(
        self,
        grid: Grid,
        centres: tuple[tuple[float, ...], ...],
        top: float | tuple[float, ...],
        strike: float | tuple[float, ...],
        dip: float | tuple[float, ...],
        length: float | tuple[float, ...],
        width: float | tuple[float, ...],
        rake: float | tuple[float, ...] = 90.0,
        slip: float | tuple[float, ...] = 1.0,
        free: tuple[Part, ...] = ("slip",),
        scale: tuple[float, ...] = (),
        reference: Any = 0.0,
        mask: Any = None,
        dtype: npt.DTypeLike = np.float64,
    ) -> None:
        instance("grid", grid, Grid, "a diffsim.Grid", "give that of the simulation")
        if grid.ndim != 2:
            raise ParameterError(f"grid: expected two axes across the earth, got {grid.ndim}; faults lift a sea floor of two axes")
        self._east, self._north, self._places = _on_a_plane(grid, centres)
        count = len(self._places)
        start = {"slip": slip, "rake": rake, "strike": strike, "top": top, "dip": dip, "length": length, "width": width}
        self._start = {name: _one_each(name, value, count) for name, value in start.items()}
        self._free = _names(free)
        scales = real_array("scale", scale, np.float64) if np.size(scale) else np.array([SCALES[name] for name in self._free])
        if scales.shape != (len(self._free),):
            raise ParameterError(
                f"scale: expected {len(self._free)} numbers, one for each of free, got {shown(scale)}; write it like (2.0,)"
            )
        self._scale = dict(zip(self._free, scales.tolist(), strict=True))
        if not all(0 < each < np.inf for each in self._scale.values()):
            raise ParameterError(f"scale: expected numbers above 0, got {shown(scale)}; give the change that you expect")
        for name in POSITIVE:
            if not (self._start[name] > 0).all():
                raise ParameterError(f"{name}: expected numbers above 0, got {self._start[name].min():g}; correct it")
        self._reference = _over("reference", real_array("reference", reference, np.float64), grid)
        if not np.isfinite(self._reference).all():
            raise ParameterError("reference: expected finite numbers, got NaN or infinity; fill those cells, for example with 0")
        self._mask = _over("mask", np.asarray(True if mask is None else mask, bool), grid)
        self._dtype = np.dtype(dtype)
        self._known: dict[bytes, npt.NDArray[np.float64]] = {}  # digest of a field -> its variables, which are few
        self.size: int = count * len(self._free)
        """Number of variables: faults times free numbers, all faults of the first free number first."""

    def values(self, theta: Any) -> dict[str, Any]:
        """The numbers of each fault at theta, by name: m and degrees.

        Raises:
            ParameterError: theta has not one entry for each variable.
        """
        shape = theta.shape if hasattr(theta, "shape") else real_array("theta", theta).shape
        if np.prod(shape, dtype=int) != self.size:
            raise ParameterError(
                f"theta: expected {self.size} variables, faults times free numbers, got the shape {shape}; start from zeros of `size`"
            )
        rows = dnp.reshape(theta, (len(self._free), len(self._places)))
        moved = {name: self._scale[name] * rows[k] for k, name in enumerate(self._free)}
        return self._start | {
            name: self._start[name] * dnp.exp(change) if name in POSITIVE else self._start[name] + change for name, change in moved.items()
        }

    def to_field(self, theta: Any) -> Any:
        """The field at theta."""
        each = self.values(theta)
        depth = each["top"] + 0.5 * each["width"] * dnp.sin(dnp.deg2rad(each["dip"]))
        parts = {name: each[name] for name in ("strike", "dip", "rake", "slip", "length", "width")}
        fault = Fault(self._places[:, 0], self._places[:, 1], depth, **parts)
        up = fault.displacement(self._east, self._north)[2]
        field = (self._reference + dnp.where(self._mask, up, 0.0)).astype(self._dtype)
        self._known[_digest(np.asarray(stop_gradient(field)))] = np.array(stop_gradient(theta), np.float64)
        return field

    def from_field(self, field: Array) -> npt.NDArray[np.float64]:
        """The variables of a field that `to_field` gave, or 0 of the field without faults.

        Raises:
            ParameterError: it is another field, which may have no variables.
        """
        theta = self._known.get(_digest(np.asarray(field)))
        if theta is not None:
            return theta.copy()
        if np.array_equal(self._reference.astype(self._dtype), field):
            return np.zeros(self.size)
        raise ParameterError(
            "field: expected the start or a field that these faults gave, got another one; start from a field without faults"
        )

    def bounds(self) -> Bounds:
        """No bounds but the dip's, which is at most 90 degrees."""
        high = np.full((len(self._free), len(self._places)), np.inf)
        if "dip" in self._free:
            high[self._free.index("dip")] = np.log(STEEPEST / self._start["dip"]) / self._scale["dip"]
        return Bounds(np.full(self.size, -np.inf), high.ravel())


def _on_a_plane(grid: Grid, centres: Sequence[Sequence[float]]) -> tuple[Array, Array, Array]:
    """Cells and centres on a plane: east and north of the cells, of the shape of the grid, and of the centres, shape (faults, 2), m."""
    at = real_array("centres", centres, np.float64)
    if at.ndim != 2 or not len(at) or at.shape[1] != grid.ndim or not np.isfinite(at).all():
        raise ParameterError(
            f"centres: expected places with {grid.ndim} coordinates, got {shown(centres)}; give one for each fault, like ((0.0, 5e3),)"
        )
    east, north = across(grid.axes)
    mesh = np.meshgrid(*map(grid.coordinates, range(grid.ndim)), indexing="ij")
    angles = [axis.lower() in ANGLES for axis in grid.axes]
    if any(angles) and not all(angles):
        raise ParameterError(
            f"grid: expected both axes in degrees, or both in m, got {' and '.join(grid.axes)}; name them latitude and longitude, or y, x"
        )
    if not any(angles):
        return mesh[east], mesh[north], at[:, [east, north]]
    middle = float(at[:, north].mean()), float(at[:, east].mean())
    cells = tangent_plane(mesh[north], mesh[east], middle)
    return (*cells, np.stack(tangent_plane(at[:, north], at[:, east], middle), axis=1))


def _digest(field: Array) -> bytes:
    return hashlib.blake2b(np.ascontiguousarray(field).tobytes(), digest_size=16).digest()


def _one_each(name: str, value: Any, count: int) -> Array:
    numbers = np.atleast_1d(real_array(name, value, np.float64))
    if numbers.shape not in ((1,), (count,)) or not np.isfinite(numbers).all():
        raise ParameterError(f"{name}: expected one finite number, or {count}, one for each fault, got {shown(value)}; correct it")
    return np.broadcast_to(numbers, (count,)).copy()


def _over(name: str, values: Array, grid: Grid) -> Array:
    """An array over the cells of the grid."""
    try:
        return np.broadcast_to(values, grid.shape)
    except ValueError:
        raise ParameterError(f"{name}: expected the shape {grid.shape} of the grid, got {values.shape}; give one a cell") from None


def _names(free: Sequence[str]) -> tuple[str, ...]:
    wrong = next((name for name in free if name not in SCALES), None)
    if wrong is not None or not free or len(set(free)) != len(free):
        raise ParameterError(f"free: expected some of {', '.join(SCALES)}, each once, got {shown(list(free))}; correct it")
    return tuple(free)
