"""Every stage that is a linear function of one field: a new one is tested by one entry of `STAGES`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest

import diffsim as ds
from diffsim.checkpoint import StoreAll
from diffsim.expr import sin
from tests.stepping.stages.test_host_stage import STEPS, Given, inputs, loss

ROUND_OFF = 1e-13
DOT_PRODUCT = 1e-12  # relative to the sum of the magnitudes


class Stage(NamedTuple):
    """A stage of a step, and the same function of an array by NumPy."""

    symbolic: Callable[[Any], Any]
    by_numpy: Callable[[np.ndarray], np.ndarray]


STAGES = {
    "running sum": Stage(lambda x: ds.running_sum(x, 0), lambda x: x.cumsum(0)),
    "running sum from above": Stage(lambda x: ds.running_sum(x, 1, reverse=True), lambda x: x[:, ::-1].cumsum(1)[:, ::-1]),
}


@pytest.fixture(params=STAGES.values(), ids=STAGES.keys())
def stage(request: pytest.FixtureRequest) -> Stage:
    return request.param


def test_equals_numpy(stage: Stage) -> None:
    run = ds.Simulation(Given(lambda u, k, q: {"u": stage.symbolic(k * sin(u))}), precision="f64")
    fields = inputs(run)
    wanted = stage.by_numpy(fields["k"] * np.sin(fields["u"]))
    assert np.abs(run.run(fields, 1).final["u"] - wanted).max() <= ROUND_OFF * np.abs(wanted).max()


def test_derivatives(stage: Stage) -> None:
    """Dot products along random directions; Taylor slopes and all schedules by the certificate; the stored bits from few states."""
    run = ds.Simulation(Given(lambda u, k, q: {"u": 0.5 * u + 0.05 * k * stage.symbolic(k * sin(u)).shifted(0, 1)}), precision="f64")
    fields, rng = inputs(run), np.random.default_rng(1)
    _, pullback = run.vjp(fields, STEPS)
    for _ in range(3):
        move = {name: rng.standard_normal(values.shape) for name, values in fields.items()}
        bar = rng.standard_normal(fields["u"].shape)
        left = bar * run.jvp(fields, move, STEPS)[1].final["u"]
        back = pullback(ds.Solution(final={"u": bar}))
        assert abs(left.sum() - sum((back[name] * move[name]).sum() for name in move)) <= DOT_PRODUCT * np.abs(left).sum()
    assert ds.certify(run, loss, fields, STEPS).passed
    stored, few = (run.value_and_grad(loss, fields, STEPS, checkpoint=how)[1] for how in (StoreAll(STEPS), 2))
    assert all(stored[name].tobytes() == few[name].tobytes() for name in fields)
