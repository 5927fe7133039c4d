"""The optimiser's flat vector theta, and the physical field that it stands for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
from scipy.ndimage import gaussian_filter
from scipy.optimize import Bounds

from diffsim.arguments import real_array, shape_of, shown
from diffsim.errors import DivergenceError, ParameterError, ShapeError
from diffsim.optimize.transforms import Transform, make_transform
from diffsim.typing import Array

F64 = npt.NDArray[np.float64]


class Unknown(Protocol):
    """One unknown field as a flat f64 vector: what `Stacked` and a scene need of it."""

    @property
    def size(self) -> int:
        """Number of entries of theta."""
        ...

    def to_field(self, theta: Array) -> Array:
        """The physical field at theta."""
        ...

    def from_field(self, field: Array) -> F64:
        """The theta of a physical field."""
        ...

    def pullback(self, theta: Array, field_bar: Array) -> F64:
        """(∂ field / ∂ theta)ᵀ field_bar, at theta."""
        ...

    def bounds(self) -> Bounds:
        """Bounds on theta; infinite where there are none."""
        ...


def check_dtype(dtype: npt.DTypeLike) -> None:
    """Raise unless it is the type of floating-point numbers."""
    try:
        floating = dtype is not None and np.dtype(dtype).kind == "f"
    except (TypeError, ValueError):
        floating = False
    if not floating:
        raise ParameterError(f"dtype: expected a floating dtype, got {shown(dtype)}; use numpy.float32 or numpy.float64")


def check_theta(theta: npt.ArrayLike, size: int) -> F64:
    """`theta` as a flat f64 vector of `size` entries."""
    array = real_array("theta", theta, np.float64)
    if array.shape != (size,):
        raise ShapeError(f"theta: expected shape ({size},), one entry a free unknown, got {array.shape}; start from from_field(...)")
    return array


def check_field(name: str, field: npt.ArrayLike, shape: tuple[int, ...]) -> npt.NDArray[Any]:
    """`field` as an array of that shape."""
    array = real_array(name, field)
    if array.shape != shape:
        raise ShapeError(f"{name}: expected shape {shape}, got {array.shape}; give one value for each cell, halo excluded")
    return array


def check_mask_shape(mask: npt.ArrayLike, shape: tuple[int, ...]) -> npt.NDArray[Any]:
    """A copy of `mask`, of that shape."""
    try:
        array = np.array(mask)
    except ValueError as error:
        raise ParameterError(f"mask = {shown(mask)}, expected an array of booleans; give rows of equal length") from error
    if array.shape != shape:
        raise ShapeError(f"mask: expected shape {shape}, got {array.shape}; give one value for each cell, halo excluded")
    return array


def spread(name: str, values: npt.ArrayLike, shape: tuple[int, ...]) -> F64:
    """`values` in f64, broadcast to `shape`; read-only."""
    array = np.array(real_array(name, values, np.float64))
    try:
        return np.broadcast_to(array, shape)
    except ValueError:
        raise ShapeError(f"{name}: expected a number or a shape that broadcasts to {shape}, got {array.shape}; reshape it") from None


@dataclass(frozen=True, eq=False)
class Parametrisation:
    """A field whose free cells are unknown.

        field = T(scale · S theta; reference) on free cells,  field = reference elsewhere

    with T the transform below, pointwise, T(0; reference) = reference, and S the identity or a Gaussian smoothing.
    So theta = 0 is the reference.

    - `"identity"`: reference + scale · S theta.
    - `"log"`: reference · exp(scale · S theta), for fields that are positive and range over decades.
    - `"logit"`: lower + (upper - lower) σ(...), which keeps both bounds without bounding theta, and so goes together with `smooth`.

    Smoothing the unknown (and by Sᵀ the gradient) makes the optimiser try smooth changes first. S is symmetric: a normalised Gaussian,
    mirrored at the grid's edge, over increments that are zero in cells that are not free, so it damps changes near a mask's edge.

    Args:
        shape: Shape of the field, halo excluded.
        dtype: dtype of the field; theta and its gradient are always f64.
        mask: True where a cell is free. None: everywhere.
        lower: Least value allowed, unit of the field; a number or broadcast to `shape`. None: none.
        upper: Greatest value allowed, likewise.
        transform: `"identity"`, `"log"` or `"logit"`.
        scale: > 0, unit of the field for "identity", else a number: the change that theta = 1 stands for. A number or broadcast to `shape`.
        reference: Field at theta = 0 and, always, in cells that are not free, where the bounds do not apply. Needed with `mask`.
            None: 0, for "log" 1, for "logit" midway between the bounds.
        smooth: Standard deviation of S in cells; a number, or one for each axis. 0: no smoothing.

    Raises:
        ShapeError: An argument does not broadcast to `shape`.
        ParameterError: A scale <= 0, crossed bounds, a reference out of the transform's range, bounds on a smoothed "identity" or "log"
            (a bound on the field is then no bound on single entries of theta).

    Good values: `scale` such that theta = 1 is a change to be expected (100 m/s for a wave speed, 0.1 for "log"); `smooth` a quarter of the
    shortest wavelength.
    """

    shape: tuple[int, ...]
    dtype: npt.DTypeLike = np.float64
    mask: npt.NDArray[np.bool_] | None = None
    lower: npt.ArrayLike | None = None
    upper: npt.ArrayLike | None = None
    transform: str = "identity"
    scale: npt.ArrayLike = 1.0
    reference: npt.ArrayLike | None = None
    smooth: float | Sequence[float] = 0.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "shape", shape_of("shape", self.shape, np.iinfo(np.int8).max))
        check_dtype(self.dtype)
        if not np.all(np.isfinite(self._scale) & (self._scale > 0)):
            raise ParameterError("scale: expected finite numbers > 0 in free cells, got another; give the change that theta = 1 stands for")
        if not np.all(self._lower <= self._upper):  # also refuses NaN
            raise ParameterError("bounds: expected lower <= upper in free cells, got crossed bounds or NaN; exchange or widen them")
        if not np.all(np.isfinite(self._template)):
            raise ParameterError("reference: expected finite numbers, got NaN or infinity; fill the gaps")
        self._transform.check(self._reference)
        if self._is_smooth and self._transform.boxed and self._has_bounds:
            raise ParameterError(
                f'smooth: expected no bounds with transform="{self.transform}", for a bound on the field bounds no single entry of theta; '
                'use transform="logit", which keeps lower and upper by itself, or smooth=0'
            )
        if self.transform == "log" and not np.all(self._upper > 0):
            raise ParameterError(
                'upper: expected values > 0 for transform="log", got one that is not; raise it or use transform="identity"'
            )

    @property
    def size(self) -> int:
        """Number of free cells."""
        return int(np.count_nonzero(self._free))

    def to_field(self, theta: Array) -> Array:
        """The field at theta.

        Returns:
            A new array of `shape` and `dtype`, within the bounds if theta is.

        Raises:
            ShapeError: theta has not `size` entries.
            DivergenceError: A value of the field is not finite.
        """
        theta = check_theta(theta, self.size)
        values = self._transform.apply(self._step(theta), self._reference)
        if self._has_bounds:
            # At a bound of theta the value may miss its own bound by round-off; further out it is the caller who left the box.
            low, high = self._theta_box
            values = np.where((theta >= low) & (theta <= high), np.clip(values, self._lower, self._upper), values)
        field = self._template.copy()
        with np.errstate(over="ignore"):
            field[self._free] = values
        if not np.all(np.isfinite(field)):
            raise DivergenceError(
                f"field: expected finite values, got {np.count_nonzero(~np.isfinite(field))} others at theta of largest size "
                f"{np.max(np.abs(theta)):.3g}; lower `scale` or set bounds"
            )
        return field

    def from_field(self, field: Array) -> F64:
        """The theta of a field; what the field holds in cells that are not free is ignored.

        Raises:
            ShapeError: The field has not `shape`.
            ParameterError: A free value is not finite or out of bounds, or `smooth` is on and the field is not the reference
                (undoing a Gaussian is not a well-posed problem).
        """
        values = check_field("field", field, self.shape)[self._free].astype(np.float64)
        if self._is_smooth:
            round_off = 8 * float(np.finfo(np.dtype(self.dtype)).eps) * float(np.max(np.abs(self._reference)))
            if not np.allclose(values, self._reference, rtol=0.0, atol=round_off):
                raise ParameterError(
                    "field: expected the reference, because `smooth` cannot be undone, got another field; give it as `reference=` instead"
                )
            return np.zeros(self.size)
        lower, upper = self._lower.astype(self.dtype), self._upper.astype(self.dtype)  # a field at its bound is so in its own dtype
        rounded = values.astype(self.dtype)
        outside = ~((rounded >= lower) & (rounded <= upper) & np.isfinite(values))  # NaN is outside
        if np.any(outside):
            k = int(np.argmax(outside))
            index = tuple(int(i) for i in np.argwhere(self._free)[k])
            raise ParameterError(
                f"field: expected values between {self._lower[k]:g} and {self._upper[k]:g}, got {values[k]:g} at {index} and "
                f"{np.count_nonzero(outside) - 1} more; clip the field or widen the bounds"
            )
        with np.errstate(divide="ignore"):
            theta = self._transform.invert(values, self._reference) / self._scale
        if not np.all(np.isfinite(theta)):
            raise ParameterError(
                f'field: expected values strictly inside the range of transform="{self.transform}", got one at its end; move it inwards'
            )
        return np.clip(theta, *self._theta_box)  # round-off only, the values were checked above

    def pullback(self, theta: Array, field_bar: Array) -> F64:
        """The gradient by theta from the gradient by the field.

        Args:
            theta: Where; shape (size,).
            field_bar: Gradient by the field, of `shape`; cells that are not free are ignored.

        Returns:
            Shape (size,), f64.
        """
        theta = check_theta(theta, self.size)
        values_bar = check_field("field_bar", field_bar, self.shape)[self._free].astype(np.float64)
        slope = self._transform.slope(self._step(theta), self._reference)
        return self._smoothed(self._scale * slope * values_bar)  # S is its own transpose

    def bounds(self) -> Bounds:
        """`lower` and `upper` as bounds on theta; infinite where there are none, and throughout for "logit"."""
        low, high = self._theta_box
        return Bounds(low.copy(), high.copy())

    def _step(self, theta: F64) -> F64:
        return self._scale * self._smoothed(theta)

    def _smoothed(self, theta: F64) -> F64:
        """S theta = Eᵀ G E theta; E puts theta into a field of zeros, G has a symmetric kernel and half-sample mirror ends, so Sᵀ = S."""
        if not self._is_smooth:
            return theta
        field = np.zeros(self.shape)
        field[self._free] = theta
        return gaussian_filter(field, self._deviation, mode="reflect")[self._free]

    @cached_property
    def _free(self) -> npt.NDArray[np.bool_]:
        if self.mask is None:
            return np.ones(self.shape, dtype=np.bool_)
        mask = check_mask_shape(self.mask, self.shape)
        if mask.dtype != np.bool_ or not mask.any():
            raise ParameterError(f"mask: expected booleans, True in at least one (free) cell, got dtype {mask.dtype}; write `mask != 0`")
        if self.reference is None and not mask.all():
            raise ParameterError("reference: expected the values of the cells that `mask` holds fixed, got none; give `reference=`")
        return mask

    @cached_property
    def _scale(self) -> F64:
        return spread("scale", self.scale, self.shape)[self._free]

    @cached_property
    def _lower(self) -> F64:
        return spread("lower", -np.inf if self.lower is None else self.lower, self.shape)[self._free]

    @cached_property
    def _upper(self) -> F64:
        return spread("upper", np.inf if self.upper is None else self.upper, self.shape)[self._free]

    @cached_property
    def _has_bounds(self) -> bool:
        return bool(np.any(self._lower > -np.inf) or np.any(self._upper < np.inf))

    @cached_property
    def _transform(self) -> Transform:
        return make_transform(self.transform, self._lower, self._upper)

    @cached_property
    def _full_reference(self) -> F64:
        if self.reference is None:  # so every cell is free, see `_free`
            return np.broadcast_to(self._transform.neutral, self.size).reshape(self.shape)
        return spread("reference", self.reference, self.shape)

    @cached_property
    def _reference(self) -> F64:
        """Reference of the free cells."""
        return self._full_reference[self._free]

    @cached_property
    def _template(self) -> Array:
        """The field at theta = 0, for `to_field` to copy."""
        return self._full_reference.astype(self.dtype)

    @cached_property
    def _theta_box(self) -> tuple[F64, F64]:
        if not self._transform.boxed:
            return np.full(self.size, -np.inf), np.full(self.size, np.inf)
        low = self._transform.invert(self._lower, self._reference) / self._scale
        high = self._transform.invert(self._upper, self._reference) / self._scale
        return low, high

    @cached_property
    def _deviation(self) -> tuple[float, ...]:
        deviation = tuple(float(s) for s in spread("smooth", self.smooth, (len(self.shape),)))
        if not all(np.isfinite(s) and s >= 0 for s in deviation):
            raise ParameterError(f"smooth: expected numbers of cells >= 0, got {self.smooth}; 0 switches smoothing off")
        return deviation

    @cached_property
    def _is_smooth(self) -> bool:
        return any(s > 0 for s in self._deviation)
