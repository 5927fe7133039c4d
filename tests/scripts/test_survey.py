"""The surveys of scripts/survey: their files fit the recipe, and the recipe finds the rock."""

from __future__ import annotations

import shutil
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from diffsim.scene import Scene
from diffsim.scene.notes import notes_of

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "scripts" / "survey"))
foreign = pytest.importorskip("foreign")  # needs segyio

needs_compiler = pytest.mark.skipif(shutil.which("cc") is None, reason="a C program makes the records, and there is no compiler")


def small(name: str) -> foreign.Model:
    """A survey of two short shots over a seabed."""
    model = foreign.MODELS[name]
    return replace(model, shots=2, seconds=model.seconds / 10)


@needs_compiler
@pytest.mark.parametrize("name", ["dome", pytest.param("deltas", marks=pytest.mark.slow)])
def test_the_recipe_takes_files_of_all_kinds(name: str, tmp_path: Path) -> None:
    model = small(name)
    foreign.make(tmp_path, model)
    problem = Scene.load(tmp_path / "fwi.toml", foreign.yours(model)).problem("f32")
    assert notes_of(problem) == []
    z, x = (problem.setup.grid.coordinates(axis) for axis in range(2))
    free, start = problem.free["c"], problem.start["c"]
    bottom = model.bottom(x)[None, :]
    assert not free[(z[:, None] < bottom - 2 * model.spacing) * np.ones(free.shape, bool)].any()
    assert free[np.ix_(z > bottom.max() + 2 * model.spacing, (x > 0) & (x < model.width))][:-12].all()
    inside = np.ix_((z > 0) & (z < model.depth), (x > 0) & (x < model.width))
    exact = model.start(z[:, None], x[None, :])
    assert np.sqrt(np.mean((start - exact)[inside] ** 2)) < 40.0
    heard = problem.setup.data["p"].values
    assert heard.shape[0] == 2 and np.isfinite(heard).all()
    predicted = next(problem.setup.predict({"c": start}, [0])).traces["p"]
    assert np.abs(predicted).max() == pytest.approx(np.abs(heard[0]).max(), rel=0.2)  # of one wavelet, by two programs


@needs_compiler
@pytest.mark.slow
def test_the_recipe_finds_the_rock_of_a_survey_that_it_has_not_seen(tmp_path: Path) -> None:
    figures = foreign.search(foreign.MODELS["deltas"], tmp_path)
    assert figures["final"] < figures["first"] / 10
    assert figures["after"] < 0.8 * figures["before"]
