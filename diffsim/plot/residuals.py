"""Figures of the residuals of a prediction: by receiver, and by frequency."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from diffsim.base.arguments import positive
from diffsim.errors import ParameterError, ShapeError
from diffsim.plot.gathers import Records
from diffsim.plot.given import several, times_of
from diffsim.plot.style import ANSWER, FAINT, INK, START, dress, legend_below, new_figure
from diffsim.plot.units import Scale, frequency_unit, value_scale
from diffsim.typing import Array

HEIGHT = 3.6
"""Inches."""
MANY = 20
"""Most ticks of an axis of receivers."""
COLOURS = (INK, START, ANSWER, FAINT)


def misfit(
    observed: npt.ArrayLike, predicted: Records, name: str = "", unit: str = "", *, deviation: npt.ArrayLike | None = None
) -> Figure:
    """The root mean square of observed - predicted, for each receiver.

    Args:
        observed: records, shape (times, receivers), NaN where there is no sample.
        predicted: records of the same shape, or several by title.
        name: of the state.
        unit: of the records.
        deviation: standard deviation of the noise: a number, or one for each sample. Residuals are then in units of it, and 1 is a perfect
            fit.

    Returns:
        A `matplotlib.figure.Figure`.

    Raises:
        ShapeError: arrays do not fit each other.

    Example:
        import numpy as np

        from diffsim import plot

        observed = np.random.default_rng(0).normal(size=(100, 12))
        figure = plot.misfit(observed, {"start": 0 * observed, "answer": 0.9 * observed}, "p", "Pa", deviation=0.1)
        figure.savefig("misfit.png")
        assert len(figure.axes[0].patches) == 24  # two bars for each receiver
    """
    data, predictions = several("observed", observed, ndim=2)[""], several("predicted", predicted, ndim=2)
    sigma = np.asarray(1.0 if deviation is None else deviation, float)
    residuals = {}
    for title, array in predictions.items():
        if array.shape != data.shape or np.broadcast_shapes(sigma.shape, data.shape) != data.shape:
            raise ShapeError(f"predicted {title} has shape {array.shape}, expected {data.shape}, that of observed; give as many samples")
        residuals[title] = by_receiver(data - array, sigma)
    label = "residual over its deviation" if deviation is not None else ", ".join(["residual"] + [name] * bool(name))
    scale = Scale(1.0, "") if deviation is not None else value_scale(unit, *residuals.values())
    figure = new_figure(HEIGHT)
    ax = figure.subplots()
    numbers = np.arange(1, data.shape[1] + 1)
    width = 0.8 / len(residuals)
    handles: list[Any] = []
    for k, (title, values) in enumerate(residuals.items()):
        shifted = numbers + width * (k - 0.5 * (len(residuals) - 1))
        colour = ANSWER if k == len(residuals) - 1 else START
        handles.append(ax.bar(shifted, values * scale.factor, width, color=colour, label=title))
    if deviation is not None:
        ax.axhline(1.0, color=INK, linewidth=0.8, linestyle="dashed")
    dress(ax, "", "receiver", scale.label(label), grid=True)
    ax.xaxis.set_major_locator(MaxNLocator(MANY, integer=True, min_n_ticks=1))
    ax.set_xlim(0.5, data.shape[1] + 0.5)
    legend_below(figure, handles if len(residuals) > 1 else [])
    return figure


def by_receiver(residual: Array, deviation: npt.ArrayLike = 1.0) -> Array:
    """Root mean square of each column, without its gaps; NaN for a column of gaps."""
    squared = np.square(residual / np.asarray(deviation, float))
    there = np.isfinite(squared)
    counts = there.sum(axis=0)
    means = np.where(there, squared, 0.0).sum(axis=0) / np.maximum(counts, 1)
    return np.asarray(np.sqrt(np.where(counts > 0, means, np.nan)))


def spectrum(values: Records, dt: float, name: str = "", unit: str = "", *, highest: float | None = None, time_unit: str = "s") -> Figure:
    """The amplitude spectrum of records: root mean square over the receivers, one-sided, each component's amplitude.

    A trace with a gap is left out.

    Args:
        values: records, or several by title, such as data and residual.
        dt: time between samples, s.
        name: of the state.
        unit: of the records.
        highest: frequency at which the figure ends, Hz; None: the Nyquist frequency.
        time_unit: of `dt`, where the equation's is another than s. Frequencies are then in one over it.

    Returns:
        A `matplotlib.figure.Figure`.

    Raises:
        ShapeError: arrays do not fit each other, or have one sample.
        ParameterError: each trace of an array has a gap.

    Example:
        import numpy as np

        from diffsim import plot

        t = 0.01 * np.arange(400)[:, None]
        tone = 2.0 * np.sin(2 * np.pi * 5.0 * t + np.arange(3))
        figure = plot.spectrum(tone, dt=0.01, name="p", unit="Pa", highest=20.0)
        figure.savefig("spectrum.png")
        assert abs(figure.axes[0].lines[0].get_ydata().max() - 2.0) < 1e-9
    """
    arrays, step = several("values", values, ndim=2), positive("dt", dt, "give the time between samples, s")
    spectra = {title: amplitudes(array, title) for title, array in arrays.items()}
    count = len(next(iter(arrays.values())))
    times_of(step, count)
    frequencies, scale = np.fft.rfftfreq(count, step), value_scale(unit, *spectra.values())
    figure = new_figure(HEIGHT)
    ax = figure.subplots()
    end = float(frequencies[-1]) if highest is None else positive("highest", highest, "give a frequency, Hz")
    across = value_scale(frequency_unit(time_unit), np.array([min(end, frequencies[-1])]))
    handles: list[Any] = []
    for k, (title, amplitude) in enumerate(spectra.items()):
        colour, width = COLOURS[k % len(COLOURS)], 1.2 if k else 2.4
        handles += ax.plot(frequencies * across.factor, amplitude * scale.factor, color=colour, linewidth=width, label=title)
    ax.set_xlim(0.0, across.factor * min(end, float(frequencies[-1])))
    dress(ax, "", across.label("frequency"), scale.label(f"amplitude of {name}" if name else "amplitude"), grid=True)
    legend_below(figure, handles if len(spectra) > 1 else [])
    return figure


def amplitudes(values: Array, title: str = "") -> Array:
    """Root mean square over receivers of the amplitude of each frequency; a sine of amplitude a has a."""
    whole = values[:, np.isfinite(values).all(axis=0)]
    if len(values) < 2:
        raise ShapeError(f"values {title} has {len(values)} samples, expected at least 2; record a longer time")
    if not whole.size:
        raise ParameterError(f"values {title}: expected a trace without a gap, got gaps in each; interpolate them, or give fewer samples")
    magnitudes = np.abs(np.fft.rfft(whole, axis=0)) * 2 / len(whole)
    magnitudes[0] /= 2
    if len(whole) % 2 == 0:
        magnitudes[-1] /= 2
    return np.asarray(np.sqrt(np.mean(magnitudes**2, axis=1)))
