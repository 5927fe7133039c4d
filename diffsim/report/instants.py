"""The figures of snapshots: the field at a few instants, as the start of the search and as its answer predict it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from matplotlib.figure import Figure

from diffsim.base.arguments import plural
from diffsim.plot.chart import Chart, axis_scale
from diffsim.plot.panels import Panel, draw_panels
from diffsim.plot.style import ANSWER, START, common, diverging, dress, legend_below, new_figure, words
from diffsim.plot.units import Scale, time_scale, value_scale
from diffsim.report.contents import bed_of
from diffsim.report.picture import Picture
from diffsim.typing import Array

if TYPE_CHECKING:
    from diffsim.scene.disk.outcome import Outcome, Snapshots

ROBUST = 0.998
"""Quantile at which the colours of a field of both signs end: near sources it can be far larger."""
FLAT = 0.6
"""Maps of less height over width stand in rows of two, the start beside the answer."""
DRY = 0.01
"""Depth below which a cell counts as dry, m."""
CURVES = 2.2
"""Height of a panel of curves, inches."""


def snapshots(state: str, seen: Snapshots, outcome: Outcome, chart: Chart) -> Picture:
    """A state of the first shot at a few instants, at the start and at the answer, on one scale."""
    parts = [f"The field {state} at {plural(len(seen.times), 'instant')} of the run."]
    if len(chart.axes) == 1:
        figure = _curves(state, seen, chart, outcome.time_unit)
        parts.append("Blue, dashed: predicted at the start. Orange: predicted by the answer. All panels share their scales.")
    else:
        plane = _plane_of(chart, seen)
        beside = plane.views[0].ratio < FLAT
        bed = None if seen.plane is not None else bed_of(outcome, state)
        if bed is not None:
            plane = Chart.over(plane.axes, np.asarray(bed > 0))
        figure = _maps(state, seen, plane, 2 if beside else len(seen.times), outcome.time_unit, bed)
        places = ("Left", "right") if beside else ("Above", "below")
        parts.append(f"{places[0]}: as the start predicts it; {places[1]}: as the answer predicts it, all on one colour scale.")
        if bed is not None:
            parts.append("Grey is dry, and the line is the coast of the level 0.")
        elif plane.land is not None:
            parts.append("Grey is land.")
    if seen.plane is not None:
        axis, index = chart.axes[seen.plane[0]], seen.plane[1]
        parts.append(f"Shown is the plane {axis.name} = {axis.coordinates[index]:.4g} {axis.unit}".rstrip() + ".")
    if seen.block > 1:
        parts.append(f"Each value is a mean over {seen.block} cells along every axis.")
    shots = max((len(pair.data) for pair in (*outcome.traces.values(), *outcome.finals.values())), default=1)
    if shots > 1:
        parts.append(f"Shot 1 of {shots} is shown.")
    return Picture(f"snapshots_{state}", f"Snapshots of {words(state)}: start and answer", " ".join(parts), figure)


def _maps(state: str, seen: Snapshots, chart: Chart, columns: int, time_unit: str, bed: Array | None = None) -> Figure:
    """A map for each instant of the start, and of the answer; where a bed is given, of the cells that are wet then."""
    films = [_over_cells(film, seen.block, chart) for film in (seen.start, seen.answer)]
    hidden = chart.land if bed is None else None
    if bed is not None:
        films = [np.where(film > bed + DRY, film, np.nan) for film in films]
        shown = [film[np.isfinite(film)] for film in films]
    else:
        shown = [film if hidden is None else film[:, ~hidden] for film in films]
    colours = common(state, *shown)
    if colours.centred:
        colours = diverging(*shown, quantile=ROBUST)
    scale = value_scale(seen.unit, np.array([colours.low, colours.high]))
    rows = [
        [
            Panel(f"{title}, {when}", values, colours, scale, state, hidden)
            for when, values in zip(_times(seen.times, time_unit), film, strict=True)
        ]
        for title, film in zip(("start", "answer"), films, strict=True)
    ]
    panels = (
        [panel for row in rows for panel in row]
        if columns == len(seen.times)
        else [panel for pair in zip(*rows, strict=True) for panel in pair]
    )
    return draw_panels(chart, panels, columns=columns)[0]


def _curves(state: str, seen: Snapshots, chart: Chart, time_unit: str) -> Figure:
    """A panel for each instant, with the curves of the start and of the answer."""
    films = [_over_cells(film, seen.block, chart) for film in (seen.start, seen.answer)]
    scale, (along, label) = value_scale(seen.unit, *films), axis_scale(chart.axes[0])
    x = np.asarray(chart.axes[0].coordinates) * along.factor
    rows = -(-len(seen.times) // 2)
    figure = new_figure(CURVES * rows)
    axes = figure.subplots(rows, 2, squeeze=False, sharex=True, sharey=True).ravel()
    handles = []
    for ax, when, before, after in zip(axes, _times(seen.times, time_unit), *films, strict=False):
        handles = ax.plot(x, before * scale.factor, color=START, linewidth=1.3, linestyle=(0, (4, 2)), label="start")
        handles += ax.plot(x, after * scale.factor, color=ANSWER, linewidth=1.3, label="answer")
        dress(ax, when, label, scale.label(state), grid=True)
        ax.set_xlim(x[0], x[-1])
        ax.label_outer()
    for ax in axes[len(seen.times) :]:
        ax.set_axis_off()
    legend_below(figure, handles)
    return figure


def _plane_of(chart: Chart, seen: Snapshots) -> Chart:
    """The chart of the plane of snapshots in 3-D; else the chart itself."""
    if seen.plane is None:
        return chart
    held, index = seen.plane
    land = None if chart.land is None else np.take(chart.land, index, axis=held)
    return Chart.over(tuple(axis for number, axis in enumerate(chart.axes) if number != held), land)


def _over_cells(film: Array, block: int, chart: Chart) -> Array:
    """Values over blocks as values over the cells of a chart."""
    for number, axis in enumerate(chart.axes, 1):
        film = np.repeat(film, block, axis=number)
        film = np.take(film, np.arange(len(axis.coordinates)), axis=number)
    return film


def _times(times: Array, unit: str) -> list[str]:
    """Each instant in words."""
    clock: Scale = time_scale(times, unit)
    return [f"t = {clock.factor * time:.3g} {clock.unit}".rstrip() for time in times]
