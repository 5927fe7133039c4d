"""Figures of records: some receivers one by one, and all of them as a gather."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from diffsim.base.arguments import flag, real_array, whole
from diffsim.errors import ShapeError
from diffsim.plot.chart import CLOSE
from diffsim.plot.given import several, times_of
from diffsim.plot.style import ANSWER, FAINT, INK, START, TICK, colour_bar, diverging, dress, legend_below, new_figure, plain
from diffsim.plot.units import Scale, time_scale, value_scale
from diffsim.typing import Array

PANEL, GATHER = 1.75, 4.6
"""Heights of a panel of one receiver and of a gather, inches."""
REACH = 0.5
"""Fraction of the largest value at which the colours of a gather end, so that weak parts are seen too."""
BROADER = 8
"""Columns of the image for a receiver, so that the smoothing of many times onto one pixel does not smear receivers too."""
SWING = 0.9
"""Distance between receivers that the largest wiggle reaches."""

Records = npt.ArrayLike | Mapping[str, npt.ArrayLike]
"""Records, shape (times, receivers), or several by title. NaN where there is no sample."""
GAP = 3.0
"""A distance of samples of this multiple of the median of a receiver's distances is a gap."""


def traces(
    values: Records,
    dt: npt.ArrayLike,
    name: str = "",
    unit: str = "",
    *,
    numbers: Sequence[int] | None = None,
    titles: Sequence[str] | None = None,
    deviation: npt.ArrayLike | None = None,
    time_unit: str = "s",
) -> Figure:
    """Records of a few receivers, each in a panel with a vertical scale of its own.

    Args:
        values: records, or several by title, such as those observed and those predicted. The first is black, the last orange, others blue.
        dt: time between samples, s, or the times of all samples.
        name: of the state.
        unit: of the records.
        numbers: which receivers are drawn, from 0; None: up to eight, equally spaced in the list.
        titles: of the panels, one for each receiver that is drawn; None: its number, from 1.
        deviation: standard deviation of the noise in the first records: a number, or one for each sample. It is drawn as a band.
        time_unit: of `dt`, where the equation's is another than s.

    Returns:
        A `matplotlib.figure.Figure`.

    Raises:
        ShapeError: arrays do not fit each other, or there is no such receiver.

    Example:
        import numpy as np

        from diffsim import plot

        t = 0.01 * np.arange(200)[:, None]
        observed = np.exp(-(((t - 0.8 - 0.1 * np.arange(5)) / 0.1) ** 2))
        predicted = np.exp(-(((t - 0.9 - 0.1 * np.arange(5)) / 0.1) ** 2))
        figure = plot.traces({"observed": observed, "predicted": predicted}, dt=0.01, name="p", unit="Pa")
        figure.savefig("traces.png")
        assert len(figure.axes) == 6  # five receivers in two columns
    """
    arrays = several("values", values, ndim=2)
    first = next(iter(arrays.values()))
    times, receivers = times_of(dt, len(first)), first.shape[1]
    if numbers is None:
        numbers = sorted({round(k) for k in np.linspace(0, receivers - 1, min(CLOSE, receivers))})
    chosen = [whole("numbers", k, 0, receivers - 1, "give numbers of receivers, from 0") for k in numbers]
    heads = [f"{k + 1}" for k in chosen] if titles is None else list(titles)
    if not chosen or len(heads) != len(chosen):
        raise ShapeError(
            f"numbers and titles have {len(chosen)} and {len(heads)} entries, expected a title for each receiver; give as many"
        )
    noise = np.zeros(first.shape) if deviation is None else _like(deviation, first.shape)
    clock = time_scale(times, time_unit)
    scale = value_scale(unit, first[:, chosen], *([] if np.isfinite(first[:, chosen]).any() else [v[:, chosen] for v in arrays.values()]))
    columns = 2 if len(chosen) > 1 else 1
    rows = -(-len(chosen) // columns)
    figure = new_figure(rows * PANEL + 0.8)
    axes = figure.subplots(rows, columns, squeeze=False, sharex=True)
    handles: list[Any] = []
    for ax, k, head in zip(axes.flat, chosen, heads, strict=False):
        curves = {title: array[:, k] * scale.factor for title, array in arrays.items()}
        drawn = _draw_curves(ax, times * clock.factor, curves, noise[:, k] * scale.factor)
        handles = drawn if len(drawn) > len(handles) else handles
        dress(ax, grid=True)
        ax.set_title(plain(head), fontsize=TICK + 1, loc="left", color=INK)
        ax.set_xlim(*(times[[0, -1]] * clock.factor))
    for ax in axes.flat[len(chosen) :]:
        ax.set_axis_off()
    for ax in axes[-1]:
        ax.set_xlabel(plain(clock.label("time")), fontsize=TICK + 1)
    figure.supylabel(plain(scale.label(name)), fontsize=TICK + 1)
    legend_below(figure, handles if len(arrays) > 1 else [])
    return figure


def gather(
    values: Records,
    dt: npt.ArrayLike,
    name: str = "",
    unit: str = "",
    *,
    wiggles: bool = False,
    at: npt.ArrayLike | None = None,
    along: str = "receiver",
    time_unit: str = "s",
) -> Figure:
    """All receivers side by side, time downwards, as an image or as wiggles. Several records share one scale, that of the first.

    Args:
        values: records, or several by title.
        dt: time between samples, s, or the times of all samples. Where these are unequal, or where samples are missing, lines connect them.
        name: of the state.
        unit: of the records.
        wiggles: draw a curve for each receiver, filled where it is positive.
        at: a coordinate for each receiver, such as its offset; None: its number, from 1. An image needs equal distances.
        along: label of these coordinates, such as "offset (m)".
        time_unit: of `dt`, where the equation's is another than s.

    Returns:
        A `matplotlib.figure.Figure`.

    Raises:
        ShapeError: arrays do not fit each other.

    Example:
        import numpy as np

        from diffsim import plot

        t, offset = 0.004 * np.arange(300)[:, None], 50.0 * np.arange(40)
        record = np.exp(-(((t - 0.2 - offset / 2500.0) / 0.03) ** 2))
        plot.gather(record, dt=0.004, name="p", unit="Pa", at=offset, along="offset (m)").savefig("image.png")
        wiggles = plot.gather(record[:, ::2], dt=0.004, wiggles=True)
        assert len(wiggles.axes[0].lines) == 20
    """
    arrays = several("values", values, ndim=2)
    first = next(iter(arrays.values()))
    times, receivers = times_of(dt, len(first)), first.shape[1]
    places = np.arange(1.0, receivers + 1) if at is None else np.asarray(real_array("at", at), float)
    if places.shape != (receivers,) or not np.isfinite(places).all():
        raise ShapeError(f"at has shape {places.shape}, expected ({receivers},), a finite coordinate for each receiver; give those")
    steps = np.diff(places)
    even = receivers < 2 or (steps[0] != 0 and bool(np.all(np.abs(steps - steps[0]) <= 1e-6 * abs(steps[0]))))
    if not flag("wiggles", wiggles) and not even:
        raise ShapeError("at: expected receivers at equal distances for an image, got others; set wiggles=True, or leave out at")
    clock, scale = time_scale(times, time_unit), value_scale(unit, np.nan_to_num(first))
    regular, filled = np.linspace(times[0], times[-1], len(times)), {}
    for title, array in arrays.items():
        filled[title] = _evenly(times, array, regular)
    figure = new_figure(GATHER)
    axes = figure.subplots(1, len(filled), sharex=True, sharey=True, squeeze=False)[0]
    half = (1.0 if wiggles else 0.5) * (float(np.abs(steps).max()) if len(steps) else 1.0)
    ends = float(places.min() - half), float(places.max() + half)
    for number, (ax, (title, array)) in enumerate(zip(axes, filled.items(), strict=True)):
        if wiggles:
            _draw_wiggles(ax, places, regular * clock.factor, array, filled[next(iter(filled))], ends)
        else:
            image = _draw_image(ax, regular * clock.factor, array, diverging(first, reach=REACH), scale, places, ends)
        dress(ax, title, along, "" if number else clock.label("time"))
    if not wiggles:
        colour_bar(figure, image, scale.label(name), ax=list(axes), extend="both", fraction=0.03, pad=0.01)
    return figure


def _like(values: npt.ArrayLike, shape: tuple[int, ...]) -> Array:
    spread = np.asarray(real_array("deviation", values), float)
    try:
        return np.broadcast_to(spread, shape)
    except ValueError:
        raise ShapeError(f"deviation has shape {spread.shape}, expected a number or {shape}; give that of the records") from None


def _evenly(times: Array, values: Array, regular: Array) -> Array:
    """Records at regular times. Between samples they are straight lines; before the first and after the last, NaN."""
    if np.isfinite(values).all() and np.allclose(times, regular, rtol=0, atol=1e-6 * (regular[-1] - regular[0])):
        return values
    out = np.full(values.shape, np.nan)
    for k, trace in enumerate(values.T):
        there = np.isfinite(trace)
        if there.any():
            out[:, k] = np.interp(regular, times[there], trace[there], np.nan, np.nan)
    return out


def _parted(times: Array, *values: Array) -> tuple[Array, ...]:
    """Times and values of the samples of one receiver, with a NaN in each gap, where a line breaks off."""
    steps = np.diff(times)
    gaps = np.flatnonzero(steps > GAP * np.median(steps)) if len(steps) else np.empty(0, int)
    return np.insert(times, gaps + 1, 0.5 * (times[gaps] + times[gaps + 1])), *(np.insert(v, gaps + 1, np.nan) for v in values)


def _draw_curves(ax: Axes, times: Array, curves: Mapping[str, Array], noise: Array) -> list[Any]:
    """One receiver. The first curve is drawn as dots if it has gaps, in which the others break off."""
    handles: list[Any] = []
    for number, (title, values) in enumerate(curves.items()):
        there = np.isfinite(values)
        if number == 0 and np.any(noise):
            when, low, high = _parted(times[there], values[there] - noise[there], values[there] + noise[there])
            handles.append(ax.fill_between(when, low, high, color=FAINT, alpha=0.35, linewidth=0, label="noise, ± one σ"))
        look: dict[str, Any] = {"color": INK if number == 0 else ANSWER if number == len(curves) - 1 else START, "linewidth": 1.1}
        if number == 0 and not there.all():
            look |= {"linestyle": "none", "marker": ".", "markersize": 3}
        elif 0 < number < len(curves) - 1:
            look["linestyle"] = (0, (4, 2))
        points = (times[there], values[there]) if "marker" in look else _parted(times[there], values[there])
        handles += ax.plot(*points, label=title, **look) if there.any() else []
    return handles


def _draw_image(ax: Axes, times: Array, values: Array, colours: Any, scale: Scale, places: Array, ends: tuple[float, float]) -> Any:
    if places[-1] < places[0]:
        values = values[:, ::-1]
    return ax.imshow(
        np.repeat(values * scale.factor, BROADER, axis=1),
        cmap=colours.cmap,
        vmin=colours.low * scale.factor,
        vmax=colours.high * scale.factor,
        extent=(*ends, float(times[-1]), float(times[0])),
        aspect="auto",
    )


def _draw_wiggles(ax: Axes, places: Array, times: Array, values: Array, first: Array, ends: tuple[float, float]) -> None:
    largest = float(np.nanmax(np.abs(first), initial=0.0)) or 1.0
    distances = np.diff(np.sort(places))
    gain = SWING * (float(np.median(distances)) if len(distances) else 1.0) / largest
    for place, trace in zip(places, values.T, strict=True):
        moved = place + gain * trace
        ax.plot(moved, times, color=INK, linewidth=0.7)
        ax.fill_betweenx(times, place, moved, where=(trace > 0).tolist(), color=INK, alpha=0.6, linewidth=0, interpolate=True)
    ax.set_xlim(*ends)
    ax.set_ylim(float(times[-1]), float(times[0]))
