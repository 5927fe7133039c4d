"""Huber's misfit, which outliers cannot dominate."""

from __future__ import annotations

from typing import Any

import numpy.typing as npt

import diffsim.numpy as np
from diffsim.base.arguments import positive
from diffsim.losses.data_misfit import DataMisfit
from diffsim.typing import Positive


class HuberMisfit(DataMisfit, kind="huber"):
    """Least squares for small residuals and absolute values for large ones, J(d) = Σᵢ wᵢ h(dᵢ - d_obs,ᵢ).

        h(r) = ½ r²           where |r| <= δ
        h(r) = δ (|r| - ½ δ)  elsewhere

    A sample pulls by at most wᵢ δ, however far off it is. The slope of h is continuous, its curvature is not.

    Args:
        data: Observed values d_obs, any shape. May be NaN where `mask` is False.
        delta (field): δ > 0, unit of the data: the residual from which on a sample counts as an outlier. Good: 1.3 to 2 times the noise.
        weight: wᵢ >= 0; broadcasts to `data`.
        mask: True where a value counts; broadcasts to `data`. None: everywhere.
        normalise: Divide by the misfit of a zero prediction.
        unit: The unit of the prediction, to which data that state a unit are converted; "": it is not known.

    Raises:
        ShapeError: `weight` or `mask` does not broadcast to `data`.
        ParameterError: NaN or infinite data where `mask` is True, a negative weight, a delta that is not positive, or nothing to
            normalise by.

    Good values: δ of 1.3 to 2 times the standard deviation of the noise. With a δ above all residuals it is least squares.

    Reference: Huber (1964), "Robust estimation of a location parameter", Ann. Math. Statist. 35, 73, doi:10.1214/aoms/1177703732.
    For seismic records: Guitton and Symes (2003), "Robust inversion of seismic data using the Huber norm", Geophysics 68, 1310,
    doi:10.1190/1.1598124.

    Example:
        import numpy as np

        import diffsim as ds

        misfit = ds.losses.HuberMisfit(np.array([1.0, 2.0, 40.0]), delta=0.5)  # the last sample is an outlier
        value, gradient = ds.value_and_grad(misfit)(np.array([1.1, 2.0, 3.0]))
        assert np.allclose(gradient, [0.1, 0.0, -0.5]) and np.isclose(value, 0.5 * 0.1**2 + 0.5 * (37.0 - 0.25))
    """

    def __init__(
        self,
        data: npt.ArrayLike,
        delta: Positive,
        weight: npt.ArrayLike = 1.0,
        mask: npt.ArrayLike | None = None,
        normalise: bool = False,
        unit: str = "",
    ) -> None:
        super().__init__(data, weight, mask, unit)
        self._delta = positive("delta", delta, "give the residual from which on a sample is an outlier", unit)
        self.normalise(normalise)

    def compare(self, values: Any) -> Any:
        """J. Its gradient is wᵢ times the residual, cut to [-δ, δ]."""
        residual = values - self.data
        size = np.abs(residual)
        inner = np.minimum(size, self._delta)
        return np.sum(self.weight * inner * (size - 0.5 * inner))  # ½ r² where inner is |r|, δ (|r| - ½ δ) where it is δ
