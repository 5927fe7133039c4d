"""The picture of a schedule shows its work and what it keeps, and stays small for long runs."""

from __future__ import annotations

import matplotlib.image
import numpy as np
import pytest
from matplotlib.collections import LineCollection, PolyCollection
from matplotlib.colors import to_hex

from diffsim.checkpoint import Binomial, Mixed, MultiTier, Online, Policy, Reversible, Sizes, StoreAll, Tier, choose
from diffsim.checkpoint.planning.draw import FORWARD, KEPT, RECORDED, REVERSED, UNDONE, draw, figure_of

TIERS = (Tier("device", 3), Tier("disk", 5, 2.0, 1.0))
SHOWN = [
    (Binomial(40, 4), {FORWARD, RECORDED, REVERSED, KEPT["device"]}),
    (StoreAll(40), {RECORDED, REVERSED}),
    (Online(4), {FORWARD, REVERSED, KEPT["device"]}),
    (Reversible(40), {FORWARD, REVERSED, UNDONE, KEPT["device"]}),
    (Mixed(40, 12, 2, 1), {FORWARD, RECORDED, REVERSED, KEPT["device"]}),
    (MultiTier(40, TIERS), {FORWARD, RECORDED, REVERSED, KEPT["device"], KEPT["disk"]}),
]


def collections(schedule, steps):
    (axes,) = figure_of(schedule, steps).axes
    return axes.collections


def lines(schedule, steps, colour):
    """All lines of a colour, as (begin, end) of (work, step)."""
    drawn = [c for c in collections(schedule, steps) if isinstance(c, LineCollection) and to_hex(c.get_color()[0]) == colour]
    return [segment for c in drawn for segment in c.get_segments()]


@pytest.mark.parametrize(("schedule", "colours"), SHOWN, ids=lambda v: type(v).__name__)
def test_every_kind_of_work_and_storage_is_shown(schedule, colours):
    found = {to_hex(c.get_color()[0]) for c in collections(schedule, 40) if isinstance(c, LineCollection)}
    assert found == colours
    areas = [c for c in collections(schedule, 40) if isinstance(c, PolyCollection)]
    assert bool(areas) == (RECORDED in colours)


@pytest.mark.parametrize("schedule", [Binomial(40, 4), Online(4), MultiTier(40, TIERS)], ids=lambda s: type(s).__name__)
def test_every_step_is_reversed_in_the_picture(schedule):
    steps = np.zeros(40, int)
    for (_, top), (_, bottom) in lines(schedule, 40, REVERSED):
        steps[round(bottom) : round(top)] += 1
    assert (steps == 1).all()


def test_the_work_adds_up():
    schedule = Binomial(40, 4)
    forward = sum(end[1] - begin[1] for colour in (FORWARD, RECORDED) for begin, end in lines(schedule, 40, colour))
    assert forward == schedule.advances + 1
    (axes,) = figure_of(schedule, 40).axes
    assert axes.get_xlim()[1] == schedule.advances + 1 + 3 * 40
    assert len(lines(schedule, 40, KEPT["device"])) == schedule.writes


def test_a_long_run_is_thinned():
    drawn = sum(len(c.get_segments()) for c in collections(Binomial(30_000, 25), 30_000) if isinstance(c, LineCollection))
    assert 100 < drawn < 12_000
    top = max(point[1] for segment in lines(Binomial(30_000, 25), 30_000, FORWARD) for point in segment)
    assert top >= 29_900


def test_a_plan_draws_itself(tmp_path):
    choose(Policy(slots=4), 60, Sizes(8)).draw(tmp_path / "plan.png")
    pixels = matplotlib.image.imread(tmp_path / "plan.png")
    assert (pixels[..., :3].min(axis=2) < 0.9).mean() > 0.01
    draw(StoreAll(3), 3, tmp_path / "plan.svg")
    assert (tmp_path / "plan.svg").read_text().startswith("<?xml")
