"""A filter of traces without a shift in time, which can be differentiated."""

from __future__ import annotations

from typing import Any

import numpy as np

import diffsim.numpy as dnp
from diffsim.base.arguments import positive, whole
from diffsim.errors import ParameterError, ShapeError

DECAYED = 1e-12
"""The zeros behind the traces last until the filter's slowest oscillation has fallen to this part of its start."""


class ZeroPhaseFilter:
    """A Butterworth filter that runs forward and backward over traces: y = F x, with the gain |H(f)|² and no shift in time.

    At a corner frequency the gain is one half. Traces count as zero before their first and after their last sample. F is computed by a
    Fourier transform of traces with so many zeros behind them that nothing wraps around. It is a symmetric matrix, and a program of
    `diffsim.numpy`: its derivative is exact, and its transpose is F itself.

    Args:
        dt: time between samples, s.
        samples: number of samples.
        lowpass: corner frequency above which the gain falls, Hz; None: no such corner.
        highpass: corner frequency below which the gain falls, Hz; None: no such corner.
        order: of the Butterworth filter. The gain falls by 12 · order dB an octave, since the filter runs twice.

    Raises:
        ParameterError: no corner, a corner that is not between 0 and half the sampling frequency, or highpass >= lowpass.

    Example:
        import numpy as np

        import diffsim as ds

        t = 1e-3 * np.arange(1000)
        slow, fast = np.sin(2 * np.pi * 8 * t), np.sin(2 * np.pi * 80 * t)
        keep = ds.records.ZeroPhaseFilter(dt=1e-3, samples=1000, lowpass=25.0)
        found = keep((slow + fast)[:, None])[:, 0]
        assert np.abs(found - slow)[200:-200].max() < 1e-2

    Reference: Gustafsson (1996), "Determining the initial states in forward-backward filtering", IEEE Trans. Signal Processing 44, 988,
    doi:10.1109/78.492552, of which this is the case of zero initial states.
    """

    def __init__(self, dt: float, samples: int, lowpass: float | None = None, highpass: float | None = None, order: int = 4) -> None:
        dt, self.samples, order = (
            positive("dt", dt, unit="s"),
            whole("samples", samples, 1),
            whole("order", order, 1, 20, "4 is a good one"),
        )
        corners = {name: positive(name, f, unit="Hz") for name, f in (("highpass", highpass), ("lowpass", lowpass)) if f is not None}
        if not corners:
            raise ParameterError("lowpass: expected lowpass, highpass or both, got neither; give a corner frequency in Hz")
        for name, corner in corners.items():
            if corner >= 0.5 / dt:
                raise ParameterError(
                    f"{name}: expected less than {0.5 / dt:g} Hz, half the sampling frequency, got {corner:g}; lower it or leave it out"
                )
        if len(corners) == 2 and corners["highpass"] >= corners["lowpass"]:
            raise ParameterError(
                f"highpass: expected less than lowpass = {corners['lowpass']:g} Hz, got {corners['highpass']:g}; exchange them"
            )
        kind = "bandpass" if len(corners) == 2 else next(iter(corners))
        from scipy import fft, signal

        sections = signal.butter(order, np.squeeze([*corners.values()]), kind, fs=1 / dt, output="sos")
        slowest = float(np.max(np.abs(signal.sos2zpk(sections)[1])))
        self._length = int(fft.next_fast_len(self.samples + int(np.log(DECAYED) / np.log(slowest)), real=True))
        frequencies = np.fft.rfftfreq(self._length, dt)
        self.gain = np.abs(signal.sosfreqz(sections, frequencies, fs=1 / dt)[1]) ** 2
        """Gain at the frequencies of the transform."""

    def __call__(self, traces: Any) -> Any:
        """The filtered traces.

        Args:
            traces: shape (samples, receivers), or (samples,).

        Raises:
            ShapeError: another number of samples.
        """
        if not traces.shape or traces.shape[0] != self.samples:
            raise ShapeError(f"traces: expected {self.samples} samples along the first axis, got shape {traces.shape}; give whole traces")
        gain = self.gain.reshape(-1, *[1] * (len(traces.shape) - 1))
        spectrum = dnp.fft.rfft(dnp.asarray(traces, dtype=np.float64), self._length, axis=0)
        return dnp.fft.irfft(gain * spectrum, self._length, axis=0)[: self.samples]
