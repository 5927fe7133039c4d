"""Scenes of steady problems: one step, of which the solution alone is compared with records."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from diffsim.errors import SceneError
from diffsim.scene import Scene
from diffsim.scene.shots.truth import observe
from diffsim.scene.shots.workers import HERE

ROD: dict[str, Any] = {
    "name": "rod",
    "seed": 3,
    "grid": {"shape": [20], "spacing": 0.05, "axes": ["x"]},
    "time": {"dt": 1.0, "steps": 1},
    "equation": {"type": "heat", "method": "steady", "boundary": "zero", "heated": True},
    "fields": {"s": {"constant": 2.0}, "T": {"constant": 0.3}},
    "receivers": {"T": {"points": [[0.2], [0.5], [0.75]]}},
    "unknowns": {"kappa": {"start": {"constant": 1.0}, "transform": "log", "regions": {"constant": 0.0}}},
    "truth": {"noise": 0.1, "refine": 1.0, "fields": {"kappa": {"constant": 2.0}}},
    "misfit": [{"of": "traces", "state": "T"}],
    "optimise": {"iterations": 8},
}


def test_noise_is_that_of_the_solution_and_the_guess_is_not_compared() -> None:
    scene = Scene(**ROD)
    observed = observe(scene, scene.problem("f64").setup, HERE)
    (data,) = observed.traces["T"]
    assert data.shape == (2, 3) and np.isnan(data[0]).all() and np.isfinite(data[1]).all()
    clean = Scene(**ROD | {"truth": {**ROD["truth"], "noise": 0.0}})
    (solution,) = observe(clean, clean.problem("f64").setup, HERE).traces["T"]
    assert observed.noise["traces", "T"] == pytest.approx(0.1 * np.sqrt(np.mean(solution[1] ** 2)), rel=1e-12)


@pytest.mark.parametrize("kind", ["one row", "a row for the guess", "times"])
def test_a_record_is_of_the_solution(kind: str, tmp_path: Path) -> None:
    clean = Scene(**ROD | {"truth": {**ROD["truth"], "noise": 0.0}})
    (solution,) = observe(clean, clean.problem("f64").setup, HERE).traces["T"]
    rows = solution[1:] if kind != "a row for the guess" else np.stack([np.full(3, 7.0), solution[1]])
    if kind == "times":
        table = "\n".join(f"{k},1.0,{value}" for k, value in enumerate(rows[0]))
        (tmp_path / "T.csv").write_text(f"receiver,time,value\n{table}\n")
        data: dict[str, Any] = {"path": str(tmp_path / "T.csv")}
    else:
        np.save(tmp_path / "T.npy", rows)
        data = {"path": str(tmp_path / "T.npy"), "dt": 1.0}
    tables = {key: value for key, value in ROD.items() if key != "truth"}
    outcome = Scene(**tables | {"data": {"T": data}}).run(precision="f64")
    assert outcome.unknowns["kappa"].answer[0] == pytest.approx(2.0, rel=1e-4)


def test_more_steps_are_refused() -> None:
    with pytest.raises(SceneError, match=r"^time: expected one step, .* steady equation heat, found 3; write dt = 1.0 and steps = 1$"):
        Scene(**ROD | {"time": {"dt": 1.0, "steps": 3}}).problem("f64")
