"""The figures of each unknown, of its gradients, and of final fields."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
from matplotlib.lines import Line2D

from diffsim.plot.chart import Chart
from diffsim.plot.panels import LEGEND, Panel, draw_panels
from diffsim.plot.points import draw_points
from diffsim.plot.style import GRADIENT, common, diverging, legend_below, sequential, words
from diffsim.plot.units import quantity, value_scale
from diffsim.report.contents import free_cells, middle, outline, which_shot
from diffsim.report.picture import Picture
from diffsim.typing import Array

if TYPE_CHECKING:
    from diffsim.scene.disk.outcome import Compared, UnknownField

ROBUST, GRAIN = 0.99, 0.999
"""Quantiles at which the colours of gradients and of residuals end."""


def unknown(name: str, field: UnknownField, chart: Chart, design: bool = False) -> Picture:
    """Truth, start, answer, and answer - truth; without a truth start, answer, and answer - start.

    Args:
        name: of the unknown.
        field: the unknown.
        chart: the grid.
        design: whether it is a design, of which there are no data.
    """
    hidden, free = chart.land, free_cells(chart, field)
    edge = outline(chart, field)
    fields = {"start": field.start, "answer": field.answer}
    first, other, left = "start", field.start, "the change"
    if field.truth is not None:
        fields = {"truth": field.truth, **fields}
        first, other, left = "truth", field.truth, "remaining error"
    chart = chart.through(np.where(free, (field.answer if field.truth is None else field.truth) - field.start, 0.0))
    shown = [v if hidden is None else v[~hidden] for v in fields.values()]
    colours = common(name, *shown[:2], zero_is_rest=not np.any(field.start))
    scale = value_scale(field.unit, *(values for title, values in fields.items() if title != "answer" or field.truth is None))
    difference = field.answer - other
    label = f"{name}, {'error' if first == 'truth' else 'change'}"
    panels = [Panel(title, values, colours, scale, name, hidden, edge) for title, values in fields.items()]
    own = value_scale(field.unit, difference)
    panels.append(Panel(f"answer - {first}", difference, diverging(difference[free]), own, label, hidden, edge))
    figure, _ = draw_panels(chart, panels)
    grey = " Grey is land." if chart.views and hidden is not None else ""
    dashed = " The dashed line encloses the cells that may change." if chart.views and edge is not None else ""
    kind = "colour" if chart.views else "vertical"
    *most, last = [title if number else title.capitalize() for number, title in enumerate(fields)]
    planes = (
        f" The planes go through the largest change of the {'answer' if field.truth is None else 'truth'}." if len(chart.views) > 1 else ""
    )
    how = f"{', '.join(most)} and {last} share one {kind} scale; the last panel, {left}, has its own.{grey}{dashed}{planes}"
    text = _found(field, free, how, design)
    return Picture(f"unknown_{name}", f"The unknown {words(name)}: {', '.join(most).lower()} and {last}", text, figure)


def _found(field: UnknownField, free: npt.NDArray[np.bool_], how: str, design: bool) -> str:
    """The caption of an unknown."""
    if design:
        return f"Where the search began, the design that it found, and the difference. {how}"
    if field.truth is None:
        change = quantity(_rms((field.answer - field.start)[free]), field.unit)
        return (
            f"Where the search began, what it found, and the difference. {how} Over the cells that may change, the root mean square "
            f"change is {change}. The data are records, so nobody knows the truth."
        )
    before, after = (quantity(_rms((values - field.truth)[free]), field.unit) for values in (field.start, field.answer))
    return (
        f"The hidden truth, where the search began, what it found, and how far that is from the truth. {how} "
        f"Over the cells that may change, the root mean square distance from the truth is {before} at the start "
        f"and {after} at the answer."
    )


def uncertainty(name: str, field: UnknownField, chart: Chart, eigenvalues: Array) -> Picture:
    """The standard deviation before and after the records.

    Args:
        name: of the unknown.
        field: the unknown, with both deviations.
        chart: the grid.
        eigenvalues: of the Hessian of the misfit relative to the prior.
    """
    assert field.deviation is not None and field.prior_deviation is not None
    free = free_cells(chart, field)
    fields = {"before the records": field.prior_deviation, "after the records": field.deviation}
    panels = []
    for title, values in fields.items():
        colours, scale = sequential(float(np.nanmin(values)), float(np.nanmax(values))), value_scale(field.unit, values)
        panels.append(Panel(title, values, colours, scale, f"deviation of {name}, {title.partition(' ')[0]}", chart.land))
    figure, _ = draw_panels(chart, panels)
    before, after = (quantity(_rms(values[free]), field.unit) for values in fields.values())
    many, last = int(np.count_nonzero(eigenvalues > 1)), float(eigenvalues[-1])
    more = " That is not little: the deviations are too large, and a higher rank gives better ones." if last > 0.1 else ""
    caption = (
        f"The standard deviation of each value of {name}: before the records, and after them by the Gauss-Newton Hessian at the answer. "
        f"Its root mean square over the cells that may change falls from {before} to {after}. Along {many} of {len(eigenvalues)} "
        f"directions the records tell more than the prior; along the last one they tell {last:.2g} times as much, and what further "
        f"directions would tell is left out.{more} Each panel has its own scale. These are deviations of the posterior that the prior and "
        "the noise define; where the search had another penalty, its answer is another estimate than the mean of that posterior."
    )
    return Picture(f"uncertainty_{name}", f"How certain is {words(name)}?", caption, figure)


def gradient(name: str, field: UnknownField, chart: Chart, last: int) -> Picture:
    """The gradient at the first and at the last iteration.

    Args:
        name: of the unknown.
        field: the unknown.
        chart: the grid.
        last: number of the last iteration.
    """
    free = free_cells(chart, field)
    chart = chart.through(np.where(free, field.gradient_first, 0.0))
    panels = []
    for title, values in (("at the start (iteration 0)", field.gradient_first), (f"at the answer (iteration {last})", field.gradient_last)):
        colours = diverging(values[free], quantile=ROBUST, cmap=GRADIENT)
        scale = value_scale(f"per {field.unit}" if field.unit else "", np.array([colours.high]) if np.any(values[free]) else np.zeros(1))
        panels.append(Panel(title, values, colours, scale, f"dJ/d{name} of a cell", ~free if not free.all() else None))
    figure, drawn = draw_panels(chart, panels, LEGEND)
    handles: list[Line2D] = []
    for view, ax in drawn:
        handles = draw_points(chart, view, ax, small=True)
    legend_below(figure, handles)
    first, final = (_rms(g[free]) for g in (field.gradient_first, field.gradient_last))
    ratio = f"its root mean square fell {first / final:.3g} times" if 0 < final < first else "it did not shrink"
    grey = " Grey cells may not change." if not free.all() else ""
    if chart.views:
        where = "where it is orange, a larger value makes the loss larger, so the search lowers it; where purple, it raises it"
        ends = f" The colours end where {100 * ROBUST:.0f} % of the cells lie within: near sources and receivers it can be far larger."
    else:
        where, ends = "where it is positive, a larger value makes the loss larger, so the search lowers it there", ""
    ends += " The planes go through the largest one at the start." if len(chart.views) > 1 else ""
    caption = (
        f"How the loss J answers to {name} in each single cell: {where}. Each panel has its own scale, since {ratio} from the start to the "
        f"answer.{ends}{grey}"
    )
    return Picture(f"gradient_{name}", f"The gradient of the loss by {words(name)}", caption, figure)


def final(name: str, pair: Compared, chart: Chart) -> Picture:
    """A final field: data, prediction, residual."""
    shot = middle(pair)
    data, end = pair.data[shot], pair.end[shot]
    shown = [v if chart.land is None else v[~chart.land] for v in (data, end)]
    colours, residual = common(name, *shown), data - end
    scale, residual_scale = value_scale(pair.unit, data), value_scale(pair.unit, residual)
    panels = [
        Panel("data", data, colours, scale, name, chart.land),
        Panel("prediction of the answer", end, colours, scale, name, chart.land),
        Panel("data - prediction", residual, diverging(residual, quantile=GRAIN), residual_scale, f"{name}, residual", chart.land),
    ]
    figure, _ = draw_panels(chart, panels)
    noise = f"; the noise in the data has {quantity(pair.noise, pair.unit)}" if pair.noise else ""
    caption = (
        f"The field {name} after the last time step, as measured, as the answer predicts it, and the difference. The root mean square of "
        f"the difference is {quantity(_rms(pair.data - pair.start), pair.unit)} at the start and "
        f"{quantity(_rms(pair.data - pair.end), pair.unit)} at the answer{noise}. "
        f"Structure in the last panel is not explained by the answer; grain is noise.{which_shot(pair)}"
    )
    return Picture(f"final_{name}", f"Final {words(name)}: data and prediction", caption, figure)


def _rms(values: Array) -> float:
    return float(np.sqrt(np.nanmean(np.square(np.asarray(values, float))))) if values.size else 0.0
