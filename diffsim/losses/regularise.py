"""Regularisers: what is known of a field before any data are seen, as a penalty with its exact discrete gradient.

All are integrals over the domain, discretised as a sum over cells times the cell volume V = Π h_a, so that a weight keeps its meaning
when the grid is refined. Differences are forward, D_a m = (m_{i+1} - m_i)/h_a, and exist between two cells that both count;
nothing is assumed outside the domain or the mask (no flux through their edge).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from math import prod
from typing import Literal, Protocol

import numpy as np
import numpy.typing as npt

from diffsim.arguments import number, positive, real_array, whole
from diffsim.errors import ParameterError, ShapeError
from diffsim.losses._checks import check_finite, check_fits, check_floating, check_mask
from diffsim.typing import Array

F64 = npt.NDArray[np.float64]


class Regulariser(Protocol):
    """What a loss on a field offers."""

    def value_and_grad(self, field: Array) -> tuple[float, Array]:
        """The penalty and its gradient, which has `field`'s shape and dtype."""
        ...


class _Cells:
    """Spacing and mask of a domain, and the forward difference on it with its transpose."""

    def __init__(self, spacing: float | Sequence[float], mask: npt.ArrayLike | None) -> None:
        self._spacing = check_finite("spacing", spacing)
        if self._spacing.ndim > 1 or not self._spacing.size or not np.all(self._spacing > 0):
            raise ParameterError(f"spacing: expected one length > 0, or one for each axis, got {spacing}; give the grid's spacing in m")
        self._mask = check_mask(mask)

    def lengths(self, ndim: int) -> tuple[float, ...]:
        return tuple(float(h) for h in np.broadcast_to(self._spacing, ndim))

    def volume(self, ndim: int) -> float:
        return prod(self.lengths(ndim))

    def values(self, field: Array) -> F64:
        """`field` in f64, zero where it does not count (a NaN over land must not spread)."""
        if field.ndim == 0 or (self._spacing.ndim == 1 and field.ndim != self._spacing.size):
            raise ShapeError(
                f"field: expected one axis for each of the {self._spacing.size} entries of spacing, got shape {field.shape}; "
                "give one spacing for each axis"
            )
        check_fits("mask", self._mask, field.shape, "the field")
        values = field.astype(np.float64)
        return values if self._mask is None else np.where(self._mask, values, 0.0)

    def differences(self, values: F64) -> list[F64]:
        """D_a values for each axis a, one entry shorter along a; zero where either cell does not count."""
        result = []
        for axis, h in enumerate(self.lengths(values.ndim)):
            slope = np.diff(values, axis=axis) / h
            if self._mask is not None:
                counts = np.broadcast_to(self._mask, values.shape)
                lower, upper = _ends(values.ndim, axis)
                slope = np.where(counts[lower] & counts[upper], slope, 0.0)
            result.append(slope)
        return result

    def transposed(self, slopes_bar: list[F64], shape: tuple[int, ...]) -> F64:
        """Σ_a D_aᵀ slopes_bar_a. The caller's slopes_bar is zero wherever a difference does not exist."""
        result = np.zeros(shape)
        for axis, (slope_bar, h) in enumerate(zip(slopes_bar, self.lengths(len(shape)), strict=True)):
            lower, upper = _ends(len(shape), axis)
            result[upper] += slope_bar / h
            result[lower] -= slope_bar / h
        return result


def _ends(ndim: int, axis: int) -> tuple[tuple[slice, ...], tuple[slice, ...]]:
    """Index of the lower and of the upper cell of every pair of neighbours along `axis`."""
    lower, upper = [slice(None)] * ndim, [slice(None)] * ndim
    lower[axis], upper[axis] = slice(None, -1), slice(1, None)
    return tuple(lower), tuple(upper)


def _check_weight(weight: float) -> float:
    return number("weight", weight, "a finite number of at least 0", lambda x: 0 <= x < math.inf, "use 0 to switch it off")


class Tikhonov:
    """Quadratic penalty on a field or on its slope.

        order 0:  R(m) = ½ α ∫ (m - m_ref)² dV     ≈ ½ α V Σᵢ (mᵢ - m_ref,ᵢ)²
        order 1:  R(m) = ½ α ∫ |∇(m - m_ref)|² dV  ≈ ½ α V Σ_a Σᵢ (D_a (m - m_ref))ᵢ²

    Order 0 keeps the field near the reference, order 1 makes the departure from it smooth and leaves its mean free.

    Args:
        weight: α >= 0.
        spacing: Cell size, m: one number, or one for each axis.
        order: 0 or 1.
        reference: m_ref, unit of the field; broadcasts to it. May be NaN where `mask` is False.
        mask: True where a cell counts; broadcasts to the field.

    Raises:
        ParameterError: A negative weight, a spacing that is not positive, another order, a reference that is not finite.

    Good values: the α at which R is about a tenth of the misfit at the starting field; lower it while the data stay unfitted.
    Order 1 penalises features of width L as α/L², so multiply α by L² to carry a weight over from order 0.
    """

    def __init__(
        self,
        weight: float,
        spacing: float | Sequence[float],
        order: Literal[0, 1] = 0,
        reference: npt.ArrayLike = 0.0,
        mask: npt.ArrayLike | None = None,
    ) -> None:
        self._order = whole("order", order, 0, 1, "choose 0 (values) or 1 (slopes)")
        self._weight = _check_weight(weight)
        self._cells = _Cells(spacing, mask)
        self._reference = np.array(real_array("reference", reference, np.float64))
        used = check_mask(mask)
        check_finite("reference", self._reference, used)

    def value_and_grad(self, field: Array) -> tuple[float, Array]:
        """R and its exact discrete gradient.

        Args:
            field: m, floating, as many axes as `spacing` has entries. May be NaN where `mask` is False.

        Returns:
            The value, summed in f64, and the gradient in the dtype of `field`.

        Raises:
            ShapeError: Axes, mask or reference do not fit.
        """
        field = check_floating("field", field)
        check_fits("reference", self._reference, field.shape, "the field")
        departure = self._cells.values(field.astype(np.float64) - self._reference)
        factor = self._weight * self._cells.volume(field.ndim)
        if self._order == 0:
            value, gradient = float(np.sum(departure**2)), departure
        else:
            slopes = self._cells.differences(departure)
            value = sum(float(np.sum(slope**2)) for slope in slopes)
            gradient = self._cells.transposed(slopes, field.shape)
        return 0.5 * factor * value, (factor * gradient).astype(field.dtype)


class SmoothedTotalVariation:
    """Total variation with its corner rounded off: smooth fields with few sharp edges.

        R(m) = α ∫ (√(|∇m|² + ε²) - ε) dV ≈ α V Σᵢ (√(Σ_a (D_a m)ᵢ² + ε²) - ε)

    In one dimension and for ε → 0 a jump costs α times its height, however sharp it is. A constant field costs exactly 0.

    Args:
        weight: α >= 0.
        spacing: Cell size, m: one number, or one for each axis.
        epsilon: ε > 0, unit of the field per m: slopes well below it are penalised quadratically, as |∇m|²/(2ε).
        mask: True where a cell counts; broadcasts to the field.

    Raises:
        ParameterError: A negative weight, a spacing or an epsilon that is not positive.

    Good values: ε a hundredth of (expected jump)/h. The curvature reaches α V/(ε h²), so the smaller ε, the slower the optimiser.

    Reference: Acar and Vogel (1994), "Analysis of bounded variation penalty methods for ill-posed problems",
    Inverse Problems 10, 1217, doi:10.1088/0266-5611/10/6/003; ε is subtracted here so that R ≥ 0 vanishes for a constant field.
    """

    def __init__(self, weight: float, spacing: float | Sequence[float], epsilon: float, mask: npt.ArrayLike | None = None) -> None:
        epsilon = positive("epsilon", epsilon, "a hundredth of (expected jump)/spacing is a good start")
        self._weight = _check_weight(weight)
        self._cells = _Cells(spacing, mask)
        self._epsilon = epsilon

    def value_and_grad(self, field: Array) -> tuple[float, Array]:
        """R and its exact discrete gradient.

        Args:
            field: m, floating, as many axes as `spacing` has entries. May be NaN where `mask` is False.

        Returns:
            The value, summed in f64, and the gradient in the dtype of `field`.

        Raises:
            ShapeError: Axes or mask do not fit.
        """
        field = check_floating("field", field)
        slopes = self._cells.differences(self._cells.values(field))
        steepness = np.zeros(field.shape)  # |∇m|², at the lower cell of each pair
        for axis, slope in enumerate(slopes):
            steepness[_ends(field.ndim, axis)[0]] += slope**2
        rounded = np.sqrt(steepness + self._epsilon**2)
        factor = self._weight * self._cells.volume(field.ndim)
        # √(s + ε²) - ε as s/(√(s + ε²) + ε): no cancellation where the field is nearly flat.
        value = factor * float(np.sum(steepness / (rounded + self._epsilon)))
        slopes_bar = [factor * slope / rounded[_ends(field.ndim, axis)[0]] for axis, slope in enumerate(slopes)]
        return value, self._cells.transposed(slopes_bar, field.shape).astype(field.dtype)
