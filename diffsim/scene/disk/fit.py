"""How well a prediction fits the record of each receiver."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from diffsim.records.conventions.records import even_spacing
from diffsim.typing import Array

MOSTLY_NOISE = 0.5
"""Share of a record that is noise from which on it tells nothing of a prediction: its noise is as strong as its signal."""
ROUNDING = 1e-12
"""Error of a correlation by a Fourier transform, relative to its largest possible value."""


@dataclass(frozen=True)
class Fit:
    """The fit of a prediction to the record of a receiver, over the samples that count.

    Attributes:
        name: of the receiver; "": it has none.
        variance_reduction: 1 - Σ w (data - prediction)² / Σ w data², with the weight w of each sample: 1 is a perfect fit, 0 is no better
            than a prediction of zero.
        lag: time by which the prediction comes late, s: the shift with the largest cross-correlation. NaN: that is positive at no shift, as
            where data or prediction are zero.
        peak: largest size of the prediction over that of the data.
        noise: Σ w σ² / Σ w data², the share of the record that noise of its deviation σ is. Of the best prediction the variance reduction
            is 1 less this. None: the deviation is not known.
    """

    name: str
    variance_reduction: float
    lag: float
    peak: float
    noise: float | None = None

    @property
    def is_noise(self) -> bool:
        """True if the record is mostly noise, as of a gauge without a wave: `MOSTLY_NOISE` of it or more, or no sample counts."""
        return self.noise is not None and not self.noise < MOSTLY_NOISE


def fits(
    data: Array,
    predicted: Array,
    times: Array,
    share: Array | None = None,
    names: Sequence[str] = (),
    deviation: Array | float = 0.0,
) -> tuple[Fit, ...]:
    """The fit at each receiver, over all shots.

    Args:
        data: shape (shots, times, receivers), NaN in gaps.
        predicted: same shape.
        times: of the samples, s, rising. Where their distances differ, lags are measured on an even clock.
        share: how much each sample counts, in the shape of the data; None: all alike.
        names: of the receivers; none: they have none.
        deviation: standard deviation of the noise of each sample, in the shape of the data, or one number; 0: not known.
    """
    samples, receivers = data.shape[1:]
    weight = np.isfinite(data) * (1.0 if share is None else share)
    there = weight > 0
    record, answer = (np.where(there, values, 0.0) for values in (data, predicted))
    noise = np.where(there, deviation, 0.0)
    energy, left, random = ((weight * values**2).sum(axis=(0, 1)) for values in (record, record - answer, noise))
    highest, reached = (np.abs(values).max(axis=(0, 1), initial=0.0) for values in (record, answer))
    with np.errstate(divide="ignore", invalid="ignore"):
        reductions, peaks, noises = 1 - left / energy, reached / highest, random / energy
    lags = _lags(record, answer, times) if samples > 1 else np.full(receivers, np.nan)
    labels = tuple(names) or ("",) * receivers
    known = noises.tolist() if np.any(deviation) else [None] * receivers
    return tuple(Fit(*each) for each in zip(labels, reductions.tolist(), lags.tolist(), peaks.tolist(), known, strict=True))


def _lags(record: Array, answer: Array, times: Array) -> Array:
    """The shift of the largest cross-correlation of each receiver, s, between samples by a parabola."""
    step = even_spacing(times)
    if step is None:
        even = np.linspace(times[0], times[-1], len(times))
        step = float(even[1] - even[0])
        record, answer = (np.apply_along_axis(lambda trace: np.interp(even, times, trace), 1, each) for each in (record, answer))
    count = record.shape[1]
    spectrum: npt.NDArray[np.complex128] = np.zeros((count + 1, record.shape[2]), complex)
    for own, other in zip(record, answer, strict=True):
        spectrum += np.fft.rfft(other, 2 * count, axis=0) * np.fft.rfft(own, 2 * count, axis=0).conj()
    product = np.roll(np.fft.irfft(spectrum, 2 * count, axis=0), count, axis=0)  # shift 0 at entry `count`
    top = np.clip(product.argmax(axis=0), 1, 2 * count - 2)
    before, middle, after = (product[top + k, np.arange(product.shape[1])] for k in (-1, 0, 1))
    bend = before - 2 * middle + after
    between = np.where(bend < 0, 0.5 * (before - after) / np.where(bend < 0, bend, -1.0), 0.0)
    size = np.sqrt((record**2).sum(axis=(0, 1)) * (answer**2).sum(axis=(0, 1)))
    known = product.max(axis=0) > ROUNDING * size
    return np.where(known, step * (top - count + np.clip(between, -0.5, 0.5)), np.nan)
