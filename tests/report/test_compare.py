"""Two runs side by side, and the commands that show them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from diffsim.command import cli
from diffsim.report import compare, write_comparison

from . import outcomes
from .test_page import Parsed

NAMES = ("first", "second")


def pair(changed: dict[str, object] | None = None):
    first = outcomes.crosswell()
    unknown = first.unknowns["c"]
    other = replace(unknown, answer=unknown.answer + 100.0)
    settings = {**first.settings, "seed": 17, **(changed or {})}
    return first, replace(first, unknowns={"c": other}, history=first.history[:3], settings=settings, seconds={"all": 5.0})


def test_tables_have_both_columns() -> None:
    tables = {heading: {what: (one, other) for what, one, other in rows} for heading, rows in compare(*pair())}
    assert tables["Reached"]["iterations"] == ("7", "2")
    assert tables["Taken"]["all"][1] == "5 s" and tables["Taken"]["all"][0] != "5 s"
    assert tables["Settings that differ"]["seed"][1] == "17"
    one, same = outcomes.coast(), outcomes.coast()
    assert dict(compare(one, same))["Settings that differ"] == []


def test_a_value_that_one_run_lacks_is_a_dash() -> None:
    runs = replace(outcomes.coast(), loss_parts={"traces of eta": (1.0, 0.1)}), outcomes.image()
    tables = {heading: {what: (one, other) for what, one, other in rows} for heading, rows in compare(*runs)}
    parts = [set(outcome.loss_parts) for outcome in runs]
    for part in parts[0] ^ parts[1]:
        assert tables["Reached"][part].index("-") == int(part in parts[0])


def test_the_page_has_the_answers_and_their_difference(tmp_path: Path) -> None:
    page = Parsed(write_comparison(*pair(), NAMES, tmp_path / "both.html").read_text(encoding="utf-8"))
    assert len(page.sources()) == 2
    assert "root mean square is 100 m/s" in page.text and "first and second" in page.text


def test_runs_of_other_grids_have_no_common_picture(tmp_path: Path) -> None:
    page = Parsed(write_comparison(outcomes.coast(), outcomes.image(), NAMES, tmp_path / "both.html").read_text(encoding="utf-8"))
    assert len(page.sources()) == 1


def test_the_commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    opened: list[str] = []
    monkeypatch.setattr("webbrowser.open", opened.append)
    for name, outcome in zip(NAMES, pair(), strict=True):
        (Path("runs") / name).mkdir(parents=True)
        outcome.save(Path("runs") / name)
    assert cli.main(["show", "first"]) == 0
    assert (tmp_path / "runs/first/report.html").exists()
    assert opened == [(tmp_path / "runs/first/report.html").as_uri()]
    assert cli.main(["show", "runs/first", "--print"]) == 0 and len(opened) == 1
    capsys.readouterr()
    assert cli.main(["compare", "first", "second", "--out", "both.html"]) == 0
    assert "Settings that differ" in capsys.readouterr().out and Path("both.html").exists()
    assert cli.main(["show", "third"]) == 2
    assert "got third; `diffsim run` makes them" in capsys.readouterr().err
    (tmp_path / "runs/empty").mkdir()
    assert cli.main(["compare", "first", "empty"]) == 2
    assert "expected a finished run" in capsys.readouterr().err


def test_start_and_answer_are_of_one_loss() -> None:
    """With stages, the history begins with the loss of the first one, which is not that of the answer."""
    first, second = pair()
    late = replace(second.history[-1], stage=2, loss=40.0)
    staged = replace(second, history=(*second.history, late), loss_parts={"traces of p": (50.0, 40.0)})
    tables = {heading: {what: (one, other) for what, one, other in rows} for heading, rows in compare(first, staged)}
    assert tables["Reached"]["loss at the start, of the last stage"][1] == "50"
    assert tables["Reached"]["loss at the answer, of the last stage"][1] == "40"
    assert "loss at the start" in dict(compare(first, second))["Reached"][0][0]
