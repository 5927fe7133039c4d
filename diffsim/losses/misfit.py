"""Misfits: distances of predicted values from observed ones.

A misfit is a program of `diffsim.numpy` that maps an array to a number. Its gradient follows from that. A new one is a function, or a
class that derives from `DataMisfit` where it has data or weights to check, and an entry in `LOSSES` of tests/losses/test_losses.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy.typing as npt

from diffsim.ad.arrays.guard import constant
from diffsim.losses._checks import sum_of_squares
from diffsim.losses.data_misfit import DataMisfit
from diffsim.typing import Array

Misfit: TypeAlias = Callable[[Any], Any]
"""predicted values -> a number, computed with `diffsim.numpy`.

Example:
    import numpy as np

    import diffsim as ds
    import diffsim.numpy as dnp
    from diffsim.losses import Misfit

    observed = np.array([1.0, 2.0, 40.0])  # one outlier
    robust: Misfit = lambda predicted: dnp.sum(dnp.sqrt(1 + (predicted - observed) ** 2) - 1)
    gradient = ds.grad(robust)(np.ones(3))
    assert gradient[0] == 0 and -1 < gradient[2] < gradient[1]  # each sample pulls by less than 1
"""


class L2Misfit(DataMisfit, kind="l2"):
    """Weighted least squares, J(d) = ½ Σᵢ wᵢ (dᵢ - d_obs,ᵢ)².

    The sum runs over the entries where `mask` is True and is not divided by their number, so that J is minus the log-likelihood of
    independent Gaussian errors (but for a constant) when wᵢ = 1/σᵢ². With `normalise=True` it is divided by ½ Σ wᵢ d_obs,ᵢ²:
    a prediction of zero then has the value 1, a perfect one 0. Residual and sum are formed in f64 whatever the dtype of the prediction.

    Args:
        data: Observed values d_obs, any shape: traces (steps+1, receivers), or a field. May be NaN where `mask` is False.
        weight: wᵢ >= 0, unit 1/(unit of data)² for a dimensionless J; broadcasts to `data`.
        mask: True where a value counts; broadcasts to `data`. None: everywhere.
        normalise: Divide by the misfit of a zero prediction.
        unit: The unit of the prediction, to which data that state a unit are converted; "": it is not known.

    Raises:
        ShapeError: `weight` or `mask` does not broadcast to `data`.
        ParameterError: NaN or infinite data where `mask` is True, a negative weight, or nothing to normalise by.

    Good values: `normalise=True` for a loss curve that reads as a fraction; 1/σ² as the weight where noise levels differ between receivers.

    Example:
        import numpy as np

        import diffsim as ds

        observed = np.array([[0.0, 0.0], [1.0, 0.5], [0.4, np.nan]])  # (steps + 1, receivers), one sample lost
        misfit = ds.losses.L2Misfit(observed, weight=[1 / 0.1**2, 1 / 0.2**2], mask=~np.isnan(observed))
        value, gradient = ds.value_and_grad(misfit)(np.zeros((3, 2)))
        assert np.isclose(value, 0.5 * ((1.0 + 0.16) / 0.01 + 0.25 / 0.04))
        assert gradient[2, 1] == 0 and np.isclose(gradient[1, 0], -100.0)
    """

    def __init__(
        self,
        data: npt.ArrayLike,
        weight: npt.ArrayLike = 1.0,
        mask: npt.ArrayLike | None = None,
        normalise: bool = False,
        unit: str = "",
    ) -> None:
        super().__init__(data, weight, mask, unit)
        self._half_weight: float | Array = 0.5 * self.weight if isinstance(self.weight, float) else constant(0.5 * self.weight)
        self.normalise(normalise)

    def compare(self, values: Any) -> Any:
        """J. Its gradient is wᵢ (dᵢ - d_obs,ᵢ)."""
        return sum_of_squares(values - self.data, self._half_weight)
