"""The report of a run: its figures as PNG, and one HTML file that needs nothing else."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from jinja2 import Environment, PackageLoader, StrictUndefined, Template

from diffsim.plot.chart import Chart
from diffsim.report import crosstalk, curves, instants, maps, setting, tables, traces, values
from diffsim.report.contents import chart_of
from diffsim.report.picture import Picture
from diffsim.scene.disk.files import write_aside

if TYPE_CHECKING:
    from diffsim.scene.disk.outcome import Outcome

REPORT = "report.html"
TEMPLATE = "report.html.jinja"


def write_report(outcome: Outcome, folder: Path) -> Path:
    """Write the figures of an outcome and `report.html` into a folder.

    Everything is drawn before anything is written, and every file is written aside and renamed, the page last: a report
    that is there is whole.

    Args:
        outcome: of a run.
        folder: made if it is not there; files of an earlier report in it are replaced.

    Returns:
        The path of the page.
    """
    drawn = [(picture, picture.png()) for picture in pictures(outcome)]
    page = render(outcome, drawn)
    folder.mkdir(parents=True, exist_ok=True)
    for picture, content in drawn:
        write_aside(folder / file_name(picture), content)
    write_aside(folder / REPORT, page.encode())
    return folder / REPORT


def pictures(outcome: Outcome) -> Iterator[Picture]:
    """All figures, in the order of the page."""
    chart, last = chart_of(outcome), outcome.history[-1].iteration
    yield setting.setting(outcome, chart)
    for name, field in outcome.unknowns.items():
        yield values.unknown(name, field) if field.axes else maps.unknown(name, field, chart, bool(outcome.measured))
    mixed = crosstalk.crosstalk(outcome)
    if mixed is not None:
        yield mixed
    for name, field in outcome.unknowns.items():
        yield values.gradient(name, field, last) if field.axes else maps.gradient(name, field, chart, last)
    for name, field in outcome.unknowns.items():
        if field.deviation is not None and outcome.eigenvalues is not None and field.deviation.size > 1:
            yield maps.uncertainty(name, field, Chart.over(field.axes) if field.axes else chart, outcome.eigenvalues)
    for state, seen in outcome.snapshots.items():
        yield instants.snapshots(state, seen, outcome, chart)
    for state, pair in outcome.traces.items():
        yield traces.close_up(state, pair, outcome, chart)
        if pair.data.shape[2] >= traces.MANY:
            yield traces.gather(state, pair, outcome)
        if pair.data.shape[2] > 1:
            yield traces.residuals(state, pair, outcome)
        spectra = traces.spectra(state, pair, outcome)
        if spectra is not None:
            yield spectra
    for state, pair in outcome.finals.items():
        yield maps.final(state, pair, chart)
    yield curves.loss(outcome)


def render(outcome: Outcome, drawn: list[tuple[Picture, bytes]]) -> str:
    """The page.

    Args:
        outcome: of a run.
        drawn: figures with their PNG files.
    """
    word, sentence = tables.verdict(outcome)
    return template(TEMPLATE).render(
        title=outcome.title or outcome.name,
        name=outcome.name,
        summary=outcome.summary,
        word=word,
        sentence=sentence,
        story=tables.story(outcome),
        notes=outcome.notes,
        figures=[(picture, file_name(picture), base64.b64encode(content).decode()) for picture, content in drawn],
        accepted=tables.judged(outcome.accepted),
        certificate=tables.judged(outcome.certificate),
        memory=tables.memory(outcome),
        measured=tables.measured(outcome),
        parts=tables.parts(outcome),
        fitted=tables.fitted(outcome),
        behind=tables.numbers_behind(outcome),
        circumstances=tables.circumstances(outcome),
        settings="\n".join(tables.settings(outcome.settings)) if outcome.settings else "",
    )


def template(name: str) -> Template:
    """A page to be filled in."""
    loader = PackageLoader("diffsim.report")
    return Environment(loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True).get_template(name)


def file_name(picture: Picture) -> str:
    """The file name of a figure, with letters, digits and underscores only."""
    return re.sub(r"\W", "_", picture.name) + ".png"
