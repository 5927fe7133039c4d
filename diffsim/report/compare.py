"""Two runs side by side: figures, settings, and the pictures of both results."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from diffsim.plot.chart import Chart
from diffsim.plot.panels import Panel, draw_panels
from diffsim.plot.style import ANSWER, START, common, diverging, dress, legend_below, new_figure, words
from diffsim.plot.units import duration, number, quantity, value_scale
from diffsim.report import tables
from diffsim.report.contents import chart_of
from diffsim.report.page import template
from diffsim.report.picture import Picture
from diffsim.scene.disk.files import write_aside

if TYPE_CHECKING:
    from diffsim.scene.disk.outcome import Outcome, UnknownField

TEMPLATE = "compare.html.jinja"
NOTHING = "-"
HEIGHT = 3.6
"""Height of the figure of the losses, inches."""

Pair = tuple[str, str, str]
"""The quantity, its value in the first run, and in the second."""


def compare(first: Outcome, second: Outcome) -> list[tuple[str, list[Pair]]]:
    """Tables of the results, costs and settings of two runs, each with a heading. Settings are those that differ."""
    both = first, second
    reached = [
        _pair(f"loss at the start{_of_last(both)}", [number(o.losses[0]) for o in both]),
        _pair(f"loss at the answer{_of_last(both)}", [number(o.losses[1]) for o in both]),
        _pair("iterations", [str(o.history[-1].iteration) for o in both]),
    ]
    reached += _by_name(*({line.name: f"{number(line.value)} ({line.verdict})" for line in o.accepted} for o in both))
    reached += _by_name(*({part: number(end) for part, (_, end) in o.loss_parts.items()} for o in both))
    took = [_pair("gradients", [str(o.history[-1].evaluations) for o in both])]
    took += _by_name(*({name: duration(spent) for name, spent in o.seconds.items()} for o in both))
    took += _by_name(*({name: str(value) for name, value in o.machine.items()} for o in both))
    asked = [dict(line.partition("=")[::2] for line in tables.settings(o.settings)) for o in both]
    differ = [pair for pair in _by_name(*asked) if pair[1] != pair[2]]
    return [("Reached", reached), ("Taken", took), ("Settings that differ", differ)]


def write_comparison(first: Outcome, second: Outcome, names: tuple[str, str], path: Path) -> Path:
    """Write a page that sets two runs side by side.

    Args:
        first: of a run.
        second: of another one.
        names: of the two, for headings.
        path: of the page.

    Returns:
        The path.
    """
    drawn = [(picture, base64.b64encode(picture.png()).decode()) for picture in pictures(first, second, names)]
    page = template(TEMPLATE).render(names=names, figures=drawn, tables=compare(first, second))
    write_aside(path, page.encode())
    return path


def pictures(first: Outcome, second: Outcome, names: tuple[str, str]) -> Iterator[Picture]:
    """The losses, and each unknown that both runs have."""
    yield _losses(first, second, names)
    for name in first.unknowns.keys() & second.unknowns.keys():
        one, other = first.unknowns[name], second.unknowns[name]
        chart = Chart.over(one.axes) if one.axes else chart_of(first)
        if one.answer.shape == other.answer.shape and one.answer.ndim and one.unit == other.unit:
            yield _unknown(name, one, other, chart, names)


def _losses(first: Outcome, second: Outcome, names: tuple[str, str]) -> Picture:
    figure = new_figure(HEIGHT)
    handles = []
    left, right = figure.subplots(1, 2, sharey=True)
    for outcome, name, colour in zip((first, second), names, (START, ANSWER), strict=True):
        values = [step.loss for step in outcome.history]
        iterations, seconds = ([getattr(step, each) for step in outcome.history] for each in ("iteration", "seconds"))
        handles += left.plot(iterations, values, color=colour, linewidth=1.5, label=name)
        right.plot(seconds, values, color=colour, linewidth=1.5)
    if all(step.loss > 0 for step in chain(first.history, second.history)):
        left.set_yscale("log")
    dress(left, "loss", "iteration", grid=True)
    dress(right, "", "time (s)", grid=True)
    legend_below(figure, handles)
    caption = "The loss by iteration, and by the time of all gradients. Losses of runs with other misfits or data do not compare."
    if _of_last((first, second)):
        caption += " Each stage of a run has a loss of its own, so a curve jumps where one begins."
    return Picture("loss", "The searches", caption, figure)


def _unknown(name: str, one: UnknownField, other: UnknownField, chart: Chart, names: tuple[str, str]) -> Picture:
    colours, scale = common(name, one.answer, other.answer), value_scale(one.unit, one.answer, other.answer)
    difference = other.answer - one.answer
    panels = [Panel(title, field.answer, colours, scale, name, chart.land) for title, field in zip(names, (one, other), strict=True)]
    panels.append(Panel("difference", difference, diverging(difference), value_scale(one.unit, difference), f"{name}, difference"))
    figure, _ = draw_panels(chart, panels)
    change = float(np.sqrt(np.mean(difference**2)))
    caption = f"The answers of both on one scale, and second - first on its own; its root mean square is {quantity(change, one.unit)}."
    return Picture(f"unknown_{name}", f"The unknown {words(name)}", caption, figure)


def _of_last(both: tuple[Outcome, Outcome]) -> str:
    """The suffix of "loss" where a run has stages, each with a loss of its own."""
    return ", of the last stage" if any(o.history[-1].stage > 1 for o in both) else ""


def _pair(what: str, values: list[str]) -> Pair:
    return what, values[0], values[1]


def _by_name(first: dict[str, str], second: dict[str, str]) -> list[Pair]:
    """Both columns, in the order of the first, and then the rows of the second alone."""
    names = [*first, *(name for name in second if name not in first)]
    return [(name, first.get(name, NOTHING), second.get(name, NOTHING)) for name in names]
