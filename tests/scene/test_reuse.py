"""Nothing is taken over from a run that differs in anything that decides its numbers."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from diffsim.scene import Scene
from diffsim.scene.disk.folder import FREE, identify
from diffsim.scene.search.objective import Objective
from diffsim.scene.shots.misfits import Misfits
from diffsim.scene.shots.shots import ShotFile
from diffsim.scene.shots.truth import observe
from tests.sampled import sampled
from tests.scene.tiny import ACOUSTIC, DRIVEN, HEAT, WAVE, scene

BASES = {base["name"]: base for base in (ACOUSTIC, HEAT, WAVE, DRIVEN)}


def another(value: Any) -> list[Any]:
    """Other values of the kind; one of them will do."""
    match value:
        case bool():
            return [not value]
        case int():
            return [value + 1, value + 2, max(value - 1, 0)]
        case float():
            return [value * 1.01 + 0.01, value * 0.99]
        case str():
            known = ("zero", "mirror", "periodic", "linear", "cubic", "plane", "sphere", "traces", "final", "identity", "log", "logit")
            return [*(word for word in known if word != value), f"{value}2", "in turn", "together"]
        case None:
            return [1, 2.5, 1e6, [0.5, 0.5], ["a", "b"], "correlation", {"margin": 1}, {"constant": 1.0}, 0.0]
    return []


def leaves(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Places of all that is no table and no list."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, (list, tuple)) else None
    return [path] if items is None else [end for key, inner in items for end in leaves(inner, (*path, key))]


def changed(base: Scene, path: tuple[Any, ...]) -> Scene | None:
    """The scene with another value at a place; None: no other is valid there alone."""
    data = base.model_dump(mode="json")
    holder = data
    for key in path[:-1]:
        holder = holder[key]
    for value in another(holder[path[-1]]):
        holder[path[-1]] = value
        try:
            other = type(base)(**data)
        except ValueError:
            continue
        if other != base:
            return other
    return None


@pytest.mark.parametrize("name", BASES)
def test_every_key_that_decides_the_numbers_is_part_of_the_key(name: str) -> None:
    """Changes of every key of the schema for which these scenes have a value or a default."""
    base = scene(BASES[name])
    known, tried = identify(base, "f64").search, 0
    for path in leaves(base.model_dump(mode="json")):
        free = path[0] in FREE or path == ("optimise", "iterations")
        other = changed(base, path)
        if other is not None:
            tried += 1
            assert (identify(other, "f64").search == known) == free, path
    assert tried > 50
    assert identify(base, "f32").search != known


def test_the_content_of_a_data_file_is_part_of_the_key(tmp_path: Path) -> None:
    case = scene(ACOUSTIC, unknowns__c__start={"file": {"path": str(tmp_path / "c.npy")}})
    np.save(tmp_path / "c.npy", np.full((16, 15), 2000.0))
    before = identify(case, "f64").search
    np.save(tmp_path / "c.npy", np.full((16, 15), 2001.0))
    assert identify(case, "f64").search != before


CHANGES: dict[str, dict[str, Any]] = {
    "another truth": {"truth__fields__c__gaussians": [{"centre": [75.0, 75.0], "width": 20.0, "amplitude": -200.0}]},
    "another weight": {"misfit__0__weight": 3.0},
    "other noise": {"seed": 4},
    "another source": {"sources__f__points__1": [110.0, 35.0]},
}


@pytest.fixture(scope="module")
def theta() -> np.ndarray:
    return scene(ACOUSTIC).problem("f64").theta


@pytest.mark.parametrize("change", sampled(CHANGES))
def test_a_killed_evaluation_is_not_gone_on_with_by_another_scene(change: str, tmp_path: Path, theta, monkeypatch) -> None:
    """Both in one folder, at the same unknowns; and by the same scene it is."""

    def objective(**changes: Any) -> Objective:
        case = scene(ACOUSTIC, **changes)
        problem = case.problem("f64")
        policy = dataclasses.replace(problem.checkpoint, folder=tmp_path, resume=1e-9)
        return Objective(dataclasses.replace(problem, checkpoint=policy), observe(case, problem.setup))

    first, other = objective(), objective(**CHANGES[change])
    keep = ShotFile.keep

    def killed(self: ShotFile, sums: Any) -> None:
        keep(self, sums)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(ShotFile, "keep", killed)
        with pytest.raises(KeyboardInterrupt):
            first.evaluate(theta)
    assert list(tmp_path.glob("shots-*"))

    runs: list[int] = []
    vjp = type(other.problem.setup.simulation).vjp
    monkeypatch.setattr(type(other.problem.setup.simulation), "vjp", lambda self, *a, **k: runs.append(0) or vjp(self, *a, **k))
    evaluation = other.evaluate(theta)
    assert len(runs) == 2  # both shots
    expected = scene(ACOUSTIC, **CHANGES[change]).objective("f64").evaluate(theta)
    assert evaluation.value == expected.value
    np.testing.assert_array_equal(evaluation.gradient, expected.gradient)
    runs.clear()
    first.evaluate(theta)
    assert len(runs) == 1  # the second


def test_a_killed_evaluation_is_not_gone_on_with_at_other_unknowns(tmp_path: Path, theta, monkeypatch) -> None:
    problem = scene(ACOUSTIC).problem("f64")
    policy = dataclasses.replace(problem.checkpoint, folder=tmp_path, resume=1e-9)
    objective = Objective(dataclasses.replace(problem, checkpoint=policy), observe(problem.scene, problem.setup))

    def killed(self: ShotFile, sums: Any) -> None:
        keep(self, sums)
        raise KeyboardInterrupt

    keep = ShotFile.keep
    with monkeypatch.context() as patch:
        patch.setattr(ShotFile, "keep", killed)
        with pytest.raises(KeyboardInterrupt):
            objective.evaluate(theta)
    assert list(tmp_path.glob("shots-*"))
    evaluation, expected = objective.evaluate(theta + 0.1), scene(ACOUSTIC).objective("f64").evaluate(theta + 0.1)
    assert evaluation.value == expected.value
    np.testing.assert_array_equal(evaluation.gradient, expected.gradient)


def test_a_scene_without_a_folder_keeps_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    objective = scene(ACOUSTIC, checkpoint={"schedule": "multi_tier", "slots": 2, "disk": "1 MB", "resume": 1e-9}).objective("f64")
    monkeypatch.setattr(Misfits, "seed", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        objective.evaluate(objective.problem.theta)
    assert not list(tmp_path.iterdir())
