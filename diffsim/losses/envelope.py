"""Misfits of the envelope of traces: of its size, and of the logarithm of its size."""

from __future__ import annotations

from typing import Any

import numpy
import numpy.typing as npt

import diffsim.numpy as np
from diffsim.ad.arrays.array import core, wrap
from diffsim.ad.arrays.guard import constant
from diffsim.ad.core import Primitive
from diffsim.ad.ops.structure import linear
from diffsim.base.arguments import positive
from diffsim.errors import ParameterError
from diffsim.losses.data_misfit import TraceMisfit
from diffsim.numpy.calling.dispatch import plain
from diffsim.typing import Array, Positive


class _OfEnvelope(TraceMisfit):
    """A misfit of envelopes E = √(d² + (Hd)² + ε²), where ε is `level` times the largest envelope of the data."""

    regular = True

    def __init__(self, data: npt.ArrayLike, level: float, weight: npt.ArrayLike, mask: npt.ArrayLike | None, unit: str) -> None:
        super().__init__(data, weight, mask, unit)
        power = plain(_power(self.data))  # a constant, also where a derivative is running
        largest = float(numpy.sqrt(numpy.max(power, initial=0.0)))
        if largest == 0.0:
            raise ParameterError(
                f"data: expected traces that are not all zero, for {type(self).__name__} measures envelopes against the largest, got "
                "zeros; check the data and mask"
            )
        self._epsilon = positive("level", level, "give a fraction of the largest envelope, such as 0.01") * largest
        self._observed = constant(power + self._epsilon**2)
        self._half_weight = constant(numpy.where(self.used(), 0.5 * numpy.asarray(self.weight), 0.0))


class EnvelopeMisfit(_OfEnvelope, kind="envelope"):
    """Least squares of the envelope, J(d) = ½ Σᵢ wᵢ (E(d)ᵢ - E(d_obs)ᵢ)².

        E(d) = √(d² + (Hd)² + ε²)

    H is the Hilbert transform along time, by the discrete Fourier transform of the whole trace. It takes the trace to be periodic, as
    `scipy.signal.hilbert` does. ε = `level` times the largest envelope of the data makes E smooth where a trace is zero. The envelope
    holds lower frequencies than the trace, so that J has fewer local minima than least squares.

    Args:
        data: Observed traces d_obs, time first: (samples, receivers) at equal distances in time. May be NaN where `mask` is False.
        level: > 0: envelopes below this fraction of the largest of the data count little.
        weight: wᵢ >= 0, unit 1/(unit of data)² for a dimensionless J; broadcasts to `data`. It multiplies the residual of the envelopes.
        mask: True where a sample counts; broadcasts to `data`. Whole traces, or samples before the first and after the last that counts,
            may be left out: they are zero in the prediction and in the data.
        normalise: Divide by the misfit of a zero prediction.
        unit: The unit of the prediction, to which data that state a unit are converted; "": it is not known.

    Raises:
        ShapeError: `weight` or `mask` does not broadcast to `data`.
        ParameterError: Gaps within a trace, NaN or infinite data where `mask` is True, data that are all zero, a negative weight, or a
            level that is not positive.

    Good values: a level of 0.001 to 0.01. Search with it first, and then with least squares for the detail. Traces that have decayed at
    their end have no error from H.

    Reference: Wu, Luo and Wu (2014), "Seismic envelope inversion and modulation signal model", Geophysics 79, WA13,
    doi:10.1190/geo2013-0294.1, with the envelope itself (p = 1); ε is added here.

    Example:
        import numpy as np

        import diffsim as ds

        t = np.linspace(-1.0, 1.0, 200)
        packet = lambda delay, phase: np.exp(-0.5 * ((t - delay) / 0.15) ** 2) * np.cos(50 * (t - delay) + phase)
        misfit = ds.losses.EnvelopeMisfit(packet(0.0, 0.0), normalise=True)
        assert misfit(packet(0.0, 1.5)) < 0.01  # the phase does not matter
        losses = [misfit(packet(delay, 0.0)) for delay in np.linspace(0.0, 0.5, 20)]
        assert (np.diff(losses) > 0).all()  # of least squares the loss has a minimum at each period, 0.126
    """

    def __init__(
        self,
        data: npt.ArrayLike,
        level: Positive = 1e-3,
        weight: npt.ArrayLike = 1.0,
        mask: npt.ArrayLike | None = None,
        normalise: bool = False,
        unit: str = "",
    ) -> None:
        super().__init__(data, level, weight, mask, unit)
        self._size = constant(numpy.sqrt(self._observed))
        self.normalise(normalise)

    def compare(self, values: Any) -> Any:
        """J."""
        return np.sum(self._half_weight * (np.sqrt(_power(values) + self._epsilon**2) - self._size) ** 2)


class LogAmplitudeMisfit(_OfEnvelope, kind="log_amplitude"):
    """Least squares of the logarithm of the ratio of envelopes, J(d) = ½ Σᵢ wᵢ (ln E(d)ᵢ / E(d_obs)ᵢ)².

        E(d) = √(d² + (Hd)² + ε²)

    H is the Hilbert transform along time, as in `EnvelopeMisfit`. Late and weak arrivals count as much as strong ones, as long as their
    envelope is above ε, `level` times the largest envelope of the data; weaker parts count little. J has no unit.

    Args:
        data: Observed traces d_obs, time first: (samples, receivers) at equal distances in time. May be NaN where `mask` is False.
        level: > 0: envelopes below this fraction of the largest of the data count little. Good: just above the noise.
        weight: wᵢ >= 0, a number without unit; broadcasts to `data`.
        mask: True where a sample counts; broadcasts to `data`. Whole traces, or samples before the first and after the last that counts,
            may be left out.
        normalise: Divide by the misfit of a zero prediction.
        unit: The unit of the prediction, to which data that state a unit are converted; "": it is not known.

    Raises:
        ShapeError: `weight` or `mask` does not broadcast to `data`.
        ParameterError: Gaps within a trace, NaN or infinite data where `mask` is True, data that are all zero, a negative weight, or a
            level that is not positive.

    Good values: a level just above that of the noise, 0.01 to 0.1.

    Reference: Bozdağ, Trampert and Tromp (2011), "Misfit functions for full waveform inversion based on instantaneous phase and envelope
    measurements", Geophys. J. Int. 185, 845, doi:10.1111/j.1365-246X.2011.04970.x; ε is added here.

    Example:
        import numpy as np

        import diffsim as ds

        t = np.linspace(0.0, 1.0, 400)
        trace = np.sin(100 * t) * (np.exp(-(((t - 0.3) / 0.05) ** 2)) + 0.05 * np.exp(-(((t - 0.7) / 0.05) ** 2)))
        late = np.where(t < 0.5, trace, 0.0)  # the prediction lacks the late arrival, which is twenty times weaker
        absent = np.where(t < 0.5, 0.0, trace)
        misfit = ds.losses.LogAmplitudeMisfit(trace, level=0.005)
        assert misfit(late) > 0.1 * misfit(absent)
        assert ds.losses.L2Misfit(trace)(late) < 0.01 * ds.losses.L2Misfit(trace)(absent)
    """

    def __init__(
        self,
        data: npt.ArrayLike,
        level: Positive = 0.02,
        weight: npt.ArrayLike = 1.0,
        mask: npt.ArrayLike | None = None,
        normalise: bool = False,
        unit: str = "",
    ) -> None:
        super().__init__(data, level, weight, mask, unit)
        self.normalise(normalise)

    def compare(self, values: Any) -> Any:
        """J."""
        return 0.25 * np.sum(self._half_weight * np.log((_power(values) + self._epsilon**2) / self._observed) ** 2)  # the ratio is squared


def _power(traces: Any) -> Any:
    """d² + (Hd)², the square of the envelope."""
    return traces**2 + wrap(_hilbert(core(traces))) ** 2


def _turned(traces: Array) -> Array:
    """The Hilbert transform along the first axis, as the imaginary part of `scipy.signal.hilbert`, which takes a trace to be periodic."""
    spectrum = -1j * numpy.fft.rfft(traces, axis=0)  # each frequency a quarter of a period later
    spectrum[0] = 0.0  # a constant has no transform
    if traces.shape[0] % 2 == 0:
        spectrum[-1] = 0.0  # nor has the highest frequency
    return numpy.fft.irfft(spectrum, traces.shape[0], axis=0)


_hilbert: Primitive = linear("hilbert", _turned, lambda ct, x, params: -_hilbert(ct))  # a quarter of a period earlier: minus that
