"""Shots that run together have the bits of shots that run alone, and run together where that is faster."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import diffsim.scene.search.search as search
import diffsim.scene.shots.together as together
from diffsim.scene.run import run_scene
from diffsim.scene.search.objective import Evaluation, Objective
from diffsim.scene.shots.together import Several, most_together
from tests.sampled import sampled
from tests.scene.tiny import ACOUSTIC, HEAT, scene

FIVE = {"lines": [{"start": [20.0, 10.0], "stop": [20.0, 90.0], "count": 5}], "fire": "in turn"}


def survey(**changes: Any) -> dict[str, Any]:
    base = copy.deepcopy(ACOUSTIC)
    del base["sources"]["f"]["lines" if "lines" in base["sources"]["f"] else "points"]
    base["sources"]["f"] |= FIVE
    return base | changes


def evaluated(objective: Objective, theta: np.ndarray, size: int, **given: Any) -> tuple[Evaluation, float]:
    problem = replace(objective.problem, forward=replace(objective.problem.forward, together=size))
    mine = Objective(problem, objective.observed)
    return mine.evaluate(theta, **given), mine.value(theta)


def require_same_bits(found: Evaluation, expected: Evaluation) -> None:
    assert found.parts == expected.parts
    np.testing.assert_array_equal(found.gradient, expected.gradient)
    for mine, other in ((found.by_cell, expected.by_cell), (found.predicted, expected.predicted)):
        for name in other:
            np.testing.assert_array_equal(mine[name], other[name])


@pytest.mark.parametrize(("precision", "sizes"), sampled([("f64", (2,)), ("f64", (3, 5)), ("f32", (2, 3, 5))]))
def test_groups_of_any_size_have_the_same_bits(precision: str, sizes: tuple[int, ...]) -> None:
    objective = scene(survey()).objective(precision)
    theta = objective.problem.theta
    theta = theta + 0.1 * np.random.default_rng(1).standard_normal(theta.size)
    alone, value = evaluated(objective, theta, 1)
    assert len(alone.predicted["traces", "p"]) == 5
    for size in sizes:
        evaluation, again = evaluated(objective, theta, size)
        require_same_bits(evaluation, alone)
        assert again == value
    some = np.array([3, 0, 2])
    require_same_bits(evaluated(objective, theta, 2, shots=some)[0], evaluated(objective, theta, 1, shots=some)[0])


def test_an_unknown_wavelet_has_the_same_bits() -> None:
    changes = {"unknowns": {"f": {}}, "penalty": [], "fields": {"c": {"constant": 2000.0}}, "accept": []}
    changes["truth__fields"] = {"f": {"wavelet": {"type": "ricker", "frequency": 32.0, "delay": 0.016}}}
    objective = scene(survey(), **changes).objective("f64")
    theta = objective.problem.theta + 0.1
    require_same_bits(evaluated(objective, theta, 3)[0], evaluated(objective, theta, 1)[0])


def test_the_size_of_groups() -> None:
    problem = scene(survey()).problem("f64")
    setup, checkpoint = problem.setup, problem.checkpoint
    assert most_together(setup, checkpoint, 5) == 5
    cells, each = together.CELLS, setup.simulation.predicted_bytes(problem.schedule)
    with pytest.MonkeyPatch.context() as patch:
        for fits, size in ((4.5, 3), (3.2, 3), (2.0, 2), (1.9, 1)):
            patch.setattr(together, "CELLS", int(fits * setup.grid.size))
            assert most_together(setup, checkpoint, 5) == size
        patch.setattr(together, "CELLS", cells)
        patch.setattr(together, "available_memory", lambda: int(4.5 * each / together.SHARE))
        assert most_together(setup, checkpoint, 5) == 3
    assert most_together(scene(HEAT).problem("f64").setup, "auto", 1) == 1


METHODS: dict[str, tuple[dict[str, Any], set[int]]] = {
    "L-BFGS-B": ({}, {2, 3}),
    "gauss-newton": ({}, {2, 3}),
    "adam": ({"batch": 2}, {2}),
}
"""Further settings, and the sizes of groups of five shots of which three fit."""


@pytest.mark.parametrize("method", sampled(METHODS, gate=["gauss-newton"]))
def test_a_search_that_takes_long_has_the_same_bits(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    settings, sizes = METHODS[method]
    case = scene(survey(optimise={"method": method, "iterations": 4, **settings}))
    expected = run_scene(case, precision="f64")
    groups: list[int] = []
    original = Several.vjp

    def counted(self: Several, *args: Any) -> Any:
        groups.append(len(self.shots))
        return original(self, *args)

    monkeypatch.setattr(Several, "vjp", counted)
    monkeypatch.setattr(search, "SECONDS", 0.0)
    monkeypatch.setattr(together, "CELLS", 3 * case.problem().setup.grid.size)
    outcome = run_scene(case, precision="f64")
    assert set(groups) == sizes
    assert [each.loss for each in outcome.history] == [each.loss for each in expected.history]
    for name, unknown in expected.unknowns.items():
        np.testing.assert_array_equal(outcome.unknowns[name].answer, unknown.answer)
