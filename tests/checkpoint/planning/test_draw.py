"""The picture of a schedule shows its work and what it keeps, and stays small for long runs."""

from __future__ import annotations

import matplotlib.image
import numpy as np
import pytest
from matplotlib.collections import LineCollection, PolyCollection
from matplotlib.colors import to_hex
from matplotlib.lines import Line2D

from diffsim.checkpoint import (
    Binomial,
    Costs,
    Keep,
    Mixed,
    MultiTier,
    Online,
    PartlyRecorded,
    Policy,
    Reversible,
    Sizes,
    Spilling,
    StoreAll,
    Tier,
    choose,
    simulate,
)
from diffsim.checkpoint.planning.draw import FORWARD, KEPT, RECORDED, REVERSED, UNDONE, UP, draw, figure_of

COSTS = Costs(advance=2e-3, record=2e-3, reverse=5e-3, reverse_recorded=4e-3, undo=3e-3)
SLOW = Costs(advance=2e-3, record=2e-3, reverse=0.1, reverse_recorded=0.08, undo=0.05)
"""Its adjoint takes as long as 50 steps."""
TIERS = (Tier("device", 3), Tier("disk", 5, 2.0, 1.0))
SHOWN = [
    (Binomial(40, 4), {FORWARD, REVERSED, KEPT["device"]}),
    (Spilling(40, 3, TIERS[1]), {FORWARD, REVERSED, KEPT["device"], KEPT["disk"]}),
    (StoreAll(40), {RECORDED, REVERSED}),
    (Online(4), {FORWARD, REVERSED, KEPT["device"]}),
    (Reversible(40), {FORWARD, REVERSED, UNDONE, KEPT["device"]}),
    (Mixed(40, 12, 2, 1), {FORWARD, RECORDED, REVERSED, KEPT["device"]}),
    (PartlyRecorded(40, 12), {FORWARD, RECORDED, REVERSED, KEPT["device"]}),
    (MultiTier(40, TIERS), {FORWARD, REVERSED, KEPT["device"], KEPT["disk"]}),
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
    drawn = {to_hex(c.get_color()[0]) for c in collections(schedule, 40) if isinstance(c, LineCollection)}
    assert drawn == colours
    areas = [c for c in collections(schedule, 40) if isinstance(c, PolyCollection)]
    assert bool(areas) == (RECORDED in colours)
    (legend,) = figure_of(schedule, 40).legends
    labelled = {to_hex(handle.get_color()) for handle in legend.legend_handles if isinstance(handle, Line2D)}
    assert labelled == colours
    assert ("residuals kept" in {text.get_text() for text in legend.get_texts()}) == bool(areas)


@pytest.mark.parametrize("schedule", [shown[0] for shown in SHOWN], ids=lambda v: type(v).__name__)
@pytest.mark.parametrize("costs", [None, COSTS, SLOW], ids=["unmeasured", "measured", "slow"])
def test_the_forward_run_is_never_squeezed(schedule, costs):
    """It has its share of the width, whatever the adjoint takes, and the axis says so where that is not to scale."""
    (axes,) = figure_of(schedule, 40, costs).axes
    (last,) = {x for line in axes.lines for x in line.get_xdata()}
    assert last == 40
    assert axes.get_xlim()[1] <= max(schedule.advances_of(40) if isinstance(schedule, Online) else 40 + schedule.advances, 40) + 8 * 40
    assert ("drawn as 4" in axes.get_xlabel()) == (costs is SLOW)
    assert ("steps forward of 2 ms" in axes.get_xlabel()) == (costs is not None)


@pytest.mark.parametrize("schedule", [Reversible(40), Reversible(100_000)], ids=["few", "many"])
def test_steps_backwards_are_seen_beside_their_adjoint(schedule):
    drawn = {to_hex(c.get_color()[0]): c for c in collections(schedule, schedule.steps) if isinstance(c, LineCollection)}
    assert drawn[UNDONE].get_linewidth()[0] > 3 * drawn[REVERSED].get_linewidth()[0]


def test_the_title_tells_what_it_takes():
    plan = choose(Policy(memory="40 kB"), 20_000, Sizes(1000, 2000), COSTS)
    (axes,) = figure_of(plan.schedule, plan.steps, plan.costs, plan.chosen.peak, 5_000_000).axes
    title, runs = axes.get_title(), plan.chosen.forward / plan.steps
    for word in ("Gradient of 20 000 steps", f"{plan.schedule.slots} states", "(binomial)", f"{runs:.3g} forward runs", " kB of memory"):
        assert word in title
    assert "5 MB on disk" in title and "predicted" in title
    (axes,) = figure_of(StoreAll(7), 7).axes
    assert axes.get_title() == "Gradient of 7 steps, keeping every step (store all)\n1 forward run and one adjoint"


@pytest.mark.parametrize("steps", [1, 3, 20, 999, 100_000])
def test_ticks_are_whole_steps_of_the_run(steps):
    (axes,) = figure_of(StoreAll(steps), steps).axes
    for axis, end in ((axes.yaxis, steps), (axes.xaxis, axes.get_xlim()[1])):
        ticks = axis.get_majorticklocs()
        assert len(ticks) > 1 and ticks[0] == 0 and ticks[-1] <= end and (ticks == np.round(ticks)).all()


@pytest.mark.parametrize("schedule", [Binomial(30_000, 200), Mixed(30_000, 60, 2, 1)], ids=lambda v: type(v).__name__)
def test_the_lines_of_a_long_run_go_where_it_goes(schedule):
    """Rows that are joined stay where they are: the first run ends in the final state, after as many steps."""
    steps = 30_000
    at = np.linspace(0, steps, 200)
    first = [line for line in lines(schedule, steps, FORWARD) if line[0][0] < steps * 0.99]
    heights = [np.interp(at, line[:, 0], line[:, 1], left=np.nan, right=np.nan) for line in map(np.array, first)]
    assert np.nanmax(np.abs(np.array(heights) - at)) <= 2 * steps / UP


@pytest.mark.parametrize("schedule", [Binomial(40, 4), Online(4), MultiTier(40, TIERS)], ids=lambda s: type(s).__name__)
def test_every_step_is_reversed_in_the_picture(schedule):
    steps = np.zeros(40, int)
    for (_, top), (_, bottom) in lines(schedule, 40, REVERSED):
        steps[round(bottom) : round(top)] += 1
    assert (steps == 1).all()


def test_the_work_adds_up():
    schedule = Binomial(40, 4)
    forward = sum(end[1] - begin[1] for begin, end in lines(schedule, 40, FORWARD))
    assert forward == schedule.advances + 1
    (axes,) = figure_of(schedule, 40).axes
    assert axes.get_xlim()[1] == schedule.advances + 1 + 3 * 40
    runs = sum(action.stop - action.start for action in schedule.actions() if isinstance(action, Keep))
    assert len(lines(schedule, 40, KEPT["device"])) == simulate(schedule).writes[0] + runs


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
