"""A field with one unknown value for each region."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy
import numpy.typing as npt
from scipy.optimize import Bounds

import diffsim.numpy as np
from diffsim.ad.arrays.guard import constant
from diffsim.base.arguments import real_array
from diffsim.errors import ParameterError
from diffsim.optimize.parametrise import Parametrisation, check_dtype, check_field, spread
from diffsim.typing import Array, IntArray

FIXED = -1
"""Label of cells that belong to no region."""


@dataclass(frozen=True, eq=False)
class Regions:
    """A field that is constant in each of K regions: field = v_k where labels = k, v = T(scale · theta; reference).

    T is the transform of `Parametrisation`.

    Args:
        labels: Integer field of 0 ... K-1, each at least once; -1 in cells of no region, which keep `background`.
        dtype: dtype of the field; theta and its gradient are always f64.
        lower: Least value allowed; a number or one for each region. None: none.
        upper: Greatest value allowed, likewise.
        transform: `"identity"`, `"log"` or `"logit"`.
        scale: > 0: the change that theta = 1 stands for; a number or one for each region.
        reference: Value at theta = 0; a number or one for each region.
        background: The field in cells labelled -1; a number or broadcast to the labels' shape. Needed if there are any.

    Raises:
        ShapeError: An argument does not broadcast.
        ParameterError: Labels are not integers, skip a number, or are below -1; and the errors of `Parametrisation`.

    Example:
        import numpy as np

        import diffsim as ds

        # Three layers, of which each has one wave speed.
        labels = np.repeat([0, 1, 2], 10)[:, None] * np.ones((30, 20), dtype=int)
        layers = ds.optimize.Regions(labels, lower=1400.0, upper=5000.0, scale=100.0, reference=[1500.0, 2000.0, 2500.0])
        speed = layers.to_field(np.array([0.0, 1.0, -1.0]))
        assert speed.shape == (30, 20) and np.allclose(speed[:, 0], np.repeat([1500.0, 2100.0, 2400.0], 10))
    """

    labels: IntArray
    dtype: npt.DTypeLike = numpy.float64
    lower: npt.ArrayLike | None = None
    upper: npt.ArrayLike | None = None
    transform: str = "identity"
    scale: npt.ArrayLike = 1.0
    reference: npt.ArrayLike | None = None
    background: npt.ArrayLike | None = None

    def __post_init__(self) -> None:
        check_dtype(self.dtype)
        real_array("labels", self.labels)
        if not numpy.all(numpy.isfinite(self._template)):
            raise ParameterError("background: expected finite numbers, got NaN or infinity; fill the gaps")
        _ = self._values  # refuses its arguments now and not at the first use

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the field."""
        return numpy.shape(self.labels)

    @property
    def size(self) -> int:
        """Number of regions, K."""
        return int(self._member.max()) + 1

    def to_field(self, theta: Any) -> Any:
        """The field at theta, differentiable: a new array of the labels' shape, in `dtype`."""
        field = np.array(self._template)
        field[self._inside] = self._values.to_field(theta)[self._member]
        return field

    def from_field(self, field: Array) -> npt.NDArray[numpy.float64]:
        """The theta of a field that is constant in each region; cells of no region are ignored.

        Raises:
            ParameterError: The field varies within a region, or a value is out of bounds.
        """
        inside = check_field("field", field, self.shape)[self._inside].astype(numpy.float64)
        values = numpy.zeros(self.size)
        values[self._member] = inside
        varies = inside != values[self._member]
        if numpy.any(varies):
            k = int(self._member[int(numpy.argmax(varies))])
            raise ParameterError(f"field: expected one value in each region, got several in region {k}; give the region's mean throughout")
        return self._values.from_field(self._unrounded(values))

    def bounds(self) -> Bounds:
        """`lower` and `upper` as bounds on theta; infinite where there are none."""
        return self._values.bounds()

    def _unrounded(self, values: npt.NDArray[numpy.float64]) -> npt.NDArray[numpy.float64]:
        """The values of the regions, none beyond a bound that it is at in `dtype`: rounded to it, a bound may lie beyond itself.

        Such a value is put on the bound, or just inside where the transform is a logit, which has no theta for a bound.
        """
        rounded = values.astype(self.dtype)
        for bound, side, inward in ((self.lower, numpy.maximum, numpy.inf), (self.upper, numpy.minimum, -numpy.inf)):
            if bound is not None:
                limit = spread("bound", bound, values.shape)
                nearest = limit
                if self.transform == "logit":  # halfway to the numbers that `dtype` rounds to another
                    nearest = 0.5 * limit + 0.25 * (values + numpy.nextafter(rounded, rounded.dtype.type(inward)))
                values = numpy.where((rounded == limit.astype(self.dtype)) & (side(values, limit) != values), nearest, values)
        return values

    @cached_property
    def _inside(self) -> npt.NDArray[numpy.bool_]:
        return constant(numpy.asarray(self.labels) != FIXED)

    @cached_property
    def _member(self) -> IntArray:
        """Region of each cell that is in one."""
        labels = numpy.asarray(self.labels)
        if labels.dtype.kind not in "iu":
            raise ParameterError(f"labels: expected integers, got dtype {labels.dtype}; convert with .astype(numpy.int64)")
        member = labels[self._inside].astype(numpy.int64)
        numbers = numpy.unique(member)
        if not numpy.array_equal(numbers, numpy.arange(max(numbers.size, 1))):
            raise ParameterError(
                f"labels: expected every number of 0 ... K-1 (and -1 for no region), got {numbers[:10].tolist()}; "
                "renumber by numpy.unique(labels, return_inverse=True)"
            )
        return constant(member)

    @cached_property
    def _values(self) -> Parametrisation:
        return Parametrisation((self.size,), numpy.float64, None, self.lower, self.upper, self.transform, self.scale, self.reference)

    @cached_property
    def _template(self) -> Array:
        if self.background is None and not self._inside.all():
            raise ParameterError("background: expected the values of cells labelled -1, got none; give `background=`")
        return constant(spread("background", 0.0 if self.background is None else self.background, self.shape).astype(self.dtype))
