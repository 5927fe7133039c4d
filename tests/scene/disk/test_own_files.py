"""The example of docs/data.md, from the command alone: records and bathymetry that another program made, and the field that made them."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from diffsim.command.cli import main
from diffsim.scene.disk.outcome import Outcome

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "data.md").read_text(encoding="utf-8")
(SCENE,) = re.findall(r"^```toml\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
MAKER = ROOT / "scripts" / "gauges" / "make.py"


def maker() -> Any:
    """The script that makes the files, as a module."""
    spec = importlib.util.spec_from_file_location("make_gauges", MAKER)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_files_are_those_of_the_page(tmp_path: Path) -> None:
    maker().write_files(tmp_path)
    assert (tmp_path / "bay.toml").read_text(encoding="utf-8") == SCENE
    (shown,) = re.findall(r"^```text\n(minutes.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
    lines = (tmp_path / "gauges.csv").read_text(encoding="utf-8").splitlines()
    assert lines[: len(shown.splitlines())] == shown.splitlines()


def test_the_example_finds_the_field_that_made_the_records(tmp_path: Path) -> None:
    run = subprocess.run([sys.executable, str(MAKER), str(tmp_path)], capture_output=True, text=True, timeout=300)
    assert run.returncode == 0, run.stderr
    command = [sys.executable, "-m", "diffsim", "run", "bay.toml"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    outcome = Outcome.load(tmp_path / "runs" / "bay")
    y, x, elevation = maker().bay()
    truth = maker().uplift(y, x).reshape(24, 2, 30, 2).mean(axis=(1, 3))
    wet = np.maximum(-elevation, 0).reshape(24, 2, 30, 2).mean(axis=(1, 3)) > 1
    np.testing.assert_allclose(outcome.background["H"], np.maximum(-elevation.reshape(24, 2, 30, 2).mean(axis=(1, 3)), 0), atol=1e-3)
    answer = outcome.unknowns["eta0"].answer
    assert np.corrcoef(answer[wet], truth[wet])[0, 1] > 0.97
    assert np.linalg.norm((answer - truth)[wet]) < 0.2 * np.linalg.norm(truth[wet])


def test_the_mistake_reads_as_the_page_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    (shown,) = re.findall(r"^```text\n(data\.eta.*?)\n```", PAGE, re.DOTALL | re.MULTILINE)
    maker().write_files(tmp_path)
    text = (tmp_path / "gauges.csv").read_text().replace(",15000.0,46000.0", ",15000.0,590000.0")
    (tmp_path / "gauges.csv").write_text(text)
    assert main(["run", str(tmp_path / "bay.toml"), "--out", str(tmp_path / "out")]) == 2
    assert capsys.readouterr().err.strip().endswith(shown.replace("data.eta: ", "", 1).strip())
