"""The figures of traces: some receivers one by one, and all of them as a gather."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from diffsim import plot
from diffsim.base.messages import cut
from diffsim.plot.chart import Chart, place_name
from diffsim.plot.residuals import amplitudes, by_receiver
from diffsim.plot.style import words
from diffsim.plot.units import quantity
from diffsim.records.conventions.records import even_spacing
from diffsim.report.contents import middle, which_shot
from diffsim.report.picture import Picture
from diffsim.typing import Array

if TYPE_CHECKING:
    from diffsim.scene.disk.outcome import Compared, Outcome

LONGEST = 16
"""Characters of a name in a title."""
MANY = 12
"""From this number of receivers on there is a gather too."""
ENERGY, MARGIN = 0.98, 1.5
"""A spectrum is drawn up to 1.5 times the frequency below which the data have this part of their energy."""


def close_up(state: str, pair: Compared, outcome: Outcome, chart: Chart) -> Picture:
    """Data, start and answer at a few receivers that are spread over the array."""
    shot, chosen = middle(pair), chart.close[state]
    positions = chart.receivers[state]
    deviation = pair.noise if pair.deviation is None else pair.deviation[shot]
    figure = plot.traces(
        {title: _where_measured(pair, values) for title, values in (("data", pair.data), ("start", pair.start), ("answer", pair.end))},
        outcome.times if pair.times is None else pair.times,
        state,
        pair.unit,
        numbers=chosen,
        titles=[f"{_named(k, state, outcome)}: {place_name(outcome.axes, positions[k])}" for k in chosen],
        deviation=deviation if np.any(deviation) else None,
        time_unit=outcome.time_unit,
    )
    few = "" if len(chosen) == len(positions) else f"{len(chosen)} of {len(positions)} receivers, spread over the array. "
    noise = f" The band around the data is one standard deviation of their noise, {_widths(pair, shot, chosen)}." if pair.noise else ""
    caption = (
        f"{few}Black: the data. Blue, dashed: predicted at the start. Orange: predicted by the answer; it should lie on the data.{noise} "
        f"The numbers are those on the map; each panel has its own vertical scale.{which_shot(pair)}"
    )
    return Picture(f"traces_{state}", f"Records of {words(state)}: data and prediction", caption, figure)


def gather(state: str, pair: Compared, outcome: Outcome) -> Picture:
    """All receivers of a shot as images: data, prediction, and the residuals of the start and the answer."""
    data, start, end = (_where_measured(pair, values) for values in (pair.data, pair.start, pair.end))
    figure = plot.gather(
        {"data": data, "prediction": end, "residual, start": data - start, "residual, answer": data - end},
        outcome.times if pair.times is None else pair.times,
        state,
        pair.unit,
        time_unit=outcome.time_unit,
    )
    caption = (
        f"Every record of {state} as a column, time downwards: the data, what the answer predicts, and data - prediction at the start and "
        f"at the answer, all on one colour scale, which ends at half the largest "
        f"value. The paler the last panel, the better the answer explains the data.{which_shot(pair)}"
    )
    return Picture(f"gather_{state}", f"All records of {words(state)}", caption, figure)


def residuals(state: str, pair: Compared, outcome: Outcome) -> Picture:
    """Residuals of the start and the answer at each receiver, over all shots."""
    shots, times, receivers = pair.data.shape
    data, start, end = (values.reshape(shots * times, receivers) for values in (pair.data, pair.start, pair.end))
    deviation = None if not pair.noise else pair.noise if pair.deviation is None else pair.deviation.reshape(data.shape)
    figure = plot.misfit(data, {"start": start, "answer": end}, state, pair.unit, deviation=deviation)
    worst = int(np.nanargmax(by_receiver(data - end, 1.0 if deviation is None else deviation)))
    level = " The dashed line is the level of the noise." if deviation is not None else ""
    shots_too = f" and the {shots} shots" if shots > 1 else ""
    caption = (
        f"The root mean square of data - prediction over the time{shots_too}, by receiver; the numbers are those on the map.{level} "
        f"The answer explains number {_named(worst, state, outcome)} worst."
    )
    return Picture(f"residuals_{state}", f"Residuals at each receiver of {words(state)}", caption, figure)


def spectra(state: str, pair: Compared, outcome: Outcome) -> Picture | None:
    """The spectra of the data and of both residuals; None if each record has a gap, or samples are not equally spaced."""
    times = outcome.times if pair.times is None else pair.times
    dt = even_spacing(times)
    if dt is None:
        return None
    if not np.isfinite(pair.data).all(axis=1).any():
        return None
    data, start, end = (np.concatenate(list(values), axis=1) for values in (pair.data, pair.start, pair.end))
    highest = _highest(amplitudes(data), dt, len(data))
    shown = {"data": data, "residual, start": data - start, "residual, answer": data - end}
    figure = plot.spectrum(shown, dt, state, pair.unit, highest=highest, time_unit=outcome.time_unit)
    caption = (
        f"The amplitude of each frequency in the records of {state}: the root mean square over all records. "
        "Where orange lies as high as black, the answer explains nothing of that frequency."
    )
    return Picture(f"spectrum_{state}", f"Spectrum of the records of {words(state)}", caption, figure)


def _widths(pair: Compared, shot: int, chosen: Sequence[int]) -> str:
    """The standard deviation of the receivers that are drawn, or of each where they differ."""
    if pair.deviation is None:
        return f"{quantity(pair.noise, pair.unit)} to either side"
    there = np.isfinite(pair.data[shot])
    each = [float(np.sqrt(np.mean(pair.deviation[shot][there[:, k], k] ** 2))) if there[:, k].any() else np.nan for k in chosen]
    known = [deviation for deviation in each if np.isfinite(deviation)]
    if not known or max(known) - min(known) <= 1e-6 * max(known):
        return f"{quantity(known[0] if known else pair.noise, pair.unit)} to either side"
    texts = ", ".join(
        f"{k + 1}: {quantity(deviation, pair.unit)}" for k, deviation in zip(chosen, each, strict=True) if np.isfinite(deviation)
    )
    return f"to either side, of each receiver its own ({texts})"


def _named(receiver: int, state: str, outcome: Outcome) -> str:
    """The number of a receiver on the map, and its name in the files of the records if it is another."""
    name = outcome.names[state][receiver] if state in outcome.names else ""
    return f"{receiver + 1}, {'trace ' if name.isdecimal() else ''}{cut(name, LONGEST)}" if name else f"{receiver + 1}"


def _where_measured(pair: Compared, values: Array) -> Array:
    """The shot that is drawn, without the predictions for gaps of the data."""
    shot = middle(pair)
    return np.where(np.isfinite(pair.data[shot]), values[shot], np.nan)


def _highest(spectrum: Array, dt: float, samples: int) -> float:
    """The frequency below which the data have nearly all of their energy, Hz."""
    frequencies, energy = np.fft.rfftfreq(samples, dt), np.cumsum(spectrum**2)
    last = int(np.searchsorted(energy, ENERGY * energy[-1]))
    return float(frequencies[min(int(last * MARGIN) + 1, len(frequencies) - 1)])
