"""The optimiser's flat vector theta, and the physical field that it stands for."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy
import numpy.typing as npt
from scipy.optimize import Bounds

import diffsim.numpy as np
from diffsim.ad.arrays.arguments import real_values
from diffsim.ad.arrays.guard import constant
from diffsim.base.arguments import real_array, shape_of
from diffsim.base.kinds import Kinds
from diffsim.base.messages import shown
from diffsim.errors import DivergenceError, ParameterError, ShapeError
from diffsim.numpy.calling.dispatch import plain
from diffsim.optimize.smoothing import smooth
from diffsim.optimize.transforms import Transform, make_transform
from diffsim.typing import Array

F64 = npt.NDArray[numpy.float64]


KINDS: Kinds[NamedUnknown] = Kinds("parametrisation")
"""The class of each kind of parametrisation that has a name."""


class Unknown(Protocol):
    """One unknown field as a flat f64 vector: its interface for `Stacked` and scenes."""

    @property
    def size(self) -> int:
        """Number of entries of theta."""
        ...

    def to_field(self, theta: Any) -> Any:
        """The physical field at theta, computed with `diffsim.numpy`, so that derivatives go through it."""
        ...

    def from_field(self, field: Array) -> F64:
        """The theta of a physical field."""
        ...

    def bounds(self) -> Bounds:
        """Bounds on theta; infinite where there are none."""
        ...


class NamedUnknown(ABC):
    """The base of parametrisations that have a name in scenes. A subclass writes what an `Unknown` has.

    It names its kind, `class Level(NamedUnknown, kind="level")`. Then scenes take it by this name, with the arguments of the class as keys.

    Raises:
        ParameterError: the kind is no identifier, or another parametrisation has it.

    Example:
        import numpy as np
        from scipy.optimize import Bounds

        import diffsim as ds
        import diffsim.numpy as dnp


        class Level(ds.optimize.NamedUnknown, kind="level"):
            '''A field that is the start plus one number: `[unknowns.T]` with `type = "level"`'''

            size = 1

            def __init__(self, reference):
                self.reference = reference

            def to_field(self, theta):
                return self.reference + theta[0]

            def from_field(self, field):
                return np.array([np.mean(field - self.reference)])

            def bounds(self):
                return Bounds([-np.inf], [np.inf])


        unknown = Level(np.zeros((3, 4)))
        assert unknown.from_field(unknown.to_field(np.array([2.0]))) == 2.0
        assert ds.grad(lambda theta: dnp.sum(unknown.to_field(theta)))(np.zeros(1)) == 12.0
    """

    def __init_subclass__(cls, kind: str | None = None, **others: Any) -> None:
        super().__init_subclass__(**others)
        KINDS.enter(cls, kind)

    @abstractmethod
    def to_field(self, theta: Any) -> Any:
        """The physical field at theta, see `Unknown`."""

    @abstractmethod
    def from_field(self, field: Array) -> F64:
        """The theta of a physical field."""

    @abstractmethod
    def bounds(self) -> Bounds:
        """Bounds on theta."""


def check_dtype(dtype: npt.DTypeLike) -> None:
    """Raise unless it is the type of floating-point numbers."""
    try:
        floating = dtype is not None and numpy.dtype(dtype).kind == "f"
    except (TypeError, ValueError):
        floating = False
    if not floating:
        raise ParameterError(f"dtype: expected a floating dtype, got {shown(dtype)}; use numpy.float32 or numpy.float64")


def check_theta(theta: Any, size: int) -> Any:
    """`theta`, which may be differentiated, as a flat f64 vector of `size` entries."""
    array = real_values("theta", theta, numpy.float64)
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
        array = numpy.array(mask)
    except ValueError as error:
        raise ParameterError(f"mask = {shown(mask)}, expected an array of booleans; give rows of equal length") from error
    if array.shape != shape:
        raise ShapeError(f"mask: expected shape {shape}, got {array.shape}; give one value for each cell, halo excluded")
    return array


def spread(name: str, values: npt.ArrayLike, shape: tuple[int, ...]) -> F64:
    """`values` in f64, broadcast to `shape`; read-only."""
    array = numpy.array(real_array(name, values, numpy.float64))
    try:
        return numpy.broadcast_to(array, shape)
    except ValueError:
        raise ShapeError(f"{name}: expected a number or a shape that broadcasts to {shape}, got {array.shape}; reshape it") from None


@dataclass(frozen=True, eq=False)
class Parametrisation(NamedUnknown, kind="cells"):
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

    Example:
        import numpy as np

        import diffsim as ds

        # A permeability that is positive, ranges over decades, and is known outside of the reservoir.
        reservoir = np.zeros((20, 30), dtype=bool)
        reservoir[5:15, 5:25] = True
        unknown = ds.optimize.Parametrisation((20, 30), mask=reservoir, transform="log", scale=0.5, reference=1e-13, smooth=2.0)
        theta = np.random.default_rng(1).standard_normal(unknown.size)
        field = unknown.to_field(theta)
        assert unknown.size == 200 and (field > 0).all() and (field[~reservoir] == 1e-13).all()
        gradient = ds.grad(lambda theta: (unknown.to_field(theta) * 1e13).sum())(theta)
        assert gradient.shape == (200,) and (gradient > 0).all()
    """

    shape: tuple[int, ...]
    dtype: npt.DTypeLike = numpy.float64
    mask: npt.NDArray[numpy.bool_] | None = None
    lower: npt.ArrayLike | None = None
    upper: npt.ArrayLike | None = None
    transform: str = "identity"
    scale: npt.ArrayLike = 1.0
    reference: npt.ArrayLike | None = None
    smooth: float | Sequence[float] = 0.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "shape", shape_of("shape", self.shape))
        check_dtype(self.dtype)
        if not numpy.all(numpy.isfinite(self._scale) & (self._scale > 0)):
            raise ParameterError("scale: expected finite numbers > 0 in free cells, got another; give the change that theta = 1 stands for")
        if not numpy.all(self._lower <= self._upper):  # also refuses NaN
            raise ParameterError("bounds: expected lower <= upper in free cells, got crossed bounds or NaN; exchange or widen them")
        if not numpy.all(numpy.isfinite(self._template)):
            raise ParameterError("reference: expected finite numbers, got NaN or infinity; fill the gaps")
        self._transform.check(self._reference)
        if self._is_smooth and self._transform.boxed and self._has_bounds:
            raise ParameterError(
                f'smooth: expected no bounds with transform="{self.transform}", for a bound on the field bounds no single entry of theta; '
                'use transform="logit", which keeps lower and upper by itself, or smooth=0'
            )
        if self.transform == "log" and not numpy.all(self._upper > 0):
            raise ParameterError(
                'upper: expected values > 0 for transform="log", got one that is not; raise it or use transform="identity"'
            )

    @property
    def size(self) -> int:
        """Number of free cells."""
        return self._size

    def to_field(self, theta: Any) -> Any:
        """The field at theta, differentiable.

        Returns:
            A new array of `shape` and `dtype`, within the bounds if theta is.

        Raises:
            ShapeError: theta has not `size` entries.
            DivergenceError: A value of the field is not finite.
        """
        theta = check_theta(theta, self.size)
        values = self._transform.apply(self._scale * self._smoothed(theta), self._reference)
        short = self._rounding(plain(theta), plain(values)) if self._has_bounds else None
        if short is not None and short.any():
            values = values + short
        with np.errstate(over="ignore"):
            field = self._placed(real_values("field", values, self.dtype), self._template)
        finite = numpy.isfinite(plain(field))
        if not finite.all():
            raise DivergenceError(
                f"field: expected finite values, got {numpy.count_nonzero(~finite)} others at theta of largest size "
                f"{numpy.max(numpy.abs(plain(theta))):.3g}; lower `scale` or set bounds"
            )
        return field

    def from_field(self, field: Array) -> F64:
        """The theta of a field; values in cells that are not free are ignored.

        Raises:
            ShapeError: The field has not `shape`.
            ParameterError: A free value is not finite or out of bounds, or `smooth` is on and the field is not the reference
                (undoing a Gaussian is not a well-posed problem).
        """
        values = check_field("field", field, self.shape)[self._free].astype(numpy.float64)
        if self._is_smooth:
            round_off = 8 * float(numpy.finfo(numpy.dtype(self.dtype)).eps) * float(numpy.max(numpy.abs(self._reference)))
            if not numpy.allclose(values, self._reference, rtol=0.0, atol=round_off):
                raise ParameterError(
                    "field: expected the reference, because `smooth` cannot be undone, got another field; give it as `reference=` instead"
                )
            return numpy.zeros(self.size)
        lower, upper = self._lower.astype(self.dtype), self._upper.astype(self.dtype)  # a field at its bound is so in its own dtype
        rounded = values.astype(self.dtype)
        outside = ~((rounded >= lower) & (rounded <= upper) & numpy.isfinite(values))  # NaN is outside
        if numpy.any(outside):
            k = int(numpy.argmax(outside))
            index = tuple(int(i) for i in numpy.argwhere(self._free)[k])
            raise ParameterError(
                f"field: expected values between {self._lower[k]:g} and {self._upper[k]:g}, got {values[k]:g} at {index} and "
                f"{numpy.count_nonzero(outside) - 1} more; clip the field or widen the bounds"
            )
        with numpy.errstate(divide="ignore"):
            theta = self._transform.invert(values, self._reference) / self._scale
        if not numpy.all(numpy.isfinite(theta)):
            raise ParameterError(
                f'field: expected values strictly inside the range of transform="{self.transform}", got one at its end; move it inwards'
            )
        return numpy.clip(theta, *self._theta_box)  # round-off only, the values were checked above

    def bounds(self) -> Bounds:
        """`lower` and `upper` as bounds on theta; infinite where there are none, and throughout for "logit"."""
        low, high = self._theta_box
        return Bounds(low.copy(), high.copy())

    def _smoothed(self, theta: Any) -> Any:
        """S theta = Eᵀ G E theta; E puts theta into a field of zeros."""
        if not self._is_smooth:
            return theta
        return self._taken(smooth(self._placed(theta, numpy.zeros(self.shape)), self._deviation))

    def _rounding(self, theta: F64, values: F64) -> F64:
        """The corrections that move values back to their bounds where round-off exceeds these, and 0 for theta outside of its box."""
        low, high = self._theta_box
        with numpy.errstate(invalid="ignore"):
            short = numpy.clip(values, self._lower, self._upper) - values
        return numpy.where((theta >= low) & (theta <= high), short, 0.0)

    def _placed(self, values: Any, elsewhere: Array) -> Any:
        """A field with these values in its free cells."""
        if self.size == elsewhere.size:
            return values if values.shape == self.shape else values.reshape(self.shape)
        field = np.array(elsewhere)
        field[self._free] = values
        return field

    def _taken(self, field: Any) -> Any:
        """The values in the free cells of a field."""
        return field.reshape(-1) if self.size == field.size else field[self._free]

    @cached_property
    def _size(self) -> int:
        return int(numpy.count_nonzero(self._free))

    @cached_property
    def _free(self) -> npt.NDArray[numpy.bool_]:
        if self.mask is None:
            return constant(numpy.ones(self.shape, dtype=numpy.bool_))
        mask = check_mask_shape(self.mask, self.shape)
        if mask.dtype != numpy.bool_ or not mask.any():
            raise ParameterError(f"mask: expected booleans, True in at least one (free) cell, got dtype {mask.dtype}; write `mask != 0`")
        if self.reference is None and not mask.all():
            raise ParameterError("reference: expected the values of the cells that `mask` holds fixed, got none; give `reference=`")
        return constant(mask)

    @cached_property
    def _scale(self) -> F64:
        return constant(spread("scale", self.scale, self.shape)[self._free])

    @cached_property
    def _lower(self) -> F64:
        return constant(spread("lower", -numpy.inf if self.lower is None else self.lower, self.shape)[self._free])

    @cached_property
    def _upper(self) -> F64:
        return constant(spread("upper", numpy.inf if self.upper is None else self.upper, self.shape)[self._free])

    @cached_property
    def _has_bounds(self) -> bool:
        return bool(numpy.any(self._lower > -numpy.inf) or numpy.any(self._upper < numpy.inf))

    @cached_property
    def _transform(self) -> Transform:
        return make_transform(self.transform, self._lower, self._upper)

    @cached_property
    def _full_reference(self) -> F64:
        if self.reference is None:  # so every cell is free, see `_free`
            return numpy.broadcast_to(self._transform.neutral, self.size).reshape(self.shape)
        return spread("reference", self.reference, self.shape)

    @cached_property
    def _reference(self) -> F64:
        """Reference of the free cells."""
        return constant(self._full_reference[self._free])

    @cached_property
    def _template(self) -> Array:
        """The field at theta = 0, for `to_field` to copy."""
        return constant(self._full_reference.astype(self.dtype))

    @cached_property
    def _theta_box(self) -> tuple[F64, F64]:
        if not self._transform.boxed:
            return constant(numpy.full(self.size, -numpy.inf)), constant(numpy.full(self.size, numpy.inf))
        low = self._transform.invert(self._lower, self._reference) / self._scale
        high = self._transform.invert(self._upper, self._reference) / self._scale
        return constant(low), constant(high)

    @cached_property
    def _deviation(self) -> tuple[float, ...]:
        deviation = tuple(float(s) for s in spread("smooth", self.smooth, (len(self.shape),)))
        if not all(numpy.isfinite(s) and s >= 0 for s in deviation):
            raise ParameterError(f"smooth: expected numbers of cells >= 0, got {self.smooth}; 0 switches smoothing off")
        return deviation

    @cached_property
    def _is_smooth(self) -> bool:
        return any(s > 0 for s in self._deviation)
