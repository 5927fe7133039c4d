"""The figures of traces: some receivers one by one, and all of them as a gather."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.axes import Axes

from diffsim.report.chart import Chart, middle, place_name, which_shot
from diffsim.report.style import (
    ANSWER,
    FAINT,
    INK,
    START,
    TICK,
    Picture,
    colour_bar,
    diverging,
    dress,
    legend_below,
    new_figure,
    plain,
    words,
)
from diffsim.report.units import quantity, time_scale, value_scale
from diffsim.typing import Array

if TYPE_CHECKING:
    from diffsim.scene.outcome import Compared, Outcome

MANY = 12
"""From this number of receivers on there is a gather too."""
PANEL, GATHER = 1.75, 4.6
"""Heights of a panel of one receiver and of the gather, inches."""
REACH = 0.5
"""Fraction of the largest value at which the colours of a gather end, so that what is weak is seen too."""
BROADER = 8
"""Columns of the image for a receiver, so that the smoothing of many times onto one pixel does not smear receivers too."""


def close_up(state: str, pair: Compared, outcome: Outcome, chart: Chart) -> Picture:
    """Data, start and answer at a few receivers that are spread over the array."""
    shot, chosen = middle(pair), chart.close[state]
    clock, scale = time_scale(outcome.times), value_scale(pair.unit, np.nan_to_num(pair.data[shot][:, chosen]))
    columns = 2 if len(chosen) > 1 else 1
    rows = -(-len(chosen) // columns)
    figure = new_figure(rows * PANEL + 0.8)
    axes = figure.subplots(rows, columns, squeeze=False, sharex=True)
    positions = chart.receivers[state]
    handles: list[Any] = []
    times = (outcome.times if pair.times is None else pair.times) * clock.factor
    deviation = np.full(pair.data.shape, pair.noise) if pair.deviation is None else pair.deviation
    for ax, k in zip(axes.flat, chosen, strict=False):
        there = np.isfinite(pair.data[shot, :, k])
        traces = [values[shot, there, k] * scale.factor for values in (pair.data, pair.start, pair.end)]
        drawn = _draw_traces(ax, times[there], traces, deviation[shot, there, k] * scale.factor, dots=pair.times is not None)
        handles = drawn if there.any() else handles
        dress(ax, grid=True)
        ax.set_title(plain(f"{k + 1}: {place_name(outcome.axes, positions[k])}"), fontsize=TICK + 1, loc="left", color=INK)
        ax.set_xlim(*(outcome.times[[0, -1]] * clock.factor))
    for ax in axes.flat[len(chosen) :]:
        ax.set_axis_off()
    for ax in axes[-1]:
        ax.set_xlabel(f"time ({clock.unit})")
        ax.xaxis.label.set_fontsize(TICK + 1)
    figure.supylabel(plain(scale.label(state)), fontsize=TICK + 1)
    legend_below(figure, handles)
    few = "" if len(chosen) == len(positions) else f"{len(chosen)} of {len(positions)} receivers, spread over the array. "
    noise = (
        f" The band around the data is one standard deviation of their noise, {quantity(pair.noise, pair.unit)} to either side."
        if pair.noise
        else ""
    )
    caption = (
        f"{few}Black: the data. Blue, dashed: predicted at the start. Orange: predicted by the answer; it should lie on the data.{noise} "
        f"The numbers are those on the map; each panel has its own vertical scale.{which_shot(pair)}"
    )
    return Picture(f"traces_{state}", f"Records of {words(state)}: data and prediction", caption, figure)


def gather(state: str, pair: Compared, outcome: Outcome) -> Picture:
    """All receivers of a shot as images: data, prediction, and what the start and the answer leave unexplained."""
    shot = middle(pair)
    data, start, end = (_evenly(pair, values[shot], outcome.times) for values in (pair.data, pair.start, pair.end))
    clock, scale = time_scale(outcome.times), value_scale(pair.unit, np.nan_to_num(data))
    colours = diverging(data, reach=REACH)
    first, last = (float(t) * clock.factor for t in (outcome.times[0], outcome.times[-1]))
    figure = new_figure(GATHER)
    axes = figure.subplots(1, 4, sharex=True, sharey=True)
    shown = (("data", data), ("prediction", end), ("residual, start", data - start), ("residual, answer", data - end))
    for ax, (title, values) in zip(axes, shown, strict=True):
        image = ax.imshow(
            np.repeat(values * scale.factor, BROADER, axis=1),
            cmap=colours.cmap,
            vmin=colours.low * scale.factor,
            vmax=colours.high * scale.factor,
            extent=(0.5, data.shape[1] + 0.5, last, first),
            aspect="auto",
        )
        dress(ax, title, "receiver", f"time ({clock.unit})" if ax is axes[0] else "")
    colour_bar(figure, image, scale.label(state), ax=axes, extend="both", fraction=0.03, pad=0.01)
    caption = (
        f"Every record of {state} as a column, time downwards: the data, what the answer predicts, and data - prediction at the start and "
        f"at the answer, all on one colour scale, which ends at half the largest "
        f"value. The paler the last panel, the better the answer explains the data.{which_shot(pair)}"
    )
    return Picture(f"gather_{state}", f"All records of {words(state)}", caption, figure)


def _evenly(pair: Compared, values: Array, times: Array) -> Array:
    """Traces of a shot at the times of the run. Between the samples of records they are straight lines; before and after, NaN."""
    if pair.times is None:
        return values
    out = np.full((len(times), values.shape[1]), np.nan)
    for k, trace in enumerate(values.T):
        there = np.isfinite(pair.data[middle(pair), :, k])
        if there.any():
            out[:, k] = np.interp(times, pair.times[there], trace[there], np.nan, np.nan)
    return out


def _draw_traces(ax: Axes, times: Array, traces: list[Array], noise: Array, dots: bool) -> list[Any]:
    """Data with their noise, and the predictions; data are dots if they have gaps."""
    data, start, end = traces
    handles: list[Any] = []
    if np.any(noise):
        handles.append(ax.fill_between(times, data - noise, data + noise, color=FAINT, alpha=0.35, linewidth=0, label="noise, ± one σ"))
    look: dict[str, Any] = {"linestyle": "none", "marker": ".", "markersize": 3} if dots else {"linewidth": 1.1}
    handles += ax.plot(times, data, color=INK, label="data", **look)
    handles += ax.plot(times, start, color=START, linewidth=1.1, linestyle=(0, (4, 2)), label="start")
    handles += ax.plot(times, end, color=ANSWER, linewidth=1.1, label="answer")
    return handles
