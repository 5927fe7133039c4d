"""The scripts of wave tanks, with small files that have the form of the real ones and records of runs of their own."""

from __future__ import annotations

import json
import runpy
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytestmark = pytest.mark.slow
SCRIPTS = Path(__file__).parents[2] / "scripts" / "nthmp"


def run_script(name: str, *arguments: str) -> None:
    before = sys.argv
    sys.argv = [name, *arguments]
    try:
        runpy.run_path(str(SCRIPTS / name), run_name="__main__")
    finally:
        sys.argv = before


def answers(path: Path) -> Any:
    return json.loads(path.read_text())


def test_the_valley_reads_its_files_and_knows_its_own_records(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A beach in place of the valley: a wave of 2 cm arrives later than 10 s, and the records are those of the run with its roughness."""
    x, y = 0.014 * np.arange(393), 0.014 * np.arange(244)
    depth = np.minimum(0.135, (4.9 - x) / 4)[:, None] + 0.0 * y
    points = np.stack(np.broadcast_arrays(x[:, None], y, depth), axis=-1).reshape(-1, 3)
    np.savetxt(tmp_path / "Benchmark_2_Bathymetry.txt", points, header="x y z", comments="", fmt="%.5e")
    t = np.linspace(0, 22.5, 451)
    np.savetxt(tmp_path / "Benchmark_2_input.txt", np.stack([t, 0.02 * np.exp(-((t - 8) ** 2))], axis=1), header="t eta", comments="")
    script = runpy.run_path(str(SCRIPTS / "valley.py"))
    times = np.arange(0, 14, 0.05)
    file = tmp_path / "output_ch5-7-9.csv"
    np.savetxt(file, np.stack([times] + 3 * [0 * times], axis=1), delimiter=",", header="time,ch5,ch7,ch9", comments="")
    tank = script["read"](tmp_path, 8)
    seconds, traces, highest = script["flood"](tank, 0.03, 14.0, 2.0, "f32")
    rows = [np.interp(times, seconds, 100 * trace) for trace in traces.T]
    np.savetxt(file, np.stack([times, *rows], axis=1), delimiter=",", header="time,ch5,ch7,ch9", comments="")
    assert max(map(np.max, rows)) > 1.5 and 0.02 < np.nanmax(highest) < 0.06
    options = ("--every", "8", "--until", "14", "--fastest", "2", "--out", str(tmp_path))
    run_script("valley.py", str(tmp_path), *options, "--roughness", "0.03")
    assert all(row["reduction"] > 0.9999 for row in answers(tmp_path / "valley.json")["gauges"].values())
    run_script("valley.py", str(tmp_path), *options, "--gradient", "--roughness", "0.02")
    slopes = answers(tmp_path / "gradient.json")
    assert slopes["of the roughness"] < 0 < slopes["misfit"]  # the records have a rougher bed
    assert slopes["error along the wave"] < 1e-4 and slopes["error along the roughness"] < 1e-2
    assert "run-up" in capsys.readouterr().out


def test_the_island_shifts_the_clock_of_its_records(tmp_path: Path) -> None:
    """Records that are the run itself, by another clock and above a level at rest that is not 0."""
    script = runpy.run_path(str(SCRIPTS / "island.py"))
    times, traces = script["run"]("C", 0.3)
    clock = np.arange(20.0, 45.0, 0.04)
    levels = [np.interp(clock - 26.0, times, traces[:, k], left=0.0) + 0.003 for k in (0, 0, 0, 0, 1, 2, 3, 4)]
    lines = [f"{row[0]:.2f}" + "".join(f" {value:.6f}" for value in row[1:]) for row in np.stack([clock, *levels], axis=1)]
    (tmp_path / "ts2cnew1.txt").write_text("\r\n".join(["A header of words", "", "TIME g1 g2 g3 g4 g6 g9 g16 g22", *lines]))
    run_script("island.py", str(tmp_path), "--case", "C", "--cell", "0.3", "--out", str(tmp_path))
    rows = answers(tmp_path / "island_C.json")
    assert list(rows) == ["1 to 4", "6", "9", "16", "22"]
    assert all(row["reduction"] > 0.999 and abs(row["late"]) < 0.05 for row in rows.values()), rows
