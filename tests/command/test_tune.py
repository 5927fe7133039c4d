"""The width of registers by measurement: its storage, its precedence, and the output of the command."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from diffsim.command import cli, tune
from diffsim.engine import Tuned, compiled_register_bytes, keep, settings, tuned, tuning, usual_register_bytes
from diffsim.errors import BackendError

OTHER = 16
"""A width that is the rule's on no CPU of today."""


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "cache" / "tuning.json"
    monkeypatch.setenv("DIFFSIM_TUNING", str(path))
    monkeypatch.delenv("DIFFSIM_REGISTER_BYTES", raising=False)
    return path


def test_a_measurement_goes_before_the_rule_and_the_variable_before_both(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert compiled_register_bytes("taichi") == usual_register_bytes("taichi")
    assert keep("taichi", Tuned(OTHER, "2026-01-02")) == file
    assert tuned("taichi") == Tuned(OTHER, "2026-01-02")
    assert compiled_register_bytes("taichi") == OTHER
    monkeypatch.setenv("DIFFSIM_REGISTER_BYTES", "64")
    assert compiled_register_bytes("taichi") == 64


def test_each_engine_and_processor_has_its_own(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    keep("taichi", Tuned(16, "2026-01-02"))
    keep("quadrants", Tuned(64, "2026-01-03"))
    assert (tuned("taichi"), tuned("quadrants")) == (Tuned(16, "2026-01-02"), Tuned(64, "2026-01-03"))
    with monkeypatch.context() as elsewhere:
        elsewhere.setattr(tuning, "processor_name", lambda: "another CPU")
        assert tuned("taichi") is None
    keep("taichi", None)
    assert tuned("taichi") is None and tuned("quadrants") is not None


@pytest.mark.parametrize("content", ["", "[]", "{", '{"KEY": 3}', '{"KEY": {"register_bytes": 48}}', '{"KEY": {}}'])
def test_a_file_that_says_nothing_useful_is_passed_over(content: str, file: Path) -> None:
    file.parent.mkdir()
    file.write_text(content.replace("KEY", tuning._key("taichi")))
    assert compiled_register_bytes("taichi") == usual_register_bytes("taichi")
    keep("taichi", Tuned(OTHER, "2026-01-02"))
    assert compiled_register_bytes("taichi") == OTHER


def test_without_a_file_nothing_is_kept(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("DIFFSIM_TUNING", "")
    assert keep("taichi", Tuned(16, "2026-01-02")) is None and tuned("taichi") is None
    monkeypatch.delenv("DIFFSIM_TUNING")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert tuning.tuning_file() == tmp_path / "diffsim" / "tuning.json"


@pytest.mark.parametrize(("speeds", "best"), [((1.0, 2.0, 3.0), 64), ((3.0, 2.0, 1.0), 16), ((1.0, 2.0, 2.09), 32), ((1.0, 2.0, 2.11), 64)])
def test_another_width_must_be_clearly_faster(speeds: tuple[float, ...], best: int) -> None:
    measured = {width: {"one": speed, "two": 5 * speed} for width, speed in zip((16, 32, 64), speeds, strict=True)}
    assert tune.best_width(measured, 32) == best


def test_turns_count_by_the_fastest() -> None:
    turns = iter([(16, {"one": 1.0, "two": 5.0}), (32, {"one": 3.0, "two": 4.0}), (16, {"one": 2.0, "two": 4.0})])
    assert tune.fastest(turns) == {16: {"one": 2.0, "two": 5.0}, 32: {"one": 3.0, "two": 4.0}}


def test_a_process_measures_all_work() -> None:
    speeds = tune._in_process(32, "taichi", "f32", 1)
    assert speeds.keys() == tune.WORK.keys()
    assert all(1e6 < speed < 1e12 for speed in speeds.values())


def test_a_process_that_fails_is_told() -> None:
    with pytest.raises(
        BackendError, match=r"registers of 32 bytes failed: .*precision = 'f16' is unknown; choose f32 or f64; `diffsim info`"
    ):
        tune._in_process(32, "taichi", "f16", 1)


def test_the_command_keeps_its_measurement_and_forgets_it(
    file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(cli, "init", lambda *_, **__: settings())
    fast = {width: dict.fromkeys(tune.WORK, 2e9 if width == OTHER else 1e9) for width in (16, 32, 64)}
    monkeypatch.setattr(cli, "measured", lambda *_: iter(fast.items()))
    assert cli.main(["tune"]) == 0
    said = capsys.readouterr().out
    assert f"registers of {OTHER} bytes, and not for {usual_register_bytes('taichi')}" in said
    assert said.count("2.00") == len(tune.WORK)
    (kept,) = json.loads(file.read_text()).values()
    assert kept["register_bytes"] == OTHER
    assert cli.main(["info"]) == 0
    assert f"by diffsim tune of {kept['date']}" in capsys.readouterr().out
    assert cli.main(["tune", "--forget"]) == 0
    assert compiled_register_bytes("taichi") == usual_register_bytes("taichi")


def test_the_command_does_nothing_where_the_variable_is_set(
    file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("DIFFSIM_REGISTER_BYTES", "32")
    assert cli.main(["tune"]) == cli.BAD_INPUT
    assert "DIFFSIM_REGISTER_BYTES is set, which goes before any measurement" in capsys.readouterr().err
    assert not file.exists()
