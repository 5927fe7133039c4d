"""The base of misfits: data, weights, a mask, and the checks of a prediction."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar

import numpy
import numpy.typing as npt

import diffsim.numpy as np
from diffsim.ad.arrays.guard import constant
from diffsim.base.arguments import flag, instance, real_array
from diffsim.base.kinds import Kinds
from diffsim.errors import ParameterError, ShapeError
from diffsim.losses._checks import check_finite, check_fits, check_mask, check_weight, in_f64, inverse_square, observed
from diffsim.typing import Array

KINDS: Kinds[DataMisfit] = Kinds("misfit")
"""The class of each kind of misfit that has a name."""


class DataMisfit(ABC):
    """The base class of misfits that compare predictions with data. A subclass writes `compare`.

    It may name its kind, `class FourthPower(DataMisfit, kind="fourth_power")`. Then scenes take it by this name, with the arguments of the
    class as keys.

    Args:
        data: Observed values, any shape. May be NaN where `mask` is False.
        weight: At least 0; broadcasts to `data`.
        mask: True where a value counts; broadcasts to `data`. None: everywhere.
        unit: The unit of the prediction, to which data that state a unit are converted; "": it is not known.

    Attributes:
        data: The data in f64, 0 where they do not count.
        weight: The weight, a number or an array that broadcasts to the data.
        regular: Whether it needs samples at equal distances in time, without gaps. A scene refuses other records for it.

    Raises:
        ShapeError: `weight` or `mask` does not broadcast to `data`.
        ParameterError: NaN or infinite data where `mask` is True, or a negative weight; of a class, a kind that is no identifier, or that
            another misfit has.

    Example:
        import numpy as np

        import diffsim as ds
        import diffsim.numpy as dnp


        class FourthPower(ds.losses.DataMisfit):
            '''Σᵢ wᵢ (dᵢ - d_obs,ᵢ)⁴'''

            def compare(self, values):
                return dnp.sum(self.weight * (values - self.data) ** 4)


        misfit = FourthPower([1.0, np.nan], weight=2.0, mask=[True, False])
        value, gradient = ds.value_and_grad(misfit)(np.array([3.0, 5.0]))
        assert value == 32.0 and gradient.tolist() == [64.0, 0.0]
    """

    regular: ClassVar[bool] = False

    def __init_subclass__(cls, kind: str | None = None, **others: Any) -> None:
        super().__init_subclass__(**others)
        KINDS.enter(cls, kind)

    def __init__(self, data: npt.ArrayLike, weight: npt.ArrayLike = 1.0, mask: npt.ArrayLike | None = None, unit: str = "") -> None:
        ndim = getattr(data, "ndim", 0)
        used, meaning = check_mask(mask, observed("", ndim)), observed(instance("unit", unit, str, "a text", "write it like 'Pa'"), ndim)
        check_fits("mask", used, real_array("data", data, meaning=meaning).shape, "data")
        values = check_finite("data", data, used, meaning)
        weights = check_weight(weight, observed(inverse_square(unit), ndim))
        check_fits("weight", weights, values.shape, "data")
        self._used = None if used is None else constant(used)
        self.data = constant(values)
        self.weight: float | Array = constant(weights) if weights.ndim else float(weights)
        self._factor = 1.0

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the data, and so of a prediction."""
        return self.data.shape

    def used(self) -> npt.NDArray[numpy.bool_]:
        """True where a value counts, in the shape of the data."""
        return numpy.broadcast_to(True if self._used is None else self._used, self.shape)

    def normalise(self, wanted: bool) -> None:
        """Divide by the misfit of a prediction of zero, if `wanted`. The constructor of a subclass calls it last.

        Raises:
            ParameterError: that misfit is 0.
        """
        if not flag("normalise", wanted):
            return
        whole = float(self(numpy.zeros(self.shape)))
        if whole == 0.0:
            raise ParameterError(
                "normalise: expected data that are not all zero where they count, got a misfit of 0 for a prediction of zero; "
                "set normalise=False, or check mask and weight"
            )
        self._factor = 1.0 / whole

    def __call__(self, predicted: Any) -> Any:
        """The misfit, in f64. Its gradient has the dtype of `predicted`, and is exactly zero where `mask` is False.

        Args:
            predicted: The shape of the data, floating. A NaN where `mask` is False has no influence; one that counts makes the misfit NaN.

        Raises:
            ShapeError: `predicted` has another shape than the data; no broadcasting here, which would hide a wrong gradient.
        """
        values = in_f64("predicted", predicted)
        if values.shape != self.shape:
            raise ShapeError(
                f"predicted: expected the shape of the data, {self.shape}, got {values.shape}; record as many steps and receivers "
                "as were observed (a run of n steps gives n + 1 samples), or crop the data"
            )
        if self._used is not None:
            values = np.where(self._used, values, 0.0)  # not a product: NaN * 0 is NaN
        value = self.compare(values)
        return value if self._factor == 1.0 else self._factor * value

    @abstractmethod
    def compare(self, values: Any) -> Any:
        """The misfit of a prediction, computed with `diffsim.numpy`.

        Args:
            values: The prediction in f64, 0 where it does not count.
        """


class TraceMisfit(DataMisfit):
    """The base class of misfits that compare whole traces. A subclass writes `compare`.

    Args:
        data: Observed traces, time first: (samples, receivers). May be NaN where `mask` is False.
        weight: At least 0; broadcasts to `data`.
        mask: True where a sample counts; broadcasts to `data`. None: everywhere.
        unit: The unit of the prediction, to which data that state a unit are converted; "": it is not known.

    Attributes:
        trace_weight: For each trace the mean of its weights over the samples that count; 0 if none does.

    Raises:
        ShapeError: `weight` or `mask` does not broadcast to `data`.
        ParameterError: The errors of `DataMisfit`, traces of fewer than two samples, or, if the class is `regular`, a gap between samples
            that count.

    Example:
        import numpy as np

        import diffsim as ds
        import diffsim.numpy as dnp


        class EnergyMisfit(ds.losses.TraceMisfit):
            '''½ Σ_r w̄_r (|d_r|² - |o_r|²)², which ignores the times of arrivals.'''

            def compare(self, values):
                return 0.5 * dnp.sum(self.trace_weight * dnp.sum(values**2 - self.data**2, axis=0) ** 2)


        observed = np.array([[0.0, 1.0], [3.0, 0.0], [0.0, 0.0]])  # (samples, receivers)
        misfit = EnergyMisfit(observed, weight=[1.0, 0.5])
        assert misfit(observed[::-1]) == 0.0 and misfit(0 * observed) == 0.5 * (81.0 + 0.5)
    """

    def __init__(self, data: npt.ArrayLike, weight: npt.ArrayLike = 1.0, mask: npt.ArrayLike | None = None, unit: str = "") -> None:
        super().__init__(data, weight, mask, unit)
        if not self.shape or self.shape[0] < 2:
            raise ParameterError(f"data: expected traces of at least two samples, time first, got the shape {self.shape}; record more")
        used = self.used()
        if self.regular:
            _require_no_gap(used, type(self).__name__)
        sums, counts = numpy.where(used, self.weight, 0.0).sum(axis=0), used.sum(axis=0)
        self.trace_weight = constant(sums / numpy.maximum(counts, 1))

    def peaks(self) -> Array:
        """The largest magnitude of each trace of the data, which must not be 0 for a trace that counts; 1 for the others.

        Raises:
            ParameterError: a trace that counts is zero at all samples.
        """
        peaks = numpy.abs(self.data).max(axis=0)
        silent = numpy.argwhere((peaks == 0) & (self.trace_weight > 0))
        if len(silent):
            where = f"trace {', '.join(map(str, silent[0]))} is" if len(silent[0]) else "the trace is"
            raise ParameterError(
                f"data: expected traces that are not zero, for {type(self).__name__} compares their shapes, got zeros: {where}, and "
                f"{len(silent) - 1} more; give them the weight 0, or exclude them by `mask`"
            )
        return numpy.where(peaks > 0, peaks, 1.0)


def _require_no_gap(used: npt.NDArray[numpy.bool_], name: str) -> None:
    """Refuse traces in which samples that count come before and after one that does not."""
    before, after = numpy.logical_or.accumulate(used), numpy.logical_or.accumulate(used[::-1])[::-1]
    gaps = numpy.argwhere(before & after & ~used)
    if len(gaps):
        sample, *trace = gaps[0].tolist()
        where = f"sample {sample}" + (f" of trace {', '.join(map(str, trace))}" if trace else "")
        raise ParameterError(
            f"mask: expected traces without gaps, for {name} needs samples at equal distances, got one at {where}; fill the gaps, or "
            "exclude these traces"
        )
