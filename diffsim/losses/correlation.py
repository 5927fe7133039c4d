"""The misfit of normalised cross-correlations, which amplitudes do not change."""

from __future__ import annotations

from typing import Any

import numpy
import numpy.typing as npt

import diffsim.numpy as np
from diffsim.ad.arrays.guard import constant
from diffsim.losses.data_misfit import TraceMisfit


class CorrelationMisfit(TraceMisfit, kind="cross_correlation"):
    """One minus the normalised cross-correlation of each trace at zero lag, J(d) = Σ_r w̄_r (1 - <d_r, o_r> / (|d_r| |o_r|)).

        <d, o> = Σ_t w_t d_t o_t,  |d|² = <d, d>,  w̄_r the mean of the weights of trace r

    A trace counts 0 if the prediction is a positive multiple of the data, 1 if the two have nothing in common, and 2 if it is a negative
    multiple. So amplitudes need not be known: those of the source, of the receivers, of attenuation. A prediction of zero counts 1, and
    there the gradient is 0.

    Args:
        data: Observed traces o, time first: (samples, receivers). May be NaN where `mask` is False.
        weight: w >= 0, a number without unit; broadcasts to `data`.
        mask: True where a sample counts; broadcasts to `data`. None: everywhere.
        normalise: Divide by the misfit of a zero prediction, which is Σ w̄_r.
        unit: The unit of the prediction, to which data that state a unit are converted; "": it is not known.

    Raises:
        ShapeError: `weight` or `mask` does not broadcast to `data`.
        ParameterError: NaN or infinite data where `mask` is True, a negative weight, or a trace that counts and is zero at all samples.

    Good values: for records whose amplitudes are not calibrated. The start must be within half a period, as for least squares.

    Reference: Choi and Alkhalifah (2012), "Application of multi-source waveform inversion to marine streamer data using the global
    correlation norm", Geophys. Prospect. 60, 748, doi:10.1111/j.1365-2478.2012.01079.x.

    Example:
        import numpy as np

        import diffsim as ds

        t = np.linspace(0.0, 1.0, 100)[:, None]
        observed = np.exp(-(((t - [0.4, 0.6]) / 0.1) ** 2))  # two receivers
        misfit = ds.losses.CorrelationMisfit(observed)
        assert misfit(observed * [3.0, 0.01]) < 1e-14 and np.isclose(misfit(-observed), 4.0)
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
        scaled = numpy.asarray(self.weight) * self.data / self.peaks()
        size = numpy.sqrt(numpy.sum(scaled * self.data / self.peaks(), axis=0))
        self._unit = constant(scaled / numpy.where(size > 0, size, 1.0))  # w o / |o|
        self.normalise(normalise)

    def compare(self, values: Any) -> Any:
        """J. Its gradient is that of a trace's direction alone."""
        square = np.sum(self.weight * values**2, axis=0)
        there = square > 0
        correlation = np.where(there, np.sum(self._unit * values, axis=0) / np.sqrt(np.where(there, square, 1.0)), 0.0)
        return np.sum(self.trace_weight * (1.0 - correlation))
