from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from diffsim.checkpoint import (
    KINDS,
    Binomial,
    Costs,
    Lossless,
    Measured,
    Mixed,
    Online,
    Policy,
    Reversible,
    Sizes,
    Spilling,
    StoreAll,
    Tier,
    choose,
    parse_memory,
    peak_states,
    resolve,
    simulate,
)
from diffsim.checkpoint.planning import memory as planning_memory
from diffsim.checkpoint.planning.memory import grouped, least_text
from diffsim.errors import ParameterError, PlanError, ScheduleError

from ..toy_model import Segments

COSTS = Costs(advance=1.0, record=1.2, reverse=3.0, reverse_recorded=2.5, undo=1.1, call=0.1, disk_write=4.0, disk_read=2.0)
"""Seconds, made up: of a step whose residuals are worth while."""
SIZES = Sizes(100, 80, 500, 30, 20)


def bytes_needed(schedule, sizes):
    """Peak by execution: what is in slots and residuals, taken at their separate peaks."""
    summary = simulate(schedule)
    return sizes.fixed + summary.peak_slots[0] * sizes.state + summary.peak_record * sizes.record


def smallest(policy, steps, sizes, costs=None):
    """The smallest budget that the error names, to the byte."""
    with pytest.raises(PlanError) as caught:
        choose(replace(policy, memory=1), steps, sizes, costs)
    rounded, exact = re.search(r"at least ([\d.]+ [kMG]?B)(?: \(([\d ]+) bytes\))?", str(caught.value)).groups()
    return parse_memory(rounded if exact is None else f"{exact} bytes")


@settings(deadline=None, max_examples=150)
@given(
    steps=st.integers(1, 60),
    state=st.integers(1, 50),
    recorded=st.none() | st.integers(1, 100),
    working=st.integers(0, 100),
    budget=st.integers(1, 4000),
)
def test_a_choice_by_steps_alone_fits_and_is_the_best_that_fits(steps, state, recorded, working, budget):
    sizes = Sizes(state, recorded, working)
    candidates = [StoreAll(steps), *(Binomial(steps, slots) for slots in range(1, steps + 1))]
    if steps == 1:
        candidates = [StoreAll(1)]  # a slot is of no use to it
    needs = {schedule: bytes_needed(schedule, sizes) for schedule in candidates}
    fitting = [schedule for schedule in candidates if needs[schedule] <= budget]
    if not fitting:
        with pytest.raises(PlanError, match=re.escape(f"at least {least_text(min(needs.values()))} for ")):
            choose(Policy(memory=budget), steps, sizes)
        return
    chosen = choose(Policy(memory=budget), steps, sizes).schedule
    assert needs[chosen] <= budget
    assert chosen.advances == min(schedule.advances for schedule in fitting)


@pytest.mark.parametrize(
    ("budget", "schedule"),
    [(1100, StoreAll(10)), (1099, Binomial(10, 8)), (400, Binomial(10, 2)), (399, Binomial(10, 1)), (300, Binomial(10, 1))],
)
def test_the_edges_of_a_budget(budget, schedule):
    assert choose(Policy(memory=budget), 10, Sizes(100, working=100)).schedule == schedule


def test_large_records_make_binomial_the_choice():
    assert choose(Policy(memory=1000), 10, Sizes(10, 101)).schedule == Binomial(10, 10)


@pytest.mark.parametrize("costs", [None, COSTS], ids=["unmeasured", "measured"])
@pytest.mark.parametrize("kind", KINDS)
def test_the_memory_that_a_refusal_names_works(kind, costs, tmp_path):
    """As it is written, with its unit: what a user copies from the message."""
    policy = Policy(memory="1 kB", schedule=kind, disk="4 GB", folder=tmp_path)
    sizes = Sizes(1_234_567, 777_777, 20_111_111, 3, 5)
    with pytest.raises(PlanError, match="got 1 kB; raise the memory") as caught:
        choose(policy, 50, sizes, costs)
    named = re.search(r"at least ([\d.]+ MB) \(([\d ]+ bytes)\)", str(caught.value)).groups()
    assert parse_memory(named[1]) < parse_memory(named[0])  # so that rounding down would be too little
    for memory in named:
        assert choose(replace(policy, memory=memory), 50, sizes, costs).chosen.peak <= parse_memory(memory)


@pytest.mark.parametrize("costs", [None, COSTS], ids=["unmeasured", "measured"])
@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_by_name_fits_and_its_smallest_budget_works(kind, costs, tmp_path):
    steps, policy = 50, Policy(schedule=kind, disk=4_000_000, folder=tmp_path)
    least = smallest(policy, steps, SIZES, costs)
    for budget in (least, least + 1, 2000, 3000):
        if budget < least:
            continue
        plan = choose(replace(policy, memory=budget), steps, SIZES, costs)
        assert isinstance(plan.schedule, StoreAll if kind == "partly_recorded" else KINDS[kind])  # residuals take no more than states
        assert plan.chosen.peak <= budget
        assert plan.chosen.peak == SIZES.peak(plan.schedule)
    needs = f"at least {least_text(least)} for 50 steps, a state of 100 B and 550 B that every schedule needs"
    with pytest.raises(PlanError, match=re.escape(f"{needs}, got {grouped(least - 1)} bytes; raise")):
        choose(replace(policy, memory=least - 1), steps, SIZES, costs)


@pytest.mark.parametrize("costs", [None, COSTS], ids=["unmeasured", "measured"])
def test_the_smallest_budget_is_that_of_the_smallest_kind(costs):
    least = smallest(Policy(), 50, SIZES, costs)
    assert choose(Policy(memory=least), 50, SIZES, costs).chosen.peak == least
    assert least == min(smallest(Policy(schedule=kind), 50, SIZES, costs) for kind in ("store_all", "binomial"))


@settings(deadline=None, max_examples=30)
@given(
    steps=st.integers(1, 200),
    state=st.integers(1, 9),
    recorded=st.integers(0, 9),
    record=st.floats(0.5, 3),
    reversed_=st.floats(0.5, 5),
    budgets=st.lists(st.integers(1, 1500), min_size=2, max_size=6),
)
def test_more_memory_is_never_slower(steps, state, recorded, record, reversed_, budgets):
    sizes, costs = Sizes(state, recorded, 10), replace(COSTS, record=record, reverse_recorded=reversed_)
    seconds = []
    for budget in sorted(budgets):
        try:
            plan = choose(Policy(memory=budget), steps, sizes, costs)
        except PlanError:
            assert not seconds
            continue
        assert plan.chosen.peak <= budget
        seconds.append(plan.chosen.seconds)
        assert all(plan.chosen.seconds <= other.seconds for other in plan.others if other.fits)
    assert seconds == sorted(seconds, reverse=True)


@pytest.mark.parametrize(
    ("changes", "kind"),
    [
        ({"reverse_recorded": 1.0, "record": 1.0}, Mixed),  # residuals save much
        ({"record": 9.0}, Binomial),  # residuals cost more than many steps
        ({"record": 9.0, "disk_write": 0.1, "disk_read": 0.1}, Spilling),
    ],
)
def test_the_choice_follows_the_costs(changes, kind, tmp_path):
    policy = Policy(memory=2000, folder=tmp_path, disk=4_000_000 if kind is Spilling else None)
    assert isinstance(choose(policy, 400, SIZES, replace(COSTS, **changes)).schedule, kind)


def test_seconds_add_up():
    steps = 100
    assert COSTS.seconds(StoreAll(steps), steps) == pytest.approx(100 * (1.2 + 2.5) + 0.2)
    binomial = Binomial(steps, 5)
    assert COSTS.seconds(binomial, steps) == pytest.approx(binomial.advances + 1.2 + 100 * 3.0 + 0.1 * binomial.starts)
    online = Online(5)
    assert COSTS.seconds(online, steps) == pytest.approx(online.advances_of(steps) + 100 * 3.0 + 0.1 * online.starts_of(steps))
    assert COSTS.seconds(Reversible(steps), steps) == pytest.approx(100 * (1 + 1.1 + 0.1) + 100 * 3.1)
    spilling = Spilling(steps, 5, Tier("disk", 10, 4.0, 2.0))
    assert COSTS.seconds(spilling, steps) == pytest.approx((spilling.cost - 1) + 1.2 + 100 * 3.0 + 0.1 * spilling.starts)


def test_disk_is_counted_and_kept_within_its_limit(tmp_path):
    for disk in (20_000, 100_000, 1_000_000):
        option = choose(Policy(memory=2500, schedule="multi_tier", disk=disk, folder=tmp_path), 300, SIZES, COSTS).chosen
        assert 0 < option.disk <= disk
        assert option.disk + 4096 + 100 > disk or option.schedule.slow_tiers[0].slots > 300
    with pytest.raises(PlanError, match=r"expected room for a state .* on disk or 100 B in the host's memory, got disk = None"):
        choose(Policy(schedule="spilling"), 300, SIZES, COSTS)


def test_compression_takes_memory(tmp_path):
    policy = Policy(schedule="spilling", disk=4_000_000, folder=tmp_path)
    more = smallest(replace(policy, compression=Lossless()), 300, SIZES) - smallest(policy, 300, SIZES)
    assert more == Sizes(1).buffers(choose(replace(policy, slots=2), 300, SIZES).schedule.slow_tiers[0], True) - 2


def test_states_in_the_host_memory_have_a_limit_of_their_own():
    schedule = choose(Policy(memory=1000, host=700, schedule="multi_tier"), 300, SIZES, COSTS).schedule
    assert [(tier.name, tier.slots) for tier in schedule.tiers] == [("device", 3), ("host", 7)]


@pytest.mark.parametrize("kind", [name for name, kind in KINDS.items() if kind.takes_slots])
def test_slots_go_with_kinds_that_keep_some_states(kind, tmp_path):
    schedule = choose(Policy(slots=4, schedule=kind, disk=4_000_000, folder=tmp_path), 50, SIZES).schedule
    assert isinstance(schedule, KINDS[kind]) and schedule.slots <= 4
    with pytest.raises(ParameterError, match="no slots with schedule"):
        Policy(slots=4, schedule="store_all")
    assert {name for name, kind in KINDS.items() if not kind.takes_slots} == {"store_all", "partly_recorded"}


def test_a_step_that_cannot_be_undone_is_refused_before_the_run():
    with pytest.raises(PlanError, match="can be undone"):
        choose(Policy(schedule="reversible"), 50, SIZES, replace(COSTS, undo=None))


def test_a_run_that_may_end_early_is_online():
    assert choose(Policy(memory=1000), 500, SIZES, COSTS, online=True).schedule == Online(4)
    with pytest.raises(ScheduleError, match="use 'auto' or 'online'"):
        choose(Policy(schedule="mixed"), 500, SIZES, online=True)


def test_a_plan_tells_and_stands_for_its_schedule():
    plan = choose(Policy(memory=2000, verify=False), 400, SIZES, COSTS)
    text = str(plan)
    for word in ("Gradient of 400 steps, at most 2 kB of memory", "every step (store all)", "\n> ", "\n+ ", "more memory than it may have"):
        assert word in text
    assert re.search(r"a state +100 B;", text) and re.search(r"always needed +550 B by every schedule, 20 B of it traces", text)
    assert Policy.of(plan).schedule == plan.schedule and not Policy.of(plan).verify
    assert resolve(plan, 400, SIZES) == plan.schedule
    with pytest.raises(ScheduleError, match="400"):
        resolve(plan, 401, SIZES)
    assert "not measured" in str(choose(Policy(slots=3), 400, SIZES))


WIDE = [
    Policy(memory="300 MB", disk="2 TB", host="40 GB", folder="."),
    Policy(memory="300 MB"),
    Policy(slots=10),
    Policy(schedule=Online(3)),
]


@pytest.mark.parametrize("policy", WIDE, ids=repr)
@pytest.mark.parametrize("costs", [None, replace(COSTS, host_write=0.5, host_read=0.5)], ids=["unmeasured", "measured"])
def test_the_text_of_a_plan_fits_a_terminal_and_explains_its_columns(policy, costs):
    plan = choose(policy, 100_000, Sizes(8_400_000, 4_200_000, 50_000_000, 20_000_000, 3_000_000), costs)
    lines = str(plan).splitlines()
    assert max(map(len, lines)) <= 80
    header = next(line for line in lines if "what is kept" in line)
    columns = [name for name in ("memory", "disk", "forward runs", "time") if name in header]
    assert ("time" in columns) == (costs is not None)
    assert ("disk" in columns) == any(option.disk for option in (plan.chosen, *plan.others))
    for name in columns:
        assert any(line.startswith(f"  {name}  ") for line in lines)
    for mark, marked in ((">", True), ("+", any(not option.fits for option in plan.others))):
        assert any(line.startswith(f"  {mark}  ") for line in lines) == any(line.startswith(f"{mark}  ") for line in lines) == marked


def test_a_step_whose_adjoint_reads_nothing_has_no_record():
    assert re.search(r"residuals of a step +nothing: its adjoint needs no values of the run", str(choose(Policy(), 40, Sizes(8, 0))))


def test_what_happened_stands_beside_the_prediction():
    plan = choose(Policy(memory=2000), 400, SIZES, COSTS)
    peak, seconds = plan.chosen.peak, plan.chosen.seconds
    assert plan.compare(Measured(seconds * 1.2, int(peak * 0.96))).held
    assert not plan.compare(Measured(seconds * 1.3, peak)).held
    assert not plan.compare(Measured(seconds, int(peak * 1.06))).held
    text = str(plan.compare(Measured(seconds * 1.2, peak, first=seconds * 3)))
    assert "+20 %" in text and "+0 %" in text and "compiling" in text
    ends = {len(line) for line in text.splitlines()}
    assert len(ends) == 1 and ends.pop() <= 80  # numbers stand below one another


@pytest.mark.parametrize(
    "sizes",
    [{"state": 0}, {"state": -8}, {"state": 8.0}, {"recorded": -1}, {"working": -1}, {"working": True}, {"streams": -1}, {"row": 0}],
)
def test_sizes_that_cannot_be_are_refused(sizes):
    (name,) = sizes
    with pytest.raises(ParameterError, match=f"expected {name} to be an integer"):
        Sizes(**{"state": 8} | sizes)


@pytest.mark.parametrize("changes", [{"advance": 0.0}, {"advance": -1.0}, {"reverse": float("nan")}, {"call": float("inf")}])
def test_costs_that_cannot_be_are_refused(changes):
    with pytest.raises(ParameterError, match="measure it again"):
        replace(COSTS, **changes)


def test_the_steps_must_be_positive():
    with pytest.raises(ScheduleError, match="steps"):
        choose(Policy(), 0, Sizes(8))


@pytest.mark.parametrize(
    ("checkpoint", "schedule"),
    [
        (7, Binomial(100, 7)),
        (np.int64(7), Binomial(100, 7)),
        ("100 kB", StoreAll(100)),
        ("20kB", Binomial(100, 19)),
        (StoreAll(100), StoreAll(100)),
        (Segments(100, 10), Segments(100, 10)),
    ],
)
def test_resolve(checkpoint, schedule):
    assert resolve(checkpoint, 100, Sizes(1000)) == schedule


def test_resolve_counts_what_is_in_use_and_recorded():
    assert resolve("20 kB", 100, Sizes(1000, working=5000)) == Binomial(100, 14)
    assert resolve("20 kB", 100, Sizes(1000, 3000, 5000)) == Binomial(100, 12)


@pytest.mark.parametrize(("available", "schedule"), [(200, StoreAll(100)), (199.999, Binomial(100, 98)), (40, Binomial(100, 19))])
def test_auto_takes_half_of_the_available_memory(monkeypatch, available, schedule):
    monkeypatch.setattr(planning_memory, "available_memory", lambda: int(available * 1e6))
    assert resolve("auto", 100, Sizes(1_000_000)) == schedule


@pytest.mark.parametrize(
    ("checkpoint", "state"),
    [
        (Binomial(100, 5), 10**9),
        (Policy(schedule=StoreAll(100)), 10**9),
        (7, 10**9),
        ("auto", 80_000),
        (Policy(schedule="binomial"), 80_000),
    ],
)
def test_small_gradients_and_policies_without_a_memory_do_not_ask_the_system_for_its_memory(monkeypatch, checkpoint, state):
    def never():
        raise AssertionError("each gradient would read a dozen files")

    monkeypatch.setattr(planning_memory, "available_memory", never)
    assert resolve(checkpoint, 100, Sizes(state)).steps == 100


@pytest.mark.parametrize("kind", ["spilling", "multi_tier"])
def test_buffers_of_slower_tiers_count_in_small_gradients_too(tmp_path, kind):
    """Compression alone takes 8 MiB."""
    policy = Policy(schedule=kind, disk="1 GB", folder=tmp_path, compression=Lossless())
    assert resolve(policy, 2, Sizes(4_000_000)).steps == 2


def test_auto_on_this_machine_stores_what_is_small():
    assert resolve("auto", 100, Sizes(8)) == StoreAll(100)


def test_a_schedule_of_other_steps_is_refused():
    with pytest.raises(ScheduleError, match=r"a schedule of 100 steps, got Binomial\(steps=99, slots=5\) of 99"):
        resolve(Binomial(99, 5), 100, Sizes(1000))


@pytest.mark.parametrize(
    ("checkpoint", "error"),
    [(0, ScheduleError), (True, ParameterError), (2.0, ParameterError), (None, ParameterError), ("lots", ParameterError)],
)
def test_what_cannot_be_resolved_is_refused(checkpoint, error):
    with pytest.raises(error, match=r"expected .*got"):
        resolve(checkpoint, 100, Sizes(1000))


class Unfinished:
    """It looks like a schedule, but does not inherit from one."""

    steps = slots = 3

    def actions(self):
        return iter(())


@pytest.mark.parametrize(
    ("given_", "words"),
    [
        (Online, ["the class Online itself", "Online(20)"]),
        (Binomial, ["the class Binomial itself", "Binomial(steps, 20)"]),
        (StoreAll, ["the class StoreAll itself", "StoreAll(steps)"]),
        (type(choose(Policy(), 3, Sizes(8))), ["the class Plan itself", "give an instance"]),
        (int, ["the class int itself", "Online(20)"]),
        (Unfinished(), ["an object of Unfinished, which is no Schedule", "inherit from diffsim.checkpoint.Schedule"]),
        (object(), ["object object", "Online(20)"]),
        (np.arange(2), ["array([0, 1])", "Online(20)"]),
    ],
    ids=lambda value: getattr(value, "__name__", type(value).__name__),
)
def test_what_is_no_schedule_is_refused_with_one_that_is(given_, words):
    for make in (lambda: resolve(given_, 100, SIZES), lambda: Policy(schedule=given_)):
        with pytest.raises(ParameterError, match=r"expected .*schedule") as caught:
            make()
        assert all(word in str(caught.value) for word in words)


@settings(deadline=None, max_examples=80)
@given(data=st.data(), steps=st.integers(1, 300))
def test_peak_states_come_true(data, steps):
    slots = data.draw(st.integers(1, steps), label="slots")
    for schedule in (StoreAll(steps), Binomial(steps, slots)):
        assert simulate(schedule).peak_states == peak_states(schedule)
    segments = Segments(steps, data.draw(st.integers(1, steps), label="length"))
    assert simulate(segments).peak_states <= peak_states(segments)


def test_a_number_of_slots_is_a_ceiling():
    assert resolve(101, 100, SIZES) == resolve(100, 100, SIZES)
    for kind in ("binomial", "mixed", "reversible"):
        assert resolve(Policy(slots=101, schedule=kind), 100, SIZES) == resolve(Policy(slots=100, schedule=kind), 100, SIZES)
