"""A cotangent that grows exponentially is noticed; one that does not is not."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import diffsim as ds
from diffsim.checkpoint import Binomial, ChaosWarning, GrowthMonitor, Online
from diffsim.checkpoint.actions import Advance, EndForward, Reverse

STEPS = 4000
RATE = 0.01


def seen(size):
    """A monitor that saw `size(steps reversed)` along a run."""
    now = 0.0
    monitor = GrowthMonitor(lambda: now, 1e-7)
    for n in reversed(range(STEPS)):
        now = size(STEPS - n)
        monitor(Reverse(n, n + 1))
    return monitor


rng = np.random.default_rng(0)
QUIET = {
    "constant": lambda n: 1.0,
    "noise": lambda n: rng.uniform(0.5, 1.5),
    "a power": lambda n: float(n) ** 1.5,
    "a jump at the start": lambda n: 1e9 if n > 30 else 1.0,
    "decay": lambda n: np.exp(-RATE * n),
    "zero": lambda n: 0.0,
    "no number": lambda n: np.nan,
}


@pytest.mark.parametrize("name", QUIET)
def test_no_alarm_without_exponential_growth(name, recwarn):
    monitor = seen(QUIET[name])
    assert monitor.found() is None
    monitor.warn()
    assert not recwarn


def test_exponential_growth_is_measured():
    growth = seen(lambda n: rng.uniform(0.3, 3.0) * np.exp(RATE * n)).found()
    assert growth is not None
    assert growth.rate == pytest.approx(RATE, rel=0.05)
    assert growth.horizon == pytest.approx(np.log(1e7) / RATE, rel=0.05)
    assert abs(np.log(growth.factor) - RATE * STEPS) < np.log(10)  # the noise of the first sample over that of the last


def test_the_warning_gives_rate_and_horizon():
    with pytest.warns(ChaosWarning, match=r"by exp\(1\.00e-02\) a step.*beyond about 16\d\d steps"):
        seen(lambda n: np.exp(RATE * n)).warn()


def test_few_samples_are_taken():
    calls = []
    monitor = GrowthMonitor(lambda: calls.append(0) or 1.0, 1e-7)
    for action in Binomial(100_000, 30).actions():
        monitor(action)
    assert 45 <= len(calls) <= 51


@pytest.mark.parametrize(("state_rate", "alarm"), [(0.0, True), (RATE, False), (0.2 * RATE, True)])
def test_a_state_that_grows_alike_is_no_chaos(state_rate, alarm):
    step = 0
    monitor = GrowthMonitor(lambda: np.exp(RATE * (STEPS - step)), 1e-7, lambda: 0.0 if step < 3 else np.exp(state_rate * step))
    for n in range(STEPS):
        step = n + 1
        monitor(Advance(n, n + 1))
    monitor(EndForward(STEPS))
    for n in reversed(range(STEPS)):
        step = n
        monitor(Reverse(n, n + 1))
    growth = monitor.found()
    assert (growth is not None) == alarm
    if growth is not None:
        assert growth.rate == pytest.approx(RATE - state_rate, rel=0.05)


@pytest.mark.parametrize(
    ("sizes", "suspected"),
    [([1.0, 2e6], True), ([1.0, 5e5], False), ([0.0, 1.0], True), ([1.0, 0.0], False), ([0.0, 0.0], False), ([1.0, np.inf], True)],
)
def test_a_sweep_in_one_piece_tells_whether_to_look_closer(sizes, suspected):
    """The size at its start and at its end; one that is zero or not finite says nothing."""
    monitor = GrowthMonitor(lambda: sizes[1], 1e-7)
    monitor.begin(1000, lambda: sizes[0])
    monitor(Reverse(0, 1000))
    assert (monitor.suspected, monitor.found()) == (suspected, None)


def test_few_steps_are_not_suspected():
    monitor = GrowthMonitor(lambda: 1e9, 1e-7)
    monitor.begin(99, lambda: 1.0)
    monitor(Reverse(0, 99))
    assert not monitor.suspected


def test_a_run_that_ends_early_is_sampled_as_finely():
    calls = []
    monitor = GrowthMonitor(lambda: calls.append(0) or 1.0, 1e-7)
    for action in Online(2).online_actions(lambda: 150):
        if isinstance(action, Reverse):
            monitor(action)
    assert len(calls) == 50


def test_the_warning_is_at_the_users_line(recwarn):
    seen(lambda n: np.exp(RATE * n)).warn()
    assert recwarn.pop(ChaosWarning).filename == __file__


def test_a_line_warns_once_however_often_it_runs():
    """Its numbers differ from call to call, so Python by itself would take each text for another warning."""
    monitors = [seen(lambda n, r=r: np.exp(r * n)) for r in RATE * np.linspace(1.0, 2.0, 5)]

    def shown(action, *lines):
        with warnings.catch_warnings(record=True) as warned:
            warnings.resetwarnings()
            warnings.simplefilter(action)
            for line in lines:
                for monitor in monitors:
                    line(monitor)
        return len(warned)

    def first(monitor):
        monitor.warn()

    def second(monitor):
        monitor.warn()

    assert shown("default", first) == 1
    assert shown("default", first, second) == 2, "filters that are set anew begin anew"
    assert shown("always", first) == 5
    assert shown("ignore", first) == 0
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for monitor in monitors:
            with pytest.raises(ChaosWarning):
                first(monitor)


def test_the_warning_does_not_call_an_epidemic_chaotic():
    rate, gamma, dt = 2.0, 0.3, 0.1

    def infected(i):
        def step(_, state):
            s, i = state
            return s - dt * rate * s * i, i + dt * (rate * s - gamma) * i

        return ds.fori_loop(0, 120, step, (1.0, i))[1]

    with pytest.warns(ChaosWarning, match="or something small grows out of an unstable state, such as a front or an epidemic"):
        ds.grad(infected)(1e-12)
