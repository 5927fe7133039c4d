"""Mistakes of a first scene: numbers in quotes or with units, words misspelt, windows and wavelets that do not fit the run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from diffsim.base.quantities.units import factor
from diffsim.errors import DataError, SceneError
from diffsim.records import Layout, read_records
from diffsim.scene.notes import undersampled
from diffsim.scene.search.assemble import assemble
from tests.scene.tiny import ACOUSTIC, HEAT, scene

NUMBERS = {"time__dt": 0.1, "grid__spacing": 0.5, "unknowns__T__scale": 2.0, "time__steps": 7, "grid__shape": 8, "unknowns__T__smooth": 1.5}
"""Key -> a number that it takes, alone or in a list."""


def refused(**more: Any) -> str:
    with pytest.raises(SceneError) as caught:
        scene(HEAT, **more)
    return str(caught.value)


@pytest.mark.parametrize(("key", "number"), NUMBERS.items(), ids=NUMBERS)
def test_a_number_in_quotes_loses_them(key: str, number: float) -> None:
    assert f"; write {number}, without quotes" in refused(**{key: str(number)})
    for unit in ("s", " m", "cm", " 1/s"):
        assert "; write the number alone, without quotes and in the unit of this key" in refused(**{key: f"{number}{unit}"})
    for text in ("fast", f"{number} or so", ""):
        assert "quotes" not in refused(**{key: text})


@pytest.mark.parametrize(("word", "meant"), [("riker", "ricker"), ("Ricker", "ricker"), ("puls", "pulse"), ("files", "file")])
def test_a_misspelt_wavelet_is_suggested(word: str, meant: str) -> None:
    text = refused(sources={"q": {"points": [[1.0, 1.0]], "wavelet": {"type": word}}})
    assert text.endswith(f"found '{word}'; did you mean {meant}?")


@pytest.mark.parametrize("beyond", [(1.0001, 2.0), (5.0, 6.0)])
def test_a_window_beyond_the_run_is_refused(beyond: tuple[float, float]) -> None:
    end = 0.048  # s
    misfit = [{**ACOUSTIC["misfit"][0], "window": [end * beyond[0], end * beyond[1]]}]
    with pytest.raises(SceneError, match=r"misfit\[0\].window: expected times of the run, 0 to .* s, found .*; correct it, or run longer"):
        assemble(scene(ACOUSTIC, misfit=misfit), "f64")


@pytest.mark.parametrize("samples", [0.01, 1.0, 4.9, 5.1, 20.0])
@pytest.mark.parametrize("kind", ["ricker", "pulse", "packet"])
def test_wavelets_of_few_steps_are_noted(kind: str, samples: float) -> None:
    frequency = 1 / (samples * scene(HEAT).time.step)
    deviation = 1 / (2 * np.pi * frequency)
    wavelet = {
        "ricker": {"frequency": frequency},
        "pulse": {"width": deviation, "delay": 0.0},
        "packet": {"frequency": frequency, "width": 3 / frequency},
    }[kind]
    sources = {"q": {"points": [[6.0, 5.0]], "wavelet": {"type": kind, **wavelet}}}
    problem = assemble(scene(HEAT, sources=sources), "f64")
    lines = list(undersampled(problem))
    assert len(lines) == (samples < 5)
    if lines:
        assert f"{samples:.2g} time steps" in lines[0] and "where it needs 5" in lines[0]


@pytest.mark.parametrize("bracket", ["2 m", "0.01 m", "10m", "1e-2 m"])
def test_a_number_in_round_brackets_is_no_factor(tmp_path: Path, bracket: str) -> None:
    """The height of a sensor at 2 m was a unit of two metres."""
    (tmp_path / "a.csv").write_text(f"time,eta ({bracket})\n0.0,1.0\n1.0,2.0\n")
    with pytest.raises(DataError, match="which may be a unit or the place of a sensor"):
        read_records(tmp_path / "a.csv")
    (records,) = read_records(tmp_path / "a.csv", Layout(unit="m"))
    assert records.values[1, 0] == 2.0
    (tmp_path / "a.csv").write_text(f"time,eta {bracket}\n0.0,1.0\n1.0,2.0\n")  # the remedy for a place
    (records,) = read_records(tmp_path / "a.csv")
    assert records.names == (f"eta {bracket}",) and records.unit == ""
    (tmp_path / "a.csv").write_text(f"time,eta [{bracket}]\n0.0,1.0\n1.0,2.0\n")
    (records,) = read_records(tmp_path / "a.csv")
    assert records.in_unit("m").values[1, 0] == pytest.approx(2.0 * factor(bracket, "m"))


def test_a_number_in_round_brackets_is_a_factor_where_no_place_is_meant(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("time (1e-3 s),p (1e5 Pa)\n0.0,1.0\n1.0,2.0\n")
    (records,) = read_records(tmp_path / "a.csv")
    assert records.times[1] == pytest.approx(1e-3) and records.in_unit("Pa").values[1, 0] == pytest.approx(2e5)


@pytest.mark.parametrize("brackets", [("2m", "10m"), ("2 m", "10 m"), ("0 m", "2 m", "1e1 m")], ids="-".join)
def test_sensors_at_several_heights_have_them_in_their_names(tmp_path: Path, brackets: tuple[str, ...]) -> None:
    names = tuple(f"u ({bracket})" for bracket in brackets)
    (tmp_path / "a.csv").write_text(",".join(["time", *names]) + "".join(f"\n{k}" + ",0.5" * len(names) for k in range(2)))
    (records,) = read_records(tmp_path / "a.csv", Layout(unit="m/s"))
    assert records.names == names and records.unit == "m/s"
