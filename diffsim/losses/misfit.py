"""Misfits: how far predicted values are from observed ones, with the gradient by the predicted values."""

from __future__ import annotations

from typing import Protocol

import numpy as np
import numpy.typing as npt

from diffsim.arguments import flag, real_array
from diffsim.errors import ParameterError, ShapeError
from diffsim.losses._checks import check_finite, check_fits, check_floating, check_mask, check_not_negative
from diffsim.typing import Array


class Misfit(Protocol):
    """What a loss on predicted values offers."""

    def value_and_grad(self, predicted: Array) -> tuple[float, Array]:
        """The misfit and its gradient, which has `predicted`'s shape and dtype."""
        ...


class L2Misfit:
    """Weighted least squares, J(d) = ½ Σᵢ wᵢ (dᵢ - d_obs,ᵢ)².

    The sum runs over the entries where `mask` is True and is not divided by their number, so that J is minus the log-likelihood of
    independent Gaussian errors (but for a constant) when wᵢ = 1/σᵢ². With `normalise=True` it is divided by ½ Σ wᵢ d_obs,ᵢ²:
    a prediction of zero then has the value 1, a perfect one 0. Residual and sum are formed in f64 whatever the dtype of the prediction.

    Args:
        data: Observed values d_obs, any shape: traces (steps+1, receivers), or a field. May be NaN where `mask` is False.
        weight: wᵢ >= 0, unit 1/(unit of data)² for a dimensionless J; broadcasts to `data`.
        mask: True where a value counts; broadcasts to `data`. None: everywhere.
        normalise: Divide by the misfit of a zero prediction.

    Raises:
        ShapeError: `weight` or `mask` does not broadcast to `data`.
        ParameterError: NaN or infinite data where `mask` is True, a negative weight, or nothing to normalise by.

    Good values: `normalise=True` for a loss curve that reads as a fraction; 1/σ² as the weight where noise levels differ between receivers.
    """

    def __init__(
        self, data: npt.ArrayLike, weight: npt.ArrayLike = 1.0, mask: npt.ArrayLike | None = None, normalise: bool = False
    ) -> None:
        used = check_mask(mask)
        check_fits("mask", used, real_array("data", data).shape, "data")
        self._used = used
        self._data = check_finite("data", data, used)
        self._weight = check_not_negative("weight", weight)
        check_fits("weight", self._weight, self._data.shape, "data")
        if flag("normalise", normalise):
            energy = 0.5 * float(np.sum(self._weight * self._data**2))
            if energy == 0.0:
                raise ParameterError(
                    "normalise: expected data that are not all zero where they count, got ½ Σ w d² = 0; "
                    "set normalise=False, or check mask and weight"
                )
            self._weight = self._weight / energy

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the data, and so of a prediction."""
        return self._data.shape

    def value_and_grad(self, predicted: Array) -> tuple[float, Array]:
        """J and ∂J/∂dᵢ = wᵢ (dᵢ - d_obs,ᵢ), exactly zero where `mask` is False.

        Args:
            predicted: d, the shape of the data, floating.

        Returns:
            The value, and the gradient in the dtype of `predicted`. A NaN in `predicted` that counts makes the value NaN.

        Raises:
            ShapeError: `predicted` has another shape than the data; no broadcasting here, which would hide a wrong gradient.
        """
        predicted = check_floating("predicted", predicted)
        if predicted.shape != self.shape:
            raise ShapeError(
                f"predicted: expected the shape of the data, {self.shape}, got {predicted.shape}; record as many steps and receivers "
                "as were observed (a run of n steps gives n + 1 samples), or crop the data"
            )
        residual = predicted.astype(np.float64) - self._data
        if self._used is not None:
            residual = np.where(self._used, residual, 0.0)  # not a product: NaN * 0 is NaN
        weighted = self._weight * residual
        return 0.5 * float(np.sum(weighted * residual)), weighted.astype(predicted.dtype)
