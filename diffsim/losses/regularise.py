"""Regularisers: prior knowledge of a field, as a penalty.

A regulariser is a program of `diffsim.numpy` that maps a field to a number. Its gradient follows from that. A new one is a function, or a
class with a `__call__`, and an entry in `LOSSES` of tests/losses/test_losses.py. A `Penalty` with a `kind` has a name in scenes.

All are integrals over the domain, discretised as a sum over cells times the cell volume V = Π h_a, so that a weight keeps its meaning
when the grid is refined. Differences are forward, D_a m = (m_{i+1} - m_i)/h_a, and exist between two cells that both count;
nothing is assumed outside the domain or the mask (no flux through their edge).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import reduce
from itertools import combinations_with_replacement
from math import prod
from operator import add
from typing import Any, Literal, TypeAlias

import numpy
import numpy.typing as npt

import diffsim.numpy as np
from diffsim.ad.arrays.guard import constant
from diffsim.base.arguments import number, positive, real_array, whole
from diffsim.base.kinds import Kinds
from diffsim.base.messages import shown
from diffsim.base.quantities import Meaning
from diffsim.errors import ParameterError, ShapeError
from diffsim.losses._checks import check_finite, check_fits, check_mask, in_f64, sum_of_squares
from diffsim.typing import Array, Positive

Regulariser: TypeAlias = Callable[[Any], Any]
"""field -> a number, computed with `diffsim.numpy`.

Example:
    import numpy as np

    import diffsim as ds
    import diffsim.numpy as dnp
    from diffsim.losses import Regulariser

    speed = np.linspace(1500.0, 3000.0, 50)
    curvature: Regulariser = lambda field: 0.5 * dnp.sum(dnp.diff(field, 2) ** 2)
    assert curvature(speed) < 1e-12 and abs(ds.grad(curvature)(speed)).max() < 1e-9  # a straight line costs nothing
"""


KINDS: Kinds[Penalty] = Kinds("penalty")
"""The class of each kind of penalty that has a name."""


class Penalty(ABC):
    """The base of regularisers that have a name in scenes. A subclass writes `__call__`.

    It names its kind, `class Curvature(Penalty, kind="curvature")`. Then scenes take it by this name, with the arguments of the class as
    keys. Any other callable is a `Regulariser` too.

    Raises:
        ParameterError: the kind is no identifier, or another penalty has it.

    Example:
        import numpy as np

        import diffsim as ds
        import diffsim.numpy as dnp


        class Curvature(ds.losses.Penalty, kind="curvature"):
            '''½ weight Σᵢ (mᵢ₊₁ - 2 mᵢ + mᵢ₋₁)²: `[[penalty]]` with `type = "curvature"`'''

            def __init__(self, weight: float) -> None:
                self.weight = weight

            def __call__(self, field):
                return 0.5 * self.weight * dnp.sum(dnp.diff(field, 2) ** 2)


        gradient = ds.grad(Curvature(2.0))(np.array([0.0, 1.0, 0.0]))
        assert gradient.tolist() == [-4.0, 8.0, -4.0]
    """

    def __init_subclass__(cls, kind: str | None = None, **others: Any) -> None:
        super().__init_subclass__(**others)
        KINDS.enter(cls, kind)

    @abstractmethod
    def __call__(self, field: Any) -> Any:
        """The penalty of a field, a number computed with `diffsim.numpy`."""


class Cells:
    """Spacing and mask of a domain, for penalties that are integrals over it."""

    def __init__(self, spacing: float | Sequence[float], mask: npt.ArrayLike | None) -> None:
        self._spacing = check_finite("spacing", spacing, meaning=Meaning("m"))
        if self._spacing.ndim > 1 or not self._spacing.size or not numpy.all(self._spacing > 0):
            raise ParameterError(
                f"spacing: expected one length > 0, or one for each axis, got {shown(spacing)}; give the grid's spacing in m"
            )
        used = check_mask(mask)
        self._mask = None if used is None else constant(used)
        self._known: dict[tuple[int, ...], list[float | Array]] = {}
        self._bends: dict[tuple[int, ...], list[tuple[tuple[int, int], float | Array]]] = {}

    def lengths(self, ndim: int) -> tuple[float, ...]:
        """The spacing along each axis."""
        return tuple(float(h) for h in numpy.broadcast_to(self._spacing, ndim))

    def volume(self, ndim: int) -> float:
        """The volume of a cell."""
        return prod(self.lengths(ndim))

    def values(self, field: Any, reference: npt.NDArray[Any] | None = None) -> Any:
        """`field` - `reference` in f64, zero where it does not count (a NaN over land must not spread)."""
        values = in_f64("field", field)
        if values.ndim == 0 or (self._spacing.ndim == 1 and values.ndim != self._spacing.size):
            raise ShapeError(
                f"field: expected one axis for each of the {self._spacing.size} entries of spacing, got shape {values.shape}; "
                "give one spacing for each axis"
            )
        check_fits("mask", self._mask, values.shape, "the field")
        check_fits("reference", reference, values.shape, "the field")
        departure = values if reference is None else values - reference
        return departure if self._mask is None else np.where(self._mask, departure, 0.0)

    def between(self, shape: tuple[int, ...], numbers: Sequence[float]) -> list[float | Array]:
        """For each axis its number, between cells that both count, and 0 between others. The numbers must be the same in each call."""
        if self._mask is None:
            return [*numbers]
        known = self._known.get(shape)
        if known is None:
            counts = numpy.broadcast_to(self._mask, shape)
            ends = [_ends(len(shape), axis) for axis in range(len(shape))]
            both = [counts[lower] & counts[upper] for lower, upper in ends]
            known = [constant(pairs * number) for pairs, number in zip(both, numbers, strict=True)]
            self._known = {shape: known}
        return known

    def bends(self, shape: tuple[int, ...], factor: float) -> list[tuple[tuple[int, int], float | Array]]:
        """Pairs of axes, each with the weight of the square of the second difference along both, where all of its cells count.

        Args:
            shape: of the field.
            factor: weight of a square. It must be the same in each call.
        """
        out = self._bends.get(shape)
        if out is None:
            steps, out = self.lengths(len(shape)), []
            for a, b in combinations_with_replacement(range(len(shape)), 2):
                weight: float | Array = (1 if a == b else 2) * factor / (steps[a] * steps[b]) ** 2
                if self._mask is not None:
                    counts = numpy.broadcast_to(self._mask, shape)
                    for axis in (a, b):
                        lower, upper = _ends(len(shape), axis)
                        counts = counts[lower] & counts[upper]
                    weight = constant(counts * weight)
                if min(shape[a], shape[b]) > 1 + (a == b):
                    out.append(((a, b), weight))
            self._bends = {shape: out}
        return out  # not from the dict, which another thread may have replaced


def _ends(ndim: int, axis: int) -> tuple[tuple[slice, ...], tuple[slice, ...]]:
    """Index of the lower and of the upper cell of every pair of neighbours along `axis`."""
    lower, upper = [slice(None)] * ndim, [slice(None)] * ndim
    lower[axis], upper[axis] = slice(None, -1), slice(1, None)
    return tuple(lower), tuple(upper)


def check_weight(weight: float) -> float:
    """The weight of a penalty."""
    return number("weight", weight, "a finite number of at least 0", lambda x: 0 <= x < math.inf, "use 0 to switch it off")


class Tikhonov(Penalty, kind="tikhonov"):
    """Quadratic penalty on a field or on its slope.

        order 0:  R(m) = ½ α ∫ (m - m_ref)² dV     ≈ ½ α V Σᵢ (mᵢ - m_ref,ᵢ)²
        order 1:  R(m) = ½ α ∫ |∇(m - m_ref)|² dV  ≈ ½ α V Σ_a Σᵢ (D_a (m - m_ref))ᵢ²
        order 2:  R(m) = ½ α ∫ Σ_ab (∂_a ∂_b (m - m_ref))² dV ≈ ½ α V Σ_ab Σᵢ (D_a D_b (m - m_ref))ᵢ²

    Order 0 keeps the field near the reference, order 1 makes the departure from it smooth and leaves its mean free, order 2 bends it little
    and leaves its slopes free as well.

    Args:
        weight: α >= 0.
        spacing: Cell size, m: one number, or one for each axis.
        order: 0 keeps to the reference (in a scene the start), 1 to smooth changes of it, 2 to changes without bends.
        reference: m_ref, unit of the field; broadcasts to it. May be NaN where `mask` is False.
        mask: True where a cell counts; broadcasts to the field.

    Raises:
        ParameterError: A negative weight, a spacing that is not positive, another order, a reference that is not finite.

    Good values: the α at which R is about a tenth of the misfit at the starting field; lower it while the data stay unfitted.
    Orders 1 and 2 penalise features of width L as α/L² and α/L⁴, so multiply α by L² or L⁴ to carry a weight over from order 0.

    Example:
        import numpy as np

        import diffsim as ds

        # The log of a permeability that was measured with noise, made smooth: minimise the misfit and the penalty together.
        truth = np.sin(np.linspace(0.0, np.pi, 50))
        noisy = truth + 0.2 * np.random.default_rng(1).standard_normal(50)
        misfit, penalty = ds.losses.L2Misfit(noisy), ds.losses.Tikhonov(weight=10.0, spacing=1.0, order=1)
        loss = ds.value_and_grad(lambda field: misfit(field) + penalty(field))
        found = ds.optimize.minimise(loss, np.zeros(50))
        assert np.abs(found.x - truth).mean() < 0.5 * np.abs(noisy - truth).mean()
    """

    def __init__(
        self,
        weight: float,
        spacing: float | Sequence[float],
        order: Literal[0, 1, 2] = 0,
        reference: npt.ArrayLike = 0.0,
        mask: npt.ArrayLike | None = None,
    ) -> None:
        self._order = whole("order", order, 0, 2, "choose 0 (values), 1 (slopes) or 2 (bends)")
        self._weight = check_weight(weight)
        self._cells = Cells(spacing, mask)
        self._reference = constant(real_array("reference", reference, np.float64))
        check_finite("reference", self._reference, check_mask(mask))

    @property
    def reach(self) -> int:
        """How many cells away the farthest cells are that a cell is compared with."""
        return self._order

    def __call__(self, field: Any) -> Any:
        """R, in f64; its gradient has the dtype of `field`.

        Args:
            field: m, floating, as many axes as `spacing` has entries. May be NaN where `mask` is False.

        Raises:
            ShapeError: Axes, mask or reference do not fit.
        """
        departure = self._cells.values(field, self._reference)
        factor = 0.5 * self._weight * self._cells.volume(departure.ndim)
        if self._order == 0:
            return sum_of_squares(departure, factor)
        if self._order == 2:
            bends = self._cells.bends(departure.shape, factor)
            return reduce(add, [sum_of_squares(np.diff(np.diff(departure, axis=a), axis=b), weight) for (a, b), weight in bends], 0.0)
        weights = self._cells.between(departure.shape, [factor / h**2 for h in self._cells.lengths(departure.ndim)])
        return reduce(add, [sum_of_squares(np.diff(departure, axis=axis), weight) for axis, weight in enumerate(weights)])


class SmoothedTotalVariation(Penalty, kind="total_variation"):
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

    Example:
        import numpy as np

        import diffsim as ds

        # A wave speed with two layers: the penalty leaves their boundary as sharp as it is.
        truth = np.where(np.arange(50) < 25, 0.0, 1.0)
        noisy = truth + 0.1 * np.random.default_rng(1).standard_normal(50)
        misfit, penalty = ds.losses.L2Misfit(noisy), ds.losses.SmoothedTotalVariation(weight=0.3, spacing=1.0, epsilon=0.01)
        found = ds.optimize.minimise(ds.value_and_grad(lambda field: misfit(field) + penalty(field)), noisy, iterations=200)
        assert np.abs(found.x - truth).mean() < 0.5 * np.abs(noisy - truth).mean()
        assert found.x[25] - found.x[24] > 0.7
    """

    def __init__(self, weight: float, spacing: float | Sequence[float], epsilon: Positive, mask: npt.ArrayLike | None = None) -> None:
        epsilon = positive("epsilon", epsilon, "a hundredth of (expected jump)/spacing is a good start")
        self._weight = check_weight(weight)
        self._cells = Cells(spacing, mask)
        self._epsilon = epsilon

    def __call__(self, field: Any) -> Any:
        """R, in f64; its gradient has the dtype of `field`.

        Args:
            field: m, floating, as many axes as `spacing` has entries. May be NaN where `mask` is False.

        Raises:
            ShapeError: Axes or mask do not fit.
        """
        values = self._cells.values(field)
        steepness = np.zeros(values.shape)  # |∇m|², at the lower cell of each pair
        for axis, per_length in enumerate(self._cells.between(values.shape, [1 / h for h in self._cells.lengths(values.ndim)])):
            steepness[_ends(values.ndim, axis)[0]] += (np.diff(values, axis=axis) * per_length) ** 2
        # √(s + ε²) - ε as s/(√(s + ε²) + ε): no cancellation where the field is nearly flat.
        rounded = np.sqrt(steepness + self._epsilon**2) + self._epsilon
        return self._weight * self._cells.volume(values.ndim) * np.sum(steepness / rounded)
