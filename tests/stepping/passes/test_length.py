"""Long expressions are named before their adjoints are derived, with the value to store."""

from __future__ import annotations

import re
import warnings
from typing import Any

import numpy as np
import pytest

import diffsim as ds
from diffsim.errors import LongStepWarning
from diffsim.simulation.prepared.traced import trace
from diffsim.stepping.passes import length


class Stages(ds.Equation):
    """u' = -u du/dx by central differences and Euler steps one after the other, with or without their states stored."""

    def __init__(self, count: int, stored: bool) -> None:
        self.grid, self.dt, self.count, self.stored = ds.Grid((30, 20), 1.0), 0.1, count, stored
        self.states = {"u": ds.Variable("periodic")}

    def step(self, u: Any) -> dict[str, Any]:
        for k in range(self.count):
            slopes = [u.shifted(axis, 1) ** 2 - u.shifted(axis, -1) ** 2 for axis in (0, 1)]
            u = u - self.dt * (slopes[0] + slopes[1] + u * abs(u))
            if self.stored and k < self.count - 1:
                u = ds.stage(u, "periodic")
        return {"u": u}


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(length, "LONG", 100)
    return 100


@pytest.mark.parametrize("count", [3, 4])
def test_the_warning_names_the_value_to_store(count: int, short: int, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.warns(LongStepWarning) as caught:
        ds.Simulation(Stages(count, stored=False))
    (warning,) = caught
    assert warning.filename == __file__
    text = str(warning.message)
    assert text.startswith("the expression for u has ") and "expected at most 100: its adjoint takes about" in text
    assert "neighbouring cells; compute it once a cell by value = ds.stage(value, boundary)" in text
    monkeypatch.setattr(length, "LONG", 10**6)
    sizes = [length.operations(ds.Simulation(Stages(k + 1, stored=False))._step.outputs["u"]) for k in range(count)]
    assert f"has {sizes[-1]} operations" in text
    cells = [2 * k * (k + 1) + 1 for k in range(count - 1, 0, -1)]  # the state after each stage is read at itself and at neighbours
    size, around = max(zip(sizes, cells, strict=False), key=lambda pair: pair[0] * (pair[1] - 1))
    value, places = map(int, re.findall(r"A value of (\d+) operations is computed at (\d+) ", text)[0])
    assert places == around and value in (size, size + 1)  # the state, or its square


def test_stored_stages_are_no_cause(short: int) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        simulation = ds.Simulation(Stages(4, stored=True))
    sizes = [length.operations(each) for each in simulation._step.expressions().values()]
    assert len(sizes) == 4 and max(sizes) < short


def test_a_step_without_an_adjoint_is_not_named(monkeypatch: pytest.MonkeyPatch) -> None:
    simulation = ds.Simulation(Stages(2, stored=False))
    u = np.random.default_rng(0).uniform(0.5, 1.0, (30, 20))
    monkeypatch.setattr(length, "LONG", 10)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        simulation.jvp({"u": u}, {"u": u}, 3)


def test_steps_of_the_field_are_short() -> None:
    from tests.steps import STEPS

    for step in STEPS:
        traced, _ = trace(step.equation(step.shape), step.sources, None)
        assert max(map(length.operations, traced.step.expressions().values()), default=0) < length.LONG / 4, step.name


def test_the_prediction_is_of_the_size_of_a_measurement() -> None:
    """12 s for 5000 operations, and some five times as much for four times the operations."""
    assert np.isclose((20_000 / 5000) ** length.POWER, 7, atol=0.5)
