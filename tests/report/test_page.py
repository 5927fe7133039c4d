"""The page and its files: whole, self-contained, escaped, and holding every figure and every number."""

from __future__ import annotations

import base64
import io
import re
from html.parser import HTMLParser
from pathlib import Path

import matplotlib
import numpy as np
import pytest
from matplotlib.image import imread

from diffsim.plot import style, units
from diffsim.report import curves, page, tables, write_report
from diffsim.report.picture import Picture

from . import outcomes
from .conftest import Written

VOID = {"meta", "img", "br", "hr", "link", "input"}
BLANK = 1e-3  # variance of a figure's pixels, of 0 ... 1; one thin line on white has 0.003


class Parsed(HTMLParser):
    """Tags with their attributes, and the text; every tag must be closed."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[tuple[str, str]] = []
        self.feed(text)
        self.close()
        assert not self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words.append((self.open[-1] if self.open else "", data))

    @property
    def text(self) -> str:
        return re.sub(r"\s+", " ", " ".join(data for tag, data in self.words if tag != "style"))

    def sources(self) -> list[str]:
        return [attributes["src"] or "" for tag, attributes in self.tags if tag == "img"]


def test_all_figures_are_there_and_none_is_blank(written: Written) -> None:
    assert {path.stem for path in written.folder.glob("*.png")} == outcomes.FIGURES[written.kind]
    for path in written.folder.glob("*.png"):
        assert float(np.var(imread(path)[..., :3])) > BLANK, path.name


def test_the_folder_holds_nothing_else(written: Written) -> None:
    names = {path.name for path in written.folder.iterdir()}
    assert names == {f"{name}.png" for name in outcomes.FIGURES[written.kind]} | {page.REPORT}


def test_the_page_holds_the_same_figures_as_the_files(written: Written) -> None:
    sources = Parsed(written.html).sources()
    held = {base64.b64decode(source.removeprefix("data:image/png;base64,")) for source in sources}
    assert held == {path.read_bytes() for path in written.folder.glob("*.png")}


def test_the_page_refers_to_nothing_outside(written: Written) -> None:
    parsed = Parsed(written.html)
    for tag, attributes in parsed.tags:
        assert tag not in {"script", "link", "iframe", "object", "embed", "base"}
        assert not {"href", "srcset", "action", "background"} & attributes.keys()
        assert not [name for name in attributes if name.startswith("on")]
        assert (attributes.get("src") or "data:image/png;base64,").startswith("data:image/png;base64,")
    styles = [data for tag, data in parsed.words if tag == "style"] + [a["style"] or "" for _, a in parsed.tags if "style" in a]
    assert styles
    assert not [text for text in styles if re.search(r"url\s*\(|@import", text)]


def test_the_page_says_every_number(written: Written) -> None:
    text, outcome = Parsed(written.html).text, written.outcome
    for line in (*outcome.accepted, *outcome.certificate):
        assert {line.name, line.limit, line.note} <= {*_cells(written.html), ""}
        assert units.number(line.value) in _cells(written.html)
    expected = [
        outcome.summary,
        outcome.schedule,
        outcome.stopped,
        "182 MB",
        "183 MB",
        "1.61 GB",
        "+0.4 %",
        "4.2 s (+5 % of the prediction)",
        "198 MB (-1 % of the prediction)",
        "2 x 3",
        "12.5 %",
        "36",
        "0.2 s (20 % of the gradient)",
        "1 min 15 s",
    ]
    expected += [*outcome.versions.values(), *map(str, outcome.machine.values()), str(outcome.seed), outcome.equation, outcome.name]
    for part, (start, end) in outcome.loss_parts.items():
        expected += [part, units.number(start), units.number(end)]
    assert not [words for words in expected if words not in text]


def test_passes_and_fails_are_counted(written: Written) -> None:
    lines = (*written.outcome.accepted, *written.outcome.accepted, *written.outcome.certificate)  # accepted: on top, and in its table
    assert written.html.count("✓ pass<") == sum(line.passed is True for line in lines)
    assert written.html.count("✗ fail<") == sum(line.passed is False for line in lines)
    assert written.html.count("? cannot judge<") == sum(line.passed is None for line in lines)
    badge = {"crosswell": "failed", "line": "not judged"}.get(written.kind, "passed")
    assert re.findall(r'class="badge [^"]*">([^<]*)<', written.html) == [badge]


def test_sections_come_in_the_order_of_a_reader(written: Written) -> None:
    headings = re.findall(r"<h2>([^<]*)</h2>", written.html)
    wanted = ["The setting", "The unknown", "The gradient"]
    wanted += ["Snapshots"] * bool(written.outcome.snapshots)
    wanted += ["Records"] * bool(written.outcome.traces) + ["Final"] * bool(written.outcome.finals)
    wanted += ["The search", "Acceptance", "Certificate", "Checkpoints and memory", "Parts of the loss", "Circumstances"]
    places = [next(k for k, heading in enumerate(headings) if heading.startswith(start)) for start in wanted]
    assert places == sorted(places)
    assert ("Settings" in headings) == bool(written.outcome.settings)


def test_text_is_escaped(written: Written) -> None:
    title = written.outcome.title or written.outcome.name
    parsed = Parsed(written.html)  # would find a script and a bold if there were any
    assert title in parsed.text
    assert [tag for tag, _ in parsed.tags].count("b") == len(parsed.sources())  # "Figure 1." and so on, and no more
    assert not [tag for tag, _ in parsed.tags if tag == "script"]
    if written.outcome.settings:
        assert 'note="<b>bold</b>"' in parsed.text


def test_no_certificate_is_said(written: Written) -> None:
    assert ("Not measured in this run" in written.html) == (not written.outcome.certificate)


def test_settings_are_written_as_set_takes_them() -> None:
    settings = list(tables.settings({"a": {"b": [1, 2], "c": []}, "m": [{"w": 1.5}, {"w": "x"}], "e": {}}))
    assert settings == ["a.b=[1, 2]", "a.c=[]", "m.0.w=1.5", 'm.1.w="x"', "e={}"]


def test_a_figure_that_fails_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(outcome: object) -> style.Picture:
        raise RuntimeError("no figure")

    monkeypatch.setattr(curves, "loss", broken)
    with pytest.raises(RuntimeError, match="no figure"):
        write_report(outcomes.line(), tmp_path)
    assert not list(tmp_path.iterdir())


def test_the_page_comes_last_and_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names: list[str] = []
    write = page.write_aside

    def watched(path: Path, content: bytes) -> None:
        names.append(path.name)
        if path.name == page.REPORT:
            raise OSError("disk full")
        write(path, content)

    (tmp_path / page.REPORT).write_text("earlier")
    monkeypatch.setattr(style, "DPI", 30)
    monkeypatch.setattr(page, "write_aside", watched)
    with pytest.raises(OSError, match="disk full"):
        write_report(outcomes.line(), tmp_path)
    assert names[-1] == page.REPORT
    assert (tmp_path / page.REPORT).read_text() == "earlier"
    assert not [path for path in tmp_path.iterdir() if path.name.endswith(".part")]


def test_global_settings_of_matplotlib_do_not_change(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(style, "DPI", 30)
    before = dict(matplotlib.rcParams)
    write_report(outcomes.line(), tmp_path)
    assert dict(matplotlib.rcParams) == before


def test_the_same_outcome_gives_the_same_report(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(style, "DPI", 30)
    one, other = ([picture.png() for picture in page.pictures(outcomes.line())] for _ in range(2))
    assert one == other


def test_a_picture_is_a_png_of_the_right_width() -> None:
    figure = style.new_figure(2.0)
    figure.subplots().plot([0, 1])
    content = Picture("x", "", "", figure).png()
    assert imread(io.BytesIO(content)).shape == (2 * style.DPI, style.WIDTH * style.DPI, 4)


def test_file_names_hold_no_paths() -> None:
    assert page.file_name(Picture("unknown_../a b", "", "", style.new_figure(1.0))) == "unknown____a_b.png"


def _cells(html: str) -> set[str]:
    """Texts of all table cells."""
    return {data for tag, data in Parsed(html).words if tag == "td"}
