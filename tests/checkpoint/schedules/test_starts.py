"""Schedules know how often they begin a run of consecutive steps: a plan prices each."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from diffsim.checkpoint import Binomial, MultiTier, Online, Spilling, Tier, simulate

END = (1, 2)
"""Starts that the end adds: the last step is recorded, and reversed by itself if more are kept."""


@settings(deadline=None, max_examples=80)
@given(steps=st.integers(1, 400), slots=st.integers(1, 60), disk=st.integers(1, 9), every=st.integers(1, 90))
def test_starts_are_those_of_the_actions(steps, slots, disk, every):
    tier = Tier("disk", disk, 3.0, 2.0)
    every = max(every, -(-steps // (disk + 1)))
    schedules = [
        Binomial(steps, min(slots, steps)),
        MultiTier(steps, (Tier("device", slots), tier)),
        Spilling(steps, slots, tier, every),
    ]
    for schedule in schedules:
        assert simulate(schedule).starts - schedule.starts in END, schedule
    assert simulate(Online(slots), steps).starts == Online(slots).starts_of(steps)
