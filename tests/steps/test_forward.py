"""Every step against the same step in NumPy."""

from __future__ import annotations

import numpy as np
import pytest

from tests.steps import MARKED
from tests.steps.step import Step
from tests.steps.test_gradient import simulation

ROUND_OFF = 1e-12  # relative to the largest value, after some steps


@pytest.mark.parametrize("step", MARKED, ids=lambda step: step.name)
def test_a_run_equals_numpy(step: Step) -> None:
    run, inputs = simulation(step), step.all_inputs()
    solution, wanted = run.run(inputs, step.steps), step.by_numpy(inputs, run.equation)
    for name, values in wanted.final.items():
        assert np.abs(values - inputs[name]).max() > 1e-3 * np.abs(values).max(), f"{name} hardly moves"
        assert np.abs(solution.final[name] - values).max() <= ROUND_OFF * np.abs(values).max(), name
    for name, values in wanted.traces.items():
        assert np.abs(solution.traces[name] - values).max() <= ROUND_OFF * np.abs(wanted.final[name]).max(), name
